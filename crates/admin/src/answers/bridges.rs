//! Bridges to other brokers, as they are.

use schemars::JsonSchema;
use serde::Serialize;

/// All bridges.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BridgeList {
    /// Those of the configuration that are enabled.
    pub(crate) bridges: Vec<BridgeStatus>,
}

/// Status of a bridge.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct BridgeStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Whether the remote broker has accepted it.
    #[serde(rename = "online")]
    pub is_online: bool,
    /// Connections to the remote broker since the start.
    pub connects: u64,
    /// Messages handed to the remote broker and, at QoS 1 and 2, acknowledged by it.
    pub out: u64,
    /// Messages of the remote broker handed to ours.
    pub received: u64,
    /// Messages that the other side did not take, or that could not be mapped.
    pub refused: u64,
    /// Why the remote broker was not reached, or was lost, the last time; null while it is there.
    pub last_fault: Option<String>,
}

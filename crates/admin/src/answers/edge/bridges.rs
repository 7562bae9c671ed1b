//! Bridges to other brokers: their status.

use schemars::JsonSchema;
use serde::Serialize;

/// All bridges.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BridgeList {
    /// The enabled bridges of the configuration.
    pub(crate) bridges: Vec<Bridge>,
}

/// A bridge.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Bridge {
    #[serde(flatten)]
    of: BridgeStatus,
    /// `online` as a word.
    #[schemars(extend("enum" = ["connected", "disconnected"]))]
    state: &'static str,
}

impl From<BridgeStatus> for Bridge {
    fn from(of: BridgeStatus) -> Bridge {
        let state = if of.is_online { "connected" } else { "disconnected" };
        Bridge { of, state }
    }
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
    /// Messages sent to the remote broker and, at QoS 1 and 2, acknowledged by it.
    pub out: u64,
    /// Messages from the remote broker passed to this server.
    pub received: u64,
    /// Messages that the other side did not accept, or that could not be mapped.
    pub refused: u64,
    /// Why the remote broker was last unreachable or lost; null while it is connected.
    pub last_fault: Option<String>,
}

//! Settings of a node of a cluster.

use model::id::NodeId;
use nats::NatsSettings;
use std::fmt;

/// Settings of a node of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The name of the cluster, which names its table and its streams: letters, digits, `-`, `_`.
    pub name: String,
    /// How to reach NATS.
    pub nats: NatsSettings,
    /// The node's number, 1 to 1023.
    pub node: NodeId,
    /// The node's name, for people.
    pub node_name: String,
    /// Where clients reach the node: `host`, or `protocol=host:port` for each protocol. At most 16
    /// of 255 bytes.
    pub advertise: Vec<String>,
    /// Copies beside the leader's that there should be. Fewer raise an alert.
    pub followers: u16,
    /// Disks that must have what is removed from a stream: 2, or 1 where a nearly full stream may
    /// be emptied although the leader's disk alone has its content.
    pub copies_min: u16,
}

/// Why a node cannot begin.
#[derive(Debug)]
pub enum BeginError {
    /// A setting makes no sense.
    Settings(String),
    /// NATS refuses: credentials, certificates, addresses that are none.
    Nats(String),
    /// A thread could not be started.
    Thread(std::io::Error),
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BeginError::Settings(why) => write!(f, "[cluster]: {why}"),
            BeginError::Nats(why) => write!(f, "NATS: {why}"),
            BeginError::Thread(error) => write!(f, "a thread could not be started: {error}"),
        }
    }
}

impl std::error::Error for BeginError {}

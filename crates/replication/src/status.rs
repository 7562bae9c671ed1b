//! How a node of a cluster stands.

use crate::settings::ClusterSettings;
use cluster::batch::LogLeader;
use cluster::wire::beat::LogRole;
use model::id::NodeId;
use std::time::Duration;

/// How a node of a cluster stands.
#[derive(Clone, PartialEq, Debug)]
pub struct ClusterStatus {
    /// The cluster's name.
    pub name: String,
    /// The node.
    pub node: NodeId,
    /// The number of its start.
    pub boot: u64,
    /// Whether NATS is connected.
    pub is_connected: bool,
    /// The node that leads.
    pub leader: Option<NodeId>,
    /// Whether this node leads all logs and is served by a majority.
    pub leads: bool,
    /// Whether it leads without proof of a majority.
    pub is_isolated: bool,
    /// Whether a stream takes nothing more.
    pub is_full: bool,
    /// Acknowledged records that logs of this node went on without, since the folder was made.
    pub lost: u64,
    /// Those of them that no operator has seen.
    pub lost_unseen: u64,
    /// The largest difference between this node's clock and that of a node that beats, seconds.
    pub clock_skew_s: u32,
    /// Whether this node's clock differs from another one's, as was reported.
    pub clocks_differ: bool,
    /// Copies beside the leader's that are wanted.
    pub followers_wanted: u16,
    /// Its logs.
    pub logs: Vec<LogStatus>,
    /// All nodes of the table.
    pub nodes: Vec<NodeStatus>,
}

impl ClusterStatus {
    /// State before anything is known.
    pub(crate) fn at_first(settings: &ClusterSettings, me: LogLeader) -> ClusterStatus {
        ClusterStatus {
            name: settings.name.clone(),
            node: me.node,
            boot: me.boot,
            is_connected: false,
            leader: None,
            leads: false,
            is_isolated: false,
            is_full: false,
            lost: 0,
            lost_unseen: 0,
            clock_skew_s: 0,
            clocks_differ: false,
            followers_wanted: settings.followers,
            logs: Vec::new(),
            nodes: Vec::new(),
        }
    }
}

/// A log of a node.
#[derive(Clone, PartialEq, Debug)]
pub struct LogStatus {
    /// Number of the log.
    pub log: u16,
    /// The node's role for it.
    pub role: LogRole,
    /// The epoch up to which the node has it.
    pub epoch: u32,
    /// The generation of its stream.
    pub generation: u32,
    /// The index of the last record that the node has.
    pub index: u64,
    /// The index up to which it is acknowledged.
    pub acknowledged: u64,
    /// The index up to which it is on this node's disk.
    pub synced: u64,
    /// How far it is behind the leader, records.
    pub lag: u64,
    /// Whether this node's disk has no room for it.
    pub is_disk_full: bool,
    /// Bytes in the stream, as NATS tells.
    pub stream_bytes: u64,
    /// Acknowledgements of the stream so far.
    pub acknowledgements: u64,
    /// How long the stream took to acknowledge, on an average of the last ones.
    pub acknowledged_after: Duration,
    /// How many followers beat and are within 10,000 records.
    pub copies: u16,
}

/// A node as others see it.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeStatus {
    /// Its number.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// The number of its start.
    pub boot: u64,
    /// Where clients reach it.
    pub addresses: Vec<String>,
    /// How old its last beat is; none since this node began.
    pub beat_age: Option<Duration>,
    /// Addresses of it to which this node cannot connect.
    pub unreachable: Vec<String>,
}

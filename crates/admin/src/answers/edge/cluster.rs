//! The cluster as one of its nodes knows it. Numbers that name something are small here.

use schemars::JsonSchema;
use serde::Serialize;

/// The cluster.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ClusterAnswer {
    /// The cluster; null: this server is alone.
    pub(crate) cluster: Option<ClusterView>,
}

/// A cluster, as one of its nodes knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Cluster")]
pub struct ClusterView {
    /// Its name.
    pub name: String,
    /// Number of this node.
    pub node: u16,
    /// Whether this node leads: it serves clients, and the others follow.
    pub leads: bool,
    /// Number of the node that leads; null: none is known.
    pub leader: Option<u16>,
    /// Where the leader's API is; null: not known.
    pub leader_api: Option<String>,
    /// Whether this node reaches NATS.
    pub connected: bool,
    /// Whether this node leads, but has reached no majority of the NATS servers for 15 s: nothing
    /// is acknowledged.
    pub isolated: bool,
    /// Whether a stream is full, or NATS has no room for it: new data is refused.
    pub full: bool,
    /// Acknowledged records that logs went on without, which this node had.
    pub lost: u64,
    /// Those of them that no operator has acknowledged.
    pub lost_unseen: u64,
    /// The largest difference between this node's clock and that of another node, seconds.
    pub clock_skew_s: u32,
    /// Whether such a difference reached 30 s, and has not been below 10 s since.
    pub clocks_differ: bool,
    /// Followers that there should be.
    pub followers_wanted: u16,
    /// Followers that are there, and close behind the leader.
    pub followers: u16,
    /// The nodes, by number.
    pub nodes: Vec<ClusterNode>,
    /// The logs, by number.
    pub logs: Vec<ClusterLog>,
}

/// Silence after which a node is away, milliseconds: three beats are missing.
const AWAY_MS: u64 = 3_000;

impl ClusterView {
    /// The other nodes that are away, for people.
    pub(crate) fn away(&self) -> String {
        let others = self.nodes.iter().filter(|node| node.node != self.node);
        let away = others.filter_map(|node| {
            let silent = match node.heard_ms {
                Some(heard_ms) if heard_ms < AWAY_MS => return None,
                Some(heard_ms) => format!("silent for {} s", heard_ms / 1_000),
                None => "not heard since this node began".to_owned(),
            };
            Some(format!("{} ({}), {silent}", node.name, node.node))
        });
        away.collect::<Vec<_>>().join("; ")
    }
}

/// A node of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct ClusterNode {
    /// Its number.
    pub node: u16,
    /// Its name.
    pub name: String,
    /// Where clients reach it: `NAME=host:port` for its API and each of its listeners.
    pub addresses: Vec<String>,
    /// Those of them to which this node cannot connect.
    pub unreachable: Vec<String>,
    /// Milliseconds since it was last heard of; null: not since this node began.
    pub heard_ms: Option<u64>,
}

/// A log of a cluster, as this node has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct ClusterLog {
    /// Its number.
    pub log: u16,
    /// This node's role for the log: `absent` (it has no copy yet), `following`, `claiming` or
    /// `leading`.
    pub role: String,
    /// The epoch: it rises with each new leader.
    pub epoch: u32,
    /// The generation of its stream: it rises when a stream forgot.
    pub generation: u32,
    /// The last record that this node has.
    pub index: u64,
    /// The last record that is acknowledged.
    pub acknowledged: u64,
    /// The last record that is on this node's disk.
    pub synced: u64,
    /// Records that this node lacks.
    pub lag: u64,
    /// Whether this node follows, and its disk has no room for the log.
    pub disk_full: bool,
    /// Bytes of its stream.
    pub stream_bytes: u64,
    /// Microseconds that the stream takes to acknowledge.
    pub acknowledged_after_us: u64,
    /// Followers that are close behind the leader.
    pub copies: u16,
}

//! Orders and notices for the server.

use model::id::NodeId;
use store::data::OpenFolder;

/// Order or notice for the server.
pub enum Turn {
    /// This node leads all logs: serve them. The folder is one like any other, and hands its
    /// batches to the stream.
    Lead(Box<OpenFolder>),
    /// This node leads no more: take nothing more, send clients away, close the logs.
    Leave {
        /// Reason for leaving.
        why: LeaveReason,
        /// The present or next leader, if it is known.
        to: Option<LeaderAddress>,
    },
    /// Another node leads, or none does any more: for redirects while following.
    Follow(Option<LeaderAddress>),
    /// Event that an operator should learn of.
    Notice(ClusterNotice),
}

/// A node that leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderAddress {
    /// Its number.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Where clients reach it: what its `advertise` says.
    pub addresses: Vec<String>,
}

/// Why a node leads no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaveReason {
    /// Another node leads.
    Deposed,
    /// An operator moved the lead, or this node is asked to leave.
    Asked,
    /// A log of this node failed.
    LogFailed,
}

/// Event that an operator should learn of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterNotice {
    /// NATS is connected, or is not any more.
    Connected(bool),
    /// A log went on without records that had been acknowledged, of which this node had a copy.
    AcknowledgedLost {
        /// The log.
        log: u16,
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// A stream is nearly full and was emptied although the leader's disk alone has its content.
    PurgedBehindOneDisk {
        /// The log.
        log: u16,
    },
    /// The stream of a log forgot what it had acknowledged: its next generation begins.
    NewGeneration {
        /// The log.
        log: u16,
        /// Number of the generation.
        generation: u32,
    },
    /// The table lacks the log: nodes wait for `holdline cluster recover`.
    WaitsForRecover {
        /// The log.
        log: u16,
    },
    /// The node is not in the table: `holdline cluster join`.
    NotAMember,
    /// The table is of a cluster with another secret, or with another number of logs.
    OtherCluster {
        /// The difference.
        why: String,
    },
    /// Another process has this node's number, or has it no more.
    SameNumber(bool),
    /// Complaint of NATS or a part of it.
    Nats(String),
    /// NATS has no room for a log, or has room again.
    StreamFull {
        /// The log.
        log: u16,
        /// Whether it is full.
        is_full: bool,
    },
    /// A value of the table cannot be read, or could not and was written anew.
    TableDamaged {
        /// Its key.
        key: String,
        /// Whether this node has written it anew, and it can be read.
        is_repaired: bool,
    },
    /// The clock of another node differs from this one's, or does no more.
    ClockDiffers {
        /// The other node.
        node: NodeId,
        /// The difference; none: it is small again.
        seconds: Option<u32>,
    },
    /// This node cannot connect to an address that another one advertises, or can again.
    Unreachable {
        /// The other node.
        node: NodeId,
        /// Addresses that did not answer; none: all do.
        addresses: Vec<String>,
    },
    /// A follower's disk is full: it follows again when there is room.
    DiskFull {
        /// The log.
        log: u16,
    },
    /// A copy of a log is damaged or late, and is made anew from another node.
    CopiesAnew {
        /// The log.
        log: u16,
        /// Reason for copying.
        why: String,
    },
    /// The copy is there.
    Copied {
        /// The log.
        log: u16,
        /// Its bytes.
        bytes: u64,
    },
    /// The node leads and has no proof for 15 seconds that it reaches a majority of NATS; or has
    /// again.
    Isolated(bool),
}

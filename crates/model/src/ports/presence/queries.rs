//! Operators' questions about presence: the state in memory, the directory's state, differences
//! between them, and figures over time.
//!
//! [`PresenceCommand`] is the part of [`crate::ports::control`] that shards answer from memory.
//! [`PresenceQueries`] is the process's: it knows the directory and compares.

use crate::ports::presence::directory::{DirectoryEntry, DirectoryError, Lease};
use crate::presence::{NodeName, OnlineState, PresenceRecord, PresenceVersion, Principal};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Transitions remembered of a principal.
pub const HISTORY: usize = 8;

/// A question to memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PresenceCommand {
    /// Asks for the presence of these principals. Answer: `Found`, with those known, in no
    /// particular order.
    Find(Vec<Principal>),
    /// Asks for the entries that the directory should have in these buckets. Answer: `Entries`.
    Buckets(Vec<u16>),
    /// The last [`HISTORY`] transitions of these, oldest first. Answer: `Histories`.
    Histories(Vec<Principal>),
    /// Counts by product and protocol. Answer: `PresenceCounts`.
    Counts,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PresenceAnswer {
    /// Answer to `Find`.
    Found(Vec<PresenceStatus>),
    /// Answer to `Buckets`: only those online, or not yet written.
    Entries(Vec<MemoryEntry>),
    /// Answer to `Histories`, with principals of which a history is remembered.
    Histories(Vec<(Principal, Vec<Remembered>)>),
    /// Answer to `PresenceCounts`.
    Counts(PresenceCounts),
}

/// Presence of a principal, as memory knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PresenceStatus {
    /// Principal whose presence it is.
    pub who: Principal,
    /// Its user.
    pub user: Option<Box<str>>,
    /// Online, or how its last connection ended.
    pub state: OnlineState,
    /// Unix millisecond since when.
    pub since_ms: u64,
    /// Unix millisecond at which it was certainly there for the last time: its last transition, or
    /// for one that is online the latest moment that its agreed heartbeat vouches for.
    pub seen_ms: u64,
    /// Version of its last transition.
    pub version: PresenceVersion,
}

/// An entry of memory for the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryEntry {
    /// Key and record as the directory should have it.
    pub entry: DirectoryEntry,
    /// Whether the directory has said that it has it.
    pub settled: bool,
}

/// A transition that is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// Its version, which has its time.
    pub version: PresenceVersion,
    /// State after the transition.
    pub state: OnlineState,
}

/// A transition as the history on the disk has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastTransition {
    /// Its version, which has its time.
    pub version: PresenceVersion,
    /// Whether it made the principal online.
    pub online: bool,
    /// The protocol of the connection that came, or ended.
    pub protocol: Box<str>,
    /// Reason why the connection ended, of one that went.
    pub reason: Option<Box<str>>,
    /// Address that the connection came from; of one that went only if its arrival is known.
    pub peer: Option<SocketAddr>,
    /// Its user, where it has one.
    pub user: Option<Box<str>>,
    /// The node that noted it, and which start of that node.
    pub lease: Lease,
}

/// Counts by product (empty: clients without one) and protocol.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PresenceCounts {
    /// Counts of each pair.
    pub of: BTreeMap<(Box<str>, &'static str), Count>,
}

/// Counts of one product and protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Online now.
    pub online: u64,
    /// That came, since the process began.
    pub arrivals: u64,
    /// That went, since the process began.
    pub departures: u64,
}

impl PresenceCounts {
    /// Adds another shard's counts.
    pub fn add(&mut self, other: &PresenceCounts) {
        for (of, theirs) in &other.of {
            let mine = self.of.entry(of.clone()).or_default();
            mine.online += theirs.online;
            mine.arrivals += theirs.arrivals;
            mine.departures += theirs.departures;
        }
    }
}

/// The directory, and how far it agrees with memory. Calls may block: they are for threads that
/// may wait.
pub trait PresenceQueries: Send + Sync {
    /// State of the replication. Does not block.
    fn standing(&self) -> ReplicationStatus;

    /// The directory's records of these principals, in order, and the leases in force. An error of
    /// the directory fails the whole call.
    fn stored(
        &self,
        who: &[Principal],
    ) -> Result<(Vec<Option<PresenceRecord>>, Vec<Lease>), DirectoryError>;

    /// Where other nodes say that they can be reached, in order; `None` for one that does not.
    fn addresses(&self, nodes: &[NodeName]) -> Result<Vec<Option<Box<str>>>, DirectoryError>;

    /// The last transitions of a principal in the history on the disk, at most `count`, oldest
    /// first; `None` if this server keeps no history, or cannot read it.
    fn history(&self, who: &Principal, count: usize) -> Option<Vec<PastTransition>>;

    /// Compares memory and directory.
    fn audit(&self, order: AuditOrder) -> Result<Audit, DirectoryError>;

    /// Figures over time, oldest first. Does not block.
    fn statistics(&self, step: StatisticsStep) -> Vec<Moment>;
}

/// Status of the replication to the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicationStatus {
    /// `none`, `process`, `redis`, `redis-sentinel`, `redis-cluster`.
    pub kind: &'static str,
    /// This node, as the directory knows it.
    pub node: Lease,
    /// Whether calls are made, held back, or tried.
    pub circuit: Circuit,
    /// Principals whose last transition the directory has not taken.
    pub unwritten: u64,
    /// Age of the oldest of them, milliseconds.
    pub lag_ms: u64,
    /// Buckets that are still to be compared after a loss; zero: none.
    pub resync_left: u64,
    /// The last fault as text, and its time, Unix milliseconds.
    pub fault: Option<(String, u64)>,
    /// Counters by name, with their explanations: for metrics and status alike.
    pub counters: Vec<(&'static str, &'static str, u64)>,
}

/// State of the circuit breaker: whether calls are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Circuit {
    /// The directory works: calls are made.
    Closed,
    /// The directory fails: calls wait.
    Open,
    /// One call is let through to test the directory.
    HalfOpen,
}

impl Circuit {
    /// The word in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Circuit::Closed => "closed",
            Circuit::Open => "open",
            Circuit::HalfOpen => "half_open",
        }
    }
}

/// Parameters of an audit: how to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuditOrder {
    /// How long a difference must last to be one, milliseconds.
    pub settle_ms: u32,
    /// Whether differences are written over, from memory.
    pub repair: bool,
    /// Differences that are reported one by one.
    pub told_max: u32,
}

/// Result of an audit of presence.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Principals online in memory.
    pub online: u64,
    /// Buckets whose digests differed at first.
    pub buckets_differing: u64,
    /// Principals that differed at first, in buckets that were looked into.
    pub differing: u64,
    /// Number of differences that remained after the settle time, by kind.
    pub persistent: BTreeMap<&'static str, u64>,
    /// The first of them.
    pub differences: Vec<Difference>,
    /// Number of records that were overwritten.
    pub repaired: u64,
    /// Milliseconds it took, the settle time not included.
    pub took_ms: u64,
}

/// Difference between memory and directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The principal's key.
    pub key: Box<str>,
    /// Kind of the difference.
    pub kind: DifferenceKind,
    /// Memory's record.
    pub memory: Option<PresenceRecord>,
    /// The directory's.
    pub stored: Option<PresenceRecord>,
    /// The principal's last transitions, oldest first.
    pub history: Vec<Remembered>,
}

/// Kind of a difference between memory and directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DifferenceKind {
    /// Online in memory, not known to the directory.
    Missing,
    /// The directory has an older state.
    Stale,
    /// Online in the directory by this boot of this node, not in memory.
    Extra,
    /// Online here, and in the directory by another node or boot.
    WrongNode,
}

impl DifferenceKind {
    /// All.
    pub const ALL: [DifferenceKind; 4] = [
        DifferenceKind::Missing,
        DifferenceKind::Stale,
        DifferenceKind::Extra,
        DifferenceKind::WrongNode,
    ];

    /// The word in answers.
    pub const fn name(self) -> &'static str {
        match self {
            DifferenceKind::Missing => "missing",
            DifferenceKind::Stale => "stale",
            DifferenceKind::Extra => "extra",
            DifferenceKind::WrongNode => "wrong_node",
        }
    }
}

/// The distance between moments of statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatisticsStep {
    /// A second, for the last fifteen minutes.
    Second,
    /// A minute, for the last day.
    Minute,
}

/// Figures of a second or a minute.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Unix second at which it ended.
    pub at_s: u64,
    /// Principals by product and protocol: online at its end, arrivals and departures in it.
    pub of: BTreeMap<(Box<str>, &'static str), Count>,
    /// Heartbeats that came, all of them answered.
    pub heartbeats: u64,
    /// Number of heartbeats that came later than agreed.
    pub heartbeats_late: u64,
    /// Connections ended because none came.
    pub heartbeats_lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_kind_add_up_and_others_stand_beside() {
        let of = |kind: &'static str, online, arrivals, departures| {
            let count = Count { online, arrivals, departures };
            PresenceCounts { of: BTreeMap::from([(("shop".into(), kind), count)]) }
        };
        let mut sum = of("miop7", 1, 20, 300);
        sum.add(&of("miop7", 4, 50, 600));
        sum.add(&of("mqtt5", 7, 8, 9));
        let mut expected = of("miop7", 5, 70, 900);
        expected.of.extend(of("mqtt5", 7, 8, 9).of);
        assert_eq!(sum, expected);
    }

    #[test]
    fn circuits_and_differences_are_told_in_words() {
        let circuits = [Circuit::Closed, Circuit::Open, Circuit::HalfOpen].map(Circuit::name);
        assert_eq!(circuits, ["closed", "open", "half_open"]);
        let kinds = DifferenceKind::ALL.map(DifferenceKind::name);
        assert_eq!(kinds, ["missing", "stale", "extra", "wrong_node"]);
    }
}

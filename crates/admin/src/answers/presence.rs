//! Presence: in memory, in the directory, how the two agree, and figures over time.
//!
//! Versions are sixteen hexadecimal digits, so that they sort as text; boots are hexadecimal as in
//! a directory's records. Invariant: a record of the directory counts as online only with a lease
//! of its node's same boot.

use crate::texts::{Bucket, CloseWord, Version};
use model::close::CloseReason;
use model::ports::presence::directory;
use model::ports::presence::queries::{
    self as queries, Circuit, Count, DifferenceKind, PastTransition, Remembered, ReplicationStatus,
};
use model::presence::{self, OnlineState, PresenceVersion, bucket};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The device or client.
#[derive(Serialize, JsonSchema)]
struct Principal {
    /// Its name in directories: `product#device`, or `#client`.
    key: String,
    /// Product, if it is a device.
    product: Option<String>,
    /// Device, if it is one.
    device: Option<String>,
    /// Client identifier, if it is an MQTT client.
    client_id: Option<String>,
}

impl From<&presence::Principal> for Principal {
    fn from(who: &presence::Principal) -> Principal {
        let key = who.key().into();
        let (product, device, client_id) = match who {
            presence::Principal::Device(product, device) => {
                (Some(product.as_str().into()), Some(device.as_str().into()), None)
            }
            presence::Principal::Client(id) => (None, None, Some(id.to_string())),
        };
        Principal { key, product, device, client_id }
    }
}

/// Whether it is online, and over which protocol.
#[derive(Serialize, JsonSchema)]
struct State {
    /// Whether it has a connection, or had one then.
    online: bool,
    /// Protocol, if online.
    protocol: Option<&'static str>,
    /// How its last connection ended, if offline.
    #[schemars(with = "Option<CloseWord>")]
    reason: Option<&'static str>,
}

impl From<OnlineState> for State {
    fn from(state: OnlineState) -> State {
        let (protocol, reason) = match state {
            OnlineState::Online(protocol) => (Some(protocol), None),
            OnlineState::Offline(reason) => (None, Some(CloseReason::name(reason))),
        };
        State { online: state.is_online(), protocol, reason }
    }
}

/// Presence of a device or client, from this server's memory.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Presence {
    #[serde(flatten)]
    who: Principal,
    /// Its user, if it has one.
    user: Option<String>,
    #[serde(flatten)]
    state: State,
    /// Name of this server.
    node: String,
    /// Unix millisecond since which it is in this state.
    since_ms: u64,
    /// Unix millisecond at which it was last known to be connected.
    seen_ms: u64,
    /// Version of its last transition: 64 bits as sixteen hexadecimal digits, so that texts sort as
    /// versions do.
    #[schemars(with = "Version")]
    version: String,
}

impl Presence {
    pub(crate) fn new(node: &directory::Lease, found: &queries::PresenceStatus) -> Presence {
        Presence {
            who: (&found.who).into(),
            user: found.user.as_deref().map(str::to_owned),
            state: found.state.into(),
            node: node.node.as_str().into(),
            since_ms: found.since_ms,
            seen_ms: found.seen_ms,
            version: found.version.to_string(),
        }
    }
}

/// Presence of many, from this server's memory.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PresenceList {
    /// The known ones, in the order of the query.
    pub(crate) found: Vec<Presence>,
    /// Keys of the unknown ones.
    pub(crate) unknown: Vec<String>,
}

/// The latest transitions of a device or client.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PresenceHistory {
    #[serde(flatten)]
    who: Principal,
    /// Oldest first; empty: none in the history.
    transitions: Vec<PresenceEntry>,
}

impl PresenceHistory {
    pub(crate) fn new(who: &presence::Principal, found: &[PastTransition]) -> PresenceHistory {
        PresenceHistory { who: who.into(), transitions: found.iter().map(Into::into).collect() }
    }
}

/// A transition in the history.
#[derive(Serialize, JsonSchema)]
struct PresenceEntry {
    /// Unix millisecond in its version.
    at_ms: u64,
    /// True: connected; false: disconnected.
    online: bool,
    /// Protocol of the connection.
    protocol: String,
    /// How the connection ended, if it did.
    reason: Option<String>,
    /// Address and port of the connection. Null for a disconnect whose connect is not in the
    /// history.
    peer: Option<String>,
    /// Its user, if it has one.
    user: Option<String>,
    /// The server that recorded it.
    node: String,
    /// Identifier of the node's start: hexadecimal, random. If it changes between two entries, the
    /// server was restarted, and all connections had ended.
    boot: String,
    /// Version of this transition: 64 bits as sixteen hexadecimal digits, so that texts sort as
    /// versions do.
    #[schemars(with = "Version")]
    version: String,
}

impl From<&PastTransition> for PresenceEntry {
    fn from(found: &PastTransition) -> PresenceEntry {
        PresenceEntry {
            at_ms: found.version.unix_ms(),
            online: found.online,
            protocol: found.protocol.to_string(),
            reason: found.reason.as_deref().map(str::to_owned),
            peer: found.peer.map(|peer| peer.to_string()),
            user: found.user.as_deref().map(str::to_owned),
            node: found.lease.node.as_str().into(),
            boot: boot(found.lease.boot),
            version: found.version.to_string(),
        }
    }
}

/// A record of the directory, as fields and as text.
#[derive(Serialize, JsonSchema)]
struct PresenceRecord {
    /// The state in the record. It is valid only with its node's lease.
    online: bool,
    /// Protocol, if online.
    protocol: Option<String>,
    /// How its last connection ended, if offline.
    reason: Option<String>,
    /// Its user, if it has one.
    user: Option<String>,
    /// The server that wrote it.
    node: String,
    /// Identifier of the node's start: hexadecimal, random.
    boot: String,
    /// Unix millisecond in its version: the time of the transition.
    at_ms: Option<u64>,
    /// Version of its last transition: 64 bits as sixteen hexadecimal digits, so that texts sort as
    /// versions do.
    #[schemars(with = "Version")]
    version: String,
    /// The record as the directory has it.
    text: String,
}

impl From<&presence::PresenceRecord> for PresenceRecord {
    fn from(record: &presence::PresenceRecord) -> PresenceRecord {
        let of = |online: bool| (record.online == online).then(|| record.detail.to_string());
        let is_known = record.version != PresenceVersion::default();
        PresenceRecord {
            online: record.online,
            protocol: of(true),
            reason: of(false),
            user: record.user.as_deref().map(str::to_owned),
            node: record.node.as_str().into(),
            boot: boot(record.boot),
            at_ms: is_known.then(|| record.version.unix_ms()),
            version: record.version.to_string(),
            text: record.encode(),
        }
    }
}

fn boot(boot: u64) -> String {
    format!("{boot:x}")
}

/// The directory's record of a device or client, and its meaning with the current leases.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StoredPresence {
    #[serde(flatten)]
    who: Principal,
    /// Whether the record says so, and its node has a valid lease with the record's boot.
    online: bool,
    /// Whether that lease is valid.
    lease: bool,
    /// Where its record is: `HGET holdline:b:BUCKET KEY` in a Redis.
    #[schemars(with = "Bucket")]
    bucket: u16,
    record: PresenceRecord,
}

impl StoredPresence {
    pub(crate) fn new(
        who: &presence::Principal,
        found: &presence::PresenceRecord,
        leases: &[directory::Lease],
    ) -> StoredPresence {
        let is_leased =
            |lease: &directory::Lease| lease.node == found.node && lease.boot == found.boot;
        let lease = leases.iter().any(is_leased);
        StoredPresence {
            who: who.into(),
            online: found.online && lease,
            lease,
            bucket: bucket(&who.key()),
            record: found.into(),
        }
    }
}

/// A live node in the directory.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Lease {
    /// Name of the server.
    node: String,
    /// Identifier of the node's start: hexadecimal, random.
    boot: String,
}

impl From<&directory::Lease> for Lease {
    fn from(lease: &directory::Lease) -> Lease {
        Lease { node: lease.node.as_str().into(), boot: boot(lease.boot) }
    }
}

/// The directory's records of many.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StoredPresenceList {
    /// Records of principals that have one, in the order of the query.
    pub(crate) found: Vec<StoredPresence>,
    /// Keys of the others, which are offline.
    pub(crate) unknown: Vec<String>,
    /// The valid leases.
    pub(crate) leases: Vec<Lease>,
}

/// State of the copy in the directory.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PresenceStatus {
    /// The configured kind.
    #[schemars(extend("enum" = KINDS))]
    directory: &'static str,
    /// This server's name.
    node: String,
    /// Identifier of the node's start: hexadecimal, random.
    boot: String,
    /// `closed`: calls are made; `open`: they wait after a fault; `half_open`: one call is tried.
    #[schemars(extend("enum" = CIRCUITS.map(Circuit::name)))]
    circuit: &'static str,
    /// Principals whose last transition is not in the directory yet.
    unwritten: u64,
    /// Age of the oldest of these transitions.
    lag_ms: u64,
    /// Buckets still to be compared after a loss.
    resync_left: u64,
    /// The last fault, if there was one.
    fault: Option<DirectoryFault>,
    /// Counters since the start, named as in /metrics without `holdline_`.
    counters: BTreeMap<&'static str, u64>,
}

const KINDS: [&str; 5] = ["none", "process", "redis", "redis-sentinel", "redis-cluster"];
const CIRCUITS: [Circuit; 3] = [Circuit::Closed, Circuit::Open, Circuit::HalfOpen];

#[derive(Serialize, JsonSchema)]
struct DirectoryFault {
    /// Description.
    message: String,
    /// Unix millisecond.
    at_ms: u64,
}

impl From<ReplicationStatus> for PresenceStatus {
    fn from(standing: ReplicationStatus) -> PresenceStatus {
        let counters = standing.counters.into_iter();
        PresenceStatus {
            directory: standing.kind,
            node: standing.node.node.as_str().into(),
            boot: boot(standing.node.boot),
            circuit: standing.circuit.name(),
            unwritten: standing.unwritten,
            lag_ms: standing.lag_ms,
            resync_left: standing.resync_left,
            fault: standing.fault.map(|(message, at_ms)| DirectoryFault { message, at_ms }),
            counters: counters.map(|(name, _, count)| (name, count)).collect(),
        }
    }
}

/// Result of a comparison of memory and directory.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Audit {
    /// Principals online in memory.
    online: u64,
    /// Buckets of 16384 whose digests differed at first.
    buckets_differing: u64,
    /// Principals that differed at first.
    differing: u64,
    /// Principals among them that still differed after the settle time.
    persistent: Differing,
    /// The first of the persistent ones, up to `told_max`.
    differences: Vec<PresenceDifference>,
    /// Differences that are being repaired.
    repaired: u64,
    /// Duration, without the settle time.
    took_ms: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DifferenceCounts")]
struct Differing {
    /// Number of this kind.
    missing: u64,
    /// Number of this kind.
    stale: u64,
    /// Number of this kind.
    extra: u64,
    /// Number of this kind.
    wrong_node: u64,
}

impl From<&queries::Audit> for Audit {
    fn from(audit: &queries::Audit) -> Audit {
        let of = |kind: DifferenceKind| audit.persistent.get(kind.name()).copied().unwrap_or(0);
        Audit {
            online: audit.online,
            buckets_differing: audit.buckets_differing,
            differing: audit.differing,
            persistent: Differing {
                missing: of(DifferenceKind::Missing),
                stale: of(DifferenceKind::Stale),
                extra: of(DifferenceKind::Extra),
                wrong_node: of(DifferenceKind::WrongNode),
            },
            differences: audit.differences.iter().map(Into::into).collect(),
            repaired: audit.repaired,
            took_ms: audit.took_ms,
        }
    }
}

/// A difference between memory and directory.
#[derive(Serialize, JsonSchema)]
struct PresenceDifference {
    #[serde(flatten)]
    who: Principal,
    /// `missing`: online in memory, unknown to the directory; `stale`: the directory has an older
    /// state; `extra`: online in the directory by this start of this server, not in memory;
    /// `wrong_node`: online here, and in the directory by another server or start.
    #[schemars(extend("enum" = DifferenceKind::ALL.map(DifferenceKind::name)))]
    kind: &'static str,
    /// Where its record is: `HGET holdline:b:BUCKET KEY` in a Redis.
    #[schemars(with = "Bucket")]
    bucket: u16,
    /// Value that the directory should have; null: none.
    memory: Option<PresenceRecord>,
    /// Value that it has; null: none.
    stored: Option<PresenceRecord>,
    /// The last transitions in memory, up to eight, oldest first.
    history: Vec<PresenceTransition>,
}

impl From<&queries::Difference> for PresenceDifference {
    fn from(found: &queries::Difference) -> PresenceDifference {
        let who = presence::Principal::parse(&found.key).as_ref().map(Principal::from);
        // A key that no principal has is told as it is.
        let nobody =
            Principal { key: found.key.to_string(), product: None, device: None, client_id: None };
        PresenceDifference {
            who: who.unwrap_or(nobody),
            kind: found.kind.name(),
            bucket: bucket(&found.key),
            memory: found.memory.as_ref().map(Into::into),
            stored: found.stored.as_ref().map(Into::into),
            history: found.history.iter().map(Into::into).collect(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct PresenceTransition {
    /// Unix millisecond in its version.
    at_ms: u64,
    #[serde(flatten)]
    state: State,
    /// Version of the last transition: 64 bits as sixteen hexadecimal digits, so that texts sort as
    /// versions do.
    #[schemars(with = "Version")]
    version: String,
}

impl From<&Remembered> for PresenceTransition {
    fn from(transition: &Remembered) -> PresenceTransition {
        PresenceTransition {
            at_ms: transition.version.unix_ms(),
            state: transition.state.into(),
            version: transition.version.to_string(),
        }
    }
}

#[derive(Default, Serialize, JsonSchema)]
struct Figures {
    /// Online now, or at the moment's end.
    online: u64,
    /// That came: since the process began, or in the moment.
    arrivals: u64,
    /// That went, likewise.
    departures: u64,
}

/// Figures of a product and protocol.
#[derive(Serialize, JsonSchema)]
struct PresenceCount {
    /// Null: clients, which have none.
    product: Option<String>,
    /// `miop7`, `mqtt5`, …
    protocol: &'static str,
    #[serde(flatten)]
    figures: Figures,
}

/// How many are online, and their sums.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PresenceCounts {
    #[serde(flatten)]
    sum: Figures,
    /// By product and protocol.
    by: Vec<PresenceCount>,
}

impl From<&queries::PresenceCounts> for PresenceCounts {
    fn from(counts: &queries::PresenceCounts) -> PresenceCounts {
        let mut sum = Figures::default();
        let by = counts.of.iter().map(|((product, protocol), count)| {
            let &Count { online, arrivals, departures } = count;
            sum.online += online;
            sum.arrivals += arrivals;
            sum.departures += departures;
            PresenceCount {
                product: (!product.is_empty()).then(|| product.to_string()),
                protocol,
                figures: Figures { online, arrivals, departures },
            }
        });
        let by = by.collect();
        PresenceCounts { sum, by }
    }
}

/// Figures of a second or a minute.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PresenceMoment {
    /// Unix second at which it ended.
    at_s: u64,
    #[serde(flatten)]
    counts: PresenceCounts,
    /// Heartbeats that came, all of them answered.
    heartbeats: u64,
    /// Heartbeats among them that came later than agreed.
    heartbeats_late: u64,
    /// Connections ended because none came.
    heartbeats_lost: u64,
}

impl From<&queries::Moment> for PresenceMoment {
    fn from(moment: &queries::Moment) -> PresenceMoment {
        PresenceMoment {
            at_s: moment.at_s,
            counts: (&queries::PresenceCounts { of: moment.of.clone() }).into(),
            heartbeats: moment.heartbeats,
            heartbeats_late: moment.heartbeats_late,
            heartbeats_lost: moment.heartbeats_lost,
        }
    }
}

/// Figures over time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PresenceStatistics {
    /// Distance between moments.
    pub(crate) step: crate::orders::presence_questions::Step,
    /// Oldest first.
    pub(crate) moments: Vec<PresenceMoment>,
}

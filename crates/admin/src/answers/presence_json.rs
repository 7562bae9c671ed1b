//! Presence as JSON: memory's state, the directory's, how the two agree, and figures over time.
//!
//! Versions are sixteen hexadecimal digits, so that they sort as text; boots are hexadecimal as in
//! a directory's records. Invariant: a record of the directory counts as online only with a lease
//! of its node's same boot.

use model::close::CloseReason;
use model::ports::directory::Lease;
use model::ports::presence_queries::{
    Audit, Count, Difference, DifferenceKind, Moment, PresenceCounts, PresenceStatus, Remembered,
    ReplicationStatus,
};
use model::presence::{OnlineState, PresenceRecord, PresenceVersion, Principal, bucket};
use serde_json::{Map, Value, json};

/// What memory knows of a principal.
pub(crate) fn presence(node: &Lease, found: &PresenceStatus) -> Value {
    let mut told = who(&found.who);
    told["user"] = json!(found.user);
    told["online"] = json!(found.state.is_online());
    (told["protocol"], told["reason"]) = state(found.state);
    told["node"] = json!(node.node.as_str());
    told["since_ms"] = json!(found.since_ms);
    told["seen_ms"] = json!(found.seen_ms);
    told["version"] = json!(found.version.to_string());
    told
}

/// What the directory has of a principal, and what that means with these leases in force.
pub(crate) fn stored(of: &Principal, found: &PresenceRecord, leases: &[Lease]) -> Value {
    let leased = leases.iter().any(|lease| lease.node == found.node && lease.boot == found.boot);
    let mut told = who(of);
    told["online"] = json!(found.online && leased);
    told["lease"] = json!(leased);
    told["bucket"] = json!(bucket(&of.key()));
    told["record"] = record(found);
    told
}

/// A lease.
pub(crate) fn lease(lease: &Lease) -> Value {
    json!({ "node": lease.node.as_str(), "boot": boot(lease.boot) })
}

/// How the copy stands.
pub(crate) fn standing(standing: &ReplicationStatus) -> Value {
    let counters = standing.counters.iter();
    let counters = counters.map(|(name, _, count)| ((*name).to_owned(), json!(count)));
    let fault = standing.fault.as_ref();
    json!({
        "directory": standing.kind,
        "node": standing.node.node.as_str(),
        "boot": boot(standing.node.boot),
        "circuit": standing.circuit.name(),
        "unwritten": standing.unwritten,
        "lag_ms": standing.lag_ms,
        "resync_left": standing.resync_left,
        "fault": fault.map(|(message, at_ms)| json!({ "message": message, "at_ms": at_ms })),
        "counters": counters.collect::<Map<_, _>>(),
    })
}

/// What a comparison found.
pub(crate) fn audit(audit: &Audit) -> Value {
    let kinds = DifferenceKind::ALL.into_iter().map(DifferenceKind::name);
    let of = |kind: &str| audit.persistent.get(kind).copied().unwrap_or(0);
    let persistent = kinds.map(|kind| (kind.to_owned(), json!(of(kind))));
    json!({
        "online": audit.online,
        "buckets_differing": audit.buckets_differing,
        "differing": audit.differing,
        "persistent": persistent.collect::<Map<_, _>>(),
        "differences": audit.differences.iter().map(difference).collect::<Vec<_>>(),
        "repaired": audit.repaired,
        "took_ms": audit.took_ms,
    })
}

/// Counts, and their sums.
pub(crate) fn counts(counts: &PresenceCounts) -> Value {
    let mut sum = Count::default();
    for count in counts.of.values() {
        sum.online += count.online;
        sum.arrivals += count.arrivals;
        sum.departures += count.departures;
    }
    let each = counts.of.iter().map(|((product, protocol), count)| {
        let mut told = figures(count);
        told["product"] = json!((!product.is_empty()).then_some(product));
        told["protocol"] = json!(protocol);
        told
    });
    let each = each.collect::<Vec<_>>();
    let mut told = figures(&sum);
    told["by"] = json!(each);
    told
}

/// Figures of a second or a minute.
pub(crate) fn moment(moment: &Moment) -> Value {
    let mut told = counts(&PresenceCounts { of: moment.of.clone() });
    told["at_s"] = json!(moment.at_s);
    told["heartbeats"] = json!(moment.heartbeats);
    told["heartbeats_late"] = json!(moment.heartbeats_late);
    told["heartbeats_lost"] = json!(moment.heartbeats_lost);
    told
}

fn figures(count: &Count) -> Value {
    let Count { online, arrivals, departures } = count;
    json!({ "online": online, "arrivals": arrivals, "departures": departures })
}

fn difference(found: &Difference) -> Value {
    let mut told = match Principal::parse(&found.key) {
        Some(of) => who(&of),
        None => json!({ "key": found.key, "product": null, "device": null, "client_id": null }),
    };
    told["kind"] = json!(found.kind.name());
    told["bucket"] = json!(bucket(&found.key));
    told["memory"] = json!(found.memory.as_ref().map(record));
    told["stored"] = json!(found.stored.as_ref().map(record));
    told["history"] = found.history.iter().map(remembered).collect();
    told
}

fn remembered(transition: &Remembered) -> Value {
    let (protocol, reason) = state(transition.state);
    json!({
        "at_ms": transition.version.unix_ms(),
        "online": transition.state.is_online(),
        "protocol": protocol,
        "reason": reason,
        "version": transition.version.to_string(),
    })
}

/// A record by its fields, and as the text that is kept.
fn record(record: &PresenceRecord) -> Value {
    let of = |online: bool| (record.online == online).then_some(&*record.detail);
    let PresenceVersion(version) = record.version;
    json!({
        "online": record.online,
        "protocol": of(true),
        "reason": of(false),
        "user": record.user,
        "node": record.node.as_str(),
        "boot": boot(record.boot),
        "at_ms": (version != 0).then(|| record.version.unix_ms()),
        "version": record.version.to_string(),
        "text": record.encode(),
    })
}

/// Whose presence it is.
pub(crate) fn who(who: &Principal) -> Value {
    let (product, device, client) = match who {
        Principal::Device(product, device) => (Some(product.as_str()), Some(device.as_str()), None),
        Principal::Client(id) => (None, None, Some(&**id)),
    };
    json!({ "key": who.key(), "product": product, "device": device, "client_id": client })
}

/// Protocol of one that is online, reason of one that is not.
fn state(state: OnlineState) -> (Value, Value) {
    match state {
        OnlineState::Online(protocol) => (json!(protocol), Value::Null),
        OnlineState::Offline(reason) => (Value::Null, json!(CloseReason::name(reason))),
    }
}

fn boot(boot: u64) -> String {
    format!("{boot:x}")
}

//! Metrics in Prometheus' text format 0.0.4, by hand.
//!
//! Names, types and explanations come from where the counters are declared. It asks nobody: it is
//! given the figures. Invariant: each metric has one HELP and one TYPE, before its samples.

use crate::MetricReading;
use crate::webhook::Address;
use crate::webhook::dead::DeadTally;
use model::close::CloseReason;
use model::event::Counter;
use model::ports::control::Status;
use model::ports::presence_queries::{Circuit, Count, PresenceCounts, ReplicationStatus};
use model::session::Drop;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pairs of product and protocol that have samples of their own. Those after them, in the order of
/// their names, are summed under the product `*`, which none is called.
const PAIRS_MAX: usize = 256;

/// Figures of presence for the metrics.
pub(crate) struct PresenceFigures {
    /// Absent when the shards did not answer.
    pub(crate) counts: Option<PresenceCounts>,
    pub(crate) standing: ReplicationStatus,
}

/// All metrics as text.
pub(crate) fn text(
    status: &Status,
    presence: &PresenceFigures,
    webhooks: &[Arc<Address>],
    readings: &[MetricReading],
) -> String {
    let mut out = String::new();
    for counter in Counter::ALL {
        head(&mut out, counter.name(), "counter", counter.help());
        sample(&mut out, counter.name(), "", status.counters.of(*counter));
    }
    let closed = "connections_closed_total";
    head(&mut out, closed, "counter", "Connections ended, by reason.");
    for reason in CloseReason::ALL {
        let labels = format!("{{reason=\"{}\"}}", reason.name());
        sample(&mut out, closed, &labels, status.counters.closed_of(*reason));
    }
    let dropped = "messages_dropped_total";
    head(&mut out, dropped, "counter", "Messages not delivered to a session, by reason.");
    for why in Drop::ALL {
        let labels = format!("{{reason=\"{}\"}}", why.name());
        sample(&mut out, dropped, &labels, status.counters.dropped_of(why));
    }
    for reading in gauges(status).iter().chain(&resident()).chain(readings) {
        head(&mut out, reading.name, "gauge", reading.help);
        sample(&mut out, reading.name, "", reading.value);
    }
    if let Some(counts) = &presence.counts {
        online(&mut out, counts);
    }
    if presence.standing.kind != "none" {
        directory(&mut out, &presence.standing);
    }
    hooks(&mut out, webhooks);
    out
}

fn level(status: &Status) -> u64 {
    status.pressure as u64
}

fn gauges(status: &Status) -> Vec<MetricReading> {
    let gauges = [
        ("connections", "Connections open.", status.connections),
        ("devices", "Devices with a record.", status.devices),
        ("devices_online", "Devices bound.", status.online),
        ("pushes_waiting", "Pushes waiting for devices.", status.waiting),
        ("pushes_waiting_bytes", "Their weight in bytes.", status.waiting_bytes),
        ("shards", "Shards that answered.", u64::from(status.shards)),
        ("turn_us_max", "Longest turn of a shard since the last look.", status.turn_us_max),
        ("memory_pressure", "0 calm, 1 no connections, 2 no QoS 0, 3 no stores.", level(status)),
        ("sessions", "Sessions, online or not.", status.sessions),
        ("sessions_online", "Sessions with a connection.", status.sessions_online),
        ("subscriptions", "Subscriptions, shared ones included.", status.subscriptions),
        ("retained_messages", "Retained messages.", status.retained),
        ("retained_bytes", "Their bytes.", status.retained_bytes),
        ("queued_messages", "Messages that wait for sessions.", status.queued),
        ("queued_bytes", "Their bytes in memory.", status.queued_bytes),
        ("delayed_messages", "Publications for later.", status.delayed),
    ];
    gauges.into_iter().map(|(name, help, value)| MetricReading { name, help, value }).collect()
}

fn resident() -> Option<MetricReading> {
    resident_bytes().map(|value| {
        let help = "Memory of the process in RAM.";
        MetricReading { name: "process_resident_memory_bytes", help, value }
    })
}

fn online(out: &mut String, counts: &PresenceCounts) {
    let mut samples = BTreeMap::<_, Count>::new();
    for (at, ((product, protocol), count)) in counts.of.iter().enumerate() {
        let product = if at < PAIRS_MAX { product } else { "*" };
        let sum = samples.entry((product, *protocol)).or_default();
        sum.online += count.online;
        sum.arrivals += count.arrivals;
        sum.departures += count.departures;
    }
    type Figure = fn(&Count) -> u64;
    let metrics: [(_, _, _, Figure); 3] = [
        ("presence_online", "gauge", "Devices and clients online.", |count| count.online),
        ("presence_arrivals_total", "counter", "Those that came online.", |count| count.arrivals),
        ("presence_departures_total", "counter", "Those that went.", |count| count.departures),
    ];
    for (name, kind, help, figure) in metrics {
        head(out, name, kind, &format!("{help} By product (clients have none) and protocol."));
        for ((product, protocol), count) in &samples {
            let labels = format!("{{product=\"{product}\",protocol=\"{protocol}\"}}");
            sample(out, name, &labels, figure(count));
        }
    }
}

fn directory(out: &mut String, standing: &ReplicationStatus) {
    let circuit = match standing.circuit {
        Circuit::Closed => 0,
        Circuit::HalfOpen => 1,
        Circuit::Open => 2,
    };
    for (name, help, value) in [
        ("presence_unwritten", "Transitions the directory has not taken.", standing.unwritten),
        ("presence_lag_ms", "Age of the oldest of them.", standing.lag_ms),
        ("presence_circuit", "Calls to the directory: 0 made, 1 tried, 2 held back.", circuit),
        ("presence_resync_left", "Buckets still to be compared.", standing.resync_left),
    ] {
        head(out, name, "gauge", help);
        sample(out, name, "", value);
    }
    for &(name, help, value) in &standing.counters {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        head(out, name, kind, help);
        sample(out, name, "", value);
    }
}

fn hooks(out: &mut String, webhooks: &[Arc<Address>]) {
    if webhooks.is_empty() {
        return;
    }
    let hooks = || webhooks.iter().map(|hook| &**hook).enumerate();
    let name = "webhook_events_total";
    head(out, name, "counter", "Events for webhooks, by webhook (as configured) and result.");
    for (hook, Address { tally, .. }) in hooks() {
        for (result, count) in [("delivered", &tally.delivered), ("dropped", &tally.dropped)] {
            let labels = format!("{{hook=\"{hook}\",result=\"{result}\"}}");
            sample(out, name, &labels, count.load(Ordering::Relaxed));
        }
    }
    let name = "webhook_failures_total";
    head(out, name, "counter", "Requests to webhooks that were not taken.");
    for (hook, Address { tally, .. }) in hooks() {
        let labels = format!("{{hook=\"{hook}\"}}");
        sample(out, name, &labels, tally.failures.load(Ordering::Relaxed));
    }
    dead_letters(out, webhooks);
}

fn dead_letters(out: &mut String, webhooks: &[Arc<Address>]) {
    let tallies = || {
        let dead = webhooks.iter().enumerate();
        dead.filter_map(|(hook, address)| Some((hook, &address.dead.as_ref()?.tally)))
    };
    if tallies().next().is_none() {
        return;
    }
    type Figure = fn(&DeadTally) -> &AtomicU64;
    let gauges: [(_, _, Figure); 2] = [
        ("webhook_dead_letters", "Events given up and kept.", |tally| &tally.count),
        ("webhook_dead_letters_bytes", "Their bytes.", |tally| &tally.bytes),
    ];
    for (name, help, figure) in gauges {
        head(out, name, "gauge", &format!("{help} By webhook (as configured)."));
        for (hook, tally) in tallies() {
            let labels = format!("{{hook=\"{hook}\"}}");
            sample(out, name, &labels, figure(tally).load(Ordering::Relaxed));
        }
    }
    let name = "webhook_dead_letters_total";
    head(out, name, "counter", "Events given up, by webhook and what became of them.");
    for (hook, tally) in tallies() {
        let DeadTally { kept, redelivered, cleared, evicted, refused, .. } = tally;
        for (result, count) in [
            ("kept", kept),
            ("redelivered", redelivered),
            ("cleared", cleared),
            ("evicted", evicted),
            ("refused", refused),
        ] {
            let labels = format!("{{hook=\"{hook}\",result=\"{result}\"}}");
            sample(out, name, &labels, count.load(Ordering::Relaxed));
        }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP holdline_{name} {help}\n# TYPE holdline_{name} {kind}")
        .expect("text takes what is written");
}

fn sample(out: &mut String, name: &str, labels: &str, value: u64) {
    writeln!(out, "holdline_{name}{labels} {value}").expect("text takes what is written");
}

/// `VmRSS` of /proc/self/status, where there is one.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

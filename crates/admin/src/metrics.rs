//! Metrics in Prometheus' text format 0.0.4, by hand.
//!
//! Names, types and explanations come from where the counters are declared. It asks nobody: it is
//! given the figures. Invariant: each metric has one HELP and one TYPE, before its samples.

use crate::Reading;
use crate::webhook::Tally;
use model::close::CloseReason;
use model::event::Counter;
use model::ports::control::Status;
use model::session::Drop;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// All metrics as text.
pub(crate) fn text(status: &Status, tallies: &[Arc<Tally>], readings: &[Reading]) -> String {
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
    hooks(&mut out, tallies);
    out
}

fn gauges(status: &Status) -> Vec<Reading> {
    let gauges = [
        ("connections", "Connections open.", status.connections),
        ("devices", "Devices with a record.", status.devices),
        ("devices_online", "Devices bound.", status.online),
        ("pushes_waiting", "Pushes waiting for devices.", status.waiting),
        ("pushes_waiting_bytes", "Their weight in bytes.", status.waiting_bytes),
        ("shards", "Shards that answered.", u64::from(status.shards)),
        ("turn_us_max", "Longest turn of a shard since the last look.", status.turn_us_max),
        ("sessions", "Sessions, online or not.", status.sessions),
        ("sessions_online", "Sessions with a connection.", status.sessions_online),
        ("subscriptions", "Subscriptions, shared ones included.", status.subscriptions),
        ("retained_messages", "Retained messages.", status.retained),
        ("retained_bytes", "Their bytes.", status.retained_bytes),
        ("queued_messages", "Messages that wait for sessions.", status.queued),
        ("queued_bytes", "Their bytes in memory.", status.queued_bytes),
        ("delayed_messages", "Publications for later.", status.delayed),
    ];
    gauges.into_iter().map(|(name, help, value)| Reading { name, help, value }).collect()
}

fn resident() -> Option<Reading> {
    resident_bytes().map(|value| {
        let help = "Memory of the process in RAM.";
        Reading { name: "process_resident_memory_bytes", help, value }
    })
}

fn hooks(out: &mut String, tallies: &[Arc<Tally>]) {
    if tallies.is_empty() {
        return;
    }
    let name = "webhook_events_total";
    head(out, name, "counter", "Events for webhooks, by webhook (as configured) and result.");
    for (hook, tally) in tallies.iter().enumerate() {
        for (result, count) in [("delivered", &tally.delivered), ("dropped", &tally.dropped)] {
            let labels = format!("{{hook=\"{hook}\",result=\"{result}\"}}");
            sample(out, name, &labels, count.load(Ordering::Relaxed));
        }
    }
    let name = "webhook_failures_total";
    head(out, name, "counter", "Requests to webhooks that were not taken.");
    for (hook, tally) in tallies.iter().enumerate() {
        let labels = format!("{{hook=\"{hook}\"}}");
        sample(out, name, &labels, tally.failures.load(Ordering::Relaxed));
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

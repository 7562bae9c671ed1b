//! Metrics in Prometheus' text format 0.0.4, by hand.
//!
//! Names, types and explanations come from where the counters are declared. It asks nobody: it is
//! given the figures. Invariant: each metric has one HELP and one TYPE, before its samples; a name
//! ends with `_total` where it is a counter's and nowhere else, and has seconds or bytes for unit
//! (`promtool check metrics` holds it in the end-to-end tests).

pub(crate) mod latencies;
pub(crate) mod process;

use crate::platforms::PlatformStatus;
use crate::webhook::Address;
use crate::webhook::dead::DeadTally;
use crate::{CertificateStatus, MetricReading};
use model::close::CloseReason;
use model::counters::frames::{FrameKind, FrameLane};
use model::counters::{Counter, Counters, TopicCounter};
use model::event;
use model::ports::control::{ShardLoop, Status};
use model::ports::presence::queries::{Circuit, Count, PresenceCounts, ReplicationStatus};
use model::session::Drop;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TURN: &str = "shard_turn_seconds_max";
const RESIDENT: &str = "process_resident_memory_bytes";
const CPU: &str = "process_cpu_seconds_total";

/// Pairs of product and protocol that have samples of their own. Those after them, in the order of
/// their names, are summed under the product `*`, which none is called.
const PAIRS_MAX: usize = 256;

/// Figures of presence for the metrics.
pub(crate) struct PresenceFigures {
    /// Absent when the shards did not answer.
    pub(crate) counts: Option<PresenceCounts>,
    pub(crate) standing: ReplicationStatus,
}

/// All figures that there are.
pub(crate) struct Figures<'a> {
    pub(crate) version: &'a str,
    pub(crate) status: &'a Status,
    pub(crate) presence: &'a PresenceFigures,
    pub(crate) webhooks: &'a [Arc<Address>],
    pub(crate) platforms: &'a [PlatformStatus],
    /// Readings that the program around the API adds.
    pub(crate) readings: &'a [MetricReading],
    pub(crate) certificates: &'a [CertificateStatus],
    /// Number of log lines of each kind of trouble.
    pub(crate) log_events: &'a BTreeMap<&'static str, u64>,
}

/// All metrics as text.
pub(crate) fn text(figures: &Figures<'_>) -> String {
    let &Figures { version, status, presence, webhooks, readings, .. } = figures;
    let &Figures { certificates, log_events, platforms: of_platforms, .. } = figures;
    let mut out = String::new();
    head(&mut out, "build_info", "gauge", "Always 1, with the version that runs.");
    sample(&mut out, "build_info", &format!("{{version=\"{version}\"}}"), 1);
    counters(&mut out, &status.counters);
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
    frames(&mut out, &status.counters);
    log(&mut out, log_events);
    latencies::metric(&mut out, &status.counters);
    for &MetricReading { name, help, value } in gauges(status).iter().chain(readings) {
        head(&mut out, name, kind(name), help);
        sample(&mut out, name, "", value);
    }
    head(&mut out, TURN, "gauge", "Longest turn of a shard since the last scrape.");
    sample(&mut out, TURN, "", Duration::from_micros(status.turn_us_max).as_secs_f64());
    loops(&mut out, &status.loops);
    of_process(&mut out);
    if let Some(counts) = &presence.counts {
        online(&mut out, counts);
    }
    if presence.standing.kind != "none" {
        directory(&mut out, &presence.standing);
    }
    platforms(&mut out, of_platforms);
    hooks(&mut out, webhooks);
    expiries(&mut out, certificates);
    out
}

/// The metrics of a node that follows: nothing of a server but the process and these readings.
pub(crate) fn short(
    version: &str,
    readings: &[MetricReading],
    told: &BTreeMap<&'static str, u64>,
) -> String {
    let mut out = String::new();
    head(&mut out, "build_info", "gauge", "Always 1, with the version that runs.");
    sample(&mut out, "build_info", &format!("{{version=\"{version}\"}}"), 1);
    log(&mut out, told);
    for &MetricReading { name, help, value } in readings {
        head(&mut out, name, kind(name), help);
        sample(&mut out, name, "", value);
    }
    of_process(&mut out);
    out
}

/// Memory and CPU time of the process.
fn of_process(out: &mut String) {
    if let Some(bytes) = process::resident_bytes() {
        head(out, RESIDENT, "gauge", "Memory of the process in RAM.");
        sample(out, RESIDENT, "", bytes);
    }
    if let Some(used_ms) = process::cpu_ms() {
        head(out, CPU, "counter", "CPU time of the process, user and system.");
        sample(out, CPU, "", Duration::from_millis(used_ms).as_secs_f64());
    }
}

/// When certificates expire: one sample a file, of which the configuration has a bounded number.
fn expiries(out: &mut String, certificates: &[CertificateStatus]) {
    let name = "certificate_expiry_timestamp_seconds";
    head(out, name, "gauge", "When a certificate, client authority or revocation list expires.");
    for it in certificates {
        let CertificateStatus { kind, file, subject, listeners, expires_ms, .. } = it;
        let [file, subject] = [file, subject].map(|text| label(text));
        let labels = format!(
            "{{kind=\"{kind}\",file=\"{file}\",subject=\"{subject}\",listeners=\"{}\"}}",
            listeners.join(",")
        );
        sample(out, name, &labels, expires_ms / 1_000);
    }
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Frames and stanzas of each kind that there is, also of those that never came.
fn frames(out: &mut String, counters: &Counters) {
    for lane in FrameLane::ALL {
        head(out, lane.metric(), "counter", lane.help());
        for kind in FrameKind::of_lane(*lane) {
            let labels = format!("{{kind=\"{}\"}}", kind.name());
            sample(out, lane.metric(), &labels, counters.frames_of(kind));
        }
    }
}

/// Writes how many warnings and errors the log had, by kind; kinds that it never had are there as
/// zero.
fn log(out: &mut String, told: &BTreeMap<&'static str, u64>) {
    let name = "log_events_total";
    head(out, name, "counter", "Warnings and errors of the log, by kind of event.");
    for kind in event::all().filter(|kind| kind.is_trouble()) {
        let labels = format!("{{event=\"{}\",level=\"{}\"}}", kind.name, kind.severity().name());
        sample(out, name, &labels, told.get(kind.name).copied().unwrap_or_default());
    }
}

/// Each counter; those of one kind are one metric, with a label.
fn counters(out: &mut String, counters: &Counters) {
    let received =
        [TopicCounter::Publishes, TopicCounter::PublishesQos1, TopicCounter::PublishesQos2];
    let [all, first, second] = received.map(|counter| counters.of(counter));
    let tolerated = |counter: Counter| {
        let fault = counter.name().strip_prefix("tolerated_")?.strip_suffix("_total")?;
        Some((fault, counters.of(counter)))
    };
    for &counter in Counter::ALL {
        if tolerated(counter).is_some() || received[1..].iter().any(|of| counter == *of) {
            continue;
        }
        head(out, counter.name(), "counter", counter.help());
        if counter != TopicCounter::Publishes {
            sample(out, counter.name(), "", counters.of(counter));
            continue;
        }
        let none = all.saturating_sub(first + second);
        for (qos, count) in [none, first, second].into_iter().enumerate() {
            sample(out, counter.name(), &format!("{{qos=\"{qos}\"}}"), count);
        }
    }
    let name = "tolerated_total";
    head(out, name, "counter", "Client faults tolerated by a lenient listener, by fault.");
    for (fault, count) in Counter::ALL.iter().filter_map(|&counter| tolerated(counter)) {
        sample(out, name, &format!("{{fault=\"{fault}\"}}"), count);
    }
}

/// Readings and the directory's figures say by their names what they are.
fn kind(name: &str) -> &'static str {
    if name.ends_with("_total") { "counter" } else { "gauge" }
}

fn level(status: &Status) -> u64 {
    status.pressure as u64
}

fn gauges(status: &Status) -> Vec<MetricReading> {
    let gauges = [
        ("connections", "Open connections.", status.connections),
        ("devices", "Known devices, online or not.", status.devices),
        ("devices_online", "Online devices.", status.online),
        ("pushes_waiting", "Pushes queued for devices.", status.waiting),
        ("pushes_waiting_bytes", "Bytes of pushes queued for devices.", status.waiting_bytes),
        ("shards", "Shards that answered.", u64::from(status.shards)),
        ("shard_threads", "Threads that run the shards.", u64::from(status.threads)),
        (
            "memory_pressure",
            "Level: 0 none, 1 no new connections, 2 also no QoS 0, 3 also no \
                             stores.",
            level(status),
        ),
        ("sessions", "Sessions, online or not.", status.sessions),
        ("sessions_online", "Connected sessions.", status.sessions_online),
        ("subscriptions", "Subscriptions, including shared ones.", status.subscriptions),
        (
            "retained_messages",
            "Retained messages without the server's own ($SYS).",
            status.retained,
        ),
        (
            "retained_bytes",
            "Bytes of retained messages without the server's own ($SYS).",
            status.retained_bytes,
        ),
        ("queued_messages", "Messages queued for sessions.", status.queued),
        ("queued_bytes", "Bytes of queued messages in memory.", status.queued_bytes),
        ("delayed_messages", "Delayed messages.", status.delayed),
        ("chat_sessions", "Connected devices of accounts.", status.chat_sessions),
        ("chat_undistributed", "Messages not in every inbox yet.", status.chat_undistributed),
        ("chat_queued_out", "Messages queued for other XMPP servers.", status.chat_queued_out),
        (
            "chat_pushes_owing",
            "Accounts with pending push notifications.",
            status.chat_pushes_owing,
        ),
        (
            "slow_clients",
            "Clients that do not keep up: GET /v1/slow_clients lists them.",
            status.slow_clients,
        ),
        ("chatrooms", "Chatrooms.", status.chatrooms),
        ("chatroom_sessions", "Sessions in chatrooms.", status.chatroom_sessions),
    ];
    gauges.into_iter().map(|(name, help, value)| MetricReading { name, help, value }).collect()
}

/// The shards' loops, by shard.
fn loops(out: &mut String, loops: &[ShardLoop]) {
    fn seconds(us: u64) -> f64 {
        Duration::from_micros(us).as_secs_f64()
    }
    type Figure = fn(&ShardLoop) -> f64;
    let metrics: [(_, _, _, Figure); 4] = [
        ("shard_connections", "gauge", "Open connections, by shard.", |it| it.connections as f64),
        ("shard_turns_total", "counter", "Turns of a shard's loop.", |it| it.turns as f64),
        ("shard_busy_seconds_total", "counter", "Time spent in a shard's turns.", |it| {
            seconds(it.busy_us)
        }),
        ("shard_lag_seconds_total", "counter", "Total delay of a shard's turns.", |it| {
            seconds(it.lag_us)
        }),
    ];
    for (name, kind, help, figure) in metrics {
        head(out, name, kind, help);
        loops.iter().for_each(|it| {
            sample(out, name, &format!("{{shard=\"{}\"}}", it.shard.0), figure(it));
        });
    }
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
        ("presence_online", "gauge", "Online devices and clients.", |count| count.online),
        ("presence_arrivals_total", "counter", "Connects of devices and clients.", |count| {
            count.arrivals
        }),
        ("presence_departures_total", "counter", "Disconnects of devices and clients.", |count| {
            count.departures
        }),
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
    let name = "presence_circuit";
    head(out, name, "gauge", "1 for the current state of the directory's circuit breaker.");
    for state in [Circuit::Closed, Circuit::HalfOpen, Circuit::Open] {
        let labels = format!("{{state=\"{}\"}}", state.name());
        sample(out, name, &labels, u64::from(standing.circuit == state));
    }
    let name = "presence_lag_seconds";
    head(out, name, "gauge", "Age of the oldest transition not yet in the directory.");
    sample(out, name, "", Duration::from_millis(standing.lag_ms).as_secs_f64());
    let own = [
        ("presence_unwritten", "Transitions not yet in the directory.", standing.unwritten),
        ("presence_resync_left", "Buckets still to be compared.", standing.resync_left),
    ];
    for &(name, help, value) in own.iter().chain(&standing.counters) {
        head(out, name, kind(name), help);
        sample(out, name, "", value);
    }
}

fn platforms(out: &mut String, platforms: &[PlatformStatus]) {
    if platforms.is_empty() {
        return;
    }
    let name = "platform_pushes_total";
    head(out, name, "counter", "Pushes for platforms of devices that are away, by outcome.");
    for platform in platforms {
        for (outcome, count) in platform.outcomes.all() {
            let of = label(&platform.name);
            let labels = format!("{{platform=\"{of}\",outcome=\"{outcome}\"}}");
            sample(out, name, &labels, count);
        }
    }
    type Figure = fn(&PlatformStatus) -> u64;
    let gauges: [(_, _, Figure); 3] = [
        ("platform_up", "1: the platform accepts requests.", |it| (it.state == "ready").into()),
        ("platform_waiting", "Pushes queued for a platform.", |it| it.waiting),
        ("platform_requests", "Requests to a platform in progress.", |it| it.requests),
    ];
    for (name, help, figure) in gauges {
        head(out, name, "gauge", help);
        for platform in platforms {
            let labels = format!("{{platform=\"{}\"}}", label(&platform.name));
            sample(out, name, &labels, figure(platform));
        }
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
    head(out, name, "counter", "Failed requests to webhooks.");
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
        ("webhook_dead_letters", "Dead letters stored.", |tally| &tally.count),
        ("webhook_dead_letters_bytes", "Bytes of dead letters.", |tally| &tally.bytes),
    ];
    for (name, help, figure) in gauges {
        head(out, name, "gauge", &format!("{help} By webhook (as configured)."));
        for (hook, tally) in tallies() {
            let labels = format!("{{hook=\"{hook}\"}}");
            sample(out, name, &labels, figure(tally).load(Ordering::Relaxed));
        }
    }
    let name = "webhook_dead_letters_total";
    head(out, name, "counter", "Dead letters, by webhook and what happened to them.");
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

pub(super) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let prefix = prefix(name);
    writeln!(out, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}")
        .expect("text takes what is written");
}

pub(super) fn sample(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let prefix = prefix(name);
    writeln!(out, "{prefix}{name}{labels} {value}").expect("text takes what is written");
}

/// Figures of the process have the names that all programs' have.
fn prefix(name: &str) -> &'static str {
    if name.starts_with("process_") { "" } else { "holdline_" }
}

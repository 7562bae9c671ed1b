//! CPU a delivery, and latency at a modest rate.
//!
//! The shapes and their windows are those of the project's targets: 64 bytes, 3.1.1, no TLS.

use super::{present, rounds, versions};
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use crate::scenario::Scale;
use crate::swarm::orders::Remote;
use crate::swarm::peers::Kind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;

/// A shape: its name, how it is opened, the window, and deliveries of a round.
struct Shape {
    name: &'static str,
    open: &'static str,
    window: u32,
    copies: u32,
}

const fn shape(name: &'static str, open: &'static str, window: u32, copies: u32) -> Shape {
    Shape { name, open, window, copies }
}

const SHAPES: [Shape; 10] = [
    shape("pair q0", "pair 0 50", 10, 600_000),
    shape("pair q1", "pair 1 50", 10, 300_000),
    shape("pair q2", "pair 2 50", 10, 150_000),
    shape("fan-out q0", "fanout 0 1000", 2, 1_000_000),
    shape("fan-out q1", "fanout 1 1000", 2, 300_000),
    shape("fan-in q0", "fanin 0 100", 10, 600_000),
    shape("fan-in q1", "fanin 1 100", 10, 200_000),
    shape("share q1", "share 1 100", 10, 200_000),
    // Little can be batched: what a message costs by itself.
    shape("fan-in q0, window 2", "fanin 0 100", 2, 400_000),
    shape("share q1, window 2", "share 1 100", 2, 200_000),
];

/// Messages a second of the lone shape, in all, and for how long.
const LONE_PER_S: u32 = 2_000;
const LONE_S: u32 = 10;

/// CPU-seconds a million deliveries, shape by shape, broker by broker.
pub fn shapes(scale: Scale) -> io::Result<Outcome> {
    let rounds = rounds(scale);
    let mut outcome = Outcome::new(json!({
        "payload_bytes": 64, "version": "3.1.1", "rounds": rounds, "brokers": versions(),
        "shapes": SHAPES.iter().map(|it| json!({
            "name": it.name, "opened": it.open, "window": it.window, "deliveries": it.copies,
        })).collect::<Vec<_>>(),
    }));
    let mut details = serde_json::Map::new();
    for shape in &SHAPES {
        let mut costs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for _ in 0..rounds {
            for kind in present() {
                match round(kind, shape, scale) {
                    Ok((cost, rate)) => {
                        costs.entry(kind.name()).or_default().push(cost);
                        rates.entry(kind.name()).or_default().push(rate);
                    }
                    Err(error) => eprintln!("  {} {}: {error}", shape.name, kind.name()),
                }
            }
        }
        judge(&mut outcome, shape.name, &costs);
        let told = json!({ "cpu_s_a_million": costs, "deliveries_a_second": rates });
        details.insert(shape.name.to_owned(), told);
    }
    outcome.detail("rounds", Value::Object(details));
    Ok(outcome)
}

/// Latency at a modest rate, and what it costs.
pub fn latency(scale: Scale) -> io::Result<Outcome> {
    let rounds = rounds(scale);
    let mut outcome = Outcome::new(json!({
        "pairs": 50, "messages_a_second": LONE_PER_S, "seconds": LONE_S, "rounds": rounds,
        "from": "the planned time", "brokers": versions(),
    }));
    let mut details = serde_json::Map::new();
    for (name, open) in [("lone q0", "pair 0 50"), ("lone q1", "pair 1 50")] {
        let mut costs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut halves: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut mosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for _ in 0..rounds {
            for kind in present() {
                let peer = kind.start(false)?;
                let mut swarm = Remote::start(peer.address)?;
                swarm.open(open)?;
                swarm.run(&format!("pace {LONE_PER_S} 1"))?;
                let before = cpu::used(peer.pid())?;
                let ran = swarm.run(&format!("pace {LONE_PER_S} {}", scale.of(LONE_S)))?;
                let used = cpu::used(peer.pid())? - before;
                let cost = used.as_secs_f64() * 1e6 / ran.delivered as f64;
                costs.entry(kind.name()).or_default().push(cost);
                halves.entry(kind.name()).or_default().push(ran.latency_us[0]);
                mosts.entry(kind.name()).or_default().push(ran.latency_us[1]);
            }
        }
        judge(&mut outcome, name, &costs);
        compare(&mut outcome, &format!("{name} p50"), &medians(&halves));
        for (what, all) in [("p50", &halves), ("p99", &mosts)] {
            for (kind, values) in all {
                outcome.figure(&format!("{name} {what}: {kind}"), slope::median(values), "µs");
            }
        }
        let told = json!({ "cpu_s_a_million": costs, "p50_us": halves, "p99_us": mosts });
        details.insert(name.to_owned(), told);
    }
    outcome.detail("rounds", Value::Object(details));
    Ok(outcome)
}

/// One broker's CPU a delivery in one shape, started afresh and warmed up, and its rate.
fn round(kind: Kind, shape: &Shape, scale: Scale) -> io::Result<(f64, f64)> {
    let peer = kind.start(false)?;
    let mut swarm = Remote::start(peer.address)?;
    swarm.open(shape.open)?;
    let copies = scale.of(shape.copies);
    swarm.run(&format!("run {} {} 10", shape.window, copies / 10))?;
    let before = cpu::used(peer.pid())?;
    let ran = swarm.run(&format!("run {} {copies} 30", shape.window))?;
    let used = cpu::used(peer.pid())? - before;
    let delivered = ran.delivered as f64;
    Ok((used.as_secs_f64() * 1e6 / delivered, delivered / ran.seconds))
}

/// Medians, and ours against the best of the others.
fn judge(outcome: &mut Outcome, shape: &str, costs: &BTreeMap<&str, Vec<f64>>) {
    let medians = medians(costs);
    compare(outcome, shape, &medians);
    for (kind, cost) in medians {
        outcome.figure(&format!("{shape}: {kind}"), cost, "CPU-s a million deliveries");
    }
}

fn medians<'a>(of: &BTreeMap<&'a str, Vec<f64>>) -> BTreeMap<&'a str, f64> {
    of.iter().map(|(kind, values)| (*kind, slope::median(values))).collect()
}

/// Compares ours with the best of the others, where less is better.
fn compare(outcome: &mut Outcome, what: &str, medians: &BTreeMap<&str, f64>) {
    let theirs = medians.iter().filter(|(kind, _)| **kind != Kind::Holdline.name());
    let best = theirs.map(|(_, value)| *value).fold(f64::NAN, f64::min);
    if let Some(ours) = medians.get(Kind::Holdline.name()) {
        outcome.figure(&format!("{what}: against the best peer"), ours / best, "times");
    }
}

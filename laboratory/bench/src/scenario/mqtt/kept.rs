//! Sessions that are kept: what durable before PUBACK costs; and a `#` over many retained topics.

use super::{rounds, versions};
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use crate::scenario::Scale;
use crate::swarm::orders::Remote;
use crate::swarm::peers::Kind;
use serde_json::json;
use std::collections::BTreeMap;
use std::io;

const COPIES: u32 = 200_000;

/// Pairs at QoS 1 with clean sessions and with kept ones, in turns.
pub fn kept(scale: Scale) -> io::Result<Outcome> {
    let rounds = rounds(scale);
    let copies = scale.of(COPIES);
    let mut outcome = Outcome::new(json!({
        "pairs": 200, "window": 20, "qos": 1, "deliveries": copies, "rounds": rounds,
        "holdline": "fsync = always: on stable storage before PUBACK",
        "mosquitto": "persistence true: a snapshot now and then, nothing before PUBACK",
        "brokers": versions(),
    }));
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut costs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for kind in [Kind::Holdline, Kind::Mosquitto] {
            if kind.program().is_none() {
                continue;
            }
            for sort in ["clean", "kept"] {
                let peer = kind.start(sort == "kept")?;
                let mut swarm = Remote::start(peer.address)?;
                swarm.open(&format!("pair 1 200 {sort}"))?;
                swarm.run(&format!("run 20 {} 10", copies / 10))?;
                let before = cpu::used(peer.pid())?;
                let ran = swarm.run(&format!("run 20 {copies} 60"))?;
                let used = cpu::used(peer.pid())? - before;
                let delivered = ran.delivered as f64;
                let name = format!("{}, {sort}", kind.name());
                rates.entry(name.clone()).or_default().push(delivered / ran.seconds);
                costs.entry(name).or_default().push(used.as_secs_f64() * 1e6 / delivered);
            }
        }
    }
    let median = |name: &str| rates.get(name).map_or(f64::NAN, |all| slope::median(all));
    let share = median("holdline, kept") / median("holdline, clean");
    outcome.figure("rate of kept sessions against clean ones", share, "times");
    for (name, all) in &rates {
        outcome.figure(&format!("{name}: rate"), slope::median(all), "deliveries a second");
    }
    for (name, all) in &costs {
        let cost = slope::median(all);
        outcome.figure(&format!("{name}: CPU"), cost, "CPU-s a million deliveries");
    }
    outcome.detail("rounds", json!({ "rates": rates, "cpu_s_a_million": costs }));
    Ok(outcome)
}

const TOPICS: u32 = 1_000_000;

/// A million retained topics and a subscriber to `#` while pairs go on: all of them.
pub fn retained(scale: Scale) -> io::Result<Outcome> {
    let topics = scale.of(TOPICS);
    let mut outcome = Outcome::new(json!({
        "topics": topics, "payload_bytes": 64, "brokers": versions(),
    }));
    for kind in [Kind::Holdline, Kind::Mosquitto] {
        if kind.program().is_none() {
            continue;
        }
        let name = kind.name();
        let peer = kind.start(false)?;
        let before = crate::measure::memory::Memory::of(peer.pid())?.private_dirty;
        let mut swarm = Remote::start(peer.address)?;
        let used = cpu::used(peer.pid())?;
        swarm.open(&format!("retain {topics}"))?;
        let set = cpu::used(peer.pid())? - used;
        let bytes = crate::measure::memory::Memory::of(peer.pid())?.private_dirty - before;
        swarm.open("pair 0 10")?;
        let used = cpu::used(peer.pid())?;
        let _ = peer.turn_us_max(); // from here on
        let told = swarm.run(&format!("collect {topics} 1000"))?;
        let walk = cpu::used(peer.pid())? - used;
        let each = |all: f64| all / f64::from(topics);
        outcome.figure(&format!("{name}: delivered"), told.delivered as f64, "messages");
        outcome.figure(&format!("{name}: memory"), each(bytes as f64), "bytes a topic");
        outcome.figure(&format!("{name}: set"), each(set.as_secs_f64() * 1e6), "µs of CPU");
        outcome.figure(&format!("{name}: delivery"), each(walk.as_secs_f64() * 1e6), "µs of CPU");
        outcome.figure(&format!("{name}: seconds"), told.seconds, "s");
        if let Some(turn_us) = peer.turn_us_max() {
            outcome.figure(&format!("{name}: longest turn of a shard"), turn_us, "µs");
        }
    }
    Ok(outcome)
}

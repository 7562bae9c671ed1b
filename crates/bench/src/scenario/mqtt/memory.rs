//! Memory of an idle connection, without and with one subscription of its own; CPU a connect.

use super::{present, versions};
use crate::measure::memory::Memory;
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use crate::scenario::Scale;
use crate::swarm::orders::Remote;
use crate::swarm::peers::{Kind, Peer};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

const STEP: u32 = 3_000;
const STEPS: u32 = 5;
/// After a step, before memory is read: longer than our own `bind_ms_max`, whose timers are not
/// part of an idle connection.
const SETTLE: Duration = Duration::from_secs(12);
const CONNECTS: u32 = 4_000;

/// User bytes a connection: no subscription, an exact one, one with a wildcard.
pub fn memory(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(json!({
        "connections": (1..=STEPS).map(|at| at * scale.of(STEP)).collect::<Vec<_>>(),
        "client_id_bytes": 16, "settle_ms": SETTLE.as_millis(), "user_memory": "Private_Dirty",
        "filters": { "exact": "bench/N/in", "wildcard": "bench/N/#" }, "brokers": versions(),
    }));
    for (name, kind_of) in [
        ("no subscription", "none"),
        ("one exact subscription", "exact"),
        ("one wildcard subscription", "wildcard"),
    ] {
        for kind in present() {
            match grow(kind, kind_of, scale) {
                Ok(grown) => {
                    outcome.figure(&format!("{name}: {}", kind.name()), grown.each, "bytes");
                    outcome.figure(&format!("{name}: {}, R²", kind.name()), grown.r2, "");
                }
                Err(error) => eprintln!("  {name} {}: {error}", kind.name()),
            }
        }
    }
    Ok(outcome)
}

fn grow(kind: Kind, subscribed: &str, scale: Scale) -> io::Result<slope::Slope> {
    let peer = kind.start(false)?;
    let mut swarm = Remote::start(peer.address)?;
    let (step, mut points) = (scale.of(STEP), Vec::new());
    for at in 0..STEPS {
        swarm.open(&format!("hold {step} {} 100 {subscribed}", 100_000 + at * step))?;
        std::thread::sleep(if kind == Kind::Holdline { SETTLE } else { SETTLE / 4 });
        let memory = Memory::of(peer.pid())?;
        points.push((f64::from((at + 1) * step), memory.private_dirty as f64));
    }
    Ok(slope::through(&points))
}

/// Server CPU from accept to CONNACK, in rounds that take turns.
pub fn connect(scale: Scale) -> io::Result<Outcome> {
    let (connects, rounds) = (scale.of(CONNECTS), if scale.quick { 2 } else { 7 });
    let mut outcome = Outcome::new(json!({
        "connects": connects, "window": 100, "rounds": rounds, "brokers": versions(),
    }));
    let mut costs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let start = |kind: Kind| match kind.start(false) {
        Ok(peer) => Some((kind, peer)),
        Err(error) => {
            eprintln!("  {error}");
            None
        }
    };
    let peers: Vec<_> = present().into_iter().filter_map(start).collect();
    for round in 0..=rounds {
        for (kind, peer) in &peers {
            match connects_of(peer, connects, round * connects) {
                Ok(cost) if round > 0 => costs.entry(kind.name()).or_default().push(cost),
                Ok(_) => {} // the first round warms up
                Err(error) => eprintln!("  {}: {error}", kind.name()),
            }
        }
    }
    for (kind, values) in &costs {
        outcome.figure(kind, slope::median(values), "µs of CPU a connect");
    }
    outcome.detail("rounds", json!(costs));
    Ok(outcome)
}

/// Microseconds of CPU a connect.
fn connects_of(peer: &Peer, connects: u32, first: u32) -> io::Result<f64> {
    let mut swarm = Remote::start(peer.address)?;
    let before = cpu::used(peer.pid())?;
    swarm.open(&format!("hold {connects} {first} 100 none"))?;
    let used = cpu::used(peer.pid())? - before;
    drop(swarm);
    std::thread::sleep(Duration::from_millis(500)); // it notices that they have gone
    Ok(used.as_nanos() as f64 / 1e3 / f64::from(connects))
}

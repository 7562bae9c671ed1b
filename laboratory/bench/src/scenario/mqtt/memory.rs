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

/// Connections at which memory is read: up to what a process of 20,000 descriptors holds, over the
/// sizes at which tables double (7,168 and 14,336 entries of each of two shards' tables).
const POINTS: [u32; 5] = [4_000, 7_500, 11_000, 14_500, 18_000];
/// Pause after a step, before memory is read: longer than our own `bind_ms_max`, whose timers are
/// not part of an idle connection.
const SETTLE: Duration = Duration::from_secs(12);
const CONNECTS: u32 = 4_000;

/// User bytes a connection: no subscription, an exact one, one with a wildcard.
pub fn memory(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(json!({
        "connections": POINTS.map(|point| scale.of(point)),
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
                Ok((grown, average)) => {
                    let kind = kind.name();
                    outcome.figure(&format!("{name}: {kind}"), grown.each, "bytes");
                    outcome.figure(&format!("{name}: {kind}, average of all"), average, "bytes");
                    outcome.figure(&format!("{name}: {kind}, R²"), grown.r2, "");
                }
                Err(error) => eprintln!("  {name} {}: {error}", kind.name()),
            }
        }
    }
    Ok(outcome)
}

/// The slope, and the last point's memory beyond that of nobody by its connections.
fn grow(kind: Kind, subscribed: &str, scale: Scale) -> io::Result<(slope::Slope, f64)> {
    let peer = kind.start(false)?;
    let empty = Memory::of(peer.pid())?.private_dirty as f64;
    let mut swarm = Remote::start(peer.address)?;
    let (mut open, mut points) = (0, Vec::new());
    for point in POINTS.map(|point| scale.of(point)) {
        swarm.open(&format!("hold {} {} 100 {subscribed}", point - open, 100_000 + open))?;
        open = point;
        std::thread::sleep(if kind == Kind::Holdline { SETTLE } else { SETTLE / 4 });
        let memory = Memory::of(peer.pid())?;
        points.push((f64::from(point), memory.private_dirty as f64));
    }
    let average = points.last().map_or(0.0, |(open, memory)| (memory - empty) / open);
    Ok((slope::through(&points), average))
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

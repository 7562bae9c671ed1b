//! Small pages and huge ones: memory and CPU of the same server both ways, with nobody on it, with
//! a thousand and with as many as this machine lets a process have, beside mosquitto.
//!
//! The server as shipped uses small pages alone (`[server] huge_pages = false`). With that switch
//! on, huge ones are used where the kernel gives them to everybody; where it does not, both ways
//! are one, and only the first is measured. The plan says which kernel it was.

use super::versions;
use crate::holdline::Setup;
use crate::measure::memory::Memory;
use crate::measure::{cpu, machine};
use crate::results::Outcome;
use crate::scenario::Scale;
use crate::swarm::orders::Remote;
use crate::swarm::peers::{Kind, Peer};
use serde_json::json;
use std::io;
use std::thread;
use std::time::Duration;

/// Clients with a subscription each that are held.
const HELD: [u32; 3] = [0, 1_000, 20_000];
/// Descriptors that either end needs besides.
const SPARE: u64 = 2_000;
/// Longer than `bind_ms_max`, whose timers are not part of an idle connection.
const SETTLE: Duration = Duration::from_secs(12);
/// Deliveries that CPU is taken of: 50 pairs, QoS 0, window 10.
const DELIVERIES: u32 = 600_000;

/// Process whose memory is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Small,
    Huge,
    Mosquitto,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Way::Small => "as shipped, small pages",
            Way::Huge => "huge pages",
            Way::Mosquitto => "mosquitto",
        }
    }

    fn start(self, connections: u32) -> io::Result<Peer> {
        let huge_pages = self == Way::Huge;
        match self {
            Way::Mosquitto => Kind::Mosquitto.start(false),
            _ => Peer::ours(&Setup { huge_pages, connections, ..Setup::default() }),
        }
    }
}

/// Runs the scenario.
pub fn pages(scale: Scale) -> io::Result<Outcome> {
    let policy = machine::huge_pages();
    let room = machine::descriptors().saturating_sub(SPARE);
    let scaled = |count: u32| if count > 0 { scale.of(count) } else { 0 };
    let held = HELD.map(|count| u64::from(scaled(count)).min(room) as u32);
    let ways = [
        (Way::Small, true),
        (Way::Huge, policy == "always"),
        (Way::Mosquitto, Kind::Mosquitto.program().is_some()),
    ];
    let mut outcome = Outcome::new(json!({
        "clients": held, "subscription": "an exact one each", "kernel_huge_pages": policy,
        "pairs": 50, "qos": 0, "window": 10, "deliveries": scale.of(DELIVERIES),
        "settle_s": SETTLE.as_secs(), "brokers": versions(),
    }));
    for count in held {
        for (way, _) in ways.into_iter().filter(|(_, present)| *present) {
            let (memory, cost) = one(way, count, scale)?;
            let name = |what: &str| format!("{count} clients, {}: {what}", way.name());
            outcome.figure(&name("user memory"), memory.private_dirty as f64 / 1e6, "MB");
            outcome.figure(&name("resident"), memory.rss as f64 / 1e6, "MB");
            outcome.figure(&name("CPU"), cost, "CPU-s a million deliveries");
        }
    }
    Ok(outcome)
}

/// Memory of so many who are silent, then CPU of a load beside them.
fn one(way: Way, count: u32, scale: Scale) -> io::Result<(Memory, f64)> {
    let peer = way.start(count + 200)?;
    let mut swarm = Remote::start(peer.address)?;
    if count > 0 {
        swarm.open(&format!("hold {count} 100000 100 exact"))?;
    }
    thread::sleep(SETTLE);
    let memory = Memory::of(peer.pid())?;
    let (mut load, deliveries) = (Remote::start(peer.address)?, scale.of(DELIVERIES));
    load.open("pair 0 50")?;
    load.run(&format!("run 10 {} 10", deliveries / 10))?;
    let before = cpu::used(peer.pid())?;
    let ran = load.run(&format!("run 10 {deliveries} 30"))?;
    let used = cpu::used(peer.pid())? - before;
    Ok((memory, used.as_secs_f64() * 1e6 / ran.delivered as f64))
}

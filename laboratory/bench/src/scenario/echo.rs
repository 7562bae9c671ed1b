//! Echo: server CPU a message, Holdline's beside a minimal echo program's.
//!
//! One caller talks to both over 500 connections, each on a core of its own; rounds take turns, so
//! that what the machine does meanwhile falls on all alike. A Ping has 4 bytes, a Report and what
//! the floor echoes 64. At depth 1 every message is a read and a write; at depth 16 what a program
//! itself costs shows.

use super::{CALLER_CORE, SERVER_CORE, Scale};
use crate::caller::orders::Remote;
use crate::caller::speech::Speech;
use crate::child::Child;
use crate::holdline::Setup;
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use serde_json::json;
use std::io;
use std::time::Duration;

const CONNECTIONS: u32 = 500;
const DEPTHS: [u32; 2] = [1, 16];
const ROUND: Duration = Duration::from_secs(2);

/// A program under measurement, with its caller.
struct Arm {
    name: &'static str,
    pid: u32,
    caller: Remote,
    /// CPU a message in nanoseconds, by depth and round.
    nanos: [Vec<f64>; DEPTHS.len()],
}

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let rounds = if scale.quick { 3 } else { 9 };
    let connections = scale.of(CONNECTIONS);
    let mut floor = Child::again(&["floor", "echo"], Some(SERVER_CORE))?;
    let echo = floor.ready()?.parse().map_err(io::Error::other)?;
    let setup = Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() };
    let holdline = setup.start()?;
    let mut outcome = Outcome::new(json!({
        "connections": connections, "rounds": rounds, "round_ms": ROUND.as_millis(),
        "depths": DEPTHS, "message_bytes": 64, "cores": [SERVER_CORE, CALLER_CORE],
        "holdline": holdline.plan(),
    }));
    let miop = |prefix: &str, reports| {
        let (product, prefix) = ("demo".to_owned(), prefix.to_owned());
        Speech::Miop { product, prefix, reports }
    };
    let mut arms = Vec::new();
    for (name, pid, to, speech) in [
        ("floor", floor.pid(), echo, Speech::Mute),
        ("ping", holdline.pid(), holdline.address, miop("ping", false)),
        ("report", holdline.pid(), holdline.address, miop("report", true)),
    ] {
        let mut caller = Remote::start(to, &speech, Some(CALLER_CORE))?;
        caller.open(connections, 100, 0)?;
        arms.push(Arm { name, pid, caller, nanos: Default::default() });
    }
    for round in 0..=rounds {
        for arm in &mut arms {
            for (at, depth) in DEPTHS.into_iter().enumerate() {
                let before = cpu::used(arm.pid)?;
                let messages = arm.caller.exchange(ROUND, depth)?;
                let used = cpu::used(arm.pid)? - before;
                if round > 0 {
                    arm.nanos[at].push(used.as_nanos() as f64 / messages as f64);
                } // the first round warms up
            }
        }
    }
    report(&arms, &mut outcome);
    Ok(outcome)
}

fn report(arms: &[Arm], outcome: &mut Outcome) {
    let medians = |arm: &Arm| [0, 1].map(|at| slope::median(&arm.nanos[at]));
    let floor = medians(&arms[0]);
    for arm in &arms[1..] {
        let each = medians(arm);
        outcome.figure(&format!("{} ratio", arm.name), each[0] / floor[0], "times");
        let deep = format!("{} ratio at depth {}", arm.name, DEPTHS[1]);
        outcome.figure(&deep, each[1] / floor[1], "times");
    }
    for arm in arms {
        for (at, median) in medians(arm).into_iter().enumerate() {
            let name = format!("{} at depth {}", arm.name, DEPTHS[at]);
            outcome.figure(&name, median, "ns of CPU a message");
            outcome.detail(&name, json!(arm.nanos[at]));
        }
    }
}

//! Memory of a million devices: the ledger, the dirty set while the directory is away, and the
//! fixed part.
//!
//! Each in a process of its own, as a slope over five steps of what that process alone has written
//! to. Principals are made up one by one and handed over, so that nothing but the tracker holds
//! them.

use super::DEVICES;
use super::rig::{Rig, at, device};
use crate::child::Child;
use crate::measure::memory::Memory;
use crate::measure::slope;
use crate::results::Outcome;
use crate::scenario::Scale;
use model::close::CloseReason;
use model::ports::presence::directory::{DirectoryError, Put};
use model::presence::{OnlineState, Transition, VersionClock};
use serde_json::{Value, json};
use std::io;

const STEPS: u32 = 5;
/// Transitions between two turns.
const EACH: u32 = 4_000;

/// Kinds of memory, and whether a directory is configured and answers.
const KINDS: [(&str, &str); 4] = [
    ("ledger", "bytes of one online and written"),
    ("away", "bytes of one online and unwritten"),
    ("gone", "bytes of one offline and unwritten"),
    ("none", "bytes of one online, no directory"),
];

/// All kinds.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let devices = scale.of(DEVICES);
    let mut outcome = Outcome::new(json!({
        "devices": devices, "steps": STEPS, "key_bytes": device(0).key().len(),
        "memory": "Private_Dirty", "allocator": "the system's", "user": false,
    }));
    for (kind, figure) in KINDS {
        let mut child = Child::again(&["presence", kind, &devices.to_string()], None)?;
        let told: Value = serde_json::from_str(&child.ready()?).map_err(io::Error::other)?;
        let of = |name: &str| -> Vec<f64> {
            let numbers = told[name].as_array().map_or(&[][..], Vec::as_slice);
            numbers.iter().filter_map(Value::as_f64).collect()
        };
        let points: Vec<(f64, f64)> = of("devices").into_iter().zip(of("private_dirty")).collect();
        let line = slope::through(&points);
        outcome.figure(figure, line.each, "bytes");
        outcome.figure(&format!("{kind}: R² of the slope"), line.r2, "");
        outcome.detail(kind, told);
    }
    Ok(outcome)
}

/// Carries out an order that another process of this program gave: `KIND DEVICES`.
pub fn orders(words: &[String]) -> io::Result<()> {
    let [kind, devices] = words else { return Err(io::Error::other("KIND DEVICES")) };
    let devices: u32 = devices.parse().map_err(io::Error::other)?;
    let mut rig = Rig::new(0, kind != "none", "none");
    let mut versions = VersionClock::default();
    let (mut counts, mut private_dirty, mut ms) = (Vec::new(), Vec::new(), 0);
    let step = devices / STEPS;
    for number in 0..step * STEPS {
        let mut say = |state| {
            let version = versions.next(at(ms).wall_ms);
            let who = device(number);
            let transition =
                Transition { who, user: None, state, protocol: "mqtt5", peer: None, version };
            rig.tracker.note(at(ms), transition);
        };
        say(OnlineState::Online("mqtt5"));
        if kind == "gone" {
            say(OnlineState::Offline(CloseReason::PeerReset));
        }
        if number % EACH == EACH - 1 || (number + 1) % step == 0 {
            ms += 2_000;
            answer(&mut rig, ms, kind == "ledger");
        }
        if (number + 1) % step == 0 {
            counts.push(number + 1);
            private_dirty.push(Memory::of(std::process::id())?.private_dirty);
        }
    }
    let wanted = if matches!(kind.as_str(), "away" | "gone") { u64::from(step * STEPS) } else { 0 };
    if rig.digests.unwritten() != wanted {
        return Err(io::Error::other(format!("{} are unwritten", rig.digests.unwritten())));
    }
    println!("ready {}", json!({ "devices": counts, "private_dirty": private_dirty }));
    Ok(())
}

/// Answers the tracker's batches: a directory takes them, or is away.
fn answer(rig: &mut Rig, ms: u64, takes: bool) {
    loop {
        let batches = rig.hand_out(at(ms));
        let count: usize = batches.iter().map(|batch| batch.entries.len()).sum();
        if count == 0 {
            return;
        }
        let away = || Err(DirectoryError::Unreachable("away".into()));
        let result = if takes { Ok(vec![Put::Taken; count]) } else { away() };
        let replies = super::rig::Replies { written: vec![result], compare: Vec::new() };
        rig.hear(at(ms), replies);
        if !takes {
            return;
        }
    }
}

//! A directory that is away for an hour while ten percent of a million devices flap each second.
//!
//! The hour is simulated, not waited for; the work is real. If the work takes longer than its time
//! the hour is cut short, and the result says how long it was. Then the directory comes back, and
//! what it takes until it agrees is measured.

use super::DEVICES;
use super::rig::{Rig, at, nanos_each, worked};
use crate::clock;
use crate::measure::memory::Memory;
use crate::results::Outcome;
use crate::scenario::Scale;
use model::ports::presence::directory::DirectoryError;
use presence::{FailedCall, MemoryDirectory};
use serde_json::json;
use std::io;
use std::time::Duration;

const HOUR_S: u64 = 3_600;
/// Of so many devices one flaps each second.
const ONE_IN: u32 = 10;
/// The shard turns so often.
const TURN_MS: u64 = 100;
const TIME_MAX: Duration = Duration::from_secs(170);

/// The hour, and the return.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let devices = scale.of(DEVICES);
    let (mut rig, mut table) = (Rig::new(devices, true, "process"), MemoryDirectory::new());
    for number in 0..devices {
        rig.flap(at(0), number);
    }
    let mut ms = rig.settle(0, &mut table)?;
    let before = private_dirty()?;
    let mut most = before;
    table.fail(100_000, DirectoryError::Unreachable("away".into()), FailedCall::Before);
    let (said, began, first_ms) = (rig.said, clock::now(), ms);
    let worked_before = worked();
    let mut unwritten_max = 0;
    let each = u64::from(devices / ONE_IN) * TURN_MS / 1_000;
    while ms < first_ms + HOUR_S * 1_000 && clock::since(began) < TIME_MAX {
        (0..each).for_each(|_| _ = rig.flap_any(at(ms)));
        rig.turn(at(ms), &mut table);
        ms += TURN_MS;
        if (ms / TURN_MS).is_multiple_of(100) {
            unwritten_max = unwritten_max.max(rig.digests.unwritten());
            most = most.max(private_dirty()?);
        }
    }
    let (flapped, took) = (rig.said - said, worked().saturating_sub(worked_before));
    let standing = rig.replicator.standing(at(ms));
    table.heal();
    let (written, began, back_ms) = (rig.counter("directory_records_written_total"), worked(), ms);
    let ms = rig.settle(ms, &mut table)?;
    let settled = worked().saturating_sub(began);
    let written = rig.counter("directory_records_written_total") - written;
    let audit = rig.audit(&mut table, 0)?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "flapping a second": devices / ONE_IN, "turn_ms": TURN_MS,
        "wanted_s": HOUR_S, "directory": "in the process", "settle_ms": 0,
    }));
    outcome.figure("simulated seconds", (back_ms - first_ms) as f64 / 1_000.0, "s");
    outcome.figure("transitions", flapped as f64, "");
    outcome.figure("CPU of a transition", nanos_each(took, flapped), "ns");
    outcome.figure("most unwritten", unwritten_max as f64, "principals");
    outcome.figure("memory that grew", (most - before) as f64 / 1e6, "MB");
    outcome.figure("written after the return", written as f64, "records");
    outcome.figure("CPU to write them", settled.as_secs_f64(), "s");
    outcome.figure("until it agreed", (ms - back_ms) as f64 / 1_000.0, "simulated s");
    outcome.figure("persistent differences", audit.persistent.len() as f64, "");
    outcome.detail("lag_ms at the return", standing.lag_ms);
    outcome.detail("circuit openings", rig.counter("directory_circuit_openings_total"));
    Ok(outcome)
}

fn private_dirty() -> io::Result<u64> {
    Ok(Memory::of(std::process::id())?.private_dirty)
}

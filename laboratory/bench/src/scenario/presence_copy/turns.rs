//! Cost of a transition for the shard: noted, handed out in a batch, and settled by its answer.
//!
//! CPU of this thread, by the scheduler's clock for it. The directory's part is left out: the
//! answer is made up. A transition brings its principal by value, as the hub's does, and the copy
//! of it is in the figure.

use super::rig::{Rig, at, nanos_each, worked};
use crate::results::Outcome;
use crate::scenario::Scale;
use model::ports::presence::directory::Put;
use serde_json::json;
use std::io;
use std::time::Duration;

const KNOWN: u32 = 200_000;
const ROUNDS: u32 = 1_000;
/// Transitions that a tracker hands out at a time.
const EACH: u32 = 2_000;

/// Where the time of a transition went.
struct Spans {
    noted: Duration,
    handed_out: Duration,
    settled: Duration,
    count: u64,
}

/// With a directory, and without one.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let rounds = scale.of(ROUNDS);
    let mut outcome = Outcome::new(json!({
        "devices": KNOWN, "transitions": rounds * EACH, "batch": EACH,
    }));
    let with = measure(true, rounds)?;
    let all = with.noted + with.handed_out + with.settled;
    outcome.figure("CPU of a transition on its shard", nanos_each(all, with.count), "ns");
    outcome.figure("noted", nanos_each(with.noted, with.count), "ns");
    outcome.figure("handed out in a batch", nanos_each(with.handed_out, with.count), "ns");
    outcome.figure("settled by its answer", nanos_each(with.settled, with.count), "ns");
    let without = measure(false, rounds)?;
    let each = nanos_each(without.noted, without.count);
    outcome.figure("noted without a directory", each, "ns");
    Ok(outcome)
}

fn measure(copies: bool, rounds: u32) -> io::Result<Spans> {
    let mut rig = Rig::new(KNOWN, copies, "none");
    let (mut ms, mut next) = (0, 0);
    // All are known and settled before anything is measured.
    for number in 0..KNOWN {
        rig.flap(at(ms), number);
        if number % EACH == EACH - 1 {
            ms += 100;
            answer(&mut rig, ms);
        }
    }
    let mut spans = Spans {
        noted: Duration::ZERO,
        handed_out: Duration::ZERO,
        settled: Duration::ZERO,
        count: 0,
    };
    for _ in 0..rounds {
        ms += 100;
        let began = worked();
        for _ in 0..EACH {
            rig.flap(at(ms), next % KNOWN);
            next = next.wrapping_add(7_919);
        }
        spans.noted += worked().saturating_sub(began);
        let began = worked();
        let batches = rig.hand_out(at(ms + 50));
        spans.handed_out += worked().saturating_sub(began);
        let count: usize = batches.iter().map(|batch| batch.entries.len()).sum();
        if copies && count != EACH as usize {
            return Err(io::Error::other(format!("a batch of {count}")));
        }
        let replies = taken(count);
        let began = worked();
        if copies {
            rig.hear(at(ms + 51), replies);
        }
        spans.settled += worked().saturating_sub(began);
        spans.count += u64::from(EACH);
    }
    Ok(spans)
}

fn answer(rig: &mut Rig, ms: u64) {
    let batches = rig.hand_out(at(ms));
    let count = batches.iter().map(|batch| batch.entries.len()).sum();
    if count > 0 {
        rig.hear(at(ms), taken(count));
    }
}

fn taken(count: usize) -> super::rig::Replies {
    let written = vec![Ok(vec![Put::Taken; count])];
    super::rig::Replies { written, compare: Vec::new() }
}

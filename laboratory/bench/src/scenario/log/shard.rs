//! A thread that plays the shard: an open loop of appends, its turns measured.
//!
//! A turn takes the completions that are there and submits what is due; between turns it sleeps as
//! a shard sleeps in its poller. An append is due at a fixed time whatever happened before, and its
//! acknowledgement is counted from there, so that a stall is felt by all that came meanwhile.

use super::drive::acknowledged;
use super::lane::{Lane, Ordered};
use super::traffic::Traffic;
use crate::clock;
use crate::measure::slope;
use serde_json::{Value, json};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Appends a second.
pub const RATE: u32 = 5_000;
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / RATE as u64);
/// Most appends under way: more than a second's is a log that does not keep up.
const BEHIND_MAX: u64 = RATE as u64 * 4;

/// Times that the shard measured, in microseconds.
#[derive(Default)]
pub struct Felt {
    /// A turn's own work, from waking to sleeping.
    pub turns: Vec<f64>,
    /// From an append's due time to its submission.
    pub late: Vec<f64>,
    /// From an append's due time to its acknowledgement.
    pub acks: Vec<f64>,
}

/// The quantiles that are reported, by name and share.
pub const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("longest", 1.0)];

impl Felt {
    /// Each kind of time by name.
    pub fn kinds(&self) -> [(&'static str, &[f64]); 3] {
        [("turn", &self.turns), ("late", &self.late), ("acknowledgement", &self.acks)]
    }

    /// All quantiles.
    pub fn told(&self) -> Value {
        let mut told = json!({ "turns": self.turns.len(), "appends": self.acks.len() });
        for (kind, times) in self.kinds() {
            let all = QUANTILES.map(|(_, share)| slope::quantile(times, share).round());
            told[format!("{kind}_us_p50_p99_p999_max")] = json!(all);
        }
        told
    }
}

/// Plays the shard for `time`, and until `over` is set.
pub fn play(
    lane: &mut dyn Lane,
    traffic: &mut Traffic,
    time: Duration,
    over: &AtomicBool,
) -> io::Result<Felt> {
    let began = clock::now();
    let first = traffic.messages();
    let due = |number: u64| began + PERIOD * (number as u32);
    let (mut felt, mut completions) = (Felt::default(), Vec::new());
    let (mut submitted, mut completed) = (0u64, 0u64);
    let mut woken = began;
    loop {
        let ends = clock::since(began) >= time && over.load(Ordering::Relaxed);
        for completion in &completions {
            acknowledged(completion, first + completed + 1)?;
            felt.acks.push(us(due(completed), woken));
            completed += 1;
        }
        let mut burst: Vec<Ordered> = Vec::new();
        while !ends && due(submitted) <= woken {
            burst.push((traffic.messages() + 1, traffic.append()));
            felt.late.push(us(due(submitted), woken));
            submitted += 1;
        }
        if !burst.is_empty() {
            lane.submit(burst)?;
        }
        if submitted - completed > BEHIND_MAX {
            return Err(io::Error::other("the log does not keep up with the shard"));
        }
        if ends && submitted == completed {
            return Ok(felt);
        }
        let sleeps = clock::now();
        felt.turns.push(us(woken, sleeps));
        let next = if ends { sleeps + Duration::from_millis(100) } else { due(submitted) };
        lane.mailbox().take(next.saturating_duration_since(sleeps), &mut completions);
        woken = clock::now();
    }
}

fn us(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e6
}

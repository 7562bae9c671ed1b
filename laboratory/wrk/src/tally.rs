//! Counts of a test: by each thread for its clients, then added up.
//!
//! Times are microseconds. The invariant is in [`accounts`](Tally::accounts): every call and every
//! request has exactly one outcome, or is open.

use crate::script::{Errors, ScriptSummary};
use lab::cause::{Cause, Phase};
use lab::run::Balance;
use lab::timing::{Spectrum, Timed};
use load::Snapshot;

/// Counts of a test.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// Counts that the laboratory makes of any fleet. Binds, heartbeats and messages are requests.
    pub seen: Snapshot,
    /// Requests answered after the timeout.
    pub late: u64,
    /// Times of all requests.
    pub latency: Timed,
    /// Answers a second, of each thread in each tenth of one.
    pub per_s: Spectrum,
}

impl Tally {
    /// Adds what another thread counted.
    pub fn add(&mut self, other: &Tally) {
        self.seen.merge(&other.seen);
        self.late += other.late;
        self.latency.corrected.add(&other.latency.corrected);
        self.latency.raw.add(&other.latency.raw);
        self.per_s.add(&other.per_s);
    }

    /// wrk's five kinds of errors.
    pub fn errors(&self) -> Errors {
        let seen = &self.seen;
        let mut errors = Errors { status: seen.answered_badly, ..Errors::default() };
        errors.timeout = seen.unanswered;
        for (phase, cause, count) in seen.causes.iter().filter(|(_, cause, _)| cause.is_error()) {
            match (phase, cause) {
                (_, Cause::SynTimedOut | Cause::LayersTimedOut | Cause::BindTimedOut) => {
                    errors.timeout += count;
                }
                (Phase::Connect | Phase::Layers, _) => errors.connect += count,
                (_, Cause::SlowReader) => errors.write += count,
                (_, Cause::BindRefused) => {} // it has a status
                _ => errors.read += count,
            }
        }
        errors
    }

    /// Argument of the script's `done`.
    pub fn summary(&self) -> ScriptSummary {
        ScriptSummary {
            duration_us: u64::try_from(self.seen.elapsed.as_micros()).unwrap_or(u64::MAX),
            requests: self.seen.answered,
            bytes: self.seen.bytes_in,
            errors: self.errors(),
        }
    }

    /// The sums that must agree.
    pub fn accounts(&self) -> Vec<Balance> {
        let account = |what: &str, total, parts: &[(&str, u64)]| Balance {
            what: what.to_owned(),
            total,
            parts: parts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        };
        let of = |phases: &[Phase]| {
            let ends = self.seen.causes.iter().filter(|(phase, ..)| phases.contains(phase));
            ends.map(|(_, _, count)| count).sum::<u64>()
        };
        let seen = &self.seen;
        let (answered, late, lost) = (seen.pongs, seen.late_pongs, seen.lost_pings);
        vec![
            account(
                "attempts",
                seen.attempts,
                &[
                    ("connecting", seen.connecting),
                    ("not connected", of(&[Phase::Connect, Phase::Layers])),
                    ("asking", seen.asking),
                    ("ended unbound", of(&[Phase::Bind])),
                    ("online", seen.online_now),
                    ("ended", of(&[Phase::Online])),
                ],
            ),
            account(
                "requests",
                seen.asked,
                &[
                    ("answered", seen.answered - self.late),
                    ("late", self.late),
                    ("lost", seen.lost_requests),
                    ("open", seen.open_requests),
                ],
            ),
            account(
                "heartbeats",
                seen.pings,
                &[
                    ("answered", answered),
                    ("late", late),
                    ("lost", lost),
                    ("open", seen.pings.saturating_sub(answered + late + lost)),
                ],
            ),
        ]
    }
}

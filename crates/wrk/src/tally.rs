//! Counts of a test: by each thread for its clients, then added up.
//!
//! Times are microseconds. The invariant is in [`accounts`](Tally::accounts): every call and every
//! request has exactly one outcome, or is open.

use crate::script::{Errors, ScriptSummary};
use lab::cause::{Cause, Causes, Phase};
use lab::run::Balance;
use lab::timing::{Spectrum, Timed, Timings};
use load::effort::ThreadUse;
use std::collections::BTreeMap;
use std::time::Duration;

/// What was counted.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// Time since the first thread began.
    pub elapsed: Duration,
    /// Clients.
    pub planned: u64,
    /// Calls made.
    pub attempts: u64,
    /// Calls of clients that had been connected or refused before.
    pub reconnects: u64,
    /// Calls under way, layers included.
    pub connecting: u64,
    /// Calls that came through, layers included.
    pub established: u64,
    /// Binds under way.
    pub asking: u64,
    /// Times a client was bound; without a Bind: its connection was open.
    pub bound: u64,
    /// Clients that are bound.
    pub online: u64,
    /// Ends of calls and connections.
    pub causes: Causes,
    /// Refusals and kicks by code, and what else is known of ends.
    pub codes: BTreeMap<String, u64>,
    /// Requests sent; Binds, heartbeats and messages are requests.
    pub sent: u64,
    /// Requests answered in time.
    pub answered: u64,
    /// Requests answered after the timeout.
    pub late: u64,
    /// Requests whose connection ended before the answer.
    pub lost: u64,
    /// Requests without an answer so far.
    pub open: u64,
    /// Times that a client waited for longer than the timeout.
    pub unanswered: u64,
    /// Answers that say no.
    pub refusals: u64,
    /// Heartbeats among the requests: sent, in time, late, lost.
    pub beats: [u64; 4],
    /// Messages that came unasked.
    pub messages: u64,
    /// Requests of the plan (`-R`) that were not sent in time.
    pub unsent: u64,
    /// Bytes received and sent, layers included.
    pub bytes: (u64, u64),
    /// Times of all requests.
    pub latency: Timed,
    /// Times by what was done.
    pub timings: Timings,
    /// Answers a second, of each thread in each tenth of one.
    pub per_s: Spectrum,
    /// What each thread spent.
    pub threads: Vec<ThreadUse>,
}

impl Tally {
    /// Adds what another thread counted.
    pub fn add(&mut self, other: &Tally) {
        self.elapsed = self.elapsed.max(other.elapsed);
        let sums = [
            (&mut self.planned, other.planned),
            (&mut self.attempts, other.attempts),
            (&mut self.reconnects, other.reconnects),
            (&mut self.connecting, other.connecting),
            (&mut self.established, other.established),
            (&mut self.asking, other.asking),
            (&mut self.bound, other.bound),
            (&mut self.online, other.online),
            (&mut self.sent, other.sent),
            (&mut self.answered, other.answered),
            (&mut self.late, other.late),
            (&mut self.lost, other.lost),
            (&mut self.open, other.open),
            (&mut self.unanswered, other.unanswered),
            (&mut self.refusals, other.refusals),
            (&mut self.messages, other.messages),
            (&mut self.unsent, other.unsent),
            (&mut self.bytes.0, other.bytes.0),
            (&mut self.bytes.1, other.bytes.1),
        ];
        sums.into_iter().for_each(|(mine, theirs)| *mine += theirs);
        self.beats.iter_mut().zip(other.beats).for_each(|(mine, theirs)| *mine += theirs);
        self.causes.add(&other.causes);
        for (code, count) in &other.codes {
            *self.codes.entry(code.clone()).or_default() += count;
        }
        self.latency.corrected.add(&other.latency.corrected);
        self.latency.raw.add(&other.latency.raw);
        self.timings.add(&other.timings);
        self.per_s.add(&other.per_s);
        self.threads.extend_from_slice(&other.threads);
    }

    /// Requests answered, late ones too.
    pub fn requests(&self) -> u64 {
        self.answered + self.late
    }

    /// wrk's five kinds of errors.
    pub fn errors(&self) -> Errors {
        let mut errors = Errors { status: self.refusals, ..Errors::default() };
        errors.timeout = self.unanswered;
        for (phase, cause, count) in self.causes.iter().filter(|(_, cause, _)| cause.is_error()) {
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

    /// What the script's `done` is told.
    pub fn summary(&self) -> ScriptSummary {
        ScriptSummary {
            duration_us: u64::try_from(self.elapsed.as_micros()).unwrap_or(u64::MAX),
            requests: self.requests(),
            bytes: self.bytes.0,
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
            let ends = self.causes.iter().filter(|(phase, ..)| phases.contains(phase));
            ends.map(|(_, _, count)| count).sum::<u64>()
        };
        let [sent, answered, late, lost] = self.beats;
        vec![
            account(
                "attempts",
                self.attempts,
                &[
                    ("connecting", self.connecting),
                    ("not connected", of(&[Phase::Connect, Phase::Layers])),
                    ("asking", self.asking),
                    ("ended unbound", of(&[Phase::Bind])),
                    ("online", self.online),
                    ("ended", of(&[Phase::Online])),
                ],
            ),
            account(
                "requests",
                self.sent,
                &[
                    ("answered", self.answered),
                    ("late", self.late),
                    ("lost", self.lost),
                    ("open", self.open),
                ],
            ),
            account(
                "heartbeats",
                sent,
                &[
                    ("answered", answered),
                    ("late", late),
                    ("lost", lost),
                    ("open", sent.saturating_sub(answered + late + lost)),
                ],
            ),
        ]
    }

    /// Whether a thread was too busy for the figures to be the target's alone.
    pub fn is_saturated(&self) -> bool {
        self.threads.iter().any(ThreadUse::is_saturated)
    }
}

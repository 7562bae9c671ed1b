//! State of a run while it goes on, and what is being asked of who looks on.
//!
//! Fed by plain values of the laboratory once a second. It does not know where they come from nor
//! how they look. Bounded: rows of history, notes and machines have limits with names.

use crate::keys::Asking;
use crate::rose::Rose;
use lab::cause::{Cause, Causes, Phase};
use lab::run::{Counts, Finding, Gravity, Note};
use lab::series::Reading;
use std::collections::{BTreeMap, VecDeque};

/// Seconds of history that charts show, at most; a chart shows the last ones that fit.
pub const HISTORY_MAX: usize = 600;
/// Notes that are kept for the screen.
pub const NOTES_MAX: usize = 50;
/// Machines that are shown.
pub const MACHINES_MAX: usize = 32;

/// Parts that do not change while a run goes on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Title {
    /// The plan's name.
    pub name: String,
    /// Target of the test, without secrets.
    pub target: String,
}

/// How a run stands at the end of a second.
#[derive(Clone, Copy, Debug)]
pub struct RunFrame<'a> {
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// Place of the stage, from 0.
    pub stage: usize,
    /// Names of all stages.
    pub stages: &'a [String],
    /// Activity of the stage, in a word: `arriving`, `holding`, `paused`.
    pub part: &'a str,
    /// Clients that shall be there in this stage.
    pub clients: u64,
    /// When this part ends by itself at the latest, milliseconds since the run began.
    pub until_ms: u64,
    /// Counts of all clients, from the beginning on.
    pub counts: &'a Counts,
    /// Counts of each group's clients.
    pub groups: &'a BTreeMap<String, Counts>,
    /// Figures by full names: `clients.bind.p99`, `tester.cpu.busy` ...
    pub reading: &'a Reading,
    /// Notes of this second.
    pub notes: &'a [Note],
    /// Findings so far.
    pub findings: &'a [Finding],
    /// Why figures cannot be trusted; empty: they can.
    pub saturation: &'a [String],
}

/// One second, as charts show it.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Second {
    /// Clients bound.
    pub online: f64,
    /// Clients that became bound, a second.
    pub connects: f64,
    /// Errors, a second.
    pub errors: f64,
    /// Messages sent, a second.
    pub sent: f64,
    /// Messages received, a second.
    pub received: f64,
    /// The timing that mattered most in that second, and its 99th percentile, microseconds;
    /// `None`: nothing was timed.
    pub p99: Option<(&'static str, f64)>,
}

/// Totals that rates are made of.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Totals {
    bound: f64,
    errors: f64,
    sent: f64,
    received: f64,
}

/// A timing within the last second, microseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct LastSecond {
    /// Its name: `bind`, `delivery` ...
    pub name: &'static str,
    /// Median.
    pub p50: f64,
    /// Of a hundred one was longer.
    pub p99: f64,
}

/// Timings, those that matter most while something happens first.
const TIMINGS: [&str; 6] = ["delivery", "publish", "request", "ready", "bind", "heartbeat"];

/// State of a run while it goes on.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RunState {
    pub(crate) title: Title,
    pub(crate) at_ms: u64,
    pub(crate) stage: usize,
    pub(crate) stages: Vec<String>,
    pub(crate) part: String,
    pub(crate) clients: u64,
    /// When the part began.
    pub(crate) part_ms: u64,
    pub(crate) until_ms: u64,
    /// Clients bound when the part began.
    pub(crate) part_online: f64,
    pub(crate) online: f64,
    pub(crate) open: f64,
    pub(crate) attempts: f64,
    pub(crate) errors: f64,
    pub(crate) causes: Causes,
    pub(crate) groups: Vec<(String, u64)>,
    pub(crate) reading: Reading,
    pub(crate) rose: Rose,
    pub(crate) history: VecDeque<Second>,
    pub(crate) timings: Vec<LastSecond>,
    pub(crate) notes: VecDeque<Note>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) saturation: Vec<String>,
    /// Seconds whose figures could not be trusted, and why the last of them.
    pub(crate) saturated: (u32, String),
    totals: Option<Totals>,
    pub(crate) asking: Asking,
}

impl RunState {
    /// Makes a state before anything was seen.
    pub fn new(title: Title) -> RunState {
        RunState { title, ..RunState::default() }
    }

    /// Takes a second in.
    pub fn see(&mut self, frame: &RunFrame) {
        let seconds = frame.at_ms.saturating_sub(self.at_ms).max(1) as f64 / 1_000.0;
        self.online = frame.counts.online as f64;
        if self.part != frame.part || self.stage != frame.stage {
            self.part_ms = if self.stages.is_empty() { 0 } else { self.at_ms };
            self.part_online = self.history.back().map_or(0.0, |second| second.online);
            frame.part.clone_into(&mut self.part);
        }
        self.at_ms = frame.at_ms;
        self.stage = frame.stage;
        if self.stages != frame.stages {
            self.stages = frame.stages.to_vec();
        }
        (self.clients, self.until_ms) = (frame.clients, frame.until_ms);
        self.open = frame.counts.open as f64;
        self.attempts = frame.counts.attempts as f64;
        self.errors = frame.counts.causes.errors() as f64;
        self.causes = frame.counts.causes.clone();
        let groups = frame.groups.iter();
        self.groups = groups.map(|(name, counts)| (name.clone(), counts.planned)).collect();
        self.reading = frame.reading.clone();
        self.rose.see(frame.reading);
        self.timings = timings(frame.reading);
        for note in frame.notes {
            if self.notes.len() == NOTES_MAX {
                self.notes.pop_front();
            }
            self.notes.push_back(note.clone());
        }
        self.findings = frame.findings.to_vec();
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.gravity));
        self.saturation = frame.saturation.to_vec();
        if let Some(why) = self.saturation.first() {
            self.saturated = (self.saturated.0 + 1, why.clone());
        }
        self.remember(frame.counts, seconds);
    }

    /// The last second.
    pub(crate) fn last(&self) -> Second {
        self.history.back().copied().unwrap_or_default()
    }

    /// How much of the present part is done, 0 to 1; `None`: that is not known.
    pub(crate) fn done(&self) -> Option<f64> {
        let way = |from: f64, to: f64, now: f64| ((now - from) / (to - from)).clamp(0.0, 1.0);
        match self.part.as_str() {
            "arriving" if self.clients as f64 > self.part_online => {
                Some(way(self.part_online, self.clients as f64, self.online))
            }
            "paused" => None,
            _ if self.until_ms > self.part_ms => {
                Some(way(self.part_ms as f64, self.until_ms as f64, self.at_ms as f64))
            }
            _ => None,
        }
    }

    /// Errors, the most frequent first.
    pub(crate) fn worst(&self) -> Vec<(Phase, Cause, u64)> {
        let errors = self.causes.iter().filter(|(_, cause, _)| cause.is_error());
        let mut errors: Vec<_> = errors.collect();
        errors.sort_by_key(|&(_, _, count)| std::cmp::Reverse(count));
        errors
    }

    /// Names of the machines that there are figures of: the target first.
    pub(crate) fn machines(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (column, _) in self.reading.iter() {
            let Some((whose, figure)) = column.name.split_once('.') else { continue };
            let host = ["cpu.", "memory.", "process.", "tcp.", "turn_us", "busiest", "sockets."];
            if !host.iter().any(|start| figure.starts_with(start)) || names.contains(&whose) {
                continue;
            }
            if names.len() < MACHINES_MAX && !["clients", "server", "redis"].contains(&whose) {
                names.push(whose);
            }
        }
        // Of agents together there is only the worst of each figure.
        let agents = names.iter().any(|name| !["target", "tester"].contains(name));
        if agents && self.reading.of("tester.cpu.busy").is_none() {
            names.retain(|name| *name != "tester");
        }
        names.sort_by_key(|&name| (name != "target", name != "tester"));
        names
    }

    /// The verdict so far, in a sentence, and how grave it is.
    pub(crate) fn verdict(&self) -> (Gravity, String) {
        if let Some(why) = self.saturation.first() {
            return (
                Gravity::Invalid,
                format!("the tester is saturated, figures are not valid: {why}"),
            );
        }
        match self.findings.first() {
            None if self.saturated.0 > 0 => {
                let (seconds, why) = &self.saturated;
                (Gravity::Warning, format!("the tester was saturated for {seconds} s, last: {why}"))
            }
            Some(finding) if finding.evidence.is_empty() => (finding.gravity, finding.what.clone()),
            Some(finding) => (finding.gravity, format!("{} {}", finding.what, finding.evidence)),
            None if self.errors > 0.0 => {
                (Gravity::Warning, "no limit was met so far, but there are errors".to_owned())
            }
            None => (Gravity::Note, "no limit was met so far".to_owned()),
        }
    }

    fn remember(&mut self, counts: &Counts, seconds: f64) {
        let totals = Totals {
            bound: counts.bound as f64,
            errors: counts.causes.errors() as f64,
            sent: counts.figure("messages.sent") + counts.figure("requests.sent"),
            received: counts.figure("messages.received") + counts.figure("requests.answered"),
        };
        let before = self.totals.replace(totals).unwrap_or_default();
        let rate = |now: f64, then: f64| (now - then).max(0.0) / seconds;
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(Second {
            online: self.online,
            connects: rate(totals.bound, before.bound),
            errors: rate(totals.errors, before.errors),
            sent: rate(totals.sent, before.sent),
            received: rate(totals.received, before.received),
            p99: self.timings.first().map(|now| (now.name, now.p99)),
        });
    }
}

fn timings(reading: &Reading) -> Vec<LastSecond> {
    let known = TIMINGS.iter().filter_map(|name| {
        let p50 = reading.of(&format!("clients.{name}.p50"))?;
        let p99 = reading.of(&format!("clients.{name}.p99"))?;
        Some(LastSecond { name, p50, p99 })
    });
    known.collect()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

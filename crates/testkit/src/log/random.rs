//! Seeded runs: all calls in any order against the reference, with starts and crashes between.
//!
//! The reference may be in doubt: a write that was not answered when the store died, or that was
//! answered with `Failed`, may be there or not. So it is a set of candidates, each a
//! [`MemoryLog`]: whatever the store answers strikes out those that would have answered otherwise.
//! Invariant: the store is right as long as one candidate is left. A failure prints the seed and
//! the last calls.

mod calls;
mod follower;

use super::{CallAnswer, KilledWork, MemoryLog, Subject};
use base::prng::Prng;
use calls::{Caller, brief};
use follower::Follower;
use model::ports::log::{Call, Done, StoreError};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

/// Calls that a failure prints.
const TOLD_MAX: usize = 20;

/// One store and its reference on their way.
struct Run<'a> {
    subject: &'a mut dyn Subject,
    follower: Follower,
    caller: Caller,
    prng: Prng,
    past: Past,
}

/// The last steps, printed when a run panics, wherever it does.
struct Past {
    seed: u64,
    /// Where the crash is, if there is one only.
    point: Option<u32>,
    step: u64,
    last: VecDeque<String>,
}

impl Past {
    fn tell(&mut self, what: String) {
        if self.last.len() == TOLD_MAX {
            self.last.pop_front();
        }
        self.last.push_back(format!("{:>6} {what}", self.step));
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, ", self.seed)?;
        if let Some(point) = self.point {
            write!(f, "point {point}, ")?;
        }
        write!(f, "step {}", self.step)
    }
}

impl Drop for Past {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{self}; the last calls:");
            for line in &self.last {
                eprintln!("{line}");
            }
        }
    }
}

/// Runs so many steps, each some calls at once or a start, with `crashes` also a crash at
/// whatever point. The store must be empty. If it has retention, then none by age, and it may
/// drop only while it tidies.
///
/// # Panics
/// When the store answers what no log may answer.
pub fn random(seed: u64, steps: u64, subject: &mut dyn Subject, crashes: bool) {
    let mut rules = subject.options().retention.values();
    assert!(rules.all(|rule| rule.age_s_max.is_none()), "nobody knows at which second it drops");
    let mut run = Run::new(seed, None, subject);
    for step in 1..=steps {
        run.past.step = step;
        run.step(crashes);
    }
    run.past.tell("restart".into());
    run.subject.restart();
    run.started();
}

/// Steps of [`crash_at_every_point`] before the crash and after.
const STEPS_BEFORE: u64 = 40;
const STEPS_AFTER: u64 = 10;

/// The same calls with one crash, at each point in turn: while it carries out calls, tidies, is
/// closed and opened, and is opened after a crash. `make` makes an empty store.
///
/// # Panics
/// As [`random`].
pub fn crash_at_every_point(
    seed: u64,
    points: Range<u32>,
    make: &mut dyn FnMut() -> Box<dyn Subject>,
) {
    for point in points {
        for kind in 0..4 {
            let mut subject = make();
            let mut run = Run::new(seed, Some(point), subject.as_mut());
            for step in 1..=STEPS_BEFORE + STEPS_AFTER {
                run.past.step = step;
                run.step(false);
                if step == STEPS_BEFORE {
                    let now_s = run.subject.now_s();
                    let work = match kind {
                        0 => KilledWork::Calls(run.caller.batch(now_s)),
                        1 => KilledWork::Tidy(now_s),
                        2 => KilledWork::Restart,
                        _ => KilledWork::Recovery,
                    };
                    run.crash(work, point);
                }
            }
            run.past.tell("restart".into());
            run.subject.restart();
            run.started();
        }
    }
}

impl<'a> Run<'a> {
    fn new(seed: u64, point: Option<u32>, subject: &'a mut dyn Subject) -> Run<'a> {
        Run {
            caller: Caller::new(seed, subject.options()),
            follower: Follower::new(MemoryLog::new(subject.options().clone()), &*subject),
            subject,
            prng: Prng::new(seed ^ 0x7261_6e64),
            past: Past { seed, point, step: 0, last: VecDeque::new() },
        }
    }

    fn step(&mut self, crashes: bool) {
        let now_s = self.subject.now_s();
        match self.prng.below(100) {
            0..4 => {
                self.past.tell("restart".into());
                self.subject.restart();
                self.started();
            }
            4..10 => {
                let now_s = now_s + self.prng.below(5) as u32;
                self.past.tell(format!("tidy at {now_s}"));
                self.subject.tidy(now_s);
                let now_s = self.subject.now_s();
                self.follower.retain(now_s);
            }
            10..20 if crashes => self.crash_somewhere(),
            20..24 => self.audit(),
            _ => {
                let calls = self.caller.batch(now_s);
                let answers = self.ask(calls.clone());
                let answers = answers.into_iter().map(Some).collect();
                self.judge(calls, answers);
            }
        }
        if self.follower.has_failed() && self.prng.one_in(4) {
            self.past.tell("restart after a failure".into());
            self.subject.restart();
            self.started();
        }
    }

    fn ask(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        for call in &calls {
            self.past.tell(brief(call));
        }
        let count = calls.len();
        let answers = self.subject.call(calls);
        assert_eq!(answers.len(), count, "{}: answers", self.past);
        answers
    }

    fn crash_somewhere(&mut self) {
        let now_s = self.subject.now_s();
        let work = match self.prng.below(8) {
            0 => KilledWork::Nothing,
            1 => KilledWork::Restart,
            2 => KilledWork::Recovery,
            // Nobody could say how much was dropped.
            3..=4 if !self.subject.options().retention.is_empty() => KilledWork::Nothing,
            3..=4 => KilledWork::Tidy(now_s + self.prng.below(3) as u32),
            _ => KilledWork::Calls(self.caller.batch(now_s)),
        };
        let point = match self.prng.below(3) {
            0 => self.prng.below(4),
            1 => self.prng.below(20),
            _ => self.prng.below(100),
        };
        self.crash(work, point as u32);
    }

    fn crash(&mut self, work: KilledWork, point: u32) {
        let calls = match &work {
            KilledWork::Calls(calls) => calls.clone(),
            _ => Vec::new(),
        };
        if calls.is_empty() {
            self.past.tell(format!("{work:?}"));
        }
        calls.iter().for_each(|call| self.past.tell(brief(call)));
        self.past.tell(format!("^ crash at point {point}"));
        let answers = self.subject.crash(work, point);
        let now_s = self.subject.now_s();
        self.follower.advance(now_s);
        assert_eq!(answers.len(), calls.len(), "{}: answers", self.past);
        let verdict = self.follower.cut_short(calls, answers);
        self.verdict(verdict);
        self.follower.crashed();
        self.started();
    }

    /// After a start: everything is looked at.
    fn started(&mut self) {
        let verdict = self.follower.settle(&self.subject.restored());
        self.verdict(verdict);
        self.audit();
    }

    fn audit(&mut self) {
        let calls = self.caller.audit();
        self.past.tell("audit".into());
        let answers = self.subject.call(calls.clone());
        self.judge(calls, answers.into_iter().map(Some).collect());
    }

    fn judge(&mut self, calls: Vec<Call>, answers: Vec<CallAnswer>) {
        let now_s = self.subject.now_s();
        self.follower.advance(now_s);
        let verdict = self.follower.judge(calls, answers);
        self.verdict(verdict);
    }

    fn verdict(&self, verdict: Result<(), String>) {
        if let Err(why) = verdict {
            panic!("{}: {why}", self.past);
        }
    }
}

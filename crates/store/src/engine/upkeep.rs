//! Upkeep beside the writes: checkpoints, compaction, retention; slice by slice.
//!
//! One upkeep task at a time is out. It reads and writes state and reads the log, on any thread;
//! what must be written to the log is written by the engine's thread when it comes back.
//! Checkpoints and the rest take turns, so neither starves. Invariant: state is changed by upkeep
//! tasks alone.

pub(super) mod bulk;
pub(super) mod checkpoint;
pub(super) mod compaction;
mod flush;
pub(super) mod retention;
pub(super) mod room;

use super::Engine;
use super::index::once::{Forget, Forgot};
use super::state::{State, StateChange, StateError};
use crate::log::Reader;
use checkpoint::{Checkpoint, Slice};
use compaction::{Compaction, Scan, Scanned};
use model::{event, tell};
use retention::{Sweep, Swept, Trim, Trimmed};
use room::{Weighed, Weighing};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tasks under way.
#[derive(Default)]
pub(super) struct Upkeep {
    /// An upkeep task is out.
    busy: bool,
    /// The rest had the last turn.
    turn: bool,
    /// Of the rest, retention had the last turn.
    lap: bool,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Unix second of the last checkpoint that failed.
    pub(super) failed_s: Option<u32>,
    pub(super) compaction: Option<Compaction>,
    /// No compaction begins before this Unix second.
    pub(super) compact_from_s: u32,
    /// How long the last rest of compaction was, seconds; 0: it found room since.
    pub(super) rest_s: u32,
    /// Segments into which compaction has written.
    pub(super) settled: BTreeSet<u32>,
    /// Segments whose compaction did not work out, until the next restart.
    pub(super) refused: BTreeSet<u32>,
    /// Segments in which nothing is alive and of which state knows nothing any more.
    pub(super) dead: Vec<u32>,
    /// Where forgetting once keys goes on.
    pub(super) forget_from: Option<Vec<u8>>,
    /// Unix second at which it last came to its end.
    pub(super) forgot_s: Option<u32>,
    pub(super) weighing: Option<Weighing>,
    /// No weighing begins before this Unix second.
    pub(super) weigh_from_s: u32,
    /// Entries that retention dropped, and of these, those that gave way.
    pub(super) dropped: u64,
    pub(super) gave_way: u64,
    pub(super) sweep: Option<Sweep>,
    /// Unix second of the last one's end.
    pub(super) swept_s: Option<u32>,
}

/// A slice of upkeep that may be done on any thread.
pub struct UpkeepTask {
    state: Arc<dyn State>,
    reader: Reader,
    work: Work,
    awaits: u64,
}

/// Step of a checkpoint that somebody waits for.
pub enum CheckpointStep {
    /// A slice to be done, on any thread; its result comes with [`Engine::finished`].
    Task(UpkeepTask),
    /// A slice was done, and there is more.
    More,
    /// The checkpoint is at its end; whether it succeeded.
    Done(bool),
}

enum Work {
    Slice(Slice),
    Scan(Scan),
    Trim(Box<Trim>),
    Sweep(Sweep),
    Forget(Forget),
    Weigh(Weighing),
}

/// Result of an upkeep task.
pub struct Finished(Outcome);

enum Outcome {
    Slice(Slice, Result<(), StateError>),
    Scan(Scanned),
    Trim(Trimmed),
    Sweep(Swept),
    Forget(Forgot),
    Weigh(Weighed),
}

impl UpkeepTask {
    /// Index up to which everything must be acknowledged before the task may run, for nothing else
    /// may go into state; 0: the task may run at once.
    pub fn awaits(&self) -> u64 {
        self.awaits
    }

    /// Runs the task.
    pub fn run(self) -> Finished {
        let UpkeepTask { state, reader, work, .. } = self;
        Finished(match work {
            Work::Slice(mut slice) => {
                let done = slice.run(&*state);
                Outcome::Slice(slice, done)
            }
            Work::Scan(scan) => Outcome::Scan(scan.run(&*state, &reader)),
            Work::Trim(trim) => Outcome::Trim(trim.run()),
            Work::Sweep(sweep) => Outcome::Sweep(sweep.run(&*state)),
            Work::Forget(forget) => Outcome::Forget(forget.run(&*state)),
            Work::Weigh(weighing) => Outcome::Weigh(weighing.run(&*state)),
        })
    }
}

impl Engine {
    /// The next slice of upkeep, if any is due and none is out. Small things are done at once.
    pub fn upkeep_task(&mut self, now_s: u32) -> Option<UpkeepTask> {
        if self.upkeep.busy || self.log.is_failed() {
            return None;
        }
        if self.log.follows() && self.log.awaited() > 0 {
            return None; // until it is known whether that is to be cut off
        }
        self.remove_one_dead_segment();
        self.log.look_for_room();
        self.upkeep.turn = !self.upkeep.turn;
        let work = match self.upkeep.turn {
            true => self.checkpoint_work(now_s).or_else(|| self.other_work(now_s)),
            false => self.other_work(now_s).or_else(|| self.checkpoint_work(now_s)),
        };
        work.map(|work| self.give_out(work))
    }

    /// Takes what came of the upkeep task.
    pub fn finished(&mut self, now_s: u32, finished: Finished) {
        self.upkeep.busy = false;
        match finished.0 {
            Outcome::Slice(slice, done) => self.slice_done(now_s, slice, done),
            Outcome::Scan(scanned) => self.scanned(now_s, scanned),
            Outcome::Trim(trimmed) => self.trimmed(now_s, trimmed),
            Outcome::Sweep(swept) => self.swept(now_s, swept),
            Outcome::Forget(forgot) => self.forgot(now_s, forgot),
            Outcome::Weigh(weighed) => self.weighed(now_s, weighed),
        }
    }

    /// Makes a checkpoint to its end, if anything changed. False if it failed, or not all is
    /// acknowledged. No upkeep task may be out.
    pub fn checkpoint_now(&mut self, now_s: u32) -> bool {
        if self.log.awaited() > 0 {
            return false;
        }
        assert!(!self.upkeep.busy, "no chore may be out");
        if self.upkeep.checkpoint.is_none() && !self.begin_checkpoint() {
            return false;
        }
        while self.upkeep.checkpoint.is_some() {
            let Some(slice) = self.checkpoint_slice() else { return false };
            self.do_now(now_s, Work::Slice(slice));
        }
        self.remove_dead_segments();
        self.upkeep.failed_s.is_none()
    }

    /// The next step of a checkpoint that is made to its end while the log is written: the first
    /// one begins it, unless one is under way. No upkeep task may be out. A step costs the engine's
    /// thread no more than a slice does.
    pub fn checkpoint_step(&mut self, is_first: bool) -> CheckpointStep {
        assert!(!self.upkeep.busy, "no chore may be out");
        if is_first && self.upkeep.checkpoint.is_none() && !self.begin_checkpoint() {
            return CheckpointStep::Done(false);
        }
        if self.upkeep.checkpoint.is_some() {
            return match self.checkpoint_slice() {
                Some(slice) => CheckpointStep::Task(self.give_out(Work::Slice(slice))),
                None => CheckpointStep::Done(false),
            };
        }
        let is_well = self.upkeep.failed_s.is_none();
        if is_well && !self.upkeep.dead.is_empty() {
            self.remove_one_dead_segment();
            return CheckpointStep::More;
        }
        CheckpointStep::Done(is_well)
    }

    /// Compacts every segment that is worth it, to the end. No upkeep task may be out.
    pub fn compact_now(&mut self, now_s: u32) {
        self.checkpoint_now(now_s);
        self.upkeep.compact_from_s = 0;
        // One that finds no room rests, and so does this.
        while self.upkeep.compact_from_s <= now_s && self.begin_compaction(true) {
            while let Some(scan) = self.scan_work() {
                self.do_now(now_s, Work::Scan(scan));
            }
        }
        self.checkpoint_now(now_s);
    }

    /// Drops everything that retention drops, to the end. No upkeep task may be out.
    pub fn retain_now(&mut self, now_s: u32) {
        self.checkpoint_now(now_s); // sweeps see what state knows
        self.upkeep.sweep = Some(Sweep::new(&self.settings, now_s));
        let next =
            |engine: &mut Engine| engine.trim_work(now_s).or_else(|| engine.sweep_work(now_s));
        while let Some(work) = next(self).or_else(|| self.weigh_work(now_s)) {
            self.do_now(now_s, work);
        }
        (self.upkeep.forget_from, self.upkeep.forgot_s) = (None, None);
        while let Some(work) = self.forget_work(now_s) {
            self.do_now(now_s, work);
        }
    }

    /// The next slice of forgetting once keys: now and then, and when there are too many.
    fn forget_work(&mut self, now_s: u32) -> Option<Work> {
        if !self.index.once.is_stored() {
            return None;
        }
        let from = self.upkeep.forget_from.take();
        let rests = |forgot_s| now_s.saturating_sub(forgot_s) < self.settings.sweep_s;
        let is_due = from.is_some() || !self.upkeep.forgot_s.is_some_and(rests);
        let is_over = self.index.once.is_over() && self.upkeep.forgot_s != Some(now_s);
        let from = from.unwrap_or_default();
        (is_due || is_over).then(|| Work::Forget(self.index.once.forget(now_s, from)))
    }

    fn forgot(&mut self, now_s: u32, forgot: Forgot) {
        if let Some(error) = forgot.error {
            tell!(event::RETENTION_FAILED, %error);
        }
        self.index.once.has_forgotten(forgot.keys);
        self.upkeep.forget_from = forgot.rest;
        self.upkeep.forgot_s = Some(now_s);
    }

    fn give_out(&mut self, work: Work) -> UpkeepTask {
        self.upkeep.busy = true;
        let (state, reader) = (Arc::clone(&self.index.state), self.reader.clone());
        UpkeepTask { state, reader, work, awaits: self.log.awaited() }
    }

    fn do_now(&mut self, now_s: u32, work: Work) {
        let upkeep_task = self.give_out(work);
        self.finished(now_s, upkeep_task.run());
    }

    fn checkpoint_work(&mut self, now_s: u32) -> Option<Work> {
        if self.upkeep.checkpoint.is_none()
            && !(self.is_checkpoint_due(now_s) && self.begin_checkpoint())
        {
            return None;
        }
        self.checkpoint_slice().map(Work::Slice)
    }

    fn other_work(&mut self, now_s: u32) -> Option<Work> {
        if self.log.follows() {
            return self.forget_work(now_s); // the rest comes from the leader, as records
        }
        self.upkeep.lap = !self.upkeep.lap;
        if self.upkeep.lap
            && let Some(trim) = self.trim_work(now_s)
        {
            return Some(trim);
        }
        if self.upkeep.compaction.is_none() && now_s >= self.upkeep.compact_from_s {
            self.begin_compaction(false);
        }
        let scan = self.scan_work().map(Work::Scan);
        let work = scan.or_else(|| self.trim_work(now_s)).or_else(|| self.sweep_work(now_s));
        work.or_else(|| self.weigh_work(now_s)).or_else(|| self.forget_work(now_s))
    }
}

/// Carries out changes, if there are any.
fn write(state: &dyn State, changes: Vec<StateChange>) -> Result<(), StateError> {
    if changes.is_empty() { Ok(()) } else { state.write(changes) }
}

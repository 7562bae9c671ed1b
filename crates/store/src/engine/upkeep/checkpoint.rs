//! Checkpoints: changes are written into state, slice by slice, with the place from which the next
//! start reads the log.
//!
//! ```text
//! begin: place and counts ─► names … ─► timelines …, or many at once (`bulk.rs`)
//!        ─► rows … ─► once … ─► seal: place, counts, persisted
//!          any slice fails ─► what it had in hand counts as changed again, later a new one
//! ```
//! A slice tells of a timeline as it is when the slice is made, not as it was at the beginning:
//! its head says as of where. Invariants: the log is synced before a slice that reflects it is
//! given out; a segment is removed only after a checkpoint behind it for which nothing in it was
//! alive.

use super::bulk::{self, Bulk, Gathered};
use super::flush;
use crate::engine::Engine;
use crate::engine::index::counts::Counts;
use crate::engine::index::once::Untold;
use crate::engine::index::rows::{RowMap, changes};
use crate::engine::index::tail::Flush;
use crate::engine::recovery::write_checkpoint;
use crate::engine::state::{Keep, State, StateChange, StateError};
use crate::log::Position;
use model::timeline::TimelineId;
use model::{event, tell};
use std::ops::Range;
use std::sync::Arc;

/// Places that a slice looks at for timelines that changed.
const SLICE_NAMES: u32 = 16_384;

/// Timelines of a slice at most.
const SLICE_TIMELINES: usize = 1_024;

/// Entries of a slice about.
const SLICE_ENTRIES: usize = 16_384;

/// Bytes of rows in a slice about.
const SLICE_BYTES: usize = 512 * 1024;

/// Once keys of a slice, at most.
const SLICE_KEYS: usize = 4_096;

/// Seconds after which a checkpoint that failed is tried again.
const AGAIN_S: u32 = 5;

/// A checkpoint under way.
pub(in crate::engine) struct Checkpoint {
    at: Position,
    counts: Counts,
    /// Places at which timelines that changed before it are still to be looked for.
    places: Range<u32>,
    /// Timelines not told of yet, the lowest last: state goes through them in its order, which
    /// costs it a third less.
    timelines: Vec<Named>,
    /// Changes that are so many that state takes them together.
    bulk: Option<Bulk>,
    rows: Option<Told>,
    once: Untold,
}

/// A timeline, and its place among those that changed.
type Named = (TimelineId, u32);

/// Rows, and the last key that was written into state.
type Told = (Arc<RowMap>, Option<Box<[u8]>>);

/// A slice of one.
pub(super) enum Slice {
    /// Timelines to be put into their order.
    Names(Vec<Named>),
    Timelines(Vec<Arc<Flush>>),
    Gather(Vec<Arc<Flush>>, Gathered),
    Load(Gathered),
    /// State has them, and their memory goes.
    Ended(Vec<Arc<Flush>>),
    Rows(Vec<StateChange>),
    Once(Untold, Vec<StateChange>),
    Seal(Vec<StateChange>),
}

impl Slice {
    pub(super) fn run(&mut self, state: &dyn State) -> Result<(), StateError> {
        match self {
            Slice::Names(names) => {
                names.sort_by(|one, other| other.cmp(one)); // rows of what is sorted already
                Ok(())
            }
            Slice::Timelines(timelines) => {
                let mut changes = Vec::new();
                for timeline in timelines {
                    flush::changes(state, timeline, &mut changes)?;
                }
                super::write(state, changes)
            }
            Slice::Gather(timelines, rows) => rows.gather(state, timelines),
            Slice::Load(rows) => rows.load(state),
            Slice::Ended(timelines) => {
                timelines.clear();
                Ok(())
            }
            Slice::Rows(changes) | Slice::Once(_, changes) => {
                super::write(state, std::mem::take(changes))
            }
            Slice::Seal(changes) => {
                state.write(std::mem::take(changes))?;
                state.persist()
            }
        }
    }
}

impl Engine {
    /// Whether the next checkpoint should begin.
    pub(super) fn is_checkpoint_due(&self, now_s: u32) -> bool {
        let (since, settings) = (&self.since, &self.settings);
        if self.upkeep.failed_s.is_some_and(|failed_s| now_s.saturating_sub(failed_s) < AGAIN_S) {
            return false;
        }
        let old = since.first_s.is_some_and(|s| now_s.saturating_sub(s) >= settings.checkpoint_s);
        let is_new = since.first_s.is_some_and(|s| now_s > s);
        let pressed = self.log.is_full() && is_new; // at most once a second
        since.bytes >= settings.checkpoint_bytes
            || self.index.changes_bytes(since.places) >= settings.index_changes_bytes
            || old
            || pressed
            || self.upkeep.failed_s.is_some()
    }

    /// Whether a checkpoint is wanted as soon as may be: the log is full, or the last one failed.
    pub fn is_pressed(&self) -> bool {
        self.log.is_full() || self.upkeep.failed_s.is_some()
    }

    /// Whether a checkpoint is under way and so much has changed that there should have been two:
    /// upkeep is to be done before anything else is written.
    pub fn is_behind(&self) -> bool {
        let changes_bytes = self.index.changes_bytes(self.since.places);
        self.upkeep.checkpoint.is_some() && changes_bytes / 2 >= self.settings.index_changes_bytes
    }

    /// Begins a checkpoint. False if the log cannot be synced.
    pub(super) fn begin_checkpoint(&mut self) -> bool {
        if self.log.is_full() {
            self.make_way();
        }
        if self.log.sync().is_err() {
            return false;
        }
        self.since = super::super::Since { place: self.since.place, ..Default::default() };
        self.upkeep.failed_s = None;
        self.index.rosters.list_anew_from(self.log.position().place);
        let rows = self.index.rows.has_changed().then(|| (self.index.rows.put_aside(), None));
        self.upkeep.checkpoint = Some(Checkpoint {
            at: self.log.position(),
            counts: self.index.counts.clone(),
            places: 0..self.index.changed_places(),
            timelines: Vec::new(),
            bulk: None,
            rows,
            once: self.index.once.take_untold(),
        });
        true
    }

    /// The log is full: the segment that is written cannot be removed, so another one is begun
    /// when that is worth it; and state needs some room too.
    fn make_way(&mut self) {
        let (number, bytes) = self.log.segments().last().unwrap_or_default();
        let won = bytes.saturating_sub(self.index.counts.of(number).live_bytes());
        let is_worth = won >= (self.settings.log.segment_bytes / 16).min(self.log.bytes() / 4);
        if is_worth && !self.log.follows() {
            // Who fails says so; and without room this one is written on.
            let _ = self.log.roll();
        }
        let _ = self.log.spend_reserve();
    }

    /// The next slice of the checkpoint under way. `None` if the log cannot be synced.
    pub(super) fn checkpoint_slice(&mut self) -> Option<Slice> {
        self.log.sync().ok()?;
        let as_of = self.log.ahead();
        let checkpoint = self.upkeep.checkpoint.as_mut()?;
        if !checkpoint.places.is_empty() {
            let Range { start, end } = checkpoint.places;
            let upto = end.min(start + SLICE_NAMES);
            checkpoint.places = upto..end;
            // The last slice puts all of them into their order, of which each before has a part.
            let mut names = self.index.changed_at(start..upto);
            if upto == end && !checkpoint.timelines.is_empty() {
                let before = std::mem::take(&mut checkpoint.timelines);
                let last = std::mem::replace(&mut names, before);
                names.extend(last);
            }
            return Some(Slice::Names(names));
        }
        if let Some(bulk) = &mut checkpoint.bulk {
            let load_bytes_max = self.settings.load_bytes_max;
            let is_last = checkpoint.timelines.is_empty();
            if let Some(slice) = bulk.slice(&mut self.index, is_last, load_bytes_max) {
                return Some(slice);
            }
        }
        let (mut timelines, mut entries) = (Vec::new(), 0);
        let next = checkpoint.timelines.iter().rev().take(SLICE_TIMELINES);
        self.index.look_at(next.map(|(_, at)| *at));
        while timelines.len() < SLICE_TIMELINES && entries < SLICE_ENTRIES {
            let Some((_, at)) = checkpoint.timelines.pop() else { break };
            if let Some(flush) = self.index.begin_flush(at, as_of) {
                entries += flush.part.entries.len();
                timelines.push(flush);
            }
        }
        if !timelines.is_empty() {
            return Some(match &mut checkpoint.bulk {
                Some(bulk) => Slice::Gather(timelines, std::mem::take(&mut bulk.rows)),
                None => Slice::Timelines(timelines),
            });
        }
        if let Some((rows, after)) = &mut checkpoint.rows {
            if let Some((changes, last)) = changes(rows, after.as_deref(), SLICE_BYTES) {
                *after = Some(last);
                return Some(Slice::Rows(changes));
            }
            checkpoint.rows = None;
            self.index.rows.told();
        }
        if !checkpoint.once.is_empty() {
            let at_once = self.index.once.at_once(SLICE_KEYS);
            let rest = checkpoint.once.split_off(at_once.min(checkpoint.once.len()));
            let some = std::mem::replace(&mut checkpoint.once, rest);
            let changes = self.index.once.changes(&some, checkpoint.once.is_empty());
            return Some(Slice::Once(some, changes));
        }
        let (key, value) = write_checkpoint(checkpoint.at, &checkpoint.counts);
        let seal = StateChange::put(Keep::Meta, key, value);
        Some(Slice::Seal(vec![seal, self.index.once.count_change(), bulk::no_load()]))
    }

    pub(super) fn slice_done(&mut self, now_s: u32, slice: Slice, done: Result<(), StateError>) {
        let well = done.is_ok();
        match slice {
            Slice::Names(mut names) => {
                let min = self.settings.load_timelines_min;
                if let Some(Checkpoint { timelines, bulk, .. }) = &mut self.upkeep.checkpoint {
                    match timelines.is_empty() {
                        true => *timelines = names,
                        false => timelines.append(&mut names),
                    }
                    *bulk = (timelines.len() >= min).then(Bulk::default);
                }
            }
            Slice::Timelines(timelines) => {
                self.index.look_at(timelines.iter().map(|flush| flush.at));
                timelines.iter().for_each(|flush| self.index.end_flush(flush, well));
            }
            Slice::Gather(mut timelines, rows) => {
                if let Some(Checkpoint { bulk: Some(bulk), .. }) = &mut self.upkeep.checkpoint {
                    bulk.held.append(&mut timelines);
                    bulk.rows = rows;
                }
            }
            Slice::Load(_) => {
                if let Some(Checkpoint { bulk: Some(bulk), .. }) = &mut self.upkeep.checkpoint {
                    bulk.is_loaded = well;
                }
            }
            Slice::Once(untold, _) => match &mut self.upkeep.checkpoint {
                Some(Checkpoint { once: rest, .. }) if well => self.index.once.told(rest),
                Some(Checkpoint { once: rest, .. }) => rest.extend(untold),
                None => self.index.once.tell_again(untold),
            },
            Slice::Ended(_) | Slice::Rows(_) => {}
            Slice::Seal(_) => {
                if let Some(checkpoint) = self.upkeep.checkpoint.take_if(|_| well) {
                    self.index.once.is_sealed();
                    self.since.place = checkpoint.at.place;
                    self.forget_dead_counts(&checkpoint.counts);
                    self.look_for_dead_segments();
                }
            }
        }
        if let Err(error) = done {
            tell!(event::CHECKPOINT_FAILED, %error);
            self.give_checkpoint_up(now_s);
        }
    }

    /// Marks the timelines and rows that the checkpoint took aside as changed again.
    fn give_checkpoint_up(&mut self, now_s: u32) {
        self.upkeep.failed_s = Some(now_s);
        if let Some(checkpoint) = self.upkeep.checkpoint.take() {
            for timeline in checkpoint.bulk.iter().flat_map(|bulk| &bulk.held) {
                self.index.end_flush(timeline, false);
            }
            self.index.rows.tell_again();
            self.index.once.tell_again(checkpoint.once);
        }
    }

    /// Segments before the last checkpoint in which nothing is alive, neither for it nor now.
    pub(in crate::engine) fn look_for_dead_segments(&mut self) {
        let before = self.since.place.segment;
        let dead = self
            .log
            .segments()
            .map(|(number, _)| number)
            .filter(|number| *number < before && !self.index.counts.has(*number));
        self.upkeep.dead = dead.collect();
    }

    /// Counts of segments that nothing in state or memory names any more.
    fn forget_dead_counts(&mut self, then: &Counts) {
        let before = self.since.place.segment;
        let dead = self.index.counts.iter().filter(|(segment, count)| {
            *segment < before && count.live == 0 && then.of(*segment).live == 0
        });
        let dead: Vec<u32> = dead.map(|(segment, _)| segment).collect();
        dead.into_iter().for_each(|segment| self.index.counts.forget(segment));
    }

    pub(super) fn remove_one_dead_segment(&mut self) {
        if let Some(segment) = self.upkeep.dead.pop()
            && let Err(error) = self.log.remove(segment)
        {
            tell!(event::SEGMENT_KEPT, %error, segment);
        }
    }

    pub(super) fn remove_dead_segments(&mut self) {
        while !self.upkeep.dead.is_empty() {
            self.remove_one_dead_segment();
        }
    }
}

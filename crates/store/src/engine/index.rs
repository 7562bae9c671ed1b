//! The timelines in memory: heads, changes since the last checkpoint, counts, the once window,
//! changed rows; and how each record changes them.
//!
//! Commits and replay go through the same few steps. The index reads state where memory does not
//! know and never writes it. It knows no log. Invariant: state and index together say what all
//! committed records said, and `count` of a head is the number of its entries in both.

pub(crate) mod changed;
pub(crate) mod counts;
pub(crate) mod heads;
pub(crate) mod hot;
pub(crate) mod once;
pub(crate) mod ranges;
pub(crate) mod rosters;
pub(crate) mod rows;
pub(crate) mod tail;

use super::record::stored::{Entry, Leaving, Stored};
use super::state::{Keep, State, StateError};
use crate::log::Place;
use changed::Changed;
use counts::Counts;
use heads::{HeadRow, Heads};
use model::timeline::{ReaderId, Seq, TimelineId};
use once::Once;
use ranges::Ranges;
use rosters::Rosters;
use rows::Rows;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tail::{Flush, Old, Part, Touched};

/// Bytes counted for an entry in memory: the entry, and its room in a queue that grows by doubling.
const PLACE_BYTES: u64 = 2 * size_of::<Entry>() as u64;

/// Memory of a timeline that changed.
const TIMELINE_BYTES: u64 = size_of::<Option<Touched>>() as u64;

/// The index of one log.
pub(crate) struct Index {
    pub(crate) heads: Heads,
    changed: Changed,
    pub(crate) counts: Counts,
    pub(crate) once: Once,
    pub(crate) rows: Rows,
    pub(crate) rosters: Rosters,
    pub(crate) state: Arc<dyn State>,
    /// While the log is replayed: timelines of which state knows more than the checkpoint, and up
    /// to where.
    pub(crate) newer: Option<HashMap<TimelineId, Place>>,
    /// State may have runs of what is replayed that are newer than their heads.
    pub(crate) is_doubtful: bool,
}

/// How an entry left, to put it back.
pub(crate) enum Left {
    /// From what is new.
    Part(Arc<Stored>),
    /// From what an upkeep task has in hand.
    Flushing,
    /// From the runs.
    Run,
}

/// A timeline as it was before it was forgotten.
pub(crate) struct Forgotten {
    row: HeadRow,
    part: Part,
    flushing_gone: u32,
}

impl Index {
    pub(crate) fn new(state: Arc<dyn State>, once: Once, rosters: Rosters) -> Index {
        Index {
            heads: Heads::new(),
            changed: Changed::default(),
            counts: Counts::default(),
            once,
            rows: Rows::default(),
            rosters,
            state,
            newer: None,
            is_doubtful: false,
        }
    }

    /// The slot of a timeline's head, which is read from state if it must be.
    pub(crate) fn head(&mut self, timeline: TimelineId) -> Result<u32, StateError> {
        if let Some(slot) = self.heads.find(timeline) {
            self.heads.at_mut(slot).set_used();
            return Ok(slot);
        }
        let known = head_in_state(&*self.state, timeline)?;
        let (row, as_of) = known.unwrap_or_default();
        if let Some(newer) = &mut self.newer {
            newer.insert(timeline, as_of);
        }
        Ok(self.heads.insert(timeline, row))
    }

    /// As [`Index::head`], when what state has is known.
    pub(crate) fn head_of(&mut self, timeline: TimelineId, row: HeadRow) -> u32 {
        match self.heads.find(timeline) {
            Some(slot) => slot,
            None => self.heads.insert(timeline, row),
        }
    }

    /// Change in a timeline.
    pub(crate) fn touched(&self, slot: u32) -> Option<&Touched> {
        self.changed.at(self.heads.at(slot).touched()?)
    }

    /// As [`touched`](Self::touched), mutable; adds the change if there is none.
    pub(crate) fn touch(&mut self, slot: u32) -> &mut Touched {
        let at = self.touch_at(slot);
        self.changed.at_mut(at).expect("heads name only what is there")
    }

    fn touch_at(&mut self, slot: u32) -> u32 {
        let head = self.heads.at(slot);
        match head.touched() {
            Some(at) => at,
            None => {
                let mut touched = Touched::new(slot, head.last);
                touched.doubtful = self.is_doubtful;
                let at = self.changed.put(touched);
                self.heads.at_mut(slot).set_touched(Some(at));
                at
            }
        }
    }

    /// Timelines that changed.
    /// Memory of all changes, with so many places taken among them; at most, as what is there may
    /// have left again.
    pub(crate) fn changes_bytes(&self, places: u64) -> u64 {
        places * PLACE_BYTES + self.changed.len() as u64 * TIMELINE_BYTES
    }

    pub(crate) fn touched_len(&self) -> usize {
        self.changed.len()
    }

    /// Places for [`Index::begin_flush`] to which those belong that changed, and the timelines'
    /// names.
    pub(crate) fn changed_at(&self, places: Range<u32>) -> Vec<(TimelineId, u32)> {
        let named = |at: u32| Some((self.heads.at(self.changed.at(at)?.head).id(), at));
        places.filter_map(named).collect()
    }

    /// Ends of those places as of now.
    pub(crate) fn changed_places(&self) -> u32 {
        self.changed.places()
    }

    /// The ids of all that changed.
    pub(crate) fn changed(&self) -> impl Iterator<Item = TimelineId> + '_ {
        self.changed.iter().map(|(_, touched)| self.heads.at(touched.head).id())
    }

    /// Gives a timeline's next seq.
    pub(crate) fn next_seq(&mut self, slot: u32) -> Seq {
        self.touch(slot);
        let head = self.heads.at_mut(slot);
        head.last += 1;
        head.last
    }

    /// An entry takes its place at the end under the next seq.
    pub(crate) fn place(&mut self, slot: u32, stored: &Arc<Stored>) -> Seq {
        let at = self.touch_at(slot);
        let head = self.heads.at_mut(slot);
        head.last += 1;
        head.grow(stored.weight());
        let seq = head.last;
        let touched = self.changed.at_mut(at).expect("heads name only what is there");
        touched.part.entries.push_back(Entry { seq, stored: Arc::clone(stored) });
        seq
    }

    /// Raises a timeline's last seq.
    pub(crate) fn raise(&mut self, slot: u32, last: Seq) {
        self.touch(slot);
        let head = self.heads.at_mut(slot);
        head.last = head.last.max(last);
    }

    /// An entry takes its place at the end.
    pub(crate) fn push(&mut self, slot: u32, seq: Seq, stored: &Arc<Stored>) {
        self.heads.at_mut(slot).grow(stored.weight());
        let stored = Arc::clone(stored);
        self.touch(slot).part.entries.push_back(Entry { seq, stored });
    }

    /// The last entry did not, and its seq was not given.
    pub(crate) fn unpush(&mut self, slot: u32, last_before: Seq) {
        if let Some(entry) = self.touch(slot).part.entries.pop_back() {
            self.heads.at_mut(slot).shrink(entry.stored.weight());
        }
        self.heads.at_mut(slot).last = last_before;
    }

    /// An entry leaves; `None` if it is not there. `in_runs` knows those of the runs.
    pub(crate) fn leave(
        &mut self,
        slot: u32,
        seq: Seq,
        in_runs: &mut dyn FnMut(Seq) -> Result<Option<Leaving>, StateError>,
    ) -> Result<Option<(Leaving, Left)>, StateError> {
        let head = *self.heads.at(slot);
        if seq == 0 || seq > head.last || head.count == 0 {
            return Ok(None);
        }
        let (mut moved, mut left) = (None, Left::Run);
        let mut leaving = None;
        let mut base = head.last;
        if let Some(touched) = self.touched(slot) {
            base = touched.base;
            moved = touched.moved(seq);
            if let Some(at) = touched.part.position(seq) {
                let stored = &touched.part.entries[at].stored;
                leaving = Some(Leaving::of(seq, stored));
                left = Left::Part(Arc::clone(stored));
            } else if touched.is_gone(seq) {
                return Ok(None);
            } else if let Some(flush) = &touched.flushing
                && let Some(at) = flush.part.position(seq)
            {
                leaving = Some(Leaving::of(seq, &flush.part.entries[at].stored));
                left = Left::Flushing;
            }
        }
        if leaving.is_none() && seq <= base && self.runs(slot) > 0 {
            leaving = in_runs(seq)?;
        }
        let Some(mut leaving) = leaving else { return Ok(None) };
        if let Some((place, _)) = moved {
            leaving.segment = place.segment;
        }
        let touched = self.touch(slot);
        match &left {
            Left::Part(_) => {
                let at = touched.part.position(seq).expect("it was found there");
                touched.part.entries.remove(at);
            }
            Left::Flushing => {
                touched.flushing_gone += 1;
                touched.part.old().gone.insert(seq);
            }
            Left::Run => touched.part.old().gone.insert(seq),
        }
        self.heads.at_mut(slot).shrink(leaving.weight.into());
        Ok(Some((leaving, left)))
    }

    /// Undoes that an entry left.
    pub(crate) fn unleave(&mut self, slot: u32, leaving: Leaving, left: Left) {
        self.heads.at_mut(slot).grow(leaving.weight.into());
        let touched = self.touch(slot);
        match left {
            Left::Part(stored) => {
                let entries = &mut touched.part.entries;
                let at = entries.partition_point(|entry| entry.seq < leaving.seq);
                entries.insert(at, Entry { seq: leaving.seq, stored });
            }
            Left::Flushing => {
                touched.flushing_gone -= 1;
                touched.part.old().gone.remove(leaving.seq);
            }
            Left::Run => touched.part.old().gone.remove(leaving.seq),
        }
    }

    /// The message of an entry stands there now.
    pub(crate) fn move_entry(&mut self, slot: u32, seq: Seq, to: &Stored) {
        let part = &mut self.touch(slot).part;
        match part.position(seq) {
            Some(at) => part.entries[at].stored = Arc::new(to.clone()),
            None => drop(part.old().moved.insert(seq, (to.place, to.length))),
        }
    }

    /// Entries of a timeline that are in the runs.
    pub(crate) fn runs(&self, slot: u32) -> u64 {
        let tail = self.touched(slot).map_or(0, Touched::tail_len);
        u64::from(self.heads.at(slot).count) - tail
    }

    /// A reader has everything up to a place; what was known since the last checkpoint.
    pub(crate) fn acknowledge(&mut self, slot: u32, reader: ReaderId, upto: Seq) -> Option<Seq> {
        let cursors = &mut self.touch(slot).part.old().cursors;
        let before = cursors.get(&reader).copied();
        cursors.insert(reader, before.unwrap_or(0).max(upto));
        before
    }

    /// Undoes [`acknowledge`](Self::acknowledge).
    pub(crate) fn unacknowledge(&mut self, slot: u32, reader: ReaderId, before: Option<Seq>) {
        let cursors = &mut self.touch(slot).part.old().cursors;
        match before {
            Some(before) => cursors.insert(reader, before),
            None => cursors.remove(&reader),
        };
    }

    /// All of a timeline goes but its last seq.
    pub(crate) fn forget(&mut self, slot: u32) -> Forgotten {
        let row = self.heads.at(slot).row();
        let touched = self.touch(slot);
        let gone = Ranges::all_to(row.last);
        let old = Some(Box::new(Old { gone, forgot: true, ..Old::default() }));
        let part = std::mem::replace(&mut touched.part, Part { old, ..Part::default() });
        let flushing = touched.flushing.as_ref().map_or(0, |flush| flush.part.entries.len());
        let flushing_gone = std::mem::replace(&mut touched.flushing_gone, flushing as u32);
        let head = self.heads.at_mut(slot);
        (head.count, head.bytes) = (0, 0);
        Forgotten { row, part, flushing_gone }
    }

    /// Undoes [`forget`](Self::forget).
    pub(crate) fn unforget(&mut self, slot: u32, forgotten: Forgotten) {
        let Forgotten { row, part, flushing_gone } = forgotten;
        let touched = self.touch(slot);
        (touched.part, touched.flushing_gone) = (part, flushing_gone);
        let head = self.heads.at_mut(slot);
        (head.count, head.bytes) = (row.count as u32, row.bytes);
    }

    /// Looks at what [`Index::begin_flush`] and [`Index::end_flush`] are about to change, and at
    /// nothing else: all of it at once has the processor wait for many lines of memory together.
    pub(crate) fn look_at(&self, places: impl Iterator<Item = u32>) {
        let changed = places.filter_map(|at| self.changed.at(at));
        std::hint::black_box(changed.fold(0, |seen, it| seen ^ self.heads.at(it.head).last));
    }

    /// As [`look_at`](Self::look_at), for what appends to these timelines change.
    pub(crate) fn look_for(&self, timelines: impl Iterator<Item = TimelineId>) {
        let slots = timelines.filter_map(|timeline| self.heads.find(timeline));
        let seen = slots.fold(0, |seen, slot| {
            seen ^ self.touched(slot).map_or(0, |touched| touched.part.entries.len())
        });
        std::hint::black_box(seen);
    }

    /// Hands what changed in a timeline to an upkeep task. Every record before `as_of` is in it.
    pub(crate) fn begin_flush(&mut self, at: u32, as_of: Place) -> Option<Arc<Flush>> {
        let slot = self.changed.at(at)?.head;
        let runs = self.runs(slot);
        let head = *self.heads.at(slot);
        let touched = self.changed.at_mut(at)?;
        assert!(touched.flushing.is_none(), "one chore at a time");
        let part = std::mem::take(&mut touched.part);
        let old_runs = part.old.as_ref().is_some_and(|old| !old.gone.is_empty());
        let flush = Arc::new(Flush {
            timeline: head.id(),
            at,
            part,
            row: head.row(),
            as_of,
            base: touched.base,
            runs: runs > 0 || old_runs,
            doubtful: touched.doubtful,
        });
        touched.flushing = Some(Arc::clone(&flush));
        Some(flush)
    }

    /// The upkeep task is done, well or not.
    pub(crate) fn end_flush(&mut self, flush: &Flush, well: bool) {
        let Some(touched) = self.changed.at_mut(flush.at) else { return };
        let is_its = touched.flushing.as_ref().is_some_and(|it| std::ptr::eq(&**it, flush));
        assert!(is_its, "what state is being told of stays where it is");
        let slot = touched.head;
        if !well {
            touched.take_back();
            return;
        }
        touched.flushing = None;
        (touched.flushing_gone, touched.doubtful, touched.base) = (0, false, flush.row.last);
        if touched.part.is_empty() && self.heads.at(slot).last == flush.row.last {
            self.changed.remove(flush.at);
            self.heads.at_mut(slot).set_touched(None);
        }
    }
}

/// Derived state of a timeline, and the place of the log that it is of.
pub(crate) fn head_in_state(
    state: &dyn State,
    timeline: TimelineId,
) -> Result<Option<(HeadRow, Place)>, StateError> {
    let value = state.get(Keep::Heads, &timeline.to_bytes())?;
    value.map(|value| heads::read_row(&value).ok_or_else(senseless)).transpose()
}

/// The derived state is invalid.
pub(crate) fn senseless() -> StateError {
    StateError { full: false, why: "a value in state makes no sense".into() }
}

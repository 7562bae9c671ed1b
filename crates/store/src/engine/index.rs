//! What memory knows of the timelines: heads, changes since the last checkpoint, counts, the once
//! window, changed rows; and how each record changes them.
//!
//! Commits and replay go through the same few steps. The index reads state where memory does not
//! know and never writes it. It knows no log. Invariant: state and index together say what all
//! committed records said, and `count` of a head is the number of its entries in both.

pub(crate) mod counts;
pub(crate) mod heads;
pub(crate) mod hot;
pub(crate) mod once;
pub(crate) mod ranges;
pub(crate) mod rows;
pub(crate) mod tail;

use super::record::stored::{Entry, Leaving, Stored};
use super::state::{Keep, State, StateError};
use crate::log::Place;
use counts::Counts;
use heads::{HeadRow, Heads};
use model::timeline::{ReaderId, Seq, TimelineId};
use once::Once;
use ranges::Ranges;
use rows::Rows;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use tail::{Flush, Old, Part, Touched};

/// The index of one log.
pub(crate) struct Index {
    pub(crate) heads: Heads,
    touched: Vec<Option<Touched>>,
    free: Vec<u32>,
    pub(crate) counts: Counts,
    pub(crate) once: Once,
    pub(crate) rows: Rows,
    pub(crate) state: Arc<dyn State>,
    /// While the log is replayed: timelines of which state knows more than the checkpoint, and up
    /// to where.
    pub(crate) newer: Option<HashMap<TimelineId, Place>>,
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
    pub(crate) fn new(state: Arc<dyn State>, once: Once) -> Index {
        Index {
            heads: Heads::new(),
            touched: Vec::new(),
            free: Vec::new(),
            counts: Counts::default(),
            once,
            rows: Rows::default(),
            state,
            newer: None,
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

    /// What changed in a timeline.
    pub(crate) fn touched(&self, slot: u32) -> Option<&Touched> {
        self.touched[self.heads.at(slot).touched()? as usize].as_ref()
    }

    /// The same, to change it.
    pub(crate) fn touch(&mut self, slot: u32) -> &mut Touched {
        let head = self.heads.at(slot);
        let at = match head.touched() {
            Some(at) => at,
            None => {
                let at = self.free.pop().unwrap_or_else(|| {
                    self.touched.push(None);
                    (self.touched.len() - 1) as u32
                });
                self.touched[at as usize] = Some(Touched::new(slot, head.last));
                self.heads.at_mut(slot).set_touched(Some(at));
                at
            }
        };
        self.touched[at as usize].as_mut().expect("heads name only what is there")
    }

    /// Timelines that changed.
    pub(crate) fn touched_len(&self) -> usize {
        self.touched.len() - self.free.len()
    }

    /// Names for [`Index::begin_flush`] of all that changed, the lowest timeline last: who takes
    /// them from the end goes through state in its order, which costs it a third.
    pub(crate) fn touched_all(&self) -> Vec<u32> {
        let named = |(at, touched): (usize, &Option<Touched>)| {
            let head = self.heads.at(touched.as_ref()?.head);
            Some((head.id(), at as u32))
        };
        let mut all: Vec<_> = self.touched.iter().enumerate().filter_map(named).collect();
        all.sort_unstable_by_key(|(timeline, _)| Reverse(*timeline));
        all.into_iter().map(|(_, at)| at).collect()
    }

    /// The ids of all that changed.
    pub(crate) fn changed(&self) -> impl Iterator<Item = TimelineId> + '_ {
        self.touched.iter().flatten().map(|touched| self.heads.at(touched.head).id())
    }

    /// Gives a timeline's next seq.
    pub(crate) fn next_seq(&mut self, slot: u32) -> Seq {
        self.touch(slot);
        let head = self.heads.at_mut(slot);
        head.last += 1;
        head.last
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

    /// It did not.
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

    /// It did not.
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

    /// It did not.
    pub(crate) fn unforget(&mut self, slot: u32, forgotten: Forgotten) {
        let Forgotten { row, part, flushing_gone } = forgotten;
        let touched = self.touch(slot);
        (touched.part, touched.flushing_gone) = (part, flushing_gone);
        let head = self.heads.at_mut(slot);
        (head.count, head.bytes) = (row.count as u32, row.bytes);
    }

    /// Hands what changed in a timeline to an upkeep task. Every record before `as_of` is in it.
    pub(crate) fn begin_flush(&mut self, at: u32, as_of: Place) -> Option<Arc<Flush>> {
        let slot = self.touched[at as usize].as_ref()?.head;
        let runs = self.runs(slot);
        let head = *self.heads.at(slot);
        let touched = self.touched[at as usize].as_mut()?;
        assert!(touched.flushing.is_none(), "one chore at a time");
        let part = std::mem::take(&mut touched.part);
        let old_runs = part.old.as_ref().is_some_and(|old| !old.gone.is_empty());
        let flush = Arc::new(Flush {
            timeline: head.id(),
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
        let Some(slot) = self.heads.find(flush.timeline) else { return };
        let Some(at) = self.heads.at(slot).touched() else { return };
        let Some(touched) = self.touched[at as usize].as_mut() else { return };
        if !well {
            touched.take_back();
            return;
        }
        touched.flushing = None;
        (touched.flushing_gone, touched.doubtful, touched.base) = (0, false, flush.row.last);
        if touched.part.is_empty() && self.heads.at(slot).last == flush.row.last {
            self.touched[at as usize] = None;
            self.free.push(at);
            self.heads.at_mut(slot).set_touched(None);
        }
    }
}

/// What state knows of a timeline, and up to which place of the log.
pub(crate) fn head_in_state(
    state: &dyn State,
    timeline: TimelineId,
) -> Result<Option<(HeadRow, Place)>, StateError> {
    let value = state.get(Keep::Heads, &timeline.to_bytes())?;
    value.map(|value| heads::read_row(&value).ok_or_else(senseless)).transpose()
}

/// What is in state makes no sense.
pub(crate) fn senseless() -> StateError {
    StateError { full: false, why: "a value in state makes no sense".into() }
}

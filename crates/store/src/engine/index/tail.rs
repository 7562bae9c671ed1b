//! Tail of a timeline: what changed in it since state was last told.
//!
//! ```text
//! state: runs up to `base`  │ flushing: entries in the hands of upkeep │ part: entries since
//!        gone, moved, cursors of `flushing` and of `part` apply to what is left of them
//! ```
//! While an upkeep task tells state of a part it stays readable as `flushing`; whether state knows
//! it already makes no difference, for runs are believed up to `base` only. It does not know what
//! state is. Invariant: seqs rise from runs over `flushing` to `part`.

use super::heads::HeadRow;
use super::ranges::Ranges;
use crate::engine::record::stored::{Entry, Stored};
use crate::log::Place;
use model::timeline::{ReaderId, Seq, TimelineId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Changes of a timeline.
#[derive(Clone, Default, Debug)]
pub(crate) struct Part {
    /// New and still there.
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) old: Option<Box<Old>>,
}

/// Changes to what was there before.
#[derive(Clone, Default, Debug)]
pub(crate) struct Old {
    /// Seqs that left.
    pub(crate) gone: Ranges,
    /// Where messages stand now, and the length of their records.
    pub(crate) moved: BTreeMap<Seq, (Place, u32)>,
    /// Where readers stand at least.
    pub(crate) cursors: BTreeMap<ReaderId, Seq>,
    /// All readers before were forgotten.
    pub(crate) forgot: bool,
}

/// A part in the hands of an upkeep task, with all changes of its timeline for state.
#[derive(Debug)]
pub(crate) struct Flush {
    pub(crate) timeline: TimelineId,
    /// Its place among what changed.
    pub(crate) at: u32,
    pub(crate) part: Part,
    pub(crate) row: HeadRow,
    /// Every record before this place is in it.
    pub(crate) as_of: Place,
    pub(crate) base: Seq,
    /// State has entries of the timeline.
    pub(crate) runs: bool,
    /// State may have entries behind `base`, from a flush that failed.
    pub(crate) doubtful: bool,
}

/// A timeline that changed.
#[derive(Debug)]
pub(crate) struct Touched {
    /// Its head's slot.
    pub(crate) head: u32,
    pub(crate) part: Part,
    pub(crate) flushing: Option<Arc<Flush>>,
    /// Entries of `flushing` that `part` says are gone.
    pub(crate) flushing_gone: u32,
    /// The last seq that was given when state was written.
    pub(crate) base: Seq,
    pub(crate) doubtful: bool,
}

/// Cursor as it is known without state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KnownCursor {
    pub(crate) at_least: Seq,
    /// State has nothing to add.
    pub(crate) whole: bool,
}

impl Part {
    pub(crate) fn position(&self, seq: Seq) -> Option<usize> {
        self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()
    }

    pub(crate) fn old(&mut self) -> &mut Old {
        self.old.get_or_insert_default()
    }

    pub(crate) fn is_gone(&self, seq: Seq) -> bool {
        self.old.as_ref().is_some_and(|old| old.gone.has(seq))
    }

    pub(crate) fn moved(&self, seq: Seq) -> Option<(Place, u32)> {
        self.old.as_ref()?.moved.get(&seq).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let old_is_empty = self.old.as_ref().is_none_or(|old| {
            old.gone.is_empty() && old.moved.is_empty() && old.cursors.is_empty() && !old.forgot
        });
        self.entries.is_empty() && old_is_empty
    }
}

impl Touched {
    pub(crate) fn new(head: u32, base: Seq) -> Touched {
        let part = Part::default();
        Touched { head, part, flushing: None, flushing_gone: 0, base, doubtful: false }
    }

    /// Entries that are not in runs.
    pub(crate) fn tail_len(&self) -> u64 {
        let flushing = self.flushing.as_ref().map_or(0, |flush| flush.part.entries.len());
        (self.part.entries.len() + flushing) as u64 - u64::from(self.flushing_gone)
    }

    /// Entries that are not in runs, with seqs above `after`, in their order.
    pub(crate) fn tail_after(&self, after: Seq) -> impl Iterator<Item = &Entry> {
        let flushing = self.flushing.iter().flat_map(move |flush| after_in(&flush.part, after));
        let flushing = flushing.filter(|entry| !self.part.is_gone(entry.seq));
        flushing.chain(after_in(&self.part, after))
    }

    /// Entries that are not in runs, with seqs below `before`, in descending order.
    pub(crate) fn tail_before(&self, before: Seq) -> impl Iterator<Item = &Entry> {
        let flushing = self.flushing.iter().flat_map(move |flush| before_in(&flush.part, before));
        let flushing = flushing.filter(|entry| !self.part.is_gone(entry.seq));
        before_in(&self.part, before).chain(flushing)
    }

    /// Seqs that left the runs.
    pub(crate) fn gone(&self) -> Ranges {
        let mut gone = Ranges::default();
        for part in self.parts() {
            part.old.iter().for_each(|old| gone.join(&old.gone));
        }
        gone
    }

    /// Whether an entry of the runs left.
    pub(crate) fn is_gone(&self, seq: Seq) -> bool {
        self.parts().any(|part| part.is_gone(seq))
    }

    /// Where the message of an entry stands, if it was moved since.
    pub(crate) fn moved(&self, seq: Seq) -> Option<(Place, u32)> {
        self.parts().find_map(|part| part.moved(seq))
    }

    pub(crate) fn cursor(&self, reader: ReaderId) -> KnownCursor {
        let mut known = KnownCursor { at_least: 0, whole: false };
        for old in self.parts().filter_map(|part| part.old.as_ref()) {
            if !known.whole {
                let at = old.cursors.get(&reader).copied().unwrap_or(0);
                known = KnownCursor { at_least: known.at_least.max(at), whole: old.forgot };
            }
        }
        known
    }

    /// All cursors that are known, and whether state has nothing to add.
    pub(crate) fn cursors(&self) -> (BTreeMap<ReaderId, Seq>, bool) {
        let (mut cursors, mut whole) = (BTreeMap::new(), false);
        for old in self.parts().filter_map(|part| part.old.as_ref()) {
            if !whole {
                for (reader, at) in &old.cursors {
                    let cursor = cursors.entry(*reader).or_insert(0);
                    *cursor = (*at).max(*cursor);
                }
                whole = old.forgot;
            }
        }
        (cursors, whole)
    }

    /// The upkeep task failed: what it had in hand is a part of the timeline's changes again.
    pub(crate) fn take_back(&mut self) {
        let Some(flush) = self.flushing.take() else { return };
        let flush =
            Arc::try_unwrap(flush).map_or_else(|flush| flush.part.clone(), |flush| flush.part);
        let later = std::mem::replace(&mut self.part, flush);
        (self.flushing_gone, self.doubtful) = (0, true);
        if let Some(mut old) = later.old {
            self.part.entries.retain(|entry| !old.gone.has(entry.seq));
            for entry in &mut self.part.entries {
                if let Some((place, length)) = old.moved.remove(&entry.seq) {
                    let stored = Stored { place, length, ..(*entry.stored).clone() };
                    entry.stored = Arc::new(stored);
                }
            }
            self.part.old().join(*old);
        }
        self.part.entries.extend(later.entries);
    }

    /// The parts, the newest first.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        [Some(&self.part), self.flushing.as_ref().map(|flush| &flush.part)].into_iter().flatten()
    }
}

impl Old {
    /// Adds what changed later.
    fn join(&mut self, later: Old) {
        if later.forgot {
            *self = later;
            return;
        }
        self.gone.join(&later.gone);
        self.moved.extend(later.moved);
        for (reader, at) in later.cursors {
            let cursor = self.cursors.entry(reader).or_insert(0);
            *cursor = at.max(*cursor);
        }
    }
}

fn after_in(part: &Part, after: Seq) -> impl Iterator<Item = &Entry> {
    let from = part.entries.partition_point(|entry| entry.seq <= after);
    part.entries.range(from..)
}

fn before_in(part: &Part, before: Seq) -> impl Iterator<Item = &Entry> {
    let to = part.entries.partition_point(|entry| entry.seq < before);
    part.entries.range(..to).rev()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    #[test]
    fn what_a_failed_task_had_is_taken_back_with_what_changed_since() {
        let place = |offset| Place { segment: 1, offset };
        let entry = |seq: Seq| {
            let stored = Stored { place: place(seq as u32), length: 10, ..Stored::default() };
            Entry { seq, stored: Arc::new(stored) }
        };
        let timeline = TimelineId::of(Space::Other, HashKey::new(1, 2), &[b"a"]);
        let mut touched = Touched::new(0, 0);
        let part = Part { entries: (1..=3).map(entry).collect(), old: None };
        let (row, as_of) = (HeadRow::default(), place(100));
        let (base, runs, doubtful) = (0, false, false);
        let flush = Flush { timeline, at: 0, part, row, as_of, base, runs, doubtful };
        touched.flushing = Some(Arc::new(flush));
        // Meanwhile the first left, the second moved, a fourth came.
        touched.part.old().gone.insert(1);
        touched.part.old().moved.insert(2, (Place { segment: 7, offset: 70 }, 77));
        touched.part.entries.push_back(entry(4));
        touched.take_back();
        let at: Vec<_> = touched.tail_after(0).map(|it| (it.seq, it.stored.place)).collect();
        assert_eq!(at, [(2, Place { segment: 7, offset: 70 }), (3, place(3)), (4, place(4))]);
        assert_eq!(touched.part.entries[0].stored.length, 77);
        assert!(touched.doubtful && touched.flushing.is_none() && touched.is_gone(1));
    }
}

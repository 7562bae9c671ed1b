//! Telling state what changed in a timeline: its runs are changed, lengthened or begun, its
//! cursors raised, and its head set, all in one batch.
//!
//! A flush reads state and knows no engine. Invariant: repeating a flush over its own outcome,
//! whole or absent, leads to the same state.

use crate::engine::index::heads::write_row;
use crate::engine::index::senseless;
use crate::engine::index::tail::{Flush, Old};
use crate::engine::read::runs::{run_around, runs_between};
use crate::engine::record::run;
use crate::engine::record::stored::{Entry, Stored};
use crate::engine::state::{Keep, State, StateChange, StateError};
use model::timeline::{Seq, TimelineId};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

/// Runs that change, by their first seqs. Those without entries go.
type Changed = BTreeMap<Seq, Vec<Entry>>;

/// Where the changes of timelines go: rows of a space come in the order of their keys.
pub(super) trait Rows {
    /// A row; `fill` appends its value.
    fn put(&mut self, space: Keep, key: &[u8], fill: impl FnOnce(&mut Vec<u8>));

    /// A row goes.
    fn delete(&mut self, space: Keep, key: &[u8]);
}

impl Rows for Vec<StateChange> {
    fn put(&mut self, space: Keep, key: &[u8], fill: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::with_capacity(64);
        fill(&mut value);
        self.push(StateChange::put(space, key, value));
    }

    fn delete(&mut self, space: Keep, key: &[u8]) {
        self.push(StateChange::delete(space, key));
    }
}

/// Appends the changes that tell of this timeline, of which state has those before it.
pub(super) fn changes(
    state: &dyn State,
    flush: &Flush,
    out: &mut impl Rows,
) -> Result<(), StateError> {
    if let Some(entries) = only_new(flush) {
        for some in entries.chunks(run::ENTRIES_MAX) {
            put_run(flush.timeline, some[0].seq, some, out);
        }
        put_head(flush, out);
        return Ok(());
    }
    let mut changed = Changed::new();
    if flush.runs || flush.doubtful {
        if let Some(old) = &flush.part.old {
            change_runs(state, flush, old, &mut changed)?;
        }
        if flush.doubtful {
            cut_runs(state, flush, &mut changed)?;
        }
    }
    append(state, flush, &mut changed)?;
    for (first, entries) in changed {
        if entries.is_empty() {
            out.delete(Keep::Runs, &run::key(flush.timeline, first));
        } else {
            put_run(flush.timeline, first, &entries, out);
        }
    }
    if let Some(old) = &flush.part.old {
        change_cursors(state, flush.timeline, old, out)?;
    }
    put_head(flush, out);
    Ok(())
}

/// The new entries, if the flush has nothing else: no run in state changes.
fn only_new(flush: &Flush) -> Option<&[Entry]> {
    let (entries, rest) = flush.part.entries.as_slices();
    let joins = flush.runs && entries.last().is_some_and(|last| crosses(flush, last));
    let only = rest.is_empty() && flush.part.old.is_none() && !flush.doubtful && !joins;
    only.then_some(entries)
}

/// Whether the timeline's numbers go on in another window.
fn crosses(flush: &Flush, last: &Entry) -> bool {
    last.seq / run::WINDOW != flush.base / run::WINDOW
}

fn put_run(timeline: TimelineId, first: Seq, entries: &[Entry], out: &mut impl Rows) {
    let key = run::key(timeline, first);
    out.put(Keep::Runs, &key, |value| run::write(first, entries, value));
}

fn put_head(flush: &Flush, out: &mut impl Rows) {
    let key = flush.timeline.to_bytes();
    out.put(Keep::Heads, &key, |value| write_row(flush.row, flush.as_of, value));
}

/// Takes out what is gone, and says where messages stand now.
fn change_runs(
    state: &dyn State,
    flush: &Flush,
    old: &Old,
    changed: &mut Changed,
) -> Result<(), StateError> {
    for (from, to) in old.gone.iter() {
        let mut sense = true;
        let to = to.min(flush.base);
        runs_between(state, flush.timeline, (from - 1, to), &mut |first, head, value| {
            if changed.contains_key(&first) || head.last < from {
                return true;
            }
            if from <= first && head.last <= to {
                changed.insert(first, Vec::new());
                return true;
            }
            let Some(entries) = run::read(first, value) else {
                sense = false;
                return false;
            };
            let left = entries.into_iter().filter(|entry| !old.gone.has(entry.seq));
            changed.insert(first, left.collect());
            true
        })?;
        if !sense {
            return Err(senseless());
        }
    }
    for (&seq, &(place, length)) in &old.moved {
        let Some((first, value)) = run_around(state, flush.timeline, seq)? else { continue };
        let entries = match changed.entry(first) {
            Slot::Occupied(entry) => entry.into_mut(),
            Slot::Vacant(entry) => entry.insert(run::read(first, &value).ok_or_else(senseless)?),
        };
        if let Ok(at) = entries.binary_search_by_key(&seq, |entry| entry.seq) {
            let stored = Stored { place, length, ..(*entries[at].stored).clone() };
            entries[at].stored = Arc::new(stored);
        }
    }
    Ok(())
}

/// Takes out what a flush before this one, of which nobody knows whether it failed, put behind
/// the base.
fn cut_runs(state: &dyn State, flush: &Flush, changed: &mut Changed) -> Result<(), StateError> {
    let mut sense = true;
    runs_between(state, flush.timeline, (flush.base, Seq::MAX - 1), &mut |first, _, value| {
        if let Slot::Vacant(slot) = changed.entry(first) {
            let read = run::read(first, value);
            sense = read.is_some();
            slot.insert(read.unwrap_or_default());
        }
        sense
    })?;
    for entries in changed.values_mut() {
        entries.retain(|entry| entry.seq <= flush.base);
    }
    if sense { Ok(()) } else { Err(senseless()) }
}

/// Adds what is new in runs of its own. Where a timeline's numbers cross into the next window, the
/// short runs of the last window become one with it: so an entry is written twice at most for
/// this, and state is seldom read.
fn append(state: &dyn State, flush: &Flush, changed: &mut Changed) -> Result<(), StateError> {
    let Some(last) = flush.part.entries.back() else { return Ok(()) };
    let mut joined = Vec::new();
    if flush.runs && !flush.doubtful && crosses(flush, last) {
        let window = flush.base - flush.base % run::WINDOW;
        let mut sense = true;
        runs_between(state, flush.timeline, (window, flush.base), &mut |first, _, value| {
            if first > window && !changed.contains_key(&first) {
                let read = run::read(first, value);
                sense = read.is_some();
                changed.extend(read.map(|entries| (first, entries)));
            }
            sense
        })?;
        if !sense {
            return Err(senseless());
        }
        for entries in changed.range_mut(window + 1..).map(|(_, entries)| entries) {
            joined.append(entries);
        }
    }
    joined.extend(flush.part.entries.iter().cloned());
    for entries in joined.chunks(run::ENTRIES_MAX) {
        changed.insert(entries[0].seq, entries.to_vec());
    }
    Ok(())
}

fn change_cursors(
    state: &dyn State,
    timeline: TimelineId,
    old: &Old,
    out: &mut impl Rows,
) -> Result<(), StateError> {
    use crate::engine::read::standing::{cursor_key, cursor_range, read_cursor};
    if old.forgot {
        let (from, to) = cursor_range(timeline);
        state.range(Keep::Cursors, (&from, &to), false, &mut |key, _| {
            out.delete(Keep::Cursors, key);
            true
        })?;
    }
    for (&reader, &at) in &old.cursors {
        let key = cursor_key(timeline, reader);
        let before = if old.forgot { None } else { state.get(Keep::Cursors, &key)? };
        let before = before.and_then(|value| read_cursor(&value)).unwrap_or(0);
        let at = at.max(before).to_le_bytes();
        out.put(Keep::Cursors, &key, |value| value.extend_from_slice(&at));
    }
    Ok(())
}

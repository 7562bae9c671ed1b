//! Walking the runs of a timeline in state, in both directions.
//!
//! The walk knows neither later changes nor bodies. Invariant: entries are given in the order of
//! their seqs, or backwards, and an invalid run is an error and not a gap.

use crate::engine::index::senseless;
use crate::engine::record::run::{self, RunHead};
use crate::engine::record::stored::{Entry, Leaving};
use crate::engine::state::{Keep, State, StateError};
use model::timeline::{Seq, TimelineId};

/// The first seq and value of the run in which an entry with this seq would be.
pub(crate) fn run_around(
    state: &dyn State,
    timeline: TimelineId,
    seq: Seq,
) -> Result<Option<(Seq, Vec<u8>)>, StateError> {
    let (from, to) = (run::key(timeline, 0), run::key(timeline, seq.saturating_add(1)));
    let mut found = None;
    state.range(Keep::Runs, (&from, &to), true, &mut |key, value| {
        found = Some((run::read_key(key), value.to_vec()));
        false
    })?;
    match found {
        None => Ok(None),
        Some((Some((_, first)), value)) => Ok(Some((first, value))),
        Some((None, _)) => Err(senseless()),
    }
}

/// Runs that may have entries from `after` (without) to `upto` (with), until `each` says false.
pub(crate) fn runs_between(
    state: &dyn State,
    timeline: TimelineId,
    (after, upto): (Seq, Seq),
    each: &mut dyn FnMut(Seq, RunHead, &[u8]) -> bool,
) -> Result<(), StateError> {
    let first = run_around(state, timeline, after.saturating_add(1))?;
    let first = first.map_or(after.saturating_add(1), |(first, _)| first);
    let (from, to) = (run::key(timeline, first), run::key(timeline, upto.saturating_add(1)));
    let mut sense = true;
    state.range(Keep::Runs, (&from, &to), false, &mut |key, value| {
        let said =
            run::read_key(key).and_then(|(_, first)| Some((first, run::read_head(first, value)?)));
        sense = said.is_some();
        said.is_some_and(|(first, head)| each(first, head, value))
    })?;
    if sense { Ok(()) } else { Err(senseless()) }
}

/// Entries from `after` (without) to `upto` (with), until `each` says false.
pub(crate) fn forwards(
    state: &dyn State,
    timeline: TimelineId,
    (after, upto): (Seq, Seq),
    each: &mut dyn FnMut(Entry) -> bool,
) -> Result<(), StateError> {
    let mut sense = true;
    runs_between(state, timeline, (after, upto), &mut |first, _, value| {
        let Some(entries) = run::read(first, value) else {
            sense = false;
            return false;
        };
        let between = |entry: &Entry| entry.seq > after && entry.seq <= upto;
        entries.into_iter().filter(between).all(&mut *each)
    })?;
    if sense { Ok(()) } else { Err(senseless()) }
}

/// Entries from `before` (without) downwards, until `each` says false.
pub(crate) fn backwards(
    state: &dyn State,
    timeline: TimelineId,
    before: Seq,
    each: &mut dyn FnMut(Entry) -> bool,
) -> Result<(), StateError> {
    let (from, to) = (run::key(timeline, 0), run::key(timeline, before));
    let mut sense = true;
    state.range(Keep::Runs, (&from, &to), true, &mut |key, value| {
        let read = run::read_key(key).and_then(|(_, first)| run::read(first, value));
        let Some(entries) = read else {
            sense = false;
            return false;
        };
        entries.into_iter().rev().filter(|entry| entry.seq < before).all(&mut *each)
    })?;
    if sense { Ok(()) } else { Err(senseless()) }
}

/// The entry with this seq.
pub(crate) fn entry(
    state: &dyn State,
    timeline: TimelineId,
    seq: Seq,
) -> Result<Option<Entry>, StateError> {
    Finder::new(timeline).find(state, seq)
}

/// Looks for single entries of one timeline, and remembers the run of the last one.
pub(crate) struct Finder {
    timeline: TimelineId,
    /// From and to where, and what is there.
    run: Option<(Seq, Seq, Vec<Entry>)>,
}

impl Finder {
    pub(crate) fn new(timeline: TimelineId) -> Finder {
        Finder { timeline, run: None }
    }

    /// The entry with this seq.
    pub(crate) fn find(
        &mut self,
        state: &dyn State,
        seq: Seq,
    ) -> Result<Option<Entry>, StateError> {
        if !self.run.as_ref().is_some_and(|(first, last, _)| (*first..=*last).contains(&seq)) {
            let Some((first, value)) = run_around(state, self.timeline, seq)? else {
                return Ok(None);
            };
            let entries = run::read(first, &value).ok_or_else(senseless)?;
            let last = entries.last().map_or(first, |entry| entry.seq);
            self.run = Some((first, last, entries));
        }
        let (_, _, entries) = self.run.as_ref().expect("just made sure of");
        let at = entries.binary_search_by_key(&seq, |entry| entry.seq);
        Ok(at.ok().map(|at| entries[at].clone()))
    }

    /// As [`find`](Self::find), in the form that a removal needs.
    pub(crate) fn leaving(
        &mut self,
        state: &dyn State,
        seq: Seq,
    ) -> Result<Option<Leaving>, StateError> {
        let found = self.find(state, seq)?;
        Ok(found.map(|entry| Leaving::of(seq, &entry.stored)))
    }
}

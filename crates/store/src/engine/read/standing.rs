//! Status of a timeline and one of its readers.

use super::{runs, state_failed};
use crate::engine::Engine;
use crate::engine::index::head_in_state;
use crate::engine::index::ranges::Ranges;
use crate::engine::record::run;
use crate::engine::state::{Keep, State, StateError};
use model::ports::log::{StoreError, TimelineStatus};
use model::timeline::{ReaderId, Seq, TimelineId};
use std::sync::Arc;

/// A standing in the making.
pub(crate) struct StandingPlan {
    state: Arc<dyn State>,
    timeline: TimelineId,
    reader: ReaderId,
    known: Option<Known>,
}

/// Status of a timeline in memory.
struct Known {
    /// `unread` without that of the runs.
    standing: TimelineStatus,
    /// State is to be asked for the cursor.
    cursor: bool,
    /// Runs are to be counted up to here, without what is gone.
    runs: Option<(Seq, Ranges)>,
}

/// The key of a cursor.
pub(crate) fn cursor_key(timeline: TimelineId, reader: ReaderId) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&timeline.to_bytes());
    key[16..].copy_from_slice(&reader.0.to_be_bytes());
    key
}

/// From and up to where the cursors of a timeline are.
pub(crate) fn cursor_range(timeline: TimelineId) -> ([u8; 24], [u8; 25]) {
    let mut to = [u8::MAX; 25];
    to[..16].copy_from_slice(&timeline.to_bytes());
    (cursor_key(timeline, ReaderId(0)), to)
}

/// The value of a cursor.
pub(crate) fn read_cursor(value: &[u8]) -> Option<Seq> {
    value.try_into().ok().map(Seq::from_le_bytes)
}

impl Engine {
    pub(super) fn plan_standing(
        &self,
        timeline: TimelineId,
        reader: ReaderId,
    ) -> Result<StandingPlan, StateError> {
        let state = Arc::clone(&self.index.state);
        let mut plan = StandingPlan { state, timeline, reader, known: None };
        let Some(slot) = self.index.heads.find(timeline) else {
            return Ok(plan);
        };
        let row = self.index.heads.at(slot).row();
        let mut standing =
            TimelineStatus { last: row.last, count: row.count, cursor: 0, unread: 0 };
        let Some(touched) = self.index.touched(slot) else {
            let runs = Some((row.last, Ranges::default()));
            plan.known = Some(Known { standing, cursor: true, runs });
            return Ok(plan);
        };
        let cursor = touched.cursor(reader);
        standing.cursor = cursor.at_least;
        if !cursor.whole {
            // What is new is counted here and now, so the cursor must be known.
            standing.cursor = cursor.at_least.max(cursor_in(&*plan.state, timeline, reader)?);
        }
        standing.unread = touched.tail_after(standing.cursor).count() as u64;
        let (all, base) = (self.index.runs(slot), touched.base);
        if standing.cursor == 0 {
            standing.unread += all;
        }
        let more = standing.cursor > 0 && standing.cursor < base && all > 0;
        let runs = more.then(|| (base, touched.gone()));
        plan.known = Some(Known { standing, cursor: false, runs });
        Ok(plan)
    }
}

impl StandingPlan {
    /// Whether memory knows it all.
    pub(super) fn is_ready(&self) -> bool {
        self.known.as_ref().is_some_and(|known| !known.cursor && known.runs.is_none())
    }

    pub(super) fn finish(self) -> Result<TimelineStatus, StoreError> {
        self.ask().map_err(|error| state_failed(&error))
    }

    fn ask(self) -> Result<TimelineStatus, StateError> {
        let StandingPlan { state, timeline, reader, known } = self;
        let known = match known {
            Some(known) => known,
            None => {
                let row = head_in_state(&*state, timeline)?.unwrap_or_default().0;
                let standing =
                    TimelineStatus { last: row.last, count: row.count, cursor: 0, unread: 0 };
                Known { standing, cursor: true, runs: Some((row.last, Ranges::default())) }
            }
        };
        let Known { mut standing, cursor, runs } = known;
        if cursor {
            standing.cursor = cursor_in(&*state, timeline, reader)?;
        }
        if let Some((upto, gone)) = runs {
            standing.unread += match standing.cursor {
                0 => standing.count,
                cursor => count(&*state, timeline, (cursor, upto), &gone)?,
            };
        }
        Ok(standing)
    }
}

pub(crate) fn cursor_in(
    state: &dyn State,
    timeline: TimelineId,
    reader: ReaderId,
) -> Result<Seq, StateError> {
    let value = state.get(Keep::Cursors, &cursor_key(timeline, reader))?;
    Ok(value.and_then(|value| read_cursor(&value)).unwrap_or(0))
}

/// Entries of the runs from `after` (without) to `upto` (with) that are not gone.
fn count(
    state: &dyn State,
    timeline: TimelineId,
    (after, upto): (Seq, Seq),
    gone: &Ranges,
) -> Result<u64, StateError> {
    let (mut count, mut sense) = (0, true);
    if after >= upto {
        return Ok(0);
    }
    runs::runs_between(state, timeline, (after, upto), &mut |first, head, value| {
        let inside = first > after && head.last <= upto;
        let untouched = gone.iter().all(|(from, to)| to < first || head.last < from);
        if inside && untouched {
            count += head.count;
            return true;
        }
        let Some(entries) = run::read(first, value) else {
            sense = false;
            return false;
        };
        let there = entries
            .iter()
            .filter(|entry| entry.seq > after && entry.seq <= upto && !gone.has(entry.seq));
        count += there.count() as u64;
        true
    })?;
    if sense { Ok(count) } else { Err(crate::engine::index::senseless()) }
}

//! Retention: what a space's rule drops is removed like anything else, slice by slice.
//!
//! A timeline that grew too long, or whose reader went on, waits to be trimmed at its front; now
//! and then a sweep looks at all timelines for those, and at all runs for messages that are too
//! old. An upkeep task finds what goes, the engine's thread writes ordinary Remove records.
//! Invariant: nothing goes that its rule does not name.

use super::Work;
use crate::engine::commit::Batch;
use crate::engine::index::heads::{HeadRow, read_row};
use crate::engine::index::{head_in_state, senseless};
use crate::engine::read::page::PagePlan;
use crate::engine::read::standing::{cursor_range, read_cursor};
use crate::engine::record::run;
use crate::engine::record::stored::Leaving;
use crate::engine::state::{Keep, State, StateError};
use crate::engine::{Engine, EngineSettings, Retention};
use crate::log::Purpose;
use model::ports::log::{Pull, REMOVE_SEQS_MAX, StoreError};
use model::timeline::{ReaderId, Seq, Space, TimelineId};
use model::{event, tell};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Rows of state that one slice of a sweep looks at, at most.
const SLICE_ROWS: usize = 4_096;

/// Timelines that wait to be trimmed, each once. Beyond, a sweep finds them later.
#[derive(Default)]
pub(in crate::engine) struct Excess {
    queue: VecDeque<TimelineId>,
    there: HashSet<TimelineId>,
}

/// Timelines that may wait at most.
const EXCESS_MAX: usize = 65_536;

impl Excess {
    pub(in crate::engine) fn push(&mut self, timeline: TimelineId) {
        if self.queue.len() < EXCESS_MAX && self.there.insert(timeline) {
            self.queue.push_back(timeline);
        }
    }

    pub(in crate::engine) fn len(&self) -> usize {
        self.queue.len()
    }

    fn pop(&mut self) -> Option<TimelineId> {
        let timeline = self.queue.pop_front()?;
        self.there.remove(&timeline);
        Some(timeline)
    }
}

/// Whether a timeline is longer than its rule allows.
pub(in crate::engine) fn is_over(rule: &Retention, row: HeadRow) -> bool {
    rule.count_max.is_some_and(|max| row.count > max)
        || rule.bytes_max.is_some_and(|max| row.bytes > max)
}

/// What is known of a timeline that is to be trimmed.
pub(super) struct Trim {
    timeline: TimelineId,
    rule: Retention,
    now_s: u32,
    row: Option<HeadRow>,
    entries: PagePlan,
    /// And whether state has nothing to add.
    cursors: (BTreeMap<ReaderId, Seq>, bool),
}

/// Entries of a timeline that go.
struct Going {
    timeline: TimelineId,
    row: HeadRow,
    leaving: Vec<Leaving>,
}

/// What came of it.
pub(super) struct Trimmed(Result<(Going, bool), StateError>);

impl Trim {
    pub(super) fn run(self) -> Trimmed {
        Trimmed(self.find())
    }

    fn find(self) -> Result<(Going, bool), StateError> {
        let Trim { timeline, rule, now_s, row, entries, cursors } = self;
        let state = entries.state();
        let upto = if rule.acknowledged { read_by_all(&*state, timeline, cursors)? } else { 0 };
        let row = match row {
            Some(row) => row,
            None => head_in_state(&*state, timeline)?.unwrap_or_default().0,
        };
        let mut left = row;
        let mut leaving = Vec::new();
        for (entry, _) in entries.entries()? {
            let front = is_over(&rule, left) || entry.seq <= upto;
            if front || is_too_old(&rule, now_s, entry.stored.at_s) {
                left.count = left.count.saturating_sub(1);
                left.bytes = left.bytes.saturating_sub(entry.stored.weight());
                leaving.push(Leaving::of(entry.seq, &entry.stored));
            } else {
                break;
            }
        }
        let more = leaving.len() == REMOVE_SEQS_MAX;
        Ok((Going { timeline, row, leaving }, more))
    }
}

/// The last seq that every reader has, zero if there is no reader.
fn read_by_all(
    state: &dyn State,
    timeline: TimelineId,
    (mut cursors, whole): (BTreeMap<ReaderId, Seq>, bool),
) -> Result<Seq, StateError> {
    let mut sense = true;
    if !whole {
        let (from, to) = cursor_range(timeline);
        state.range(Keep::Cursors, (&from, &to), false, &mut |key, value| {
            let reader = key.get(16..).and_then(|reader| reader.try_into().ok());
            let said = reader.map(u64::from_be_bytes).map(ReaderId).zip(read_cursor(value));
            if let Some((reader, at)) = said {
                let cursor = cursors.entry(reader).or_insert(0);
                *cursor = at.max(*cursor);
            }
            sense = said.is_some();
            sense
        })?;
    }
    let upto = cursors.values().min().copied().unwrap_or(0);
    if sense { Ok(upto) } else { Err(senseless()) }
}

fn is_too_old(rule: &Retention, now_s: u32, at_s: u32) -> bool {
    rule.age_s_max.is_some_and(|max| now_s > at_s.saturating_add(max))
}

/// Whether to go on behind a row; `None` when it makes no sense.
type EachRow<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Option<bool>;

/// A walk over all that state knows.
pub(in crate::engine) struct Sweep {
    now_s: u32,
    rules: Vec<(Space, Retention)>,
    /// Those that are still to be walked through, the next last.
    walks: Vec<(SweepTable, Space)>,
    /// Where to go on in that one.
    from: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SweepTable {
    Heads,
    Runs,
}

/// What a slice of a sweep found.
pub(super) struct Swept {
    /// The rest of it.
    rest: Option<Sweep>,
    over: Vec<TimelineId>,
    old: Vec<Going>,
    error: Option<StateError>,
}

impl Sweep {
    pub(super) fn new(settings: &EngineSettings, now_s: u32) -> Sweep {
        let rules: Vec<_> = Space::ALL.map(|space| (space, settings.rule(space))).into();
        let mut walks = Vec::new();
        for &(space, rule) in &rules {
            if rule.age_s_max.is_some() {
                walks.push((SweepTable::Runs, space));
            }
        }
        for &(space, rule) in &rules {
            if rule.count_max.is_some() || rule.bytes_max.is_some() || rule.acknowledged {
                walks.push((SweepTable::Heads, space));
            }
        }
        Sweep { now_s, rules, walks, from: Vec::new() }
    }

    pub(super) fn run(mut self, state: &dyn State) -> Swept {
        let mut swept = Swept { rest: None, over: Vec::new(), old: Vec::new(), error: None };
        let Some(&(walk, space)) = self.walks.last() else { return swept };
        let next = match walk {
            SweepTable::Heads => self.heads(state, space, &mut swept),
            SweepTable::Runs => self.runs(state, space, &mut swept),
        };
        match next {
            Err(error) => {
                swept.error = Some(error);
                return swept;
            }
            Ok(Some(from)) => self.from = from,
            Ok(None) => {
                self.from.clear();
                self.walks.pop();
            }
        }
        swept.rest = Some(self).filter(|sweep| !sweep.walks.is_empty());
        swept
    }

    /// Where to go on, `None` at the end.
    fn heads(
        &self,
        state: &dyn State,
        space: Space,
        swept: &mut Swept,
    ) -> Result<Option<Vec<u8>>, StateError> {
        let rule = self.rule(space);
        self.walk(state, (Keep::Heads, space), &mut |key, value| {
            let id = key.try_into().ok().and_then(TimelineId::from_bytes);
            let (timeline, (row, _)) = id.zip(read_row(value))?;
            if is_over(&rule, row) || rule.acknowledged && row.count > 0 {
                swept.over.push(timeline);
            }
            Some(true)
        })
    }

    fn runs(
        &self,
        state: &dyn State,
        space: Space,
        swept: &mut Swept,
    ) -> Result<Option<Vec<u8>>, StateError> {
        let rule = self.rule(space);
        let mut found = 0;
        let next = self.walk(state, (Keep::Runs, space), &mut |key, value| {
            let (timeline, first) = run::read_key(key)?;
            if !is_too_old(&rule, self.now_s, run::read_head(first, value)?.oldest_s) {
                return Some(true);
            }
            let entries = run::read(first, value)?;
            let old = entries.iter().filter(|e| is_too_old(&rule, self.now_s, e.stored.at_s));
            let leaving: Vec<_> = old.map(|e| Leaving::of(e.seq, &e.stored)).collect();
            found += leaving.len();
            swept.old.push(Going { timeline, row: HeadRow::default(), leaving });
            Some(found < REMOVE_SEQS_MAX)
        })?;
        for going in &mut swept.old {
            going.row = head_in_state(state, going.timeline)?.unwrap_or_default().0;
        }
        Ok(next)
    }

    fn rule(&self, space: Space) -> Retention {
        let rule = self.rules.iter().find(|(other, _)| *other == space);
        rule.map(|(_, rule)| *rule).unwrap_or_default()
    }

    /// Walks on through the rows of a space. Where to go on, `None` at the end.
    fn walk(
        &self,
        state: &dyn State,
        (keep, space): (Keep, Space),
        each: EachRow<'_>,
    ) -> Result<Option<Vec<u8>>, StateError> {
        let from = if self.from.is_empty() { vec![space as u8] } else { self.from.clone() };
        let to = [space as u8; 1].map(|byte| byte.saturating_add(1));
        let to: &[u8] = if space as u8 == u8::MAX { &[u8::MAX; 32] } else { &to };
        let (mut rows, mut sense, mut next) = (0, true, None);
        state.range(keep, (&from, to), false, &mut |key, value| {
            rows += 1;
            let said = each(key, value);
            sense = said.is_some();
            let on = rows < SLICE_ROWS && said == Some(true);
            if !on {
                next = Some([key, &[0]].concat());
            }
            on
        })?;
        if sense { Ok(next) } else { Err(senseless()) }
    }
}

impl Engine {
    pub(super) fn trim_work(&mut self, now_s: u32) -> Option<Work> {
        let timeline = self.excess.pop()?;
        let rule = self.settings.rule(timeline.space());
        let pull = Pull { timeline, from: 0, backwards: false, count_max: 0, bytes_max: 0 };
        let entries = self.plan_entries(pull, REMOVE_SEQS_MAX);
        let slot = self.index.heads.find(timeline);
        let touched = slot.and_then(|slot| self.index.touched(slot));
        let cursors = touched.map_or_else(Default::default, |touched| touched.cursors());
        let row = slot.map(|slot| self.index.heads.at(slot).row());
        Some(Work::Trim(Box::new(Trim { timeline, rule, now_s, row, entries, cursors })))
    }

    pub(super) fn sweep_work(&mut self, now_s: u32) -> Option<Work> {
        let due = self
            .upkeep
            .swept_s
            .is_none_or(|swept_s| now_s.saturating_sub(swept_s) >= self.settings.sweep_s);
        if self.upkeep.sweep.is_none() && due {
            self.upkeep.swept_s = Some(now_s);
            self.upkeep.sweep = Some(Sweep::new(&self.settings, now_s));
        }
        let sweep = self.upkeep.sweep.take();
        sweep.filter(|sweep| !sweep.walks.is_empty()).map(Work::Sweep)
    }

    pub(super) fn trimmed(&mut self, now_s: u32, trimmed: Trimmed) {
        match trimmed.0 {
            Err(error) => tell!(event::RETENTION_FAILED, %error),
            Ok((going, more)) => {
                let timeline = going.timeline;
                if self.drop_entries(now_s, &[going]).is_ok() && more {
                    self.excess.push(timeline);
                }
            }
        }
    }

    pub(super) fn swept(&mut self, now_s: u32, swept: Swept) {
        if let Some(error) = swept.error {
            tell!(event::RETENTION_FAILED, %error);
        }
        swept.over.into_iter().for_each(|timeline| self.excess.push(timeline));
        // What finds no room now is found again by the next sweep.
        let _ = self.drop_entries(now_s, &swept.old);
        self.upkeep.sweep = swept.rest;
        self.upkeep.swept_s = Some(now_s);
    }

    fn drop_entries(&mut self, now_s: u32, going: &[Going]) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for Going { timeline, row, leaving } in going {
            self.index.head_of(*timeline, *row);
            let by_seq: HashMap<_, _> = leaving.iter().map(|one| (one.seq, *one)).collect();
            for some in leaving.chunks(REMOVE_SEQS_MAX) {
                let seqs: Vec<Seq> = some.iter().map(|one| one.seq).collect();
                let mut in_runs = |seq: Seq| Ok(by_seq.get(&seq).copied());
                let removed = self.remove(*timeline, &seqs, &mut in_runs, &mut batch);
                removed.expect("neither head nor runs are read from state");
            }
        }
        self.finish_batch(now_s, batch, Purpose::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;

    fn timeline(number: usize) -> TimelineId {
        TimelineId::of(Space::Other, HashKey::new(1, 2), &[&number.to_le_bytes()])
    }

    #[test]
    fn what_waits_to_be_trimmed_waits_once_and_within_its_limit() {
        let mut excess = Excess::default();
        excess.push(timeline(0));
        excess.push(timeline(0));
        assert_eq!(excess.len(), 1);
        (1..EXCESS_MAX).for_each(|number| excess.push(timeline(number)));
        assert_eq!(excess.len(), EXCESS_MAX);
        excess.push(timeline(EXCESS_MAX));
        assert_eq!(excess.len(), EXCESS_MAX, "the next sweep finds it");
        assert_eq!(excess.pop(), Some(timeline(0)), "in the order in which they came");
        excess.push(timeline(0));
        assert_eq!(excess.len(), EXCESS_MAX, "it may wait again");
    }

    #[test]
    fn a_rule_is_kept_at_its_limit_and_broken_beyond() {
        let row = |count, bytes| HeadRow { count, bytes, ..HeadRow::default() };
        let counted = Retention { count_max: Some(3), ..Retention::default() };
        assert!(!is_over(&counted, row(3, 999)) && is_over(&counted, row(4, 0)));
        let weighed = Retention { bytes_max: Some(100), ..Retention::default() };
        assert!(!is_over(&weighed, row(999, 100)) && is_over(&weighed, row(0, 101)));
        assert!(!is_over(&Retention::default(), row(u64::MAX, u64::MAX)));
        let aged = Retention { age_s_max: Some(60), ..Retention::default() };
        assert!(!is_too_old(&aged, 160, 100) && is_too_old(&aged, 161, 100));
        assert!(!is_too_old(&aged, u32::MAX, u32::MAX - 1), "the sum does not wrap");
        assert!(!is_too_old(&Retention::default(), u32::MAX, 0));
    }
}

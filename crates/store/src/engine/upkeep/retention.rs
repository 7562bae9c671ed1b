//! Retention: what a space's rule drops is removed like anything else, slice by slice.
//!
//! A timeline that grew too long, or whose reader went on, waits to be trimmed at its front; now
//! and then a sweep looks at all timelines for those, and at all runs for messages that are too
//! old, or the oldest of a log that comes near its limit (`room.rs`). An upkeep task finds what
//! goes, the engine's thread writes ordinary Remove records. Invariant: nothing goes that its rule
//! does not name.

use super::{Work, room};
use crate::engine::commit::Batch;
use crate::engine::index::heads::{HeadRow, read_row};
use crate::engine::index::rows::row_key;
use crate::engine::index::{head_in_state, senseless};
use crate::engine::read::page::PagePlan;
use crate::engine::read::standing::{cursor_in, cursor_range, read_cursor};
use crate::engine::record::stored::Leaving;
use crate::engine::record::{self, run};
use crate::engine::settings::rule_of;
use crate::engine::state::{Keep, State, StateError};
use crate::engine::{Engine, EngineSettings, Retention, RetentionRule};
use crate::log::{Purpose, RecordKind};
use model::ports::log::{Pull, REMOVE_SEQS_MAX, RowHome, StoreError};
use model::timeline::{ReaderId, Seq, Space, TimelineId};
use model::{event, tell};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Rows of state that one slice of a sweep looks at, at most.
const SLICE_ROWS: usize = 4_096;

/// Rows of one timeline that go with its messages at once, at most.
const ROWS_A_TIMELINE: usize = 1_024;

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

/// A timeline that is to be trimmed.
pub(super) struct Trim {
    timeline: TimelineId,
    rules: Vec<RetentionRule>,
    now_s: u32,
    row: Option<HeadRow>,
    entries: PagePlan,
    /// Cursors, and whether state has nothing to add.
    cursors: (BTreeMap<ReaderId, Seq>, bool),
}

/// Entries of a timeline that go.
struct Going {
    timeline: TimelineId,
    row: HeadRow,
    leaving: Vec<Leaving>,
    rule: Retention,
    /// Keys of rows that stand in place of messages and go with them.
    rows: Vec<Box<[u8]>>,
}

/// Result of a trim.
pub(super) struct Trimmed(Result<(Going, bool), StateError>);

impl Trim {
    pub(super) fn run(self) -> Trimmed {
        Trimmed(self.find())
    }

    fn find(self) -> Result<(Going, bool), StateError> {
        let Trim { timeline, rules, now_s, row, entries, cursors } = self;
        let state = entries.state();
        let row = match row {
            Some(row) => row,
            None => head_in_state(&*state, timeline)?.unwrap_or_default().0,
        };
        let entries = entries.entries()?;
        let label = entries.first().map_or(&[][..], |(entry, _)| &entry.stored.label);
        let rule = rule_of(&rules, timeline.space(), label);
        let upto = if rule.acknowledged { read_by_all(&*state, timeline, cursors)? } else { 0 };
        let floor = floor(&*state, timeline, &rule)?;
        let mut left = row;
        let mut leaving = Vec::new();
        for (entry, _) in entries.iter().take_while(|(entry, _)| entry.seq <= floor) {
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
        let mut going = Going { timeline, row, leaving, rule, rows: Vec::new() };
        going.find_rows(&*state)?;
        Ok((going, more))
    }
}

impl Going {
    /// The last that goes.
    fn upto(&self) -> Option<Seq> {
        self.leaving.iter().map(|leaving| leaving.seq).max()
    }

    /// Finds the rows that stand in place of messages up to the last that goes.
    fn find_rows(&mut self, state: &dyn State) -> Result<(), StateError> {
        let (Some(table), Some(upto)) = (self.rule.rows, self.upto()) else { return Ok(()) };
        let key = |seq: Seq| row_key(table, &RowHome::key_of(self.timeline, &[&seq.to_be_bytes()]));
        let (from, to) = (key(0), key(upto.saturating_add(1)));
        let mut rows = Vec::new();
        state.range(Keep::Rows, (&from, &to), false, &mut |key, _| {
            rows.push(key[1..].into());
            rows.len() < ROWS_A_TIMELINE
        })?;
        self.rows = rows;
        Ok(())
    }
}

/// Place up to which messages of a timeline may go.
fn floor(state: &dyn State, timeline: TimelineId, rule: &Retention) -> Result<Seq, StateError> {
    rule.behind.map_or(Ok(Seq::MAX), |reader| cursor_in(state, timeline, reader))
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
pub(super) type EachRow<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Option<bool>;

/// A walk over all that state knows.
pub(in crate::engine) struct Sweep {
    now_s: u32,
    rules: Vec<RetentionRule>,
    /// Of what gives way those go that were made before this second, until they had so many bytes.
    giving_way: Option<(u32, u64)>,
    /// Tables and spaces still to be walked, the next last.
    walks: Vec<(SweepTable, Space)>,
    /// Where to go on in that one.
    from: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SweepTable {
    Heads,
    Runs,
}

/// Findings of a slice of a sweep.
pub(super) struct Swept {
    /// The rest of it.
    rest: Option<Sweep>,
    over: Vec<TimelineId>,
    old: Vec<Going>,
    /// Whether the sweep made room by dropping the oldest.
    gives_way: bool,
    error: Option<StateError>,
}

impl Sweep {
    pub(super) fn new(settings: &EngineSettings, now_s: u32) -> Sweep {
        let of = |table, is: fn(&Retention) -> bool| {
            let has = move |space: &Space| settings.rules(*space).any(|it| is(&it.retention));
            Space::ALL.into_iter().filter(has).map(move |space| (table, space))
        };
        let old = of(SweepTable::Runs, |rule| rule.age_s_max.is_some());
        let walks = old.chain(of(SweepTable::Heads, Retention::is_of_heads)).collect();
        let rules = settings.retention.clone();
        Sweep { now_s, rules, giving_way: None, walks, from: Vec::new() }
    }

    /// One by which the oldest goes: what was made before a second, until it had so many bytes.
    pub(super) fn giving_way(settings: &EngineSettings, now_s: u32, what: (u32, u64)) -> Sweep {
        let spaces = spaces_giving_way(settings);
        let walks = spaces.into_iter().map(|space| (SweepTable::Runs, space)).collect();
        let (rules, giving_way) = (settings.retention.clone(), Some(what));
        Sweep { now_s, rules, giving_way, walks, from: Vec::new() }
    }

    pub(super) fn run(mut self, state: &dyn State) -> Swept {
        let (over, old, gives_way) = (Vec::new(), Vec::new(), self.giving_way.is_some());
        let mut swept = Swept { rest: None, over, old, gives_way, error: None };
        let Some(&(walk, space)) = self.walks.last() else { return swept };
        let next = match walk {
            SweepTable::Heads => self.heads(state, space, &mut swept),
            SweepTable::Runs => self.runs(state, space, &mut swept),
        };
        match next {
            Err(error) => {
                swept.old.clear();
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
        let rules: Vec<Retention> = self.rules_of(space).collect();
        walk(state, (Keep::Heads, space), &self.from, &mut |key, value| {
            let id = key.try_into().ok().and_then(TimelineId::from_bytes);
            let (timeline, (row, _)) = id.zip(read_row(value))?;
            // Which rule is a timeline's is seen when it is trimmed.
            if rules.iter().any(|rule| is_over(rule, row) || rule.acknowledged && row.count > 0) {
                swept.over.push(timeline);
            }
            Some(true)
        })
    }

    fn runs(
        &mut self,
        state: &dyn State,
        space: Space,
        swept: &mut Swept,
    ) -> Result<Option<Vec<u8>>, StateError> {
        let rules: Vec<Retention> = self.rules_of(space).collect();
        let (mut found, mut runs) = (0, Vec::new());
        let next = walk(state, (Keep::Runs, space), &self.from, &mut |key, value| {
            let (timeline, first) = run::read_key(key)?;
            let oldest_s = run::read_head(first, value)?.oldest_s;
            if !rules.iter().any(|rule| self.is_to_go(rule, oldest_s)) {
                return Some(true);
            }
            let entries = run::read(first, value)?;
            found += entries.len();
            runs.push((timeline, entries));
            Some(found < REMOVE_SEQS_MAX)
        })?;
        for (timeline, entries) in runs {
            let label = entries.first().map_or(&[][..], |entry| &entry.stored.label);
            let rule = rule_of(&self.rules, space, label);
            let floor = floor(state, timeline, &rule)?;
            let row = head_in_state(state, timeline)?.unwrap_or_default().0;
            let mut going = Going { timeline, row, leaving: Vec::new(), rule, rows: Vec::new() };
            for entry in entries.iter().filter(|entry| entry.seq <= floor) {
                let at_s = entry.stored.at_s;
                let is_old = is_too_old(&rule, self.now_s, at_s);
                if is_old || self.is_to_go(&rule, at_s) {
                    going.leaving.push(Leaving::of(entry.seq, &entry.stored));
                }
                if let (false, true, Some((_, left))) =
                    (is_old, self.is_to_go(&rule, at_s), &mut self.giving_way)
                {
                    *left = left.saturating_sub(room::bytes_of(space, &entry.stored));
                }
            }
            going.find_rows(state)?;
            swept.old.push(going);
        }
        Ok(next)
    }

    /// Whether a message that was made then goes.
    fn is_to_go(&self, rule: &Retention, at_s: u32) -> bool {
        let gives_way = self.giving_way.is_some_and(|(before_s, left)| at_s < before_s && left > 0);
        is_too_old(rule, self.now_s, at_s) || rule.gives_way && gives_way
    }

    fn rules_of(&self, space: Space) -> impl Iterator<Item = Retention> + '_ {
        self.rules.iter().filter(move |rule| rule.space == space).map(|rule| rule.retention)
    }
}

/// Walks on through the rows of a space. Where to go on, `None` at the end.
pub(super) fn walk(
    state: &dyn State,
    (keep, space): (Keep, Space),
    from: &[u8],
    each: EachRow<'_>,
) -> Result<Option<Vec<u8>>, StateError> {
    let from = if from.is_empty() { &[space as u8][..] } else { from };
    let to = [space as u8; 1].map(|byte| byte.saturating_add(1));
    let to: &[u8] = if space as u8 == u8::MAX { &[u8::MAX; 32] } else { &to };
    let (mut rows, mut sense, mut next) = (0, true, None);
    state.range(keep, (from, to), false, &mut |key, value| {
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

/// Spaces of which something gives way.
pub(super) fn spaces_giving_way(settings: &EngineSettings) -> Vec<Space> {
    let gives_way = |space: &Space| settings.rules(*space).any(|rule| rule.retention.gives_way);
    Space::ALL.into_iter().filter(gives_way).collect()
}

impl Engine {
    pub(super) fn trim_work(&mut self, now_s: u32) -> Option<Work> {
        let timeline = self.excess.pop()?;
        let rules = self.settings.rules(timeline.space()).collect();
        let pull = Pull { timeline, from: 0, backwards: false, count_max: 0, bytes_max: 0 };
        let entries = self.plan_entries(pull, REMOVE_SEQS_MAX);
        let slot = self.index.heads.find(timeline);
        let touched = slot.and_then(|slot| self.index.touched(slot));
        let cursors = touched.map_or_else(Default::default, |touched| touched.cursors());
        let row = slot.map(|slot| self.index.heads.at(slot).row());
        Some(Work::Trim(Box::new(Trim { timeline, rules, now_s, row, entries, cursors })))
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
        let dropped = self.drop_entries(now_s, &swept.old).unwrap_or(0);
        self.upkeep.sweep = swept.rest;
        match swept.gives_way {
            true => self.upkeep.gave_way += dropped,
            false => self.upkeep.swept_s = Some(now_s),
        }
    }

    /// Entries go, and what goes with them; how many.
    fn drop_entries(&mut self, now_s: u32, going: &[Going]) -> Result<u64, StoreError> {
        let (mut batch, mut dropped) = (Batch::default(), 0);
        for Going { timeline, row, leaving, rule, rows } in going {
            self.index.head_of(*timeline, *row);
            let by_seq: HashMap<_, _> = leaving.iter().map(|one| (one.seq, *one)).collect();
            for some in leaving.chunks(REMOVE_SEQS_MAX) {
                let seqs: Vec<Seq> = some.iter().map(|one| one.seq).collect();
                let mut in_runs = |seq: Seq| Ok(by_seq.get(&seq).copied());
                let removed = self.remove(*timeline, &seqs, &mut in_runs, &mut batch);
                let removed = removed.expect("neither head nor runs are read from state");
                dropped += removed as u64;
            }
            let upto = leaving.iter().map(|leaving| leaving.seq).max();
            if let (Some(reader), Some(upto)) = (rule.marks, upto) {
                let marked = self.acknowledge(*timeline, reader, upto, &mut batch);
                marked.expect("the head is in memory");
            }
            for (key, table) in rows.iter().zip(rule.rows.into_iter().cycle()) {
                self.log.add(RecordKind::Delete, |out| record::write_delete(table, key, out));
                self.set_row(table, key, None, &mut batch);
            }
        }
        self.finish_batch(now_s, batch, Purpose::End)?;
        self.upkeep.dropped += dropped;
        Ok(dropped)
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

//! Compaction: what is still alive in a segment is written again, so that the segment can go.
//!
//! An upkeep task reads a slice of the segment and asks state which entries still name its
//! messages; the engine's thread leaves out those that left since, and writes the rest with Move
//! records. The segment goes when the next checkpoint has passed. All entries of a segment's
//! messages are named by records of that segment, so one walk finds them. Invariant: a message is
//! where its entry says until a checkpoint has told state that it is elsewhere.

use crate::engine::Engine;
use crate::engine::commit::{Batch, TARGETS_BESIDE_MAX};
use crate::engine::index::counts::Count;
use crate::engine::index::head_in_state;
use crate::engine::index::heads::HeadRow;
use crate::engine::post::SLICE_MEMBERS;
use crate::engine::read::body::message_at;
use crate::engine::read::runs::Finder;
use crate::engine::record::stored::Stored;
use crate::engine::record::{Said, Whereabouts, list};
use crate::engine::state::{State, StateError};
use crate::engine::undo::Undo;
use crate::log::{Place, Purpose, ReadError, Reader, RecordKind};
use model::ports::log::StoreError;
use model::timeline::{Message, Seq, TimelineId};
use model::{event, tell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes of a segment that one slice reads, about.
const SLICE_BYTES: usize = 256 * 1024;

/// Timelines whose runs a slice remembers.
const FINDERS_MAX: usize = 1_024;

/// Timelines of lists that a slice remembers, or one list.
const LISTED_MAX: usize = 65_536;

/// When the log is nearly full, or all that is worth it is wanted: segments of which at most so
/// many percent are alive.
const PRESSED_PERCENT: u8 = 90;

/// Bytes that an entry takes where a message is written again, about. In a post it took fewer: a
/// segment of posts that are alive would grow.
const MOVED_ENTRY_BYTES: u64 = 24;

/// Seconds without compaction after one that found no room, and at most after several.
const REST_S: u32 = 5;
const REST_S_MAX: u32 = 5 * 60;

/// Segments that compaction wrote are compacted again only when this part of their entries has
/// left.
const LEFT_PART: u64 = 16;

/// The segment under way.
pub(in crate::engine) struct Compaction {
    segment: u32,
    /// Where to go on; `None` when all of it was read.
    at: Option<Place>,
    /// Where messages stand now, by where they stood in it.
    moved: HashMap<Place, Arc<Stored>>,
    /// Segments to which they moved.
    into: BTreeSet<u32>,
}

/// A slice to be read.
pub(super) struct Scan {
    from: Place,
}

/// Findings of a slice.
pub(super) struct Scanned {
    from: Place,
    next: Result<Option<Place>, String>,
    found: Vec<Found>,
}

/// A message and the entries that name it, as far as state knows.
struct Found {
    stored: Stored,
    message: Option<Message>,
    entries: Entries,
}

impl Scan {
    pub(super) fn run(self, state: &dyn State, reader: &Reader) -> Scanned {
        let mut found = Vec::new();
        let next = self.scan(state, reader, &mut found);
        Scanned { from: self.from, next, found }
    }

    fn scan(
        &self,
        state: &dyn State,
        reader: &Reader,
        found: &mut Vec<Found>,
    ) -> Result<Option<Place>, String> {
        let (mut finders, mut failed) = (HashMap::new(), None);
        let mut lists = Lists { reader, lists: HashMap::new(), members: 0 };
        let next = reader.scan(self.from, SLICE_BYTES, &mut |place, length, kind, payload| {
            if !matches!(kind, RecordKind::Append | RecordKind::Move) || failed.is_some() {
                return;
            }
            let mut look = || {
                let said = Said::read(payload).ok_or("invalid record")?;
                let Some(stored) = said.stored(place, length) else { return Ok(None) };
                let pairs = lists.pairs(place.segment, &said)?;
                let entries = look(state, &mut finders, stored.place, &pairs);
                let entries = entries.map_err(|error| error.why)?;
                let message = said.message();
                let found = Found { stored, message, entries };
                Ok::<_, String>(Some(found).filter(|found| !found.entries.is_empty()))
            };
            match look() {
                Ok(one) => found.extend(one),
                Err(why) => failed = Some(why),
            }
        });
        let next = next.map_err(told)?;
        if let Some(why) = failed {
            return Err(why);
        }
        for one in found.iter_mut().filter(|one| one.message.is_none()) {
            one.message = Some(message_at(reader, &one.stored).map_err(told)?);
        }
        Ok(next)
    }
}

fn told(error: ReadError) -> String {
    format!("{error:?}")
}

/// Lists that records of a slice name.
struct Lists<'a> {
    reader: &'a Reader,
    /// By where they stand in the segment.
    lists: HashMap<u32, Vec<TimelineId>>,
    members: usize,
}

impl Lists<'_> {
    /// Timelines of a record in `segment`.
    fn pairs(&mut self, segment: u32, said: &Said<'_>) -> Result<Vec<(TimelineId, Seq)>, String> {
        let list = match said.targets.list() {
            None => &[][..],
            Some((offset, length)) => self.list(Place { segment, offset }, length)?,
        };
        said.targets.pairs(list).ok_or_else(|| "a record names another list than it says".into())
    }

    fn list(&mut self, place: Place, length: u32) -> Result<&[TimelineId], String> {
        if !self.lists.contains_key(&place.offset) {
            let (kind, payload) = self.reader.read(place, length).map_err(told)?;
            let list = list::read_list(&payload).filter(|_| kind == RecordKind::List);
            let list = list.ok_or("no list stands where a record says")?;
            if self.members + list.len() > LISTED_MAX {
                (self.members, self.lists) = (0, HashMap::new());
            }
            self.members += list.len();
            self.lists.insert(place.offset, list);
        }
        Ok(&self.lists[&place.offset])
    }
}

/// Timelines that have an entry of a message.
type Entries = Vec<(TimelineId, Seq, HeadRow)>;

/// Which of these still name the message that stands there, as far as state knows.
fn look(
    state: &dyn State,
    finders: &mut HashMap<TimelineId, (Finder, HeadRow)>,
    place: Place,
    pairs: &[(TimelineId, Seq)],
) -> Result<Entries, StateError> {
    let mut entries = Vec::new();
    for &(timeline, seq) in pairs {
        if finders.len() >= FINDERS_MAX {
            finders.clear();
        }
        let (finder, row) = match finders.entry(timeline) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let row = head_in_state(state, timeline)?.unwrap_or_default().0;
                entry.insert((Finder::new(timeline), row))
            }
        };
        let entry = finder.find(state, seq)?;
        if entry.is_some_and(|entry| entry.stored.place == place) {
            entries.push((timeline, seq, *row));
        }
    }
    Ok(entries)
}

impl Engine {
    /// Begins to compact the segment of which the least is alive, if one is worth it; with `all`,
    /// even if that wins little. False if there is none.
    pub(super) fn begin_compaction(&mut self, all: bool) -> bool {
        let max = self.settings.log.stored_bytes_max();
        if self.log.bytes() > self.settings.log.log_bytes_max && self.has_one_to_remove() {
            return false; // a second copy is made room for before a third is
        }
        let pressed = all || self.log.is_full() || self.log.bytes() > max - max / 10;
        let percent = if pressed { PRESSED_PERCENT } else { self.settings.compact_percent };
        let before = self.since.place.segment;
        let (mut bytes_all, mut live_all, mut best) = (0, 0, None);
        for (segment, bytes) in self.log.segments().filter(|(segment, _)| *segment < before) {
            let count = self.index.counts.of(segment);
            let live = count.live_bytes().max(count.live.saturating_mul(MOVED_ENTRY_BYTES));
            (bytes_all, live_all) = (bytes_all + bytes, live_all + live);
            let share = live.saturating_mul(100) / bytes.max(1);
            let worth =
                count.live > 0 && share <= percent.into() && self.has_lost_enough(segment, count);
            if worth
                && !self.upkeep.refused.contains(&segment)
                && best.is_none_or(|(least, _)| share < least)
            {
                best = Some((share, segment));
            }
        }
        let dead = bytes_all.saturating_sub(live_all).saturating_mul(100);
        let is_due = dead >= bytes_all.saturating_mul(self.settings.compact_dead_percent.into());
        let Some((_, segment)) = best.filter(|_| pressed || is_due) else { return false };
        let at = Some(Place { segment, offset: 0 });
        let (moved, into) = (HashMap::new(), BTreeSet::new());
        self.upkeep.compaction = Some(Compaction { segment, at, moved, into });
        true
    }

    /// Whether a segment in which nothing is alive waits for a checkpoint, or for its removal.
    fn has_one_to_remove(&self) -> bool {
        let last = self.log.segments().last().map(|(number, _)| number);
        let mut closed = self.log.segments().filter(|(number, _)| Some(*number) != last);
        closed.any(|(segment, _)| self.index.counts.of(segment).live == 0)
    }

    /// Whether compacting a segment may win something: where compaction has written into it before,
    /// some of its entries must have left.
    fn has_lost_enough(&self, segment: u32, count: Count) -> bool {
        let left = count.ever.saturating_sub(count.live);
        !self.upkeep.settled.contains(&segment) || left.saturating_mul(LEFT_PART) >= count.ever
    }

    /// Marks segments that compaction wrote, which are as small as they can be made, as settled
    /// until some entries have left. Otherwise a segment of small records would be compacted for
    /// ever and win nothing.
    fn settle(&mut self, into: &BTreeSet<u32>) {
        let there: BTreeSet<u32> = self.log.segments().map(|(number, _)| number).collect();
        self.upkeep.settled.retain(|segment| there.contains(segment));
        self.upkeep.settled.extend(into);
    }

    /// The next slice to be read.
    pub(super) fn scan_work(&mut self) -> Option<Scan> {
        let compaction = self.upkeep.compaction.as_ref()?;
        if let Some(from) = compaction.at {
            return Some(Scan { from });
        }
        let segment = compaction.segment;
        let compaction = self.upkeep.compaction.take()?;
        self.settle(&compaction.into);
        let left = self.index.counts.of(segment).live;
        if left > 0 {
            tell!(event::SEGMENT_UNNAMED, segment, left);
            self.upkeep.refused.insert(segment);
        }
        None
    }

    pub(super) fn scanned(&mut self, now_s: u32, scanned: Scanned) {
        let Scanned { from, next, found } = scanned;
        let Some(mut compaction) = self.upkeep.compaction.take() else { return };
        if compaction.at != Some(from) {
            self.upkeep.compaction = Some(compaction);
            return;
        }
        match next {
            Err(why) => {
                let file = format!("{:010}.log", from.segment);
                tell!(event::SEGMENT_DAMAGED, file, offset = from.offset, why);
                self.upkeep.refused.insert(compaction.segment);
                return;
            }
            Ok(next) => compaction.at = next,
        }
        match self.move_all(now_s, &mut compaction, found) {
            Ok(()) => {
                self.upkeep.rest_s = 0;
                self.upkeep.compaction = Some(compaction);
            }
            Err(_) => {
                self.upkeep.rest_s = (2 * self.upkeep.rest_s).clamp(REST_S, REST_S_MAX);
                self.upkeep.compact_from_s = now_s.saturating_add(self.upkeep.rest_s);
                self.settle(&compaction.into);
            }
        }
    }

    fn move_all(
        &mut self,
        now_s: u32,
        compaction: &mut Compaction,
        found: Vec<Found>,
    ) -> Result<(), StoreError> {
        let there = |(timeline, seq, _): &(TimelineId, Seq, HeadRow)| {
            let slot = self.index.heads.find(*timeline);
            let touched = slot.and_then(|slot| self.index.touched(slot));
            touched.is_none_or(|touched| !touched.is_gone(*seq) && touched.moved(*seq).is_none())
        };
        let alive = found.into_iter().filter_map(|mut one| {
            one.entries.retain(there);
            Some((one.stored, one.message?, one.entries)).filter(|(.., left)| !left.is_empty())
        });
        let alive: Vec<_> = alive.collect();
        // Beyond the limit what frees something may go, but not into the reserve of a full disk.
        for purpose in [Purpose::Finish, Purpose::End] {
            if purpose == Purpose::End && !self.log.disk_has_room(SLICE_BYTES as u64) {
                break;
            }
            let (mut batch, mut moved) = (Batch::default(), Vec::new());
            for (stored, message, entries) in &alive {
                for some in entries.chunks(SLICE_MEMBERS) {
                    let to = self.add_move(compaction, (stored, message), some, &mut batch);
                    moved.push((to, some));
                }
            }
            match self.finish_batch(now_s, batch, purpose) {
                Err(StoreError::Full) => compaction.moved.clear(),
                Err(error) => return Err(error),
                Ok(()) => {
                    for (to, entries) in moved {
                        compaction.into.insert(to.place.segment);
                        for (timeline, seq, row) in entries {
                            let slot = self.index.head_of(*timeline, *row);
                            self.index.move_entry(slot, *seq, &to);
                        }
                    }
                    return Ok(());
                }
            }
        }
        Err(StoreError::Full)
    }

    /// Adds the record that says where a message stands now, for these entries.
    fn add_move(
        &mut self,
        compaction: &mut Compaction,
        (stored, message): (&Stored, &Message),
        entries: &[(TimelineId, Seq, HeadRow)],
        batch: &mut Batch,
    ) -> Arc<Stored> {
        let from = Some(stored.place);
        let targets = || entries.iter().map(|(timeline, seq, _)| (*timeline, *seq));
        self.log.open_batch();
        let segment = self.log.ahead().segment;
        let known = compaction.moved.get(&stored.place).cloned();
        if let Some(known) = known.filter(|known| known.place.segment == segment) {
            let there = Whereabouts::There(known.place, known.length);
            let said = Said { from, ..Said::of(message, there) };
            self.log.add(RecordKind::Move, |out| said.write(targets(), out));
            self.count_move(stored, &known, entries.len(), batch);
            return known;
        }
        // For few timelines it stands beside their names; others may name it there, too.
        if entries.len() <= TARGETS_BESIDE_MAX {
            let said = Said { from, ..Said::of(message, Whereabouts::Here) };
            let (place, length) = self.log.add(RecordKind::Move, |out| said.write(targets(), out));
            return self.holds_moved(compaction, stored, (place, length), entries.len(), batch);
        }
        // The message on its own; alone it means nothing.
        let said = Said::of(message, Whereabouts::Here);
        let (place, length) =
            self.log.add(RecordKind::Append, |out| said.write([].into_iter(), out));
        let there = Whereabouts::There(place, length);
        let said = Said { from, ..Said::of(message, there) };
        self.log.add(RecordKind::Move, |out| said.write(targets(), out));
        self.holds_moved(compaction, stored, (place, length), entries.len(), batch)
    }

    /// A message stands there now, for so many entries.
    fn holds_moved(
        &mut self,
        compaction: &mut Compaction,
        stored: &Stored,
        (place, length): (Place, u32),
        entries: usize,
        batch: &mut Batch,
    ) -> Arc<Stored> {
        self.index.counts.hold(place.segment, length);
        batch.undo.push(Undo::Hold { segment: place.segment, bytes: length });
        let to = Arc::new(Stored { place, length, ..stored.clone() });
        compaction.moved.insert(stored.place, Arc::clone(&to));
        self.count_move(stored, &to, entries, batch);
        to
    }

    fn count_move(&mut self, from: &Stored, to: &Stored, entries: usize, batch: &mut Batch) {
        let (from, to, entries) = (from.place.segment, to.place.segment, entries as u64);
        let counted = self.index.counts.free(from, entries);
        debug_assert!(counted, "entries are counted");
        self.index.counts.fill(to, entries);
        batch.undo.push(Undo::Moved { from, to, entries });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MemoryState;
    use base::hash::HashKey;
    use model::timeline::Space;

    #[test]
    fn a_slice_remembers_runs_of_so_many_timelines_and_then_begins_anew() {
        let state = MemoryState::default();
        let mut finders = HashMap::new();
        let mut look_at = |timelines: std::ops::Range<usize>| {
            let id =
                |n: usize| TimelineId::of(Space::Other, HashKey::new(1, 2), &[&n.to_le_bytes()]);
            let pairs: Vec<_> = timelines.map(|n| (id(n), 1)).collect();
            let at = Place { segment: 1, offset: 0 };
            let found = look(&state, &mut finders, at, &pairs).expect("state is readable");
            assert!(found.is_empty(), "state knows none of them");
            finders.len()
        };
        assert_eq!(look_at(0..FINDERS_MAX), FINDERS_MAX);
        assert_eq!(look_at(FINDERS_MAX..FINDERS_MAX + 1), 1);
        assert_eq!(look_at(FINDERS_MAX..FINDERS_MAX + 2), 2, "one is there already");
    }
}

//! Opening: the checkpoint from state, and the log from its place on.
//!
//! Every record is carried out again as it was. A timeline of which state knows more than the
//! checkpoint says so with its head, and records before that place change it no more; segments are
//! counted by every record, for their counts are those of the checkpoint. Invariant: after opening
//! state knows everything, and each segment that is needed is there.

use super::index::Index;
use super::index::counts::Counts;
use super::index::heads::{self, HeadRow};
use super::index::hot::Hot;
use super::index::once::{Limits, Once};
use super::index::rosters::{Rosters, changed};
use super::index::rows::row_key;
use super::record::bytes::Bytes;
use super::record::stored::Leaving;
use super::record::{self, Said, list, run};
use super::state::{Keep, State, StateError};
use super::upkeep::Upkeep;
use super::upkeep::bulk::is_loading;
use super::upkeep::retention::Excess;
use super::{Engine, EngineSettings, Since};
use crate::OpenError;
use crate::log::{Log, LogSettings, OpenedLog, Place, Position, Reader, RecordKind};
use crate::log::{segment_number, segment_path};
use model::ports::files::FileSystem;
use model::ports::log::{Restored, Roster, RosterChange, Table};
use model::timeline::{Seq, Space, TimelineId};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The key of the checkpoint.
const CHECKPOINT: &[u8] = b"checkpoint";

const VERSION: u8 = 1;

/// Findings of the opening.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineFound {
    /// In the log.
    pub log: OpenedLog,
    /// Where the last checkpoint was: records from there on were read.
    pub from: Place,
    /// Timelines of which they tell.
    pub timelines: u64,
    /// Rows, likewise.
    pub rows: u64,
    /// State had no checkpoint, and all of it was made from the log.
    pub rebuilt: bool,
    /// State had no checkpoint.
    pub is_new: bool,
}

/// How a log is opened: [`Log::open`], or to follow.
pub(super) type OpenLog = fn(
    Arc<dyn FileSystem>,
    &Path,
    LogSettings,
    Position,
    crate::log::recovery::Each<'_>,
) -> Result<(Log, OpenedLog), OpenError>;

impl Engine {
    /// Opens the log in `folder` and its state. Records since the last checkpoint are carried out,
    /// and written into state.
    pub fn open(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        settings: EngineSettings,
        state: Arc<dyn State>,
    ) -> Result<(Engine, EngineFound), OpenError> {
        let (mut engine, found, _) = Engine::recover(files, folder, (settings, state), Log::open)?;
        let replayed = found.is_new || found.log.records > 0;
        if !engine.after_open(replayed) {
            let why = "what the log says since the last checkpoint could not be written to state: \
                       make room, or mend the disk, and start again; nothing is lost";
            return Err(OpenError::Failed {
                path: folder.join("state"),
                error: io::Error::other(why),
            });
        }
        Ok((engine, found))
    }

    /// Reads the log by `open`, from the checkpoint in state on. State is not changed.
    pub(super) fn recover(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        (settings, state): (EngineSettings, Arc<dyn State>),
        open: OpenLog,
    ) -> Result<(Engine, EngineFound, Lists), OpenError> {
        let failed = |error| state_failed(folder, error);
        let checkpoint = read_checkpoint(&*state).map_err(failed)?;
        if checkpoint.is_none() {
            has_everything(&*files, folder)?;
        }
        let is_new = checkpoint.is_none();
        let (from, counts) = checkpoint.unwrap_or_default();
        let limits = Limits {
            count_max: settings.once_count_max,
            age_s_max: settings.once_age_s_max,
            bytes_max: settings.once_bytes_max,
        };
        let once = Once::open(&*state, limits).map_err(failed)?;
        let is_doubtful = is_loading(&*state).map_err(failed)?;
        let rosters = Rosters::new(settings.roster_members_resident_max);
        let mut index = Index::new(state, once, rosters);
        (index.counts, index.newer) = (counts, Some(HashMap::new()));
        index.is_doubtful = is_doubtful;
        let (mut error, mut lists) = (None, Lists::new(Arc::clone(&files), folder));
        let mut each = |place, kind, payload: &[u8]| {
            replay(&mut index, &mut lists, (place, kind), payload).unwrap_or_else(|failed| {
                error = Some(failed);
                Err("the state is unreadable")
            })
        };
        let opened = open(files, folder, settings.log, from, &mut each);
        if let Some(error) = error {
            return Err(state_failed(folder, error));
        }
        let (log, found) = opened?;
        (index.newer, index.is_doubtful) = (None, false);
        let rebuilt = is_new && found.segments > 0;
        check_segments(&log, &index.counts, folder)?;
        let from = from.place;
        let found = EngineFound {
            from,
            timelines: index.touched_len() as u64,
            rows: index.rows.len() as u64,
            rebuilt,
            is_new,
            log: found,
        };
        let engine = Engine {
            reader: log.reader(),
            log,
            hot: Hot::new(settings.hot_bytes_max),
            settings,
            index,
            since: Since { place: from, ..Since::default() },
            upkeep: Upkeep::default(),
            excess: Excess::default(),
            slots: Vec::new(),
            follower: None,
        };
        Ok((engine, found, lists))
    }

    /// False when state does not know all that was replayed: whoever is given what is alive would
    /// miss it.
    fn after_open(&mut self, replayed: bool) -> bool {
        if replayed && (self.log.sync().is_err() || !self.checkpoint_now(0)) {
            return false;
        }
        let turns = self.index.heads.rounds(2);
        self.index.heads.shrink_to(self.settings.heads_resident_max, turns);
        self.look_for_dead_segments();
        true
    }

    /// Hands over all that is alive, in the order of the port. `each` says of a timeline whether
    /// its entries are wanted; what it says of anything else means nothing. Only right after
    /// opening, while state knows everything.
    pub fn restore(&self, each: &mut dyn FnMut(Restored<'_>) -> bool) -> Result<(), StateError> {
        restore(&*self.index.state, each)
    }
}

/// Heads that are read from state at once: nothing is asked of it while it goes through a range.
const HEADS_TOGETHER: usize = 1_024;

/// Receiver of each live item.
type Each<'a> = &'a mut dyn FnMut(Restored<'_>) -> bool;

/// Hands over all that state restores, as [`Engine::restore`].
pub fn restore(state: &dyn State, each: Each<'_>) -> Result<(), StateError> {
    for table in Table::ALL.into_iter().filter(|table| table.is_restored()) {
        let (from, to) = all_of(table as u8);
        state.range(Keep::Rows, (&from, &to), false, &mut |key, value| {
            each(Restored::Row { table, key: &key[1..], value });
            true
        })?;
    }
    for space in Space::ALL.into_iter().filter(|space| space.is_restored()) {
        timelines(state, space, each)?;
    }
    Ok(())
}

/// Bounds of all keys that begin with this byte.
fn all_of(first: u8) -> (Vec<u8>, Vec<u8>) {
    (vec![first], [&[first][..], &[u8::MAX; 600]].concat())
}

/// The timelines of a space, and the entries that are wanted of them.
fn timelines(state: &dyn State, space: Space, each: Each<'_>) -> Result<(), StateError> {
    let (first, to) = all_of(space as u8);
    let mut from = Some(first);
    while let Some(key) = from {
        let mut page = Vec::new();
        state.range(Keep::Heads, (&key, &to), false, &mut |key, value| {
            page.push((key.to_vec(), heads::read_row(value)));
            page.len() < HEADS_TOGETHER
        })?;
        let next = |(key, _): &(Vec<u8>, _)| [&key[..], &[0]].concat();
        from = page.last().filter(|_| page.len() == HEADS_TOGETHER).map(next);
        let mut wanted = Vec::with_capacity(page.len());
        for (key, row) in page {
            let timeline = key.try_into().ok().and_then(TimelineId::from_bytes);
            let Some((timeline, (row, _))) = timeline.zip(row) else {
                return Err(super::index::senseless());
            };
            let HeadRow { last, count, bytes } = row;
            if count > 0 {
                wanted.push((timeline, each(Restored::Timeline { timeline, last, count, bytes })));
            }
        }
        // Neighbours whose entries are wanted are one range.
        for some in wanted.chunk_by(|(_, one), (_, other)| one == other) {
            if let [(first, true), ..] = some {
                let last = some.last().map_or(*first, |(last, _)| *last);
                entries(state, (*first, last), each)?;
            }
        }
    }
    Ok(())
}

/// The entries of these timelines and of those between them.
fn entries(
    state: &dyn State,
    (first, last): (TimelineId, TimelineId),
    each: Each<'_>,
) -> Result<(), StateError> {
    let mut sense = true;
    let to = [&last.to_bytes()[..], &[u8::MAX; 9]].concat();
    state.range(Keep::Runs, (&first.to_bytes(), &to), false, &mut |key, value| {
        let read = run::read_key(key).and_then(|(id, first)| Some((id, run::read(first, value)?)));
        let Some((timeline, entries)) = read else {
            sense = false;
            return false;
        };
        for entry in entries {
            let (seq, id, label) = (entry.seq, entry.stored.id, &*entry.stored.label);
            each(Restored::Entry { timeline, seq, id, label });
        }
        true
    })?;
    if sense { Ok(()) } else { Err(super::index::senseless()) }
}

/// The key and value of a checkpoint in [`Keep::Meta`].
pub(super) fn write_checkpoint(at: Position, counts: &Counts) -> (Vec<u8>, Vec<u8>) {
    let mut out = vec![VERSION];
    record::put_place(at.place, &mut out);
    out.extend_from_slice(&at.epoch.to_le_bytes());
    out.extend_from_slice(&at.index.to_le_bytes());
    out.extend_from_slice(&at.chain.to_le_bytes());
    counts.write(&mut out);
    (CHECKPOINT.to_vec(), out)
}

pub(super) fn read_checkpoint(state: &dyn State) -> Result<Option<(Position, Counts)>, StateError> {
    let Some(value) = state.get(Keep::Meta, CHECKPOINT)? else { return Ok(None) };
    let mut bytes = Bytes(&value);
    let mut read = || {
        let version = bytes.u8()?;
        let place = record::place(&mut bytes)?;
        let (epoch, index, chain) = (bytes.u32()?, bytes.u64()?, bytes.u32()?);
        let counts = Counts::read(&mut bytes)?;
        let at = Position { place, epoch, index, chain };
        (version == VERSION && bytes.0.is_empty()).then_some((at, counts))
    };
    read().map(Some).ok_or_else(super::index::senseless)
}

/// Without a checkpoint state is made anew, from all that was ever written.
fn has_everything(files: &dyn FileSystem, folder: &Path) -> Result<(), OpenError> {
    let names = match files.names(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(|error| OpenError::at(folder, error))?,
    };
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    if numbers.iter().copied().eq(1..=numbers.len() as u32) {
        return Ok(());
    }
    let why = "state has no checkpoint, and the log no longer has everything from its beginning, \
               so state cannot be made anew";
    Err(OpenError::Corrupt { path: folder.join("state"), offset: 0, why })
}

fn check_segments(log: &Log, counts: &Counts, folder: &Path) -> Result<(), OpenError> {
    let there: Vec<u32> = log.segments().map(|(number, _)| number).collect();
    match counts.iter().find(|(segment, count)| count.live > 0 && !there.contains(segment)) {
        None => Ok(()),
        Some((segment, _)) => {
            let path = segment_path(folder, segment);
            let why = "the segment is missing, although it has live messages";
            Err(OpenError::Corrupt { path, offset: 0, why })
        }
    }
}

fn state_failed(folder: &Path, error: StateError) -> OpenError {
    OpenError::Failed { path: folder.join("state"), error: io::Error::other(error.why) }
}

/// The lists of one segment, by where they stand in it. One that was not met, because a copy's
/// checkpoints are at other places than those of the log it follows, is read.
#[derive(Default)]
pub(super) struct Lists {
    reader: Option<Reader>,
    segment: u32,
    lists: HashMap<u32, Vec<TimelineId>>,
    /// Places that messages took in timelines.
    pub(super) places: u64,
}

impl Lists {
    /// Makes an empty set of lists of the log in this folder.
    pub(super) fn new(files: Arc<dyn FileSystem>, folder: &Path) -> Lists {
        let reader = Reader::new(files, folder.into(), Place::default());
        Lists { reader: Some(reader), ..Lists::default() }
    }

    pub(super) fn put(&mut self, place: Place, list: Vec<TimelineId>) {
        if self.segment != place.segment {
            self.reader.iter().for_each(|reader| reader.forget(self.segment));
            (self.segment, self.lists) = (place.segment, HashMap::new());
        }
        self.lists.insert(place.offset, list);
    }

    /// Timelines of a record in `segment`. `None` if its list is not there.
    pub(super) fn pairs(
        &mut self,
        segment: u32,
        said: &Said<'_>,
    ) -> Option<Vec<(TimelineId, Seq)>> {
        let Some((offset, length)) = said.targets.list() else { return said.targets.pairs(&[]) };
        if self.segment != segment || !self.lists.contains_key(&offset) {
            let place = Place { segment, offset };
            let (kind, payload) = self.reader.as_ref()?.read(place, length).ok()?;
            let list = Some(payload).filter(|_| kind == RecordKind::List);
            self.put(place, list::read_list(&list?)?);
        }
        said.targets.pairs(&self.lists[&offset])
    }
}

/// Carries out a record again.
pub(super) fn replay(
    index: &mut Index,
    lists: &mut Lists,
    (place, kind): (Place, RecordKind),
    payload: &[u8],
) -> Result<Result<(), &'static str>, StateError> {
    let senseless = "invalid record";
    let carried_out = match kind {
        RecordKind::Append | RecordKind::Move => {
            let Some(said) = Said::read(payload) else { return Ok(Err(senseless)) };
            let Some(pairs) = lists.pairs(place.segment, &said) else {
                return Ok(Err("a record refers to a missing list"));
            };
            lists.places += pairs.len() as u64;
            let length = (payload.len() + crate::log::record::HEAD_BYTES) as u32;
            replay_message(index, (place, length), (kind, &said), &pairs)?
        }
        RecordKind::List => {
            let list = list::read_list(payload);
            list.map(|list| lists.put(place, list)).is_some()
        }
        RecordKind::Roster => match list::read_roster(payload) {
            Some(change) => {
                replay_roster(index, &change)?;
                true
            }
            None => false,
        },
        RecordKind::Remove => match record::read_remove(payload) {
            Some((timeline, leaving)) => replay_remove(index, place, timeline, &leaving)?,
            None => false,
        },
        RecordKind::Cursor => match record::read_cursor(payload) {
            Some((timeline, reader, upto)) => {
                if let Some(slot) = unknown(index, timeline, place)? {
                    index.acknowledge(slot, reader, upto);
                }
                true
            }
            None => false,
        },
        RecordKind::Forget => match record::read_forget(payload) {
            Some((timeline, freed)) => {
                if let Some(slot) = unknown(index, timeline, place)? {
                    index.forget(slot);
                }
                let mut freed = freed.into_iter();
                freed.all(|(segment, entries)| index.counts.free(segment, entries.into()))
            }
            None => false,
        },
        RecordKind::Put => record::read_put(payload).is_some_and(|(table, key, value)| {
            index.rows.set(row_key(table, key), Some(value.into()));
            true
        }),
        RecordKind::Delete => record::read_delete(payload).is_some_and(|(table, key)| {
            index.rows.set(row_key(table, key), None);
            true
        }),
        RecordKind::Once => record::read_once(payload).is_some_and(|(claim, id, seqs)| {
            index.once.insert(claim, place, id, seqs);
            true
        }),
        RecordKind::Segment | RecordKind::Batch | RecordKind::Epoch => true,
    };
    Ok(if carried_out { Ok(()) } else { Err(senseless) })
}

/// The slot of a timeline to which a record there still has something to say.
fn unknown(
    index: &mut Index,
    timeline: TimelineId,
    place: Place,
) -> Result<Option<u32>, StateError> {
    let slot = index.head(timeline)?;
    // A follower tells state of what it has carried out alone: nothing there is newer.
    let newer = index.newer.as_ref().and_then(|newer| newer.get(&timeline));
    let known = newer.is_some_and(|upto| place < *upto);
    Ok((!known).then_some(slot))
}

fn replay_message(
    index: &mut Index,
    (place, length): (Place, u32),
    (kind, said): (RecordKind, &Said<'_>),
    pairs: &[(TimelineId, Seq)],
) -> Result<bool, StateError> {
    let stored = said.stored(place, length).map(Arc::new);
    if let Some(stored) = &stored {
        if stored.place == place {
            index.counts.hold(place.segment, length);
        }
        index.counts.fill(stored.place.segment, pairs.len() as u64);
    }
    if let Some(from) = said.from
        && !index.counts.free(from.segment, pairs.len() as u64)
    {
        return Ok(false);
    }
    for &(timeline, seq) in pairs {
        let Some(slot) = unknown(index, timeline, place)? else { continue };
        match &stored {
            Some(stored) if kind == RecordKind::Move => index.move_entry(slot, seq, stored),
            Some(stored) => {
                if seq <= index.heads.at(slot).last {
                    return Ok(false);
                }
                index.raise(slot, seq);
                index.push(slot, seq, stored);
            }
            None => index.raise(slot, seq),
        }
    }
    if let Some(claim) = said.claim {
        let seqs: Box<[Seq]> = pairs.iter().map(|(_, seq)| *seq).collect();
        index.once.insert(claim, place, said.id, seqs);
    }
    Ok(true)
}

/// A change of a roster follows the version that it was made for. Where state is newer, that is
/// another one: then what comes behind it says the same again.
fn replay_roster(index: &mut Index, change: &RosterChange) -> Result<(), StateError> {
    let RosterChange { roster, after, version, leave, join } = change;
    if *version == 0 {
        index.set_roster(*roster, Roster::default());
        return Ok(());
    }
    let before = index.roster(*roster)?;
    if before.version == *after {
        let members = changed(&before.members, leave, join);
        index.set_roster(*roster, Roster { version: *version, members });
    }
    Ok(())
}

fn replay_remove(
    index: &mut Index,
    place: Place,
    timeline: TimelineId,
    leaving: &[Leaving],
) -> Result<bool, StateError> {
    let slot = unknown(index, timeline, place)?;
    for one in leaving {
        if !index.counts.free(one.segment, 1) {
            return Ok(false);
        }
        // The record knows what state would have to be asked for.
        if let Some(slot) = slot
            && index.leave(slot, one.seq, &mut |_| Ok(Some(*one)))?.is_none()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

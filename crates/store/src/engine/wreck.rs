//! Content of a damaged log from derived state and records, as far as they can be read.
//!
//! As recovery, but nothing has to be whole, or follow what is before it: invalid content is
//! reported and passed over. Places of messages are in memory, some hundred bytes each, and bodies
//! are not. It reads no segment by itself. Invariant: a record changes what records behind it left,
//! and nothing that state knows to be later.

use super::import::OnceRecord;
use super::index::heads::read_row;
use super::index::once;
use super::index::rosters;
use super::index::rows::row_key;
use super::read::body::message_at;
use super::read::standing::read_cursor;
use super::record::stored::Stored;
use super::record::{self, Claim, Said, list, run};
use super::recovery::{Lists, read_checkpoint};
use super::state::{Keep, State, StateError};
use crate::log::{Place, ReadError, Reader, RecordKind};
use model::ports::log::{OnceKey, Roster, RosterChange, Table};
use model::timeline::{Message, ReaderId, Seq, TimelineId};
use std::collections::BTreeMap;

/// Receiver of faults of derived state.
type Tell<'a> = &'a mut dyn FnMut(String);

/// Readable content of a damaged log.
#[derive(Default)]
pub(crate) struct Wreck {
    /// By table and key.
    pub(crate) rows: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub(crate) timelines: BTreeMap<TimelineId, Remains>,
    /// Once keys that state knows with their places.
    once: BTreeMap<OnceKey, (Place, OnceRecord)>,
    /// Of the segment that is read.
    lists: Lists,
}

/// Readable content of a timeline.
#[derive(Default)]
pub(crate) struct Remains {
    /// The last number given, as far as it is known.
    pub(crate) last: Seq,
    pub(crate) entries: BTreeMap<Seq, Stored>,
    pub(crate) cursors: BTreeMap<ReaderId, Seq>,
    /// State knows every record before this place.
    as_of: Place,
}

impl Wreck {
    /// Reads state: its content, and the place from which on records add to it. `None`: nothing in
    /// state can be relied on, and all records are needed.
    pub(crate) fn of_state(state: &dyn State, tell: Tell<'_>) -> (Wreck, Option<Place>) {
        let from = match read_checkpoint(state) {
            Ok(Some((at, _))) => at.place,
            Ok(None) => return (Wreck::default(), None),
            Err(error) => {
                tell(error.to_string());
                return (Wreck::default(), None);
            }
        };
        let mut wreck = Wreck::default();
        for space in [Keep::Heads, Keep::Runs, Keep::Cursors, Keep::Once, Keep::Rows] {
            let mut bad = 0_u64;
            let read = range(state, space, &mut |key, value| {
                bad += u64::from(wreck.state_row(space, key, value).is_none());
            });
            if bad > 0 {
                tell(format!("{bad} invalid values of {space:?} in the state"));
            }
            if let Err(error) = read {
                tell(format!("{space:?} of state end too early: {error}"));
            }
        }
        (wreck, Some(from))
    }

    fn state_row(&mut self, space: Keep, key: &[u8], value: &[u8]) -> Option<()> {
        match space {
            Keep::Meta => {}
            Keep::Heads => {
                let timeline = TimelineId::from_bytes(key.try_into().ok()?)?;
                let (row, as_of) = read_row(value)?;
                let remains = self.timelines.entry(timeline).or_default();
                (remains.last, remains.as_of) = (row.last, as_of);
            }
            Keep::Runs => {
                let (timeline, first) = run::read_key(key)?;
                let remains = self.timelines.entry(timeline).or_default();
                for entry in run::read(first, value)? {
                    let stored = Stored { label: Box::default(), ..(*entry.stored).clone() };
                    remains.last = remains.last.max(entry.seq);
                    remains.entries.insert(entry.seq, stored);
                }
            }
            Keep::Cursors => {
                let (timeline, reader) = key.split_first_chunk::<16>()?;
                let timeline = TimelineId::from_bytes(*timeline)?;
                let reader = ReaderId(u64::from_be_bytes(reader.try_into().ok()?));
                let upto = read_cursor(value)?;
                self.timelines.entry(timeline).or_default().cursors.insert(reader, upto);
            }
            Keep::Once => {
                if once::is_index_key(key) {
                    return Some(());
                }
                for (key, first) in once::read_row(key, value)? {
                    let once::First { place, made_s, crc, id, seqs } = first;
                    // A key that was forgotten may be another's by now.
                    if self.once.get(&key).is_none_or(|(before, _)| *before < place) {
                        self.once.insert(key, (place, OnceRecord { key, crc, made_s, id, seqs }));
                    }
                }
            }
            Keep::Rows => _ = self.rows.insert(key.into(), value.into()),
        }
        Some(())
    }

    /// A whole record of the log, in its order. False: it makes no sense.
    pub(crate) fn record(
        &mut self,
        (place, length): (Place, u32),
        kind: RecordKind,
        payload: &[u8],
    ) -> bool {
        self.apply((place, length), kind, payload).is_some()
    }

    fn apply(
        &mut self,
        (place, length): (Place, u32),
        kind: RecordKind,
        payload: &[u8],
    ) -> Option<()> {
        match kind {
            RecordKind::Append | RecordKind::Move => {
                self.message((place, length), &Said::read(payload)?)?;
            }
            RecordKind::Remove => {
                let (timeline, leaving) = record::read_remove(payload)?;
                if let Some(remains) = self.unknown(timeline, place) {
                    leaving.iter().for_each(|one| _ = remains.entries.remove(&one.seq));
                }
            }
            RecordKind::Cursor => {
                let (timeline, reader, upto) = record::read_cursor(payload)?;
                if let Some(remains) = self.unknown(timeline, place) {
                    let cursor = remains.cursors.entry(reader).or_insert(0);
                    *cursor = upto.max(*cursor);
                }
            }
            RecordKind::Forget => {
                let (timeline, _) = record::read_forget(payload)?;
                if let Some(remains) = self.unknown(timeline, place) {
                    (remains.entries, remains.cursors) = Default::default();
                }
            }
            RecordKind::Put => {
                let (table, key, value) = record::read_put(payload)?;
                self.rows.insert(row_key(table, key), value.into());
            }
            RecordKind::Delete => {
                let (table, key) = record::read_delete(payload)?;
                self.rows.remove(&row_key(table, key));
            }
            RecordKind::Once => {
                let (claim, id, seqs) = record::read_once(payload)?;
                self.remember(claim, id, seqs);
            }
            RecordKind::Roster => self.roster(&list::read_roster(payload)?)?,
            RecordKind::List => self.lists.put(place, list::read_list(payload)?),
            RecordKind::Segment | RecordKind::Batch | RecordKind::Epoch => {}
        }
        Some(())
    }

    /// `None` where the list that it names could not be read.
    fn message(&mut self, at: (Place, u32), said: &Said<'_>) -> Option<()> {
        let pairs = self.lists.pairs(at.0.segment, said)?;
        let stored = said.stored(at.0, at.1);
        let stored = stored.map(|stored| Stored { label: Box::default(), ..stored });
        for &(timeline, seq) in &pairs {
            let Some(remains) = self.unknown(timeline, at.0) else { continue };
            remains.last = remains.last.max(seq);
            if let Some(stored) = &stored {
                remains.entries.insert(seq, stored.clone());
            }
        }
        if let Some(claim) = said.claim {
            self.remember(claim, said.id, pairs.into_iter().map(|(_, seq)| seq).collect());
        }
        Some(())
    }

    /// A change of a roster; of those that are lost between it and the last one nothing is known.
    fn roster(&mut self, change: &RosterChange) -> Option<()> {
        let RosterChange { roster, version, leave, join, .. } = change;
        let key = row_key(Table::Rosters, &roster.row_key());
        if *version == 0 {
            self.rows.remove(&key);
            return Some(());
        }
        let before = match self.rows.get(&key) {
            Some(value) => rosters::read(value)?,
            None => Roster::default(),
        };
        if before.version < *version {
            let members = rosters::changed(&before.members, leave, join);
            let roster = Roster { version: *version, members };
            self.rows.insert(key, rosters::write(&roster));
        }
        Some(())
    }

    fn remember(&mut self, Claim { key, crc, made_s }: Claim, id: u64, seqs: Box<[Seq]>) {
        let record = OnceRecord { key, crc, made_s, id, seqs };
        self.once.entry(key).or_insert((Place::default(), record));
    }

    /// A timeline to which a record there still has something to say.
    fn unknown(&mut self, timeline: TimelineId, place: Place) -> Option<&mut Remains> {
        Some(self.timelines.entry(timeline).or_default()).filter(|remains| place >= remains.as_of)
    }

    /// The remembered appends, the oldest first.
    pub(crate) fn remembered(&mut self) -> Vec<OnceRecord> {
        let all = std::mem::take(&mut self.once).into_values();
        let mut all: Vec<_> = all.map(|(_, remembered)| remembered).collect();
        all.sort_by_key(|remembered| (remembered.made_s, remembered.key));
        all
    }
}

impl Remains {
    /// The message of an entry.
    pub(crate) fn message(reader: &Reader, stored: &Stored) -> Result<Message, ReadError> {
        message_at(reader, stored)
    }
}

/// Keys that are read at once: of a range that breaks off, what was read before is known.
fn range(
    state: &dyn State,
    space: Keep,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), StateError> {
    state.range(space, (&[], &[u8::MAX; 1024]), false, &mut |key, value| {
        each(key, value);
        true
    })
}

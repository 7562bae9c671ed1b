//! Live content of one log, message by message: what tools and rehoming carry elsewhere.
//!
//! Rows, names of timelines and cursors are read from derived state, messages are pulled from the
//! engine as anybody pulls them. The engine must have made a checkpoint and written nothing since.
//! Invariant: what cannot be read is said, never left out.

use crate::OpenError;
use crate::engine::{Engine, Keep, OnceRecord, State, StateError};
use crate::log::segment_path;
use model::ports::log::{
    Done, PAGE_MESSAGES_MAX, Page, Pull, Read, RowHome, StoreError, Table, TimelineStatus,
};
use model::timeline::{Message, ReaderId, Seq, TimelineId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Keys that are read from state at once: nothing is asked of it while it goes through a range.
const KEYS_TOGETHER: usize = 256;

/// Bodies that are pulled at once, bytes.
const BODIES_TOGETHER: usize = 4 << 20;

/// Longer than any key of derived state.
const LAST_KEY: [u8; 1024] = [u8::MAX; 1024];

/// A thing that is alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Alive {
    Row {
        table: Table,
        key: Box<[u8]>,
        value: Box<[u8]>,
    },
    /// A timeline, and the last number it gave. Its entries and cursors follow.
    Timeline {
        timeline: TimelineId,
        last: Seq,
    },
    Entry {
        timeline: TimelineId,
        seq: Seq,
        message: Arc<Message>,
    },
    Cursor {
        timeline: TimelineId,
        reader: ReaderId,
        upto: Seq,
    },
    /// An append that is remembered under its once key.
    Once(OnceRecord),
    /// A message that cannot be read, and where its record stands.
    Damaged {
        timeline: TimelineId,
        seq: Seq,
        file: PathBuf,
        offset: u64,
    },
}

impl Alive {
    /// Home of the item.
    pub(crate) fn home(&self) -> RowHome {
        match self {
            Alive::Row { key, .. } => RowHome::of(key),
            Alive::Timeline { timeline, .. }
            | Alive::Entry { timeline, .. }
            | Alive::Cursor { timeline, .. }
            | Alive::Damaged { timeline, .. } => RowHome::at(timeline.home_hash()),
            Alive::Once(remembered) => RowHome::at(remembered.key.home_hash()),
        }
    }
}

/// Receiver of each; an error ends it.
pub(crate) type Take<'a> = &'a mut dyn FnMut(Alive) -> Result<(), OpenError>;

/// Receiver of each row: its table, key and value.
type EachRow<'a> = &'a mut dyn FnMut(Table, &[u8], &[u8]) -> Result<(), OpenError>;

/// A log at rest.
pub(crate) struct Rest<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) engine: &'a mut Engine,
    pub(crate) state: &'a dyn State,
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

impl Rest<'_> {
    /// Gives everything: rows in the order of their keys, then timeline by timeline, then what is
    /// remembered, the oldest first.
    pub(crate) fn each(&mut self, take: Take<'_>) -> Result<(), OpenError> {
        self.rows(&mut |table, key, value| {
            take(Alive::Row { table, key: key.into(), value: value.into() })
        })?;
        self.timelines(&mut |rest, timeline| rest.timeline(timeline, take))?;
        let failed = |error| state_failed(&self.state_path(), error);
        let mut all = self.engine.remembered().map_err(failed)?;
        all.sort_by_key(|remembered| (remembered.made_s, remembered.key));
        all.into_iter().try_for_each(|remembered| take(Alive::Once(remembered)))
    }

    /// Gives all rows.
    pub(crate) fn rows(&self, each: EachRow<'_>) -> Result<(), OpenError> {
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            let (rows, next) = self.page(Keep::Rows, &key, &LAST_KEY)?;
            for (key, value) in rows {
                let table = key.first().and_then(|table| Table::from_byte(*table));
                each(table.ok_or_else(|| self.nonsense())?, &key[1..], &value)?;
            }
            from = next;
        }
        Ok(())
    }

    /// Gives the names of all timelines.
    pub(crate) fn timelines(
        &mut self,
        each: &mut dyn FnMut(&mut Rest<'_>, TimelineId) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            let (heads, next) = self.page(Keep::Heads, &key, &LAST_KEY)?;
            for (key, _) in heads {
                let id = key.try_into().ok().and_then(TimelineId::from_bytes);
                let id = id.ok_or_else(|| self.nonsense())?;
                each(&mut Rest { engine: self.engine, ..*self }, id)?;
            }
            from = next;
        }
        Ok(())
    }

    /// Where a timeline stands.
    pub(crate) fn standing(&mut self, timeline: TimelineId) -> Result<TimelineStatus, OpenError> {
        let standing = self.engine.read(Read::Standing { timeline, reader: ReaderId(0) });
        match self.told(standing)? {
            Done::Standing(standing) => Ok(standing),
            _ => Err(self.nonsense()),
        }
    }

    /// When the first message of a timeline was made, Unix second.
    pub(crate) fn oldest(&mut self, timeline: TimelineId) -> Result<Option<u32>, OpenError> {
        let (count_max, bytes_max) = (1, 0);
        let pull = Pull { timeline, from: 0, backwards: false, count_max, bytes_max };
        let page = self.pull(pull)?;
        Ok(page.messages.first().map(|placed| placed.message.at_s))
    }

    fn timeline(&mut self, timeline: TimelineId, take: Take<'_>) -> Result<(), OpenError> {
        let TimelineStatus { last, count, .. } = self.standing(timeline)?;
        take(Alive::Timeline { timeline, last })?;
        let (mut from, mut seen) = (0, 0);
        loop {
            let (count_max, bytes_max) = (PAGE_MESSAGES_MAX, BODIES_TOGETHER);
            let pull = Pull { timeline, from, backwards: false, count_max, bytes_max };
            let Page { messages, damaged, more } = self.pull(pull)?;
            let mut damaged = damaged.into_iter().peekable();
            for placed in messages {
                while let Some(bad) = damaged.next_if(|&bad| bad < placed.seq) {
                    seen += 1;
                    take(self.damaged(timeline, bad)?)?;
                }
                (from, seen) = (placed.seq, seen + 1);
                let (seq, message) = (placed.seq, placed.message);
                take(Alive::Entry { timeline, seq, message })?;
            }
            for bad in damaged {
                (from, seen) = (bad, seen + 1);
                take(self.damaged(timeline, bad)?)?;
            }
            if !more {
                break;
            }
        }
        if seen != count {
            return Err(self.bad("the number of entries of a timeline does not match"));
        }
        self.cursors(timeline, &mut |reader, upto| take(Alive::Cursor { timeline, reader, upto }))
    }

    fn pull(&mut self, pull: Pull) -> Result<Page, OpenError> {
        let page = self.engine.read(Read::Pull(pull));
        match self.told(page)? {
            Done::Page(page) => Ok(page),
            _ => Err(self.nonsense()),
        }
    }

    /// Gives the cursors of a timeline.
    pub(crate) fn cursors(
        &self,
        timeline: TimelineId,
        each: &mut dyn FnMut(ReaderId, Seq) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let id = timeline.to_bytes();
        let to = [&id[..], &[u8::MAX; 9]].concat();
        let mut from = Some(id.to_vec());
        while let Some(key) = from {
            let (cursors, next) = self.page(Keep::Cursors, &key, &to)?;
            for (key, value) in cursors {
                let reader = key.get(16..).and_then(|reader| reader.try_into().ok());
                let both = reader.zip(value.try_into().ok());
                let (reader, upto) = both.ok_or_else(|| self.nonsense())?;
                each(ReaderId(u64::from_be_bytes(reader)), Seq::from_le_bytes(upto))?;
            }
            from = next;
        }
        Ok(())
    }

    /// Some keys and values, and where to go on.
    fn page(
        &self,
        space: Keep,
        from: &[u8],
        to: &[u8],
    ) -> Result<(Pairs, Option<Vec<u8>>), OpenError> {
        let mut pairs = Pairs::new();
        let read = self.state.range(space, (from, to), false, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            pairs.len() < KEYS_TOGETHER
        });
        read.map_err(|error| state_failed(&self.state_path(), error))?;
        let last = pairs.last().filter(|_| pairs.len() == KEYS_TOGETHER);
        let next = last.map(|(key, _)| [key, &[0][..]].concat());
        Ok((pairs, next))
    }

    fn told(&self, done: Result<Done, StoreError>) -> Result<Done, OpenError> {
        done.map_err(|error| cannot(self.folder, error))
    }

    /// Where a message stands that cannot be read.
    fn damaged(&self, timeline: TimelineId, seq: Seq) -> Result<Alive, OpenError> {
        let place = self.engine.place_of(timeline, seq);
        let place = place.map_err(|error| state_failed(&self.state_path(), error))?;
        let place = place.ok_or_else(|| self.nonsense())?;
        let file = segment_path(self.folder, place.segment);
        Ok(Alive::Damaged { timeline, seq, file, offset: place.offset.into() })
    }

    fn nonsense(&self) -> OpenError {
        self.bad("invalid value in the derived state")
    }

    fn bad(&self, why: &'static str) -> OpenError {
        OpenError::Corrupt { path: self.state_path(), offset: 0, why }
    }

    fn state_path(&self) -> PathBuf {
        self.folder.join("state")
    }
}

/// Answer of a log, as an error for the operator.
pub(crate) fn cannot(folder: &Path, error: StoreError) -> OpenError {
    let path = folder.to_path_buf();
    match error {
        StoreError::Full => OpenError::NoSpace { path },
        other => {
            let error = io::Error::other(format!("a log answered {other:?}"));
            OpenError::Failed { path, error }
        }
    }
}

/// Error of derived state, for the operator.
pub(crate) fn state_failed(path: &Path, error: StateError) -> OpenError {
    match error.full {
        true => OpenError::NoSpace { path: path.into() },
        false => OpenError::Failed { path: path.into(), error: io::Error::other(error.why) },
    }
}

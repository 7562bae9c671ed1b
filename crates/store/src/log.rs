//! The commit log of one shard: numbered segments of records, written at the end.
//!
//! Owned by one thread; [`Reader`] reads on any. A batch of records is written at once and put on
//! stable storage once. Only the last segment is written; a new one begins after the old one is on
//! stable storage, so only the last can have a torn tail. Whoever owns the log knows what in it is
//! alive and removes any segment in which nothing is. Invariant: a record whose batch was
//! committed is found again by [`Log::open`], under the operator's choice of [`Fsync`], until its
//! segment is removed.

pub(crate) mod durable_mark;
mod reader;
pub(crate) mod record;
pub(crate) mod record_scan;
pub(crate) mod recovery;
mod reserve;
#[cfg(test)]
mod tests;

pub(crate) use reader::{ReadError, Reader};
pub use record::RecordKind;

use crate::files::is_full;
use crate::{Fsync, OpenError, Torn};
use durable_mark::DurableMark;
use model::ports::files::{File, FileSystem};
use model::ports::log::StoreError;
use reserve::{ENDING_BYTES, ROLLING_BYTES, Reserve};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest segment whatever is asked for, bytes: an offset has 32 bits, and a segment that finds no
/// successor on a full disk grows on.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// No batch goes beyond this place of a segment, bytes.
const OFFSET_MAX: u64 = u32::MAX as u64;

/// Room that is left to state, which needs some to let segments go, bytes: at most so much, and at
/// most an eighth of what the log could have.
const STATE_ROOM_MAX: u64 = 32 << 20;

/// Memory that is kept for the next batch, bytes.
const BATCH_BYTES_KEPT: usize = 1 << 20;

/// Place of a record's first byte in a log. The default is before everything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place {
    /// The number of its segment, from 1.
    pub segment: u32,
    /// Bytes before it in the segment.
    pub offset: u32,
}

/// Settings of one log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// When batches are put on stable storage.
    pub fsync: Fsync,
    /// Bytes after which a new segment begins, at most 1 GiB.
    pub segment_bytes: u64,
    /// Bytes of all segments. Beyond: `Full`, except for batches that only end something.
    pub log_bytes_max: u64,
}

/// Result of opening a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenedLog {
    /// Segments there were.
    pub segments: u64,
    /// Their bytes, without a torn tail.
    pub bytes: u64,
    /// Segments that were read.
    pub segments_read: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Records in them.
    pub records: u64,
    /// The torn tail that was cut off, if there was one.
    pub torn: Option<Torn>,
    /// Up to here answers had been given, as far as that is known: after a crash of the machine it
    /// may have been more.
    pub promised: Option<Place>,
    /// Where the log ends.
    pub end: Place,
}

/// Records that had been acknowledged and are not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Up to here answers had been given.
    pub promised: Place,
    /// Here the log ends.
    pub end: Place,
}

impl OpenedLog {
    /// Whether something that had been promised is not there.
    pub fn missing(&self) -> Option<Missing> {
        let end = self.end;
        self.promised.filter(|promised| *promised > end).map(|promised| Missing { promised, end })
    }
}

/// A log.
pub(crate) struct Log {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    settings: LogSettings,
    /// Numbers and bytes.
    segments: BTreeMap<u32, u64>,
    bytes: u64,
    /// The last segment's number, bytes, and bytes on stable storage.
    last: Last,
    file: Box<dyn File>,
    batch: Vec<u8>,
    reserve: Reserve,
    promised: DurableMark,
    /// Room on the disk that only what ends something may use, bytes.
    state_room: u64,
    state: State,
    reader: Reader,
}

#[derive(Clone, Copy)]
struct Last {
    number: u32,
    bytes: u64,
    synced: u64,
    /// Bytes of its first record.
    first: u64,
}

/// ```text
/// Good ⇄ Full     something found no room; something that ends nothing did later
///   └──────┴──→ Failed, for good
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Full,
    Failed,
}

/// The file name of segment `number`.
pub(crate) fn segment_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// The number of the segment with this file name.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 10)?;
    digits.parse().ok()
}

impl Log {
    /// Opens the segments of `folder`, makes it if there is none, and gives every record from
    /// `from` on to `each`, whose `Err` says why a record makes no sense. Segments before
    /// `from.segment` are not read.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        settings: LogSettings,
        from: Place,
        each: recovery::Each<'_>,
    ) -> Result<(Log, OpenedLog), OpenError> {
        let failed = |error| OpenError::at(folder, error);
        files.make_folder(folder).map_err(failed)?;
        let promised = durable_mark::read(&*files, folder);
        let (mut segments, mut found) = recovery::recover(&*files, folder, from, each)?;
        let reserve = Reserve::new(Arc::clone(&files), folder.join("reserve")).map_err(failed)?;
        let (last, file) = match segments.last_key_value() {
            Some((&number, &bytes)) => {
                let path = segment_path(folder, number);
                let file = files.open(&path).map_err(|error| OpenError::at(&path, error))?;
                (Last { number, bytes, synced: bytes, first: first_bytes() }, file)
            }
            None => begin_segment(&*files, folder, from.segment.max(1)).map_err(failed)?,
        };
        segments.insert(last.number, last.bytes);
        let reader = Reader::new(Arc::clone(&files), folder.into(), last.end());
        (found.promised, found.end) = (promised, last.end());
        let promised = DurableMark::begin(&*files, folder, last.end());
        let mut log = Log {
            files,
            folder: folder.into(),
            settings,
            bytes: segments.values().sum(),
            segments,
            last,
            file,
            batch: Vec::new(),
            reserve,
            promised,
            state_room: 0,
            state: State::Good,
            reader,
        };
        log.settings.segment_bytes = settings.segment_bytes.min(SEGMENT_BYTES_MAX);
        log.reserve.make().map_err(failed)?;
        log.state_room = ((log.free_bytes() / 8).saturating_add(log.bytes / 8)).min(STATE_ROOM_MAX);
        Ok((log, found))
    }

    /// Adds a record to the open batch; `fill` appends its payload. Where it will stand, and its
    /// length with its head, bytes. The first of a batch may begin a new segment before it.
    pub(crate) fn add(
        &mut self,
        kind: RecordKind,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> (Place, u32) {
        if self.batch.is_empty() {
            self.begin_batch();
        }
        let start = self.batch.len();
        record::write(kind, &mut self.batch, fill);
        let offset = (self.last.bytes + start as u64).min(OFFSET_MAX) as u32; // or commit refuses
        (Place { segment: self.last.number, offset }, (self.batch.len() - start) as u32)
    }

    /// A place at or before that of the next record, behind all that were added.
    pub(crate) fn ahead(&self) -> Place {
        let offset = (self.last.bytes + self.batch.len() as u64).min(OFFSET_MAX) as u32;
        Place { segment: self.last.number, offset }
    }

    /// Bytes of the open batch.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch.len()
    }

    /// Writes the open batch and puts it on stable storage by policy. After `Full` nothing of it
    /// is there; `Failed` is final, and what is there is not known. A batch that is `ending` only
    /// frees something: the limit does not hold for it, and it may use the reserve.
    pub(crate) fn commit(&mut self, ending: bool) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut self.batch);
        let done = match self.state {
            State::Failed => Err(StoreError::Failed),
            _ if batch.is_empty() => Ok(()),
            _ => self.take(&batch, ending).map_err(|error| self.fault(&error)),
        };
        if done.is_ok() && !ending && !batch.is_empty() {
            self.enter(State::Good);
        }
        self.batch = batch;
        self.drop_batch();
        done
    }

    /// Forgets the open batch.
    pub(crate) fn drop_batch(&mut self) {
        self.batch.clear();
        self.batch.shrink_to(BATCH_BYTES_KEPT);
    }

    /// Puts everything written on stable storage, whatever the policy.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if self.state == State::Failed {
            return Err(StoreError::Failed);
        }
        self.sync_file().map_err(|error| self.fault(&error))
    }

    /// Numbers and bytes of the segments, oldest first. Any but the last may be missing.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.segments.iter().map(|(number, bytes)| (*number, *bytes))
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Removes a segment, never the last one. After a crash it may be there again.
    pub(crate) fn remove(&mut self, segment: u32) -> io::Result<()> {
        assert!(segment != self.last.number, "the segment that is written is not removed");
        match self.files.remove(&segment_path(&self.folder, segment)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.bytes -= self.segments.remove(&segment).unwrap_or_default();
        self.reader.forget(segment);
        Ok(())
    }

    /// Begins a new segment, unless the last one is still empty. May use the reserve. The open
    /// batch must be empty.
    pub(crate) fn roll(&mut self) -> Result<(), StoreError> {
        assert!(self.batch.is_empty(), "a batch stays in its segment");
        if self.state == State::Failed {
            return Err(StoreError::Failed);
        }
        if self.last.bytes == self.last.first {
            return Ok(());
        }
        let mut begun = self.begin_next();
        if begun.as_ref().is_err_and(is_full) {
            begun = self.reserve.keep(ROLLING_BYTES).and_then(|()| self.begin_next());
        }
        begun.map_err(|error| self.fault(&error))
    }

    /// Gives up what is left of the reserve, so that a checkpoint finds room on a full disk. It is
    /// made again when there is room, before anything but endings is taken.
    pub(crate) fn spend_reserve(&mut self) -> Result<(), StoreError> {
        self.reserve.keep(0).map_err(|error| self.fault(&error))
    }

    /// Who reads the log's records.
    pub(crate) fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Whether the log takes nothing any more.
    pub(crate) fn is_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// Whether the last thing that wanted room found none.
    pub(crate) fn is_full(&self) -> bool {
        self.state == State::Full
    }

    /// Begins a segment when the last one is long enough, and says first of all when everything
    /// before the batch is on stable storage.
    fn begin_batch(&mut self) {
        if self.last.bytes >= self.settings.segment_bytes && self.state != State::Failed {
            match self.begin_next() {
                // Then this one grows on, and the batch finds room or does not.
                Err(error) if is_full(&error) => {}
                Err(error) => drop(self.fault(&error)),
                Ok(()) => {}
            }
        }
        let Last { number, bytes, synced, .. } = self.last;
        if synced == bytes && bytes <= OFFSET_MAX {
            record::write_synced(number, bytes as u32, &mut self.batch);
        }
    }

    fn take(&mut self, batch: &[u8], ending: bool) -> io::Result<()> {
        let bytes = batch.len() as u64;
        let fits = self.bytes + bytes <= self.settings.log_bytes_max;
        let agreed = ending || fits && self.reserve.make()? && self.leaves_room(bytes);
        if !agreed || self.last.bytes + bytes > OFFSET_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut written = self.write(batch);
        if ending && written.as_ref().is_err_and(is_full) {
            written = self.reserve.keep(ENDING_BYTES).and_then(|()| self.write(batch));
        }
        written?;
        match self.settings.fsync {
            Fsync::Always => self.sync_file(),
            Fsync::Interval(_) | Fsync::Never => Ok(()),
        }?;
        self.reader.written(self.last.end());
        self.promised.reach(self.last.end());
        Ok(())
    }

    /// Whether state has room enough when so much is written.
    fn leaves_room(&self, bytes: u64) -> bool {
        self.free_bytes() >= self.state_room.saturating_add(bytes)
    }

    /// A file system that does not say has room.
    fn free_bytes(&self) -> u64 {
        self.files.free_bytes(&self.folder).unwrap_or(u64::MAX)
    }

    /// Writes at the end of the last segment, all or nothing.
    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        let end = self.last.bytes;
        if let Err(error) = self.file.write_at(end, batch) {
            if is_full(&error) {
                // On stable storage at once, or a crash could bring back part of what was refused.
                self.file.cut(end).and_then(|()| self.file.sync()).map_err(no_second_chance)?;
                self.last.synced = end;
            }
            return Err(error);
        }
        self.grow(batch.len() as u64);
        Ok(())
    }

    fn grow(&mut self, bytes: u64) {
        self.last.bytes += bytes;
        self.bytes += bytes;
        self.segments.insert(self.last.number, self.last.bytes);
    }

    fn sync_file(&mut self) -> io::Result<()> {
        if self.last.synced != self.last.bytes {
            self.file.sync().map_err(no_second_chance)?;
            self.last.synced = self.last.bytes;
        }
        Ok(())
    }

    fn begin_next(&mut self) -> io::Result<()> {
        self.sync_file()?;
        let number = self.last.number.checked_add(1).ok_or(io::ErrorKind::StorageFull)?;
        let (last, file) = match begin_segment(&*self.files, &self.folder, number) {
            Ok(begun) => begun,
            Err(error) => {
                self.clear(number).map_err(no_second_chance)?;
                return Err(error);
            }
        };
        (self.last, self.file) = (Last { bytes: 0, ..last }, file);
        self.grow(last.bytes);
        self.reader.written(last.end());
        Ok(())
    }

    /// Makes sure that nothing is left of a segment that could not be begun: the last one may grow
    /// on only when no other stands behind it, not even after a crash.
    fn clear(&self, number: u32) -> io::Result<()> {
        match self.files.remove(&segment_path(&self.folder, number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.files.sync_folder(&self.folder),
        }
    }

    /// What an error of the outside means for the batch, and for later ones.
    fn fault(&mut self, error: &io::Error) -> StoreError {
        if is_full(error) {
            self.enter(State::Full);
            return StoreError::Full;
        }
        if self.state != State::Failed {
            tracing::error!(%error, folder = %self.folder.display(), "the log failed: nothing more \
                is stored in it until the disk is mended and the server restarted");
        }
        self.state = State::Failed;
        StoreError::Failed
    }

    fn enter(&mut self, state: State) {
        let folder = self.folder.display();
        match (self.state, state) {
            (State::Good, State::Full) => {
                let limit = self.settings.log_bytes_max;
                tracing::warn!(bytes = self.bytes, limit, %folder, "the log or its disk is full");
            }
            (State::Full, State::Good) => tracing::info!(%folder, "the log has room again"),
            _ => {}
        }
        if self.state != State::Failed {
            self.state = state;
        }
    }
}

impl Last {
    fn end(&self) -> Place {
        Place { segment: self.number, offset: self.bytes.min(OFFSET_MAX) as u32 }
    }
}

/// After a failed sync nobody knows what is on the disk, even if the reason was want of room: the
/// kernel may have dropped what it could not write, and a second sync would not tell.
fn no_second_chance(error: io::Error) -> io::Error {
    io::Error::other(format!("what is on the disk is not known: {error}"))
}

fn first_bytes() -> u64 {
    let mut bytes = Vec::new();
    record::write_segment(1, &mut bytes);
    bytes.len() as u64
}

fn begin_segment(
    files: &dyn FileSystem,
    folder: &Path,
    number: u32,
) -> io::Result<(Last, Box<dyn File>)> {
    let mut file = files.open(&segment_path(folder, number))?;
    let mut bytes = Vec::new();
    record::write_segment(number, &mut bytes);
    file.cut(0)?;
    file.write_at(0, &bytes)?;
    file.sync()?;
    files.sync_folder(folder)?;
    let bytes = bytes.len() as u64;
    Ok((Last { number, bytes, synced: bytes, first: bytes }, file))
}

//! The commit log of one shard: numbered segments of records, written at the end.
//!
//! Owned by one thread; [`Reader`] reads on any. A batch of records is written at once and put on
//! stable storage once. Only the last segment is written; a new one begins after the old one is on
//! stable storage, so only the last can have a torn tail. The owner of the log knows its living
//! entries and removes any segment without one. Each opening begins an epoch, and each batch
//! follows the one before it by index and checksum. Invariant: a record whose batch was committed
//! is found again by [`Log::open`], under the operator's choice of [`Fsync`], until its segment is
//! removed.

pub(crate) mod batch;
mod batches;
mod cut;
pub(crate) mod durable_mark;
mod opened;
mod reader;
pub(crate) mod record;
pub(crate) mod record_scan;
pub(crate) mod recovery;
mod replica;
mod reserve;
mod segment;
#[cfg(test)]
mod tests;

pub use batch::{LogBatch, Position};
pub use batches::Batches;
pub(crate) use cut::cut_behind;
pub use opened::{Missing, OpenedLog};
pub use reader::ReadError;
pub(crate) use reader::Reader;
pub use record::{Origin, RecordKind};
pub use replica::{FollowError, Followed, Ship};
pub(crate) use segment::{segment_number, segment_path};

use crate::files::is_full;
use crate::{Fsync, OpenError};
use batch::{BATCH_HEAD_BYTES, BatchHead, Link};
use durable_mark::DurableMark;
use model::ports::files::{File, FileSystem};
use model::ports::log::StoreError;
use model::{event, tell};
use replica::Replica;
use reserve::{ENDING_BYTES, ROLLING_BYTES, Reserve};
use segment::Last;
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

/// While more than so much is free beyond what is wanted, the disk is not asked again ...
const PLENTY_BYTES: u64 = 256 << 20;

/// ... until so many bytes have been written.
const LOOK_BYTES: u64 = 64 << 10;

/// A full log has room again when this part of its limit is free ...
const ROOM_AGAIN_PART: u64 = 64;

/// ... or so many bytes, if that is less.
const ROOM_AGAIN_BYTES: u64 = 1 << 20;

/// A log is reported to fill at so many percent of its limit, and again when it had fewer than so
/// many in between.
const FILLS_PERCENT: u64 = 70;
const FILLS_AGAIN_PERCENT: u64 = 60;

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

/// Which log this is, of all that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogIdentity {
    /// Fingerprint of the cluster's secret.
    pub cluster: u64,
    /// Number of the log in its folder.
    pub log: u32,
}

/// Settings of one log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// Which log it is: segments of another are refused.
    pub whose: LogIdentity,
    /// Its writer, which each Epoch record names.
    pub origin: Origin,
    /// When batches are put on stable storage.
    pub fsync: Fsync,
    /// Bytes after which a new segment begins, at most 1 GiB.
    pub segment_bytes: u64,
    /// Bytes of all segments. Beyond: `Full`, except for batches that only end something.
    pub log_bytes_max: u64,
    /// The last bytes of these, which are kept from what stores ([`Purpose`]).
    pub kept_bytes: u64,
}

impl LogSettings {
    /// Bytes of all segments up to which anything is taken.
    pub(crate) fn stored_bytes_max(&self) -> u64 {
        self.log_bytes_max.saturating_sub(self.kept_bytes)
    }
}

/// Purpose of a batch. The later ones are taken where the earlier ones find no room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Purpose {
    /// The batch stores something: neither reserve is for it.
    Store,
    /// The batch finishes what was begun before, and stores something: the log's reserve is for it.
    Finish,
    /// The batch only removes something: the log's limit does not hold for it, and the reserve on
    /// the disk is for it.
    End,
}

impl Purpose {
    /// All of them, in the order in which they are tried.
    pub(crate) const ALL: [Purpose; 3] = [Purpose::Store, Purpose::Finish, Purpose::End];
}

/// A log.
pub(crate) struct Log {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    settings: LogSettings,
    /// Numbers and bytes.
    segments: BTreeMap<u32, u64>,
    bytes: u64,
    /// The last segment.
    last: Last,
    file: Box<dyn File>,
    /// Position behind the last batch.
    at: Position,
    /// Of the next batch.
    epoch: u32,
    /// Index of the last record on stable storage.
    committed: u64,
    batch: Vec<u8>,
    /// Of the open batch.
    link: Link,
    reserve: Reserve,
    promised: DurableMark,
    /// Room on the disk that only what ends something may use, bytes.
    state_room: u64,
    /// Bytes that may be written before the disk is asked again what it has.
    unlooked: u64,
    state: State,
    /// Whether it was reported that it fills.
    fills: bool,
    reader: Reader,
    /// Of a log that has copies on other nodes; a lone node's has none.
    replica: Option<Box<Replica>>,
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

impl Log {
    /// Opens the segments of `folder`, makes it if there is none, gives every record from `from` on
    /// to `each`, whose `Err` says why invalid record, and begins a new epoch. Of segments
    /// before that of `from` only the first record is read.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        settings: LogSettings,
        from: Position,
        each: recovery::Each<'_>,
    ) -> Result<(Log, OpenedLog), OpenError> {
        let failed = |error| OpenError::at(folder, error);
        let (mut log, mut found) = Log::recover(files, folder, (settings, 1), from, each)?;
        found.end.epoch = log.epoch;
        if log.at.epoch < log.epoch {
            log.begin_epoch().map_err(failed)?;
        }
        Ok((log, found))
    }

    /// Reads the segments as [`Log::open`] does. The next batch is of an epoch `later` than the
    /// last, of which a segment that has to be begun says so already. With 0 the log follows.
    fn recover(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        (settings, later): (LogSettings, u32),
        from: Position,
        each: recovery::Each<'_>,
    ) -> Result<(Log, OpenedLog), OpenError> {
        let failed = |error| OpenError::at(folder, error);
        files.make_folder(folder).map_err(failed)?;
        let promised = durable_mark::read(&*files, folder);
        let whose = settings.whose;
        let (mut segments, mut at, mut found) =
            recovery::recover(&*files, folder, (whose, from), each)?;
        let reserve = Reserve::new(Arc::clone(&files), folder.join("reserve")).map_err(failed)?;
        let epoch = at.epoch + later;
        let (last, file) = match segments.contains_key(&at.place.segment) {
            true => segment::open(&*files, folder, at.place)?,
            false => {
                at.epoch = epoch;
                segment::begin(&*files, folder, whose, &mut at).map_err(failed)?
            }
        };
        segments.insert(last.number, last.bytes);
        let reader = Reader::new(Arc::clone(&files), folder.into(), at.place);
        (found.promised, found.end) = (promised, at);
        let mark = if later == 0 { replica::confirmed(&found, from, folder)? } else { at };
        let mut log = Log {
            promised: DurableMark::begin(&*files, folder, mark),
            files,
            folder: folder.into(),
            settings,
            bytes: segments.values().sum(),
            segments,
            last,
            file,
            at,
            epoch,
            committed: at.index,
            batch: Vec::new(),
            link: Link::begin(at.chain, epoch, at.index + 1),
            reserve,
            state_room: 0,
            unlooked: 0,
            state: State::Good,
            fills: false,
            reader,
            replica: None,
        };
        log.settings.segment_bytes = settings.segment_bytes.min(SEGMENT_BYTES_MAX);
        log.reserve.make().map_err(failed)?;
        log.state_room = ((log.free_bytes() / 8).saturating_add(log.bytes / 8)).min(STATE_ROOM_MAX);
        Ok((log, found))
    }

    /// Writes to stable storage that a new epoch begins. On a disk without any room the first batch
    /// says so.
    fn begin_epoch(&mut self) -> io::Result<()> {
        let origin = self.settings.origin;
        self.add(RecordKind::Epoch, |out| origin.write(out));
        match self.commit(Purpose::End).and_then(|()| self.sync()) {
            Ok(()) | Err(StoreError::Full) => Ok(()),
            Err(_) => Err(io::Error::other("the epoch of the log cannot be written")),
        }
    }

    /// Opens a batch, if none is open, so that [`Log::ahead`] is where the next record will stand:
    /// a new segment may begin before it. A record must follow.
    pub(crate) fn open_batch(&mut self) {
        if self.batch.is_empty() {
            self.begin_batch();
        }
    }

    /// Adds a record to the open batch; `fill` appends its payload. Where it will stand, and its
    /// length with its head, bytes. The first of a batch may begin a new segment before it.
    pub(crate) fn add(
        &mut self,
        kind: RecordKind,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> (Place, u32) {
        self.open_batch();
        let start = self.batch.len();
        record::write(kind, &mut self.batch, fill);
        self.link.add(record::crc(&self.batch[start..]));
        let offset = (self.last.bytes + start as u64).min(OFFSET_MAX) as u32; // or commit refuses
        (Place { segment: self.last.number, offset }, (self.batch.len() - start) as u32)
    }

    /// A place at or before that of the next record, behind all that were added.
    pub(crate) fn ahead(&self) -> Place {
        let offset = (self.last.bytes + self.batch.len() as u64).min(OFFSET_MAX) as u32;
        Place { segment: self.last.number, offset }
    }

    /// Position behind all that was written. There must be no open batch.
    pub(crate) fn position(&self) -> Position {
        assert!(self.batch.is_empty(), "it is between two batches");
        self.at
    }

    /// Bytes of the open batch.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch.len()
    }

    /// Writes the open batch and puts it on stable storage by policy. After `Full` nothing of it
    /// is there; `Failed` is final, and what is there is not known.
    pub(crate) fn commit(&mut self, purpose: Purpose) -> Result<(), StoreError> {
        let mut batch = std::mem::take(&mut self.batch);
        let done = match self.state {
            State::Failed => Err(StoreError::Failed),
            _ if batch.is_empty() => Ok(()),
            _ => self.take(&mut batch, purpose).map_err(|error| self.fault(&error)),
        };
        if done.is_ok() && purpose == Purpose::Store && !batch.is_empty() {
            self.look_for_room();
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
        if self.last.bytes == record::SEGMENT_BYTES as u64 {
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

    /// Reader of the log's records.
    pub(crate) fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Whether the log takes nothing any more.
    pub(crate) fn is_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// Whether something that wanted room found none, and there is not much of it since.
    pub(crate) fn is_full(&self) -> bool {
        self.state == State::Full
    }

    /// How much of what it may store it has, percent.
    pub(crate) fn used_percent(&self) -> u64 {
        let all = u128::from(self.settings.stored_bytes_max().max(1));
        u64::try_from(u128::from(self.bytes) * 100 / all).unwrap_or(u64::MAX)
    }

    /// Reports once that the log fills.
    fn look_how_full(&mut self) {
        let percent = self.used_percent();
        if percent >= FILLS_PERCENT && !self.fills {
            let limit = self.settings.stored_bytes_max();
            let folder = self.folder.display();
            tell!(event::LOG_FILLS, bytes = self.bytes, limit, %folder);
        }
        self.fills = percent >= FILLS_PERCENT || self.fills && percent >= FILLS_AGAIN_PERCENT;
    }

    /// Whether nothing that stores can be taken, however little it is.
    pub(crate) fn is_past_limit(&self) -> bool {
        self.bytes >= self.settings.stored_bytes_max()
    }

    /// A log that was full is so no more when there is room for more than the next batch: else it
    /// would be full and not full in turn. Nobody needs to write for it.
    pub(crate) fn look_for_room(&mut self) {
        self.look_how_full();
        if self.state != State::Full {
            return;
        }
        let limit = self.settings.stored_bytes_max();
        let margin = (limit / ROOM_AGAIN_PART).min(ROOM_AGAIN_BYTES);
        let has_room = !self.is_stream_full()
            && self.bytes.saturating_add(margin) <= limit
            && self.free_bytes() >= self.state_room.saturating_add(margin)
            && self.reserve.make().unwrap_or(false);
        if has_room {
            self.enter(State::Good);
        }
    }

    /// Begins a segment when the last one is long enough, and leaves room for what is said of the
    /// batch.
    fn begin_batch(&mut self) {
        if self.last.bytes >= self.settings.segment_bytes && self.state != State::Failed {
            match self.begin_next() {
                // Then this one grows on, and the batch finds room or does not.
                Err(error) if is_full(&error) => {}
                Err(error) => drop(self.fault(&error)),
                Ok(()) => {}
            }
        }
        self.batch.resize(BATCH_HEAD_BYTES, 0);
        self.link = Link::begin(self.at.chain, self.epoch, self.at.index + 1);
    }

    fn take(&mut self, batch: &mut [u8], purpose: Purpose) -> io::Result<()> {
        let bytes = batch.len() as u64;
        let fits = |max| self.bytes + bytes <= max;
        let agreed = match purpose {
            Purpose::Store => {
                !self.is_stream_full()
                    && fits(self.settings.stored_bytes_max())
                    && self.reserve.make()?
                    && self.leaves_room(bytes)
            }
            Purpose::Finish => fits(self.settings.log_bytes_max) && self.disk_has_room(bytes),
            Purpose::End => true,
        };
        if !agreed || self.last.bytes + bytes > OFFSET_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let chain = self.link.chain();
        self.say(chain, batch);
        let mut written = self.write(batch);
        if purpose == Purpose::End && written.as_ref().is_err_and(is_full) {
            written = self.reserve.keep(ENDING_BYTES).and_then(|()| {
                self.say(chain, batch); // more is committed than before, perhaps
                self.write(batch)
            });
        }
        written?;
        let (before, index) = (self.at, self.at.index + self.link.records);
        self.at = Position { place: self.last.end(), epoch: self.epoch, index, chain };
        match self.settings.fsync {
            Fsync::Always => self.sync_file(),
            Fsync::Interval(_) | Fsync::Never => Ok(()),
        }?;
        self.reader.written(self.at.place);
        match &mut self.replica {
            None => self.promised.reach(self.at),
            Some(replica) => replica.written((before, self.at), batch),
        }
        Ok(())
    }

    /// Fills in the first record of a batch.
    fn say(&self, chain: u32, batch: &mut [u8]) {
        let (epoch, index) = (self.epoch, self.at.index);
        let (place, committed) = (self.last.end(), self.committed);
        let bytes = (batch.len() - BATCH_HEAD_BYTES) as u32;
        let said = BatchHead { place, epoch, index: index + 1, committed, bytes, chain };
        let mut head = Vec::with_capacity(BATCH_HEAD_BYTES);
        said.write(&mut head);
        batch[..BATCH_HEAD_BYTES].copy_from_slice(&head);
    }

    /// Whether state has room enough when so much is written. Others write to the disk, too.
    fn leaves_room(&mut self, bytes: u64) -> bool {
        if let Some(left) = self.unlooked.checked_sub(bytes) {
            self.unlooked = left;
            return true;
        }
        let (free, wanted) = (self.free_bytes(), self.state_room.saturating_add(bytes));
        let is_plenty = free >= wanted.saturating_add(PLENTY_BYTES);
        self.unlooked = if is_plenty { LOOK_BYTES } else { 0 };
        free >= wanted
    }

    /// Whether state has room enough for what finishes something when so much is written.
    pub(crate) fn disk_has_room(&self, bytes: u64) -> bool {
        self.free_bytes() >= (self.state_room / 2).saturating_add(bytes)
    }

    /// A file system that does not say has room.
    fn free_bytes(&self) -> u64 {
        self.files.free_bytes(&self.folder).unwrap_or(u64::MAX)
    }

    /// Writes at the end of the last segment, all or nothing.
    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        let end = self.last.bytes;
        if let Err(error) =
            self.lengthen(end + batch.len() as u64).and_then(|()| self.file.write_at(end, batch))
        {
            if is_full(&error) {
                // On stable storage at once, or a crash could bring back part of what was refused.
                self.shorten().map_err(no_second_chance)?;
            }
            return Err(error);
        }
        self.grow(batch.len() as u64);
        Ok(())
    }

    /// Makes the file longer than what is to be in it, where each batch is synced.
    fn lengthen(&mut self, end: u64) -> io::Result<()> {
        let longer = self.last.longer(end, self.settings.segment_bytes);
        let syncs_each = self.settings.fsync == Fsync::Always && !self.follows();
        let Some(length) = longer.filter(|_| syncs_each) else {
            return Ok(());
        };
        match self.last.lengthen(&mut *self.file, length) {
            // The batch may find room where what comes behind it does not.
            Err(error) if is_full(&error) => self.shorten().map_err(no_second_chance),
            done => done,
        }
    }

    /// Cuts off what is behind the last batch, on stable storage.
    fn shorten(&mut self) -> io::Result<()> {
        let end = self.last.bytes;
        self.file.cut(end).and_then(|()| self.file.sync())?;
        (self.last.synced, self.last.length) = (end, end);
        self.committed = self.at.index;
        Ok(())
    }

    fn grow(&mut self, bytes: u64) {
        self.last.bytes += bytes;
        self.last.length = self.last.length.max(self.last.bytes);
        self.bytes += bytes;
        self.segments.insert(self.last.number, self.last.bytes);
    }

    fn sync_file(&mut self) -> io::Result<()> {
        if self.last.synced != self.last.bytes {
            self.file.sync().map_err(no_second_chance)?;
            self.last.synced = self.last.bytes;
            self.committed = self.at.index;
            self.confirm();
        }
        Ok(())
    }

    fn begin_next(&mut self) -> io::Result<()> {
        match self.last.length > self.last.bytes {
            true => self.shorten().map_err(no_second_chance)?,
            false => self.sync_file()?,
        }
        let number = self.last.number.checked_add(1).ok_or(io::ErrorKind::StorageFull)?;
        let mut at = Position { place: Place { segment: number, offset: 0 }, ..self.at };
        let begun = segment::begin(&*self.files, &self.folder, self.settings.whose, &mut at);
        let (last, file) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.clear(number).map_err(no_second_chance)?;
                return Err(error);
            }
        };
        (self.last, self.file, self.at) = (Last { bytes: 0, ..last }, file, at);
        self.grow(last.bytes);
        self.reader.written(at.place);
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

    /// Effect of an error of the outside on the batch, and on later ones.
    fn fault(&mut self, error: &io::Error) -> StoreError {
        if is_full(error) {
            self.enter(State::Full);
            return StoreError::Full;
        }
        if self.state != State::Failed {
            tell!(event::LOG_FAILED, %error, folder = %self.folder.display());
        }
        self.state = State::Failed;
        StoreError::Failed
    }

    fn enter(&mut self, state: State) {
        let folder = self.folder.display();
        match (self.state, state) {
            (State::Good, State::Full) => {
                let limit = self.settings.log_bytes_max;
                tell!(event::LOG_FULL, bytes = self.bytes, limit, %folder);
            }
            (State::Full, State::Good) => tell!(event::LOG_HAS_ROOM, %folder),
            _ => {}
        }
        if self.state != State::Failed {
            self.state = state;
        }
    }
}

/// After a failed sync nobody knows what is on the disk, even if the reason was want of room: the
/// kernel may have dropped what it could not write, and a second sync would not tell.
fn no_second_chance(error: io::Error) -> io::Error {
    io::Error::other(format!("what is on the disk is not known: {error}"))
}

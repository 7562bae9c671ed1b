//! A log that has copies on other nodes: it follows the log of another node, or it leads and others
//! follow it.
//!
//! ```text
//! Follows ──lead──► Leads      a deposed leader is dropped, and opened again to follow
//! ```
//! A batch that is on this disk is not acknowledged before somebody says so ([`Log::acknowledge`]).
//! A leader hands each batch to [`Ship`] and learns from outside how far copies have them. A
//! follower is given batches that are acknowledged already, and only what it found at its start
//! may not be. It knows no network. Invariants: segments of all copies are equal, byte for byte, up
//! to the end of the shortest, but for what batches say of stable storage (`committed`, and the
//! checksum of the record that says it); `promised` is never ahead of what is acknowledged here and
//! synced.

use super::batch::{BatchHead, LogBatch, Position};
use super::batches::Batches;
use super::record::{HEAD_BYTES, RecordKind, SEGMENT_BYTES};
use super::{BATCH_HEAD_BYTES, Log, LogSettings, OFFSET_MAX, OpenedLog, Place, Purpose};
use super::{OpenError, ReadError, State, recovery, segment_path};
use model::ports::files::FileSystem;
use model::ports::log::StoreError;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A follower syncs when so many bytes were written since, whoever asks it to besides.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;

/// Takes the batches of a log that leads to where copies find them.
pub trait Ship: Send {
    /// A batch is on this disk, as the policy wants it. Called by the log's thread, in the order of
    /// the log; it must not wait. The batch is acknowledged later, by its last index.
    fn ship(&mut self, batch: &LogBatch<'_>);
}

/// Outcome of a batch that was given to a follower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Followed {
    /// The batch was written.
    New,
    /// The batch was there already.
    Known,
}

/// Reason why a follower refuses a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FollowError {
    /// The bytes are no whole batch, or its records mean nothing here.
    Damaged(&'static str),
    /// Records are missing before it: the one with this index comes next.
    Gap {
        /// The next index.
        wanted: u64,
        /// The batch's first.
        found: u64,
    },
    /// Another node leads in a later epoch already.
    Epoch {
        /// The epoch of the last batch here.
        known: u32,
        /// The batch's.
        found: u32,
    },
    /// The batch belongs to another history than this log.
    Fork {
        /// Index up to which the log is acknowledged. Batches behind it may be cut off
        /// ([`crate::engine::Engine::open_to_follow`]).
        acknowledged: u64,
        /// In what it differs.
        why: &'static str,
    },
    /// The disk: with `Full` it may be given again.
    Store(StoreError),
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FollowError::Damaged(why) => write!(f, "the batch is damaged: {why}"),
            FollowError::Gap { wanted, found } => {
                write!(f, "record {wanted} comes next, and the batch begins with {found}")
            }
            FollowError::Epoch { known, found } => {
                write!(f, "the batch is of epoch {found}, and epoch {known} has begun")
            }
            FollowError::Fork { acknowledged, why } => {
                write!(f, "another history: {why}; {acknowledged} records are acknowledged")
            }
            FollowError::Store(error) => write!(f, "the batch cannot be written: {error:?}"),
        }
    }
}

/// State of a log with copies beside its own disk.
pub(super) struct Replica {
    /// Of a leader.
    ship: Option<Box<dyn Ship>>,
    /// Position behind the last acknowledged batch, where others wait.
    acknowledged: Position,
    /// Positions behind the unacknowledged batches, and their bytes.
    waiting: VecDeque<(Position, usize)>,
    waiting_bytes: usize,
    /// Where batches are shipped takes no more: nothing is stored.
    is_stream_full: bool,
}

impl Replica {
    /// A batch of a leader was written between these.
    pub(super) fn written(&mut self, (before, at): (Position, Position), bytes: &[u8]) {
        let head = BatchHead::read(&bytes[HEAD_BYTES..BATCH_HEAD_BYTES]).expect("it was said");
        if self.waiting.is_empty() {
            self.acknowledged = before;
        }
        self.wait((at, bytes.len()));
        if let Some(ship) = &mut self.ship {
            ship.ship(&LogBatch::of(&head, at.index, bytes));
        }
    }

    fn wait(&mut self, (at, bytes): (Position, usize)) {
        self.waiting.push_back((at, bytes));
        self.waiting_bytes += bytes;
    }

    /// Whether it only follows.
    pub(super) fn follows(&self) -> bool {
        self.ship.is_none()
    }

    /// All up to this index is acknowledged. Behind the last batch of it, if that is news.
    fn acknowledge(&mut self, upto: u64) -> Option<Position> {
        let mut reached = None;
        while let Some((at, bytes)) = self.waiting.pop_front_if(|(at, _)| at.index <= upto) {
            self.waiting_bytes -= bytes;
            self.acknowledged = at;
            reached = Some(at);
        }
        reached
    }
}

/// How far a log that is opened to follow is acknowledged for certain: `promised`, or what was
/// written into state. An error if that is more than the log has.
pub(super) fn confirmed(
    found: &OpenedLog,
    from: Position,
    folder: &Path,
) -> Result<Position, OpenError> {
    let end = found.end;
    if found.promised.is_some_and(|promised| promised.index > end.index) {
        let path = segment_path(folder, end.place.segment);
        let why = "records are missing that this copy had confirmed";
        return Err(OpenError::Corrupt { path, offset: end.place.offset.into(), why });
    }
    let known = found.promised.filter(|promised| promised.index > from.index).unwrap_or(from);
    Ok(match known.index {
        0 => Position { place: Place { segment: 1, offset: SEGMENT_BYTES as u32 }, ..known },
        _ => known,
    })
}

impl Log {
    /// Opens the segments as [`Log::open`] does, to follow: no epoch begins. Batches behind the
    /// last answer that was promised are not acknowledged.
    pub(crate) fn open_to_follow(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        settings: LogSettings,
        from: Position,
        each: recovery::Each<'_>,
    ) -> Result<(Log, OpenedLog), OpenError> {
        let (mut log, found) = Log::recover(files, folder, (settings, 0), from, each)?;
        let acknowledged = confirmed(&found, from, folder)?;
        let (ship, waiting) = (None, VecDeque::new());
        let mut replica =
            Replica { ship, acknowledged, waiting, waiting_bytes: 0, is_stream_full: false };
        let mut batches = Batches::behind(log.reader(), acknowledged);
        let failed = |error| match error {
            ReadError::Damaged { place: Place { segment, offset }, why } => {
                let path = segment_path(folder, segment);
                OpenError::Corrupt { path, offset: offset.into(), why }
            }
            other => OpenError::at(folder, std::io::Error::other(other.to_string())),
        };
        while let Some(batch) = batches.read().map_err(failed)? {
            replica.wait((batch.end(), batch.bytes.len()));
        }
        log.replica = Some(Box::new(replica));
        Ok((log, found))
    }

    /// Whether it only follows.
    pub(crate) fn follows(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.follows())
    }

    /// The index up to which all must be acknowledged before anything that is known now may be
    /// shown or told to state; 0: it is.
    pub(crate) fn awaited(&self) -> u64 {
        match &self.replica {
            Some(replica) if !replica.waiting.is_empty() => self.at.index,
            _ => 0,
        }
    }

    /// Bytes of batches that are not acknowledged.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.replica.as_ref().map_or(0, |replica| replica.waiting_bytes)
    }

    /// Position behind what is acknowledged.
    pub(crate) fn acknowledged(&self) -> Position {
        match &self.replica {
            Some(replica) if !replica.waiting.is_empty() => replica.acknowledged,
            _ => self.at,
        }
    }

    /// Whether where batches are shipped takes no more.
    pub(crate) fn is_stream_full(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.is_stream_full)
    }

    /// Where batches are shipped takes no more, or takes them again.
    pub(crate) fn note_stream_full(&mut self, is_full: bool) {
        if let Some(replica) = &mut self.replica {
            replica.is_stream_full = is_full;
        }
        self.look_for_room();
    }

    /// The index of the last record that is on stable storage here.
    pub(crate) fn synced(&self) -> u64 {
        self.committed
    }

    /// All up to this index is acknowledged.
    pub(crate) fn acknowledge(&mut self, upto: u64) {
        let reached = self.replica.as_mut().and_then(|replica| replica.acknowledge(upto));
        if let Some(at) = reached {
            self.promised.reach(at);
        }
    }

    /// A follower's writes are on stable storage.
    pub(super) fn confirm(&mut self) {
        if self.replica.as_ref().is_some_and(|it| it.follows() && it.waiting.is_empty()) {
            self.promised.reach(self.at);
        }
    }

    /// Batches from that on which has the record with this index.
    pub(crate) fn batches(&self, index: u64) -> Result<Option<Batches>, ReadError> {
        Batches::from(self.reader(), self.segments.keys().copied(), index)
    }

    /// Writes a batch of the leader where it stands there, if it follows.
    pub(crate) fn follow(&mut self, batch: &LogBatch<'_>) -> Result<Followed, FollowError> {
        assert!(self.follows(), "a log that leads follows nobody");
        if self.state == State::Failed {
            return Err(FollowError::Store(StoreError::Failed));
        }
        if batch.last <= self.at.index {
            return self.know(batch);
        }
        self.check(batch)?;
        self.acknowledge(self.at.index); // the chain holds for all of it
        let begins = batch.place.segment > self.at.place.segment;
        let written = match begins {
            true => self.begin_next().and_then(|()| self.put(batch)),
            false => self.put(batch),
        };
        written.map_err(|error| FollowError::Store(self.fault(&error)))?;
        Ok(Followed::New)
    }

    /// Whether a batch is one of those that are there.
    fn know(&mut self, batch: &LogBatch<'_>) -> Result<Followed, FollowError> {
        let replica = self.replica.as_ref().expect("it follows");
        let acknowledged = self.acknowledged();
        let is_same = match batch.last.cmp(&acknowledged.index) {
            // The chain of the first that is new tells of all of these.
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => batch.chain == acknowledged.chain,
            std::cmp::Ordering::Greater => replica.waiting.iter().any(|(at, _)| *at == batch.end()),
        };
        if !is_same {
            return Err(self.fork("another batch stands there"));
        }
        self.acknowledge(batch.last);
        Ok(Followed::Known)
    }

    fn check(&self, batch: &LogBatch<'_>) -> Result<(), FollowError> {
        let Position { place, epoch, index, chain } = self.at;
        let (wanted, found) = (index + 1, batch.first);
        if found > wanted {
            return Err(FollowError::Gap { wanted, found });
        }
        if found < wanted {
            return Err(self.fork("it begins with records that are in the batch before it"));
        }
        if batch.epoch < epoch {
            return Err(FollowError::Epoch { known: epoch, found: batch.epoch });
        }
        if batch.chain_behind(chain) != batch.chain {
            return Err(self.fork("it does not follow the last batch"));
        }
        let next = Place { segment: place.segment + 1, offset: SEGMENT_BYTES as u32 };
        let is_begun = u64::from(place.offset) > SEGMENT_BYTES as u64;
        let is_there = batch.place == place || batch.place == next && is_begun;
        let end = u64::from(batch.place.offset) + batch.bytes.len() as u64;
        match is_there && end <= OFFSET_MAX {
            true => Ok(()),
            false => Err(self.fork("it stands elsewhere than the next batch")),
        }
    }

    fn fork(&self, why: &'static str) -> FollowError {
        FollowError::Fork { acknowledged: self.acknowledged().index, why }
    }

    fn put(&mut self, batch: &LogBatch<'_>) -> std::io::Result<()> {
        let mut bytes = std::mem::take(&mut self.batch);
        bytes.extend_from_slice(batch.bytes);
        self.epoch = batch.epoch;
        self.say(batch.chain, &mut bytes);
        let written = self.write(&bytes);
        self.batch = bytes;
        self.drop_batch();
        written?;
        self.at = batch.end();
        self.reader.written(self.at.place);
        match self.last.bytes - self.last.synced >= UNSYNCED_BYTES_MAX {
            true => self.sync_file(),
            false => Ok(()),
        }
    }

    /// Leads from here on: what is not acknowledged is shipped again, and then an epoch begins, at
    /// least this one, in a segment of its own, so that it begins at the same place in every copy.
    /// Behind it. With `Full` it still follows.
    pub(crate) fn lead(
        &mut self,
        least: u32,
        mut ship: Box<dyn Ship>,
    ) -> Result<Position, StoreError> {
        assert!(self.follows(), "a log leads once");
        self.sync()?;
        if self.awaited() > 0 {
            let mut batches = Batches::behind(self.reader(), self.acknowledged());
            while let Some(batch) = batches.read().map_err(|_| StoreError::Failed)? {
                ship.ship(&batch);
            }
        }
        self.roll()?;
        self.epoch = (self.at.epoch + 1).max(least);
        self.replica.as_mut().expect("it follows").ship = Some(ship);
        let origin = self.settings.origin;
        self.add(RecordKind::Epoch, |out| origin.write(out));
        match self.commit(Purpose::End).and_then(|()| self.sync()) {
            Ok(()) => Ok(self.at),
            Err(error) => {
                self.replica.as_mut().expect("it follows").ship = None;
                self.epoch = self.at.epoch;
                Err(error)
            }
        }
    }

    /// Leads from here on in the epoch that the last batch began, which came from the stream: the
    /// Lead by which this node claimed the log. Everything must be acknowledged. `ship` is given
    /// every batch from then on.
    pub(crate) fn lead_on(&mut self, ship: Box<dyn Ship>) -> Result<(), StoreError> {
        assert!(self.follows(), "a log leads once");
        self.sync()?;
        if self.awaited() > 0 {
            return Err(StoreError::Failed);
        }
        self.epoch = self.at.epoch;
        self.replica.as_mut().expect("it follows").ship = Some(ship);
        Ok(())
    }
}

//! An engine with copies on other nodes: recovery without an end, and what comes after it.
//!
//! A follower carries out each batch of its leader as a start does, and makes its own checkpoints;
//! what compaction and retention do comes as records. Only acknowledged batches are written into
//! state, so the end of a log can be cut off and state knows nothing of it. Invariant: after a
//! batch was followed, index and state together are as they were in the leader after it.

use super::recovery::{Lists, read_checkpoint, replay};
use super::{Engine, EngineFound, EngineSettings, State};
use crate::OpenError;
use crate::log::batch::{BATCH_HEAD_BYTES, each_record};
use crate::log::cut_behind;
use crate::log::record;
use crate::log::{Batches, FollowError, Followed, Log, LogBatch, Place, Position, ReadError, Ship};
use model::ports::files::FileSystem;
use model::ports::log::StoreError;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// State of a follower beside the index.
pub(super) struct Follower {
    lists: Lists,
    /// A batch is in the log and could not be carried out: only a new copy helps.
    broken: Option<&'static str>,
}

impl Engine {
    /// Opens the log in `folder` to follow another node's, after cutting off what stands behind the
    /// record with the index `keep`, if that is given. Batches that are not known to be
    /// acknowledged ([`Engine::awaited`]) are kept from state.
    pub fn open_to_follow(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        settings: EngineSettings,
        state: Arc<dyn State>,
        keep: Option<u64>,
    ) -> Result<(Engine, EngineFound), OpenError> {
        if let Some(index) = keep {
            let told = read_checkpoint(&*state).map_err(|error| {
                let error = io::Error::other(error.why);
                OpenError::Failed { path: folder.join("state"), error }
            })?;
            let told = told.map_or(0, |(at, _)| at.index);
            cut_behind(&*files, folder, (index, told))?;
        }
        let open = Log::open_to_follow;
        let (mut engine, found, lists) = Engine::recover(files, folder, (settings, state), open)?;
        engine.follower = Some(Box::new(Follower { lists, broken: None }));
        engine.look_for_dead_segments();
        Ok((engine, found))
    }

    /// Carries out a batch of the leader: its bytes as they stand in the leader's segment. It is on
    /// stable storage after the next [`Engine::sync`].
    pub fn follow(&mut self, now_s: u32, bytes: &[u8]) -> Result<Followed, FollowError> {
        let follower = self.follower.as_ref().expect("a log that leads follows nobody");
        if let Some(why) = follower.broken {
            return Err(FollowError::Damaged(why));
        }
        let batch = LogBatch::read(bytes).map_err(FollowError::Damaged)?;
        let followed = self.log.follow(&batch)?;
        if followed == Followed::New {
            self.carry_out(now_s, &batch)?;
        }
        Ok(followed)
    }

    fn carry_out(&mut self, now_s: u32, batch: &LogBatch<'_>) -> Result<(), FollowError> {
        self.index.once.trim(now_s);
        let (index, follower) = (&mut self.index, self.follower.as_mut().expect("it follows"));
        let mut offset = batch.place.offset + BATCH_HEAD_BYTES as u32;
        let done = each_record(batch.records(), &mut |whole| {
            let place = Place { offset, ..batch.place };
            offset += whole.len() as u32;
            let (kind, payload) = record::read(whole)?;
            let carried_out = replay(index, &mut follower.lists, (place, kind), payload);
            carried_out.unwrap_or(Err("the state is unreadable"))
        });
        if let Err(why) = done {
            follower.broken = Some(why);
            return Err(FollowError::Damaged(why));
        }
        self.since.places += std::mem::take(&mut follower.lists.places);
        self.since.note(now_s, batch.bytes.len());
        self.trim_heads();
        Ok(())
    }

    /// Leads from here on, in a new epoch that is `least` at least: `ship` is given what is not
    /// acknowledged, then the batch by which the epoch begins, and every batch from then on. Behind
    /// that batch. With `Full` the log still follows.
    pub fn lead(&mut self, least: u32, ship: Box<dyn Ship>) -> Result<Position, StoreError> {
        if self.follower.as_ref().is_some_and(|follower| follower.broken.is_some()) {
            return Err(StoreError::Failed);
        }
        let led = self.log.lead(least, ship)?;
        self.follower = None;
        Ok(led)
    }

    /// Leads from here on in the epoch that the last batch began: a Lead that was claimed in the
    /// stream and followed here like every batch. Everything must be acknowledged. `ship` is given
    /// every batch from then on.
    pub fn lead_on(&mut self, ship: Box<dyn Ship>) -> Result<(), StoreError> {
        if self.follower.as_ref().is_some_and(|follower| follower.broken.is_some()) {
            return Err(StoreError::Failed);
        }
        self.log.lead_on(ship)?;
        self.follower = None;
        Ok(())
    }

    /// Whether it follows another log.
    pub fn follows(&self) -> bool {
        self.log.follows()
    }

    /// All records up to this index are acknowledged: in time, nothing of them is lost with this
    /// node.
    pub fn note_acknowledged(&mut self, upto: u64) {
        self.log.acknowledge(upto);
    }

    /// Where batches are shipped takes no more, or takes them again: until then whatever stores is
    /// refused with `Full` before it is written.
    pub fn note_stream_full(&mut self, is_full: bool) {
        self.log.note_stream_full(is_full);
    }

    /// The index up to which all must be acknowledged before anything known now may leave; 0: all
    /// is.
    pub fn awaited(&self) -> u64 {
        self.log.awaited()
    }

    /// Bytes of batches that are not acknowledged.
    pub fn waiting_bytes(&self) -> usize {
        self.log.waiting_bytes()
    }

    /// Position behind the last batch.
    pub fn position(&self) -> Position {
        self.log.position()
    }

    /// Position behind the last batch that is acknowledged.
    pub fn acknowledged(&self) -> Position {
        self.log.acknowledged()
    }

    /// The index of the last record that is on stable storage here.
    pub fn synced(&self) -> u64 {
        self.log.synced()
    }

    /// The log's batches from that on which has the record with this index, to be read on any
    /// thread. `None`: it is not there any more, or not yet.
    pub fn batches(&self, index: u64) -> Result<Option<Batches>, ReadError> {
        self.log.batches(index)
    }
}

//! Timelines and rows over a commit log.
//!
//! The log is the truth. Memory knows what changed since the last checkpoint, state everything
//! before it; together they answer reads. Checkpoints, compaction and retention are done in slices:
//! [`Engine::upkeep_task`] gives one out, any thread runs it, [`Engine::finished`] takes what came
//! of it, so the thread that owns the engine never waits for state. It knows no party, ticket or
//! thread, and time is an argument. Invariant: what [`Engine::commit`] answered with `Ok` is found
//! after a crash, under the operator's choice of `fsync`, and what it refused is not.
//!
//! Read `record.rs` first, then `commit.rs` and `recovery.rs`, which mirror each other.

mod commit;
mod follow;
mod import;
mod index;
mod post;
mod read;
pub(crate) mod record;
mod recovery;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod undo;
mod upkeep;
pub(crate) mod wreck;

pub use import::{Import, OnceRecord};
pub(crate) use index::rosters;
pub use read::Planned;
pub use read::inspection::{DamagedRecord, Inspection, LOST_NAMED_MAX};
pub use read::verify::Verified;
pub use recovery::{EngineFound, restore};
pub use settings::{EngineSettings, Retention, RetentionRule};
pub use state::{
    FjallState, Keep, MemoryState, Sorted, State, StateChange, StateError, StateMemory,
};
pub use upkeep::{CheckpointStep, Finished, UpkeepTask};

use crate::LostHook;
use crate::log::{Log, Place, Reader};
use follow::Follower;
use index::Index;
use index::hot::Hot;
use model::ports::log::StoreError;
use upkeep::Upkeep;
use upkeep::retention::Excess;

/// The timelines and rows of one log.
pub struct Engine {
    log: Log,
    reader: Reader,
    settings: EngineSettings,
    index: Index,
    hot: Hot,
    since: Since,
    upkeep: Upkeep,
    excess: Excess,
    /// Kept for its room.
    slots: Vec<u32>,
    /// Of a log that follows another one.
    follower: Option<Box<Follower>>,
}

/// How much happened since the last checkpoint began.
#[derive(Clone, Copy, Default)]
struct Since {
    /// Of the last one that is done.
    place: Place,
    bytes: u64,
    /// Places that messages took.
    places: u64,
    /// Unix second of the first change.
    first_s: Option<u32>,
}

impl Since {
    fn note(&mut self, now_s: u32, bytes: usize) {
        self.bytes += bytes as u64;
        self.first_s.get_or_insert(now_s);
    }
}

/// Sizes of an engine's parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Bytes of all segments.
    pub log_bytes: u64,
    /// Bytes of them that are alive, about.
    pub live_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Heads in memory.
    pub heads_resident: u64,
    /// Timelines that changed since they were written into state.
    pub timelines_changed: u64,
    /// Rows, likewise.
    pub rows_changed: u64,
    /// Bytes of records since the last checkpoint began.
    pub bytes_since_checkpoint: u64,
    /// Messages in memory, bytes.
    pub hot_bytes: u64,
    /// Once keys remembered.
    pub once: u64,
    /// Timelines that wait for retention.
    pub excess: u64,
    /// Entries that retention dropped since the start.
    pub dropped: u64,
    /// Entries among them that gave way, as the oldest of a log near its limit.
    pub gave_way: u64,
    /// Unix second of the first change since the last checkpoint began.
    pub changed_s: Option<u32>,
    /// Messages that were looked for and in memory.
    pub hot_hits: u64,
    /// How much of what it may store the log has, percent.
    pub used_percent: u64,
    /// The last thing that wanted room found none.
    pub full: bool,
    /// The log takes nothing any more.
    pub failed: bool,
    /// Bytes of batches that copies have not acknowledged.
    pub waiting_bytes: u64,
}

impl Engine {
    /// Puts everything written on stable storage, whatever the policy.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.log.sync()
    }

    /// Receiver of messages that reads find to be lost.
    pub(crate) fn tell_lost(&self, hook: LostHook) {
        self.reader.tell_lost(hook);
    }

    /// Whether the log takes nothing any more.
    pub fn is_failed(&self) -> bool {
        self.log.is_failed()
    }

    /// Whether the last thing that wanted room found none.
    pub fn is_full(&self) -> bool {
        self.log.is_full()
    }

    /// How much there is.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            log_bytes: self.log.bytes(),
            live_bytes: self.index.counts.iter().map(|(_, count)| count.live_bytes()).sum(),
            segments: self.log.segments().count() as u64,
            heads_resident: self.index.heads.len() as u64,
            timelines_changed: self.index.touched_len() as u64,
            rows_changed: self.index.rows.len() as u64,
            bytes_since_checkpoint: self.since.bytes,
            hot_bytes: self.hot.bytes() as u64,
            once: self.index.once.len(),
            excess: self.excess.len() as u64,
            dropped: self.upkeep.dropped,
            gave_way: self.upkeep.gave_way,
            changed_s: self.since.first_s,
            hot_hits: self.hot.hits(),
            used_percent: self.log.used_percent(),
            full: self.is_full(),
            failed: self.is_failed(),
            waiting_bytes: self.log.waiting_bytes() as u64,
        }
    }
}

//! The door to the disk: entries that must survive a restart, in one data folder.
//!
//! Shards submit entries and are told of each, in order, when it is on stable storage. One thread
//! writes; a batch is whatever arrived while the last one was being written. The store does not
//! know what a push means or who is online, and reads no clock. The formats are drawn in
//! `docs/storage.md`. Invariant: an entry whose ticket completed with `Ok` is found again after a
//! crash, unless it is over, under the operator's choice of [`Fsync`].
//!
//! Read [`Store`] first, then `journal.rs` and `replay.rs`, which mirror each other.

mod entry;
pub mod files;
mod folder;
mod journal;
mod live;
mod open_error;
mod queue;
mod record;
mod replay;
mod reserve;
mod settings;
#[cfg(test)]
mod tests;

pub use open_error::OpenError;
pub use settings::{Fsync, Settings};

use files::{Disk, Files};
use journal::Journal;
use model::id::ShardId;
use model::ports::journal::{Completion, Entry, Ticket};
use queue::{Parcel, Queue};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// What was found at the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// The node's secret: the one given in [`Settings`] at the folder's first start.
    pub secret: [u8; 32],
    /// What is alive: products, then blocked devices, then waits in the order they began. Waits
    /// whose time is over are among them, for the store reads no clock.
    pub entries: Vec<Entry>,
    /// The highest push id the journal remembers, 0 if none: new ids must be above it.
    pub last_id: u64,
    /// The torn tail that was cut off, if there was one.
    pub torn: Option<Torn>,
    /// Segments read.
    pub segments: u64,
    /// Records read.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// The end of the journal as a crash left it. None of it had been acknowledged (with
/// [`Fsync::Always`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Torn {
    /// The segment.
    pub file: PathBuf,
    /// Where its good part ends.
    pub offset: u64,
    /// Bytes cut off.
    pub bytes: u64,
    /// What was wrong with them.
    pub why: &'static str,
}

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Bytes of all segments.
    pub journal_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Pushes waiting for devices.
    pub waits: u64,
    /// Entries waiting for the writer.
    pub entries_waiting: u64,
}

/// An open data folder. Dropping it writes what waits, completes it, and lets the folder go.
pub struct Store {
    queue: Arc<Queue>,
    sizes: Arc<[AtomicU64; 3]>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Opens a data folder, makes it if there is none, and gives back what is alive in it.
    /// `on_complete` is called on the writer's thread; it must not block.
    pub fn open(
        path: &Path,
        settings: Settings,
        on_complete: impl Fn(ShardId, Vec<Completion>) + Send + 'static,
    ) -> Result<(Store, Recovered), OpenError> {
        Store::open_with(path, settings, Arc::new(Disk), on_complete)
    }

    /// The same over another file system.
    pub fn open_with(
        path: &Path,
        settings: Settings,
        files: Arc<dyn Files>,
        on_complete: impl Fn(ShardId, Vec<Completion>) + Send + 'static,
    ) -> Result<(Store, Recovered), OpenError> {
        let settings = settings.in_proportion();
        let (lock, mut journal, recovered) = folder::open(path, &settings, files)?;
        let queue = Arc::new(Queue::new(settings.entries_waiting_max, settings.bytes_waiting_max));
        let sizes = Arc::new(sizes_of(&journal));
        let (inbox, shown) = (Arc::clone(&queue), Arc::clone(&sizes));
        let failed = |error| OpenError::Failed { path: path.into(), error };
        let mut threads = Vec::new();
        let writer = move || {
            write_batches(&mut journal, &inbox, &shown, &on_complete);
            drop(lock); // The folder is ours until the last byte is written.
        };
        let builder = Builder::new().name("holdline-store".into());
        threads.push(builder.spawn(writer).map_err(failed)?);
        if let Fsync::Interval(interval) = settings.fsync {
            let ticked = Arc::clone(&queue);
            let builder = Builder::new().name("holdline-sync".into());
            let ticker = builder.spawn(move || ticked.tick(interval));
            threads.push(ticker.inspect_err(|_| queue.close()).map_err(failed)?);
        }
        Ok((Store { queue, sizes, threads: Mutex::new(threads) }, recovered))
    }

    /// Hands entries over without waiting. Each ticket is completed later, in order within the
    /// shard. When too much waits for the disk, all of them come back: that is
    /// [`model::ports::journal::StoreError::Busy`].
    pub fn submit(
        &self,
        shard: ShardId,
        entries: Vec<(Ticket, Entry)>,
    ) -> Result<(), Vec<(Ticket, Entry)>> {
        if entries.is_empty() {
            return Ok(());
        }
        self.queue.put((shard, entries)).map_err(|(_, entries)| entries)
    }

    /// How much there is, as of the last batch.
    pub fn sizes(&self) -> Sizes {
        let [journal_bytes, segments, waits] =
            [0, 1, 2].map(|at: usize| self.sizes[at].load(Ordering::Relaxed));
        Sizes { journal_bytes, segments, waits, entries_waiting: self.queue.waiting() as u64 }
    }

    /// Takes nothing more, writes and completes what waits, and lets the folder go.
    pub fn close(&self) {
        self.queue.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

fn sizes_of(journal: &Journal) -> [AtomicU64; 3] {
    let (bytes, segments, waits) = journal.sizes();
    [bytes, segments, waits].map(AtomicU64::new)
}

/// The writer's life: take what is there, write it, tell.
fn write_batches(
    journal: &mut Journal,
    queue: &Queue,
    sizes: &[AtomicU64; 3],
    on_complete: &impl Fn(ShardId, Vec<Completion>),
) {
    while let Some(work) = queue.take() {
        let (names, entries) = flatten(work.parcels);
        let answers = if entries.is_empty() { Vec::new() } else { journal.commit(&entries) };
        if work.sync {
            journal.sync_now();
        }
        let (bytes, segments, waits) = journal.sizes();
        for (shown, size) in sizes.iter().zip([bytes, segments, waits]) {
            shown.store(size, Ordering::Relaxed);
        }
        let mut completions: BTreeMap<ShardId, Vec<Completion>> = BTreeMap::new();
        for ((shard, ticket), answer) in names.into_iter().zip(answers) {
            completions.entry(shard).or_default().push((ticket, answer));
        }
        for (shard, completed) in completions {
            on_complete(shard, completed);
        }
    }
    journal.sync_now();
}

fn flatten(parcels: Vec<Parcel>) -> (Vec<(ShardId, Ticket)>, Vec<Entry>) {
    let named = |(shard, entries): Parcel| {
        entries.into_iter().map(move |(ticket, entry)| ((shard, ticket), entry))
    };
    parcels.into_iter().flat_map(named).unzip()
}

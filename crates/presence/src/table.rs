//! The directory that lives in the process: for one node alone, and for tests of many.
//!
//! Handles share the records; each connection to them ([`MemoryDirectory::another`]) has faults of
//! its own, on order. The caller sets its clock, for leases end by it. It keeps the contract to the
//! letter, so that what holds over it must hold over any other directory. Knows nothing of who
//! writes, or why. Invariant: a record only ever gives way to a newer one, except where a test says
//! otherwise.

mod fault;
mod store;

pub use fault::{Calls, FailedCall};

use fault::TableLink;
use model::ports::presence::directory::{
    Batch, Directory, DirectoryEntry, DirectoryError, History, Lease, Put,
};
use model::presence::{Digest, PresenceRecord, PresenceVersion};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use store::TableStore;

/// A directory in memory; a clone is the same one over the same connection.
#[derive(Clone)]
pub struct MemoryDirectory {
    store: Arc<Mutex<TableStore>>,
    link: Arc<Mutex<TableLink>>,
}

impl Default for MemoryDirectory {
    fn default() -> MemoryDirectory {
        MemoryDirectory::new()
    }
}

impl MemoryDirectory {
    /// An empty one.
    pub fn new() -> MemoryDirectory {
        MemoryDirectory { store: Arc::new(Mutex::new(TableStore::new())), link: Arc::default() }
    }

    /// Another connection to the same records: another node's, or one for looking on.
    #[must_use]
    pub fn another(&self) -> MemoryDirectory {
        MemoryDirectory { store: Arc::clone(&self.store), link: Arc::default() }
    }

    /// Sets the time, in milliseconds of any clock that does not step back. Leases end by it.
    pub fn tell(&self, ms: u64) {
        self.store().tell(ms);
    }

    /// Removes all records, as FLUSHALL does.
    pub fn flush(&self) {
        self.store().flush();
    }

    /// Keeps the changes of the last `ms` milliseconds from now on, so that they can be
    /// [lost](MemoryDirectory::lose).
    pub fn remember(&self, ms: u64) {
        self.store().remember(ms);
    }

    /// A fail-over to a copy that lags: what was acknowledged in the last `ms` milliseconds is
    /// gone, as far as it was to be [remembered](MemoryDirectory::remember).
    pub fn lose(&self, ms: u64) {
        self.store().lose(ms);
    }

    /// A lie: the record of `key` is this one, or none, without a notice.
    pub fn tamper(&self, key: &str, record: Option<PresenceRecord>) {
        self.store().tamper(key, record);
    }

    /// All records, by key.
    pub fn all(&self) -> Vec<DirectoryEntry> {
        self.store().all()
    }

    fn store(&self) -> MutexGuard<'_, TableStore> {
        self.store.lock().expect("no thread panics while it holds the records")
    }

    fn link(&self) -> MutexGuard<'_, TableLink> {
        self.link.lock().expect("no thread panics while it holds the connection")
    }

    /// Makes a call through the connection as it is.
    fn call<T>(
        &self,
        work: impl FnOnce(&mut TableStore) -> Result<T, DirectoryError>,
    ) -> Result<T, DirectoryError> {
        let struck = self.link().strike();
        match struck {
            None => work(&mut self.store()),
            Some((fault, FailedCall::Before)) => Err(fault),
            Some((fault, FailedCall::After)) => work(&mut self.store()).and(Err(fault)),
        }
    }
}

impl Directory for MemoryDirectory {
    fn lease(&mut self, lease: &Lease, ms: u64) -> Result<History, DirectoryError> {
        self.link().calls.leases += 1;
        let (lease, lent) = (lease.clone(), lease.clone());
        if self.link().holds(move |store| _ = store.lease(&lent, ms)) {
            return Err(DirectoryError::Slow);
        }
        self.call(|store| Ok(store.lease(&lease, ms)))
    }

    fn release(&mut self, lease: &Lease) -> Result<(), DirectoryError> {
        self.call(|store| {
            store.release(lease);
            Ok(())
        })
    }

    fn put(&mut self, batches: &[Batch]) -> Result<Vec<Put>, DirectoryError> {
        let refused = {
            let mut link = self.link();
            link.calls.puts += 1;
            link.calls.records +=
                batches.iter().map(|batch| batch.entries.len() as u64).sum::<u64>();
            link.refused.clone()
        };
        if self.link().holds_any() {
            let held = batches.to_vec();
            self.link().holds(move |store| _ = store.put(&held, &refused));
            return Err(DirectoryError::Slow);
        }
        self.call(|store| {
            let answers = store.put(batches, &refused);
            if !answers.is_empty() && answers.iter().all(|answer| *answer == Put::Untaken) {
                return Err(fault::moved());
            }
            Ok(answers)
        })
    }

    fn remove(
        &mut self,
        bucket: u16,
        keys: &[(Box<str>, PresenceVersion)],
    ) -> Result<u64, DirectoryError> {
        self.link().calls.removes += 1;
        self.link().reaches(bucket..bucket + 1)?;
        let held = keys.to_vec();
        if self.link().holds(move |store| _ = store.remove(bucket, &held)) {
            return Err(DirectoryError::Slow);
        }
        self.call(|store| Ok(store.remove(bucket, keys)))
    }

    fn digests(&mut self, of: &Lease, buckets: Range<u16>) -> Result<Vec<Digest>, DirectoryError> {
        self.link().calls.digests += buckets.len() as u64;
        self.link().reaches(buckets.clone())?;
        self.call(|store| Ok(buckets.map(|bucket| store.digest(of, bucket)).collect()))
    }

    fn bucket(&mut self, bucket: u16) -> Result<Vec<DirectoryEntry>, DirectoryError> {
        self.link().calls.buckets += 1;
        self.link().reaches(bucket..bucket + 1)?;
        self.call(|store| Ok(store.bucket(bucket)))
    }

    fn find(&mut self, keys: &[Box<str>]) -> Result<Vec<Option<PresenceRecord>>, DirectoryError> {
        self.call(|store| Ok(keys.iter().map(|key| store.find(key).cloned()).collect()))
    }

    fn nodes(&mut self) -> Result<Vec<Lease>, DirectoryError> {
        self.call(|store| Ok(store.nodes()))
    }

    /// Returns zeros: nothing is sent anywhere.
    fn traffic(&self) -> (u64, u64) {
        (0, 0)
    }
}

#[cfg(test)]
mod tests;

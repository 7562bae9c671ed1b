//! The directory that lives in the process: for one node alone, and for tests of many.
//!
//! Handles share the records; each connection to them ([`Table::another`]) has faults of its own,
//! on order. Its clock is told, for leases end by it. It keeps the contract to the letter, so that
//! what holds over it must hold over any other directory. Knows nothing of who writes, or why.
//! Invariant: a record only ever gives way to a newer one, except where a test says otherwise.

mod fault;
mod store;

pub use fault::{Calls, Done};

use fault::Link;
use model::ports::directory::{Batch, Directory, Entry, Fault, History, Lease, Put};
use model::presence::{Digest, Record, Version};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use store::Store;

/// A directory in memory; a clone is the same one over the same connection.
#[derive(Clone)]
pub struct Table {
    store: Arc<Mutex<Store>>,
    link: Arc<Mutex<Link>>,
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Table {
    /// An empty one.
    pub fn new() -> Table {
        Table { store: Arc::new(Mutex::new(Store::new())), link: Arc::default() }
    }

    /// The same records over another connection: another node's, or one for looking on.
    #[must_use]
    pub fn another(&self) -> Table {
        Table { store: Arc::clone(&self.store), link: Arc::default() }
    }

    /// What time it is: milliseconds of any clock that does not step back. Leases end by it.
    pub fn tell(&self, ms: u64) {
        self.store().tell(ms);
    }

    /// Everything is gone, as after FLUSHALL.
    pub fn flush(&self) {
        self.store().flush();
    }

    /// From now on the changes of the last `ms` milliseconds can be [lost](Table::lose).
    pub fn remember(&self, ms: u64) {
        self.store().remember(ms);
    }

    /// A fail-over to a copy that lags: what was acknowledged in the last `ms` milliseconds is
    /// gone, as far as it was to be [remembered](Table::remember).
    pub fn lose(&self, ms: u64) {
        self.store().lose(ms);
    }

    /// A lie: the record of `key` is this one, or none, and nobody is told.
    pub fn tamper(&self, key: &str, record: Option<Record>) {
        self.store().tamper(key, record);
    }

    /// All records, by key.
    pub fn all(&self) -> Vec<Entry> {
        self.store().all()
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().expect("no thread panics while it holds the records")
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().expect("no thread panics while it holds the connection")
    }

    /// Makes a call through the connection as it is.
    fn call<T>(&self, work: impl FnOnce(&mut Store) -> Result<T, Fault>) -> Result<T, Fault> {
        let struck = self.link().strike();
        match struck {
            None => work(&mut self.store()),
            Some((fault, Done::Before)) => Err(fault),
            Some((fault, Done::After)) => work(&mut self.store()).and(Err(fault)),
        }
    }
}

impl Directory for Table {
    fn lease(&mut self, lease: &Lease, ms: u64) -> Result<History, Fault> {
        self.link().calls.leases += 1;
        let (lease, lent) = (lease.clone(), lease.clone());
        if self.link().holds(move |store| _ = store.lease(&lent, ms)) {
            return Err(Fault::Slow);
        }
        self.call(|store| Ok(store.lease(&lease, ms)))
    }

    fn release(&mut self, lease: &Lease) -> Result<(), Fault> {
        self.call(|store| {
            store.release(lease);
            Ok(())
        })
    }

    fn put(&mut self, batches: &[Batch]) -> Result<Vec<Put>, Fault> {
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
            return Err(Fault::Slow);
        }
        self.call(|store| {
            let answers = store.put(batches, &refused);
            if !answers.is_empty() && answers.iter().all(|answer| *answer == Put::Untaken) {
                return Err(fault::moved());
            }
            Ok(answers)
        })
    }

    fn remove(&mut self, bucket: u16, keys: &[(Box<str>, Version)]) -> Result<u64, Fault> {
        self.link().calls.removes += 1;
        self.link().reaches(bucket..bucket + 1)?;
        let held = keys.to_vec();
        if self.link().holds(move |store| _ = store.remove(bucket, &held)) {
            return Err(Fault::Slow);
        }
        self.call(|store| Ok(store.remove(bucket, keys)))
    }

    fn digests(&mut self, of: &Lease, buckets: Range<u16>) -> Result<Vec<Digest>, Fault> {
        self.link().calls.digests += buckets.len() as u64;
        self.link().reaches(buckets.clone())?;
        self.call(|store| Ok(buckets.map(|bucket| store.digest(of, bucket)).collect()))
    }

    fn bucket(&mut self, bucket: u16) -> Result<Vec<Entry>, Fault> {
        self.link().calls.buckets += 1;
        self.link().reaches(bucket..bucket + 1)?;
        self.call(|store| Ok(store.bucket(bucket)))
    }

    fn find(&mut self, keys: &[Box<str>]) -> Result<Vec<Option<Record>>, Fault> {
        self.call(|store| Ok(keys.iter().map(|key| store.find(key).cloned()).collect()))
    }

    fn nodes(&mut self) -> Result<Vec<Lease>, Fault> {
        self.call(|store| Ok(store.nodes()))
    }

    /// Nothing is sent anywhere.
    fn traffic(&self) -> (u64, u64) {
        (0, 0)
    }
}

#[cfg(test)]
mod tests;

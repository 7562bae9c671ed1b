//! The records of a [`MemoryDirectory`](super::MemoryDirectory): buckets, leases, and which life of
//! them it is.
//!
//! Knows no faults. A journal of what was there before each change is kept only when a test asks
//! for it, and no longer back than it says.

use crate::digests::sum;
use model::ports::presence::directory::{Batch, DirectoryEntry, History, Lease, Put};
use model::presence::{BUCKETS, Digest, NodeName, PresenceRecord, PresenceVersion, bucket};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// All records and leases.
pub struct TableStore {
    now_ms: u64,
    buckets: Vec<BTreeMap<Box<str>, PresenceRecord>>,
    leases: BTreeMap<NodeName, (u64, u64)>,
    /// Which life of the records it is.
    life: u64,
    journal: VecDeque<(u64, Box<str>, Option<PresenceRecord>)>,
    journal_ms: u64,
}

impl TableStore {
    pub fn new() -> TableStore {
        TableStore {
            now_ms: 0,
            buckets: vec![BTreeMap::new(); usize::from(BUCKETS)],
            leases: BTreeMap::new(),
            life: 1,
            journal: VecDeque::new(),
            journal_ms: 0,
        }
    }

    pub fn tell(&mut self, ms: u64) {
        self.now_ms = self.now_ms.max(ms);
        let now_ms = self.now_ms;
        self.leases.retain(|_, (_, until_ms)| *until_ms > now_ms);
        let old = |(at_ms, ..): &(u64, Box<str>, Option<PresenceRecord>)| {
            at_ms + self.journal_ms < now_ms
        };
        while self.journal.front().is_some_and(old) {
            self.journal.pop_front();
        }
    }

    pub fn lease(&mut self, lease: &Lease, ms: u64) -> History {
        self.leases.insert(lease.node.clone(), (lease.boot, self.now_ms + ms));
        History(format!("{:x}", self.life).into())
    }

    pub fn release(&mut self, lease: &Lease) {
        if self.leases.get(&lease.node).is_some_and(|(boot, _)| *boot == lease.boot) {
            self.leases.remove(&lease.node);
        }
    }

    pub fn nodes(&self) -> Vec<Lease> {
        let lease =
            |(node, (boot, _)): (&NodeName, &(u64, u64))| Lease { node: node.clone(), boot: *boot };
        self.leases.iter().map(lease).collect()
    }

    /// Puts what is newer; of `refused` buckets nothing.
    pub fn put(&mut self, batches: &[Batch], refused: &BTreeSet<u16>) -> Vec<Put> {
        let mut answers = Vec::new();
        for batch in batches {
            for (key, record) in &batch.entries {
                answers.push(match refused.contains(&batch.bucket) {
                    true => Put::Untaken,
                    false => self.put_one(batch.bucket, key, record),
                });
            }
        }
        answers
    }

    fn put_one(&mut self, bucket: u16, key: &str, record: &PresenceRecord) -> Put {
        if let Some(kept) = self.buckets[usize::from(bucket)].get(key) {
            if kept == record {
                return Put::Taken;
            }
            // The end of a connection here says nothing of a newer one elsewhere.
            let elsewhere = kept.online && !record.online && kept.node != record.node;
            if kept.version >= record.version || elsewhere {
                return Put::Kept(kept.clone());
            }
        }
        self.change(bucket, key, Some(record.clone()));
        Put::Taken
    }

    pub fn remove(&mut self, bucket: u16, keys: &[(Box<str>, PresenceVersion)]) -> u64 {
        let mut removed = 0;
        for (key, version) in keys {
            let kept = self.buckets[usize::from(bucket)].get(key);
            if kept.is_some_and(|record| record.version <= *version) {
                self.change(bucket, key, None);
                removed += 1;
            }
        }
        removed
    }

    pub fn digest(&self, of: &Lease, bucket: u16) -> Digest {
        let mut digest = Digest::default();
        for (key, record) in &self.buckets[usize::from(bucket)] {
            if record.online && record.boot == of.boot && record.node == of.node {
                digest.count += 1;
                digest.sum ^= sum(key, &record.encode());
            }
        }
        digest
    }

    pub fn bucket(&self, bucket: u16) -> Vec<DirectoryEntry> {
        let entries = self.buckets[usize::from(bucket)].iter();
        entries.map(|(key, record)| (key.clone(), record.clone())).collect()
    }

    pub fn find(&self, key: &str) -> Option<&PresenceRecord> {
        self.buckets[usize::from(bucket(key))].get(key)
    }

    pub fn all(&self) -> Vec<DirectoryEntry> {
        (0..BUCKETS).flat_map(|bucket| self.bucket(bucket)).collect()
    }

    pub fn flush(&mut self) {
        self.buckets.iter_mut().for_each(BTreeMap::clear);
        self.leases.clear();
        self.journal.clear();
        self.life += 1;
    }

    pub fn remember(&mut self, ms: u64) {
        self.journal_ms = ms;
    }

    pub fn lose(&mut self, ms: u64) {
        let since_ms = self.now_ms.saturating_sub(ms);
        while let Some((at_ms, key, before)) = self.journal.pop_back() {
            if at_ms < since_ms {
                self.journal.push_back((at_ms, key, before));
                break;
            }
            self.set(bucket(&key), &key, before);
        }
        self.life += 1;
    }

    pub fn tamper(&mut self, key: &str, record: Option<PresenceRecord>) {
        self.set(bucket(key), key, record);
    }

    fn change(&mut self, bucket: u16, key: &str, record: Option<PresenceRecord>) {
        let before = self.set(bucket, key, record);
        if self.journal_ms > 0 {
            self.journal.push_back((self.now_ms, key.into(), before));
        }
    }

    fn set(
        &mut self,
        bucket: u16,
        key: &str,
        record: Option<PresenceRecord>,
    ) -> Option<PresenceRecord> {
        let records = &mut self.buckets[usize::from(bucket)];
        match record {
            Some(record) => records.insert(key.into(), record),
            None => records.remove(key),
        }
    }
}

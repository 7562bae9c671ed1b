//! Audit of presence: whether memory and directory agree, and where they do not.
//!
//! Digests first: a million principals are sixteen thousand sums, and only buckets whose sums
//! differ are read. Differing principals are read again after the settle time, for a copy that is
//! written behind always differs a little; only one that has stood still meanwhile is a difference.
//! It does not know shards nor clocks: memory is a trait, and the caller does the waiting.
//! Invariants: nothing is changed unless a repair is ordered, and then by memory's own way of
//! writing; what is kept between the two readings is four words a difference.

mod differ;

use crate::digests::Digests;
use crate::replicator::living::bury;
use differ::differ;
use model::ports::presence::directory::{Directory, DirectoryEntry, DirectoryError, Lease};
use model::ports::presence::queries::{Audit, AuditOrder, Difference, MemoryEntry, Remembered};
use model::presence::{BUCKETS, Principal};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Buckets whose digests are asked for at a time.
const DIGESTS: u16 = 256;
/// Buckets that are read from memory at a time.
const READ: usize = 32;

/// Memory, whatever its shards are.
pub trait MemoryReader {
    /// Entries of these buckets that the directory should have.
    fn entries(&self, buckets: Vec<u16>) -> Result<Vec<MemoryEntry>, DirectoryError>;

    /// The last transitions of these, oldest first.
    fn histories(
        &self,
        who: Vec<Principal>,
    ) -> Result<Vec<(Principal, Vec<Remembered>)>, DirectoryError>;

    /// All shards are to compare this bucket, which the directory has so, and to write over what
    /// differs.
    fn compare(&self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>) -> Result<(), DirectoryError>;
}

/// Sides of an audit: memory and directory.
pub struct AuditSides<'a> {
    /// This node, and which start of it.
    pub lease: &'a Lease,
    /// The sums of what it says.
    pub digests: &'a Digests,
    /// Its memory.
    pub memory: &'a dyn MemoryReader,
    /// The directory.
    pub directory: &'a mut dyn Directory,
}

/// Compares. `wait` is called once, with milliseconds, if anything differs at first;
/// [`Audit::took_ms`] is the caller's to fill in, who has the clock.
pub fn audit(
    order: AuditOrder,
    mut sides: AuditSides<'_>,
    wait: &mut dyn FnMut(u64),
) -> Result<Audit, DirectoryError> {
    let mut audit = Audit::default();
    let buckets = sides.differing(&mut audit)?;
    let mut first = HashMap::new();
    // A copy of a record may stand in a bucket that is not its own: each bucket is by itself.
    sides.read(&buckets, &mut |bucket, found| {
        first.extend(found.iter().map(|found| ((bucket, found.hash()), found.first())));
    })?;
    audit.differing = first.len() as u64;
    if first.is_empty() {
        return Ok(audit);
    }
    wait(u64::from(order.settle_ms));
    let again: BTreeSet<u16> = first.keys().map(|(bucket, _)| *bucket).collect();
    let again: Vec<u16> = again.into_iter().collect();
    let (told_max, mut stale) = (order.told_max as usize, BTreeMap::new());
    sides.read(&again, &mut |bucket, found| {
        for found in found {
            let Some(first) = first.get(&(bucket, found.hash())) else { continue };
            if !first.lasts(&found) {
                continue;
            }
            *audit.persistent.entry(found.kind.name()).or_default() += 1;
            *stale.entry(bucket).or_insert(0_u64) += 1;
            if audit.differences.len() < told_max {
                audit.differences.push(found.tell());
            }
        }
    })?;
    sides.remember(&mut audit.differences)?;
    if order.repair {
        let nodes = sides.directory.nodes()?;
        for (bucket, differences) in stale {
            let mut stored = sides.directory.bucket(bucket)?;
            // Without our own lease, others may only just be about to be back.
            if nodes.contains(sides.lease) {
                let elsewhere = stored.iter_mut().filter(|(_, it)| it.node != sides.lease.node);
                elsewhere.for_each(|(_, record)| bury(&nodes, record));
            }
            sides.memory.compare(bucket, Arc::new(stored))?;
            audit.repaired += differences;
        }
    }
    Ok(audit)
}

impl AuditSides<'_> {
    /// The buckets whose digests differ.
    fn differing(&mut self, audit: &mut Audit) -> Result<Vec<u16>, DirectoryError> {
        let mut differing = Vec::new();
        for first in (0..BUCKETS).step_by(usize::from(DIGESTS)) {
            let buckets = first..first + DIGESTS;
            let stored = self.directory.digests(self.lease, buckets.clone())?;
            if stored.len() != buckets.len() {
                return Err(DirectoryError::Nonsense("digests of other buckets".into()));
            }
            for (bucket, stored) in buckets.zip(stored) {
                let own = self.digests.of(bucket);
                audit.online += own.count;
                if own != stored {
                    differing.push(bucket);
                }
            }
        }
        audit.buckets_differing = differing.len() as u64;
        Ok(differing)
    }

    /// Reads these buckets on both sides, and tells what differs in each.
    fn read(
        &mut self,
        buckets: &[u16],
        found: &mut dyn FnMut(u16, Vec<differ::FoundDifference>),
    ) -> Result<(), DirectoryError> {
        for some in buckets.chunks(READ) {
            // Memory first: what it has taken back since is not yet missed in the directory.
            let mut of: HashMap<u16, Vec<MemoryEntry>> = HashMap::new();
            for entry in self.memory.entries(some.to_vec())? {
                of.entry(model::presence::bucket(&entry.entry.0)).or_default().push(entry);
            }
            for &bucket in some {
                let stored = self.directory.bucket(bucket)?;
                let memory = of.remove(&bucket).unwrap_or_default();
                found(bucket, differ(self.lease, memory, stored));
            }
        }
        Ok(())
    }

    /// Attaches what is remembered of each.
    fn remember(&self, differences: &mut [Difference]) -> Result<(), DirectoryError> {
        let who: Vec<Principal> =
            differences.iter().filter_map(|difference| Principal::parse(&difference.key)).collect();
        if who.is_empty() {
            return Ok(());
        }
        let histories = self.memory.histories(who)?.into_iter();
        let mut histories: HashMap<Box<str>, Vec<Remembered>> =
            histories.map(|(who, history)| (who.key(), history)).collect();
        for difference in differences {
            difference.history = histories.remove(&difference.key).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

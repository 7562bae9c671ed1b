//! Comparison of a bucket: what differs in it, and how.
//!
//! Only what memory is answerable for: principals that it has online or not yet written, and
//! records that claim to be of this very boot. Other nodes' records are theirs.

use crate::digests::sum;
use model::ports::presence::directory::{DirectoryEntry, Lease};
use model::ports::presence::queries::{Difference, DifferenceKind, MemoryEntry};
use model::presence::{PresenceRecord, PresenceVersion};
use std::collections::BTreeMap;

/// A difference in one reading.
pub struct FoundDifference {
    pub kind: DifferenceKind,
    key: Box<str>,
    memory: Option<PresenceRecord>,
    stored: Option<PresenceRecord>,
}

/// First reading of a bucket, kept until the second.
#[derive(Clone, Copy)]
pub struct FirstReading {
    memory: PresenceVersion,
    stored: PresenceVersion,
}

impl FirstReading {
    /// Whether it is still the same difference. Of one that comes and goes both sides have moved
    /// on: that is the time a copy takes, and no difference. That memory twice knew nobody proves
    /// nothing, for it is read a moment before the directory.
    pub fn lasts(&self, found: &FoundDifference) -> bool {
        let now = found.first();
        let same = now.memory == self.memory && now.memory != PresenceVersion(0);
        same || now.stored == self.stored
    }
}

impl FoundDifference {
    /// By what it is known in the second reading: the chance that two keys have the same is one in
    /// 2^64.
    pub fn hash(&self) -> u64 {
        sum(&self.key, "")
    }

    pub fn first(&self) -> FirstReading {
        let version = |record: &Option<PresenceRecord>| {
            record.as_ref().map_or(PresenceVersion(0), |record| record.version)
        };
        FirstReading { memory: version(&self.memory), stored: version(&self.stored) }
    }

    /// The difference for the report, without a history yet.
    pub fn tell(self) -> Difference {
        let FoundDifference { kind, key, memory, stored } = self;
        Difference { key, kind, memory, stored, history: Vec::new() }
    }
}

/// Finds the differences between a bucket in memory and in the directory.
pub fn differ(
    lease: &Lease,
    memory: Vec<MemoryEntry>,
    stored: Vec<DirectoryEntry>,
) -> Vec<FoundDifference> {
    let mut stored: BTreeMap<Box<str>, PresenceRecord> = stored.into_iter().collect();
    let mut found = Vec::new();
    for MemoryEntry { entry: (key, memory), .. } in memory {
        let stored = stored.remove(&key);
        if let Some(kind) = kind(lease, &memory, stored.as_ref()) {
            found.push(FoundDifference { kind, key, memory: Some(memory), stored });
        }
    }
    // What is left is not in memory.
    for (key, record) in stored {
        if record.online && record.node == lease.node && record.boot == lease.boot {
            found.push(FoundDifference {
                kind: DifferenceKind::Extra,
                key,
                memory: None,
                stored: Some(record),
            });
        }
    }
    found
}

/// How memory's record and the directory's differ, if they do. Two that say offline agree.
fn kind(
    lease: &Lease,
    memory: &PresenceRecord,
    stored: Option<&PresenceRecord>,
) -> Option<DifferenceKind> {
    let Some(stored) = stored else {
        return memory.online.then_some(DifferenceKind::Missing);
    };
    if stored == memory || (!stored.online && !memory.online) {
        return None;
    }
    let here = stored.node == lease.node && stored.boot == lease.boot;
    match (memory.online, stored.online) {
        (true, true) if !here => Some(DifferenceKind::WrongNode),
        // The end of a connection here says nothing of one elsewhere.
        (false, true) if !here => None,
        _ => Some(DifferenceKind::Stale),
    }
}

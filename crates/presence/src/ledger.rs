//! The principals of which the directory has, or should have, a record from here.
//!
//! A table of fixed records in slots, found by key through one small table of slots for each of
//! the directory's buckets: whatever asks for a bucket walks nothing else, and no growth moves more
//! than one bucket. Knows marks, not what they mean for the directory; that is the tracker's.
//! Invariant: every entry is in its bucket's table, and one that waits stands in the queue or is
//! out with a batch.

pub(crate) mod code;
pub(crate) mod queue;

use base::hash::HashKey;
use base::slab::{Key, Slab};
use code::{Codes, is_online};
use hashbrown::HashTable;
use model::ports::presence::directory::Lease;
use model::presence::{BUCKETS, PresenceRecord, PresenceVersion};
use std::sync::Arc;

/// Waits to be written.
pub(crate) const DIRTY: u8 = 1;
/// Is out with a batch.
pub(crate) const FLYING: u8 = 2;
/// The directory has taken this transition, though its record may be lost or replaced since.
pub(crate) const TAKEN: u8 = 4;
/// Another node has this principal: no record of it is ours any more.
pub(crate) const OUTVOTED: u8 = 8;
/// Its version was given here, above that of the transition.
pub(crate) const RAISED: u8 = 16;
/// One time that it was written again above a newer record; two bits.
pub(crate) const TRY: u8 = 64;

/// A principal's entry.
pub(crate) struct Entry {
    /// Its key in the directory.
    pub(crate) key: Box<str>,
    pub(crate) user: Option<Box<User>>,
    pub(crate) version: PresenceVersion,
    /// Moment since which it waits: milliseconds of the monotonic clock, modulo 2^32.
    pub(crate) since_ms: u32,
    /// Its state, by [`Codes`].
    pub(crate) code: u8,
    pub(crate) marks: u8,
    pub(crate) bucket: u16,
}

/// A user's name, boxed because most devices have none.
pub(crate) struct User(pub(crate) Arc<str>);

const _: () = assert!(size_of::<Entry>() == 40, "an entry is forty bytes beside its names");
const _: () = assert!(size_of::<Option<Entry>>() == 40, "and so is its slot");

impl Entry {
    /// Whether it has one of these marks.
    pub(crate) fn is(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    /// Whether it has a connection.
    pub(crate) fn is_online(&self) -> bool {
        is_online(self.code)
    }

    /// Whether the directory should say that it is online here.
    pub(crate) fn claims(&self) -> bool {
        self.is_online() && !self.is(OUTVOTED)
    }

    /// Whether the directory has not taken its last transition.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.is(DIRTY | FLYING)
    }

    /// How often it was written again above a newer record.
    pub(crate) fn tries(&self) -> u8 {
        self.marks / TRY
    }

    /// The record that the directory should have of this principal.
    pub(crate) fn record(&self, lease: &Lease, codes: &Codes) -> PresenceRecord {
        PresenceRecord {
            version: self.version,
            online: self.is_online(),
            node: lease.node.clone(),
            boot: lease.boot,
            detail: codes.decode(self.code).detail().into(),
            user: self.user.as_ref().map(|user| (*user.0).into()),
        }
    }

    /// Its record's part of the bucket's digest.
    pub(crate) fn sum(&self, lease: &Lease, codes: &Codes) -> u64 {
        crate::digests::sum(&self.key, &self.record(lease, codes).encode())
    }
}

/// A table of entries.
pub(crate) struct Ledger {
    slab: Slab<Entry>,
    buckets: Vec<HashTable<u32>>,
    hash_key: HashKey,
}

impl Ledger {
    /// An empty one; one that is not used owns nothing.
    pub(crate) fn new(hash_key: HashKey, used: bool) -> Ledger {
        let buckets = if used { usize::from(BUCKETS) } else { 0 };
        Ledger {
            slab: Slab::new(u32::MAX as usize - 1),
            buckets: (0..buckets).map(|_| HashTable::new()).collect(),
            hash_key,
        }
    }

    /// Where the entry with this key lives, `hash` being the key's.
    pub(crate) fn find(&self, hash: u64, bucket: u16, key: &str) -> Option<Key> {
        let same =
            |&slot: &u32| self.slab.tenant(slot).is_some_and(|(_, entry)| *entry.key == *key);
        let &slot = self.buckets.get(usize::from(bucket))?.find(hash, same)?;
        self.slab.tenant(slot).map(|(place, _)| place)
    }

    /// Puts an entry in, whose key is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, entry: Entry) -> Key {
        let Ledger { slab, buckets, hash_key } = self;
        let table = &mut buckets[usize::from(entry.bucket)];
        let Ok(place) = slab.insert(entry) else {
            unreachable!("there are fewer principals than slots");
        };
        table.insert_unique(hash, place.slot, |&slot| hash_of(*hash_key, slab, slot));
        place
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, place: Key) -> Option<Entry> {
        let entry = self.slab.remove(place)?;
        let hash = self.hash_key.of(&[entry.key.as_bytes()]);
        let table = &mut self.buckets[usize::from(entry.bucket)];
        let Ok(found) = table.find_entry(hash, |&slot| slot == place.slot) else {
            unreachable!("every entry is in its bucket's table");
        };
        found.remove();
        Some(entry)
    }

    /// The entry that lives here, if it still does.
    pub(crate) fn at(&self, place: Key) -> Option<&Entry> {
        self.slab.at(place)
    }

    /// As [`at`](Self::at), mutable.
    pub(crate) fn at_mut(&mut self, place: Key) -> Option<&mut Entry> {
        self.slab.at_mut(place)
    }

    /// The present tenant of this slot.
    pub(crate) fn tenant(&self, slot: u32) -> Option<(Key, &Entry)> {
        self.slab.tenant(slot)
    }

    /// The entries of a bucket, in no particular order.
    pub(crate) fn bucket(&self, bucket: u16) -> impl Iterator<Item = (Key, &Entry)> {
        let table = self.buckets.get(usize::from(bucket));
        let slots = table.into_iter().flat_map(HashTable::iter);
        slots.filter_map(|&slot| self.slab.tenant(slot))
    }

    /// All entries.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (Key, &Entry)> {
        self.slab.iter()
    }

    /// Entries held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Bytes allocated, names not included.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let tables: usize = self.buckets.iter().map(HashTable::allocation_size).sum();
        // A slot is the record and four bytes of its generation.
        self.slab.slots() as usize * (size_of::<Option<Entry>>() + size_of::<u32>())
            + tables
            + self.buckets.capacity() * size_of::<HashTable<u32>>()
    }
}

fn hash_of(hash_key: HashKey, slab: &Slab<Entry>, slot: u32) -> u64 {
    let (_, entry) = slab.tenant(slot).expect("slots of a table have tenants");
    hash_key.of(&[entry.key.as_bytes()])
}

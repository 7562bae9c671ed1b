//! From the hash of an identity to the slot of its record.
//!
//! The identity itself stays in the record: an entry is a slot number and a control byte. The
//! table is split into 256 parts that grow one by one, so the longest pause is the growth of a
//! 256th, not of ten million entries; a small one is of one part. Callers say how to compare and
//! how to hash a slot again.

use hashbrown::HashTable;

const PARTS: usize = 256;

/// A set of slot numbers, found by the hash of what lives there.
pub struct Index {
    /// A power of two.
    parts: Vec<HashTable<u32>>,
}

impl Default for Index {
    fn default() -> Self {
        Index { parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }
}

impl Index {
    /// One that is never large, and costs what is in it: it is a single part.
    pub fn small() -> Self {
        Index { parts: vec![HashTable::new()] }
    }

    /// Slot whose record has this hash and satisfies `same`.
    pub fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        self.parts[self.part(hash)].find(hash, |&slot| same(slot)).copied()
    }

    /// Adds `slot`, which must not be in yet. `rehash` gives the hash of a slot's record and is
    /// called when a part grows.
    pub fn insert(&mut self, hash: u64, slot: u32, rehash: impl Fn(u32) -> u64) {
        let part = self.part(hash);
        self.parts[part].insert_unique(hash, slot, |&slot| rehash(slot));
    }

    /// Takes `slot` out; false when it was not in.
    pub fn remove(&mut self, hash: u64, slot: u32) -> bool {
        let part = self.part(hash);
        match self.parts[part].find_entry(hash, |&other| other == slot) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }

    /// Whether no entry is held.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(HashTable::is_empty)
    }

    /// The table inside uses the lowest and the seven highest bits, `home` the highest ones: the
    /// part is chosen by bits between them.
    fn part(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.parts.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::HashKey;

    #[test]
    fn it_finds_what_was_put_in_and_nothing_else() {
        let key = HashKey::new(5, 6);
        let names: Vec<String> = (0..5_000).map(|n| format!("device-{n}")).collect();
        let hash = |slot: u32| key.of(&[names[slot as usize].as_bytes()]);
        for mut index in [Index::default(), Index::small()] {
            for slot in 0..names.len() as u32 {
                index.insert(hash(slot), slot, hash);
            }
            assert_eq!(index.len(), names.len());
            for slot in 0..names.len() as u32 {
                let same = |other: u32| names[other as usize] == names[slot as usize];
                assert_eq!(index.find(hash(slot), same), Some(slot));
            }
            assert_eq!(index.find(key.of(&[b"stranger"]), |_| false), None);
            assert!(index.remove(hash(17), 17));
            assert!(!index.remove(hash(17), 17));
            assert_eq!(index.find(hash(17), |other| other == 17), None);
        }
    }

    #[test]
    fn parts_are_of_one_size_and_their_lengths_add_up() {
        let key = HashKey::new(5, 6);
        let hash = |slot: u32| key.of(&[&slot.to_le_bytes()]);
        let mut index = Index::default();
        assert!(index.is_empty());
        (0..PARTS as u32 * 64).for_each(|slot| index.insert(hash(slot), slot, hash));
        assert!(index.parts.iter().all(|part| (16..160).contains(&part.len())));
        assert_eq!((index.len(), index.is_empty()), (PARTS * 64, false));
    }
}

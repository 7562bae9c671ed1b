//! Names of the book's accounts: who is there, and what of it a shard must know at once.
//!
//! ```text
//! | keyed hash of the name, 64 bits | uid, 61 bits | super | disabled | ruled |      16 bytes
//! ```
//! A table of hashes, and no names: five million accounts are about 145 MB. Two names with one hash
//! are one to it (a pair in one of a million books of five million): whoever adds a name looks
//! whether its row is there. It is in parts, so that growing holds nobody up for long. It knows no
//! rows. Invariant: as many marks as accounts, one each.

use base::hash::HashKey;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Bits of a mark that say what the account may do; its number stands in front of them.
const FLAGS: u64 = 0b111;
const FLAG_BITS: u32 = FLAGS.count_ones();

/// Parts of the table, by how a hash begins.
const PARTS: usize = 256;

/// State of an account in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Whether the account may do everything.
    pub is_super: bool,
    /// Whether logins of the account are refused.
    pub is_disabled: bool,
    /// Whether the account has rules of its own.
    pub is_ruled: bool,
}

impl Standing {
    /// All its bits.
    pub(crate) const ALL_BITS: u8 = FLAGS as u8;

    /// Its bits in a mark, and in a row.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.is_super) | u8::from(self.is_disabled) << 1 | u8::from(self.is_ruled) << 2
    }

    /// State in these bits.
    pub(crate) fn of_bits(bits: u8) -> Standing {
        let is = |bit: u8| bits >> bit & 1 != 0;
        Standing { is_super: is(0), is_disabled: is(1), is_ruled: is(2) }
    }
}

/// Known state of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// Its number, below 2^53.
    pub(crate) uid: u64,
    pub(crate) standing: Standing,
}

/// Hash of a name, and what it is. Equal to any other of its name.
#[derive(Clone, Copy, Eq)]
struct Mark {
    hash: u64,
    /// Number and flags.
    is: u64,
}

impl Mark {
    /// The mark of a name, to find its account by.
    fn of(hash: u64) -> Mark {
        Mark { hash, is: 0 }
    }

    fn known(self) -> Known {
        let standing = Standing::of_bits((self.is & FLAGS) as u8);
        Known { uid: self.is >> FLAG_BITS, standing }
    }
}

impl PartialEq for Mark {
    fn eq(&self, other: &Mark) -> bool {
        self.hash == other.hash
    }
}

impl Hash for Mark {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A part has hashes that begin alike: they are spread over its table anew.
        state.write_u64(self.hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

/// Takes a hash for what it is.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        base::never!(true, "marks are written as numbers");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Marks of all accounts.
pub(crate) struct KnownNames {
    key: HashKey,
    parts: Box<[HashSet<Mark, BuildHasherDefault<AsItIs>>]>,
    count: usize,
}

impl KnownNames {
    /// Makes an empty set. `key` is the process's own.
    pub(crate) fn new(key: HashKey) -> KnownNames {
        let parts = (0..PARTS).map(|_| HashSet::default()).collect();
        KnownNames { key, parts, count: 0 }
    }

    /// Hash by which a name is known.
    pub(crate) fn hash(&self, name: &str) -> u64 {
        self.key.of(&[name.as_bytes()])
    }

    /// The account; `None`: unknown.
    pub(crate) fn find(&self, name: &str) -> Option<Known> {
        let mark = Mark::of(self.hash(name));
        self.parts[part(mark)].get(&mark).map(|mark| mark.known())
    }

    /// An account is so from now on; what it was.
    pub(crate) fn put(&mut self, name: &str, known: Known) -> Option<Known> {
        let is = known.uid << FLAG_BITS | u64::from(known.standing.bits());
        let mark = Mark { hash: self.hash(name), is };
        let before = self.parts[part(mark)].replace(mark);
        self.count += usize::from(before.is_none());
        before.map(Mark::known)
    }

    /// An account is gone; what it was.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Known> {
        let mark = Mark::of(self.hash(name));
        let before = self.parts[part(mark)].take(&mark)?;
        self.count -= 1;
        Some(before.known())
    }

    /// How many accounts.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

fn part(mark: Mark) -> usize {
    (mark.hash >> 56) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(uid: u64, bits: u8) -> Known {
        Known { uid, standing: Standing::of_bits(bits) }
    }

    #[test]
    fn a_name_is_known_with_what_it_is_until_it_is_taken_out() {
        let mut names = KnownNames::new(HashKey::new(1, 2));
        let uid = (1 << 53) - 1;
        for bits in 0..8 {
            assert_eq!(Standing::of_bits(bits).bits(), bits);
            let before = (bits > 0).then(|| known(uid, bits - 1));
            assert_eq!(names.put("ann", known(uid, bits)), before);
            assert_eq!((names.find("ann"), names.len()), (Some(known(uid, bits)), 1));
        }
        assert_eq!((names.find("bob"), names.remove("bob")), (None, None));
        let removed = names.remove("ann");
        assert_eq!((removed, names.find("ann"), names.len()), (Some(known(uid, 7)), None, 0));
    }

    #[test]
    fn a_hundred_thousand_names_are_told_from_each_other() {
        let mut names = KnownNames::new(HashKey::new(3, 4));
        let name = |number: u32| format!("user-{number}");
        let of = |number: u32| known(number.into(), number as u8 & 7);
        for number in 0..100_000 {
            assert_eq!(names.put(&name(number), of(number)), None);
        }
        assert_eq!(names.len(), 100_000);
        assert!((0..100_000).all(|n| names.find(&name(n)) == Some(of(n))));
        assert!((100_000..101_000).all(|n| names.find(&name(n)).is_none()));
        let largest = names.parts.iter().map(HashSet::len).max().expect("parts");
        assert!(largest < 600, "the parts are even: {largest}");
    }
}

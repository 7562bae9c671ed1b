//! Names of the book's accounts: who is there, and what of it a shard must know at once.
//!
//! ```text
//! | keyed hash of the name, 61 bits | super | disabled | ruled |      8 bytes an account
//! ```
//! A table of hashes, and no names: five million accounts are about 80 MB. Two names with one hash
//! are one to it (a pair in one of some 200,000 books of five million): whoever adds a name looks
//! whether its row is there. It is in parts, so that growing holds nobody up for long. It knows no
//! rows. Invariant: as many marks as accounts, one each.

use base::hash::HashKey;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Bits of a mark that say what the account is.
const FLAGS: u64 = 0b111;

/// Parts of the table, by how a hash begins.
const PARTS: usize = 256;

/// What a shard must know of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// It may do everything.
    pub is_super: bool,
    /// It is refused.
    pub is_disabled: bool,
    /// It has rules of its own.
    pub is_ruled: bool,
}

impl Standing {
    /// All its bits.
    pub(crate) const ALL_BITS: u8 = FLAGS as u8;

    /// Its bits in a mark, and in a row.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.is_super) | u8::from(self.is_disabled) << 1 | u8::from(self.is_ruled) << 2
    }

    /// What these bits say.
    pub(crate) fn of_bits(bits: u8) -> Standing {
        let is = |bit: u8| bits >> bit & 1 != 0;
        Standing { is_super: is(0), is_disabled: is(1), is_ruled: is(2) }
    }
}

/// Hash of a name, and what it is. Equal to any other of its name.
#[derive(Clone, Copy, Eq)]
struct Mark(u64);

impl PartialEq for Mark {
    fn eq(&self, other: &Mark) -> bool {
        self.0 | FLAGS == other.0 | FLAGS
    }
}

impl Hash for Mark {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A part has hashes that begin alike: they are spread over its table anew.
        state.write_u64((self.0 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15));
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

/// Everybody's marks.
pub(crate) struct KnownNames {
    key: HashKey,
    parts: Box<[HashSet<Mark, BuildHasherDefault<AsItIs>>]>,
    count: usize,
}

impl KnownNames {
    /// Nobody. `key` is the process's own.
    pub(crate) fn new(key: HashKey) -> KnownNames {
        let parts = (0..PARTS).map(|_| HashSet::default()).collect();
        KnownNames { key, parts, count: 0 }
    }

    /// By which a name is known.
    pub(crate) fn hash(&self, name: &str) -> u64 {
        self.key.of(&[name.as_bytes()]) & !FLAGS
    }

    /// What an account is; `None`: there is none.
    pub(crate) fn find(&self, name: &str) -> Option<Standing> {
        let mark = Mark(self.hash(name));
        let found = self.parts[part(mark)].get(&mark)?;
        Some(Standing::of_bits((found.0 & FLAGS) as u8))
    }

    /// An account is so from now on; what it was.
    pub(crate) fn put(&mut self, name: &str, standing: Standing) -> Option<Standing> {
        let mark = Mark(self.hash(name) | u64::from(standing.bits()));
        let before = self.parts[part(mark)].replace(mark);
        self.count += usize::from(before.is_none());
        before.map(|mark| Standing::of_bits((mark.0 & FLAGS) as u8))
    }

    /// An account is gone; what it was.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Standing> {
        let mark = Mark(self.hash(name));
        let before = self.parts[part(mark)].take(&mark)?;
        self.count -= 1;
        Some(Standing::of_bits((before.0 & FLAGS) as u8))
    }

    /// How many accounts.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

fn part(mark: Mark) -> usize {
    (mark.0 >> 56) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(bits: u8) -> Standing {
        Standing::of_bits(bits)
    }

    #[test]
    fn a_name_is_known_with_what_it_is_until_it_is_taken_out() {
        let mut names = KnownNames::new(HashKey::new(1, 2));
        for bits in 0..8 {
            assert_eq!(standing(bits).bits(), bits);
            let before = (bits > 0).then(|| standing(bits - 1));
            assert_eq!(names.put("ann", standing(bits)), before);
            assert_eq!((names.find("ann"), names.len()), (Some(standing(bits)), 1));
        }
        assert_eq!((names.find("bob"), names.remove("bob")), (None, None));
        assert_eq!(
            (names.remove("ann"), names.find("ann"), names.len()),
            (Some(standing(7)), None, 0)
        );
    }

    #[test]
    fn a_hundred_thousand_names_are_told_from_each_other() {
        let mut names = KnownNames::new(HashKey::new(3, 4));
        let name = |number: u32| format!("user-{number}");
        for number in 0..100_000 {
            assert_eq!(names.put(&name(number), standing(number as u8 & 7)), None);
        }
        assert_eq!(names.len(), 100_000);
        assert!((0..100_000).all(|n| names.find(&name(n)) == Some(standing(n as u8 & 7))));
        assert!((100_000..101_000).all(|n| names.find(&name(n)).is_none()));
        let largest = names.parts.iter().map(HashSet::len).max().expect("parts");
        assert!(largest < 600, "the parts are even: {largest}");
    }
}

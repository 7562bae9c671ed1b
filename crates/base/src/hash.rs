//! The keyed hash of identities.
//!
//! Identities are chosen by strangers, so every table hashes them with a key that is drawn when the
//! process starts (SipHash-1-3), one for the whole process. Homes, and with them slots and shards,
//! are hashed under the cluster's secret: they must be the same wherever they are computed.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Ends each part of an identity: no byte of UTF-8 text.
const SEPARATOR: u8 = 0xff;

/// Bytes of an identity, with a separator for each part, that are hashed at once.
const SHORT_BYTES_MAX: usize = 64;

/// The process's secret for hashing identities, 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct HashKey {
    k0: u64,
    k1: u64,
}

impl HashKey {
    /// A key made of two random words.
    pub const fn new(k0: u64, k1: u64) -> Self {
        HashKey { k0, k1 }
    }

    /// Hash of an identity given in parts. Parts are separated, so `["ab", "c"]` and `["a", "bc"]`
    /// differ.
    pub fn of(&self, parts: &[&[u8]]) -> u64 {
        self.of_short(parts).unwrap_or_else(|| self.of_any(parts))
    }

    /// As `of_any`, for parts that fit into a buffer together, without the streaming in between.
    fn of_short(&self, parts: &[&[u8]]) -> Option<u64> {
        let mut buffer = [SEPARATOR; SHORT_BYTES_MAX];
        let mut end = 0;
        for part in parts {
            buffer.get_mut(end..end + part.len())?.copy_from_slice(part);
            end += part.len() + 1;
        }
        Some(SipHasher13::new_with_keys(self.k0, self.k1).hash(buffer.get(..end)?))
    }

    fn of_any(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.k0, self.k1);
        for part in parts {
            hasher.write(part);
            hasher.write_u8(SEPARATOR);
        }
        hasher.finish()
    }
}

/// Which of `count` shards owns an identity with this hash: that of its slot.
pub fn home(hash: u64, count: u16) -> u16 {
    Slot::of(hash).home(count)
}

/// A slot: identities whose hashes begin alike. They live in one log and move together. The high
/// bits choose, so that the low bits stay free for tables and what sorts by hash sorts by slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Slot(u16);

impl Slot {
    /// Bits of a hash that are its slot.
    pub const BITS: u32 = 14;

    /// The last one.
    pub const LAST: Slot = Slot((1 << Slot::BITS) - 1);

    /// The slot of an identity with this hash.
    pub const fn of(hash: u64) -> Slot {
        Slot((hash >> (64 - Slot::BITS)) as u16)
    }

    /// The slot with this number; `None` beyond the last.
    pub const fn new(number: u16) -> Option<Slot> {
        if number <= Slot::LAST.0 { Some(Slot(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Which of `count` logs has it on a node that has all slots.
    pub const fn home(self, count: u16) -> u16 {
        ((self.0 as u32 * count as u32) >> Slot::BITS) as u16
    }
}

/// Neighbouring slots, one at least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotRange {
    first: Slot,
    last: Slot,
}

impl SlotRange {
    /// All slots.
    pub const ALL: SlotRange = SlotRange { first: Slot(0), last: Slot::LAST };

    /// Slots from `first` to `last`; `None` if `last` is before.
    pub fn new(first: Slot, last: Slot) -> Option<SlotRange> {
        (first <= last).then_some(SlotRange { first, last })
    }

    /// The first and the last one.
    pub const fn ends(self) -> (Slot, Slot) {
        (self.first, self.last)
    }

    /// Whether a slot is among them.
    pub fn has(self, slot: Slot) -> bool {
        (self.first..=self.last).contains(&slot)
    }

    /// Splits the range into so many parts, in order, as even as can be; fewer if there are fewer
    /// slots.
    pub fn parts(self, count: u16) -> Vec<SlotRange> {
        let slots = u32::from(self.last.0 - self.first.0) + 1;
        let count = u32::from(count.max(1)).min(slots);
        let begin = |part: u32| Slot(self.first.0 + (slots * part / count) as u16);
        let part = |part| SlotRange { first: begin(part), last: Slot(begin(part + 1).0 - 1) };
        (0..count).map(part).collect()
    }

    /// Range of these slots and of those directly behind them; `None` if `behind` does not begin
    /// there.
    pub fn joined(self, behind: SlotRange) -> Option<SlotRange> {
        let SlotRange { first, last } = self;
        let meet = last.0 + 1 == behind.first.0;
        meet.then_some(SlotRange { first, last: behind.last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        let key = HashKey::new(1, 2);
        assert_ne!(key.of(&[b"ab", b"c"]), key.of(&[b"a", b"bc"]));
        assert_eq!(key.of(&[b"ab", b"c"]), key.of(&[b"ab", b"c"]));
        assert_ne!(key.of(&[b"ab"]), HashKey::new(3, 4).of(&[b"ab"]));
    }

    #[test]
    fn short_and_long_identities_are_hashed_alike() {
        let key = HashKey::new(5, 6);
        let text: Vec<u8> = (0..100).collect();
        for cut in 0..=text.len() {
            let (front, back) = text.split_at(cut);
            for parts in [&[front][..], &[front, back], &[b"", front, b"", &back[..back.len() / 2]]]
            {
                assert_eq!(key.of(parts), key.of_any(parts), "{parts:?}");
            }
        }
        assert_eq!(key.of(&[]), key.of_any(&[]));
        assert!(key.of_short(&[&text[..63]]).is_some() && key.of_short(&[&text[..64]]).is_none());
    }

    #[test]
    fn a_slot_is_the_beginning_of_a_hash_and_has_one_home() {
        assert_eq!((Slot::of(0), Slot::of(u64::MAX)), (Slot(0), Slot::LAST));
        assert_eq!(Slot::of(1 << (64 - Slot::BITS)), Slot(1));
        assert_eq!(Slot::of((1 << (64 - Slot::BITS)) - 1), Slot(0));
        let next = Slot::LAST.number() + 1;
        assert_eq!((Slot::new(next - 1), Slot::new(next)), (Some(Slot::LAST), None));
        for count in [1, 2, 3, 7, 99, 1_024] {
            let homes: Vec<u16> = (0..next).map(|slot| Slot(slot).home(count)).collect();
            assert!(homes.is_sorted() && homes[0] == 0 && homes[homes.len() - 1] == count - 1);
            let least = usize::from(next / count);
            for home in 0..count {
                let held = homes.iter().filter(|&&it| it == home).count();
                assert!((least..=least + 1).contains(&held), "{held} of {count}");
            }
        }
    }

    #[test]
    fn parts_of_a_range_are_neighbours_and_joined_the_range() {
        for count in [1, 2, 3, 5, 1_000] {
            let parts = SlotRange::ALL.parts(count);
            assert_eq!(parts.len(), usize::from(count));
            let joined = parts.iter().copied().map(Some);
            let joined = joined.reduce(|one, next| one?.joined(next?));
            assert_eq!(joined, Some(Some(SlotRange::ALL)));
            let sizes = parts.iter().map(|part| part.last.0 - part.first.0);
            assert!(sizes.clone().max() <= sizes.min().map(|least| least + 1), "{count}");
        }
        let [a, b, c] = SlotRange::ALL.parts(3)[..] else { panic!("three") };
        assert_eq!((a.joined(c), b.joined(a), a.joined(a)), (None, None, None));
        assert!(a.has(Slot(0)) && !b.has(Slot(0)) && c.has(Slot::LAST));
        assert_eq!(SlotRange::new(Slot(3), Slot(3)).expect("one").parts(4).len(), 1);
        assert_eq!(SlotRange::new(Slot(4), Slot(3)), None);
        assert_eq!(SlotRange::ALL.ends(), (Slot(0), Slot::LAST));
    }

    #[test]
    fn every_shard_gets_its_share() {
        let key = HashKey::new(7, 9);
        let mut held = [0u32; 5];
        for n in 0..10_000u32 {
            held[home(key.of(&[&n.to_be_bytes()]), 5) as usize] += 1;
        }
        assert!(held.iter().all(|&h| (1_800..2_200).contains(&h)), "{held:?}");
        assert_eq!(home(u64::MAX, 3), 2);
        assert_eq!(home(0, 3), 0);
    }
}

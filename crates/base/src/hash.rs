//! The keyed hash of identities.
//!
//! Identities are chosen by strangers, so every table and every choice of shard hashes them with a
//! key that is drawn when the process starts (SipHash-1-3). One key serves the whole process:
//! the shard of an identity must be the same wherever it is computed.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

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
        let mut hasher = SipHasher13::new_with_keys(self.k0, self.k1);
        for part in parts {
            hasher.write(part);
            hasher.write_u8(0xff); // not a byte of UTF-8 text
        }
        hasher.finish()
    }
}

/// Which of `count` shards owns an identity with this hash: the high bits choose, so that the low
/// bits stay free for tables.
pub fn home(hash: u64, count: u16) -> u16 {
    ((u128::from(hash) * u128::from(count)) >> 64) as u16
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

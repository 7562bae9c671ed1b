//! One table of the summary: for every bucket and shard the bits "any" and "durable".
//!
//! ```text
//! block of 64 bytes or more:  bucket | bucket | …      chosen by an entry's highest bits
//! bucket:  any of shard 0, 1, … | durable of shard 0, 1, …    three of a block an entry
//! ```
//! A filter sets its shard's bits in three buckets of one block; a shard may have a filter when it
//! has them all. With up to 32 shards a bucket is a part of one word, and all shards are read at
//! once. Each shard sets and clears its own bits alone; everybody reads.

use super::keys::DURABLE;
use super::shards::Elsewhere;
use base::prng::scramble;
use model::id::ShardId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const BLOCK_BITS: usize = 512;
const BLOCK_BUCKETS_MIN: usize = 32;
const WORD: usize = 64;

/// The bits, and who has moved in.
pub(super) struct Bits {
    words: Box<[AtomicU64]>,
    /// Shards with room in a bucket: a power of two.
    width: usize,
    block_buckets: usize,
    /// The number of blocks, as a power of two.
    blocks_log: u32,
    /// Shards whose filters are all here. The other shards have them in the table before.
    moved: Box<[AtomicU64]>,
    /// How many are still to come.
    to_come: AtomicU32,
}

/// Buckets of an entry. With three, and a quarter of the bits set, one look in 64 errs.
const PROBES: usize = 3;

impl Bits {
    /// A table in which no shard has anything, and into which none has moved.
    pub fn new(shards: u16, blocks_log: u32) -> Bits {
        let width = usize::from(shards).next_power_of_two().max(2);
        let block_buckets = (BLOCK_BITS / (2 * width)).max(BLOCK_BUCKETS_MIN);
        let words = ((block_buckets << blocks_log) * 2 * width).div_ceil(WORD);
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Bits {
            words: zeros(words),
            width,
            block_buckets,
            blocks_log,
            moved: zeros(width.div_ceil(WORD)),
            to_come: AtomicU32::new(u32::from(shards)),
        }
    }

    /// The number of blocks, as a power of two.
    pub fn blocks_log(&self) -> u32 {
        self.blocks_log
    }

    /// Buckets in all.
    pub fn buckets(&self) -> usize {
        self.block_buckets << self.blocks_log
    }

    /// Bytes of the table.
    pub fn heap_bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Bits that are set, of all shards.
    #[cfg(test)]
    pub fn set_in_all(&self) -> u32 {
        self.words.iter().map(|word| word.load(Ordering::Acquire).count_ones()).sum()
    }

    /// Where an entry's bits are.
    fn buckets_of(&self, entry: u32) -> [usize; PROBES] {
        let hash = entry & !DURABLE;
        let block = (u64::from(hash) << self.blocks_log >> 32) as usize;
        let base = block * self.block_buckets;
        let bits = scramble(u64::from(hash)) as usize;
        let mask = self.block_buckets - 1;
        [0, 21, 42].map(|shift| base + (bits >> shift & mask))
    }

    /// First and last entry whose bits are in the same block.
    pub fn neighbours(&self, entry: u32) -> (u32, u32) {
        let rest = (u64::from(u32::MAX) >> self.blocks_log) as u32;
        (entry & !rest, entry | rest)
    }

    /// Sets the bits of an entry of a shard. How many of "somebody" were not set before.
    pub fn set(&self, shard: ShardId, entry: u32) -> usize {
        let mut fresh = 0;
        for bucket in self.buckets_of(entry) {
            let (word, bit) = self.place(bucket, usize::from(shard.0));
            fresh += usize::from(word.fetch_or(bit, Ordering::AcqRel) & bit == 0);
            if entry & DURABLE != 0 {
                let (word, bit) = self.place(bucket, self.width + usize::from(shard.0));
                word.fetch_or(bit, Ordering::AcqRel);
            }
        }
        fresh
    }

    /// Clears those bits of an entry that no entry of `others` has. How many of "somebody" were.
    pub fn clear(&self, shard: ShardId, entry: u32, others: &[u32]) -> usize {
        let has = |other: u32, bucket| self.buckets_of(other).contains(&bucket);
        let mut cleared = 0;
        for bucket in self.buckets_of(entry) {
            if !others.iter().any(|&other| has(other, bucket)) {
                let (word, bit) = self.place(bucket, usize::from(shard.0));
                cleared += usize::from(word.fetch_and(!bit, Ordering::AcqRel) & bit != 0);
            }
            let durable = |&&other: &&u32| other & DURABLE != 0;
            if entry & DURABLE != 0
                && !others.iter().filter(durable).any(|&other| has(other, bucket))
            {
                let (word, bit) = self.place(bucket, self.width + usize::from(shard.0));
                word.fetch_and(!bit, Ordering::AcqRel);
            }
        }
        cleared
    }

    /// All entries of a shard are here now. True: it was the last one.
    pub fn move_in(&self, shard: ShardId) -> bool {
        let bit = 1 << (shard.0 % 64);
        self.moved[usize::from(shard.0) / WORD].fetch_or(bit, Ordering::AcqRel);
        self.to_come.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Adds the shards that may have an entry: those that have moved in by this table, the others
    /// by the one before.
    pub fn look(&self, old: Option<&Bits>, entry: u32, found: &mut Elsewhere) {
        let width = self.width;
        if width <= WORD / 2 {
            let all = (1 << width) - 1;
            let common = match old {
                None => self.common(entry, 0),
                Some(old) => {
                    let moved = self.moved[0].load(Ordering::Acquire);
                    let moved = moved | moved << width;
                    self.common(entry, 0) & moved | old.common(entry, 0) & !moved
                }
            };
            add(found, 0, common & all, common >> width & all);
            return;
        }
        for at in 0..width / WORD {
            let moved = match old {
                Some(_) => self.moved[at].load(Ordering::Acquire),
                None => u64::MAX,
            };
            let read = |plane: usize| {
                let new = self.common(entry, plane + at) & moved;
                old.map_or(new, |old| new | old.common(entry, plane + at) & !moved)
            };
            add(found, at, read(0), read(width / WORD));
        }
    }

    /// Bits that all buckets of an entry share: of a small bucket all of it, of a large one this
    /// word.
    fn common(&self, entry: u32, at: usize) -> u64 {
        let bits = 2 * self.width;
        let read = |bucket: usize| {
            if bits > WORD {
                return self.words[bucket * (bits / WORD) + at].load(Ordering::Acquire);
            }
            let word = self.words[bucket * bits / WORD].load(Ordering::Acquire);
            word >> (bucket * bits % WORD)
        };
        let mask = if bits >= WORD { u64::MAX } else { (1 << bits) - 1 };
        self.buckets_of(entry).into_iter().fold(mask, |common, bucket| common & read(bucket))
    }

    fn place(&self, bucket: usize, lane: usize) -> (&AtomicU64, u64) {
        let bit = bucket * 2 * self.width + lane;
        (&self.words[bit / WORD], 1 << (bit % WORD))
    }
}

fn add(found: &mut Elsewhere, at: usize, any: u64, durable: u64) {
    found.any.add_word(at, any);
    found.durable.add_word(at, durable);
}

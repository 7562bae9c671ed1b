//! Sets of shards: an answer of the summary, which is asked for every message.
//!
//! Below 64 shards a set is one word and nothing is allocated. This module does not know the
//! content of the shards.

use model::id::ShardId;

/// Some shards of the process. Below 64 shards it is one word.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShardSet {
    first: u64,
    rest: Option<Box<[u64]>>,
}

/// Other shards that may have a subscription that matches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Elsewhere {
    /// Shards that may have a subscription.
    pub any: ShardSet,
    /// Shards that may have a durable subscription.
    pub durable: ShardSet,
}

impl ShardSet {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.first == 0 && self.rest.as_ref().is_none_or(|rest| rest.iter().all(|&word| word == 0))
    }

    /// Whether this one is in.
    pub fn has(&self, shard: ShardId) -> bool {
        self.word(usize::from(shard.0 / 64)) >> (shard.0 % 64) & 1 != 0
    }

    /// Shards of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = ShardId> + '_ {
        let words = 1 + self.rest.as_ref().map_or(0, |rest| rest.len());
        (0..words).flat_map(move |at| {
            let mut word = self.word(at);
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(ShardId((at * 64) as u16 + bit as u16))
            })
        })
    }

    /// Number of shards in the set.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    fn word(&self, at: usize) -> u64 {
        match (at, &self.rest) {
            (0, _) => self.first,
            (at, Some(rest)) => rest.get(at - 1).copied().unwrap_or(0),
            (_, None) => 0,
        }
    }

    /// Adds those of a word of 64 shards.
    pub(super) fn add_word(&mut self, at: usize, word: u64) {
        if at == 0 {
            self.first |= word;
            return;
        }
        if word == 0 {
            return;
        }
        let words = usize::from(ShardId::MAX) / 64 - 1;
        let rest = self.rest.get_or_insert_with(|| vec![0; words].into_boxed_slice());
        rest[at - 1] |= word;
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, shard: ShardId) {
        let mask = !(1 << (shard.0 % 64));
        match (usize::from(shard.0 / 64), &mut self.rest) {
            (0, _) => self.first &= mask,
            (at, Some(rest)) => rest[at - 1] &= mask,
            (_, None) => {}
        }
    }
}

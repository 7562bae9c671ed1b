//! A store that is made up: it completes entries later, in order, refuses some and forgets what it
//! had not completed when the world crashes.
//!
//! Invariant: whatever it completed with `Ok` is alive after a crash until an `Over` was completed.

use base::prng::Prng;
use model::id::{DeviceId, MessageId, ProductKey, ShardId};
use model::ports::journal::{Completion, Entry, StoreError, Ticket};
use std::collections::{BTreeMap, VecDeque};

/// The store of one world.
pub struct Journal {
    rng: Prng,
    /// Entries, or whole batches, that are refused: once in so many times.
    pub refuse_in: u64,
    taken: Vec<VecDeque<(Ticket, Entry)>>,
    alive: BTreeMap<(ProductKey, DeviceId, MessageId), Entry>,
}

impl Journal {
    /// An empty store for so many shards.
    pub fn new(seed: u64, shards: u16, refuse_in: u64) -> Journal {
        let taken = (0..shards).map(|_| VecDeque::new()).collect();
        Journal { rng: Prng::new(seed), refuse_in, taken, alive: BTreeMap::new() }
    }

    /// Takes a shard's entries, or none of them.
    pub fn take(
        &mut self,
        shard: ShardId,
        entries: Vec<(Ticket, Entry)>,
    ) -> Result<(), (StoreError, Vec<Ticket>)> {
        if self.refuses() {
            return Err((StoreError::Busy, entries.into_iter().map(|entry| entry.0).collect()));
        }
        self.taken[shard.0 as usize].extend(entries);
        Ok(())
    }

    /// Completes the first few entries of a shard.
    pub fn complete(&mut self, shard: ShardId) -> Vec<Completion> {
        let waiting = self.taken[shard.0 as usize].len() as u64;
        let count = self.rng.below(waiting + 1).max(waiting.min(1));
        let mut completions = Vec::new();
        for _ in 0..count {
            let Some((ticket, entry)) = self.taken[shard.0 as usize].pop_front() else { break };
            if self.refuses() {
                completions.push((ticket, Err(StoreError::Full)));
            } else {
                self.keep(entry);
                completions.push((ticket, Ok(())));
            }
        }
        completions
    }

    /// The process died: of what was not completed a part was written all the same.
    pub fn crash(&mut self) {
        for shard in 0..self.taken.len() {
            let mut taken = std::mem::take(&mut self.taken[shard]);
            let written = self.rng.below(taken.len() as u64 + 1) as usize;
            for (_, entry) in taken.drain(..written) {
                self.keep(entry);
            }
        }
    }

    /// What the store gives back at a start.
    pub fn alive(&self) -> impl Iterator<Item = &Entry> {
        self.alive.values()
    }

    /// Entries that were taken and not completed.
    pub fn waiting(&self) -> usize {
        self.taken.iter().map(VecDeque::len).sum()
    }

    fn refuses(&mut self) -> bool {
        self.refuse_in != 0 && self.rng.one_in(self.refuse_in)
    }

    fn keep(&mut self, entry: Entry) {
        match entry {
            Entry::Waits { ref push, ref device } => {
                self.alive.insert((push.product.clone(), device.clone(), push.id), entry);
            }
            Entry::Over { product, device, id } => {
                self.alive.remove(&(product, device, id));
            }
            Entry::Product(_) | Entry::NoProduct(_) | Entry::Blocked { .. } => {}
        }
    }
}

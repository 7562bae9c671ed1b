//! Offers of shards, put together into calls and taken apart again.
//!
//! Offers that fit go into one call, where the batches of a bucket become one; each shard hears the
//! answers to its own records, in its own order. Knows no directory. Invariant: as many answers go
//! back as records came.

use super::{ENTRIES_MAX, ReplicationSink};
use model::id::ShardId;
use model::ports::presence::directory::{Batch, DirectoryError, Put};
use std::collections::VecDeque;

/// Batch that a shard wants written.
pub struct WriteOffer {
    pub shard: ShardId,
    pub batches: Vec<Batch>,
}

impl WriteOffer {
    fn entries(&self) -> usize {
        self.batches.iter().map(|batch| batch.entries.len()).sum()
    }
}

/// Records that go into one call.
pub struct CarriedLoad {
    pub batches: Vec<Batch>,
    /// Of each record in the batches, in order: which of the shards' it is, and which of its own.
    origins: Vec<(u32, u32)>,
    /// The shards, and how many records each offered.
    shards: Vec<(ShardId, usize)>,
}

/// Takes as many offers as fit into a call, at least one; `None` if there are none.
pub fn load(offers: &mut VecDeque<WriteOffer>) -> Option<CarriedLoad> {
    let mut load = CarriedLoad { batches: Vec::new(), origins: Vec::new(), shards: Vec::new() };
    let mut flat = Vec::new();
    while let Some(offer) = offers.front() {
        let entries = offer.entries();
        if !load.shards.is_empty() && flat.len() + entries > ENTRIES_MAX {
            break;
        }
        let offer = offers.pop_front().expect("it was just seen");
        let (shard, mut own) = (load.shards.len() as u32, 0_u32);
        load.shards.push((offer.shard, entries));
        for batch in offer.batches {
            for entry in batch.entries {
                flat.push((batch.bucket, (shard, own), entry));
                own += 1;
            }
        }
    }
    if load.shards.is_empty() {
        return None;
    }
    flat.sort_by_key(|&(bucket, origin, _)| (bucket, origin));
    for (bucket, origin, entry) in flat {
        load.origins.push(origin);
        match load.batches.last_mut() {
            Some(batch) if batch.bucket == bucket => batch.entries.push(entry),
            _ => load.batches.push(Batch { bucket, entries: vec![entry] }),
        }
    }
    Some(load)
}

impl CarriedLoad {
    /// Records in it.
    pub fn entries(&self) -> usize {
        self.origins.len()
    }

    /// Gives each shard the answers to its own records, in its order.
    pub fn unload(self, answers: Result<Vec<Put>, DirectoryError>, sink: &mut dyn ReplicationSink) {
        let answers = match answers {
            Ok(answers) => answers,
            Err(fault) => {
                self.shards.iter().for_each(|(shard, _)| sink.written(*shard, Err(fault.clone())));
                return;
            }
        };
        let untaken = |&(_, count): &(ShardId, usize)| vec![Put::Untaken; count];
        let mut each: Vec<Vec<Put>> = self.shards.iter().map(untaken).collect();
        for ((shard, own), answer) in self.origins.into_iter().zip(answers) {
            each[shard as usize][own as usize] = answer;
        }
        for ((shard, _), answers) in self.shards.into_iter().zip(each) {
            sink.written(shard, Ok(answers));
        }
    }
}

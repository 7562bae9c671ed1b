//! A life of the server: its shards, their mailboxes, and what is asked of all of them.
//!
//! It ends with a crash, and another one is raised over what disk and directory have. It decides
//! nothing.

use super::{PostOf, SimHouse, SimShard};
use crate::copies::{Keepers, Word};
use crate::fabric::HostId;
use base::time::Now;
use model::id::ShardId;
use model::ports::presence::Presence;
use model::presence::Principal;
use net::shard::{Census, Letter};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A server.
pub(crate) struct Server {
    pub(crate) hosts: Vec<HostId>,
    pub(crate) shards: Vec<SimShard<SimHouse>>,
    pub(super) running: Vec<bool>,
    pub(crate) post: PostOf<SimHouse>,
    pub(super) census: Arc<Census>,
}

/// Words that found no room, and the shards of those that did.
type Told = (VecDeque<(ShardId, Word)>, BTreeSet<ShardId>);

impl Server {
    /// Tells shards what the copyist has for them.
    pub(crate) fn tell(&mut self, words: VecDeque<(ShardId, Word)>) -> Told {
        let (mut left, mut told, mut full) = (VecDeque::new(), BTreeSet::new(), BTreeSet::new());
        for (shard, word) in words {
            let letter = Letter::Mail(word.clone().mail());
            if full.contains(&shard) || self.post.borrow_mut().put(None, shard, letter).is_err() {
                full.insert(shard);
                left.push_back((shard, word));
            } else {
                told.insert(shard);
            }
        }
        (left, told)
    }

    /// Those of whom hubs and brokers say that they are online.
    pub(crate) fn online(&self, now: Now, who: impl Iterator<Item = Principal>) -> Vec<Presence> {
        let find = |who: &Principal, shard: &SimShard<SimHouse>| match who {
            Principal::Device(product, device) => shard.house().hub().find(now, product, device),
            Principal::Client(id) => shard.house().broker().find(now, id),
        };
        let found = who.filter_map(|who| self.shards.iter().find_map(|shard| find(&who, shard)));
        found.filter(|found| found.state.is_online()).collect()
    }

    /// What all shards keep.
    pub(crate) fn keepers(&self) -> Keepers<'_> {
        let all = self.shards.iter().map(|shard| shard.house().attendance().keeper());
        Keepers(all.collect())
    }
}

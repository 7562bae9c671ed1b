//! A life of the server: its shards, their mailboxes, and what is asked of all of them.
//!
//! It ends with a crash, and another one is raised over what disk and directory have. It decides
//! nothing.

use super::{PostOf, SimLogic, SimShard};
use crate::copies::{Keepers, SimNotice};
use crate::fabric::HostId;
use base::time::Now;
use model::id::ShardId;
use model::ports::presence_queries::PresenceStatus;
use model::presence::Principal;
use net::shard::{Census, ShardMessage};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A server.
pub(crate) struct Server {
    pub(crate) hosts: Vec<HostId>,
    pub(crate) shards: Vec<SimShard<SimLogic>>,
    pub(super) running: Vec<bool>,
    pub(crate) post: PostOf<SimLogic>,
    pub(super) census: Arc<Census>,
}

/// Words that found no room, and the shards of those that did.
type Told = (VecDeque<(ShardId, SimNotice)>, BTreeSet<ShardId>);

impl Server {
    /// Tells shards what the replicator has for them.
    pub(crate) fn tell(&mut self, words: VecDeque<(ShardId, SimNotice)>) -> Told {
        let (mut left, mut told, mut full) = (VecDeque::new(), BTreeSet::new(), BTreeSet::new());
        for (shard, word) in words {
            let shard_message = ShardMessage::Mail(word.clone().mail());
            if full.contains(&shard)
                || self.post.borrow_mut().put(None, shard, shard_message).is_err()
            {
                full.insert(shard);
                left.push_back((shard, word));
            } else {
                told.insert(shard);
            }
        }
        (left, told)
    }

    /// Those of whom hubs and brokers say that they are online.
    pub(crate) fn online(
        &self,
        now: Now,
        who: impl Iterator<Item = Principal>,
    ) -> Vec<PresenceStatus> {
        let find = |who: &Principal, shard: &SimShard<SimLogic>| shard.logic().find(now, who);
        let found = who.filter_map(|who| self.shards.iter().find_map(|shard| find(&who, shard)));
        found.filter(|found| found.state.is_online()).collect()
    }

    /// What all shards keep.
    pub(crate) fn trackers(&self) -> Keepers<'_> {
        let all = self.shards.iter().map(|shard| shard.logic().shard_presence().tracker());
        Keepers(all.collect())
    }
}

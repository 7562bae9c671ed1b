//! The post office of a world: bounded mailboxes, read in any order but each sender's own.
//!
//! Letters of one sender to one receiver stay in order, as they do in the real mailbox; letters of
//! different senders may overtake each other, and now and then some are not there yet.

use crate::fabric::{Fabric, HostId};
use model::id::ShardId;
use std::collections::VecDeque;

struct Mailbox<L> {
    host: HostId,
    /// One queue a sender; the last is for everybody who is no shard.
    senders: Vec<VecDeque<L>>,
}

/// The mailboxes of a world's shards.
pub struct Post<L> {
    boxes: Vec<Mailbox<L>>,
    letters_max: usize,
}

impl<L> Post<L> {
    /// A mailbox for each shard, which the fabric knows by its host.
    pub fn new(hosts: &[HostId], letters_max: usize) -> Post<L> {
        let senders = || (0..=hosts.len()).map(|_| VecDeque::new()).collect();
        let boxes = hosts.iter().map(|&host| Mailbox { host, senders: senders() }).collect();
        Post { boxes, letters_max }
    }

    /// The shard's host.
    pub fn host(&self, shard: ShardId) -> HostId {
        self.boxes[shard.0 as usize].host
    }

    /// Puts a letter in, or gives it back. `from` is absent for threads that are no shard.
    pub fn put(&mut self, from: Option<ShardId>, to: ShardId, letter: L) -> Result<(), L> {
        let mailbox = &mut self.boxes[to.0 as usize];
        let waiting: usize = mailbox.senders.iter().map(VecDeque::len).sum();
        if waiting >= self.letters_max {
            return Err(letter);
        }
        let sender = from.map_or(mailbox.senders.len() - 1, |from| from.0 as usize);
        mailbox.senders[sender].push_back(letter);
        Ok(())
    }

    /// Takes letters, maybe not all; says whether some are left.
    pub fn take(&mut self, shard: ShardId, fabric: &mut Fabric, into: &mut Vec<L>) -> bool {
        let mailbox = &mut self.boxes[shard.0 as usize];
        let hold_letter_in = fabric.weather().hold_letter_in;
        let mut open: Vec<usize> = (0..mailbox.senders.len()).collect();
        open.retain(|&sender| !mailbox.senders[sender].is_empty());
        while !open.is_empty() {
            let at = fabric.below(open.len() as u64) as usize;
            let sender = open[at];
            into.extend(mailbox.senders[sender].pop_front());
            // The rest of this sender's letters come later.
            if mailbox.senders[sender].is_empty() || fabric.strikes(hold_letter_in) {
                open.swap_remove(at);
            }
        }
        mailbox.senders.iter().any(|sender| !sender.is_empty())
    }

    /// Letters that wait.
    pub fn waiting(&self) -> usize {
        let senders = self.boxes.iter().flat_map(|mailbox| &mailbox.senders);
        senders.map(VecDeque::len).sum()
    }
}

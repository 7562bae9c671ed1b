//! The post office of a world: bounded mailboxes, read in any order but each sender's own.
//!
//! Shard messages of one sender to one receiver stay in order, as they do in the real mailbox;
//! shard messages of different senders may overtake each other, and now and then some are not there
//! yet.

use crate::fabric::{Fabric, HostId};
use model::id::ShardId;
use std::collections::VecDeque;

struct Mailbox<L> {
    host: HostId,
    /// One queue a sender; the last is for everybody who is no shard.
    senders: Vec<VecDeque<L>>,
}

/// The mailboxes of a world's shards.
pub struct SimMailboxes<L> {
    boxes: Vec<Mailbox<L>>,
    messages_max: usize,
}

impl<L> SimMailboxes<L> {
    /// A mailbox for each shard, which the fabric knows by its host.
    pub fn new(hosts: &[HostId], messages_max: usize) -> SimMailboxes<L> {
        let senders = || (0..=hosts.len()).map(|_| VecDeque::new()).collect();
        let boxes = hosts.iter().map(|&host| Mailbox { host, senders: senders() }).collect();
        SimMailboxes { boxes, messages_max }
    }

    /// The shard's host.
    pub fn host(&self, shard: ShardId) -> HostId {
        self.boxes[shard.0 as usize].host
    }

    /// Puts a shard message in, or gives it back. `from` is absent for threads that are no shard.
    pub fn put(&mut self, from: Option<ShardId>, to: ShardId, shard_message: L) -> Result<(), L> {
        let mailbox = &mut self.boxes[to.0 as usize];
        let waiting: usize = mailbox.senders.iter().map(VecDeque::len).sum();
        if waiting >= self.messages_max {
            return Err(shard_message);
        }
        let sender = from.map_or(mailbox.senders.len() - 1, |from| from.0 as usize);
        mailbox.senders[sender].push_back(shard_message);
        Ok(())
    }

    /// Takes shard messages, maybe not all; says whether some are left.
    pub fn take(&mut self, shard: ShardId, fabric: &mut Fabric, into: &mut Vec<L>) -> bool {
        let mailbox = &mut self.boxes[shard.0 as usize];
        let hold_shard_message_in = fabric.weather().hold_shard_message_in;
        let mut open: Vec<usize> = (0..mailbox.senders.len()).collect();
        open.retain(|&sender| !mailbox.senders[sender].is_empty());
        while !open.is_empty() {
            let at = fabric.below(open.len() as u64) as usize;
            let sender = open[at];
            into.extend(mailbox.senders[sender].pop_front());
            // The rest of this sender's shard messages come later.
            if mailbox.senders[sender].is_empty() || fabric.strikes(hold_shard_message_in) {
                open.swap_remove(at);
            }
        }
        mailbox.senders.iter().any(|sender| !sender.is_empty())
    }

    /// Shard messages that wait.
    pub fn waiting(&self) -> usize {
        let senders = self.boxes.iter().flat_map(|mailbox| &mailbox.senders);
        senders.map(VecDeque::len).sum()
    }
}

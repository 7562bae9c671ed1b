//! The API's way to the trackers.
//!
//! Principals are asked of the shards that own them, buckets and counts of all. Invariant: each
//! principal is asked once.

use super::Switchboard;
use crate::shard_logic::Mail;
use crate::shard_logic::outside::Outside;
use model::id::ShardId;
use model::ports::control::{Command, Reply};
use model::ports::presence::queries::{PresenceAnswer, PresenceCommand};
use model::presence::{PresenceVersion, Principal};
use net::shard::ShardMessage;
use std::collections::BTreeMap;

impl<O: Outside + Send> Switchboard<O> {
    /// Has the owner look after somebody who was said to be online. False when its mailbox is full,
    /// or nobody reads it any more.
    pub fn recall(&self, who: Principal, version: PresenceVersion) -> bool {
        let owner = ::presence::owner(self.hash_key, self.shards(), &who);
        let mailbox = &self.mailboxes[usize::from(owner.0)];
        let taken = mailbox.put(ShardMessage::Mail(Mail::Recall(who, version))).is_ok();
        mailbox.ring();
        taken
    }

    pub(super) fn ask_presence(&self, command: PresenceCommand, reply: Reply) {
        let (who, again): (_, fn(Vec<Principal>) -> PresenceCommand) = match command {
            PresenceCommand::Find(who) => (who, PresenceCommand::Find),
            PresenceCommand::Histories(who) => (who, PresenceCommand::Histories),
            PresenceCommand::Buckets(_) | PresenceCommand::Counts => {
                let commands = self.all().map(|shard| (shard, Command::Presence(command.clone())));
                return self.gather(commands.collect(), reply);
            }
        };
        let mut split = BTreeMap::<ShardId, Vec<Principal>>::new();
        for who in who {
            let owner = ::presence::owner(self.hash_key, self.shards(), &who);
            split.entry(owner).or_default().push(who);
        }
        if split.is_empty() {
            // Somebody answers that nobody is known.
            split.insert(ShardId(0), Vec::new());
        }
        let commands = split.into_iter().map(|(shard, who)| (shard, Command::Presence(again(who))));
        self.gather(commands.collect(), reply);
    }
}

/// Two shards' answers as one.
pub(super) fn merge(one: PresenceAnswer, other: PresenceAnswer) -> PresenceAnswer {
    match (one, other) {
        (PresenceAnswer::Found(mut found), PresenceAnswer::Found(more)) => {
            found.extend(more);
            PresenceAnswer::Found(found)
        }
        (PresenceAnswer::Entries(mut entries), PresenceAnswer::Entries(more)) => {
            entries.extend(more);
            PresenceAnswer::Entries(entries)
        }
        (PresenceAnswer::Histories(mut histories), PresenceAnswer::Histories(more)) => {
            histories.extend(more);
            PresenceAnswer::Histories(histories)
        }
        (PresenceAnswer::Counts(mut counts), PresenceAnswer::Counts(more)) => {
            counts.add(&more);
            PresenceAnswer::Counts(counts)
        }
        // Shards answer the same question.
        (_, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::presence::queries::{Count, PresenceCounts};

    #[test]
    fn counts_of_all_shards_add_up() {
        let of = |online| {
            let count = Count { online, ..Count::default() };
            PresenceAnswer::Counts(PresenceCounts { of: [(("a".into(), "miop7"), count)].into() })
        };
        assert_eq!(merge(of(2), of(3)), of(5));
    }
}

//! The API's way to chat.
//!
//! A command about an account or a group goes to its home shard; groups are listed by the shard
//! that is named, chatrooms by all, whose lists are merged in the order of their addresses.

use super::Switchboard;
use crate::shard_logic::outside::Outside;
use base::hash;
use model::id::ShardId;
use model::ports::chat::{ChatAnswer, ChatCommand, GroupsPage};
use model::ports::control::{Command, Reply};

impl<O: Outside + Send> Switchboard<O> {
    pub(super) fn ask_chat(&self, command: ChatCommand, reply: Reply) {
        let shard = match (&command, command.account()) {
            (_, Some(account)) => self.home_of(&account.home_parts()),
            (ChatCommand::Groups { shard, .. }, _) if *shard < self.shards() => ShardId(*shard),
            (ChatCommand::LeftQueue { queue, .. }, _) => {
                ShardId(hash::home(queue.home_hash(), self.shards()))
            }
            (ChatCommand::Groups { .. }, _) => {
                let none = GroupsPage { shards: self.shards(), ..GroupsPage::default() };
                return reply(ChatAnswer::Groups(Box::new(none)).into());
            }
            _ => return self.gather_from_all(Command::Chat(command), reply),
        };
        self.gather(vec![(shard, Command::Chat(command))], reply);
    }
}

/// Two shards' answers as one.
pub(super) fn merge(one: ChatAnswer, other: ChatAnswer) -> ChatAnswer {
    match (one, other) {
        (ChatAnswer::Chatrooms(mut one), ChatAnswer::Chatrooms(other)) => {
            // Whoever asked for so many takes the first of them.
            one.extend(other);
            one.sort_unstable_by(|one, other| one.room.cmp(&other.room));
            ChatAnswer::Chatrooms(one)
        }
        (ChatAnswer::Online(one, mut some), ChatAnswer::Online(other, others)) => {
            some.extend(others);
            some.sort_unstable();
            ChatAnswer::Online(one + other, some)
        }
        // Not all are told it.
        (ChatAnswer::Busy, ChatAnswer::Announcing) => ChatAnswer::Busy,
        (_, other) => other,
    }
}

//! The API's way to the brokers.
//!
//! A command about one client goes to its home shard, one about a topic to that topic's; messages
//! are published by the first shard, in their order; retained messages of a filter are asked of all
//! shards and merged in the order of their topics, and clients are listed shard after shard.

use super::Switchboard;
use crate::shard_logic::outside::Outside;
use model::id::ShardId;
use model::ports::control::{Answer, Command, Reply};
use model::ports::topics::{ClientState, TopicAnswer, TopicCommand};

impl<O: Outside + Send> Switchboard<O> {
    pub(super) fn ask_topics(&self, command: TopicCommand, reply: Reply) {
        let shard = match &command {
            TopicCommand::Clients { .. } => return self.clients(command, Vec::new(), reply),
            TopicCommand::Retained { filter, .. } if has_wildcard(filter) => {
                return self.retained(command, reply);
            }
            // All through one, so that they arrive in the order in which they were given.
            TopicCommand::Publish { .. } => ShardId(0),
            TopicCommand::ClearRetained(topic) | TopicCommand::Retained { filter: topic, .. } => {
                self.of_topic(topic)
            }
            TopicCommand::Client(id)
            | TopicCommand::Subscriptions(id)
            | TopicCommand::Subscribe(id, _)
            | TopicCommand::Unsubscribe(id, _)
            | TopicCommand::Kick(id)
            | TopicCommand::DropSession(id) => self.home_of(&[b"mqtt", id.as_bytes()]),
        };
        self.gather(vec![(shard, Command::Topics(command))], reply);
    }

    fn of_topic(&self, topic: &str) -> ShardId {
        self.home_of(&[b"mqtt-topic", topic.as_bytes()])
    }

    /// A page from each shard, merged: its first messages in the order of their topics.
    fn retained(&self, command: TopicCommand, reply: Reply) {
        let TopicCommand::Retained { count, .. } = &command else { return };
        let most = *count as usize;
        let commands = self.all().map(|shard| (shard, Command::Topics(command.clone())));
        let first = move |answer: Answer| match answer {
            Answer::Topics(TopicAnswer::Retained { mut messages, mut next }) => {
                if messages.len() > most {
                    messages.truncate(most);
                    next = messages.last().map(|last| last.topic().into());
                }
                reply(Answer::Topics(TopicAnswer::Retained { messages, next }));
            }
            other => reply(other),
        };
        self.gather(commands.collect(), Box::new(first));
    }

    /// A page is taken from one shard after the other, as with devices.
    fn clients(&self, command: TopicCommand, so_far: Vec<ClientState>, reply: Reply) {
        let TopicCommand::Clients { of, after, count } = command else { return };
        let (shard, inside) = Self::place(after);
        if shard >= self.shards() {
            let answer = TopicAnswer::Clients { clients: so_far, next: None };
            return reply(Answer::Topics(answer));
        }
        let again = of.clone();
        let command = TopicCommand::Clients { of, after: inside, count };
        let this = self.clone();
        let merge = move |answer: Answer| {
            let Answer::Topics(TopicAnswer::Clients { clients, next }) = answer else {
                return reply(answer);
            };
            let left = count.saturating_sub(clients.len() as u32);
            let mut all = so_far;
            all.extend(clients);
            let next = this.cursor(shard, next);
            if left == 0 || next.is_none() {
                return reply(Answer::Topics(TopicAnswer::Clients { clients: all, next }));
            }
            let rest = TopicCommand::Clients { of: again, after: next, count: left };
            this.clients(rest, all, reply);
        };
        self.gather(vec![(ShardId(shard), Command::Topics(command))], Box::new(merge));
    }
}

fn has_wildcard(filter: &str) -> bool {
    proto_mqtt::codec::name::has_wildcard(filter)
}

/// Two shards' answers as one. Where a shard has more, nothing is shown that comes behind the topic
/// where it is to go on: that is where the whole goes on.
pub(super) fn merge(one: TopicAnswer, other: TopicAnswer) -> TopicAnswer {
    match (one, other) {
        (
            TopicAnswer::Retained { mut messages, next },
            TopicAnswer::Retained { messages: others, next: also },
        ) => {
            let next = next.into_iter().chain(also).min();
            messages.extend(others);
            messages.sort_by(|a, b| a.topic().cmp(b.topic()));
            if let Some(next) = &next {
                messages.retain(|message| message.topic() <= &**next);
            }
            TopicAnswer::Retained { messages, next }
        }
        (TopicAnswer::Done(one), TopicAnswer::Done(other)) => TopicAnswer::Done(one || other),
        (wrong @ TopicAnswer::Refused(_), _) => wrong,
        (_, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::topic::Publication;
    use std::sync::Arc;

    /// A page with these topics, which goes on behind the one behind the `|`.
    fn page(page: &str) -> TopicAnswer {
        let (topics, next) = page.split_once('|').unwrap_or((page, ""));
        let message = |topic| Arc::new(Publication::new(topic, &[], &[]));
        TopicAnswer::Retained {
            messages: topics.split_whitespace().map(message).collect(),
            next: Some(next).filter(|next| !next.is_empty()).map(Box::from),
        }
    }

    #[test]
    fn no_page_goes_beyond_what_each_shard_has_told() {
        for (one, other, whole) in [
            ("a c", "b d", "a b c d"),
            ("a c|c", "b d", "a b c|c"),
            ("b d", "a c|c", "a b c|c"),
            ("a d|d", "b c|c", "a b c|c"),
            ("c d", "a b|b", "a b|b"),
            ("a b|b", "c d|d", "a b|b"),
            ("|x", "a b", "a b|x"),
            ("|a", "a b", "a|a"),
            ("", "a b|b", "a b|b"),
            ("a|x", "b|y", "a b|x"),
        ] {
            assert_eq!(merge(page(one), page(other)), page(whole), "{one:?} {other:?}");
        }
    }
}

//! Top talkers: the clients, users, topics, groups and addresses with the most traffic.

use model::ports::control::top::{TopKind, TopPage, TopTally};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Order of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TopOrder {
    /// Bytes received and sent.
    Bytes,
    /// Messages received and sent.
    Messages,
    /// Bytes that wait in the server's memory.
    Memory,
}

impl TopOrder {
    pub(crate) const ALL: [TopOrder; 3] = [TopOrder::Bytes, TopOrder::Messages, TopOrder::Memory];

    /// Its word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            TopOrder::Bytes => "bytes",
            TopOrder::Messages => "messages",
            TopOrder::Memory => "memory",
        }
    }
}

/// A name with its traffic.
#[derive(Serialize, JsonSchema)]
struct TopEntry {
    /// The client (`account/device` for a device of an account), user, topic, group or address; at
    /// most 256 bytes of it.
    name: String,
    /// Messages that the server received.
    messages_in: u64,
    /// Messages that the server sent. Null: known only for topics and groups.
    messages_out: Option<u64>,
    /// Bytes that the server received; for topics and groups, bytes of payloads.
    bytes_in: u64,
    /// Bytes that the server sent; for topics and groups, bytes of payloads.
    bytes_out: u64,
    /// Bytes that wait for it in sessions, queues and sockets. Null unless the list is by memory.
    memory_bytes: Option<u64>,
}

/// The names with the most traffic, the highest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TopList {
    /// Unix millisecond since which is counted: one to two minutes ago. Waiting bytes are those of
    /// now.
    since_ms: u64,
    /// Unix millisecond of the answer.
    at_ms: u64,
    /// The names.
    entries: Vec<TopEntry>,
}

impl TopList {
    /// The first `count` of what all shards found, by `order`.
    pub(crate) fn of(
        (kind, order): (TopKind, TopOrder),
        page: &TopPage,
        memory: Option<&BTreeMap<String, u64>>,
        (at_ms, count): (u64, u32),
    ) -> TopList {
        let is_sent_known = matches!(kind, TopKind::Topics | TopKind::Groups);
        let waiting = |name: &str| memory.map(|by| by.get(name).copied().unwrap_or(0));
        let entry = |name: &str, tally: TopTally| TopEntry {
            name: name.to_owned(),
            messages_in: tally.messages_in,
            messages_out: is_sent_known.then_some(tally.messages_out),
            bytes_in: tally.bytes_in,
            bytes_out: tally.bytes_out,
            memory_bytes: waiting(name),
        };
        let mut entries: Vec<_> =
            page.entries.iter().map(|(name, tally)| entry(name, *tally)).collect();
        let only_waits = memory.into_iter().flat_map(|by| by.keys());
        let only_waits = only_waits.filter(|name| !page.entries.contains_key(name.as_str()));
        entries.extend(only_waits.map(|name| entry(name, TopTally::default())));
        let rank = |it: &TopEntry| match order {
            TopOrder::Bytes => it.bytes_in + it.bytes_out,
            TopOrder::Messages => it.messages_in + it.messages_out.unwrap_or(0),
            TopOrder::Memory => it.memory_bytes.unwrap_or(0),
        };
        entries.retain(|it| rank(it) > 0);
        entries.sort_by_key(|it| Reverse(rank(it)));
        entries.truncate(count as usize);
        TopList { since_ms: page.since_ms.min(at_ms), at_ms, entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_ranked_and_has_also_who_only_waits() {
        let of = |messages_in, bytes_in| TopTally { messages_in, bytes_in, ..TopTally::default() };
        let entries = [("a".into(), of(9, 10)), ("b".into(), of(1, 99)), ("c".into(), of(0, 1))];
        let page = TopPage { since_ms: 5, entries: entries.into() };
        let names = |order, memory: Option<&BTreeMap<String, u64>>, count| {
            let list = TopList::of((TopKind::Clients, order), &page, memory, (9, count));
            list.entries.into_iter().map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(names(TopOrder::Bytes, None, 2), ["b", "a"]);
        assert_eq!(names(TopOrder::Messages, None, 9), ["a", "b"]);
        let memory = [("a".to_owned(), 3), ("d".to_owned(), 7)].into();
        assert_eq!(names(TopOrder::Memory, Some(&memory), 9), ["d", "a"]);
    }
}

//! Last items for sessions that come online: of their own account, and of accounts that it sees.
//!
//! A session that comes online asks the homes of its contacts, a slice at a time, at the rate of
//! presence. A shard's requests wait in one queue: a limited number of accounts is handled at once,
//! and requests beyond the queue's limit are dropped. Invariant: a crowd of logins costs a bounded
//! number of reads at a time, and bounded memory.

use super::access::Standing;
use super::items::{Part, Whose};
use super::profiles::Interests;
use super::told::NodesTold;
use super::{NodesOf, Task};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::slab::Key;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ItemsChosen, ItemsWanted, NodeEvent, NodeSpace, NodesFault, SendLast};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::timeline::TimelineId;
use std::collections::VecDeque;

/// Accounts that are handled at once.
const AT_ONCE_MAX: usize = 64;

/// A request for the last items of accounts of a shard.
#[derive(Clone, Debug, Encoding)]
pub struct LastAsked {
    /// Number for the receipt.
    pub(crate) number: u64,
    pub(crate) from: AccountAddress,
    pub(crate) by: TimelineId,
    /// The accounts whose items are requested.
    pub(crate) of: Box<[(AccountAddress, TimelineId)]>,
    pub(crate) interests: Interests,
    /// The session that gets the items; none: all interested sessions.
    pub(crate) only: Option<Key>,
}

/// A request for the last items of one account.
pub(super) struct LastWanted {
    pub from: AccountAddress,
    pub by: TimelineId,
    pub of: AccountAddress,
    pub inbox: TimelineId,
    pub interests: Interests,
    pub only: Option<Key>,
}

/// The queue of requests for last items.
#[derive(Default)]
pub(super) struct Lasts {
    line: VecDeque<LastWanted>,
    /// Number of requests that are being handled.
    open: usize,
}

impl LastAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let of = self.of.iter().map(|(address, _)| 48 + address.as_str().len());
        size_of::<LastAsked>() + of.sum::<usize>()
    }
}

impl NodesOf {
    /// Whether the account has nodes whose last item is sent to a session that comes online.
    pub(super) fn has_last(&self, wanted: &LastWanted) -> bool {
        self.last_nodes(&wanted.interests).next().is_some()
    }

    fn last_nodes<'a>(&'a self, interests: &'a Interests) -> impl Iterator<Item = &'a Box<str>> {
        interests.iter().filter(|node| {
            let node = self.node(&(NodeSpace::Published, (*node).clone()));
            let is_sent = |node: &super::node::Node| node.config.send_last == SendLast::Present;
            node.is_some_and(|node| is_sent(node) && !node.items.is_empty())
        })
    }
}

impl Chat {
    /// Queues a home's requests for last items of accounts of this shard.
    pub(crate) fn last_asked(&mut self, from: ShardId, asked: LastAsked, fx: &mut Effects) {
        let LastAsked { number, from: who, by, of, interests, only } = asked;
        for (of, inbox) in of {
            let (from, interests) = (who.clone(), interests.clone());
            self.want_last(LastWanted { from, by, of, inbox, interests, only }, fx);
        }
        self.heard(from, number, fx);
    }

    /// Requests the last items of the session's own account, for a session that comes online.
    pub(crate) fn want_own_last(
        &mut self,
        (inbox, address): (TimelineId, &AccountAddress),
        (interests, only): (Interests, Option<Key>),
        fx: &mut Effects,
    ) {
        let (from, of, by) = (address.clone(), address.clone(), inbox);
        self.want_last(LastWanted { from, by, of, inbox, interests, only }, fx);
    }

    fn want_last(&mut self, wanted: LastWanted, fx: &mut Effects) {
        let most = self.settings.limits.chat.last_items_wanted_max as usize;
        if self.nodes.lasts.line.len() >= most {
            return fx.counters.count(ChatCounter::NodeNewsLost);
        }
        self.nodes.lasts.line.push_back(wanted);
    }

    /// Handles queued requests, up to the limit; returns when to be called again.
    pub(super) fn turn_lasts(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for _ in 0..AT_ONCE_MAX {
            if self.nodes.lasts.open >= AT_ONCE_MAX || !self.log.may_ask() {
                return None; // the end of any request lets the next one in
            }
            let wanted = self.nodes.lasts.line.pop_front()?;
            self.nodes.lasts.open += 1;
            let (inbox, of) = (wanted.inbox, wanted.of.clone());
            self.for_nodes(now, (inbox, &of), Task::Last(Box::new(wanted)), fx);
        }
        (!self.nodes.lasts.line.is_empty()).then_some(now.mono)
    }

    /// Counts a request as done.
    pub(super) fn last_over(&mut self) {
        self.nodes.lasts.open = self.nodes.lasts.open.saturating_sub(1);
    }

    /// Reads the last items that the requester may read.
    pub(super) fn read_last_items(
        &mut self,
        now: Now,
        inbox: TimelineId,
        wanted: LastWanted,
        standing: &Standing,
        fx: &mut Effects,
    ) {
        let Some(of) = self.nodes.of(inbox) else { return self.last_over() };
        let last = |node: &str| ItemsWanted {
            space: NodeSpace::Published,
            node: node.into(),
            which: ItemsChosen::Last(1),
        };
        let nodes: Vec<ItemsWanted> =
            of.last_nodes(&wanted.interests).map(|node| last(node)).collect();
        if nodes.is_empty() {
            return self.last_over();
        }
        let whose = Whose::Last(Box::new(wanted));
        self.read_items(now, inbox, (&nodes, whose), standing, fx);
    }

    /// Sends last items that have been read.
    pub(super) fn tell_last(
        &mut self,
        inbox: TimelineId,
        wanted: LastWanted,
        parts: Vec<Result<Part, NodesFault>>,
        fx: &mut Effects,
    ) {
        self.last_over();
        let Some(of) = self.nodes.of(inbox) else { return };
        let told = parts.into_iter().flatten().filter_map(|part| {
            let item = part.items.into_iter().flatten().next()?;
            let is_whole = of.node(&part.name)?.config.tells_payloads;
            let event = match is_whole {
                true => NodeEvent::Published(item),
                false => NodeEvent::Named(item.id.clone()),
            };
            Some((part.name.1, [event].into(), [wanted.by].into()))
        });
        let parts: Box<[_]> = told.collect();
        if parts.is_empty() {
            return;
        }
        let LastWanted { of: from, only, by, .. } = wanted;
        let told = NodesTold { number: None, from, by: inbox, parts, only, is_subscribed: false };
        let home = self.settings.shard_at(by);
        if home == self.settings.shard {
            return self.nodes_told(home, &told, fx);
        }
        fx.counters.count(ChatCounter::NodeWords);
        fx.peer_messages.push((home, ChatWord::NodesTold(Box::new(told))));
    }
}

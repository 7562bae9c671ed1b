//! Notifications of a changed node: their receivers, and their ways.
//!
//! ```text
//! change ─► sessions of the account: at once, all of it
//!        ─► the account's ties ─► subscribers that may still read it: a word a shard, at once
//!        ─► contacts: unsent changes of a node ─► a walk ─► a word a shard and slice
//! ```
//! While an account's walk is under way, or has to wait, changes are merged: of an item only the
//! newest state is kept. So the work depends on contacts and time, not on the number of changes.

use super::access::{Readers, Standing};
use super::node::Node;
use super::profiles::Interests;
use super::told::NodesTold;
use crate::people::{Task, Tie};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{NodeAccess, NodeEvent};
use model::counters::ChatCounter;
use model::timeline::TimelineId;
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes of nodes that contacts have not been sent, by node.
#[derive(Default)]
pub(crate) struct Untold {
    nodes: VecDeque<UntoldNode>,
}

/// Changes of one node for contacts, and its audience.
pub(crate) struct UntoldNode {
    pub node: Box<str>,
    audience: Audience,
    pub events: Vec<NodeEvent>,
}

/// The audience of a node.
#[derive(Clone)]
pub(crate) struct Audience {
    access: NodeAccess,
    groups: Box<[Box<str>]>,
    members: Box<[AccountAddress]>,
    /// Subscribers, who are notified at once.
    subscribers: Box<[(AccountAddress, TimelineId)]>,
    /// Only the newest item counts.
    is_single: bool,
}

impl Audience {
    pub(super) fn of(node: &Node) -> Audience {
        Audience {
            access: node.config.access,
            groups: node.config.groups.clone(),
            members: node.members.clone().into(),
            subscribers: node.subscribers.clone().into(),
            is_single: node.config.items_max == 1,
        }
    }

    fn readers(&self) -> Readers<'_> {
        Readers { access: self.access, groups: &self.groups, members: &self.members }
    }

    /// Whether a contact that sees the account is notified by the walk.
    pub(crate) fn has(&self, tie: &Tie) -> bool {
        let contact = &tie.contact;
        self.readers().have(&contact.address, true, &contact.groups).is_ok()
            && !self.subscribers.iter().any(|(address, _)| *address == contact.address)
    }

    /// Whether a subscriber may still read the node, by the account's tie with it.
    fn may_know(&self, (address, inbox): &(AccountAddress, TimelineId), tie: Option<&Tie>) -> bool {
        Standing::of(address, *inbox, tie).may_read(self.readers()).is_ok()
    }
}

impl UntoldNode {
    pub(crate) fn has(&self, tie: &Tie) -> bool {
        self.audience.has(tie)
    }

    /// Subscribers that may still read the node, by the account's tie with each.
    pub(crate) fn subscribers<'a>(
        &'a self,
        tie: impl Fn(&AccountAddress) -> Option<&'a Tie> + 'a,
    ) -> impl Iterator<Item = TimelineId> + 'a {
        let all = self.audience.subscribers.iter();
        let may = move |it: &&(AccountAddress, TimelineId)| self.audience.may_know(it, tie(&it.0));
        all.filter(may).map(|(_, inbox)| *inbox)
    }
}

impl Untold {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn take(&mut self) -> Vec<UntoldNode> {
        std::mem::take(&mut self.nodes).into()
    }

    fn len(&self) -> usize {
        self.nodes.iter().map(|node| node.events.len()).sum()
    }

    /// Adds changes of a node. Returns how many older ones were dropped for lack of room.
    pub(crate) fn put(&mut self, news: UntoldNode, most: usize) -> u64 {
        match self.nodes.iter_mut().find(|it| it.node == news.node) {
            Some(untold) => {
                untold.audience = news.audience;
                news.events.into_iter().for_each(|event| untold.adds(event));
            }
            None => {
                let mut untold = UntoldNode { events: Vec::new(), ..news };
                news.events.into_iter().for_each(|event| untold.adds(event));
                self.nodes.push_back(untold);
            }
        }
        let mut lost = 0;
        while self.len() > most
            && let Some(first) = self.nodes.front_mut()
        {
            first.events.remove(0);
            lost += 1;
            if first.events.is_empty() {
                self.nodes.pop_front();
            }
        }
        lost
    }
}

impl UntoldNode {
    fn adds(&mut self, event: NodeEvent) {
        let is_news =
            |event: &NodeEvent| matches!(event, NodeEvent::Published(_) | NodeEvent::Named(_));
        match item_of(&event) {
            None => self.events.clear(),
            Some(id) => {
                let is_over = |other: &NodeEvent| {
                    item_of(other) == Some(id)
                        || self.audience.is_single && is_news(&event) && is_news(other)
                };
                let left = self.events.iter().filter(|other| !is_over(other)).cloned();
                self.events = left.collect();
            }
        }
        self.events.push(event);
    }
}

/// The item that an event is about.
fn item_of(event: &NodeEvent) -> Option<&str> {
    match event {
        NodeEvent::Published(item) => Some(&item.id),
        NodeEvent::Named(id) | NodeEvent::Retracted(id) => Some(id),
        NodeEvent::Purged | NodeEvent::Deleted => None,
    }
}

impl Chat {
    /// Notifies subscribers, contacts and own sessions of a change of a node.
    pub(super) fn tell_node(
        &mut self,
        now: Now,
        (inbox, address): (TimelineId, &AccountAddress),
        (name, audience): (&str, Audience),
        events: Vec<NodeEvent>,
        fx: &mut Effects,
    ) {
        let is_subscribed = audience.subscribers.iter().any(|(other, _)| other == address);
        let parts = [(name.into(), events.clone().into(), [inbox].into())].into();
        let (from, by) = (address.clone(), inbox);
        let told = NodesTold { number: None, from, by, parts, only: None, is_subscribed };
        self.nodes_told(self.settings.shard, &told, fx);
        if audience.access == NodeAccess::Members && audience.members.is_empty() {
            return; // the node is private
        }
        let news = Box::new(UntoldNode { node: name.into(), audience, events });
        self.for_person(now, (inbox, address), Task::NodeNews(news), fx);
    }

    /// Notifies the subscribers of a node, contacts or not.
    pub(crate) fn tell_subscribers(
        &mut self,
        (inbox, address): (TimelineId, &AccountAddress),
        news: &UntoldNode,
        to: Vec<TimelineId>,
        fx: &mut Effects,
    ) {
        let others = to.into_iter().filter(|subscriber| *subscriber != inbox);
        let events: Arc<[NodeEvent]> = news.events.clone().into();
        for (shard, to) in self.settings.by_shard(others) {
            fx.counters.count(ChatCounter::NodeWords);
            let parts = [(news.node.clone(), events.clone(), to.into())].into();
            let (from, by, is_subscribed) = (address.clone(), inbox, true);
            let told = NodesTold { number: None, from, by, parts, only: None, is_subscribed };
            match shard == self.settings.shard {
                true => self.nodes_told(shard, &told, fx),
                false => fx.peer_messages.push((shard, ChatWord::NodesTold(Box::new(told)))),
            }
        }
    }

    /// The interests of an account's available sessions, all together.
    pub(crate) fn interests_of(&self, inbox: TimelineId) -> Interests {
        let here = self.people.present(inbox);
        let mut all: Vec<Box<str>> = here
            .filter_map(|(key, _)| self.nodes.profiles.of(key))
            .flat_map(|interests| interests.iter().cloned())
            .collect();
        all.sort_unstable();
        all.dedup();
        all.truncate(model::chat::INTERESTS_MAX);
        all.into()
    }

    /// The interests of a session, if they are known.
    pub(crate) fn interests_at(&self, session: base::slab::Key) -> Option<Interests> {
        self.nodes.profiles.of(session).cloned()
    }
}

//! Notifications of changed nodes from the account's home, and their delivery to sessions.
//!
//! Invariant: a session gets changes of nodes of accounts that its own may see, and only those it
//! is interested in.

use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::slab::Key;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, NodeEvent, NodeNews};
use model::counters::ChatCounter;
use model::id::{ConnRef, ShardId};
use model::timeline::TimelineId;
use std::sync::Arc;

/// Events of one node, and the inboxes of the accounts to notify.
pub(super) type ToldPart = (Box<str>, Arc<[NodeEvent]>, Box<[TimelineId]>);

/// Changes of an account's nodes, for accounts of a shard.
#[derive(Clone, Debug, Encoding)]
pub struct NodesTold {
    /// Number for the receipt, if one is wanted.
    pub(crate) number: Option<u64>,
    pub(crate) from: AccountAddress,
    pub(crate) by: TimelineId,
    pub(crate) parts: Box<[ToldPart]>,
    /// The session that gets the events; none: all interested sessions.
    pub(crate) only: Option<Key>,
    /// The receivers are subscribers, who are notified whether or not they see the account.
    pub(crate) is_subscribed: bool,
}

impl NodesTold {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let part = |(node, events, to): &ToldPart| {
            let events: usize = events.iter().map(NodeEvent::weight).sum();
            64 + node.len() + events + size_of_val(&**to)
        };
        size_of::<NodesTold>() + self.parts.iter().map(part).sum::<usize>()
    }
}

impl Chat {
    /// Delivers a home's notification of changed nodes.
    pub(crate) fn nodes_told(&mut self, from: ShardId, told: &NodesTold, fx: &mut Effects) {
        for (node, events, to) in &told.parts {
            for &inbox in to {
                self.show_node(inbox, told, (node, events), fx);
            }
        }
        if let Some(number) = told.number {
            self.heard(from, number, fx);
        }
    }

    /// Sends sessions of an account the events of a node.
    fn show_node(
        &mut self,
        inbox: TimelineId,
        told: &NodesTold,
        (node, events): (&str, &Arc<[NodeEvent]>),
        fx: &mut Effects,
    ) {
        let is_own = told.by == inbox;
        let tie = self.people.tie(inbox, &told.from);
        let may = match told.is_subscribed {
            true => !self.people.blocks(inbox, &told.from),
            false => tie.is_some_and(|tie| tie.sees() && tie.peer == Some(told.by)),
        };
        if !is_own && !may {
            return;
        }
        let here: Vec<(Key, ConnRef)> = self.people.present(inbox).collect();
        for (key, conn) in here {
            let is_meant = told.only.is_none_or(|only| only == key);
            if is_meant && (told.is_subscribed || self.nodes.is_interested(key, node)) {
                fx.counters.count(ChatCounter::NodeNews);
                let (from, node, events) = (told.from.clone(), node.into(), events.clone());
                let news = Box::new(NodeNews { from, node, events });
                fx.deliveries.push((conn, ChatDelivery::NodeNews(news)));
            }
        }
    }
}

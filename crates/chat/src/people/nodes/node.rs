//! A node: its configuration, the list of its items, and its changes, as pure functions.
//!
//! Items have rows of their own, by rising numbers; the node lists the valid numbers. Numbers of
//! items that were replaced or retracted are remembered as **litter** until their rows are deleted.
//! A number is taken when the node's row is stored, so an item row from just before a crash is
//! overwritten by the next item. Invariant: no valid number is litter, and no number is used twice
//! while its row may exist.

use super::access::Readers;
use model::account::AccountAddress;
use model::chat::{
    CONTACT_GROUP_BYTES_MAX, NODE_GROUPS_MAX, NodeChange, NodeConfig, NodeEvent, NodeItem,
    NodeOptions, NodesFault,
};
use model::limits::ChatLimits;
use model::timeline::TimelineId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A node of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub config: NodeConfig,
    /// In the order of publication.
    pub items: Vec<Kept>,
    /// Accounts that are notified without being contacts, sorted by address.
    pub subscribers: Vec<(AccountAddress, TimelineId)>,
    pub members: Vec<AccountAddress>,
    /// The account's badge, if this node sets it.
    pub badge: Option<Box<str>>,
    /// The number of the next item.
    pub next: u64,
    /// Numbers of items whose rows are still to be deleted.
    pub litter: Vec<u64>,
    /// The node was deleted: its row is deleted when no litter is left.
    pub is_gone: bool,
}

/// An item that a node has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub id: Box<str>,
    pub number: u64,
    pub bytes: u32,
}

/// The outcome of a change.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The new state of the node.
    pub node: Node,
    /// Items whose rows are written before the node's.
    pub puts: Vec<(u64, Arc<NodeItem>)>,
    /// Events for subscribers.
    pub events: Vec<NodeEvent>,
    /// Ids of the published items.
    pub ids: Box<[Box<str>]>,
}

impl Node {
    pub(crate) fn new(config: NodeConfig) -> Node {
        Node {
            config,
            items: Vec::new(),
            subscribers: Vec::new(),
            members: Vec::new(),
            badge: None,
            next: 0,
            litter: Vec::new(),
            is_gone: false,
        }
    }

    /// Size of the node's items, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.bytes)).sum()
    }

    /// Cost in memory, in nodes and items.
    pub(crate) fn weight(&self) -> usize {
        1 + self.items.len() + self.subscribers.len() + self.members.len() + self.litter.len()
    }

    /// The readers of the node.
    pub(super) fn readers(&self) -> Readers<'_> {
        let NodeConfig { access, groups, .. } = &self.config;
        Readers { access: *access, groups, members: &self.members }
    }

    fn at(&self, id: &str) -> Option<usize> {
        self.items.iter().position(|item| *item.id == *id)
    }

    fn drops(&mut self, at: usize) {
        let item = self.items.remove(at);
        self.litter.push(item.number);
    }

    /// Removes the oldest items beyond the limit.
    fn shortens(&mut self, limits: &ChatLimits) {
        let most = self.config.items_max.min(limits.node_items_max) as usize;
        while self.items.len() > most {
            self.drops(0);
        }
    }

    /// A new node, in place of none or of a deleted one.
    pub(crate) fn made(
        before: Option<&Node>,
        options: Option<&NodeOptions>,
    ) -> Result<Node, NodesFault> {
        let config = NodeConfig::default();
        let config = options.map_or_else(|| config.clone(), |options| options.over(&config));
        may_be(&config)?;
        let mut node = Node::new(config);
        if let Some(before) = before {
            (node.next, node.litter) = (before.next, before.litter.clone());
        }
        Ok(node)
    }

    /// The node with another configuration.
    pub(crate) fn configured(
        &self,
        options: &NodeOptions,
        limits: &ChatLimits,
    ) -> Result<Outcome, NodesFault> {
        let config = options.over(&self.config);
        may_be(&config)?;
        let mut node = Node { config, ..self.clone() };
        node.shortens(limits);
        if !node.config.persists {
            node.empties();
        }
        Ok(Outcome::of(node, Vec::new()))
    }

    /// The node without its items.
    pub(crate) fn purged(&self) -> Outcome {
        let mut node = Node { badge: None, ..self.clone() };
        node.empties();
        let tells = node.config.tells_deletes;
        Outcome::of(node, tells.then_some(NodeEvent::Purged).into_iter().collect())
    }

    /// The deleted node, which is kept until its items' rows are deleted.
    pub(crate) fn deleted(&self) -> Outcome {
        let mut node = Node { is_gone: true, badge: None, ..self.clone() };
        node.empties();
        (node.subscribers, node.members) = Default::default();
        let tells = node.config.tells_deletes;
        Outcome::of(node, tells.then_some(NodeEvent::Deleted).into_iter().collect())
    }

    fn empties(&mut self) {
        self.litter.extend(self.items.iter().map(|item| item.number));
        self.items.clear();
    }

    /// The node with changed items. `has`: bytes of the account's other items.
    pub(crate) fn changed(
        &self,
        change: &NodeChange,
        limits: &ChatLimits,
        has: u64,
    ) -> Result<Outcome, NodesFault> {
        let mut node = self.clone();
        let (mut puts, mut events) = (Vec::new(), Vec::new());
        for id in &change.retract {
            match node.at(id) {
                Some(at) => {
                    node.drops(at);
                    if change.tells || node.config.tells_retracts {
                        events.push(NodeEvent::Retracted(id.clone()));
                    }
                }
                None if change.must_be_there => return Err(NodesFault::UnknownItem),
                None => {}
            }
        }
        let ids: BTreeSet<&str> = change.publish.iter().map(|item| &*item.id).collect();
        if ids.len() != change.publish.len() {
            return Err(NodesFault::Invalid);
        }
        for item in &change.publish {
            let bytes = (item.payload.len() + item.id.len()) as u32;
            if bytes > limits.node_item_bytes_max {
                return Err(NodesFault::TooLarge);
            }
            let item = Arc::new(item.clone());
            events.push(match node.config.tells_payloads {
                true => NodeEvent::Published(item.clone()),
                false => NodeEvent::Named(item.id.clone()),
            });
            if !node.config.persists {
                continue;
            }
            if let Some(at) = node.at(&item.id) {
                node.drops(at);
            }
            let number = node.next;
            node.next += 1;
            node.items.push(Kept { id: item.id.clone(), number, bytes });
            puts.push((number, item));
        }
        node.shortens(limits);
        // An item that the same change pushes out is not written and leaves no litter.
        puts.retain(|(number, _)| node.items.iter().any(|item| item.number == *number));
        if has + node.bytes() > u64::from(limits.node_bytes_an_account_max) {
            return Err(NodesFault::BytesFull);
        }
        if node.items.is_empty() && node.config.persists {
            node.badge = None;
        }
        if let Some(badge) = &change.badge {
            node.badge = Some(badge.clone()).filter(|badge| !badge.is_empty());
        }
        let ids = change.publish.iter().map(|item| item.id.clone()).collect();
        Ok(Outcome { puts, ids, ..Outcome::of(node, events) })
    }

    /// Whether a node meets the configuration that a publisher requires.
    pub(crate) fn meets(&self, options: &NodeOptions, limits: &ChatLimits) -> bool {
        let wanted = options.over(&self.config);
        let most = |config: &NodeConfig| config.items_max.min(limits.node_items_max);
        let is_many = most(&wanted) == most(&self.config);
        is_many && NodeConfig { items_max: self.config.items_max, ..wanted } == self.config
    }
}

impl Outcome {
    pub(crate) fn of(node: Node, events: Vec<NodeEvent>) -> Outcome {
        Outcome { node, puts: Vec::new(), events, ids: Box::default() }
    }
}

/// Whether a configuration is valid.
fn may_be(config: &NodeConfig) -> Result<(), NodesFault> {
    let is_too_many = config.groups.len() > NODE_GROUPS_MAX;
    let is_long = config.groups.iter().any(|group| group.len() > CONTACT_GROUP_BYTES_MAX);
    if config.items_max == 0 || is_too_many || is_long {
        return Err(NodesFault::NotSupported);
    }
    Ok(())
}

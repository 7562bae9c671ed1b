//! A node: its configuration, which items it has, and how it becomes another one.
//!
//! Pure. Items themselves are rows of their own, by numbers that rise; here is which numbers count.
//! Numbers of items that were replaced or went are remembered as **litter** until their rows are
//! gone. A number is taken when the node's row says so, so a row that was written for an item and
//! then died with its server is written over by the next item. Invariant: no number that counts is
//! litter, and none is given twice while a row of it may be there.

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
    /// In the order in which they were published.
    pub items: Vec<Kept>,
    /// Who is told of it without being a contact, by address.
    pub subscribers: Vec<(AccountAddress, TimelineId)>,
    pub members: Vec<AccountAddress>,
    /// What the account shows of itself, if this node says that.
    pub badge: Option<Box<str>>,
    /// The number of the next item.
    pub next: u64,
    /// Numbers whose rows are still to go.
    pub litter: Vec<u64>,
    /// It was deleted: the row goes when there is no litter.
    pub is_gone: bool,
}

/// An item that a node has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub id: Box<str>,
    pub number: u64,
    pub bytes: u32,
}

/// What a change comes to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The node as it is to be.
    pub node: Node,
    /// Items whose rows are written before.
    pub puts: Vec<(u64, Arc<NodeItem>)>,
    /// What is told.
    pub events: Vec<NodeEvent>,
    /// Ids of what was published.
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

    /// Bytes of its items.
    pub(crate) fn bytes(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.bytes)).sum()
    }

    /// What it costs in memory, in nodes and items.
    pub(crate) fn weight(&self) -> usize {
        1 + self.items.len() + self.subscribers.len() + self.members.len() + self.litter.len()
    }

    /// Who may read it.
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

    /// Items beyond those that may be there go, the oldest first.
    fn shortens(&mut self, limits: &ChatLimits) {
        let most = self.config.items_max.min(limits.node_items_max) as usize;
        while self.items.len() > most {
            self.drops(0);
        }
    }

    /// The node that is made where there was none, or one that is gone.
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

    /// The node without items.
    pub(crate) fn purged(&self) -> Outcome {
        let mut node = Node { badge: None, ..self.clone() };
        node.empties();
        let tells = node.config.tells_deletes;
        Outcome::of(node, tells.then_some(NodeEvent::Purged).into_iter().collect())
    }

    /// What is left of it until its items are gone.
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

    /// The node with other items. `has`: bytes of the account's other items.
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
        // What was pushed out at once is not written, and nothing is left of it.
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

    /// Why a node does not do for whoever wants it so.
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

/// Whether a node can be so.
fn may_be(config: &NodeConfig) -> Result<(), NodesFault> {
    let is_too_many = config.groups.len() > NODE_GROUPS_MAX;
    let is_long = config.groups.iter().any(|group| group.len() > CONTACT_GROUP_BYTES_MAX);
    if config.items_max == 0 || is_too_many || is_long {
        return Err(NodesFault::NotSupported);
    }
    Ok(())
}

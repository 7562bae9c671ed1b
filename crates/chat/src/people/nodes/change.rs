//! Changes of nodes: first the rows of new items are written, then the node's row, which makes them
//! valid.
//!
//! A crash in between leaves item rows that no node names, under numbers that are used again.
//! Invariant: a request's change of one node is stored whole or not at all.

use super::asks::Reply;
use super::node::{Node, Outcome};
use super::notify::Audience;
use super::{NodeName, Step, nodes_fault, row};
use crate::log::{Answered, PendingCall};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::*;
use model::counters::ChatCounter;
use model::ports::log::{Call, Table, Write};
use model::timeline::TimelineId;
use std::collections::VecDeque;

/// A change that is being written.
pub(super) struct Writing {
    name: NodeName,
    outcome: Outcome,
    /// The fault of a write that was refused.
    fault: Option<NodesFault>,
    /// Changes that follow this one.
    rest: VecDeque<NodeChange>,
    pub(super) reply: Reply,
}

impl Chat {
    /// Changes items of nodes, one node after the other.
    pub(super) fn change_items(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (mut changes, reply): (VecDeque<NodeChange>, Reply),
        fx: &mut Effects,
    ) {
        let Some(change) = changes.pop_front() else {
            return self.reply_nodes(reply, Err(NodesFault::Invalid), fx);
        };
        match self.plan(inbox, &change) {
            Ok(Some(outcome)) => {
                let name = (change.space, change.node);
                self.write_change(now, inbox, (name, outcome), (changes, reply), fx);
            }
            Ok(None) if changes.is_empty() => {
                self.reply_nodes(reply, Ok(NodesFound::Done(Box::default())), fx);
            }
            Ok(None) => self.change_items(now, inbox, (changes, reply), fx),
            Err(fault) => self.reply_nodes(reply, Err(fault), fx),
        }
    }

    /// The outcome of a change of items; none: nothing changes.
    fn plan(&self, inbox: TimelineId, change: &NodeChange) -> Result<Option<Outcome>, NodesFault> {
        let limits = &self.settings.limits.chat;
        let name = (change.space, change.node.clone());
        let of = self.nodes.of(inbox).ok_or(NodesFault::Busy)?;
        is_named(&change.node)?;
        let count = change.publish.len() + change.retract.len();
        let is_long = |item: &NodeItem| item.id.len() > ITEM_ID_BYTES_MAX || item.id.is_empty();
        let badge = change.badge.as_ref().map_or(0, |badge| badge.len());
        if count > NODE_CHANGE_MAX || change.publish.iter().any(is_long) || badge > BADGE_BYTES_MAX
        {
            return Err(NodesFault::TooLarge);
        }
        let made;
        let node = match of.node(&name) {
            Some(node) => {
                let options = change.options.as_deref();
                if options.is_some_and(|options| !node.meets(options, limits)) {
                    return Err(NodesFault::OtherConfig);
                }
                node
            }
            None if change.publish.is_empty() && change.must_be_there => {
                return Err(NodesFault::UnknownNode);
            }
            None if change.publish.is_empty() => return Ok(None),
            None => {
                self.has_room(inbox)?;
                made = Node::made(of.nodes.get(&name), change.options.as_deref())?;
                &made
            }
        };
        let others = of.nodes.iter().filter(|(other, _)| **other != name);
        let has = others.map(|(_, node)| node.bytes()).sum();
        node.changed(change, limits, has).map(Some)
    }

    /// Whether the account may have another node.
    fn has_room(&self, inbox: TimelineId) -> Result<(), NodesFault> {
        let most = self.settings.limits.chat.nodes_an_account_max as usize;
        let of = self.nodes.of(inbox).ok_or(NodesFault::Busy)?;
        // Deleted nodes that have rows left count: else an account could have any number of them.
        (of.nodes.len() < most).then_some(()).ok_or(NodesFault::NodesFull)
    }

    /// Creates, configures, purges or deletes a node.
    pub(super) fn change_node(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (ask, reply): (NodesAsk, Reply),
        fx: &mut Effects,
    ) {
        let result = self.plan_node(inbox, ask);
        match result {
            Ok((name, outcome)) => {
                let rest = (VecDeque::new(), reply);
                self.write_change(now, inbox, ((NodeSpace::Published, name), outcome), rest, fx);
            }
            Err(fault) => self.reply_nodes(reply, Err(fault), fx),
        }
    }

    fn plan_node(
        &self,
        inbox: TimelineId,
        ask: NodesAsk,
    ) -> Result<(Box<str>, Outcome), NodesFault> {
        let limits = &self.settings.limits.chat;
        let of = self.nodes.of(inbox).ok_or(NodesFault::Busy)?;
        let find = |node: &str| {
            let name = (NodeSpace::Published, node.into());
            of.node(&name).ok_or(NodesFault::UnknownNode)
        };
        Ok(match ask {
            NodesAsk::Create(node, options) => {
                is_named(&node)?;
                let name = (NodeSpace::Published, node);
                if of.node(&name).is_some() {
                    return Err(NodesFault::Exists);
                }
                self.has_room(inbox)?;
                let made = Node::made(of.nodes.get(&name), Some(&options))?;
                (name.1, Outcome::of(made, Vec::new()))
            }
            NodesAsk::Configure(node, options) => {
                let outcome = find(&node)?.configured(&options, limits)?;
                (node, outcome)
            }
            NodesAsk::Delete(node) => {
                let outcome = find(&node)?.deleted();
                (node, outcome)
            }
            NodesAsk::Purge(node) => {
                let outcome = find(&node)?.purged();
                (node, outcome)
            }
            NodesAsk::Members(node, changes) => {
                let mut after = find(&node)?.clone();
                for (address, is_member) in &changes {
                    match (after.members.binary_search(address), is_member) {
                        (Err(at), true) => after.members.insert(at, address.clone()),
                        (Ok(at), false) => _ = after.members.remove(at),
                        _ => {}
                    }
                }
                if after.members.len() > limits.node_subscribers_max as usize {
                    return Err(NodesFault::SubscribersFull);
                }
                (node, Outcome::of(after, Vec::new()))
            }
            _ => return Err(NodesFault::Invalid),
        })
    }

    /// Subscribes an account to a node, contact or not, or unsubscribes it.
    pub(super) fn change_subscriber(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (node, who, reply): (Box<str>, (AccountAddress, TimelineId, bool), Reply),
        fx: &mut Effects,
    ) {
        let most = self.settings.limits.chat.node_subscribers_max as usize;
        let (address, by, subscribes) = who;
        let name = (NodeSpace::Published, node);
        let found = self.nodes.of(inbox).and_then(|of| of.node(&name));
        let Some(mut after) = found.cloned() else {
            return self.reply_nodes(reply, Err(NodesFault::UnknownNode), fx);
        };
        // An address that belongs to another account now loses its old subscription.
        after.subscribers.retain(|(other, inbox)| *other != address || *inbox == by);
        let at = after.subscribers.binary_search_by(|(other, _)| other.cmp(&address));
        let fault = match (at, subscribes) {
            (Err(_), false) => Some(NodesFault::NoSubscription),
            (Err(_), true) if after.subscribers.len() >= most => Some(NodesFault::SubscribersFull),
            _ => None,
        };
        if let Some(fault) = fault {
            return self.reply_nodes(reply, Err(fault), fx);
        }
        match (at, subscribes) {
            (Err(at), _) => after.subscribers.insert(at, (address, by)),
            (Ok(at), false) => _ = after.subscribers.remove(at),
            (Ok(_), true) => {}
        }
        let rest = (VecDeque::new(), reply);
        self.write_change(now, inbox, (name, Outcome::of(after, Vec::new())), rest, fx);
    }

    /// Writes a change.
    fn write_change(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (name, outcome): (NodeName, Outcome),
        (rest, reply): (VecDeque<NodeChange>, Reply),
        fx: &mut Effects,
    ) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        let writing = Box::new(Writing { name, outcome, fault: None, rest, reply });
        if of.nodes.get(&writing.name) == Some(&writing.outcome.node) {
            return self.node_written(now, inbox, *writing, fx);
        }
        let puts = writing.outcome.puts.iter().map(|(number, item)| {
            let key = row::item_key(inbox, &writing.name, *number);
            Write::Put { table: Table::ChatItems, key, value: row::encode_item(item) }
        });
        let puts: Vec<Write> = puts.collect();
        if puts.is_empty() {
            return self.settle_node(inbox, writing, fx);
        }
        of.step = Step::Writing(writing, puts.len());
        for put in puts {
            self.log.ask(PendingCall::Nodes(inbox), Call::Write(put), fx);
        }
    }

    /// Handles the result of writing an item's row.
    pub(super) fn item_written(
        &mut self,
        inbox: TimelineId,
        (mut writing, left): (Box<Writing>, usize),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        writing.fault = writing.fault.or(result.err().map(nodes_fault));
        match (left, writing.fault) {
            (2.., _) => of.step = Step::Writing(writing, left - 1),
            (_, Some(fault)) => self.reply_nodes(writing.reply, Err(fault), fx),
            (_, None) => self.settle_node(inbox, writing, fx),
        }
    }

    /// Writes the node's row, which makes the stored items valid.
    fn settle_node(&mut self, inbox: TimelineId, writing: Box<Writing>, fx: &mut Effects) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        let key = row::node_key(inbox, &writing.name);
        let value = writing.outcome.node.encode();
        of.step = Step::Settling(writing);
        let write = Write::Put { table: Table::ChatNodes, key, value };
        self.log.ask(PendingCall::Nodes(inbox), Call::Write(write), fx);
    }

    /// Puts a stored node into memory, answers the requester, and notifies subscribers and
    /// contacts.
    pub(super) fn node_written(
        &mut self,
        now: Now,
        inbox: TimelineId,
        writing: Writing,
        fx: &mut Effects,
    ) {
        let Writing { name, outcome, rest, reply, .. } = writing;
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        fx.counters.count(ChatCounter::NodeChanges);
        let badge = of.badge().map(Box::<str>::from);
        let before = of.nodes.get(&name).map_or(0, Node::weight);
        let is_told = name.0 == NodeSpace::Published && !outcome.events.is_empty();
        // The audience of a deleted node is that of the node before.
        let told = of.node(&name).filter(|_| outcome.node.is_gone).unwrap_or(&outcome.node);
        let audience = is_told.then(|| Audience::of(told));
        let weight = outcome.node.weight();
        of.nodes.insert(name.clone(), outcome.node);
        of.is_untidy = true;
        let after = of.badge().map(Box::<str>::from);
        let address = of.address.clone();
        self.nodes.weight = self.nodes.weight + weight - before;
        if badge != after {
            self.badge_changed(inbox, after.unwrap_or_default(), fx);
        }
        if let Some(audience) = audience {
            let told = (&*name.1, audience);
            self.tell_node(now, (inbox, &address), told, outcome.events, fx);
        }
        if rest.is_empty() {
            return self.reply_nodes(reply, Ok(NodesFound::Done(outcome.ids)), fx);
        }
        self.change_items(now, inbox, (rest, reply), fx);
    }
}

/// Whether this may be the name of a node.
fn is_named(name: &str) -> Result<(), NodesFault> {
    match name.len() {
        0 => Err(NodesFault::Invalid),
        _ if name.len() > NODE_NAME_BYTES_MAX => Err(NodesFault::TooLarge),
        _ if name.contains('\0') => Err(NodesFault::Invalid),
        _ => Ok(()),
    }
}

//! Reads of items: chosen first from the node's list, then read from their rows.
//!
//! Invariant: an answer has at most [`NODE_PAGE_MAX`] items and [`NODE_PAGE_BYTES_MAX`] bytes, but
//! always one item of any size; the answer says where a further request continues.

use super::access::{Standing, readable};
use super::asks::Reply;
use super::last::LastWanted;
use super::node::{Kept, Node};
use super::{NodeName, Step, nodes_fault, row};
use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::*;
use model::ports::log::{Call, Done, Read, Table};
use model::timeline::TimelineId;
use std::sync::Arc;

/// Items that are being read.
pub(super) struct Reading {
    pub parts: Vec<Result<Part, NodesFault>>,
    /// Positions of the items: the part's index, and the index in the part.
    places: Vec<(usize, usize)>,
    left: usize,
    fault: Option<NodesFault>,
    whose: Whose,
}

/// Items of one node.
pub(super) struct Part {
    pub name: NodeName,
    pub items: Vec<Option<Arc<NodeItem>>>,
    index: u32,
    total: u32,
}

/// The receiver of the items.
pub(super) enum Whose {
    Asked(Reply),
    Last(Box<LastWanted>),
    /// The items are about to be replaced: by this account with these changes, for this requester.
    Replaced(Box<(AccountAddress, Vec<NodeChange>, Requester)>),
}

impl Chat {
    /// Reads items of nodes for a requester.
    pub(super) fn read_items(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (wanted, whose): (&[ItemsWanted], Whose),
        standing: &Standing,
        fx: &mut Effects,
    ) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        let mut room = (NODE_PAGE_MAX, NODE_PAGE_BYTES_MAX);
        let (mut parts, mut keys, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (at, ItemsWanted { space, node, which }) in wanted.iter().enumerate() {
            let name = (*space, node.clone());
            let chosen = readable(of, &name, standing)
                .and_then(|node| choose(node, which, &mut room).map(|chosen| (node, chosen)));
            parts.push(chosen.map(|(node, (from, chosen))| {
                for (place, kept) in chosen.iter().enumerate() {
                    keys.push(row::item_key(inbox, &name, kept.number));
                    places.push((at, place));
                }
                let (index, total) = (from as u32, node.items.len() as u32);
                Part { name, items: vec![None; chosen.len()], index, total }
            }));
        }
        let left = keys.len();
        let reading = Box::new(Reading { parts, places, left, fault: None, whose });
        if keys.is_empty() {
            return self.items_read(now, inbox, *reading, fx);
        }
        of.step = Step::Reading(reading);
        for (at, key) in (0..).zip(keys) {
            let read = Read::Row { table: Table::ChatItems, key };
            self.log.ask(PendingCall::NodeItem(inbox, at), Call::Read(read), fx);
        }
    }

    /// Handles the row of an item.
    pub(crate) fn item_read(
        &mut self,
        now: Now,
        (inbox, at): (TimelineId, u32),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(of) = self.nodes.of_mut(inbox) else { return };
        let Step::Reading(reading) = &mut of.step else { return };
        let item = match result {
            Ok(Done::Row(Some(row))) => row::decode_item(&row).ok_or(NodesFault::StoreFailed),
            Ok(_) => Err(NodesFault::StoreFailed),
            Err(error) => Err(nodes_fault(error)),
        };
        let (part, place) = reading.places[at as usize];
        match (item, &mut reading.parts[part]) {
            (Ok(item), Ok(part)) => part.items[place] = Some(Arc::new(item)),
            (Err(fault), _) => reading.fault = Some(fault),
            (Ok(_), Err(_)) => {}
        }
        reading.left -= 1;
        if reading.left > 0 {
            return;
        }
        if let Step::Reading(reading) = std::mem::replace(&mut of.step, Step::Ready) {
            self.items_read(now, inbox, *reading, fx);
        }
        self.advance_nodes(now, inbox, fx);
    }

    /// Delivers items that have been read.
    fn items_read(&mut self, now: Now, inbox: TimelineId, reading: Reading, fx: &mut Effects) {
        let Reading { parts, fault, whose, .. } = reading;
        match whose {
            Whose::Asked(reply) => {
                let items = parts.into_iter().map(|part| {
                    let Part { items, index, total, .. } = part?;
                    Ok(NodeItems { items: items.into_iter().flatten().collect(), index, total })
                });
                let found = NodesFound::Items(items.collect());
                self.reply_nodes(reply, fault.map_or(Ok(found), Err), fx);
            }
            Whose::Last(wanted) => self.tell_last(inbox, *wanted, parts, fx),
            Whose::Replaced(replaced) => {
                let (by, changes, wait) = *replaced;
                let items = parts.into_iter().flatten().flat_map(|part| part.items);
                let before: Vec<_> = items.flatten().collect();
                let reply = match fault {
                    // Bookmarks that cannot be read may be replaced, and change no conversation.
                    Some(_) => Reply::Session(wait),
                    None => {
                        let published = self.bookmarks_of((inbox, by), &changes, &before);
                        Reply::Publisher(wait, Box::new(published))
                    }
                };
                self.change_items(now, inbox, (changes.into(), reply), fx);
            }
        }
    }
}

/// The requested items of a node, as far as there is room; and the number of items before them.
fn choose<'a>(
    node: &'a Node,
    which: &ItemsChosen,
    room: &mut (usize, usize),
) -> Result<(usize, Vec<&'a Kept>), NodesFault> {
    let place = |id: &str| node.items.iter().position(|item| *item.id == *id);
    let (from, upto, is_backwards) = match which {
        ItemsChosen::Ids(ids) => {
            let items = ids.iter().filter_map(|id| place(id));
            let mut places: Vec<usize> = items.collect();
            places.sort_unstable();
            places.dedup();
            let items = places.iter().map(|at| &node.items[*at]);
            let chosen = items.take_while(|item| takes(room, item)).collect();
            return Ok((places.first().copied().unwrap_or(0), chosen));
        }
        ItemsChosen::Last(count) => {
            let count = (*count as usize).min(node.items.len());
            (node.items.len() - count, node.items.len(), true)
        }
        ItemsChosen::After(after, count) => {
            let from = match after {
                Some(id) => place(id).ok_or(NodesFault::UnknownItem)? + 1,
                None => 0,
            };
            let count = *count as usize;
            (from, node.items.len().min(from.saturating_add(count)), false)
        }
        ItemsChosen::Before(id, count) => {
            let upto = place(id).ok_or(NodesFault::UnknownItem)?;
            (upto.saturating_sub(*count as usize), upto, true)
        }
    };
    let mut chosen: Vec<&Kept> = match is_backwards {
        true => node.items[from..upto].iter().rev().take_while(|item| takes(room, item)).collect(),
        false => node.items[from..upto].iter().take_while(|item| takes(room, item)).collect(),
    };
    if is_backwards {
        chosen.reverse();
        return Ok((upto - chosen.len(), chosen));
    }
    Ok((from, chosen))
}

/// Whether an answer has room for another item; if so, it is taken from `room`.
fn takes(room: &mut (usize, usize), item: &Kept) -> bool {
    let bytes = item.bytes as usize;
    let is_first = *room == (NODE_PAGE_MAX, NODE_PAGE_BYTES_MAX);
    let fits = room.0 > 0 && (bytes <= room.1 || is_first);
    if fits {
        *room = (room.0 - 1, room.1.saturating_sub(bytes));
    }
    fits
}

//! Messages from and to the brokers of other shards.
//!
//! Peer messages go out in their order. One that found a mailbox full comes back; it and all that
//! follow to the same shard wait here, within a limit. What nobody promised anything about (QoS 0)
//! is dropped then and counted.

use super::route::PendingAnswer;
use super::waits::{Origin, wait_of};
use crate::Broker;
use crate::Effects;
use crate::peer_message::{GroupWhat, PeerMessage};
use base::time::{Instant, Now};
use model::id::ShardId;
use model::session::{Denial, Drop};
use model::topic::Qos;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Peer messages that may wait for full mailboxes, a shard, besides the limit of their bytes.
const WAITING_MAX: usize = 262_144;

/// How long a mailbox is taken to be full.
const PAUSE: Duration = Duration::from_millis(2);

/// Peer messages that wait.
#[derive(Default)]
pub(crate) struct Outgoing {
    waiting: VecDeque<(ShardId, PeerMessage)>,
    bytes: usize,
    /// Shards that some of them are for.
    shards: BTreeSet<ShardId>,
    due: Instant,
}

impl Outgoing {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

impl Broker {
    /// The broker of another shard says something.
    pub fn peer_message(&mut self, now: Now, peer_message: PeerMessage, fx: &mut Effects) {
        self.units.begin();
        self.peer_message_in(now, peer_message, fx);
    }

    fn peer_message_in(&mut self, now: Now, peer_message: PeerMessage, fx: &mut Effects) {
        match peer_message {
            PeerMessage::Publish { message, from, receipt, once } => {
                let origin =
                    if receipt == 0 { Origin::Server } else { Origin::Shard(from, receipt) };
                if receipt != 0 && !self.has_room_to_wait() {
                    return self.answer(now, (None, origin), Err(Denial::Busy), fx);
                }
                let mut pending_answer = PendingAnswer::of(origin);
                pending_answer.once = once;
                let matched = self.route_here(now, &message, &mut pending_answer, fx);
                self.close(now, pending_answer, matched, fx);
            }
            PeerMessage::Keep { message, from, receipt, pages } => {
                let origin =
                    if receipt == 0 { Origin::Server } else { Origin::Shard(from, receipt) };
                if receipt != 0 && !self.has_room_to_wait() {
                    return self.answer(now, (None, origin), Err(Denial::Busy), fx);
                }
                let mut pending_answer = PendingAnswer::of(origin);
                pending_answer.pages = pages;
                let matched = self.retain_here(now, &message, &mut pending_answer, fx);
                self.close(now, pending_answer, matched, fx);
            }
            PeerMessage::Receipt { number, result } => {
                let wait = wait_of(number);
                if let (Some(open), Ok(matched)) = (self.waits.at_mut(wait), result) {
                    open.matched |= matched;
                }
                if self.waits.at(wait).is_some() {
                    self.arrived(now, wait, result.map(|_| ()), fx);
                }
            }
            PeerMessage::Group(word) => self.group_word(now, *word, fx),
            PeerMessage::Member(word) => self.member_word(now, *word, fx),
            PeerMessage::PageWanted(wanted) => self.page_wanted(now, &wanted, fx),
            PeerMessage::Page(page) => self.page_came(now, *page, fx),
            PeerMessage::LastWanted(wanted) => self.last_wanted(now, *wanted, fx),
            PeerMessage::Late(late) => self.late_came(now, *late, fx),
            PeerMessage::Elsewhere(place) => self.leave_old_place(now, place, fx),
        }
    }

    /// A peer message found a full mailbox and did not go.
    pub fn unsent(&mut self, now: Now, to: ShardId, peer_message: PeerMessage, fx: &mut Effects) {
        self.outgoing.due = now.after(PAUSE);
        // Those that were sent after it to the same shard have come back before or wait behind it.
        self.wait_in_line((to, peer_message), fx);
    }

    /// Sends a peer message, or lets it wait behind others to the same shard.
    pub(crate) fn post(&mut self, to: ShardId, peer_message: PeerMessage, fx: &mut Effects) {
        match self.outgoing.shards.contains(&to) {
            true => self.wait_in_line((to, peer_message), fx),
            false => fx.peer_messages.push((to, peer_message)),
        }
    }

    /// Sends a peer message, or carries it out if it is to this shard.
    pub(crate) fn tell(
        &mut self,
        now: Now,
        to: ShardId,
        peer_message: PeerMessage,
        fx: &mut Effects,
    ) {
        match to == self.settings.shard {
            true => self.peer_message_in(now, peer_message, fx),
            false => self.post(to, peer_message, fx),
        }
    }

    fn wait_in_line(&mut self, (to, peer_message): (ShardId, PeerMessage), fx: &mut Effects) {
        let is_loose = match &peer_message {
            PeerMessage::Publish { message, .. } => message.qos == Qos::AtMostOnce,
            _ => false,
        };
        let weight = peer_message.weight();
        let bytes_max = self.settings.limits.topics.letters_bytes_max;
        // Of receipts there are no more than the other shard has waits, and one of them is lost for
        // ever if its receipt is.
        let is_receipt = matches!(peer_message, PeerMessage::Receipt { .. });
        let is_full =
            self.outgoing.len() >= WAITING_MAX || (self.outgoing.bytes + weight) as u64 > bytes_max;
        if is_loose || is_full && !is_receipt {
            fx.counters.dropped(Drop::Busy, 1);
            if let PeerMessage::Publish { receipt, .. } | PeerMessage::Keep { receipt, .. } =
                peer_message
                && receipt != 0
            {
                let result = Err(Denial::Busy);
                self.refusals.push(PeerMessage::Receipt { number: receipt, result });
            } else if let PeerMessage::Group(word) = peer_message
                && let GroupWhat::Offer { from, receipt, .. }
                | GroupWhat::Join { from, receipt, .. } = word.what
                && from == self.settings.shard
                && receipt != 0
            {
                let result = Err(Denial::Busy);
                self.refusals.push(PeerMessage::Receipt { number: receipt, result });
            }
            return;
        }
        self.outgoing.bytes += weight;
        self.outgoing.shards.insert(to);
        self.outgoing.waiting.push_back((to, peer_message));
    }

    /// Sends what waits, if it is time.
    pub(crate) fn turn_peer_messages(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for receipt in std::mem::take(&mut self.refusals) {
            self.peer_message_in(now, receipt, fx);
        }
        if self.outgoing.waiting.is_empty() {
            return None;
        }
        if now.mono < self.outgoing.due {
            return Some(self.outgoing.due);
        }
        self.outgoing.shards.clear();
        self.outgoing.bytes = 0;
        fx.peer_messages.extend(self.outgoing.waiting.drain(..));
        None
    }
}

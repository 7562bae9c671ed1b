//! What the brokers of other shards say.
//!
//! Letters go out in their order. One that found a mailbox full comes back; it and all that follow
//! to the same shard wait here, within a limit. What nobody promised anything about (QoS 0) is
//! dropped then and counted.

use super::route::Opening;
use super::waits::{Origin, wait_of};
use crate::Broker;
use crate::effects::Effects;
use crate::letter::{GroupWhat, Letter};
use base::time::{Instant, Now};
use model::id::ShardId;
use model::session::{Denial, Drop};
use model::topic::Qos;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Letters that may wait for full mailboxes, a shard, besides the limit of their bytes.
const WAITING_MAX: usize = 262_144;

/// How long a mailbox is taken to be full.
const PAUSE: Duration = Duration::from_millis(2);

/// Letters that wait.
#[derive(Default)]
pub(crate) struct Outgoing {
    waiting: VecDeque<(ShardId, Letter)>,
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
    pub fn letter(&mut self, now: Now, letter: Letter, fx: &mut Effects) {
        self.units.begin();
        self.letter_in(now, letter, fx);
    }

    fn letter_in(&mut self, now: Now, letter: Letter, fx: &mut Effects) {
        match letter {
            Letter::Publish { message, from, receipt, once } => {
                let origin =
                    if receipt == 0 { Origin::Server } else { Origin::Shard(from, receipt) };
                if receipt != 0 && !self.has_room_to_wait() {
                    return self.answer(now, (None, origin), Err(Denial::Busy), fx);
                }
                let mut opening = Opening::of(origin);
                opening.once = once;
                let matched = self.route_here(now, &message, &mut opening, fx);
                self.close(now, opening, matched, fx);
            }
            Letter::Keep { message, from, receipt, pages } => {
                let origin =
                    if receipt == 0 { Origin::Server } else { Origin::Shard(from, receipt) };
                if receipt != 0 && !self.has_room_to_wait() {
                    return self.answer(now, (None, origin), Err(Denial::Busy), fx);
                }
                let mut opening = Opening::of(origin);
                opening.pages = pages;
                let matched = self.retain_here(now, &message, &mut opening, fx);
                self.close(now, opening, matched, fx);
            }
            Letter::Receipt { number, result } => {
                let wait = wait_of(number);
                if let (Some(open), Ok(matched)) = (self.waits.at_mut(wait), result) {
                    open.matched |= matched;
                }
                if self.waits.at(wait).is_some() {
                    self.arrived(now, wait, result.map(|_| ()), fx);
                }
            }
            Letter::Group(word) => self.group_word(now, *word, fx),
            Letter::Member(word) => self.member_word(now, *word, fx),
            Letter::PageWanted(wanted) => self.page_wanted(now, &wanted, fx),
            Letter::Page(page) => self.page_came(now, *page, fx),
            Letter::LastWanted(wanted) => self.last_wanted(now, *wanted, fx),
            Letter::Late(late) => self.late_came(now, *late, fx),
            Letter::Elsewhere(place) => self.leave_old_place(now, place, fx),
        }
    }

    /// A letter found a full mailbox and did not go.
    pub fn unsent(&mut self, now: Now, to: ShardId, letter: Letter, fx: &mut Effects) {
        self.outgoing.due = now.after(PAUSE);
        // Those that were sent after it to the same shard have come back before or wait behind it.
        self.wait_in_line((to, letter), fx);
    }

    /// Sends a letter, or lets it wait behind others to the same shard.
    pub(crate) fn post(&mut self, to: ShardId, letter: Letter, fx: &mut Effects) {
        match self.outgoing.shards.contains(&to) {
            true => self.wait_in_line((to, letter), fx),
            false => fx.letters.push((to, letter)),
        }
    }

    /// Sends a letter, or carries it out if it is to this shard.
    pub(crate) fn tell(&mut self, now: Now, to: ShardId, letter: Letter, fx: &mut Effects) {
        match to == self.settings.shard {
            true => self.letter_in(now, letter, fx),
            false => self.post(to, letter, fx),
        }
    }

    fn wait_in_line(&mut self, (to, letter): (ShardId, Letter), fx: &mut Effects) {
        let is_loose = match &letter {
            Letter::Publish { message, .. } => message.qos == Qos::AtMostOnce,
            _ => false,
        };
        let weight = letter.weight();
        let bytes_max = self.settings.limits.topics.letters_bytes_max;
        // Of receipts there are no more than the other shard has waits, and one of them is lost for
        // ever if its receipt is.
        let is_receipt = matches!(letter, Letter::Receipt { .. });
        let is_full =
            self.outgoing.len() >= WAITING_MAX || (self.outgoing.bytes + weight) as u64 > bytes_max;
        if is_loose || is_full && !is_receipt {
            fx.counters.dropped(Drop::Busy, 1);
            if let Letter::Publish { receipt, .. } | Letter::Keep { receipt, .. } = letter
                && receipt != 0
            {
                let result = Err(Denial::Busy);
                self.refusals.push(Letter::Receipt { number: receipt, result });
            } else if let Letter::Group(word) = letter
                && let GroupWhat::Offer { from, receipt, .. }
                | GroupWhat::Join { from, receipt, .. } = word.what
                && from == self.settings.shard
                && receipt != 0
            {
                let result = Err(Denial::Busy);
                self.refusals.push(Letter::Receipt { number: receipt, result });
            }
            return;
        }
        self.outgoing.bytes += weight;
        self.outgoing.shards.insert(to);
        self.outgoing.waiting.push_back((to, letter));
    }

    /// Sends what waits, if it is time.
    pub(crate) fn turn_letters(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for receipt in std::mem::take(&mut self.refusals) {
            self.letter_in(now, receipt, fx);
        }
        if self.outgoing.waiting.is_empty() {
            return None;
        }
        if now.mono < self.outgoing.due {
            return Some(self.outgoing.due);
        }
        self.outgoing.shards.clear();
        self.outgoing.bytes = 0;
        fx.letters.extend(self.outgoing.waiting.drain(..));
        None
    }
}

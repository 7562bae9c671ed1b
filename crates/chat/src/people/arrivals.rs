//! Arrivals from other domains ([`model::chat::foreign`]), for accounts of this server.
//!
//! ```text
//! elsewhere ─► home of the account here: sender is blocked?   ─┬─► presence, probes, stanzas:
//!                  ▲                                           │   for its devices
//!                  └────── answered ◄── home of the foreign ◄──┘
//!                                       account: messages, requests, as any account's
//! ```
//! A block of a whole domain is known only at the home of the account that made it, so every
//! arrival for an account passes its home, in its queue. A foreign account's messages to a room
//! here, and its queries about one, are for no account and go to the foreign account's home at
//! once. This module does not know stanzas and streams. Invariants: a foreign account's requests
//! are made by the home of its address alone; an arrival is answered once; messages of one account
//! to another stay in order.

use super::Task;
use super::words::ProbeAsked;
use crate::operators::errands::{ErrandAnswer, Owed};
use crate::sessions::Asker;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::time::{Instant, Now};
use model::account::{AccountAddress, AccountId};
use model::chat::foreign::{ArrivalWhat, ForeignArrival};
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, ContactOrder, NodesAnswer, NodesAsk, NodesFault,
    NodesRequest, SubscriptionVerb,
};
use model::counters::ChatCounter;
use model::ports::chat::{ChatAnswer, ErrandWhat};
use model::timeline::TimelineId;
use std::sync::Arc;

/// Arrivals of a shard that may wait for homes on other shards. A further one is answered as busy.
const ARRIVING_MAX: usize = 65_536;

/// The result of an arrival that another shard carried out.
#[derive(Debug, Encoding)]
pub struct ArrivalTaken {
    /// The other shard's number of the arrival.
    pub(crate) number: u64,
    pub(crate) answer: ErrandAnswer,
}

impl ArrivalTaken {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let beside = match &self.answer {
            ErrandAnswer::Told(told) => match &**told {
                ChatDelivery::Nodes(answer) => {
                    answer.result.as_ref().map_or(0, |found| found.weight())
                }
                _ => 256,
            },
            _ => 0,
        };
        size_of::<ArrivalTaken>() + beside
    }
}

impl Chat {
    /// Accepts an arrival from another domain, for an account with this number; none: the account
    /// does not exist, so it has blocked no one.
    pub(crate) fn foreign_arrives(
        &mut self,
        now: Now,
        ask: u64,
        (arrival, id): (ForeignArrival, Option<AccountId>),
        fx: &mut Effects,
    ) {
        if is_message(&arrival.what) {
            fx.counters.count(ChatCounter::ForeignReceived);
        }
        let Some(id) = id.filter(|id| *id != AccountId::FOREIGN) else {
            return self.arrival_passes(now, ask, arrival, fx);
        };
        let concerned = arrival.concerns();
        let inbox = concerned.inbox(self.settings.home, id);
        let is_known = self.people.known.contains_key(&inbox);
        // The account is not read when no device of it could get the arrival.
        let is_heard = match &arrival.what {
            ArrivalWhat::Presence { .. } | ArrivalWhat::Probe { .. } => is_known,
            ArrivalWhat::Stanza { .. } => is_known || self.sessions.online.contains_key(&inbox),
            _ => true,
        };
        if !is_heard {
            return fx.answers.push((ask, ChatAnswer::Reached(false)));
        }
        if self.people.known.get(&inbox).is_some_and(|person| person.is_free()) {
            return self.arrival_goes(now, (inbox, ask), arrival, fx);
        }
        self.outbox.takes(arrival.weight());
        let task = Task::Arrival(ask, Box::new(arrival));
        self.for_person(now, (inbox, &concerned), task, fx);
    }

    /// Carries out an arrival whose sender is known to the account of this shard.
    pub(super) fn arrival_goes(
        &mut self,
        now: Now,
        (inbox, ask): (TimelineId, u64),
        arrival: ForeignArrival,
        fx: &mut Effects,
    ) {
        let is_blocked = |from| self.people.blocks(inbox, from);
        if !is_taken_back(&arrival.what) && arrival.sender().is_some_and(is_blocked) {
            return self.arrival_is_blocked(ask, &arrival.what, fx);
        }
        let by = |from: &AccountAddress| from.inbox(self.settings.home, AccountId::FOREIGN);
        let reached = match arrival {
            ForeignArrival {
                what: ArrivalWhat::Presence { from, device, availability }, ..
            } => {
                let (by, availability) = (by(&from), availability.map(|it| Arc::from(*it)));
                self.foreign_present(inbox, (&from, by), (device, availability), fx)
            }
            ForeignArrival { what: ArrivalWhat::Probe { from }, .. } => {
                let (number, by, to) = (0, by(&from), [inbox].into());
                self.probe(self.settings.shard, &ProbeAsked { number, from, by, to }, fx);
                true
            }
            ForeignArrival { what: ArrivalWhat::Stanza { from, device, xml }, .. } => {
                self.stanza_arrives(inbox, (from.as_ref(), device.as_deref()), &xml, fx)
            }
            arrival => return self.arrival_passes(now, ask, arrival, fx),
        };
        fx.answers.push((ask, ChatAnswer::Reached(reached)));
    }

    /// Answers an arrival from a blocked sender: messages and queries as if the account did not
    /// exist, presence and subscription requests as if they had been delivered.
    fn arrival_is_blocked(&mut self, ask: u64, what: &ArrivalWhat, fx: &mut Effects) {
        let told = |told| ChatAnswer::Told(Some(Box::new(told)));
        let number = 0;
        let answer = match what {
            ArrivalWhat::Presence { .. } | ArrivalWhat::Probe { .. } | ArrivalWhat::Wish(_) => {
                return fx.answers.push((ask, ChatAnswer::Reached(true)));
            }
            ArrivalWhat::Send { .. } | ArrivalWhat::Ask { .. } => {
                told(ChatDelivery::Failed { number, why: ChatFault::UnknownAccount })
            }
            ArrivalWhat::Nodes { .. } => {
                let result = Err(NodesFault::UnknownAccount);
                told(ChatDelivery::Nodes(Box::new(NodesAnswer { number, result })))
            }
            ArrivalWhat::Stanza { .. } => ChatAnswer::Reached(false),
        };
        fx.counters.count(ChatCounter::BlockedSends);
        fx.answers.push((ask, answer));
    }

    /// Passes an arrival on to the home of the foreign account.
    fn arrival_passes(&mut self, now: Now, ask: u64, arrival: ForeignArrival, fx: &mut Effects) {
        let home = self.settings.owner(&arrival.home);
        if home == self.settings.shard {
            return self.foreign_says(now, Owed::Command(ask), arrival, fx);
        }
        if self.people.arriving.len() >= ARRIVING_MAX {
            return fx.answers.push((ask, ChatAnswer::Busy));
        }
        let number = self.people.arriving.put(ask);
        fx.peer_messages.push((home, ChatWord::Arrival(number, Box::new(arrival))));
    }

    /// Answers an arrival that another shard has carried out or refused.
    pub(crate) fn arrival_taken(&mut self, taken: ArrivalTaken, fx: &mut Effects) {
        if let Some(ask) = self.people.arriving.take(taken.number) {
            fx.answers.push((ask, taken.answer.into()));
        }
    }

    /// Gives up arrivals that other shards did not answer in time; returns when to be called again.
    pub(super) fn turn_arrivals(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        // The timeout is that of an errand; the arrival may have been carried out all the same.
        let ms_max = self.settings.limits.answer_ms_max.saturating_mul(2);
        let (over, next) = self.people.arriving.overdue(now, ms_max);
        fx.answers.extend(over.into_iter().map(|ask| (ask, ChatAnswer::Busy)));
        next
    }

    /// Makes the request of a foreign account whose home is this shard, as a device would.
    pub(crate) fn foreign_says(
        &mut self,
        now: Now,
        owed: Owed,
        arrival: ForeignArrival,
        fx: &mut Effects,
    ) {
        let ForeignArrival { home: address, what } = arrival;
        // The domain may have become one of this server: then no other server speaks for it.
        if !self.settings.is_foreign(&address) {
            return self.answer_owed(owed, ErrandAnswer::Reached(false), fx);
        }
        let inbox = address.inbox(self.settings.home, AccountId::FOREIGN);
        let (is_operator, source) = (false, None);
        let asker = |device| Asker { inbox, address, device, is_operator, source };
        let (asker, what) = match what {
            ArrivalWhat::Send { device, message } => (asker(device), ErrandWhat::Send(message)),
            ArrivalWhat::Ask { device, what } => (asker(device), *what),
            ArrivalWhat::Wish(wish) => (asker("".into()), ErrandWhat::Contact(wish)),
            ArrivalWhat::Nodes { of, ask } => {
                return self.foreign_asks_nodes(now, owed, (asker("".into()), of, *ask), fx);
            }
            ArrivalWhat::Presence { .. }
            | ArrivalWhat::Probe { .. }
            | ArrivalWhat::Stanza { .. } => {
                return self.answer_owed(owed, ErrandAnswer::Reached(false), fx);
            }
        };
        self.errand_asks(now, owed, (asker, what), fx);
    }

    /// Makes a foreign account's request about nodes of an account here, as a local account would.
    fn foreign_asks_nodes(
        &mut self,
        now: Now,
        owed: Owed,
        (asker, of, wanted): (Asker, AccountAddress, NodesAsk),
        fx: &mut Effects,
    ) {
        if self.settings.is_foreign(&of) {
            return self.answer_owed(owed, ErrandAnswer::Reached(false), fx);
        }
        let request = |session| {
            let of = Some(of.into());
            ChatRequest::Nodes(Box::new(NodesRequest { session, number: 0, of, ask: wanted }))
        };
        self.errand_requests(now, owed, (asker, request), fx);
    }
}

/// Whether an arrival is a message.
fn is_message(what: &ArrivalWhat) -> bool {
    let is_send = |what: &ErrandWhat| matches!(what, ErrandWhat::Send(_));
    match what {
        ArrivalWhat::Send { .. } => true,
        ArrivalWhat::Ask { what, .. } => is_send(what),
        _ => false,
    }
}

/// Whether an arrival answers a subscription request or withdraws one: subscriptions stay correct
/// while one party has blocked the other, without a notice to any device.
fn is_taken_back(what: &ArrivalWhat) -> bool {
    match what {
        ArrivalWhat::Wish(wish) => {
            !matches!(wish.order, ContactOrder::Say(SubscriptionVerb::Subscribe, _))
        }
        _ => false,
    }
}

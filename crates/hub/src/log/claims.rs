//! Orders with an idempotency key: on stable storage first, sent then, and only once.
//!
//! The log remembers the key together with the message, so a repeated order is told apart from
//! another one under the same key, also after a restart. Devices that would not take the push are
//! answered so and are no part of what is kept; the rest is judged again when it is kept, for
//! their queues may have filled meanwhile. A push that is for now or never is kept nowhere: the
//! key alone is claimed.

use crate::Effects;
use crate::Hub;
use crate::log::durable::push;
use crate::log::keep::rejection;
use crate::log::tickets::PendingCall;
use crate::push::Sending;
use crate::registry::item::{Kept, Watch};
use base::hash::HashKey;
use base::never;
use base::slab::Key;
use base::time::{Instant, Now};
use model::event::Counter;
use model::id::{DeviceId, MessageId};
use model::ports::log::{
    APPEND_TIMELINES_MAX, Append, Appended, Call, Done, OnceKey, StoreError, Write,
};
use model::ports::pushes::{PushAnswer, PushCounts};
use model::push::{Outcome, Rejection};
use model::timeline::Seq;
use std::sync::Arc;

/// An order that the log is asked to keep.
pub(crate) struct Claim {
    reply: u64,
    until: Instant,
    sending: Sending,
    /// Those that are to have it, in the order of the append.
    taken: Vec<(DeviceId, Key)>,
    /// Those that will not.
    refused: Vec<(DeviceId, Outcome)>,
    /// All of them, for what is for now or never.
    at_once: Vec<DeviceId>,
}

impl Claim {
    /// Pushes that wait for the log.
    pub fn size(&self) -> usize {
        self.taken.len().max(1)
    }

    /// The order's id.
    pub fn id(&self) -> MessageId {
        self.sending.push.id
    }

    /// Devices that are to have it.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.taken.iter().map(|(_, key)| *key)
    }
}

impl Hub {
    /// Asks the log to take an order on, for devices of a list without repetitions.
    pub(crate) fn claim(
        &mut self,
        now: Now,
        (reply, until): (u64, Instant),
        (number, devices): (u16, Vec<DeviceId>),
        (sending, order_key): (Sending, &str),
        fx: &mut Effects,
    ) {
        let home = self.settings.home;
        if devices.len() > APPEND_TIMELINES_MAX {
            let outcome = Outcome::Rejected(Rejection::TooLarge);
            let outcomes = devices.into_iter().map(|device| (device, outcome)).collect();
            return answer(reply, sending.push.id, outcomes, fx);
        }
        if !self.tickets.have_room(devices.len().max(1)) {
            return fx.answers.push((reply, PushAnswer::Busy));
        }
        let names: Vec<&[u8]> = devices.iter().map(|device| device.as_str().as_bytes()).collect();
        let message = push::message(&sending.push, now.unix_s(), Some(home.of(&names)));
        let once = Some(once_key(home, sending.push.product.as_str(), order_key));
        let (taken, refused) = (Vec::new(), Vec::new());
        let mut claim = Claim { reply, until, sending, taken, refused, at_once: Vec::new() };
        match claim.sending.push.stores() {
            true => self.judge_list(now, (number, devices), &mut claim, fx),
            false => claim.at_once = devices,
        }
        if claim.taken.is_empty() && claim.at_once.is_empty() {
            return answer(reply, claim.id(), claim.refused, fx);
        }
        let timelines = claim.keys().filter_map(|key| self.registry.timeline(home, key));
        let append = Append { message: Arc::new(message), to: timelines.collect(), once };
        let call = Call::Write(Write::Append(append));
        self.enter(PendingCall::Claim(Box::new(claim)), call, fx);
    }

    /// The log has answered.
    pub(crate) fn claimed(
        &mut self,
        now: Now,
        claim: Claim,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        for (_, key) in &claim.taken {
            if let Some(device) = self.registry.at_mut(*key) {
                device.extra().asked -= 1;
            }
        }
        let keys: Vec<Key> = claim.keys().collect();
        match result {
            Ok(Done::Appended(Appended { new: true, seqs, .. })) => {
                self.send_claimed(now, claim, &seqs, fx);
            }
            Ok(Done::Appended(Appended { id, seqs, .. })) => {
                self.repeat(claim, MessageId(id), seqs.len(), fx);
            }
            Err(StoreError::Conflict) => fx.answers.push((claim.reply, PushAnswer::Conflict)),
            Err(error) => self.refuse_claim(now, claim, rejection(error), fx),
            Ok(other) => {
                never!(true, "an append was answered by {other:?}");
                self.refuse_claim(now, claim, Rejection::StoreFull, fx);
            }
        }
        keys.into_iter().for_each(|key| self.release(now, key));
    }

    fn judge_list(
        &mut self,
        now: Now,
        (number, devices): (u16, Vec<DeviceId>),
        claim: &mut Claim,
        fx: &mut Effects,
    ) {
        for device in devices {
            let outcome = match self.find_place(now, (number, &device), &claim.sending, fx) {
                Err(outcome) => outcome,
                Ok((key, is_new)) => match self.judge(now, key, &claim.sending, fx) {
                    Ok(_) => {
                        if let Some(record) = self.registry.at_mut(key) {
                            record.extra().asked += 1;
                        }
                        self.ensure_row(key, fx);
                        claim.taken.push((device, key));
                        continue;
                    }
                    Err(outcome) => {
                        self.tell_outcome(now, key, (&claim.sending, outcome), fx);
                        if is_new {
                            self.remove_record(key);
                        }
                        outcome
                    }
                },
            };
            claim.refused.push((device, outcome));
        }
    }

    /// The order is new: it takes its course, in the log already.
    fn send_claimed(&mut self, now: Now, claim: Claim, seqs: &[Seq], fx: &mut Effects) {
        let Claim { reply, until, sending, taken, refused, at_once } = claim;
        let id = sending.push.id;
        if !at_once.is_empty() {
            let Some(number) = self.registry.products.number(&sending.push.product) else {
                return fx.answers.push((reply, PushAnswer::UnknownProduct));
            };
            return self.push_to_list(now, (reply, until), (number, at_once), sending, fx);
        }
        fx.counters.count_by(Counter::PushesStored, seqs.len() as u64);
        if let Some(number) = self.registry.products.number(&sending.push.product) {
            for (device, _) in &taken {
                self.mirror(now, (number, device), &sending.push, fx);
            }
        }
        let waits = until > now.mono && self.waits.has_room(id, taken.len());
        let (mut open, mut outcomes) = (Vec::new(), refused);
        for ((device, key), seq) in taken.into_iter().zip(seqs) {
            match self.place_claimed(now, (key, *seq), (&sending, waits), fx) {
                Some(outcome) => outcomes.push((device, outcome)),
                None => open.push(key),
            }
        }
        self.await_outcomes(until, (reply, id), (open, outcomes), fx);
    }

    /// Puts a push that the log keeps into the device's queue; `None` when its outcome is waited
    /// for.
    fn place_claimed(
        &mut self,
        now: Now,
        (key, seq): (Key, Seq),
        (sending, waits): (&Sending, bool),
        fx: &mut Effects,
    ) -> Option<Outcome> {
        let Some(device) = self.registry.at(key) else {
            return Some(Outcome::Rejected(Rejection::Evicted));
        };
        let judged = match device.rowed() {
            true => self.judge(now, key, sending, fx),
            false => Err(Outcome::Rejected(Rejection::Busy)),
        };
        let room = match judged {
            Ok(room) => room,
            Err(outcome) => {
                self.enter_remove(key, seq, fx);
                return Some(self.tell_outcome(now, key, (sending, outcome), fx));
            }
        };
        let online = self.registry.at(key).is_some_and(|device| device.conn().is_some());
        let answers = waits && online;
        let watch = Watch { answers, counted: false, receipts: sending.receipts };
        self.take_in(now, (key, room), (&sending.push, watch, Kept::At(seq)), fx);
        (!answers).then_some(Outcome::Stored)
    }

    /// The order was taken on before, for `kept` of its devices. Which they were nobody knows any
    /// more. As a rule they are those that would take it now too; where that cannot be, only what
    /// still waits is told stored, so that nothing is called stored that is not.
    fn repeat(&mut self, claim: Claim, id: MessageId, kept: usize, fx: &mut Effects) {
        let number = self.registry.products.number(&claim.sending.push.product);
        let waits = |device: &DeviceId| {
            let key = number.and_then(|number| self.registry.find(number, device.as_str()));
            let queue = key.and_then(|key| self.registry.at(key)?.queue());
            queue.is_some_and(|queue| queue.items().any(|item| item.id == id))
        };
        let all = kept == claim.taken.len() + claim.refused.len();
        let (as_now, busy) = (kept >= claim.taken.len(), Outcome::Rejected(Rejection::Busy));
        let taken = claim.taken.into_iter().map(|(device, _)| (device, busy, as_now));
        let refused = claim.refused.into_iter().map(|(device, why)| (device, why, all));
        let at_once = claim.at_once.into_iter().map(|device| (device, busy, true));
        let outcomes = taken.chain(refused).chain(at_once).map(|(device, else_is, was_kept)| {
            let stored = was_kept || waits(&device);
            (device, if stored { Outcome::Stored } else { else_is })
        });
        answer(claim.reply, id, outcomes.collect(), fx);
    }

    fn refuse_claim(&mut self, now: Now, claim: Claim, why: Rejection, fx: &mut Effects) {
        let outcome = Outcome::Rejected(why);
        let mut outcomes = claim.refused;
        for (device, key) in claim.taken {
            self.tell_outcome(now, key, (&claim.sending, outcome), fx);
            outcomes.push((device, outcome));
        }
        outcomes.extend(claim.at_once.into_iter().map(|device| (device, outcome)));
        answer(claim.reply, claim.sending.push.id, outcomes, fx);
    }
}

fn answer(reply: u64, id: MessageId, outcomes: Vec<(DeviceId, Outcome)>, fx: &mut Effects) {
    fx.answers.push((reply, PushAnswer::Pushed { id, outcomes, counts: PushCounts::default() }));
}

fn once_key(home: HashKey, product: &str, order: &str) -> OnceKey {
    let parts: [&[u8]; 2] = [product.as_bytes(), order.as_bytes()];
    let first = home.of(&parts);
    let second = HashKey::new(first, !first).of(&parts);
    OnceKey(u128::from(first) << 64 | u128::from(second))
}

//! Orders for a list of devices: sent at once, or, with an idempotency key, stored first and then
//! sent, only once; answered when each device has an outcome.
//!
//! The log stores the key together with the message, so a repeated order is distinguished from a
//! different one under the same key, also after a restart. Devices that refuse the push are
//! answered so and get no copy in the log; the others are judged again when it is stored, because
//! their queues may have filled meanwhile. A push with time to live 0 is not stored: the log keeps
//! its key alone, and so it does of an order without devices.

use crate::log::durable::order::{Local, Ordered, PushToMany};
use crate::log::durable::push::{made_s, message};
use crate::log::pending::PendingCall;
use crate::log::rejection;
use crate::orders::{self, StoredOrder};
use crate::push::{Placing, Sending};
use crate::registry::DeviceName;
use crate::registry::item::{Kept, Watch};
use crate::registry::queue::QueueLimits;
use crate::waits::Wait;
use crate::{Effects, Hub};
use base::hash::HashKey;
use base::never;
use base::slab::Key;
use base::time::{Instant, Now};
use model::audience::Audience;
use model::counters::PushCounter;
use model::id::{DeviceId, MessageId};
use model::ports::log::{APPEND_SLICE, Append, Appended, Done, OnceKey, StoreError, Write};
use model::ports::pushes::{PushAnswer, PushCounts, PushOrder, PushTarget};
use model::product::Product;
use model::push::{Outcome, Push, Rejection};
use model::timeline::Seq;
use std::sync::Arc;
use std::time::Duration;

/// Longest time that an answer waits for acknowledgements, milliseconds. A longer wish is cut to
/// it.
const WAIT_MS_MAX: u32 = 60_000;

/// An order for a list of distinct devices.
pub(crate) struct ListOrder {
    reply: u64,
    /// Until when its answer waits for outcomes.
    until: Instant,
    /// Number of the devices' product.
    product: u16,
    devices: Vec<DeviceId>,
    sending: Sending,
}

/// An order that the log was asked to store.
pub(crate) struct Claim {
    reply: u64,
    until: Instant,
    sending: Sending,
    /// Devices that accept the push, in the order of the append.
    taken: Vec<(DeviceId, Key)>,
    /// Devices that refuse the push, with their outcomes.
    refused: Vec<(DeviceId, Outcome)>,
    /// All devices of the order, if its push is not stored (time to live 0).
    at_once: Vec<DeviceId>,
}

/// A device for which the log has stored the push of an order.
struct Claimed {
    key: Key,
    /// The push's offset in the device's timeline.
    seq: Seq,
    /// An answer may wait for the device's outcome.
    waits: bool,
}

impl Claim {
    /// Pushes of this order that wait for the log; at least one.
    pub fn size(&self) -> usize {
        self.taken.len().max(1)
    }

    /// The order's id.
    pub fn id(&self) -> MessageId {
        self.sending.push.id
    }

    /// Keys of the devices that accept the push.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.taken.iter().map(|(_, key)| *key)
    }
}

impl Hub {
    /// Executes a push order of the API.
    pub(crate) fn push(&mut self, now: Now, reply: u64, mut order: PushOrder, fx: &mut Effects) {
        let Some(number) = self.registry.products.number(&order.product) else {
            return fx.answers.push((reply, PushAnswer::UnknownProduct));
        };
        let product = self.registry.products.of(number).clone();
        let (receipts, wait_ms) = (order.receipts, order.wait_ms.min(WAIT_MS_MAX));
        let home = self.settings.home;
        let live_s = order.time_to_live_s.min(product.time_to_live_max_s);
        let (order_home, named) =
            (orders::order_home(home, &order), orders::names::named(home, &order, live_s));
        let (track, devices_per_s) = (order.track, order.devices_per_s);
        let since_ms = now.wall_ms;
        let local = order.local.map(|time| Local { time, since_ms });
        if let Some(Local { time, .. }) = local {
            // The zones that are past the time get the push now.
            order.send_at_ms = Some(time.at.first_anywhere_ms().max(since_ms));
            if let PushTarget::Devices(devices) = &order.target {
                order.target = PushTarget::Audience(Arc::new(Audience::named(devices)));
            }
        }
        let send_at_ms = order.send_at_ms;
        let user = order.user.take();
        if let Some(at_ms) = send_at_ms.filter(|at_ms| *at_ms > now.wall_ms) {
            order.id = self.jobs.id_ahead(order.id, at_ms);
        }
        let (push, target, order_key) = make(now, order, &product);
        let target = match target {
            PushTarget::Devices(devices) if send_at_ms.is_some() || track => {
                PushTarget::Devices(sorted(devices))
            }
            PushTarget::Devices(devices) => {
                let least_ms = if push.stores() { 0 } else { self.now_or_never_ms() };
                let until = now.after(Duration::from_millis(wait_ms.max(least_ms).into()));
                let push = Arc::new(push);
                let sending = Sending { push, user, receipts, counted: false, registers: true };
                let devices = sorted(devices);
                let order = ListOrder { reply, until, product: number, devices, sending };
                return match order_key {
                    None => self.push_to_list(now, order, fx),
                    Some(key) => self.claim(now, order, &key, fx),
                };
            }
            // Whoever sends a command finds the user's devices first.
            PushTarget::User(_) => return answer(reply, push.id, Vec::new(), fx),
            PushTarget::Tag(_) | PushTarget::Product | PushTarget::Audience(_) => target,
        };
        // An order that is sent later is dated by its last sending time, so that it is remembered
        // from then on.
        let last_ms = local.map(|Local { time, .. }| time.at.last_anywhere_ms()).or(send_at_ms);
        let at_s = last_ms.map_or(now.unix_s(), |ms| (ms / 1_000) as u32);
        let push = Arc::new(push);
        let (id, home) = (push.id, order_home);
        let what = Ordered::Push(PushToMany {
            push,
            target,
            receipts,
            track,
            send_at_ms,
            local,
            devices_per_s,
        });
        let order = StoredOrder { id, at_s, home, named, what };
        self.jobs.take_order(now, reply, order, &mut self.log, fx);
    }

    /// How long a push with time to live 0 waits for its acknowledgement, milliseconds, even when
    /// the order does not want to wait: as long as devices have to acknowledge, because its outcome
    /// is not known before.
    fn now_or_never_ms(&self) -> u32 {
        Hub::ACK_MS.min(self.settings.limits.answer_ms_max / 2)
    }

    /// Notes the outcome of a push at a device, for the answer to its order.
    pub(crate) fn settle(&mut self, key: Key, id: MessageId, outcome: Outcome, fx: &mut Effects) {
        if let Some((_, device)) = self.registry.names(key) {
            self.waits.settle(id, key, device, outcome, fx);
        }
    }

    /// Ends the waiting of orders whose time is over, a slice in each turn.
    pub(crate) fn turn_waits(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut left = self.settings.limits.pushes.fan_out_slice as usize;
        self.waits.advance(now);
        while left > 0
            && let Some(id) = self.waits.take()
        {
            left = left.saturating_sub(self.stop_waiting(now, id, fx).max(1));
        }
        self.waits.next(now)
    }

    /// Ends an order's waiting for acknowledgements; returns how many were missing.
    fn stop_waiting(&mut self, now: Now, id: MessageId, fx: &mut Effects) -> usize {
        let open = self.waits.open_of(id);
        for key in &open {
            self.stop_waiting_for(now, *key, id, fx);
        }
        open.len()
    }

    /// Handles a push that was not acknowledged in time: it is stored, or it ends as expired.
    fn stop_waiting_for(&mut self, now: Now, key: Key, id: MessageId, fx: &mut Effects) {
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        let Some(item) = queue.find(id) else { return };
        match item.kept() {
            Kept::No if item.stores() => return self.keep(now, key, id, fx),
            Kept::No => {}
            Kept::Asked => return,
            // The push was stored in the log before it was sent.
            Kept::At(_) => {
                item.stop_answering();
                return self.settle(key, id, Outcome::Stored, fx);
            }
        }
        let Some(item) = queue.remove(id) else { return };
        self.end(now, key, item, Outcome::Expired, fx);
        self.pump(now, key, fx);
        self.registry.release(now, key);
    }

    /// Sends a push to the devices of a list.
    fn push_to_list(&mut self, now: Now, order: ListOrder, fx: &mut Effects) {
        let ListOrder { reply, until, product, devices, sending } = order;
        let id = sending.push.id;
        if !self.waits.has_room(id, devices.len()) {
            return fx.answers.push((reply, PushAnswer::Busy));
        }
        let (mut open, mut outcomes) = (Vec::new(), Vec::new());
        for device in devices {
            match self.place_by_name(now, DeviceName { product, id: &device }, &sending, fx) {
                Ok(key) => open.push(key),
                Err(outcome) => outcomes.push((device, outcome)),
            }
        }
        self.waits.begin(until, id, Wait { reply, open, outcomes }, fx);
        if until <= now.mono {
            self.stop_waiting(now, id, fx);
        }
    }

    fn place_by_name(
        &mut self,
        now: Now,
        to: DeviceName<'_>,
        sending: &Sending,
        fx: &mut Effects,
    ) -> Result<Key, Outcome> {
        let known = self.registry.find(to.product, to.id.as_str());
        if known.map_or(sending.user.is_none(), |key| self.is_for(key, sending)) {
            self.mirror(now, to, &sending.push, fx);
        }
        let (key, is_new) = self.find_place(now, to, sending, fx)?;
        if !is_new && !self.catch_up(now, key, sending.push.id, fx) {
            let busy = Outcome::Rejected(Rejection::Busy);
            return Err(self.tell_outcome(now, key, sending, busy, fx));
        }
        match self.place(now, key, sending, fx) {
            None => Ok(key),
            Some(outcome) => {
                if is_new {
                    self.remove_record(key);
                }
                Err(outcome)
            }
        }
    }

    /// Whether a push may enter a device's queue, once the earlier orders have reached the device.
    fn judge_in_turn(
        &mut self,
        now: Now,
        key: Key,
        sending: &Sending,
        fx: &mut Effects,
    ) -> Result<QueueLimits, Outcome> {
        match self.catch_up(now, key, sending.push.id, fx) {
            true => self.judge(now, key, sending, fx),
            false => Err(Outcome::Rejected(Rejection::Busy)),
        }
    }

    /// Asks the log to store an order with its idempotency key.
    fn claim(&mut self, now: Now, order: ListOrder, order_key: &str, fx: &mut Effects) {
        let ListOrder { reply, until, product, devices, sending } = order;
        let home = self.settings.home;
        if devices.len() > APPEND_SLICE {
            let outcome = Outcome::Rejected(Rejection::TooLarge);
            let outcomes = devices.into_iter().map(|device| (device, outcome)).collect();
            return answer(reply, sending.push.id, outcomes, fx);
        }
        if !self.log.has_room(devices.len().max(1)) {
            return fx.answers.push((reply, PushAnswer::Busy));
        }
        let names: Vec<&[u8]> = devices.iter().map(|device| device.as_str().as_bytes()).collect();
        let message = Arc::new(message(&sending.push, now.unix_s(), Some(home.of(&names))));
        let once = Some(once_key(home, sending.push.product.as_str(), order_key));
        let (taken, refused, is_key_alone) = (Vec::new(), Vec::new(), devices.is_empty());
        let mut claim = Claim { reply, until, sending, taken, refused, at_once: Vec::new() };
        match claim.sending.push.stores() {
            true => self.judge_list(now, product, devices, &mut claim, fx),
            false => claim.at_once = devices,
        }
        if claim.taken.is_empty() && claim.at_once.is_empty() && !is_key_alone {
            return answer(reply, claim.id(), claim.refused, fx);
        }
        let to = claim.keys().filter_map(|key| self.registry.timeline(key)).collect();
        let append = Write::Append(Append { message, to, once, heard: None, ends: false });
        self.log.write(PendingCall::Claim(Box::new(claim)), append, fx);
    }

    /// Handles the log's answer to an order with an idempotency key.
    pub(crate) fn claimed(
        &mut self,
        now: Now,
        claim: Claim,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let keys: Vec<Key> = claim.keys().collect();
        keys.iter().for_each(|&key| self.registry.answered(key));
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
        keys.into_iter().for_each(|key| self.registry.release(now, key));
    }

    fn judge_list(
        &mut self,
        now: Now,
        product: u16,
        devices: Vec<DeviceId>,
        claim: &mut Claim,
        fx: &mut Effects,
    ) {
        for device in devices {
            let name = DeviceName { product, id: &device };
            let outcome = match self.find_place(now, name, &claim.sending, fx) {
                Err(outcome) => outcome,
                Ok((key, is_new)) => match self.judge_in_turn(now, key, &claim.sending, fx) {
                    Ok(_) => {
                        self.registry.asked(key);
                        self.ensure_row(key, fx);
                        claim.taken.push((device, key));
                        continue;
                    }
                    Err(outcome) => {
                        self.tell_outcome(now, key, &claim.sending, outcome, fx);
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

    /// Sends a new order, which the log has stored.
    fn send_claimed(&mut self, now: Now, claim: Claim, seqs: &[Seq], fx: &mut Effects) {
        let Claim { reply, until, sending, taken, refused, at_once } = claim;
        let id = sending.push.id;
        if !at_once.is_empty() {
            let Some(product) = self.registry.products.number(&sending.push.product) else {
                return fx.answers.push((reply, PushAnswer::UnknownProduct));
            };
            let order = ListOrder { reply, until, product, devices: at_once, sending };
            return self.push_to_list(now, order, fx);
        }
        fx.counters.count_by(PushCounter::Stored, seqs.len() as u64);
        if let Some(product) = self.registry.products.number(&sending.push.product) {
            for (device, _) in &taken {
                self.mirror(now, DeviceName { product, id: device }, &sending.push, fx);
            }
        }
        let waits = until > now.mono && self.waits.has_room(id, taken.len());
        let (mut open, mut outcomes) = (Vec::new(), refused);
        for ((device, key), seq) in taken.into_iter().zip(seqs) {
            match self.place_claimed(now, Claimed { key, seq: *seq, waits }, &sending, fx) {
                Some(outcome) => outcomes.push((device, outcome)),
                None => open.push(key),
            }
        }
        self.waits.begin(until, id, Wait { reply, open, outcomes }, fx);
    }

    /// Puts a stored push into the device's queue; `None` if its outcome is still to come.
    fn place_claimed(
        &mut self,
        now: Now,
        claimed: Claimed,
        sending: &Sending,
        fx: &mut Effects,
    ) -> Option<Outcome> {
        let Claimed { key, seq, waits } = claimed;
        let Some(device) = self.registry.at(key) else {
            return Some(Outcome::Rejected(Rejection::Evicted));
        };
        let judged = match device.rowed() {
            true => self.judge_in_turn(now, key, sending, fx),
            false => Err(Outcome::Rejected(Rejection::Busy)),
        };
        let room = match judged {
            Ok(room) => room,
            Err(outcome) => {
                self.remove_kept(key, seq, fx);
                return Some(self.tell_outcome(now, key, sending, outcome, fx));
            }
        };
        let online = self.registry.at(key).is_some_and(|device| device.conn().is_some());
        let answers = waits && online;
        let watch = Watch { answers, counted: false, receipts: sending.receipts };
        self.take_in(now, key, &sending.push, Placing { room, watch, kept: Kept::At(seq) }, fx);
        (!answers).then_some(Outcome::Stored)
    }

    /// Answers a repeated order, which was stored earlier for `kept` of its devices. Which ones is
    /// no longer known. As a rule they are those that would accept the push now too; if more
    /// devices would accept it now than it was stored for, only those where the push is still
    /// queued are answered Stored, so that nothing is called stored that is not.
    fn repeat(&mut self, claim: Claim, id: MessageId, kept: usize, fx: &mut Effects) {
        let number = self.registry.products.number(&claim.sending.push.product);
        let waits = |device: &DeviceId| {
            let key = number.and_then(|number| self.registry.find(number, device.as_str()));
            let queue = key.and_then(|key| self.registry.at(key)?.queue());
            queue.is_some_and(|queue| queue.items().any(|item| item.id == id))
        };
        let all = kept == claim.taken.len() + claim.refused.len();
        let is_cancelled = self.jobs.is_cancelled(id, Some(&claim.sending.push.product));
        let was = match is_cancelled {
            true => Outcome::Rejected(Rejection::Cancelled),
            false => Outcome::Stored,
        };
        let (as_now, busy) = (kept >= claim.taken.len(), Outcome::Rejected(Rejection::Busy));
        let taken = claim.taken.into_iter().map(|(device, _)| (device, busy, as_now));
        let refused = claim.refused.into_iter().map(|(device, why)| (device, why, all));
        let at_once = claim.at_once.into_iter().map(|device| (device, busy, true));
        let outcomes = taken.chain(refused).chain(at_once).map(|(device, else_is, was_kept)| {
            let stored = was_kept || waits(&device);
            (device, if stored { was } else { else_is })
        });
        answer(claim.reply, id, outcomes.collect(), fx);
    }

    fn refuse_claim(&mut self, now: Now, claim: Claim, why: Rejection, fx: &mut Effects) {
        let outcome = Outcome::Rejected(why);
        let mut outcomes = claim.refused;
        for (device, key) in claim.taken {
            self.tell_outcome(now, key, &claim.sending, outcome, fx);
            outcomes.push((device, outcome));
        }
        outcomes.extend(claim.at_once.into_iter().map(|device| (device, outcome)));
        answer(claim.reply, claim.sending.push.id, outcomes, fx);
    }
}

pub(crate) fn sorted(mut devices: Vec<DeviceId>) -> Vec<DeviceId> {
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// Makes the push of an order. If the order has an idempotency key, the expiry counts from the time
/// in its id: a repeated order must be recognised without the clock.
pub(crate) fn make(
    now: Now,
    order: PushOrder,
    product: &Product,
) -> (Push, PushTarget, Option<Box<str>>) {
    let live_s = order.time_to_live_s.min(product.time_to_live_max_s);
    let from_s = match (order.send_at_ms, &order.idempotency_key) {
        (Some(at_ms), _) => u32::try_from(at_ms.div_ceil(1_000)).unwrap_or(u32::MAX),
        (None, Some(_)) => made_s(order.id),
        (None, None) => now.unix_s(),
    };
    let push = Push {
        id: order.id,
        product: order.product,
        app_id: product.app_id,
        body: order.body,
        collapse: order.collapse,
        expire_at: if live_s == 0 { 0 } else { from_s.saturating_add(live_s) },
        priority: order.priority,
        silent: order.silent,
        notifies: order.notifies,
    };
    (push, order.target, order.idempotency_key)
}

fn answer(reply: u64, id: MessageId, outcomes: Vec<(DeviceId, Outcome)>, fx: &mut Effects) {
    fx.answers.push((reply, PushAnswer::Pushed { id, outcomes, counts: PushCounts::default() }));
}

fn once_key(home: HashKey, product: &str, order: &str) -> OnceKey {
    let parts: [&[u8]; 2] = [product.as_bytes(), order.as_bytes()];
    let (first, second) = hashes_of(home, &parts);
    OnceKey::at_home(first, second)
}

/// Two hashes of a name, which together stand for it: its home hash, and one against collisions.
pub(crate) fn hashes_of(home: HashKey, parts: &[&[u8]]) -> (u64, u64) {
    let first = home.of(parts);
    (first, HashKey::new(first, !first).of(parts))
}

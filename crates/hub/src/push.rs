//! A push finds its place at a device, and its end.
//!
//! `place` takes a push on, or says at once what becomes of it; `end` is the only way out of a
//! queue. Between them the push is in exactly one queue, on the way or waiting. A push that is for
//! now or never takes a place only if it can be sent now.

use crate::Effects;
use crate::Hub;
use crate::log::durable::push::made_s;
use crate::orders;
use crate::registry::device::BindState;
use crate::registry::item::{Item, Kept, Watch};
use crate::registry::queue::QueueLimits;
use base::slab::Key;
use base::time::{Instant, Now};
use model::event::{Counter, DeviceEvent, DeviceWhat};
use model::id::DeviceId;
use model::ports::pushes::{PushAnswer, PushOrder, PushTarget};
use model::presence::PresenceVersion;
use model::pressure::Pressure;
use model::product::Product;
use model::push::{Outcome, Push, Rejection};
use model::timeline::Seq;
use model::topic::{Publication, Qos};
use std::sync::Arc;
use std::time::Duration;

/// Longest time an answer waits for acknowledgements, milliseconds. A longer wish is cut.
const WAIT_MS_MAX: u32 = 60_000;

/// What a push that is for now or never is given to be acknowledged, milliseconds, when the order
/// does not want to wait: without it, its outcome could not be known.
const NOW_OR_NEVER_MS: u32 = 1_000;

/// A push, and who wants to know of its end.
#[derive(Clone)]
pub(crate) struct Sending {
    /// The push.
    pub push: Arc<Push>,
    /// Its end at each device is told as an event.
    pub receipts: bool,
    /// It is a fan-out: a job counts the outcomes. Otherwise an order waits for each of them.
    pub counted: bool,
}

impl Hub {
    /// The API orders a push.
    pub(crate) fn push(&mut self, now: Now, reply: u64, order: PushOrder, fx: &mut Effects) {
        let Some(number) = self.registry.products.number(&order.product) else {
            return fx.answers.push((reply, PushAnswer::UnknownProduct));
        };
        let product = self.registry.products.of(number).clone();
        let (receipts, wait_ms) = (order.receipts, order.wait_ms.min(WAIT_MS_MAX));
        let home = self.settings.home;
        let live_s = order.time_to_live_s.min(product.time_to_live_max_s);
        let (order_home, named) =
            (orders::order_home(home, &order), orders::named(home, &order, live_s));
        let (push, target, order_key) = make(now, order, &product);
        let tag = match target {
            PushTarget::Devices(devices) => {
                let least_ms = if push.stores() { 0 } else { NOW_OR_NEVER_MS };
                let until = now.after(Duration::from_millis(wait_ms.max(least_ms).into()));
                let sending = Sending { push: Arc::new(push), receipts, counted: false };
                let devices = (number, sorted(devices));
                return match order_key {
                    None => self.push_to_list(now, (reply, until), devices, sending, fx),
                    Some(key) => self.claim(now, (reply, until), devices, (sending, &key), fx),
                };
            }
            PushTarget::Tag(tag) => Some(tag),
            PushTarget::Product => None,
        };
        let (push, at_s) = (Arc::new(push), now.unix_s());
        let order = orders::StoredOrder { push, tag, receipts, at_s, home: order_home, named };
        self.take_order(now, reply, order, fx);
    }

    /// Takes a push on for a device, or says what becomes of it at once.
    pub(crate) fn place(
        &mut self,
        now: Now,
        key: Key,
        sending: &Sending,
        fx: &mut Effects,
    ) -> Option<Outcome> {
        let room = match self.judge(now, key, sending, fx) {
            Ok(room) => room,
            Err(outcome) => return Some(self.tell_outcome(now, key, (sending, outcome), fx)),
        };
        let Sending { push, receipts, counted } = sending;
        let watch = Watch { answers: !counted, counted: *counted, receipts: *receipts };
        self.take_in(now, (key, room), (push, watch, Kept::No), fx);
        None
    }

    /// Puts a push that was judged into a device's queue, and sends it if it can.
    pub(crate) fn take_in(
        &mut self,
        now: Now,
        (key, room): (Key, QueueLimits),
        (push, watch, kept): (&Arc<Push>, Watch, Kept),
        fx: &mut Effects,
    ) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let (online, queue) = (device.conn().is_some(), &mut device.extra().queue);
        // Whoever has something that may wait keeps it until the log has what replaces it, for that
        // may be refused.
        let (mut replaced, mut evicted) = (Vec::new(), Vec::new());
        queue.collapse(push, push.stores() && kept == Kept::No, &mut replaced);
        let stays = queue.collapsing(push).is_some();
        while let Some(item) = queue.victim(room, push) {
            evicted.push(item);
        }
        let id = push.id;
        let mut item = Item::new(push, watch);
        item.set_kept(kept);
        if !online {
            item.shed();
        }
        self.waiting += 1;
        self.waiting_bytes += push.weight() as u64;
        queue.insert(item);
        self.pump(now, key, fx);
        let queue = self.registry.at_mut(key).and_then(|device| device.queue_mut());
        let went = queue.and_then(|queue| queue.find(id)).is_some_and(|item| item.times > 0);
        // An acknowledgement spares the log the trouble, if one may come soon. But what takes the
        // place of something that is kept is kept before that is over: a kill must leave one.
        let waits_for_ack = online && (watch.answers || went);
        let mut others = evicted.iter().chain(&replaced);
        let in_place = stays || others.any(|item| item.kept() != Kept::No);
        if push.stores() && (!waits_for_ack || in_place) {
            self.keep(now, key, id, fx);
        }
        for item in evicted {
            self.end(now, key, item, Outcome::Rejected(Rejection::Evicted), fx);
        }
        for item in replaced {
            self.end(now, key, item, Outcome::Rejected(Rejection::Collapsed), fx);
        }
    }

    /// Gives an item that left its queue its outcome.
    pub(crate) fn end(
        &mut self,
        now: Now,
        key: Key,
        item: Item,
        outcome: Outcome,
        fx: &mut Effects,
    ) {
        // What is asked of the log and not answered is told it then.
        let seq = match item.kept() {
            Kept::At(seq) => Some(seq),
            Kept::No | Kept::Asked => None,
        };
        self.finish(now, key, (&item, seq, outcome), fx);
    }

    /// The same, when the log hears of it in another way.
    pub(crate) fn end_unlogged(
        &mut self,
        now: Now,
        key: Key,
        item: &Item,
        outcome: Outcome,
        fx: &mut Effects,
    ) {
        self.finish(now, key, (item, None, outcome), fx);
    }

    /// `seq`: where the log has it and is to remove it.
    fn finish(
        &mut self,
        now: Now,
        key: Key,
        (item, seq, outcome): (&Item, Option<Seq>, Outcome),
        fx: &mut Effects,
    ) {
        let (id, watch) = (item.id, item.watch());
        self.waiting -= 1;
        self.waiting_bytes -= item.weight() as u64;
        fx.counters.count(counter(outcome));
        let is_counted = watch.counted && self.jobs.at(id).is_some();
        if is_counted {
            self.jobs.ended(id, matches!(item.kept(), Kept::At(_)), outcome);
            self.settle_order(now, (key, id), (seq, Some(outcome)));
        } else if let Some(seq) = seq {
            self.enter_remove(key, seq, fx);
        }
        if watch.answers {
            self.settle(key, id, outcome, fx);
        }
        if watch.receipts {
            self.event(now, key, || DeviceWhat::Pushed { id, outcome }, fx);
        }
    }

    /// The device is away: what the log does not know yet goes there, what is for now is over, and
    /// bodies that the log has are let go.
    pub(crate) fn park(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(queue) = device.queue_mut() else { return };
        queue.shed();
        let open = queue.items().filter(|item| item.kept() == Kept::No);
        let open: Vec<_> = open.map(|item| (item.id, item.stores())).collect();
        let over = open.iter().filter(|(_, stores)| !stores);
        let over: Vec<_> = over.filter_map(|&(id, _)| queue.remove(id)).collect();
        for item in over {
            self.end(now, key, item, Outcome::Expired, fx);
        }
        for (id, _) in open.into_iter().filter(|(_, stores)| *stores) {
            self.keep(now, key, id, fx);
        }
    }

    /// What the device's queue has too long is over.
    pub(crate) fn expire_queue(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(queue) = device.queue_mut() else { return };
        let mut over = Vec::new();
        queue.expire(now.unix_s(), &mut over);
        for item in over {
            self.end(now, key, item, Outcome::Expired, fx);
        }
    }

    /// Whether a push may take a place, or what becomes of it without one.
    pub(crate) fn judge(
        &self,
        now: Now,
        key: Key,
        sending: &Sending,
        fx: &mut Effects,
    ) -> Result<QueueLimits, Outcome> {
        let rejected = |why| Err(Outcome::Rejected(why));
        let Some(device) = self.registry.at(key) else {
            return rejected(Rejection::UnknownDevice);
        };
        let (product, push) = (self.registry.products.of(device.product), &*sending.push);
        if device.blocked() {
            return rejected(Rejection::DeviceBlocked);
        }
        if device.presence() == BindState::Never && !product.store_for_unknown {
            return rejected(Rejection::UnknownDevice);
        }
        let ahead = device.queue().map_or(0, |queue| queue.inflight() + queue.to_send());
        let goes_now = device.conn().is_some() && ahead < usize::from(device.window);
        if push.expired(now.unix_s()) || (!push.stores() && !goes_now) {
            return Err(Outcome::Expired);
        }
        let (empty, room) = (Default::default(), room(product));
        let queue = device.queue().unwrap_or(&empty);
        if !queue.admits(room, push, queue.collapsing(push)) {
            return rejected(Rejection::QueueFull);
        }
        if self.pressure >= Pressure::Stores && !goes_now {
            fx.counters.count(Counter::PressedStores);
            return rejected(Rejection::StoreFull);
        }
        if self.waiting_bytes + push.weight() as u64 > self.settings.offline_bytes_max {
            return rejected(Rejection::StoreFull);
        }
        if push.stores() && !self.tickets.have_room(1) {
            return rejected(Rejection::Busy);
        }
        Ok(room)
    }

    /// Sends a push to devices of a list without repetitions.
    pub(crate) fn push_to_list(
        &mut self,
        now: Now,
        (reply, until): (u64, Instant),
        (number, devices): (u16, Vec<DeviceId>),
        sending: Sending,
        fx: &mut Effects,
    ) {
        let id = sending.push.id;
        if !self.waits.has_room(id, devices.len()) {
            return fx.answers.push((reply, PushAnswer::Busy));
        }
        let (mut open, mut outcomes) = (Vec::new(), Vec::new());
        for device in devices {
            match self.place_by_name(now, (number, &device), &sending, fx) {
                Ok(key) => open.push(key),
                Err(outcome) => outcomes.push((device, outcome)),
            }
        }
        self.await_outcomes(until, (reply, id), (open, outcomes), fx);
        if until <= now.mono {
            self.stop_waiting(now, id, fx);
        }
    }

    fn place_by_name(
        &mut self,
        now: Now,
        (number, id): (u16, &DeviceId),
        sending: &Sending,
        fx: &mut Effects,
    ) -> Result<Key, Outcome> {
        self.mirror(now, (number, id), &sending.push, fx);
        let (key, is_new) = self.find_place(now, (number, id), sending, fx)?;
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

    /// Has a push for a device published on its product's topic too, whatever becomes of it at
    /// the device: only one that is blocked, or whose time is over, is told nothing anywhere.
    pub(crate) fn mirror(
        &self,
        now: Now,
        (number, id): (u16, &DeviceId),
        push: &Arc<Push>,
        fx: &mut Effects,
    ) {
        let product = self.registry.products.of(number);
        if product.topic.is_none() || push.expired(now.unix_s()) {
            return;
        }
        let key = self.registry.find(number, id.as_str());
        let blocked = key.and_then(|key| self.registry.at(key)).is_some_and(|it| it.blocked());
        if let Some(topic) = product.topic_of(id).filter(|_| !blocked) {
            let mut message = Publication::new(&topic, &[], &push.body);
            message.qos = if push.stores() { Qos::AtLeastOnce } else { Qos::AtMostOnce };
            message.expire_at = push.expire_at;
            fx.publications.push(message);
        }
    }

    /// The same for a device with a record.
    pub(crate) fn mirror_at(&self, now: Now, key: Key, push: &Arc<Push>, fx: &mut Effects) {
        let Some(number) = self.registry.at(key).map(|device| device.product) else { return };
        if self.registry.products.of(number).topic.is_some()
            && let Some((_, id)) = self.registry.names(key)
        {
            self.mirror(now, (number, &id), push, fx);
        }
    }

    /// The device's record, and whether it was made for this push; or what becomes of the push,
    /// which has been told then.
    pub(crate) fn find_place(
        &mut self,
        now: Now,
        (number, id): (u16, &DeviceId),
        sending: &Sending,
        fx: &mut Effects,
    ) -> Result<(Key, bool), Outcome> {
        if let Some(key) = self.registry.find(number, id.as_str()) {
            return Ok((key, false));
        }
        let product = self.registry.products.of(number);
        let outcome = match (product.store_for_unknown, sending.push.stores()) {
            (false, _) => Outcome::Rejected(Rejection::UnknownDevice),
            (true, false) => Outcome::Expired,
            (true, true) => match self.find_or_make(now, number, id.as_str()) {
                Some(key) => return Ok((key, true)),
                None => Outcome::Rejected(Rejection::StoreFull),
            },
        };
        fx.counters.count(counter(outcome));
        if sending.receipts {
            let (at_ms, product, device) = (now.wall_ms, sending.push.product.clone(), id.clone());
            let what = DeviceWhat::Pushed { id: sending.push.id, outcome };
            let (epoch, version) = (0, PresenceVersion::default());
            fx.tell(DeviceEvent { at_ms, product, device, epoch, version, what });
        }
        Err(outcome)
    }

    /// Says of a push that takes no place what becomes of it.
    pub(crate) fn tell_outcome(
        &mut self,
        now: Now,
        key: Key,
        (sending, outcome): (&Sending, Outcome),
        fx: &mut Effects,
    ) -> Outcome {
        fx.counters.count(counter(outcome));
        if sending.receipts {
            let id = sending.push.id;
            self.event(now, key, || DeviceWhat::Pushed { id, outcome }, fx);
        }
        outcome
    }
}

fn sorted(mut devices: Vec<DeviceId>) -> Vec<DeviceId> {
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// The push of an order. The end of one with an idempotency key is told from the time in its id:
/// what is the same in a repeated order must be found out without the clock.
fn make(now: Now, order: PushOrder, product: &Product) -> (Push, PushTarget, Option<Box<str>>) {
    let live_s = order.time_to_live_s.min(product.time_to_live_max_s);
    let from_s = match &order.idempotency_key {
        Some(_) => made_s(order.id),
        None => now.unix_s(),
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
    };
    (push, order.target, order.idempotency_key)
}

fn room(product: &Product) -> QueueLimits {
    QueueLimits {
        count_max: product.offline_count_max.min(Product::OFFLINE_COUNT_HARD_MAX) as usize,
        bytes_max: product.offline_bytes_max as usize,
    }
}

fn counter(outcome: Outcome) -> Counter {
    match outcome {
        Outcome::Delivered => Counter::PushesDelivered,
        Outcome::Stored => Counter::PushesStored,
        Outcome::Expired => Counter::PushesExpired,
        Outcome::Rejected(Rejection::Evicted) => Counter::PushesEvicted,
        Outcome::Rejected(Rejection::Collapsed) => Counter::PushesCollapsed,
        Outcome::Rejected(_) => Counter::PushesRejected,
    }
}

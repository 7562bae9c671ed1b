//! A push finds its place at a device, and its end.
//!
//! `place` takes a push on, or says at once what becomes of it; `end` is the only way out of a
//! queue. Between them the push is in exactly one queue, on the way or waiting. A push that is for
//! now or never takes a place only if it can be sent now. A push is handed to the log only when it
//! has to wait: one that is acknowledged while its sender waits never gets there. The end of one
//! whose place in the log is not known yet is told the log when it is.

use crate::log::rejection;
use crate::registry::DeviceName;
use crate::registry::device::BindState;
use crate::registry::item::{Item, Kept, Watch};
use crate::registry::queue::QueueLimits;
use crate::{Effects, Hub};
use base::never;
use base::slab::Key;
use base::time::Now;
use model::counters::{ProcessCounter, PushCounter};
use model::id::MessageId;
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::ports::log::{Done, StoreError};
use model::presence::PresenceVersion;
use model::product::Product;
use model::push::{Outcome, Push, Rejection};
use model::timeline::Seq;
use model::topic::{Publication, Qos};
use std::sync::Arc;

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

/// Place of a push that was judged.
pub(crate) struct Placing {
    /// Bounds of the device's queue.
    pub room: QueueLimits,
    /// Who wants to know of its end.
    pub watch: Watch,
    /// Whether the log has it already.
    pub kept: Kept,
}

/// End of a push at a device.
struct Ended<'a> {
    item: &'a Item,
    /// Where the log has it and is to remove it.
    seq: Option<Seq>,
    outcome: Outcome,
}

impl Hub {
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
            Err(outcome) => return Some(self.tell_outcome(now, key, sending, outcome, fx)),
        };
        let Sending { push, receipts, counted } = sending;
        let watch = Watch { answers: !counted, counted: *counted, receipts: *receipts };
        self.take_in(now, key, push, Placing { room, watch, kept: Kept::No }, fx);
        None
    }

    /// Puts a push that was judged into a device's queue, and sends it if it can.
    pub(crate) fn take_in(
        &mut self,
        now: Now,
        key: Key,
        push: &Arc<Push>,
        placing: Placing,
        fx: &mut Effects,
    ) {
        let Placing { room, watch, kept } = placing;
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
        self.queues.came(push.weight());
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
        self.finish(now, key, Ended { item: &item, seq, outcome }, fx);
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
        self.finish(now, key, Ended { item, seq: None, outcome }, fx);
    }

    fn finish(&mut self, now: Now, key: Key, ended: Ended<'_>, fx: &mut Effects) {
        let Ended { item, seq, outcome } = ended;
        let (id, watch) = (item.id, item.watch());
        self.queues.left(item.weight());
        fx.counters.count(counter(outcome));
        let (is_recall, was_stored) = (self.jobs.is_recall(id), matches!(item.kept(), Kept::At(_)));
        let is_counted = is_recall || (watch.counted && self.jobs.at(id).is_some());
        if is_counted {
            if is_recall {
                self.jobs.matched(id, was_stored.then_some(Outcome::Stored));
            }
            self.jobs.ended(id, was_stored, outcome);
            self.settle_order(now, key, id, seq, Some(outcome));
        } else if let Some(seq) = seq {
            self.remove_kept(key, seq, fx);
        }
        if watch.answers {
            self.settle(key, id, outcome, fx);
        }
        if watch.receipts {
            self.registry.tell(now, key, || DeviceWhat::Pushed { id, outcome }, fx);
        }
    }

    /// Asks the log to keep a push that waits, unless it was asked before. When no more may wait
    /// for the log, the push is over.
    pub(crate) fn keep(&mut self, now: Now, key: Key, id: MessageId, fx: &mut Effects) {
        let room = self.log.has_room(1);
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(queue) = device.queue_mut() else { return };
        let Some(item) = queue.find(id).filter(|item| item.kept() == Kept::No) else { return };
        let Some(push) = item.push().filter(|_| room).cloned() else {
            let Some(item) = queue.remove(id) else { return };
            return self.end(now, key, item, Outcome::Rejected(Rejection::Busy), fx);
        };
        item.set_kept(Kept::Asked);
        device.extra().asked += 1;
        self.ensure_row(key, fx);
        if let Some(timeline) = self.registry.timeline(key) {
            self.log.append(now, &push, key, timeline, fx);
        }
    }

    /// An append was answered: for each device, where the push stands in its timeline.
    pub(crate) fn kept(
        &mut self,
        now: Now,
        id: MessageId,
        keys: Vec<Key>,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let result = match result {
            Ok(Done::Appended(appended)) => Ok(appended.seqs),
            Ok(other) => {
                never!(true, "an append was answered by {other:?}");
                Err(StoreError::Failed)
            }
            Err(error) => Err(error),
        };
        for (at, key) in keys.into_iter().enumerate() {
            // Whoever is gone was forgotten after the append, and the push with it.
            let Some(device) = self.registry.at_mut(key) else { continue };
            device.extra().asked -= 1;
            match &result {
                Ok(seqs) => {
                    let Some(&seq) = seqs.get(at) else { continue };
                    if device.rowed() {
                        self.stored(now, key, id, seq, fx);
                    } else {
                        // Its row was refused: it could not be found again.
                        self.remove_kept(key, seq, fx);
                        self.not_stored(now, key, id, StoreError::Busy, fx);
                    }
                }
                Err(error) => self.not_stored(now, key, id, *error, fx),
            }
            self.registry.release(now, key);
        }
    }

    /// The log has a push of a device, there.
    fn stored(&mut self, now: Now, key: Key, id: MessageId, seq: Seq, fx: &mut Effects) {
        fx.counters.count(PushCounter::Stored);
        let Some(device) = self.registry.at_mut(key) else { return };
        let online = device.conn().is_some();
        let item = device.queue_mut().and_then(|queue| queue.find(id));
        let Some(item) = item.filter(|item| item.kept() == Kept::Asked) else {
            // It is over by now, and nobody could say so before.
            return match self.jobs.at(id) {
                Some(_) => self.settle_order(now, key, id, Some(seq), None),
                None => self.remove_kept(key, seq, fx),
            };
        };
        item.set_kept(Kept::At(seq));
        let push = item.push().filter(|push| push.collapse.is_some()).cloned();
        if !online {
            item.shed();
        }
        let (counted, answers) = (item.watch().counted, item.stop_answering());
        let mut replaced = Vec::new();
        if let (Some(push), Some(queue)) = (push, device.queue_mut()) {
            queue.collapse(&push, false, &mut replaced);
        }
        for item in replaced {
            self.end(now, key, item, Outcome::Rejected(Rejection::Collapsed), fx);
        }
        if counted {
            self.jobs.stored(id);
            self.jobs.look(id, now.mono);
        }
        if answers {
            self.settle(key, id, Outcome::Stored, fx);
        }
    }

    /// The log did not take a push of a device.
    fn not_stored(
        &mut self,
        now: Now,
        key: Key,
        id: MessageId,
        error: StoreError,
        fx: &mut Effects,
    ) {
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        if queue.find(id).is_none_or(|item| item.kept() != Kept::Asked) {
            return;
        }
        let Some(item) = queue.remove(id) else { return };
        self.end(now, key, item, Outcome::Rejected(rejection(error)), fx);
        self.pump(now, key, fx);
    }

    /// A push that the log keeps for a device is over.
    pub(crate) fn remove_kept(&mut self, key: Key, seq: Seq, fx: &mut Effects) {
        if let Some(timeline) = self.registry.timeline(key) {
            self.log.remove(timeline, vec![seq], fx);
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

    /// Whether a push may take a place, or what becomes of it without one. What has expired in the
    /// device's queue takes none.
    pub(crate) fn judge(
        &mut self,
        now: Now,
        key: Key,
        sending: &Sending,
        fx: &mut Effects,
    ) -> Result<QueueLimits, Outcome> {
        let rejected = |why| Err(Outcome::Rejected(why));
        self.expire_queue(now, key, fx);
        let Some(device) = self.registry.at(key) else {
            return rejected(Rejection::UnknownDevice);
        };
        let (product, push) = (self.registry.products.of(device.product), &*sending.push);
        if self.jobs.is_cancelled(push.id, Some(&product.key)) {
            return rejected(Rejection::Cancelled);
        }
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
        // The later order holds, whichever of the two comes to the device first.
        if queue.collapsing(push).is_some_and(|item| item.id > push.id) {
            return rejected(Rejection::Collapsed);
        }
        if !queue.admits(room, push, queue.collapsing(push)) {
            return rejected(Rejection::QueueFull);
        }
        if self.queues.is_pressed() && !goes_now {
            fx.counters.count(ProcessCounter::PressedStores);
            return rejected(Rejection::StoreFull);
        }
        if !self.queues.has_room(push.weight()) {
            return rejected(Rejection::StoreFull);
        }
        if push.stores() && !self.log.has_room(1) {
            return rejected(Rejection::Busy);
        }
        Ok(room)
    }

    /// Has a push for a device published on its product's topic too, whatever becomes of it at
    /// the device: only one that is blocked, or whose time is over, is told nothing anywhere.
    pub(crate) fn mirror(&self, now: Now, to: DeviceName<'_>, push: &Arc<Push>, fx: &mut Effects) {
        let product = self.registry.products.of(to.product);
        if product.topic.is_none() || push.expired(now.unix_s()) {
            return;
        }
        let key = self.registry.find(to.product, to.id.as_str());
        let blocked = key.and_then(|key| self.registry.at(key)).is_some_and(|it| it.blocked());
        if let Some(topic) = product.topic_of(to.id).filter(|_| !blocked) {
            let mut message = Publication::new(&topic, &[], &push.body);
            message.qos = if push.stores() { Qos::AtLeastOnce } else { Qos::AtMostOnce };
            message.expire_at = push.expire_at;
            fx.publications.push(message);
        }
    }

    /// The same for a device with a record.
    pub(crate) fn mirror_at(&self, now: Now, key: Key, push: &Arc<Push>, fx: &mut Effects) {
        let Some(product) = self.registry.at(key).map(|device| device.product) else { return };
        if self.registry.products.of(product).topic.is_some()
            && let Some((_, id)) = self.registry.names(key)
        {
            self.mirror(now, DeviceName { product, id: &id }, push, fx);
        }
    }

    /// The device's record, and whether it was made for this push; or what becomes of the push,
    /// which has been told then.
    pub(crate) fn find_place(
        &mut self,
        now: Now,
        to: DeviceName<'_>,
        sending: &Sending,
        fx: &mut Effects,
    ) -> Result<(Key, bool), Outcome> {
        if let Some(key) = self.registry.find(to.product, to.id.as_str()) {
            return Ok((key, false));
        }
        let product = self.registry.products.of(to.product);
        let outcome = match (product.store_for_unknown, sending.push.stores()) {
            (false, _) => Outcome::Rejected(Rejection::UnknownDevice),
            (true, false) => Outcome::Expired,
            (true, true) => match self.find_or_make(now, to.product, to.id.as_str()) {
                Some(key) => return Ok((key, true)),
                None => Outcome::Rejected(Rejection::StoreFull),
            },
        };
        fx.counters.count(counter(outcome));
        if sending.receipts {
            let product = sending.push.product.clone();
            let (at_ms, device) = (now.wall_ms, to.id.clone());
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
        sending: &Sending,
        outcome: Outcome,
        fx: &mut Effects,
    ) -> Outcome {
        fx.counters.count(counter(outcome));
        if sending.receipts {
            let id = sending.push.id;
            self.registry.tell(now, key, || DeviceWhat::Pushed { id, outcome }, fx);
        }
        outcome
    }
}

fn room(product: &Product) -> QueueLimits {
    QueueLimits {
        count_max: product.offline_count_max.min(Product::OFFLINE_COUNT_HARD_MAX) as usize,
        bytes_max: product.offline_bytes_max as usize,
    }
}

fn counter(outcome: Outcome) -> PushCounter {
    match outcome {
        Outcome::Delivered => PushCounter::Delivered,
        Outcome::Stored => PushCounter::Stored,
        Outcome::Expired => PushCounter::Expired,
        Outcome::Rejected(Rejection::Evicted) => PushCounter::Evicted,
        Outcome::Rejected(Rejection::Collapsed) => PushCounter::Collapsed,
        Outcome::Rejected(Rejection::Cancelled) => PushCounter::Cancelled,
        Outcome::Rejected(_) => PushCounter::Rejected,
    }
}

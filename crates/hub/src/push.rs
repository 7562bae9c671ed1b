//! A push at one device: how it enters the queue, and how it ends.
//!
//! `place` accepts a push, or returns its outcome at once; `end` is the only way out of a queue.
//! Between them the push is in exactly one queue, in flight or waiting. A push with time to live 0
//! is accepted only if it can be sent now. A push is handed to the log only when it has to wait:
//! one that is acknowledged while its sender waits never gets there. If a push ends before the log
//! has told its offset, it is removed from the log once the offset is known.

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
use model::id::{DeviceUser, MessageId};
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::ports::log::{Done, StoreError};
use model::presence::PresenceVersion;
use model::product::Product;
use model::push::{Outcome, Push, Rejection};
use model::timeline::Seq;
use model::topic::{Publication, Qos};
use std::sync::Arc;

/// A push, and who is notified when it ends.
#[derive(Clone)]
pub(crate) struct Sending {
    /// The push.
    pub push: Arc<Push>,
    /// Devices that do not belong to this user refuse the push.
    pub user: Option<DeviceUser>,
    /// The push's outcome at each device is published as an event.
    pub receipts: bool,
    /// The push is a fan-out: a job counts the outcomes. Otherwise an order waits for each of them.
    pub counted: bool,
    /// An unknown device gets a record, if its product stores pushes for unknown devices.
    pub registers: bool,
}

/// How a judged push is put into a queue.
pub(crate) struct Placing {
    /// Bounds of the device's queue.
    pub room: QueueLimits,
    /// Parties to notify when the push ends.
    pub watch: Watch,
    /// Whether the log has stored the push already.
    pub kept: Kept,
}

/// A push that ended at a device.
struct Ended<'a> {
    item: &'a Item,
    /// Offset of the push's copy in the device's timeline, if the log is to remove it.
    seq: Option<Seq>,
    outcome: Outcome,
}

impl Hub {
    /// Accepts a push for a device, or returns its outcome at once.
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
        let Sending { push, receipts, counted, .. } = sending;
        let watch = Watch { answers: !counted, counted: *counted, receipts: *receipts };
        self.take_in(now, key, push, Placing { room, watch, kept: Kept::No }, fx);
        None
    }

    /// Puts a judged push into a device's queue, and sends it if possible.
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
        // A queued push that is stored stays until the log has stored the one that replaces it,
        // because the log may refuse that one.
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
        // If an acknowledgement may come soon, storing is put off, as it may spare the log the
        // write. But a push that replaces a stored one is stored before the old one ends, so that a
        // kill leaves one of them.
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
        if !online {
            self.reach(now, key, fx);
        }
    }

    /// Ends an item that left its queue, with this outcome.
    pub(crate) fn end(
        &mut self,
        now: Now,
        key: Key,
        item: Item,
        outcome: Outcome,
        fx: &mut Effects,
    ) {
        // If the append is still unanswered, its completion removes the copy (`stored`).
        let seq = match item.kept() {
            Kept::At(seq) => Some(seq),
            Kept::No | Kept::Asked => None,
        };
        self.finish(now, key, Ended { item: &item, seq, outcome }, fx);
    }

    /// Ends an item like [`end`](Hub::end), but leaves its copy in the log to the caller.
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
        self.withdraw(key, Some(id));
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

    /// Asks the log to store a waiting push, unless it was asked before. If too many pushes wait
    /// for the log, the push is rejected as Busy.
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

    /// Handles the log's answer to an append, with the push's offset in each device's timeline.
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
            // A device that is gone was forgotten after the append, together with its push.
            let Some(device) = self.registry.at_mut(key) else { continue };
            device.extra().asked -= 1;
            match &result {
                Ok(seqs) => {
                    let Some(&seq) = seqs.get(at) else { continue };
                    if device.rowed() {
                        self.stored(now, key, id, seq, fx);
                    } else {
                        // The device's row was refused: after a restart the push could not be
                        // found.
                        self.remove_kept(key, seq, fx);
                        self.not_stored(now, key, id, StoreError::Busy, fx);
                    }
                }
                Err(error) => self.not_stored(now, key, id, *error, fx),
            }
            self.registry.release(now, key);
        }
    }

    /// Handles a stored push of a device, at this offset.
    fn stored(&mut self, now: Now, key: Key, id: MessageId, seq: Seq, fx: &mut Effects) {
        fx.counters.count(PushCounter::Stored);
        let Some(device) = self.registry.at_mut(key) else { return };
        let online = device.conn().is_some();
        let item = device.queue_mut().and_then(|queue| queue.find(id));
        let Some(item) = item.filter(|item| item.kept() == Kept::Asked) else {
            // The push has ended meanwhile, when its offset was not known yet.
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
            if self.jobs.is_tracked(id) {
                self.settle_order(now, key, id, None, Some(Outcome::Stored));
            }
        }
        if answers {
            self.settle(key, id, Outcome::Stored, fx);
        }
        if !online {
            self.reach(now, key, fx);
        }
    }

    /// Handles a push of a device that the log refused.
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

    /// Asks the log to remove a stored push that ended at a device.
    pub(crate) fn remove_kept(&mut self, key: Key, seq: Seq, fx: &mut Effects) {
        if let Some(timeline) = self.registry.timeline(key) {
            self.log.remove(timeline, vec![seq], fx);
        }
    }

    /// Handles a device that went offline: unstored pushes go to the log, pushes with time to live
    /// 0 end, and bodies that the log has are freed.
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

    /// Ends the expired pushes in a device's queue.
    pub(crate) fn expire_queue(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(queue) = device.queue_mut() else { return };
        let mut over = Vec::new();
        queue.expire(now.unix_s(), &mut over);
        for item in over {
            self.end(now, key, item, Outcome::Expired, fx);
        }
    }

    /// The room for a push in a device's queue, or its outcome if it may not enter. Expired pushes
    /// leave the queue first.
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
        if !self.is_for(key, sending) {
            return rejected(Rejection::UserChanged);
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
        // The later order wins, whichever of the two visits the device first.
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

    /// Whether a device belongs to the user of a push, if the push is for one.
    pub(crate) fn is_for(&self, key: Key, sending: &Sending) -> bool {
        sending.user.as_ref().is_none_or(|user| self.registry.belongs_to(key, user))
    }

    /// Publishes a device's push on its product's topic too, whatever its outcome at the device;
    /// not if the device is blocked or the push has expired.
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

    /// Publishes a push on the topic, for a device with a record.
    pub(crate) fn mirror_at(&self, now: Now, key: Key, push: &Arc<Push>, fx: &mut Effects) {
        let Some(product) = self.registry.at(key).map(|device| device.product) else { return };
        if self.registry.products.of(product).topic.is_some()
            && let Some((_, id)) = self.registry.names(key)
        {
            self.mirror(now, DeviceName { product, id: &id }, push, fx);
        }
    }

    /// The device's record, and whether it was made for this push; or the outcome of the push,
    /// which has been reported then.
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
        let registers = product.store_for_unknown && sending.registers;
        let outcome = match (registers, sending.push.stores()) {
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

    /// Reports the outcome of a push that does not enter a queue.
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

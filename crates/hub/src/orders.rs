//! Orders to many devices: their owner, their distribution to all shards, and their end. Pushes to
//! a tag or a product are such orders, and so are cancels.
//!
//! ```text
//!  owner                                   each other shard
//!  order on stable storage
//!  ── Take ───────────────────────────────► order on stable storage
//!  the API is answered ◄──────── Taken ──── scans its devices
//!  scans its devices   ◄────────  Over ──── each has it, or has it stored
//!  counts on stable storage
//!  ── Close ──────────────────────────────► counts on stable storage
//! ```
//! The owner's copy on stable storage is the promise: a message that is lost on the way, by a kill
//! or because another shard's log is full, is repeated until that shard has stored the order. A
//! shard that has stored it already says so and does nothing twice. If such a shard is silent, the
//! owner asks for its progress, and gives it up if it stays silent: by then that shard has stored
//! the order itself, and it learns that the order is closed when it reports that it is over. A row
//! records each device reached before the device's copy leaves the log, so a restart continues
//! exactly where a kill stopped the order; a device that is registered or retagged while an order
//! is open is finished with that order first ([`Hub::go_ahead`]). The hash of an order's
//! idempotency key, if it has one, chooses its owner, so a repeated order comes to the same shard.
//!
//! The hash of the push chooses the owner of a cancel. Once a shard has stored the cancel, the
//! push's scan ends there, nothing queues that push any more, not even a restart, and a scan
//! recalls it from the queues. The cancel is answered when all shards are through. If none of them
//! knows the push, the cancel is forgotten.

mod columns;
pub(crate) mod exchange;
pub(crate) mod jobs;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod outcomes;
pub(crate) mod scans;
pub(crate) mod waves;

use crate::access::terms;
use crate::log::cleanup::CleanupTask;
use crate::log::durable::order::{Change, ChangeKind, Ordered};
use crate::push::Sending;
use crate::registry::DeviceName;
use crate::session::Farewell;
use crate::{Effects, Hub, Settings};
use base::encoding::Encoding;
use base::slab::Key;
use base::time::{Instant, Now, earliest};
use columns::end_of;
use model::id::{DeviceId, MessageId, ProductKey, ShardId};
use model::ports::pushes::{AudienceCounts, DeviceStep, PushAnswer, PushCounts, PushTarget};
use model::presence::PresenceVersion;
use model::push::{Outcome, PushStep, Rejection};
use model::request::{HeartbeatWish, PushDelivery, Refusal, owner};
use model::timeline::{Seq, TimelineId};
use names::name_of_cancel;
use open::Settled;
use scans::{Counting, DeviceScan, Errand, Pace, Selection, Share, Step};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use waves::WaveZones;

pub use crate::log::durable::order::StoredOrder;
pub use names::{cancel_home, order_home};

/// Most orders that one turn advances.
const LOOKS_MAX: usize = 64;

/// Most slots that scans visit in a turn, including those of other products.
const VISITS_MAX: usize = 4_096;

/// Longest pause of a fan-out before it checks again whether the store has caught up.
const PAUSE: Duration = Duration::from_millis(10);

/// Longest time between two looks at the clock while an order is scheduled.
const LOOK: Duration = Duration::from_millis(500);

/// Message between hubs about an order.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Take = 0, Taken = 1, Over = 2, Close = 3, Forget = 4)]
pub enum OrderMessage {
    /// From the owner: store this order, and report when your devices are done.
    Take(Arc<StoredOrder>),
    /// To the owner: the order is on my stable storage (true), or cannot be now (false).
    Taken(MessageId, bool),
    /// To the owner: at all my devices the push has ended or is stored. For a change: it is done;
    /// the flag says whether I know its push.
    Over(MessageId, bool),
    /// From the owner: all shards are through. For a cancel, the flag says whether to remember it.
    Close(MessageId, bool),
    /// The lines of tracked pushes are too many at another shard: forget this one, which is over.
    Forget(MessageId),
}

impl Hub {
    /// Handles a message of another shard about an order.
    pub fn peer_message(
        &mut self,
        now: Now,
        from: ShardId,
        message: OrderMessage,
        fx: &mut Effects,
    ) {
        match message {
            OrderMessage::Take(order) => {
                let id = order.id;
                let is_answered = self.jobs.at(id).is_some() || self.log.has_failed();
                if !is_answered && order.product().is_some_and(|of| !self.may_take(id, of)) {
                    return fx.peer_messages.push((from, OrderMessage::Over(id, false)));
                }
                self.jobs.told_to_take(now, from, order, &mut self.log, fx);
            }
            OrderMessage::Taken(id, is_taken) => {
                self.jobs.taken(now, from, id, is_taken);
                self.jobs.answer_order(id, fx);
            }
            OrderMessage::Over(id, is_known) => match self.jobs.over(now, from, id, is_known) {
                true => self.jobs.answer_order(id, fx),
                false => {
                    let keeps = self.jobs.at(id).is_some();
                    fx.peer_messages.push((from, OrderMessage::Close(id, keeps)));
                }
            },
            OrderMessage::Forget(id) => self.jobs.told_to_forget(id),
            OrderMessage::Close(id, keeps) => {
                let is_change = self.jobs.at(id).is_some_and(|job| job.changes.is_some());
                match is_change && !keeps {
                    true => self.jobs.drop_change(id, &mut self.log, fx),
                    false => self.close_order(id, fx),
                }
            }
        }
    }

    /// Executes a command of the API that changes a push; this shard owns the change.
    pub(crate) fn change_push(
        &mut self,
        now: Now,
        (reply, id): (u64, MessageId),
        change: Change,
        fx: &mut Effects,
    ) {
        let (at_s, home, push) = (now.unix_s(), self.settings.home, change.push);
        // Only cancels have a name: a push may be paused again after it was resumed.
        let is_cancel = change.kind == ChangeKind::Cancel;
        let named = is_cancel.then(|| name_of_cancel(home, &change));
        let (home, what) = (cancel_home(home, push), Ordered::Change(change));
        let order = StoredOrder { id, at_s, home, named, what };
        self.jobs.take_order(now, reply, order, &mut self.log, fx);
    }

    /// Whether an order of another shard applies here: its product is known, and its push was not
    /// cancelled before the order arrived.
    fn may_take(&self, id: MessageId, product: &ProductKey) -> bool {
        let is_known = self.registry.products.number(product).is_some();
        is_known && !self.jobs.is_cancelled(id, Some(product))
    }

    /// Advances the orders that are due.
    pub(crate) fn turn_orders(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.send_scheduled(now, fx);
        self.turn_waves(now);
        for _ in 0..LOOKS_MAX {
            let Some(id) = self.jobs.take_due(now.mono) else { break };
            if self.jobs.look_at(now, id, &mut self.log, fx) {
                match self.jobs.is_in_vain(id) {
                    true => self.jobs.drop_change(id, &mut self.log, fx),
                    false => self.close_order(id, fx),
                }
            }
        }
        self.jobs.forget(now, &mut self.log, fx);
        // The clock may be set meanwhile, so the wait is bounded.
        let next_ms = [self.jobs.next_scheduled_ms(), self.jobs.next_of_waves_ms()];
        let wait = next_ms.into_iter().flatten().min().map(|at_ms| {
            let left = Duration::from_millis(at_ms.saturating_sub(now.wall_ms));
            now.after(if left.is_zero() { LOOK } else { left.min(LOOK) })
        });
        earliest([self.jobs.next_due(), wait])
    }

    /// Starts the orders whose sending time has come; during a drain, the next start does.
    fn send_scheduled(&mut self, now: Now, fx: &mut Effects) {
        while !self.draining
            && let Some(id) = self.jobs.take_scheduled(now.wall_ms)
        {
            self.scan_order(now, id, fx);
        }
    }

    /// Advances the next scan. Fan-outs pause while many pushes wait for the store, and during a
    /// drain.
    pub(crate) fn turn_scans(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut visits = VISITS_MAX;
        let mut left = self.settings.limits.pushes.fan_out_slice;
        // Single pushes and changes of tags are no work of this turn.
        self.scans.take_compared();
        let (mut waiting, mut next) = (0, None);
        while visits > 0 && left > 0 {
            if waiting == self.scans.len() {
                return next;
            }
            let mut scan = self.scans.take()?;
            if let Errand::Count(Counting { reply, until, .. }) = &scan.errand
                && *until <= now.mono
            {
                fx.answers.push((*reply, PushAnswer::Busy));
                continue;
            }
            if let Some(until) = scan.waits(now) {
                next = earliest([next, until]);
                waiting += 1;
                self.scans.put_last(scan);
                continue;
            }
            waiting = 0;
            // A drain lets the log come to rest: the next start continues the scan.
            let pauses = self.draining || !self.log.is_easy();
            if scan.pauses() && pauses {
                self.scans.put_last(scan);
                return Some(now.after(PAUSE));
            }
            let step = scan.step(&self.registry, self.share(), &mut visits);
            if matches!(scan.errand, Errand::Count(_)) && step != Step::End {
                scan.count(&self.registry, step);
                self.scans.put_back(scan);
                continue;
            }
            let is_done = match step {
                Step::End => {
                    self.walked(&scan, fx);
                    continue;
                }
                Step::Nothing => true,
                Step::Device(key) => {
                    left -= 1;
                    // A device that the order reached before the restart does not count for the
                    // pace.
                    let is_new = |id| !self.is_through(key, id);
                    if scan.pace.is_some() && scan.order().is_some_and(is_new) {
                        scan.visits(now);
                    }
                    self.visit(now, key, &scan.errand, fx)
                }
                Step::Listed(place) => {
                    left -= 1;
                    self.visit_listed(now, &mut scan, place, fx)
                }
            };
            visits = visits.saturating_sub(self.scans.take_compared());
            match is_done {
                true => self.scans.put_back(scan),
                false => {
                    scan.stay();
                    self.scans.put_last(scan);
                    return Some(now.after(PAUSE));
                }
            }
        }
        self.scans.rotate().then_some(now.mono)
    }

    /// Starts a scan that sends a product's devices its new terms; false if too many scans wait.
    pub(crate) fn configure(&mut self, product: u16) -> bool {
        let has_room = self.scans.has_room();
        if has_room {
            let (errand, all) = (Errand::Terms, Selection::All);
            self.scans.begin(errand, Some(product), all, &self.registry);
        }
        has_room
    }

    /// Starts a scan that detaches the devices of a dropped product. Other scans of the product
    /// end.
    pub(crate) fn drop_devices(&mut self, product: u16, fx: &mut Effects) {
        let ended = self.scans.end_product(product);
        ended.iter().for_each(|scan| self.walked(scan, fx));
        self.scans.begin(Errand::Drop, Some(product), Selection::All, &self.registry);
    }

    /// Starts a scan that counts the devices of a push's target, and answers with the counts.
    pub(crate) fn count(
        &mut self,
        now: Now,
        reply: u64,
        product: &ProductKey,
        target: &PushTarget,
        fx: &mut Effects,
    ) {
        let answer = match (self.registry.products.number(product), Selection::of(target)) {
            (None, _) => PushAnswer::UnknownProduct,
            (Some(_), None) => PushAnswer::Counted(AudienceCounts::default()),
            (Some(number), Some(_)) if !self.scans.has_room_to_count(number) => PushAnswer::Busy,
            (Some(number), Some(selection)) => {
                let wait = Duration::from_millis(self.settings.limits.answer_ms_max.into());
                let (until, counts) = (now.after(wait), AudienceCounts::default());
                let errand = Errand::Count(Counting { reply, until, counts });
                self.scans.begin(errand, Some(number), selection, &self.registry);
                return;
            }
        };
        fx.answers.push((reply, answer));
    }

    pub(crate) fn share(&self) -> Share {
        let Settings { home, shards, shard, .. } = self.settings;
        Share { home, shards, shard }
    }

    /// Finishes a device's open orders before its tags change: pushes that are still to visit it
    /// come now, and no order that is open now comes later.
    pub(crate) fn go_ahead(&mut self, now: Now, key: Key, fx: &mut Effects) {
        if self.jobs.last_open().is_none() {
            return;
        }
        let last = MessageId(u64::MAX);
        for earlier in self.scans.earlier(&self.registry, key, last, true) {
            self.visit_ahead(now, key, earlier, fx);
        }
        self.jobs.pass(key.slot);
    }

    /// Delivers to a device the earlier orders to many (before `id`) that are still to visit it, so
    /// that it gets pushes in the order of their orders. False if the log has no room for them:
    /// then the later push must not come either.
    pub(crate) fn catch_up(&mut self, now: Now, key: Key, id: MessageId, fx: &mut Effects) -> bool {
        for earlier in self.scans.earlier(&self.registry, key, id, false) {
            if !self.log.has_room(1) {
                return false;
            }
            self.visit_ahead(now, key, earlier, fx);
        }
        true
    }

    /// Brings an order's push to a device that its scan is still to visit.
    fn visit_ahead(&mut self, now: Now, key: Key, order: MessageId, fx: &mut Effects) {
        if let Some(sending) = self.scans.take_ahead(&self.registry, key, order) {
            self.visit_with(now, key, &sending, fx);
        }
    }

    /// The device's key, with a new record if the device is unknown; open orders skip a new record.
    pub(crate) fn find_or_make(&mut self, now: Now, product: u16, id: &str) -> Option<Key> {
        if let Some(key) = self.registry.find(product, id) {
            return Some(key);
        }
        let key = self.registry.find_or_insert(now.wall_ms, product, id)?;
        self.jobs.pass(key.slot);
        self.jobs.registered(key.slot);
        Some(key)
    }

    /// Records that a push to many ended at a device, or that its stored copy there is stale. `seq`
    /// is the offset of the copy that is to be removed from the log.
    pub(crate) fn settle_order(
        &mut self,
        now: Now,
        key: Key,
        id: MessageId,
        seq: Option<Seq>,
        outcome: Option<Outcome>,
    ) {
        let Some(timeline) = self.registry.timeline(key) else { return };
        let step = outcome.filter(|_| self.jobs.is_tracked(id));
        let line = step.and_then(|outcome| {
            let (_, device) = self.registry.names(key)?;
            let (step, at_ms) = (PushStep::Outcome(outcome), now.wall_ms);
            Some(Box::new(DeviceStep { device, step, at_ms }))
        });
        let settled = Settled { timeline, seq, end: outcome.and_then(end_of), line };
        // The row about a push that a later push replaced must not come after the row about the end
        // of the later one: a start between the two would bring the older push to the device again.
        let at_once = self.draining || outcome == Some(Outcome::Rejected(Rejection::Collapsed));
        self.jobs.settle(now, id, settled, at_once);
    }

    /// Continues each open order after a start.
    pub(crate) fn resume_orders(&mut self, now: Now, over: &BTreeSet<MessageId>, fx: &mut Effects) {
        let open: Vec<MessageId> = self.jobs.open().chain(self.jobs.scheduled()).collect();
        for id in open {
            match over.contains(&id) {
                true => {
                    self.jobs.walked(id);
                    self.close_order(id, fx);
                }
                false => self.scan_order(now, id, fx),
            }
            self.jobs.look(id, now.mono);
        }
        self.send_scheduled(now, fx);
        self.jobs.tidy();
    }

    /// Starts the order's scan over this shard's devices, or applies the change that it is.
    pub(crate) fn scan_order(&mut self, now: Now, id: MessageId, fx: &mut Effects) {
        let Some(open) = self.jobs.at(id).and_then(|job| job.open.as_ref()) else { return };
        let order = open.order.clone();
        let to_many = match &order.what {
            Ordered::Push(to_many) => to_many,
            Ordered::Change(change) => return self.take_change(id, change),
        };
        let product = &to_many.push.product;
        let number = self.registry.products.number(product);
        let is_cancelled = self.jobs.is_cancelled(id, Some(product));
        let Some(number) = number.filter(|_| !is_cancelled) else {
            return self.jobs.walked(id);
        };
        if self.jobs.is_scheduled(id) {
            return;
        }
        if to_many.local.is_some() {
            return self.begin_waves(now, id);
        }
        let sending = to_many.sending();
        let selection = match (&to_many.target, Selection::of(&to_many.target)) {
            (_, Some(selection)) => selection,
            (PushTarget::Devices(devices), None) => {
                let (home, shards) = (self.settings.home, self.settings.shards);
                let mine = |id: &&DeviceId| {
                    owner((home, shards), &to_many.push.product, id) == self.settings.shard
                };
                let mine: Vec<_> = devices.iter().filter(mine).collect();
                for id in mine {
                    self.visit_named(now, DeviceName { product: number, id }, &sending, fx);
                }
                return self.jobs.walked(id);
            }
            (_, None) => return self.jobs.walked(id),
        };
        self.scan_push(id, (sending, number, selection), None);
    }

    /// Starts a scan that brings an order's push to devices of a product: those of some zones, or
    /// all of the selection.
    fn scan_push(
        &mut self,
        id: MessageId,
        (sending, product, selection): (Sending, u16, Selection),
        zones: Option<WaveZones>,
    ) {
        let open = self.jobs.at(id).and_then(|job| job.open.as_ref());
        let rate = open.and_then(|open| open.order.devices_per_s());
        let errand = Errand::Push(sending);
        let scan = self.scans.begin(errand, Some(product), selection, &self.registry);
        scan.zones = zones;
        scan.paused = self.jobs.is_paused(id);
        scan.pace = rate.map(|rate| Pace::new(rate, self.settings.shards));
    }

    /// Applies a stored change of a push: cancel, pause or resume.
    fn take_change(&mut self, id: MessageId, change: &Change) {
        if change.kind == ChangeKind::Cancel {
            return self.scan_recall(id, change);
        }
        let (push, paused) = (change.push, change.kind == ChangeKind::Pause);
        let job = self.jobs.at(push);
        let is_for = job.is_none_or(|job| change.is_for(job.product.as_ref()));
        if is_for && job.is_none_or(|job| job.open.is_some()) {
            self.jobs.pause((push, change.product.clone()), id, paused);
            self.scans.pause(push, self.jobs.is_paused(push));
        }
        self.jobs.walked(id);
    }

    /// Applies a stored cancel: ends the push's fan-out, and starts the scan that recalls the push
    /// if it may be in a queue.
    fn scan_recall(&mut self, id: MessageId, cancel: &Change) {
        let push = cancel.push;
        self.jobs.cancel(push, id);
        let product = match &cancel.product {
            Some(product) => match self.registry.products.number(product) {
                Some(number) => Some(number),
                None => return self.jobs.walked(id),
            },
            None => None,
        };
        if let Some(job) = self.jobs.at(push) {
            let PushCounts { pending, stored, running, .. } = job.counts;
            if !self.jobs.knows(cancel) {
                return self.jobs.walked(id);
            }
            if running && job.changes.is_none() {
                self.scans.end_order(push);
                self.jobs.walked(push);
            }
            if pending + stored == 0 {
                return self.jobs.walked(id);
            }
        }
        let errand = Errand::Recall { push, cancel: id };
        self.scans.begin(errand, product, Selection::All, &self.registry);
    }

    fn close_order(&mut self, id: MessageId, fx: &mut Effects) {
        if self.jobs.close(id, &mut self.log, fx) {
            // A start may have begun to scan again for an order that was over already.
            self.scans.end_order(id);
        }
    }

    /// Whether the order needs nothing at this device any more, so that its scan skips it.
    fn is_through(&self, key: Key, id: MessageId) -> bool {
        if self.jobs.has_had(key.slot, id) {
            return true;
        }
        // A device that the order names is none too late.
        let open = self.jobs.at(id).and_then(|job| job.open.as_ref());
        let is_named = || open.is_some_and(|open| open.order.names_devices());
        if self.jobs.is_past(key.slot, id) && !is_named() {
            return true;
        }
        self.has_come_to(key, id)
    }

    /// As [`has_come`](Self::has_come), for a known device.
    fn has_come_to(&self, key: Key, id: MessageId) -> bool {
        let timeline = self.registry.timeline(key);
        timeline.is_some_and(|timeline| self.has_come(id, timeline, Some(key)))
    }

    /// Whether an order that continues after a start had reached a device before.
    fn has_come(&self, id: MessageId, timeline: TimelineId, key: Option<Key>) -> bool {
        let open = self.jobs.at(id).and_then(|job| job.open.as_ref());
        let Some(open) = open.filter(|open| open.is_resumed) else { return false };
        let queue = key.and_then(|key| self.registry.at(key)).and_then(|device| device.queue());
        open.before.contains(&timeline)
            || queue.is_some_and(|queue| queue.items().any(|item| item.id == id))
    }

    /// Does a scan's work at a device. False: not now, because the log has no room for the orders
    /// that must come first.
    pub(crate) fn visit(&mut self, now: Now, key: Key, errand: &Errand, fx: &mut Effects) -> bool {
        match errand {
            Errand::Push(sending) => {
                if !self.catch_up(now, key, sending.push.id, fx) {
                    return false;
                }
                self.visit_with(now, key, sending, fx);
            }
            Errand::Recall { push, .. } => self.recall(now, key, *push, fx),
            Errand::Terms => self.tell_terms(key, fx),
            Errand::Drop => self.discard(now, key, fx),
            Errand::Count(_) => {}
        }
        true
    }

    /// Brings a scan's push to a device of its list. False: not now, as in
    /// [`visit`](Self::visit).
    fn visit_listed(
        &mut self,
        now: Now,
        scan: &mut DeviceScan,
        place: usize,
        fx: &mut Effects,
    ) -> bool {
        let (Some(id), Some(product)) = (scan.name(place), scan.product) else { return true };
        let Errand::Push(sending) = &scan.errand else { return true };
        let sending = sending.clone();
        let order = sending.push.id;
        if let Some(key) = self.registry.find(product, id.as_str())
            && !self.catch_up(now, key, order, fx)
        {
            return false;
        }
        let timeline = self.registry.timeline_of(&sending.push.product, &id);
        let key = self.registry.find(product, id.as_str());
        if scan.pace.is_some() && !self.has_come(order, timeline, key) {
            scan.visits(now);
        }
        self.visit_named(now, DeviceName { product, id: &id }, &sending, fx);
        true
    }

    /// Brings an order's push to a device that a scan visits.
    fn visit_with(&mut self, now: Now, key: Key, sending: &Sending, fx: &mut Effects) {
        if !self.is_through(key, sending.push.id) {
            self.bring(now, key, sending, fx);
        }
    }

    /// Brings an order's push to a device that it has not reached.
    fn bring(&mut self, now: Now, key: Key, sending: &Sending, fx: &mut Effects) {
        let id = sending.push.id;
        self.jobs.had(key.slot, id);
        if self.is_for(key, sending) {
            self.mirror_at(now, key, &sending.push, fx);
        }
        self.jobs.matched(id, None);
        if let Some(outcome) = self.place(now, key, sending, fx) {
            self.jobs.ended(id, false, outcome);
            self.settle_order(now, key, id, None, Some(outcome));
        }
    }

    /// Brings an order's push to a device of its list.
    fn visit_named(&mut self, now: Now, to: DeviceName<'_>, sending: &Sending, fx: &mut Effects) {
        let id = sending.push.id;
        let timeline = self.registry.timeline_of(&sending.push.product, to.id);
        let key = self.registry.find(to.product, to.id.as_str());
        let has_had = key.is_some_and(|key| self.jobs.has_had(key.slot, id));
        if has_had || self.has_come(id, timeline, key) {
            return;
        }
        if let Some(key) = key {
            self.jobs.had(key.slot, id);
        }
        if key.map_or(sending.user.is_none(), |key| self.is_for(key, sending)) {
            self.mirror(now, to, &sending.push, fx);
        }
        self.jobs.matched(id, None);
        let outcome = match self.find_place(now, to, sending, fx) {
            Err(outcome) => Some(outcome),
            Ok((key, false)) if !self.catch_up(now, key, id, fx) => {
                let busy = Outcome::Rejected(Rejection::Busy);
                Some(self.tell_outcome(now, key, sending, busy, fx))
            }
            Ok((key, is_new)) => {
                let outcome = self.place(now, key, sending, fx);
                if is_new && outcome.is_some() {
                    self.remove_record(key);
                }
                outcome
            }
        };
        if let Some(outcome) = outcome {
            self.jobs.ended(id, false, outcome);
            let line = self.jobs.is_tracked(id).then(|| {
                let (device, step, at_ms) =
                    (to.id.clone(), PushStep::Outcome(outcome), now.wall_ms);
                Box::new(DeviceStep { device, step, at_ms })
            });
            let settled = Settled { timeline, seq: None, end: end_of(outcome), line };
            self.jobs.settle(now, id, settled, self.draining);
        }
    }

    /// Removes a cancelled push from a device's queue.
    fn recall(&mut self, now: Now, key: Key, push: MessageId, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let product = device.product;
        let item = device.queue_mut().and_then(|queue| queue.remove(push));
        let Some(item) = item else { return };
        let product = self.registry.products.of(product).key.clone();
        self.jobs.recall(push, now.unix_s(), product);
        self.end(now, key, item, Outcome::Rejected(Rejection::Cancelled), fx);
        self.pump(now, key, fx);
        self.registry.release(now, key);
    }

    fn walked(&mut self, scan: &DeviceScan, fx: &mut Effects) {
        match &scan.errand {
            Errand::Push(sending) if scan.zones.is_some() => self.wave_walked(sending.push.id),
            Errand::Push(sending) => self.jobs.walked(sending.push.id),
            Errand::Recall { cancel, .. } => self.jobs.walked(*cancel),
            Errand::Count(Counting { reply, counts, .. }) => {
                fx.answers.push((*reply, PushAnswer::Counted(*counts)));
            }
            Errand::Terms => {}
            Errand::Drop => scan.product.into_iter().for_each(|it| self.registry.products.free(it)),
        }
    }

    /// Sends a device its product's new terms. The wishes of its Bind are not stored: the heartbeat
    /// is the product's default, and the window only ever shrinks.
    fn tell_terms(&mut self, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at(key) else { return };
        let Some(conn) = device.conn() else { return };
        let window = device.window;
        let product = self.registry.products.of(device.product).clone();
        let heartbeat_s = self.access.heartbeat_s(&product, HeartbeatWish::default());
        let Some(device) = self.registry.at_mut(key) else { return };
        device.heartbeat_s = heartbeat_s;
        device.window = terms::window(&product, window);
        let (term, inflight_max) = (device.term(), device.window);
        fx.deliveries.push((conn, PushDelivery::Configure { term, heartbeat_s, inflight_max }));
    }

    /// Discards a device whose product was dropped, with its queue, tags and row.
    fn discard(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some((product, id)) = self.registry.names(key) else { return };
        let Some(device) = self.registry.at_mut(key) else { return };
        let asked = device.extra.as_ref().is_some_and(|extra| extra.asked > 0);
        let items = device.queue_mut().map(|queue| queue.drain()).unwrap_or_default();
        let has_timeline = asked || !items.is_empty();
        for item in items {
            self.end_unlogged(now, key, &item, Outcome::Rejected(Rejection::Evicted), fx);
        }
        let kick = Farewell::of(Refusal::AdminKick);
        match self.registry.at(key).map(|device| PresenceVersion(device.epoch)) {
            // The product was created again, and the device may be online under it: the version
            // marks this transition as older.
            Some(version) if self.registry.products.number(&product).is_some() => {
                self.kick_at(now, key, kick, version, fx);
            }
            _ => drop(self.kick(now, key, kick, fx)),
        }
        self.registry.set_tags(now, key, &[]);
        self.registry.set_user(now, key, None);
        self.registry.set_zone(now, key, None);
        self.forget(key, fx);
        if has_timeline {
            self.clean(CleanupTask::Forget(product, id), fx);
        }
    }
}

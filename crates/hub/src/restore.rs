//! The start: rebuilds the hub's memory from the log.
//!
//! Rows come first, then entries, whose timelines tell their devices; the map from timelines to
//! devices is dropped at the end. Entries and rows that are no longer needed (the product was
//! dropped, the push has expired, the owner is unknown) are deleted afterwards. Those that find no
//! room, cannot be read, or belong to a product that is missing this time (it may be configured
//! again next time) stay in the log. Open orders to many go on. The online state of devices and the
//! receipts of lists are not stored; a device that was online binds again.

use crate::log::cleanup::CleanupTask;
use crate::log::durable::order::{self, ChangeKind, Kind};
use crate::log::durable::{device, mark, product, push};
use crate::orders::jobs::Job;
use crate::registry::item::{Item, Kept};
use crate::{Effects, Hub};
use base::slab::Key;
use base::time::Now;
use model::close::CloseReason;
use model::id::{DeviceId, MessageId, ProductKey, ShardId};
use model::ports::log::{REMOVE_SEQS_MAX, Restored, Table};
use model::ports::pushes::PushCounts;
use model::presence::PresenceVersion;
use model::push::{Outcome, Rejection};
use model::timeline::{Seq, Space, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Owner of a timeline.
#[derive(Clone, Copy)]
enum Owner {
    Device(Key),
    /// The device's product is missing, there was no room for the device, or its row could not be
    /// read.
    Left,
    /// The device's product was dropped, and all its state will be deleted.
    Stray,
    /// The owner is unknown.
    Nobody,
}

/// State of a restore in progress.
#[derive(Default)]
pub(crate) struct Restoring {
    owners: BTreeMap<TimelineId, Owner>,
    /// Products that were dropped.
    dropped: BTreeSet<ProductKey>,
    /// Devices of dropped products that have rows.
    stray: Vec<(ProductKey, DeviceId)>,
    /// Entries that ended, to be removed.
    over: BTreeMap<TimelineId, Vec<Seq>>,
    /// The timeline being restored, and the highest id in it so far.
    highest: Option<(TimelineId, MessageId)>,
    /// A row could not be read, so entries with unknown owner may belong to its device.
    unreadable: bool,
    orders: Orders,
}

/// State of a restore that concerns orders to many.
#[derive(Default)]
struct Orders {
    /// Orders that stay in the log as they are.
    left: BTreeSet<MessageId>,
    /// Orders that are over on all shards.
    over: BTreeSet<MessageId>,
    /// Orders whose counts this shard reports, with the shard that wrote them.
    counted: BTreeSet<(MessageId, ShardId)>,
    /// Devices at which each order's push ended.
    through: BTreeMap<MessageId, BTreeSet<TimelineId>>,
    /// The same of the last row of lines of pushes that are over: copies there may be left.
    last: BTreeMap<(MessageId, ShardId), BTreeSet<TimelineId>>,
    /// Devices with a line that says that the push is stored.
    lined: BTreeSet<(MessageId, TimelineId)>,
    /// Keys of rows that are no longer needed.
    stray: Vec<Box<[u8]>>,
}

impl Restoring {
    /// Whether the rows of an order stay as they are.
    pub fn has_left(&self, id: MessageId) -> bool {
        self.orders.left.contains(&id)
    }

    /// Notes a row that is no longer needed.
    pub fn stray_row(&mut self, key: &[u8]) {
        self.orders.stray.push(key.into());
    }

    /// Notes the devices in a row of lines that stored the push.
    pub fn had_stored(&mut self, id: MessageId, stored: impl Iterator<Item = TimelineId>) {
        self.orders.lined.extend(stored.map(|timeline| (id, timeline)));
    }

    /// Notes the devices in a row of lines at which the push ended.
    pub fn had_ends(
        &mut self,
        (id, shard): (MessageId, ShardId),
        is_open: bool,
        ended: Vec<TimelineId>,
    ) {
        match is_open {
            true => self.orders.through.entry(id).or_default().extend(ended),
            // The removals of earlier rows were handed to the log before this row.
            false => drop(self.orders.last.insert((id, shard), ended.into_iter().collect())),
        }
    }

    /// Whether a push has ended at a device, as a row says.
    fn has_ended(&self, id: MessageId, timeline: TimelineId) -> bool {
        let through = self.orders.through.get(&id);
        let of = (id, ShardId(0))..=(id, ShardId(u16::MAX));
        through.is_some_and(|ended| ended.contains(&timeline))
            || self.orders.last.range(of).any(|(_, ended)| ended.contains(&timeline))
    }
}

impl Hub {
    /// Restores a row or an entry from the log, before any other call and after the products of the
    /// configuration are [installed](Hub::install). False if it could not be read or there is no
    /// room for it; it then stays in the log.
    pub fn restore(&mut self, now: Now, restored: Restored<'_>) -> bool {
        match restored {
            Restored::Row { table: Table::Products, key, value } => {
                self.restore_product(key, value)
            }
            Restored::Row { table: Table::Devices, key, value } => {
                let is_read = self.restore_device(now, key, value);
                self.restoring.unreadable |= is_read.is_none();
                is_read.unwrap_or(false)
            }
            Restored::Row { table: Table::Marks, key, value } => {
                let bound = mark::decode(key, value);
                bound.map(|bound| self.epochs.restore(bound)).is_some()
            }
            Restored::Row { table: Table::Orders, key, value } => {
                self.restore_order(now, key, value)
            }
            Restored::Row { table: Table::Segments, key, value } => {
                self.segments.restore(key, value)
            }
            Restored::Row { table: Table::Schedules, key, value } => {
                self.schedules.restore(key, value)
            }
            Restored::Row { .. } => false,
            Restored::Timeline { .. } => true,
            Restored::Entry { timeline, seq, id, label } => match timeline.space() {
                Space::Pushes => self.restore_push(now, timeline, seq, MessageId(id), label),
                _ => false,
            },
        }
    }

    /// Ends the restore: queues cleanups of everything no longer needed, continues open orders, and
    /// raises the bound of epochs.
    pub fn restored(&mut self, now: Now, fx: &mut Effects) {
        let Restoring { stray, over, dropped, orders, .. } = std::mem::take(&mut self.restoring);
        for key in orders.stray {
            self.log.clean_later(CleanupTask::Unorder(key), fx);
        }
        for (id, through) in orders.through {
            if let Some(open) = self.jobs.at_mut(id).and_then(|job| job.open.as_mut()) {
                open.before = through;
            }
        }
        self.resume_orders(now, &orders.over, fx);
        let has_devices = |of: &ProductKey| stray.iter().any(|(product, _)| product == of);
        let is_empty = |of: &&ProductKey| {
            let has_rows = self.segments.has_some(of) || self.schedules.has_some(of);
            !has_devices(of) && !has_rows
        };
        for product in dropped.iter().filter(is_empty) {
            self.log.clean_later(CleanupTask::Undrop(product.clone()), fx);
        }
        for product in &dropped {
            self.segments.forget(product, &mut self.log, fx);
            self.schedules.forget(product, &mut self.log, fx);
        }
        for (timeline, seqs) in over {
            for seqs in seqs.chunks(REMOVE_SEQS_MAX) {
                self.log.clean_later(CleanupTask::Remove(timeline, seqs.to_vec()), fx);
            }
        }
        for (product, device) in stray {
            self.log.clean_later(CleanupTask::Forget(product.clone(), device.clone()), fx);
            self.log.clean_later(CleanupTask::Delete(product, device), fx);
        }
        self.restored_platforms(now);
        if self.epochs.last() > 0 {
            // Earlier processes ran on this log.
            self.access.begin(now);
        }
        self.epochs.raise(now, &mut self.log, fx);
    }

    fn restore_product(&mut self, key: &[u8], value: &[u8]) -> bool {
        if value == product::DROPPED {
            let key = product::of_key(key).filter(|key| !self.is_product(key));
            self.restoring.dropped.extend(key);
            return true;
        }
        let Some((product, base)) = product::decode(key, value) else { return false };
        // A changed configuration holds over a change that the API made before.
        match self.registry.products.configured(&product.key) {
            Some(configured) if configured != base => true,
            _ => self.registry.products.put(Arc::new(product)).is_some(),
        }
    }

    /// Restores a row of an order to many. The rows of one order come in this order: the order, its
    /// counts, its devices.
    fn restore_order(&mut self, now: Now, key: &[u8], value: &[u8]) -> bool {
        let Some((id, kind)) = order::kind(key) else { return false };
        // The id of a scheduled order contains a future time.
        if id.at_ms() <= now.wall_ms {
            self.epochs.restore_id(id.0);
        }
        match kind {
            Kind::Order => {
                let Some(mut order) = order::decode(id, value) else {
                    self.restoring.orders.left.insert(id);
                    return false;
                };
                let is_left = |product: &ProductKey| {
                    !self.is_product(product) && !self.restoring.dropped.contains(product)
                };
                if order.product().is_some_and(is_left) {
                    // The product may be configured again next time.
                    self.restoring.orders.left.insert(id);
                    return false;
                }
                let counts = PushCounts { running: true, ..PushCounts::default() };
                if let Some(change) = order.change() {
                    self.restore_change(id, change.kind, (change.push, change.product.clone()));
                }
                let list_bytes = order.list_bytes();
                if self.jobs.owner_of(&order) != self.settings.shard {
                    // Shards do not share what they read: each keeps the names of its devices.
                    let share = self.share();
                    order.keep_names(|product, name| share.has(product, name));
                }
                let order = Arc::new(order);
                let open = self.jobs.open_order(order.clone(), true);
                self.jobs.insert(id, Job::of(&order, open, counts));
                self.jobs.set_list_bytes(id, list_bytes);
                self.jobs.set_cost(&order);
                true
            }
            Kind::Counts(shard) => self.restore_counts(id, shard, key, value),
            Kind::Through(shard, number) => self.restore_through(id, shard, number, key, value),
            Kind::Outcomes(shard, number) => self.restore_outcomes((id, shard, number), key, value),
        }
    }

    /// Restores a change of a push for devices of a product. The push's row may come later, so its
    /// product is compared where the change applies.
    fn restore_change(
        &mut self,
        id: MessageId,
        kind: ChangeKind,
        of: (MessageId, Option<ProductKey>),
    ) {
        match kind {
            ChangeKind::Cancel => self.jobs.cancel(of.0, id),
            ChangeKind::Pause => self.jobs.pause(of, id, true),
            ChangeKind::Resume => self.jobs.pause(of, id, false),
        }
    }

    fn restore_counts(&mut self, id: MessageId, shard: ShardId, key: &[u8], value: &[u8]) -> bool {
        let Some(progress) = order::decode_progress(value) else { return false };
        let orders = &mut self.restoring.orders;
        if orders.left.contains(&id) {
            return false;
        }
        orders.over.insert(id);
        orders.through.entry(id).or_default().extend(progress.through);
        // The change of a push has no counts, and every shard must know it.
        if !self.jobs.adopts(shard) && progress.changes.is_none() {
            orders.stray.push(key.into());
            return true;
        }
        if self.jobs.at(id).is_none() {
            let counts = PushCounts::default();
            if let Some((push, kind)) = progress.changes {
                self.restore_change(id, kind, (push, progress.product.clone()));
            }
            let (product, changes) = (progress.product, progress.changes);
            let job = Job::new(progress.at_s, progress.named, counts);
            let tracked = progress.tracked.map(|_| Box::default());
            self.jobs.insert(id, Job { product, changes, tracked, ..job });
        }
        let Some(job) = self.jobs.at_mut(id) else { return false };
        job.add(progress.ends);
        if let Some(tracked) = &mut job.tracked {
            tracked.is_cut |= progress.tracked == Some(true);
            tracked.is_cut_told = tracked.is_cut;
        }
        self.restoring.orders.counted.insert((id, shard));
        match shard == self.settings.shard {
            true => job.told = progress.ends,
            false => job.foreign.push(key.into()),
        }
        true
    }

    fn restore_through(
        &mut self,
        id: MessageId,
        shard: ShardId,
        number: u32,
        key: &[u8],
        value: &[u8],
    ) -> bool {
        let Some(progress) = order::decode_progress(value) else { return false };
        let (adopts, is_own) = (self.jobs.adopts(shard), shard == self.settings.shard);
        let is_left = self.restoring.orders.left.contains(&id);
        let Some(job) = self.jobs.at_mut(id).filter(|job| job.open.is_some()) else {
            if !is_left {
                self.restoring.orders.stray.push(key.into());
            }
            return !is_left;
        };
        // If a row of counts was written already, it includes these ended devices.
        if adopts && !self.restoring.orders.counted.contains(&(id, shard)) {
            job.add(progress.ends);
            job.told.iter_mut().zip(progress.ends).for_each(|(told, more)| *told += more);
        }
        if let Some(tracked) = job.tracked.as_mut().filter(|_| adopts) {
            tracked.is_cut |= progress.tracked == Some(true);
            tracked.is_cut_told = tracked.is_cut;
        }
        if let Some(open) = &mut job.open {
            open.rows.push(key.into());
            if is_own {
                open.next = open.next.max(number + 1);
            }
        }
        let through = self.restoring.orders.through.entry(id).or_default();
        through.extend(progress.through);
        true
    }

    fn is_product(&self, key: &ProductKey) -> bool {
        self.registry.products.number(key).is_some()
    }

    /// Restores a device's row. `None` if it is malformed.
    fn restore_device(&mut self, now: Now, key: &[u8], value: &[u8]) -> Option<bool> {
        let (product, id) = device::names(key)?;
        let timeline = self.registry.timeline_of(&product, &id);
        let Some(number) = self.registry.products.number(&product) else {
            let is_dropped = self.restoring.dropped.contains(&product);
            let owner = if is_dropped { Owner::Stray } else { Owner::Left };
            self.restoring.owners.insert(timeline, owner);
            if is_dropped {
                self.restoring.stray.push((product, id));
            }
            return Some(is_dropped);
        };
        let row = device::decode(value);
        let key = row
            .as_ref()
            .and_then(|row| self.registry.find_or_insert(row.since_ms, number, id.as_str()));
        let (Some(row), Some(key)) = (row, key) else {
            self.restoring.owners.insert(timeline, Owner::Left);
            return Some(false);
        };
        self.restoring.owners.insert(timeline, Owner::Device(key));
        self.registry.set_tags(now, key, &row.tags);
        self.registry.set_user(now, key, row.user);
        self.registry.set_zone(now, key, row.zone);
        if let Some(cut) = row.cut {
            self.registry.set_cut(key.slot, cut);
        }
        if let Some((token, through)) = row.platform {
            self.registry.platforms.restore(key.slot, token, through);
        }
        let protocol = self.registry.protocol(row.protocol);
        let device = self.registry.at_mut(key)?;
        device.set_blocked(row.blocked);
        device.set_rowed(true);
        device.set_protocol(protocol);
        if row.bound {
            let stopped =
                if row.online { CloseReason::ServerStopped } else { CloseReason::Internal };
            // The device's last version was not stored: this one is as old, and below all later
            // ones.
            let version = PresenceVersion::after(row.epoch, row.since_ms);
            device.restore(row.epoch, version, row.reason.unwrap_or(stopped));
            if row.barred || row.blocked {
                device.bar();
            }
            self.epochs.restore(version.0);
        }
        if row.through != 0 {
            self.jobs.passed(key.slot, MessageId(row.through));
        }
        self.epochs.restore_id(row.epoch);
        Some(true)
    }

    fn restore_push(
        &mut self,
        now: Now,
        timeline: TimelineId,
        seq: Seq,
        id: MessageId,
        label: &[u8],
    ) -> bool {
        self.epochs.restore_id(id.0);
        let owner = match self.restoring.owners.get(&timeline).copied() {
            None if self.restoring.unreadable => Owner::Left,
            None => Owner::Nobody,
            Some(owner) => owner,
        };
        let key = match owner {
            Owner::Device(key) => key,
            Owner::Left => return false,
            Owner::Stray => return true,
            Owner::Nobody => return self.is_over(timeline, seq),
        };
        let label = push::label(id, label).filter(|_| seq != 0);
        let Some(label) = label else { return false };
        // Ids rise with offsets, as a rule: a duplicate is possible only where they do not.
        let before = self.restoring.highest.filter(|(of, _)| *of == timeline).map(|(_, id)| id);
        let is_highest = before.is_none_or(|before| id > before);
        self.restoring.highest = Some((timeline, before.unwrap_or(id).max(id)));
        let of = self.registry.at(key).map(|device| self.registry.products.of(device.product));
        let of = of.map(|product| &product.key);
        let cancelled = of.filter(|of| self.jobs.is_cancelled(id, Some(of))).cloned();
        // The push was queued while the device belonged to another user.
        let is_cut = self.registry.cut(key.slot).is_some_and(|cut| cut.has(seq, id));
        let Some(device) = self.registry.at_mut(key) else { return false };
        let queue = &mut device.extra().queue;
        let mut item = Item::stub(id, seq, label);
        let is_known = !is_highest && queue.find(item.id).is_some();
        let has_ended = self.restoring.has_ended(item.id, timeline);
        let is_cancelled = cancelled.is_some();
        if let Some(product) = cancelled.filter(|_| !has_ended) {
            self.jobs.recall(item.id, now.unix_s(), product);
        }
        let is_counted = !is_known && !has_ended && self.jobs.at(item.id).is_some();
        if is_counted {
            self.jobs.matched(item.id, Some(Outcome::Stored));
        }
        if item.expired(now.unix_s()) || is_known || has_ended || is_cancelled || is_cut {
            self.registry.release(now, key);
            let outcome = match (is_cancelled, is_cut) {
                (true, _) => Outcome::Rejected(Rejection::Cancelled),
                (false, true) => Outcome::Rejected(Rejection::UserChanged),
                (false, false) => Outcome::Expired,
            };
            return match is_counted {
                true => self.has_ended(now, (key, timeline), (item.id, seq), outcome),
                false => self.is_over(timeline, seq),
            };
        }
        // A kill came between a push and the end of the one it replaced: the later order holds,
        // whichever of the two the log had first.
        let other = item.collapse().and_then(|key| queue.alike(key)).map(|other| other.id);
        self.queues.came(item.weight());
        if is_counted {
            item.set_counted();
        }
        let id = item.id;
        queue.insert(item);
        // A kill came before the row that says that the push is stored there; or, if lines are
        // missing, it found no room.
        let lacks_line = is_counted
            && !self.jobs.is_cut(id)
            && !self.restoring.orders.lined.contains(&(id, timeline));
        let queue = match lacks_line && self.jobs.is_tracked(id) {
            true => {
                self.settle_order(now, key, id, None, Some(Outcome::Stored));
                let device = self.registry.at_mut(key);
                let Some(queue) = device.and_then(|device| device.queue_mut()) else { return true };
                queue
            }
            false => queue,
        };
        match other.map(|other| other.min(id)).and_then(|replaced| queue.remove(replaced)) {
            Some(replaced) => self.is_replaced(now, key, timeline, &replaced),
            None => true,
        }
    }

    fn is_replaced(&mut self, now: Now, key: Key, timeline: TimelineId, item: &Item) -> bool {
        self.queues.left(item.weight());
        match item.kept() {
            Kept::At(seq) if item.watch().counted => {
                let collapsed = Outcome::Rejected(Rejection::Collapsed);
                self.has_ended(now, (key, timeline), (item.id, seq), collapsed)
            }
            Kept::At(seq) => self.is_over(timeline, seq),
            Kept::No | Kept::Asked => true,
        }
    }

    /// Notes that a stored push of an order to many ended at a device before the order's scan
    /// restarts, so that the scan skips the device.
    fn has_ended(
        &mut self,
        now: Now,
        (key, timeline): (Key, TimelineId),
        (id, seq): (MessageId, Seq),
        outcome: Outcome,
    ) -> bool {
        self.jobs.ended(id, true, outcome);
        self.settle_order(now, key, id, Some(seq), Some(outcome));
        self.restoring.orders.through.entry(id).or_default().insert(timeline);
        true
    }

    fn is_over(&mut self, timeline: TimelineId, seq: Seq) -> bool {
        self.restoring.over.entry(timeline).or_default().push(seq);
        true
    }
}

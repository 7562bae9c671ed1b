//! The start: what the log kept becomes the hub's memory again.
//!
//! Rows come first, then entries, which know their devices by their timelines; the map from the one
//! to the other is dropped when all have come. What is of no use any more (its device's product was
//! dropped, its time is over, it belongs to nobody) is done away with afterwards. What cannot be
//! taken in for want of room, cannot be read, or is of a product that is not there this time (it
//! may be configured again the next) stays in the log. Who was online, jobs and receipts are
//! not kept; a device that was online binds again.

use crate::Hub;
use crate::effects::Effects;
use crate::log::chores::Chore;
use crate::log::durable::{self, device, mark, product, push};
use crate::registry::item::{Item, Kept};
use base::slab::Key;
use base::time::Now;
use model::close::CloseReason;
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::log::{REMOVE_SEQS_MAX, Restored, Table};
use model::presence::Version;
use model::timeline::{Seq, Space, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whose a timeline is.
#[derive(Clone, Copy)]
enum Owner {
    Device(Key),
    /// Its device's product is not there, there was no room for it, or its row could not be read.
    Left,
    /// Its device's product was dropped, and all of it will be forgotten.
    Stray,
    /// Nobody knows whose it is.
    Nobody,
}

/// What is needed until everything is restored.
#[derive(Default)]
pub(crate) struct Restoring {
    owners: BTreeMap<TimelineId, Owner>,
    /// Products that were dropped.
    dropped: BTreeSet<ProductKey>,
    /// Rows of their devices.
    stray: Vec<(ProductKey, DeviceId)>,
    /// Entries that are over.
    over: BTreeMap<TimelineId, Vec<Seq>>,
    /// The timeline that comes now, and the highest id in it so far.
    highest: Option<(TimelineId, u64)>,
    /// A row could not be read: entries without owner may be its device's.
    unreadable: bool,
}

impl Hub {
    /// Takes in what the log gives back, before anything else is asked of the hub and after the
    /// products of the configuration are [installed](Hub::install). False when it could not be
    /// read, or there is no room for it; it stays in the log then.
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
            Restored::Row { .. } => false,
            Restored::Entry { timeline, seq, id, label } => match timeline.space() {
                Space::Pushes => self.restore_push(now, timeline, (seq, id), label),
                // Webhooks' couriers read theirs themselves.
                Space::Reports => true,
                Space::Sessions | Space::Other => false,
            },
        }
    }

    /// Everything has come: says what is to be done about what is of no use any more, and that
    /// epochs are about to be given.
    pub fn restored(&mut self, now: Now, fx: &mut Effects) {
        let Restoring { stray, over, dropped, .. } = std::mem::take(&mut self.restoring);
        for product in dropped.iter().filter(|of| stray.iter().all(|(product, _)| product != *of)) {
            self.later_do(Chore::Undrop(product.clone()), fx);
        }
        for (timeline, seqs) in over {
            for seqs in seqs.chunks(REMOVE_SEQS_MAX) {
                self.later_do(Chore::Remove(timeline, seqs.to_vec()), fx);
            }
        }
        for (product, device) in stray {
            self.later_do(Chore::Forget(product.clone(), device.clone()), fx);
            self.later_do(Chore::Delete(product, device), fx);
        }
        self.raise_epochs(now, fx);
    }

    /// Not below any id or epoch that was given before the start: where new ids must begin.
    pub fn id_floor(&self) -> MessageId {
        MessageId(self.epochs.last().max(self.last_id))
    }

    fn restore_product(&mut self, key: &[u8], value: &[u8]) -> bool {
        if value == product::DROPPED {
            let key = ProductKey::from_bytes(key).ok().filter(|key| !self.is_product(key));
            self.restoring.dropped.extend(key);
            return true;
        }
        let Some(product) = product::decode(key, value) else { return false };
        // What is configured holds over what the API once made.
        self.registry.products.number(&product.key).is_some() || self.install(Arc::new(product))
    }

    fn is_product(&self, key: &ProductKey) -> bool {
        self.registry.products.number(key).is_some()
    }

    /// `None` when the row makes no sense.
    fn restore_device(&mut self, now: Now, key: &[u8], value: &[u8]) -> Option<bool> {
        let (product, id) = device::names(key)?;
        let timeline = durable::timeline_of(self.settings.home, product.as_str(), id.as_str());
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
        self.set_tags(now, key, &row.tags);
        let protocol = self.registry.protocol(row.protocol);
        let device = self.registry.at_mut(key)?;
        device.set_blocked(row.blocked);
        device.set_rowed(true);
        device.set_protocol(protocol);
        if row.bound {
            let stopped =
                if row.online { CloseReason::ServerStopped } else { CloseReason::Internal };
            // The version that it had was not kept: this one is as old, and below all to come.
            let version = MessageId::after(row.epoch, row.since_ms, self.settings.shard);
            device.restore(row.epoch, Version(version.0), row.reason.unwrap_or(stopped));
            self.epochs.restore(version.0);
        }
        self.last_id = self.last_id.max(row.epoch);
        Some(true)
    }

    fn restore_push(
        &mut self,
        now: Now,
        timeline: TimelineId,
        (seq, id): (Seq, u64),
        label: &[u8],
    ) -> bool {
        self.last_id = self.last_id.max(id);
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
        let label = push::label(MessageId(id), label).filter(|_| seq != 0);
        let Some(label) = label else { return false };
        // Ids rise with places, as a rule: only where they do not can there be one twice.
        let before = self.restoring.highest.filter(|(of, _)| *of == timeline).map(|(_, id)| id);
        let is_highest = before.is_none_or(|before| id > before);
        self.restoring.highest = Some((timeline, before.unwrap_or(0).max(id)));
        let Some(device) = self.registry.at_mut(key) else { return false };
        let queue = &mut device.extra().queue;
        let item = Item::stub(MessageId(id), seq, label);
        let is_known = !is_highest && queue.find(item.id).is_some();
        if item.expired(now.unix_s()) || is_known {
            self.release(now, key);
            return self.is_over(timeline, seq);
        }
        // The kill came between a push and the end of the one it replaced.
        let replaced = item.collapse().and_then(|key| queue.alike(key)).map(|item| item.id);
        let replaced = replaced.and_then(|id| queue.remove(id));
        self.waiting += 1;
        self.waiting_bytes += item.weight() as u64;
        queue.insert(item);
        if let Some(item) = replaced {
            self.waiting -= 1;
            self.waiting_bytes -= item.weight() as u64;
            if let Kept::At(seq) = item.kept() {
                return self.is_over(timeline, seq);
            }
        }
        true
    }

    fn is_over(&mut self, timeline: TimelineId, seq: Seq) -> bool {
        self.restoring.over.entry(timeline).or_default().push(seq);
        true
    }
}

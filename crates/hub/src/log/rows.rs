//! The rows of devices: what is remembered of them over a restart.
//!
//! A row is a copy of a record, made when it is handed to the log. Somebody waits for it only when
//! the API changed it; then the copy has the change before the record does, and so has every copy
//! until the log has answered. Other changes make the record dirty, and the sweep writes it. A row
//! that was refused makes it dirty again; if it was the device's first, no push is called stored
//! on the strength of it, because nobody would know after a restart whose it is.

use crate::Effects;
use crate::Hub;
use crate::log::cleanup::CleanupTask;
use crate::log::durable::device::{self, DeviceRow};
use crate::log::tickets::{Order, PendingCall};
use crate::registry::device::BindState;
use base::slab::Key;
use model::id::Tag;
use model::ports::log::{Call, Table, Write};
use std::collections::{BTreeMap, BTreeSet};

/// Changes of one device that are on their way to the log.
#[derive(Default)]
struct Change {
    blocked: Option<bool>,
    tags: Option<Vec<Tag>>,
    orders: u32,
}

/// Rows that differ from their records, one way or the other.
#[derive(Default)]
pub(crate) struct Rows {
    /// Records that differ from their rows.
    dirty: u64,
    /// Devices whose first row is on its way.
    first: BTreeSet<Key>,
    /// Rows that are ahead of their records.
    changes: BTreeMap<Key, Change>,
}

impl Rows {
    /// Records that differ from their rows.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }
}

impl Hub {
    /// The record differs from its row from now on.
    pub(crate) fn soil(&mut self, key: Key) {
        if let Some(device) = self.registry.at_mut(key)
            && !device.dirty()
        {
            device.set_dirty(true);
            self.rows.dirty += 1;
        }
    }

    /// Makes a row for a device that has none, before anything else is kept of it.
    pub(crate) fn ensure_row(&mut self, key: Key, fx: &mut Effects) {
        if self.registry.at(key).is_some_and(|device| !device.rowed()) {
            self.write_row(key, fx);
        }
    }

    /// Writes a device's row; nobody waits for it.
    pub(crate) fn write_row(&mut self, key: Key, fx: &mut Effects) {
        self.put_row(key, PendingCall::Row(key), fx);
    }

    /// The log has answered a row, whoever waited for it.
    pub(crate) fn row_answered(&mut self, key: Key, is_stored: bool) {
        let was_first = self.rows.first.remove(&key);
        let Some(device) = self.registry.at_mut(key) else { return };
        if is_stored {
            return device.set_rowed(true);
        }
        if was_first {
            device.set_rowed(false);
        }
        self.soil(key);
    }

    /// Writes the row that `order` changes; it is carried out when the row is stored.
    pub(crate) fn order_row(&mut self, order: Order, fx: &mut Effects) {
        let (Order::Block(_, key, _) | Order::Tags(_, key, _)) = &order else { return };
        let key = *key;
        if let Some(device) = self.registry.at_mut(key) {
            device.extra().asked += 1;
        }
        let change = self.rows.changes.entry(key).or_default();
        change.orders += 1;
        match &order {
            Order::Block(_, _, blocked) => change.blocked = Some(*blocked),
            Order::Tags(_, _, tags) => change.tags = Some(tags.clone()),
            Order::Put(..) | Order::Drop(..) => {}
        }
        self.put_row(key, PendingCall::Order(Box::new(order)), fx);
    }

    /// An order about a device was completed, one way or the other.
    pub(crate) fn order_over(&mut self, key: Key) {
        if let Some(device) = self.registry.at_mut(key) {
            device.extra().asked -= 1;
        }
        if let Some(change) = self.rows.changes.get_mut(&key) {
            change.orders -= 1;
            if change.orders == 0 {
                self.rows.changes.remove(&key);
            }
        }
    }

    /// Takes a device's record out.
    pub(crate) fn remove_record(&mut self, key: Key) {
        if let Some(device) = self.registry.remove(key) {
            self.rows.dirty -= u64::from(device.dirty());
            self.jobs.vacate(key.slot);
        }
    }

    /// Takes a device's record out, and its row.
    pub(crate) fn forget(&mut self, key: Key, fx: &mut Effects) {
        let rowed = self.registry.at(key).is_some_and(|device| device.rowed());
        let names = self.registry.names(key).filter(|_| rowed);
        self.remove_record(key);
        if let Some((product, device)) = names {
            self.run(CleanupTask::Delete(product, device), fx);
        }
    }

    pub(crate) fn put_row(&mut self, key: Key, pending: PendingCall, fx: &mut Effects) {
        let (Some(row_key), Some(row)) = (self.registry.row_key(key), self.row(key)) else {
            return;
        };
        if let Some(device) = self.registry.at_mut(key) {
            self.rows.dirty -= u64::from(device.dirty());
            device.set_dirty(false);
            if !device.rowed() {
                device.set_rowed(true);
                self.rows.first.insert(key);
            }
        }
        let value = device::encode(&row);
        let write = Write::Put { table: Table::Devices, key: row_key, value };
        self.enter(pending, Call::Write(write), fx);
    }

    fn row(&self, key: Key) -> Option<DeviceRow> {
        let device = self.registry.at(key)?;
        let change = self.rows.changes.get(&key);
        let tags = device.tags().iter().map(|&tag| self.tags.tag(tag).clone());
        Some(DeviceRow {
            blocked: change.and_then(|change| change.blocked).unwrap_or(device.blocked()),
            bound: device.presence() != BindState::Never,
            online: device.conn().is_some(),
            barred: device.is_barred(),
            epoch: device.epoch,
            since_ms: device.since_ms(),
            reason: device.reason(),
            protocol: self.registry.protocol_name(device.protocol()),
            tags: match change.and_then(|change| change.tags.clone()) {
                Some(tags) => tags,
                None => tags.collect(),
            },
            through: self.jobs.through(key.slot).0,
        })
    }
}

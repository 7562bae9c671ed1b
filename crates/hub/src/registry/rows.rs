//! The rows of devices: what is remembered of them over a restart.
//!
//! A row is a copy of a record, made when it is handed to the log. Somebody waits for it only when
//! the API changed it; then the copy has the change before the record does, and so has every copy
//! until the log has answered. Other changes make the record dirty, and the sweep writes it. A row
//! that was refused makes it dirty again; if it was the device's first, no push is called stored
//! on the strength of it, because nobody would know after a restart whose it is.

use super::Registry;
use super::device::{BindState, Device};
use crate::log::durable::device::{self, DeviceRow};
use base::slab::Key;
use model::id::{DeviceId, MessageId, ProductKey, Tag};
use model::ports::log::{Table, Write};
use std::collections::{BTreeMap, BTreeSet};

/// Change of a device that the API wants, and that its row has before its record.
#[derive(Clone)]
pub(crate) enum Change {
    /// It is blocked, or is not any more.
    Block(bool),
    /// It has these tags and no others.
    Tags(Vec<Tag>),
}

/// Changes of one device that are on their way to the log.
#[derive(Default)]
struct Changes {
    blocked: Option<bool>,
    tags: Option<Vec<Tag>>,
    open: u32,
}

/// Rows that differ from their records, one way or the other.
#[derive(Default)]
pub(super) struct Rows {
    /// Records that differ from their rows.
    dirty: u64,
    /// Devices whose first row is on its way.
    first: BTreeSet<Key>,
    /// Rows that are ahead of their records.
    changes: BTreeMap<Key, Changes>,
}

impl Rows {
    /// A record is there no more.
    pub fn removed(&mut self, device: &Device) {
        self.dirty -= u64::from(device.dirty());
    }
}

impl Registry {
    /// The record differs from its row from now on.
    pub fn soil(&mut self, key: Key) {
        if let Some(device) = self.devices.at_mut(key)
            && !device.dirty()
        {
            device.set_dirty(true);
            self.rows.dirty += 1;
        }
    }

    /// Records that differ from their rows.
    pub fn dirty(&self) -> u64 {
        self.rows.dirty
    }

    /// The row of a device as it is to be, `through` with orders up to this one: it counts as
    /// written from now on.
    pub fn row(&mut self, key: Key, through: MessageId) -> Option<Write> {
        let value = device::encode(&self.row_of(key, through)?);
        let device = self.devices.at(key)?;
        let product = self.products.of(device.product).key.as_str();
        let row_key = device::key(self.home, product, self.id(device));
        let device = self.devices.at_mut(key)?;
        self.rows.dirty -= u64::from(device.dirty());
        device.set_dirty(false);
        if !device.rowed() {
            device.set_rowed(true);
            self.rows.first.insert(key);
        }
        Some(Write::Put { table: Table::Devices, key: row_key, value })
    }

    /// The key of a device's row.
    pub fn row_key(&self, product: &ProductKey, id: &DeviceId) -> Box<[u8]> {
        device::key(self.home, product.as_str(), id.as_str())
    }

    /// The log has answered a row, whoever waited for it.
    pub fn row_answered(&mut self, key: Key, is_stored: bool) {
        let was_first = self.rows.first.remove(&key);
        let Some(device) = self.devices.at_mut(key) else { return };
        if is_stored {
            return device.set_rowed(true);
        }
        if was_first {
            device.set_rowed(false);
        }
        self.soil(key);
    }

    /// The rows of a device have this change from now on.
    pub fn change(&mut self, key: Key, change: &Change) {
        self.asked(key);
        let changes = self.rows.changes.entry(key).or_default();
        changes.open += 1;
        match change {
            Change::Block(blocked) => changes.blocked = Some(*blocked),
            Change::Tags(tags) => changes.tags = Some(tags.clone()),
        }
    }

    /// The log has answered a row with a change, one way or the other.
    pub fn change_over(&mut self, key: Key) {
        self.answered(key);
        if let Some(changes) = self.rows.changes.get_mut(&key) {
            changes.open -= 1;
            if changes.open == 0 {
                self.rows.changes.remove(&key);
            }
        }
    }

    fn row_of(&self, key: Key, through: MessageId) -> Option<DeviceRow> {
        let device = self.devices.at(key)?;
        let changes = self.rows.changes.get(&key);
        let tags = changes.and_then(|changes| changes.tags.clone());
        Some(DeviceRow {
            blocked: changes.and_then(|changes| changes.blocked).unwrap_or(device.blocked()),
            bound: device.presence() != BindState::Never,
            online: device.conn().is_some(),
            barred: device.is_barred(),
            epoch: device.epoch,
            since_ms: device.since_ms(),
            reason: device.reason(),
            protocol: self.protocol_name(device.protocol()),
            tags: tags.unwrap_or_else(|| self.tags_of(device).cloned().collect()),
            through: through.0,
        })
    }
}

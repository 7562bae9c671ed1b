//! The rows of devices: what is remembered of them over a restart.
//!
//! A row is a copy of a record, made when it is handed to the log. Somebody waits for it only when
//! the API changed it; then the copy has the change before the record does. Until the log has
//! answered, no other row of the device is written: it would have the change, which may be refused,
//! or undo it. Further orders of the API wait their turn, and everything else makes the record
//! dirty. Other changes make it dirty too, and the sweep writes it. A row that was refused makes it
//! dirty again; if it was the device's first, no push is called stored on the strength of it,
//! because nobody would know after a restart whose it is.

use super::Registry;
use super::device::{BindState, Device};
use crate::log::durable::device::{self, DeviceRow};
use crate::log::pending::PendingCall;
use base::slab::Key;
use model::id::{DeviceId, MessageId, ProductKey, Tag};
use model::ports::log::{Table, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Change of a device that the API wants, and that its row has before its record.
#[derive(Clone)]
pub(crate) enum Change {
    /// It is blocked, or is not any more.
    Block(bool),
    /// It has these tags and no others.
    Tags(Vec<Tag>),
}

/// Orders of the API that may wait behind a change of one device. One more is answered Busy.
pub(crate) const ROWS_WAITING_MAX: usize = 64;

/// A change of one device that is on its way to the log, and the rows that wait behind it.
struct ChangeInFlight {
    change: Change,
    waiting: VecDeque<PendingCall>,
}

/// Rows that differ from their records, one way or the other.
#[derive(Default)]
pub(super) struct Rows {
    /// Records that differ from their rows.
    dirty: u64,
    /// Devices whose first row is on its way.
    first: BTreeSet<Key>,
    /// Changes whose rows are ahead of their records.
    changes: BTreeMap<Key, ChangeInFlight>,
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

    /// The next row of a device has this change.
    pub fn change(&mut self, key: Key, change: &Change) {
        self.asked(key);
        let in_flight = ChangeInFlight { change: change.clone(), waiting: VecDeque::new() };
        self.rows.changes.insert(key, in_flight);
    }

    /// The rows that wait until the log has answered a change of this device, if it has one.
    pub fn rows_waiting(&mut self, key: Key) -> Option<&mut VecDeque<PendingCall>> {
        self.rows.changes.get_mut(&key).map(|in_flight| &mut in_flight.waiting)
    }

    /// The log has answered the row with a change, one way or the other. Gives what waited.
    pub fn change_over(&mut self, key: Key) -> VecDeque<PendingCall> {
        self.answered(key);
        self.rows.changes.remove(&key).map(|in_flight| in_flight.waiting).unwrap_or_default()
    }

    fn row_of(&self, key: Key, through: MessageId) -> Option<DeviceRow> {
        let device = self.devices.at(key)?;
        let (blocked, tags) = match self.rows.changes.get(&key).map(|it| &it.change) {
            Some(Change::Block(blocked)) => (Some(*blocked), None),
            Some(Change::Tags(tags)) => (None, Some(tags.clone())),
            None => (None, None),
        };
        Some(DeviceRow {
            blocked: blocked.unwrap_or(device.blocked()),
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

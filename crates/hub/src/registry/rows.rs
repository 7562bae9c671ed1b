//! The rows of devices: their state as kept across restarts.
//!
//! A row is a copy of a record, made when it is handed to the log. An answer waits for it only if
//! the API changed it; then the copy has the change before the record does. Until the log has
//! answered, no other row of the device is written: it would include the change, which may be
//! refused, or undo it. Further commands of the API wait their turn, and all other changes mark the
//! record dirty, so that the sweep writes the row. A refused row marks the record dirty again; if
//! it was the device's first, no push is reported as stored that relies on it, because after a
//! restart its owner would be unknown.

use super::Registry;
use super::device::{BindState, Device};
use crate::log::durable::device::{self, Cut, DeviceRow};
use crate::log::pending::{OrderWhat, PendingCall};
use base::slab::Key;
use model::id::{DeviceId, DeviceUser, MessageId, ProductKey, Tag};
use model::ports::log::{Table, Write};
use model::push::PlatformToken;
use model::zone::Zone;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Change of a device by the API; the row has it before the record does.
#[derive(Clone)]
pub(crate) enum Change {
    /// Blocks or unblocks the device.
    Block(bool),
    /// Replaces the device's tags.
    Tags(Vec<Tag>),
    /// Gives the device to a user, or to nobody.
    User(Option<DeviceUser>),
    /// Sets the device's time zone, or removes it.
    Zone(Option<Zone>),
    /// Sets its address at its platform, or removes it.
    Platform(Option<Arc<PlatformToken>>),
}

/// Most commands of the API that wait behind a change of one device. One more is answered Busy.
pub(crate) const ROWS_WAITING_MAX: usize = 64;

/// A change of a device at the log, and the commands that wait behind it.
struct ChangeInFlight {
    change: Change,
    /// Pushes that leave the device with its user, if the change gives it to another one.
    cut: Option<Cut>,
    waiting: VecDeque<PendingCall>,
}

impl ChangeInFlight {
    /// The users to whom the changes give the device, the last one last.
    fn users(&self) -> impl DoubleEndedIterator<Item = Option<&DeviceUser>> {
        let waiting = self.waiting.iter().filter_map(|pending| match pending {
            PendingCall::Order(order) => match &order.what {
                OrderWhat::Change(_, change) => Some(change),
                _ => None,
            },
            _ => None,
        });
        std::iter::once(&self.change).chain(waiting).filter_map(|change| match change {
            Change::User(user) => Some(user.as_ref()),
            Change::Block(_) | Change::Tags(_) | Change::Zone(_) | Change::Platform(_) => None,
        })
    }
}

/// Rows that differ from their records, or are about to.
#[derive(Default)]
pub(super) struct Rows {
    /// Number of records that differ from their rows.
    dirty: u64,
    /// Devices whose first row is at the log.
    first: BTreeSet<Key>,
    /// Changes whose rows are ahead of their records.
    changes: BTreeMap<Key, ChangeInFlight>,
}

impl Rows {
    /// Updates the count for a record that was removed.
    pub fn removed(&mut self, device: &Device) {
        self.dirty -= u64::from(device.dirty());
    }
}

impl Registry {
    /// Marks a record as different from its row.
    pub fn soil(&mut self, key: Key) {
        if let Some(device) = self.devices.at_mut(key)
            && !device.dirty()
        {
            device.set_dirty(true);
            self.rows.dirty += 1;
        }
    }

    /// Number of records that differ from their rows.
    pub fn dirty(&self) -> u64 {
        self.rows.dirty
    }

    /// The device's current row as a write; the record is no longer dirty. `through` is the last
    /// order to many that the device is finished with.
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

    /// Completes a row after the log's answer.
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

    /// Notes a change, which the next row of the device will have.
    pub fn change(&mut self, key: Key, change: &Change, cut: Option<Cut>) {
        self.asked(key);
        let (change, waiting) = (change.clone(), VecDeque::new());
        self.rows.changes.insert(key, ChangeInFlight { change, cut, waiting });
    }

    /// Takes the pushes that leave the device with its user, if the change at the log gives it to
    /// another one.
    pub fn take_cut(&mut self, key: Key) -> Option<Cut> {
        self.rows.changes.get_mut(&key)?.cut.take()
    }

    /// The queue of commands behind the device's change at the log, if it has one.
    pub fn rows_waiting(&mut self, key: Key) -> Option<&mut VecDeque<PendingCall>> {
        self.rows.changes.get_mut(&key).map(|in_flight| &mut in_flight.waiting)
    }

    /// Ends a change after the log's answer, good or bad; returns the commands that waited.
    pub fn change_over(&mut self, key: Key) -> VecDeque<PendingCall> {
        self.answered(key);
        self.rows.changes.remove(&key).map(|in_flight| in_flight.waiting).unwrap_or_default()
    }

    /// The user to whom the device belongs once all its changes are stored.
    pub fn user_at_last(&self, key: Key) -> Option<&DeviceUser> {
        let last = self.rows.changes.get(&key).and_then(|changes| changes.users().next_back());
        last.unwrap_or_else(|| self.devices.at(key).and_then(|device| self.user_of(device)))
    }

    /// Number of devices of a user, with those that changes at the log give to them.
    pub fn devices_at_last(&self, product: u16, user: &DeviceUser) -> usize {
        self.devices_of(product, user) + self.coming_to(product, user)
    }

    fn coming_to(&self, product: u16, user: &DeviceUser) -> usize {
        let comes = |key: Key| {
            let device = self.devices.at(key).filter(|device| device.product == product);
            device.is_some_and(|device| self.user_of(device) != Some(user))
                && self.user_at_last(key) == Some(user)
        };
        self.rows.changes.keys().filter(|key| comes(**key)).count()
    }

    /// Whether the device belongs to a user, and no change gives it to another one.
    pub fn belongs_to(&self, key: Key, user: &DeviceUser) -> bool {
        let is_his = |of: Option<&DeviceUser>| of == Some(user);
        is_his(self.devices.at(key).and_then(|device| self.user_of(device)))
            && self.rows.changes.get(&key).is_none_or(|changes| changes.users().all(is_his))
    }

    /// Whether a device belongs to a user who is not this one.
    pub fn leaves_user(&self, device: &Device, user: Option<&DeviceUser>) -> bool {
        let before = self.user_of(device);
        before.is_some() && before != user
    }

    fn row_of(&self, key: Key, through: MessageId) -> Option<DeviceRow> {
        let device = self.devices.at(key)?;
        let change = self.rows.changes.get(&key).map(|it| &it.change);
        let (blocked, tags) = match change {
            Some(Change::Block(blocked)) => (Some(*blocked), None),
            Some(Change::Tags(tags)) => (None, Some(tags.clone())),
            Some(Change::User(_) | Change::Zone(_) | Change::Platform(_)) | None => (None, None),
        };
        let user = match change {
            Some(Change::User(user)) => user.as_ref(),
            _ => self.user_of(device),
        };
        let zone = match change {
            Some(Change::Zone(zone)) => *zone,
            _ => self.zone_of(device),
        };
        let platform = match change {
            Some(Change::Platform(token)) => {
                token.clone().map(|token| (token, self.platforms.through(key.slot)))
            }
            _ => self.platforms.at(key.slot).map(|it| (it.token.clone(), it.through)),
        };
        let cut = self.rows.changes.get(&key).and_then(|in_flight| in_flight.cut.as_ref());
        Some(DeviceRow {
            user: user.cloned(),
            zone,
            platform,
            cut: cut.or(self.cut(key.slot)).cloned(),
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

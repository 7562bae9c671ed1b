//! Queries about devices: by name, and page by page.
//!
//! A page ends at a slot, and the next one continues after it, whichever devices came or went
//! meanwhile. A page may be short, or empty, without being the last: only an absent `next` marks
//! the last, because one answer visits a bounded number of slots.

use super::Registry;
use super::device::{BindState, Device};
use base::slab::Key;
use base::time::Now;
use model::id::{DeviceId, DeviceUser, ProductKey, Tag};
use model::ports::presence::queries::PresenceStatus;
use model::ports::pushes::{DeviceState, PushAnswer};
use model::presence::{self, OnlineState, PresenceVersion, Principal};

/// Most devices in one page.
const PAGE_MAX: usize = 1_000;

/// Most slots visited for one page.
const VISITS_MAX: usize = 16_384;

/// Filter of devices; absent fields match all.
pub(crate) struct Selection {
    /// Only devices of this product.
    pub product: Option<ProductKey>,
    /// Only devices that are online (true) or not (false).
    pub online: Option<bool>,
    /// Only devices with this tag.
    pub tag: Option<Tag>,
}

/// Times of a device's last transition and of its last connection.
#[derive(Default)]
struct Seen {
    since_ms: u64,
    seen_ms: u64,
    version: PresenceVersion,
}

impl Registry {
    /// The states of the known ones among these devices.
    pub fn states(&self, now: Now, product: &ProductKey, devices: &[DeviceId]) -> PushAnswer {
        let Some(number) = self.products.number(product) else {
            return PushAnswer::UnknownProduct;
        };
        let keys = devices.iter().filter_map(|id| self.find(number, id.as_str()));
        PushAnswer::Devices(keys.filter_map(|key| self.state(now, key)).collect())
    }

    /// The states of a user's devices.
    pub fn states_of_user(&self, now: Now, product: &ProductKey, user: &DeviceUser) -> PushAnswer {
        let Some(number) = self.products.number(product) else {
            return PushAnswer::UnknownProduct;
        };
        let next = |from: u32| self.next_of_user(number, user, from);
        let slots = std::iter::successors(next(0), |slot| next(slot + 1));
        let keys = slots.filter_map(|slot| self.tenant(slot).map(|(key, _)| key));
        PushAnswer::Devices(keys.filter_map(|key| self.state(now, key)).collect())
    }

    /// A page of devices in the order of their slots.
    pub fn list(
        &self,
        now: Now,
        selection: Selection,
        after: Option<u64>,
        count: u32,
    ) -> PushAnswer {
        let Selection { product, online, tag } = selection;
        let number = match product.map(|key| self.products.number(&key)) {
            Some(None) => return PushAnswer::UnknownProduct,
            Some(known) => known,
            None => None,
        };
        let count = (count as usize).clamp(1, PAGE_MAX);
        let mut devices = Vec::new();
        let mut slot = after.map_or(0, |slot| slot.saturating_add(1)).min(u64::from(u32::MAX));
        for _ in 0..VISITS_MAX {
            if let (Some(number), Some(tag)) = (number, &tag) {
                let member = self.next_tagged(number, tag, slot as u32);
                slot = member.map_or(u64::from(u32::MAX), u64::from);
            }
            if slot >= u64::from(self.slots()) {
                return PushAnswer::Page { devices, next: None };
            }
            let tenant = self.tenant(slot as u32);
            let asked = tenant.filter(|(_, device)| {
                number.is_none_or(|number| device.product == number)
                    && online.is_none_or(|online| device.conn().is_some() == online)
                    && tag.as_ref().is_none_or(|tag| self.carries(device, tag))
            });
            devices.extend(asked.and_then(|(key, _)| self.state(now, key)));
            if devices.len() == count {
                return PushAnswer::Page { devices, next: Some(slot) };
            }
            slot += 1;
        }
        PushAnswer::Page { devices, next: Some(slot - 1) }
    }

    /// The presence of a device; `None` if it never bound.
    pub fn presence_of(
        &self,
        now: Now,
        product: &ProductKey,
        device: &DeviceId,
    ) -> Option<PresenceStatus> {
        let number = self.products.number(product)?;
        let key = self.find(number, device.as_str())?;
        let record = self.at(key)?;
        let protocol = self.protocol_name(record.protocol());
        let state = match record.conn() {
            Some(_) => OnlineState::Online(protocol),
            None => OnlineState::Offline(record.reason()?),
        };
        let Seen { since_ms, seen_ms, version } = self.seen(now, record);
        let who = Principal::Device(product.clone(), device.clone());
        Some(PresenceStatus { who, user: None, state, since_ms, seen_ms, version })
    }

    fn seen(&self, now: Now, device: &Device) -> Seen {
        if device.presence() == BindState::Never {
            return Seen::default();
        }
        let since_ms = device.since_ms().min(now.wall_ms);
        let seen_ms = match device.conn() {
            Some(_) => presence::seen_ms(now.wall_ms, since_ms, device.heartbeat_s),
            None => since_ms,
        };
        Seen { since_ms, seen_ms, version: device.version() }
    }

    fn state(&self, now: Now, key: Key) -> Option<DeviceState> {
        let (product, id) = self.names(key)?;
        let device = self.at(key)?;
        let (online, queue) = (device.conn().is_some(), device.queue());
        let Seen { since_ms, seen_ms, version } = self.seen(now, device);
        Some(DeviceState {
            product,
            device: id,
            online,
            protocol: self.protocol_name(device.protocol()),
            epoch: device.epoch,
            since_ms,
            seen_ms,
            version,
            reason: device.reason(),
            heartbeat_s: if online { device.heartbeat_s } else { 0 },
            inflight: queue.map_or(0, |queue| queue.inflight() as u32),
            waiting: queue.map_or(0, |queue| queue.count() as u32),
            tags: self.tags_of(device).cloned().collect(),
            user: self.user_of(device).cloned(),
            zone: self.zone_of(device),
            platform: self.platforms.at(key.slot).map(|it| it.token.platform.clone()),
            blocked: device.blocked(),
        })
    }
}

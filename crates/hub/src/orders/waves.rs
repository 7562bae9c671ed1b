//! Pushes by the clocks of the devices: one zone gets them after the other.
//!
//! The zones whose clocks show the time at one moment are a wave, which is a scan over the devices
//! of these zones. A wave begins when its time has come and the one before is through; a start goes
//! through all of them again, and passes over the devices that rows or queues record. An order is
//! over after the last zone in which its product has a device, or its zone for devices without one.
//! Invariant: a device gets the push in the zone that it is in when the time of that zone comes, or
//! when it moves into a zone whose time is over; and if it has had it, in no other.

use super::Hub;
use super::jobs::Jobs;
use super::scans::Selection;
use crate::Effects;
use crate::log::durable::order::{Local, Ordered, PushToMany};
use crate::push::Sending;
use base::slab::Key;
use base::time::Now;
use model::id::MessageId;
use model::ports::pushes::PushTarget;
use model::push::Push;
use model::zone::Zone;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The zones of a wave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WaveZones {
    zones: Vec<Zone>,
    /// With the devices that have no zone.
    has_unzoned: bool,
}

impl WaveZones {
    /// Whether devices in this zone, or without one, belong to the wave.
    pub fn has(&self, zone: Option<Zone>) -> bool {
        zone.map_or(self.has_unzoned, |zone| self.zones.contains(&zone))
    }

    /// The zones, if every device of the wave has one.
    pub fn needed(&self) -> Option<&[Zone]> {
        (!self.has_unzoned).then_some(&self.zones)
    }
}

/// Progress of a push through the zones, on this shard.
#[derive(Default)]
pub(crate) struct Waves {
    /// Unix millisecond up to which zones have been begun.
    upto_ms: u64,
    /// When the next zone is due; absent while a wave is at work.
    next_ms: Option<u64>,
    /// Slots of devices that had the push and may come into a zone that is still to come.
    had: BTreeSet<u32>,
    /// Slots of devices that were registered after the push had begun. At most one for each
    /// device.
    fresh: BTreeSet<u32>,
}

impl Waves {
    /// Notes that this slot is free.
    pub fn vacate(&mut self, slot: u32) {
        self.had.remove(&slot);
        self.fresh.remove(&slot);
    }
}

impl Jobs {
    /// Begins the progress of an order through the zones.
    fn begin_waves(&mut self, id: MessageId) {
        self.waves.entry(id).or_default().next_ms = Some(0);
    }

    /// When the next zone of an order is due, if it waits for one.
    pub fn next_wave_ms(&self, id: MessageId) -> Option<u64> {
        self.waves.get(&id)?.next_ms
    }

    /// The order whose next zone is due.
    fn due_wave(&self, wall_ms: u64) -> Option<MessageId> {
        let is_due = |(id, waves): &(&MessageId, &Waves)| {
            waves.next_ms.is_some_and(|next| next <= wall_ms) && self.goes_on(**id)
        };
        self.waves.iter().find(is_due).map(|(id, _)| *id)
    }

    /// When the next zone of any order is due, Unix milliseconds.
    pub fn next_of_waves_ms(&self) -> Option<u64> {
        let open = self.waves.iter().filter(|(id, _)| self.goes_on(**id));
        open.filter_map(|(_, waves)| waves.next_ms).min()
    }

    /// Whether an order's next zone may begin: it is neither paused nor cancelled.
    fn goes_on(&self, id: MessageId) -> bool {
        !self.is_paused(id) && self.at(id).is_some_and(|job| job.counts.running)
    }

    /// Notes that a device was registered in this slot.
    pub fn registered(&mut self, slot: u32) {
        for waves in self.waves.values_mut() {
            waves.had.remove(&slot);
            waves.fresh.insert(slot);
        }
    }

    /// Notes that the device in this slot gets an order's push. Of a device that was there before
    /// the push had begun, its zone tells that.
    pub fn had(&mut self, slot: u32, id: MessageId) {
        if let Some(waves) = self.waves.get_mut(&id)
            && waves.fresh.contains(&slot)
        {
            waves.had.insert(slot);
        }
    }

    /// Whether the device in this slot had an order's push in another zone.
    pub fn has_had(&self, slot: u32, id: MessageId) -> bool {
        self.waves.get(&id).is_some_and(|waves| waves.had.contains(&slot))
    }
}

impl Hub {
    /// Begins an order by the devices' clocks whose first zone is due.
    pub(super) fn begin_waves(&mut self, now: Now, id: MessageId) {
        self.jobs.begin_waves(id);
        self.turn_waves(now);
    }

    /// Begins the zones that are due; during a drain, the next start does.
    pub(super) fn turn_waves(&mut self, now: Now) {
        while !self.draining
            && let Some(id) = self.jobs.due_wave(now.wall_ms)
        {
            self.next_wave(now, id);
        }
    }

    /// Notes that a wave is through.
    pub(super) fn wave_walked(&mut self, id: MessageId) {
        if let Some(waves) = self.jobs.waves.get_mut(&id) {
            waves.next_ms = Some(0);
        }
    }

    /// Begins the next wave of an order if it is due, or notes its time.
    fn next_wave(&mut self, now: Now, id: MessageId) {
        let (Some(wave), Some(upto_ms)) =
            (self.wave_of(id), self.jobs.waves.get(&id).map(|waves| waves.upto_ms))
        else {
            return self.jobs.walked(id);
        };
        let zones = self.registry.zones(wave.product).map(Some).chain([None]);
        let due = |zone: Option<Zone>| wave.local.time.due_ms(zone, wave.local.since_ms);
        let dues: Vec<_> = zones.filter_map(|zone| Some((due(zone)?, zone))).collect();
        let next = dues.iter().map(|(due_ms, _)| *due_ms).filter(|due_ms| *due_ms > upto_ms).min();
        let Some(next_ms) = next else {
            self.jobs.waves.remove(&id);
            return self.jobs.walked(id);
        };
        let is_due = next_ms <= now.wall_ms;
        if let Some(waves) = self.jobs.waves.get_mut(&id) {
            waves.next_ms = (!is_due).then_some(next_ms);
            waves.upto_ms = if is_due { next_ms } else { upto_ms };
        }
        if !is_due {
            return;
        }
        let of = dues.into_iter().filter(|(due_ms, _)| *due_ms == next_ms);
        let of: Vec<Option<Zone>> = of.map(|(_, zone)| zone).collect();
        let has_unzoned = of.contains(&None);
        let zones = WaveZones { zones: of.into_iter().flatten().collect(), has_unzoned };
        self.jobs.start_again(id);
        let sending = wave.sending(next_ms);
        let (product, selection) = (wave.product, wave.selection);
        self.scan_push(id, (sending, product, selection), Some(zones));
    }

    /// An open order by the devices' clocks.
    fn wave_of(&self, id: MessageId) -> Option<Wave> {
        let open = self.jobs.at(id)?.open.as_ref()?;
        let Ordered::Push(to_many) = &open.order.what else { return None };
        let product = self.registry.products.number(&to_many.push.product)?;
        let selection = Selection::of(&to_many.target)?;
        let (local, to_many) = (to_many.local?, to_many.clone());
        Some(Wave { local, to_many, product, selection })
    }

    /// Sets the time zone of a device. If the time of its zone is still to come with a push, and
    /// that of the new zone is over, the device gets the push now.
    pub(crate) fn move_to_zone(
        &mut self,
        now: Now,
        key: Key,
        zone: Option<Zone>,
        fx: &mut Effects,
    ) {
        self.go_ahead(now, key, fx);
        let Some(device) = self.registry.at(key) else { return };
        let (product, before) = (device.product, self.registry.zone_of(device));
        if !self.registry.set_zone(now, key, zone) {
            return;
        }
        let open: Vec<MessageId> = self.jobs.waves.keys().copied().collect();
        for id in open {
            let Some(wave) = self.wave_of(id).filter(|wave| wave.product == product) else {
                continue;
            };
            let Some(waves) = self.jobs.waves.get_mut(&id) else { continue };
            let due = |zone| wave.local.time.due_ms(zone, wave.local.since_ms);
            let (was_due, is_due) = (due(before), due(zone));
            let is_begun = |due_ms: Option<u64>| due_ms.is_some_and(|it| it <= waves.upto_ms);
            let has_had = waves.had.contains(&key.slot)
                || (!waves.fresh.contains(&key.slot) && is_begun(was_due));
            let is_over = is_begun(is_due);
            if has_had || is_over {
                waves.had.insert(key.slot);
            }
            // The wait may be for a later zone than the new one.
            waves.next_ms = waves.next_ms.map(|_| 0);
            let is_selected = self
                .registry
                .at(key)
                .is_some_and(|device| wave.selection.has(&self.registry, device));
            let is_running = self.jobs.at(id).is_some_and(|job| job.counts.running);
            if let Some(due_ms) = is_due.filter(|_| is_over && !has_had)
                && is_selected
                && is_running
                && !self.has_come_to(key, id)
            {
                self.bring(now, key, &wave.sending(due_ms), fx);
            }
        }
    }
}

/// Push for the devices of some zones.
struct Wave {
    local: Local,
    to_many: PushToMany,
    product: u16,
    selection: Selection,
}

impl Wave {
    /// The push for the zones that are due at this time, from which its time to live counts.
    fn sending(&self, due_ms: u64) -> Sending {
        let to_many = &self.to_many;
        let first_s = to_many.send_at_ms.unwrap_or(0).div_ceil(1_000);
        let later_s = u32::try_from(due_ms.div_ceil(1_000).saturating_sub(first_s)).unwrap_or(0);
        let expire_at = match to_many.push.expire_at {
            0 => 0,
            expire_at => expire_at.saturating_add(later_s),
        };
        let push = Arc::new(Push { expire_at, ..Push::clone(&to_many.push) });
        Sending { push, ..to_many.sending() }
    }
}

impl PushToMany {
    /// The push, as it is brought to devices.
    pub(super) fn sending(&self) -> Sending {
        let user = match &self.target {
            PushTarget::Audience(audience) => audience.user.clone(),
            PushTarget::Devices(_)
            | PushTarget::Tag(_)
            | PushTarget::Product
            | PushTarget::User(_) => None,
        };
        // An audience may name a million devices, so unknown ones get no records.
        let registers = !matches!(self.target, PushTarget::Audience(_));
        let (push, receipts) = (self.push.clone(), self.receipts);
        Sending { push, user, receipts, counted: true, registers }
    }
}

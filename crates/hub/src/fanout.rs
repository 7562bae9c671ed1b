//! Scans over many devices, a slice a turn: fan-outs, new terms, the end of a product.
//!
//! A scan goes through slots in rising order and never back: all slots for a product, the members'
//! slots for a tag. Records keep their slots, so a device that had its record when the scan began
//! and keeps it is visited exactly once; one that gets a record meanwhile is visited at most once.
//! A device that is through with an order (`orders`) is passed over. Several scans take turns.
//! Fan-outs pause while much waits for the store, and in a drain.

use crate::Effects;
use crate::Hub;
use crate::access::terms;
use crate::log::cleanup::CleanupTask;
use crate::push::Sending;
use base::slab::Key;
use base::time::{Instant, Now};
use model::id::{MessageId, Tag};
use model::presence::PresenceVersion;
use model::push::{Outcome, Rejection};
use model::request::{HeartbeatWish, PushDelivery, Refusal};
use std::time::Duration;

/// Slots looked at in a turn, those of other products included.
const VISITS_MAX: usize = 4_096;

/// How long a fan-out pauses at most before it looks whether the store has caught up.
const PAUSE: Duration = Duration::from_millis(10);

/// Work of a scan at each device.
pub(crate) enum Errand {
    /// A push.
    Push(Sending),
    /// The product's terms, for those online.
    Terms,
    /// The product is gone.
    Drop,
}

/// A scan that goes on.
pub(crate) struct DeviceScan {
    /// What is done.
    pub errand: Errand,
    product: u16,
    tag: Option<Tag>,
    /// The next slot to look at.
    from: u32,
    /// Where the scan ends.
    end: u32,
}

impl Hub {
    /// Scans that wait, a shard, beyond fan-outs (which `jobs_max` bounds). One more is answered
    /// Busy.
    const ERRANDS_MAX: usize = 1_024;

    /// Begins to tell the devices of a product its terms; false when too many scans wait.
    pub(crate) fn configure(&mut self, product: u16) -> bool {
        if self.scans.len() >= Hub::ERRANDS_MAX {
            return false;
        }
        self.begin(Errand::Terms, product, None);
        true
    }

    /// Begins to detach the devices of a product that lost its name. Its other scans end here.
    pub(crate) fn drop_devices(&mut self, product: u16) {
        let (ended, scans): (Vec<_>, Vec<_>) =
            self.scans.drain(..).partition(|scan| scan.product == product);
        self.scans = scans.into();
        ended.iter().for_each(|scan| self.walked(scan));
        self.begin(Errand::Drop, product, None);
    }

    /// Goes on with the scan whose turn it is.
    pub(crate) fn turn_scans(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut visits = VISITS_MAX;
        let mut left = self.settings.limits.fan_out_slice;
        while visits > 0 && left > 0 {
            let mut scan = self.scans.pop_front()?;
            // In a drain the log is to come to rest: the next start goes on with it.
            let pauses = self.draining || !self.tickets.are_easy();
            if matches!(scan.errand, Errand::Push(_)) && pauses {
                self.scans.push_back(scan);
                return Some(now.after(PAUSE));
            }
            match self.step(&scan, &mut visits) {
                Some((slot, key)) => {
                    scan.from = slot + 1;
                    if let Some(key) = key {
                        left -= 1;
                        self.visit(now, key, &scan.errand, fx);
                    }
                    self.scans.push_front(scan);
                }
                None => self.walked(&scan),
            }
        }
        self.scans.rotate_left(usize::from(self.scans.len() > 1));
        self.scans.front().map(|_| now.mono)
    }

    pub(crate) fn begin(&mut self, errand: Errand, product: u16, tag: Option<Tag>) {
        let end = self.registry.slots();
        self.scans.push_back(DeviceScan { errand, product, tag, from: 0, end });
    }

    /// The next slot of a scan, with the device to visit if one lives there; `None` at the end.
    fn step(&self, scan: &DeviceScan, visits: &mut usize) -> Option<(u32, Option<Key>)> {
        if let Some(tag) = &scan.tag {
            *visits -= 1;
            let slot = self.tags.member(scan.product, tag, scan.from)?;
            let key = self.registry.tenant(slot).map(|(key, _)| key);
            return (slot < scan.end).then_some((slot, key));
        }
        let mut slot = scan.from;
        while slot < scan.end {
            let tenant = self.registry.tenant(slot);
            let tenant = tenant.filter(|(_, device)| device.product == scan.product);
            *visits -= 1;
            if tenant.is_some() || *visits == 0 {
                return Some((slot, tenant.map(|(key, _)| key)));
            }
            slot += 1;
        }
        None
    }

    /// Whether a scan has still to come to a device.
    pub(crate) fn is_ahead(&self, scan: &DeviceScan, key: Key) -> bool {
        let Some(device) = self.registry.at(key) else { return false };
        device.product == scan.product
            && (scan.from..scan.end).contains(&key.slot)
            && scan.tag.as_ref().is_none_or(|tag| self.carries(device, tag))
    }

    /// Does what there is to do at a device.
    pub(crate) fn visit(&mut self, now: Now, key: Key, errand: &Errand, fx: &mut Effects) {
        match errand {
            Errand::Push(sending) => {
                let id = sending.push.id;
                if self.is_through(key, id) {
                    return;
                }
                self.mirror_at(now, key, &sending.push, fx);
                self.jobs.matched(id, None);
                if let Some(outcome) = self.place(now, key, sending, fx) {
                    self.jobs.ended(id, false, outcome);
                    self.settle_order(now, (key, id), (None, Some(outcome)));
                }
            }
            Errand::Terms => self.tell_terms(key, fx),
            Errand::Drop => self.discard(now, key, fx),
        }
    }

    fn walked(&mut self, scan: &DeviceScan) {
        match &scan.errand {
            Errand::Push(sending) => self.walked_order(sending.push.id),
            Errand::Terms => {}
            Errand::Drop => self.registry.products.free(scan.product),
        }
    }

    /// The wishes a device had at its Bind are not remembered: the product's default holds, and
    /// the window only ever shrinks.
    fn tell_terms(&mut self, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(conn) = device.conn() else { return };
        let (number, window) = (device.product, device.window);
        let product = self.registry.products.of(number).clone();
        let heartbeat_s = terms::heartbeat_s(&product, HeartbeatWish::default(), &mut self.rng);
        let Some(device) = self.registry.at_mut(key) else { return };
        device.heartbeat_s = heartbeat_s;
        device.window = terms::window(&product, window);
        let (term, inflight_max) = (device.term(), device.window);
        fx.deliveries.push((conn, PushDelivery::Configure { term, heartbeat_s, inflight_max }));
    }

    /// The device's product is gone, and so is the device.
    fn discard(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some((product, id)) = self.registry.names(key) else { return };
        let Some(device) = self.registry.at_mut(key) else { return };
        let asked = device.extra.as_ref().is_some_and(|extra| extra.asked > 0);
        let items = device.queue_mut().map(|queue| queue.drain()).unwrap_or_default();
        let has_timeline = asked || !items.is_empty();
        for item in items {
            self.end_unlogged(now, key, &item, Outcome::Rejected(Rejection::Evicted), fx);
        }
        match self.registry.at(key).map(|device| PresenceVersion(device.epoch)) {
            // The product was made again, and the device may be online under it: this word about
            // it must be known as late.
            Some(version) if self.registry.products.number(&product).is_some() => {
                self.kick_at(now, key, (Refusal::AdminKick, Vec::new(), version), fx);
            }
            _ => drop(self.kick(now, key, (Refusal::AdminKick, Vec::new()), fx)),
        }
        self.set_tags(now, key, &[]);
        self.forget(key, fx);
        if has_timeline {
            self.run(CleanupTask::Forget(product, id), fx);
        }
    }

    /// Ids of the fan-outs that are walking.
    pub(crate) fn walking(&self) -> impl Iterator<Item = MessageId> {
        self.scans.iter().filter_map(|scan| match &scan.errand {
            Errand::Push(sending) => Some(sending.push.id),
            Errand::Terms | Errand::Drop => None,
        })
    }
}

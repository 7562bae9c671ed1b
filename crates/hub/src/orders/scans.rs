//! Scans over many devices, a slice a turn: fan-outs, recalls, new terms, the end of a product.
//!
//! A scan goes through slots in rising order and never back: all slots for a product, the members'
//! slots for a tag. Records keep their slots, so a device that had its record when the scan began
//! and keeps it is visited exactly once; one that gets a record meanwhile is visited at most once.
//! Several scans take turns.

use crate::push::Sending;
use crate::registry::Registry;
use crate::registry::device::Device;
use base::slab::Key;
use base::time::{Instant, Now};
use model::id::{MessageId, Tag};
use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

/// Work of a scan at each device.
pub(crate) enum Errand {
    /// A push.
    Push(Sending),
    /// The product's terms, for those online.
    Terms,
    /// The product is gone.
    Drop,
    /// A push is recalled.
    Recall {
        /// The push.
        push: MessageId,
        /// The order that cancels it.
        cancel: MessageId,
    },
}

/// A scan that goes on.
pub(crate) struct DeviceScan {
    /// What is done.
    pub errand: Errand,
    /// Number of the product whose devices are visited; those of all products when absent.
    pub product: Option<u16>,
    tag: Option<Tag>,
    /// The next slot to look at.
    from: u32,
    /// Where the scan ends.
    end: u32,
    /// It waits until this is set to false.
    pub paused: bool,
    /// How long there is between two devices at least, and when the next one may be visited.
    pub pace: Option<Pace>,
    /// Slots still to come whose devices have been visited already, because a later order came to
    /// them first. At most as many as there are devices.
    visited: BTreeSet<u32>,
}

/// The pace of a scan.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    interval: Duration,
    next: Instant,
}

impl Pace {
    /// How far a scan may be behind its pace and catch up.
    const BEHIND_MAX: Duration = Duration::from_millis(100);

    /// This shard's part of so many devices a second, of so many shards.
    pub fn new(devices_per_s: NonZeroU32, shards: u16) -> Pace {
        let interval = Duration::from_secs(shards.into()) / devices_per_s.get();
        Pace { interval, next: Instant::default() }
    }

    /// A device is visited.
    fn step(&mut self, now: Now) {
        let behind = now.mono.nanos().saturating_sub(self.next.nanos());
        let from = match Duration::from_nanos(behind) > Pace::BEHIND_MAX {
            true => now.mono,
            false => self.next,
        };
        self.next = from + self.interval;
    }
}

impl DeviceScan {
    /// When it goes on, if not now; `None` inside: when it is resumed. A push whose time is over
    /// waits for nothing: its scan comes to an end, and holds back nothing any more.
    pub fn waits(&self, now: Now) -> Option<Option<Instant>> {
        let expire_at = match &self.errand {
            Errand::Push(sending) => sending.push.expire_at,
            Errand::Terms | Errand::Drop | Errand::Recall { .. } => u32::MAX,
        };
        let left_s = u64::from(expire_at.saturating_sub(now.unix_s()));
        match self.pace {
            _ if left_s == 0 => None,
            _ if self.paused => Some(Some(now.mono + Duration::from_secs(left_s))),
            Some(pace) if pace.next > now.mono => Some(Some(pace.next)),
            _ => None,
        }
    }

    /// It comes to a device to which it had not come before.
    pub fn visits(&mut self, now: Now) {
        if let Some(pace) = &mut self.pace {
            pace.step(now);
        }
    }

    /// The next step: the device to visit, if one lives in that slot; `None` at the end. `visits`
    /// counts down the slots that are looked at.
    pub fn step(&mut self, registry: &Registry, visits: &mut usize) -> Option<Option<Key>> {
        let (slot, key) = match (&self.tag, self.product) {
            (Some(tag), Some(product)) => {
                *visits -= 1;
                let slot = registry.next_tagged(product, tag, self.from)?;
                if slot >= self.end {
                    return None;
                }
                (slot, registry.tenant(slot).map(|(key, _)| key))
            }
            _ => registry.next_with(self.from..self.end, visits, |device| self.wants(device))?,
        };
        self.from = slot + 1;
        let was_visited = self.visited.remove(&slot);
        Some(key.filter(|_| !was_visited))
    }

    /// Whether there is something to do at a device.
    fn wants(&self, device: &Device) -> bool {
        let is_of = self.product.is_none_or(|product| device.product == product);
        let Errand::Recall { push, .. } = self.errand else { return is_of };
        is_of && device.queue().is_some_and(|queue| queue.items().any(|item| item.id == push))
    }

    /// Whether it has still to come to a device.
    fn is_ahead(&self, registry: &Registry, key: Key) -> bool {
        let Some(device) = registry.at(key) else { return false };
        self.product == Some(device.product)
            && (self.from..self.end).contains(&key.slot)
            && !self.visited.contains(&key.slot)
            && self.tag.as_ref().is_none_or(|tag| registry.carries(device, tag))
    }

    /// Passes over a device when it comes to it, for it has been visited.
    pub fn pass_over(&mut self, key: Key) {
        self.visited.insert(key.slot);
    }

    /// Comes to a device again, the one that it came to last.
    pub fn stay(&mut self, key: Key) {
        self.from = key.slot;
    }

    /// Whether it has still to bring a device an order from before `id`.
    fn is_earlier(&self, registry: &Registry, key: Key, id: MessageId, waits: bool) -> bool {
        let goes_on = waits || !(self.paused || self.pace.is_some());
        goes_on && self.order().is_some_and(|order| order < id) && self.is_ahead(registry, key)
    }

    /// The order whose push it takes to devices.
    pub fn order(&self) -> Option<MessageId> {
        match &self.errand {
            Errand::Push(sending) => Some(sending.push.id),
            Errand::Terms | Errand::Drop | Errand::Recall { .. } => None,
        }
    }

    /// Whether it pauses while much waits for the store.
    pub fn pauses(&self) -> bool {
        matches!(self.errand, Errand::Push(_) | Errand::Recall { .. })
    }
}

/// The scans of one shard, in turn.
#[derive(Default)]
pub(crate) struct Scans(VecDeque<DeviceScan>);

impl Scans {
    /// Scans that wait, a shard, beyond fan-outs (which `jobs_max` bounds). One more is answered
    /// Busy.
    const ERRANDS_MAX: usize = 1_024;

    /// Whether another one may wait that is no fan-out.
    pub fn has_room(&self) -> bool {
        self.0.len() < Scans::ERRANDS_MAX
    }

    /// Begins one over the devices of a product that have a record by now.
    pub fn begin(
        &mut self,
        errand: Errand,
        product: Option<u16>,
        tag: Option<Tag>,
        registry: &Registry,
    ) -> &mut DeviceScan {
        let (end, visited) = (registry.slots(), BTreeSet::new());
        let (paused, pace) = (false, None);
        let scan = DeviceScan { errand, product, tag, from: 0, end, paused, pace, visited };
        self.0.push_back(scan);
        self.0.back_mut().expect("it was put there")
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The one of an order waits from now on, or goes on.
    pub fn pause(&mut self, id: MessageId, paused: bool) {
        let of = self.0.iter_mut().filter(|scan| scan.order() == Some(id));
        of.for_each(|scan| scan.paused = paused);
    }

    /// Takes out all that go over a product.
    pub fn end_product(&mut self, product: u16) -> Vec<DeviceScan> {
        let (ended, scans): (Vec<_>, Vec<_>) =
            self.0.drain(..).partition(|scan| scan.product == Some(product));
        self.0 = scans.into();
        ended
    }

    /// Ends the one of an order.
    pub fn end_order(&mut self, id: MessageId) {
        self.0.retain(|scan| scan.order() != Some(id));
    }

    /// Takes out the one whose turn it is.
    pub fn take(&mut self) -> Option<DeviceScan> {
        self.0.pop_front()
    }

    /// Puts it back, its turn going on.
    pub fn put_back(&mut self, scan: DeviceScan) {
        self.0.push_front(scan);
    }

    /// Puts it back behind the others.
    pub fn put_last(&mut self, scan: DeviceScan) {
        self.0.push_back(scan);
    }

    /// The turn is the next one's. Whether there is one.
    pub fn rotate(&mut self) -> bool {
        self.0.rotate_left(usize::from(self.0.len() > 1));
        !self.0.is_empty()
    }

    /// Takes out the earliest push, of those ordered before `id`, that has still to come to this
    /// device, and notes that it has come. Of those that wait only if `waits`.
    pub fn take_earlier(
        &mut self,
        registry: &Registry,
        key: Key,
        id: MessageId,
        waits: bool,
    ) -> Option<Sending> {
        let earlier = self.0.iter_mut().filter(|scan| scan.is_earlier(registry, key, id, waits));
        let scan = earlier.min_by_key(|scan| scan.order())?;
        scan.pass_over(key);
        match &scan.errand {
            Errand::Push(sending) => Some(sending.clone()),
            Errand::Terms | Errand::Drop | Errand::Recall { .. } => None,
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &DeviceScan> {
        self.0.iter()
    }

    /// Whether a push that was ordered before `id` has still to come to this device.
    pub fn has_earlier(&self, registry: &Registry, key: Key, id: MessageId) -> bool {
        self.0.iter().any(|scan| scan.is_earlier(registry, key, id, false))
    }
}

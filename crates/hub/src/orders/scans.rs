//! Scans over many devices, a slice a turn: fan-outs, recalls, new terms, the end of a product.
//!
//! A scan goes through slots in rising order and never back: all slots for a product, the members'
//! slots for a tag. Records keep their slots, so a device that had its record when the scan began
//! and keeps it is visited exactly once; a device registered meanwhile is visited at most once.
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
    /// Brings a push to devices.
    Push(Sending),
    /// Sends online devices their product's new terms.
    Terms,
    /// Discards the devices of a dropped product.
    Drop,
    /// Recalls a cancelled push from the queues.
    Recall {
        /// The push.
        push: MessageId,
        /// The order that cancels the push.
        cancel: MessageId,
    },
}

/// A scan in progress.
pub(crate) struct DeviceScan {
    /// The work at each device.
    pub errand: Errand,
    /// Number of the product whose devices are visited; all products when absent.
    pub product: Option<u16>,
    tag: Option<Tag>,
    /// The next slot to visit.
    from: u32,
    /// The slot at which the scan ends, exclusive.
    end: u32,
    /// The scan's push is paused.
    pub paused: bool,
    /// Shortest time between two devices, and when the next one may be visited.
    pub pace: Option<Pace>,
    /// Slots ahead of the scan whose devices were visited already, because they had to get this
    /// push before a later one. At most one per device.
    visited: BTreeSet<u32>,
}

/// The pace of a scan.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    interval: Duration,
    next: Instant,
}

impl Pace {
    /// How far a scan may fall behind its pace and still catch up.
    const BEHIND_MAX: Duration = Duration::from_millis(100);

    /// This shard's share of `devices_per_s`, with this number of shards.
    pub fn new(devices_per_s: NonZeroU32, shards: u16) -> Pace {
        let interval = Duration::from_secs(shards.into()) / devices_per_s.get();
        Pace { interval, next: Instant::default() }
    }

    /// Notes a visit: the next one follows an interval later.
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
    /// When the scan goes on; `None` if now. The inner time is that of the next paced visit, or,
    /// for a paused scan, that of the push's expiry. An expired push does not wait: its scan runs
    /// to its end and holds back nothing any more.
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

    /// Notes the visit of a device that the order had not reached before.
    pub fn visits(&mut self, now: Now) {
        if let Some(pace) = &mut self.pace {
            pace.step(now);
        }
    }

    /// Advances by one step: the device to visit, if the slot holds one that was not visited;
    /// `None` at the end. `visits` counts down the slots that are visited.
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

    /// Whether the scan has work at a device.
    fn wants(&self, device: &Device) -> bool {
        let is_of = self.product.is_none_or(|product| device.product == product);
        let Errand::Recall { push, .. } = self.errand else { return is_of };
        is_of && device.queue().is_some_and(|queue| queue.items().any(|item| item.id == push))
    }

    /// Whether the scan is still to visit a device.
    fn is_ahead(&self, registry: &Registry, key: Key) -> bool {
        let Some(device) = registry.at(key) else { return false };
        self.product == Some(device.product)
            && (self.from..self.end).contains(&key.slot)
            && !self.visited.contains(&key.slot)
            && self.tag.as_ref().is_none_or(|tag| registry.carries(device, tag))
    }

    /// Notes that a device was visited ahead of its turn: the scan will skip it.
    pub fn pass_over(&mut self, key: Key) {
        self.visited.insert(key.slot);
    }

    /// Steps back to a device, so that the scan visits it again next.
    pub fn stay(&mut self, key: Key) {
        self.from = key.slot;
    }

    /// Whether the scan is still to bring a device an order from before `id`.
    fn is_earlier(&self, registry: &Registry, key: Key, id: MessageId, waits: bool) -> bool {
        let goes_on = waits || !(self.paused || self.pace.is_some());
        goes_on && self.order().is_some_and(|order| order < id) && self.is_ahead(registry, key)
    }

    /// The order whose push the scan brings to devices.
    pub fn order(&self) -> Option<MessageId> {
        match &self.errand {
            Errand::Push(sending) => Some(sending.push.id),
            Errand::Terms | Errand::Drop | Errand::Recall { .. } => None,
        }
    }

    /// Whether the scan pauses while many pushes wait for the store.
    pub fn pauses(&self) -> bool {
        matches!(self.errand, Errand::Push(_) | Errand::Recall { .. })
    }
}

/// The scans of one shard, which take turns.
#[derive(Default)]
pub(crate) struct Scans(VecDeque<DeviceScan>);

impl Scans {
    /// Scans of a shard above which new ones that are no fan-outs are answered Busy. Fan-outs are
    /// bounded by `jobs_max`.
    const ERRANDS_MAX: usize = 1_024;

    /// Whether another scan that is no fan-out may begin.
    pub fn has_room(&self) -> bool {
        self.0.len() < Scans::ERRANDS_MAX
    }

    /// Begins a scan over the devices of a product that have a record by now.
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

    /// Number of scans.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Pauses an order's scan, or lets it go on.
    pub fn pause(&mut self, id: MessageId, paused: bool) {
        let of = self.0.iter_mut().filter(|scan| scan.order() == Some(id));
        of.for_each(|scan| scan.paused = paused);
    }

    /// Takes out all scans of a product.
    pub fn end_product(&mut self, product: u16) -> Vec<DeviceScan> {
        let (ended, scans): (Vec<_>, Vec<_>) =
            self.0.drain(..).partition(|scan| scan.product == Some(product));
        self.0 = scans.into();
        ended
    }

    /// Ends an order's scan.
    pub fn end_order(&mut self, id: MessageId) {
        self.0.retain(|scan| scan.order() != Some(id));
    }

    /// Takes out the scan whose turn it is.
    pub fn take(&mut self) -> Option<DeviceScan> {
        self.0.pop_front()
    }

    /// Puts a scan back; its turn continues.
    pub fn put_back(&mut self, scan: DeviceScan) {
        self.0.push_front(scan);
    }

    /// Puts a scan back behind the others.
    pub fn put_last(&mut self, scan: DeviceScan) {
        self.0.push_back(scan);
    }

    /// Passes the turn to the next scan. False if there are no scans.
    pub fn rotate(&mut self) -> bool {
        self.0.rotate_left(usize::from(self.0.len() > 1));
        !self.0.is_empty()
    }

    /// Takes the earliest push, of those ordered before `id`, that is still to visit this device,
    /// and marks the device as visited. Paused and paced scans count only if `waits`.
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

    /// All scans.
    pub fn iter(&self) -> impl Iterator<Item = &DeviceScan> {
        self.0.iter()
    }

    /// Whether a push that was ordered before `id` is still to visit this device.
    pub fn has_earlier(&self, registry: &Registry, key: Key, id: MessageId) -> bool {
        self.0.iter().any(|scan| scan.is_earlier(registry, key, id, false))
    }
}

//! Scans over many devices, a slice a turn: fan-outs, recalls, counts, new terms, the end of a
//! product.
//!
//! A scan goes through slots in rising order and never back: all slots for a product, the members'
//! slots for a tag, or the places in the list of an audience that names its devices. Records keep
//! their slots, so a device that had its record when the scan began and keeps it is visited exactly
//! once; a device registered meanwhile is visited at most once.
//! Several scans take turns.

use super::waves::WaveZones;
use crate::push::Sending;
use crate::registry::Registry;
use crate::registry::device::Device;
use base::hash::{self, HashKey};
use base::slab::Key;
use base::time::{Instant, Now};
use model::audience::{Audience, TagExpression};
use model::id::{DeviceId, MessageId, ShardId, Tag};
use model::ports::pushes::{AudienceCounts, PushTarget};
use model::zone::Zone;
use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
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
    /// Counts devices, and answers a command at the end.
    Count(Counting),
}

/// A dry run in progress.
pub(crate) struct Counting {
    /// Number of the command.
    pub reply: u64,
    /// When nobody waits for the answer any more.
    pub until: Instant,
    /// The devices that were counted so far.
    pub counts: AudienceCounts,
}

/// The devices of a product that a scan visits.
#[derive(Clone)]
pub(crate) enum Selection {
    /// All of them.
    All,
    /// Those with this tag.
    Tag(Tag),
    /// Those of this audience.
    Audience(Arc<Audience>),
}

impl Selection {
    /// The devices of a push's target, if it is no list for which a push has outcomes.
    pub fn of(target: &PushTarget) -> Option<Selection> {
        match target {
            PushTarget::Devices(_) | PushTarget::User(_) => None,
            PushTarget::Tag(tag) => Some(Selection::Tag(tag.clone())),
            PushTarget::Product => Some(Selection::All),
            PushTarget::Audience(audience) => Some(Selection::Audience(audience.clone())),
        }
    }

    /// Effort of asking whether a device is one of them, in devices of a product that is visited
    /// as a whole.
    pub fn cost(&self) -> usize {
        let Selection::Audience(audience) = self else { return 1 };
        let terms = audience.tags.as_ref().map_or(1, TagExpression::terms);
        let lists = [&audience.devices, &audience.except].into_iter().flatten().count();
        terms + lists * LIST_COST
    }

    /// Tags of which each of them has one; absent if they need none.
    fn needed(&self) -> Option<Vec<Tag>> {
        let Selection::Audience(audience) = self else { return None };
        let mut needed: Vec<Tag> = audience.tags.as_ref()?.needed()?.into_iter().cloned().collect();
        needed.sort_unstable();
        needed.dedup();
        Some(needed)
    }

    /// Whether a device of the product is one of them.
    pub fn has(&self, registry: &Registry, device: &Device) -> bool {
        match self {
            Selection::All => true,
            Selection::Tag(tag) => registry.carries(device, tag),
            Selection::Audience(audience) => {
                let user = || registry.user_of(device).cloned();
                audience.has(registry.id(device), user, &|tag| registry.carries(device, tag))
            }
        }
    }
}

/// Effort of finding a name in a list of a million, in tags that are compared.
const LIST_COST: usize = 16;

/// How devices are assigned to shards, and this shard.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    /// The key of the hash.
    pub home: HashKey,
    /// Number of shards.
    pub shards: u16,
    /// The shard of the scans.
    pub shard: ShardId,
}

impl Share {
    /// Whether a device belongs to this shard.
    pub fn has(self, product: &str, device: &str) -> bool {
        let of = self.home.of(&[product.as_bytes(), device.as_bytes()]);
        hash::home(of, self.shards) == self.shard.0
    }
}

/// One step of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The scan has visited everything.
    End,
    /// Nothing is to be done here.
    Nothing,
    /// This device is to be visited.
    Device(Key),
    /// The device at this place of the audience's list is to be visited.
    Listed(usize),
}

/// A scan in progress.
pub(crate) struct DeviceScan {
    /// The work at each device.
    pub errand: Errand,
    /// Number of the product whose devices are visited; all products when absent.
    pub product: Option<u16>,
    selection: Selection,
    /// Tags of which each selected device has one, if the selection needs any.
    needed: Option<Vec<Tag>>,
    /// Visits that a visited device counts for: how much the selection compares at it.
    cost: usize,
    /// The next slot to visit, or the next place in the audience's list.
    from: u32,
    /// The slot or place at which the scan ends, exclusive.
    end: u32,
    /// The slot or place visited last.
    last: u32,
    /// Only devices of these zones are visited.
    pub zones: Option<WaveZones>,
    /// The scan's push is paused.
    pub paused: bool,
    /// Shortest time between two devices, and when the next one may be visited.
    pub pace: Option<Pace>,
    /// Slots or places ahead of the scan whose devices were visited already, because they had to
    /// get this push before a later one. At most one per device.
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
            Errand::Terms | Errand::Drop | Errand::Recall { .. } | Errand::Count(_) => u32::MAX,
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

    /// Advances by one step. `visits` counts down the slots and places that are visited, each as
    /// many times as the selection's cost.
    pub fn step(&mut self, registry: &Registry, share: Share, visits: &mut usize) -> Step {
        if let Some(audience) = self.listed().cloned() {
            return self.step_in_list(&audience, registry, share, visits);
        }
        let found = match (self.next_needed(registry), self.product) {
            (Some(next), Some(_)) => {
                *visits = visits.saturating_sub(self.cost);
                let Some(slot) = next.filter(|slot| *slot < self.end) else { return Step::End };
                // The members of a tag have it.
                let is_sure = matches!(self.selection, Selection::Tag(_)) && self.zones.is_none();
                let tenant = registry
                    .tenant(slot)
                    .filter(|(_, device)| is_sure || self.wants(registry, device));
                Some((slot, tenant.map(|(key, _)| key)))
            }
            _ => {
                let slots = visits.div_ceil(self.cost);
                let (mut left, all) = (slots, self.from..self.end);
                let found = registry.next_with(all, &mut left, |it| self.wants(registry, it));
                *visits = visits.saturating_sub((slots - left) * self.cost);
                found
            }
        };
        let Some((slot, key)) = found else { return Step::End };
        (self.last, self.from) = (slot, slot + 1);
        let was_visited = self.visited.remove(&slot);
        key.filter(|_| !was_visited).map_or(Step::Nothing, Step::Device)
    }

    /// The audience, if it names its devices.
    fn listed(&self) -> Option<&Arc<Audience>> {
        match &self.selection {
            Selection::Audience(audience) if audience.devices.is_some() => Some(audience),
            Selection::All | Selection::Tag(_) | Selection::Audience(_) => None,
        }
    }

    /// A step through the list of an audience.
    fn step_in_list(
        &mut self,
        audience: &Audience,
        registry: &Registry,
        share: Share,
        visits: &mut usize,
    ) -> Step {
        *visits -= 1;
        let place = self.from;
        let name = audience.devices.as_ref().and_then(|devices| devices.at(place as usize));
        let (Some(name), Some(product)) = (name, self.product) else { return Step::End };
        (self.last, self.from) = (place, place + 1);
        if !share.has(registry.products.of(product).key.as_str(), name) {
            return Step::Nothing;
        }
        *visits = visits.saturating_sub(self.cost);
        let was_visited = self.visited.remove(&place);
        let known = registry.find(product, name).and_then(|key| registry.at(key));
        let is_wanted = match known {
            Some(device) => self.wants(registry, device),
            // An unknown device has no tags, no user and no zone.
            None => self.is_in_zones(None) && audience.has(name, || None, &|_| false),
        };
        if is_wanted && !was_visited { Step::Listed(place as usize) } else { Step::Nothing }
    }

    /// The next slot whose device has one of the tags, or the user, that the selection needs;
    /// absent if the selection needs none.
    fn next_needed(&self, registry: &Registry) -> Option<Option<u32>> {
        let product = self.product?;
        let next = |tag: &Tag| registry.next_tagged(product, tag, self.from);
        let in_zones = || {
            let zones = self.zones.as_ref()?.needed()?;
            let next = |zone: &Zone| registry.next_in_zone(product, *zone, self.from);
            Some(zones.iter().filter_map(next).min())
        };
        match &self.selection {
            Selection::All => in_zones(),
            Selection::Tag(tag) => Some(next(tag)),
            Selection::Audience(audience) => {
                if let Some(user) = &audience.user {
                    return Some(registry.next_of_user(product, user, self.from));
                }
                match &self.needed {
                    Some(needed) => Some(needed.iter().filter_map(next).min()),
                    None => in_zones(),
                }
            }
        }
    }

    /// Whether the scan has work at a device.
    fn wants(&self, registry: &Registry, device: &Device) -> bool {
        let is_of = self.product.is_none_or(|product| device.product == product)
            && self.is_in_zones(registry.zone_of(device))
            && self.selection.has(registry, device);
        let Errand::Recall { push, .. } = self.errand else { return is_of };
        is_of && device.queue().is_some_and(|queue| queue.items().any(|item| item.id == push))
    }

    /// Whether devices in this zone, or without one, are visited.
    fn is_in_zones(&self, zone: Option<Zone>) -> bool {
        self.zones.as_ref().is_none_or(|zones| zones.has(zone))
    }

    /// Whether the scan is still to come to the place of a device, which it then visits if the
    /// device is selected.
    fn is_ahead(&self, registry: &Registry, key: Key) -> bool {
        let Some(device) = registry.at(key) else { return false };
        let is_ahead =
            |place| (self.from..self.end).contains(&place) && !self.visited.contains(&place);
        self.product == Some(device.product) && self.place(registry, key).is_some_and(is_ahead)
    }

    /// The slot of a device, or its place in the list of an audience that names its devices.
    /// Another device may take the slot while the scan goes on, but not the place.
    fn place(&self, registry: &Registry, key: Key) -> Option<u32> {
        match self.listed().and_then(|audience| audience.devices.as_ref()) {
            Some(devices) => devices.place(registry.id(registry.at(key)?)).map(|at| at as u32),
            None => Some(key.slot),
        }
    }

    /// Notes that a device was visited ahead of its turn: the scan will skip it.
    fn pass_over(&mut self, registry: &Registry, key: Key) {
        self.visited.extend(self.place(registry, key));
    }

    /// Steps back to the device of the last step, so that the scan visits it again next.
    pub fn stay(&mut self) {
        self.from = self.last;
    }

    /// The name at a place of the audience's list.
    pub fn name(&self, place: usize) -> Option<DeviceId> {
        let devices = self.listed()?.devices.as_ref()?;
        DeviceId::parse(devices.at(place)?).ok()
    }

    /// Counts the device of a step, if the scan counts.
    pub fn count(&mut self, registry: &Registry, step: Step) {
        let key = match step {
            Step::End | Step::Nothing => return,
            Step::Device(key) => Some(key),
            Step::Listed(place) => {
                let product = self.product.zip(self.name(place));
                product.and_then(|(product, id)| registry.find(product, id.as_str()))
            }
        };
        let Errand::Count(Counting { counts, .. }) = &mut self.errand else { return };
        counts.matched += 1;
        match key.and_then(|key| registry.at(key)) {
            Some(device) => counts.online += u64::from(device.conn().is_some()),
            None => counts.unknown += 1,
        }
    }

    /// Whether the scan is still to bring a device an order from before `id`. If that depends on
    /// the selection, its cost is added to `compared`.
    fn is_earlier(
        &self,
        registry: &Registry,
        (key, id, waits): (Key, MessageId, bool),
        compared: &mut usize,
    ) -> bool {
        let goes_on = waits || !(self.paused || self.pace.is_some());
        let is_earlier = goes_on && self.order().is_some_and(|order| order < id);
        if !is_earlier || !self.is_ahead(registry, key) {
            return false;
        }
        *compared += self.cost;
        registry.at(key).is_some_and(|device| self.wants(registry, device))
    }

    /// The order whose push the scan brings to devices.
    pub fn order(&self) -> Option<MessageId> {
        match &self.errand {
            Errand::Push(sending) => Some(sending.push.id),
            Errand::Terms | Errand::Drop | Errand::Recall { .. } | Errand::Count(_) => None,
        }
    }

    /// Whether the scan pauses while many pushes wait for the store.
    pub fn pauses(&self) -> bool {
        matches!(self.errand, Errand::Push(_) | Errand::Recall { .. })
    }
}

/// The scans of one shard, which take turns.
#[derive(Default)]
pub(crate) struct Scans {
    all: VecDeque<DeviceScan>,
    /// Cost of the selections that were asked for earlier pushes.
    compared: usize,
}

impl Scans {
    /// Scans of a shard, without those for pushes and cancels, above which new ones are answered
    /// Busy. Those for pushes and cancels are bounded by `jobs_max`.
    const ERRANDS_MAX: usize = 1_024;

    /// Dry runs of a product on a shard. One more is answered Busy.
    const COUNTS_A_PRODUCT_MAX: usize = 4;

    /// Whether another scan that is not for a push or a cancel may begin.
    pub fn has_room(&self) -> bool {
        self.all.iter().filter(|scan| !scan.pauses()).count() < Scans::ERRANDS_MAX
    }

    /// Whether another dry run of a product may begin.
    pub fn has_room_to_count(&self, product: u16) -> bool {
        let is_count = |scan: &&DeviceScan| {
            matches!(scan.errand, Errand::Count(_)) && scan.product == Some(product)
        };
        let counts = self.all.iter().filter(is_count).count();
        counts < Scans::COUNTS_A_PRODUCT_MAX && self.has_room()
    }

    /// The cost of the selections that were asked for earlier pushes since the last call.
    pub fn take_compared(&mut self) -> usize {
        std::mem::take(&mut self.compared)
    }

    /// Begins a scan over those devices of a product that have a record by now, or that are named.
    pub fn begin(
        &mut self,
        errand: Errand,
        product: Option<u16>,
        selection: Selection,
        registry: &Registry,
    ) -> &mut DeviceScan {
        let (end, visited) = (registry.slots(), BTreeSet::new());
        let (needed, cost) = (selection.needed(), selection.cost());
        let mut scan = DeviceScan {
            errand,
            product,
            selection,
            needed,
            cost,
            from: 0,
            end,
            last: 0,
            zones: None,
            paused: false,
            pace: None,
            visited,
        };
        let listed = scan.listed().and_then(|audience| audience.devices.as_ref());
        scan.end = listed.map_or(end, |devices| devices.len() as u32);
        self.all.push_back(scan);
        self.all.back_mut().expect("it was put there")
    }

    /// Number of scans.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Pauses an order's scan, or lets it go on.
    pub fn pause(&mut self, id: MessageId, paused: bool) {
        let of = self.all.iter_mut().filter(|scan| scan.order() == Some(id));
        of.for_each(|scan| scan.paused = paused);
    }

    /// Takes out all scans of a product.
    pub fn end_product(&mut self, product: u16) -> Vec<DeviceScan> {
        let (ended, scans): (Vec<_>, Vec<_>) =
            self.all.drain(..).partition(|scan| scan.product == Some(product));
        self.all = scans.into();
        ended
    }

    /// Ends an order's scan.
    pub fn end_order(&mut self, id: MessageId) {
        self.all.retain(|scan| scan.order() != Some(id));
    }

    /// Takes out the scan whose turn it is.
    pub fn take(&mut self) -> Option<DeviceScan> {
        self.all.pop_front()
    }

    /// Puts a scan back; its turn continues.
    pub fn put_back(&mut self, scan: DeviceScan) {
        self.all.push_front(scan);
    }

    /// Puts a scan back behind the others.
    pub fn put_last(&mut self, scan: DeviceScan) {
        self.all.push_back(scan);
    }

    /// Passes the turn to the next scan. False if there are no scans.
    pub fn rotate(&mut self) -> bool {
        self.all.rotate_left(usize::from(self.all.len() > 1));
        !self.all.is_empty()
    }

    /// The pushes, of those ordered before `id`, that are still to visit this device, in the order
    /// of their ids. Paused and paced scans count only if `waits`.
    pub fn earlier(
        &mut self,
        registry: &Registry,
        key: Key,
        id: MessageId,
        waits: bool,
    ) -> Vec<MessageId> {
        let (all, compared) = (&self.all, &mut self.compared);
        let of = (key, id, waits);
        let earlier = all.iter().filter(|scan| scan.is_earlier(registry, of, compared));
        let mut earlier: Vec<_> = earlier.filter_map(DeviceScan::order).collect();
        earlier.sort_unstable();
        earlier
    }

    /// Marks a device as visited by an order's scan, and takes its push.
    pub fn take_ahead(
        &mut self,
        registry: &Registry,
        key: Key,
        order: MessageId,
    ) -> Option<Sending> {
        registry.at(key)?;
        let scan = self.all.iter_mut().find(|scan| scan.order() == Some(order))?;
        scan.pass_over(registry, key);
        match &scan.errand {
            Errand::Push(sending) => Some(sending.clone()),
            Errand::Terms | Errand::Drop | Errand::Recall { .. } | Errand::Count(_) => None,
        }
    }

    /// All scans.
    pub fn iter(&self) -> impl Iterator<Item = &DeviceScan> {
        self.all.iter()
    }
}

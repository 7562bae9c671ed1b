//! Registry of devices: every device's record, found by product and id, with its tags and its row.
//!
//! The index holds slot numbers only; names are compared in the records, and hashed as (product
//! key, device id). Of pushes the registry knows only the devices' queues, and it hands nothing to
//! the log: it returns the rows to be written ([`rows`]).
//! Invariant: a slot is in the index exactly while a record lives in it.

mod audit;
pub(crate) mod device;
pub(crate) mod item;
pub(crate) mod pages;
pub(crate) mod platforms;
pub(crate) mod products;
pub(crate) mod queue;
pub(crate) mod rows;
mod tags;

use self::device::{Device, Name};
use self::platforms::Platforms;
use self::products::Products;
use self::rows::Rows;
use self::tags::{Group, Groups};
use crate::log::durable;
use crate::log::durable::device::Cut;
use crate::{Effects, Settings};
use base::hash::HashKey;
use base::index::Index;
use base::slab::{Key, Slab};
use base::time::Now;
use model::close::CloseReason;
use model::id::{ConnRef, DeviceId, DeviceUser, ProductKey, Tag};
use model::ports::control::disconnections::Parting;
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::presence::{OnlineState, PresenceVersion, Principal, Transition};
use model::timeline::TimelineId;
use model::zone::Zone;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;

/// Name of a device, known or not: its product's number and its id.
#[derive(Clone, Copy)]
pub(crate) struct DeviceName<'a> {
    /// The product's number.
    pub product: u16,
    /// The device's id.
    pub id: &'a DeviceId,
}

/// End of a device's session.
#[derive(Clone, Copy)]
pub(crate) struct SessionEnd {
    /// The version of the transition.
    pub version: PresenceVersion,
    /// Close reason of the session's connection.
    pub reason: CloseReason,
}

/// The devices of one shard.
pub(crate) struct Registry {
    /// The products of the devices.
    pub products: Products,
    /// The key under which the devices' timelines are named.
    home: HashKey,
    hash_key: HashKey,
    devices: Slab<Device>,
    index: Index,
    /// Device ids that are too long for a record.
    long: Slab<Box<str>>,
    /// Names of protocols, by number; the first is empty.
    protocols: Vec<&'static str>,
    groups: Groups,
    /// By slot, the pushes that a device that has changed hands left behind.
    cuts: BTreeMap<u32, Cut>,
    pub platforms: Platforms,
    rows: Rows,
    online: u64,
}

impl Registry {
    /// An empty registry with room for `devices_max` devices.
    pub fn new(settings: &Settings) -> Registry {
        let devices_max = settings.devices_max as usize;
        Registry {
            products: Products::new(settings.home),
            home: settings.home,
            hash_key: settings.hash_key,
            devices: Slab::new(devices_max),
            index: Index::default(),
            long: Slab::new(devices_max),
            protocols: vec![""],
            groups: Groups::default(),
            cuts: BTreeMap::new(),
            platforms: Platforms::default(),
            rows: Rows::default(),
            online: 0,
        }
    }

    /// Sets the limit of devices.
    pub fn set_devices_max(&mut self, devices_max: usize) {
        self.devices.set_cap(devices_max);
        self.long.set_cap(devices_max);
    }

    /// The device's key, if it is known.
    pub fn find(&self, product: u16, id: &str) -> Option<Key> {
        let hash = self.hash(product, id);
        let same = |slot: u32| {
            let tenant = self.devices.tenant(slot);
            tenant.is_some_and(|(_, device)| device.product == product && self.id(device) == id)
        };
        let slot = self.index.find(hash, same)?;
        self.devices.tenant(slot).map(|(key, _)| key)
    }

    /// The device's key, with a new record if the device is unknown; `None` if there is no room.
    pub fn find_or_insert(&mut self, at_ms: u64, product: u16, id: &str) -> Option<Key> {
        if let Some(key) = self.find(product, id) {
            return Some(key);
        }
        if self.devices.len() >= self.devices.cap() {
            return None;
        }
        let name = match Name::short(id) {
            Some(name) => name,
            None => Name::long(self.long.insert(id.into()).ok()?.slot),
        };
        let hash = self.hash(product, id);
        let key = self.devices.insert(Device::new(name, product, at_ms)).ok()?;
        let Registry { products, hash_key, devices, index, long, .. } = self;
        index.insert(hash, key.slot, |slot| {
            let (_, device) = devices.tenant(slot).expect("indexed slots have tenants");
            let key = products.of(device.product).key.as_str();
            hash_key.of(&[key.as_bytes(), read(device, long).as_bytes()])
        });
        self.products.held(product, 1);
        Some(key)
    }

    /// Removes a device's record.
    pub fn remove(&mut self, key: Key) -> Option<Device> {
        let hash = self.hash_at(key)?;
        self.index.remove(hash, key.slot);
        let device = self.devices.remove(key)?;
        if let Err(slot) = device.name().read() {
            let tenant = self.long.tenant(slot).map(|(key, _)| key);
            tenant.and_then(|key| self.long.remove(key));
        }
        self.products.held(device.product, -1);
        self.rows.removed(&device);
        self.cuts.remove(&key.slot);
        self.platforms.remove(key.slot);
        Some(device)
    }

    /// Whether a device has a record.
    pub fn is_known(&self, product: &ProductKey, device: &DeviceId) -> bool {
        let number = self.products.number(product);
        number.is_some_and(|number| self.find(number, device.as_str()).is_some())
    }

    /// The record under this key, if its device is still there.
    pub fn at(&self, key: Key) -> Option<&Device> {
        self.devices.at(key)
    }

    /// The record under this key, to change.
    pub fn at_mut(&mut self, key: Key) -> Option<&mut Device> {
        self.devices.at_mut(key)
    }

    /// The device in `slot`.
    pub fn tenant(&self, slot: u32) -> Option<(Key, &Device)> {
        self.devices.tenant(slot)
    }

    /// The slot of the next wanted device in `slots`, with its key; `None` at the end. Counts down
    /// `visits`; when they are used up, it returns the slot reached, without a key if that one is
    /// not wanted.
    pub fn next_with(
        &self,
        slots: Range<u32>,
        visits: &mut usize,
        wants: impl Fn(&Device) -> bool,
    ) -> Option<(u32, Option<Key>)> {
        for slot in slots {
            let tenant = self.devices.tenant(slot);
            let tenant = tenant.filter(|(_, device)| wants(device));
            *visits -= 1;
            if tenant.is_some() || *visits == 0 {
                return Some((slot, tenant.map(|(key, _)| key)));
            }
        }
        None
    }

    /// First slot from `from` on whose device carries a tag of a product.
    pub fn next_tagged(&self, product: u16, tag: &Tag, from: u32) -> Option<u32> {
        self.groups.member(product, Group::Tag(tag.clone()), from)
    }

    /// Upper bound of all slots, exclusive.
    pub fn slots(&self) -> u32 {
        self.devices.slots()
    }

    /// Number of known devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// The device's id, as text.
    pub fn id<'a>(&'a self, device: &'a Device) -> &'a str {
        read(device, &self.long)
    }

    /// The device's product and id.
    pub fn names(&self, key: Key) -> Option<(ProductKey, DeviceId)> {
        let device = self.devices.at(key)?;
        let id = DeviceId::parse(self.id(device)).expect("ids were checked where they entered");
        Some((self.products.of(device.product).key.clone(), id))
    }

    /// The timeline of the device's pushes.
    pub fn timeline(&self, key: Key) -> Option<TimelineId> {
        let device = self.devices.at(key)?;
        let product = self.products.of(device.product).key.as_str();
        Some(durable::timeline_of(self.home, product, self.id(device)))
    }

    /// The device whose pushes are in a timeline, as text for people. Visits all devices.
    pub fn owner(&self, timeline: TimelineId) -> Option<String> {
        let keys = (0..self.devices.slots()).filter_map(|slot| self.devices.tenant(slot));
        let mut its = keys.filter(|(key, _)| self.timeline(*key) == Some(timeline));
        let (product, id) = self.names(its.next()?.0)?;
        Some(format!("device {} of product {}", id.as_str(), product.as_str()))
    }

    /// The timeline of a device's pushes; the device need not be known.
    pub fn timeline_of(&self, product: &ProductKey, device: &DeviceId) -> TimelineId {
        durable::timeline_of(self.home, product.as_str(), device.as_str())
    }

    /// Binds the device to a connection.
    pub fn attach(&mut self, key: Key, conn: ConnRef, epoch: u64) -> Option<&mut Device> {
        let device = self.devices.at_mut(key)?;
        device.attach(conn, epoch);
        self.online += 1;
        Some(device)
    }

    /// Unbinds a device that was online: pushes in flight return to the queue.
    pub fn detach(&mut self, key: Key, end: SessionEnd) {
        let Some(device) = self.devices.at_mut(key) else { return };
        device.detach(end.version, end.reason);
        if let Some(queue) = device.queue_mut() {
            queue.rewind();
        }
        self.online -= 1;
    }

    /// Number of devices online.
    pub fn online(&self) -> u64 {
        self.online
    }

    /// Replaces the device's tags; returns whether they changed.
    pub fn set_tags(&mut self, now: Now, key: Key, tags: &[Tag]) -> bool {
        let tags = tags.iter().cloned().map(Group::Tag);
        self.replace_groups(now, key, tags, |group| matches!(group, Group::Tag(_)))
    }

    /// Gives the device to a user, or to nobody; returns whether that changed something.
    pub fn set_user(&mut self, now: Now, key: Key, user: Option<DeviceUser>) -> bool {
        let user = user.into_iter().map(Group::User);
        self.replace_groups(now, key, user, |group| matches!(group, Group::User(_)))
    }

    /// Sets the device's time zone; returns whether that changed something.
    pub fn set_zone(&mut self, now: Now, key: Key, zone: Option<Zone>) -> bool {
        let zone = zone.into_iter().map(Group::Zone);
        self.replace_groups(now, key, zone, |group| matches!(group, Group::Zone(_)))
    }

    /// Replaces the groups of a kind.
    fn replace_groups(
        &mut self,
        now: Now,
        key: Key,
        joins: impl Iterator<Item = Group>,
        is_of_kind: impl Fn(&Group) -> bool,
    ) -> bool {
        let Some(device) = self.devices.at(key) else { return false };
        let all = device.groups().iter().map(|&number| self.groups.name(number));
        let groups = all.filter(|group| !is_of_kind(group)).cloned().chain(joins).collect();
        self.set_groups(now, key, groups)
    }

    fn set_groups(&mut self, now: Now, key: Key, groups: Vec<Group>) -> bool {
        let Some(device) = self.devices.at_mut(key) else { return false };
        let product = device.product;
        let joined = groups.into_iter().map(|group| self.groups.join(product, group, key.slot));
        let mut numbers: Vec<u32> = joined.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let before = match device.groups().is_empty() && numbers.is_empty() {
            true => return false,
            false => std::mem::replace(&mut device.extra().groups, numbers.into_boxed_slice()),
        };
        for number in before.iter().filter(|&number| !device.groups().contains(number)) {
            self.groups.leave(*number, key.slot);
        }
        let changed = *before != *device.groups();
        device.release(now.mono);
        changed
    }

    /// Whether the device carries a tag.
    pub fn carries(&self, device: &Device, tag: &Tag) -> bool {
        self.tags_of(device).any(|own| own == tag)
    }

    /// The device's tags.
    pub fn tags_of<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = &'a Tag> {
        device.groups().iter().filter_map(|&number| match self.groups.name(number) {
            Group::Tag(tag) => Some(tag),
            Group::User(_) | Group::Zone(_) => None,
        })
    }

    /// The user to whom the device belongs.
    pub fn user_of<'a>(&'a self, device: &'a Device) -> Option<&'a DeviceUser> {
        device.groups().iter().find_map(|&number| match self.groups.name(number) {
            Group::User(user) => Some(user),
            Group::Tag(_) | Group::Zone(_) => None,
        })
    }

    /// The device's time zone.
    pub fn zone_of(&self, device: &Device) -> Option<Zone> {
        device.groups().iter().find_map(|&number| match self.groups.name(number) {
            Group::Zone(zone) => Some(*zone),
            Group::Tag(_) | Group::User(_) => None,
        })
    }

    /// The time zones of a product's devices.
    pub fn zones(&self, product: u16) -> impl Iterator<Item = Zone> + '_ {
        self.groups.zones(product)
    }

    /// First slot from `from` on whose device is in a time zone.
    pub fn next_in_zone(&self, product: u16, zone: Zone, from: u32) -> Option<u32> {
        self.groups.member(product, Group::Zone(zone), from)
    }

    /// First slot from `from` on whose device belongs to a user of a product.
    pub fn next_of_user(&self, product: u16, user: &DeviceUser, from: u32) -> Option<u32> {
        self.groups.member(product, Group::User(user.clone()), from)
    }

    /// Number of devices of a user here.
    pub fn devices_of(&self, product: u16, user: &DeviceUser) -> usize {
        self.groups.size(product, Group::User(user.clone()))
    }

    /// The pushes that the device in this slot left behind, if it has changed hands.
    pub fn cut(&self, slot: u32) -> Option<&Cut> {
        self.cuts.get(&slot)
    }

    /// Notes the pushes that the device in this slot left behind when it changed hands.
    pub fn set_cut(&mut self, slot: u32, cut: Cut) {
        self.cuts.insert(slot, cut);
    }

    /// Frees parts of the device's record that are empty.
    pub fn release(&mut self, now: Now, key: Key) {
        if let Some(device) = self.devices.at_mut(key) {
            device.release(now.mono);
        }
    }

    /// Counts an open log call whose completion needs the device's record.
    pub fn asked(&mut self, key: Key) {
        if let Some(device) = self.devices.at_mut(key) {
            device.extra().asked += 1;
        }
    }

    /// Counts the completion of such a call (see [`asked`](Registry::asked)).
    pub fn answered(&mut self, key: Key) {
        if let Some(device) = self.devices.at_mut(key) {
            device.extra().asked -= 1;
        }
    }

    /// Reports a device's new state of presence, with its address if it came online.
    pub fn transition(
        &self,
        key: Key,
        (state, peer): (OnlineState, Option<SocketAddr>),
        fx: &mut Effects,
    ) {
        let (Some(device), Some(names)) = (self.at(key), self.names(key)) else { return };
        let version = device.version();
        let protocol = self.protocol_name(device.protocol());
        let who = Principal::Device(names.0, names.1);
        fx.transitions.push(Transition { who, user: None, state, protocol, peer, version });
    }

    /// Reports the connection that a device is about to leave.
    pub fn part(&self, key: Key, fx: &mut Effects) {
        let Some(device) = self.at(key) else { return };
        let Some(conn) = device.conn() else { return };
        fx.partings.push(Parting {
            conn,
            client: self.id(device).into(),
            product: Some(self.products.of(device.product).key.clone()),
            user: None,
            peer: None,
            since_ms: device.version().unix_ms(),
            detail: "",
        });
    }

    /// Publishes an event of a device, if anyone listens.
    pub fn tell(&self, now: Now, key: Key, what: impl FnOnce() -> DeviceWhat, fx: &mut Effects) {
        if fx.events_wanted
            && let Some(event) = self.event(now, key, what())
        {
            fx.tell(event);
        }
    }

    /// An event of a device.
    pub fn event(&self, now: Now, key: Key, what: DeviceWhat) -> Option<DeviceEvent> {
        let (device, (product, id)) = (self.at(key)?, self.names(key)?);
        let (at_ms, epoch) = (now.wall_ms, device.epoch);
        let version = match what {
            DeviceWhat::Online { .. } | DeviceWhat::Offline { .. } => device.version(),
            DeviceWhat::Report { .. }
            | DeviceWhat::Pushed { .. }
            | DeviceWhat::Reported { .. }
            | DeviceWhat::TokenDead { .. } => PresenceVersion::default(),
        };
        Some(DeviceEvent { at_ms, product, device: id, epoch, version, what })
    }

    /// The number of a protocol's name. If there are too many names, the rest share the empty one.
    pub fn protocol(&mut self, name: &'static str) -> u8 {
        if let Some(number) = self.protocols.iter().position(|known| *known == name) {
            return number as u8;
        }
        if self.protocols.len() == Device::PROTOCOLS_MAX {
            return 0;
        }
        self.protocols.push(name);
        self.protocols.len() as u8 - 1
    }

    /// The name with this number.
    pub fn protocol_name(&self, number: u8) -> &'static str {
        self.protocols.get(usize::from(number)).copied().unwrap_or("")
    }

    fn hash(&self, product: u16, id: &str) -> u64 {
        let key = self.products.of(product).key.as_str();
        self.hash_key.of(&[key.as_bytes(), id.as_bytes()])
    }

    fn hash_at(&self, key: Key) -> Option<u64> {
        let device = self.devices.at(key)?;
        Some(self.hash(device.product, self.id(device)))
    }
}

fn read<'a>(device: &'a Device, long: &'a Slab<Box<str>>) -> &'a str {
    match device.name().read() {
        Ok(id) => id,
        Err(slot) => long.tenant(slot).map(|(_, id)| &**id).expect("a long name has its slot"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::ShardId;
    use model::limits::Limits;
    use model::product::Product;
    use std::sync::Arc;

    fn registry(devices_max: u32) -> (Registry, u16) {
        let mut registry = Registry::new(&Settings {
            shard: ShardId(0),
            shards: 1,
            limits: Arc::new(Limits::default()),
            devices_max,
            offline_bytes_max: 0,
            binds_per_s: 1,
            secret: base::secret::ClusterSecret::new([0; 32]),
            node_secret: [0; 32],
            hash_key: HashKey::new(1, 2),
            home: HashKey::new(3, 4),
            report_hooks: Vec::new(),
            platforms: [].into(),
            seed: 0,
        });
        let key = ProductKey::parse("p").expect("a name");
        let product = registry.products.put(Arc::new(Product::new(key, 1))).expect("room");
        (registry, product)
    }

    #[test]
    fn ids_of_every_length_are_found_and_forgotten() {
        let (mut registry, product) = registry(100);
        let ids: Vec<String> = (1..=64).map(|length| "x".repeat(length)).collect();
        let insert = |registry: &mut Registry, id: &str| registry.find_or_insert(7, product, id);
        let keys: Vec<_> = ids.iter().map(|id| insert(&mut registry, id).expect("room")).collect();
        registry.audit(0);
        for (id, key) in ids.iter().zip(&keys) {
            assert_eq!(insert(&mut registry, id), Some(*key));
            assert_eq!(registry.names(*key).expect("known").1.as_str(), id);
        }
        for key in keys.iter().step_by(2) {
            assert!(registry.remove(*key).is_some());
        }
        registry.audit(0);
        assert_eq!((registry.len(), registry.find(product, &ids[0])), (32, None));
    }

    #[test]
    fn a_full_registry_says_so() {
        let (mut registry, product) = registry(1);
        assert!(registry.find_or_insert(0, product, "a").is_some());
        assert_eq!(registry.find_or_insert(0, product, "b"), None);
        assert!(registry.find_or_insert(0, product, "a").is_some());
    }
    #[test]
    fn tags_are_joined_and_left_as_devices_change_theirs() {
        let (mut registry, product) = registry(10);
        let [a, b] = ["a", "b"].map(|id| registry.find_or_insert(0, product, id).expect("room"));
        let [red, blue] = ["red", "blue"].map(|tag| Tag::parse(tag).expect("a name"));
        let now = Now::default();
        assert!(registry.set_tags(now, a, &[red.clone(), blue.clone(), red.clone()]));
        assert!(registry.set_tags(now, b, std::slice::from_ref(&blue)));
        assert!(!registry.set_tags(now, b, std::slice::from_ref(&blue)), "no change");
        let first = |registry: &Registry, tag, from| registry.next_tagged(product, tag, from);
        assert_eq!(first(&registry, &blue, 0), Some(a.slot));
        assert_eq!(first(&registry, &blue, a.slot + 1), Some(b.slot));
        assert!(registry.set_tags(now, a, &[]) && !registry.set_tags(now, a, &[]));
        assert_eq!((first(&registry, &red, 0), first(&registry, &blue, 0)), (None, Some(b.slot)));
        registry.audit(0);
    }

    #[test]
    fn a_walk_over_a_product_visits_each_device_once_and_counts_its_steps() {
        let (mut registry, product) = registry(10);
        let ids = ["a", "b", "c"];
        let keys = ids.map(|id| registry.find_or_insert(0, product, id).expect("room"));
        registry.remove(keys[1]);
        let mut visits = 10;
        let next = |from, visits: &mut usize| {
            registry.next_with(from..3, visits, |device| device.product == product)
        };
        assert_eq!(next(0, &mut visits), Some((0, Some(keys[0]))));
        assert_eq!(next(1, &mut visits), Some((2, Some(keys[2]))));
        assert_eq!((next(3, &mut visits), visits), (None, 7));
        assert_eq!(
            (
                next(1, &mut 1),
                registry.next_with(0..3, &mut 5, |device| device.product == product + 1)
            ),
            (Some((1, None)), None)
        );
    }
}

//! Registry of devices: every device's record, found by product and id.
//!
//! The index holds slot numbers only; names are compared in the records, and hashed as (product
//! key, device id). The registry knows nothing of pushes but how they stand in a device's queue.
//! Invariant: a slot is in the index exactly while a record lives in it.

pub(crate) mod device;
pub(crate) mod item;
pub(crate) mod products;
pub(crate) mod queue;
pub(crate) mod tags;

use self::device::{Device, Name};
use self::products::Products;
use crate::log::durable;
use base::hash::HashKey;
use base::index::Index;
use base::slab::{Key, Slab};
use model::id::{DeviceId, ProductKey};
use model::timeline::TimelineId;

/// The devices of one shard.
pub(crate) struct Registry {
    /// The products they belong to.
    pub products: Products,
    hash_key: HashKey,
    devices: Slab<Device>,
    index: Index,
    /// Ids that do not fit into a record.
    long: Slab<Box<str>>,
    /// Names of protocols by number; the first is empty.
    protocols: Vec<&'static str>,
}

impl Registry {
    /// Holds at most `devices_max`.
    pub fn new(hash_key: HashKey, devices_max: u32) -> Registry {
        Registry {
            products: Products::default(),
            hash_key,
            devices: Slab::new(devices_max as usize),
            index: Index::default(),
            long: Slab::new(devices_max as usize),
            protocols: vec![""],
        }
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

    /// Its key, with a new record if it is not known; `None` when there is no room.
    pub fn find_or_insert(&mut self, at_ms: u64, product: u16, id: &str) -> Option<Key> {
        if let Some(key) = self.find(product, id) {
            return Some(key);
        }
        if self.devices.len() == self.devices.cap() {
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

    /// Forgets a device.
    pub fn remove(&mut self, key: Key) -> Option<Device> {
        let hash = self.hash_at(key)?;
        self.index.remove(hash, key.slot);
        let device = self.devices.remove(key)?;
        if let Err(slot) = device.name().read() {
            let tenant = self.long.tenant(slot).map(|(key, _)| key);
            tenant.and_then(|key| self.long.remove(key));
        }
        self.products.held(device.product, -1);
        Some(device)
    }

    /// The record of this tenancy.
    pub fn at(&self, key: Key) -> Option<&Device> {
        self.devices.at(key)
    }

    /// The same, to change.
    pub fn at_mut(&mut self, key: Key) -> Option<&mut Device> {
        self.devices.at_mut(key)
    }

    /// Who lives in `slot`.
    pub fn tenant(&self, slot: u32) -> Option<(Key, &Device)> {
        self.devices.tenant(slot)
    }

    /// Every slot is below this.
    pub fn slots(&self) -> u32 {
        self.devices.slots()
    }

    /// Devices known.
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

    /// The timeline of its pushes, named under `home`.
    pub fn timeline(&self, home: HashKey, key: Key) -> Option<TimelineId> {
        let device = self.devices.at(key)?;
        let product = self.products.of(device.product).key.as_str();
        Some(durable::timeline_of(home, product, self.id(device)))
    }

    /// The key of its row.
    pub fn row_key(&self, key: Key) -> Option<Box<[u8]>> {
        let device = self.devices.at(key)?;
        let product = self.products.of(device.product).key.as_str();
        Some(durable::device::key(product, self.id(device)))
    }

    /// Number of a protocol's name. When there are too many, the rest share the empty one.
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

    /// Panics when index, slab and products disagree.
    pub fn audit(&self) {
        assert_eq!(self.index.len(), self.devices.len(), "index and slab");
        let mut long = 0;
        let mut held = vec![0; self.products.numbers()];
        for (key, device) in self.devices.iter() {
            assert_eq!(self.find(device.product, self.id(device)), Some(key), "found by its name");
            long += usize::from(device.name().read().is_err());
            held[usize::from(device.product)] += 1;
        }
        assert_eq!(self.long.len(), long, "long names");
        self.products.audit(&held);
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
    use model::product::Product;
    use std::sync::Arc;

    #[test]
    fn ids_of_every_length_are_found_and_forgotten() {
        let mut registry = Registry::new(HashKey::new(1, 2), 100);
        let key = ProductKey::parse("p").expect("a name");
        let product = registry.products.put(Arc::new(Product::new(key, 1))).expect("room");
        let ids: Vec<String> = (1..=64).map(|length| "x".repeat(length)).collect();
        let insert = |registry: &mut Registry, id: &str| registry.find_or_insert(7, product, id);
        let keys: Vec<_> = ids.iter().map(|id| insert(&mut registry, id).expect("room")).collect();
        registry.audit();
        for (id, key) in ids.iter().zip(&keys) {
            assert_eq!(insert(&mut registry, id), Some(*key));
            assert_eq!(registry.names(*key).expect("known").1.as_str(), id);
        }
        for key in keys.iter().step_by(2) {
            assert!(registry.remove(*key).is_some());
        }
        registry.audit();
        assert_eq!((registry.len(), registry.find(product, &ids[0])), (32, None));
    }

    #[test]
    fn a_full_registry_says_so() {
        let mut registry = Registry::new(HashKey::new(1, 2), 1);
        let key = ProductKey::parse("p").expect("a name");
        let product = registry.products.put(Arc::new(Product::new(key, 1))).expect("room");
        assert!(registry.find_or_insert(0, product, "a").is_some());
        assert_eq!(registry.find_or_insert(0, product, "b"), None);
        assert!(registry.find_or_insert(0, product, "a").is_some());
    }
}

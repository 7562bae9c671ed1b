//! The products, each under a number that fits into a device's record.
//!
//! A number stays taken until the last device with it is gone, so a product that is dropped and
//! created again gets another number. The table knows how many devices each number has, not which.
//! The configuration of a product applies until the API changes the product, and again once the
//! configuration itself changes.

use crate::log::durable;
use base::hash::HashKey;
use model::id::ProductKey;
use model::product::Product;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The products, including dropped ones whose devices are still being detached.
pub(crate) struct Products {
    /// The key under which configured products are hashed.
    home: HashKey,
    numbers: BTreeMap<ProductKey, u16>,
    places: Vec<Option<Place>>,
    /// Hash of each configured product.
    configured: BTreeMap<ProductKey, u64>,
}

struct Place {
    product: Arc<Product>,
    devices: u32,
}

impl Products {
    /// Most products. One more is refused (`Done(false)`).
    pub const MAX: usize = 4_096;

    /// An empty table.
    pub fn new(home: HashKey) -> Products {
        let (numbers, configured) = (BTreeMap::new(), BTreeMap::new());
        Products { home, numbers, places: Vec::new(), configured }
    }

    /// Takes a product from the configuration; false if there are too many. An unchanged
    /// configuration has no effect: between the configuration and the API, the later change holds.
    pub fn configure(&mut self, product: Arc<Product>) -> bool {
        let base = self.hash(&product);
        let known = self.number(&product.key).is_some();
        if known && self.configured.get(&product.key) == Some(&base) {
            return true;
        }
        self.configured.insert(product.key.clone(), base);
        self.put(product).is_some()
    }

    /// Hash of a product as configured, never zero; `None` if it is not configured.
    pub fn configured(&self, key: &ProductKey) -> Option<u64> {
        self.configured.get(key).copied()
    }

    /// Configured products that the API has changed since.
    pub fn changed(&self) -> impl Iterator<Item = &ProductKey> {
        let changed = self.all().filter(|product| {
            self.configured(&product.key).is_some_and(|base| base != self.hash(product))
        });
        changed.map(|product| &product.key)
    }

    /// The number of the product with this key.
    pub fn number(&self, key: &ProductKey) -> Option<u16> {
        self.numbers.get(key).copied()
    }

    /// The product with this number, which must be in use.
    pub fn of(&self, number: u16) -> &Arc<Product> {
        &self.place(number).product
    }

    /// All products, by key.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Product>> {
        self.numbers.values().map(|&number| self.of(number))
    }

    /// Creates or changes a product; `None` if there are too many.
    pub fn put(&mut self, product: Arc<Product>) -> Option<u16> {
        if let Some(number) = self.number(&product.key) {
            self.place_mut(number).product = product;
            return Some(number);
        }
        let number = match self.places.iter().position(Option::is_none) {
            Some(at) => at,
            None if self.places.len() < Products::MAX => {
                self.places.push(None);
                self.places.len() - 1
            }
            None => return None,
        };
        self.numbers.insert(product.key.clone(), number as u16);
        self.places[number] = Some(Place { product, devices: 0 });
        Some(number as u16)
    }

    /// Removes a product's key; the number stays until [`free`](Self::free).
    pub fn unname(&mut self, key: &ProductKey) -> Option<u16> {
        self.numbers.remove(key)
    }

    /// Frees the number of a product without a key.
    pub fn free(&mut self, number: u16) {
        assert_eq!(self.place(number).devices, 0, "a freed product has no devices");
        self.places[usize::from(number)] = None;
    }

    /// Counts a device with this number that came or went.
    pub fn held(&mut self, number: u16, change: i32) {
        let place = self.place_mut(number);
        place.devices = place.devices.checked_add_signed(change).expect("devices are counted");
    }

    /// Upper bound of the numbers ever used, exclusive.
    pub fn numbers(&self) -> usize {
        self.places.len()
    }

    /// Panics if the counts of devices differ from `held`.
    pub fn audit(&self, held: &[u32]) {
        for (place, held) in self.places.iter().zip(held) {
            assert_eq!(place.as_ref().map_or(0, |place| place.devices), *held, "devices held");
        }
    }

    fn hash(&self, product: &Product) -> u64 {
        self.home.of(&[&durable::product::encode(product, 0)]).max(1)
    }

    fn place(&self, number: u16) -> &Place {
        self.places[usize::from(number)].as_ref().expect("numbers in use have products")
    }

    fn place_mut(&mut self, number: u16) -> &mut Place {
        self.places[usize::from(number)].as_mut().expect("numbers in use have products")
    }
}

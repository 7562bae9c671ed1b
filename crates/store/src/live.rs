//! What of the journal is still alive, and in which segment its record stands.
//!
//! Lets the journal delete a segment whose waits are all over, and says what of the products and
//! blocked devices must be said again before it does. It holds no push: a wait is known by a keyed
//! 128-bit hash of product, device and id, 32 bytes each. It knows no file. Invariant: the counts
//! by segment are the waits that [`Live::note`] has seen begin and not end.

use base::hash::HashKey;
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::journal::Entry;
use model::product::Product;
use std::collections::HashMap;
use std::sync::Arc;

/// The living entries of a journal.
pub(crate) struct Live {
    keys: [HashKey; 2],
    waits: HashMap<u128, Wait>,
    products: HashMap<ProductKey, (u64, Arc<Product>)>,
    blocked: HashMap<(ProductKey, DeviceId), u64>,
    counts: HashMap<u64, u64>,
}

/// Where a wait's record stands, and whose it is (a hash of the product).
struct Wait {
    segment: u64,
    product: u64,
}

impl Live {
    /// Nothing yet. `secret` keys the hashes, for devices choose their names.
    pub(crate) fn new(secret: &[u8; 32]) -> Live {
        let (words, _) = secret.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        Live {
            keys: [HashKey::new(word(0), word(1)), HashKey::new(word(2), word(3))],
            waits: HashMap::new(),
            products: HashMap::new(),
            blocked: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    /// This entry has been written to `segment`.
    pub(crate) fn note(&mut self, entry: &Entry, segment: u64) {
        match entry {
            Entry::Waits { push, device } => {
                let key = self.key(&push.product, device, push.id);
                let product = self.product_hash(&push.product);
                *self.counts.entry(segment).or_default() += 1;
                if let Some(earlier) = self.waits.insert(key, Wait { segment, product }) {
                    self.uncount(earlier.segment);
                }
            }
            Entry::Over { product, device, id } => {
                if let Some(wait) = self.waits.remove(&self.key(product, device, *id)) {
                    self.uncount(wait.segment);
                }
            }
            Entry::Product(product) => {
                self.products.insert(product.key.clone(), (segment, Arc::clone(product)));
            }
            Entry::NoProduct(key) => {
                self.products.remove(key);
                self.end_waits_of(key);
            }
            Entry::Blocked { product, device, blocked } => {
                let name = (product.clone(), device.clone());
                match blocked {
                    true => drop(self.blocked.insert(name, segment)),
                    false => drop(self.blocked.remove(&name)),
                }
            }
        }
    }

    /// Waits whose records stand in `segment`.
    pub(crate) fn waits_in(&self, segment: u64) -> u64 {
        self.counts.get(&segment).copied().unwrap_or(0)
    }

    /// Waits altogether.
    pub(crate) fn waits(&self) -> usize {
        self.waits.len()
    }

    /// Products and blocked devices whose latest record stands in `segment`.
    pub(crate) fn state_of(&self, segment: u64) -> Vec<Entry> {
        let products = self.products.values().filter(|(at, _)| *at == segment);
        let products = products.map(|(_, product)| Entry::Product(Arc::clone(product)));
        let blocked = self.blocked.iter().filter(|(_, at)| **at == segment);
        let blocked = blocked.map(|((product, device), _)| Entry::Blocked {
            product: product.clone(),
            device: device.clone(),
            blocked: true,
        });
        products.chain(blocked).collect()
    }

    fn end_waits_of(&mut self, key: &ProductKey) {
        let gone = self.product_hash(key);
        let counts = &mut self.counts;
        self.waits.retain(|_, wait| {
            if wait.product == gone {
                uncount(counts, wait.segment);
            }
            wait.product != gone
        });
    }

    fn uncount(&mut self, segment: u64) {
        uncount(&mut self.counts, segment);
    }

    fn key(&self, product: &ProductKey, device: &DeviceId, id: MessageId) -> u128 {
        let id = id.0.to_le_bytes();
        let parts = [product.as_str().as_bytes(), device.as_str().as_bytes(), &id];
        let [high, low] = self.keys.map(|key| key.of(&parts));
        u128::from(high) << 64 | u128::from(low)
    }

    fn product_hash(&self, key: &ProductKey) -> u64 {
        self.keys[0].of(&[key.as_str().as_bytes()])
    }
}

fn uncount(counts: &mut HashMap<u64, u64>, segment: u64) {
    let count = counts.get_mut(&segment).expect("a wait is counted where it stands");
    *count -= 1;
    if *count == 0 {
        counts.remove(&segment);
    }
}

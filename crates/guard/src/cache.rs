//! Recent verdicts, so that a storm of reconnecting clients does not cause the same questions
//! again.
//!
//! Entries are stored under a keyed hash, so that nothing can be read from the cache. Two
//! generations: when the young one holds half of the permitted entries it becomes the old one,
//! whose entries are dropped at the next turn unless they were used. It reads no clock and does not
//! know the entries' meaning. Invariant: never more than `count_max` entries, and none is returned
//! after its expiry.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::HashMap;
use std::hash::Hash;

/// Limits of a cache: how much is remembered, and how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheLimits {
    /// Entries of each kind; 0: nothing is remembered. Beyond, the oldest is forgotten.
    pub count_max: u32,
    /// Seconds a right password is remembered; 0: it is not.
    pub positive_s: u32,
    /// Seconds a wrong one is; likewise.
    pub negative_s: u32,
}

impl Default for CacheLimits {
    fn default() -> Self {
        CacheLimits { count_max: 100_000, positive_s: 600, negative_s: 5 }
    }
}

/// Key under which a verdict is remembered.
pub(crate) type CacheKey = [u8; 16];

/// A hash keyed with what the process drew.
pub(crate) fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

type Entries<V, K> = HashMap<K, (u32, V)>;

/// Cache of verdicts.
pub(crate) struct Cache<V, K = CacheKey> {
    young: Entries<V, K>,
    old: Entries<V, K>,
}

impl<V: Clone, K: Hash + Eq> Cache<V, K> {
    pub(crate) fn new() -> Cache<V, K> {
        Cache { young: HashMap::new(), old: HashMap::new() }
    }

    /// Cached result, unless it has expired.
    pub(crate) fn find(&self, now_s: u32, key: &K) -> Option<V> {
        let (until_s, value) = self.young.get(key).or_else(|| self.old.get(key))?;
        (now_s < *until_s).then(|| value.clone())
    }

    /// Remembers something until a Unix second.
    pub(crate) fn put(&mut self, count_max: u32, key: K, until_s: u32, value: V) {
        if count_max == 0 {
            return;
        }
        if self.young.len() >= (count_max as usize).div_ceil(2) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, (until_s, value));
    }

    /// Entries, those that are over included.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> CacheKey {
        u128::from(number).to_be_bytes()
    }

    #[test]
    fn nothing_is_given_after_its_time() {
        let mut cache = Cache::new();
        cache.put(10, key(1), 100, "x");
        assert_eq!((cache.find(99, &key(1)), cache.find(100, &key(1))), (Some("x"), None));
        assert_eq!(cache.find(0, &key(2)), None);
    }

    #[test]
    fn the_newest_half_at_least_is_there_and_never_more_than_allowed() {
        let mut cache = Cache::new();
        for number in 0..1_000 {
            cache.put(100, key(number), 10, number);
            assert!(cache.len() <= 100);
            let known =
                (number.saturating_sub(49)..=number).all(|n| cache.find(0, &key(n)) == Some(n));
            assert!(known, "{number}");
        }
        cache.put(0, key(5_000), 10, 1);
        assert_eq!(cache.find(0, &key(5_000)), None);
    }

    #[test]
    fn one_that_may_hold_one_holds_the_newest() {
        let mut cache = Cache::new();
        cache.put(1, key(1), 10, "a");
        assert_eq!(cache.find(0, &key(1)), Some("a"));
        cache.put(1, key(2), 10, "b");
        assert_eq!(cache.find(0, &key(2)), Some("b"));
    }
}

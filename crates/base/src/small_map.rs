//! A map of a few, in one piece of memory of just their size.
//!
//! A B-tree's smallest node has room for eleven, which is ten too many where nearly all have one.

/// Pairs in the order of their keys.
pub struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        SmallMap(Vec::new())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    /// Whether it has no pair.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a key.
    pub fn at(&self, key: &K) -> Option<&V> {
        self.place(key).ok().map(|at| &self.0[at].1)
    }

    /// The value of a key, to change.
    pub fn at_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).ok().map(|at| &mut self.0[at].1)
    }

    /// The value of a key, which gets this one if it has none.
    pub fn at_or_insert(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        let at = self.place(&key).unwrap_or_else(|at| {
            self.0.reserve_exact(1);
            self.0.insert(at, (key, new()));
            at
        });
        &mut self.0[at].1
    }

    /// Takes a key out; the value it had.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (_, value) = self.0.remove(self.place(key).ok()?);
        self.0.shrink_to_fit();
        Some(value)
    }

    /// All pairs, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Values, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Where a key stands, or would.
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map_in_order_that_has_no_room_to_spare() {
        let mut map = SmallMap::default();
        for (key, value) in [(3, 'c'), (1, 'a'), (2, 'b'), (1, 'x')] {
            map.at_or_insert(key, || value);
        }
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&1, &'a'), (&2, &'b'), (&3, &'c')]);
        assert_eq!((map.at(&2), map.at(&4), map.0.capacity()), (Some(&'b'), None, 3));
        *map.at_mut(&2).expect("it is there") = 'y';
        map.values_mut().for_each(|value| value.make_ascii_uppercase());
        assert_eq!((map.remove(&1), map.remove(&1)), (Some('A'), None));
        assert_eq!((map.values().collect::<String>(), map.0.capacity()), ("YC".into(), 2));
        map.remove(&2);
        assert!(!map.is_empty() && map.remove(&3).is_some() && map.is_empty());
        assert_eq!(map.0.capacity(), 0);
    }
}

//! A queue that costs a pointer while nothing waits in it.
//!
//! Of each account that is here there are several, and hardly ever one has anything in it.

use std::collections::VecDeque;

/// Queued items, the oldest first.
#[expect(clippy::box_collection, reason = "a queue has 32 bytes where it stands, a box 8")]
pub struct ThinQueue<T>(Option<Box<VecDeque<T>>>);

impl<T> Default for ThinQueue<T> {
    fn default() -> Self {
        ThinQueue(None)
    }
}

impl<T> ThinQueue<T> {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.len())
    }

    /// All that wait, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|all| all.iter())
    }

    /// One more waits.
    pub fn push_back(&mut self, one: T) {
        self.0.get_or_insert_default().push_back(one);
    }

    /// Takes the oldest out.
    pub fn pop_front(&mut self) -> Option<T> {
        self.pop_front_if(|_| true)
    }

    /// Takes the oldest out, if it is so.
    pub fn pop_front_if(&mut self, is_so: impl FnOnce(&T) -> bool) -> Option<T> {
        let one = self.0.as_mut()?.pop_front_if(|one| is_so(one));
        self.rest();
        one
    }

    /// Takes the first out that is so.
    pub fn take_first(&mut self, is_so: impl FnMut(&T) -> bool) -> Option<T> {
        let all = self.0.as_mut()?;
        let one = all.iter().position(is_so).and_then(|at| all.remove(at));
        self.rest();
        one
    }

    /// Keeps those that are so.
    pub fn retain(&mut self, is_so: impl FnMut(&T) -> bool) {
        if let Some(all) = &mut self.0 {
            all.retain(is_so);
            self.rest();
        }
    }

    /// Puts one in its place among those that are in order, and says how many there are, unless one
    /// has that place.
    pub fn put_by<K: Ord>(&mut self, one: T, key: impl Fn(&T) -> K) -> Option<usize> {
        let all = self.0.get_or_insert_default();
        let at = all.binary_search_by_key(&key(&one), key).err()?;
        all.insert(at, one);
        Some(all.len())
    }

    /// Gives the memory back when nothing waits.
    fn rest(&mut self) {
        self.0.take_if(|all| all.is_empty());
    }
}

impl<T> IntoIterator for ThinQueue<T> {
    type Item = T;
    type IntoIter = std::collections::vec_deque::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.map(|all| *all).unwrap_or_default().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_queue_and_has_nothing_when_it_is_empty() {
        let mut queue = ThinQueue::default();
        assert!(queue.is_empty());
        assert_eq!((queue.len(), queue.pop_front()), (0, None));
        (1..=5).for_each(|one| queue.push_back(one));
        assert_eq!((queue.len(), queue.pop_front()), (5, Some(1)));
        assert_eq!(
            (queue.pop_front_if(|one| *one == 3), queue.take_first(|one| *one == 4)),
            (None, Some(4))
        );
        assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [2, 3, 5]);
        queue.retain(|one| *one != 2);
        assert!(!queue.is_empty() && queue.0.is_some());
        assert_eq!(queue.pop_front_if(|one| *one == 3), Some(3));
        queue.retain(|_| false);
        assert!(queue.is_empty() && queue.0.is_none());
        queue.push_back(7);
        assert_eq!(queue.take_first(|_| true), Some(7));
        assert!(queue.0.is_none());
        assert_eq!(queue.into_iter().count(), 0);
    }

    #[test]
    fn what_is_put_in_order_stands_there_once() {
        let mut queue = ThinQueue::default();
        let counts: Vec<_> = [4, 2, 9, 4, 3].map(|one| queue.put_by(one, |it| *it)).into();
        assert_eq!(counts, [Some(1), Some(2), Some(3), None, Some(4)]);
        assert_eq!(queue.into_iter().collect::<Vec<_>>(), [2, 3, 4, 9]);
    }
}

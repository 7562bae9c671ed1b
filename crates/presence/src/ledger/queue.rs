//! The slots that wait, in the order in which they began to.
//!
//! Knows numbers only. A bit for each slot says whether it stands in the queue, so that it stands
//! there at most once, whoever lives in the slot by then: the queue is bounded by slots.

use std::collections::VecDeque;

/// Capacity above which an empty queue gives its memory back: 256 KiB.
const KEPT_MAX: usize = 65_536;

/// A queue of slots.
#[derive(Default)]
pub(crate) struct Queue {
    slots: VecDeque<u32>,
    /// A bit for each slot that stands in it.
    standing: Vec<u64>,
}

impl Queue {
    /// Slots in it, of which some may wait no more.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Puts a slot at the end, unless it stands in the queue already.
    pub(crate) fn push_back(&mut self, slot: u32) {
        if self.stand(slot) {
            self.slots.push_back(slot);
        }
    }

    /// Puts a slot at the head, unless it stands in the queue already.
    pub(crate) fn push_front(&mut self, slot: u32) {
        if self.stand(slot) {
            self.slots.push_front(slot);
        }
    }

    /// The head.
    pub(crate) fn front(&self) -> Option<u32> {
        self.slots.front().copied()
    }

    /// Takes the head.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let slot = self.slots.pop_front()?;
        self.standing[slot as usize / 64] &= !(1 << (slot % 64));
        if self.slots.is_empty() && self.slots.capacity() > KEPT_MAX {
            self.slots = VecDeque::new();
        }
        Some(slot)
    }

    /// Bytes allocated.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>() + self.standing.capacity() * size_of::<u64>()
    }

    fn stand(&mut self, slot: u32) -> bool {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.standing.len() <= word {
            self.standing.resize(word + 1, 0);
        }
        let new = self.standing[word] & bit == 0;
        self.standing[word] |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_stands_in_it_once() {
        let mut queue = Queue::default();
        [5, 900, 5, 900].iter().for_each(|&slot| queue.push_back(slot));
        queue.push_front(5);
        queue.push_front(1);
        let mut order = Vec::new();
        while let Some(slot) = queue.pop() {
            order.push(slot);
            if order.len() == 1 {
                queue.push_back(slot);
            }
        }
        assert_eq!(order, [1, 5, 900, 1]);
    }

    #[test]
    fn a_crowd_leaves_no_memory_behind() {
        let mut queue = Queue::default();
        (0..1_000_000).for_each(|slot| queue.push_back(slot));
        assert!(queue.bytes() >= 4_000_000);
        while queue.pop().is_some() {}
        assert!(queue.bytes() < 300_000, "{}", queue.bytes());
    }

    #[test]
    fn memory_of_so_many_slots_is_kept_and_more_is_given_back() {
        for (slots, is_kept) in [(KEPT_MAX, true), (KEPT_MAX + 1, false)] {
            let mut queue = Queue { slots: VecDeque::with_capacity(slots), ..Queue::default() };
            let room = queue.slots.capacity();
            assert_eq!(room, slots);
            (0..slots as u32).for_each(|slot| queue.push_back(slot));
            let popped = std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>();
            assert!(popped.into_iter().eq(0..slots as u32), "and none is lost with it");
            assert_eq!((queue.slots.capacity(), queue.len()), (if is_kept { room } else { 0 }, 0));
        }
    }

    #[test]
    fn a_slot_that_was_taken_may_stand_in_it_again() {
        let mut queue = Queue::default();
        let all = [0, 63, 64, 65, 127, 128];
        for _ in 0..2 {
            all.iter().for_each(|&slot| queue.push_back(slot));
            all.iter().for_each(|&slot| queue.push_front(slot));
            assert_eq!((queue.front(), queue.len()), (Some(0), all.len()));
            assert!(std::iter::from_fn(|| queue.pop()).eq(all));
            assert_eq!((queue.front(), queue.pop()), (None, None));
        }
    }
}

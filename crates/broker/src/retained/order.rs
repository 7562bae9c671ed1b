//! Slots in the order of their topics, to walk from any place.
//!
//! Topics are ordered level by level: what lies below a topic comes directly behind it. Slots lie
//! in chunks of some hundreds, so that inserting moves little; who asks says what topic a slot
//! has. Five bytes a topic.

use std::cmp::Ordering;

const CHUNK_MAX: usize = 512;
const CHUNK_MIN: usize = CHUNK_MAX / 8;

/// The order.
#[derive(Default)]
pub(super) struct Order {
    /// Chunks of slots; no chunk is empty.
    chunks: Vec<Chunk>,
}

/// Neighbours.
struct Chunk {
    /// A text not behind any of its topics and behind all of the chunk before, so that a chunk is
    /// found without a look at messages. That of the first chunk means nothing.
    from: Box<str>,
    slots: Vec<u32>,
}

/// A place in the order; good until something is inserted or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At {
    chunk: usize,
    index: usize,
}

impl Order {
    /// The slot at a place; `None`: the end.
    pub fn at(&self, at: At) -> Option<u32> {
        self.chunks.get(at.chunk).map(|chunk| chunk.slots[at.index])
    }

    /// The place behind.
    pub fn next(&self, at: At) -> At {
        self.settle(At { index: at.index + 1, ..at })
    }

    /// The first place whose topic is not before `bound`.
    pub fn seek<'t>(&self, bound: &str, topic: impl Fn(u32) -> &'t str) -> At {
        self.settle(self.find(bound, topic))
    }

    /// As [`seek`](Self::seek), from a place before the wanted one, which is often the next.
    pub fn seek_from<'t>(&self, at: At, bound: &str, topic: impl Fn(u32) -> &'t str) -> At {
        let next = self.next(at);
        match self.at(next) {
            Some(slot) if compare(topic(slot), bound).is_lt() => self.seek(bound, topic),
            _ => next,
        }
    }

    /// Puts in a slot whose topic is not there.
    pub fn insert<'t>(&mut self, slot: u32, topic: impl Fn(u32) -> &'t str) {
        let At { chunk, index } = self.find(topic(slot), &topic);
        let chunk_of = |slots: Vec<u32>| Chunk { from: topic(slots[0]).into(), slots };
        let Some(Chunk { slots, .. }) = self.chunks.get_mut(chunk) else {
            self.chunks.push(chunk_of(vec![slot]));
            return;
        };
        if slots.len() < CHUNK_MAX {
            slots.insert(index, slot);
        } else if index == slots.len() {
            // They come in order, it seems: what is full stays full.
            self.chunks.insert(chunk + 1, chunk_of(vec![slot]));
        } else {
            let mut upper = slots.split_off(CHUNK_MAX / 2);
            match index.checked_sub(slots.len()) {
                Some(index) => upper.insert(index, slot),
                None => slots.insert(index, slot),
            }
            slots.shrink_to_fit();
            self.chunks.insert(chunk + 1, chunk_of(upper));
        }
    }

    /// Takes out a slot that is there.
    pub fn remove<'t>(&mut self, slot: u32, topic: impl Fn(u32) -> &'t str) {
        let At { chunk, index } = self.find(topic(slot), topic);
        let slots = &mut self.chunks[chunk].slots;
        let was = slots.remove(index);
        debug_assert_eq!(was, slot);
        if slots.is_empty() {
            self.chunks.remove(chunk);
            return;
        }
        let len = slots.len();
        if len < CHUNK_MIN {
            let has_room = |chunk: &Chunk| chunk.slots.len() + len < CHUNK_MAX * 3 / 4;
            if self.chunks.get(chunk + 1).is_some_and(has_room) {
                let next = self.chunks.remove(chunk + 1);
                self.chunks[chunk].slots.extend(next.slots);
            } else if chunk > 0 && has_room(&self.chunks[chunk - 1]) {
                let last = self.chunks.remove(chunk);
                self.chunks[chunk - 1].slots.extend(last.slots);
            }
        }
    }

    /// Where `bound` is or would be, in the chunk it would be put into.
    fn find<'t>(&self, bound: &str, topic: impl Fn(u32) -> &'t str) -> At {
        let is_before = |chunk: &Chunk| compare(&chunk.from, bound).is_le();
        let chunk = self.chunks.partition_point(is_before).saturating_sub(1);
        let slots = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.slots);
        let index = slots.partition_point(|&slot| compare(topic(slot), bound).is_lt());
        At { chunk, index }
    }

    fn settle(&self, at: At) -> At {
        match self.chunks.get(at.chunk) {
            Some(chunk) if at.index >= chunk.slots.len() => At { chunk: at.chunk + 1, index: 0 },
            _ => at,
        }
    }
}

/// Level by level, and bytes within a level: as if `/` were before every other byte.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let Some(at) = left.iter().zip(right).position(|(one, other)| one != other) else {
        return left.len().cmp(&right.len());
    };
    match (left[at], right[at]) {
        (b'/', _) => Ordering::Less,
        (_, b'/') => Ordering::Greater,
        (one, other) => one.cmp(&other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    /// Topics by slot.
    fn topics(count: u32) -> Vec<String> {
        (0..count).map(|n| format!("{:03}/{:03}", n % 700, n / 700)).collect()
    }

    /// The order holds exactly these slots, and its chunks are as large as they may be.
    fn look(order: &Order, topics: &[String], mut wanted: Vec<u32>) {
        wanted.sort_by(|one, other| compare(&topics[*one as usize], &topics[*other as usize]));
        let mut found = Vec::new();
        let mut at = order.seek("", |slot| topics[slot as usize].as_str());
        while let Some(slot) = order.at(at) {
            found.push(slot);
            at = order.next(at);
        }
        assert_eq!(found, wanted);
        let sizes = || order.chunks.iter().map(|chunk| chunk.slots.len());
        assert!(sizes().all(|size| (1..=CHUNK_MAX).contains(&size)));
    }

    #[test]
    fn chunks_are_parted_and_joined_as_they_grow_and_shrink() {
        let topics = topics(4_000);
        let topic = |slot: u32| topics[slot as usize].as_str();
        for seed in 0..3 {
            let (mut rng, mut order, mut there) = (Prng::new(seed), Order::default(), Vec::new());
            let mut slots: Vec<u32> = (0..4_000).collect();
            for left in (1..=slots.len()).rev() {
                let slot = slots.swap_remove(rng.below(left as u64) as usize);
                order.insert(slot, topic);
                there.push(slot);
            }
            look(&order, &topics, there.clone());
            assert!(order.chunks.len() >= 8, "a full one is parted");
            while there.len() > 40 {
                order.remove(there.swap_remove(rng.below(there.len() as u64) as usize), topic);
                if there.len().is_multiple_of(500) {
                    look(&order, &topics, there.clone());
                }
            }
            look(&order, &topics, there.clone());
            assert_eq!(order.chunks.len(), 1, "what is small joins its neighbour");
            there.drain(..).for_each(|slot| order.remove(slot, topic));
            assert!(order.chunks.is_empty());
        }
    }

    #[test]
    fn what_comes_in_order_fills_each_chunk() {
        let mut topics = topics(3 * CHUNK_MAX as u32 + 1);
        topics.sort_by(|one, other| compare(one, other));
        let mut order = Order::default();
        let topic = |slot: u32| topics[slot as usize].as_str();
        (0..topics.len() as u32).for_each(|slot| order.insert(slot, topic));
        let sizes: Vec<_> = order.chunks.iter().map(|chunk| chunk.slots.len()).collect();
        assert_eq!(sizes, [CHUNK_MAX, CHUNK_MAX, CHUNK_MAX, 1]);
    }

    #[test]
    fn a_small_chunk_joins_a_neighbour_that_has_room() {
        // Each case: sizes of three chunks, which one loses a slot, and the sizes then.
        let room = CHUNK_MAX * 3 / 4 - (CHUNK_MIN - 1);
        for (sizes, from, wanted) in [
            ([200, CHUNK_MIN, 200], 1, vec![200, CHUNK_MIN - 1 + 200]),
            ([200, CHUNK_MIN + 1, 200], 1, vec![200, CHUNK_MIN, 200]),
            ([room - 1, CHUNK_MIN, 500], 1, vec![CHUNK_MAX * 3 / 4 - 1, 500]),
            ([room, CHUNK_MIN, 500], 1, vec![room, CHUNK_MIN - 1, 500]),
            ([500, CHUNK_MIN, room - 1], 1, vec![500, CHUNK_MAX * 3 / 4 - 1]),
            ([500, CHUNK_MIN, room], 1, vec![500, CHUNK_MIN - 1, room]),
            ([CHUNK_MIN, 100, 9], 0, vec![CHUNK_MIN - 1 + 100, 9]),
            ([CHUNK_MIN, 500, 9], 0, vec![CHUNK_MIN - 1, 500, 9]),
            ([1, 1, 1], 1, vec![1, 1]),
        ] {
            let mut topics = topics(sizes.iter().sum::<usize>() as u32);
            topics.sort_by(|one, other| compare(one, other));
            let mut first = 0;
            let chunks = sizes.map(|size| {
                let slots: Vec<u32> = (first..first + size as u32).collect();
                first += size as u32;
                Chunk { from: (*topics[slots[0] as usize]).into(), slots }
            });
            let mut order = Order { chunks: chunks.into() };
            let gone = order.chunks[from].slots[0];
            order.remove(gone, |slot| topics[slot as usize].as_str());
            let found: Vec<_> = order.chunks.iter().map(|chunk| chunk.slots.len()).collect();
            assert_eq!(found, wanted, "{sizes:?}");
            let all = (0..topics.len() as u32).filter(|slot| *slot != gone).collect();
            look(&order, &topics, all);
        }
    }
}

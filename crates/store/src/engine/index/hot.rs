//! Messages that were appended lately, in memory: what is pulled soon needs no disk.
//!
//! The module also maps a pointer to the place of its message, so that appends of one message that
//! come close together store it once; a pointer is known only while its message is held here, so it
//! cannot be another's, and only of the last few, so that the table of them stays small. Invariant:
//! the weight of the messages held is at most the limit.

use crate::engine::record::stored::Stored;
use crate::log::Place;
use model::timeline::Message;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Messages of a generation of known pointers. Two are known: at least so many of the messages that
/// are held, at most twice as many.
const KNOWN: usize = 4_096;

type Pointers = HashMap<usize, Arc<Stored>, BuildHasherDefault<PointerHasher>>;

/// The hot messages.
pub(crate) struct Hot {
    /// In the order of their places.
    messages: VecDeque<(Place, Arc<Message>)>,
    /// Of the newest of them, and of those that are about to be held. Old pointers go with their
    /// generation: taking pointers out one by one costs more than putting them in.
    young: Pointers,
    old: Pointers,
    /// Messages of the young generation; a pointer may have been noted more than once.
    told: usize,
    bytes: usize,
    bytes_max: usize,
    /// Looks that found a message.
    hits: Cell<u64>,
}

impl Hot {
    pub(crate) fn new(bytes_max: usize) -> Hot {
        let (young, old) = (Pointers::default(), Pointers::default());
        let (messages, hits) = (VecDeque::new(), Cell::default());
        Hot { messages, young, old, told: 0, bytes: 0, bytes_max, hits }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How often a message that was looked for was here.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.get()
    }

    /// The message that stands there.
    pub(crate) fn at(&self, place: Place) -> Option<Arc<Message>> {
        let at = self.messages.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.hits.set(self.hits.get() + 1);
        Some(Arc::clone(&self.messages[at].1))
    }

    /// Where this very message stands, if it is known, in `segment`.
    pub(crate) fn find(&self, message: &Arc<Message>, segment: u32) -> Option<Arc<Stored>> {
        let key = key(message);
        let stored = self.young.get(&key).or_else(|| self.old.get(&key))?;
        (stored.place.segment == segment).then(|| Arc::clone(stored))
    }

    /// Remembers where a message is stored. The caller holds it until [`Hot::hold`], or forgets all
    /// pointers.
    pub(crate) fn know(&mut self, message: &Arc<Message>, stored: &Arc<Stored>) {
        if self.told == KNOWN {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
            self.told = 0;
        }
        self.told += 1;
        self.young.insert(key(message), Arc::clone(stored));
    }

    /// Keeps a message that is known and stands behind all others.
    pub(crate) fn hold(&mut self, place: Place, message: &Arc<Message>) {
        self.bytes += message.weight();
        self.messages.push_back((place, Arc::clone(message)));
        while self.bytes > self.bytes_max {
            if self.messages.len() <= 2 * KNOWN {
                self.forget_pointer(0);
            }
            let Some((_, message)) = self.messages.pop_front() else { break };
            self.bytes -= message.weight();
        }
    }

    /// The pointer of the message that is held here is not known any more.
    fn forget_pointer(&mut self, at: usize) {
        let Some((place, message)) = self.messages.get(at) else { return };
        let key = key(message);
        for known in [&mut self.young, &mut self.old] {
            if known.get(&key).is_some_and(|stored| stored.place == *place) {
                known.remove(&key);
            }
        }
    }

    /// Forgets keys that are known by pointer: none of the pointers holds any more.
    pub(crate) fn forget_pointers(&mut self) {
        self.young.clear();
        self.old.clear();
        self.told = 0;
    }
}

fn key(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message).addr()
}

/// Addresses are nobody's choice: spreading them is enough.
#[derive(Default)]
struct PointerHasher(u64);

impl Hasher for PointerHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize((*byte).into()));
    }

    fn write_usize(&mut self, address: usize) {
        let spread = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_is_held_weighs_no_more_than_the_limit_and_the_oldest_goes_first() {
        // Three of 164 bytes have room.
        let mut hot = Hot::new(500);
        let message = |id| {
            let body = vec![0; 100].into();
            Arc::new(Message { id, at_s: 0, label: Box::default(), body })
        };
        let place = |offset| Place { segment: 1, offset };
        let messages: Vec<Arc<Message>> = (0..5).map(message).collect();
        for (offset, message) in (0..).zip(&messages) {
            let stored = Stored { place: place(offset), ..Stored::default() };
            hot.know(message, &Arc::new(stored));
            hot.hold(place(offset), message);
        }
        assert_eq!(hot.bytes(), 3 * 164);
        for (offset, message) in (0..).zip(&messages) {
            assert_eq!(hot.at(place(offset)).is_some(), offset >= 2, "{offset}");
            assert_eq!(hot.find(message, 1).is_some(), offset >= 2, "{offset}");
            assert!(hot.find(message, 2).is_none());
        }
        assert_eq!(hot.hits(), 3);
    }

    fn known(hot: &mut Hot, messages: &[Arc<Message>], from: u32) {
        for (offset, message) in (from..).zip(messages) {
            let place = Place { segment: 1, offset };
            hot.know(message, &Arc::new(Stored { place, ..Stored::default() }));
            hot.hold(place, message);
        }
    }

    fn some(count: usize, bytes: usize) -> Vec<Arc<Message>> {
        let one = |id| {
            let body = vec![0; bytes].into();
            Arc::new(Message { id: id as u64, at_s: 0, label: Box::default(), body })
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn two_generations_are_known_by_their_pointers_and_all_are_held() {
        let mut hot = Hot::new(1 << 30);
        let messages = some(2 * KNOWN + 10, 0);
        known(&mut hot, &messages, 0);
        for (at, message) in messages.iter().enumerate() {
            assert_eq!(hot.find(message, 1).is_some(), at >= KNOWN, "{at}");
            assert!(hot.at(Place { segment: 1, offset: at as u32 }).is_some(), "{at}");
        }
        assert_eq!((hot.young.len(), hot.old.len()), (10, KNOWN));
    }

    #[test]
    fn a_pointer_is_known_no_longer_than_its_message_is_held_however_often_it_was_told() {
        // Room for two generations and a few more, so that the oldest go while others are known.
        let bytes = 164 * (2 * KNOWN + 7);
        for room in [bytes, bytes / 3] {
            let mut hot = Hot::new(room);
            let mut offset = 0;
            for round in 0..5 {
                let messages = some(KNOWN / 2 + 3, 100);
                // Each is told twice, as one that is appended in another segment again.
                for _ in 0..2 {
                    known(&mut hot, &messages, offset);
                    offset += messages.len() as u32;
                }
                let held: HashSet<usize> = hot.messages.iter().map(|(_, it)| key(it)).collect();
                let mut pointers = hot.young.keys().chain(hot.old.keys());
                assert!(pointers.all(|pointer| held.contains(pointer)), "round {round}");
            }
        }
    }
}

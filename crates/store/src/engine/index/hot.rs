//! Messages that were appended lately, in memory: what is pulled soon needs no disk.
//!
//! It also knows where the message behind a pointer stands, so that appends of one message that
//! come close together store it once; a pointer is known only while its message is held here, so
//! it cannot be another's, and only of the last few, so that the table of them stays small.
//! Invariant: the weight of what is held is at most the limit.

use crate::engine::record::stored::Stored;
use crate::log::Place;
use model::timeline::Message;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Messages whose pointers are known, of those that are held.
const KNOWN_MAX: usize = 4_096;

/// The hot messages.
pub(crate) struct Hot {
    /// In the order of their places.
    messages: VecDeque<(Place, Arc<Message>)>,
    /// Of the newest of them, and of those that are about to be held.
    known: HashMap<usize, Arc<Stored>, BuildHasherDefault<PointerHasher>>,
    bytes: usize,
    bytes_max: usize,
    /// Looks that found a message.
    hits: Cell<u64>,
}

impl Hot {
    pub(crate) fn new(bytes_max: usize) -> Hot {
        let (messages, known, hits) = (VecDeque::new(), HashMap::default(), Cell::default());
        Hot { messages, known, bytes: 0, bytes_max, hits }
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
        let stored = self.known.get(&key(message))?;
        (stored.place.segment == segment).then(|| Arc::clone(stored))
    }

    /// It stands there. The caller holds it until [`Hot::hold`], or forgets all pointers.
    pub(crate) fn know(&mut self, message: &Arc<Message>, stored: &Arc<Stored>) {
        self.known.insert(key(message), Arc::clone(stored));
    }

    /// Keeps a message that is known and stands behind all others.
    pub(crate) fn hold(&mut self, place: Place, message: &Arc<Message>) {
        self.bytes += message.weight();
        self.messages.push_back((place, Arc::clone(message)));
        if let Some(at) = self.messages.len().checked_sub(KNOWN_MAX + 1) {
            self.forget_pointer(at);
        }
        while self.bytes > self.bytes_max {
            if self.messages.len() <= KNOWN_MAX {
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
        if self.known.get(&key).is_some_and(|stored| stored.place == *place) {
            self.known.remove(&key);
        }
    }

    /// Nothing that is known by pointer holds any more.
    pub(crate) fn forget_pointers(&mut self) {
        self.known.clear();
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

    #[test]
    fn the_last_few_are_known_by_their_pointers_and_all_are_held() {
        let mut hot = Hot::new(1 << 30);
        let count = KNOWN_MAX as u32 + 10;
        let message =
            |id| Arc::new(Message { id, at_s: 0, label: Box::default(), body: Box::default() });
        let messages: Vec<_> = (0..count).map(|id| message(id.into())).collect();
        for (offset, message) in (0..).zip(&messages) {
            let place = Place { segment: 1, offset };
            hot.know(message, &Arc::new(Stored { place, ..Stored::default() }));
            hot.hold(place, message);
        }
        for (offset, message) in (0..).zip(&messages) {
            assert_eq!(hot.find(message, 1).is_some(), offset >= 10, "{offset}");
            assert!(hot.at(Place { segment: 1, offset }).is_some(), "{offset}");
        }
        assert_eq!(hot.known.len(), KNOWN_MAX);
    }
}

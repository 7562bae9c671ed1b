//! Unread messages of a conversation: which of its last places count.
//!
//! A ring of bits, by place. Invariant: bits are of places that are among the last
//! [`UNREAD_PLACES_MAX`] and behind the read cursor; no ring exists without bits.

use model::chat::UNREAD_PLACES_MAX;
use model::timeline::Seq;

const WORDS: usize = (UNREAD_PLACES_MAX / 64) as usize;

/// Bytes of a ring.
pub(super) const RING_BYTES: usize = WORDS * 8;

/// Places that are unread.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Unread(Option<Box<[u64; WORDS]>>);

impl Unread {
    pub(super) fn count(&self) -> u16 {
        let ones = |ring: &[u64; WORDS]| ring.iter().map(|word| word.count_ones()).sum::<u32>();
        self.0.as_deref().map_or(0, ones) as u16
    }

    /// Moves the end of the conversation from `from` to `to`: places that are no longer among the
    /// last do not count.
    pub(super) fn advance(&mut self, from: Seq, to: Seq) {
        let first = (from + 1).max((to + 1).saturating_sub(UNREAD_PLACES_MAX));
        self.drop_all(first, to);
    }

    /// Counts a place as unread.
    pub(super) fn put(&mut self, seq: Seq) {
        let ring = self.0.get_or_insert_with(|| Box::new([0; WORDS]));
        let (word, bit) = at(seq);
        ring[word] |= bit;
    }

    /// Stops counting these places: clears their bits, which later places use again.
    pub(super) fn drop_all(&mut self, first: Seq, last: Seq) {
        let Some(ring) = &mut self.0 else { return };
        if last.saturating_sub(first) >= UNREAD_PLACES_MAX {
            self.0 = None;
            return;
        }
        for seq in first..=last {
            let (word, bit) = at(seq);
            ring[word] &= !bit;
        }
        if ring.iter().all(|word| *word == 0) {
            self.0 = None;
        }
    }

    /// The bytes of the ring, if any place is unread.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        self.0.as_deref().map(|ring| ring.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// The ring with these bytes, [`RING_BYTES`].
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Unread> {
        let mut ring = Box::new([0; WORDS]);
        for (word, bytes) in ring.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        (bytes.len() == RING_BYTES).then_some(Unread(Some(ring)))
    }
}

fn at(seq: Seq) -> (usize, u64) {
    let at = seq % UNREAD_PLACES_MAX;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn it_counts_as_a_set_of_the_last_places_does() {
        let mut rng = Prng::new(5);
        let (mut unread, mut set, mut last) = (Unread::default(), BTreeSet::new(), 0);
        for _ in 0..40_000 {
            match rng.below(100) {
                0..=96 => {
                    let next = last + if rng.one_in(200) { 1 + rng.below(1_500) } else { 1 };
                    unread.advance(last, next);
                    last = next;
                    if !rng.one_in(5) {
                        unread.put(last);
                        set.insert(last);
                    }
                    set.retain(|seq| seq + UNREAD_PLACES_MAX > last);
                }
                97 | 98 => {
                    let seq = last - rng.below(UNREAD_PLACES_MAX.min(last));
                    unread.drop_all(seq, seq);
                    set.remove(&seq);
                }
                _ if rng.one_in(8) => {
                    let upto = last - rng.below(UNREAD_PLACES_MAX.min(last));
                    unread.drop_all((last + 1).saturating_sub(UNREAD_PLACES_MAX), upto);
                    set.retain(|seq| *seq > upto);
                }
                _ => {}
            }
            assert_eq!(usize::from(unread.count()), set.len(), "at {last}");
            assert_eq!(unread.bytes().is_none(), set.is_empty());
        }
        unread.advance(last, last + 1);
        unread.put(last + 1);
        let bytes = unread.bytes().expect("something is unread");
        assert_eq!(Unread::of_bytes(&bytes), Some(unread));
        assert_eq!(Unread::of_bytes(&bytes[1..]), None);
    }
}

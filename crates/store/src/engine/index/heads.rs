//! Heads: the few numbers of a timeline that every write to it needs.
//!
//! Resident only while touched: a bounded table, the longest unused leave first, and what changed
//! since the last checkpoint stays. It does not know where absent heads are kept. Invariant: a
//! head is 40 bytes; with its place in the table by id that is 46 to 52.

use crate::engine::record::bytes::{Bytes, put_small};
use crate::engine::record::{place, put_place};
use crate::log::Place;
use base::index::Index;
use model::timeline::{Seq, TimelineId};

/// Heads that share a piece of memory: the table grows by so many.
const CHUNK: usize = 4_096;

/// Mark of a head that is not in the table of what changed.
const UNTOUCHED: u32 = (1 << 31) - 1;

/// The bit that says that a head was used lately.
const USED: u32 = 1 << 31;

/// Row of a timeline's head, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HeadRow {
    /// The last seq given.
    pub(crate) last: Seq,
    /// Entries.
    pub(crate) count: u64,
    /// Their weight.
    pub(crate) bytes: u64,
}

/// A resident head.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// Zeros for a free slot: no space has the number 0.
    id: [u8; 16],
    pub(crate) last: Seq,
    pub(crate) bytes: u64,
    pub(crate) count: u32,
    /// Place of the head in the list of changes, and whether it was used lately.
    touched: u32,
}

const _: () = assert!(size_of::<Head>() == 40, "ten million heads are 400 MB");

const FREE: Head = Head { id: [0; 16], last: 0, bytes: 0, count: 0, touched: UNTOUCHED };

impl Head {
    pub(crate) fn id(&self) -> TimelineId {
        TimelineId::from_bytes(self.id).expect("only known ids are put in")
    }

    pub(crate) fn row(&self) -> HeadRow {
        HeadRow { last: self.last, count: self.count.into(), bytes: self.bytes }
    }

    pub(crate) fn touched(&self) -> Option<u32> {
        Some(self.touched & !USED).filter(|&at| at != UNTOUCHED)
    }

    pub(crate) fn set_touched(&mut self, at: Option<u32>) {
        self.touched = at.unwrap_or(UNTOUCHED) | USED;
    }

    pub(crate) fn set_used(&mut self) {
        self.touched |= USED;
    }

    /// An entry enters.
    pub(crate) fn grow(&mut self, weight: u64) {
        self.count = self.count.checked_add(1).expect("a timeline has below 2^32 entries");
        self.bytes += weight;
    }

    /// An entry leaves.
    pub(crate) fn shrink(&mut self, weight: u64) {
        self.count -= 1;
        self.bytes -= weight;
    }
}

/// Appends the value of a head in state: these numbers, as of a place in the log.
pub(crate) fn write_row(row: HeadRow, as_of: Place, out: &mut Vec<u8>) {
    out.push(1);
    put_place(as_of, out);
    for number in [row.last, row.count, row.bytes] {
        put_small(number, out);
    }
}

/// Content of such a value.
pub(crate) fn read_row(value: &[u8]) -> Option<(HeadRow, Place)> {
    let mut bytes = Bytes(value);
    if bytes.u8()? != 1 {
        return None;
    }
    let as_of = place(&mut bytes)?;
    let row = HeadRow { last: bytes.small()?, count: bytes.small()?, bytes: bytes.small()? };
    bytes.0.is_empty().then_some((row, as_of))
}

/// The resident heads.
pub(crate) struct Heads {
    chunks: Vec<Vec<Head>>,
    free: Vec<u32>,
    index: Index,
    len: usize,
    /// Where the search for one to let go went to.
    hand: u32,
}

impl Heads {
    pub(crate) fn new() -> Heads {
        let (chunks, free) = (Vec::new(), Vec::new());
        Heads { chunks, free, index: Index::default(), len: 0, hand: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn find(&self, id: TimelineId) -> Option<u32> {
        let bytes = id.to_bytes();
        self.index.find(hash(&bytes), |slot| self.at(slot).id == bytes)
    }

    /// Whether the timeline's head is there.
    pub(crate) fn has(&self, slot: u32, id: TimelineId) -> bool {
        let chunk = self.chunks.get(slot as usize / CHUNK);
        let head = chunk.and_then(|chunk| chunk.get(slot as usize % CHUNK));
        head.is_some_and(|head| head.id == id.to_bytes())
    }

    pub(crate) fn at(&self, slot: u32) -> &Head {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Head {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// Puts in a head that is not there.
    pub(crate) fn insert(&mut self, id: TimelineId, row: HeadRow) -> u32 {
        let count = row.count.try_into().expect("a timeline has below 2^32 entries");
        let (id, HeadRow { last, bytes, .. }) = (id.to_bytes(), row);
        let head = Head { id, last, bytes, count, touched: UNTOUCHED | USED };
        let slot = self.free.pop().unwrap_or_else(|| self.extend());
        *self.at_mut(slot) = head;
        let chunks = &self.chunks;
        let rehash = |slot: u32| hash(&chunks[slot as usize / CHUNK][slot as usize % CHUNK].id);
        self.index.insert(hash(&id), slot, rehash);
        self.len += 1;
        slot
    }

    /// Lets heads go that did not change, until there are `max`, or so many were looked at.
    pub(crate) fn shrink_to(&mut self, max: usize, mut steps: usize) {
        let slots = self.slots();
        while self.len > max && steps > 0 {
            steps -= 1;
            self.hand = if self.hand + 1 < slots { self.hand + 1 } else { 0 };
            let slot = self.hand;
            let head = self.at_mut(slot);
            if head.id[0] == 0 || head.touched().is_some() {
                continue;
            }
            if head.touched & USED != 0 {
                head.touched &= !USED;
                continue;
            }
            let id = std::mem::replace(head, FREE).id;
            self.index.remove(hash(&id), slot);
            self.free.push(slot);
            self.len -= 1;
        }
    }

    /// Steps in which [`Heads::shrink_to`] looks at every head so many times.
    pub(crate) fn rounds(&self, count: usize) -> usize {
        self.slots() as usize * count + 1
    }

    fn slots(&self) -> u32 {
        match self.chunks.last() {
            None => 0,
            Some(last) => ((self.chunks.len() - 1) * CHUNK + last.len()) as u32,
        }
    }

    fn extend(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let slot = self.slots();
        assert!(slot < UNTOUCHED, "slots have 31 bits");
        self.chunks.last_mut().expect("one with room was made sure of").push(FREE);
        slot
    }
}

/// An id is a keyed hash already; this only spreads what an owner of few bits left alike.
fn hash(id: &[u8; 16]) -> u64 {
    let whole = u128::from_be_bytes(*id);
    let mixed = (whole as u64 ^ (whole >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    fn id(n: u32) -> TimelineId {
        TimelineId::of(Space::Other, HashKey::new(1, 2), &[&n.to_le_bytes()])
    }

    #[test]
    fn the_unused_leave_first_and_the_changed_stay() {
        let mut heads = Heads::new();
        for n in 0..10_000u32 {
            let slot = heads.insert(id(n), HeadRow { last: n.into(), count: 1, bytes: 2 });
            heads.at_mut(slot).set_touched((n % 10 == 0).then_some(n));
        }
        heads.shrink_to(5_000, 20_000);
        assert_eq!(heads.len(), 5_000);
        heads.shrink_to(10, 20_000);
        assert_eq!(heads.len(), 1_000, "the changed are too many");
        for n in (0..10_000).step_by(10) {
            let slot = heads.find(id(n)).expect("it changed");
            assert_eq!(heads.at(slot).row(), HeadRow { last: n.into(), count: 1, bytes: 2 });
            assert_eq!(heads.at(slot).touched(), Some(n));
        }
        assert_eq!(heads.find(id(11)), None);
        let slot = heads.insert(id(11), HeadRow::default());
        assert_eq!(heads.find(id(11)), Some(slot));
        assert_eq!(heads.slots(), 10_000, "a free slot was used again");
    }

    #[test]
    fn a_row_comes_back() {
        let row = HeadRow { last: u64::MAX - 1, count: 300, bytes: 1 << 40 };
        let as_of = Place { segment: 4, offset: 5 };
        let mut value = Vec::new();
        write_row(row, as_of, &mut value);
        assert_eq!(read_row(&value), Some((row, as_of)));
        assert_eq!(read_row(&value[..value.len() - 1]), None);
    }
}

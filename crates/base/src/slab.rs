//! Slots in fixed chunks, with generations.
//!
//! A record keeps its place for life and its [`Key`] names both the place and the tenancy, so a
//! stale key finds nothing instead of a stranger. Memory grows a chunk at a time and is never
//! copied: no pause and no doubled peak at ten million records. A chunk's memory is touched only
//! where records were put.
//!
//! Generations stand apart from the records: four bytes each, without the padding they would cost
//! inside.

/// Records in a chunk.
const CHUNK: usize = 1 << 16;

/// The name of one tenancy of one slot. Packs into 54 bits, which leaves ten for a shard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Key {
    /// The slot's number.
    pub slot: u32,
    /// Which tenant of the slot: 22 bits, so that it comes round after four million tenancies.
    pub generation: u32,
}

impl Key {
    /// Bits of a generation.
    pub const GENERATION_BITS: u32 = 22;
    const MASK: u32 = (1 << Self::GENERATION_BITS) - 1;

    /// The key as one number below 2^54.
    pub const fn pack(self) -> u64 {
        ((self.generation as u64) << 32) | self.slot as u64
    }

    /// The key that [`pack`](Self::pack) made `packed` from.
    pub const fn unpack(packed: u64) -> Key {
        Key { slot: packed as u32, generation: (packed >> 32) as u32 & Self::MASK }
    }
}

struct Chunk<T> {
    records: Vec<Option<T>>,
    generations: Vec<u32>,
}

/// A table of records with stable places.
pub struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    free: Vec<u32>,
    len: usize,
    cap: usize,
}

impl<T> Slab<T> {
    /// An empty slab that will hold at most `cap` records.
    pub fn new(cap: usize) -> Self {
        assert!(cap < u32::MAX as usize, "slot numbers are 32 bits");
        Slab { chunks: Vec::new(), free: Vec::new(), len: 0, cap }
    }

    /// Records held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no record is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most records it will hold.
    pub fn cap(&self) -> usize {
        self.cap
    }

    /// Sets the most records to `cap`. Those that are held stay, also if they are more.
    pub fn set_cap(&mut self, cap: usize) {
        assert!(cap < u32::MAX as usize, "slot numbers are 32 bits");
        self.cap = cap;
    }

    /// Slots ever used: every key's slot is below this, so a sweep runs over `0..self.slots()`.
    pub fn slots(&self) -> u32 {
        match self.chunks.last() {
            None => 0,
            Some(last) => ((self.chunks.len() - 1) * CHUNK + last.records.len()) as u32,
        }
    }

    /// Puts `record` in a slot, or gives it back when the slab is full.
    pub fn insert(&mut self, record: T) -> Result<Key, T> {
        if self.len >= self.cap {
            return Err(record);
        }
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            let (chunk, at) = self.place(slot);
            chunk.records[at] = Some(record);
            return Ok(Key { slot, generation: chunk.generations[at] });
        }
        if self.chunks.last().is_none_or(|chunk| chunk.records.len() == CHUNK) {
            let room = CHUNK.min(self.cap);
            self.chunks.push(Chunk {
                records: Vec::with_capacity(room),
                generations: Vec::with_capacity(room),
            });
        }
        let slot = self.slots();
        let chunk = self.chunks.last_mut().expect("a chunk with room was just made sure of");
        chunk.records.push(Some(record));
        chunk.generations.push(0);
        Ok(Key { slot, generation: 0 })
    }

    /// The record of this tenancy, if it is still there.
    pub fn at(&self, key: Key) -> Option<&T> {
        let chunk = self.chunks.get(key.slot as usize / CHUNK)?;
        let at = key.slot as usize % CHUNK;
        if *chunk.generations.get(at)? != key.generation {
            return None;
        }
        chunk.records[at].as_ref()
    }

    /// The record of this tenancy, to change.
    pub fn at_mut(&mut self, key: Key) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(key.slot as usize / CHUNK)?;
        let at = key.slot as usize % CHUNK;
        if *chunk.generations.get(at)? != key.generation {
            return None;
        }
        chunk.records[at].as_mut()
    }

    /// The present tenant of `slot`, with the key of that tenancy.
    pub fn tenant(&self, slot: u32) -> Option<(Key, &T)> {
        let chunk = self.chunks.get(slot as usize / CHUNK)?;
        let at = slot as usize % CHUNK;
        let record = chunk.records.get(at)?.as_ref()?;
        Some((Key { slot, generation: chunk.generations[at] }, record))
    }

    /// Takes the record of this tenancy out and ends the tenancy.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.at(key)?;
        let (chunk, at) = self.place(key.slot);
        let record = chunk.records[at].take();
        chunk.generations[at] = (key.generation + 1) & Key::MASK;
        self.free.push(key.slot);
        self.len -= 1;
        record
    }

    /// Every record with its key, in the order of slots.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..self.slots()).filter_map(|slot| self.tenant(slot))
    }

    fn place(&mut self, slot: u32) -> (&mut Chunk<T>, usize) {
        (&mut self.chunks[slot as usize / CHUNK], slot as usize % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::new(10);
        let first = slab.insert("first").expect("room");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second").expect("room");
        assert_eq!(second.slot, first.slot);
        assert_eq!((slab.at(first), slab.at(second)), (None, Some(&"second")));
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn a_slab_can_be_given_more_room_and_less() {
        let mut slab = Slab::new(1);
        let keys = [slab.insert(1).expect("room")];
        slab.set_cap(3);
        let keys = [keys[0], slab.insert(2).expect("room"), slab.insert(3).expect("room")];
        slab.set_cap(1);
        assert_eq!(keys.map(|key| slab.at(key).copied()), [Some(1), Some(2), Some(3)]);
        slab.remove(keys[0]);
        assert_eq!(slab.insert(4), Err(4), "two are still more than one");
        slab.remove(keys[1]);
        slab.remove(keys[2]);
        assert!(slab.insert(4).is_ok());
    }

    #[test]
    fn full_is_an_answer() {
        let mut slab = Slab::new(2);
        let a = slab.insert(1).expect("room");
        slab.insert(2).expect("room");
        assert_eq!(slab.insert(3), Err(3));
        slab.remove(a);
        assert!(slab.insert(3).is_ok());
    }

    #[test]
    fn chunks_hold_their_ground() {
        let mut slab = Slab::new(CHUNK * 2 + 1);
        let keys: Vec<_> = (0..CHUNK * 2 + 1).map(|n| slab.insert(n).expect("room")).collect();
        assert!(slab.insert(0).is_err());
        assert!(keys.iter().enumerate().all(|(n, &key)| slab.at(key) == Some(&n)));
        for &key in keys.iter().step_by(2) {
            slab.remove(key);
        }
        assert_eq!(slab.iter().count(), slab.len());
        assert_eq!(slab.slots() as usize, CHUNK * 2 + 1);
        assert!(keys.iter().all(|&key| Key::unpack(key.pack()) == key));
    }

    #[test]
    fn a_generation_comes_round_within_its_bits() {
        let mut slab = Slab::new(1);
        let mut key = slab.insert(()).expect("room");
        for _ in 0..3 {
            slab.remove(key);
            let next = slab.insert(()).expect("room");
            assert_eq!(next.generation, (key.generation + 1) & Key::MASK);
            key = next;
        }
    }

    #[test]
    fn a_slab_says_what_it_holds() {
        let mut slab = Slab::new(3);
        assert_eq!((slab.len(), slab.cap(), slab.slots(), slab.is_empty()), (0, 3, 0, true));
        let (a, b) = (slab.insert('a').expect("room"), slab.insert('b').expect("room"));
        *slab.at_mut(b).expect("it is there") = 'B';
        assert_eq!((slab.len(), slab.cap(), slab.slots(), slab.is_empty()), (2, 3, 2, false));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &'a'), (b, &'B')]);
        slab.remove(a);
        assert_eq!((slab.tenant(0), slab.tenant(1), slab.tenant(2)), (None, Some((b, &'B')), None));
        let stale = Key { generation: 1, ..b };
        assert!(slab.at(stale).is_none() && slab.at_mut(stale).is_none());
        assert_eq!(slab.remove(stale), None);
    }

    #[test]
    fn the_last_generation_is_followed_by_the_first() {
        let last = Key { slot: 0, generation: Key::MASK };
        let mut slab = Slab::new(1);
        slab.insert(()).expect("room");
        slab.chunks[0].generations[0] = Key::MASK;
        assert_eq!(slab.remove(last), Some(()));
        assert_eq!(slab.insert(()), Ok(Key { slot: 0, generation: 0 }));
        let others = last.pack() | 0xffc0_0000_0000_0000; // bits of a shard
        assert_eq!(Key::unpack(others), last);
    }
}

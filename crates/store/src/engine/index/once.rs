//! The window of appends that are remembered, so that a retry gets the first answer.
//!
//! First in, first out; by count, age and bytes. The order is that of the records in the log, so it
//! needs no counter and is the same after a restart. It does not know who asks. Invariant: the
//! queue has every remembered key, in the order of the places.

use crate::engine::record::bytes::{Bytes, put_small};
use crate::engine::record::{Claim, place, put_place};
use crate::engine::state::{Keep, StateChange};
use crate::log::Place;
use model::ports::log::OnceKey;
use model::timeline::Seq;
use std::collections::{HashMap, HashSet, VecDeque};

/// What a key takes beside its seqs, bytes.
const BYTES_EACH: usize = 128;

/// The first answer, and by what the message is known again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct First {
    pub(crate) place: Place,
    pub(crate) made_s: u32,
    pub(crate) crc: u32,
    pub(crate) id: u64,
    pub(crate) seqs: Box<[Seq]>,
}

/// The window.
pub(crate) struct Once {
    firsts: HashMap<OnceKey, First>,
    queue: VecDeque<(Place, OnceKey)>,
    bytes: usize,
    /// What state does not know yet.
    changed: HashSet<OnceKey>,
    limits: Limits,
}

/// Limits of the window.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) count_max: usize,
    pub(crate) age_s_max: u32,
    pub(crate) bytes_max: usize,
}

impl Once {
    pub(crate) fn new(limits: Limits) -> Once {
        let (firsts, queue, changed) = (HashMap::new(), VecDeque::new(), HashSet::new());
        Once { firsts, queue, bytes: 0, changed, limits }
    }

    pub(crate) fn len(&self) -> usize {
        self.firsts.len()
    }

    pub(crate) fn find(&self, key: OnceKey) -> Option<&First> {
        self.firsts.get(&key)
    }

    /// Everything that is remembered, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OnceKey, &First)> {
        let first = |(place, key): &(Place, OnceKey)| {
            let first = self.firsts.get(key).filter(|first| first.place == *place)?;
            Some((*key, first))
        };
        self.queue.iter().filter_map(first)
    }

    /// An append is remembered from now on. One of the same key was forgotten, or this is it again
    /// while the log is replayed.
    pub(crate) fn insert(&mut self, claim: Claim, place: Place, id: u64, seqs: Box<[Seq]>) {
        let Claim { key, crc, made_s } = claim;
        self.put(key, First { place, made_s, crc, id, seqs });
        self.changed.insert(key);
    }

    /// The last insert did not happen.
    pub(crate) fn take_back(&mut self, key: OnceKey) {
        if let Some(first) = self.firsts.remove(&key) {
            self.bytes -= weight(&first);
            self.queue.pop_back();
            self.changed.insert(key); // state may still have an older one
        }
    }

    /// Forgets what is too old or too much.
    pub(crate) fn trim(&mut self, now_s: u32) {
        let Limits { count_max, age_s_max, bytes_max } = self.limits;
        while let Some((place, key)) = self.queue.front() {
            let first = self.firsts.get(key).filter(|first| first.place == *place);
            let too_old = |first: &First| now_s.saturating_sub(first.made_s) > age_s_max;
            let too_much = self.firsts.len() > count_max || self.bytes > bytes_max;
            let Some(first) = first else {
                self.queue.pop_front(); // said again later
                continue;
            };
            if !too_much && !too_old(first) {
                break;
            }
            self.bytes -= weight(first);
            self.firsts.remove(key);
            self.changed.insert(*key);
            self.queue.pop_front();
        }
    }

    /// What state does not know yet. It is told, unless it comes back by [`Once::tell_again`].
    pub(crate) fn take_changed(&mut self) -> Vec<OnceKey> {
        self.changed.drain().collect()
    }

    pub(crate) fn tell_again(&mut self, keys: &[OnceKey]) {
        self.changed.extend(keys);
    }

    /// The change of state that tells of this key.
    pub(crate) fn change(&self, key: OnceKey) -> StateChange {
        let name = key.0.to_be_bytes();
        match self.firsts.get(&key) {
            None => StateChange::delete(Keep::Once, name),
            Some(first) => StateChange::put(Keep::Once, name, write(first)),
        }
    }

    /// Takes what state has, in any order. False if it makes no sense.
    pub(crate) fn load(&mut self, mut rows: Vec<(Vec<u8>, Vec<u8>)>) -> bool {
        let read = |(key, value): (Vec<u8>, Vec<u8>)| read_row(&key, &value);
        let Some(mut firsts) = rows.drain(..).map(read).collect::<Option<Vec<_>>>() else {
            return false;
        };
        firsts.sort_by_key(|(_, first)| first.place);
        firsts.into_iter().for_each(|(key, first)| self.put(key, first));
        true
    }

    fn put(&mut self, key: OnceKey, first: First) {
        self.bytes += weight(&first);
        let place = first.place;
        if let Some(before) = self.firsts.insert(key, first) {
            self.bytes -= weight(&before);
            if before.place == place {
                return;
            }
        }
        // While the log is replayed, state may have told of later ones already.
        let at = self.queue.partition_point(|(other, _)| *other < place);
        self.queue.insert(at, (place, key));
    }
}

fn weight(first: &First) -> usize {
    BYTES_EACH + first.seqs.len() * size_of::<Seq>()
}

fn write(first: &First) -> Vec<u8> {
    let mut out = vec![1];
    put_place(first.place, &mut out);
    out.extend_from_slice(&first.made_s.to_le_bytes());
    out.extend_from_slice(&first.crc.to_le_bytes());
    out.extend_from_slice(&first.id.to_le_bytes());
    put_small(first.seqs.len() as u64, &mut out);
    first.seqs.iter().for_each(|&seq| put_small(seq, &mut out));
    out
}

/// What a row of state says.
pub(crate) fn read_row(key: &[u8], value: &[u8]) -> Option<(OnceKey, First)> {
    Some((OnceKey(u128::from_be_bytes(key.try_into().ok()?)), read(value)?))
}

fn read(value: &[u8]) -> Option<First> {
    let mut bytes = Bytes(value);
    if bytes.u8()? != 1 {
        return None;
    }
    let place = place(&mut bytes)?;
    let (made_s, crc, id) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
    let count = bytes.small()?;
    let seqs = (0..count).map(|_| bytes.small()).collect::<Option<_>>()?;
    bytes.0.is_empty().then_some(First { place, made_s, crc, id, seqs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(n: u128, made_s: u32) -> Claim {
        Claim { key: OnceKey(n), crc: 1, made_s }
    }

    fn place(offset: u32) -> Place {
        Place { segment: 1, offset }
    }

    fn window(count_max: usize) -> Once {
        Once::new(Limits { count_max, age_s_max: 100, bytes_max: 1 << 20 })
    }

    #[test]
    fn the_oldest_is_forgotten_by_count_and_by_age() {
        let mut once = window(3);
        for n in 0..5u32 {
            once.insert(claim(n.into(), 10 + n), place(n), 0, [n.into()].into());
        }
        once.trim(20);
        let there = |once: &Once| (0..5).filter(|&n| once.find(OnceKey(n)).is_some()).count();
        assert_eq!((there(&once), once.find(OnceKey(1))), (3, None));
        once.trim(113);
        assert_eq!(there(&once), 2, "the one of second 12 is too old");
        assert_eq!(once.take_changed().len(), 5);
    }

    #[test]
    fn state_and_replay_together_keep_the_order() {
        let mut before = window(10);
        for n in 0..4u32 {
            before.insert(claim(n.into(), 10), place(n), n.into(), [1, 1 << 40].into());
        }
        let rows = [3, 1, 0, 2].map(|n| {
            let change = before.change(OnceKey(n));
            (change.key, change.value.expect("it is there"))
        });
        let mut after = window(2);
        assert!(after.load(rows.into()));
        after.insert(claim(1, 10), place(1), 1, [1, 1 << 40].into());
        after.insert(claim(0, 11), place(9), 7, Box::default());
        after.trim(11);
        assert_eq!(after.find(OnceKey(3)), before.find(OnceKey(3)));
        assert_eq!(after.find(OnceKey(0)).map(|first| first.id), Some(7));
        assert_eq!((after.len(), after.queue.len()), (2, 2));
    }

    #[test]
    fn the_oldest_is_forgotten_by_bytes() {
        let one = BYTES_EACH + 2 * size_of::<Seq>();
        for (bytes_max, kept) in [(3 * one, 3), (3 * one - 1, 2), (0, 0)] {
            let limits = Limits { count_max: 9, age_s_max: 100, bytes_max };
            let mut once = Once::new(limits);
            for n in 0..3u32 {
                once.insert(claim(n.into(), 10), place(n), 0, [1, 2].into());
            }
            once.trim(10);
            assert_eq!((once.len(), once.bytes), (kept, kept * one));
            assert_eq!(once.find(OnceKey(2)).is_some(), kept > 0, "the newest is the last to go");
        }
    }

    #[test]
    fn one_that_is_taken_back_weighs_nothing_and_is_told_of_again() {
        let mut once = window(3);
        once.insert(claim(1, 10), place(1), 7, [1].into());
        assert_eq!(once.take_changed(), [OnceKey(1)]);
        once.take_back(OnceKey(1));
        assert_eq!((once.len(), once.bytes, once.queue.len()), (0, 0, 0));
        assert_eq!(once.take_changed(), [OnceKey(1)], "state may have an older one");
    }
}

//! The window of appends that are remembered, so that a retry gets the first answer.
//!
//! First in, first out; by count, age and bytes. The order is that of the records in the log, so it
//! needs no counter and is the same after a restart. State has rows of many, for it is asked for
//! all of them at a start and for none later; a row goes when the last of it is forgotten:
//!
//! ```text
//! key    segment u32 | offset u32 of the first, big endian
//! value  version u8 (2) | count | count × one
//! one    key u128 | segment ± | offset ± | made_s ± | crc u32 | id ± | count | count × seq
//! ```
//! Earlier builds wrote a row for each, under its key (version 1): those are read, and go likewise.
//! It does not know who asks. Invariant: the queue has every remembered key, in the order of the
//! places.

use crate::engine::record::bytes::{Bytes, put_from, put_small};
use crate::engine::record::{Claim, place};
use crate::engine::state::{Keep, StateChange};
use crate::log::Place;
use model::ports::log::OnceKey;
use model::timeline::Seq;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a key takes beside its seqs, bytes.
const BYTES_EACH: usize = 128;

/// Keys of a row of state, at most.
const ROW_KEYS_MAX: usize = 256;

/// No key is added to a row of so many bytes in memory.
const ROW_BYTES: usize = 64 * 1024;

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
    /// What state does not know.
    untold: Untold,
    /// Rows of state: the places of their first and of their last.
    rows: BTreeMap<Place, Place>,
    /// Rows of version 1, and the places of their keys.
    singles: HashMap<OnceKey, Place>,
    limits: Limits,
}

/// What state is to be told.
#[derive(Default)]
pub(crate) struct Untold {
    /// Remembered, the oldest first.
    pub(crate) keys: VecDeque<(Place, OnceKey)>,
    /// Keys of rows of which nothing is remembered any more.
    pub(crate) gone: Vec<Box<[u8]>>,
}

/// Limits of the window.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) count_max: usize,
    pub(crate) age_s_max: u32,
    pub(crate) bytes_max: usize,
}

impl Untold {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.gone.is_empty()
    }

    /// Takes some of it out.
    pub(crate) fn some(&mut self, count: usize) -> Untold {
        let keys = self.keys.drain(..count.min(self.keys.len())).collect();
        let gone = self.gone.split_off(self.gone.len().saturating_sub(count));
        Untold { keys, gone }
    }
}

impl Once {
    pub(crate) fn new(limits: Limits) -> Once {
        Once {
            firsts: HashMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            untold: Untold::default(),
            rows: BTreeMap::new(),
            singles: HashMap::new(),
            limits,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.firsts.len()
    }

    pub(crate) fn find(&self, key: OnceKey) -> Option<&First> {
        self.firsts.get(&key)
    }

    /// Everything that is remembered, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OnceKey, &First)> {
        self.queue.iter().filter_map(|&(place, key)| Some((key, self.there(place, key)?)))
    }

    /// An append is remembered from now on. One of the same key was forgotten, or this is it again
    /// while the log is replayed.
    pub(crate) fn insert(&mut self, claim: Claim, place: Place, id: u64, seqs: Box<[Seq]>) {
        let Claim { key, crc, made_s } = claim;
        if self.put(key, First { place, made_s, crc, id, seqs }) {
            self.untold.keys.push_back((place, key));
        }
    }

    /// The last insert did not happen.
    pub(crate) fn take_back(&mut self, key: OnceKey) {
        if let Some(first) = self.firsts.remove(&key) {
            self.bytes -= weight(&first);
            self.queue.pop_back();
            self.untold.keys.pop_back();
        }
    }

    /// Forgets what is too old or too much.
    pub(crate) fn trim(&mut self, now_s: u32) {
        let Limits { count_max, age_s_max, bytes_max } = self.limits;
        while let Some(&(place, key)) = self.queue.front() {
            let too_much = self.firsts.len() > count_max || self.bytes > bytes_max;
            // Without one it was said again later.
            if let Some(first) = self.there(place, key) {
                if !too_much && now_s.saturating_sub(first.made_s) <= age_s_max {
                    break;
                }
                self.bytes -= weight(first);
                self.firsts.remove(&key);
            }
            self.queue.pop_front();
            if self.singles.get(&key) == Some(&place) {
                self.singles.remove(&key);
                self.untold.gone.push(key.0.to_be_bytes().into());
            }
        }
        let from = self.queue.front().map(|(place, _)| *place);
        while let Some(row) = self.rows.first_entry()
            && from.is_none_or(|from| *row.get() < from)
        {
            self.untold.gone.push(row_key(row.remove_entry().0).into());
        }
    }

    /// What state does not know yet. It is told, unless it comes back by [`Once::tell_again`].
    pub(crate) fn take_untold(&mut self) -> Untold {
        std::mem::take(&mut self.untold)
    }

    pub(crate) fn tell_again(&mut self, untold: Untold) {
        let Untold { keys, gone } = untold;
        if !keys.is_empty() {
            self.untold.keys.extend(keys);
            self.untold.keys.make_contiguous().sort_unstable();
        }
        self.untold.gone.extend(gone);
    }

    /// The changes of state that tell of it.
    pub(crate) fn changes(&mut self, untold: &Untold) -> Vec<StateChange> {
        let there = |&(place, key): &(Place, OnceKey)| Some((key, self.there(place, key)?));
        let there: Vec<_> = untold.keys.iter().filter_map(there).collect();
        let (mut changes, mut told, mut rest) = (Vec::new(), Vec::new(), &there[..]);
        while let Some((_, first)) = rest.first() {
            let mut bytes = 0;
            let fits = |(_, first): &&(OnceKey, &First)| {
                bytes += weight(first);
                bytes <= ROW_BYTES
            };
            let count = rest.iter().take(ROW_KEYS_MAX).take_while(fits).count().max(1);
            let (row, later) = rest.split_at(count);
            let (_, last) = row[count - 1];
            told.push((first.place, last.place));
            changes.push(StateChange::put(Keep::Once, row_key(first.place), write(row)));
            rest = later;
        }
        for (first, last) in told {
            // One that was told before, of which nobody knows whether it was taken, may have more.
            let known = self.rows.entry(first).or_insert(last);
            *known = last.max(*known);
        }
        let gone = untold.gone.iter().map(|key| StateChange::delete(Keep::Once, &key[..]));
        changes.extend(gone);
        changes
    }

    /// Takes what state has, in any order. False if it makes no sense.
    pub(crate) fn load(&mut self, rows: Vec<(Vec<u8>, Vec<u8>)>) -> bool {
        let mut firsts = Vec::new();
        for (key, value) in rows {
            let Some(row) = read_row(&key, &value) else { return false };
            if key.len() == size_of::<OnceKey>() {
                self.singles.extend(row.iter().map(|(key, first)| (*key, first.place)));
            } else if let Some(((_, first), (_, last))) = row.first().zip(row.last()) {
                self.rows.insert(first.place, last.place);
            }
            firsts.extend(row);
        }
        firsts.sort_by_key(|(_, first)| first.place);
        firsts.into_iter().for_each(|(key, first)| _ = self.put(key, first));
        true
    }

    /// The one of this key, if it is the one of this place.
    fn there(&self, place: Place, key: OnceKey) -> Option<&First> {
        self.firsts.get(&key).filter(|first| first.place == place)
    }

    /// Whether it is new.
    fn put(&mut self, key: OnceKey, first: First) -> bool {
        self.bytes += weight(&first);
        let place = first.place;
        if let Some(before) = self.firsts.insert(key, first) {
            self.bytes -= weight(&before);
            if before.place == place {
                return false;
            }
        }
        match self.queue.back() {
            // While the log is replayed, state may have told of later ones already.
            Some((last, _)) if *last >= place => {
                let at = self.queue.partition_point(|(other, _)| *other < place);
                self.queue.insert(at, (place, key));
            }
            _ => self.queue.push_back((place, key)),
        }
        true
    }
}

fn weight(first: &First) -> usize {
    BYTES_EACH + first.seqs.len() * size_of::<Seq>()
}

/// The key of the row that begins with the one of this place.
fn row_key(first: Place) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&first.segment.to_be_bytes());
    key[4..].copy_from_slice(&first.offset.to_be_bytes());
    key
}

fn write(row: &[(OnceKey, &First)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + 64 * row.len());
    out.push(2);
    put_small(row.len() as u64, &mut out);
    let (mut place, mut made_s, mut last_id) = (Place::default(), 0, 0);
    for (key, first) in row {
        out.extend_from_slice(&key.0.to_le_bytes());
        put_from(place.segment.into(), first.place.segment.into(), &mut out);
        put_from(place.offset.into(), first.place.offset.into(), &mut out);
        put_from(made_s, first.made_s.into(), &mut out);
        out.extend_from_slice(&first.crc.to_le_bytes());
        put_from(last_id, first.id, &mut out);
        put_small(first.seqs.len() as u64, &mut out);
        first.seqs.iter().for_each(|&seq| put_small(seq, &mut out));
        (place, made_s, last_id) = (first.place, first.made_s.into(), first.id);
    }
    out
}

/// What a row of state says.
pub(crate) fn read_row(key: &[u8], value: &[u8]) -> Option<Vec<(OnceKey, First)>> {
    if let Ok(key) = key.try_into() {
        return Some(vec![(OnceKey(u128::from_be_bytes(key)), read_single(value)?)]);
    }
    let mut bytes = Bytes(value);
    let (version, count) = (bytes.u8()?, bytes.small()?);
    let mut row = Vec::with_capacity(count.min(ROW_KEYS_MAX as u64) as usize);
    let (mut segment, mut offset, mut made_s, mut id) = (0, 0, 0, 0);
    for _ in 0..count {
        let key = OnceKey(bytes.u128()?);
        (segment, offset) = (bytes.from(segment)?, bytes.from(offset)?);
        made_s = bytes.from(made_s)?;
        let crc = bytes.u32()?;
        id = bytes.from(id)?;
        let seqs = seqs(&mut bytes)?;
        let place = Place { segment: segment.try_into().ok()?, offset: offset.try_into().ok()? };
        row.push((key, First { place, made_s: made_s.try_into().ok()?, crc, id, seqs }));
    }
    let is_its = row.first().is_some_and(|(_, first)| row_key(first.place) == *key);
    (version == 2 && bytes.0.is_empty() && is_its).then_some(row)
}

fn read_single(value: &[u8]) -> Option<First> {
    let mut bytes = Bytes(value);
    if bytes.u8()? != 1 {
        return None;
    }
    let place = place(&mut bytes)?;
    let (made_s, crc, id) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
    let seqs = seqs(&mut bytes)?;
    bytes.0.is_empty().then_some(First { place, made_s, crc, id, seqs })
}

fn seqs(bytes: &mut Bytes<'_>) -> Option<Box<[Seq]>> {
    (0..bytes.small()?).map(|_| bytes.small()).collect()
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

    /// Rows as state has them.
    type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

    /// State is told of everything; how many rows changed.
    fn tell(once: &mut Once, rows: &mut Rows) -> usize {
        let untold = once.take_untold();
        let changes = once.changes(&untold);
        let count = changes.len();
        for StateChange { key, value, .. } in changes {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        count
    }

    fn loaded(count_max: usize, rows: &Rows) -> Once {
        let mut once = window(count_max);
        assert!(once.load(rows.clone().into_iter().rev().collect()));
        once
    }

    fn single(n: u128, first: &First) -> (Vec<u8>, Vec<u8>) {
        let mut value = vec![1];
        crate::engine::record::put_place(first.place, &mut value);
        value.extend_from_slice(&first.made_s.to_le_bytes());
        value.extend_from_slice(&first.crc.to_le_bytes());
        value.extend_from_slice(&first.id.to_le_bytes());
        put_small(first.seqs.len() as u64, &mut value);
        first.seqs.iter().for_each(|&seq| put_small(seq, &mut value));
        (n.to_be_bytes().into(), value)
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
        let mut rows = Rows::new();
        assert_eq!(tell(&mut once, &mut rows), 1, "one row has what is left");
        assert_eq!(loaded(3, &rows).iter().map(|(key, _)| key.0).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_row_goes_when_the_last_of_it_is_forgotten() {
        let (mut once, mut rows) = (window(600), Rows::new());
        let mut most = 0;
        for n in 0..5_000u32 {
            once.insert(claim(n.into(), 10), place(n), n.into(), [n.into()].into());
            once.trim(10);
            if n % 300 == 299 {
                tell(&mut once, &mut rows);
                most = most.max(rows.len());
                let again = loaded(600, &rows);
                let all = again.queue.iter().filter(|(_, key)| once.find(*key).is_some());
                assert_eq!(all.count(), once.len(), "state has at least what is remembered");
                assert!(again.len() < once.len() + ROW_KEYS_MAX, "and not much more");
            }
        }
        assert!(most <= 6, "{most} rows");
        once.trim(1_000);
        tell(&mut once, &mut rows);
        assert_eq!((once.len(), once.rows.len(), rows.len()), (0, 0, 0));
    }

    #[test]
    fn state_and_replay_together_keep_the_order() {
        let (mut before, mut rows) = (window(10), Rows::new());
        for n in 0..4u32 {
            before.insert(claim(n.into(), 10), place(n), n.into(), [1, 1 << 40].into());
        }
        tell(&mut before, &mut rows);
        let mut after = loaded(2, &rows);
        after.insert(claim(1, 10), place(1), 1, [1, 1 << 40].into());
        assert!(after.take_untold().is_empty(), "state knows it");
        after.insert(claim(0, 11), place(9), 7, Box::default());
        after.trim(11);
        assert_eq!(after.find(OnceKey(3)), before.find(OnceKey(3)));
        assert_eq!(after.find(OnceKey(0)).map(|first| first.id), Some(7));
        assert_eq!((after.len(), after.queue.len()), (2, 2));
    }

    #[test]
    fn rows_of_earlier_builds_are_read_and_go_one_by_one() {
        let first = |n: u32| First {
            place: place(n),
            made_s: 10,
            crc: 1,
            id: n.into(),
            seqs: [n.into(), 1 << 40].into(),
        };
        let mut rows: Rows = (0..4).map(|n| single(n.into(), &first(n))).collect();
        let mut once = loaded(3, &rows);
        assert_eq!(once.len(), 4);
        // A key that is forgotten is another's later: the old row goes, and not the new one.
        once.trim(10);
        once.insert(claim(0, 11), place(7), 70, Box::default());
        once.trim(11);
        assert_eq!(tell(&mut once, &mut rows), 3, "a row of one, and two that go");
        assert_eq!(rows.len(), 3);
        let again = loaded(3, &rows);
        let ids: Vec<_> = again.iter().map(|(key, first)| (key.0, first.id)).collect();
        assert_eq!(ids, [(2, 2), (3, 3), (0, 70)]);
        assert_eq!(again.find(OnceKey(3)), Some(&first(3)));
    }

    #[test]
    fn what_failed_is_told_again_in_its_order() {
        let (mut once, mut rows) = (window(100), Rows::new());
        let insert = |once: &mut Once, n: u32| {
            once.insert(claim(n.into(), 10), place(n), n.into(), Box::default());
        };
        (0..6).for_each(|n| insert(&mut once, n));
        let mut untold = once.take_untold();
        let some = untold.some(2);
        assert_eq!((some.keys.len(), untold.keys.len()), (2, 4));
        once.changes(&some); // which nobody takes
        insert(&mut once, 6);
        once.tell_again(some);
        once.tell_again(untold);
        assert_eq!(tell(&mut once, &mut rows), 1);
        let ids: Vec<_> = loaded(100, &rows).iter().map(|(_, first)| first.id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6]);
        once.trim(1_000);
        tell(&mut once, &mut rows);
        assert!(rows.is_empty());
    }

    #[test]
    fn a_row_that_is_cut_or_under_another_key_makes_no_sense() {
        let (mut once, mut rows) = (window(9), Rows::new());
        once.insert(claim(5, 10), place(300), 7, [1, 2].into());
        once.insert(claim(6, 9), place(400), 6, [u64::MAX].into());
        tell(&mut once, &mut rows);
        let (key, value) = rows.pop_first().expect("there is one");
        assert_eq!(read_row(&key, &value).map(|row| row.len()), Some(2));
        for cut in 0..value.len() {
            assert!(read_row(&key, &value[..cut]).is_none(), "cut at {cut}");
        }
        assert!(read_row(&row_key(place(301)), &value).is_none());
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
    fn one_that_is_taken_back_weighs_nothing_and_nobody_is_told() {
        let mut once = window(3);
        once.insert(claim(1, 10), place(1), 7, [1].into());
        once.take_back(OnceKey(1));
        assert_eq!((once.len(), once.bytes, once.queue.len()), (0, 0, 0));
        assert!(once.take_untold().is_empty());
    }
}

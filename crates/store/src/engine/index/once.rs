//! Appends that are remembered, so that a retry gets the first answer.
//!
//! First in, first out, by count and age. The order is that of the records in the log, so it needs
//! no counter and is the same after a restart. Memory has what state was not told of, and as much
//! of the newest as its bytes allow; all else is looked up in state, which has rows of many in
//! their order, and where the row of each key is:
//!
//! ```text
//! key    segment u32 | offset u32 of the first, big endian
//! value  version u8 (2) | count | count × one
//! one    key u128 | segment ± | offset ± | made_s ± | crc u32 | id ± | count | count × seq
//!
//! key    1 | key u128, big endian
//! value  the key of its row
//!
//! Keep::Meta   "once": version u8 (1) | how many
//! ```
//! A row goes as a whole, with its keys, when the last of it is too old, or there are more than may
//! be without it ([`Forget`]). Earlier builds had no look-up and kept everything in memory, or
//! wrote a row for each under its key (version 1): what they left is taken into memory and told
//! anew. It does not know who asks. Invariant: the queue has every key that memory has, in the
//! order of the places.

use crate::engine::index::senseless;
use crate::engine::record::bytes::{Bytes, put_from, put_small};
use crate::engine::record::{Claim, place};
use crate::engine::state::{Keep, State, StateChange, StateError};
use crate::log::Place;
use model::ports::log::OnceKey;
use model::timeline::Seq;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Memory of a key beside its seqs, bytes.
const BYTES_EACH: usize = 128;

/// Keys of a row of state, at most.
const ROW_KEYS_MAX: usize = 256;

/// No key is added to a row of so many bytes in memory.
const ROW_BYTES: usize = 64 * 1024;

/// Rows that one slice of forgetting looks at, at most.
const FORGET_ROWS: usize = 16;

/// How many keys state has, in [`Keep::Meta`].
const COUNT_KEY: &[u8] = b"once";

/// End of the range of all rows' keys.
const ROWS_END: [u8; 1] = [1];

/// The first answer, and by what the message is known again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct First {
    pub(crate) place: Place,
    pub(crate) made_s: u32,
    pub(crate) crc: u32,
    pub(crate) id: u64,
    pub(crate) seqs: Box<[Seq]>,
}

/// The appends that are remembered.
pub(crate) struct Once {
    firsts: HashMap<OnceKey, First>,
    queue: VecDeque<(Place, OnceKey)>,
    bytes: usize,
    /// Entries that derived state does not have.
    untold: Untold,
    /// The first that a checkpoint is telling state of.
    telling: Option<Place>,
    /// Appends up to this place are forgotten, whether or not state still has them.
    forgot: Option<Place>,
    /// Keys that state has, and as many as it says that it has.
    stored: u64,
    sealed: u64,
    /// Keys in what a checkpoint tells state now.
    in_slice: u64,
    /// Rows of an earlier build that are in state, until all their content was written anew.
    left: BTreeSet<Vec<u8>>,
    limits: Limits,
}

/// Appends that state does not have yet, the oldest first.
pub(crate) type Untold = VecDeque<(Place, OnceKey)>;

/// Limits of what is remembered.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// In memory and in state.
    pub(crate) count_max: usize,
    pub(crate) age_s_max: u32,
    /// Of memory. Appends that state does not have yet stay beyond it.
    pub(crate) bytes_max: usize,
}

impl Once {
    pub(crate) fn new(limits: Limits) -> Once {
        Once {
            firsts: HashMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            untold: Untold::default(),
            telling: None,
            forgot: None,
            stored: 0,
            sealed: 0,
            in_slice: 0,
            left: BTreeSet::new(),
            limits,
        }
    }

    /// That of a log with this state.
    pub(crate) fn open(state: &dyn State, limits: Limits) -> Result<Once, StateError> {
        let mut once = Once::new(limits);
        match state.get(Keep::Meta, COUNT_KEY)? {
            Some(count) => {
                once.sealed = read_count(&count).ok_or_else(senseless)?;
                once.stored = once.sealed;
            }
            None => once.take_over(state)?,
        }
        Ok(once)
    }

    /// Keys that are remembered, about.
    pub(crate) fn len(&self) -> u64 {
        self.stored + self.untold.len() as u64
    }

    /// The first answer to an append with this key, if it is remembered.
    pub(crate) fn find(
        &self,
        state: &dyn State,
        now_s: u32,
        key: OnceKey,
    ) -> Result<Option<First>, StateError> {
        if let Some(first) = self.firsts.get(&key) {
            return Ok(Some(first.clone()));
        }
        if self.stored == 0 {
            return Ok(None);
        }
        let Some(row_key) = state.get(Keep::Once, &index_key(key))? else { return Ok(None) };
        // The row of a key goes with it.
        let Some(row) = state.get(Keep::Once, &row_key)? else { return Ok(None) };
        let row = read_row(&row_key, &row).ok_or_else(senseless)?;
        let first = row.into_iter().find(|(of, _)| *of == key).map(|(_, first)| first);
        Ok(first.filter(|first| {
            now_s.saturating_sub(first.made_s) <= self.limits.age_s_max
                && self.forgot.is_none_or(|forgot| first.place > forgot)
        }))
    }

    /// The newest that are remembered, so many at most, the oldest first.
    pub(crate) fn newest(
        &self,
        state: &dyn State,
        count_max: usize,
    ) -> Result<Vec<(OnceKey, First)>, StateError> {
        let memory = self.queue.iter().rev();
        let memory =
            memory.filter_map(|&(place, key)| Some((key, self.there(place, key)?.clone())));
        let mut all: Vec<_> = memory.take(count_max).collect();
        let mut has: HashSet<OnceKey> = all.iter().map(|(key, _)| *key).collect();
        let mut sense = true;
        state.range(Keep::Once, (&[], &ROWS_END), true, &mut |key, value| {
            let Some(row) = read_row(key, value) else {
                sense = false;
                return false;
            };
            for (key, first) in row.into_iter().rev() {
                let is_there = self.forgot.is_none_or(|forgot| first.place > forgot);
                if is_there && all.len() < count_max && has.insert(key) {
                    all.push((key, first));
                }
            }
            all.len() < count_max
        })?;
        all.reverse();
        if sense { Ok(all) } else { Err(senseless()) }
    }

    /// An append is remembered from now on. One of the same key was forgotten, or this is it again
    /// while the log is replayed.
    pub(crate) fn insert(&mut self, claim: Claim, place: Place, id: u64, seqs: Box<[Seq]>) {
        let Claim { key, crc, made_s } = claim;
        if self.put(key, First { place, made_s, crc, id, seqs }) {
            self.untold.push_back((place, key));
        }
    }

    /// The last insert did not happen.
    pub(crate) fn take_back(&mut self, key: OnceKey) {
        if let Some(first) = self.firsts.remove(&key) {
            self.bytes -= weight(&first);
            self.queue.pop_back();
            self.untold.pop_back();
        }
    }

    /// Forgets what is too old or too much, and leaves to state what takes too much memory.
    pub(crate) fn trim(&mut self, now_s: u32) {
        let Limits { count_max, age_s_max, bytes_max } = self.limits;
        while let Some(&(place, key)) = self.queue.front() {
            // Without one it was said again later.
            if let Some(first) = self.there(place, key) {
                let is_old = now_s.saturating_sub(first.made_s) > age_s_max;
                if is_old || self.firsts.len() > count_max {
                    self.forgot = Some(place);
                } else if self.bytes <= bytes_max || !self.is_told(place) {
                    break;
                }
                self.bytes -= weight(&self.firsts[&key]);
                self.firsts.remove(&key);
            }
            self.queue.pop_front();
        }
    }

    /// Whether everything up to a place has been written into state.
    fn is_told(&self, place: Place) -> bool {
        let untold = self.untold.front().map(|(place, _)| *place);
        [untold, self.telling].into_iter().flatten().all(|first| place < first)
    }

    /// Takes the appends that state does not have yet. They are written slice by slice
    /// ([`Once::told`]), unless they come back by [`Once::tell_again`].
    pub(crate) fn take_untold(&mut self) -> Untold {
        let untold = std::mem::take(&mut self.untold);
        self.telling = untold.front().map(|(place, _)| *place);
        untold
    }

    /// Number of keys to write into state at once, of so many at most. The rows of an earlier build
    /// are written anew as a whole: new rows may have the keys of its rows.
    pub(crate) fn at_once(&self, most: usize) -> usize {
        if self.left.is_empty() { most } else { usize::MAX }
    }

    pub(crate) fn tell_again(&mut self, untold: Untold) {
        self.telling = None;
        if !untold.is_empty() {
            self.untold.extend(untold);
            self.untold.make_contiguous().sort_unstable();
        }
    }

    /// The last slice is in state; the rest of what was taken comes behind it.
    pub(crate) fn told(&mut self, rest: &Untold) {
        self.stored += std::mem::take(&mut self.in_slice);
        self.telling = rest.front().map(|(place, _)| *place);
        if rest.is_empty() {
            self.left.clear();
        }
    }

    /// The changes of state that tell of it. With the last of what was taken rows of an earlier
    /// build go, and state is as this build has it.
    pub(crate) fn changes(&mut self, untold: &Untold, is_last: bool) -> Vec<StateChange> {
        let mut left = self.left.clone();
        let there = |&(place, key): &(Place, OnceKey)| Some((key, self.there(place, key)?));
        let there: Vec<_> = untold.iter().filter_map(there).collect();
        let (mut changes, mut rest) = (Vec::new(), &there[..]);
        while let Some((_, first)) = rest.first() {
            let mut bytes = 0;
            let fits = |(_, first): &&(OnceKey, &First)| {
                bytes += weight(first);
                bytes <= ROW_BYTES
            };
            let count = rest.iter().take(ROW_KEYS_MAX).take_while(fits).count().max(1);
            let (row, later) = rest.split_at(count);
            let row_key = row_key(first.place);
            changes.push(StateChange::put(Keep::Once, row_key, write(row)));
            let index = |(key, _): &(OnceKey, &First)| {
                StateChange::put(Keep::Once, index_key(*key), row_key.to_vec())
            };
            changes.extend(row.iter().map(index));
            left.remove(&row_key[..]);
            rest = later;
        }
        self.in_slice = there.len() as u64;
        if is_last && !self.left.is_empty() {
            changes.extend(left.iter().map(|key| StateChange::delete(Keep::Once, &key[..])));
            changes.push(count_change(self.stored + self.in_slice));
        }
        changes
    }

    /// The change by which state says how many keys it has. It comes with the end of a checkpoint,
    /// for until then the log may tell of some of them once more.
    pub(crate) fn count_change(&self) -> StateChange {
        count_change(self.stored)
    }

    /// State says so.
    pub(crate) fn is_sealed(&mut self) {
        self.sealed = self.stored;
    }

    /// The next slice of forgetting what state has, from the row with this key on.
    pub(crate) fn forget(&self, now_s: u32, from: Vec<u8>) -> Forget {
        let spare = self.stored.saturating_sub(self.limits.count_max as u64);
        Forget { from, now_s, age_s_max: self.limits.age_s_max, spare, sealed: self.sealed }
    }

    /// Whether state has any.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored > 0
    }

    /// Whether state has more than may be, by so much that a row of it can go.
    pub(crate) fn is_over(&self) -> bool {
        self.stored >= self.limits.count_max.saturating_add(ROW_KEYS_MAX) as u64
    }

    /// State has forgotten so many.
    pub(crate) fn has_forgotten(&mut self, keys: u64) {
        self.stored = self.stored.saturating_sub(keys);
        self.sealed = self.sealed.saturating_sub(keys);
    }

    /// Takes into memory the rows that an earlier build left in state, to be written in the present
    /// form.
    fn take_over(&mut self, state: &dyn State) -> Result<(), StateError> {
        let (mut rows, mut sense) = (Vec::new(), true);
        state.range(Keep::Once, (&[], &[u8::MAX; 17]), false, &mut |key, value| {
            if is_index_key(key) {
                return true; // of a start that did not come to its end
            }
            match read_row(key, value) {
                Some(row) => rows.push((key.to_vec(), row)),
                None => sense = false,
            }
            sense
        })?;
        if !sense {
            return Err(senseless());
        }
        let (keys, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        self.left = keys.into_iter().collect();
        let mut firsts: Vec<_> = rows.into_iter().flatten().collect();
        firsts.sort_by_key(|(_, first)| first.place);
        for (key, first) in firsts {
            let place = first.place;
            if self.put(key, first) {
                self.untold.push_back((place, key));
            }
        }
        Ok(())
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
            // While the log is replayed, an earlier build's state may have told of later ones.
            Some((last, _)) if *last >= place => {
                let at = self.queue.partition_point(|(other, _)| *other < place);
                self.queue.insert(at, (place, key));
            }
            _ => self.queue.push_back((place, key)),
        }
        true
    }
}

/// A slice of forgetting: the first rows of state go, if all of each is too old or too much.
pub(in crate::engine) struct Forget {
    from: Vec<u8>,
    now_s: u32,
    age_s_max: u32,
    /// Keys that are too many.
    spare: u64,
    sealed: u64,
}

/// Result of a slice of forgetting.
pub(in crate::engine) struct Forgot {
    /// Keys that went.
    pub(in crate::engine) keys: u64,
    /// Where to go on, if there may be more.
    pub(in crate::engine) rest: Option<Vec<u8>>,
    pub(in crate::engine) error: Option<StateError>,
}

impl Forget {
    pub(in crate::engine) fn run(self, state: &dyn State) -> Forgot {
        match self.find(state) {
            Ok((keys, rest)) => Forgot { keys, rest, error: None },
            Err(error) => Forgot { keys: 0, rest: None, error: Some(error) },
        }
    }

    fn find(&self, state: &dyn State) -> Result<(u64, Option<Vec<u8>>), StateError> {
        let mut rows = Vec::new();
        state.range(Keep::Once, (&self.from, &ROWS_END), false, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            rows.len() < FORGET_ROWS
        })?;
        let (mut changes, mut keys, mut rest) = (Vec::new(), 0, None);
        for (row_key, value) in rows {
            let row = read_row(&row_key, &value).ok_or_else(senseless)?;
            let newest_s = row.iter().map(|(_, first)| first.made_s).max().unwrap_or(0);
            let is_old = self.now_s.saturating_sub(newest_s) > self.age_s_max;
            let is_spare = keys + row.len() as u64 <= self.spare;
            if !is_old && !is_spare {
                rest = None;
                break;
            }
            keys += row.len() as u64;
            for (key, _) in row {
                let index_key = index_key(key);
                // One that was claimed anew is in another row.
                if state.get(Keep::Once, &index_key)?.as_deref() == Some(&row_key[..]) {
                    changes.push(StateChange::delete(Keep::Once, index_key));
                }
            }
            rest = Some([&row_key[..], &[0]].concat());
            changes.push(StateChange::delete(Keep::Once, row_key));
        }
        if !changes.is_empty() {
            changes.push(count_change(self.sealed.saturating_sub(keys)));
            state.write(changes)?;
        }
        Ok((keys, rest))
    }
}

fn count_change(count: u64) -> StateChange {
    let mut value = vec![1];
    put_small(count, &mut value);
    StateChange::put(Keep::Meta, COUNT_KEY, value)
}

fn read_count(value: &[u8]) -> Option<u64> {
    let mut bytes = Bytes(value);
    let (version, count) = (bytes.u8()?, bytes.small()?);
    (version == 1 && bytes.0.is_empty()).then_some(count)
}

/// Where state says which row has a key.
fn index_key(key: OnceKey) -> [u8; 17] {
    let mut out = [1; 17];
    out[1..].copy_from_slice(&key.0.to_be_bytes());
    out
}

/// Whether this says where the row of a key is.
pub(crate) fn is_index_key(key: &[u8]) -> bool {
    key.len() == 17 && key[0] == 1
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

/// Content of a row of derived state.
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
mod tests;

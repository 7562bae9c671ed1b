//! Rosters that were posted to or changed lately, taken apart: versions, members, the slots of
//! their heads, and where the log has them as a list.
//!
//! A roster itself is a row, which [`super::rows::Rows`] or state has; this only saves reading it
//! again. Timelines that an append named are known beside them, without a row, since others like
//! it come. Invariant: what is known here is what the row says, and there are at most so many
//! members, or one list.

use super::rows::row_key;
use super::{Index, senseless};
use crate::engine::record::bytes::Bytes;
use crate::engine::record::list::{put_timelines, timelines};
use crate::engine::state::{Keep, StateError};
use crate::log::Place;
use model::ports::log::{Roster, RosterId, Table};
use model::timeline::TimelineId;
use std::collections::HashMap;
use std::sync::Arc;

const VERSION: u8 = 1;

/// Where a list stands, and its record's length.
pub(crate) type List = (Place, u32);

/// Name of what is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ListName {
    /// A roster's.
    Roster(RosterId),
    /// A hash of timelines that an append named. Others may have the same.
    Named(u64),
}

/// A roster that is known, or timelines that were named.
pub(crate) struct Known {
    pub(crate) roster: Roster,
    /// Slots of the members' heads when they were last looked at; any may be another's by now.
    pub(crate) slots: Vec<u32>,
    /// Where its members stand in the log.
    list: Option<List>,
    is_used: bool,
}

/// The known ones.
pub(crate) struct Rosters {
    known: HashMap<ListName, Known>,
    members: usize,
    members_max: usize,
    /// Lists before this place are named no more: a start would not read them.
    lists_from: Place,
}

impl Known {
    fn new(roster: Roster) -> Known {
        let slots = vec![u32::MAX; roster.members.len()];
        Known { roster, slots, list: None, is_used: true }
    }

    pub(crate) fn set_list(&mut self, list: List) {
        self.list = Some(list);
    }
}

impl Rosters {
    pub(crate) fn new(members_max: usize) -> Rosters {
        let (known, lists_from) = (HashMap::new(), Place::default());
        Rosters { known, members: 0, members_max, lists_from }
    }

    pub(crate) fn get(&self, id: RosterId) -> Option<&Known> {
        self.known.get(&ListName::Roster(id))
    }

    /// Takes out what is known of these timelines, to be put back: nothing but they, as a rule the
    /// first time.
    pub(crate) fn take_named(&mut self, timelines: &[TimelineId]) -> (ListName, Known) {
        let name = ListName::Named(hash(timelines));
        let known = self.forget(name).filter(|known| *known.roster.members == *timelines);
        let new = || Known::new(Roster { version: 0, members: timelines.into() });
        (name, known.unwrap_or_else(new))
    }

    /// A checkpoint begins here.
    pub(crate) fn list_anew_from(&mut self, place: Place) {
        self.lists_from = place;
    }

    /// Where the log has this roster's members so that a record in `segment` may name them.
    pub(crate) fn list(&self, known: &Known, segment: u32) -> Option<List> {
        known.list.filter(|(at, _)| at.segment == segment && *at >= self.lists_from)
    }

    /// Its list was not written after all.
    pub(crate) fn unlist(&mut self, name: ListName) {
        if let Some(known) = self.known.get_mut(&name) {
            known.list = None;
        }
    }

    pub(crate) fn forget(&mut self, name: ListName) -> Option<Known> {
        let known = self.known.remove(&name)?;
        self.members -= known.roster.members.len();
        Some(known)
    }

    /// Keeps one; the others that were not used since the last time there were too many make room.
    pub(crate) fn put(&mut self, name: ListName, mut known: Known) {
        self.forget(name);
        known.is_used = true;
        let count = known.roster.members.len();
        while self.members + count > self.members_max && !self.known.is_empty() {
            self.known.retain(|_, known| std::mem::take(&mut known.is_used));
            self.members = self.known.values().map(|known| known.roster.members.len()).sum();
        }
        self.members += count;
        self.known.insert(name, known);
    }
}

/// Ids are keyed hashes: nobody outside can make lists alike by it.
fn hash(timelines: &[TimelineId]) -> u64 {
    timelines.iter().fold(timelines.len() as u64, |hash, id| {
        let whole = u128::from_le_bytes(id.to_bytes());
        (hash.rotate_left(5) ^ whole as u64 ^ (whole >> 64) as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

impl Index {
    /// Takes a roster out, to be put back; its row is read if it must be.
    pub(crate) fn take_roster(&mut self, id: RosterId) -> Result<Option<Known>, StateError> {
        if let Some(known) = self.rosters.forget(ListName::Roster(id)) {
            return Ok(Some(known));
        }
        let key = row_key(Table::Rosters, &id.row_key());
        let value = match self.rows.find(&key) {
            Some(value) => value.as_deref().map(read),
            None => self.state.get(Keep::Rows, &key)?.map(|value| read(&value)),
        };
        match value {
            None => Ok(None),
            Some(None) => Err(senseless()),
            Some(Some(roster)) => Ok(Some(Known::new(roster))),
        }
    }

    /// The roster as it is; without one the default, of version 0.
    pub(crate) fn roster(&mut self, id: RosterId) -> Result<Roster, StateError> {
        let Some(known) = self.take_roster(id)? else { return Ok(Roster::default()) };
        let roster = known.roster.clone();
        self.rosters.put(ListName::Roster(id), known);
        Ok(roster)
    }

    /// A roster is so from now on; of version 0 it is gone. Returns the row's former change, if it
    /// had changed.
    pub(crate) fn set_roster(&mut self, id: RosterId, roster: Roster) -> Option<Option<Box<[u8]>>> {
        let key = row_key(Table::Rosters, &id.row_key());
        self.rosters.forget(ListName::Roster(id));
        let value = (roster.version > 0).then(|| write(&roster));
        if value.is_some() {
            self.rosters.put(ListName::Roster(id), Known::new(roster));
        }
        self.rows.set(key, value)
    }

    /// Undoes [`set_roster`](Self::set_roster).
    pub(crate) fn unset_roster(&mut self, id: RosterId, before: Option<Option<Box<[u8]>>>) {
        self.rosters.forget(ListName::Roster(id));
        self.rows.take_back(row_key(Table::Rosters, &id.row_key()), before);
    }
}

/// The members after a change, in the order of their ids.
pub(crate) fn changed(
    members: &[TimelineId],
    leave: &[TimelineId],
    join: &[TimelineId],
) -> Arc<[TimelineId]> {
    let mut leave = leave.to_vec();
    leave.sort_unstable();
    let stay = members.iter().filter(|member| leave.binary_search(member).is_err());
    let mut all: Vec<_> = stay.chain(join).copied().collect();
    all.sort(); // two runs, nearly
    all.dedup();
    all.into()
}

/// The value of a roster's row.
pub(crate) fn write(roster: &Roster) -> Box<[u8]> {
    let mut out = Vec::with_capacity(9 + 16 * roster.members.len());
    out.push(VERSION);
    out.extend_from_slice(&roster.version.to_le_bytes());
    put_timelines(&roster.members, &mut out);
    out.into()
}

/// Content of such a value.
pub(crate) fn read(value: &[u8]) -> Option<Roster> {
    let mut bytes = Bytes(value);
    let (form, version) = (bytes.u8()?, bytes.u64()?);
    let count = (bytes.0.len() / 16) as u32;
    let members = timelines(&mut bytes, count)?;
    let is_whole = form == VERSION && version > 0 && bytes.0.is_empty();
    let rises = members.is_sorted_by(|one, next| one < next);
    (is_whole && rises).then(|| Roster { version, members: members.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    fn roster(version: u64, count: u8) -> Roster {
        let timeline = |n: u8| TimelineId::of(Space::Other, HashKey::new(1, 2), &[&[n]]);
        let all: Vec<_> = (0..count).map(timeline).collect();
        Roster { version, members: changed(&[], &[], &all) }
    }

    #[test]
    fn a_row_comes_back_and_a_cut_one_does_not() {
        for count in [0, 1, 7] {
            let value = write(&roster(9, count));
            assert_eq!(read(&value), Some(roster(9, count)));
            let whole = |cut: usize| read(&value[..cut]).map(|read| read.members.len());
            for cut in 0..value.len() {
                let fewer = (cut >= 9 && (cut - 9) % 16 == 0).then(|| (cut - 9) / 16);
                assert_eq!(whole(cut), fewer, "cut at {cut}");
            }
        }
        assert_eq!(read(&write(&roster(0, 1))), None);
    }

    #[test]
    fn who_leaves_and_joins_is_a_member_and_nobody_is_one_twice() {
        let all = roster(1, 6).members;
        let (few, more) = (changed(&all, &all[..2], &[]), [all[1], all[5], all[1]]);
        assert_eq!(*few, all[2..]);
        assert_eq!(*changed(&few, &more, &more), all[1..]);
        assert_eq!(*changed(&few, &all, &[]), []);
    }

    #[test]
    fn the_unused_make_room_and_a_large_one_is_alone() {
        let mut rosters = Rosters::new(10);
        let mut put = |id: u128, count: u8| {
            rosters.put(ListName::Roster(RosterId(id)), Known::new(roster(1, count)));
            let number = |name: &ListName| match name {
                ListName::Roster(id) => id.0,
                ListName::Named(_) => panic!("nobody named any"),
            };
            let mut known: Vec<_> = rosters.known.keys().map(number).collect();
            known.sort_unstable();
            let members = rosters.known.values().map(|known| known.roster.members.len());
            assert_eq!(members.sum::<usize>(), rosters.members);
            known
        };
        assert_eq!(put(1, 5), [1]);
        assert_eq!(put(2, 5), [1, 2]);
        assert_eq!(put(2, 6), [2], "the other made room");
        assert_eq!(put(3, 4), [2, 3]);
        assert_eq!(put(4, 20), [4], "beyond the limit it is alone");
    }

    #[test]
    fn timelines_that_were_named_are_known_again_and_others_of_the_same_hash_are_not() {
        let mut rosters = Rosters::new(100);
        let all = roster(1, 9).members;
        let (name, mut known) = rosters.take_named(&all);
        known.set_list((Place { segment: 1, offset: 70 }, 99));
        rosters.put(name, known);
        let (again, known) = rosters.take_named(&all);
        assert_eq!(again, name);
        assert_eq!(rosters.list(&known, 1), Some((Place { segment: 1, offset: 70 }, 99)));
        assert_eq!(rosters.list(&known, 2), None, "in another segment");
        rosters.put(ListName::Named(hash(&all[1..])), known);
        let (_, other) = rosters.take_named(&all[1..]);
        assert_eq!(*other.roster.members, all[1..]);
        assert_eq!(rosters.list(&other, 1), None, "it is another one's");
        assert_eq!(rosters.members, 0, "all are taken out");
    }
}

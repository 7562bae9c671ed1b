//! Lists of timelines, what names timelines by their places in one, and changes of rosters.
//!
//! ```text
//! List    count u32 | count × timeline 16
//! Roster  roster u128 | after u64 | version u64 | leave u32 | join u32
//!         | (leave + join) × timeline 16          version 0: the roster is gone
//! in an Append with form bit 16, in place of the named timelines:
//!         list: offset u32, length u32 | count | ranges | ranges × (gap, length) | count × seq
//! ```
//! A value without a stated size is a small number. A list stands in the same segment as what names
//! it, before it, and behind the place from which a start would read; so whoever reads a segment,
//! or a log from its checkpoint on, has met the list. `offset` and `length` are those of its
//! record. A range skips `gap` timelines of the list and names the next `length`. It knows no
//! roster's rules. Invariant: what is read back is what was written, or `None`.

use super::bytes::{Bytes, put_small};
use model::ports::log::{RosterChange, RosterId};
use model::timeline::{Seq, TimelineId};

/// Timelines that an append names by their places in a list.
pub(crate) struct Posting<'a> {
    /// Where the list stands in the segment, and its record's length.
    pub(crate) list: (u32, u32),
    pub(crate) members: Members<'a>,
    /// Seqs in the timelines of the members, in their order.
    pub(crate) seqs: &'a [Seq],
}

/// Which of a list.
#[derive(Clone, Copy)]
pub(crate) enum Members<'a> {
    /// As many members as there are seqs, from this place on.
    From(u32),
    /// Members at these places, which are in ascending order.
    At(&'a [u32]),
}

impl Posting<'_> {
    /// Appends it.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Posting { list: (offset, length), members, seqs } = self;
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        put_small(seqs.len() as u64, out);
        match members {
            Members::From(first) => {
                for number in [1, u64::from(*first), seqs.len() as u64] {
                    put_small(number, out);
                }
            }
            Members::At(all) => {
                let runs = || all.chunk_by(|one, next| one + 1 == *next);
                put_small(runs().count() as u64, out);
                let mut end = 0;
                for run in runs() {
                    put_small((run[0] - end).into(), out);
                    put_small(run.len() as u64, out);
                    end = run[0] + run.len() as u32;
                }
            }
        }
        seqs.iter().for_each(|&seq| put_small(seq, out));
    }
}

/// A list in a record, not yet parsed.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'a> {
    pub(crate) list: (u32, u32),
    count: usize,
    ranges: u64,
    /// Ranges and seqs: all there.
    numbers: &'a [u8],
}

impl<'a> Listed<'a> {
    pub(crate) fn read(bytes: &mut Bytes<'a>) -> Option<Listed<'a>> {
        let list = (bytes.u32()?, bytes.u32()?);
        let (count, ranges) = (bytes.small_u32()?, bytes.small()?);
        let before = bytes.0;
        let (mut at, mut named) = (0u32, 0u32);
        for _ in 0..ranges {
            let (gap, length) = (bytes.small_u32()?, bytes.small_u32()?);
            at = at.checked_add(gap)?.checked_add(length)?;
            named += length; // at most `at`
        }
        for _ in 0..count {
            bytes.small()?;
        }
        let numbers = &before[..before.len() - bytes.0.len()];
        (named == count).then_some(Listed { list, count: count as usize, ranges, numbers })
    }

    pub(super) fn pairs(self, list: &[TimelineId]) -> Option<Vec<(TimelineId, Seq)>> {
        let mut seqs = Bytes(self.numbers);
        for _ in 0..2 * self.ranges {
            seqs.small()?;
        }
        let (mut ranges, mut at) = (Bytes(self.numbers), 0);
        let mut pairs = Vec::with_capacity(self.count);
        for _ in 0..self.ranges {
            let first = at + ranges.small()? as usize;
            at = first + ranges.small()? as usize;
            for timeline in list.get(first..at)? {
                pairs.push((*timeline, seqs.small()?));
            }
        }
        Some(pairs)
    }
}

/// A List.
pub(crate) fn write_list(list: &[TimelineId], out: &mut Vec<u8>) {
    out.reserve(4 + 16 * list.len());
    out.extend_from_slice(&(list.len() as u32).to_le_bytes());
    put_timelines(list, out);
}

/// Content of a List.
pub(crate) fn read_list(payload: &[u8]) -> Option<Vec<TimelineId>> {
    let mut bytes = Bytes(payload);
    let count = bytes.u32()?;
    let list = timelines(&mut bytes, count)?;
    bytes.0.is_empty().then_some(list)
}

/// A Roster.
pub(crate) fn write_roster(change: &RosterChange, out: &mut Vec<u8>) {
    let RosterChange { roster, after, version, leave, join } = change;
    out.extend_from_slice(&roster.0.to_le_bytes());
    out.extend_from_slice(&after.to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&(leave.len() as u32).to_le_bytes());
    out.extend_from_slice(&(join.len() as u32).to_le_bytes());
    put_timelines(leave, out);
    put_timelines(join, out);
}

/// Content of a Roster.
pub(crate) fn read_roster(payload: &[u8]) -> Option<RosterChange> {
    let mut bytes = Bytes(payload);
    let roster = RosterId(bytes.u128()?);
    let (after, version) = (bytes.u64()?, bytes.u64()?);
    let (leave, join) = (bytes.u32()?, bytes.u32()?);
    let (leave, join) = (timelines(&mut bytes, leave)?, timelines(&mut bytes, join)?);
    let change = RosterChange { roster, after, version, leave, join };
    bytes.0.is_empty().then_some(change)
}

/// Appends ids.
pub(crate) fn put_timelines(list: &[TimelineId], out: &mut Vec<u8>) {
    list.iter().for_each(|timeline| out.extend_from_slice(&timeline.to_bytes()));
}

/// Reads so many ids.
pub(crate) fn timelines(bytes: &mut Bytes<'_>, count: u32) -> Option<Vec<TimelineId>> {
    let ids = bytes.take((count as usize).checked_mul(16)?)?;
    let id = |id: &[u8]| TimelineId::from_bytes(id.try_into().ok()?);
    ids.chunks(16).map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::record::{Said, Whereabouts};
    use crate::log::Place;
    use base::hash::HashKey;
    use model::timeline::{Message, Space};

    fn timeline(n: u8) -> TimelineId {
        TimelineId::of(Space::Other, HashKey::new(1, 2), &[&[n]])
    }

    #[test]
    fn members_of_a_list_come_back_and_a_cut_record_does_not() {
        let list: Vec<_> = (0..20).map(timeline).collect();
        let message = Message { id: 9, at_s: 8, label: [1, 2].into(), body: [7; 40].into() };
        let seqs = [1, 300, u64::MAX - 1, 5, 1 << 40];
        let rising = [0, 1, 5, 6, 19];
        let cases = [(Members::From(3), [3, 4, 5, 6, 7]), (Members::At(&rising), rising)];
        let there = Whereabouts::There(Place { segment: 3, offset: 99 }, 6);
        for whereabouts in [Whereabouts::Here, there] {
            for (members, at) in cases {
                let posting = Posting { list: (70, 333), members, seqs: &seqs };
                let mut payload = Vec::new();
                Said::of(&message, whereabouts).write_listed(&posting, &mut payload);
                let said = Said::read(&payload).expect("whole");
                assert_eq!(said.targets.list(), Some((70, 333)));
                let must = at.map(|at| list[at as usize]).into_iter().zip(seqs);
                assert_eq!(said.targets.pairs(&list), Some(must.collect::<Vec<_>>()));
                let short = *at.last().expect("some") as usize;
                assert_eq!(said.targets.pairs(&list[..short]), None, "the list is another");
                let here = whereabouts == Whereabouts::Here;
                assert_eq!(said.message(), here.then(|| message.clone()));
                for cut in 0..payload.len() {
                    assert!(Said::read(&payload[..cut]).is_none(), "cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn a_member_of_a_whole_list_takes_its_seq_and_nothing_else() {
        let message = Message { id: 9, at_s: 8, label: [].into(), body: [].into() };
        let seqs: Vec<Seq> = (0..4_096).map(|n| 1_000 + n).collect();
        let posting = Posting { list: (70, 333), members: Members::From(4_096), seqs: &seqs };
        let mut payload = Vec::new();
        Said::of(&message, Whereabouts::Nowhere).write_listed(&posting, &mut payload);
        assert!(payload.len() < 2 * 4_096 + 64, "{} bytes", payload.len());
    }

    #[test]
    fn lists_and_changes_come_back() {
        let list: Vec<_> = (0..3).map(timeline).collect();
        let mut out = Vec::new();
        write_list(&list, &mut out);
        assert_eq!(read_list(&out).as_ref(), Some(&list));
        assert!((0..out.len()).all(|cut| read_list(&out[..cut]).is_none()));
        out.clear();
        let (leave, join) = (list[..1].to_vec(), list[1..].to_vec());
        let change = RosterChange { roster: RosterId(1 << 99), after: 2, version: 3, leave, join };
        write_roster(&change, &mut out);
        assert_eq!(read_roster(&out), Some(change));
        assert!((0..out.len()).all(|cut| read_roster(&out[..cut]).is_none()));
    }

    #[test]
    fn ranges_that_do_not_add_up_make_no_sense() {
        let read = |numbers: &[u64]| {
            let mut payload = vec![0; 8];
            numbers.iter().for_each(|&number| put_small(number, &mut payload));
            Listed::read(&mut Bytes(&payload)).is_some()
        };
        assert!(read(&[2, 1, 0, 2, 7, 8]));
        assert!(!read(&[2, 1, 0, 3, 7, 8]), "three are named, two are counted");
        assert!(!read(&[2, 2, u64::from(u32::MAX), 1, 0, 1, 7, 8]), "beyond 32 bits");
        assert!(!read(&[u64::from(u32::MAX), 1, 0, u64::from(u32::MAX), 7]), "they are not there");
    }
}

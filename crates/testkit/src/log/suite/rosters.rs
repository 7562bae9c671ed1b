//! Rosters: made, changed and read back; and what is posted to them.

use super::Case;
use super::trial::{Trial, append, from_first, line, message, plain, sized};
use base::hash::HashKey;
use model::ports::log::*;
use model::timeline::{Message, Space, TimelineId};
use std::sync::Arc;

const ROSTER: RosterId = RosterId(77 << 64 | 5);

/// Timelines of a roster that is longer than a change and a record.
const LONG: u32 = 9_000;

fn lines(numbers: impl IntoIterator<Item = u8>) -> Vec<TimelineId> {
    numbers.into_iter().map(line).collect()
}

fn change(after: u64, version: u64, leave: &[TimelineId], join: &[TimelineId]) -> Write {
    let (leave, join) = (leave.to_vec(), join.to_vec());
    Write::Roster(RosterChange { roster: ROSTER, after, version, leave, join })
}

fn post(message: &Arc<Message>, version: u64, only: Option<&[u32]>, once: Option<u128>) -> Write {
    let (message, only) = (Arc::clone(message), only.map(Into::into));
    Write::Post(Post { message, roster: ROSTER, version, only, once: once.map(OnceKey) })
}

/// Members as a roster has them.
fn in_order(mut members: Vec<TimelineId>) -> Vec<TimelineId> {
    members.sort_unstable();
    members
}

/// The roster is made of these.
fn made(t: &mut Trial<'_>, version: u64, members: impl IntoIterator<Item = u8>) {
    t.written(change(0, version, &[], &lines(members)));
}

/// A post that must be new. Its places, by the members' ids.
#[track_caller]
fn posted(t: &mut Trial<'_>, id: u64, version: u64, only: Option<&[u32]>) -> Vec<u64> {
    match t.write(post(&message(id), version, only, None)) {
        Ok(Done::Appended(appended)) if appended.new && appended.id == id => appended.seqs,
        other => t.fail(format!("post of {id} was answered {other:?}")),
    }
}

#[track_caller]
fn refused(t: &mut Trial<'_>, write: Write, error: StoreError) {
    let answer = t.write(write);
    t.same("answer", answer, Err(error));
}

#[track_caller]
fn is(t: &mut Trial<'_>, version: u64, members: Vec<TimelineId>) {
    let answer = t.read(Read::Roster(ROSTER));
    let roster = Roster { version, members: in_order(members).into() };
    t.same("the roster", answer, Ok(Done::Roster((version > 0).then_some(roster))));
}

/// Timeline `number` of the long roster.
fn long(number: u32) -> TimelineId {
    TimelineId::of(Space::Other, HashKey::new(1, 2), &[b"long", &number.to_le_bytes()])
}

fn make_long(t: &mut Trial<'_>) {
    let all: Vec<_> = (0..LONG).map(long).collect();
    for (after, some) in (0..).zip(all.chunks(ROSTER_CHANGE_MAX)) {
        t.written(change(after, after + 1, &[], some));
    }
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a post takes its place in every timeline of its roster",
        options: plain,
        given: |t| {
            t.fill(line(2), [9]);
            made(t, 3, 1..=3);
            let seqs = posted(t, 1, 3, None);
            let two = in_order(lines(1..=3)).iter().position(|&it| it == line(2));
            let must = (0..3).map(|at| if Some(at) == two { 2 } else { 1 }).collect();
            t.same("places", seqs, must);
            posted(t, 2, 3, None);
            t.append(&[line(1), line(4)], &message(3));
        },
        then: |t| {
            t.holds(line(1), &from_first([1, 2, 3]));
            t.holds(line(2), &from_first([9, 1, 2]));
            t.holds(line(3), &from_first([1, 2]));
            t.holds(line(4), &from_first([3]));
            is(t, 3, lines(1..=3));
        },
    },
    Case {
        name: "who joined has the next post, and who left has not",
        options: plain,
        given: |t| {
            made(t, 1, 1..=4);
            posted(t, 1, 1, None);
            t.written(change(1, 5, &lines([2, 9]), &lines([4, 5])));
            posted(t, 2, 5, None);
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.written(change(5, 6, &lines([5]), &lines([2, 5])));
            posted(t, 3, 6, None);
        },
        then: |t| {
            t.holds(line(1), &from_first([1, 2, 3]));
            t.holds(line(2), &from_first([1, 3]));
            t.holds(line(4), &from_first([1, 2, 3]));
            t.holds(line(5), &from_first([2, 3]));
            t.holds(line(9), &[]);
            is(t, 6, lines([1, 2, 3, 4, 5]));
        },
    },
    Case {
        name: "a post for another version is stale, and nothing of it is there",
        options: plain,
        given: |t| {
            refused(t, post(&message(1), 1, None, None), StoreError::Stale);
            made(t, 4, 1..=2);
            for version in [0, 3, 5] {
                refused(t, post(&message(1), version, None, Some(5)), StoreError::Stale);
            }
            for only in [&[2][..], &[0, 0], &[1, 0]] {
                refused(t, post(&message(1), 4, Some(only), Some(5)), StoreError::Stale);
            }
            let answer = t.write(post(&message(2), 4, None, Some(5)));
            let must = Appended { new: true, id: 2, seqs: vec![1, 1] };
            t.same("the key was not used up", answer, Ok(Done::Appended(must)));
        },
        then: |t| {
            t.holds(line(1), &from_first([2]));
            t.holds(line(2), &from_first([2]));
        },
    },
    Case {
        name: "a change may be said again, and one after another version is stale",
        options: plain,
        given: |t| {
            refused(t, change(1, 2, &[], &lines([1])), StoreError::Stale);
            refused(t, change(0, 0, &[], &lines([1])), StoreError::Stale);
            made(t, 2, [1]);
            made(t, 2, [1]);
            made(t, 2, [8]);
            t.written(change(2, 7, &[], &lines([2])));
            t.written(change(2, 7, &[], &lines([2])));
            refused(t, change(2, 8, &[], &lines([3])), StoreError::Stale);
            refused(t, change(0, 8, &[], &lines([3])), StoreError::Stale);
            refused(t, change(7, 6, &[], &lines([3])), StoreError::Stale);
        },
        then: |t| is(t, 7, lines([1, 2])),
    },
    Case {
        name: "a post may be for some of the members",
        options: plain,
        given: |t| {
            made(t, 1, 1..=5);
            let few = posted(t, 1, 1, Some(&[0, 2, 3]));
            let all = posted(t, 2, 1, None);
            let (nobody, one) = (posted(t, 3, 1, Some(&[])), posted(t, 4, 1, Some(&[4])));
            let must = [vec![1, 1, 1], vec![2, 1, 2, 2, 1], vec![], vec![2]];
            t.same("places", [few, all, nobody, one], must);
        },
        then: |t| {
            let all = in_order(lines(1..=5));
            for (at, ids) in [&[1, 2][..], &[2], &[1, 2], &[1, 2], &[2, 4]].iter().enumerate() {
                t.holds(all[at], &from_first(ids.iter().copied()));
            }
        },
    },
    Case {
        name: "a retry of a post gets the first answer, whatever the roster has become",
        options: plain,
        given: |t| {
            made(t, 1, 1..=2);
            t.write(post(&message(1), 1, None, Some(5))).expect("new");
            t.written(change(1, 2, &lines([1]), &lines([3])));
        },
        then: |t| {
            let again = Ok(Done::Appended(Appended { new: false, id: 1, seqs: vec![1, 1] }));
            for version in [1, 2] {
                let answer = t.write(post(&message(1), version, None, Some(5)));
                t.same("the answer", answer, again.clone());
            }
            refused(t, post(&message(2), 2, None, Some(5)), StoreError::Conflict);
            let answer = t.write(append(&[line(1)], &message(1), Some(5)));
            t.same("an append with its key", answer, again);
            t.holds(line(1), &from_first([1]));
            t.holds(line(3), &[]);
        },
    },
    Case {
        name: "a roster that is disbanded is gone, its messages stay, and it may begin anew",
        options: plain,
        given: |t| {
            t.written(Write::Disband(ROSTER));
            made(t, 9, 1..=2);
            posted(t, 1, 9, None);
            t.written(Write::Disband(ROSTER));
            is(t, 0, vec![]);
            refused(t, post(&message(2), 9, None, None), StoreError::Stale);
            made(t, 4, 2..=3);
            posted(t, 3, 4, None);
            t.written(Write::Disband(ROSTER));
            made(t, 1, 3..=4);
        },
        then: |t| {
            is(t, 1, lines(3..=4));
            t.holds(line(1), &from_first([1]));
            t.holds(line(2), &from_first([1, 3]));
            t.holds(line(3), &from_first([3]));
        },
    },
    Case {
        name: "rosters are apart, one may be empty, and none is a row that others write",
        options: plain,
        given: |t| {
            made(t, 1, []);
            let (roster, leave, join) = (RosterId(5), vec![], lines([1]));
            t.written(Write::Roster(RosterChange { roster, after: 0, version: 1, leave, join }));
            let nobody = posted(t, 1, 1, None);
            t.same("places", nobody, vec![]);
            let key = ROSTER.row_key();
            let put = Write::Put { table: Table::Rosters, key: key.clone(), value: key.clone() };
            refused(t, put, StoreError::Stale);
            refused(t, Write::Delete { table: Table::Rosters, key }, StoreError::Stale);
        },
        then: |t| {
            is(t, 1, vec![]);
            t.holds(line(1), &[]);
        },
    },
    Case {
        name: "what was posted is removed, acknowledged and forgotten like anything else",
        options: plain,
        given: |t| {
            made(t, 1, 1..=3);
            for id in 1..=6 {
                posted(t, id, 1, None);
                if id == 3 {
                    let now_s = t.subject.now_s();
                    t.subject.tidy(now_s);
                }
            }
            t.remove(line(1), &[2, 5, 9]);
            t.acknowledge(line(2), 1, 4);
            t.written(Write::Forget(line(3)));
            posted(t, 7, 1, None);
        },
        then: |t| {
            t.holds(line(1), &[(1, 1), (3, 3), (4, 4), (6, 6), (7, 7)]);
            t.stands(line(2), 1, [7, 7, 4, 3]);
            t.holds(line(3), &[(7, 7)]);
        },
    },
    Case {
        name: "a post to a long roster is one call",
        options: plain,
        given: |t| {
            let too_many = vec![line(1); ROSTER_CHANGE_MAX + 1];
            refused(t, change(0, 1, &[], &too_many), StoreError::TooLarge);
            make_long(t);
            let answer = t.write(post(&message(1), 3, None, Some(8)));
            let must = Appended { new: true, id: 1, seqs: vec![1; LONG as usize] };
            t.same("answer", answer, Ok(Done::Appended(must)));
            t.fill(long(7), [2]);
            let places = posted(t, 3, 3, None);
            t.same("places", places.len(), LONG as usize);
        },
        then: |t| {
            for number in (0..LONG).step_by(997).filter(|number| *number != 7) {
                t.holds(long(number), &from_first([1, 3]));
            }
            t.holds(long(7), &from_first([1, 2, 3]));
            is(t, 3, (0..LONG).map(long).collect());
            let again = t.write(post(&message(1), 3, None, Some(8)));
            let must = Appended { new: false, id: 1, seqs: vec![1; LONG as usize] };
            t.same("the answer again", again, Ok(Done::Appended(must)));
        },
    },
];

/// Cases for which maintenance must have come to its end.
pub(super) const TIDIED: &[Case] = &[Case {
    name: "what is left of many posts stays when the room of the others comes back",
    options: plain,
    given: |t| {
        made(t, 1, 1..=20);
        for id in 1..=40 {
            if id == 20 {
                t.written(change(1, 2, &lines([1]), &lines([21])));
            }
            let version = 1 + u64::from(id >= 20);
            let message = sized(id, 50_000);
            t.write(post(&message, version, None, None)).expect("there is room");
        }
        for number in 3..=21 {
            t.written(Write::Forget(line(number)));
        }
        t.remove(line(1), &(1..=19).filter(|n| n % 8 != 0).collect::<Vec<_>>());
        t.remove(line(2), &(1..=40).filter(|n| n % 8 != 0).collect::<Vec<_>>());
        let now_s = t.subject.now_s();
        t.subject.tidy(now_s);
        if let Some(bytes) = t.subject.stored_bytes().filter(|&bytes| bytes > 1_200_000) {
            t.fail(format!("250,000 bytes of messages take {bytes} bytes after maintenance"));
        }
    },
    then: |t| {
        t.holds(line(1), &[(8, 8), (16, 16)]);
        t.holds(line(2), &[(8, 8), (16, 16), (24, 24), (32, 32), (40, 40)]);
        t.holds(line(3), &[]);
        is(t, 2, lines(2..=21));
    },
}];

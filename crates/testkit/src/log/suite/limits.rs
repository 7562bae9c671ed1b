//! Limits: what is too large is refused whole, and a full log gives back its room.

use super::trial::{ALL, Trial, append, from_first, line, message, plain, sized};
use super::{Case, LogOptions};
use model::ports::log::*;
use model::timeline::{Message, ReaderId, Space, TimelineId};
use std::sync::Arc;

fn refused(t: &mut Trial<'_>, write: Write) {
    let answer = t.write(write);
    t.same("answer", answer, Err(StoreError::TooLarge));
}

fn with(label: usize, body: usize) -> Arc<Message> {
    Arc::new(Message { label: vec![7; label].into(), ..(*sized(3, body)).clone() })
}

fn put(key: usize, value: usize) -> Write {
    let (key, value) = (vec![b'k'; key].into(), vec![b'v'; value].into());
    Write::Put { table: Table::Other, key, value }
}

/// Bytes of what is large: many pieces of whatever reads in pieces. The limits themselves would be
/// a quarter of a gigabyte in every case.
const LARGE: usize = 5 * 1024 * 1024 + 7;

/// A message beyond the limits, of memory that nobody touches.
fn beyond() -> Arc<Message> {
    let body = vec![0; Message::BODY_BYTES_MAX + 1].into();
    Arc::new(Message { id: 3, at_s: 0, label: [7].into(), body })
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a large message is taken, beyond the limits it is not",
        options: plain,
        given: |t| {
            t.append(&[line(1)], &with(Message::LABEL_BYTES_MAX, LARGE));
            refused(t, append(&[line(1)], &with(Message::LABEL_BYTES_MAX + 1, 1), None));
            refused(t, append(&[line(1)], &beyond(), None));
        },
        then: |t| {
            let page = t.pull(line(1), ALL);
            let found: Vec<_> = page.messages.iter().map(|at| (at.seq, &at.message)).collect();
            let must = with(Message::LABEL_BYTES_MAX, LARGE);
            if found != [(1, &must)] {
                t.fail("the largest message did not come back as it was".into());
            }
        },
    },
    Case {
        name: "too many timelines or places are refused",
        options: plain,
        given: |t| {
            t.fill(line(1), 1..=3);
            let key = base::hash::HashKey::new(5, 6);
            let one = |n: usize| TimelineId::of(Space::Other, key, &[&n.to_le_bytes()]);
            let mut to: Vec<_> = (0..APPEND_TIMELINES_MAX).map(one).collect();
            to.push(line(1));
            refused(t, append(&to, &message(9), None));
            let seqs: Vec<_> = (1..=REMOVE_SEQS_MAX as u64 + 1).collect();
            refused(t, Write::Remove { timeline: line(1), seqs });
            let seqs: Vec<_> = (3..REMOVE_SEQS_MAX as u64 + 3).collect();
            t.remove(line(1), &seqs);
        },
        then: |t| t.holds(line(1), &from_first(1..=2)),
    },
    Case {
        name: "a large row is taken, beyond the limits it is not",
        options: plain,
        given: |t| {
            t.written(put(ROW_KEY_BYTES_MAX, LARGE));
            refused(t, put(ROW_KEY_BYTES_MAX + 1, 1));
            let value = vec![0; ROW_VALUE_BYTES_MAX + 1].into();
            refused(t, Write::Put { table: Table::Other, key: [b'k'].into(), value });
        },
        then: |t| {
            let rows =
                Read::Rows { table: Table::Other, prefix: [].into(), after: None, count: ROWS_MAX };
            let must = (vec![b'k'; ROW_KEY_BYTES_MAX], vec![b'v'; LARGE]);
            let must = vec![(must.0.into(), must.1.into())];
            let answer = t.read(rows);
            t.same("rows", answer, Ok(Done::Rows(must)));
        },
    },
    Case {
        name: "what is refused leaves its neighbours in the batch alone",
        options: plain,
        given: |t| {
            let answers = t.calls(vec![
                Call::Write(append(&[line(1)], &message(1), None)),
                Call::Write(append(&[line(1)], &with(256, 1), Some(5))),
                Call::Write(append(&[line(1)], &message(2), None)),
            ]);
            let at = |id, seq| Ok(Done::Appended(Appended { new: true, id, seqs: vec![seq] }));
            t.same("answers", answers, vec![at(1, 1), Err(StoreError::TooLarge), at(2, 2)]);
        },
        then: |t| t.holds(line(1), &from_first(1..=2)),
    },
    Case {
        name: "a full log refuses whole appends and loses nothing",
        options: || LogOptions { log_bytes_max: 3_000_000, ..LogOptions::default() },
        given: |t| {
            fill_up(t);
        },
        then: |t| {
            let standing = t.standing(line(1), 1);
            if !(20..=60).contains(&standing.count) || standing.count != standing.last {
                t.fail(format!("3,000,000 bytes hold 50,000 bytes this often: {standing:?}"));
            }
            t.holds(line(1), &from_first(1..=standing.count));
            t.holds(line(2), &[]);
        },
    },
    Case {
        name: "a start gives back every row and every entry",
        options: plain,
        given: |t| {
            t.fill(line(1), 1..=4);
            t.put(Table::Marks, "gone", "x");
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.fill(line(2), [8]);
            t.fill(line(1), 5..=6);
            t.remove(line(1), &[2, 5]);
            t.put(Table::Products, "p", "1");
            t.put(Table::Devices, "d", "2");
            t.delete(Table::Marks, "gone");
        },
        then: |t| {
            if !t.was_started() {
                return;
            }
            let mut must = super::super::MemoryLog::new(plain());
            let reader = ReaderId(0);
            for (timeline, ids) in [(line(1), 1..=6), (line(2), 8..=8)] {
                for id in ids {
                    must.write(&append(&[timeline], &message(id), None)).expect("it is empty");
                }
                must.write(&Write::Acknowledge { timeline, reader, upto: 1 }).expect("it may");
            }
            must.write(&Write::Remove { timeline: line(1), seqs: vec![2, 5] }).expect("it may");
            for (table, key, value) in [(Table::Products, "p", "1"), (Table::Devices, "d", "2")] {
                let (key, value) = (key.as_bytes().into(), value.as_bytes().into());
                must.write(&Write::Put { table, key, value }).expect("it is short");
            }
            let found = t.subject.restored();
            t.same("what was restored", found, must.restoration());
        },
    },
];

/// Cases for which maintenance must have come to its end.
pub(super) const TIDIED: &[Case] = &[
    Case {
        name: "a full log takes what frees room, and then appends again without a restart",
        options: || LogOptions { log_bytes_max: 3_000_000, ..LogOptions::default() },
        given: |t| {
            t.put(Table::Other, "old", "row");
            let count = fill_up(t);
            t.acknowledge(line(1), 1, 2);
            t.put(Table::Other, "small", "row");
            t.delete(Table::Other, "old");
            t.remove(line(1), &(2..=count).collect::<Vec<_>>());
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            for id in 1..=20 {
                t.append(&[line(3)], &sized(id, 50_000));
            }
        },
        then: |t| {
            t.holds(line(1), &[(1, 1)]);
            t.holds(line(3), &from_first(1..=20));
            t.row(Table::Other, "small", Some("row"));
            t.row(Table::Other, "old", None);
            let cursor = t.standing(line(1), 1).cursor;
            t.same("cursor", cursor, 2);
        },
    },
    Case {
        name: "a full log can be forgotten timeline by timeline",
        options: || LogOptions { log_bytes_max: 3_000_000, ..LogOptions::default() },
        given: |t| {
            fill_up(t);
            t.written(Write::Forget(line(1)));
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            for id in 1..=20 {
                t.append(&[line(3)], &sized(id, 50_000));
            }
        },
        then: |t| {
            t.holds(line(1), &[]);
            t.holds(line(3), &from_first(1..=20));
        },
    },
];

/// Appends bodies of 50,000 bytes to timeline 1 until there is no room. How many were taken.
fn fill_up(t: &mut Trial<'_>) -> u64 {
    for id in 1..=80 {
        match t.try_append(&[line(1)], &sized(id, 50_000), None) {
            Ok(appended) => t.same("places", appended.seqs, vec![id]),
            Err(StoreError::Full) => {
                let both = [line(2), line(1)];
                let answer = t.try_append(&both, &sized(id, 50_000), Some(4));
                t.same("answer of a full log", answer, Err(StoreError::Full));
                return id - 1;
            }
            Err(error) => t.fail(format!("an append to a full log was answered {error:?}")),
        }
    }
    t.fail("3,000,000 bytes hold 80 times 50,000".into())
}

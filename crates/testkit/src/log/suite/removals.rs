//! Removing and forgetting: what is gone is gone, numbers go on, room comes back.

use super::Case;
use super::trial::{Trial, from_first, line, plain, sized};

fn five(t: &mut Trial<'_>) {
    t.fill(line(1), 1..=5);
    t.fill(line(2), 11..=12);
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a removed message is gone and the others stay where they were",
        options: plain,
        given: |t| {
            five(t);
            t.remove(line(1), &[3]);
        },
        then: |t| {
            t.holds(line(1), &[(1, 1), (2, 2), (4, 4), (5, 5)]);
            t.holds(line(2), &[(1, 11), (2, 12)]);
            t.stands(line(1), 1, [5, 4, 0, 4]);
        },
    },
    Case {
        name: "removing what is not there, or twice, is no fault",
        options: plain,
        given: |t| {
            five(t);
            t.remove(line(1), &[]);
            t.remove(line(1), &[0, 2, 6, 1_000, u64::MAX]);
            t.remove(line(1), &[2, 4]);
            t.remove(line(1), &[4, 4, 2]);
            t.remove(line(7), &[1]);
        },
        then: |t| {
            t.holds(line(1), &[(1, 1), (3, 3), (5, 5)]);
            t.holds(line(7), &[]);
        },
    },
    Case {
        name: "numbers go on after everything was removed",
        options: plain,
        given: |t| {
            five(t);
            t.remove(line(1), &[5, 1, 4, 2, 3]);
        },
        then: |t| {
            t.stands(line(1), 1, [5, 0, 0, 0]);
            t.holds(line(1), &[]);
        },
    },
    Case {
        name: "an append after everything was removed has a new number",
        options: plain,
        given: |t| {
            five(t);
            t.remove(line(1), &[1, 2, 3, 4, 5]);
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.subject.restart();
            t.fill(line(1), [6]);
        },
        then: |t| t.holds(line(1), &[(6, 6)]),
    },
    Case {
        name: "a message in many timelines is removed from one",
        options: plain,
        given: |t| {
            t.append(&[line(1), line(2), line(3)], &sized(7, 3_000));
            t.remove(line(2), &[1]);
        },
        then: |t| {
            t.holds(line(1), &[(1, 7)]);
            t.holds(line(2), &[]);
            t.holds(line(3), &[(1, 7)]);
        },
    },
    Case {
        name: "an old message and a new one are removed together",
        options: plain,
        given: |t| {
            t.fill(line(1), 1..=4);
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.fill(line(1), 5..=8);
            t.remove(line(1), &[2, 4, 5, 7]);
        },
        then: |t| t.holds(line(1), &[(1, 1), (3, 3), (6, 6), (8, 8)]),
    },
    Case {
        name: "forgetting takes messages and cursors, and the numbers go on",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, 3);
            t.acknowledge(line(2), 1, 1);
            t.written(model::ports::log::Write::Forget(line(1)));
        },
        then: |t| {
            t.holds(line(1), &[]);
            t.stands(line(1), 1, [5, 0, 0, 0]);
            t.holds(line(2), &[(1, 11), (2, 12)]);
            t.stands(line(2), 1, [2, 2, 1, 1]);
        },
    },
    Case {
        name: "an append after forgetting has a new number and no reader has it",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, 100);
            t.written(model::ports::log::Write::Forget(line(1)));
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.subject.restart();
            t.fill(line(1), [6, 7]);
        },
        then: |t| {
            t.holds(line(1), &[(6, 6), (7, 7)]);
            t.stands(line(1), 1, [7, 2, 0, 2]);
        },
    },
    Case {
        name: "forgetting what never was is no fault, and a second time neither",
        options: plain,
        given: |t| {
            t.written(model::ports::log::Write::Forget(line(9)));
            five(t);
            t.written(model::ports::log::Write::Forget(line(1)));
            t.written(model::ports::log::Write::Forget(line(1)));
        },
        then: |t| {
            t.stands(line(9), 1, [0, 0, 0, 0]);
            t.stands(line(1), 1, [5, 0, 0, 0]);
        },
    },
];

/// Cases for which maintenance must have come to its end.
pub(super) const TIDIED: &[Case] = &[Case {
    name: "room comes back when messages are gone",
    options: plain,
    given: |t| {
        for id in 1..=40 {
            t.append(&[line(1), line(2)], &sized(id, 50_000));
        }
        t.fill(line(3), 1..=3);
        t.remove(line(1), &(1..=40).filter(|n| n % 8 != 0).collect::<Vec<_>>());
        t.written(model::ports::log::Write::Forget(line(2)));
        let now_s = t.subject.now_s();
        t.subject.tidy(now_s);
        if let Some(bytes) = t.subject.stored_bytes().filter(|&bytes| bytes > 1_200_000) {
            t.fail(format!("250,000 bytes of messages take {bytes} bytes after maintenance"));
        }
    },
    then: |t| {
        t.holds(line(1), &[(8, 8), (16, 16), (24, 24), (32, 32), (40, 40)]);
        t.holds(line(2), &[]);
        t.holds(line(3), &from_first(1..=3));
    },
}];

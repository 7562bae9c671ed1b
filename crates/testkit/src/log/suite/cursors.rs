//! Readers: cursors that never go back, and what is unread.

use super::Case;
use super::trial::{Trial, line, plain};
use model::ports::log::{Call, Done, Read, TimelineStatus, Write};
use model::timeline::ReaderId;

fn five(t: &mut Trial<'_>) {
    t.fill(line(1), 1..=5);
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a reader has what it acknowledged",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, 2);
        },
        then: |t| t.stands(line(1), 1, [5, 5, 2, 3]),
    },
    Case {
        name: "readers stand each at their own place, in each timeline",
        options: plain,
        given: |t| {
            five(t);
            t.fill(line(2), 1..=3);
            t.acknowledge(line(1), 1, 2);
            t.acknowledge(line(1), 2, 5);
            t.acknowledge(line(2), 1, 1);
            t.acknowledge(line(1), u64::MAX, 4);
        },
        then: |t| {
            t.stands(line(1), 1, [5, 5, 2, 3]);
            t.stands(line(1), 2, [5, 5, 5, 0]);
            t.stands(line(1), 3, [5, 5, 0, 5]);
            t.stands(line(2), 1, [3, 3, 1, 2]);
            t.stands(line(2), 2, [3, 3, 0, 3]);
            t.stands(line(1), u64::MAX, [5, 5, 4, 1]);
        },
    },
    Case {
        name: "a cursor never goes back",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, 4);
            t.acknowledge(line(1), 1, 2);
            t.acknowledge(line(1), 1, 0);
        },
        then: |t| t.stands(line(1), 1, [5, 5, 4, 1]),
    },
    Case {
        name: "a cursor that was kept and read again does not go back either",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, 4);
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.subject.restart();
            t.acknowledge(line(1), 1, 3);
        },
        then: |t| t.stands(line(1), 1, [5, 5, 4, 1]),
    },
    Case {
        name: "a cursor may stand beyond the end, and has what comes up to there",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, 7);
            t.stands(line(1), 1, [5, 5, 7, 0]);
            t.fill(line(1), 6..=8);
        },
        then: |t| t.stands(line(1), 1, [8, 8, 7, 1]),
    },
    Case {
        name: "a cursor may stand beyond everything there can ever be",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, u64::MAX);
            t.acknowledge(line(1), 2, u64::MAX - 1);
            t.acknowledge(line(1), 1, 1);
            t.fill(line(1), [6]);
        },
        then: |t| {
            t.stands(line(1), 1, [6, 6, u64::MAX, 0]);
            t.stands(line(1), 2, [6, 6, u64::MAX - 1, 0]);
        },
    },
    Case {
        name: "a cursor may stand in a timeline that was never used",
        options: plain,
        given: |t| t.acknowledge(line(4), 1, 2),
        then: |t| {
            t.stands(line(4), 1, [0, 0, 2, 0]);
            t.stands(line(4), 2, [0, 0, 0, 0]);
        },
    },
    Case {
        name: "what was removed is not unread",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, 2);
            t.remove(line(1), &[1, 3, 4]);
        },
        then: |t| {
            t.stands(line(1), 1, [5, 2, 2, 1]);
            t.stands(line(1), 2, [5, 2, 0, 2]);
        },
    },
    Case {
        name: "hundreds of readers stand each at their own place",
        options: plain,
        given: |t| {
            t.fill(line(1), 1..=10);
            for round in [3, 1, 0] {
                let place = |n: u64| (n % 7 + 3).saturating_sub(round);
                let call = |n| {
                    let (timeline, reader, upto) = (line(1), ReaderId(n << 40), place(n));
                    Call::Write(Write::Acknowledge { timeline, reader, upto })
                };
                t.calls((0..300).map(call).collect());
                let now_s = t.subject.now_s();
                t.subject.tidy(now_s);
            }
        },
        then: |t| {
            for n in (0..300).step_by(23) {
                let place = n % 7 + 3;
                t.stands(line(1), n << 40, [10, 10, place, 10 - place]);
            }
        },
    },
    Case {
        name: "acknowledging removes nothing",
        options: plain,
        given: |t| {
            five(t);
            t.acknowledge(line(1), 1, 5);
        },
        then: |t| t.holds(line(1), &super::trial::from_first(1..=5)),
    },
    Case {
        name: "a read sees the writes before it",
        options: plain,
        given: |t| {
            five(t);
            let (timeline, reader) = (line(1), ReaderId(1));
            let answers = t.calls(vec![
                Call::Write(Write::Acknowledge { timeline, reader, upto: 3 }),
                Call::Read(Read::Standing { timeline, reader }),
            ]);
            let must = TimelineStatus { last: 5, count: 5, cursor: 3, unread: 2 };
            t.same("answers", answers, vec![Ok(Done::Written), Ok(Done::Standing(must))]);
        },
        then: |t| t.stands(line(1), 1, [5, 5, 3, 2]),
    },
];

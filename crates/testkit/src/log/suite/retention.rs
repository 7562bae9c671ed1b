//! Retention: what goes unasked, and that nothing else does.

use super::trial::{ALL, Trial, from_first, line, line_in, message, sized};
use super::{Case, LogOptions};
use crate::log::Retention;
use model::ports::log::{Call, Write};
use model::timeline::{Message, ReaderId, Space};
use std::sync::Arc;

/// Pushes under this rule, everything else under none.
fn pushes(retention: Retention) -> LogOptions {
    LogOptions { retention: [(Space::Pushes, retention)].into(), ..LogOptions::default() }
}

fn tidy(t: &mut Trial<'_>) {
    let now_s = t.subject.now_s();
    t.subject.tidy(now_s);
}

fn made(t: &Trial<'_>, id: u64, ago_s: u32) -> Arc<Message> {
    Arc::new(Message { at_s: t.subject.now_s() - ago_s, ..(*message(id)).clone() })
}

pub(super) const TIDIED: &[Case] = &[
    Case {
        name: "messages older than their space allows are dropped",
        options: || pushes(Retention { age_s_max: Some(1_000), ..Retention::default() }),
        given: |t| {
            let (mine, other) = (line_in(Space::Pushes, 1), line_in(Space::Reports, 1));
            for (id, ago_s) in [(1, 9_000), (2, 5_000), (3, 1_100), (4, 500), (5, 0)] {
                let message = made(t, id, ago_s);
                t.append(&[mine, other], &message);
            }
            tidy(t);
        },
        then: |t| {
            t.holds(line_in(Space::Pushes, 1), &[(4, 4), (5, 5)]);
            t.stands(line_in(Space::Pushes, 1), 1, [5, 2, 0, 2]);
            t.holds(line_in(Space::Reports, 1), &from_first(1..=5));
        },
    },
    Case {
        name: "messages grow old after their maintenance too",
        options: || pushes(Retention { age_s_max: Some(1_000), ..Retention::default() }),
        given: |t| {
            let (first, second) = (made(t, 1, 600), made(t, 2, 100));
            t.append(&[line_in(Space::Pushes, 1)], &first);
            tidy(t);
            t.append(&[line_in(Space::Pushes, 1)], &second);
            t.holds(line_in(Space::Pushes, 1), &from_first(1..=2));
            let first_s = t.subject.now_s();
            t.subject.tidy(first_s + 500);
            if t.subject.now_s() < first_s + 500 {
                t.remove(line_in(Space::Pushes, 1), &[1]); // it has a clock of its own
            }
        },
        then: |t| t.holds(line_in(Space::Pushes, 1), &[(2, 2)]),
    },
    Case {
        name: "of more messages than their space allows the oldest are dropped",
        options: || pushes(Retention { count_max: Some(4), ..Retention::default() }),
        given: |t| {
            t.fill(line_in(Space::Pushes, 1), 1..=10);
            t.fill(line_in(Space::Pushes, 2), 1..=4);
            t.fill(line(1), 1..=10);
            tidy(t);
            t.fill(line_in(Space::Pushes, 1), 11..=12);
            tidy(t);
        },
        then: |t| {
            let must: Vec<_> = (9..=12).map(|n| (n, n)).collect();
            t.holds(line_in(Space::Pushes, 1), &must);
            t.holds(line_in(Space::Pushes, 2), &from_first(1..=4));
            t.holds(line(1), &from_first(1..=10));
        },
    },
    Case {
        name: "removed messages do not count for how many there may be",
        options: || pushes(Retention { count_max: Some(4), ..Retention::default() }),
        given: |t| {
            let (one, two) = (line_in(Space::Pushes, 1), line_in(Space::Pushes, 2));
            t.append(&[one, two], &message(1));
            t.append(&[one, two], &message(2));
            t.remove(one, &[2]);
            for id in 3..=5 {
                t.append(&[one, two], &message(id));
            }
            tidy(t);
        },
        then: |t| {
            t.holds(line_in(Space::Pushes, 1), &[(1, 1), (3, 3), (4, 4), (5, 5)]);
            t.holds(line_in(Space::Pushes, 2), &[(2, 2), (3, 3), (4, 4), (5, 5)]);
        },
    },
    Case {
        name: "of more bytes than their space allows the oldest are dropped",
        options: || pushes(Retention { bytes_max: Some(12_000), ..Retention::default() }),
        given: |t| {
            for id in 1..=30 {
                t.append(&[line_in(Space::Pushes, 1), line(1)], &sized(id, 1_000));
            }
            t.append(&[line_in(Space::Pushes, 2)], &sized(1, 9_000));
            tidy(t);
        },
        then: |t| {
            let page = t.pull(line_in(Space::Pushes, 1), ALL);
            let count = page.messages.len() as u64;
            if !(8..=12).contains(&count) {
                t.fail(format!("12,000 bytes hold {count} messages of 1,000"));
            }
            let must: Vec<_> = (31 - count..=30).map(|n| (n, n)).collect();
            t.holds(line_in(Space::Pushes, 1), &must);
            t.holds(line_in(Space::Pushes, 2), &[(1, 1)]);
            t.holds(line(1), &from_first(1..=30));
        },
    },
    Case {
        name: "what every reader has is dropped, and what nobody reads is kept",
        options: || pushes(Retention { acknowledged: true, ..Retention::default() }),
        given: |t| {
            for n in 1..=3 {
                t.fill(line_in(Space::Pushes, n), 1..=6);
            }
            t.fill(line(1), 1..=6);
            // At once: a reader of whom nothing is known yet holds nothing.
            let timeline = line_in(Space::Pushes, 1);
            let one = |(reader, upto)| {
                let reader = ReaderId(reader);
                Call::Write(Write::Acknowledge { timeline, reader, upto })
            };
            t.calls([(1, 5), (2, 3)].map(one).into());
            t.acknowledge(line_in(Space::Pushes, 2), 1, 6);
            t.acknowledge(line(1), 1, 6);
            tidy(t);
        },
        then: |t| {
            t.holds(line_in(Space::Pushes, 1), &[(4, 4), (5, 5), (6, 6)]);
            t.stands(line_in(Space::Pushes, 1), 1, [6, 3, 5, 1]);
            t.stands(line_in(Space::Pushes, 1), 2, [6, 3, 3, 3]);
            t.holds(line_in(Space::Pushes, 2), &[]);
            t.stands(line_in(Space::Pushes, 2), 1, [6, 0, 6, 0]);
            t.holds(line_in(Space::Pushes, 3), &from_first(1..=6));
            t.holds(line(1), &from_first(1..=6));
        },
    },
    Case {
        name: "a message that one timeline has dropped stays in another",
        options: || pushes(Retention { count_max: Some(1), ..Retention::default() }),
        given: |t| {
            for id in 1..=20 {
                t.append(&[line_in(Space::Pushes, 1), line(1)], &sized(id, 40_000));
            }
            tidy(t);
            tidy(t);
        },
        then: |t| {
            t.holds(line_in(Space::Pushes, 1), &[(20, 20)]);
            t.holds(line(1), &from_first(1..=20));
        },
    },
];

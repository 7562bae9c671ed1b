//! Appends: to one, many and no timelines; places, order, shared bodies.

use super::Case;
use super::trial::{ALL, Pulled, append, from_first, line, line_in, message, plain, sized};
use model::ports::log::{APPEND_SLICE, Appended, Call, Done, Write};
use model::timeline::{Space, TimelineId};
use std::sync::Arc;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a timeline that was never used is empty",
        options: plain,
        given: |_| {},
        then: |t| {
            t.holds(line(1), &[]);
            t.stands(line(1), 1, [0, 0, 0, 0]);
        },
    },
    Case {
        name: "an append takes the next place",
        options: plain,
        given: |t| {
            for id in 1..=5 {
                let seqs = t.append(&[line(1)], &message(id));
                t.same("places", seqs, vec![id]);
            }
        },
        then: |t| {
            t.holds(line(1), &from_first(1..=5));
            t.stands(line(1), 1, [5, 5, 0, 5]);
        },
    },
    Case {
        name: "a message comes back as it was",
        options: plain,
        given: |t| {
            let mut odd = (*message(u64::MAX)).clone();
            (odd.at_s, odd.label, odd.body) = (u32::MAX, [].into(), [].into());
            t.append(&[line(1)], &Arc::new(odd));
        },
        then: |t| {
            let page = t.pull(line(1), ALL);
            let found = page.messages.first().map(|at| (*at.message).clone());
            let mut odd = (*message(u64::MAX)).clone();
            (odd.at_s, odd.label, odd.body) = (u32::MAX, [].into(), [].into());
            t.same("the message", found, Some(odd));
        },
    },
    Case {
        name: "calls handed over together are carried out in their order",
        options: plain,
        given: |t| {
            let one = |id| Call::Write(append(&[line(1)], &message(id), None));
            let answers = t.calls((1..=100).map(one).collect());
            for (n, answer) in (1..).zip(answers) {
                let place = match answer {
                    Ok(Done::Appended(appended)) => appended.seqs,
                    other => t.fail(format!("append was answered {other:?}")),
                };
                t.same("places", place, vec![n]);
            }
        },
        then: |t| t.holds(line(1), &from_first(1..=100)),
    },
    Case {
        name: "an append to many timelines has a place in each, in the order of their naming",
        options: plain,
        given: |t| {
            t.fill(line(2), [91, 92]);
            let seqs = t.append(&[line(2), line(3), line(1)], &message(5));
            t.same("places", seqs, vec![3, 1, 1]);
        },
        then: |t| {
            t.holds(line(1), &[(1, 5)]);
            t.holds(line(2), &[(1, 91), (2, 92), (3, 5)]);
            t.holds(line(3), &[(1, 5)]);
        },
    },
    Case {
        name: "an append to no timeline is taken and is nowhere",
        options: plain,
        given: |t| {
            let seqs = t.append(&[], &message(5));
            t.same("places", seqs, vec![]);
        },
        then: |t| t.holds(line(1), &[]),
    },
    Case {
        name: "timelines of the same names in two spaces are two",
        options: plain,
        given: |t| {
            t.fill(line_in(Space::Pushes, 1), [1]);
            t.fill(line_in(Space::Reports, 1), [2, 3]);
        },
        then: |t| {
            t.holds(line_in(Space::Pushes, 1), &[(1, 1)]);
            t.holds(line_in(Space::Reports, 1), &[(1, 2), (2, 3)]);
            t.holds(line(1), &[]);
        },
    },
    Case {
        name: "a body is stored once for all timelines of an append",
        options: plain,
        given: |t| {
            let before = t.subject.stored_bytes();
            let to: Vec<_> = (0..64).map(line).collect();
            t.append(&to, &sized(7, 100_000));
            few_bytes_more(t, before);
        },
        then: |t| {
            for n in [0, 31, 63] {
                t.holds(line(n), &[(1, 7)]);
            }
        },
    },
    Case {
        name: "a body is stored once for appends of one message that come together",
        options: plain,
        given: |t| {
            let before = t.subject.stored_bytes();
            let shared = sized(7, 100_000);
            for n in 0..32 {
                t.append(&[line(n)], &shared);
            }
            let one = |n| Call::Write(append(&[line(n)], &shared, None));
            t.calls((32..64).map(one).collect());
            few_bytes_more(t, before);
        },
        then: |t| {
            for n in [0, 31, 32, 63] {
                t.holds(line(n), &[(1, 7)]);
            }
        },
    },
    Case {
        name: "an append may name many timelines, and more than one record of a log says",
        options: plain,
        given: |t| {
            let seqs = t.append(&many_lines(), &message(8));
            t.same("places", seqs, vec![1; MANY]);
        },
        then: |t| {
            let lines = many_lines();
            for at in [0, 1_000, 4_095, 4_096, MANY - 1] {
                t.holds(lines[at], &[(1, 8)]);
            }
        },
    },
    Case {
        name: "messages over many segments keep their order and bodies",
        options: plain,
        given: |t| {
            for id in 1..=60 {
                t.append(&[line(id as u8 % 3)], &sized(id, 20_000));
            }
        },
        then: |t| {
            for n in 0..3 {
                let ids = (1..=60).filter(|id| id % 3 == u64::from(n));
                t.holds(line(n), &from_first(ids));
            }
        },
    },
    Case {
        name: "a batch may append, remove, forget and append again",
        options: plain,
        given: |t| {
            let one = |id| Call::Write(append(&[line(1), line(2)], &message(id), None));
            let remove = |seq| Call::Write(Write::Remove { timeline: line(2), seqs: vec![seq] });
            let forget = Call::Write(Write::Forget(line(1)));
            let answers = t.calls(vec![one(1), remove(1), one(2), forget, one(3), remove(2)]);
            let at = |n| Ok(Done::Appended(Appended { new: true, id: n, seqs: vec![n, n] }));
            let ok = || Ok(Done::Written);
            t.same("answers", answers, vec![at(1), ok(), at(2), ok(), at(3), ok()]);
        },
        then: |t| {
            t.holds(line(1), &[(3, 3)]);
            t.holds(line(2), &[(3, 3)]);
        },
    },
    Case {
        name: "thousands of timelines go on where they were",
        options: plain,
        given: |t| {
            let lines = many_lines();
            t.append(&lines, &message(1));
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            t.subject.restart();
            for part in lines.chunks(512) {
                let seqs = t.append(part, &message(2));
                t.same("places", seqs, vec![2; part.len()]);
            }
        },
        then: |t| {
            for at in many_lines().into_iter().step_by(97) {
                t.holds(at, &[(1, 1), (2, 2)]);
            }
        },
    },
    Case {
        name: "a long timeline that was looked after often is whole",
        options: plain,
        given: |t| {
            for round in 0..12 {
                t.fill(line(1), round * 50 + 1..=round * 50 + 50);
                t.remove(line(1), &[round * 50 + 1, round * 50 + 30, round * 25 + 2]);
                let now_s = t.subject.now_s();
                t.subject.tidy(now_s);
                if round % 5 == 4 {
                    t.subject.restart();
                }
            }
        },
        then: |t| {
            let gone = |n: u64| (0..12).any(|r| [r * 50 + 1, r * 50 + 30, r * 25 + 2].contains(&n));
            let must: Vec<_> = (1..=600).filter(|&n| !gone(n)).map(|n| (n, n)).collect();
            t.holds(line(1), &must);
            for from in [0, 49, 50, 51, 120, 301, 577] {
                let after: Vec<_> = must.iter().copied().filter(|at| at.0 > from).collect();
                let how = Pulled { from, count: 60, ..ALL };
                t.page(line(1), how, (&after[..after.len().min(60)], after.len() > 60));
                let before = must.iter().rev().copied().filter(|at| at.0 < from);
                let before: Vec<_> = before.collect();
                let how = Pulled { backwards: true, ..how };
                t.page(line(1), how, (&before[..before.len().min(60)], before.len() > 60));
            }
        },
    },
];

const MANY: usize = APPEND_SLICE + 3;

fn many_lines() -> Vec<TimelineId> {
    let key = base::hash::HashKey::new(5, 6);
    let line = |n: usize| TimelineId::of(Space::Other, key, &[&n.to_le_bytes()]);
    (0..MANY).map(line).collect()
}

/// Much less than 64 bodies may have been stored.
fn few_bytes_more(t: &super::Trial<'_>, before: Option<u64>) {
    if let (Some(before), Some(after)) = (before, t.subject.stored_bytes()) {
        let more = after.saturating_sub(before);
        if more > 4 * 100_000 {
            t.fail(format!("a body of 100,000 bytes in 64 timelines took {more} bytes"));
        }
    }
}

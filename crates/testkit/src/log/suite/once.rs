//! Appends with a key: a retry is answered as the first time, as long as the key is remembered.

use super::trial::{Trial, append, from_first, line, message, plain, sized};
use super::{Case, LogOptions};
use model::ports::log::{Appended, Call, Done, StoreError};
use std::sync::Arc;

/// Appends that must be answered so.
#[track_caller]
fn answered(t: &mut Trial<'_>, key: u128, to: &[u8], id: u64, must: (bool, u64, &[u64])) {
    let to: Vec<_> = to.iter().map(|&n| line(n)).collect();
    let answer = t.try_append(&to, &with_body(id), Some(key));
    let must = Appended { new: must.0, id: must.1, seqs: must.2.to_vec() };
    t.same(&format!("answer to the append with key {key}"), answer, Ok(must));
}

/// Messages whose ids differ by hundreds have one label and body.
fn with_body(id: u64) -> Arc<model::timeline::Message> {
    let mut message = (*message(id % 100)).clone();
    message.id = id;
    Arc::new(message)
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a retry is answered as the first time and appends nothing",
        options: plain,
        given: |t| {
            t.fill(line(1), [90]);
            answered(t, 1, &[1, 2], 5, (true, 5, &[2, 1]));
            t.fill(line(1), [91]);
        },
        then: |t| {
            answered(t, 1, &[1, 2], 105, (false, 5, &[2, 1]));
            answered(t, 1, &[1, 2], 5, (false, 5, &[2, 1]));
            t.holds(line(1), &[(1, 90), (2, 5), (3, 91)]);
            t.holds(line(2), &[(1, 5)]);
        },
    },
    Case {
        name: "a retry in the same batch is answered as the first time",
        options: plain,
        given: |t| {
            let one = |id| Call::Write(append(&[line(1)], &with_body(id), Some(77)));
            let answers = t.calls(vec![one(5), one(105), one(5)]);
            let must = |new| Ok(Done::Appended(Appended { new, id: 5, seqs: vec![1] }));
            t.same("answers", answers, vec![must(true), must(false), must(false)]);
        },
        then: |t| t.holds(line(1), &[(1, 5)]),
    },
    Case {
        name: "a key used for another body is a conflict and appends nothing",
        options: plain,
        given: |t| answered(t, 1, &[1], 5, (true, 5, &[1])),
        then: |t| {
            let answer = t.try_append(&[line(1)], &with_body(6), Some(1));
            t.same("answer", answer, Err(StoreError::Conflict));
            let longer = t.try_append(&[line(1)], &sized(5, 21), Some(1));
            t.same("answer", longer, Err(StoreError::Conflict));
            answered(t, 1, &[1], 5, (false, 5, &[1]));
            t.holds(line(1), &[(1, 5)]);
        },
    },
    Case {
        name: "a conflict in the same batch leaves its neighbours alone",
        options: plain,
        given: |t| {
            let one = |id, key| Call::Write(append(&[line(1)], &with_body(id), Some(key)));
            let answers = t.calls(vec![one(1, 1), one(2, 1), one(3, 3)]);
            let at = |id, seq| Ok(Done::Appended(Appended { new: true, id, seqs: vec![seq] }));
            t.same("answers", answers, vec![at(1, 1), Err(StoreError::Conflict), at(3, 2)]);
        },
        then: |t| t.holds(line(1), &[(1, 1), (2, 3)]),
    },
    Case {
        name: "the same message without a key, or with another, is new",
        options: plain,
        given: |t| {
            answered(t, 1, &[1], 5, (true, 5, &[1]));
            answered(t, 1 << 64 | 1, &[1], 5, (true, 5, &[2]));
            answered(t, 1 << 127, &[1], 5, (true, 5, &[3]));
            t.append(&[line(1)], &with_body(5));
        },
        then: |t| {
            t.holds(line(1), &from_first([5, 5, 5, 5]));
            answered(t, 1 << 64 | 1, &[1], 5, (false, 5, &[2]));
        },
    },
    Case {
        name: "an append to nowhere with a key is a claim",
        options: plain,
        given: |t| answered(t, 9, &[], 5, (true, 5, &[])),
        then: |t| {
            answered(t, 9, &[], 105, (false, 5, &[]));
            answered(t, 9, &[1], 105, (false, 5, &[]));
            t.holds(line(1), &[]);
        },
    },
    Case {
        name: "a retry is known after its message was removed and its timeline forgotten",
        options: plain,
        given: |t| {
            answered(t, 1, &[1], 5, (true, 5, &[1]));
            answered(t, 2, &[2], 6, (true, 6, &[1]));
            t.remove(line(1), &[1]);
            t.written(model::ports::log::Write::Forget(line(2)));
        },
        then: |t| {
            answered(t, 1, &[1], 5, (false, 5, &[1]));
            answered(t, 2, &[2], 6, (false, 6, &[1]));
            t.holds(line(1), &[]);
            t.holds(line(2), &[]);
        },
    },
    Case {
        name: "an append that was too large does not use up its key",
        options: plain,
        given: |t| {
            let large = Arc::new(model::timeline::Message {
                label: vec![0; 256].into(),
                ..(*message(5)).clone()
            });
            let answer = t.try_append(&[line(1)], &large, Some(1));
            t.same("answer", answer, Err(StoreError::TooLarge));
            answered(t, 1, &[1], 5, (true, 5, &[1]));
        },
        then: |t| answered(t, 1, &[1], 5, (false, 5, &[1])),
    },
    Case {
        name: "as many keys are remembered as the window holds",
        options: || LogOptions { once_count_max: 50, ..LogOptions::default() },
        given: |t| {
            for key in 1..=80 {
                answered(t, key, &[1], key as u64, (true, key as u64, &[key as u64]));
                if key == 60 {
                    let now_s = t.subject.now_s();
                    t.subject.tidy(now_s);
                }
            }
        },
        then: |t| {
            for key in 31..=80 {
                answered(t, key, &[1], key as u64, (false, key as u64, &[key as u64]));
            }
        },
    },
    Case {
        name: "keys beyond the window are forgotten",
        options: || LogOptions { once_count_max: 20, ..LogOptions::default() },
        given: |t| {
            for key in 1..=90 {
                answered(t, key, &[1], key as u64, (true, key as u64, &[key as u64]));
            }
            let now_s = t.subject.now_s();
            t.subject.tidy(now_s);
            answered(t, 1, &[2], 1, (true, 1, &[1]));
        },
        then: |t| {
            answered(t, 1, &[2], 1, (false, 1, &[1]));
            t.holds(line(2), &[(1, 1)]);
        },
    },
    Case {
        name: "keys are remembered as long as the window says, and no longer",
        options: || LogOptions { once_age_s_max: 1_000, ..LogOptions::default() },
        given: |t| {
            answered(t, 1, &[1], 1, (true, 1, &[1]));
            answered(t, 2, &[], 2, (true, 2, &[]));
            let first_s = t.subject.now_s();
            t.subject.tidy(first_s + 900);
            if t.subject.now_s() < first_s + 900 {
                return; // it has a clock of its own
            }
            answered(t, 1, &[1], 1, (false, 1, &[1]));
            t.subject.tidy(first_s + 1_100);
            answered(t, 1, &[3], 1, (true, 1, &[1]));
        },
        then: |t| {
            let has_own_clock = t.standing(line(3), 1).last == 0;
            if !has_own_clock {
                answered(t, 1, &[1], 1, (false, 1, &[1]));
                t.holds(line(3), &[(1, 1)]);
            }
            t.holds(line(1), &[(1, 1)]);
        },
    },
];

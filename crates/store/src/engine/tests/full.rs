//! A log that is full: what it still takes, and that its upkeep comes to an end.

use super::subject::{Ground, Held};
use base::hash::HashKey;
use model::ports::log::*;
use model::timeline::{Message, Seq, Space, TimelineId};
use std::sync::Arc;
use testkit::log::{LogOptions, Subject};

const NOW_S: u32 = 1_700_000_000;

/// Slices of upkeep after which it is endless: a log of these tests has some tens of them.
const SLICES_MAX: usize = 2_000;

/// Slices that time makes due though nothing has changed.
const FEW: usize = 8;

fn line(n: u8) -> TimelineId {
    TimelineId::of(Space::Other, HashKey::new(1, 2), &[&[n]])
}

/// A small message for these; it ends something, or not.
fn append(to: &[u8], ends: bool) -> Write {
    let (id, at_s, label, body) = (1, NOW_S, [1; 20].into(), [2; 50].into());
    let message = Arc::new(Message { id, at_s, label, body });
    let to = to.iter().map(|&n| line(n)).collect();
    Write::Append(Append { message, to, once: None, heard: None, ends })
}

fn held() -> Held {
    let options =
        LogOptions { segment_bytes: 16 * 1024, log_bytes_max: 256 * 1024, ..LogOptions::default() };
    Held::new(9, Ground::Memory, options)
}

impl Held {
    fn one(&mut self, now_s: u32, write: Write) -> Result<Done, StoreError> {
        self.engine().commit(now_s, &[write]).remove(0)
    }

    /// Does all upkeep that is due by then; how many slices that were.
    fn keeps_up(&mut self, now_s: u32) -> usize {
        let mut slices = 0;
        while let Some(upkeep_task) = self.engine().upkeep_task(now_s) {
            let finished = upkeep_task.run();
            self.engine().finished(now_s, finished);
            slices += 1;
            assert!(slices < SLICES_MAX, "upkeep wins nothing and does not end");
        }
        slices
    }

    /// Messages that stay, each with a second place that is left at once, as of an outbox, until
    /// there is no more room.
    fn fills(&mut self) -> Seq {
        for seq in 1.. {
            let (now_s, upto) = (NOW_S + seq as u32 / 100, seq);
            match self.one(now_s, append(&[1, 2], false)) {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error, StoreError::Full);
                    return seq - 1;
                }
            }
            let removed = self.one(now_s, Write::Remove { timeline: line(2), seqs: vec![upto] });
            assert_eq!(removed, Ok(Done::Written));
        }
        unreachable!("it is full at last")
    }

    fn waits(&mut self, n: u8) -> u64 {
        let (timeline, reader) = (line(n), model::timeline::ReaderId(1));
        match self.engine().read(Read::Standing { timeline, reader }) {
            Ok(Done::Standing(standing)) => standing.count,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_upkeep_of_a_full_log_of_small_messages_comes_to_an_end() {
    let mut held = held();
    let stored = held.fills();
    let later_s = NOW_S + 10_000;
    for after_s in 0..20 {
        held.keeps_up(later_s + after_s);
    }
    let before = held.engine().sizes();
    assert!(before.log_bytes <= 256 * 1024, "{before:?}");
    // Only what time makes due: a look at what is too old.
    assert!(held.keeps_up(later_s + 30) <= FEW, "nothing has changed, and nothing is to be done");
    assert_eq!(held.engine().sizes().log_bytes, before.log_bytes, "nothing was written again");
    // The same after a restart, which knows nothing of what was tried.
    held.restart();
    for after_s in 0..20 {
        held.keeps_up(later_s + 100 + after_s);
    }
    assert!(held.keeps_up(later_s + 130) <= FEW && held.waits(1) == stored);
}

#[test]
fn what_finishes_something_is_taken_by_a_full_log_as_far_as_its_reserve_goes() {
    let mut held = held();
    held.fills();
    assert_eq!(held.one(NOW_S, append(&[1], false)), Err(StoreError::Full));
    let mut finished = 0;
    while held.one(NOW_S, append(&[3], true)).is_ok() {
        assert_eq!(held.one(NOW_S, append(&[1], false)), Err(StoreError::Full));
        finished += 1;
    }
    let reserve = 256 * 1024 / 16;
    assert!((reserve / 400..reserve / 100).contains(&finished), "{finished}");
    let sizes = held.engine().sizes();
    assert!(sizes.log_bytes <= 256 * 1024 && sizes.full && sizes.used_percent >= 100, "{sizes:?}");
    // What only ends something is taken behind that, too.
    let remove = Write::Remove { timeline: line(3), seqs: (1..=finished).collect() };
    assert_eq!(held.one(NOW_S, remove), Ok(Done::Written));
    for reader in 1..=100 {
        let (timeline, reader, upto) = (line(1), model::timeline::ReaderId(reader), 7);
        let acknowledge = Write::Acknowledge { timeline, reader, upto };
        assert_eq!(held.one(NOW_S, acknowledge), Ok(Done::Written));
    }
}

#[test]
fn a_log_that_was_full_has_room_when_something_left_though_nobody_writes() {
    let mut held = held();
    let stored = held.fills();
    for seqs in (1..=stored / 2).collect::<Vec<_>>().chunks(100) {
        let remove = Write::Remove { timeline: line(1), seqs: seqs.to_vec() };
        assert_eq!(held.one(NOW_S + 1_000, remove), Ok(Done::Written));
    }
    assert!(held.engine().is_full());
    for after_s in 0..20 {
        held.keeps_up(NOW_S + 2_000 + after_s);
    }
    assert!(!held.engine().is_full(), "{:?}", held.engine().sizes());
    assert!(held.one(NOW_S + 3_000, append(&[1], false)).is_ok());
    assert_eq!(held.waits(1), stored - stored / 2 + 1);
}

#[test]
fn what_was_compacted_may_be_compacted_again_when_some_of_it_left() {
    let mut held = held();
    let stored = held.fills();
    for round in 0..4 {
        for after_s in 0..20 {
            held.keeps_up(NOW_S + 2_000 + 100 * round + after_s);
        }
        let before = held.engine().sizes().log_bytes;
        // Every second one of what is left goes, from all segments alike.
        let step = 2 << round;
        let going = (1..=stored).filter(|seq| seq % step == u64::from(step as u32) / 2);
        for seqs in going.collect::<Vec<_>>().chunks(100) {
            let remove = Write::Remove { timeline: line(1), seqs: seqs.to_vec() };
            assert_eq!(held.one(NOW_S + 2_050 + 100 * round, remove), Ok(Done::Written));
        }
        for after_s in 0..20 {
            held.keeps_up(NOW_S + 2_060 + 100 * round + after_s);
        }
        let after = held.engine().sizes().log_bytes;
        assert!(round > 0 || after < before * 3 / 4, "round {round}: {before} and {after}");
    }
    let verified = held.engine().verify(true).expect("state is readable");
    assert_eq!(verified.told, Vec::<String>::new());
}

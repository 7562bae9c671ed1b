//! What becomes of messages that arrive: timed by their head, looked at by their number, answered.
//!
//! Where each client hears one sender, its numbers tell what is missing, what came twice and what
//! came late. A number that is passed over may still come: it is missing once it has not for a
//! second.

use super::traffic::topic_of;
use super::{Desk, PilotHouse};
use crate::fleet::client::{Act, Letter, Profile};
use crate::fleet::stamp::{self, From, ROW_END};
use base::time::{Instant, Now};
use lab::timing::Timing;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// Time after which a number that was passed over is missing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Numbers that are waited for, at most; more are missing at once.
const WAITED_FOR_MAX: usize = 1 << 20;

/// Numbers that were passed over.
#[derive(Default)]
pub(super) struct Gaps {
    waited_for: HashSet<(u32, u32)>,
    /// The same in the order of time.
    since: VecDeque<(Instant, u32, u32)>,
}

impl Gaps {
    /// Numbers that are waited for.
    pub(super) fn open(&self) -> u64 {
        self.waited_for.len() as u64
    }

    /// A number was passed over; false: there is no room to wait for it.
    fn pass(&mut self, now: Instant, pilot: u32, number: u32) -> bool {
        let has_room = self.since.len() < WAITED_FOR_MAX;
        if has_room && self.waited_for.insert((pilot, number)) {
            self.since.push_back((now, pilot, number));
        }
        has_room
    }

    /// How many have been waited for long enough.
    pub(super) fn give_up(&mut self, now: Instant) -> u64 {
        let mut missing = 0;
        while let Some(&(since, pilot, number)) = self.since.front()
            && now - since >= PATIENCE
        {
            self.since.pop_front();
            missing += u64::from(self.waited_for.remove(&(pilot, number)));
        }
        missing
    }
}

impl PilotHouse {
    /// A message with this front of so many bytes.
    pub(super) fn heard(
        &mut self,
        now: Now,
        pilot: u32,
        (front, bytes): (&[u8], u32),
        again: bool,
        desk: &mut Desk,
    ) {
        self.log.messages += 1;
        self.log.message_bytes += u64::from(bytes);
        let Some(head) = stamp::read(front, self.wall_us(now.mono)) else {
            self.log.repeated += u64::from(again);
            return;
        };
        let timing = if head.is_answer { Timing::Request } else { Timing::Delivery };
        self.log.timings.at(timing).note_both(head.corrected_us, head.raw_us);
        match head.from {
            From::Row { tag, number } if self.plan.hearing.checks_rows => {
                self.look_at_number(now, pilot, (tag, number), again);
            }
            _ => self.log.repeated += u64::from(again),
        }
        let sender = match head.from {
            From::Sender(number) => number,
            _ => self.number(pilot),
        };
        self.answer(now, pilot, front, sender, desk);
    }

    fn look_at_number(&mut self, now: Now, pilot: u32, (tag, number): (u8, u32), again: bool) {
        let word = u32::from(tag) << 24 | number;
        let this = &mut self.pilots[pilot as usize];
        let (known, last) = (this.heard >> 24, this.heard % ROW_END);
        if this.heard == 0 {
            this.heard = word;
            return;
        }
        if known != u32::from(tag) {
            self.log.repeated += u64::from(again);
            return;
        }
        match number.wrapping_sub(last) % ROW_END {
            0 => self.log.repeated += 1,
            ahead if ahead < ROW_END / 2 => {
                this.heard = word;
                for passed in 1..ahead {
                    let number = (last + passed) % ROW_END;
                    let waits = self.gaps.pass(now.mono, pilot, number);
                    self.log.missing += u64::from(!waits);
                }
            }
            _ if self.gaps.waited_for.remove(&(pilot, number)) => self.log.reordered += 1,
            _ => self.log.repeated += 1,
        }
    }

    fn answer(&mut self, now: Now, pilot: u32, front: &[u8], sender: u32, desk: &mut Desk) {
        let Some(formula) = &self.plan.hearing.answer_to else { return };
        let (Some(head), Profile::Mqtt(_)) = (stamp::answer(front), &self.plan.profile) else {
            return;
        };
        let topic = topic_of(formula, self.number(pilot), sender);
        let (qos, body) = (self.plan.hearing.answer_qos, Box::new(head));
        let letter = Letter { topic, qos, retain: false, body };
        self.flights_begin(pilot, now.mono, 0, qos > 0);
        self.tell(pilot, Act::Publish(Box::new(letter)), desk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_comes_within_a_second_is_not_missing() {
        let mut gaps = Gaps::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        assert!(gaps.pass(at(0), 1, 7) && gaps.pass(at(500), 1, 8));
        assert!(gaps.waited_for.remove(&(1, 7)));
        assert_eq!((gaps.give_up(at(1_200)), gaps.open()), (0, 1));
        assert_eq!((gaps.give_up(at(1_500)), gaps.open()), (1, 0));
    }
}

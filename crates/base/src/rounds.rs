//! Rounds: coarse time by which it is known what has waited too long, without a timer each.
//!
//! A round is half of the time that something may wait. A time that begins is stamped with its
//! round, and is over when two rounds have passed: after the whole time at least, after one and a
//! half at most. Nothing that waits is known here.

use crate::time::{Instant, Now};
use std::time::Duration;

/// The rounds of one kind of wait.
#[derive(Default)]
pub struct Rounds {
    number: u32,
    /// When this one ends; absent while nothing waits.
    ends: Option<Instant>,
}

impl Rounds {
    /// The stamp of what begins now.
    pub fn stamp(&self) -> u32 {
        self.number
    }

    /// Whether what has this stamp waits for too long, at the end of a round.
    pub fn is_over(&self, stamp: u32) -> bool {
        self.number.wrapping_sub(stamp) >= 2
    }

    /// Notes that nothing waits.
    pub fn rest(&mut self) {
        self.ends = None;
    }

    /// When the round ends, if that is later; what waits may do so for this time.
    pub fn ends(&mut self, now: Now, ms_max: u32) -> Option<Instant> {
        let ends = *self.ends.get_or_insert(now.after(half(ms_max)));
        (now.mono < ends).then_some(ends)
    }

    /// All that waits has been looked at: the next round begins; when it ends.
    pub fn next(&mut self, now: Now, ms_max: u32) -> Instant {
        self.number = self.number.wrapping_add(1);
        *self.ends.insert(now.after(half(ms_max)))
    }
}

fn half(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms.div_ceil(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_over_after_the_whole_time_and_before_twice_it() {
        let at = |ms| Now::default().after(Duration::from_millis(ms));
        for begins in (0..500).step_by(7) {
            let (mut rounds, mut stamp, mut over) = (Rounds::default(), None, None);
            for ms in 0..3_000 {
                let now = Now::new(at(ms), 0);
                if ms == begins {
                    stamp = Some(rounds.stamp());
                }
                if rounds.ends(now, 1_000).is_none() {
                    let is_over = stamp.is_some_and(|stamp| rounds.is_over(stamp));
                    over = over.or(is_over.then_some(ms - begins));
                    rounds.next(now, 1_000);
                }
            }
            let over = over.expect("it is over at some time");
            assert!((1_000..=1_500).contains(&over), "begun at {begins}: {over}");
        }
    }
}

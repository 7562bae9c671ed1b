//! Timers of sessions: ends, wills, delayed connects, expired grants.
//!
//! One wheel; timers are not cancelled: the receiver checks whether a timer still applies.

use base::slab::Key;
use base::time::{Instant, Now};
use base::wheel::Timers;
use std::time::Duration;

/// Longest time a timer is set for: it is set again then.
const SPAN_S: u64 = 24 * 3_600;

/// Timers that are looked at in one turn. The others wait for the next.
pub(crate) const TIMERS_A_TURN: usize = 256;

const KIND: u32 = 62;

/// Purpose of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// An away session ends.
    End(Key),
    /// A will is published.
    Will(Key),
    /// A client that came too often has waited, under this number.
    Late(u64),
    /// A client's grant expires.
    Grant(Key),
}

/// The timers of a shard's sessions.
#[derive(Default)]
pub(crate) struct SessionTimers {
    wheel: Timers,
}

impl SessionTimers {
    /// Sets a timer to a Unix second, or to a day from now if that is sooner.
    pub fn set(&mut self, now: Now, timer: Timer, at_s: u64) {
        let left_s = at_s.saturating_sub(now.unix_s().into()).min(SPAN_S);
        self.set_in(now, timer, Duration::from_secs(left_s));
    }

    /// Sets a timer to so long from now.
    pub fn set_in(&mut self, now: Now, timer: Timer, delay: Duration) {
        let (kind, number) = match timer {
            Timer::End(key) => (0, key.pack()),
            Timer::Will(key) => (1, key.pack()),
            Timer::Late(number) => (2, number),
            Timer::Grant(key) => (3, key.pack()),
        };
        self.wheel.insert(now.after(delay), kind << KIND | number);
    }

    /// Looks which timers of a turn are due.
    pub fn advance(&mut self, now: Now) {
        self.wheel.advance(now.mono, TIMERS_A_TURN);
    }

    /// Takes a timer that is due.
    pub fn take(&mut self) -> Option<Timer> {
        let token = self.wheel.take()?;
        let number = token & ((1 << KIND) - 1);
        Some(match token >> KIND {
            0 => Timer::End(Key::unpack(number)),
            1 => Timer::Will(Key::unpack(number)),
            2 => Timer::Late(number),
            _ => Timer::Grant(Key::unpack(number)),
        })
    }

    /// When the next is due.
    pub fn next(&self, now: Now) -> Option<Instant> {
        self.wheel.next(now.mono)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::NOW;

    #[test]
    fn a_timer_comes_back_as_what_it_was_set_for() {
        let mut timers = SessionTimers::default();
        let key = Key { slot: u32::MAX, generation: 3 };
        let all = [Timer::End(key), Timer::Will(key), Timer::Late(7), Timer::Grant(key)];
        for timer in all {
            timers.set(NOW, timer, u64::from(NOW.unix_s()));
        }
        timers.advance(Now::new(NOW.after(Duration::from_secs(1)), NOW.wall_ms));
        let due: Vec<Timer> = std::iter::from_fn(|| timers.take()).collect();
        assert!(all.iter().all(|timer| due.contains(timer)) && due.len() == 4, "{due:?}");
        timers.set(NOW, Timer::End(key), u64::MAX);
        let next = timers.next(NOW).expect("it is set");
        assert!(next <= NOW.after(Duration::from_secs(SPAN_S + 3_600)), "it is set again by then");
    }
}

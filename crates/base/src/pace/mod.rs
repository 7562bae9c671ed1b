//! Admission rate: how many a second are let in, and when the others may come back.
//!
//! Two marks on the monotonic clock. `next` is where the admitted ones have got to: a second ahead
//! at most, so a second's worth may be saved up, and is when the process begins. `line` is where
//! those told to wait have got to: each is sent to the end of it, so a crowd comes back spread out
//! at the pace at which it can be served. Rates of many names are in [`buckets`].

pub mod buckets;

use crate::time::{Instant, Now};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// The time in which so many are allowed at a rate; none where the rate is 0: unlimited.
pub fn cost(count: u64, per_s: u64) -> Duration {
    let nanos = count.saturating_mul(SECOND_NS).checked_div(per_s);
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// The pace at which one shard lets connections in.
#[derive(Debug)]
pub struct AdmissionPace {
    step_ns: u64,
    next: Instant,
    line: Instant,
}

impl AdmissionPace {
    /// Longest wait that a client is asked for, jitter aside.
    pub const WAIT_MAX: Duration = Duration::from_secs(60);

    /// Pace of so many admissions a second, at least one.
    pub fn new(per_s: u32) -> AdmissionPace {
        let step_ns = SECOND_NS / u64::from(per_s.max(1));
        AdmissionPace { step_ns, next: Instant::default(), line: Instant::default() }
    }

    /// Changes the rate.
    pub fn set_rate(&mut self, per_s: u32) {
        self.step_ns = AdmissionPace::new(per_s).step_ns;
    }

    /// Lets one in, or says after how many milliseconds to come back.
    pub fn admit(&mut self, now: Now) -> Result<(), u32> {
        let next = self.next.max(now.mono) + Duration::from_nanos(self.step_ns);
        if next <= now.mono + Duration::from_secs(1) {
            self.next = next;
            return Ok(());
        }
        let line = self.line.max(now.mono) + Duration::from_nanos(self.step_ns);
        self.line = line.min(now.mono + AdmissionPace::WAIT_MAX);
        Err((self.line - now.mono).as_millis() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now::new(Instant::from_nanos(ms * 1_000_000), 0)
    }

    #[test]
    fn the_pace_holds_and_the_rest_is_spread() {
        let mut pace = AdmissionPace::new(10);
        assert!((0..10).all(|_| pace.admit(at(5_000)).is_ok()));
        let waits: Vec<_> = (0..3).map(|_| pace.admit(at(5_000)).expect_err("full")).collect();
        assert_eq!(waits, [100, 200, 300]);
        assert!(pace.admit(at(5_100)).is_ok());
        assert!(pace.admit(at(5_100)).is_err());
    }

    #[test]
    fn a_wave_right_at_the_beginning_finds_a_second_saved_up() {
        let mut pace = AdmissionPace::new(10);
        assert!((0..10).all(|_| pace.admit(at(0)).is_ok()));
        assert!(pace.admit(at(0)).is_err());
    }

    #[test]
    fn nobody_waits_longer_than_the_longest_time() {
        let mut pace = AdmissionPace::new(1);
        assert!(pace.admit(at(5_000)).is_ok());
        let longest = (0..1_000).map(|_| pace.admit(at(5_000)).expect_err("full")).max();
        assert_eq!(longest, Some(60_000));
    }

    #[test]
    fn a_pace_of_nothing_is_one_a_second() {
        let mut pace = AdmissionPace::new(0);
        assert_eq!(pace.admit(at(5_000)), Ok(()));
        assert_eq!((pace.admit(at(5_000)), pace.admit(at(5_999))), (Err(1_000), Err(1_001)));
        assert_eq!(pace.admit(at(6_000)), Ok(()));
    }
}

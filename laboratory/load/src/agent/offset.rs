//! Clock offset of another machine, from questions and answers.
//!
//! ```text
//!  coordinator  asked ───────────────────► back     ahead = ((heard - asked) + (told - back)) / 2
//!                     \             /               error = ((back - asked) - (told - heard)) / 2
//!  agent               heard ─► told
//! ```
//! However long the two ways took, the truth lies within `error` of `ahead` (RFC 5905, 8). The
//! exchange with the least error is believed; an old one loses, since clocks drift apart. Pure:
//! times are arguments. Invariant: the interval contains the truth as long as clocks drift less
//! than [`DRIFT`] and do not step; a step is noticed by the first interval that does not touch the
//! believed one.

use std::collections::VecDeque;

/// How fast two clocks may drift apart: 30 millionths (each 15, RFC 5905's PHI).
const DRIFT: f64 = 30e-6;
/// Exchanges that are kept.
const KEPT: usize = 64;

/// A question and its answer, all in microseconds of Unix time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// When it was asked, by the coordinator's clock.
    pub asked_us: u64,
    /// When it was heard, by the agent's clock.
    pub heard_us: u64,
    /// Time of the answer, by the agent's clock.
    pub told_us: u64,
    /// When the answer came back, by the coordinator's clock.
    pub back_us: u64,
}

/// How far a clock is ahead.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Estimate {
    /// The agent's clock minus the coordinator's, microseconds.
    pub ahead_us: i64,
    /// The truth is at most so far from that, microseconds.
    pub error_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    back_us: u64,
    estimate: Estimate,
}

/// Offset of another clock, estimated from samples.
#[derive(Clone, Default, Debug)]
pub struct Offset {
    samples: VecDeque<Sample>,
    steps: u32,
}

impl Offset {
    /// Takes an exchange in. One whose times run backwards is ignored.
    pub fn note(&mut self, exchange: Exchange) {
        let Some(estimate) = exchange.estimate() else { return };
        let sample = Sample { back_us: exchange.back_us, estimate };
        if let Some(believed) = self.now(exchange.back_us) {
            let apart = believed.ahead_us.abs_diff(estimate.ahead_us);
            if apart > believed.error_us + estimate.error_us {
                self.steps += 1;
                self.samples.clear();
            }
        }
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The best estimate at this moment of the coordinator's clock.
    pub fn now(&self, now_us: u64) -> Option<Estimate> {
        let aged = self.samples.iter().map(|sample| sample.aged(now_us));
        aged.min_by_key(|estimate| estimate.error_us)
    }

    /// Times that one of the two clocks was set anew.
    pub fn steps(&self) -> u32 {
        self.steps
    }
}

impl Exchange {
    fn estimate(self) -> Option<Estimate> {
        let whole = self.back_us.checked_sub(self.asked_us)?;
        let away = self.told_us.checked_sub(self.heard_us)?;
        let travel = whole.checked_sub(away)?;
        let there = i128::from(self.heard_us) - i128::from(self.asked_us);
        let back = i128::from(self.told_us) - i128::from(self.back_us);
        let ahead_us = i64::try_from((there + back) / 2).ok()?;
        // Half a microsecond may be lost in each division.
        Some(Estimate { ahead_us, error_us: travel / 2 + 1 })
    }
}

impl Sample {
    fn aged(&self, now_us: u64) -> Estimate {
        let age = now_us.saturating_sub(self.back_us) as f64;
        let error_us = self.estimate.error_us + (age * DRIFT) as u64;
        Estimate { error_us, ..self.estimate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    const AHEAD: i64 = 1_234_567;

    fn exchange(asked_us: u64, there: u64, back: u64, ahead: i64) -> Exchange {
        let heard_us = (asked_us + there).wrapping_add_signed(ahead);
        let told_us = heard_us + 20;
        let back_us = told_us.wrapping_add_signed(-ahead) + back;
        Exchange { asked_us, heard_us, told_us, back_us }
    }

    #[test]
    fn the_truth_is_within_the_error_whatever_the_ways_took() {
        let mut random = Prng::new(7);
        for ahead in [AHEAD, -AHEAD, 0, 3] {
            let mut offset = Offset::default();
            for round in 0..500_u64 {
                let (there, back) = (100 + random.below(50_000), 100 + random.below(900));
                offset.note(exchange(1_000_000_000 + round * 500_000, there, back, ahead));
                let now = 1_000_000_000 + round * 500_000 + 100_000;
                let estimate = offset.now(now).expect("an exchange was noted");
                assert!(estimate.ahead_us.abs_diff(ahead) <= estimate.error_us, "{estimate:?}");
            }
            assert_eq!(offset.steps(), 0);
        }
    }

    #[test]
    fn the_quickest_exchange_is_believed_until_it_is_old() {
        let mut offset = Offset::default();
        offset.note(exchange(1_000_000, 100, 100, AHEAD));
        offset.note(exchange(2_000_000, 40_000, 100, AHEAD));
        let soon = offset.now(2_100_000).expect("noted");
        assert_eq!(soon.ahead_us, AHEAD);
        assert!(soon.error_us < 200);
        let later = offset.now(1_000_000 + 600_000_000).expect("noted");
        assert!(later.error_us > 15_000, "{later:?}");
    }

    #[test]
    fn a_clock_that_was_set_anew_is_noticed_and_followed() {
        let mut offset = Offset::default();
        (0..10).for_each(|round| offset.note(exchange(round * 1_000_000, 100, 150, AHEAD)));
        offset.note(exchange(20_000_000, 100, 150, AHEAD - 3_000_000));
        assert_eq!(offset.steps(), 1);
        let now = offset.now(20_000_500).expect("noted");
        assert!(now.ahead_us.abs_diff(AHEAD - 3_000_000) <= now.error_us);
    }

    #[test]
    fn times_that_run_backwards_are_ignored() {
        let mut offset = Offset::default();
        let good = exchange(5_000_000, 100, 100, 0);
        offset.note(Exchange { back_us: 4_000_000, ..good });
        offset.note(Exchange { told_us: 1, ..good });
        offset.note(Exchange { told_us: good.told_us + 9_000_000, ..good });
        offset.note(Exchange { asked_us: 0, heard_us: u64::MAX, told_us: u64::MAX, back_us: 9 });
        assert_eq!(offset.now(6_000_000), None);
    }
}

//! Open-loop schedules: the planned time of the n-th thing, whatever became of those before it.

use base::prng::Prng;
use base::time::Instant;
use std::f64::consts::TAU;
use std::time::Duration;

/// How often things happen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rate {
    /// So many events a second, evenly.
    Even(f64),
    /// So many events a second on average, at random moments (exponential gaps).
    Poisson(f64),
    /// A second, from a low over a high back to it, once in a period of seconds.
    Wave {
        /// At least.
        low: f64,
        /// Highest rate.
        high: f64,
        /// Seconds.
        period_s: f64,
    },
}

impl Rate {
    /// This share of it.
    pub fn times(self, share: f64) -> Rate {
        match self {
            Rate::Even(per_s) => Rate::Even(per_s * share),
            Rate::Poisson(per_s) => Rate::Poisson(per_s * share),
            Rate::Wave { low, high, period_s } => {
                Rate::Wave { low: low * share, high: high * share, period_s }
            }
        }
    }

    /// The highest it gets, a second.
    pub fn most(self) -> f64 {
        match self {
            Rate::Even(per_s) | Rate::Poisson(per_s) => per_s,
            Rate::Wave { high, .. } => high,
        }
    }
}

/// Things that happen at a rate.
#[derive(Clone, Debug)]
pub struct Timetable {
    from: Instant,
    rate: Rate,
    /// Of even things: by how large a part of a gap they are all later.
    phase: f64,
    /// Things taken so far.
    done: u64,
    /// Planned time of the next one, seconds from `from`.
    next_s: f64,
    random: Prng,
}

/// No plan looks further ahead, seconds.
const FAR_S: f64 = 1e9;

impl Timetable {
    /// Things at this rate from `from` on. Of even ones the first is so large a part of a gap
    /// later (0 to 1): what several threads have of one rate does not come at the same moments.
    pub fn new(from: Instant, rate: Rate, phase: f64, seed: u64) -> Timetable {
        let random = Prng::new(seed);
        let mut this = Timetable { from, rate, phase, done: 0, next_s: 0.0, random };
        this.step();
        this
    }

    /// The planned time of the next one.
    pub fn next(&self) -> Instant {
        self.from + Duration::from_secs_f64(self.next_s.min(FAR_S))
    }

    /// Takes the next one: its planned time.
    pub fn take(&mut self) -> Instant {
        let at = self.next();
        self.done += 1;
        self.step();
        at
    }

    fn step(&mut self) {
        match self.rate {
            // Counted from the beginning: small errors do not add up.
            Rate::Even(per_s) => self.next_s = (self.done as f64 + self.phase) / per_s,
            Rate::Poisson(per_s) => self.next_s += exponential(&mut self.random) / per_s,
            Rate::Wave { low, high, period_s } => {
                let (middle, swing) = ((low + high) / 2.0, (high - low) / 2.0);
                let wave = |s: f64| swing * period_s / TAU * (TAU * s / period_s).sin();
                let goal = self.done as f64 + 0.5;
                // How many there are by a time only grows: halving finds the time of the next.
                let (mut from, mut to) = (self.next_s, self.next_s + period_s + 1.0 / middle);
                for _ in 0..48 {
                    let half = (from + to) / 2.0;
                    let there = middle * half - wave(half);
                    *(if there < goal { &mut from } else { &mut to }) = half;
                }
                self.next_s = to;
            }
        }
    }
}

/// A number with the mean 1 of the exponential distribution.
fn exponential(random: &mut Prng) -> f64 {
    let uniform = ((random.draw() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(rate: Rate) -> Timetable {
        Timetable::new(Instant::from_nanos(0), rate, 0.0, 7)
    }

    #[test]
    fn a_stall_does_not_shift_the_plan() {
        let mut plan = Timetable::new(Instant::from_nanos(1_000), Rate::Even(1_000.0), 0.0, 7);
        let stalled_until = Instant::from_nanos(5_001_000);
        let mut taken = Vec::new();
        while plan.next() <= stalled_until {
            taken.push(plan.take().nanos());
        }
        let planned: Vec<u64> = (0..=5).map(|n| 1_000 + n * 1_000_000).collect();
        assert_eq!(taken, planned);
    }

    #[test]
    fn halves_of_a_rate_fall_between_each_other() {
        let half = Rate::Even(10.0).times(0.5);
        let mut parts = [0.0, 0.5].map(|phase| Timetable::new(Instant::default(), half, phase, 7));
        let mut taken: Vec<u64> =
            parts.iter_mut().flat_map(|part| [(); 50].map(|()| part.take().millis())).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..100).map(|n| n * 100).collect::<Vec<u64>>());
    }

    #[test]
    fn random_moments_have_their_rate_and_their_spread() {
        let mut plan = start(Rate::Poisson(1_000.0));
        let mut counts = vec![0u32; 100];
        while let Some(slot) = counts.get_mut(plan.next().millis() as usize / 1_000) {
            *slot += 1;
            plan.take();
        }
        let mean = counts.iter().sum::<u32>() as f64 / 100.0;
        let variance = counts.iter().map(|&n| (f64::from(n) - mean).powi(2)).sum::<f64>() / 99.0;
        // Of 100 counts of mean 1,000: the mean is within 10 (3 sigma), variance over mean near 1.
        assert!((mean - 1_000.0).abs() < 10.0, "{mean}");
        assert!((0.6..1.5).contains(&(variance / mean)), "{}", variance / mean);
        let again = start(Rate::Poisson(1_000.0)).next();
        assert_eq!(again, start(Rate::Poisson(1_000.0)).next());
    }

    #[test]
    fn a_wave_has_its_mean_and_its_heights() {
        let mut plan = start(Rate::Wave { low: 0.0, high: 200.0, period_s: 10.0 });
        let mut counts = [0u32; 10];
        while let Some(slot) = counts.get_mut(plan.next().millis() as usize / 1_000) {
            *slot += 1;
            plan.take();
        }
        assert!((950..1_050).contains(&counts.iter().sum::<u32>()), "{counts:?}");
        assert!(counts[0] < 20 && counts[4] > 180, "{counts:?}");
    }
}

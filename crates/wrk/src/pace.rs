//! An open-loop schedule: the planned time of the n-th thing, whatever became of those before it.

use base::time::Instant;
use std::time::Duration;

/// Things that happen at a rate.
#[derive(Clone, Debug)]
pub struct Schedule {
    from: Instant,
    per_s: f64,
    done: u64,
}

impl Schedule {
    /// `per_s` a second, the first at `from`.
    pub fn new(from: Instant, per_s: f64) -> Schedule {
        Schedule { from, per_s, done: 0 }
    }

    /// The planned time of the next one.
    pub fn next(&self) -> Instant {
        self.from + Duration::from_secs_f64((self.done as f64 / self.per_s).min(1e9))
    }

    /// Whether the next one is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next() <= now
    }

    /// Takes the next one: its planned time.
    pub fn take(&mut self) -> Instant {
        let at = self.next();
        self.done += 1;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_does_not_shift_the_plan() {
        let mut plan = Schedule::new(Instant::from_nanos(1_000), 1_000.0);
        let stalled_until = Instant::from_nanos(5_001_000);
        let mut taken = Vec::new();
        while plan.is_due(stalled_until) {
            taken.push(plan.take().nanos());
        }
        let planned: Vec<u64> = (0..=5).map(|n| 1_000 + n * 1_000_000).collect();
        assert_eq!(taken, planned);
    }
}

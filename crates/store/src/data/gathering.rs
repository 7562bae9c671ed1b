//! Whether calls are to gather before a commit.
//!
//! A sync costs as much for one call as for many. Where calls come by themselves, a short wait
//! makes fewer commits of them; where each caller waits for its answer, it only makes them slower.
//! Trials tell the two apart: callers that wait can at most double what is there, for the others
//! had come while the last commit was under way. It reads no clock. Invariant: who calls alone
//! never waits.

/// From so many calls a commit is worth its sync, and nothing is waited for.
pub(crate) const CALLS_ENOUGH: usize = 64;

/// A wait begins with at most so many calls.
const CALLS_FEW_MAX: usize = 16;

/// A wait pays if the calls become so many times as many.
const TIMES_MIN: usize = 3;

/// Waits that did not pay, one after another, which end what had paid: calls come by chance.
const MISSES_MAX: u8 = 4;

/// Batches between two trials: after one that paid, and at most.
const PAUSE_MIN: u16 = 16;
const PAUSE_MAX: u16 = 1_024;

/// One log's.
pub(crate) struct Gathering {
    /// Waits that may still not pay before there are no more; zero: there are trials only.
    trust: u8,
    /// Batches until the next trial.
    left: u16,
    /// Batches between the last trial, which did not pay, and the next.
    pause: u16,
}

impl Gathering {
    pub(crate) fn new() -> Gathering {
        Gathering { trust: 0, left: PAUSE_MIN, pause: PAUSE_MIN }
    }

    /// A batch of so many calls, which are some, could be written. Whether others are waited for.
    pub(crate) fn is_due(&mut self, calls: usize) -> bool {
        self.left = self.left.saturating_sub(1);
        calls <= CALLS_FEW_MAX && (self.trust > 0 || (calls > 1 && self.left == 0))
    }

    /// Notes how many calls were waiting before a pause, and how many after it.
    pub(crate) fn gathered(&mut self, before: usize, after: usize) {
        if after >= TIMES_MIN * before {
            (self.trust, self.pause) = (MISSES_MAX, PAUSE_MIN);
        } else if self.trust > 0 {
            self.trust -= 1;
        } else {
            self.pause = (2 * self.pause).min(PAUSE_MAX);
        }
        self.left = self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often such callers are waited for, of so many batches.
    fn waits(gathering: &mut Gathering, batches: usize, before: usize, after: usize) -> usize {
        let mut waits = 0;
        for _ in 0..batches {
            if gathering.is_due(before) {
                gathering.gathered(before, after);
                waits += 1;
            }
        }
        waits
    }

    #[test]
    fn calls_that_come_by_themselves_gather_after_the_first_trial() {
        assert_eq!(waits(&mut Gathering::new(), 1_000, 2, 9), 985);
        assert_eq!(waits(&mut Gathering::new(), 1_000, 2, 6), 985, "three times as many");
    }

    #[test]
    fn callers_that_wait_for_their_answers_are_tried_ever_more_seldom() {
        let waits = |before, after| waits(&mut Gathering::new(), 10_000, before, after);
        assert_eq!(waits(4, 8), 14);
        assert_eq!(waits(1, 1), 0, "who calls alone never waits");
        assert_eq!(waits(CALLS_FEW_MAX + 1, 200), 0, "many are written at once");
    }

    #[test]
    fn when_calls_cease_to_come_the_waits_cease() {
        let mut gathering = Gathering::new();
        assert_eq!(waits(&mut gathering, 20, 2, 9), 5);
        assert_eq!(waits(&mut gathering, 3, 1, 2), 3, "there will be others");
        assert_eq!(waits(&mut gathering, 5, 2, 7), 5, "and there are");
        assert_eq!(waits(&mut gathering, 100, 1, 1), usize::from(MISSES_MAX));
        assert_eq!(waits(&mut gathering, 100, 2, 7), 100, "a trial is due, and pays");
    }
}

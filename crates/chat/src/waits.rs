//! Waits for an answer of another shard, which may never come.
//!
//! Each wait has a number, which rises and is given once. Waits that began long ago are given up,
//! the oldest first, without a timer each.

use base::rounds::Rounds;
use base::time::{Instant, Now};
use model::latency::Began;
use std::collections::BTreeMap;

/// Waits of one kind.
pub(crate) struct Waits<T> {
    last: u64,
    open: BTreeMap<u64, Wait<T>>,
    rounds: Rounds,
}

/// One wait.
struct Wait<T> {
    stamp: u32,
    began: Began,
    waits: T,
}

impl<T> Default for Waits<T> {
    fn default() -> Self {
        Waits { last: 0, open: BTreeMap::new(), rounds: Rounds::default() }
    }
}

impl<T> Waits<T> {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Adds a wait; returns its number.
    pub(crate) fn put(&mut self, waits: T) -> u64 {
        self.put_since(Began::default(), waits)
    }

    /// Adds a wait whose duration is measured from `began`; returns its number.
    pub(crate) fn put_since(&mut self, began: Began, waits: T) -> u64 {
        self.last += 1;
        self.open.insert(self.last, Wait { stamp: self.rounds.stamp(), began, waits });
        self.last
    }

    /// The wait with a number.
    pub(crate) fn at(&self, number: u64) -> Option<&T> {
        self.open.get(&number).map(|wait| &wait.waits)
    }

    /// The wait with a number, to change it.
    pub(crate) fn at_mut(&mut self, number: u64) -> Option<&mut T> {
        self.open.get_mut(&number).map(|wait| &mut wait.waits)
    }

    /// Whether any wait matches.
    pub(crate) fn has(&self, is_so: impl Fn(&T) -> bool) -> bool {
        self.open.values().any(|wait| is_so(&wait.waits))
    }

    /// Ends the wait with a number.
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        self.take_timed(number).map(|(_, waits)| waits)
    }

    /// Ends the wait with a number; returns when it began, too.
    pub(crate) fn take_timed(&mut self, number: u64) -> Option<(Began, T)> {
        self.open.remove(&number).map(|wait| (wait.began, wait.waits))
    }

    /// Ends all waits that match.
    pub(crate) fn take_all(&mut self, is_so: impl Fn(&T) -> bool) -> Vec<T> {
        let all = self.open.iter().filter(|(_, wait)| is_so(&wait.waits));
        let all: Vec<u64> = all.map(|(number, _)| *number).collect();
        all.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// Gives up waits that have lasted `ms_max` milliseconds, or at most half as long again.
    /// Returns them, and when to look again if any wait was open.
    pub(crate) fn overdue(&mut self, now: Now, ms_max: u32) -> (Vec<T>, Option<Instant>) {
        let mut over = Vec::new();
        if self.open.is_empty() {
            self.rounds.rest();
            return (over, None);
        }
        if let Some(ends) = self.rounds.ends(now, ms_max) {
            return (over, Some(ends));
        }
        while let Some(first) = self.open.first_entry()
            && self.rounds.is_over(first.get().stamp)
        {
            over.push(first.remove().waits);
        }
        (over, Some(self.rounds.next(now, ms_max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_waits_for_long_is_given_up_and_the_rest_goes_on() {
        let mut waits = Waits::default();
        let at = |ms| Now::new(Instant::default() + Duration::from_millis(ms), 0);
        assert_eq!(waits.overdue(at(0), 1_000), (vec![], None));
        let first = waits.put('a');
        assert_eq!(waits.overdue(at(0), 1_000).1, Some(at(500).mono));
        assert!(waits.overdue(at(500), 1_000).0.is_empty());
        let second = waits.put('b');
        assert!(waits.overdue(at(1_000), 1_000).0.is_empty());
        assert_eq!(waits.overdue(at(1_500), 1_000).0, ['a']);
        assert_eq!((waits.take(first), waits.take(second), waits.len()), (None, Some('b'), 0));
        assert_ne!(waits.put('c'), second);
    }
}

//! Rates: how fast each of many names may do something.
//!
//! A token bucket a name: so much may be saved up, so much comes back a second. A bucket that is
//! full says nothing and is forgotten. With too many of the others those that are nearest to full
//! go, so memory is bounded and whoever takes much is still slowed when many strangers come.
//! Invariant: what one name takes is taken from no other.

use crate::time::{Instant, Now};
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// Buckets of one kind, by name.
pub struct Buckets<K> {
    /// When each will be full again, if nothing more is taken.
    full_at: HashMap<K, Instant>,
    /// Tokens that come back in a span of time; zero: there is no limit.
    count: u64,
    span_ns: u64,
    burst: u64,
    most: usize,
}

impl<K: Copy + Eq + Hash> Buckets<K> {
    /// Buckets of `per_s` tokens a second, with `burst` saved up; zero a second: no limit. At most
    /// `most` names are remembered.
    pub fn new((per_s, burst): (u64, u64), most: usize) -> Buckets<K> {
        let (full_at, span_ns) = (HashMap::new(), SECOND_NS);
        Buckets { full_at, count: per_s, span_ns, burst: burst.max(1), most: most.max(1) }
    }

    /// As [`new`](Self::new), with a rate a minute.
    pub fn a_minute(rate: (u64, u64), most: usize) -> Buckets<K> {
        Buckets { span_ns: 60 * SECOND_NS, ..Buckets::new(rate, most) }
    }

    /// As [`new`](Self::new), with a rate an hour.
    pub fn an_hour(rate: (u64, u64), most: usize) -> Buckets<K> {
        Buckets { span_ns: 3_600 * SECOND_NS, ..Buckets::new(rate, most) }
    }

    /// Another rate and another number of names from now on, in the span of time as before. If
    /// anything changes, every name begins with a full bucket.
    pub fn set_rate(&mut self, (count, burst): (u64, u64), most: usize) {
        let (burst, most) = (burst.max(1), most.max(1));
        if (count, burst, most) != (self.count, self.burst, self.most) {
            (self.count, self.burst, self.most) = (count, burst, most);
            self.full_at.clear();
        }
    }

    /// Gives the last tokens back that were taken.
    pub fn give(&mut self, name: K, count: u64) {
        let time = self.time_of(count.min(self.burst));
        if let Some(full_at) = self.full_at.get_mut(&name) {
            let at = Duration::from_nanos(full_at.nanos()).saturating_sub(time);
            *full_at = Instant::from_nanos(at.as_nanos() as u64);
        }
    }

    /// Takes so many tokens; all that may be saved up, if that is less. `Err`: there are not as
    /// many; after so many milliseconds there are.
    pub fn take(&mut self, now: Now, name: K, count: u64) -> Result<(), u32> {
        if self.count == 0 {
            return Ok(());
        }
        if self.full_at.len() >= self.most && !self.full_at.contains_key(&name) {
            self.make_room(now.mono);
        }
        let full_at = self.full_at.get(&name).copied().unwrap_or(now.mono).max(now.mono);
        let next = full_at + self.time_of(count.min(self.burst));
        let latest = now.mono + self.time_of(self.burst);
        if next > latest {
            return Err((next - latest).as_millis().clamp(1, u32::MAX.into()) as u32);
        }
        self.full_at.insert(name, next);
        Ok(())
    }

    /// Time in which so many tokens come back.
    fn time_of(&self, count: u64) -> Duration {
        let ns = u128::from(count) * u128::from(self.span_ns) / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Forgets buckets that are full; if there are none, the half that is nearest to it.
    fn make_room(&mut self, now: Instant) {
        self.full_at.retain(|_, full_at| *full_at > now);
        if self.full_at.len() >= self.most {
            let mut all: Vec<Instant> = self.full_at.values().copied().collect();
            let at = all.len() / 2;
            let (_, middle, _) = all.select_nth_unstable(at);
            let middle = *middle;
            self.full_at.retain(|_, full_at| *full_at > middle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now::new(Instant::from_nanos(ms * 1_000_000), 0)
    }

    #[test]
    fn so_much_is_saved_up_and_comes_back_and_nobody_pays_for_another() {
        let mut buckets = Buckets::new((10, 3), 8);
        assert!((0..3).all(|_| buckets.take(at(1_000), 1, 1).is_ok()));
        assert_eq!(buckets.take(at(1_000), 1, 1), Err(100));
        assert_eq!(buckets.take(at(1_000), 2, 1), Ok(()));
        assert_eq!(buckets.take(at(1_050), 1, 1), Err(50));
        assert_eq!(buckets.take(at(1_100), 1, 1), Ok(()));
        assert_eq!(buckets.take(at(1_100), 1, 1), Err(100));
        assert!((0..3).all(|_| buckets.take(at(9_000), 1, 1).is_ok()));
        assert!(buckets.take(at(9_000), 1, 1).is_err(), "no more than the burst is saved up");
    }

    #[test]
    fn a_rate_may_be_by_the_minute_and_what_is_given_back_is_there_again() {
        let mut minutes = Buckets::a_minute((2, 1), 4);
        assert_eq!(minutes.take(at(1_000), 1, 1), Ok(()));
        assert_eq!(minutes.take(at(1_000), 1, 1), Err(30_000));
        minutes.give(1, 1);
        assert_eq!(minutes.take(at(1_000), 1, 1), Ok(()));
        assert_eq!(minutes.take(at(31_000), 1, 1), Ok(()));
    }

    #[test]
    fn a_new_rate_begins_with_full_buckets_and_the_same_rate_changes_nothing() {
        let mut buckets = Buckets::a_minute((2, 1), 4);
        assert_eq!(buckets.take(at(1_000), 1, 1), Ok(()));
        buckets.set_rate((2, 1), 4);
        assert_eq!(buckets.take(at(1_000), 1, 1), Err(30_000), "nothing changed");
        buckets.set_rate((6, 2), 4);
        assert!((0..2).all(|_| buckets.take(at(1_000), 1, 1).is_ok()));
        assert_eq!(buckets.take(at(1_000), 1, 1), Err(10_000), "six a minute");
    }

    #[test]
    fn bytes_are_taken_by_their_number_and_one_that_is_larger_than_the_burst_takes_all_of_it() {
        let mut buckets = Buckets::new((1 << 20, 4 << 20), 8);
        assert_eq!(buckets.take(at(1_000), 1, 3 << 20), Ok(()));
        assert_eq!(buckets.take(at(1_000), 1, 2 << 20), Err(1_000));
        assert_eq!(buckets.take(at(1_000), 1, 1 << 20), Ok(()));
        assert_eq!(buckets.take(at(1_000), 1, 1 << 40), Err(4_000));
        assert_eq!(buckets.take(at(5_000), 1, 1 << 40), Ok(()), "its turn comes");
    }

    #[test]
    fn memory_is_bounded_and_without_a_rate_nothing_is_counted() {
        let mut buckets = Buckets::new((1, 1), 4);
        for n in 0..100 {
            assert_eq!(buckets.take(at(1_000), n, 1), Ok(()));
            assert!(buckets.full_at.len() <= 4);
        }
        let mut free = Buckets::new((0, 1), 4);
        assert!((0..100).all(|_| free.take(at(1_000), 1, 1).is_ok()) && free.full_at.is_empty());
    }

    #[test]
    fn many_strangers_do_not_make_one_that_took_much_begin_anew() {
        let mut buckets = Buckets::new((10, 100), 64);
        assert_eq!(buckets.take(at(1_000), 0, 100), Ok(()));
        for n in 1..10_000 {
            assert_eq!(buckets.take(at(1_000), n, 1), Ok(()));
        }
        assert!(buckets.take(at(1_000), 0, 1).is_err());
    }
}

//! Rates: how fast accounts and groups may say something.
//!
//! A token bucket a name: so much may be saved up, so much comes back a second. A bucket that is
//! full says nothing and is forgotten; with too many of the others all are, so that memory is
//! bounded and nobody is slowed for long by what others do. Invariant: what one name takes is
//! taken from no other.

use base::time::{Instant, Now};
use model::timeline::TimelineId;
use std::collections::HashMap;
use std::time::Duration;

/// Tokens are counted in nanoseconds: one is what comes back in its time.
const SECOND_NS: u64 = 1_000_000_000;

/// Buckets of one kind, by inboxes or conversations.
pub(crate) struct Buckets {
    /// When each will be full again, if nothing more is taken.
    full_at: HashMap<TimelineId, Instant>,
    /// In which one token comes back; zero: there is no limit.
    step_ns: u64,
    burst: u64,
    most: usize,
}

impl Buckets {
    /// So many a second, so many at once; zero a second: as many as they like.
    pub(crate) fn new((per_s, burst): (u32, u32), most: usize) -> Buckets {
        let step_ns = if per_s == 0 { 0 } else { SECOND_NS / u64::from(per_s) };
        let burst = u64::from(burst.max(1));
        Buckets { full_at: HashMap::new(), step_ns, burst, most: most.max(1) }
    }

    /// So many a minute, likewise.
    pub(crate) fn a_minute((count, burst): (u32, u32), most: usize) -> Buckets {
        let step_ns = if count == 0 { 0 } else { 60 * SECOND_NS / u64::from(count) };
        Buckets { step_ns, ..Buckets::new((0, burst), most) }
    }

    /// Gives the last token back that was taken.
    pub(crate) fn give(&mut self, name: TimelineId) {
        let step = Duration::from_nanos(self.step_ns);
        if let Some(full_at) = self.full_at.get_mut(&name) {
            let at = Duration::from_nanos(full_at.nanos()).saturating_sub(step);
            *full_at = Instant::from_nanos(at.as_nanos() as u64);
        }
    }

    /// Takes a token. `Err`: there is none; after so many milliseconds there is.
    pub(crate) fn take(&mut self, now: Now, name: TimelineId) -> Result<(), u32> {
        if self.step_ns == 0 {
            return Ok(());
        }
        if self.full_at.len() >= self.most && !self.full_at.contains_key(&name) {
            self.full_at.retain(|_, full_at| *full_at > now.mono);
            if self.full_at.len() >= self.most {
                self.full_at.clear();
            }
        }
        let full_at = self.full_at.entry(name).or_insert(now.mono);
        let next = (*full_at).max(now.mono) + Duration::from_nanos(self.step_ns);
        let latest = now.mono + Duration::from_nanos(self.step_ns.saturating_mul(self.burst));
        if next > latest {
            return Err((next - latest).as_millis().max(1) as u32);
        }
        *full_at = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    fn at(ms: u64) -> Now {
        Now::new(Instant::from_nanos(ms * 1_000_000), 0)
    }

    fn name(n: u8) -> TimelineId {
        TimelineId::of(Space::Inbox, HashKey::new(1, 2), &[&[n]])
    }

    #[test]
    fn so_much_is_saved_up_and_comes_back_and_nobody_pays_for_another() {
        let mut buckets = Buckets::new((10, 3), 8);
        assert!((0..3).all(|_| buckets.take(at(1_000), name(1)).is_ok()));
        assert_eq!(buckets.take(at(1_000), name(1)), Err(100));
        assert_eq!(buckets.take(at(1_000), name(2)), Ok(()));
        assert_eq!(buckets.take(at(1_050), name(1)), Err(50));
        assert_eq!(buckets.take(at(1_100), name(1)), Ok(()));
        assert_eq!(buckets.take(at(1_100), name(1)), Err(100));
        assert!((0..3).all(|_| buckets.take(at(9_000), name(1)).is_ok()));
        assert!(buckets.take(at(9_000), name(1)).is_err(), "no more than the burst is saved up");
    }

    #[test]
    fn memory_is_bounded_and_without_a_rate_nothing_is_counted() {
        let mut buckets = Buckets::new((1, 1), 4);
        for n in 0..100 {
            assert_eq!(buckets.take(at(1_000), name(n)), Ok(()));
            assert!(buckets.full_at.len() <= 4);
        }
        let mut minutes = Buckets::a_minute((2, 1), 4);
        let mut take = |ms| minutes.take(at(ms), name(1));
        assert_eq!([0, 29_999].map(&mut take), [Ok(()), Err(1)]);
        assert_eq!([30_000, 30_001].map(&mut take), [Ok(()), Err(29_999)]);
        minutes.give(name(1));
        assert_eq!(minutes.take(at(30_002), name(1)), Ok(()));
        let mut free = Buckets::new((0, 1), 4);
        assert!((0..100).all(|_| free.take(at(1_000), name(1)).is_ok()) && free.full_at.is_empty());
    }
}

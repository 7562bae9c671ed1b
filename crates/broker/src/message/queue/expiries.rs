//! When messages expire that wait in the log alone: how many, and what they weigh.
//!
//! A queue that is full knows by it how much of it has expired, before the log is read to remove
//! it: what has expired takes no room. Moments close to each other are one, the later: a message is
//! never taken for expired too early. The figures for messages that left the queue by another way
//! than [`Expiries::take`] are wrong until the log was read, so they are never trusted for longer.

use std::collections::VecDeque;

/// Moments that are distinguished.
const MOMENTS_MAX: usize = 16;

/// Messages and their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    pub count: u64,
    pub bytes: u64,
}

impl Load {
    fn add(&mut self, other: Load) {
        self.count += other.count;
        self.bytes += other.bytes;
    }

    /// Takes away, as far as it is there.
    fn take(&mut self, other: Load) {
        self.count = self.count.saturating_sub(other.count);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// Expiries of one queue.
#[derive(Default, Debug)]
pub(super) struct Expiries {
    /// Unix second and what expires then, in order.
    moments: VecDeque<(u32, Load)>,
    /// Expired messages that were not removed yet.
    expired: Load,
}

impl Expiries {
    /// A message that expires at this Unix second waits in the log.
    pub fn add(&mut self, expire_at: u32, bytes: u64) {
        let at = self.moments.partition_point(|(moment, _)| *moment < expire_at);
        let one = Load { count: 1, bytes };
        match self.moments.get_mut(at).filter(|(moment, _)| *moment == expire_at) {
            Some((_, load)) => load.add(one),
            None => self.moments.insert(at, (expire_at, one)),
        }
        if self.moments.len() > MOMENTS_MAX {
            self.join_nearest();
        }
    }

    /// The two moments that are nearest to each other become one.
    fn join_nearest(&mut self) {
        let gap = |at: &usize| self.moments[at + 1].0 - self.moments[*at].0;
        let Some(at) = (0..self.moments.len() - 1).min_by_key(gap) else { return };
        let Some((_, load)) = self.moments.remove(at) else { return };
        self.moments[at].1.add(load);
    }

    /// Notes that a message with this expiry no longer waits in the log alone.
    pub fn take(&mut self, expire_at: u32, bytes: u64) {
        let one = Load { count: 1, bytes };
        let at = self.moments.partition_point(|(moment, _)| *moment < expire_at);
        match self.moments.get_mut(at) {
            Some((_, load)) => {
                load.take(one);
                if load.count == 0 {
                    self.moments.remove(at);
                }
            }
            None => self.expired.take(one),
        }
    }

    /// Messages that have expired by now.
    pub fn expired(&mut self, unix_s: u32) -> Load {
        while let Some((_, load)) = self.moments.pop_front_if(|(moment, _)| *moment <= unix_s) {
            self.expired.add(load);
        }
        self.expired
    }

    /// The log is read from its beginning: waiting messages are added anew. Expired messages stay
    /// known until they were removed.
    pub fn begin(&mut self) {
        self.moments.clear();
    }

    /// Notes that an expired message was removed.
    pub fn removed(&mut self, bytes: u64) {
        self.expired.take(Load { count: 1, bytes });
    }

    /// The log was read to its end: nothing more is there that had expired before.
    pub fn end(&mut self) {
        self.expired = Load::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_counted_and_never_too_early() {
        let mut expiries = Expiries::default();
        for at in 1..=100 {
            expiries.add(at * 10, 7);
            assert!(expiries.moments.len() <= MOMENTS_MAX);
        }
        let all = Load { count: 100, bytes: 700 };
        assert_eq!((expiries.expired(9), expiries.expired(1_000)), (Load::default(), all));
        for now in 0..=1_000 {
            let mut one = Expiries::default();
            (1..=100).for_each(|at| one.add(at * 10, 7));
            assert!(one.expired(now).count <= u64::from(now / 10), "{now}");
        }
    }

    #[test]
    fn what_left_is_counted_no_more_and_what_was_removed_neither() {
        let mut expiries = Expiries::default();
        [(10, 1), (10, 2), (20, 4)].into_iter().for_each(|(at, bytes)| expiries.add(at, bytes));
        expiries.take(10, 2);
        expiries.take(20, 4);
        assert_eq!(expiries.expired(30), Load { count: 1, bytes: 1 });
        expiries.begin();
        expiries.add(40, 8);
        assert_eq!(expiries.expired(30), Load { count: 1, bytes: 1 }, "it is not removed yet");
        expiries.removed(1);
        assert_eq!(expiries.expired(30), Load::default());
        assert_eq!(expiries.expired(40), Load { count: 1, bytes: 8 });
        expiries.end();
        assert_eq!(expiries.expired(40), Load::default());
    }
}

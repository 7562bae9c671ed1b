//! Rate limits of what a client publishes and subscribes to: a rate, and twice as many at once.
//!
//! Kept as the moments at which what was taken so far is paid for, one for messages, one for bytes
//! and one for filters; nothing is counted down. A client beyond its rate is not read for a while.

use base::pace::cost;
use base::time::{Instant, Now};
use model::limits::TopicLimits;
use std::time::Duration;

/// Largest debt: as much as two seconds allow.
const DEBT_MAX: Duration = Duration::from_secs(2);
/// Debt that must be paid before a client that was held is read again.
const PAID: Duration = Duration::from_secs(1);

/// Debts of a client.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pace {
    messages_paid_at: Instant,
    bytes_paid_at: Instant,
    filters_paid_at: Instant,
    /// When it is read again, if it is held.
    pub(super) resume_at: Option<Instant>,
}

impl Pace {
    /// Whether the rates are limited at all.
    pub(super) fn is_set(limits: &TopicLimits) -> bool {
        limits.publishes_per_s != 0 || limits.publish_bytes_per_s != 0
    }

    /// Takes a message of so many bytes, or says when the client is to be read again.
    pub(super) fn take(
        &mut self,
        now: Now,
        bytes: usize,
        limits: &TopicLimits,
    ) -> Result<(), Instant> {
        let owed = self.messages_paid_at.max(self.bytes_paid_at);
        if owed - now.mono >= DEBT_MAX {
            return Err(Instant::from_nanos(owed.nanos() - PAID.as_nanos() as u64));
        }
        let messages = cost(1, limits.publishes_per_s.into());
        let bytes = cost(bytes as u64, limits.publish_bytes_per_s.into());
        self.messages_paid_at = self.messages_paid_at.max(now.mono) + messages;
        self.bytes_paid_at = self.bytes_paid_at.max(now.mono) + bytes;
        Ok(())
    }
}

impl Pace {
    /// Takes a packet with so many filters, or says when the client is to be read again. `true`:
    /// [`Pace::paid`] is to be asked when the first of them is paid for.
    pub(super) fn take_filters(
        &mut self,
        now: Now,
        count: usize,
        limits: &TopicLimits,
    ) -> Result<bool, Instant> {
        let owed = self.filters_paid_at;
        if owed - now.mono >= DEBT_MAX {
            return Err(Instant::from_nanos(owed.nanos() - PAID.as_nanos() as u64));
        }
        let begins = owed == Instant::default();
        self.filters_paid_at =
            owed.max(now.mono) + cost(count as u64, limits.subscribes_per_s.into());
        Ok(begins)
    }

    /// When its filters are paid for; `None`: they are, and nothing is kept of them.
    pub(super) fn paid(&mut self, now: Now) -> Option<Instant> {
        if self.filters_paid_at <= now.mono {
            self.filters_paid_at = Instant::default();
        }
        Some(self.filters_paid_at).filter(|at| *at != Instant::default())
    }
}

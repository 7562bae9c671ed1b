//! How fast a stream of another server or a component is read: at a rate, and twice as many bytes
//! at once.
//!
//! The volume of a domain is limited where its stanzas are taken in, but a stanza that is refused
//! there has been read, parsed and answered before. A stream that sends faster is read more slowly,
//! so that refused stanzas cannot keep the thread busy.

use base::pace::cost;
use base::time::{Instant, Now};
use std::time::Duration;

/// Bytes that a stanza counts for beside its own, as chat counts messages.
const A_STANZA: u64 = 512;
/// Largest debt: as much as two seconds allow.
const DEBT_MAX: Duration = Duration::from_secs(2);
/// Debt that must be paid before a stream that was held is read again.
const PAID: Duration = Duration::from_secs(1);

/// When what was read of a stream is paid for, and whether it is held until then.
#[derive(Default)]
pub(super) struct ReadPace {
    paid_at: Instant,
    resume_at: Option<Instant>,
}

impl ReadPace {
    /// A stanza of so many bytes was read. `Some`: nothing more is to be read before that moment.
    pub(super) fn reads(&mut self, now: Now, bytes: usize, per_s: u32) -> Option<Instant> {
        let cost = cost(bytes as u64 + A_STANZA, per_s.into());
        self.paid_at = self.paid_at.max(now.mono) + cost;
        let is_over = self.paid_at - now.mono >= DEBT_MAX;
        self.resume_at =
            is_over.then(|| Instant::from_nanos(self.paid_at.nanos() - PAID.as_nanos() as u64));
        self.resume_at
    }

    pub(super) fn is_held(&self) -> bool {
        self.resume_at.is_some()
    }

    /// `true`: the stream is to be read again.
    pub(super) fn resumes(&mut self, now: Now) -> bool {
        let resumes = self.resume_at.is_some_and(|at| at <= now.mono);
        if resumes {
            self.resume_at = None;
        }
        resumes
    }
}

//! When a call has to be over: the one place of this room that reads the clock.

use model::ports::presence::directory::DirectoryError;
use std::time::{Duration, Instant};

/// The end of a call's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Instant,
}

impl Deadline {
    /// Deadline so many milliseconds from now.
    pub(crate) fn after(ms: u32) -> Deadline {
        Deadline { end: now() + Duration::from_millis(u64::from(ms.max(1))) }
    }

    /// The time left, at least 1 microsecond; `Slow` when the deadline has passed.
    pub(crate) fn left(&self) -> Result<Duration, DirectoryError> {
        let left = self.end.saturating_duration_since(now());
        // A socket's limit of zero would be none at all.
        if left < Duration::from_micros(1) { Err(DirectoryError::Slow) } else { Ok(left) }
    }

    /// An earlier end, so that three quarters of what is left are over: the rest is for others.
    pub(crate) fn most(&self) -> Deadline {
        let now = now();
        Deadline { end: now + self.end.saturating_duration_since(now) / 4 * 3 }
    }

    /// An earlier end, so that what is left suffices for so many equal parts.
    pub(crate) fn share(&self, parts: usize) -> Deadline {
        let now = now();
        let left = self.end.saturating_duration_since(now);
        Deadline { end: now + left / parts.max(1) as u32 }
    }
}

#[expect(clippy::disallowed_methods, reason = "a call that blocks has to know when it is over")]
fn now() -> Instant {
    Instant::now()
}

//! The clock of a node's thread: it turns by itself, and nobody hands it the time.

use base::time::Instant;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the clock.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    began: std::time::Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the thread has no turn to take the time from")]
    pub(crate) fn begin() -> Clock {
        Clock { began: std::time::Instant::now() }
    }

    /// Time since it began.
    #[expect(clippy::disallowed_methods, reason = "the thread has no turn to take the time from")]
    pub(crate) fn now(&self) -> Instant {
        let since = std::time::Instant::now().duration_since(self.began);
        // Not at zero, where nothing has ever happened.
        Instant::from_nanos(1_000_000_000) + since
    }

    /// Unix milliseconds.
    #[expect(clippy::disallowed_methods, reason = "the thread has no turn to take the time from")]
    pub(crate) fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// Unix seconds.
    #[expect(clippy::disallowed_methods, reason = "the thread has no turn to take the time from")]
    pub(crate) fn now_s(&self) -> u32 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
    }
}

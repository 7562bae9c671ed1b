//! When a call has to be over: the one place of this crate that reads the clock.

use std::time::{Duration, Instant};

/// The end of a call's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So many milliseconds from now.
    pub(crate) fn after(ms: u32) -> Deadline {
        Deadline(now() + Duration::from_millis(u64::from(ms.max(1))))
    }

    /// The rest; `None`: nothing is left. A socket's limit of zero would be none at all.
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(now());
        (left >= Duration::from_micros(1)).then_some(left)
    }

    /// An earlier end, so that the rest suffices for so many equal parts.
    pub(crate) fn share(self, parts: usize) -> Deadline {
        let now = now();
        let left = self.0.saturating_duration_since(now);
        Deadline(now + left / u32::try_from(parts.max(1)).unwrap_or(u32::MAX))
    }
}

#[expect(clippy::disallowed_methods, reason = "a call that blocks has to know when it is over")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

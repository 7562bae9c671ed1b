//! Deadline of a call: the one place of this crate that reads the clock.

use std::time::{Duration, Instant};

/// The instant at which a call must be over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// A deadline this many milliseconds from now.
    pub(crate) fn after(ms: u32) -> Deadline {
        Deadline(now() + Duration::from_millis(u64::from(ms.max(1))))
    }

    /// The time left; `None` if none is. (A socket takes a limit of zero for no limit.)
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(now());
        (left >= Duration::from_micros(1)).then_some(left)
    }

    /// An earlier deadline, so that the time left suffices for this many equal parts.
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

//! The clocks of the measurements.
//!
//! All times are taken with [`now`]: the only reading of the monotonic clock in this crate. It does
//! not know what is measured. CPU time is not taken here: it comes from the scheduler
//! (`measure::cpu`).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a measurement is a difference of two readings")]
pub fn now() -> Instant {
    Instant::now()
}

/// Time since `earlier`.
pub fn since(earlier: Instant) -> Duration {
    now().duration_since(earlier)
}

/// Seconds since 1970-01-01 UTC.
#[expect(clippy::disallowed_methods, reason = "a stored result says when it was taken")]
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

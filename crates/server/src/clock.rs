//! The clock, where no shard can tell the time: before they turn, and for the API.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The process's beginning, the origin of its monotonic clock.
#[expect(clippy::disallowed_methods, reason = "read once, for all shards")]
pub fn began() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970-01-01 UTC.
#[expect(clippy::disallowed_methods, reason = "the API's threads have no turn that tells the time")]
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

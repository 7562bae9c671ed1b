//! The clock, where no shard can tell the time: before and after they turn, for the API and for
//! the logs.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Time passed since then.
#[expect(clippy::disallowed_methods, reason = "the start says how long it took")]
pub fn since(began: Instant) -> Duration {
    Instant::now() - began
}

/// Present time by both clocks, of a process that began then.
pub fn now(began: Instant) -> base::time::Now {
    let nanos = u64::try_from(since(began).as_nanos()).unwrap_or(u64::MAX);
    base::time::Now::new(base::time::Instant::from_nanos(nanos), wall_ms())
}

/// Microseconds of the clock that only rises, since an origin that all processes of the machine
/// have in common.
pub fn monotonic_us() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let us = i128::from(at.tv_sec) * 1_000_000 + i128::from(at.tv_nsec) / 1_000;
    u64::try_from(us).unwrap_or(0)
}

/// Seconds since 1970-01-01 UTC.
pub fn unix_s() -> u32 {
    u32::try_from(wall_ms() / 1_000).unwrap_or(u32::MAX)
}

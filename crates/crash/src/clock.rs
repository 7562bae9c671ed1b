//! The harness's clock: microseconds since its start.
//!
//! All records bear a time of this one monotonic clock, so that "answered before it was asked" can
//! be said of two threads. The wall clock dates the stored result alone.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

static START: OnceLock<Instant> = OnceLock::new();

/// Microseconds since the first call.
#[expect(clippy::disallowed_methods, reason = "a history is made of readings of the clock")]
pub fn now_us() -> u64 {
    let now = Instant::now();
    now.duration_since(*START.get_or_init(|| now)).as_micros() as u64
}

/// Seconds since 1970-01-01 UTC.
#[expect(clippy::disallowed_methods, reason = "a stored result says when it was taken")]
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Waits.
pub fn rest(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

//! The clocks: read here alone, once a turn of a session.

use base::time::{Instant, Now};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

static BEGAN: OnceLock<std::time::Instant> = OnceLock::new();

/// Reads the clocks; the monotonic one counts from the first call of this process.
#[expect(clippy::disallowed_methods, reason = "whoever waits for a broker has no turn to be told")]
pub fn now() -> Now {
    let began = *BEGAN.get_or_init(std::time::Instant::now);
    let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now::new(Instant::from_nanos(nanos), wall.as_millis() as u64)
}

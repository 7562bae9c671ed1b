//! The clock of a node's thread: it turns by itself, and nobody hands it the time.

use base::time::Instant;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads the clock. It goes on while the host is suspended (`CLOCK_BOOTTIME`, unlike
/// `std::time::Instant`): a proof from before a suspend is late after it.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    began: Duration,
}

impl Clock {
    pub(crate) fn begin() -> Clock {
        Clock { began: since_boot() }
    }

    /// Time since it began.
    pub(crate) fn now(&self) -> Instant {
        let since = since_boot().saturating_sub(self.began);
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

/// Time since the host began, suspends included.
fn since_boot() -> Duration {
    let at = clock_gettime(ClockId::Boottime);
    Duration::new(at.tv_sec.unsigned_abs(), at.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    #[test]
    fn the_clock_counts_suspends_as_the_host_s_uptime_does() {
        let uptime = || {
            let text = read_to_string("/proc/uptime").expect("Linux has it");
            let seconds = text.split_once(' ').expect("two numbers").0;
            Duration::from_secs_f64(seconds.parse().expect("seconds"))
        };
        let (before, own, after) = (uptime(), since_boot(), uptime());
        let hundredth = Duration::from_millis(10);
        assert!(own + hundredth >= before && own <= after + hundredth);
    }
}

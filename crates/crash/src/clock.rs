//! The harness's clock: microseconds since its start.
//!
//! Everything that is written down bears a time of this one monotonic clock, so that "answered
//! before it was asked" can be said of two threads. The wall clock dates the stored result alone.

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

/// `YYYY-MM-DD` and `HH:MM` of a Unix second, UTC.
pub fn date(unix_s: u64) -> (String, String) {
    let (mut year, mut days) = (1970, unix_s / 86_400);
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let day = format!("{year}-{:02}-{:02}", month + 1, days + 1);
    (day, format!("{:02}:{:02}", unix_s / 3600 % 24, unix_s / 60 % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_across_leap_years() {
        assert_eq!(date(951_782_400).0, "2000-02-29");
        assert_eq!(date(1_767_225_599), ("2025-12-31".to_owned(), "23:59".to_owned()));
    }
}

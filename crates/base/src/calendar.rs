//! Dates of the Gregorian calendar, for file names and results.
//!
//! It reads no clock: whoever has a Unix second is told its day and time in UTC.

/// `YYYY-MM-DD` of a Unix second, UTC.
pub fn date(unix_s: u64) -> String {
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
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

/// `HH:MM` of a Unix second, UTC.
pub fn hour(unix_s: u64) -> String {
    format!("{:02}:{:02}", unix_s / 3600 % 24, unix_s / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_across_leap_years() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_709_164_800), "2024-02-29");
        assert_eq!(date(4_107_542_399), "2100-02-28");
        assert_eq!(date(4_107_542_400), "2100-03-01");
        assert_eq!(date(1_767_225_599), "2025-12-31");
        assert_eq!(hour(1_767_225_599), "23:59");
    }

    #[test]
    fn every_month_begins_on_its_day() {
        let day = |days: u64| date(days * 86_400);
        let mut days = 20_454; // 2026-01-01
        for (month, length) in
            [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate()
        {
            assert_eq!(day(days), format!("2026-{:02}-01", month + 1));
            days += length;
            assert_eq!(day(days - 1), format!("2026-{:02}-{length}", month + 1));
        }
        assert_eq!(
            (hour(0), hour(3_599), hour(3_600)),
            ("00:00".into(), "00:59".into(), "01:00".into())
        );
    }
}

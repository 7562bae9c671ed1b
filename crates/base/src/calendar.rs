//! Dates of the Gregorian calendar, for file names, results and questions.
//!
//! This module reads no clock: it converts a Unix second to a day and a time in UTC, and back.

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

/// The Unix day of a date, counted from 0; negative before 1970. `None`: there is no such day.
pub fn unix_day(year: u16, month: u8, day: u8) -> Option<i64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, 28 + u8::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = lengths.get(..usize::from(month.checked_sub(1)?))?;
    let length = lengths.get(before.len())?;
    if !(1..=*length).contains(&day) {
        return None;
    }
    // Of the years that are over, each fourth had a day more, but for three of four hundreds.
    let over = i64::from(year) - 1;
    let days = over * 365 + over.div_euclid(4) - over.div_euclid(100) + over.div_euclid(400);
    let days = days + before.iter().copied().map(i64::from).sum::<i64>() + i64::from(day) - 1;
    Some(days - UNIX_BEGINS)
}

/// Days from the first of the year 1 to the first of 1970.
const UNIX_BEGINS: i64 = 719_162;

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
    fn days_are_counted_as_they_are_dated() {
        for day in (0..60_000).chain([2_932_896]) {
            let text = date(day * 86_400);
            let mut parts = text.split('-').map(|part| part.parse::<u16>().expect("a number"));
            let mut next = || parts.next().expect("three parts");
            let (year, month, of_month) = (next(), next() as u8, next() as u8);
            assert_eq!(unix_day(year, month, of_month), Some(day as i64), "{text}");
        }
        assert_eq!(unix_day(1969, 12, 31), Some(-1));
        assert_eq!(unix_day(1, 1, 1), Some(-719_162));
        for (year, month, day) in
            [(2026, 0, 1), (2026, 13, 1), (2026, 4, 31), (2026, 1, 0), (2025, 2, 29), (1900, 2, 29)]
        {
            assert_eq!(unix_day(year, month, day), None);
        }
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

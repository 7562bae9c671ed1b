//! Times as they come from outside (XEP-0082 3.2): a date, a time, fractions if there are any, and
//! how far that is from UTC.
//!
//! ```text
//! 2026-11-25T19:31:07.25Z      2026-11-25T21:31:07+02:00
//! ```
//! Read strictly; what the calendar does not have is no time. Unix milliseconds: what is before
//! 1970 is then.

/// A time, between two milliseconds or at one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DateTime {
    /// Unix milliseconds, the rest left away.
    pub floor_ms: u64,
    /// Unix milliseconds, rounded up.
    pub ceil_ms: u64,
}

/// Reads one; `None`: it is none.
pub fn moment(text: &str) -> Option<DateTime> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let (month, day) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() {
        return None;
    }
    let days = base::calendar::unix_day(year, month as u8, day as u8)?;
    let zone_at = time.find(['Z', '+', '-'])?;
    let (time, zone) = time.split_at(zone_at);
    let (clock, fraction) = time.split_once('.').map_or((time, None), |(c, f)| (c, Some(f)));
    let mut parts = clock.split(':');
    let mut next = |most: u16| digits(parts.next()?, 2).filter(|it| *it <= most).map(i64::from);
    // A second that was put in is the last of its minute (XML Schema has none).
    let (hour, minute, second) = (next(23)?, next(59)?, next(60)?.min(59));
    if parts.next().is_some() {
        return None;
    }
    let (fraction_ms, is_between) = fraction.map_or(Some((0, false)), thousandths)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - zone_s(zone)?;
    let ms = (seconds * 1_000 + fraction_ms).max(0) as u64;
    Some(DateTime { floor_ms: ms, ceil_ms: ms + u64::from(is_between && seconds >= 0) })
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<u16> {
    let is_right = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_right.then(|| text.parse().ok())?
}

/// Thousandths of a fraction, and whether it has more than those.
fn thousandths(fraction: &str) -> Option<(i64, bool)> {
    /// Digits of a fraction that are looked at.
    const DIGITS_MAX: usize = 32;
    let is_right = (1..=DIGITS_MAX).contains(&fraction.len())
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_right {
        return None;
    }
    let (first, rest) = fraction.split_at(fraction.len().min(3));
    let ms = format!("{first:0<3}").parse().ok()?;
    Some((ms, rest.bytes().any(|byte| byte != b'0')))
}

/// Seconds east of UTC.
fn zone_s(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, zone) = match zone.split_at_checked(1)? {
        ("+", zone) => (1, zone),
        ("-", zone) => (-1, zone),
        _ => return None,
    };
    let (hours, minutes) = zone.split_once(':')?;
    let hours = digits(hours, 2).filter(|hours| *hours <= 14)?;
    let minutes = digits(minutes, 2).filter(|minutes| *minutes <= 59)?;
    Some(sign * (i64::from(hours) * 3_600 + i64::from(minutes) * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stanza::timestamp;

    #[test]
    fn times_are_read_as_they_are_written() {
        for ms in [0, 7, 1_700_000_000_007, 951_782_400_000, 253_402_300_799_999] {
            let both = DateTime { floor_ms: ms, ceil_ms: ms };
            assert_eq!(moment(&timestamp(ms)), Some(both), "{}", timestamp(ms));
        }
        let of = |text: &str| moment(text).map(|it| (it.floor_ms, it.ceil_ms));
        assert_eq!(of("2023-11-14T22:13:20Z"), Some((1_700_000_000_000, 1_700_000_000_000)));
        assert_eq!(of("2023-11-15T00:13:20.5+02:00"), Some((1_700_000_000_500, 1_700_000_000_500)));
        assert_eq!(of("2023-11-14T16:43:20-05:30"), Some((1_700_000_000_000, 1_700_000_000_000)));
        assert_eq!(of("2023-11-14T22:13:20.0071Z"), Some((1_700_000_000_007, 1_700_000_000_008)));
        assert_eq!(of("2023-11-14T22:13:20.007000Z"), of("2023-11-14T22:13:20.007Z"));
        assert_eq!(of("0001-01-01T00:00:00Z"), Some((0, 0)), "before there was anything");
        assert_eq!(of("1969-12-31T23:59:59.9999Z"), Some((0, 0)));
        assert_eq!(of("2016-12-31T23:59:60Z"), of("2016-12-31T23:59:59Z"));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "T",
            "now",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-11-14 22:13:20Z",
            "2023-11-14T22:13Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20.+7Z",
            "2023-11-14T22:13:20Zx",
            "2023-11-14T22:13:20:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:60:00Z",
            "2023-11-14T22:13:61Z",
            "2023-11-14T22:13:20+0200",
            "2023-11-14T22:13:20+15:00",
            "2023-11-14T22:13:20+é:00",
            "2023-02-30T22:13:20Z",
            "2023-13-01T22:13:20Z",
            "23-11-14T22:13:20Z",
            "12023-11-14T22:13:20Z",
            "-2023-11-14T22:13:20Z",
            "2023-11-14-01T22:13:20Z",
            "+023-11-14T22:13:20Z",
            &format!("2023-11-14T22:13:20.{}Z", "0".repeat(33)),
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}

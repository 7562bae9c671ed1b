//! Recurring times, and the schedules of pushes that are made of them.
//!
//! A calendar is the five fields of a cron line; daily, weekly and monthly times are such lines.
//! It yields times as clocks show them: the caller knows the zone. Invariant: a calendar that was
//! made shows at least one time within [`YEARS_MAX`] years of any day.

use crate::id::{MessageId, ProductKey, ScheduleName};
use crate::ports::pushes::PushOrder;
use crate::zone::{CivilTime, FIRST_MS, Zone};
use std::fmt;

/// Years in which every date comes, also 29 February around 2100.
const YEARS_MAX: u32 = 8;

/// Minutes of a day.
const DAY: u32 = 24 * 60;

/// Longest cron line, bytes.
pub const CRON_BYTES_MAX: usize = 128;

/// Times that a rule of five fields yields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Calendar {
    line: Box<str>,
    minutes: u64,
    hours: u32,
    days: u32,
    months: u16,
    weekdays: u8,
    /// A day matches by its day of the month or by its weekday, because the line restricts both.
    is_either: bool,
}

/// Mistake in a cron line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CronError {
    /// The number of fields is not five, or the line has too many bytes.
    Shape,
    /// This field cannot be read; its name and its range.
    Field(&'static str, u8, u8),
    /// No day is ever matched.
    Never,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CronError::Shape => write!(
                f,
                "must have five fields (minute, hour, day of the month, month, weekday) in at most \
                 {CRON_BYTES_MAX} bytes"
            ),
            CronError::Field(name, first, last) => write!(
                f,
                "has a wrong {name}: give *, numbers from {first} to {last}, ranges a-b, steps */n \
                 or a-b/n, or a list of these with commas"
            ),
            CronError::Never => f.write_str("names a day that never comes"),
        }
    }
}

impl Calendar {
    /// The calendar of a cron line: minute, hour, day of the month, month, weekday (0 and 7 are
    /// Sunday). A day matches either restricted field of days.
    pub fn cron(line: &str) -> Result<Calendar, CronError> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[minute, hour, day, month, weekday] = &fields[..] else {
            return Err(CronError::Shape);
        };
        if line.len() > CRON_BYTES_MAX {
            return Err(CronError::Shape);
        }
        let weekdays = field(weekday, ("weekday", 0, 7))?;
        let calendar = Calendar {
            line: fields.join(" ").into(),
            minutes: field(minute, ("minute", 0, 59))?,
            hours: field(hour, ("hour", 0, 23))? as u32,
            days: field(day, ("day of the month", 1, 31))? as u32,
            months: field(month, ("month", 1, 12))? as u16,
            weekdays: (weekdays | weekdays >> 7) as u8 & 0x7f,
            is_either: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        let start = CivilTime::of_minutes(0).ok_or(CronError::Never)?;
        calendar.after(start).map(|_| calendar).ok_or(CronError::Never)
    }

    /// The cron line, its fields with one space between them.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The first time after this one.
    pub fn after(&self, time: CivilTime) -> Option<CivilTime> {
        let day = time.days();
        let on = |day: u32, from: u32| {
            self.has_day(day).then(|| (from..DAY).find(|&minute| self.has_minute(minute)))?
        };
        let first = on(day, u32::from(time.of_day()) + 1).map(|minute| (day, minute));
        let later = || (day + 1..=day + YEARS_MAX * 366).find_map(|day| Some((day, on(day, 0)?)));
        let (day, minute) = first.or_else(later)?;
        CivilTime::of_minutes(day * DAY + minute)
    }

    /// The last time up to this one, but after `since`.
    pub fn last(&self, since: CivilTime, time: CivilTime) -> Option<CivilTime> {
        let on = |day: u32, to: u32| {
            let minute = || (0..=to).rev().find(|&minute| self.has_minute(minute));
            self.has_day(day).then(minute)?.map(|minute| day * DAY + minute)
        };
        let today = on(time.days(), u32::from(time.of_day()));
        let before = || (since.days()..time.days()).rev().find_map(|day| on(day, DAY - 1));
        let found = today.or_else(before).filter(|minutes| *minutes > since.minutes())?;
        CivilTime::of_minutes(found)
    }

    fn has_minute(&self, of_day: u32) -> bool {
        self.hours >> (of_day / 60) & 1 == 1 && self.minutes >> (of_day % 60) & 1 == 1
    }

    fn has_day(&self, day: u32) -> bool {
        let Some(time) = CivilTime::of_minutes(day * DAY) else { return false };
        let (month, day, weekday) = time.date();
        let has_day = self.days >> day & 1 == 1;
        let has_weekday = self.weekdays >> weekday & 1 == 1;
        self.months >> month & 1 == 1
            && if self.is_either { has_day || has_weekday } else { has_day && has_weekday }
    }
}

/// The bits of a field of a cron line.
fn field(text: &str, (name, first, last): (&'static str, u8, u8)) -> Result<u64, CronError> {
    let wrong = || CronError::Field(name, first, last);
    let number = |text: &str| {
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let value = text.parse::<u8>().ok().filter(|_| is_number);
        value.filter(|value| (first..=last).contains(value)).ok_or_else(wrong)
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (first, last),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step.is_none() => (number(range)?, number(range)?),
            None => return Err(wrong()),
        };
        let digits = |step: &str| step.parse::<u8>().ok().filter(|step| (1..=last).contains(step));
        let step = step.map_or(Ok(1), |step| digits(step).ok_or_else(wrong))?;
        if from > to {
            return Err(wrong());
        }
        (from..=to).step_by(step.into()).for_each(|value| bits |= 1 << value);
    }
    Ok(bits)
}

/// A push that is sent again and again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Name of the schedule within the product of its push.
    pub name: ScheduleName,
    /// When it is sent.
    pub calendar: Calendar,
    /// Zone of the calendar; with `local`, of devices without a zone.
    pub zone: Zone,
    /// The calendar is that of each device's clock.
    pub local: bool,
    /// Nothing is sent before this time.
    pub from: Option<CivilTime>,
    /// Nothing is sent after this time.
    pub until: Option<CivilTime>,
    /// Number of pushes after which it ends.
    pub count: Option<u32>,
    /// The push. It has no time and no idempotency key.
    pub push: PushOrder,
}

impl Schedule {
    /// Product of the devices.
    pub fn product(&self) -> &ProductKey {
        &self.push.product
    }

    /// Unix millisecond at which a time of the calendar comes; with `local`, to the first zone.
    pub fn due_ms(&self, time: CivilTime) -> u64 {
        if self.local { time.first_anywhere_ms() } else { self.zone.first_ms(time) }
    }

    /// Unix millisecond at which the last device gets the push of a time.
    pub fn last_due_ms(&self, time: CivilTime) -> u64 {
        if self.local { time.last_anywhere_ms() } else { self.due_ms(time) }
    }

    /// The time that the schedule's clock shows; with `local`, that of the first zone.
    pub fn shows(&self, at_ms: u64) -> CivilTime {
        if self.local { Zone::UTC.shows(at_ms + FIRST_MS) } else { self.zone.shows(at_ms) }
    }

    /// The first time after this one at which a push is sent, if the schedule has not ended.
    pub fn after(&self, time: CivilTime) -> Option<CivilTime> {
        let from = self.from.and_then(|from| CivilTime::of_minutes(from.minutes().wrapping_sub(1)));
        let next = self.calendar.after(from.map_or(time, |from| from.max(time)))?;
        self.until.is_none_or(|until| next <= until).then_some(next)
    }

    /// The last time up to this one, but after `since`, at which a push is sent.
    pub fn last(&self, since: CivilTime, time: CivilTime) -> Option<CivilTime> {
        let time = self.until.map_or(time, |until| until.min(time));
        let last = self.calendar.last(since, time)?;
        self.from.is_none_or(|from| last >= from).then_some(last)
    }
}

/// Most ids of pushes that a schedule remembers.
pub const LAST_IDS_MAX: usize = 8;

/// Most next times of a schedule in an answer.
pub const NEXT_TIMES_MAX: usize = 4;

/// State of a schedule, for the API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleState {
    /// The schedule.
    pub schedule: Schedule,
    /// Whether it is paused.
    pub paused: bool,
    /// Pushes that it has ordered.
    pub sent: u32,
    /// Ids of the last ones, the latest first; at most [`LAST_IDS_MAX`].
    pub last_ids: Vec<MessageId>,
    /// Unix milliseconds at which the next ones are sent; none if it is paused or has ended. At
    /// most [`NEXT_TIMES_MAX`].
    pub next_ms: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> CivilTime {
        CivilTime::parse(text).expect("a time")
    }

    fn times(line: &str, from: &str) -> Vec<String> {
        let calendar = Calendar::cron(line).expect(line);
        let mut at = time(from);
        let next = |_| {
            let next = calendar.after(at).expect("one comes");
            assert_eq!(calendar.last(at, next), Some(next), "{line}");
            at = next;
            next.to_string()
        };
        (0..3).map(next).collect()
    }

    #[test]
    fn a_calendar_yields_the_times_of_its_line() {
        let from = "2026-11-30T13:00";
        for (line, expected) in [
            ("0 9 * * *", ["2026-12-01T09:00", "2026-12-02T09:00", "2026-12-03T09:00"]),
            ("*/20 13 * * *", ["2026-11-30T13:20", "2026-11-30T13:40", "2026-12-01T13:00"]),
            ("0 9 * * 1,4", ["2026-12-03T09:00", "2026-12-07T09:00", "2026-12-10T09:00"]),
            ("30 18 * * 7", ["2026-12-06T18:30", "2026-12-13T18:30", "2026-12-20T18:30"]),
            ("0 0 31 * *", ["2026-12-31T00:00", "2027-01-31T00:00", "2027-03-31T00:00"]),
            ("0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00", "2036-02-29T00:00"]),
            ("0 12 1 * 5", ["2026-12-01T12:00", "2026-12-04T12:00", "2026-12-11T12:00"]),
            ("5-10/5 0 1 1-12/6 *", ["2027-01-01T00:05", "2027-01-01T00:10", "2027-07-01T00:05"]),
        ] {
            assert_eq!(times(line, from), expected, "{line}");
        }
        assert_eq!(times("0 0 29 2 *", "2096-03-01T00:00")[0], "2104-02-29T00:00");
    }

    #[test]
    fn the_last_time_is_after_the_given_one() {
        let calendar = Calendar::cron("0 9 * * 1").expect("a line");
        let last = |since, at| calendar.last(time(since), time(at)).map(|at| at.to_string());
        let monday = Some("2026-11-30T09:00".to_owned());
        assert_eq!(last("2026-11-01T00:00", "2026-12-06T23:00"), monday);
        assert_eq!(last("2026-11-30T08:59", "2026-11-30T09:00"), monday);
        assert_eq!(last("2026-11-30T09:00", "2026-12-06T23:00"), None);
        assert_eq!(last("2026-12-30T09:00", "2026-12-06T23:00"), None);
    }

    #[test]
    fn a_wrong_line_is_told_by_its_field() {
        for line in ["", "* * * *", "* * * * * *", &"* ".repeat(100)] {
            assert_eq!(Calendar::cron(line), Err(CronError::Shape), "{line}");
        }
        for (line, name) in [
            ("60 * * * *", "minute"),
            ("x * * * *", "minute"),
            ("*/0 * * * *", "minute"),
            ("5/2 * * * *", "minute"),
            ("-1 * * * *", "minute"),
            ("1,,2 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* 9-5 * * *", "hour"),
            ("* * 0 * *", "day of the month"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "weekday"),
        ] {
            let error = Calendar::cron(line);
            assert!(matches!(error, Err(CronError::Field(of, ..)) if of == name), "{line}");
        }
        assert_eq!(Calendar::cron("0 0 30 2 *"), Err(CronError::Never));
        assert_eq!(Calendar::cron("0 0 31 4,6,9,11 *"), Err(CronError::Never));
    }
}

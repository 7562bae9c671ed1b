//! Time zones, and pushes that are sent by the clocks of devices or again and again, as they are
//! written, checked into the model's words.

use super::PushBody;
use crate::fault::Fault;
use crate::texts::{CivilTimeText, ClockText, ProductName, ScheduleText, WeekdayWord, ZoneName};
use base::text::quoted;
use model::calendar::{CRON_BYTES_MAX, Calendar, Schedule};
use model::id::{MessageId, ScheduleName};
use model::limits::Limits;
use model::zone::{CivilTime, LocalTime, Passed, Zone};
use schemars::JsonSchema;
use serde::Deserialize;

/// Days of the week, as they are written; Sunday is the first.
pub(crate) const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The time zone of a device.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeviceZoneOrder")]
pub(crate) struct ZoneBody {
    /// Name of the IANA database, such as Europe/Berlin.
    #[schemars(with = "ZoneName")]
    zone: String,
}

impl ZoneBody {
    pub(crate) fn zone(&self) -> Result<Zone, Fault> {
        zone(&self.zone)
    }
}

/// The zone with this name.
fn zone(name: &str) -> Result<Zone, Fault> {
    Zone::parse(name).ok_or_else(|| {
        let name = quoted(name);
        let words = "give a name of the IANA database, such as Europe/Berlin";
        Fault::bad(format!("`zone` is {name}, which is no time zone: {words}"))
    })
}

/// A time as clocks show it, of the field with this name.
fn civil(field: &str, text: &str) -> Result<CivilTime, Fault> {
    CivilTime::parse(text).ok_or_else(|| {
        let text = quoted(text);
        Fault::bad(format!("`{field}` is {text}: give a time such as 2026-12-24T18:00"))
    })
}

impl PushBody {
    /// The sending time by the devices' clocks, if it has one.
    pub(super) fn local(
        &self,
        limits: &Limits,
        now_ms: u64,
        has_key: bool,
    ) -> Result<Option<LocalTime>, Fault> {
        let Some(text) = &self.at_local else {
            return match self.zone.is_none() && self.passed.is_none() {
                true => Ok(None),
                false => Err(Fault::bad("`zone` and `passed` need `at_local`")),
            };
        };
        if self.send_at_ms.is_some() || self.wait_ms > 0 {
            return Err(Fault::bad(
                "give one of `at_local`, `send_at_ms` and `wait_ms`: a scheduled push is answered \
                 at once",
            ));
        }
        let at = civil("at_local", text)?;
        let zone = self.zone.as_deref().map_or(Ok(Zone::UTC), zone)?;
        let word = self.passed.as_deref().unwrap_or("send");
        let passed = Passed::ALL.into_iter().find(|(name, _)| *name == word);
        let (_, passed) = passed.ok_or_else(|| Fault::bad("`passed` must be `send` or `skip`"))?;
        let (last_ms, ahead_s) = (at.last_anywhere_ms(), limits.pushes.schedule_s_max);
        // Whether an order with a key repeats an earlier one, the hub knows.
        if last_ms <= now_ms && !has_key {
            return Err(Fault::bad(format!("`at_local` is {at}, which has passed in every zone")));
        }
        if last_ms > now_ms + u64::from(ahead_s) * 1_000 {
            return Err(Fault::bad(format!(
                "`at_local` is {at}, which is too far ahead: [limits] schedule_s_max allows \
                 {ahead_s} seconds until it has come in every zone"
            )));
        }
        Ok(Some(LocalTime { at, zone, passed }))
    }
}

/// A push that is sent again and again. Exactly one of `cron`, `daily`, `weekly` and `monthly`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScheduleOrder")]
pub(crate) struct ScheduleBody {
    /// Name of the schedule within the product of its push.
    #[schemars(with = "ScheduleText")]
    name: String,
    /// The push, as in `POST /v1/pushes`, without `send_at_ms`, `at_local`, `wait_ms` and
    /// `dry_run`.
    push: PushBody,
    /// Five fields: minute, hour, day of the month, month, weekday (0 and 7 are Sunday). Each is
    /// `*`, a number, a range, a step or a list of these; a day matches either of the fields for
    /// days if both are restricted.
    #[schemars(length(min = 9, max = CRON_BYTES_MAX))]
    cron: Option<String>,
    /// Every day.
    daily: Option<DailyBody>,
    /// On days of the week.
    weekly: Option<WeeklyBody>,
    /// On days of the month. A month without such a day is passed over.
    monthly: Option<MonthlyBody>,
    /// Time zone of the times; with `local`, of devices without a zone.
    #[schemars(with = "Option<ZoneName>", extend("default" = "UTC"))]
    zone: Option<String>,
    /// Each device gets the push when its own clock shows the time.
    #[serde(default)]
    local: bool,
    /// No push is sent before this time.
    #[schemars(with = "Option<CivilTimeText>")]
    from: Option<String>,
    /// No push is sent after this time.
    #[schemars(with = "Option<CivilTimeText>")]
    until: Option<String>,
    /// Number of pushes after which it ends.
    #[schemars(range(min = 1))]
    count: Option<u32>,
}

/// Every day at a time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Daily")]
struct DailyBody {
    /// Hour and minute.
    #[schemars(with = "ClockText")]
    at: String,
}

/// On days of the week at a time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Weekly")]
struct WeeklyBody {
    /// The days.
    #[schemars(with = "Vec<WeekdayWord>", length(min = 1, max = 7))]
    days: Vec<String>,
    /// Hour and minute.
    #[schemars(with = "ClockText")]
    at: String,
}

/// On days of the month at a time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Monthly")]
struct MonthlyBody {
    /// The days, 1 to 31.
    #[schemars(length(min = 1, max = 31), inner(range(min = 1, max = 31)))]
    days: Vec<u8>,
    /// Hour and minute.
    #[schemars(with = "ClockText")]
    at: String,
}

impl ScheduleBody {
    /// The schedule. `id` is called only after all checks.
    pub(crate) fn schedule(
        self,
        limits: &Limits,
        now_ms: u64,
        id: impl FnOnce() -> MessageId,
    ) -> Result<Schedule, Fault> {
        let name = ScheduleName::parse(&self.name)
            .map_err(|error| Fault::bad(format!("`name` {error}")))?;
        let line = self.line()?;
        let calendar =
            Calendar::cron(&line).map_err(|error| Fault::bad(format!("`cron` {error}")))?;
        let zone = self.zone.as_deref().map_or(Ok(Zone::UTC), zone)?;
        let from = self.from.as_deref().map(|text| civil("from", text)).transpose()?;
        let until = self.until.as_deref().map(|text| civil("until", text)).transpose()?;
        if self.count == Some(0) {
            return Err(Fault::bad("`count` must be at least 1"));
        }
        let push = self.push;
        let is_timed = push.send_at_ms.is_some() || push.at_local.is_some();
        if is_timed || push.wait_ms > 0 || push.dry_run {
            return Err(Fault::bad(
                "give no `send_at_ms`, `at_local`, `wait_ms` and `dry_run` in `push`: the \
                 schedule says when it is sent",
            ));
        }
        let push = push.stored(limits, now_ms, id).map_err(|fault| fault.within("push"))?;
        let (local, count) = (self.local, self.count);
        let schedule = Schedule { name, calendar, zone, local, from, until, count, push };
        match schedule.after(schedule.shows(now_ms)) {
            Some(_) => Ok(schedule),
            None => Err(Fault::bad("no time of the schedule is still to come before `until`")),
        }
    }

    /// The rule as a cron line.
    fn line(&self) -> Result<String, Fault> {
        match (&self.cron, &self.daily, &self.weekly, &self.monthly) {
            (Some(line), None, None, None) => Ok(line.clone()),
            (None, Some(daily), None, None) => Ok(format!("{} * * *", clock("daily", &daily.at)?)),
            (None, None, Some(weekly), None) => {
                let number = |day: &String| {
                    let at = WEEKDAYS.iter().position(|name| name == day);
                    at.map(|at| at.to_string()).ok_or_else(|| {
                        let (day, all) = (quoted(day), WEEKDAYS.join(", "));
                        Fault::bad(format!("`weekly.days` has {day}: give some of {all}"))
                    })
                };
                let days = weekly.days.iter().map(number).collect::<Result<Vec<_>, _>>()?;
                let days = list("weekly", &days)?;
                Ok(format!("{} * * {days}", clock("weekly", &weekly.at)?))
            }
            (None, None, None, Some(monthly)) => {
                if let Some(day) = monthly.days.iter().find(|day| !(1..=31).contains(*day)) {
                    let words = "give days from 1 to 31";
                    return Err(Fault::bad(format!("`monthly.days` has {day}: {words}")));
                }
                let days: Vec<_> = monthly.days.iter().map(u8::to_string).collect();
                let days = list("monthly", &days)?;
                Ok(format!("{} {days} * *", clock("monthly", &monthly.at)?))
            }
            _ => Err(Fault::bad("give exactly one of `cron`, `daily`, `weekly` and `monthly`")),
        }
    }
}

fn list(field: &str, days: &[String]) -> Result<String, Fault> {
    match (1..=31).contains(&days.len()) {
        true => Ok(days.join(",")),
        false => Err(Fault::bad(format!("`{field}.days` must have 1 to 31 days"))),
    }
}

/// Minute and hour of a text such as 09:30, as fields of a cron line.
fn clock(field: &str, text: &str) -> Result<String, Fault> {
    let number = |text: &str, max: u8| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u8>().ok().filter(|number| is_number && *number <= max)
    };
    let read = text
        .split_once(':')
        .and_then(|(hour, minute)| Some((number(hour, 23)?, number(minute, 59)?)));
    let (hour, minute) = read.ok_or_else(|| {
        let text = quoted(text);
        Fault::bad(format!("`{field}.at` is {text}: give hour and minute, such as 09:30"))
    })?;
    Ok(format!("{minute} {hour}"))
}

/// Query of `GET /v1/schedules`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SchedulesQuery {
    /// Only those of this product.
    #[schemars(with = "Option<ProductName>")]
    pub(crate) product: Option<String>,
}

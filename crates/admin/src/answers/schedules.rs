//! Schedules in answers: the rule, the next times, and the last pushes.
//!
//! This module does not know the hub.

use crate::texts::{CivilTimeText, Decimal, ScheduleText, ZoneName};
use model::calendar::{LAST_IDS_MAX, NEXT_TIMES_MAX, ScheduleState};
use schemars::JsonSchema;
use serde::Serialize;

/// Schedules.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Schedules {
    /// All that were asked for, by product and name.
    pub(crate) schedules: Vec<Schedule>,
}

/// A push that is sent again and again.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Schedule {
    /// Its name.
    #[schemars(with = "ScheduleText")]
    name: String,
    /// Product of the devices.
    product: String,
    /// Its rule as a cron line.
    cron: String,
    /// Time zone of its times; with `local`, of devices without a zone.
    #[schemars(with = "ZoneName")]
    zone: &'static str,
    /// Whether each device gets the push by its own clock.
    local: bool,
    /// No push is sent before this time.
    #[schemars(with = "Option<CivilTimeText>")]
    from: Option<String>,
    /// No push is sent after this time.
    #[schemars(with = "Option<CivilTimeText>")]
    until: Option<String>,
    /// Number of pushes after which it ends.
    count: Option<u32>,
    /// Seconds that each push may wait for a device.
    ttl_s: u32,
    /// Whether it is paused.
    paused: bool,
    /// Number of pushes that it has sent.
    sent: u32,
    /// When the next pushes are sent, Unix milliseconds; with `local`, to the first zone. Empty if
    /// it is paused or has ended.
    #[schemars(length(max = NEXT_TIMES_MAX))]
    next_ms: Vec<u64>,
    /// Ids of its last pushes, the latest first.
    #[schemars(with = "Vec<Decimal>", length(max = LAST_IDS_MAX))]
    last_ids: Vec<String>,
}

impl From<&ScheduleState> for Schedule {
    fn from(state: &ScheduleState) -> Schedule {
        let schedule = &state.schedule;
        Schedule {
            name: schedule.name.as_str().into(),
            product: schedule.product().as_str().into(),
            cron: schedule.calendar.line().into(),
            zone: schedule.zone.as_str(),
            local: schedule.local,
            from: schedule.from.map(|time| time.to_string()),
            until: schedule.until.map(|time| time.to_string()),
            count: schedule.count,
            ttl_s: schedule.push.time_to_live_s,
            paused: state.paused,
            sent: state.sent,
            next_ms: state.next_ms.clone(),
            last_ids: state.last_ids.iter().map(|id| id.0.to_string()).collect(),
        }
    }
}

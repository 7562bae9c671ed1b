//! Alarms, as the API shows them.

use crate::feed::alarms::{Alarm, LEVELS};
use schemars::JsonSchema;
use serde::Serialize;

/// An alarm.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Alarm")]
pub(crate) struct AlarmShown {
    /// Its id; later alarms have higher ones.
    id: u64,
    /// Kind of its condition; later versions may add some.
    kind: &'static str,
    /// Severity.
    #[schemars(extend("enum" = LEVELS))]
    level: &'static str,
    /// Which bridge, webhook, log or file; empty where there is only one.
    subject: String,
    /// The condition, as it was last.
    text: String,
    /// Unix millisecond at which it was raised.
    raised_ms: u64,
    /// Unix millisecond at which its condition was over; null: it is active.
    cleared_ms: Option<u64>,
    /// Unix millisecond at which it was acknowledged; null: it was not.
    acknowledged_ms: Option<u64>,
    /// Name of the token or user that acknowledged it.
    acknowledged_by: Option<String>,
}

impl From<&Alarm> for AlarmShown {
    fn from(alarm: &Alarm) -> AlarmShown {
        AlarmShown {
            id: alarm.id,
            kind: alarm.kind.name,
            level: alarm.level(),
            subject: alarm.subject.clone(),
            text: alarm.text.clone(),
            raised_ms: alarm.raised_ms,
            cleared_ms: alarm.cleared_ms,
            acknowledged_ms: alarm.acknowledged.as_ref().map(|(at_ms, _)| *at_ms),
            acknowledged_by: alarm.acknowledged.as_ref().map(|(_, by)| by.clone()),
        }
    }
}

/// Alarms.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AlarmList {
    /// The newest first.
    pub(crate) alarms: Vec<AlarmShown>,
    /// How many are active.
    pub(crate) active: u64,
}

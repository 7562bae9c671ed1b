//! Figures of the last hour, for charts that have a past when they are opened.
//!
//! A list for each figure, in the order of the moments. Each value is the count of a step, not a
//! sum since the start, so that a restart or a missing moment does no harm.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The figures of the overview's charts, over time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OverviewHistory {
    /// Seconds between two moments.
    pub(crate) step_s: u32,
    /// Unix millisecond at which the step of the first moment began.
    pub(crate) from_ms: u64,
    /// Unix milliseconds at which the steps ended, oldest first.
    pub(crate) at_ms: Vec<u64>,
    /// Gauges: the highest value of each step. Null: unknown.
    pub(crate) highest: Highest,
    /// Counts of each step.
    pub(crate) counted: Counted,
    /// Online devices and clients by protocol, the highest number of each step.
    pub(crate) online: BTreeMap<&'static str, Vec<u32>>,
}

/// Gauges.
#[derive(Serialize, JsonSchema, Default)]
#[schemars(rename = "HistoryHighest")]
pub(crate) struct Highest {
    /// Open connections.
    pub(crate) connections: Vec<u64>,
    /// Memory of the process in RAM, bytes.
    pub(crate) resident_bytes: Vec<Option<u64>>,
    /// Longest turn of a shard, microseconds.
    pub(crate) turn_us: Vec<u64>,
    /// Queued MQTT messages.
    pub(crate) queued: Vec<u64>,
    /// Pushes queued for devices.
    pub(crate) waiting: Vec<u64>,
    /// Chat messages not yet in every inbox.
    pub(crate) chat_undistributed: Vec<u64>,
}

/// Counts.
#[derive(Serialize, JsonSchema, Default)]
#[schemars(rename = "HistoryCounted")]
pub(crate) struct Counted {
    /// Milliseconds of CPU time.
    pub(crate) cpu_ms: Vec<u64>,
    /// Devices and clients that connected.
    pub(crate) connects: Vec<u64>,
    /// Devices and clients that disconnected.
    pub(crate) disconnects: Vec<u64>,
    /// MQTT messages from clients.
    pub(crate) publishes: Vec<u64>,
    /// MQTT messages sent to clients.
    pub(crate) deliveries: Vec<u64>,
    /// Chat messages stored.
    pub(crate) chat_sent: Vec<u64>,
    /// Chat messages sent to devices.
    pub(crate) chat_delivered: Vec<u64>,
    /// Pushes sent to devices.
    pub(crate) pushes_sent: Vec<u64>,
    /// Pushes acknowledged by devices.
    pub(crate) pushes_delivered: Vec<u64>,
    /// Bytes received from sockets.
    pub(crate) bytes_in: Vec<u64>,
    /// Bytes sent to sockets.
    pub(crate) bytes_out: Vec<u64>,
    /// Messages dropped, for any reason.
    pub(crate) dropped: Vec<u64>,
}

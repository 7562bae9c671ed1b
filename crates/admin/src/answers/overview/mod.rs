//! The server's state at a glance: what the console shows first.

pub(crate) mod alarms;
pub(crate) mod history;

use super::metrics::latencies::Latencies;
use super::operations::{Readiness, Status};
use super::presence::{PresenceCounts, PresenceStatus};
use crate::MetricReading;
use crate::answers::metrics::process;
use alarms::AlarmShown;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// State of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Overview {
    /// Unix millisecond of these figures.
    pub(crate) at_ms: u64,
    /// Unix millisecond at which the API was started.
    pub(crate) started_ms: u64,
    /// As in /readyz.
    pub(crate) readiness: Readiness,
    /// Active alarms, the worst first, as in /v1/alarms.
    pub(crate) alarms: Vec<AlarmShown>,
    /// As in /v1/status; the longest turn is that of about the last second.
    pub(crate) status: Status,
    /// As in /v1/presence/counts; null if the shards did not answer.
    pub(crate) presence: Option<PresenceCounts>,
    /// As in /v1/presence/status.
    pub(crate) directory: PresenceStatus,
    /// Durations of phases.
    pub(crate) latencies: Latencies,
    /// Figures of the process.
    pub(crate) process: Process,
    /// Figures of the store, bridges, streams and the API, named as in /metrics without
    /// `holdline_`.
    pub(crate) readings: BTreeMap<&'static str, u64>,
}

/// Figures of the process, from the system.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServerProcess")]
pub(crate) struct Process {
    /// Its memory in RAM; null if unknown.
    resident_bytes: Option<u64>,
    /// Milliseconds of CPU time since its start; null if unknown.
    cpu_ms: Option<u64>,
    /// Cores that it may use.
    cores: usize,
    /// Milliseconds of CPU time of the running threads, by name; `shard-0` and so on run the
    /// shards.
    threads_cpu_ms: BTreeMap<String, u64>,
}

impl Process {
    /// This one, now.
    pub(crate) fn now() -> Process {
        Process {
            resident_bytes: process::resident_bytes(),
            cpu_ms: process::cpu_ms(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads_cpu_ms: process::threads_cpu_ms(),
        }
    }
}

/// Readings by name.
pub(crate) fn readings(readings: &[MetricReading]) -> BTreeMap<&'static str, u64> {
    readings.iter().map(|reading| (reading.name, reading.value)).collect()
}

//! The last hour of the overview's figures: a ring that is filled every [`STEP_S`] seconds.
//!
//! A moment has the counts since the moment before and the gauges as they were. It knows no chart.
//! Invariant: at most [`POINTS`] moments, and what could not be asked is carried over, not zero.

use super::super::operations::status_now;
use super::super::{Asked, asked, presence_routes};
use super::alarms;
use crate::answers::metrics::process;
use crate::answers::overview::history::{Counted, Highest, OverviewHistory};
use crate::api::life::{Phase, reached};
use crate::api::{Api, Shared};
use crate::fault::Fault;
use axum::Json;
use axum::extract::State;
use model::counters::{ChatCounter, ProcessCounter, PushCounter, TopicCounter};
use model::ports::control::Status;
use model::ports::presence::queries::{Count, PresenceCounts};
use model::session::Drop;
use schemars::JsonSchema;
use serde::Deserialize;
use std::array;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

/// Seconds between two moments.
const STEP_S: u32 = 10;

/// Moments that are kept: an hour.
const POINTS: u32 = 360;

/// Protocols whose online numbers are kept; the versions of all protocols are fewer.
const PROTOCOLS_MAX: usize = 12;

/// Counts and gauges of a moment.
const COUNTS: usize = 12;
const GAUGES: usize = 6;

/// One moment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Moment {
    at_ms: u64,
    /// In the order of [`Counted`].
    counts: [u64; COUNTS],
    /// In the order of [`Highest`].
    gauges: [u64; GAUGES],
    /// By the places of [`Ring::protocols`].
    online: [u32; PROTOCOLS_MAX],
}

// All moments together.
const _: () = assert!(size_of::<Moment>() * POINTS as usize <= 72 * 1024);

/// The ring, and what the next moment is measured against.
pub(crate) struct History {
    ring: Mutex<Ring>,
    /// Longest turn since the last moment, microseconds: others ask the shards meanwhile.
    pub(crate) turn_us_max: AtomicU64,
}

#[derive(Default)]
struct Ring {
    moments: VecDeque<Moment>,
    /// Where the step of the oldest moment began.
    from_ms: u64,
    /// Sums as they were at the last moment.
    sums: [u64; COUNTS],
    protocols: Vec<&'static str>,
}

/// Figures of the process.
struct Process {
    cpu_ms: Option<u64>,
    resident_bytes: Option<u64>,
}

impl History {
    /// An empty one, of a process that began then.
    pub(crate) fn new(began_ms: u64) -> History {
        let ring = Ring { from_ms: began_ms, ..Ring::default() };
        History { ring: Mutex::new(ring), turn_us_max: AtomicU64::new(0) }
    }

    fn keep(
        &self,
        at_ms: u64,
        status: &Status,
        presence: Option<&PresenceCounts>,
        process: &Process,
    ) {
        let turn_us = self.turn_us_max.swap(0, Ordering::Relaxed).max(status.turn_us_max);
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let now = sums(status, presence, process);
        let sums: [u64; COUNTS] = array::from_fn(|at| now[at].unwrap_or(ring.sums[at]));
        let gauges = [
            status.connections,
            process.resident_bytes.unwrap_or(0),
            turn_us,
            status.queued,
            status.waiting,
            status.chat_undistributed,
        ];
        let counts = array::from_fn(|at| sums[at].saturating_sub(ring.sums[at]));
        let online = ring.online(presence);
        ring.sums = sums;
        ring.push(Moment { at_ms, counts, gauges, online });
    }

    /// The last `count` steps of `every` moments each.
    fn told(&self, every: u32, count: u32) -> OverviewHistory {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let every = every as usize;
        // Whole steps, counted from the newest moment.
        let shown = (ring.moments.len() / every).min(count as usize);
        let first = ring.moments.len() - shown * every;
        let before = first.checked_sub(1).and_then(|at| ring.moments.get(at));
        let moments: Vec<Moment> = ring.moments.iter().skip(first).copied().collect();
        let steps: Vec<Moment> = moments.chunks(every).map(joined).collect();
        let protocols = ring.protocols.iter().enumerate();
        OverviewHistory {
            step_s: STEP_S * every as u32,
            from_ms: before.map_or(ring.from_ms, |moment| moment.at_ms),
            at_ms: steps.iter().map(|step| step.at_ms).collect(),
            highest: highest(&steps),
            counted: counted(&steps),
            online: protocols
                .map(|(at, &name)| (name, steps.iter().map(|step| step.online[at]).collect()))
                .collect(),
        }
    }
}

impl Ring {
    fn push(&mut self, moment: Moment) {
        if self.moments.len() >= POINTS as usize
            && let Some(oldest) = self.moments.pop_front()
        {
            self.from_ms = oldest.at_ms;
        }
        self.moments.push_back(moment);
    }

    /// Clients online by protocol; the last numbers where the current ones are unknown.
    fn online(&mut self, presence: Option<&PresenceCounts>) -> [u32; PROTOCOLS_MAX] {
        let Some(presence) = presence else {
            return self.moments.back().map_or([0; PROTOCOLS_MAX], |moment| moment.online);
        };
        let mut online = [0u32; PROTOCOLS_MAX];
        for ((_, protocol), count) in &presence.of {
            if !self.protocols.contains(protocol) && self.protocols.len() < PROTOCOLS_MAX {
                self.protocols.push(protocol);
            }
            if let Some(at) = self.protocols.iter().position(|name| name == protocol) {
                let number = u32::try_from(count.online).unwrap_or(u32::MAX);
                online[at] = online[at].saturating_add(number);
            }
        }
        online
    }
}

/// A step: counts added up, and the highest of the gauges, so that no peak is lost.
fn joined(moments: &[Moment]) -> Moment {
    let mut step = Moment::default();
    for moment in moments {
        step.at_ms = moment.at_ms;
        step.counts = array::from_fn(|at| step.counts[at] + moment.counts[at]);
        step.gauges = array::from_fn(|at| step.gauges[at].max(moment.gauges[at]));
        step.online = array::from_fn(|at| step.online[at].max(moment.online[at]));
    }
    step
}

/// Sums since the start, in the order of [`Counted`]; `None`: unknown now.
fn sums(
    status: &Status,
    presence: Option<&PresenceCounts>,
    process: &Process,
) -> [Option<u64>; COUNTS] {
    let counters = &status.counters;
    let all = |sum: fn(&Count) -> u64| presence.map(|counts| counts.of.values().map(sum).sum());
    [
        process.cpu_ms,
        all(|count| count.arrivals),
        all(|count| count.departures),
        Some(counters.of(TopicCounter::Publishes)),
        Some(counters.of(TopicCounter::Delivered)),
        Some(counters.of(ChatCounter::Sent)),
        Some(counters.of(ChatCounter::Delivered)),
        Some(counters.of(PushCounter::Sent)),
        Some(counters.of(PushCounter::Delivered)),
        Some(counters.of(ProcessCounter::BytesIn)),
        Some(counters.of(ProcessCounter::BytesOut)),
        Some(Drop::ALL.iter().map(|&why| counters.dropped_of(why)).sum()),
    ]
}

fn highest(steps: &[Moment]) -> Highest {
    let of = |at: usize| steps.iter().map(|step| step.gauges[at]).collect::<Vec<u64>>();
    Highest {
        connections: of(0),
        resident_bytes: of(1).into_iter().map(|bytes| (bytes > 0).then_some(bytes)).collect(),
        turn_us: of(2),
        queued: of(3),
        waiting: of(4),
        chat_undistributed: of(5),
    }
}

fn counted(steps: &[Moment]) -> Counted {
    let of = |at: usize| steps.iter().map(|step| step.counts[at]).collect();
    Counted {
        cpu_ms: of(0),
        connects: of(1),
        disconnects: of(2),
        publishes: of(3),
        deliveries: of(4),
        chat_sent: of(5),
        chat_delivered: of(6),
        pushes_sent: of(7),
        pushes_delivered: of(8),
        bytes_in: of(9),
        bytes_out: of(10),
        dropped: of(11),
    }
}

/// Fills the ring until the API finishes.
pub(crate) async fn record(api: Arc<Shared>, phases: watch::Receiver<Phase>) {
    let step = Duration::from_secs(STEP_S.into());
    let mut ticks = tokio::time::interval_at(Instant::now() + step, step);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = reached(phases.clone(), Phase::Finishing) => return,
            _ = ticks.tick() => {}
        }
        // Shards that do not answer leave a gap.
        let Ok(status) = status_now(&api).await else { continue };
        let presence = presence_routes::counted(&api).await.ok();
        let process =
            Process { cpu_ms: process::cpu_ms(), resident_bytes: process::resident_bytes() };
        alarms::look(&api, &status).await;
        api.history.keep((api.settings.wall_ms)(), &status, presence.as_ref(), &process);
    }
}

/// Query of `/v1/overview/history`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// Seconds between two moments: a multiple of 10.
    #[schemars(range(min = STEP_S, max = STEP_S * POINTS), extend("multipleOf" = STEP_S))]
    #[schemars(extend("default" = STEP_S))]
    step_s: Option<u32>,
    /// Number of the last moments, or fewer if the server is younger.
    #[schemars(range(min = 1, max = POINTS), extend("default" = POINTS))]
    count: Option<u32>,
}

/// `GET /v1/overview/history`
pub(crate) async fn history(
    State(api): Api,
    query: Asked<HistoryQuery>,
) -> Result<Json<OverviewHistory>, Fault> {
    let query = asked(query)?;
    let step_s = query.step_s.unwrap_or(STEP_S);
    if step_s == 0 || !step_s.is_multiple_of(STEP_S) || step_s > STEP_S * POINTS {
        let most = STEP_S * POINTS;
        return Err(Fault::bad(format!("`step_s` must be a multiple of {STEP_S}, at most {most}")));
    }
    let count = query.count.unwrap_or(POINTS);
    if !(1..=POINTS).contains(&count) {
        return Err(Fault::bad(format!("`count` must be 1 to {POINTS}")));
    }
    Ok(Json(api.history.told(step_s / STEP_S, count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(publishes: u64, connections: u64) -> Status {
        let mut status = Status { connections, ..Status::default() };
        status.counters.count_by(TopicCounter::Publishes, publishes);
        status
    }

    fn online(protocol: &'static str, online: u64) -> PresenceCounts {
        let count = Count { online, arrivals: 2 * online, departures: online };
        PresenceCounts { of: [((Box::from(""), protocol), count)].into() }
    }

    const PROCESS: Process = Process { cpu_ms: None, resident_bytes: Some(7) };

    #[test]
    fn a_moment_has_the_counts_since_the_one_before() {
        let history = History::new(1_000);
        history.keep(11_000, &status(5, 3), Some(&online("mqtt5", 4)), &PROCESS);
        history.turn_us_max.store(90, Ordering::Relaxed);
        history.keep(21_000, &status(12, 2), None, &PROCESS);
        let told = history.told(1, 360);
        assert_eq!((told.from_ms, told.at_ms), (1_000, vec![11_000, 21_000]));
        assert_eq!(told.counted.publishes, [5, 7]);
        assert_eq!(told.highest.connections, [3, 2]);
        assert_eq!((told.highest.turn_us, told.counted.cpu_ms), (vec![0, 90], vec![0, 0]));
        assert_eq!(told.highest.resident_bytes, [Some(7), Some(7)]);
        assert_eq!(told.online["mqtt5"], [4, 4], "carried over where the shards did not answer");
        assert_eq!(told.counted.connects, [8, 0]);
    }

    #[test]
    fn longer_steps_add_counts_and_keep_the_peaks() {
        let history = History::new(0);
        for at in 1..=7 {
            let connections = if at == 3 { 90 } else { at };
            history.keep(at * 10_000, &status(at * at, connections), None, &PROCESS);
        }
        let told = history.told(3, 360);
        assert_eq!((told.step_s, told.from_ms), (30, 10_000), "the odd oldest one is left out");
        assert_eq!(told.at_ms, [40_000, 70_000]);
        assert_eq!(told.counted.publishes, [15, 33]);
        assert_eq!(told.highest.connections, [90, 7]);
        let told = history.told(3, 1);
        assert_eq!((told.from_ms, told.at_ms), (40_000, vec![70_000]));
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let history = History::new(0);
        for at in 1..=u64::from(POINTS) + 5 {
            history.keep(at * 10_000, &status(at, 1), None, &PROCESS);
        }
        let told = history.told(1, POINTS);
        assert_eq!((told.at_ms.len(), told.from_ms), (360, 50_000));
        assert!(told.counted.publishes.iter().all(|&count| count == 1));
    }

    #[test]
    fn protocols_are_bounded() {
        const NAMES: [&str; 14] =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
        let history = History::new(0);
        for name in NAMES {
            history.keep(1, &status(0, 0), Some(&online(name, 1)), &PROCESS);
        }
        assert_eq!(history.told(1, 360).online.len(), PROTOCOLS_MAX);
    }
}

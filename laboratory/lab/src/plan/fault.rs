//! Faults of a plan: processes, connections, the network, Redis.
//!
//! A fault says what breaks and when; other modules cause it. Part of [`Plan`](super::Plan).

use super::Span;
use serde::{Deserialize, Serialize};

/// A planned fault.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When it begins, from the beginning of the stage's hold.
    #[serde(default)]
    pub at: Span,
    /// How long it lasts; zero: until the stage's end, or once for single events.
    #[serde(default, rename = "for")]
    pub lasts: Span,
    /// Interval of repetitions until the stage's hold ends, from one beginning to the next; zero:
    /// once.
    #[serde(default)]
    pub every: Span,
    /// Kind of the fault: `"target_killed"`, `{ flap = { share_per_s = 0.1 } }` and so on.
    pub what: FaultKind,
}

/// Kinds of faults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultKind {
    /// A share of the clients disconnects and reconnects every second.
    Flap {
        /// 0 to 1.
        share_per_s: f64,
    },
    /// A share of the clients is cut at once, and all reconnect.
    Cut {
        /// 0 to 1.
        share: f64,
        /// Kind of the cut.
        how: crate::order::Cut,
    },
    /// The target is killed and restarted by its `start` command.
    TargetKilled,
    /// The target is paused for a while (SIGSTOP, SIGCONT).
    TargetPaused,
    /// The target can open only this many more file descriptors.
    DescriptorsStarved {
        /// File descriptors.
        spare: u64,
    },
    /// The built-in proxy disturbs the connections that go through it.
    Network {
        /// The disturbance.
        how: Network,
        /// Share of the connections, 0 to 1.
        #[serde(default = "super::default::all")]
        share: f64,
    },
    /// Redis is paused for a while.
    RedisPaused,
    /// Redis is killed and restarted.
    RedisKilled,
    /// Redis loses all its data.
    RedisFlushed,
}

/// Fault of the network that the fault proxy causes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing passes any more, without notice to either side.
    Silence,
    /// All connections are reset.
    Reset,
    /// New connections are refused.
    Refuse,
    /// All data is delayed by this much.
    Delay(Span),
    /// This many bytes a second for each connection.
    Throttle(u32),
    /// Connections are closed after half of the next data.
    Truncate,
}

//! What a plan breaks on purpose: processes, connections, the network, Redis.
//!
//! It says what and when; who breaks it is not known here. Part of [`Plan`](super::Plan).

use super::Span;
use serde::{Deserialize, Serialize};

/// Something broken on purpose.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When, from the beginning of the stage's hold.
    #[serde(default)]
    pub at: Span,
    /// How long; zero: until the stage's end, or once for what happens once.
    #[serde(default, rename = "for")]
    pub lasts: Span,
    /// Again so often until the stage's hold is over, from one beginning to the next; zero: once.
    #[serde(default)]
    pub every: Span,
    /// What: `"target_killed"`, `{ flap = { share_per_s = 0.1 } }` and so on.
    pub what: FaultKind,
}

/// What can be broken.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultKind {
    /// A share of the clients a second leaves and comes back.
    Flap {
        /// 0 to 1.
        share_per_s: f64,
    },
    /// A share of the clients is cut at once (a herd comes back).
    Cut {
        /// 0 to 1.
        share: f64,
        /// How.
        how: crate::order::Cut,
    },
    /// The target is killed and started again by its `start` command.
    TargetKilled,
    /// The target is stopped for a while (SIGSTOP, SIGCONT).
    TargetPaused,
    /// The target may open so many descriptors more, and no further.
    DescriptorsStarved {
        /// Descriptors.
        spare: u64,
    },
    /// The built-in proxy does this to the connections that go through it.
    Network {
        /// What.
        how: Network,
        /// Share of the connections, 0 to 1.
        #[serde(default = "super::default::all")]
        share: f64,
    },
    /// Redis is stopped for a while.
    RedisPaused,
    /// Redis is killed and started again.
    RedisKilled,
    /// Redis forgets everything.
    RedisFlushed,
}

/// What the fault proxy does.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing passes any more, and nobody is told.
    Silence,
    /// All connections are reset.
    Reset,
    /// New connections are refused.
    Refuse,
    /// Everything is so much later.
    Delay(Span),
    /// So many bytes a second a connection.
    Throttle(u32),
    /// Connections are closed after half of what is next to pass.
    Truncate,
}

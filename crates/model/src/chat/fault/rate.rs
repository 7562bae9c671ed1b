//! Treatment of a session that asks for more than its rate.

use super::ChatFault;
use crate::chat::{ChatDelivery, NodesFault};
use std::time::Duration;

/// How long a session is not read whose request was refused because of its rate.
pub const REFUSED_PAUSE: Duration = Duration::from_millis(20);

impl ChatDelivery {
    /// Whether it refuses a request because of its sender's rate: the session is read more slowly
    /// then ([`REFUSED_PAUSE`]), for reading and refusing costs as much as serving.
    pub fn is_over_rate(&self) -> bool {
        match self {
            ChatDelivery::Failed { why, .. } => *why == ChatFault::RateLimited,
            ChatDelivery::Rejected(rejected) => rejected.why == ChatFault::RateLimited,
            ChatDelivery::Nodes(answer) => matches!(answer.result, Err(NodesFault::RateLimited)),
            _ => false,
        }
    }
}

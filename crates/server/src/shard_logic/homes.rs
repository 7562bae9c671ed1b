//! The shard where what the logs keep lives: each service knows that of its own.

use base::hash::HashKey;
use broker::Broker;
use hub::Hub;
use model::ports::log::Restored;
use model::service::{Service, ServiceKind};

/// The hash that chooses the shard of something that the logs kept; `None`: every shard has it.
/// What is the process's own (users, tokens) is on the first one.
pub fn of(home: HashKey, restored: &Restored<'_>) -> Option<u64> {
    match restored.service() {
        Some(ServiceKind::Push) => Hub::home_of(home, restored),
        Some(ServiceKind::Topics) => Broker::home_of(home, restored),
        Some(ServiceKind::Echo) | None => Some(0),
    }
}

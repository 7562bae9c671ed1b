//! Whose is what the logs keep, and on which shard it lives.
//!
//! Hub and broker each know their own tables and spaces; this file only knows which are whose.
//! Invariant: what one of them restores, it also finds a home for.

use base::hash::HashKey;
use model::ports::log::{Restored, Table};
use model::timeline::Space;

/// Whether it is the broker's; else it is the hub's.
pub fn is_of_topics(restored: &Restored<'_>) -> bool {
    match restored {
        Restored::Row { table, .. } => matches!(
            table,
            Table::Sessions
                | Table::Subscriptions
                | Table::Retained
                | Table::Wills
                | Table::Delayed
        ),
        Restored::Entry { timeline, .. } => timeline.space() == Space::Sessions,
    }
}

/// The hash that chooses its shard; `None`: every shard has it. Users and tokens are on the first
/// one.
pub fn of(home: HashKey, restored: &Restored<'_>) -> Option<u64> {
    match restored {
        Restored::Row { table: Table::Users | Table::ApiTokens, .. } => Some(0),
        topics if is_of_topics(topics) => broker::home_of(home, topics),
        others => hub::home_of(home, others),
    }
}

//! Columns of the counts of a push, by outcome.

use model::ports::pushes::PushCounts;
use model::push::{Outcome, Rejection};

/// The index of an outcome in [`Ends`](crate::log::durable::order::Ends), if it ends a push.
pub(super) fn end_of(outcome: Outcome) -> Option<usize> {
    match outcome {
        Outcome::Delivered => Some(0),
        Outcome::Stored => None,
        Outcome::Expired => Some(1),
        Outcome::Rejected(Rejection::Cancelled) => Some(3),
        Outcome::Rejected(_) => Some(2),
    }
}

/// The column that counts devices with this outcome.
pub(super) fn column(counts: &mut PushCounts, outcome: Outcome) -> &mut u64 {
    match outcome {
        Outcome::Delivered => &mut counts.delivered,
        Outcome::Stored => &mut counts.stored,
        Outcome::Expired => &mut counts.expired,
        Outcome::Rejected(Rejection::Cancelled) => &mut counts.cancelled,
        Outcome::Rejected(_) => &mut counts.rejected,
    }
}

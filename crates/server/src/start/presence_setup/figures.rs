//! Figures over time: what all shards have told of themselves is added up once a second.
//!
//! ```text
//! a shard that turns ─► its cell, once a second ─► added up, at each full second ─► rings
//! ```
//! Nobody is asked, for that would wake a shard that has nothing to say. Counts that a shard has
//! not reported within the second fall into the next.

use super::super::periodic::{PeriodicTask, to_next_second};
use crate::clock;
use crate::shard_logic::{Figures, FiguresCell};
use presence::Statistics;
use std::sync::{Arc, Mutex, PoisonError};

/// Adds up what these shards have told at each full second, and notes it.
pub fn task(shards: Arc<[FiguresCell]>, statistics: Arc<Mutex<Statistics>>) -> PeriodicTask {
    Box::new(move || {
        let Figures { counts, heartbeats, late, lost } = sum(&shards);
        let mut rings = statistics.lock().unwrap_or_else(PoisonError::into_inner);
        rings.note(clock::wall_ms() / 1_000, &counts, heartbeats, late, lost);
        to_next_second()
    })
}

fn sum(shards: &[FiguresCell]) -> Figures {
    let mut all = Figures::default();
    for shard in shards {
        all.add(&shard.lock().unwrap_or_else(PoisonError::into_inner));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_all_shards_have_told_is_one_sum_and_is_looked_at_each_second() {
        let shards: Arc<[FiguresCell]> = (0..2).map(|_| FiguresCell::default()).collect();
        for (shard, heartbeats) in shards.iter().zip([3, 4]) {
            *shard.lock().expect("held") = Figures { heartbeats, late: 1, ..Figures::default() };
        }
        let all = sum(&shards);
        assert_eq!((all.heartbeats, all.late, all.lost), (7, 2, 0));
        let mut task = task(shards, Arc::default());
        let wait = task();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(1));
    }
}

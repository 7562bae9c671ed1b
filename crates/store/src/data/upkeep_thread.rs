//! Threads beside the writers: an upkeep thread a log, for upkeep tasks, and one ticker for all.
//!
//! An upkeep task is slow work on the disk that the writer need not wait for. The ticker waits; it
//! reads no clock. Where no log has anything to do it ticks seldom, for each tick wakes a processor
//! that sleeps. Invariant: both end when the writers do.

use crate::background;
use crate::data::log_queue::LogQueue;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often a writer looks at what is due when nothing else wakes it.
const LOOK: Duration = Duration::from_secs(1);

/// Longest delay of that look where all logs are at rest.
const LOOK_AT_REST: Duration = Duration::from_secs(5);

/// The upkeep thread's life, in the background.
pub(crate) fn keep(queue: &LogQueue) {
    background::give_way();
    while let Some(upkeep_task) = queue.upkeep_task() {
        queue.finish(upkeep_task.run());
    }
}

/// Wakes all writers in steps.
#[derive(Default)]
pub(crate) struct Ticker {
    closed: Mutex<bool>,
    end: Condvar,
}

impl Ticker {
    /// Ticks until it is closed; asks for a sync every `sync`.
    pub(crate) fn run(&self, queues: &[Arc<LogQueue>], sync: Option<Duration>) {
        let (mut since_sync, mut since_look) = (Duration::ZERO, Duration::ZERO);
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        while !*closed {
            let at_rest = queues.iter().all(|queue| queue.is_at_rest());
            let look = if at_rest { LOOK_AT_REST } else { LOOK };
            let step = sync.map_or(look, |sync| sync.clamp(Duration::from_millis(1), look));
            let waited = self.end.wait_timeout_while(closed, step, |closed| !*closed);
            closed = waited.unwrap_or_else(PoisonError::into_inner).0;
            (since_sync, since_look) = (since_sync + step, since_look + step);
            let sync_due = sync.is_some_and(|sync| since_sync >= sync);
            if sync_due || since_look >= look {
                queues.iter().for_each(|queue| queue.tick(sync_due));
                since_look = Duration::ZERO;
            }
            if sync_due {
                since_sync = Duration::ZERO;
            }
        }
    }

    /// Ends it.
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.notify_all();
    }
}

//! Who works beside the writers: a keeper a log, for chores, and one ticker for all.
//!
//! A chore is slow work on the disk that the writer need not wait for. The ticker waits; it reads no
//! clock. Invariant: both end when the writers do.

use crate::data::desk::Desk;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often a writer looks at what is due when nothing else wakes it.
const LOOK: Duration = Duration::from_secs(1);

/// The keeper's life.
pub(crate) fn keep(desk: &Desk) {
    while let Some(chore) = desk.chore() {
        desk.finish(chore.run());
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
    pub(crate) fn run(&self, desks: &[Arc<Desk>], sync: Option<Duration>) {
        let step = sync.map_or(LOOK, |sync| sync.clamp(Duration::from_millis(1), LOOK));
        let (mut since_sync, mut since_look) = (Duration::ZERO, Duration::ZERO);
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        while !*closed {
            let waited = self.end.wait_timeout_while(closed, step, |closed| !*closed);
            closed = waited.unwrap_or_else(PoisonError::into_inner).0;
            (since_sync, since_look) = (since_sync + step, since_look + step);
            let sync_due = sync.is_some_and(|sync| since_sync >= sync);
            if sync_due || since_look >= LOOK {
                desks.iter().for_each(|desk| desk.tick(sync_due));
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

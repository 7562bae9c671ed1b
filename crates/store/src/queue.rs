//! What waits for the writer: a bounded queue whose fullness is an answer.
//!
//! Shards put entries in and never wait; the writer takes everything that is there at once, which
//! is what makes a batch. It knows neither files nor records. Invariant: entries leave in the
//! order in which they came.

use crate::entry;
use model::id::ShardId;
use model::ports::journal::{Entry, Ticket};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Entries of one shard, in the order of their tickets.
pub(crate) type Parcel = (ShardId, Vec<(Ticket, Entry)>);

/// The queue between the shards and the writer.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Something for the writer to do.
    work: Condvar,
    /// The end, for the ticker.
    end: Condvar,
    entries_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    parcels: Vec<Parcel>,
    entries: usize,
    bytes: usize,
    sync_due: bool,
    closed: bool,
}

/// What the writer is to do next.
pub(crate) struct Work {
    pub(crate) parcels: Vec<Parcel>,
    pub(crate) sync: bool,
}

impl Queue {
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> Queue {
        let (work, end) = (Condvar::new(), Condvar::new());
        Queue { state: Mutex::default(), work, end, entries_max, bytes_max }
    }

    /// Puts a parcel in, or gives it back when too much waits. An empty queue takes a parcel of
    /// any size.
    pub(crate) fn put(&self, parcel: Parcel) -> Result<(), Parcel> {
        let entries = parcel.1.len();
        let bytes = parcel.1.iter().map(|(_, entry)| entry::weight(entry)).sum::<usize>();
        let mut state = self.lock();
        let fits =
            state.entries + entries <= self.entries_max && state.bytes + bytes <= self.bytes_max;
        if state.closed || !(fits || state.entries == 0) {
            return Err(parcel);
        }
        state.entries += entries;
        state.bytes += bytes;
        state.parcels.push(parcel);
        self.work.notify_one();
        Ok(())
    }

    /// Waits for something to do; `None` when the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Work> {
        let mut state = self.lock();
        while state.parcels.is_empty() && !state.sync_due && !state.closed {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.parcels.is_empty() && !state.sync_due {
            return None;
        }
        state.entries = 0;
        state.bytes = 0;
        let sync = std::mem::take(&mut state.sync_due);
        Some(Work { parcels: std::mem::take(&mut state.parcels), sync })
    }

    /// Entries that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().entries
    }

    /// Asks for a sync every `interval` until the queue is closed.
    pub(crate) fn tick(&self, interval: Duration) {
        let mut state = self.lock();
        while !state.closed {
            let (held, waited) = self
                .end
                .wait_timeout_while(state, interval, |state| !state.closed)
                .unwrap_or_else(PoisonError::into_inner);
            state = held;
            if waited.timed_out() {
                state.sync_due = true;
                self.work.notify_one();
            }
        }
    }

    /// Takes nothing more; what waits is still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.end.notify_all();
    }

    /// Nothing panics while it holds the lock, so a poisoned one is as good as another.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

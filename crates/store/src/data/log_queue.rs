//! Where the threads of one log meet: calls that wait for the writer, and upkeep tasks for the
//! upkeep thread.
//!
//! Shards put calls in and never wait; the writer takes everything that is there at once, which is
//! what makes a batch. Fullness is an answer, and what waits for its reading counts too. It knows
//! neither files nor records. Invariant: calls leave in the order in which they came, and there is
//! at most one upkeep task at a time.

use crate::data::gathering::{CALLS_ENOUGH, Gathering};
use crate::engine::{Engine, Finished, Planned, UpkeepTask};
use model::ports::log::{AppendWith, Call, Party, Post, RosterChange, Ticket, Write};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the writer lets calls gather.
const GATHER: Duration = Duration::from_micros(500);

/// Calls of one party, in the order of their tickets.
pub(crate) type Parcel = (Party, Vec<(Ticket, Call)>);

/// Closure that is run with the engine on its own thread.
pub(crate) type Visit = Box<dyn FnOnce(&mut Engine, u32) + Send>;

/// A read on its way to the disk, and what it weighs.
pub(crate) struct Reading {
    pub(crate) party: Party,
    pub(crate) ticket: Ticket,
    pub(crate) planned: Planned,
}

/// The meeting place of one log.
pub(crate) struct LogQueue {
    state: Mutex<State>,
    /// Signals work for the writer.
    writing: Condvar,
    /// Signals work for the upkeep thread, or that it has no task any more.
    keeping: Condvar,
    /// Signals work for the reader.
    reading: Condvar,
    calls_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    parcels: Vec<Parcel>,
    /// The writer lets calls gather: fewer than enough are no reason to wake it.
    gathers: bool,
    /// Calls that wait, be it for the writer or for the reader.
    calls: usize,
    /// Bytes of those that wait for the writer.
    bytes: usize,
    visits: Vec<Visit>,
    upkeep_task: Option<UpkeepTask>,
    finished: Option<Finished>,
    readings: VecDeque<Reading>,
    sync_due: bool,
    tick_due: bool,
    /// All records up to this index are acknowledged by copies.
    acknowledged: u64,
    /// The writer was not told of it.
    acknowledged_due: bool,
    /// An upkeep task was given and is not finished.
    busy: bool,
    /// Upkeep tasks are not given at the moment.
    held: bool,
    /// The writer has found no upkeep to be due, the last time it looked.
    at_rest: bool,
    closed: bool,
    /// The writer has ended.
    gone: bool,
}

/// Work that the writer is to do next.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) parcels: Vec<Parcel>,
    pub(crate) visits: Vec<Visit>,
    pub(crate) finished: Option<Finished>,
    pub(crate) sync: bool,
    /// All up to this index is acknowledged by copies, if that is news.
    pub(crate) acknowledged: Option<u64>,
}

/// Event that the writer waits for beside work.
#[derive(Clone, Copy, Default)]
pub(crate) struct Awaited {
    /// Whether so much is not acknowledged by copies that no calls are taken.
    pub(crate) is_full: bool,
    /// Whether the log has an upkeep task that may be handed out only once the batches so far are
    /// acknowledged.
    pub(crate) has_task: bool,
}

impl LogQueue {
    pub(crate) fn new(calls_max: usize, bytes_max: usize) -> LogQueue {
        let (writing, keeping, reading) = (Condvar::new(), Condvar::new(), Condvar::new());
        LogQueue { state: Mutex::default(), writing, keeping, reading, calls_max, bytes_max }
    }

    /// Puts a parcel in, or gives it back when too much waits. When nothing waits, a parcel of any
    /// size is taken.
    pub(crate) fn put(&self, parcel: Parcel) -> Result<(), Parcel> {
        let calls = parcel.1.len();
        let bytes = parcel.1.iter().map(|(_, call)| weight(call)).sum::<usize>();
        let mut state = self.lock();
        let fits = state.calls + calls <= self.calls_max && state.bytes + bytes <= self.bytes_max;
        if state.closed || !(fits || state.calls == 0) {
            return Err(parcel);
        }
        state.calls += calls;
        state.bytes += bytes;
        state.parcels.push(parcel);
        let is_awaited = !state.gathers || state.is_worth_a_sync();
        drop(state); // whoever is woken finds it open
        if is_awaited {
            self.writing.notify_one();
        }
        Ok(())
    }

    /// Has something done on the writer's thread. Given back when it has been closed, unless the
    /// log is held: who holds it comes to an end with what was begun.
    pub(crate) fn visit(&self, visit: Visit) -> Result<(), Visit> {
        let mut state = self.lock();
        if state.closed && !state.held {
            return Err(visit);
        }
        state.visits.push(visit);
        self.writing.notify_one();
        Ok(())
    }

    /// The writer waits for something to do; `None` when all is closed, empty and finished, and
    /// nobody holds the log. Calls gather first where that pays.
    pub(crate) fn take(&self, gathering: Option<&mut Gathering>, awaited: Awaited) -> Option<Work> {
        let mut state = self.lock();
        loop {
            // What is closed waits for no copy.
            let takes_calls = !awaited.is_full || state.closed;
            if state.has_work() || takes_calls && !state.parcels.is_empty() {
                break;
            }
            if state.closed && !state.held && (!state.busy || awaited.has_task) {
                return None;
            }
            state = self.writing.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(gathering) = gathering.filter(|_| !awaited.is_full) {
            state = self.gather(state, gathering);
        }
        let parcels = match awaited.is_full && !state.closed {
            true => Vec::new(),
            false => std::mem::take(&mut state.parcels),
        };
        let reads = |parcel: &Parcel| {
            parcel.1.iter().filter(|(_, call)| matches!(call, Call::Read(_))).count()
        };
        // Reads are let go when they are answered.
        state.calls -= parcels.iter().map(|parcel| parcel.1.len() - reads(parcel)).sum::<usize>();
        if !parcels.is_empty() {
            state.bytes = 0;
        }
        state.tick_due = false;
        let acknowledged = std::mem::take(&mut state.acknowledged_due);
        Some(Work {
            parcels,
            visits: std::mem::take(&mut state.visits),
            finished: state.finished.take(),
            sync: std::mem::take(&mut state.sync_due),
            acknowledged: acknowledged.then_some(state.acknowledged),
        })
    }

    fn gather<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        gathering: &mut Gathering,
    ) -> MutexGuard<'a, State> {
        let before = state.calls_to_write();
        if before == 0 || state.is_worth_a_sync() || !gathering.is_due(before) {
            return state;
        }
        state.gathers = true;
        let waits = |state: &mut State| !state.is_worth_a_sync();
        let waited = self.writing.wait_timeout_while(state, GATHER, waits);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.gathers = false;
        gathering.gathered(before, state.calls_to_write());
        state
    }

    /// Whether the upkeep thread may be given an upkeep task.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        !state.busy && !state.held && !state.closed
    }

    /// Gives the upkeep thread an upkeep task; it has none.
    pub(crate) fn give(&self, upkeep_task: UpkeepTask) {
        let mut state = self.lock();
        assert!(!state.busy, "there is one chore at a time");
        (state.busy, state.upkeep_task) = (true, Some(upkeep_task));
        self.keeping.notify_all();
    }

    /// An upkeep task is out, and the writer keeps it until it may be given.
    pub(crate) fn keep(&self) {
        self.lock().busy = true;
    }

    /// The writer gives the upkeep thread the task that it kept.
    pub(crate) fn give_kept(&self, upkeep_task: UpkeepTask) {
        self.lock().upkeep_task = Some(upkeep_task);
        self.keeping.notify_all();
    }

    /// All records up to this index are acknowledged by copies.
    pub(crate) fn acknowledge(&self, upto: u64) {
        let mut state = self.lock();
        if upto > state.acknowledged {
            (state.acknowledged, state.acknowledged_due) = (upto, true);
            self.writing.notify_one();
            self.keeping.notify_all();
        }
    }

    /// Waits until all up to this index is acknowledged. False when it will not be.
    pub(crate) fn until_acknowledged(&self, index: u64) -> bool {
        let mut state = self.lock();
        while state.acknowledged < index && !state.closed && !state.gone {
            state = self.keeping.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.acknowledged >= index
    }

    /// The upkeep thread waits for an upkeep task; `None` when the writer has ended.
    pub(crate) fn upkeep_task(&self) -> Option<UpkeepTask> {
        let mut state = self.lock();
        while state.upkeep_task.is_none() && !state.gone {
            state = self.keeping.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.upkeep_task.take()
    }

    /// The upkeep thread is done.
    pub(crate) fn finish(&self, finished: Finished) {
        let mut state = self.lock();
        state.finished = Some(finished);
        self.writing.notify_one();
    }

    /// The writer has told the engine; the next upkeep task may come.
    pub(crate) fn rest(&self) {
        self.lock().busy = false;
        self.keeping.notify_all();
    }

    /// Gives no more upkeep tasks, and waits until none is under way. False when it is closed, or
    /// held by another.
    pub(crate) fn hold(&self) -> bool {
        let mut state = self.lock();
        if state.closed || state.held {
            return false;
        }
        state.held = true;
        while state.busy && !state.gone {
            state = self.keeping.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.gone
    }

    /// Gives upkeep tasks again.
    pub(crate) fn release(&self) {
        self.lock().held = false;
        self.writing.notify_one();
    }

    /// Hands reads to the reader.
    pub(crate) fn read(&self, readings: Vec<Reading>) {
        if !readings.is_empty() {
            self.lock().readings.extend(readings);
            self.reading.notify_one();
        }
    }

    /// The reader waits for reads, at most `count` of them; none when the writer has ended.
    pub(crate) fn readings(&self, count: usize) -> Vec<Reading> {
        let mut state = self.lock();
        while state.readings.is_empty() && !state.gone {
            state = self.reading.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = count.min(state.readings.len());
        state.readings.drain(..count).collect()
    }

    /// Notes that so many reads have been answered.
    pub(crate) fn answered(&self, reads: usize) {
        self.lock().calls -= reads;
    }

    /// Calls that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().calls
    }

    /// Asks the writer to look at what is due, and to sync if that is.
    pub(crate) fn tick(&self, sync: bool) {
        let mut state = self.lock();
        state.tick_due = true;
        state.sync_due |= sync;
        self.writing.notify_one();
    }

    /// The writer has looked for upkeep: whether there is none but what time makes due.
    pub(crate) fn rests(&self, at_rest: bool) {
        self.lock().at_rest = at_rest;
    }

    /// Whether nobody need look at what is due soon.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.lock().at_rest
    }

    /// Takes nothing more; what waits is still done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.writing.notify_all();
        self.keeping.notify_all();
    }

    /// The writer has ended.
    pub(crate) fn leave(&self) {
        self.lock().gone = true;
        self.keeping.notify_all();
        self.reading.notify_all();
    }

    /// Locks the state. Nothing panics while it holds the lock, so a poisoned one is as good as
    /// another.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the writer has work other than calls.
    fn has_work(&self) -> bool {
        !self.visits.is_empty()
            || self.finished.is_some()
            || self.sync_due
            || self.tick_due
            || self.acknowledged_due
    }

    /// Calls that the writer takes next.
    fn calls_to_write(&self) -> usize {
        self.parcels.iter().map(|parcel| parcel.1.len()).sum()
    }

    /// Whether a sync is due now, for nothing more is waited for.
    fn is_worth_a_sync(&self) -> bool {
        self.closed
            || self.sync_due
            || !self.visits.is_empty()
            || self.finished.is_some()
            || self.acknowledged_due
            || self.calls_to_write() >= CALLS_ENOUGH
    }
}

/// Bytes that a call may take while it waits, roughly.
fn weight(call: &Call) -> usize {
    64 + match call {
        Call::Read(_) => 0,
        Call::Write(write) => write_weight(write),
    }
}

/// Approximate bytes to be written for it.
pub(crate) fn write_weight(write: &Write) -> usize {
    match write {
        Write::Append(append) => append.message.weight() + 16 * append.to.len(),
        Write::Post(Post { message, only, .. }) => {
            message.weight() + 4 * only.as_ref().map_or(0, |only| only.len())
        }
        Write::Roster(RosterChange { leave, join, .. }) => 16 * (leave.len() + join.len()),
        Write::Remove { seqs, .. } => 8 * seqs.len(),
        Write::Put { key, value, .. } => key.len() + value.len(),
        Write::Delete { key, .. } => key.len(),
        Write::AppendWith(it) => {
            let AppendWith { append, replaces, .. } = &**it;
            let row = replaces.as_ref().map_or(0, |it| it.key.len() + it.value.len());
            append.message.weight() + 16 * append.to.len() + row
        }
        Write::Acknowledge { .. } | Write::Forget(_) | Write::Disband(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::ports::log::{Pull, Read};
    use model::timeline::{Space, TimelineId};

    #[test]
    fn a_read_makes_room_for_others_when_it_is_answered() {
        let queue = LogQueue::new(2, 1_000);
        let timeline = TimelineId::of(Space::Other, HashKey::new(1, 2), &[b"a"]);
        let pull = Pull { timeline, from: 0, backwards: false, count_max: 1, bytes_max: 1 };
        let reads = |count: Ticket| {
            let read = |at| (at, Call::Read(Read::Pull(pull)));
            (Party::Hooks, (0..count).map(read).collect::<Vec<_>>())
        };
        assert!(queue.put(reads(2)).is_ok());
        assert!(queue.put(reads(1)).is_err(), "two wait already");
        assert_eq!(queue.take(None, Awaited::default()).map(|work| work.parcels.len()), Some(1));
        assert_eq!(queue.waiting(), 2, "they are taken, and not answered");
        queue.answered(1);
        assert_eq!(queue.waiting(), 1);
        assert!(queue.put(reads(1)).is_ok());
        assert!(queue.put(reads(1)).is_err());
    }
}

//! Entry to traces: their number, and how one begins.
//!
//! The desk has every shard tap its connections and gives the trace its thread. It knows no HTTP.
//! Shards pay for each connection that they check for a trace; without one they check one flag.
//! Invariant: each place in use belongs to a trace that a caller holds.

use super::follower::Follower;
use super::seen::{ActiveTrace, BATCHES_MAX};
use crate::shard_logic::Mail;
use crate::shard_logic::outside::Outside;
use crate::switchboard::Switchboard;
use model::limits::ApiLimits;
use model::ports::trace::{Trace, TraceOrder, TraceRefusal, TraceSink, Traces};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;

/// Figures of all traces since the start.
#[derive(Default)]
pub struct TraceTally {
    /// Traces that go on.
    pub running: AtomicU32,
    /// Events that were sent.
    pub events: AtomicU64,
    /// Events that were not.
    pub left_out: AtomicU64,
}

/// The API's limits when it is asked.
pub type LimitsNow = Box<dyn Fn() -> ApiLimits + Send + Sync>;

/// Begins traces.
pub struct TraceDesk<O: Outside + Send + 'static> {
    switchboard: Switchboard<O>,
    limits: LimitsNow,
    numbers: AtomicU64,
    tally: Arc<TraceTally>,
}

impl<O: Outside + Send> TraceDesk<O> {
    /// A desk for the shards of this switchboard.
    pub fn new(switchboard: Switchboard<O>, limits: LimitsNow) -> TraceDesk<O> {
        TraceDesk { switchboard, limits, numbers: AtomicU64::new(1), tally: Arc::default() }
    }

    /// Counts of traces.
    pub fn tally(&self) -> &Arc<TraceTally> {
        &self.tally
    }
}

/// A place among the traces.
pub(super) struct Place(Arc<TraceTally>);

impl Place {
    /// Takes one of `most` places, if one is free.
    pub(super) fn take(tally: &Arc<TraceTally>, most: u32) -> Option<Place> {
        let free = |running: u32| (running < most).then_some(running + 1);
        let taken = tally.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
        taken.ok().map(|_| Place(tally.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A trace that its caller holds.
struct HeldTrace {
    trace: Arc<ActiveTrace>,
    _place: Place,
}

impl Trace for HeldTrace {}

impl Drop for HeldTrace {
    fn drop(&mut self) {
        self.trace.end();
    }
}

impl<O: Outside + Send + 'static> Traces for TraceDesk<O> {
    fn follow(&self, order: TraceOrder, sink: TraceSink) -> Result<Box<dyn Trace>, TraceRefusal> {
        let limits = (self.limits)();
        let place = Place::take(&self.tally, limits.traces_max).ok_or(TraceRefusal::Full)?;
        let TraceOrder { scope, payload } = order;
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let trace = Arc::new(ActiveTrace::new(number, scope, limits, sender));
        // From here on it ends when it is let go of, whatever fails.
        let held = HeldTrace { trace: trace.clone(), _place: place };
        let follower = Follower::new(trace.clone(), payload, sink, self.tally.clone());
        let thread = Builder::new().name("holdline-trace".into());
        thread.spawn(move || follower.run(&batches)).map_err(|_| TraceRefusal::Busy)?;
        match self.switchboard.tell_all(|| Mail::Trace(trace.clone())) {
            true => Ok(Box::new(held)),
            false => Err(TraceRefusal::Busy),
        }
    }
}

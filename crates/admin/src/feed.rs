//! The feed: a bounded ring of events between the shards and whoever listens.
//!
//! Shards publish and never wait; each reader has its own place in the ring, so a slow one costs
//! nobody else anything: it loses the oldest events and is told how many. Places are numbers that
//! rise by one; together with the boot's number they are the ids of the event stream. It knows no
//! HTTP. Invariant: a reader sees every event from its place on, in order, or the count of those
//! it has lost.

use model::event::Event;
use model::limits::Limits;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The ring of events, shared by shards, streams and webhooks.
pub struct Feed {
    ring: Mutex<Ring>,
    /// Tells threads (webhooks) of events and of the end.
    came: Condvar,
    /// Tells tasks (streams) of the same.
    woken: Notify,
    wanted: AtomicBool,
}

struct Ring {
    events: VecDeque<Arc<Event>>,
    /// Place of the next event.
    next: u64,
    events_max: usize,
    /// What each reader takes next.
    readers: HashMap<u64, u64>,
    next_reader: u64,
    /// Events still kept after the last reader left, so that it can come back to where it was.
    linger: usize,
    closed: bool,
}

/// What a reader takes.
pub(crate) struct Taken {
    /// Events that were overwritten before it came for them.
    pub(crate) lost: u64,
    /// Each with its place.
    pub(crate) events: Vec<(u64, Arc<Event>)>,
}

/// A reader's place in the feed, given up when it is dropped.
pub(crate) struct Reader {
    feed: Arc<Feed>,
    number: u64,
}

impl Feed {
    /// An empty feed of `events_waiting_max` events.
    pub fn new(limits: &Limits) -> Arc<Feed> {
        let events_max = (limits.events_waiting_max as usize).max(1);
        let ring = Ring {
            events: VecDeque::new(),
            next: 1,
            events_max,
            readers: HashMap::new(),
            next_reader: 0,
            linger: 0,
            closed: false,
        };
        let (came, woken) = (Condvar::new(), Notify::new());
        Arc::new(Feed { ring: Mutex::new(ring), came, woken, wanted: AtomicBool::new(false) })
    }

    /// Puts events in. The answer is how many, old or new, some reader will never see.
    pub fn publish(&self, events: Vec<Event>) -> usize {
        let mut ring = self.lock();
        if events.is_empty() || !ring.is_wanted() {
            return 0;
        }
        if ring.closed {
            return events.len();
        }
        let slowest = ring.readers.values().copied().min();
        let mut lost = 0;
        for event in events {
            if ring.events.len() == ring.events_max {
                lost += usize::from(slowest.is_some_and(|at| at <= ring.oldest()));
                ring.events.pop_front();
            }
            ring.events.push_back(Arc::new(event));
            ring.next += 1;
            if ring.readers.is_empty() {
                ring.linger -= 1;
                if ring.linger == 0 {
                    ring.forget();
                    break;
                }
            }
        }
        self.show(&ring);
        drop(ring);
        self.came.notify_all();
        self.woken.notify_waiters();
        lost
    }

    /// Whether anybody listens, or may come back to where it was: worth making events for.
    pub fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// A reader from place `from` on; from now on when absent.
    pub(crate) fn reader(self: &Arc<Feed>, from: Option<u64>) -> Reader {
        let mut ring = self.lock();
        let number = ring.next_reader;
        ring.next_reader += 1;
        let at = from.unwrap_or(ring.next).min(ring.next);
        ring.readers.insert(number, at);
        self.show(&ring);
        Reader { feed: Arc::clone(self), number }
    }

    /// Ends the feed: readers take what is left, then their ends.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
        self.woken.notify_waiters();
    }

    /// Waits so long, or less when the feed is closed. Whether it is still open.
    pub(crate) fn pause(&self, span: Duration) -> bool {
        let ring = self.lock();
        let waited = self.came.wait_timeout_while(ring, span, |ring| !ring.closed);
        !waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    fn show(&self, ring: &Ring) {
        self.wanted.store(ring.is_wanted(), Ordering::Relaxed);
    }

    /// Nothing panics half way through a change of the ring.
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn oldest(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    fn is_wanted(&self) -> bool {
        !self.readers.is_empty() || self.linger > 0
    }

    /// Nobody came back in time: whoever does later has lost something, and the skipped place
    /// tells it so even if nothing more happens.
    fn forget(&mut self) {
        self.events.clear();
        self.next += 1;
    }

    fn take(&mut self, number: u64, count: usize) -> Taken {
        let oldest = self.oldest();
        let at = self.readers.get_mut(&number).expect("a reader keeps its place until dropped");
        let lost = oldest.saturating_sub(*at);
        let first = (*at).max(oldest);
        let events = self.events.iter().skip((first - oldest) as usize).take(count);
        let events: Vec<_> = (first..).zip(events.map(Arc::clone)).collect();
        *at = first + events.len() as u64;
        Taken { lost, events }
    }
}

impl Reader {
    /// Takes up to `count` events at once, without waiting. `None` at the end of a closed feed.
    pub(crate) fn take(&self, count: usize) -> Option<Taken> {
        let mut ring = self.feed.lock();
        let taken = ring.take(self.number, count);
        let empty = taken.lost == 0 && taken.events.is_empty();
        (!(empty && ring.closed)).then_some(taken)
    }

    /// Waits until there is something to take, then takes it. For tasks.
    pub(crate) async fn next(&self, count: usize) -> Option<Taken> {
        loop {
            // Asked for before looking, so that what comes between the two is not missed.
            let woken = self.feed.woken.notified();
            let mut woken = std::pin::pin!(woken);
            woken.as_mut().enable();
            let taken = self.take(count)?;
            if taken.lost > 0 || !taken.events.is_empty() {
                return Some(taken);
            }
            woken.await;
        }
    }

    /// Waits for a first event, then up to `gather` for `count` of them. For threads.
    pub(crate) fn next_batch(&self, count: usize, gather: Duration) -> Option<Taken> {
        let feed = &self.feed;
        let ready = |ring: &Ring, wanted: u64| {
            let at = ring.readers.get(&self.number).expect("as in take()");
            ring.next - at >= wanted || ring.closed
        };
        let ring = feed.came.wait_while(feed.lock(), |ring| !ready(ring, 1));
        let ring = ring.unwrap_or_else(PoisonError::into_inner);
        let full = feed.came.wait_timeout_while(ring, gather, |ring| !ready(ring, count as u64));
        drop(full.unwrap_or_else(PoisonError::into_inner));
        self.take(count)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut ring = self.feed.lock();
        ring.readers.remove(&self.number);
        if ring.readers.is_empty() {
            ring.linger = ring.events_max;
        }
        self.feed.show(&ring);
    }
}

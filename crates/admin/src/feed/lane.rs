//! A bounded ring of events between the shards and their readers.
//!
//! Each reader has its own place in the ring, so a slow one affects no other: it loses the oldest
//! events and learns how many. Places are numbers that rise by one. Only events that some reader
//! wants are stored. Invariant: a reader gets everything it wants from its place on, in order, or
//! at least the count of the events it has lost.

use super::{Happening, Wish};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// One ring, shared by shards, streams and webhooks.
pub(crate) struct Lane {
    ring: Mutex<Ring>,
    /// Wakes threads (webhooks) at new events and at the end.
    came: Condvar,
    /// Wakes tasks (streams) at new events and at the end.
    woken: Notify,
    wanted: AtomicU8,
}

/// The sorts of happenings that are worth making.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sorts(u8);

impl Sorts {
    const DEVICES: u8 = 1;
    const CLIENTS: u8 = 2;
    const MESSAGES: u8 = 4;
    /// Of devices and clients, some.
    const PRESENCE: u8 = 8;
    const CHAT: u8 = 16;
    const ALARMS: u8 = 32;
    const COUNT: usize = 6;

    fn of(wish: &Wish) -> u8 {
        let sorts = [
            (wish.devices, Sorts::DEVICES),
            (wish.clients, Sorts::CLIENTS),
            (!wish.topics.is_empty(), Sorts::MESSAGES),
            (wish.presence, Sorts::PRESENCE),
            (wish.chat, Sorts::CHAT),
            (wish.alarms, Sorts::ALARMS),
        ];
        sorts.into_iter().filter(|(wanted, _)| *wanted).fold(0, |all, (_, sort)| all | sort)
    }

    pub(crate) fn devices(self) -> bool {
        self.0 & (Sorts::DEVICES | Sorts::PRESENCE) != 0
    }

    pub(crate) fn clients(self) -> bool {
        self.0 & (Sorts::CLIENTS | Sorts::PRESENCE) != 0
    }

    pub(crate) fn chat(self) -> bool {
        self.0 & Sorts::CHAT != 0
    }

    pub(crate) fn messages(self) -> bool {
        self.0 & Sorts::MESSAGES != 0
    }
}

struct Ring {
    happenings: VecDeque<Arc<Happening>>,
    /// Their bytes, as far as they count.
    bytes: usize,
    /// Place of the next one.
    next: u64,
    count_max: usize,
    bytes_max: usize,
    readers: HashMap<u64, Place>,
    next_reader: u64,
    /// Wish of the last reader, while it can come back to where it was.
    lingering: Wish,
    /// How many more are kept for it.
    linger: usize,
    linger_max: usize,
    /// Place since which each sort was kept without a gap, by the number of its bit.
    since: [Option<u64>; Sorts::COUNT],
    closed: bool,
}

/// Where a reader stands.
struct Place {
    /// Place of the next entry that it takes.
    at: u64,
    /// Events lost beside those that the ring lost: reported with the next ones that it takes.
    owed: u64,
    wish: Wish,
}

/// Entries that a reader takes.
pub(crate) struct Taken {
    /// Entries that were overwritten before it took them.
    pub(crate) lost: u64,
    /// Each with its place.
    pub(crate) happenings: Vec<(u64, Arc<Happening>)>,
}

/// How a wait of a reader's ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Paused {
    /// The time to wait has passed.
    Over,
    /// Three quarters of the lane's room are filled with events that wait for the reader.
    FarBehind,
    /// The lane was closed.
    Closed,
}

/// A reader's place in a lane, given up when it is dropped.
pub(crate) struct Reader {
    lane: Arc<Lane>,
    number: u64,
    /// Its waits end early, and it takes no more batches.
    ended: Arc<AtomicBool>,
}

impl Lane {
    /// An empty lane for this many events and bytes; after its last reader has gone, events are
    /// still stored until `linger_max` more have come, so that a reader can come back.
    pub(super) fn new(count_max: usize, bytes_max: usize, linger_max: usize) -> Arc<Lane> {
        let ring = Ring {
            happenings: VecDeque::new(),
            bytes: 0,
            next: 1,
            count_max,
            bytes_max,
            readers: HashMap::new(),
            next_reader: 0,
            lingering: Wish::default(),
            linger: 0,
            linger_max,
            since: [None; Sorts::COUNT],
            closed: false,
        };
        let (came, woken) = (Condvar::new(), Notify::new());
        Arc::new(Lane { ring: Mutex::new(ring), came, woken, wanted: AtomicU8::new(0) })
    }

    /// Stores the events that some reader wants. Returns how many, old or new, some reader will
    /// never see.
    pub(super) fn publish(&self, mut happenings: Vec<Happening>) -> usize {
        let mut ring = self.lock();
        happenings.retain(|happening| ring.wants(happening));
        if happenings.is_empty() {
            return 0;
        }
        if ring.closed {
            return happenings.len();
        }
        let slowest = ring.readers.values().map(|place| place.at).min();
        let mut lost = 0;
        for happening in happenings {
            let weight = happening.weight();
            while ring.is_full(weight) {
                lost += usize::from(slowest.is_some_and(|at| at <= ring.oldest()));
                let oldest = ring.happenings.pop_front().expect("a full ring is not empty");
                ring.bytes -= oldest.weight();
            }
            ring.happenings.push_back(Arc::new(happening));
            ring.bytes += weight;
            ring.next += 1;
            if ring.readers.is_empty() {
                ring.linger -= 1;
                if ring.linger == 0 {
                    ring.forget();
                    break;
                }
            }
        }
        self.show(&mut ring);
        drop(ring);
        self.came.notify_all();
        self.woken.notify_waiters();
        lost
    }

    /// Kinds of events worth making: they have readers, or a reader may come back to its place.
    pub(super) fn wanted(&self) -> Sorts {
        Sorts(self.wanted.load(Ordering::Relaxed))
    }

    /// A reader from place `from` on; from now on when absent.
    pub(super) fn reader(self: &Arc<Lane>, wish: Wish, from: Option<u64>) -> Reader {
        let mut ring = self.lock();
        let number = ring.next_reader;
        ring.next_reader += 1;
        let at = from.unwrap_or(ring.next).min(ring.next);
        let sorts = Sorts::of(&wish);
        let kept = |since: Option<u64>| since.is_some_and(|since| since <= at);
        let whole = from.is_none()
            || (0..Sorts::COUNT).all(|sort| sorts >> sort & 1 == 0 || kept(ring.since[sort]));
        // A kind of event was not stored for a while, and their number is unknown: at least one may
        // have come.
        let owed = u64::from(!whole && at >= ring.oldest());
        ring.readers.insert(number, Place { at, owed, wish });
        self.show(&mut ring);
        Reader { lane: Arc::clone(self), number, ended: Arc::default() }
    }

    /// Ends the lane: readers take what is left, then their ends.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
        self.woken.notify_waiters();
    }

    /// Waits so long, or less when the lane is closed or the caller `ended`. Whether neither is so.
    pub(super) fn pause(&self, span: Duration, ended: &AtomicBool) -> bool {
        let goes_on = |ring: &mut Ring| !ring.closed && !ended.load(Ordering::Relaxed);
        let waited = self.came.wait_timeout_while(self.lock(), span, goes_on);
        goes_on(&mut waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Has threads that wait look at their end flags.
    pub(super) fn wake(&self) {
        // Readers that begin to wait after this lock see a flag that was set before it.
        drop(self.lock());
        self.came.notify_all();
    }

    fn show(&self, ring: &mut Ring) {
        let wanted = ring.sorts();
        for sort in 0..Sorts::COUNT {
            let begins = (wanted >> sort & 1 == 1).then(|| ring.since[sort].unwrap_or(ring.next));
            ring.since[sort] = begins;
        }
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Locks the ring. Nothing panics half way through a change of it.
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn oldest(&self) -> u64 {
        self.next - self.happenings.len() as u64
    }

    fn is_full(&self, weight: usize) -> bool {
        let heavy = self.bytes.saturating_add(weight) > self.bytes_max;
        self.happenings.len() == self.count_max || heavy && !self.happenings.is_empty()
    }

    fn wants(&self, happening: &Happening) -> bool {
        self.linger > 0 && self.lingering.wants(happening)
            || self.readers.values().any(|place| place.wish.wants(happening))
    }

    fn sorts(&self) -> u8 {
        let lingering = if self.linger > 0 { Sorts::of(&self.lingering) } else { 0 };
        self.readers.values().fold(lingering, |sorts, place| sorts | Sorts::of(&place.wish))
    }

    /// Forgets all events, since no reader came back in time: a reader that comes back later has
    /// lost some, and the skipped place tells it so even if no further event comes.
    fn forget(&mut self) {
        self.happenings.clear();
        self.bytes = 0;
        self.next += 1;
    }

    fn take(&mut self, number: u64, count: usize) -> Taken {
        let oldest = self.oldest();
        let place = self.readers.get_mut(&number).expect("a reader keeps its place until dropped");
        let lost = oldest.saturating_sub(place.at) + std::mem::take(&mut place.owed);
        let first = place.at.max(oldest);
        let taken = self.happenings.iter().skip((first - oldest) as usize).take(count);
        let happenings: Vec<_> = (first..).zip(taken.map(Arc::clone)).collect();
        place.at = first + happenings.len() as u64;
        Taken { lost, happenings }
    }
}

impl Reader {
    /// Takes up to `count` at once, without waiting. `None` at the end of a closed lane.
    pub(crate) fn take(&self, count: usize) -> Option<Taken> {
        let mut ring = self.lane.lock();
        let taken = ring.take(self.number, count);
        let empty = taken.lost == 0 && taken.happenings.is_empty();
        (!(empty && ring.closed)).then_some(taken)
    }

    /// Waits for events, then takes them. For tasks.
    pub(crate) async fn next(&self, count: usize) -> Option<Taken> {
        loop {
            // Asked for before looking, so that what comes between the two is not missed.
            let woken = self.lane.woken.notified();
            let mut woken = std::pin::pin!(woken);
            woken.as_mut().enable();
            let taken = self.take(count)?;
            if taken.lost > 0 || !taken.happenings.is_empty() {
                return Some(taken);
            }
            woken.await;
        }
    }

    /// Waits for a first one, then up to `gather` for `count` of them. For threads. `None` at the
    /// end of a closed lane, and once the reader has ended.
    pub(crate) fn next_batch(&self, count: usize, gather: Duration) -> Option<Taken> {
        let lane = &self.lane;
        let ready = |ring: &Ring, wanted: u64| {
            ring.next - self.place(ring).at >= wanted || ring.closed || self.is_ended()
        };
        let ring = lane.came.wait_while(lane.lock(), |ring| !ready(ring, 1));
        let ring = ring.unwrap_or_else(PoisonError::into_inner);
        let full = lane.came.wait_timeout_while(ring, gather, |ring| !ready(ring, count as u64));
        drop(full.unwrap_or_else(PoisonError::into_inner));
        if self.is_ended() { None } else { self.take(count) }
    }
}

impl Reader {
    /// A reader that ends once this flag is set and the feed was woken.
    pub(crate) fn until(mut self, ended: &Arc<AtomicBool>) -> Reader {
        self.ended = Arc::clone(ended);
        self
    }

    /// The flag that ends it.
    pub(crate) fn end_flag(&self) -> &AtomicBool {
        &self.ended
    }

    /// Whether it was told to end.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Sets what the reader wants. Events that are in the lane already stay.
    pub(crate) fn set_wish(&self, wish: Wish) {
        let mut ring = self.lane.lock();
        let place = ring.readers.get_mut(&self.number);
        place.expect("a reader keeps its place until dropped").wish = wish;
        self.lane.show(&mut ring);
    }

    /// Waits for this time, or less if the reader is far behind, was told to end, or the lane was
    /// closed.
    pub(crate) fn pause(&self, span: Duration) -> Paused {
        let lane = &self.lane;
        let waits = |ring: &mut Ring| !ring.closed && !self.is_ended() && !self.lags(ring, 3);
        let waited = lane.came.wait_timeout_while(lane.lock(), span, waits);
        let ring = waited.unwrap_or_else(PoisonError::into_inner).0;
        match () {
            () if ring.closed => Paused::Closed,
            () if self.lags(&ring, 3) => Paused::FarBehind,
            () => Paused::Over,
        }
    }

    /// Whether half of the lane's room is filled with events that wait for this reader.
    pub(crate) fn is_far_behind(&self) -> bool {
        self.lags(&self.lane.lock(), 2)
    }

    /// Entries that wait for this reader, or were lost to it and are still to be reported.
    pub(crate) fn waiting(&self) -> u64 {
        let ring = self.lane.lock();
        ring.next - self.place(&ring).at
    }

    /// Whether this many quarters of the lane's room are filled with events that wait for this
    /// reader.
    fn lags(&self, ring: &Ring, quarters: usize) -> bool {
        let waiting = ring.next - self.place(ring).at;
        waiting >= (ring.count_max * quarters).div_ceil(4) as u64
    }

    fn place<'a>(&self, ring: &'a Ring) -> &'a Place {
        ring.readers.get(&self.number).expect("a reader keeps its place until dropped")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut ring = self.lane.lock();
        let left = ring.readers.remove(&self.number);
        if ring.readers.is_empty() {
            ring.linger = ring.linger_max;
            ring.lingering = left.map(|place| place.wish).unwrap_or_default();
            if ring.linger == 0 {
                ring.forget();
            }
        }
        self.lane.show(&mut ring);
    }
}

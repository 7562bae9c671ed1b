//! Where threads hand shards to each other: an inbox a thread, in which it also sleeps while it
//! has none.
//!
//! A shard in an inbox belongs to nobody else, so that it is never run by two threads. Invariant: a
//! shard that is given is taken, for an inbox is closed under the lock under which it is filled,
//! and closing returns the shards in it.

use super::load::{GATHER_PERMILLE, WindowReading};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The load of the first thread while it is not known.
const UNKNOWN: u32 = u32::MAX;

/// Bytes a second that one thread is compared with while it is compared with nothing.
const NO_TRIAL: u64 = u64::MAX;

/// How many threads run shards: a gauge that others may look at.
#[derive(Default, Debug)]
pub struct AwakeThreads(AtomicU32);

impl AwakeThreads {
    /// Number of threads that are awake.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The inboxes of all threads.
pub struct ShardExchange<T> {
    inboxes: Box<[Inbox<T>]>,
    /// Shards that have not ended.
    left: AtomicUsize,
    awake: Arc<AwakeThreads>,
    /// How busy the first thread is, with what others are about to give it, in thousandths.
    first: AtomicU32,
    /// Bytes a second that the first thread moved.
    first_moved: AtomicU64,
    /// Bytes a second that two threads moved, with which the first is to be compared.
    trial: AtomicU64,
}

struct Inbox<T> {
    filled: AtomicBool,
    tray: Mutex<Tray<T>>,
    came: Condvar,
}

struct Tray<T> {
    shards: Vec<Box<T>>,
    is_open: bool,
}

impl<T> ShardExchange<T> {
    /// Makes an exchange with as many threads as shards; all shards wait for the first thread.
    pub fn new(shards: Vec<Box<T>>, awake: Arc<AwakeThreads>) -> Arc<ShardExchange<T>> {
        let count = shards.len();
        let inbox = |shards: Vec<Box<T>>| Inbox {
            filled: AtomicBool::new(!shards.is_empty()),
            tray: Mutex::new(Tray { shards, is_open: true }),
            came: Condvar::new(),
        };
        let others = (1..count).map(|_| inbox(Vec::new()));
        let left = AtomicUsize::new(count);
        let inboxes = std::iter::once(inbox(shards)).chain(others).collect();
        Arc::new(ShardExchange {
            inboxes,
            left,
            awake,
            first: AtomicU32::new(UNKNOWN),
            first_moved: AtomicU64::new(0),
            trial: AtomicU64::new(NO_TRIAL),
        })
    }

    /// Gives shards to a thread, or gives them back when it takes none any more. `wake` is called
    /// when the thread will find that there is something.
    pub(super) fn give(
        &self,
        to: usize,
        mut shards: Vec<Box<T>>,
        wake: impl FnOnce(&mut [Box<T>]),
    ) -> Result<(), Vec<Box<T>>> {
        let inbox = &self.inboxes[to];
        let mut tray = inbox.tray();
        if !tray.is_open {
            return Err(shards);
        }
        // Whoever wakes now waits for the lock.
        inbox.filled.store(true, Ordering::SeqCst);
        wake(&mut shards);
        tray.shards.append(&mut shards);
        inbox.came.notify_one();
        Ok(())
    }

    /// Takes the shards that were given to a thread. Call it after each look at the mailbox that
    /// wakes the thread, and before it sleeps.
    pub(super) fn take(&self, number: usize) -> Vec<Box<T>> {
        let inbox = &self.inboxes[number];
        if !inbox.filled.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut tray = inbox.tray();
        inbox.filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut tray.shards)
    }

    /// The thread takes nothing more. Shards that are there by now are still its own.
    pub(super) fn close(&self, number: usize) -> Vec<Box<T>> {
        let mut tray = self.inboxes[number].tray();
        tray.is_open = false;
        std::mem::take(&mut tray.shards)
    }

    /// Sleeps until there is something for this thread. False when all shards have ended.
    pub(super) fn park(&self, number: usize) -> bool {
        let inbox = &self.inboxes[number];
        let mut tray = inbox.tray();
        loop {
            if !tray.shards.is_empty() {
                return true;
            }
            if self.left.load(Ordering::SeqCst) == 0 {
                return false;
            }
            tray = inbox.came.wait(tray).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether something waits for this thread.
    pub fn is_filled(&self, number: usize) -> bool {
        !self.inboxes[number].tray().shards.is_empty()
    }

    /// A shard has ended.
    pub(super) fn ended(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        for inbox in &self.inboxes {
            // Under the lock: nobody is between its look and its sleep.
            let _tray = inbox.tray();
            inbox.came.notify_all();
        }
    }

    /// A thread has shards from now on, or has none any more.
    pub(super) fn set_awake(&self, is_awake: bool) {
        if is_awake { self.awake.add() } else { self.awake.take() }
    }

    /// How many threads have shards.
    pub(super) fn awake(&self) -> u32 {
        self.awake.count()
    }

    /// How busy the first thread was; nothing: it is not known yet.
    pub(super) fn tell_first(&self, reading: Option<WindowReading>) {
        let moved = reading.map_or(0, |it| it.bytes_a_second);
        self.first_moved.store(moved, Ordering::SeqCst);
        self.first.store(reading.map_or(UNKNOWN, |it| it.permille), Ordering::SeqCst);
    }

    /// The second of two threads is about to give its shards to the first for a trial, after it
    /// moved so many bytes a second. False: more than two are awake, or the first is not known.
    pub(super) fn begin_trial(&self, bytes_a_second: u64) -> bool {
        if self.awake() != 2 || self.first.swap(UNKNOWN, Ordering::SeqCst) == UNKNOWN {
            return false;
        }
        let both = bytes_a_second.saturating_add(self.first_moved.load(Ordering::SeqCst));
        self.trial.store(both.min(NO_TRIAL - 1), Ordering::SeqCst);
        true
    }

    /// The bytes a second with which the first thread is to be compared, once.
    pub(super) fn take_trial(&self) -> Option<u64> {
        Some(self.trial.swap(NO_TRIAL, Ordering::SeqCst)).filter(|rate| *rate != NO_TRIAL)
    }

    /// Whether the first thread can do this too. If so it is counted as its own from now on, so
    /// that several do not give it more together than each of them may.
    pub(super) fn reserve(&self, permille: u32) -> bool {
        let fits = |first: u32| {
            let both = first.checked_add(permille)?;
            (both <= GATHER_PERMILLE).then_some(both)
        };
        self.first.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }
}

impl<T> Inbox<T> {
    fn tray(&self) -> MutexGuard<'_, Tray<T>> {
        self.tray.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The clock of a client: real time, or what a test says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time, milliseconds.
pub trait Clock: Send {
    /// A clock that never goes back.
    fn now(&self) -> u64;
    /// Unix time.
    fn wall(&self) -> u64;
    /// How long a thread waits for this time of `now`; `None`: until it is woken.
    fn wait(&self, due: u64) -> Option<Duration>;
}

/// Real time.
pub struct RealClock(Instant);

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock(Instant::now())
    }
}

impl Clock for RealClock {
    fn now(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }

    fn wall(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }

    fn wait(&self, due: u64) -> Option<Duration> {
        Some(Duration::from_millis(due.saturating_sub(self.now())))
    }
}

/// Stands still until it is set: for tests. Clones are the same clock.
#[derive(Clone, Default)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
    wall: u64,
}

impl ManualClock {
    /// A clock at 0, when the wall clock shows `wall`.
    pub fn new(wall: u64) -> ManualClock {
        ManualClock { now: Arc::default(), wall }
    }

    /// Sets it; `Client::settle` lets the client see it.
    pub fn set(&self, now: u64) {
        self.now.store(now, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn wall(&self) -> u64 {
        self.wall + self.now()
    }

    fn wait(&self, _: u64) -> Option<Duration> {
        None
    }
}

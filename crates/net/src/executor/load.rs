//! How busy a thread is, and what follows: the policy of who runs where.
//!
//! Busy is the time spent in turns; what is left is sleep. A thread that is busy for most of two
//! short windows in a row hands over half of its work, one that could do little for a long window
//! gives all of it back to the first. It knows no threads and reads no clock: it is told both.
//!
//! Two windows, since one may be a turn during which the kernel ran somebody else. Between the
//! thresholds nothing moves: work costs no less on two threads than on one, so that what is given
//! back at [`GATHER_PERMILLE`] cannot pass [`SPREAD_PERMILLE`] by that alone.

use base::time::Instant;
use std::time::Duration;

/// Time over which a burst is noticed.
pub const SPREAD_WINDOW: Duration = Duration::from_millis(5);
/// Busy windows in a row after which shards are handed over.
pub const SPREAD_WINDOWS: u32 = 2;
/// Busy from here on: a thread at this share makes what comes wait for about as long as its turn
/// takes, which is less than the wake-up of another core (docs/adr/0019).
pub const SPREAD_PERMILLE: u32 = 600;
/// Time over which quiet is noticed.
pub const GATHER_WINDOW: Duration = Duration::from_secs(1);
/// A thread that is together with the first busy for no more than this gives its shards back.
pub const GATHER_PERMILLE: u32 = 300;

const _: () = assert!(GATHER_PERMILLE * 2 <= SPREAD_PERMILLE, "what moves back does not return");

/// One thread's load.
#[derive(Clone, Debug)]
pub struct LoadMeter {
    short: Window,
    long: Window,
    /// Busy windows in a row.
    busy: u32,
}

/// What a thread has learnt of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadReading {
    /// It is busy, and another thread should join.
    pub is_busy: bool,
    /// A short window is over.
    pub is_short_over: bool,
    /// Its share in the long window that is over, in thousandths.
    pub permille: Option<u32>,
}

impl LoadMeter {
    /// Nothing was done before `now`.
    pub fn new(now: Instant) -> LoadMeter {
        LoadMeter { short: Window::new(now), long: Window::new(now), busy: 0 }
    }

    /// So much more was spent in turns, until `now`.
    pub fn note(&mut self, now: Instant, busy: Duration) -> LoadReading {
        let mut reading = LoadReading::default();
        if let Some(permille) = self.short.note(now, busy, SPREAD_WINDOW) {
            self.busy = if permille >= SPREAD_PERMILLE { self.busy + 1 } else { 0 };
            reading.is_busy = self.busy >= SPREAD_WINDOWS;
            reading.is_short_over = true;
        }
        reading.permille = self.long.note(now, busy, GATHER_WINDOW);
        reading
    }

    /// The long window begins anew: the thread has other shards now.
    pub fn changed(&mut self, now: Instant) {
        (self.long, self.busy) = (Window::new(now), 0);
    }

    /// When the long window is over.
    pub fn next(&self) -> Instant {
        self.long.since + GATHER_WINDOW
    }
}

/// Busy time since a moment.
#[derive(Clone, Debug)]
struct Window {
    since: Instant,
    busy: Duration,
}

impl Window {
    fn new(since: Instant) -> Window {
        Window { since, busy: Duration::ZERO }
    }

    /// The share in a window that is over by now; the next one begins.
    fn note(&mut self, now: Instant, busy: Duration, span: Duration) -> Option<u32> {
        self.busy += busy;
        let passed = now - self.since;
        if passed < span {
            return None;
        }
        let permille = self.busy.as_nanos() * 1_000 / passed.as_nanos().max(1);
        *self = Window::new(now);
        Some(permille.min(1_000) as u32)
    }
}

/// Which of a thread's shards go to another one, by what each was busy: about half of the work,
/// the busiest first. The first stays, whatever it does.
pub fn half(busy: &[Duration]) -> Vec<usize> {
    let whole: Duration = busy.iter().sum();
    let mut by_work: Vec<usize> = (1..busy.len()).collect();
    by_work.sort_by_key(|&at| std::cmp::Reverse(busy[at]));
    let (mut going, mut work) = (Vec::new(), Duration::ZERO);
    for at in by_work {
        let is_enough = match whole.is_zero() {
            true => going.len() >= busy.len() / 2,
            false => work * 2 >= whole,
        };
        if is_enough {
            break;
        }
        work += busy[at];
        going.push(at);
    }
    going
}

#[cfg(test)]
mod tests;

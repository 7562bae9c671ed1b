//! How busy a thread is, and what follows: the policy of who runs where.
//!
//! Busy is the time spent in turns; what is left is sleep. A thread that is busy for most of two
//! short windows in a row hands over half of its work, one that could do little for a long window
//! gives all of it back to the first. It knows no threads and reads no clock: its caller passes
//! both.
//!
//! Two windows, since one may be a turn during which the kernel ran somebody else. Between the
//! thresholds nothing moves: work costs no less on two threads than on one, so that what is given
//! back at [`GATHER_PERMILLE`] cannot pass [`SPREAD_PERMILLE`] by that alone.
//!
//! Two threads may do less than one. Where little can be batched most of their time goes into
//! waking each other, and they take it from the clients on a small machine. So the second of two
//! gives its work back for a [`TRIAL`] now and then. One thread keeps it if it has time left, or
//! if it moves at least as many bytes a second as the two did.

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
/// How long one thread does the work of two before they are compared.
pub const TRIAL: Duration = Duration::from_millis(100);
/// A thread that is this busy has no time left.
pub const FULL_PERMILLE: u32 = 950;
/// Full windows in a row after which a thread that had passed its trial hands shards over again.
pub const FULL_WINDOWS: u32 = 4;
/// The shortest time between two comparisons; each with the same result doubles it.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest.
pub const PAUSE_MAX: Duration = Duration::from_secs(64);

const _: () = assert!(GATHER_PERMILLE * 2 <= SPREAD_PERMILLE, "what moves back does not return");

/// One thread's load.
#[derive(Clone, Debug)]
pub struct LoadMeter {
    short: Window,
    long: Window,
    /// Busy windows in a row.
    busy: u32,
    /// Full windows in a row.
    full: u32,
    alone: Alone,
    /// How long one thread that was as fast as two goes on before they are compared again.
    pause: Duration,
}

/// Figures of one thread that runs all shards.
#[derive(Clone, Debug)]
enum Alone {
    /// Nothing is known yet.
    Unknown,
    /// One thread is being compared with two, which moved so many bytes a second.
    Trial(Window, u64),
    /// One thread had time left.
    Enough,
    /// One thread was full and moved as many bytes as two. They are compared again at this time.
    AsFast(Instant),
}

/// Figures that a thread has of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadReading {
    /// Whether the thread is busy, and another one should join.
    pub is_busy: bool,
    /// A short window is over.
    pub is_short_over: bool,
    /// The long window that is over.
    pub long: Option<WindowReading>,
}

/// A window that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowReading {
    /// The share of it that the thread was busy, in thousandths.
    pub permille: u32,
    /// Bytes that its shards moved in a second.
    pub bytes_a_second: u64,
}

impl LoadMeter {
    /// Makes a meter without any work before `now`.
    pub fn new(now: Instant) -> LoadMeter {
        let window = Window::new(now, 0);
        LoadMeter {
            short: window.clone(),
            long: window,
            busy: 0,
            full: 0,
            alone: Alone::Unknown,
            pause: PAUSE_MIN,
        }
    }

    /// Adds `busy`, the time spent in turns until `now`. `moved` are the bytes that the thread's
    /// shards have moved since their beginning; it is called at the end of a window.
    pub fn note(&mut self, now: Instant, busy: Duration, moved: impl Fn() -> u64) -> LoadReading {
        let mut reading = LoadReading::default();
        if let Alone::Trial(window, _) = &mut self.alone {
            window.busy += busy;
        }
        if let Some(short) = self.short.note(now, busy, SPREAD_WINDOW, || 0) {
            let counts = |count, least| if short.permille >= least { count + 1 } else { 0 };
            self.busy = counts(self.busy, SPREAD_PERMILLE);
            self.full = counts(self.full, FULL_PERMILLE);
            reading.is_busy = self.is_to_spread(now, &moved);
            reading.is_short_over = true;
        }
        reading.long = self.long.note(now, busy, GATHER_WINDOW, moved);
        if reading.long.is_some_and(|long| long.permille <= GATHER_PERMILLE) {
            (self.alone, self.pause) = (Alone::Unknown, PAUSE_MIN);
        }
        reading
    }

    /// Whether another thread should join, at the end of a short window.
    fn is_to_spread(&mut self, now: Instant, moved: &impl Fn() -> u64) -> bool {
        match &mut self.alone {
            Alone::Unknown => self.busy >= SPREAD_WINDOWS,
            Alone::Enough => self.full >= FULL_WINDOWS,
            Alone::AsFast(until) => now >= *until && self.busy >= SPREAD_WINDOWS,
            Alone::Trial(window, of_two) => {
                let of_two = *of_two;
                let Some(trial) = window.note(now, Duration::ZERO, TRIAL, moved) else {
                    return false;
                };
                if trial.permille < FULL_PERMILLE {
                    self.alone = Alone::Enough;
                    return false;
                }
                if trial.bytes_a_second < of_two {
                    return true;
                }
                self.alone = Alone::AsFast(now + self.pause);
                self.pause = (self.pause * 2).min(PAUSE_MAX);
                false
            }
        }
    }

    /// The long window begins anew: the thread has other shards now, which have moved so many
    /// bytes since their beginning.
    pub fn changed(&mut self, now: Instant, moved: u64) {
        (self.long, self.busy, self.full) = (Window::new(now, moved), 0, 0);
        self.alone = Alone::Unknown;
    }

    /// The thread has all shards, to be compared with two that moved so many bytes a second.
    pub fn tries(&mut self, now: Instant, moved: u64, of_two: u64) {
        self.changed(now, moved);
        self.alone = Alone::Trial(Window::new(now, moved), of_two);
    }

    /// When the long window is over.
    pub fn next(&self) -> Instant {
        self.long.since + GATHER_WINDOW
    }
}

/// When the second of two threads gives its work to the first for a trial.
#[derive(Clone, Debug)]
pub struct Trials {
    next: Instant,
    pause: Duration,
    gave: Option<Instant>,
}

impl Trials {
    /// Makes a state in which no trial was made.
    pub fn new(now: Instant) -> Trials {
        Trials { next: now, pause: PAUSE_MIN, gave: None }
    }

    /// Shards came to a thread that had none. Those that come back from a trial say that two
    /// threads do more than one.
    pub fn came(&mut self, now: Instant) {
        let has_failed = self.gave.take().is_some_and(|gave| now - gave < GATHER_WINDOW);
        self.pause = if has_failed { (self.pause * 2).min(PAUSE_MAX) } else { PAUSE_MIN };
        self.next = now + self.pause;
    }

    /// Whether it is time for one.
    pub fn is_time(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// One begins.
    pub fn begins(&mut self, now: Instant) {
        self.gave = Some(now);
    }
}

/// Busy time and moved bytes since a moment.
#[derive(Clone, Debug)]
struct Window {
    since: Instant,
    busy: Duration,
    /// Bytes that were moved before it.
    moved: u64,
}

impl Window {
    fn new(now: Instant, moved: u64) -> Window {
        Window { since: now, busy: Duration::ZERO, moved }
    }

    /// A window that is over by now; the next one begins.
    fn note(
        &mut self,
        now: Instant,
        busy: Duration,
        span: Duration,
        moved: impl Fn() -> u64,
    ) -> Option<WindowReading> {
        self.busy += busy;
        let passed = now - self.since;
        if passed < span {
            return None;
        }
        let passed = passed.as_nanos().max(1);
        let moved = moved();
        let bytes = u128::from(moved.saturating_sub(self.moved));
        let reading = WindowReading {
            permille: (self.busy.as_nanos() * 1_000 / passed).min(1_000) as u32,
            bytes_a_second: u64::try_from(bytes * 1_000_000_000 / passed).unwrap_or(u64::MAX),
        };
        *self = Window::new(now, moved);
        Some(reading)
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

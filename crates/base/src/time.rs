//! Time as an argument.
//!
//! The clock is read once a loop turn by `net` (and by the simulated world), nowhere else. Other
//! code is handed a [`Now`]: a monotonic instant for deadlines and a wall-clock reading for texts
//! and for other machines. Two readings, because the wall clock may step.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment on a clock that never steps back, in nanoseconds since the process (or world) began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The moment `nanos` nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the beginning.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the beginning.
    pub const fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole seconds since the beginning: 136 years fit, and a record has room for no more.
    pub const fn secs(self) -> u32 {
        (self.0 / 1_000_000_000) as u32
    }

    /// Time from `earlier` to here; zero when `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

/// The earliest of some moments that may not be: when to turn next, of all who want to.
pub fn earliest<const N: usize>(all: [Option<Instant>; N]) -> Option<Instant> {
    let mut first: Option<Instant> = None;
    for one in &all {
        if let Some(one) = *one
            && first.is_none_or(|first| one < first)
        {
            first = Some(one);
        }
    }
    first
}

/// Reading of both clocks: one serves a whole loop turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// The monotonic clock, for deadlines and elapsed time.
    pub mono: Instant,
    /// The wall clock, in milliseconds since 1970-01-01 UTC. It may step in either direction.
    pub wall_ms: u64,
}

impl Now {
    /// A reading of both clocks.
    pub const fn new(mono: Instant, wall_ms: u64) -> Self {
        Now { mono, wall_ms }
    }

    /// The instant `span` from now.
    pub fn after(self, span: Duration) -> Instant {
        self.mono + span
    }

    /// Whole seconds since the process began.
    pub const fn secs(self) -> u32 {
        self.mono.secs()
    }

    /// Whole milliseconds since the process began, modulo 2^32: for spans of less than 49 days,
    /// taken by [`u32::wrapping_sub`].
    pub const fn ms_wrapping(self) -> u32 {
        (self.mono.nanos() / 1_000_000) as u32
    }

    /// Whole seconds since 1970-01-01 UTC, as wire formats carry it.
    pub const fn unix_s(self) -> u32 {
        (self.wall_ms / 1000) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_moment_is_never_a_negative_span() {
        let (early, late) = (Instant::from_nanos(5), Instant::from_nanos(9));
        assert_eq!(late - early, Duration::from_nanos(4));
        assert_eq!(early - late, Duration::ZERO);
    }

    #[test]
    fn the_earliest_moment_is_found_among_those_that_are() {
        let [early, late] = [5, 9].map(|nanos| Some(Instant::from_nanos(nanos)));
        assert_eq!(earliest([None, late, early, None, late]), early);
        assert_eq!(earliest([late]), late);
        assert_eq!(earliest([None, None]), None);
    }

    #[test]
    fn seconds_are_whole() {
        let now = Now::new(Instant::from_nanos(1_999_999_999), 1_999);
        assert_eq!((now.secs(), now.unix_s()), (1, 1));
        assert_eq!(now.after(Duration::from_nanos(1)).secs(), 2);
    }

    #[test]
    fn a_moment_is_told_in_every_unit() {
        let at = Instant::from_nanos(5_000_000_000 * 1_000_000 + 999_999);
        assert_eq!((at.millis(), at.secs()), (5_000_000_000, 5_000_000));
        let now = Now::new(at, 1_999_999);
        assert_eq!(now.ms_wrapping(), 705_032_704, "it wraps after 49 days");
        assert_eq!(
            (now.unix_s(), now.mono.since(Instant::from_nanos(0))),
            (1_999, at - Instant(0))
        );
        assert_eq!(Instant(u64::MAX) + Duration::from_secs(1), Instant(u64::MAX));
        assert_eq!(Instant(7) + Duration::MAX, Instant(u64::MAX));
    }
}

//! Latencies for operators, declared once: a histogram a phase, with fixed buckets.
//!
//! Each shard owns its [`Latencies`], which are added up together with its counters. Recording
//! costs one pass over sixteen bounds and two additions; it neither allocates nor locks. Metric,
//! help and place in the console follow from the line that declares a phase. Times are differences
//! of the readings that a shard takes once a turn: an operation within one turn took 0. Invariant:
//! each recorded time is in one bucket.

use base::time::{Instant, Now};
use std::time::Duration;

/// Upper bounds of the buckets but the last, microseconds: 1, 2.5, 5 by decades.
pub const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

macro_rules! phases {
    ($($variant:ident $of:literal $name:literal $help:literal;)+) => {
        /// LatencyPhase of the way of a message, a login or a shard.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum LatencyPhase { $(#[doc = $help] $variant,)+ }

        impl LatencyPhase {
            /// All of them, in order.
            pub const ALL: &'static [LatencyPhase] = &[$(LatencyPhase::$variant,)+];

            /// Label of whose it is: a protocol, a service or the shards.
            pub const fn of(self) -> &'static str {
                match self { $(LatencyPhase::$variant => $of,)+ }
            }

            /// Label of the phase.
            pub const fn name(self) -> &'static str {
                match self { $(LatencyPhase::$variant => $name,)+ }
            }

            /// Beginning and end of the phase, in words.
            pub const fn help(self) -> &'static str {
                match self { $(LatencyPhase::$variant => $help,)+ }
            }
        }
    };
}

phases! {
    Turn "shard" "turn" "Duration of a shard's turn; everything else on the shard waits.";
    Lag "shard" "lag" "Delay of a shard's turn, after its timer or its previous turn.";
    LoginMiop "miop" "login" "From the last bytes of a Bind until the device is bound.";
    LoginMqtt "mqtt" "login" "From a client's CONNECT, or last AUTH, until it is accepted.";
    LoginIm "im" "login" "From the last bytes of a login until the device is logged in.";
    LoginXmpp "xmpp" "login" "From the last bytes of a login until it has succeeded.";
    StorePush "push" "store" "Time of a call to the log, for pushes and devices.";
    StoreTopics "topics" "store" "Time of a call to the log, for topics and sessions.";
    StoreChat "chat" "store" "Time of a call to the log, for accounts and conversations.";
    Acknowledge "push" "acknowledge"
        "From the last sending of a push until its device acknowledges it.";
    Publish "topics" "publish" "From a message of QoS 1 or 2 until its PUBACK or PUBREC.";
    Send "chat" "send" "From a message of a device until its acknowledgement is sent.";
    Distribute "chat" "distribute" "From a stored message until it is in every inbox.";
}

/// Name of the metric, without the prefix `holdline_`.
pub const METRIC: &str = "phase_seconds";

/// Its explanation.
pub const METRIC_HELP: &str = "Durations, by service (of) and phase.";

/// Durations of one phase, counted by bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// How many were in each bucket, the last one for those above all bounds.
    pub buckets: [u64; BOUNDS_US.len() + 1],
    /// All durations together, microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, us: u64) {
        let bucket = BOUNDS_US.iter().position(|&bound| us <= bound).unwrap_or(BOUNDS_US.len());
        self.buckets[bucket] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The duration, in microseconds, that this many of a thousand do not exceed, interpolated
    /// evenly within a bucket. Above all bounds it is the last bound. `None` if nothing was
    /// recorded.
    pub fn permille(&self, permille: u64) -> Option<u64> {
        let count = self.count();
        let wanted = (count * permille.min(1_000)).div_ceil(1_000).max(1);
        let mut before = 0;
        for (at, &inside) in self.buckets.iter().enumerate() {
            if before + inside >= wanted && inside > 0 {
                let low = at.checked_sub(1).map_or(0, |below| BOUNDS_US[below]);
                let high = BOUNDS_US.get(at).copied().unwrap_or(low);
                return Some(low + (high - low) * (wanted - before) / inside);
            }
            before += inside;
        }
        None
    }

    /// Adds another shard's.
    pub fn add(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

/// Latencies of one shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies([Histogram; LatencyPhase::ALL.len()]);

impl Latencies {
    /// Counts a duration of a phase.
    pub fn record(&mut self, phase: LatencyPhase, lasted: Duration) {
        self.0[phase as usize].record(lasted.as_micros() as u64);
    }

    /// Counts of a phase.
    pub fn of(&self, phase: LatencyPhase) -> &Histogram {
        &self.0[phase as usize]
    }

    /// Adds another shard's.
    pub fn add(&mut self, other: &Latencies) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.add(theirs));
    }
}

/// Beginning of a phase in four bytes, in ticks of 16 microseconds: right for 19 hours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Began(u32);

/// Nanoseconds of a tick.
const TICK_NANOS: u64 = 16_000;

impl Began {
    /// The present moment.
    pub fn at(now: Now) -> Began {
        Began(ticks(now.mono))
    }

    /// Time since then, to a tick.
    pub fn until(self, now: Now) -> Duration {
        Duration::from_nanos(u64::from(ticks(now.mono).wrapping_sub(self.0)) * TICK_NANOS)
    }
}

fn ticks(at: Instant) -> u32 {
    (at.nanos() / TICK_NANOS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for (us, bucket) in [
            (0, 0),
            (100, 0),
            (101, 1),
            (250, 1),
            (1_000, 3),
            (10_000_000, 15),
            (10_000_001, 16),
            (u64::MAX, 16),
        ] {
            let mut histogram = Histogram::default();
            histogram.record(us);
            let found = histogram.buckets.iter().position(|&count| count == 1);
            assert_eq!((found, histogram.count(), histogram.sum_us), (Some(bucket), 1, us));
        }
    }

    #[test]
    fn so_many_of_a_thousand_do_not_exceed_what_their_bucket_says() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.permille(500), None);
        (0..90).for_each(|_| histogram.record(1));
        (0..9).for_each(|_| histogram.record(2_000));
        histogram.record(60_000_000);
        assert_eq!(histogram.permille(500), Some(55), "the 50th of 90 below 100");
        assert_eq!(histogram.permille(900), Some(100));
        assert_eq!(histogram.permille(990), Some(2_500));
        assert_eq!(histogram.permille(1_000), Some(10_000_000), "as far as buckets tell");
    }

    #[test]
    fn latencies_of_shards_add_up_by_phase() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        for (at, &phase) in LatencyPhase::ALL.iter().enumerate() {
            (0..=at).for_each(|_| one.record(phase, Duration::from_micros(3)));
            other.record(phase, Duration::from_secs(1));
        }
        one.add(&other);
        for (at, &phase) in LatencyPhase::ALL.iter().enumerate() {
            let (count, sum_us) = (at as u64 + 2, 3 * (at as u64 + 1) + 1_000_000);
            assert_eq!((one.of(phase).count(), one.of(phase).sum_us), (count, sum_us));
        }
    }

    #[test]
    fn a_beginning_is_right_over_the_turn_of_its_ticks() {
        let at = |nanos| Now::new(Instant::from_nanos(nanos), 0);
        let wrap = TICK_NANOS << 32;
        for begin in [0, 5 * TICK_NANOS, wrap - TICK_NANOS, wrap + 7 * TICK_NANOS] {
            let began = Began::at(at(begin));
            for ticks in [0, 1, 1_000_000] {
                let lasted = Duration::from_nanos(ticks * TICK_NANOS);
                assert_eq!(began.until(at(begin + ticks * TICK_NANOS)), lasted);
            }
        }
    }

    #[test]
    fn every_phase_has_labels_of_its_own_and_a_sentence() {
        let mut labels: Vec<_> = LatencyPhase::ALL.iter().map(|it| (it.of(), it.name())).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), LatencyPhase::ALL.len());
        assert!(LatencyPhase::ALL.iter().all(|phase| phase.help().ends_with('.')));
        assert!(BOUNDS_US.is_sorted_by(|low, high| low < high));
    }
}

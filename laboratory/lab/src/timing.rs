//! Times that were measured: what from, what to, corrected and raw, as whole distributions.
//!
//! Corrected times count from the *planned* moment, raw ones from the moment the tester got to it.
//! Where no plan sets a moment (closed loop) both are the same. Microseconds everywhere.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the timings once.
macro_rules! timings {
    ($($variant:ident $name:literal $meaning:literal;)+) => {
        /// Kind of a timing.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Timing { $(#[doc = $meaning] $variant,)+ }

        impl Timing {
            /// All timings, in the order of a client's life.
            pub const ALL: &'static [Timing] = &[$(Timing::$variant,)+];

            /// The name in reports, files and thresholds.
            pub const fn name(self) -> &'static str {
                match self { $(Timing::$variant => $name,)+ }
            }

            /// From what to what.
            pub const fn meaning(self) -> &'static str {
                match self { $(Timing::$variant => $meaning,)+ }
            }
        }
    };
}

timings! {
    Connect "connect" "From the attempt until TCP is connected.";
    Layers "layers" "From TCP until TLS and WebSocket are established.";
    Bind "bind" "From the Bind (CONNECT) to its acceptance.";
    Ready "ready" "From the planned attempt until the client is bound.";
    Heartbeat "heartbeat" "From a heartbeat to its answer.";
    Publish "publish" "From a message sent to its acknowledgement by the server.";
    Delivery "delivery" "From a message sent by one client to its arrival at another.";
    Request "request" "From a request, or a message that needs an answer, to the complete answer.";
    Recovery "recovery" "From an unplanned end of a connection until the client is bound again.";
}

/// A distribution of microseconds.
#[derive(Clone, PartialEq)]
pub struct Spectrum(Histogram<u64>);

impl Default for Spectrum {
    fn default() -> Self {
        Spectrum(Histogram::new(3).expect("three digits are a valid precision"))
    }
}

impl Spectrum {
    /// Notes one time.
    pub fn note(&mut self, us: u64) {
        self.note_times(us, 1);
    }

    /// Notes one time, so often.
    pub fn note_times(&mut self, us: u64, times: u64) {
        self.0.record_n(us, times).expect("histograms that resize take any value");
    }

    /// Times noted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether none was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time that `percent` of all were not longer than, microseconds.
    pub fn at(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The shortest, microseconds.
    pub fn min(&self) -> u64 {
        self.0.min()
    }

    /// The longest, microseconds.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The mean, microseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The standard deviation, microseconds.
    pub fn stdev(&self) -> f64 {
        self.0.stdev()
    }

    /// Every value that occurred (the upper end of its class) with how often, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|class| (class.value_iterated_to(), class.count_at_value()))
    }

    /// Adds another distribution, exactly.
    pub fn add(&mut self, other: &Spectrum) {
        if other.is_empty() {
            return; // most are, and every class of one would be walked
        }
        self.0.add(&other.0).expect("histograms that resize take any value");
    }

    /// Times noted since `earlier`, an older state of this one.
    pub fn since(&self, earlier: &Spectrum) -> Spectrum {
        let mut rest = self.clone();
        if earlier.is_empty() {
            return rest;
        }
        // Of a distribution that is not an older state of this one nothing can be taken away.
        let _ = rest.0.subtract(&earlier.0);
        rest
    }
}

impl fmt::Debug for Spectrum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99] = [50.0, 99.0].map(|percent| self.at(percent));
        write!(f, "{} times, p50 {p50} us, p99 {p99} us, max {} us", self.count(), self.max())
    }
}

impl Serialize for Spectrum {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Spectrum {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut spectrum = Spectrum::default();
        for (us, times) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            let noted = spectrum.0.record_n(us, times);
            noted.map_err(|_| serde::de::Error::custom(format!("{us}: too long a time")))?;
        }
        Ok(spectrum)
    }
}

/// One timing, both ways of counting.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timed {
    /// From the planned moment.
    pub corrected: Spectrum,
    /// From the moment the tester got to it.
    pub raw: Spectrum,
}

impl fmt::Debug for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "corrected {:?}; raw {:?}", self.corrected, self.raw)
    }
}

impl Timed {
    /// Notes one time where no plan set a moment.
    pub fn note(&mut self, us: u64) {
        self.note_both(us, us);
    }

    /// Notes one time, from the planned moment and from the real one.
    pub fn note_both(&mut self, corrected_us: u64, raw_us: u64) {
        self.corrected.note(corrected_us);
        self.raw.note(raw_us);
    }
}

/// All timings of a group of clients.
#[derive(Clone, PartialEq)]
pub struct Timings(Vec<Timed>);

impl fmt::Debug for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(timing, timed)| (timing.name(), timed))).finish()
    }
}

impl Default for Timings {
    fn default() -> Self {
        Timings(vec![Timed::default(); Timing::ALL.len()])
    }
}

impl Timings {
    /// The distribution of one timing.
    pub fn of(&self, timing: Timing) -> &Timed {
        &self.0[timing as usize]
    }

    /// The distribution of one timing, to note in.
    pub fn at(&mut self, timing: Timing) -> &mut Timed {
        &mut self.0[timing as usize]
    }

    /// The timings of which there is something.
    pub fn iter(&self) -> impl Iterator<Item = (Timing, &Timed)> {
        let all = Timing::ALL.iter().map(|&timing| (timing, self.of(timing)));
        all.filter(|(_, timed)| !timed.raw.is_empty())
    }

    /// Adds others, exactly.
    pub fn add(&mut self, other: &Timings) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.corrected.add(&theirs.corrected);
            mine.raw.add(&theirs.raw);
        }
    }

    /// Times noted since `earlier`.
    pub fn since(&self, earlier: &Timings) -> Timings {
        let pairs = self.0.iter().zip(&earlier.0);
        Timings(
            pairs
                .map(|(now, then)| Timed {
                    corrected: now.corrected.since(&then.corrected),
                    raw: now.raw.since(&then.raw),
                })
                .collect(),
        )
    }
}

impl Serialize for Timings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(timing, timed)| (timing.name(), timed)))
    }
}

impl<'de> Deserialize<'de> for Timings {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut timings = Timings::default();
        for (name, timed) in std::collections::BTreeMap::<String, Timed>::deserialize(deserializer)?
        {
            let known = Timing::ALL.iter().find(|timing| timing.name() == name);
            let unknown = || serde::de::Error::custom(format!("{name}: no timing of that name"));
            *timings.at(*known.ok_or_else(unknown)?) = timed;
        }
        Ok(timings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_merge_exactly_survive_a_file_and_can_be_taken_away() {
        let mut first = Timings::default();
        (1..=1_000).for_each(|us| first.at(Timing::Bind).note_both(us * 100, us));
        let mut both = first.clone();
        both.at(Timing::Bind).note(16_000_000);
        assert!(both.of(Timing::Bind).raw.max() >= 16_000_000);
        assert_eq!(both.since(&first).of(Timing::Bind).raw.count(), 1);
        let text = serde_json::to_string(&both).expect("plain values");
        let back: Timings = serde_json::from_str(&text).expect("its own words");
        assert_eq!(back, both);
        assert_eq!(
            back.of(Timing::Bind).corrected.at(50.0),
            both.of(Timing::Bind).corrected.at(50.0)
        );
        first.add(&both);
        assert_eq!(first.of(Timing::Bind).raw.count(), 2_001);
    }
}

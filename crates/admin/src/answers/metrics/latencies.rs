//! How long phases last: as a histogram of Prometheus, and for the console.

use super::{head, sample};
use model::counters::Counters;
use model::latency::{BOUNDS_US, Histogram, LatencyPhase, METRIC, METRIC_HELP};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// How long phases lasted since the start, all shards together.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Latencies {
    /// Upper bounds of the buckets, microseconds; one more bucket has what was above them.
    bounds_us: &'static [u64],
    /// Each phase.
    phases: Vec<PhaseLatency>,
}

/// How long a phase lasted.
#[derive(Serialize, JsonSchema)]
struct PhaseLatency {
    /// Owner of the phase: a protocol, a service or the shards.
    of: &'static str,
    /// The phase.
    phase: &'static str,
    /// How many were in each bucket and in none before it.
    buckets: Vec<u64>,
    /// All together, microseconds.
    sum_us: u64,
    /// Median duration, microseconds, as exact as the buckets are; null: no phase was measured.
    p50_us: Option<u64>,
    /// 99th percentile of the duration, microseconds, as exact as the buckets are; null: no phase
    /// was measured.
    p99_us: Option<u64>,
    /// 99.9th percentile of the duration, microseconds, as exact as the buckets are; null: no phase
    /// was measured.
    p999_us: Option<u64>,
}

impl Latencies {
    pub(crate) fn new(counters: &Counters) -> Latencies {
        let phase = |&phase: &LatencyPhase| {
            let histogram = counters.latencies().of(phase);
            PhaseLatency {
                of: phase.of(),
                phase: phase.name(),
                buckets: histogram.buckets.to_vec(),
                sum_us: histogram.sum_us,
                p50_us: histogram.permille(500),
                p99_us: histogram.permille(990),
                p999_us: histogram.permille(999),
            }
        };
        Latencies { bounds_us: &BOUNDS_US, phases: LatencyPhase::ALL.iter().map(phase).collect() }
    }
}

/// The histogram of all phases, each with its labels.
pub(super) fn metric(out: &mut String, counters: &Counters) {
    head(out, METRIC, "histogram", METRIC_HELP);
    for &phase in LatencyPhase::ALL {
        let labels = format!("of=\"{}\",phase=\"{}\"", phase.of(), phase.name());
        series(out, &labels, counters.latencies().of(phase));
    }
}

fn series(out: &mut String, labels: &str, histogram: &Histogram) {
    let bucket = format!("{METRIC}_bucket");
    let mut sum = 0;
    for (at, inside) in histogram.buckets.iter().enumerate() {
        sum += inside;
        let bound = BOUNDS_US.get(at).map_or("+Inf".to_owned(), |&us| seconds(us).to_string());
        sample(out, &bucket, &format!("{{{labels},le=\"{bound}\"}}"), sum);
    }
    let labels = format!("{{{labels}}}");
    sample(out, &format!("{METRIC}_sum"), &labels, seconds(histogram.sum_us));
    sample(out, &format!("{METRIC}_count"), &labels, sum);
}

fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_those_below_it_too() {
        let mut counters = Counters::default();
        for us in [50, 200, 200, 11_000_000] {
            counters.lasted(LatencyPhase::Publish, Duration::from_micros(us));
        }
        let mut page = String::new();
        metric(&mut page, &counters);
        for line in [
            "# TYPE holdline_phase_seconds histogram",
            "holdline_phase_seconds_bucket{of=\"topics\",phase=\"publish\",le=\"0.0001\"} 1",
            "holdline_phase_seconds_bucket{of=\"topics\",phase=\"publish\",le=\"0.00025\"} 3",
            "holdline_phase_seconds_bucket{of=\"topics\",phase=\"publish\",le=\"10\"} 3",
            "holdline_phase_seconds_bucket{of=\"topics\",phase=\"publish\",le=\"+Inf\"} 4",
            "holdline_phase_seconds_sum{of=\"topics\",phase=\"publish\"} 11.00045",
            "holdline_phase_seconds_count{of=\"topics\",phase=\"publish\"} 4",
            "holdline_phase_seconds_count{of=\"shard\",phase=\"turn\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "no {line} in\n{page}");
        }
        let samples = page.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(
            samples,
            LatencyPhase::ALL.len() * (BOUNDS_US.len() + 3),
            "bounded, whatever happens"
        );
    }

    #[test]
    fn every_phase_is_told_in_the_guide_for_operators() {
        let guide = include_str!("../../../../../docs/operate.md");
        for phase in LatencyPhase::ALL {
            let row = format!("| `{}` | `{}` | {} |", phase.of(), phase.name(), phase.help());
            assert!(guide.contains(&row), "docs/operate.md has no row\n{row}");
        }
    }
}

//! Answers that take longer and longer while the load stays the same: a queue in the server that
//! grows.
//!
//! A tester that lags, or whose machine has too little processor time, is only a note.

use crate::case::{Case, disturbance};
use crate::saturation::LAG_US;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity, StageRun};
use lab::timing::Timing;

/// Rows that a hold needs.
const ROWS: usize = 10;
/// How many times as long answers take in the end.
const FACTOR: f64 = 4.0;
/// Microseconds by which they take longer, at least.
const MORE_US: f64 = 100_000.0;
/// How straight the line must be.
const STRAIGHT: f64 = 0.8;

/// Timings that climb.
pub fn detect(case: &Case) -> Vec<Finding> {
    let timings = [Timing::Heartbeat, Timing::Publish, Timing::Delivery, Timing::Request];
    let quiet = case.run.stages.iter().filter(|stage| disturbance(case.run, stage).is_none());
    let all = quiet.flat_map(|stage| timings.map(|timing| (stage, timing)));
    all.filter_map(|(stage, timing)| climb(case, stage, timing)).collect()
}

fn climb(case: &Case, stage: &StageRun, timing: Timing) -> Option<Finding> {
    let hold = (stage.arrived_ms, stage.to_ms);
    let column = format!("clients.{}.p99", timing.name());
    if window::values(case.series(), &column, hold).len() < ROWS {
        return None;
    }
    let line = window::trend(case.series(), &column, hold)?;
    let seconds = hold.1.saturating_sub(hold.0) as f64 / 1_000.0;
    let (first, last) = (line.base.max(1.0), line.at(seconds));
    if line.r2 < STRAIGHT || last < FACTOR * first || last - first < MORE_US {
        return None;
    }
    let turns = case.of_testers("turn_us_max").into_iter();
    let lags = turns.filter_map(|column| window::highest(case.series(), &column, hold));
    let lags = lags.into_iter().any(|(_, us)| us > LAG_US);
    let starved = case.starved(hold.1);
    let is_doubtful = lags || starved.is_some();
    let why = match (starved, lags) {
        (Some(why), _) => format!("; on the laboratory's machine {why}"),
        (None, true) => "; the tester itself lagged then".to_owned(),
        (None, false) => String::new(),
    };
    Some(Finding {
        gravity: if is_doubtful { Gravity::Note } else { Gravity::Warning },
        side: if is_doubtful { "" } else { "target" }.to_owned(),
        what: format!("Answers ({}) became steadily slower.", timing.name()),
        evidence: format!(
            "the p99 rose from {} to {} over the hold of stage `{}`, {} more each second (R2 \
             {:.2}){why}",
            words::time(first),
            words::time(last),
            stage.name,
            words::time(line.slope),
            line.r2
        ),
        remedy: "The load exceeds the server's throughput, or something in it grows with each \
                 message: check its queues, tables and logs."
            .to_owned(),
        from_ms: hold.0,
        to_ms: hold.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    fn found(of: impl Fn(u64) -> f64, psi: f64) -> Vec<Finding> {
        let mut made = Made::of(60);
        made.gauge("clients.publish.p99", of);
        made.total("tester.psi.cpu_s", move |s| psi * s as f64);
        detect(&Case::of(&made.run(10)))
    }

    #[test]
    fn a_line_that_rises_is_told_and_a_level_or_a_step_is_not() {
        let climbs = found(|s| 2_000.0 + 50_000.0 * s as f64, 0.0);
        assert_eq!(climbs[0].what, "Answers (publish) became steadily slower.");
        assert_eq!((climbs[0].gravity, &*climbs[0].side), (Gravity::Warning, "target"));
        assert_eq!(found(|s| 2_000.0 + 50_000.0 * s as f64, 0.5)[0].gravity, Gravity::Note);
        assert_eq!(found(|_| 3_000_000.0, 0.0), []);
        assert_eq!(found(|s| if s > 50 { 400_000.0 } else { 2_000.0 }, 0.0), []);
        assert_eq!(found(|s| 1_000.0 + 100.0 * s as f64, 0.0), [], "6 ms are too little");
    }
}

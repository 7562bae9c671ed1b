//! Latencies that took a step: from one second to the next much longer than before, and for a
//! while, not for a moment.

use crate::case::Case;
use crate::fit;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};
use lab::timing::Timing;

/// Rows before and after that are compared.
const ROWS: usize = 10;
/// How many times as long is a step.
const FACTOR: f64 = 4.0;
/// Microseconds more that are a step, at least.
const MORE_US: f64 = 5_000.0;

/// The greatest step of each timing's p99.
pub fn detect(case: &Case) -> Vec<Finding> {
    Timing::ALL.iter().filter_map(|timing| step(case, *timing)).collect()
}

fn step(case: &Case, timing: Timing) -> Option<Finding> {
    let column = format!("clients.{}.p99", timing.name());
    let shown: Vec<(u64, f64)> = window::shown(case.series(), &column, case.whole())
        .into_iter()
        .filter(|(_, us)| *us > 0.0)
        .collect();
    let middle = |rows: &[(u64, f64)]| fit::median(rows.iter().map(|(_, us)| *us));
    let mut greatest: Option<(f64, usize, f64, f64)> = None;
    for at in ROWS..shown.len().saturating_sub(ROWS - 1) {
        let (Some(before), Some(after)) =
            (middle(&shown[at - ROWS..at]), middle(&shown[at..at + ROWS]))
        else {
            continue;
        };
        let factor = after / before.max(1.0);
        let is_step = factor >= FACTOR && after - before >= MORE_US && shown[at].1 >= after / 2.0;
        if is_step && greatest.is_none_or(|(most, ..)| factor > most) {
            greatest = Some((factor, at, before, after));
        }
    }
    let (factor, at, before, after) = greatest?;
    let from_ms = shown[at].0;
    let back = shown[at..].iter().skip(ROWS).find(|(_, us)| *us < 2.0 * before);
    let online = case
        .online(from_ms)
        .map_or(String::new(), |online| format!(", with {} clients online", words::count(online)));
    let stage = case.stage_at(from_ms).map_or(String::new(), |stage| {
        let part = if from_ms < stage.arrived_ms { "while clients came in" } else { "in" };
        format!(" {part} stage `{}`", stage.name)
    });
    Some(Finding {
        gravity: Gravity::Warning,
        side: String::new(),
        what: format!("The p99 of {} rose suddenly.", timing.name()),
        evidence: format!(
            "from {} to {} ({} times) at {}{stage}{online}{}",
            words::time(before),
            words::time(after),
            words::number((factor * 10.0).round() / 10.0),
            words::moment(from_ms),
            match back {
                Some((at, _)) => format!("; back at {}", words::moment(*at)),
                None => "; it did not recover".to_owned(),
            }
        ),
        remedy: "Check what else began then: CPU load, drops, a longer queue, another stage."
            .to_owned(),
        from_ms,
        to_ms: back.map_or(case.end_ms(), |(at, _)| *at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    fn found(of: impl Fn(u64) -> f64) -> Vec<Finding> {
        let mut made = Made::of(120);
        made.gauge("clients.heartbeat.p99", of);
        made.gauge("clients.online", |s| 100.0 * s as f64);
        detect(&Case::of(&made.run(10)))
    }

    #[test]
    fn a_step_is_found_where_it_was_and_a_moment_is_none() {
        let found_step = found(|s| if (60..90).contains(&s) { 80_000.0 } else { 2_000.0 });
        assert_eq!((found_step.len(), found_step[0].from_ms), (1, 60_000));
        let evidence = &found_step[0].evidence;
        assert!(evidence.contains("from 2 ms to 80 ms (40 times) at 01:00"), "{evidence}");
        assert!(evidence.contains("6,000 clients online; back at 01:30"), "{evidence}");
        assert_eq!(found(|s| if s == 60 { 80_000.0 } else { 2_000.0 }), []);
        assert_eq!(found(|s| 2_000.0 + 100.0 * s as f64), []);
        assert_eq!(found(|s| if s > 60 { 400.0 } else { 50.0 }), []);
    }
}

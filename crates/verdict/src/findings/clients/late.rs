//! Answers to a Bind (CONNACK) that came late: so late that people who wait would call it broken,
//! or much later than to most.

use crate::case::Case;
use crate::saturation::LAG_US;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};
use lab::timing::Timing;

/// Longer than this is late for everybody, microseconds.
const LATE_US: u64 = 1_000_000;
/// So many times the middle is late, if it is at least [`LEAST_US`].
const TIMES: u64 = 20;
/// What is shorter is not late, microseconds.
const LEAST_US: u64 = 200_000;
/// Share of the answers that is more than worth knowing.
const SHARE: f64 = 1e-3;

/// Answers to Binds that came late.
pub fn detect(case: &Case) -> Vec<Finding> {
    let binds = &case.run.total.timings.of(Timing::Bind).raw;
    let middle = binds.at(50.0);
    let bound = LATE_US.min(middle.saturating_mul(TIMES).max(LEAST_US));
    let late: u64 = binds.iter().filter(|(us, _)| *us > bound).map(|(_, count)| count).sum();
    if late == 0 {
        return Vec::new();
    }
    let share = late as f64 / binds.count().max(1) as f64;
    // Where the tester itself had no time the answers may have waited for it.
    let columns = case.of_testers("turn_us_max").into_iter();
    let lags = columns.filter_map(|column| case.highest(&column)).any(|(_, us)| us > LAG_US);
    let tester = if lags { "; the tester itself lagged in this run" } else { "" };
    let max = window::highest(case.series(), "clients.bind.max", case.whole());
    let (at, when) = max.map_or((0, String::new()), |(at, _)| (at, words::moment(at)));
    let when = if when.is_empty() { when } else { format!(" at {when}") };
    vec![Finding {
        gravity: if share >= SHARE && !lags { Gravity::Warning } else { Gravity::Note },
        side: if lags { "" } else { "target" }.to_owned(),
        what: format!(
            "{} answers to a Bind (CONNACK) came later than {}.",
            words::count(late as f64),
            words::time(bound as f64)
        ),
        evidence: format!(
            "{} of {} ({}); half came within {}, the last after {}{when}{tester}",
            words::count(late as f64),
            words::count(binds.count() as f64),
            words::percent(share),
            words::time(middle as f64),
            words::time(binds.max() as f64),
        ),
        remedy:
            "Look at what the server does before it answers: proofs of passwords, a directory, \
                 sessions to be loaded; and at its CPU then."
                .to_owned(),
        from_ms: at.saturating_sub(1_000),
        to_ms: at,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    fn with(late: u64, us: u64, lag: f64) -> Vec<Finding> {
        let mut made = Made::of(20);
        made.gauge("tester.turn_us_max", move |_| lag);
        let mut run = made.run(1_000);
        let binds = run.total.timings.at(Timing::Bind);
        (0..997).for_each(|_| binds.note(2_000));
        (0..late).for_each(|_| binds.note(us));
        detect(&Case::of(&run))
    }

    #[test]
    fn late_answers_are_counted_and_quick_ones_are_not() {
        assert_eq!(with(3, 150_000, 0.0), []);
        let found = with(3, 900_000, 0.0);
        assert_eq!(found[0].what, "3 answers to a Bind (CONNACK) came later than 200 ms.");
        assert!(found[0].evidence.starts_with("3 of 1,000 (0.3 %)"), "{}", found[0].evidence);
        assert_eq!((found[0].gravity, &*found[0].side), (Gravity::Warning, "target"));
        let doubtful = with(3, 900_000, 2.0 * LAG_US);
        assert_eq!((doubtful[0].gravity, &*doubtful[0].side), (Gravity::Note, ""));
    }
}

//! Control groups that hold processors back.

use crate::case::Case;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};

/// Share of the time of one core that threads were held back in a row.
const HELD: f64 = 0.1;

/// Throttling by a control group.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for (side, column) in case.of_both("cgroup.throttled_us", "target") {
        // A total: what is shown is microseconds a second.
        let met = window::stretches(case.series(), &column, HELD * 1e6, 3);
        let (Some(first), Some(last)) = (met.first(), met.last()) else { continue };
        let most = met.iter().map(|stretch| stretch.2).fold(0.0, f64::max);
        let held_us = window::growth(case.series(), &column, case.whole()).unwrap_or(0.0);
        let window = (first.0, last.1);
        let cores = case.highest(&case.beside(&column, "cgroup.cpu_max"));
        let cores = cores.map_or(String::new(), |(_, cores)| {
            format!("; its quota is {} cores", words::number(cores))
        });
        let harm = case.harm(window);
        let harmed = case.harmed_at(window);
        found.push(Finding {
            gravity: if harmed.is_some() { Gravity::Limit } else { Gravity::Warning },
            side: side.to_owned(),
            what: format!("The control group of the {side} throttled its threads (CPU quota)."),
            evidence: format!(
                "{} in all {}, up to {} in a second{cores}{}",
                words::time(held_us),
                words::between(window.0, window.1),
                words::time(most),
                harm.map_or(String::new(), |harm| format!("; {harm}"))
            ),
            remedy: "Raise or remove cpu.max of the control group (the container's CPU limit)."
                .to_owned(),
            from_ms: harmed.unwrap_or(window.0),
            to_ms: window.1,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::cause::{Cause, Phase};

    #[test]
    fn throttling_is_told_and_a_limit_where_clients_suffered() {
        let with = |us_a_second: f64, errors: u64| {
            let mut made = Made::of(40);
            made.total("target.cgroup.throttled_us", move |s| us_a_second * s as f64);
            made.ended(Phase::Bind, Cause::BindTimedOut, errors, 20);
            detect(&Case::of(&made.run(100))).first().map(|found| found.gravity)
        };
        assert_eq!(with(1_000.0, 0), None);
        assert_eq!(with(400_000.0, 0), Some(Gravity::Warning));
        assert_eq!(with(400_000.0, 5), Some(Gravity::Limit));
    }
}

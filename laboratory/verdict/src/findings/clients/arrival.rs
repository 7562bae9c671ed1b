//! The tester while clients came in: at its limit there, the rate of arrival and the times to
//! connect and bind are its own and not the server's.
//!
//! The tester's state while the load was held is judged by [`crate::saturation`]: that makes a
//! result invalid.

use crate::case::Case;
use crate::saturation::{BUSIEST, LAG_US};
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};

/// Rows of an arrival in which the tester was at its limit, at least.
const ROWS: usize = 3;

/// A tester at its limit while clients came in; plan work it did not do.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found: Vec<Finding> = case
        .run
        .stages
        .iter()
        .filter_map(|stage| {
            let arrival = (stage.from_ms, stage.arrived_ms.min(stage.to_ms));
            let full = |name: &str, level: f64| {
                let columns = case.of_testers(name).into_iter();
                let full = columns.map(|column| {
                    let values = window::values(case.series(), &column, arrival);
                    (values.iter().filter(|value| **value > level).count(), values.len())
                });
                full.max().filter(|(full, rows)| *full >= ROWS && full * 10 >= *rows)
            };
            let told: Vec<String> = [
                (full("busiest", BUSIEST), "its busiest thread was saturated"),
                (full("turn_us_max", LAG_US), "a turn of its loop took more than 50 ms"),
            ]
            .into_iter()
            .filter_map(|(met, what)| {
                met.map(|(full, rows)| format!("in {full} of {rows} rows {what}"))
            })
            .collect();
            (!told.is_empty()).then(|| Finding {
                gravity: Gravity::Warning,
                side: "tester".to_owned(),
                what:
                    "While clients connected, the tester was at its own limit: it may have caused \
                   the arrival rate and the connect and bind times."
                        .to_owned(),
                evidence: format!("stage `{}`: {}", stage.name, words::list(&told)),
                remedy:
                    "A slower arrival (`{ shape = \"rate\", per_s = … }`), or more machines to \
                     generate the load (agents)."
                        .to_owned(),
                from_ms: arrival.0,
                to_ms: arrival.1,
            })
        })
        .collect();
    found.truncate(3);
    let dropped = case.run.total.figure("dropped");
    if dropped >= 1.0 {
        found.push(Finding {
            gravity: Gravity::Warning,
            side: "tester".to_owned(),
            what: "The tester did not perform all planned actions.".to_owned(),
            evidence: format!("{} actions were not performed in time", words::count(dropped)),
            remedy: "A lower rate, more clients to share it, or more machines to generate the \
                     load."
                .to_owned(),
            from_ms: 0,
            to_ms: case.end_ms(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    #[test]
    fn a_tester_without_rest_while_clients_come_is_told_and_one_in_the_hold_is_not_told_here() {
        let with = |from: u64, to: u64| {
            let mut made = Made::of(100);
            made.gauge("tester.busiest", move |s| if (from..to).contains(&s) { 0.99 } else { 0.2 });
            detect(&Case::of(&made.run(10)))
        };
        let found = with(1, 8);
        assert!(
            found[0].evidence.contains("stage `hold`: in 7 of 11 rows"),
            "{}",
            found[0].evidence
        );
        assert_eq!(with(20, 90), []);
        let mut run = Made::of(5).run(10);
        run.total.raise("dropped", 12.0);
        assert_eq!(detect(&Case::of(&run)).len(), 1);
    }
}

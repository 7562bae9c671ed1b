//! Heartbeats that were lost or came late.

use crate::case::Case;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};

/// Share of late ones that is worth a warning; of lost ones any is.
const LATE: f64 = 1e-3;

/// Heartbeats lost or late.
pub fn detect(case: &Case) -> Vec<Finding> {
    let total = &case.run.total;
    let [sent, lost, late, skipped] =
        ["sent", "lost", "late", "skipped"].map(|what| total.figure(&format!("heartbeats.{what}")));
    if sent < 1.0 || (lost < 1.0 && late < LATE * sent && skipped < LATE * sent) {
        return Vec::new();
    }
    let met = ["lost", "late", "skipped"].map(|what| {
        let column = format!("clients.heartbeats.{what}");
        window::bursts(case.series(), &column, u64::MAX).first().map(|one| (one.0, one.1))
    });
    let met = met.into_iter().flatten();
    let around = met.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let (from_ms, to_ms) = around.unwrap_or((0, case.end_ms()));
    let latency = case.latency_beside((from_ms, to_ms));
    vec![Finding {
        gravity: Gravity::Warning,
        side: String::new(),
        what: match lost >= 1.0 {
            true => "Heartbeats were lost: their connections ended before the answer.",
            false => "Heartbeats were answered late.",
        }
        .to_owned(),
        evidence: format!(
            "of {} sent {} lost ({}), {} late, {} not sent because the previous one was \
             unanswered{}",
            words::count(sent),
            words::count(lost),
            words::percent(lost / sent),
            words::count(late),
            words::count(skipped),
            latency.map_or(String::new(), |latency| format!("; {latency}"))
        ),
        remedy: "Check the server and the network at that time: CPU, retransmits, many \
                 connections that ended at once."
            .to_owned(),
        from_ms,
        to_ms,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    #[test]
    fn any_lost_heartbeat_is_told_and_a_few_late_ones_are_not() {
        let with = |lost: f64, late: f64| {
            let mut run = Made::of(20).run(10);
            run.total.raise("heartbeats.sent", 100_000.0);
            run.total.raise("heartbeats.lost", lost);
            run.total.raise("heartbeats.late", late);
            detect(&Case::of(&run)).len()
        };
        assert_eq!(
            [with(0.0, 0.0), with(0.0, 5.0), with(1.0, 0.0), with(0.0, 500.0)],
            [0, 0, 1, 1]
        );
    }
}

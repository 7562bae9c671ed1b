//! Packets: dropped before the protocol saw them, or sent again.

use super::sockets::counted;
use super::{GAP_MS, around, told_bursts};
use crate::case::Case;
use crate::window::{self, bursts};
use crate::words;
use lab::run::{Finding, Gravity};

/// Share of segments sent again that is worth a warning.
const AGAIN: f64 = 0.01;
/// Segments sent again that are worth one.
const AGAIN_LEAST: f64 = 100.0;

/// Drops of the machines and segments sent again.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, counter, what, remedy) in [
        (
            "softnet.dropped",
            "softnet dropped",
            "packets were dropped before TCP saw them: the backlog of soft interrupts was full",
            "Raise net.core.netdev_max_backlog (250000) and net.core.netdev_budget; spread packets \
             over cores (RSS, RPS).",
        ),
        (
            "net.rx_dropped",
            "rx dropped",
            "packets were dropped on arrival",
            "Enlarge the rings of the network card (ethtool -G), spread its queues over cores.",
        ),
    ] {
        counted(case, (name, counter), (what, remedy), &mut found);
    }
    for (side, column) in case.of_both("tcp.retransmits", "") {
        found.extend(again(case, side, &column));
    }
    found
}

fn again(case: &Case, side: &str, column: &str) -> Option<Finding> {
    let grown = window::growth(case.series(), column, case.whole())?;
    let sent = case.beside(column, "tcp.out_segments");
    let sent = window::growth(case.series(), &sent, case.whole())?;
    let syns = case.beside(column, "tcp.syn_retransmits");
    let syns = window::growth(case.series(), &syns, case.whole()).unwrap_or(0.0);
    if grown < AGAIN_LEAST || grown < AGAIN * sent {
        return None;
    }
    let met = bursts(case.series(), column, GAP_MS);
    let (from_ms, to_ms, _) = around(&met)?;
    let syns = match syns {
        syns if syns >= 1.0 => format!(", {} of them SYNs or answers to SYNs", words::count(syns)),
        _ => String::new(),
    };
    Some(Finding {
        gravity: Gravity::Warning,
        side: side.to_owned(),
        what: "Many segments were retransmitted: packets were lost, or connections not accepted."
            .to_owned(),
        evidence: format!(
            "{} of {} segments sent ({}){syns}; {}",
            words::count(grown),
            words::count(sent),
            words::percent(grown / sent.max(1.0)),
            told_bursts("RetransSegs", &met)
        ),
        remedy: "Retransmitted SYNs point to a full accept queue, other segments to the network: \
                 drops in network cards, switches, soft interrupts."
            .to_owned(),
        from_ms,
        to_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    #[test]
    fn many_segments_sent_again_are_told_with_their_share_and_few_are_not() {
        let with = |again: f64| {
            let mut made = Made::of(40);
            made.total("tester.tcp.retransmits", move |s| if s >= 20 { again } else { 0.0 });
            made.total("tester.tcp.out_segments", |s| 1_000.0 * s as f64);
            detect(&Case::of(&made.run(100)))
        };
        assert_eq!(with(50.0), []);
        assert_eq!(with(300.0), []);
        let found = with(4_000.0);
        assert!(found[0].evidence.contains("4,000 of 40,000 segments sent (10 %)"));
    }

    #[test]
    fn drops_before_tcp_are_told() {
        let mut made = Made::of(40);
        made.total("target.softnet.dropped", |s| if s > 7 { 230.0 } else { 0.0 });
        made.total("target.net.rx_dropped", |s| if s > 9 { 1.0 } else { 0.0 });
        assert_eq!(detect(&Case::of(&made.run(100))).len(), 2);
    }
}

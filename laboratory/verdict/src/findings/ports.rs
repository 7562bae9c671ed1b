//! Source ports of the tester: towards one address and port of a target there are at most 64,511
//! for each source address, and by default some 28,000.

use crate::case::Case;
use crate::words;
use lab::cause::Cause;
use lab::run::{Finding, Gravity};

/// Ports that were used up.
pub fn detect(case: &Case) -> Vec<Finding> {
    let refused = case.run.total.causes.all_of(Cause::NoPorts);
    if refused == 0 {
        return Vec::new();
    }
    let (from_ms, to_ms) = case.when(Cause::NoPorts);
    let mut evidence = format!("{} calls failed with EADDRNOTAVAIL", words::count(refused as f64));
    if let Some(online) = case.online(to_ms) {
        evidence = format!("{evidence}, with {} clients online", words::count(online));
    }
    let range = case.of_testers("ports.range").into_iter().next();
    if let Some((_, ports)) = range.and_then(|column| case.highest(&column)) {
        evidence = format!("{evidence}; ip_local_port_range has {} ports", words::count(ports));
    }
    let waiting = case.of_testers("tcp.time_wait").into_iter().next();
    if let Some((_, waiting)) = waiting.and_then(|column| case.highest(&column)) {
        evidence = format!("{evidence}; up to {} sockets in TIME-WAIT", words::count(waiting));
    }
    vec![Finding {
        gravity: Gravity::Limit,
        side: "tester".to_owned(),
        what: "The tester ran out of source ports; this is no limit of the server.".to_owned(),
        evidence,
        remedy: "Set net.ipv4.ip_local_port_range to `1024 65535`, give the group more `sources`, \
                 or let the target listen on more ports; net.ipv4.tcp_tw_reuse = 1 for tests \
                 that reconnect."
            .to_owned(),
        from_ms,
        to_ms,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::cause::Phase;

    #[test]
    fn used_up_ports_are_the_testers_and_told_with_the_range() {
        let mut made = Made::of(40);
        made.ended(Phase::Connect, Cause::NoPorts, 31_768, 20);
        made.gauge("tester.ports.range", |_| 28_232.0);
        made.gauge("clients.online", |_| 28_232.0);
        let found = detect(&Case::of(&made.run(60_000)));
        let evidence = &found[0].evidence;
        assert_eq!((found[0].side.as_str(), found[0].gravity), ("tester", Gravity::Limit));
        assert!(
            evidence.contains("31,768 calls") && evidence.contains("28,232 ports"),
            "{evidence}"
        );
        assert_eq!(detect(&Case::of(&Made::of(5).run(10))), []);
    }
}

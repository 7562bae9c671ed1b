//! The server's doors: the accept queue that overflows, the SYN queue that is full.
//!
//! Both belong to whoever listens, so on a shared machine they are the server's. A queue that
//! overflowed once and hurt nobody is a warning; it is a limit when calls were lost to it.

use super::{GAP_MS, around, told_bursts};
use crate::case::Case;
use crate::window::{self, bursts};
use crate::words;
use lab::cause::Cause;
use lab::run::{Finding, Gravity};

/// Drops that are a limit whatever the number of calls.
const DROPS_LIMIT: f64 = 10.0;
/// Share of the calls that is a limit.
const SHARE_LIMIT: f64 = 0.001;

/// The accept queue overflowed.
pub fn queue(case: &Case) -> Vec<Finding> {
    let told = |column: &str| {
        let column = case.of_target(column)?;
        Some(bursts(case.series(), &column, GAP_MS))
    };
    let machine = told("tcp.listen_drops").unwrap_or_default();
    let overflows = told("tcp.listen_overflows").unwrap_or_default();
    // What its own listeners dropped is surer than what all of the machine did.
    let own = told("process.listen_drops");
    if let (Some([]), Some((from_ms, to_ms, _))) = (own.as_deref(), around(&machine)) {
        return vec![Finding {
            gravity: Gravity::Note,
            side: "target".to_owned(),
            what: "Another listener on the server's machine dropped connections, not the server's."
                .to_owned(),
            evidence: told_bursts("ListenDrops of the machine", &machine),
            remedy: String::new(),
            from_ms,
            to_ms,
        }];
    }
    let (name, met) = match (&own, machine.is_empty()) {
        (Some(own), _) => ("drops of its listeners", own),
        (None, false) => ("ListenDrops", &machine),
        (None, true) => ("ListenOverflows", &overflows),
    };
    let Some((from_ms, to_ms, grown)) = around(met) else { return Vec::new() };
    let mut evidence = told_bursts(name, met);
    if let Some((.., both)) = around(&overflows).filter(|_| name != "ListenOverflows") {
        evidence = format!("{evidence} (ListenOverflows +{} in all)", words::count(both));
    }
    if let Some((_, rate)) = case.highest("clients.established") {
        evidence = format!("{evidence}, at up to {} new connections a second", words::count(rate));
    }
    evidence.push_str(&full_listener(case));
    evidence.push_str(&case.beside_it((from_ms, to_ms)));
    let attempts = case.run.total.attempts as f64;
    let lost = case.run.total.causes.all_of(Cause::SynTimedOut) > 0;
    let limit = lost || (grown >= DROPS_LIMIT && grown >= SHARE_LIMIT * attempts);
    let asked = match case.doctor_of_target("somaxconn") {
        Some(row) => format!(" (net.core.somaxconn is {})", row.value),
        None => String::new(),
    };
    vec![Finding {
        gravity: if limit { Gravity::Limit } else { Gravity::Warning },
        side: "target".to_owned(),
        what: "The server's accept queue overflowed: the server accepted connections more slowly \
               than they arrived."
            .to_owned(),
        evidence,
        remedy: format!(
            "Raise the backlog the server gives to listen() and net.core.somaxconn{asked}, both \
             to 65535; slow the arrival; check whether the server ran out of descriptors or CPU \
             at that time."
        ),
        from_ms,
        to_ms,
    }]
}

/// How full the fullest listener was.
fn full_listener(case: &Case) -> String {
    let told = ["process", "tcp"].into_iter().find_map(|whose| {
        let (_, waiting) = case.highest(&case.of_target(&format!("{whose}.listen_queue"))?)?;
        let (_, room) = case.highest(&case.of_target(&format!("{whose}.listen_backlog"))?)?;
        // Looks are a second apart: a queue that was seen half empty was full between two of them.
        if waiting < 0.9 * room {
            return None;
        }
        let (waiting, room) = (words::count(waiting), words::count(room));
        Some(format!("; at most {waiting} connections were queued, of {room} allowed"))
    });
    told.unwrap_or_default()
}

/// The queue of half-open connections was full.
pub fn half_open(case: &Case) -> Vec<Finding> {
    let grown = |name: &str| {
        let column = case.of_target(name)?;
        let met = bursts(case.series(), &column, GAP_MS);
        (!met.is_empty()).then_some(met)
    };
    let remedy = "Raise net.ipv4.tcp_max_syn_backlog and net.core.somaxconn to 65535, keep \
                  net.ipv4.tcp_syncookies at 1, slow the arrival.";
    let mut found = Vec::new();
    let mut add = |gravity, what: &str, name: &str, met: &[(u64, u64, f64)]| {
        let (from_ms, to_ms, _) = around(met).unwrap_or_default();
        let beside = case.beside_it((from_ms, to_ms));
        found.push(Finding {
            gravity,
            side: "target".to_owned(),
            what: what.to_owned(),
            evidence: format!("{}{beside}", told_bursts(name, met)),
            remedy: remedy.to_owned(),
            from_ms,
            to_ms,
        });
    };
    if let Some(met) = grown("tcp.reqq_full_drops") {
        let what = "The server dropped SYNs: its queue of half-open connections was full.";
        add(Gravity::Limit, what, "TCPReqQFullDrop", &met);
    }
    let cookies = grown("tcp.reqq_full_cookies").map(|met| ("TCPReqQFullDoCookies", met));
    let sent = || grown("tcp.syncookies_sent").map(|met| ("SyncookiesSent", met));
    if let Some((name, met)) = cookies.or_else(sent) {
        let what = "The server answered SYNs with cookies: its queue of half-open connections was \
                    full, and those connections lost their TCP options.";
        add(Gravity::Warning, what, name, &met);
    }
    found
}

/// Whether the accept queue overflowed in a window: by how much.
pub fn overflowed(case: &Case, window: window::Window) -> Option<f64> {
    let own = case.of_target("process.listen_drops");
    window::growth(case.series(), &own.or(case.of_target("tcp.listen_drops"))?, window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    fn overflow() -> Made {
        let mut made = Made::of(120);
        made.total("target.tcp.listen_drops", |s| match s {
            0..=40 => 7.0,
            41 => 10_007.0,
            42 => 21_240.0,
            43 => 41_240.0,
            _ => 41_240.0,
        });
        made.gauge("clients.connect.p99", |s| if (41..46).contains(&s) { 3.1e6 } else { 2_000.0 });
        made
    }

    #[test]
    fn an_overflow_is_told_with_its_times_and_the_latency_beside_it() {
        let run = overflow().run(100_000);
        let found = queue(&Case::of(&run));
        assert_eq!((found.len(), found[0].gravity), (1, Gravity::Limit));
        let evidence = &found[0].evidence;
        assert!(evidence.contains("ListenDrops +41,233 between 00:40 and 00:43"), "{evidence}");
        assert!(evidence.contains("the p99 of connect rose from 2 ms to 3.1 s"), "{evidence}");
        assert_eq!((found[0].from_ms, found[0].to_ms), (40_000, 43_000));
    }

    #[test]
    fn a_few_drops_of_very_many_calls_are_a_warning_and_no_drops_are_nothing() {
        let mut made = Made::of(60);
        made.total("target.tcp.listen_drops", |s| if s > 30 { 5.0 } else { 0.0 });
        assert_eq!(queue(&Case::of(&made.run(100_000)))[0].gravity, Gravity::Warning);
        let mut made = Made::of(60);
        made.total("target.tcp.listen_drops", |_| 99_999.0);
        assert_eq!(queue(&Case::of(&made.run(100_000))), []);
        assert_eq!(queue(&Case::of(&Made::of(60).run(100_000))), []);
    }

    #[test]
    fn another_listener_of_the_machine_is_not_the_servers_fault() {
        let mut made = overflow();
        made.total("target.process.listen_drops", |_| 3.0);
        let found = queue(&Case::of(&made.run(100_000)));
        assert_eq!((found.len(), found[0].gravity), (1, Gravity::Note));
        let mut made = overflow();
        made.total("target.process.listen_drops", |s| if s > 42 { 30_000.0 } else { 3.0 });
        let found = queue(&Case::of(&made.run(100_000)));
        assert_eq!(found[0].gravity, Gravity::Limit);
        assert!(found[0].evidence.starts_with("drops of its listeners +29,997"), "{found:?}");
    }

    #[test]
    fn more_drops_are_never_less_grave() {
        let gravity = |drops: f64| {
            let mut made = Made::of(60);
            made.total("target.tcp.listen_drops", move |s| if s > 30 { drops } else { 0.0 });
            queue(&Case::of(&made.run(10_000))).first().map(|found| found.gravity)
        };
        let all: Vec<_> = [0.0, 1.0, 9.0, 10.0, 100.0, 1e6].map(gravity).into();
        assert!(all.is_sorted(), "{all:?}");
    }

    #[test]
    fn cookies_warn_and_dropped_syns_are_a_limit() {
        let mut made = Made::of(60);
        made.total("target.tcp.syncookies_sent", |s| if s > 30 { 900.0 } else { 0.0 });
        made.total("target.tcp.reqq_full_drops", |s| if s > 35 { 40.0 } else { 0.0 });
        let found = half_open(&Case::of(&made.run(1_000)));
        let gravities: Vec<_> = found.iter().map(|found| found.gravity).collect();
        assert_eq!(gravities, [Gravity::Limit, Gravity::Warning]);
        assert!(found[1].evidence.contains("SyncookiesSent +900"), "{}", found[1].evidence);
    }
}

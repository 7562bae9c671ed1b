//! Tables of the kernel that sockets have to find room in: epoll's watches, the firewall's
//! connection table, TIME-WAIT, orphans.

use super::{GAP_MS, around, told_bursts};
use crate::case::Case;
use crate::window::bursts;
use crate::words;
use lab::cause::Cause;
use lab::run::{Finding, Gravity};

/// Tables that were full.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    watches(case, &mut found);
    conntrack(case, &mut found);
    forbidden(case, &mut found);
    let time_wait = "TIME-WAIT was cut short: tcp_max_tw_buckets were all in use";
    let remedy = "Raise net.ipv4.tcp_max_tw_buckets; let the side that has more ports close first.";
    counted(
        case,
        ("tcp.time_wait_overflows", "TCPTimeWaitOverflow"),
        (time_wait, remedy),
        &mut found,
    );
    orphans(case, &mut found);
    let gone = "connections were aborted because the peer stopped acknowledging";
    let remedy = "Check the network between them; net.ipv4.tcp_retries2 and TCP_USER_TIMEOUT set \
                  the time.";
    counted(case, ("tcp.abort_on_timeout", "TCPAbortOnTimeout"), (gone, remedy), &mut found);
    found
}

fn watches(case: &Case, found: &mut Vec<Finding>) {
    let refused = case.run.total.causes.all_of(Cause::NoWatches);
    if refused > 0 {
        let (from_ms, to_ms) = case.when(Cause::NoWatches);
        let most = case.of_testers("epoll.watches_max").into_iter().next();
        let most = most.and_then(|column| case.highest(&column));
        let most = most.map_or(String::new(), |(_, most)| {
            format!("; fs.epoll.max_user_watches is {}", words::count(most))
        });
        found.push(Finding {
            gravity: Gravity::Limit,
            side: "tester".to_owned(),
            what: "The tester reached its limit of watched sockets.".to_owned(),
            evidence: format!("{} calls failed with ENOSPC{most}", words::count(refused as f64)),
            remedy: "Raise fs.epoll.max_user_watches.".to_owned(),
            from_ms,
            to_ms,
        });
    }
}

fn conntrack(case: &Case, found: &mut Vec<Finding>) {
    for (side, column) in case.of_both("conntrack.count", "") {
        let limits = case.beside(&column, "conntrack.max");
        let Some((_, limit)) = case.highest(&limits).filter(|(_, limit)| *limit >= 1.0) else {
            continue;
        };
        let drops = case.beside(&column, "conntrack.drops");
        let dropped = bursts(case.series(), &drops, GAP_MS);
        let full = case.first_at_least(&column, 0.98 * limit);
        let near = case.first_at_least(&column, 0.9 * limit);
        let Some(from_ms) = full.or(around(&dropped).map(|met| met.0)).or(near) else { continue };
        let most = case.highest(&column).map_or(0.0, |(_, most)| most);
        let is_limit = full.is_some() || !dropped.is_empty();
        let told = match dropped.is_empty() {
            true => String::new(),
            false => format!("; {}", told_bursts("dropped packets", &dropped)),
        };
        let to_ms = case.end_ms();
        let beside = if is_limit { case.beside_it((from_ms, to_ms)) } else { String::new() };
        found.push(Finding {
            gravity: if is_limit { Gravity::Limit } else { Gravity::Warning },
            side: side.to_owned(),
            what: match is_limit {
                true => {
                    "The firewall's connection table was full: new connections were dropped \
                     silently."
                }
                false => "The firewall's connection table came near its limit.",
            }
            .to_owned(),
            evidence: format!(
                "{} of {} (nf_conntrack_max) from {} on{told}{beside}",
                words::count(most),
                words::count(limit),
                words::moment(from_ms)
            ),
            remedy: "Raise net.netfilter.nf_conntrack_max and its buckets above twice the number \
                     of connections, or exempt this port from tracking (NOTRACK)."
                .to_owned(),
            from_ms,
            to_ms,
        });
    }
}

fn forbidden(case: &Case, found: &mut Vec<Finding>) {
    let refused = case.run.total.causes.all_of(Cause::Forbidden);
    if refused > 0 {
        let (from_ms, to_ms) = case.when(Cause::Forbidden);
        found.push(Finding {
            gravity: Gravity::Limit,
            side: "tester".to_owned(),
            what: "The tester's kernel forbade calls: a filter, or a full connection table."
                .to_owned(),
            evidence: format!("{} calls failed with EPERM or EACCES", words::count(refused as f64)),
            remedy: Cause::Forbidden.setting().to_owned(),
            from_ms,
            to_ms,
        });
    }
}

/// A counter that only grew: a warning on whatever machine it did.
pub(super) fn counted(
    case: &Case,
    (name, counter): (&str, &str),
    (what, remedy): (&str, &str),
    found: &mut Vec<Finding>,
) {
    for (side, column) in case.of_both(name, "") {
        let met = bursts(case.series(), &column, GAP_MS);
        let Some((from_ms, to_ms, _)) = around(&met) else { continue };
        let machine = if side.is_empty() {
            "the machine".to_owned()
        } else {
            format!("the {side}'s machine")
        };
        found.push(Finding {
            gravity: Gravity::Warning,
            side: side.to_owned(),
            what: format!("On {machine} {what}."),
            evidence: format!("{}{}", told_bursts(counter, &met), case.beside_it((from_ms, to_ms))),
            remedy: remedy.to_owned(),
            from_ms,
            to_ms,
        });
    }
}

fn orphans(case: &Case, found: &mut Vec<Finding>) {
    for (side, column) in case.of_both("tcp.orphans", "") {
        let limits = case.beside(&column, "tcp.orphans_max");
        let Some((_, limit)) = case.highest(&limits).filter(|(_, limit)| *limit >= 1.0) else {
            continue;
        };
        // The kernel begins to reset at half of it, for orphans that still send.
        let Some(from_ms) = case.first_at_least(&column, 0.5 * limit) else { continue };
        let most = case.highest(&column).map_or(0.0, |(_, most)| most);
        found.push(Finding {
            gravity: Gravity::Warning,
            side: side.to_owned(),
            what: "So many connections were closed at once that the kernel may have reset some."
                .to_owned(),
            evidence: format!(
                "{} of {} orphans (tcp_max_orphans) from {} on",
                words::count(most),
                words::count(limit),
                words::moment(from_ms)
            ),
            remedy: "Raise net.ipv4.tcp_max_orphans above the connections closed at once."
                .to_owned(),
            from_ms,
            to_ms: case.end_ms(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::cause::Phase;

    #[test]
    fn a_full_connection_table_is_a_limit() {
        let with = |most: f64, drops: f64| {
            let mut made = Made::of(40);
            made.gauge("target.conntrack.count", move |s| most * s as f64 / 40.0);
            made.gauge("target.conntrack.max", |_| 262_144.0);
            made.total("target.conntrack.drops", move |s| if s > 38 { drops } else { 0.0 });
            detect(&Case::of(&made.run(4_000))).into_iter().next().map(|found| found.gravity)
        };
        assert_eq!(with(100_000.0, 0.0), None);
        assert_eq!(with(240_000.0, 0.0), Some(Gravity::Warning));
        assert_eq!(with(240_000.0, 17.0), Some(Gravity::Limit));
        assert_eq!(with(262_144.0, 0.0), Some(Gravity::Limit));
    }

    #[test]
    fn full_tables_of_the_tester_are_named_by_what_its_kernel_said() {
        let mut made = Made::of(40);
        made.ended(Phase::Connect, Cause::NoWatches, 3, 9);
        made.gauge("tester.epoll.watches_max", |_| 5_491_533.0);
        made.ended(Phase::Connect, Cause::Forbidden, 4, 12);
        made.total("tester.tcp.time_wait_overflows", |s| s as f64);
        made.gauge("tester.tcp.orphans", |_| 70_000.0);
        made.gauge("tester.tcp.orphans_max", |_| 131_072.0);
        let found = detect(&Case::of(&made.run(4_000)));
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|found| found.side == "tester"));
        assert!(found[0].evidence.contains("5,491,533"), "{}", found[0].evidence);
        assert!(found[2].evidence.contains("TCPTimeWaitOverflow +40"), "{}", found[2].evidence);
    }
}

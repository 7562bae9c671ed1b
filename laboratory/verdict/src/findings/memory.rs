//! Memory: of TCP (tcp_mem), of a machine, of a control group.
//!
//! Kernel memory of sockets is charged to the machine and to the control group, not to a process:
//! a server may be killed for want of memory while its resident memory looks small.

use super::{GAP_MS, around, told_bursts};
use crate::case::Case;
use crate::window::bursts;
use crate::words;
use lab::cause::Cause;
use lab::run::{Finding, Gravity};

/// Share of a machine's memory below which it runs out.
const LEFT_LIMIT: f64 = 0.02;
/// Share of it below which there is a warning.
const LEFT_WARNING: f64 = 0.06;

/// Memory that ran out, or nearly.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    killed(case, &mut found);
    machine(case, &mut found);
    group(case, &mut found);
    tcp(case, &mut found);
    let refused = case.run.total.causes.all_of(Cause::NoBuffers);
    if refused > 0 {
        let (from_ms, to_ms) = case.when(Cause::NoBuffers);
        found.push(Finding {
            gravity: Gravity::Limit,
            side: "tester".to_owned(),
            what: "The tester's kernel had no memory for more sockets.".to_owned(),
            evidence: format!(
                "{} calls failed with ENOBUFS or ENOMEM",
                words::count(refused as f64)
            ),
            remedy: Cause::NoBuffers.setting().to_owned(),
            from_ms,
            to_ms,
        });
    }
    found
}

fn killed(case: &Case, found: &mut Vec<Finding>) {
    for name in ["memory.oom_kills", "cgroup.oom_kills"] {
        for (side, column) in case.of_both(name, "target") {
            let met = bursts(case.series(), &column, GAP_MS);
            let Some((from_ms, to_ms, _)) = around(&met) else { continue };
            let told = told_bursts("oom_kill", &met);
            found.push(Finding {
                gravity: Gravity::Limit,
                side: side.to_owned(),
                what: format!(
                    "The kernel killed processes on the {side}'s machine because memory ran out."
                ),
                evidence: format!("{told}{}", case.beside_it((from_ms, to_ms))),
                remedy: "Use more memory or fewer connections: the kernel needs about 4 KB for \
                         each idle connection, in addition to the server's own memory; check \
                         memory.max of its control group."
                    .to_owned(),
                from_ms,
                to_ms,
            });
        }
    }
}

fn machine(case: &Case, found: &mut Vec<Finding>) {
    for (side, column) in case.of_both("memory.available", "") {
        let whole = case.highest(&case.beside(&column, "memory.total")).map(|(_, total)| total);
        let Some(whole) = whole.filter(|whole| *whole > 0.0) else { continue };
        let cells = crate::window::cells(case.series(), &column);
        let first = |share: f64| cells.iter().find(|(_, left)| *left <= share * whole);
        let out = first(LEFT_LIMIT);
        let Some((from_ms, _)) = out.or(first(LEFT_WARNING)) else { continue };
        let least = cells.iter().map(|(_, left)| *left).fold(f64::INFINITY, f64::min);
        let last = cells.iter().rev().find(|(_, left)| *left <= LEFT_WARNING * whole);
        let online = case.online(*from_ms).map_or(String::new(), |online| {
            format!(", with {} clients online", words::count(online))
        });
        let whose = if side.is_empty() {
            "The machine".to_owned()
        } else {
            format!("The {side}'s machine")
        };
        found.push(Finding {
            gravity: if out.is_some() { Gravity::Limit } else { Gravity::Warning },
            side: side.to_owned(),
            what: match out.is_some() {
                true => format!("{whose} ran out of memory."),
                false => format!("{whose} nearly ran out of memory."),
            },
            evidence: format!(
                "{} of {} available from {} on{online}",
                words::bytes(least),
                words::bytes(whole),
                words::moment(*from_ms)
            ),
            remedy: "Use more memory, or run the tester on other machines: both ends of a \
                     connection need kernel memory."
                .to_owned(),
            from_ms: *from_ms,
            to_ms: last.map_or(*from_ms, |(at, _)| *at),
        });
    }
}

fn group(case: &Case, found: &mut Vec<Finding>) {
    for (side, column) in case.of_both("cgroup.memory", "target") {
        let limits = case.beside(&column, "cgroup.memory_max");
        let Some((_, limit)) = case.highest(&limits).filter(|(_, limit)| *limit > 0.0) else {
            continue;
        };
        let Some(from_ms) = case.first_at_least(&column, 0.98 * limit) else { continue };
        let most = case.highest(&column).map_or(0.0, |(_, most)| most);
        let window = (from_ms, case.end_ms());
        let harm = case.harm(window);
        found.push(Finding {
            gravity: if harm.is_some() { Gravity::Limit } else { Gravity::Warning },
            side: side.to_owned(),
            what: format!("The control group of the {side} reached its memory limit."),
            evidence: format!(
                "{} of {} (memory.max) from {} on{}",
                words::bytes(most),
                words::bytes(limit),
                words::moment(from_ms),
                harm.map_or(String::new(), |harm| format!("; {harm}"))
            ),
            remedy:
                "Raise memory.max of the control group: sockets and the kernel's objects count \
                     in it."
                    .to_owned(),
            from_ms,
            to_ms: window.1,
        });
    }
}

fn tcp(case: &Case, found: &mut Vec<Finding>) {
    let remedy = "Raise net.ipv4.tcp_mem (pages of 4 KB, all buffers together); smaller defaults \
                  in tcp_rmem and tcp_wmem.";
    let read = "A program reads too slowly: look at its CPU and the turns of its loop. Or raise \
                the last figure of net.ipv4.tcp_rmem, and net.ipv4.tcp_mem if TCP is short of \
                memory.";
    for (name, counter, gravity, what, remedy) in [
        (
            "tcp.abort_on_memory",
            "TCPAbortOnMemory",
            Gravity::Limit,
            "connections were reset because TCP ran out of memory, or too many had no process any \
             more",
            remedy,
        ),
        (
            "tcp.memory_pressures",
            "TCPMemoryPressures",
            Gravity::Warning,
            "TCP came under memory pressure",
            remedy,
        ),
        (
            "tcp.rcv_pruned",
            "RcvPruned",
            Gravity::Warning,
            "segments were dropped because the receive buffer of a socket was full",
            read,
        ),
    ] {
        for (side, column) in case.of_both(name, "") {
            let met = bursts(case.series(), &column, GAP_MS);
            let Some((from_ms, to_ms, _)) = around(&met) else { continue };
            let whose = if side.is_empty() { "this" } else { "the" };
            let whose =
                format!("{whose} {side}{}machine", if side.is_empty() { "" } else { "'s " });
            let pages = case.highest(&case.beside(&column, "tcp.mem_pages"));
            let most = case.highest(&case.beside(&column, "tcp.mem_pages_max"));
            let pages = match (pages, most) {
                (Some((_, pages)), Some((_, most))) => format!(
                    "; up to {} of {} pages (tcp_mem)",
                    words::count(pages),
                    words::count(most)
                ),
                _ => String::new(),
            };
            let beside = case.beside_it((from_ms, to_ms));
            found.push(Finding {
                gravity,
                side: side.to_owned(),
                what: format!("On {whose} {what}."),
                evidence: format!("{}{pages}{beside}", told_bursts(counter, &met)),
                remedy: remedy.to_owned(),
                from_ms,
                to_ms,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    #[test]
    fn a_machine_that_runs_out_is_a_limit_and_one_that_comes_near_is_told() {
        let with = |least: f64| {
            let mut made = Made::of(40);
            made.gauge("target.memory.total", |_| 1e9);
            made.gauge("target.memory.available", move |s| 1e9 - (1e9 - least) * s as f64 / 40.0);
            made.gauge("clients.online", |s| 100.0 * s as f64);
            detect(&Case::of(&made.run(4_000))).into_iter().next()
        };
        assert_eq!(with(5e8), None);
        assert_eq!(with(5e7).expect("a finding").gravity, Gravity::Warning);
        let out = with(1e7).expect("a finding");
        assert_eq!((out.gravity, out.side.as_str()), (Gravity::Limit, "target"));
        assert!(out.evidence.contains("of 953.67 MiB") || out.evidence.contains("of 954 MiB"));
    }

    #[test]
    fn kills_pressure_and_a_full_group_are_told() {
        let mut made = Made::of(40);
        made.total("target.memory.oom_kills", |s| if s > 30 { 1.0 } else { 0.0 });
        made.total("target.tcp.memory_pressures", |s| if s > 20 { 12.0 } else { 0.0 });
        made.gauge("target.tcp.mem_pages", |_| 180_000.0);
        made.gauge("target.tcp.mem_pages_max", |_| 190_000.0);
        made.gauge("target.cgroup.memory", |s| 1e6 * s as f64);
        made.gauge("target.cgroup.memory_max", |_| 3e7);
        let found = detect(&Case::of(&made.run(4_000)));
        let gravities: Vec<_> = found.iter().map(|found| found.gravity).collect();
        assert_eq!(gravities, [Gravity::Limit, Gravity::Warning, Gravity::Warning]);
        assert!(found[2].evidence.contains("180,000 of 190,000 pages"), "{}", found[2].evidence);
    }
}

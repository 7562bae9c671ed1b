//! Ports and addresses: what a tester runs out of first, and what a server's listener loses.

use super::Look;
use super::row::{Say, at_least, grouped, one_of, row, unknown};
use crate::host::ports;
use lab::host::{Fitness, HostRow};
use std::collections::BTreeSet;

const RANGE: &str = "net.ipv4.ip_local_port_range";
const RESERVED: &str = "net.ipv4.ip_local_reserved_ports";
/// Ports of the widest range.
const WIDEST: u64 = 64_512;

pub(super) fn rows(look: &Look) -> Vec<HostRow> {
    let mut rows = Vec::new();
    if look.is_server() {
        rows.push(reserved(look));
    } else {
        rows.extend([range(look), sources(look), late_ports(look), reuse(look)]);
    }
    let flapping = look.need.connections.clamp(4_096, 2_000_000);
    rows.push(at_least(look, "net.ipv4.tcp_max_tw_buckets", flapping, Fitness::Weak).symptom(
        "when all leave at once, TIME-WAITs are cut short and late segments may hit a new \
         connection; TCPTimeWaitOverflow",
    ));
    rows.push(fin_timeout(look));
    rows.push(recycle(look));
    rows.push(at_least(look, "net.ipv4.tcp_max_orphans", flapping, Fitness::Weak).symptom(
        "when all leave at once, connections are reset before their last bytes are sent; \
         TCPAbortOnMemory, kernel log: too many orphaned sockets",
    ));
    rows.push(neighbours(look));
    rows
}

/// Ports that may be used: the range's, without those that are reserved in it.
fn usable(look: &Look) -> Option<u64> {
    let text = look.setting(RANGE)?;
    let all = ports(&text)?;
    let mut ends = text.split_ascii_whitespace().filter_map(|end| end.parse::<u64>().ok());
    let (low, high) = ends.next().zip(ends.next())?;
    let reserved = look.setting(RESERVED).unwrap_or_default();
    let taken: u64 = spans(&reserved)
        .filter(|(from, to)| *from <= high && *to >= low)
        .map(|(from, to)| to.min(high) - from.max(low) + 1)
        .sum();
    Some(all.saturating_sub(taken))
}

/// `8080,9000-9100` as spans.
fn spans(text: &str) -> impl Iterator<Item = (u64, u64)> {
    text.split(',').filter_map(|part| {
        let (from, to) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let span = (from.parse().ok()?, to.parse().ok()?);
        (span.0 <= span.1).then_some(span)
    })
}

fn ways(look: &Look) -> u64 {
    u64::from(look.need.sources.max(1)) * u64::from(look.need.targets.max(1))
}

fn range(look: &Look) -> HostRow {
    let need = look.need.connections.div_ceil(ways(look));
    let wanted = format!("at least {} ports for each source and target", grouped(need));
    let Some(usable) = usable(look) else { return unknown(RANGE, "not present", wanted) };
    let text = look.setting(RANGE).unwrap_or_default();
    let fitness = match usable {
        _ if usable < need => Fitness::Bad,
        // Near its end the kernel searches long for a free one.
        _ if usable / 10 * 9 < need => Fitness::Weak,
        _ => Fitness::Good,
    };
    let mut row = row(RANGE, format!("{text} ({} usable)", grouped(usable)), wanted)
        .judged(fitness)
        .symptom("connect fails with EADDRNOTAVAIL (no_ports), and is slow shortly before")
        .by_root(format!("sysctl -w {RANGE}=\"1024 65535\""))
        .bounds(usable.saturating_mul(ways(look)));
    if fitness == Fitness::Bad && usable >= WIDEST - 512 {
        row = row.by_anyone(format!("--sources {}", enough_sources(look)));
    }
    row
}

/// Source addresses of the widest range that are enough.
fn enough_sources(look: &Look) -> u64 {
    let targets = u64::from(look.need.targets.max(1));
    look.need.connections.div_ceil(60_000).div_ceil(targets).max(1)
}

fn sources(look: &Look) -> HostRow {
    let need = enough_sources(look);
    let fitness = if u64::from(look.need.sources) >= need { Fitness::Good } else { Fitness::Bad };
    let value = format!("{} for {} target ports", look.need.sources, look.need.targets);
    row("source addresses", value, format!("at least {}", grouped(need)))
        .judged(fitness)
        .symptom("connect fails with EADDRNOTAVAIL (no_ports)")
        .by_root(format!(
            "ip address add ADDRESS/32 dev DEVICE, {need} in all (127.0.0.0/8 needs none); or more \
             ports of the target"
        ))
}

/// Without IP_BIND_ADDRESS_NO_PORT a port belongs to one connection whatever its target.
fn late_ports(look: &Look) -> HostRow {
    let item = "IP_BIND_ADDRESS_NO_PORT";
    let release = look.setting("kernel.osrelease").unwrap_or_default();
    let wanted = "Linux 4.2; IP_LOCAL_PORT_RANGE Linux 6.3";
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let Some(version) = numbers.next().zip(numbers.next()) else {
        return unknown(item, "the kernel release is unreadable", wanted);
    };
    let fitness = if version >= (4_u32, 2_u32) { Fitness::Good } else { Fitness::Weak };
    let ranges = if version >= (6, 3) { "both" } else { "without IP_LOCAL_PORT_RANGE" };
    row(item, format!("Linux {release}: {ranges}"), wanted)
        .judged(fitness)
        .symptom("bind fails with EADDRINUSE (no_ports) long before the ports are used up")
        .by_root("a newer kernel")
}

fn reserved(look: &Look) -> HostRow {
    let wanted = "the server's ports, where they lie in the range of clients";
    let Some(text) = look.setting(RESERVED) else {
        return unknown(RESERVED, "not present", wanted);
    };
    let shown = if text.is_empty() { "none" } else { &text };
    let symptom = "after a restart, listen fails with EADDRINUSE: a client's port sits on it";
    let Some(pid) = look.need.pid else {
        let row = unknown(RESERVED, &format!("{shown}; give --pid of the server"), wanted);
        return row.symptom(symptom);
    };
    let range = look.setting(RANGE).unwrap_or_default();
    let ends = spans(&range.replace(' ', "-")).next().unwrap_or((1, 0));
    let net = crate::network_of(look.place, Some(pid));
    let inodes: Vec<u64> = crate::process::sockets(look.place, pid).collect();
    let all = crate::listeners::read(look.place, &net);
    let own = all.iter().filter(|one| inodes.contains(&one.inode)).map(|one| u64::from(one.port));
    // Several listeners may share a port.
    let open: BTreeSet<u64> = own
        .filter(|port| (ends.0..=ends.1).contains(port))
        .filter(|port| !spans(&text).any(|(from, to)| (from..=to).contains(port)))
        .collect();
    let open: Vec<String> = open.into_iter().map(|port| port.to_string()).collect();
    let fitness = if open.is_empty() { Fitness::Good } else { Fitness::Weak };
    let list: Vec<&str> = open.iter().map(String::as_str).chain(text.split(',')).collect();
    let list = list.join(",");
    let value = if open.is_empty() {
        shown.to_owned()
    } else {
        format!("{shown}, not port {}", open.join(", "))
    };
    row(RESERVED, value, wanted)
        .judged(fitness)
        .symptom(symptom)
        .by_root(format!("sysctl -w {RESERVED}={}", list.trim_end_matches(',')))
}

fn reuse(look: &Look) -> HostRow {
    one_of(look, "net.ipv4.tcp_tw_reuse", &["1", "2"], Fitness::Weak).symptom(
        "clients that come and go use up ports in TIME-WAIT for a minute each (2: on the loopback \
         they need not); no_ports, tcp.time_wait",
    )
}

fn fin_timeout(look: &Look) -> HostRow {
    let name = "net.ipv4.tcp_fin_timeout";
    let wanted = "at most 60 s";
    let Some(value) = look.number(name) else { return unknown(name, "not present", wanted) };
    let fitness = if value <= 60 { Fitness::Good } else { Fitness::Weak };
    row(name, format!("{value} s"), wanted)
        .judged(fitness)
        .symptom("abandoned connections stay in FIN-WAIT-2; tcp.orphans, tcp.closing")
        .by_root(format!("sysctl -w {name}=60"))
}

/// Old guides still ask for it; it has been gone since Linux 4.12.
fn recycle(look: &Look) -> HostRow {
    let name = "net.ipv4.tcp_tw_recycle";
    let wanted = "0, or not present";
    let fitness = match look.number(name) {
        None => return row(name, "not present, as it should be", wanted),
        Some(0) => Fitness::Good,
        Some(_) => Fitness::Bad,
    };
    row(name, look.setting(name).unwrap_or_default(), wanted)
        .judged(fitness)
        .symptom("SYNs of clients behind one address are dropped; PAWSPassive, syn_timed_out")
        .by_root(format!("sysctl -w {name}=0"))
}

fn neighbours(look: &Look) -> HostRow {
    let name = "net.ipv4.neigh.default.gc_thresh3";
    let need = u64::from(look.need.sources.max(look.need.targets)) + 512;
    at_least(look, name, need, Fitness::Bad).symptom(
        "sends fail with EHOSTUNREACH or ENOBUFS (no_route); kernel log: neighbour table overflow; \
         counts hosts and their aliases on the same wire",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_ports_are_read_and_nonsense_is_left_out() {
        let all: Vec<_> = spans("8080,9000-9100, 5-4,x,,7-").collect();
        assert_eq!(all, [(8_080, 8_080), (9_000, 9_100)]);
    }
}

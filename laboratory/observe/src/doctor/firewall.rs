//! The firewall's table of connections, and TCP's own.

use super::Look;
use super::row::{Say, at_least, grouped, row, unknown};
use crate::lines;
use lab::host::{Fitness, HostRow};

const MAX: &str = "net.netfilter.nf_conntrack_max";
const FULL: &str = "SYNs vanish, sends fail with EPERM (forbidden), clients see syn_timed_out; \
                    kernel log: table full, dropping packet; conntrack.drops";

pub(super) fn rows(look: &Look) -> Vec<HostRow> {
    let mut rows = conntrack(look);
    rows.push(hash(look));
    rows
}

fn conntrack(look: &Look) -> Vec<HostRow> {
    let need = look.need.connections.saturating_mul(2);
    let wanted = format!("at least {}, or no connection tracking", grouped(need));
    let Some(max) = look.number(MAX) else {
        return vec![row(MAX, "not loaded: no connection tracking", wanted).symptom(FULL)];
    };
    let count = look.number("net.netfilter.nf_conntrack_count").unwrap_or(0);
    // Loaded, it follows connections only where a rule asks for them.
    let snmp = look.place.text("proc/net/snmp").unwrap_or_default();
    let tcp = lines::tables(&snmp).find(|(table, name, _)| (*table, *name) == ("Tcp", "CurrEstab"));
    let standing = tcp.map_or(0, |(_, _, value)| value);
    let value = format!("{} ({} in use)", grouped(max), grouped(count));
    if count == 0 && standing > 0 {
        let value = format!("{value}: not used by any rule");
        return vec![row(MAX, value, wanted).symptom(FULL)];
    }
    let free = max.saturating_sub(count);
    let fitness = match free {
        _ if free >= need => Fitness::Good,
        // Where nothing is followed yet, it may never be.
        _ if free >= look.need.connections || count == 0 => Fitness::Weak,
        _ => Fitness::Bad,
    };
    let mut first = row(MAX, value, wanted)
        .judged(fitness)
        .symptom(FULL)
        .by_root(format!("sysctl -w {MAX}={}", need.saturating_add(count)));
    first.connections_max = (count > 0).then_some(free);
    let buckets = at_least(look, "net.netfilter.nf_conntrack_buckets", need / 8, Fitness::Weak)
        .symptom("connection lookups become slower; cpu.softirq");
    let name = "net.netfilter.nf_conntrack_tcp_timeout_established";
    let kept = at_least(look, name, 3_600, Fitness::Weak)
        .symptom("a connection silent for longer is forgotten and reset; reset, heartbeats.lost");
    vec![first, buckets, kept]
}

/// The kernel's own table of connections; it has no counter that shows when it is too small.
fn hash(look: &Look) -> HostRow {
    let name = "net.ipv4.tcp_ehash_entries";
    let need = (look.need.connections / 2).next_power_of_two();
    let wanted = format!("at least {}", grouped(need));
    // A negative number: this network namespace shares the table of the first one.
    let entries = look.setting(name).and_then(|text| text.parse::<i64>().ok());
    let Some(entries) = entries.map(i64::unsigned_abs).filter(|entries| *entries > 0) else {
        let why = "not reported by this kernel; see its boot log";
        return unknown("TCP hash table (thash_entries)", why, wanted);
    };
    let per = look.need.connections as f64 / entries as f64;
    let fitness = if entries >= need { Fitness::Good } else { Fitness::Weak };
    let child = look.number("net.ipv4.tcp_child_ehash_entries").unwrap_or(0);
    let value =
        format!("{} ({per:.1} connections in each; new namespaces {child})", grouped(entries));
    row(name, value, wanted)
        .judged(fitness)
        .symptom("the processor searches long chains at every packet; no counter, cpu.softirq")
        .by_root(format!("kernel command line: thash_entries={need}, then reboot"))
}

//! Between the wire and TCP: queues of packets, interrupts, and who works them off.

use super::Look;
use super::row::{Say, at_least, grouped, row, unknown};
use crate::host::Stat;
use lab::host::{Fitness, HostRow};

/// Real interfaces that are looked at, at most.
const INTERFACES_MAX: usize = 8;

pub(super) fn rows(look: &Look) -> Vec<HostRow> {
    let queue = (look.need.connections / 4).clamp(1_000, 250_000);
    let dropped = "packets are dropped before TCP sees them; softnet.dropped, retransmits";
    let mut rows = vec![
        at_least(look, "net.core.netdev_max_backlog", queue, Fitness::Weak).symptom(dropped),
        at_least(look, "net.core.netdev_budget", 300, Fitness::Weak)
            .symptom("soft interrupts give up before the work is done; softnet.squeezed"),
    ];
    let names = look.place.names("sys/class/net");
    let mut real: Vec<String> =
        names.filter(|name| look.place.has(&format!("sys/class/net/{name}/device"))).collect();
    real.sort();
    if real.is_empty() {
        rows.push(unknown("network card", "none found", "rings of 4,096, a queue a core"));
    }
    for name in real.iter().take(INTERFACES_MAX) {
        rows.push(rings(look, name));
        rows.push(queues(look, name));
    }
    rows
}

/// The rings' sizes are not in /sys; packets that found none free are.
fn rings(look: &Look, name: &str) -> HostRow {
    let item = format!("{name} rings");
    let wanted = "4,096, and no packets missed";
    let symptom = "packets are missed on the card; rx_missed_errors, retransmits, syn_timed_out";
    let file = format!("sys/class/net/{name}/statistics/rx_missed_errors");
    let command = format!("ethtool -G {name} rx 4096 tx 4096   # ethtool -g {name} shows them");
    match look.place.number(&file) {
        Some(0) => row(&item, "no packets missed so far", wanted).symptom(symptom),
        Some(missed) => row(&item, format!("{} missed", grouped(missed)), wanted)
            .judged(Fitness::Weak)
            .symptom(symptom)
            .by_root(command),
        None => unknown(&item, "not reported; ethtool -g", wanted).symptom(symptom),
    }
}

/// One queue means one core for all packets, unless RPS spreads them.
fn queues(look: &Look, name: &str) -> HostRow {
    let item = format!("{name} receive queues");
    let folder = format!("sys/class/net/{name}/queues");
    let rx: Vec<String> =
        look.place.names(&folder).filter(|queue| queue.starts_with("rx-")).collect();
    let stat = look.place.text("proc/stat").unwrap_or_default();
    let cores = Stat::of(&stat).cores();
    let wanted = format!("one for each of {cores} cores, or RPS");
    if rx.is_empty() || cores == 0 {
        return unknown(&item, "not reported", wanted);
    }
    let spread = rx.iter().any(|queue| {
        let mask = look.place.text(&format!("{folder}/{queue}/rps_cpus")).unwrap_or_default();
        mask.chars().any(|digit| digit.is_ascii_hexdigit() && digit != '0')
    });
    let fitness = if rx.len() >= cores || spread { Fitness::Good } else { Fitness::Weak };
    let rps = if spread { "RPS spreads them" } else { "no RPS" };
    // A mask of more than 32 cores is written in groups, by hand.
    let mask = (1_u64 << cores.min(32)) - 1;
    row(&item, format!("{}, {rps}", rx.len()), wanted)
        .judged(fitness)
        .symptom("one core does all soft interrupts; cpu.softirq_busiest, softnet.squeezed")
        .by_root(format!("echo {mask:x} > /{folder}/rx-0/rps_cpus"))
}

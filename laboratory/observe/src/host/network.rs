//! Interfaces, the queues before TCP, and the firewall's table of connections.

use crate::columns as at;
use crate::lines;
use crate::place::KernelFiles;
use lab::series::Reading;

/// Counters of an interface: /proc/net/dev.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Traffic {
    bytes_in: u64,
    packets_in: u64,
    errors_in: u64,
    dropped_in: u64,
    bytes_out: u64,
    packets_out: u64,
    errors_out: u64,
    dropped_out: u64,
}

/// Adds them; `net` is the folder of the network's counters.
pub(super) fn read(place: &KernelFiles, net: &str, out: &mut Reading) {
    if let Some(text) = place.text(&format!("{net}/dev")) {
        interfaces(place, &text, out);
    }
    if let Some(text) = place.text(&format!("{net}/softnet_stat")) {
        let [packets, dropped, squeezed] = softnet(&text);
        out.set(at::SOFTNET_PACKETS, packets as f64);
        out.set(at::SOFTNET_DROPPED, dropped as f64);
        out.set(at::SOFTNET_SQUEEZED, squeezed as f64);
    }
    let folder = "proc/sys/net/netfilter";
    let stat = place.text(&format!("{net}/stat/nf_conntrack")).unwrap_or_default();
    // A packet that found no room is counted as dropped, or as dropped early if another one went.
    for (column, value) in [
        (at::CONNTRACK_COUNT, place.number(&format!("{folder}/nf_conntrack_count"))),
        (at::CONNTRACK_MAX, place.number(&format!("{folder}/nf_conntrack_max"))),
        (at::CONNTRACK_DROPS, lines::hex_column(&stat, "drop")),
        (at::CONNTRACK_FAILED, lines::hex_column(&stat, "insert_failed")),
    ] {
        value.inspect(|value| out.set(column, *value as f64));
    }
}

/// Sums over real devices where there are any, else (in a container) over all but the loopback:
/// what goes over a bridge and then a device would count twice.
fn interfaces(place: &KernelFiles, text: &str, out: &mut Reading) {
    let all: Vec<(&str, Traffic)> = text.lines().filter_map(interface).collect();
    let real = |name: &str| place.has(&format!("sys/class/net/{name}/device"));
    let some_real = all.iter().any(|(name, _)| real(name));
    let counted = all.iter().filter(|(name, _)| *name != "lo" && (!some_real || real(name)));
    let counted: Vec<&Traffic> = counted.map(|(_, traffic)| traffic).collect();
    let sum = |of: fn(&Traffic) -> u64| lines::sum(counted.iter().map(|traffic| of(traffic)));
    out.set(at::NET_IN, sum(|traffic| traffic.bytes_in) as f64);
    out.set(at::NET_OUT, sum(|traffic| traffic.bytes_out) as f64);
    out.set(at::NET_PACKETS_IN, sum(|traffic| traffic.packets_in) as f64);
    out.set(at::NET_PACKETS_OUT, sum(|traffic| traffic.packets_out) as f64);
    out.set(at::NET_RX_DROPPED, sum(|traffic| traffic.dropped_in) as f64);
    out.set(at::NET_TX_DROPPED, sum(|traffic| traffic.dropped_out) as f64);
    out.set(
        at::NET_ERRORS,
        sum(|traffic| traffic.errors_in.saturating_add(traffic.errors_out)) as f64,
    );
    if let Some((_, lo)) = all.iter().find(|(name, _)| *name == "lo") {
        out.set(at::LO_BYTES, lo.bytes_in as f64);
        out.set(at::LO_PACKETS, lo.packets_in as f64);
        out.set(at::LO_DROPPED, lo.dropped_in.saturating_add(lo.dropped_out) as f64);
    }
}

/// A line of /proc/net/dev. Full rings (`fifo`, which missed packets are part of) count as dropped.
fn interface(line: &str) -> Option<(&str, Traffic)> {
    let (name, rest) = line.rsplit_once(':')?;
    let figures: Vec<u64> = lines::numbers(rest).collect();
    let [bytes_in, packets_in, errors_in, dropped_in, fifo_in, _, _, _, ..] = figures[..] else {
        return None;
    };
    let [bytes_out, packets_out, errors_out, dropped_out, ..] = figures[8..] else { return None };
    let dropped_in = dropped_in.saturating_add(fifo_in);
    let traffic = Traffic {
        bytes_in,
        packets_in,
        errors_in,
        dropped_in,
        bytes_out,
        packets_out,
        errors_out,
        dropped_out,
    };
    Some((name.trim(), traffic))
}

/// Worked on, dropped, budget used up: a line a core, in hexadecimal.
fn softnet(text: &str) -> [u64; 3] {
    let mut sums = [0_u64; 3];
    for line in text.lines() {
        let cells = line.split_ascii_whitespace().map(|cell| u64::from_str_radix(cell, 16));
        for (sum, cell) in sums.iter_mut().zip(cells) {
            *sum = sum.saturating_add(cell.unwrap_or(0));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_sixteen_columns_and_a_short_line_none() {
        let line = "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        let (name, read) = interface(line).expect("a whole line");
        assert_eq!((name, read.bytes_in, read.dropped_in, read.bytes_out), ("eth0", 1, 9, 9));
        assert_eq!((read.packets_out, read.errors_out, read.dropped_out), (10, 11, 12));
        // Labels of addresses have colons in them.
        assert_eq!(interface("eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12").expect("whole").0, "eth0:1");
        for line in ["", "Inter-|   Receive", "lo: 1 2", "lo: 1 2 3 4 5 6 7 8", "lo:"] {
            assert_eq!(interface(line), None, "{line}");
        }
    }

    #[test]
    fn the_cores_queues_are_summed() {
        let text = "00000010 00000001 00000002 0\n00000001 00000000 0000000f 0\nnonsense\n";
        assert_eq!(softnet(text), [17, 1, 17]);
        assert_eq!(softnet(""), [0; 3]);
    }
}

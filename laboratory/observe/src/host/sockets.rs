//! Sockets and what TCP counts: /proc/net/sockstat, snmp, netstat, and the states that tell of
//! trouble.
//!
//! The kernel is asked for the sockets of those states alone, however many others there are. Where
//! it cannot be asked (another network namespace), /proc/net/tcp is read while there are few.

use crate::columns::{self as at, COUNTERS};
use crate::lines;
use crate::listeners::diag;
use crate::place::KernelFiles;
use lab::series::Reading;
use std::collections::HashMap;

/// Sockets up to which their states are counted from /proc/net/tcp: it has a line for each.
const STATES_MAX: u64 = 4_096;
/// Sockets in the states below that are counted, at most.
const COUNTED_MAX: u32 = 1 << 17;
/// States by their numbers (include/net/tcp_states.h).
const SYN_RECEIVED: [usize; 2] = [3, 12];
const CLOSE_WAIT: [usize; 1] = [8];
/// FIN-WAIT-1 and 2, LAST-ACK and CLOSING.
const CLOSING: [usize; 4] = [4, 5, 9, 11];

/// Adds them; `net` is the folder of the network's counters.
pub(super) fn read(place: &KernelFiles, net: &str, out: &mut Reading) {
    let four = place.text(&format!("{net}/sockstat")).unwrap_or_default();
    let six = place.text(&format!("{net}/sockstat6")).unwrap_or_default();
    let page = rustix::param::page_size() as u64;
    let tcp = |word| lines::within(&four, "TCP", word);
    let mut set = |column, value: Option<u64>| {
        value.inspect(|value| out.set(column, *value as f64));
    };
    let six = lines::within(&six, "TCP6", "inuse").unwrap_or(0);
    let used = tcp("inuse").map(|used| used.saturating_add(six));
    set(at::SOCKETS_USED, lines::within(&four, "sockets", "used"));
    set(at::TCP_SOCKETS, used);
    set(at::TCP_ORPHANS, tcp("orphan"));
    set(at::TCP_TIME_WAIT, tcp("tw"));
    set(at::TCP_ALLOCATED, tcp("alloc"));
    set(at::TCP_MEM_PAGES, tcp("mem"));
    set(at::MEMORY_SOCKETS, tcp("mem").map(|pages| pages.saturating_mul(page)));
    set(at::TCP_ORPHANS_MAX, place.number("proc/sys/net/ipv4/tcp_max_orphans"));
    set(at::TCP_TIME_WAIT_MAX, place.number("proc/sys/net/ipv4/tcp_max_tw_buckets"));
    let pages = place.text("proc/sys/net/ipv4/tcp_mem");
    set(at::TCP_MEM_PAGES_MAX, pages.and_then(|text| lines::nth(&text, 2)));
    let range = place.text("proc/sys/net/ipv4/ip_local_port_range");
    set(at::PORTS_RANGE, range.as_deref().and_then(ports));
    let snmp = place.text(&format!("{net}/snmp")).unwrap_or_default();
    let stat = place.text(&format!("{net}/netstat")).unwrap_or_default();
    counted(&snmp, &stat, out);
    let few = |(used, waiting): (u64, u64)| used.saturating_add(waiting) <= STATES_MAX;
    let is_few = used.zip(tcp("tw")).is_some_and(few);
    let askable = place.is_real() && net == "proc/net";
    let wanted = SYN_RECEIVED.iter().chain(&CLOSE_WAIT).chain(&CLOSING);
    let mask = wanted.fold(0, |mask, state| mask | 1_u32 << state);
    let asked = askable.then(|| diag::states(mask, COUNTED_MAX)).flatten();
    if let Some(by_state) = asked.or_else(|| is_few.then(|| listed(place, net))) {
        states(&by_state, out);
    }
}

/// Ports of a range: `32768 60999`.
pub(crate) fn ports(text: &str) -> Option<u64> {
    let (low, high) = lines::nth(text, 0).zip(lines::nth(text, 1))?;
    (high >= low && high <= u64::from(u16::MAX)).then(|| high - low + 1)
}

fn counted(snmp: &str, stat: &str, out: &mut Reading) {
    let tables = lines::tables(snmp).chain(lines::tables(stat));
    let read: HashMap<(&str, &str), u64> =
        tables.map(|(table, name, value)| ((table, name), value)).collect();
    if let Some(standing) = read.get(&("Tcp", "CurrEstab")) {
        out.set(at::TCP_ESTABLISHED, *standing as f64);
    }
    for (table, name, column, _) in COUNTERS {
        if let Some(value) = read.get(&(*table, *name)) {
            out.set(column.clone(), *value as f64);
        }
    }
}

/// Sockets by their state, of /proc/net/tcp.
fn listed(place: &KernelFiles, net: &str) -> [u32; 16] {
    let mut by_state = [0_u32; 16];
    for file in ["tcp", "tcp6"] {
        let text = place.text(&format!("{net}/{file}")).unwrap_or_default();
        let states = text.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().nth(3));
        for state in states.filter_map(|state| usize::from_str_radix(state, 16).ok()) {
            by_state[state.min(15)] += 1;
        }
    }
    by_state
}

fn states(by_state: &[u32; 16], out: &mut Reading) {
    let sum =
        |states: &[usize]| f64::from(states.iter().map(|state| by_state[*state]).sum::<u32>());
    out.set(at::TCP_SYN_RECEIVED, sum(&SYN_RECEIVED));
    out.set(at::TCP_CLOSE_WAIT, sum(&CLOSE_WAIT));
    out.set(at::TCP_CLOSING, sum(&CLOSING));
}

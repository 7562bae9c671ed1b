//! Memory: the kernel's for sockets, TCP's buffers, and the limit of a container.

use super::Look;
use super::row::{Say, at_least, bytes, grouped, row, unknown};
use crate::host::{Group, kib};
use crate::lines;
use lab::host::{Fitness, HostRow};

/// Bytes of kernel memory that an idle connection's end costs: measured, 304,000 pairs on Linux
/// 6.18 (research, push-and-load 5.1): socket, inode, file, dentry, epoll item.
const KERNEL_BYTES: u64 = 4_100;
/// Bytes of a small message that waits in a socket's buffer, as the kernel charges it.
const CHARGED_BYTES: u64 = 2_304;

const OUT_OF_MEMORY: &str = "the kernel kills a process although its own memory is small: slab and \
                             sock in meminfo and memory.stat; PSI memory; oom_kills";

pub(super) fn rows(look: &Look) -> Vec<HostRow> {
    vec![
        available(look),
        group(look),
        tcp_mem(look),
        buffers("rmem", look),
        buffers("wmem", look),
        core("rmem", look),
        core("wmem", look),
    ]
}

fn kernel_bytes(look: &Look) -> u64 {
    look.need.connections.saturating_mul(KERNEL_BYTES)
}

/// Good with half as much again for the program itself, weak with just enough for the kernel.
fn enough(free: u64, need: u64) -> Fitness {
    match free {
        _ if free >= need.saturating_add(need / 2) => Fitness::Good,
        _ if free >= need => Fitness::Weak,
        _ => Fitness::Bad,
    }
}

fn wanted(need: u64) -> String {
    format!("{} for the kernel's sockets, and the program's own", bytes(need))
}

fn available(look: &Look) -> HostRow {
    let (item, need) = ("memory available", kernel_bytes(look));
    let info = look.place.text("proc/meminfo").unwrap_or_default();
    let Some(free) = kib(&info, "MemAvailable") else {
        return unknown(item, "unreadable", wanted(need));
    };
    row(item, bytes(free), wanted(need))
        .judged(enough(free, need))
        .symptom(OUT_OF_MEMORY)
        .by_anyone("stop other programs, add memory, or use more machines")
        .bounds(free / KERNEL_BYTES)
}

fn group(look: &Look) -> HostRow {
    let (item, need) = ("memory.max (control group)", kernel_bytes(look));
    let group = Group::find(look.place, look.need.pid);
    let (Some(has), Some(file)) = (group.memory(look.place), group.memory_file()) else {
        return row(item, "not limited by a control group", wanted(need));
    };
    let Some(max) = group.memory_max(look.place) else {
        return row(item, format!("unlimited ({} used)", bytes(has)), wanted(need));
    };
    let free = max.saturating_sub(has);
    let command = format!("echo {} > {file}", has.saturating_add(need / 2 * 3));
    row(item, format!("{} ({} used)", bytes(max), bytes(has)), wanted(need))
        .judged(enough(free, need))
        .symptom(OUT_OF_MEMORY)
        .by_root(format!("{command}   # or MemoryMax= of the unit, --memory of the container"))
        .bounds(free / KERNEL_BYTES)
}

fn tcp_mem(look: &Look) -> HostRow {
    let name = "net.ipv4.tcp_mem";
    let page = rustix::param::page_size() as u64;
    let need = (look.need.connections.saturating_mul(CHARGED_BYTES) / page).max(1_024);
    let wanted = format!("last figure at least {} pages", grouped(need));
    let Some(text) = look.setting(name) else { return unknown(name, "not present", wanted) };
    let Some(high) = lines::nth(&text, 2) else { return unknown(name, "unreadable", wanted) };
    let fitness = if high >= need { Fitness::Good } else { Fitness::Weak };
    let [low, middle] = [need / 2, need / 4 * 3];
    row(name, text, wanted)
        .judged(fitness)
        .symptom(
            "a small message for everybody at once does not fit: segments are dropped and \
             connections reset; TCPMemoryPressures, TCPAbortOnMemory, RcvPruned",
        )
        .by_root(format!("sysctl -w {name}=\"{low} {middle} {need}\""))
}

/// Checks the memory of full buffers of all connections, for programs that do not set their own:
/// unread bytes are in the receive buffer, unacknowledged ones in the send buffer.
fn buffers(which: &str, look: &Look) -> HostRow {
    let name = format!("net.ipv4.tcp_{which}");
    let wanted = "all buffers full fit into half the memory, or the program sets its own";
    let info = look.place.text("proc/meminfo").unwrap_or_default();
    let text = look.setting(&name);
    let figures = text.as_ref().and_then(|text| lines::nth(text, 1).zip(kib(&info, "MemTotal")));
    let Some((default, memory)) = figures else { return unknown(&name, "not present", wanted) };
    let full = look.need.connections.saturating_mul(default);
    let fitness = if full <= memory / 2 { Fitness::Good } else { Fitness::Weak };
    row(&name, text.unwrap_or_default(), wanted)
        .judged(fitness)
        .symptom(&format!(
            "memory grows with slow readers and fan-out, to {} at worst; PruneCalled, TCPRcvQDrop, \
             TCPZeroWindowDrop",
            bytes(full)
        ))
        .by_root(smaller(&name, memory / 2 / look.need.connections.max(1)))
}

/// A default that fits, where one that a kernel takes does.
fn smaller(name: &str, room: u64) -> String {
    match [16_384, 8_192, 4_096].into_iter().find(|default| *default <= room) {
        Some(default) => format!("sysctl -w {name}=\"4096 {default} 262144\""),
        None => "SO_RCVBUF and SO_SNDBUF in the program's settings, or more memory".to_owned(),
    }
}

fn core(which: &str, look: &Look) -> HostRow {
    at_least(look, &format!("net.core.{which}_max"), 65_536, Fitness::Weak)
        .symptom("SO_RCVBUF and SO_SNDBUF are capped silently; slow over long distances")
}

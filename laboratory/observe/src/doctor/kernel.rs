//! Checks of other settings that stop or slow long connections: timers, mappings, threads,
//! processor, clocks, and the Redis that a server may use.

use super::Look;
use super::row::{Say, at_least, grouped, one_of, row, unknown};
use crate::host::{Group, Stat};
use crate::process::limit_of;
use crate::process::open_files_max;
use lab::host::{Fitness, HostRow};

pub(super) fn rows(look: &Look) -> Vec<HostRow> {
    let mut rows = vec![keep_alive(look), retries(look)];
    let (name, symptom) = if look.is_server() {
        ("net.ipv4.tcp_synack_retries", "half-open connections stay long; tcp.syn_received")
    } else {
        (
            "net.ipv4.tcp_syn_retries",
            "connection attempts fail before a slot is free; \
          syn_timed_out",
        )
    };
    rows.push(at_least(look, name, 2, Fitness::Weak).symptom(symptom));
    rows.push(low_water(look));
    rows.push(at_least(look, "vm.max_map_count", 65_530, Fitness::Weak).symptom(
        "mappings and threads fail with ENOMEM though memory is free; matters for programs that \
         map memory for each connection",
    ));
    rows.push(
        one_of(look, "vm.overcommit_memory", &["0", "1"], Fitness::Weak)
            .symptom("allocations fail with ENOMEM though memory is free; Committed_AS in meminfo"),
    );
    rows.push(huge_pages(look));
    rows.push(nodes(look));
    rows.push(locked(look));
    rows.push(threads(look));
    rows.push(processes(look));
    rows.push(at_least(look, "kernel.threads-max", 4_096, Fitness::Weak).symptom(NO_THREADS));
    rows.extend([governor(look), idle(look), interrupts(look), clock(look), synchrony(look)]);
    rows.push(redis(look));
    rows
}

const NO_THREADS: &str = "threads and processes cannot start (EAGAIN)";

fn keep_alive(look: &Look) -> HostRow {
    let name = "net.ipv4.tcp_keepalive_time";
    let wanted = "heartbeats of the protocol; this only helps sockets that ask for it";
    let Some(value) = look.number(name) else { return unknown(name, "not present", wanted) };
    row(name, format!("{value} s"), wanted)
        .symptom("half-open sessions stay; TCPKeepAlive, TCPAbortOnTimeout")
}

/// 15 doublings, from 0.2 to 120 seconds, are about 15 minutes.
fn retries(look: &Look) -> HostRow {
    let name = "net.ipv4.tcp_retries2";
    let wanted = "at most 15 (about 15 minutes), with TCP_USER_TIMEOUT of 30 to 60 s in the server";
    let Some(value) = look.number(name) else { return unknown(name, "not present", wanted) };
    let fitness = if value <= 15 { Fitness::Good } else { Fitness::Weak };
    row(name, value.to_string(), wanted)
        .judged(fitness)
        .symptom("data sent to a vanished peer is kept for so long; TCPAbortOnTimeout")
        .by_root(format!("sysctl -w {name}=15"))
}

fn low_water(look: &Look) -> HostRow {
    let name = "net.ipv4.tcp_notsent_lowat";
    let wanted = "up to the program: TCP_NODELAY, TCP_NOTSENT_LOWAT, one timer wheel a core";
    let Some(value) = look.number(name) else { return unknown(name, "not present", wanted) };
    let text = if value >= u64::from(u32::MAX) { "off".to_owned() } else { grouped(value) };
    row(name, text, wanted)
        .symptom("a slow reader keeps a whole send buffer; memory, and the lag of the loop")
}

fn huge_pages(look: &Look) -> HostRow {
    let file = "sys/kernel/mm/transparent_hugepage/enabled";
    let (item, wanted) = ("transparent huge pages", "madvise or never");
    let Some(text) = look.place.text(file) else { return unknown(item, "not reported", wanted) };
    let chosen = text.split('[').nth(1).and_then(|rest| rest.split(']').next()).unwrap_or("");
    let fitness = if chosen == "always" { Fitness::Weak } else { Fitness::Good };
    row(item, chosen, wanted)
        .judged(fitness)
        .symptom("memory grows by whole 2 MB pages, and stalls when they are made; process.rss")
        .by_root(format!("echo madvise > /{file}"))
}

fn nodes(look: &Look) -> HostRow {
    let (item, wanted) = ("NUMA nodes", "one, or processes bound to nodes");
    let Some(text) = look.place.text("sys/devices/system/node/online") else {
        return unknown(item, "not reported", wanted);
    };
    let one = !text.trim().contains(['-', ',']);
    row(item, format!("node {}", text.trim()), wanted)
        .judged(if one { Fitness::Good } else { Fitness::Weak })
        .symptom("memory of another node is slower, and one node can be full; ENOMEM, cpu.busy")
        .by_anyone("numactl --cpunodebind=0 --membind=0 COMMAND, a process for each node")
}

fn locked(look: &Look) -> HostRow {
    let (item, wanted) = ("RLIMIT_MEMLOCK", "matters for io_uring's buffers and eBPF only");
    let who = look.need.pid.map_or("self".to_owned(), |pid| pid.to_string());
    let text = look.place.text(&format!("proc/{who}/limits")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    match line.and_then(|line| line.split_ascii_whitespace().next()) {
        Some(value) => row(item, value, wanted).symptom("io_uring cannot register (ENOMEM)"),
        None => unknown(item, "unreadable", wanted),
    }
}

/// Threads that all processes may want.
fn threads_of(look: &Look) -> u64 {
    let cores = look.place.text("proc/stat").map_or(1, |text| Stat::of(&text).cores() as u64);
    (cores * 4 + 64) * u64::from(look.need.processes.max(1))
}

/// A thread a core is what servers of this kind have; some have one a connection.
fn threads(look: &Look) -> HostRow {
    let (item, need) = ("pids.max (TasksMax)", threads_of(look));
    let wanted = format!("at least {}", grouped(need));
    let Some(max) = Group::find(look.place, look.need.pid).pids_max(look.place) else {
        return row(item, "unlimited", wanted).symptom(NO_THREADS);
    };
    let fitness = if max >= need { Fitness::Good } else { Fitness::Bad };
    row(item, grouped(max), wanted)
        .judged(fitness)
        .symptom(NO_THREADS)
        .by_root("TasksMax=infinity in the unit, or --pids-limit of the container")
}

/// All threads of a user count, whatever process they are of.
fn processes(look: &Look) -> HostRow {
    let (item, need) = ("RLIMIT_NPROC (soft)", threads_of(look));
    let who = look.need.pid.map_or("self".to_owned(), |pid| pid.to_string());
    let text = look.place.text(&format!("proc/{who}/limits")).unwrap_or_default();
    let wanted = format!("at least {}", grouped(need));
    let Some(max) = limit_of(&text, "Max processes", 0) else {
        return unknown(item, "unreadable", wanted);
    };
    let value = if max == u64::MAX { "unlimited".to_owned() } else { grouped(max) };
    let fitness = if max >= need { Fitness::Good } else { Fitness::Bad };
    row(item, value, wanted)
        .judged(fitness)
        .symptom(NO_THREADS)
        .by_root(format!("ulimit -u {need}   # a service: LimitNPROC="))
}

fn governor(look: &Look) -> HostRow {
    let (item, wanted) = ("CPU governor", "performance");
    let file = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let Some(text) = look.place.text(file) else {
        return unknown(item, "not reported: chosen by the host of a virtual machine", wanted);
    };
    let fitness = if text.trim() == "performance" { Fitness::Good } else { Fitness::Weak };
    row(item, text.trim(), wanted)
        .judged(fitness)
        .symptom("latencies change with the load, as the clock does; note it in the report")
        .by_root("cpupower frequency-set -g performance")
}

fn idle(look: &Look) -> HostRow {
    let (item, wanted) = ("CPU idle states", "shallow ones in measurements of latency");
    match look.place.text("sys/devices/system/cpu/cpuidle/current_driver") {
        Some(driver) => row(item, driver.trim(), wanted)
            .symptom("a core in deep sleep responds late; note it in the report"),
        None => unknown(item, "not reported", wanted),
    }
}

fn interrupts(look: &Look) -> HostRow {
    let (item, wanted) = ("interrupt affinity", "all cores");
    let Some(text) = look.place.text("proc/irq/default_smp_affinity") else {
        return unknown(item, "not reported", wanted);
    };
    let bits: u32 = text.chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum();
    let stat = look.place.text("proc/stat").unwrap_or_default();
    let cores = u32::try_from(Stat::of(&stat).cores()).unwrap_or(u32::MAX);
    let fitness = if bits >= cores { Fitness::Good } else { Fitness::Weak };
    row(item, format!("mask {} for {cores} cores", text.trim()), wanted)
        .judged(fitness)
        .symptom("one core does all interrupts; cpu.softirq_busiest, /proc/interrupts")
        .by_root("systemctl start irqbalance")
}

fn clock(look: &Look) -> HostRow {
    let file = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    let (item, wanted) = ("clocksource", "tsc, or the hypervisor's own");
    let Some(text) = look.place.text(file) else { return unknown(item, "not reported", wanted) };
    let fast = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
    let fitness = if fast.contains(&text.trim()) { Fitness::Good } else { Fitness::Weak };
    row(item, text.trim(), wanted)
        .judged(fitness)
        .symptom("each reading of the clock is a system call, and coarse; cpu.system")
        .by_root(format!("echo tsc > /{file}"))
}

fn synchrony(look: &Look) -> HostRow {
    let (item, wanted) = ("clock synchrony", "within 1 ms of the other machines");
    let symptom = "one-way times come out negative; agents estimate their offset all the same";
    let known = [
        ("run/systemd/timesync/synchronized", "systemd-timesyncd is synchronised"),
        ("run/chrony/chronyd.pid", "chronyd runs"),
        ("run/chronyd.pid", "chronyd runs"),
        ("run/ntpd.pid", "ntpd runs"),
    ];
    match known.iter().find(|(file, _)| look.place.has(file)) {
        Some((_, what)) => row(item, *what, wanted).symptom(symptom),
        None => unknown(item, "no time daemon found; chronyc tracking", wanted).symptom(symptom),
    }
}

/// Its settings are its own to tell; its descriptors are seen from here.
fn redis(look: &Look) -> HostRow {
    let (item, wanted) = ("Redis", "maxclients above its callers, tcp-backlog 65535, timeout 0");
    let symptom = "rejected_connections, client_output_buffer_limit_disconnections in its INFO";
    let ask = "redis-cli config get maxclients tcp-backlog timeout client-output-buffer-limit";
    let named = |pid: &u32| {
        let name = look.place.text(&format!("proc/{pid}/comm")).unwrap_or_default();
        matches!(name.trim(), "redis-server" | "valkey-server" | "keydb-server")
    };
    let Some(pid) = look.place.numbers("proc").find(named) else {
        return row(item, "none on this machine", wanted).symptom(symptom);
    };
    let limits = look.place.text(&format!("proc/{pid}/limits")).unwrap_or_default();
    let files = open_files_max(&limits, 0).map_or("?".to_owned(), grouped);
    let value = format!("process {pid}, {files} descriptors; ask Redis for the rest");
    let mut row = unknown(item, &value, wanted).symptom(symptom);
    row.remedy = ask.to_owned();
    row
}

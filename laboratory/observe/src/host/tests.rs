//! A machine's figures, from the files of a real one.

use super::*;
use crate::folder::{Folder, golden};

/// All figures as lines of `name value`.
fn shown(reading: &Reading) -> String {
    reading.iter().map(|(column, value)| format!("{} {value}\n", column.name)).collect()
}

#[test]
fn every_figure_of_a_real_machine_is_read() {
    let folder = Folder::machine();
    let mut host = ObservedHost::at(folder.place());
    // Two seconds later core 0 was busy for half of them, a quarter of all in soft interrupts.
    let stat = folder.text("proc/stat");
    let later = stat
        .replace(
            "cpu  4356962 330292 533631 2182824 28646 0 62919 3520",
            "cpu  4357012 330292 533631 2183124 28646 0 62969 3520",
        )
        .replace(
            "cpu0 2177491 151725 250833 1133483 9657 0 23671 1811",
            "cpu0 2177541 151725 250833 1133583 9657 0 23721 1811",
        )
        .replace("cpu1 2179471 178567 282798 1049341", "cpu1 2179471 178567 282798 1049541");
    assert_ne!(stat, later);
    folder.put("proc/stat", later);
    let uptime: f64 = uptime_s(&folder.place()).expect("it is there");
    folder.put("proc/uptime", format!("{:.2} 1.00\n", uptime + 2.0));
    let disks = folder.text("proc/diskstats");
    let line = disks.lines().find(|line| line.contains("vda")).expect("it has one");
    let busy = line.split_whitespace().nth(12).expect("it is long");
    let more = busy.parse::<u64>().expect("a number") + 500;
    folder.put("proc/diskstats", disks.replace(busy, &more.to_string()));
    golden("host.txt", &shown(&host.read()));
}

#[test]
fn what_a_kernel_does_not_have_is_absent_and_never_zero() {
    let folder = Folder::empty();
    assert_eq!(shown(&ObservedHost::at(folder.place()).read()), "host.uptime_s 0\n");
    let folder = Folder::machine();
    folder.drop("proc/pressure");
    folder.drop("proc/net/netstat");
    folder.drop("proc/sys/net/netfilter");
    folder.drop("proc/net/stat");
    let reading = ObservedHost::at(folder.place()).read();
    for name in ["psi.cpu", "tcp.listen_drops", "conntrack.max", "conntrack.drops"] {
        assert_eq!(reading.of(name), None, "{name}");
    }
    assert!(reading.of("tcp.retransmits").is_some() && reading.of("memory.total").is_some());
}

#[test]
fn states_are_counted_only_while_there_are_few() {
    let folder = Folder::machine();
    folder.put("proc/net/sockstat", "sockets: used 9\nTCP: inuse 4000 orphan 0 tw 96 mem 1\n");
    assert_eq!(ObservedHost::at(folder.place()).read().of("tcp.closing"), Some(0.0));
    folder.put("proc/net/sockstat", "sockets: used 9\nTCP: inuse 4000 orphan 0 tw 97 mem 1\n");
    assert_eq!(ObservedHost::at(folder.place()).read().of("tcp.closing"), None);
}

#[test]
fn the_lowest_limit_above_a_group_holds_in_the_unified_hierarchy() {
    let folder = Folder::machine();
    folder.drop("sys/fs/cgroup");
    folder.put("proc/self/cgroup", "0::/system.slice/a.service\n");
    let group = "sys/fs/cgroup/system.slice";
    folder.put("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
    folder.put(&format!("{group}/memory.max"), "4096000\n");
    folder.put(&format!("{group}/memory.current"), "1024000\n");
    let stat = "anon 1\nsock 4096\nkernel 8192\nslab 1\ninactive_file 300000\nactive_file 24000\n";
    folder.put(&format!("{group}/memory.stat"), stat);
    folder.put(&format!("{group}/memory.events"), "low 0\noom 2\noom_kill 1\n");
    folder.put(&format!("{group}/a.service/memory.max"), "max\n");
    folder.put(&format!("{group}/a.service/memory.current"), "7\n");
    folder.put(&format!("{group}/a.service/cpu.max"), "150000 100000\n");
    folder.put(&format!("{group}/a.service/cpu.stat"), "nr_throttled 3\nthrottled_usec 40\n");
    folder.put(&format!("{group}/a.service/pids.max"), "max\n");
    folder.put(&format!("{group}/a.service/pids.current"), "12\n");
    let reading = ObservedHost::at(folder.place()).read();
    let of = |name: &str| reading.of(&format!("cgroup.{name}"));
    assert_eq!((of("memory"), of("memory_max")), (Some(700_000.0), Some(4_096_000.0)));
    assert_eq!((of("memory_sockets"), of("memory_kernel")), (Some(4_096.0), Some(8_192.0)));
    assert_eq!(
        (of("oom_kills"), of("cpu_max"), of("throttled")),
        (Some(1.0), Some(1.5), Some(3.0))
    );
    assert_eq!((of("throttled_us"), of("pids"), of("pids_max")), (Some(40.0), Some(12.0), None));
}

#[test]
fn this_machine_tells_of_itself() {
    let mut host = ObservedHost::of_this_machine();
    let reading = host.read();
    for name in ["memory.available", "host.files_open", "cpu.cores"] {
        assert!(reading.of(name).is_some_and(|value| value > 0.0), "{name}");
    }
    // A network namespace may have seen nothing yet.
    assert!(reading.of("tcp.listen_drops").is_some() && reading.of("net.bytes_in").is_some());
    assert!(host.unix_s().is_some_and(|unix_s| unix_s > 1e9));
}

//! The list, from the files of a real machine.

use super::*;
use crate::folder::{Folder, golden};

fn rows(folder: &Folder, need: &Need) -> Vec<HostRow> {
    examine_at(&folder.place(), need)
}

fn of<'a>(rows: &'a [HostRow], item: &str) -> &'a HostRow {
    rows.iter().find(|row| row.item == item).unwrap_or_else(|| panic!("no row {item}"))
}

fn shown(rows: &[HostRow]) -> String {
    let line = |row: &HostRow| {
        let max = row.connections_max.map_or("-".to_owned(), grouped);
        let HostRow { fitness, item, value, need, remedy, root, .. } = row;
        format!("{fitness:?} | {item} | {value} | {need} | {max} | {remedy} | {root}\n")
    };
    rows.iter().map(line).collect()
}

#[test]
fn a_real_machine_is_judged_row_by_row() {
    let folder = Folder::machine();
    golden("doctor-server.txt", &shown(&rows(&folder, &Need::of(1_000_000, Role::Server))));
    let need = Need { sources: 4, targets: 2, processes: 5, ..Need::of(100_000, Role::Client) };
    golden("doctor-client.txt", &shown(&rows(&folder, &need)));
}

/// Every row of the list in research/push-and-load.md 5.3, by a word of its own, and for whom.
const LIST: &[(&str, &str)] = &[
    ("fs.nr_open", "SC"),
    ("RLIMIT_NOFILE (soft)", "SC"),
    ("RLIMIT_NOFILE (hard)", "SC"),
    ("fs.file-max", "SC"),
    ("fs.epoll.max_user_watches", "SC"),
    ("memory available", "SC"),
    ("memory.max (control group)", "SC"),
    ("net.ipv4.tcp_mem", "SC"),
    ("net.ipv4.tcp_rmem", "SC"),
    ("net.ipv4.tcp_wmem", "SC"),
    ("net.core.rmem_max", "SC"),
    ("net.core.wmem_max", "SC"),
    ("net.core.somaxconn", "S"),
    ("listen() backlog", "S"),
    ("net.ipv4.tcp_max_syn_backlog", "S"),
    ("net.ipv4.tcp_syncookies", "S"),
    ("net.ipv4.tcp_abort_on_overflow", "S"),
    ("SO_REUSEPORT", "S"),
    ("net.ipv4.tcp_migrate_req", "S"),
    ("net.core.netdev_max_backlog", "SC"),
    ("net.core.netdev_budget", "SC"),
    ("eth0 rings", "SC"),
    ("eth0 receive queues", "SC"),
    ("net.netfilter.nf_conntrack_max", "SC"),
    ("net.netfilter.nf_conntrack_buckets", "SC"),
    ("net.netfilter.nf_conntrack_tcp_timeout_established", "SC"),
    ("net.ipv4.tcp_ehash_entries", "SC"),
    ("net.ipv4.ip_local_port_range", "C"),
    ("net.ipv4.ip_local_reserved_ports", "S"),
    ("source addresses", "C"),
    ("IP_BIND_ADDRESS_NO_PORT", "C"),
    ("net.ipv4.tcp_tw_reuse", "C"),
    ("net.ipv4.tcp_max_tw_buckets", "SC"),
    ("net.ipv4.tcp_fin_timeout", "SC"),
    ("net.ipv4.tcp_tw_recycle", "SC"),
    ("net.ipv4.tcp_max_orphans", "SC"),
    ("net.ipv4.neigh.default.gc_thresh3", "SC"),
    ("net.ipv4.tcp_keepalive_time", "SC"),
    ("net.ipv4.tcp_retries2", "SC"),
    ("net.ipv4.tcp_syn_retries", "C"),
    ("net.ipv4.tcp_synack_retries", "S"),
    ("net.ipv4.tcp_notsent_lowat", "SC"),
    ("vm.max_map_count", "SC"),
    ("vm.overcommit_memory", "SC"),
    ("transparent huge pages", "SC"),
    ("NUMA nodes", "SC"),
    ("RLIMIT_MEMLOCK", "SC"),
    ("pids.max (TasksMax)", "SC"),
    ("RLIMIT_NPROC (soft)", "SC"),
    ("kernel.threads-max", "SC"),
    ("CPU governor", "SC"),
    ("CPU idle states", "SC"),
    ("interrupt affinity", "SC"),
    ("clocksource", "SC"),
    ("clock synchrony", "SC"),
    ("Redis", "SC"),
];

#[test]
fn the_whole_list_is_examined_and_whatever_is_wrong_has_a_remedy() {
    let folder = Folder::machine();
    folder.put("proc/sys/net/netfilter/nf_conntrack_count", "5\n");
    for (role, letter) in [(Role::Server, 'S'), (Role::Client, 'C')] {
        let rows = rows(&folder, &Need::of(3_000_000, role));
        let wanted: Vec<&str> =
            LIST.iter().filter(|(_, who)| who.contains(letter)).map(|(item, _)| *item).collect();
        let mut found: Vec<&str> = rows.iter().map(|row| row.item.as_str()).collect();
        for item in wanted {
            let at = found.iter().position(|found| *found == item);
            found.remove(at.unwrap_or_else(|| panic!("no row {item}")));
        }
        assert_eq!(found, [""; 0], "rows that are not on the list");
        let wrong = rows.iter().filter(|row| row.fitness >= Fitness::Weak);
        for row in wrong {
            assert!(!row.remedy.is_empty() && !row.symptom.is_empty(), "{row:?}");
        }
        assert!(rows.iter().filter(|row| row.fitness == Fitness::Good).all(|row| !row.root));
    }
}

#[test]
fn where_nothing_can_be_read_nothing_is_called_good_that_could_be_bad() {
    let folder = Folder::empty();
    let rows = rows(&folder, &Need::of(1_000_000, Role::Server));
    let good: Vec<&str> = rows
        .iter()
        .filter(|row| row.fitness == Fitness::Good)
        .map(|row| row.item.as_str())
        .collect();
    let absent = [
        "memory.max (control group)",
        "net.netfilter.nf_conntrack_max",
        "net.ipv4.tcp_tw_recycle",
        "pids.max (TasksMax)",
        "Redis",
    ];
    assert_eq!(good, absent);
    assert!(fit(&rows) && first_limit(&rows).is_none());
}

#[test]
fn the_first_limit_is_the_least_number_that_gets_through() {
    let folder = Folder::machine();
    folder.put("proc/self/limits", "Max open files            4000      1000000      files\n");
    let all = rows(&folder, &Need::of(50_000, Role::Server));
    let limit = first_limit(&all).expect("there are limits");
    assert_eq!(limit.item, "RLIMIT_NOFILE (soft)");
    assert_eq!((limit.connections_max, limit.root, fit(&all)), (Some(3_400), false, false));
    // Just so many are good.
    let all = rows(&folder, &Need::of(3_400, Role::Server));
    assert_eq!(of(&all, "RLIMIT_NOFILE (soft)").fitness, Fitness::Good);
    let all = rows(&folder, &Need::of(3_410, Role::Server));
    assert_eq!(of(&all, "RLIMIT_NOFILE (soft)").fitness, Fitness::Bad);
    let need = Need { processes: 13, ..Need::of(44_000, Role::Server) };
    assert_eq!(of(&rows(&folder, &need), "RLIMIT_NOFILE (soft)").fitness, Fitness::Good);
}

#[test]
fn ports_are_counted_for_each_way_and_without_the_reserved_ones() {
    let folder = Folder::machine();
    folder.put("proc/sys/net/ipv4/ip_local_reserved_ports", "80,40000-40999,60999-61010\n");
    let need = Need { sources: 2, targets: 3, ..Need::of(200_000, Role::Client) };
    let all = rows(&folder, &need);
    let row = of(&all, "net.ipv4.ip_local_port_range");
    assert_eq!(row.connections_max, Some((28_232 - 1_001) * 6));
    assert_eq!((row.fitness, row.root), (Fitness::Bad, true));
    assert_eq!(of(&all, "source addresses").fitness, Fitness::Good);
    let need = Need { sources: 3, targets: 3, ..need };
    let all = rows(&folder, &need);
    assert_eq!(of(&all, "net.ipv4.ip_local_port_range").fitness, Fitness::Good);
}

#[test]
fn a_table_of_connections_that_nobody_uses_stops_nobody() {
    let folder = Folder::machine();
    let need = Need::of(1_000_000, Role::Server);
    let name = "net.netfilter.nf_conntrack_max";
    assert_eq!(of(&rows(&folder, &need), name).fitness, Fitness::Good);
    folder.put("proc/sys/net/netfilter/nf_conntrack_count", "62144\n");
    let all = rows(&folder, &need);
    let row = of(&all, name);
    assert_eq!((row.fitness, row.connections_max), (Fitness::Bad, Some(200_000)));
    folder.drop("proc/sys/net/netfilter");
    assert_eq!(of(&rows(&folder, &need), name).value, "not loaded: no connection tracking");
}

#[test]
fn a_container_is_measured_by_its_own_limit() {
    let folder = Folder::machine();
    folder.put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "536870912\n");
    folder.put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "126870912\n");
    let all = rows(&folder, &Need::of(200_000, Role::Server));
    let row = of(&all, "memory.max (control group)");
    assert_eq!((row.fitness, row.connections_max), (Fitness::Bad, Some(100_000)));
    assert!(row.remedy.contains("/sys/fs/cgroup/memory/box/memory.limit_in_bytes"));
}

#[test]
fn a_container_full_of_pages_of_files_has_memory_for_a_hundred_clients() {
    let folder = Folder::machine();
    let need = Need::of(100, Role::Client);
    let name = "memory.max (control group)";
    folder.put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "536870912\n");
    folder.put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "536600000\n");
    assert_eq!(of(&rows(&folder, &need), name).fitness, Fitness::Bad);
    let stat = "inactive_file 7\ntotal_inactive_file 400000000\ntotal_active_file 36600000\n";
    folder.put("sys/fs/cgroup/memory/box/memory.stat", stat);
    let all = rows(&folder, &need);
    let row = of(&all, name);
    assert_eq!((row.fitness, row.value.contains("used")), (Fitness::Good, true), "{}", row.value);
}

#[test]
fn the_listeners_of_a_running_server_are_looked_at() {
    let folder = Folder::machine();
    folder.put("proc/70/stat", "70 (a) S 1 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 5 1\n");
    folder.put("proc/70/limits", "Max open files            1024      4096      files\n");
    folder.link("proc/70/fd/3", "socket:[4711]");
    folder.link("proc/70/fd/4", "socket:[4712]");
    let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
    let line = |inode: u32| {
        format!(" 0: 0100007F:9C40 00000000:0000 0A 0:00000002 0:0 0 0 0 {inode} 1 0\n")
    };
    folder.put("proc/net/tcp", [head, &line(4_711), &line(4_712)].concat());
    let need = Need { pid: Some(70), ..Need::of(5_000, Role::Server) };
    let all = rows(&folder, &need);
    let soft = of(&all, "RLIMIT_NOFILE (soft)");
    assert_eq!((soft.fitness, soft.root), (Fitness::Bad, true));
    assert_eq!(soft.remedy, "prlimit --pid 70 --nofile=5756:5756");
    assert!(all.iter().all(|row| row.item != "network namespace"));
    folder.link("proc/self/ns/net", "net:[1]");
    folder.link("proc/70/ns/net", "net:[2]");
    let foreign = rows(&folder, &need);
    assert_eq!(foreign[0].remedy, "nsenter --net=/proc/70/ns/net holdline doctor ...");
    // Port 40000 is within 32768 to 60999.
    let reserved = of(&all, "net.ipv4.ip_local_reserved_ports");
    assert_eq!(reserved.fitness, Fitness::Weak);
    assert_eq!(reserved.remedy, "sysctl -w net.ipv4.ip_local_reserved_ports=40000");
    assert_eq!(of(&all, "SO_REUSEPORT").value, "port 40000: 2");
    assert_eq!(of(&all, "net.ipv4.tcp_migrate_req").fitness, Fitness::Weak);
}

#[test]
fn what_is_set_right_stays_so_where_the_files_say_it() {
    let folder = Folder::machine();
    let limits = "Max processes  60  60  processes\nMax open files  1024  1024  files\n";
    folder.put("proc/self/limits", limits);
    let rows = rows(&folder, &Need::of(1_500_000, Role::Server));
    let files = lasting(&rows);
    let text = |path: &str| {
        let found = files.iter().find(|(of, _)| *of == path);
        found.unwrap_or_else(|| panic!("no {path}")).1.clone()
    };
    let kernel = text("/etc/sysctl.d/61-holdline-doctor.conf");
    for row in rows.iter().filter(|row| row.remedy.starts_with("sysctl -w ")) {
        assert!(kernel.contains(&format!("{} = ", row.item)), "{}: {kernel}", row.item);
    }
    let shells = text("/etc/security/limits.d/61-holdline-doctor.conf");
    for line in ["* soft nofile 1650256", "root hard nofile 1650256", "* hard nproc 72"] {
        assert!(shells.lines().any(|it| it == line), "{line}: {shells}");
    }
    let services = text("/etc/systemd/system.conf.d/61-holdline-doctor.conf");
    assert!(services.starts_with("[Manager]\nDefaultLimitNOFILE=1650256\n"), "{services}");
    assert!(services.contains("\nDefaultLimitNPROC=72\n"), "{services}");
    let good = HostRow { fitness: Fitness::Good, ..rows[0].clone() };
    assert!(lasting(&[good]).is_empty(), "nothing is written of what is good");
}

#[test]
fn what_is_a_setting_of_the_kernel_is_applied_and_good_afterwards() {
    let folder = Folder::machine();
    let need = Need::of(1_500_000, Role::Server);
    let before = rows(&folder, &need);
    let settings = |rows: &[HostRow]| {
        let wrong = rows.iter().filter(|row| row.remedy.starts_with("sysctl"));
        wrong.map(|row| row.item.clone()).collect::<Vec<_>>()
    };
    assert!(settings(&before).len() > 6);
    // The limits of this very process are left alone.
    let kernel: Vec<HostRow> =
        before.iter().filter(|row| !row.remedy.starts_with("ulimit")).cloned().collect();
    let applied = apply_at(&folder.place(), &kernel);
    for item in settings(&before) {
        let done = applied.iter().find(|applied| applied.item == item).expect("it was tried");
        assert!(done.outcome.is_ok(), "{done:?}");
    }
    assert_eq!(settings(&rows(&folder, &need)), [""; 0]);
    let refused = applied.iter().find(|applied| applied.item == "eth0 receive queues");
    let why = refused.expect("it is wrong").outcome.clone().expect_err("it is no setting");
    assert!(why.starts_with("cannot be applied from here"), "{why}");
}

#[test]
fn a_remedy_that_leads_elsewhere_is_refused() {
    let folder = Folder::machine();
    folder.put("secret", "kept");
    let of = |remedy: &str| HostRow {
        fitness: Fitness::Bad,
        remedy: remedy.to_owned(),
        ..row::row("a", "1", "2")
    };
    for remedy in [
        "sysctl -w ../../secret=1",
        "sysctl -w ....secret=1",
        "sysctl -w net",
        "sysctl -w /secret=1",
        "rm -r /",
        "prlimit --pid 0 --nofile=1:1",
        "ulimit -n many",
        "prlimit --pid -1 --nofile=1:1",
        "sysctl -w no.such.setting=1",
    ] {
        let applied = apply_at(&folder.place(), &[of(remedy)]);
        assert!(applied[0].outcome.is_err(), "{remedy}: {applied:?}");
    }
    assert_eq!(folder.text("secret"), "kept");
    let good = HostRow { fitness: Fitness::Good, ..of("sysctl -w net.core.somaxconn=1") };
    assert_eq!(apply_at(&folder.place(), &[good]), []);
}

/// The package's files, which say the same as the doctor.
fn of_package(name: &str) -> Vec<(String, String)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    let text = std::fs::read_to_string(path).expect("it is in the repository");
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let lines = lines.filter(|(key, _)| !key.starts_with('#'));
    lines.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

#[test]
fn what_the_package_sets_is_what_the_doctor_wants_for_a_million() {
    let need = Need::of(1_000_000, Role::Server);
    let settings = of_package("sysctl.conf");
    assert_eq!(settings.len(), 5);
    for (name, value) in settings {
        let file = format!("proc/sys/{}", name.replace('.', "/"));
        let with = |value: &str| {
            let folder = Folder::machine();
            folder.put(&file, format!("{value}\n"));
            let rows = rows(&folder, &need);
            of(&rows, &name).fitness
        };
        assert_eq!(with(&value), Fitness::Good, "{name}");
        let number: u64 = value.parse().expect("a number");
        if name == "fs.nr_open" {
            let unit = of_package("holdline.service");
            assert!(unit.iter().any(|(key, it)| key == "LimitNOFILE" && *it == value));
        } else if number > 1 {
            assert_eq!(
                with(&(number - 1).to_string()),
                Fitness::Weak,
                "{name} is more than enough"
            );
        }
    }
    let unit = of_package("holdline.service");
    let files = unit.iter().find(|(key, _)| key == "LimitNOFILE").expect("it has a limit");
    let folder = Folder::machine();
    let line =
        format!("Max open files            {0}              {0}              files\n", files.1);
    folder.put("proc/self/limits", line);
    let rows = rows(&folder, &need);
    assert_eq!(of(&rows, "RLIMIT_NOFILE (hard)").fitness, Fitness::Good);
}

//! Processes as a folder shows them, and this one.

use super::*;
use crate::folder::Folder;

/// A process as a folder shows it, that has run so many ticks and was started then.
fn put(folder: &Folder, pid: u32, parent: u32, ticks: u64, started: u64) {
    let path = |file: &str| format!("proc/{pid}/{file}");
    let stat = format!(
        "{pid} (srv ({pid})) S {parent} 1 1 0 -1 4 1 2 3 4 {ticks} 10 7 8 20 0 3 0 {started} 1\n"
    );
    folder.put(&path("stat"), stat);
    folder.put(
        &path("status"),
        "FDSize:\t64\nVmSize:\t 900 kB\nVmRSS:\t  100 kB\nRssAnon:\t 60 kB\nVmSwap: 0 kB\n",
    );
    folder.put(&path("limits"), "Max open files            16       4096      files\n");
    folder.put(&path("io"), "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n");
    folder.put(&path("comm"), "srv\n");
    folder.put(&path(&format!("task/{pid}/schedstat")), format!("{} 0 1\n", ticks * 10_000_000));
    let switches = "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n";
    folder.put(&path(&format!("task/{pid}/status")), switches);
    folder.put(&path("fd/0"), "");
}

/// A machine at this uptime whose port 8123 (hexadecimal 1FBB) has the socket 4711.
fn machine(uptime_s: u32) -> Folder {
    let folder = Folder::empty();
    folder.put("proc/uptime", format!("{uptime_s}.00 1.00\n"));
    folder.put(
        "proc/net/tcp",
        "  sl  local_address rem_address   st tx_queue rx_queue\n   0: 00000000:1FBB 00000000:0000 \
         0A 00000000:00000007 00:00000000 00000000 0 0 4711 1 0 100 0 0 10 0\n",
    );
    folder
}

#[test]
fn a_process_is_told_with_its_queue_and_its_shares() {
    let folder = machine(100);
    put(&folder, 70, 1, 200, 5_000);
    folder.link("proc/70/fd/3", "socket:[4711]");
    folder.link("proc/70/fd/4", "socket:[1]");
    let mut process = Process::of_port_at(folder.place(), 8_123).expect("it listens");
    assert_eq!((process.pid(), process.name().as_deref()), (Some(70), Some("srv")));
    folder.put("proc/uptime", "102.00 1.00\n");
    let [own, kernel] = [300, 10];
    put(&folder, 70, 1, own, 5_000);
    let reading = process.read();
    let of = |name: &str| reading.of(&format!("process.{name}")).unwrap_or(f64::NAN);
    assert_eq!((of("alive"), of("restarts"), of("uptime_s")), (1.0, 0.0, 52.0));
    assert_eq!((of("cpu_s"), of("cpu"), of("cpu_user")), ((own + kernel) as f64 / 100.0, 0.5, 0.5));
    assert_eq!((of("cpu_system"), of("busiest"), of("threads")), (0.0, 0.5, 3.0));
    assert_eq!((of("rss"), of("anon"), of("fds")), (102_400.0, 61_440.0, 3.0));
    assert_eq!(of("virtual"), 921_600.0);
    assert_eq!((of("fds_max"), of("fds_fill")), (16.0, 3.0 / 16.0));
    assert_eq!((of("switches"), of("switches_forced")), (5.0, 2.0));
    assert_eq!((of("disk_read"), of("disk_written")), (4_096.0, 8_192.0));
    assert_eq!((of("listen_queue"), reading.of("process.listen_backlog")), (7.0, None));
}

#[test]
fn children_count_with_it_and_their_totals_stay_when_they_end() {
    let folder = machine(100);
    put(&folder, 70, 1, 100, 5_000);
    put(&folder, 71, 70, 50, 5_001);
    put(&folder, 72, 71, 30, 5_002);
    put(&folder, 80, 1, 9_000, 5_003);
    let alone = Process::of_pid_at(folder.place(), 70).expect("it is there").read();
    assert_eq!((alone.of("process.processes"), alone.of("process.cpu_s")), (Some(1.0), Some(1.1)));
    let process = Process::of_pid_at(folder.place(), 70).expect("it is there");
    let mut process = process.with_children(true);
    let three = process.read();
    assert_eq!((three.of("process.processes"), three.of("process.cpu_s")), (Some(3.0), Some(2.1)));
    assert_eq!(three.of("process.rss"), Some(307_200.0));
    folder.drop("proc/72");
    let two = process.read();
    assert_eq!((two.of("process.processes"), two.of("process.cpu_s")), (Some(2.0), Some(2.1)));
}

#[test]
fn a_restart_is_noticed_and_totals_go_on() {
    let folder = machine(100);
    put(&folder, 70, 1, 200, 5_000);
    folder.link("proc/70/fd/3", "socket:[4711]");
    let mut process = Process::of_port_at(folder.place(), 8_123).expect("it listens");
    folder.drop("proc/70");
    let gone = process.read();
    assert_eq!((gone.of("process.alive"), gone.of("process.cpu_s")), (Some(0.0), None));
    assert_eq!(process.pid(), None);
    put(&folder, 90, 1, 40, 9_900);
    folder.link("proc/90/fd/3", "socket:[4711]");
    let back = process.read();
    assert_eq!((back.of("process.alive"), back.of("process.restarts")), (Some(1.0), Some(1.0)));
    assert_eq!((process.pid(), back.of("process.cpu_s")), (Some(90), Some(2.6)));
    assert_eq!(back.of("process.listen_queue"), Some(7.0));
}

#[test]
fn a_number_that_was_given_again_is_another_process() {
    let folder = machine(100);
    put(&folder, 70, 1, 200, 5_000);
    let mut process = Process::of_pid_at(folder.place(), 70).expect("it is there");
    put(&folder, 70, 1, 0, 9_000);
    assert_eq!(process.read().of("process.alive"), Some(0.0));
    assert_eq!(process.read().of("process.alive"), Some(0.0));
}

#[test]
fn a_dead_one_and_one_that_nobody_can_see_are_told_apart() {
    let folder = machine(100);
    assert!(Process::of_pid_at(folder.place(), 70).is_err());
    let nobody = Process::of_port_at(folder.place(), 9).expect_err("nobody listens");
    assert_eq!(nobody, "no process listens on port 9 of this machine");
    let hidden = Process::of_port_at(folder.place(), 8_123).expect_err("no descriptors");
    assert!(hidden.contains("is not visible"), "{hidden}");
    folder.put("proc/70/stat", "70 (a) Z 1 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 5 1\n");
    assert!(Process::of_pid_at(folder.place(), 70).is_err());
}

#[test]
fn this_process_is_found_by_its_port_with_its_own_queue() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("it is bound").port();
    let waiting = [(); 3].map(|()| std::net::TcpStream::connect(("127.0.0.1", port)).expect("up"));
    let mut process = Process::of_port(port).expect("it listens");
    assert_eq!(process.pid(), Some(std::process::id()));
    let reading = process.read();
    let fds = reading.of("process.fds").expect("its own are seen");
    assert!(fds >= 7.0 && reading.of("process.rss").is_some_and(|rss| rss > 1e5), "{fds}");
    assert!(reading.of("process.listen_queue").is_some_and(|queue| queue >= 3.0));
    drop(waiting);
}

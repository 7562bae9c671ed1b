//! Every figure that can be read here: its name, how it behaves and what it means, declared once.
//!
//! Names are without an owner's prefix: whoever puts them on a time axis says whose they are
//! (`tester.cpu.busy`, `target.cpu.busy`). Names are stable; docs/counters.md is printed from here,
//! and a test holds it. It reads nothing.

use lab::series::{Column, FigureKind, Unit};
use std::fmt::Write;

/// Declares the figures once.
macro_rules! columns {
    ($list:ident $about:literal:
     $($id:ident $kind:ident $unit:ident $name:literal $meaning:literal;)+) => {
        $(#[doc = $meaning] pub(crate) const $id: Column = Column::$kind($name, Unit::$unit);)+
        #[doc = $about]
        pub const $list: &[(Column, &str)] = &[$(($id, $meaning),)+];
    };
}

/// Declares the figures that the kernel counts under a name of its own.
macro_rules! counters {
    ($($table:literal $kernel:literal $name:literal $meaning:literal;)+) => {
        /// Counters of TCP and IP in /proc/net/snmp and /proc/net/netstat: the table's name there,
        /// the counter's, the figure and its meaning.
        pub const COUNTERS: &[(&str, &str, Column, &str)] =
            &[$(($table, $kernel, Column::total($name, Unit::Count), $meaning),)+];
    };
}

columns! { HOST "Figures of a machine, but for [`COUNTERS`]. Of `cpu.core.K` there is one a core.":
    CPU_CORES gauge Count "cpu.cores" "Cores that there are.";
    CPU_BUSY gauge Share "cpu.busy" "Cores that were busy: 0 to `cpu.cores`, steal included.";
    CPU_USER gauge Share "cpu.user" "Cores' worth of programs, nice ones included.";
    CPU_SYSTEM gauge Share "cpu.system" "Cores' worth of kernel, interrupts excepted.";
    CPU_IRQ gauge Share "cpu.irq" "Cores' worth of hard interrupts.";
    CPU_SOFTIRQ gauge Share "cpu.softirq" "Cores' worth of soft interrupts: network, timers.";
    CPU_STEAL gauge Share "cpu.steal" "Cores' worth that the hypervisor gave to others.";
    CPU_IOWAIT gauge Share "cpu.iowait" "Cores that were idle while a disk was waited for.";
    CPU_BUSIEST peak Share "cpu.busiest" "How busy the busiest core was: 0 to 1.";
    CPU_SOFTIRQ_BUSIEST peak Share "cpu.softirq_busiest"
        "Soft interrupts of the core that had most: 0 to 1.";
    CPU_CORE peak Share "cpu.core.K" "How busy core K was: 0 to 1. For the first 64 cores.";
    HOST_LOAD gauge Count "host.load" "Load average of a minute.";
    HOST_RUNNING peak Count "host.running" "Threads that ran or wanted to.";
    HOST_BLOCKED peak Count "host.blocked" "Threads that waited for a disk.";
    HOST_SWITCHES total Count "host.switches" "Context switches.";
    HOST_FORKS total Count "host.forks" "Processes and threads begun.";
    HOST_UPTIME gauge Seconds "host.uptime_s" "Time since the machine started.";
    FILES_OPEN gauge Count "host.files_open" "Open files of the whole machine.";
    FILES_MAX gauge Count "host.files_max" "fs.file-max.";
    MEMORY_TOTAL gauge Bytes "memory.total" "Memory that there is.";
    MEMORY_AVAILABLE low Bytes "memory.available" "Memory that programs can still have.";
    MEMORY_USED peak Bytes "memory.used" "The difference of the two.";
    MEMORY_ANON gauge Bytes "memory.anon" "Memory of programs that no file backs.";
    MEMORY_CACHED gauge Bytes "memory.cached" "Page cache.";
    MEMORY_SLAB gauge Bytes "memory.slab" "The kernel's objects: sockets, files, inodes.";
    MEMORY_SLAB_KEPT gauge Bytes "memory.slab_kept" "Those of them that it cannot give back.";
    MEMORY_SOCKETS gauge Bytes "memory.sockets" "TCP's buffers: `tcp.mem_pages` in bytes.";
    MEMORY_SWAP gauge Bytes "memory.swap" "Swap in use.";
    MEMORY_OOM total Count "memory.oom_kills" "Processes killed for want of memory.";
    MEMORY_FAULTS total Count "memory.major_faults" "Pages that had to be fetched from a disk.";
    SOCKETS_USED gauge Count "sockets.used" "Sockets of all families.";
    TCP_SOCKETS gauge Count "tcp.sockets" "TCP sockets in use, listeners included, TIME-WAIT not.";
    TCP_ESTABLISHED gauge Count "tcp.established"
        "Connections that stand (and those in CLOSE-WAIT).";
    TCP_ORPHANS peak Count "tcp.orphans" "Connections that no process holds any more.";
    TCP_ORPHANS_MAX gauge Count "tcp.orphans_max" "net.ipv4.tcp_max_orphans.";
    TCP_TIME_WAIT gauge Count "tcp.time_wait" "Sockets in TIME-WAIT.";
    TCP_TIME_WAIT_MAX gauge Count "tcp.time_wait_max" "net.ipv4.tcp_max_tw_buckets.";
    TCP_ALLOCATED gauge Count "tcp.allocated" "TCP sockets that have memory, in whatever state.";
    TCP_MEM_PAGES peak Count "tcp.mem_pages" "Pages of TCP's buffers.";
    TCP_MEM_PAGES_MAX gauge Count "tcp.mem_pages_max" "The last figure of net.ipv4.tcp_mem.";
    TCP_SYN_RECEIVED gauge Count "tcp.syn_received"
        "Half-open connections. In another network namespace only while there are few sockets.";
    TCP_CLOSE_WAIT gauge Count "tcp.close_wait" "Closed by the peer, not by the process. Likewise.";
    TCP_CLOSING gauge Count "tcp.closing" "FIN-WAIT, LAST-ACK and CLOSING. Likewise.";
    LISTEN_QUEUE peak Count "tcp.listen_queue"
        "Connections that wait for accept at the fullest listener.";
    LISTEN_BACKLOG gauge Count "tcp.listen_backlog" "How many may wait there.";
    PORTS_RANGE gauge Count "ports.range" "Ports of net.ipv4.ip_local_port_range.";
    WATCHES_MAX gauge Count "epoll.watches_max" "fs.epoll.max_user_watches.";
    DISK_READ total Bytes "disk.read" "Bytes read from disks.";
    DISK_WRITTEN total Bytes "disk.written" "Bytes written to disks.";
    DISK_READS total Count "disk.reads" "Reads finished.";
    DISK_WRITES total Count "disk.writes" "Writes finished.";
    DISK_READ_TIME peak Micros "disk.read_time"
        "Time that a read took from its request to its end, on average since the last reading.";
    DISK_WRITE_TIME peak Micros "disk.write_time" "Likewise, a write.";
    DISK_BUSY peak Share "disk.busy" "Share of the time in which the busiest disk had work.";
    NET_IN total Bytes "net.bytes_in" "Bytes received, loopback excepted.";
    NET_OUT total Bytes "net.bytes_out" "Bytes sent, loopback excepted.";
    NET_PACKETS_IN total Count "net.packets_in" "Packets received, loopback excepted.";
    NET_PACKETS_OUT total Count "net.packets_out" "Packets sent, loopback excepted.";
    NET_RX_DROPPED total Count "net.rx_dropped"
        "Packets received and dropped, full rings included.";
    NET_TX_DROPPED total Count "net.tx_dropped" "Packets not sent.";
    NET_ERRORS total Count "net.errors" "Packets that were broken, either way.";
    LO_BYTES total Bytes "loopback.bytes" "Bytes over the loopback.";
    LO_PACKETS total Count "loopback.packets" "Packets over the loopback.";
    LO_DROPPED total Count "loopback.dropped" "Packets that the loopback dropped.";
    SOFTNET_PACKETS total Count "softnet.packets" "Packets that soft interrupts worked on.";
    SOFTNET_DROPPED total Count "softnet.dropped"
        "Packets dropped: net.core.netdev_max_backlog was full.";
    SOFTNET_SQUEEZED total Count "softnet.squeezed"
        "Times the budget was used up before the work was done.";
    CONNTRACK_COUNT gauge Count "conntrack.count" "Connections that the firewall follows.";
    CONNTRACK_MAX gauge Count "conntrack.max" "net.netfilter.nf_conntrack_max.";
    CONNTRACK_DROPS total Count "conntrack.drops"
        "Packets dropped because it could follow no more.";
    CONNTRACK_FAILED total Count "conntrack.insert_failed" "Connections that it could not note.";
    PSI_CPU peak Share "psi.cpu" "Share of ten seconds in which some thread waited for a core.";
    PSI_CPU_S total Seconds "psi.cpu_s" "Time in which some thread waited for a core.";
    PSI_MEMORY peak Share "psi.memory"
        "Share of ten seconds in which some thread waited for memory.";
    PSI_MEMORY_S total Seconds "psi.memory_s" "Time in which some thread waited for memory.";
    PSI_MEMORY_FULL peak Share "psi.memory_full"
        "Likewise, in which all that wanted to run waited.";
    PSI_MEMORY_FULL_S total Seconds "psi.memory_full_s"
        "Time in which all that wanted to run waited for memory.";
    PSI_IO peak Share "psi.io" "Share of ten seconds in which some thread waited for a disk.";
    PSI_IO_S total Seconds "psi.io_s" "Time in which some thread waited for a disk.";
    PSI_IO_FULL peak Share "psi.io_full" "Likewise, in which all that wanted to run waited.";
    PSI_IO_FULL_S total Seconds "psi.io_full_s"
        "Time in which all that wanted to run waited for a disk.";
    CGROUP_MEMORY peak Bytes "cgroup.memory"
        "Memory of the control group, the kernel's for it included, pages of files left out.";
    CGROUP_MEMORY_MAX gauge Bytes "cgroup.memory_max" "What it may have, where that is limited.";
    CGROUP_SOCKETS gauge Bytes "cgroup.memory_sockets" "Its buffers of sockets.";
    CGROUP_KERNEL gauge Bytes "cgroup.memory_kernel"
        "The kernel's objects for it: sockets, files, page tables.";
    CGROUP_OOM total Count "cgroup.oom_kills"
        "Processes of it that were killed for want of memory.";
    CGROUP_CPU_MAX gauge Share "cgroup.cpu_max" "Cores it may use, where that is limited.";
    CGROUP_THROTTLED total Count "cgroup.throttled" "Periods in which it had used up its share.";
    CGROUP_THROTTLED_US total Micros "cgroup.throttled_us" "Time its threads were held back.";
    CGROUP_PIDS gauge Count "cgroup.pids" "Threads and processes in it.";
    CGROUP_PIDS_MAX gauge Count "cgroup.pids_max" "How many it may have, where that is limited.";
}

counters! {
    "Tcp" "PassiveOpens" "tcp.opens_passive" "Connections accepted by the kernel.";
    "Tcp" "ActiveOpens" "tcp.opens_active" "Connections begun from here.";
    "Tcp" "AttemptFails" "tcp.attempt_fails" "Connections that failed before they stood.";
    "Tcp" "EstabResets" "tcp.estab_resets" "Connections that stood and were reset.";
    "Tcp" "InSegs" "tcp.in_segments" "Segments received.";
    "Tcp" "OutSegs" "tcp.out_segments" "Segments sent.";
    "Tcp" "RetransSegs" "tcp.retransmits" "Segments sent again.";
    "Tcp" "InErrs" "tcp.in_errors" "Segments that were broken.";
    "Tcp" "OutRsts" "tcp.out_resets" "Resets sent.";
    "TcpExt" "TCPSynRetrans" "tcp.syn_retransmits" "SYNs and SYN-ACKs sent again.";
    "TcpExt" "TCPTimeouts" "tcp.timeouts" "Retransmission timers that fired.";
    "TcpExt" "ListenOverflows" "tcp.listen_overflows"
        "Connections that found the accept queue full.";
    "TcpExt" "ListenDrops" "tcp.listen_drops" "SYNs and connections that a listener dropped.";
    "TcpExt" "TCPReqQFullDoCookies" "tcp.reqq_full_cookies"
        "SYNs answered with a cookie: the SYN queue was full.";
    "TcpExt" "TCPReqQFullDrop" "tcp.reqq_full_drops" "SYNs dropped: the SYN queue was full.";
    "TcpExt" "SyncookiesSent" "tcp.syncookies_sent" "Cookies sent.";
    "TcpExt" "SyncookiesFailed" "tcp.syncookies_failed" "Cookies that came back wrong.";
    "TcpExt" "EmbryonicRsts" "tcp.embryonic_resets" "Half-open connections that were reset.";
    "TcpExt" "TCPMigrateReqFailure" "tcp.migrate_failures"
        "Waiting connections lost with their listener.";
    "TcpExt" "TCPAbortOnData" "tcp.abort_on_data" "Reset: data came for a socket that was closed.";
    "TcpExt" "TCPAbortOnClose" "tcp.abort_on_close" "Reset: closed with unread data.";
    "TcpExt" "TCPAbortOnMemory" "tcp.abort_on_memory"
        "Reset: too many orphans, or no memory (tcp_mem).";
    "TcpExt" "TCPAbortOnTimeout" "tcp.abort_on_timeout"
        "Given up: no acknowledgement came in time.";
    "TcpExt" "TCPAbortOnLinger" "tcp.abort_on_linger" "Reset: the time in FIN-WAIT-2 was over.";
    "TcpExt" "TCPAbortFailed" "tcp.abort_failed" "Resets that could not be sent.";
    "TcpExt" "TCPMemoryPressures" "tcp.memory_pressures"
        "Times TCP came under pressure of memory (tcp_mem).";
    "TcpExt" "PruneCalled" "tcp.prune_called" "Times a receive buffer had to be squeezed.";
    "TcpExt" "RcvPruned" "tcp.rcv_pruned" "Segments dropped because that did not help.";
    "TcpExt" "OfoPruned" "tcp.ofo_pruned" "Segments out of order dropped for want of room.";
    "TcpExt" "TCPBacklogDrop" "tcp.backlog_drops"
        "Segments dropped: the socket's backlog was full.";
    "TcpExt" "TCPRcvQDrop" "tcp.receive_queue_drops"
        "Segments dropped: the receive buffer was full.";
    "TcpExt" "TCPZeroWindowDrop" "tcp.zero_window_drops"
        "Segments dropped: they came into a closed window.";
    "TcpExt" "TCPToZeroWindowAdv" "tcp.zero_windows"
        "Times a receiver here closed its window: it does not read.";
    "TcpExt" "TCPWqueueTooBig" "tcp.write_queue_too_big"
        "Sends refused: too much was waiting to be acknowledged.";
    "TcpExt" "TW" "tcp.time_waits" "Sockets that went through TIME-WAIT.";
    "TcpExt" "TCPTimeWaitOverflow" "tcp.time_wait_overflows"
        "TIME-WAITs cut short: tcp_max_tw_buckets.";
    "TcpExt" "TCPKeepAlive" "tcp.keep_alives" "Keep-alive probes sent.";
    "Ip" "InDiscards" "ip.in_discards" "Packets received and dropped for want of memory.";
    "Ip" "OutDiscards" "ip.out_discards" "Packets not sent for want of memory.";
    "Ip" "OutNoRoutes" "ip.out_no_routes" "Packets that had no route.";
}

columns! { PROCESS "Figures of a process, or of it and its children together.":
    ALIVE low Count "process.alive" "1 while it is there, 0 when it is gone.";
    RESTARTS total Count "process.restarts"
        "Times it was gone and another one was found in its place.";
    UPTIME gauge Seconds "process.uptime_s" "Time since it was started.";
    PROCESSES gauge Count "process.processes"
        "Processes counted: itself, and its children where wanted.";
    CPU gauge Share "process.cpu" "Cores that it used.";
    USER gauge Share "process.cpu_user" "Likewise, in its own code.";
    SYSTEM gauge Share "process.cpu_system" "Likewise, in the kernel.";
    CPU_S total Seconds "process.cpu_s" "Processor time that it has used.";
    BUSIEST peak Share "process.busiest" "How busy its busiest thread was: 0 to 1.";
    RSS peak Bytes "process.rss" "Memory it has in RAM, files included.";
    VIRTUAL peak Bytes "process.virtual" "Its address space (VIRT), most of it not in RAM.";
    ANON peak Bytes "process.anon" "Memory it has in RAM that no file backs.";
    SWAP gauge Bytes "process.swap" "Memory of it in swap.";
    FDS peak Count "process.fds"
        "Descriptors open, of the process nearest to its limit: a limit is one process's.";
    FDS_ALL peak Count "process.fds_all" "Descriptors open, of all its processes.";
    FDS_MAX gauge Count "process.fds_max"
        "Descriptors that process may open (soft limit).";
    FDS_FILL peak Share "process.fds_fill" "How much of that limit is used there: 0 to 1.";
    THREADS gauge Count "process.threads" "Threads.";
    SWITCHES total Count "process.switches" "Context switches, as it had to wait.";
    SWITCHES_FORCED total Count "process.switches_forced"
        "Context switches, as another one had its turn.";
    IO_READ total Bytes "process.disk_read" "Bytes it had fetched from disks.";
    IO_WRITTEN total Bytes "process.disk_written" "Bytes it caused to be written to disks.";
    QUEUE peak Count "process.listen_queue"
        "Connections that wait for accept at its fullest listener.";
    BACKLOG gauge Count "process.listen_backlog" "How many may wait there.";
    DROPS total Count "process.listen_drops" "SYNs and connections that its own listeners dropped.";
}

/// Labels of a metrics page whose values have figures of their own: of `metric{reason="x"}` there
/// is `metric.x` beside the sum over all, `metric`.
pub const LABELS: &[&str] = &["reason", "result"];

/// Totals that stand still on a machine that is well: one that rises is reported.
pub const ALARMS: &[&str] = &[
    "process.restarts",
    "process.listen_drops",
    "tcp.listen_overflows",
    "tcp.listen_drops",
    "tcp.reqq_full_drops",
    "tcp.reqq_full_cookies",
    "tcp.syncookies_failed",
    "tcp.migrate_failures",
    "tcp.abort_on_memory",
    "tcp.abort_on_timeout",
    "tcp.abort_failed",
    "tcp.memory_pressures",
    "tcp.prune_called",
    "tcp.rcv_pruned",
    "tcp.ofo_pruned",
    "tcp.backlog_drops",
    "tcp.receive_queue_drops",
    "tcp.zero_window_drops",
    "tcp.write_queue_too_big",
    "tcp.time_wait_overflows",
    "tcp.syn_retransmits",
    "tcp.timeouts",
    "tcp.retransmits",
    "tcp.in_errors",
    "ip.in_discards",
    "ip.out_discards",
    "ip.out_no_routes",
    "net.rx_dropped",
    "net.tx_dropped",
    "net.errors",
    "loopback.dropped",
    "softnet.dropped",
    "softnet.squeezed",
    "conntrack.drops",
    "conntrack.insert_failed",
    "memory.oom_kills",
    "cgroup.oom_kills",
    "cgroup.throttled",
];

/// Figures of a machine's cores that are reported one by one, at most.
pub(crate) const CORES_MAX: usize = 64;

/// All figures but those of metrics pages, with what they mean, in the order of the docs.
pub fn all() -> impl Iterator<Item = (&'static Column, &'static str)> {
    let plain = |list: &'static [(Column, &'static str)]| list.iter().map(|(c, m)| (c, *m));
    let counters = COUNTERS.iter().map(|(_, _, column, meaning)| (column, *meaning));
    plain(HOST).chain(counters).chain(plain(PROCESS))
}

/// The name under which the kernel itself counts a figure: `ListenDrops` of `tcp.listen_drops`.
pub fn kernel_name(name: &str) -> Option<&'static str> {
    let found = COUNTERS.iter().find(|(_, _, column, _)| column.name == name);
    found.map(|(_, kernel, _, _)| *kernel)
}

/// Meaning of a figure.
pub fn meaning(name: &str) -> Option<&'static str> {
    all().find(|(column, _)| column.name == name).map(|(_, meaning)| meaning)
}

/// The figures as tables of Markdown: what docs/counters.md holds below its first lines.
pub fn tables() -> String {
    let mut out = String::new();
    let head = |out: &mut String, title: &str| {
        let _ = write!(
            out,
            "\n## {title}\n| name | unit | is | meaning |\n| --- | --- | --- | --- |\n"
        );
    };
    let row = |out: &mut String, column: &Column, meaning: &str, source: &str| {
        let (unit, kind) = (unit(column.unit), kind(column.kind));
        let _ = writeln!(out, "| `{}` | {unit} | {kind} | {meaning}{source} |", column.name);
    };
    head(&mut out, "The machine");
    HOST.iter().for_each(|(column, meaning)| row(&mut out, column, meaning, ""));
    head(&mut out, "What TCP and IP count");
    for (_, kernel, column, meaning) in COUNTERS {
        row(&mut out, column, meaning, &format!(" (`{kernel}`)"));
    }
    head(&mut out, "A process");
    PROCESS.iter().for_each(|(column, meaning)| row(&mut out, column, meaning, ""));
    out
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Micros => "µs",
        Unit::Share => "share",
        Unit::Seconds => "s",
    }
}

fn kind(kind: FigureKind) -> &'static str {
    match kind {
        FigureKind::Total => "total",
        FigureKind::Gauge => "gauge",
        FigureKind::Peak => "gauge, highest",
        FigureKind::Low => "gauge, lowest",
    }
}

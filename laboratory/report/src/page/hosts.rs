//! The charts of machines and processes, of both ends, and the figures that have no chart.

use super::heat::Heat;
use super::plot::{Plot, PlotLine, Upwards};
use super::source::{self, FigureSource};
use super::thin::Point;
use lab::series::{Column, FigureKind, Unit};

/// Cores that have a line; more of them are a field.
const CORE_LINES_MAX: usize = 4;
/// Columns of that field, at most.
const CORE_COLUMNS_MAX: usize = 200;
/// Lines of a chart that has one for each agent, or for each of some server's figures.
const LINES_MAX: usize = 12;

/// A chart as it is declared: id, title, unit, whether a second, figures and their words, limits.
type Declared = (
    &'static str,
    &'static str,
    Unit,
    bool,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
);

const CHARTS: &[Declared] = &[
    (
        "memory",
        "Memory",
        Unit::Bytes,
        false,
        &[
            ("process.rss", "process, resident"),
            ("process.anon", "process, no file behind"),
            ("memory.slab", "kernel's objects"),
            ("memory.sockets", "buffers of TCP"),
            ("memory.used", "machine, used"),
            ("cgroup.memory", "control group"),
            ("memory.swap", "swap"),
        ],
        &[("memory.total", "machine, all"), ("cgroup.memory_max", "control group, most")],
    ),
    (
        "sockets",
        "Sockets by state",
        Unit::Count,
        false,
        &[
            ("tcp.established", "established"),
            ("tcp.time_wait", "TIME-WAIT"),
            ("tcp.syn_received", "SYN received"),
            ("tcp.close_wait", "CLOSE-WAIT"),
            ("tcp.closing", "closing"),
            ("tcp.orphans", "orphans"),
            ("conntrack.count", "followed by the firewall"),
        ],
        &[("tcp.time_wait_max", "most in TIME-WAIT"), ("conntrack.max", "most followed")],
    ),
    (
        "queue",
        "Waiting for accept",
        Unit::Count,
        false,
        &[
            ("tcp.listen_queue", "fullest listener"),
            ("process.listen_queue", "fullest listener of the process"),
        ],
        &[("tcp.listen_backlog", "backlog"), ("process.listen_backlog", "backlog of the process")],
    ),
    (
        "descriptors",
        "Descriptors",
        Unit::Count,
        false,
        &[("process.fds", "open in the process"), ("host.files_open", "open in the machine")],
        &[("process.fds_max", "process may open"), ("host.files_max", "machine may open")],
    ),
    (
        "net-bytes",
        "Network, bytes",
        Unit::Bytes,
        true,
        &[("net.bytes_in", "in"), ("net.bytes_out", "out"), ("loopback.bytes", "loopback")],
        &[],
    ),
    (
        "net-packets",
        "Network, packets",
        Unit::Count,
        true,
        &[("net.packets_in", "in"), ("net.packets_out", "out"), ("loopback.packets", "loopback")],
        &[],
    ),
    (
        "segments",
        "TCP segments",
        Unit::Count,
        true,
        &[("tcp.in_segments", "in"), ("tcp.out_segments", "out"), ("tcp.retransmits", "again")],
        &[],
    ),
    (
        "disk",
        "Disk",
        Unit::Bytes,
        true,
        &[
            ("disk.read", "read"),
            ("disk.written", "written"),
            ("process.disk_read", "read for the process"),
            ("process.disk_written", "written for the process"),
        ],
        &[],
    ),
    (
        "pressure",
        "Pressure",
        Unit::Share,
        false,
        &[
            ("psi.cpu", "waited for a core"),
            ("psi.memory", "waited for memory"),
            ("psi.io", "waited for a disk"),
            ("psi.memory_full", "all waited for memory"),
            ("psi.io_full", "all waited for a disk"),
            ("disk.busy", "busiest disk"),
        ],
        &[],
    ),
    (
        "loop",
        "Longest turn of a loop",
        Unit::Micros,
        false,
        &[("turn_us_max", "longest turn")],
        &[],
    ),
];

/// Charts of one owner's machine and process: `target` or `tester`.
pub fn of(source: &FigureSource, owner: &str) -> Vec<Plot> {
    let mut plots = processor(source, owner);
    for (id, title, unit, per_s, figures, limits) in CHARTS {
        let named = |list: &[(&str, &'static str)]| -> Vec<(String, &'static str)> {
            list.iter().map(|(name, words)| (format!("{owner}.{name}"), *words)).collect()
        };
        let taken = |list: &[(String, &'static str)]| {
            let names: Vec<_> = list.iter().map(|(name, words)| (name.as_str(), *words)).collect();
            source.lines(&names)
        };
        let mut plot = Plot::over_time(&format!("c-{owner}-{id}"), title, *unit);
        plot.per_s = *per_s;
        plot.lines = taken(&named(figures));
        hide_machines(&mut plot.lines);
        let limits = source::limits(taken(&named(limits)), &plot.lines);
        if !plot.lines.is_empty() {
            plot.lines.extend(limits);
        }
        plots.push(plot);
    }
    plots.retain(|plot| !plot.lines.is_empty() || plot.heat.is_some());
    plots
}

/// Hides the whole machine's lines where the process would not be seen beside them.
fn hide_machines(lines: &mut [PlotLine]) {
    let most = |line: &PlotLine| line.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let process = lines.iter().filter(|line| line.name.contains("process")).map(most);
    let process = process.fold(0.0, f64::max);
    for line in lines.iter_mut().filter(|line| line.name.contains("machine")) {
        line.hidden = process > 0.0 && most(line) > 4.0 * process;
    }
}

fn processor(source: &FigureSource, owner: &str) -> Vec<Plot> {
    let mut busy = Plot::over_time(&format!("c-{owner}-cpu"), "Processor", Unit::Count);
    busy.about = "Cores' worth of work.".to_owned();
    let name = |figure: &str| format!("{owner}.{figure}");
    busy.lines = source.lines(&[
        (&name("cpu.busy"), "machine"),
        (&name("process.cpu"), "process"),
        (&name("process.cpu_system"), "process, in the kernel"),
        (&name("cpu.system"), "machine, kernel"),
        (&name("cpu.softirq"), "soft interrupts"),
        (&name("cpu.iowait"), "waits for a disk"),
        (&name("cpu.steal"), "taken by the hypervisor"),
    ]);
    let limit =
        source.lines(&[(&name("cpu.cores"), "cores"), (&name("cgroup.cpu_max"), "allowed")]);
    busy.lines.extend(source::limits(limit, &busy.lines));

    let mut busiest = Plot::over_time(&format!("c-{owner}-busiest"), "Busiest", Unit::Share);
    busiest.about = "1 core or thread that is busy all the time is a limit.".to_owned();
    busiest.lines = source.lines(&[
        (&name("cpu.busiest"), "busiest core"),
        (&name("process.busiest"), "busiest thread of the process"),
        (&name("cpu.softirq_busiest"), "soft interrupts of one core"),
        (&name("busiest"), "busiest thread of the tester"),
    ]);
    let mut plots = vec![busy, busiest];
    plots.extend(cores(source, owner));
    plots.push(threads(source, owner));
    plots
}

/// The tester's own threads, the first ones.
fn threads(source: &FigureSource, owner: &str) -> Plot {
    let begin = format!("{owner}.thread.");
    let mut plot = Plot::over_time(&format!("c-{owner}-threads"), "Each thread", Unit::Share);
    for (colour, column) in source.names(&begin).into_iter().take(LINES_MAX).enumerate() {
        let name = column.name[begin.len()..].trim_end_matches(".busy");
        plot.lines.push(source::line(name, colour, source.points(&column.name)));
    }
    plot
}

/// Each core: a line, or a row of a field where there are many.
fn cores(source: &FigureSource, owner: &str) -> Option<Plot> {
    let begin = format!("{owner}.cpu.core.");
    let mut cores: Vec<(u32, &Column)> = Vec::new();
    for column in source.names(&begin) {
        cores.push((column.name[begin.len()..].parse().ok()?, column));
    }
    cores.sort_by_key(|(core, _)| *core);
    if cores.is_empty() {
        return None;
    }
    let mut plot = Plot::over_time(&format!("c-{owner}-cores"), "Each core", Unit::Share);
    let points = cores.iter().map(|(core, column)| (*core, source.points(&column.name)));
    if cores.len() <= CORE_LINES_MAX {
        let line = |(core, points)| source::line(&format!("core {core}"), core as usize, points);
        plot.lines = points.map(line).collect();
        plot.top = Some(1.05);
        return Some(plot);
    }
    let points: Vec<_> = points.collect();
    let to_s = points.iter().filter_map(|(_, p)| p.last()).map(|p| p.0).fold(0.0, f64::max);
    let rows = points.iter().map(|(_, points)| points.len()).max().unwrap_or(0);
    let columns = rows.clamp(1, CORE_COLUMNS_MAX);
    plot.title = "Each core, from the first below".to_owned();
    plot.about = "Darker is busier.".to_owned();
    plot.unit = Unit::Count;
    plot.top = Some(points.len() as f64);
    plot.upwards = Upwards::Linear;
    plot.heat = Some(field(&points, to_s.max(0.1), columns));
    let told = |(core, points)| source::line(&format!("core {core}"), 0, points);
    plot.told_only = points.into_iter().map(told).collect();
    Some(plot)
}

fn field(cores: &[(u32, Vec<Point>)], to_s: f64, columns: usize) -> Heat {
    let wide = to_s / columns as f64;
    let mut cells = vec![vec![0.0_f64; cores.len()]; columns];
    for (row, (_, points)) in cores.iter().enumerate() {
        for (at, busy) in points {
            let cell = &mut cells[((at / wide) as usize).min(columns - 1)][row];
            *cell = cell.max(busy.clamp(0.0, 1.0));
        }
    }
    Heat { cell: (wide, 1.0), y_from: 0.0, columns: cells }
}

/// Charts of Redis: one for each unit that its figures have.
pub fn redis(source: &FigureSource) -> Vec<Plot> {
    let mut plots = Vec::new();
    let columns = source.names("redis.");
    for (unit, total, id, title) in [
        (Unit::Micros, false, "lag", "Redis: lag"),
        (Unit::Count, false, "depth", "Redis: depth and mismatches"),
        (Unit::Count, true, "rate", "Redis: a second"),
        (Unit::Bytes, false, "memory", "Redis: memory"),
    ] {
        let these = columns
            .iter()
            .filter(|column| column.unit == unit && (column.kind == FigureKind::Total) == total);
        let mut plot = Plot::over_time(&format!("c-redis-{id}"), title, unit);
        plot.per_s = total;
        for (colour, column) in these.take(LINES_MAX).enumerate() {
            let name = column.name.trim_start_matches("redis.");
            plot.lines.push(source::line(name, colour, source.points(&column.name)));
        }
        plots.push(plot);
    }
    plots.retain(|plot| !plot.lines.is_empty());
    plots
}

/// Charts that have a line for each agent.
pub fn agents(source: &FigureSource, names: &[String]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (figure, title, unit) in [
        ("clients.online", "Agents: clients online", Unit::Count),
        ("cpu.busy", "Agents: cores busy", Unit::Count),
        ("busiest", "Agents: busiest thread", Unit::Share),
        ("turn_us_max", "Agents: longest turn of a loop", Unit::Micros),
    ] {
        let id = format!("c-agents-{}", figure.replace(['.', '_'], "-"));
        let mut plot = Plot::over_time(&id, title, unit);
        for (colour, agent) in names.iter().take(LINES_MAX).enumerate() {
            let points = source.points(&format!("{agent}.{figure}"));
            if !points.is_empty() {
                plot.lines.push(source::line(agent, colour, points));
            }
        }
        plots.push(plot);
    }
    plots.retain(|plot| !plot.lines.is_empty());
    plots
}

/// Whether a figure is something that a kernel counts.
pub fn is_kernels(column: &Column) -> bool {
    let mut words = column.name.split('.').skip(1);
    let of = words.next().unwrap_or_default();
    let kernel = ["tcp", "ip", "softnet", "conntrack", "net", "loopback", "memory", "cgroup"];
    column.kind == FigureKind::Total && column.unit == Unit::Count && kernel.contains(&of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::plot::Stroke;

    #[test]
    fn a_machine_is_hidden_where_it_has_more_than_four_times_what_its_process_has() {
        let line = |name: &str, most: f64| PlotLine {
            name: name.to_owned(),
            colour: 0,
            stroke: Stroke::Solid,
            hidden: false,
            points: vec![(0.0, 0.0), (1.0, most)],
        };
        for (process, machine, hidden) in
            [(2.0, 8.0, false), (2.0, 8.5, true), (0.0, 8.0, false), (9.0, 8.0, false)]
        {
            let mut lines = [line("the process", process), line("its machine", machine)];
            hide_machines(&mut lines);
            assert_eq!(lines.map(|line| line.hidden), [false, hidden], "{process} {machine}");
        }
    }
}

//! Resources of the target at each of four sizes: the table of Coolpy7's report.
//!
//! A size is read in the first row that has so many clients, and rates there, too: what is received
//! while clients come includes their coming.

use crate::figure;
use crate::grid::Grid;
use lab::run::Run;

/// Columns of the terminal.
const WIDTH: usize = 100;
/// Parts of the clients that make sizes.
const PARTS: u64 = 4;

/// The table.
pub fn sizes(run: &Run) -> String {
    let planned = crate::summary::most_planned(run);
    let mut grid = Grid::new(&[
        ">clients",
        ">memory of the machine",
        ">RES",
        ">VIRT",
        ">CPU / all",
        ">network in",
        ">network out",
    ]);
    let mut rows = 0;
    for part in 1..=PARTS {
        let size = planned * part / PARTS;
        if size == 0 {
            continue;
        }
        let Some(at_ms) = reached(run, size) else { break };
        rows += 1;
        grid.row(row(run, size, at_ms));
    }
    if rows == 0 || run.series.values("target.process.rss").iter().flatten().next().is_none() {
        return String::new();
    }
    let all = grid.text(WIDTH).replace(figure::SPACE, " ");
    format!("\nServer resources by number of clients (CPU in hundredths of a core)\n{all}")
}

/// When so many clients were there first.
fn reached(run: &Run, size: u64) -> Option<u64> {
    let online = run.series.shown("clients.online");
    online.iter().find(|(_, online)| *online >= size as f64).map(|(at, _)| *at)
}

fn row(run: &Run, size: u64, at_ms: u64) -> Vec<String> {
    // What only grows has no growth in the first row.
    let at = |column: &str| {
        let shown = run.series.shown(column);
        shown.iter().find(|(at, _)| *at >= at_ms).or(shown.last()).map(|(_, value)| *value)
    };
    let words = |value: Option<f64>, word: fn(f64) -> String| value.map_or("–".to_owned(), word);
    let per_s = |value: f64| format!("{}/s", figure::bytes(value));
    let cpu = at("target.process.cpu").map(|cores| figure::digits(100.0 * cores));
    let all = at("target.cpu.cores").map(|cores| figure::digits(100.0 * cores));
    // On loopback every byte is sent and received by the one machine.
    let [from, to] = match run.is_on_loopback() {
        true => ["target.loopback.bytes"; 2],
        false => ["target.net.bytes_in", "target.net.bytes_out"],
    };
    vec![
        figure::count(size as f64),
        words(at("target.memory.used"), figure::bytes),
        words(at("target.process.rss"), figure::bytes),
        words(at("target.process.virtual"), figure::bytes),
        match (cpu, all) {
            (Some(cpu), Some(all)) => format!("{cpu} / {all}"),
            (cpu, _) => cpu.unwrap_or("–".to_owned()),
        },
        words(at(from), per_s),
        words(at(to), per_s),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::run::StageRun;
    use lab::series::{Column, Reading, Unit};

    fn run(with_process: bool) -> Run {
        let mut run = Run { target: vec!["mqtt://10.0.0.1:1883".to_owned()], ..Run::default() };
        run.stages = vec![StageRun { clients: 4_000, ..StageRun::default() }];
        for second in 0..=4_u64 {
            let mut reading = Reading::default();
            let mut set = |column: Column, value: f64| reading.set(column, value);
            set(Column::gauge("clients.online", Unit::Count), 1_000.0 * second as f64);
            set(Column::gauge("target.cpu.cores", Unit::Count), 16.0);
            if with_process {
                let mib = 1_048_576.0;
                set(Column::gauge("target.process.rss", Unit::Bytes), (10.0 + second as f64) * mib);
                set(Column::gauge("target.process.virtual", Unit::Bytes), 64.0 * mib);
                set(Column::gauge("target.process.cpu", Unit::Share), 0.5 * second as f64);
                set(Column::gauge("target.memory.used", Unit::Bytes), 512.0 * mib);
                set(Column::total("target.net.bytes_in", Unit::Bytes), 2_048.0 * second as f64);
                set(Column::total("target.net.bytes_out", Unit::Bytes), 1_024.0 * second as f64);
            }
            run.series.push(second * 1_000, 0, &reading);
        }
        run
    }

    #[test]
    fn each_size_has_a_row_of_what_was_used_then() {
        let text = sizes(&run(true));
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("MiB")).collect();
        assert_eq!(rows.len(), 4, "{text}");
        for part in ["2,000", "512 MiB", "12 MiB", "64 MiB", "100 / 1600", "2 KiB/s", "1 KiB/s"] {
            assert!(rows[1].contains(part), "{part}: {}", rows[1]);
        }
        assert_eq!(sizes(&run(false)), "", "the process was not observed");
    }
}

//! Summary of a watch: highest values, increases, and the limit that was reached.

use super::line::{bytes, grouped};
use lab::run::{Finding, Gravity, Run};
use lab::series::{Reading, Series, Unit};
use observe::columns::{ALARMS, kernel_name, meaning};
use std::fmt::Write;

/// Figures whose greatest value is printed.
const HEIGHTS: &[(&str, &str)] = &[
    ("cores busy", "cpu.busy"),
    ("busiest core", "cpu.busiest"),
    ("memory used", "memory.used"),
    ("connections", "tcp.established"),
    ("TIME-WAIT", "tcp.time_wait"),
    ("accept queue", "tcp.listen_queue"),
    ("process: cores", "process.cpu"),
    ("process: busiest thread", "process.busiest"),
    ("process: memory", "process.rss"),
    ("process: descriptors", "process.fds"),
    ("process: accept queue", "process.listen_queue"),
];

/// A reading as the judge wants it: the machine's figures are the target's, the page's its own.
pub fn of_target(reading: Reading) -> Reading {
    let mut all = Reading::default();
    for (column, value) in reading.iter() {
        let own = column.name.starts_with("server.");
        all.set(if own { column.clone() } else { column.of("target") }, *value);
    }
    all
}

/// All of it as text.
pub fn summary(series: Series) -> String {
    let took_ms = series.times_ms().last().copied().unwrap_or(0);
    let mut out = format!("\nMonitored for {} s.", took_ms / 1_000);
    if series.len() < 2 {
        out += " Too short to report counters.\n";
        return out;
    }
    out += "\n\nMaximum\n";
    for (words, name) in HEIGHTS {
        if let Some(height) = height(&series, name) {
            let _ = writeln!(out, "  {words:<24} {height}");
        }
    }
    let risen = risen(&series);
    out += "\nError counters that rose\n";
    for (name, rise) in &risen {
        let shown = kernel_name(name).unwrap_or(name);
        let _ =
            writeln!(out, "  {shown:<24} +{:<12} {}", grouped(*rise), meaning(name).unwrap_or(""));
    }
    if risen.is_empty() {
        out += "  nothing\n";
    }
    if series.values("target.process.alive").last() == Some(&Some(0.0)) {
        out += "\nThe process has ended.\n";
    }
    let run = Run { took_ms, series, finished: true, ..Run::default() };
    out + &judged(&verdict::findings(&run), !risen.is_empty())
}

fn height(series: &Series, name: &str) -> Option<String> {
    let name = format!("target.{name}");
    let values = series.values(&name).iter().filter_map(|cell| *cell);
    let most = values.reduce(f64::max)?;
    let unit = series.columns().iter().find(|column| column.name == name)?.unit;
    Some(match unit {
        Unit::Bytes => format!("{}B", bytes(Some(most))),
        Unit::Share if name.ends_with("busiest") => format!("{:.0} %", most * 100.0),
        Unit::Share => format!("{most:.2}"),
        _ => grouped(most),
    })
}

/// Totals that should stand still and did not, in the order of the list.
fn risen(series: &Series) -> Vec<(&'static str, f64)> {
    let rise = |name: &str| series.growth(&format!("target.{name}"), 0, u64::MAX);
    let all = ALARMS.iter().filter_map(|name| Some((*name, rise(name)?)));
    all.filter(|(_, rise)| *rise >= 1.0).collect()
}

fn judged(findings: &[Finding], something_rose: bool) -> String {
    let mut out = String::new();
    for finding in findings {
        let word = match finding.gravity {
            Gravity::Note => "Note",
            Gravity::Warning => "Warning",
            Gravity::Limit => "Limit reached",
            Gravity::Invalid => "Not valid",
        };
        let _ = writeln!(out, "\n{word}: {}\n  {}", finding.what, finding.evidence);
        if !finding.remedy.is_empty() {
            let _ = writeln!(out, "  Remedy: {}", finding.remedy);
        }
    }
    let limit = findings.iter().any(|finding| finding.gravity >= Gravity::Limit);
    match (limit, something_rose) {
        (true, _) => {}
        (false, true) => out += "\nNo known limit was reached; see the error counters that rose.\n",
        (false, false) => out += "\nNo limit was reached.\n",
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::series::Column;

    const DROPS: Column = Column::total("tcp.listen_drops", Unit::Count);
    const BUSIEST: Column = Column::peak("cpu.busiest", Unit::Share);
    const PAGE: Column = Column::total("server.closed", Unit::Count);

    fn watched(drops: [f64; 3]) -> String {
        let mut series = Series::default();
        for (at, drops) in drops.into_iter().enumerate() {
            let mut reading = Reading::default();
            reading.set(DROPS, drops);
            reading.set(BUSIEST, 0.25);
            reading.set(PAGE, 1.0);
            series.push(at as u64 * 1_000, 0, &of_target(reading));
        }
        assert_eq!(series.values("server.closed").len(), 3);
        summary(series)
    }

    #[test]
    fn what_rose_is_told_with_the_limit_that_was_met() {
        let text = watched([7.0, 7.0, 41_240.0]);
        assert!(text.contains("  ListenDrops              +41,233 "), "{text}");
        assert!(text.contains("\nLimit reached: ") && !text.contains("No limit"), "{text}");
        assert!(text.contains("  busiest core             25 %\n"), "{text}");
    }

    #[test]
    fn where_nothing_rose_no_limit_was_met() {
        let text = watched([7.0; 3]);
        assert!(text.contains("  nothing\n\nNo limit was reached.\n"), "{text}");
        assert!(summary(Series::default()).contains("Too short"));
    }
}

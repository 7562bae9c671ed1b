//! A line of figures each reading, and what rose in it that should stand still.

use lab::series::Reading;
use observe::columns::{ALARMS, kernel_name};
use std::fmt::Write as _;

/// Lines after which the heads are printed again.
const HEADS_EVERY: u64 = 20;
/// Changes that one line tells, at most.
const CHANGES_MAX: usize = 5;

/// Values of the lines before, for rates and changes.
pub struct Lines {
    with_process: bool,
    colours: bool,
    printed: u64,
    before: Option<(f64, Reading)>,
}

/// A column of the line: its head, its width, and what stands in it.
type Cell = (&'static str, usize, fn(&Between) -> String);

/// Two readings, and the seconds between them.
struct Between<'a> {
    now: &'a Reading,
    before: Option<&'a Reading>,
    took_s: f64,
}

const HOST: &[Cell] = &[
    ("CPU", 8, |at| match (at.of("cpu.busy"), at.of("cpu.cores")) {
        (Some(busy), Some(cores)) => format!("{busy:.2}/{cores}"),
        _ => "-".to_owned(),
    }),
    ("TOP", 5, |at| share(at.of("cpu.busiest"))),
    ("SOFT", 5, |at| share(at.of("cpu.softirq_busiest"))),
    ("MEM", 6, |at| bytes(at.of("memory.used"))),
    ("ESTAB", 9, |at| count(at.of("tcp.established"))),
    ("NEW/s", 7, |at| {
        let sides = (at.rate("tcp.opens_passive"), at.rate("tcp.opens_active"));
        count(sides.0.zip(sides.1).map(|(accepted, begun)| accepted.max(begun)))
    }),
    ("TW", 7, |at| count(at.of("tcp.time_wait"))),
    ("QUEUE", 11, |at| queue(at.of("tcp.listen_queue"), at.of("tcp.listen_backlog"))),
    ("NET/s", 6, |at| {
        let both = at.rate("net.bytes_in").zip(at.rate("net.bytes_out"));
        bytes(both.map(|(into, out)| into + out))
    }),
    ("LO/s", 6, |at| bytes(at.rate("loopback.bytes"))),
];

const PROCESS: &[Cell] = &[
    ("| PROC", 6, |at| match at.of("process.alive") {
        Some(1.0) => at.of("process.cpu").map_or("-".to_owned(), |cores| format!("{cores:.2}")),
        _ => "gone".to_owned(),
    }),
    ("TOP", 5, |at| share(at.of("process.busiest"))),
    ("RSS", 6, |at| bytes(at.of("process.rss"))),
    ("FDS", 17, |at| queue(at.of("process.fds"), at.of("process.fds_max"))),
    ("QUEUE", 11, |at| queue(at.of("process.listen_queue"), at.of("process.listen_backlog"))),
];

impl Lines {
    /// Lines about a machine, and a process where one is watched; `first` is what was there before
    /// the first line.
    pub fn new(with_process: bool, colours: bool, first: Reading) -> Lines {
        Lines { with_process, colours, printed: 0, before: Some((0.0, first)) }
    }

    /// Prints a reading.
    pub fn print(&mut self, unix_s: f64, passed_s: f64, reading: &Reading) {
        let mut text = String::new();
        if self.printed.is_multiple_of(HEADS_EVERY) {
            let heads = self.cells().map(|(head, width, _)| format!(" {head:>width$}"));
            let _ = writeln!(text, "{:<8}{}  ROSE", "UTC", heads.collect::<String>());
        }
        self.printed += 1;
        let line = self.line(unix_s, passed_s, reading);
        crate::out::paint(&format!("{text}{line}\n"));
        self.before = Some((passed_s, reading.clone()));
    }

    fn cells(&self) -> impl Iterator<Item = &'static Cell> + use<> {
        HOST.iter().chain(if self.with_process { PROCESS } else { &[] })
    }

    fn line(&self, unix_s: f64, passed_s: f64, now: &Reading) -> String {
        let before = self.before.as_ref();
        let between = Between {
            now,
            before: before.map(|(_, reading)| reading),
            took_s: before.map_or(0.0, |(at_s, _)| passed_s - at_s),
        };
        let unix_s = unix_s as u64;
        let mut line = format!("{}:{:02}", base::calendar::hour(unix_s), unix_s % 60);
        for (_, width, cell) in self.cells() {
            let _ = write!(line, " {:>width$}", cell(&between));
        }
        let changes = between.changes();
        if !changes.is_empty() {
            let more = changes.len().saturating_sub(CHANGES_MAX);
            let more = if more > 0 { format!(", {more} more") } else { String::new() };
            let text = changes[..changes.len().min(CHANGES_MAX)].join(", ") + &more;
            let text = if self.colours { format!("\x1b[1;31m{text}\x1b[0m") } else { text };
            let _ = write!(line, "  {text}");
        }
        line
    }
}

impl Between<'_> {
    fn of(&self, name: &str) -> Option<f64> {
        self.now.of(name)
    }

    /// Difference by which a total rose.
    fn rise(&self, name: &str) -> Option<f64> {
        Some(self.now.of(name)? - self.before?.of(name)?)
    }

    fn rate(&self, name: &str) -> Option<f64> {
        self.rise(name).filter(|_| self.took_s > 0.0).map(|rise| rise.max(0.0) / self.took_s)
    }

    /// Increases of counters that should not increase: `ListenDrops +41,233`.
    fn changes(&self) -> Vec<String> {
        let rise = |name: &&str| self.rise(name).filter(|rise| *rise >= 1.0);
        let risen = ALARMS.iter().filter_map(|name| Some((name, rise(name)?)));
        risen
            .map(|(name, rise)| format!("{} +{}", kernel_name(name).unwrap_or(name), grouped(rise)))
            .collect()
    }
}

/// A whole number with its thousands apart.
pub fn grouped(number: f64) -> String {
    let digits = observe::doctor::grouped(number.abs().round() as u64);
    if number <= -0.5 { format!("-{digits}") } else { digits }
}

fn count(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), grouped)
}

fn share(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.0}%", share * 100.0))
}

fn queue(waiting: Option<f64>, most: Option<f64>) -> String {
    match (waiting, most) {
        (Some(waiting), Some(most)) if most < 1e15 => format!("{waiting:.0}/{most:.0}"),
        (waiting, _) => count(waiting),
    }
}

/// Bytes in four or five characters.
pub fn bytes(number: Option<f64>) -> String {
    let Some(number) = number else { return "-".to_owned() };
    match number {
        _ if number >= 999.5e9 => format!("{:.2}T", number / 1e12),
        _ if number >= 9.995e9 => format!("{:.1}G", number / 1e9),
        _ if number >= 999.5e6 => format!("{:.2}G", number / 1e9),
        _ if number >= 999.5e3 => format!("{:.0}M", number / 1e6),
        _ => format!("{:.0}k", number / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::series::{Column, Unit};

    fn reading(figures: &[(&'static str, f64)]) -> Reading {
        let mut reading = Reading::default();
        for (name, value) in figures {
            reading.set(Column::total(name, Unit::Count), *value);
        }
        reading
    }

    #[test]
    fn what_rises_is_told_by_the_kernels_name() {
        let mut lines = Lines::new(true, false, Reading::default());
        let first = reading(&[("tcp.listen_drops", 5.0), ("tcp.opens_passive", 100.0)]);
        assert!(!lines.line(0.0, 1.0, &first).contains("ListenDrops"));
        lines.before = Some((1.0, first));
        let next = reading(&[
            ("tcp.listen_drops", 41_238.0),
            ("tcp.opens_passive", 1_100.0),
            ("tcp.opens_active", 0.0),
            ("process.alive", 0.0),
            ("cgroup.throttled", 3.0),
        ]);
        let line = lines.line(3_661.0, 3.0, &next);
        assert!(line.starts_with("01:01:01") && line.ends_with("  ListenDrops +41,233"), "{line}");
        assert!(line.contains(" gone "), "{line}");
        lines.colours = true;
        assert!(lines.line(0.0, 3.0, &next).contains("\x1b[1;31mListenDrops"));
    }

    #[test]
    fn figures_are_short_enough_for_their_columns() {
        for (number, text) in [
            (0.0, "0k"),
            (999_499.0, "999k"),
            (999.4e6, "999M"),
            (1e9, "1.00G"),
            (12.34e9, "12.3G"),
            (2e12, "2.00T"),
        ] {
            assert_eq!(bytes(Some(number)), text);
        }
        assert_eq!([grouped(-1_234.0), grouped(0.0)], ["-1,234", "0"]);
        assert_eq!(queue(Some(3.0), Some(f64::MAX)), "3");
    }
}

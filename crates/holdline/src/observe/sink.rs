//! Where whole rows go: a CSV file, or JSON lines on standard output.
//!
//! A file's columns are those of its first row and those that a machine or process can have
//! besides; what comes later under another name is counted and told at the end.

use lab::series::Reading;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where rows go.
pub enum Sink {
    /// Nowhere.
    None,
    /// To standard output, an object a line.
    Json,
    /// To a file.
    Csv(Box<Csv>),
}

/// A CSV file that is being written.
pub struct Csv {
    path: PathBuf,
    file: BufWriter<File>,
    columns: Vec<String>,
    refused: BTreeSet<String>,
}

impl Sink {
    /// The sink that was asked for.
    pub fn of(csv: Option<&Path>, json: bool) -> Result<Sink, String> {
        let Some(path) = csv else { return Ok(if json { Sink::Json } else { Sink::None }) };
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (path, file) = (path.to_owned(), BufWriter::new(file));
        let columns = Vec::new();
        Ok(Sink::Csv(Box::new(Csv { path, file, columns, refused: BTreeSet::new() })))
    }

    /// Writes a row.
    pub fn write(&mut self, unix_s: f64, passed_s: f64, reading: &Reading) -> Result<(), String> {
        match self {
            Sink::None => Ok(()),
            Sink::Json => {
                out!("{}", json(unix_s, passed_s, reading));
                Ok(())
            }
            Sink::Csv(csv) => {
                let text = csv.row(unix_s, passed_s, reading);
                let written = csv.file.write_all(text.as_bytes()).and_then(|()| csv.file.flush());
                written.map_err(|error| format!("{}: {error}", csv.path.display()))
            }
        }
    }

    /// Tells what did not fit.
    pub fn end(self) -> Result<(), String> {
        if let Sink::Csv(csv) = self {
            note!("\n{} columns written to {}", csv.columns.len(), csv.path.display());
            if !csv.refused.is_empty() {
                let names: Vec<&str> = csv.refused.iter().map(String::as_str).collect();
                note!(
                    "not included, because they appeared after the first row: {}",
                    names.join(", ")
                );
            }
        }
        Ok(())
    }
}

impl Csv {
    /// The row, with the heads before the first one.
    fn row(&mut self, unix_s: f64, passed_s: f64, reading: &Reading) -> String {
        let mut text = String::new();
        if self.columns.is_empty() {
            let process = reading.of("process.alive").is_some();
            self.columns = reading.iter().map(|(column, _)| column.name.to_string()).collect();
            let known = observe::columns::all().map(|(column, _)| column.name.as_ref());
            let known = known.filter(|name| process || !name.starts_with("process."));
            let known = known.filter(|name| *name != "cpu.core.K").map(str::to_owned);
            let more: Vec<String> = known.filter(|name| !self.columns.contains(name)).collect();
            self.columns.extend(more);
            text = format!("unix_s,passed_s,{}\n", self.columns.join(","));
        }
        let late = reading.iter().map(|(column, _)| column.name.as_ref());
        let late = late.filter(|name| !self.columns.iter().any(|column| column == name));
        self.refused.extend(late.map(str::to_owned));
        text += &format!("{unix_s:.2},{passed_s:.2}");
        for column in &self.columns {
            let cell = reading.of(column).map(|value| value.to_string()).unwrap_or_default();
            text += &format!(",{cell}");
        }
        text + "\n"
    }
}

fn json(unix_s: f64, passed_s: f64, reading: &Reading) -> serde_json::Value {
    let figures = reading.iter().map(|(column, value)| (column.name.to_string(), (*value).into()));
    let figures: serde_json::Map<String, serde_json::Value> = figures.collect();
    let hundredths = |seconds: f64| (seconds * 100.0).round() / 100.0;
    serde_json::json!({
        "unix_s": hundredths(unix_s), "passed_s": hundredths(passed_s), "figures": figures,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::series::{Column, Unit};

    fn reading(figures: &[(&'static str, f64)]) -> Reading {
        let mut reading = Reading::default();
        figures.iter().for_each(|(name, v)| reading.set(Column::gauge(name, Unit::Count), *v));
        reading
    }

    #[test]
    fn columns_stay_and_late_ones_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let mut sink = Sink::of(Some(&path), false).expect("a file");
        sink.write(10.0, 1.0, &reading(&[("cpu.busy", 0.5), ("server.a", 1.0)])).expect("space");
        let late = reading(&[("server.a", 2.0), ("server.b", 3.0), ("tcp.close_wait", 4.0)]);
        sink.write(11.0, 2.0, &late).expect("space");
        let Sink::Csv(csv) = &sink else { panic!("it is a file") };
        assert_eq!(csv.refused.iter().collect::<Vec<_>>(), ["server.b"]);
        let text = std::fs::read_to_string(&path).expect("it was written");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines[0][..4], ["unix_s", "passed_s", "cpu.busy", "server.a"]);
        assert_eq!((lines.len(), lines[2][..4].join(",")), (3, "11.00,2.00,,2".to_owned()));
        let place = lines[0].iter().position(|name| *name == "tcp.close_wait").expect("known");
        assert_eq!((lines[1][place], lines[2][place]), ("", "4"));
        assert!(!text.contains("process.") && Sink::of(Some(folder.path()), false).is_err());
    }

    #[test]
    fn a_row_of_json_has_its_figures_by_name() {
        let row = json(1.004, 0.5, &reading(&[("cpu.busy", 0.5)]));
        assert_eq!((&row["unix_s"], &row["figures"]["cpu.busy"]), (&1.0.into(), &0.5.into()));
    }
}

//! Figures over time: one row a second, whatever the figure is about, bounded however long it goes.
//!
//! A [`Reading`] is what was read at one moment; its columns need not be the same as last time's.
//! Names are dotted paths whose first word says whose figure it is: `clients.` (the engine's),
//! `tester.` and `target.` (the two hosts'), `server.` (what the target tells of itself), `redis.`.
//! When a series is full, its step doubles and two rows become one.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;

/// Unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Micros,
    /// A share: 1 is all of it. Of CPU: one core.
    Share,
    /// Seconds.
    Seconds,
}

/// How a figure behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// The figure only grows: its growth a second is shown.
    Total,
    /// The figure goes up and down; of two rows the later counts.
    Gauge,
    /// The figure goes up and down; of two rows the higher counts.
    Peak,
    /// The figure goes up and down; of two rows the lower counts.
    Low,
}

/// A figure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Its dotted name.
    pub name: Cow<'static, str>,
    /// Unit of the figure.
    pub unit: Unit,
    /// How it behaves.
    pub kind: FigureKind,
}

impl Column {
    /// A figure that only grows.
    pub const fn total(name: &'static str, unit: Unit) -> Column {
        Column { name: Cow::Borrowed(name), unit, kind: FigureKind::Total }
    }

    /// A figure that goes up and down.
    pub const fn gauge(name: &'static str, unit: Unit) -> Column {
        Column { name: Cow::Borrowed(name), unit, kind: FigureKind::Gauge }
    }

    /// A figure whose heights matter.
    pub const fn peak(name: &'static str, unit: Unit) -> Column {
        Column { name: Cow::Borrowed(name), unit, kind: FigureKind::Peak }
    }

    /// A figure whose depths matter.
    pub const fn low(name: &'static str, unit: Unit) -> Column {
        Column { name: Cow::Borrowed(name), unit, kind: FigureKind::Low }
    }

    /// The figure of a party: `of("target")` of `tcp.resets` is `target.tcp.resets`.
    pub fn of(&self, whose: &str) -> Column {
        Column { name: Cow::Owned(format!("{whose}.{}", self.name)), ..*self }
    }
}

/// Figures read at one moment.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Reading(Vec<(Column, f64)>);

impl Reading {
    /// Adds a figure. A name that is there already is there twice: the later counts.
    pub fn set(&mut self, column: Column, value: f64) {
        self.0.push((column, value));
    }

    /// The value of a figure.
    pub fn of(&self, name: &str) -> Option<f64> {
        self.0.iter().rev().find(|(column, _)| column.name == name).map(|(_, value)| *value)
    }

    /// The figures.
    pub fn iter(&self) -> impl Iterator<Item = &(Column, f64)> {
        self.0.iter()
    }

    /// Adds all figures of another reading.
    pub fn extend(&mut self, other: Reading) {
        self.0.extend(other.0);
    }

    /// The figures, as those of a party.
    pub fn of_whom(self, whose: &str) -> Reading {
        Reading(self.0.into_iter().map(|(column, value)| (column.of(whose), value)).collect())
    }
}

/// Figures over time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Series {
    columns: Vec<Column>,
    /// Milliseconds since the run began, of each row.
    at_ms: Vec<u64>,
    /// Place of the stage that each row belongs to.
    stages: Vec<u16>,
    /// The values, column by column; where a figure was not read there is none.
    values: Vec<Vec<Option<f64>>>,
    /// Rows that were made one, so far: 1, 2, 4 ...
    merged: u32,
    /// Readings since the last row was begun.
    begun: u32,
    /// Figures that found no column.
    pub columns_refused: u64,
    #[serde(skip)]
    places: HashMap<Cow<'static, str>, usize>,
}

/// Rows of a series, at most: an hour of seconds.
pub const ROWS_MAX: usize = 3_600;
/// Columns of a series, at most. A figure beyond is left out and counted.
pub const COLUMNS_MAX: usize = 1_536;

impl Default for Series {
    fn default() -> Self {
        Series {
            columns: Vec::new(),
            at_ms: Vec::new(),
            stages: Vec::new(),
            values: Vec::new(),
            merged: 1,
            begun: 0,
            columns_refused: 0,
            places: HashMap::new(),
        }
    }
}

impl Series {
    /// Adds what was read at this time.
    pub fn push(&mut self, at_ms: u64, stage: u16, reading: &Reading) {
        if self.at_ms.len() >= ROWS_MAX && self.begun == 0 {
            self.halve();
        }
        let fresh = self.begun == 0 || self.stages.last() != Some(&stage);
        if fresh {
            self.begun = 0;
            self.at_ms.push(at_ms);
            self.stages.push(stage);
            self.values.iter_mut().for_each(|column| column.push(None));
        }
        let row = self.at_ms.len() - 1;
        self.at_ms[row] = at_ms;
        for (column, value) in reading.iter() {
            let Some(place) = self.place(column) else {
                self.columns_refused += 1;
                continue;
            };
            let cell = &mut self.values[place][row];
            *cell = merged(column.kind, *cell, Some(*value));
        }
        self.begun = (self.begun + 1) % self.merged;
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.at_ms.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.at_ms.is_empty()
    }

    /// The figures, in the order they came.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Milliseconds since the run began, of each row.
    pub fn times_ms(&self) -> &[u64] {
        &self.at_ms
    }

    /// Place of the stage, of each row.
    pub fn stages(&self) -> &[u16] {
        &self.stages
    }

    /// The values of a figure as they were read, a cell a row; empty: no such figure.
    pub fn values(&self, name: &str) -> &[Option<f64>] {
        let place = self.columns.iter().position(|column| column.name == name);
        place.map_or(&[], |place| &self.values[place])
    }

    /// Shown values of a figure: (milliseconds, value) of each row that has one. Of a total it is
    /// the growth a second since the last row that had one.
    pub fn shown(&self, name: &str) -> Vec<(u64, f64)> {
        let Some(place) = self.columns.iter().position(|column| column.name == name) else {
            return Vec::new();
        };
        let cells = self.at_ms.iter().zip(&self.values[place]);
        let read = cells.filter_map(|(&at, cell)| cell.map(|value| (at, value)));
        if self.columns[place].kind != FigureKind::Total {
            return read.collect();
        }
        let read: Vec<_> = read.collect();
        let pairs = read.windows(2).filter(|pair| pair[1].0 > pair[0].0);
        pairs
            .map(|pair| {
                let seconds = (pair[1].0 - pair[0].0) as f64 / 1_000.0;
                (pair[1].0, (pair[1].1 - pair[0].1).max(0.0) / seconds)
            })
            .collect()
    }

    /// Growth of a total between two times, or difference of a gauge; `None`: not read twice.
    pub fn growth(&self, name: &str, from_ms: u64, to_ms: u64) -> Option<f64> {
        let cells = self.at_ms.iter().zip(self.values(name));
        let within = cells.filter(|(at, _)| (from_ms..=to_ms).contains(*at));
        let read: Vec<f64> = within.filter_map(|(_, cell)| *cell).collect();
        match read[..] {
            [first, .., last] => Some(last - first),
            _ => None,
        }
    }

    /// Whether every column has a cell a row: false of a damaged file only.
    pub fn is_whole(&self) -> bool {
        let rows = self.at_ms.len();
        self.stages.len() == rows
            && self.values.len() == self.columns.len()
            && self.values.iter().all(|cells| cells.len() == rows)
    }

    fn place(&mut self, column: &Column) -> Option<usize> {
        if self.places.len() != self.columns.len() {
            // It came out of a file.
            let names = self.columns.iter().enumerate();
            self.places = names.map(|(at, column)| (column.name.clone(), at)).collect();
        }
        if let Some(place) = self.places.get(&column.name) {
            return Some(*place);
        }
        if self.columns.len() >= COLUMNS_MAX {
            return None;
        }
        let place = self.columns.len();
        self.columns.push(column.clone());
        self.values.push(vec![None; self.at_ms.len()]);
        self.places.insert(column.name.clone(), place);
        Some(place)
    }

    /// Makes one row of each two of the same stage. The first row stays as it is: totals grow from
    /// it.
    fn halve(&mut self) {
        let mut kept: Vec<(usize, Option<usize>)> = Vec::with_capacity(ROWS_MAX / 2 + 1);
        for row in 0..self.at_ms.len() {
            match kept.last_mut() {
                Some((first @ 1.., second @ None)) if self.stages[*first] == self.stages[row] => {
                    *second = Some(row);
                }
                _ => kept.push((row, None)),
            }
        }
        for (place, column) in self.columns.iter().enumerate() {
            let cells = &self.values[place];
            let halved = kept.iter().map(|&(first, second)| {
                merged(column.kind, cells[first], second.and_then(|second| cells[second]))
            });
            self.values[place] = halved.collect();
        }
        self.stages = kept.iter().map(|&(first, _)| self.stages[first]).collect();
        self.at_ms =
            kept.iter().map(|&(first, second)| self.at_ms[second.unwrap_or(first)]).collect();
        self.merged = self.merged.saturating_mul(2);
    }
}

fn merged(kind: FigureKind, first: Option<f64>, second: Option<f64>) -> Option<f64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(match kind {
            FigureKind::Total | FigureKind::Gauge => second,
            FigureKind::Peak => first.max(second),
            FigureKind::Low => first.min(second),
        }),
        (first, second) => second.or(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONLINE: Column = Column::gauge("clients.online", Unit::Count);
    const SENT: Column = Column::total("clients.sent", Unit::Count);
    const LAG: Column = Column::peak("tester.lag", Unit::Micros);

    fn day() -> Series {
        let mut series = Series::default();
        for second in 0..86_400_u64 {
            let mut reading = Reading::default();
            reading.set(ONLINE, second as f64);
            reading.set(SENT, 10.0 * second as f64);
            reading.set(LAG, if second == 40_001 { 1e6 } else { 5.0 });
            series.push(second * 1_000, (second / 43_200) as u16, &reading);
        }
        series
    }

    #[test]
    fn a_day_is_no_larger_than_an_hour_and_keeps_its_peak() {
        let series = day();
        assert!(series.len() <= ROWS_MAX && series.len() > ROWS_MAX / 4, "{}", series.len());
        let lag = series.shown("tester.lag");
        assert_eq!(lag.iter().filter(|(_, us)| *us == 1e6).count(), 1);
        assert!(series.shown("clients.sent").iter().all(|(_, rate)| (rate - 10.0).abs() < 1e-9));
        assert_eq!(series.stages().iter().max(), Some(&1));
        assert_eq!(series.times_ms().last(), Some(&86_399_000));
        assert_eq!((series.times_ms()[0], series.values("clients.sent")[0]), (0, Some(0.0)));
        assert_eq!(series.growth("clients.sent", 0, 86_400_000), Some(863_990.0));
        let back: Series =
            serde_json::from_str(&serde_json::to_string(&series).expect("plain")).expect("its own");
        assert_eq!(back.shown("clients.online"), series.shown("clients.online"));
    }

    #[test]
    fn a_figure_that_comes_late_has_empty_cells_before() {
        let mut series = Series::default();
        series.push(0, 0, &Reading::default());
        let mut reading = Reading::default();
        reading.set(ONLINE.of("agent-2"), 7.0);
        series.push(1_000, 0, &reading);
        assert_eq!(series.values("agent-2.clients.online"), [None, Some(7.0)]);
        assert_eq!(series.shown("agent-2.clients.online"), [(1_000, 7.0)]);
    }

    #[test]
    fn columns_are_bounded() {
        let mut series = Series::default();
        let mut reading = Reading::default();
        for at in 0..COLUMNS_MAX + 5 {
            reading.set(ONLINE.of(&format!("x{at}")), 1.0);
        }
        series.push(0, 0, &reading);
        assert_eq!((series.columns().len(), series.columns_refused), (COLUMNS_MAX, 5));
    }
}

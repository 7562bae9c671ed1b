//! The figures of a run as lines, and which of them have been shown already.
//!
//! The invariant: a figure that was taken as a line is not told again among the others.

use super::plot::{PlotLine, Stroke};
use super::thin::Point;
use lab::series::{Column, FigureKind, Series};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// How much higher than everything else a line must be to be hidden at first.
const TOWERING: f64 = 3.0;
/// Largest sensible value: a larger one is no figure of a machine, and would not be written in a
/// few characters.
const SENSIBLE: f64 = 1e15;

/// The figures.
pub struct FigureSource<'a> {
    series: &'a Series,
    taken: RefCell<BTreeSet<String>>,
}

impl<'a> FigureSource<'a> {
    /// Figures of this series.
    pub fn new(series: &'a Series) -> FigureSource<'a> {
        FigureSource { series, taken: RefCell::default() }
    }

    /// A figure as it is shown, in seconds: of a total its growth a second.
    pub fn points(&self, name: &str) -> Vec<Point> {
        let shown = self.series.shown(name);
        if !shown.is_empty() {
            self.taken.borrow_mut().insert(name.to_owned());
        }
        let finite = shown.into_iter().filter(|(_, value)| value.abs() < SENSIBLE);
        finite.map(|(at, value)| (at as f64 / 1_000.0, value)).collect()
    }

    /// A figure as it was read, in seconds: of a total what it had come to.
    pub fn read(&self, name: &str) -> Vec<Point> {
        self.taken.borrow_mut().insert(name.to_owned());
        let cells = self.series.times_ms().iter().zip(self.series.values(name));
        let read = cells.filter_map(|(at, cell)| Some((*at as f64 / 1_000.0, (*cell)?)));
        read.filter(|(_, value)| value.abs() < SENSIBLE).collect()
    }

    /// Lines of these figures, by name and words, in the colours' order. A figure that was never
    /// read or was always zero has none.
    pub fn lines(&self, figures: &[(&str, &str)]) -> Vec<PlotLine> {
        let mut lines = Vec::new();
        for (colour, (name, words)) in figures.iter().enumerate() {
            let points = self.points(name);
            if points.iter().any(|(_, value)| *value != 0.0) {
                lines.push(line(words, colour, points));
            }
        }
        lines
    }

    /// Names of figures that begin with this, in the order they came.
    pub fn names(&self, begin: &str) -> Vec<&'a Column> {
        let columns = self.series.columns().iter();
        columns.filter(|column| column.name.starts_with(begin)).collect()
    }

    /// Figures that were not shown yet.
    pub fn rest(&self) -> Vec<&'a Column> {
        let taken = self.taken.borrow();
        let columns = self.series.columns().iter();
        columns.filter(|column| !taken.contains(column.name.as_ref())).collect()
    }

    /// Growth of a total over the whole run.
    pub fn growth(&self, column: &Column) -> f64 {
        debug_assert_eq!(column.kind, FigureKind::Total);
        self.series.growth(&column.name, 0, u64::MAX).unwrap_or(0.0).max(0.0)
    }
}

/// A line as what the chart is about.
pub fn line(name: &str, colour: usize, points: Vec<Point>) -> PlotLine {
    PlotLine { name: name.to_owned(), colour, stroke: Stroke::Solid, hidden: false, points }
}

/// Makes these lines the dashed limits of others, and hides those that would dwarf them.
pub fn limits(mut limits: Vec<PlotLine>, others: &[PlotLine]) -> Vec<PlotLine> {
    let most = others.iter().map(highest).fold(0.0, f64::max);
    for limit in &mut limits {
        limit.stroke = Stroke::Dashed;
        limit.colour = 8;
        limit.hidden = highest(limit) > TOWERING * most;
    }
    limits
}

/// Hides the lines that would dwarf the first one.
pub fn hide_towering(lines: &mut [PlotLine]) {
    let Some((first, others)) = lines.split_first_mut() else { return };
    let most = highest(first);
    others.iter_mut().for_each(|line| line.hidden = highest(line) > TOWERING * most);
}

fn highest(line: &PlotLine) -> f64 {
    line.points.iter().map(|point| point.1).fold(0.0, f64::max)
}

//! A run as people and programs read it: a page, a terminal's text, rows, a file, live figures.
//!
//! All functions here are pure, from a [`Run`] (or its figures) to text. It judges nothing: what
//! held, what was found and what limit was met first stands in the run. It knows no file, no clock
//! and no browser.
//!
//! The invariants: a page needs nothing but itself and is no larger than [`PAGE_BYTES_MAX`],
//! whatever the run; and no text from outside (a stage's name, an agent's, a cause's, a plan)
//! becomes markup, script, a label's end or a spreadsheet's formula.

pub mod compare;

mod csv;
mod escape;
mod figure;
mod file;
mod grid;
mod page;
mod prometheus;
mod sending;
mod sizes;
mod summary;
mod text;

use lab::run::{Counts, Run};
use lab::series::Reading;

/// Bytes of a page, at most.
pub const PAGE_BYTES_MAX: usize = 5_000_000;

/// The run as one page of HTML that needs nothing but itself.
pub fn html(run: &Run) -> String {
    page::html(run)
}

/// The run for a terminal: at most 100 columns, no colours.
pub fn text(run: &Run) -> String {
    text::text(run)
}

/// Resources of the target's machine at a quarter, half, three quarters and all of the clients, for
/// a terminal; empty: its process was not observed.
pub fn sizes(run: &Run) -> String {
    sizes::sizes(run)
}

/// The run's figures over time: a row a moment, a column a figure, as they were read.
pub fn csv(run: &Run) -> String {
    csv::csv(&run.series)
}

/// The run as a file.
pub fn json(run: &Run) -> String {
    file::json(run)
}

/// Reads a file that [`json`] wrote, or says in words what is wrong with it.
pub fn read(text: &str) -> Result<Run, String> {
    file::read(text)
}

/// Figures at this moment, in Prometheus' text format.
pub fn prometheus(counts: &Counts, reading: &Reading) -> String {
    prometheus::prometheus(counts, reading)
}

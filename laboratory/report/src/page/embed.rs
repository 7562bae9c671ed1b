//! The run itself inside its page, to be saved from there.
//!
//! The saved file is one that [`crate::read`] reads. If the whole run does not fit, its series has
//! fewer rows: of each stretch every figure keeps its lowest and its highest value.

use crate::{escape, file};
use lab::run::Run;
use lab::series::{FigureKind, Reading, Series};

/// The run as JSON for a `script` element, in at most so many bytes, and the rows that its series
/// has there. `None`: not even a run without a series has room.
pub fn embedded(run: &Run, bytes_max: usize) -> Option<(String, usize)> {
    let written = |run: &Run| escape::json_in_script(&file::json(run));
    let bare = without_series(run);
    let floor = written(&bare).len();
    if floor > bytes_max {
        return None;
    }
    let rows = run.series.len();
    let whole = written(run);
    if whole.len() <= bytes_max {
        return Some((whole, rows));
    }
    // So many rows as would fit, were all of one size, and fewer where they are not.
    let mut rows =
        (rows as f64 * (bytes_max - floor) as f64 / (whole.len() - floor) as f64) as usize;
    loop {
        let series = fewer(&run.series, rows);
        let rows_there = series.len();
        let json = written(&Run { series, ..bare.clone() });
        if json.len() <= bytes_max {
            return Some((json, rows_there));
        }
        rows = rows * 3 / 4;
    }
}

fn without_series(run: &Run) -> Run {
    let mut run = run.clone();
    run.series = Series::default();
    run
}

/// A series of about so many rows: two a stretch, with the lowest and the highest of each figure.
fn fewer(series: &Series, rows_max: usize) -> Series {
    let mut out = Series::default();
    let (times, stages) = (series.times_ms(), series.stages());
    if rows_max == 0 || times.is_empty() {
        return out;
    }
    let columns: Vec<_> =
        series.columns().iter().map(|column| (column, series.values(&column.name))).collect();
    let stretch = times.len().div_ceil((rows_max / 2).max(1)).max(2);
    // A stretch is of one stage, unless there are too many of them.
    let changes = stages.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let crowded = changes > rows_max / 4;
    let mut from = 0;
    while from < times.len() {
        let next = (from..times.len()).take(stretch);
        let to = from + next.take_while(|&row| crowded || stages[row] == stages[from]).count();
        let mut readings = [Reading::default(), Reading::default()];
        for (column, cells) in &columns {
            let read = (from..to).filter(|&row| cells[row].is_some());
            let key = |row: &usize| cells[*row].unwrap_or(0.0);
            let low = read.clone().min_by(|a, b| key(a).total_cmp(&key(b)));
            let high = read.max_by(|a, b| key(a).total_cmp(&key(b)));
            let Some((low, high)) = low.zip(high) else { continue };
            for (reading, row) in readings.iter_mut().zip([low.min(high), low.max(high)]) {
                reading.set((*column).clone(), shorter(column.kind, key(&row)));
            }
        }
        out.push(times[from], stages[from], &readings[0]);
        if to - from > 1 {
            out.push(times[to - 1], stages[from], &readings[1]);
        }
        from = to;
    }
    out
}

/// A value with six digits that matter; of what only grows, whole, for its growth is what counts.
fn shorter(kind: FigureKind, value: f64) -> f64 {
    match kind {
        FigureKind::Total => value,
        _ => format!("{value:.5e}").parse().unwrap_or(value),
    }
}

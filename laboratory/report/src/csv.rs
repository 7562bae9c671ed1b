//! Figures over time as rows of comma-separated values (RFC 4180).
//!
//! A row a moment, a column a figure; values as they were read, so totals go on growing. A cell
//! is empty where a figure was not read.

use crate::escape;
use lab::series::Series;

/// The rows, the names of the columns first.
pub fn csv(series: &Series) -> String {
    let names = series.columns().iter().map(|column| escape::cell(&column.name));
    let mut head = vec!["at_ms".to_owned(), "stage".to_owned()];
    head.extend(names);
    let mut out = head.join(",") + "\r\n";
    let columns: Vec<&[Option<f64>]> =
        series.columns().iter().map(|column| series.values(&column.name)).collect();
    let moments = series.times_ms().iter().zip(series.stages());
    for (row, (at_ms, stage)) in moments.enumerate() {
        out.push_str(&format!("{at_ms},{stage}"));
        for cells in &columns {
            out.push(',');
            if let Some(value) = cells.get(row).copied().flatten() {
                out.push_str(&value.to_string());
            }
        }
        out.push_str("\r\n");
    }
    out
}

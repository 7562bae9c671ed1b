//! Figures that have no chart of their own: a row each, with a small drawing.

use super::plot;
use super::source::FigureSource;
use super::tables::more;
use super::thin::{self, Point};
use crate::{escape, figure};
use lab::series::{Column, FigureKind};
use std::fmt::Write;

/// Points of a small drawing, at most.
const POINTS_MAX: usize = 60;
/// Rows of a table, at most.
const ROWS_MAX: usize = 120;

/// Words in the names of counters that should not rise.
const TROUBLE: &[&str] = &[
    "drop",
    "overflow",
    "retransmit",
    "timeout",
    "fail",
    "abort",
    "discard",
    "error",
    "reset",
    "squeezed",
    "prune",
    "pressure",
    "oom",
    "full",
    "no_route",
    "too_big",
    "throttled",
];

/// Figures that only grow, those that grew at all: those that should not first, then by growth.
pub fn counters(out: &mut String, source: &FigureSource, columns: &[&Column], to_s: f64) {
    let mut rows: Vec<(f64, &Column)> =
        columns.iter().map(|column| (source.growth(column), *column)).collect();
    rows.retain(|(growth, _)| *growth > 0.0);
    rows.sort_by(|a, b| is_trouble(b.1).cmp(&is_trouble(a.1)).then(b.0.total_cmp(&a.0)));
    if rows.is_empty() {
        out.push_str("<p>No counter rose.</p>");
        return;
    }
    out.push_str(
        "<div class=\"scroll\"><table class=\"sparks\"><thead><tr><th>counter</th>\
         <th class=\"n\">rose by</th><th class=\"n\">most a second</th><th>over the run</th></tr>\
         </thead><tbody>",
    );
    for (growth, column) in rows.iter().take(ROWS_MAX) {
        let points = source.points(&column.name);
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
        let _ = write!(
            out,
            "<tr><th{}>{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            if is_trouble(column) { " class=\"warn\"" } else { "" },
            escape::html_line(&column.name, 100),
            figure::of(column.unit, *growth),
            figure::of(column.unit, most),
            drawing(&points, to_s),
        );
    }
    out.push_str("</tbody></table></div>");
    more(out, rows.len(), ROWS_MAX, "figures");
}

/// Other figures that changed.
pub fn others(out: &mut String, source: &FigureSource, columns: &[&Column], to_s: f64) {
    let mut rows = Vec::new();
    for column in columns {
        let points = source.points(&column.name);
        let values = || points.iter().map(|point| point.1);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        if most > least || (column.kind == FigureKind::Total && most > 0.0) {
            rows.push((*column, points, least, most));
        }
    }
    if rows.is_empty() {
        out.push_str("<p>No figure changed.</p>");
        return;
    }
    out.push_str(
        "<div class=\"scroll\"><table class=\"sparks\"><thead><tr><th>figure</th>\
         <th class=\"n\">least</th><th class=\"n\">most</th><th class=\"n\">at the end</th>\
         <th>over the run</th></tr></thead><tbody>",
    );
    for (column, points, least, most) in rows.iter().take(ROWS_MAX) {
        let per = if column.kind == FigureKind::Total { "/s" } else { "" };
        let last = points.last().map_or(0.0, |point| point.1);
        let [least, most, last] =
            [*least, *most, last].map(|value| figure::of(column.unit, value) + per);
        let _ = write!(
            out,
            "<tr><th>{}</th><td class=\"n\">{least}</td><td class=\"n\">{most}</td>\
             <td class=\"n\">{last}</td><td>{}</td></tr>",
            escape::html_line(&column.name, 100),
            drawing(points, to_s),
        );
    }
    out.push_str("</tbody></table></div>");
    more(out, rows.len(), ROWS_MAX, "figures");
}

fn is_trouble(column: &Column) -> bool {
    TROUBLE.iter().any(|word| column.name.contains(word))
}

fn drawing(points: &[Point], to_s: f64) -> String {
    let most = points.iter().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let least = points.iter().map(|point| point.1).fold(0.0, f64::min);
    let mut path = String::new();
    for (at, value) in thin::thin(points, POINTS_MAX) {
        let across = (at / to_s.max(0.1) * 200.0).round();
        let up = 20.0 - ((value - least) / (most - least) * 20.0 * 10.0).round() / 10.0;
        path.push_str(if path.is_empty() { "M" } else { " " });
        let _ = write!(path, "{} {}", plot::number(across), plot::number(up));
    }
    format!(
        "<svg class=\"spark\" viewBox=\"0 -1 200 22\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\"><path d=\"{path}\"/></svg>"
    )
}

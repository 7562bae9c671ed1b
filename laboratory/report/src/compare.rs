//! Two sets of runs side by side, with confidence bands: as a page and for a terminal.
//!
//! This module judges nothing: its input says whether a figure changed, and for the better.

use crate::grid::{Grid, wrapped};
use crate::{escape, figure, page};
use lab::compare::{Better, Comparison, ComparisonRow};

/// Rows and remarks that are shown, at most.
const ROWS_MAX: usize = 400;
/// Characters of a name and of a sentence, at most.
const NAME_CHARS_MAX: usize = 80;
const SENTENCE_CHARS_MAX: usize = 600;
/// Columns of a terminal, at most.
const WIDTH: usize = 120;
/// Shares of change that the drawing goes over, at least and at most.
const SCALE: (f64, f64) = (0.05, 1.0);

/// The comparison for a terminal: at most 120 columns, no colours.
pub fn text(comparison: &Comparison) -> String {
    let [before, after] =
        [0, 1].map(|side: usize| escape::line(&comparison.names[side], NAME_CHARS_MAX));
    let mut out = format!("before  {before}\nafter   {after}\n");
    for what in comparison.differs.iter().take(ROWS_MAX) {
        let what = format!("differs: {}", escape::line(what, SENTENCE_CHARS_MAX));
        out.push_str(&wrapped(&what, "  ", WIDTH));
    }
    out.push_str(&more(comparison.differs.len(), "  ", "\n"));
    out.push('\n');
    out.push_str(&wrapped(&escape::line(&comparison.summary, SENTENCE_CHARS_MAX), "", WIDTH));
    if !comparison.rows.is_empty() {
        let names = ["figure", ">before", ">after", ">change", ">with 95 % between", "which is"];
        let mut grid = Grid::new(&names);
        for row in comparison.rows.iter().take(ROWS_MAX) {
            grid.row(vec![
                escape::line(&row.figure, NAME_CHARS_MAX),
                escape::line(&row.shown[0], 30),
                escape::line(&row.shown[1], 30),
                row.change.map_or("–".to_owned(), signed),
                band(row).map_or("–".to_owned(), between),
                row.better.name().to_owned(),
            ]);
        }
        out.push('\n');
        out.push_str(&grid.text(WIDTH));
        out.push_str(&more(comparison.rows.len(), "  ", "\n"));
    }
    out.replace(figure::SPACE, " ")
}

/// The comparison as a page that needs nothing but itself.
pub fn html(comparison: &Comparison) -> String {
    let name = |side: usize| escape::html_line(&comparison.names[side], NAME_CHARS_MAX);
    let count = |better: Better| comparison.rows.iter().filter(|r| r.better == better).count();
    let (worse, better) = (count(Better::Worse), count(Better::Better));
    let class = match (worse, better) {
        (0, 0) => "same",
        (0, _) => "passed",
        _ => "failed",
    };
    let mut out = page::head(&format!("{} and {}", comparison.names[0], comparison.names[1]));
    out.push_str(&format!(
        "<main data-to=\"1\"><header class=\"banner {class}\"><p class=\"kind\">Two loads side by \
         side</p><h1>{} → {}</h1><p class=\"verdict\"><strong>{better} better, {worse} worse.\
         </strong> {}</p></header>",
        name(0),
        name(1),
        escape::html_prose(&comparison.summary, SENTENCE_CHARS_MAX),
    ));
    if !comparison.differs.is_empty() {
        out.push_str("<h2>What else differs</h2><ul>");
        for what in comparison.differs.iter().take(ROWS_MAX) {
            let what = escape::html_prose(what, SENTENCE_CHARS_MAX);
            out.push_str(&format!("<li class=\"warn\">{what}</li>"));
        }
        out.push_str("</ul>");
        out.push_str(&more(comparison.differs.len(), "<p class=\"dim\">", "</p>"));
    }
    rows(&mut out, comparison);
    out.push_str("</main></body></html>\n");
    out
}

fn rows(out: &mut String, comparison: &Comparison) {
    if comparison.rows.is_empty() {
        out.push_str("<p>No figures were compared.</p>");
        return;
    }
    let bands = comparison.rows.iter().filter_map(band).flatten().map(f64::abs);
    let scale = bands.fold(SCALE.0, f64::max).min(SCALE.1);
    out.push_str(&format!(
        "<h2>Figures</h2><div class=\"scroll\"><table class=\"ladder\"><thead><tr><th>figure</th>\
         <th class=\"n\">before</th><th class=\"n\">after</th><th class=\"n\">change</th>\
         <th>95 % confidence, ± {}</th><th></th><th>made from</th></tr></thead><tbody>",
        figure::share(scale)
    ));
    for row in comparison.rows.iter().take(ROWS_MAX) {
        let class = match row.better {
            Better::Worse => "bad",
            Better::Better => "ok",
            Better::Differs => "warn",
            Better::NoDifference => "dim",
        };
        let band = band(row).map_or("not known".to_owned(), between);
        out.push_str(&format!(
            "<tr><th title=\"{}\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"band-cell\">{}\
             <span class=\"dim\">{band}</span></td>\
             <td class=\"n {class}\">{}</td><td class=\"dim\">{}</td></tr>",
            escape::html_line(&row.meaning, SENTENCE_CHARS_MAX),
            escape::html_line(&row.figure, NAME_CHARS_MAX),
            escape::html_line(&row.shown[0], 30),
            escape::html_line(&row.shown[1], 30),
            row.change.map_or("–".to_owned(), signed),
            drawing(row, scale, class),
            row.better.name(),
            escape::html_line(&row.method, SENTENCE_CHARS_MAX),
        ));
    }
    out.push_str("</tbody></table></div>");
    out.push_str(&more(comparison.rows.len(), "<p class=\"dim\">", "</p>"));
    out.push_str(
        "<p class=\"dim\">A figure is called better or worse when \
                  the whole interval lies on one side of nothing (the line in the middle).</p>",
    );
}

/// How many rows or remarks are not shown, between these; nothing if all are.
fn more(all: usize, begin: &str, end: &str) -> String {
    match all.checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        Some(more) => format!("{begin}{more} more are not shown.{end}"),
        None => String::new(),
    }
}

/// The interval and the change as a bar around nothing.
fn drawing(row: &ComparisonRow, scale: f64, class: &str) -> String {
    let at = |share: f64| 100.0 + (share / scale).clamp(-1.0, 1.0) * 98.0;
    let mut inner = String::from("<path class=\"axis\" d=\"M100 0v18\"/>");
    if let Some([low, high]) = band(row) {
        let (from, to) = (at(low), at(high));
        inner.push_str(&format!("<path class=\"{class}\" d=\"M{from:.1} 9H{to:.1}\"/>"));
    }
    if let Some(change) = row.change.filter(|change| change.is_finite()) {
        inner.push_str(&format!(
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"9\" r=\"3.5\"/>",
            at(change)
        ));
    }
    format!("<svg class=\"bar\" viewBox=\"0 0 200 18\" aria-hidden=\"true\">{inner}</svg>")
}

fn signed(share: f64) -> String {
    if !share.is_finite() {
        return "–".to_owned();
    }
    let text = figure::share(share.abs());
    match share {
        share if share > 0.0 => format!("+{text}"),
        share if share < 0.0 => format!("−{text}"),
        _ => text,
    }
}

fn between([low, high]: [f64; 2]) -> String {
    format!("{} to {}", signed(low), signed(high))
}

/// The interval as shares of the first value; `None`: there is none, or of nothing.
fn band(row: &ComparisonRow) -> Option<[f64; 2]> {
    let whole = row.values[0].abs();
    let interval = row.interval?;
    let band = [interval.low, interval.high].map(|end| end / whole);
    band.iter().all(|end| end.is_finite()).then_some(band)
}

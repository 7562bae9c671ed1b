//! A run as a page of HTML that needs nothing but itself.
//!
//! The page is whole without its script: charts are drawn, tables are written. The script adds
//! what moves: values under the cursor, zoom, hiding a line, saving the run. Every list has a
//! limit, every text from outside is escaped and cut, and what is left of the page's bytes is for
//! the run itself.

mod axis;
mod clients;
mod embed;
mod heat;
mod hosts;
mod ladder;
mod latency;
mod plot;
mod source;
mod sparks;
mod tables;
mod thin;
mod top;

use crate::{PAGE_BYTES_MAX, escape, figure, summary};
use lab::run::{Gravity, Run};
use lab::series::{Column, FigureKind};
use plot::{Plot, Scenery};
use source::FigureSource;
use std::fmt::Write;

/// The page's style.
const STYLE: &str = include_str!("page/style.css");
/// The page's script.
const SCRIPT: &str = include_str!("page/script.js");
/// Bytes of all lines of all charts, about, at most; and points of one line, at least and at most.
const LINES_BYTES_MAX: usize = 1_400_000;
const POINTS_MIN: usize = 40;
const POINTS_MAX: usize = 700;
/// Bytes of a point as it is written, about.
const POINT_BYTES: usize = 14;
/// Marks and red stretches in the charts, at most.
const MARKS_MAX: usize = 300;
const HOT_MAX: usize = 12;
const HOT_SHARE_MAX: f64 = 0.6;

/// The page.
pub fn html(run: &Run) -> String {
    let mut out = head(&run.name);
    let to_s = extent_s(run);
    toolbar(&mut out, run, to_s);
    let _ = write!(out, "<main data-to=\"{}\" style=\"--x0:0;--w:{0}\">", plot::number(to_s));
    top::banner(&mut out, run);
    top::summary(&mut out, run);
    top::findings(&mut out, run);
    ladder::stages(&mut out, run);
    ladder::sent(&mut out, run);
    charts(&mut out, run, to_s);
    tables::environment(&mut out, run);
    tables::notes_and_plan(&mut out, run);
    tables::definitions(&mut out, run);
    foot(&mut out, run);
    out
}

/// The first lines of a page: its style, and the promise that it fetches nothing.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{} · Holdline load</title><style>{STYLE}</style></head><body>\n",
        escape::html_line(title, top::NAME_CHARS_MAX)
    )
}

/// Seconds that the charts go over.
fn extent_s(run: &Run) -> f64 {
    let last = run.series.times_ms().last().copied().unwrap_or(0);
    let stage = run.stages.last().map_or(0, |stage| stage.to_ms);
    (run.took_ms.max(last).max(stage) as f64 / 1_000.0).max(1.0)
}

fn toolbar(out: &mut String, run: &Run, to_s: f64) {
    out.push_str(
        "<nav aria-label=\"Report\"><div class=\"links\"><a href=\"#summary\">Summary</a>\
         <a href=\"#findings\">Findings</a><a href=\"#stages\">Stages</a>\
         <a href=\"#charts\">Charts</a><a href=\"#environment\">Environment</a>\
         <a href=\"#definitions\">Definitions</a></div>\
         <div class=\"tools script\"><label>Time <select id=\"zoom\">",
    );
    let _ = write!(out, "<option value=\"0 {}\">whole run</option>", plot::number(to_s));
    for stage in run.stages.iter().take(ladder::STAGES_MAX) {
        let [from, to] = [stage.from_ms, stage.to_ms].map(|ms| plot::number(ms as f64 / 1_000.0));
        let name = escape::html_line(&stage.name, 40);
        let _ = write!(out, "<option value=\"{from} {to}\">{name}</option>");
    }
    out.push_str(
        "</select></label><button type=\"button\" id=\"whole\" disabled>Whole run</button>\
         <button type=\"button\" id=\"scheme\">Light or dark</button>\
         <button type=\"button\" class=\"save\">Save the run</button></div></nav>\n",
    );
}

/// A heading with its charts.
type Chapter = (&'static str, &'static str, Vec<Plot>);

fn charts(out: &mut String, run: &Run, to_s: f64) {
    let source = FigureSource::new(&run.series);
    let chapters = chapters(run, &source);
    let lines: usize = chapters.iter().flat_map(|(_, _, plots)| plots).map(|p| p.lines.len()).sum();
    let points = (LINES_BYTES_MAX / POINT_BYTES / lines.max(1)).clamp(POINTS_MIN, POINTS_MAX);
    let scenery = scenery(run, to_s);
    out.push_str(
        "<section id=\"charts\"><h2>Charts</h2><p class=\"hint script\">Point at a chart \
                  to read all of them at that moment. Drag to zoom, double-click for the whole \
                  run. Click a name to hide its line. With the keyboard: ← → move, + − zoom, 0 \
                  shows the whole run.</p>",
    );
    if run.series.is_empty() {
        out.push_str("<p>The run has no figures over time.</p>");
    }
    for (id, title, plots) in &chapters {
        let _ = write!(out, "<section id=\"{id}\"><h3>{title}</h3>");
        match *id {
            "distributions" => tables::times(out, run),
            "agents" => tables::agents(out, run),
            _ => {}
        }
        out.push_str("<div class=\"charts\">");
        for plot in plots {
            out.push_str(&plot.html(&scenery, points));
        }
        out.push_str("</div>");
        if *id == "errors" {
            tables::causes(out, run);
            tables::codes(out, run);
            tables::accounts(out, run);
            tables::figures(out, run);
        }
        out.push_str("</section>");
    }
    rest(out, &source, to_s);
    out.push_str("</section>");
}

/// Every chart there is something for, under its heading.
fn chapters(run: &Run, source: &FigureSource) -> Vec<Chapter> {
    let names: Vec<String> = run.agents.iter().map(|agent| agent.name.clone()).collect();
    let mut errors = vec![clients::errors(source, run)];
    if errors[0].lines.is_empty() {
        errors.clear();
    }
    let chapters = vec![
        ("connections", "Connections", clients::connections(source)),
        ("traffic", "Messages and bytes", clients::traffic(source)),
        ("times", "Times over the run", latency::over_time(source, run)),
        ("distributions", "Distributions of times, corrected and raw", latency::curves(run)),
        ("errors", "Errors", errors),
        ("heartbeats", "Heartbeats", clients::heartbeats(source)),
        ("target", "The target's machine and process", hosts::of(source, "target")),
        ("tester", "The tester's machine and process", hosts::of(source, "tester")),
        ("redis", "Redis", hosts::redis(source)),
        ("agents", "Agents", hosts::agents(source, &names)),
    ];
    let kept = |(id, title, mut plots): Chapter| {
        plots.retain(|plot| !plot.lines.is_empty() || plot.heat.is_some());
        arrange(&mut plots);
        let stays = match id {
            "connections" | "errors" => true,
            "agents" => !run.agents.is_empty(),
            _ => !plots.is_empty(),
        };
        stays.then_some((id, title, plots))
    };
    chapters.into_iter().filter_map(kept).collect()
}

/// Wide charts first, and no half of a row empty.
fn arrange(plots: &mut [Plot]) {
    plots.sort_by_key(|plot| !plot.wide);
    let narrow = plots.iter().filter(|plot| !plot.wide).count();
    if let Some(first) = plots.iter_mut().find(|plot| narrow % 2 == 1 && !plot.wide) {
        first.wide = true;
    }
}

/// The figures that have no chart.
fn rest(out: &mut String, source: &FigureSource, to_s: f64) {
    let rest = source.rest();
    let (kernel, others): (Vec<&Column>, Vec<&Column>) =
        rest.into_iter().partition(|column| hosts::is_kernels(column));
    out.push_str("<section id=\"kernel\"><h3>Kernel counters that rose</h3>");
    sparks::counters(out, source, &kernel, to_s);
    out.push_str("</section>");
    let changed = others
        .into_iter()
        .filter(|column| column.kind != FigureKind::Total || source.growth(column) > 0.0);
    let (own, others): (Vec<&Column>, Vec<&Column>) =
        changed.partition(|column| column.name.starts_with("server."));
    if !own.is_empty() {
        out.push_str("<section id=\"server\"><h3>The server's own metrics</h3>");
        sparks::others(out, source, &own, to_s);
        out.push_str("</section>");
    }
    let _ = write!(
        out,
        "<section id=\"others\"><details><summary>All other figures ({})</summary>",
        others.len()
    );
    sparks::others(out, source, &others, to_s);
    out.push_str("</details></section>");
}

/// Stages, findings and marks behind the charts.
fn scenery(run: &Run, to_s: f64) -> Scenery {
    let (mut plain, mut told) = (String::new(), String::new());
    let place = |from_ms: u64, to_ms: u64| {
        let [from, long] =
            [from_ms, to_ms.saturating_sub(from_ms)].map(|ms| plot::number(ms as f64 / 1_000.0));
        format!("style=\"--a:{from};--l:{long}\"")
    };
    for (nth, stage) in run.stages.iter().take(ladder::STAGES_MAX).enumerate() {
        let class = if nth % 2 == 1 { "band odd" } else { "band" };
        let place = place(stage.from_ms, stage.to_ms);
        let name = escape::html_line(&stage.name, 40);
        let _ = write!(plain, "<i class=\"{class}\" {place}></i>");
        let _ = write!(told, "<i class=\"{class}\" {place} title=\"{name}\"><u>{name}</u></i>");
    }
    // What lasts for most of the run would tell nothing by its colour.
    let is_part = |from_ms: u64, to_ms: u64| {
        (to_ms.saturating_sub(from_ms) as f64) < HOT_SHARE_MAX * to_s * 1_000.0
    };
    let hot = run.findings.iter().filter(|finding| {
        finding.gravity >= Gravity::Limit && is_part(finding.from_ms, finding.to_ms)
    });
    let first = summary::first_limit(run);
    for finding in hot.take(HOT_MAX) {
        let place = place(finding.from_ms, finding.to_ms);
        let _ = write!(plain, "<i class=\"hot\" {place}></i>");
        let what = escape::html_line(&finding.what, 120);
        let is_first = first.is_some_and(|first| std::ptr::eq(first, finding));
        let words = if is_first { "<u>first limit</u>" } else { "" };
        let _ = write!(told, "<i class=\"hot\" {place} title=\"{what}\">{words}</i>");
    }
    let every = run.notes.len().div_ceil(MARKS_MAX).max(1);
    for note in run.notes.iter().step_by(every) {
        let words = format!("{} {}", figure::clock(note.at_ms), note.text);
        let words = escape::html_line(&words, 120);
        let _ = write!(told, "<i class=\"mark\" {} title=\"{words}\"></i>", place(note.at_ms, 0));
    }
    Scenery { to_s, told, plain }
}

/// The page's end: the run itself, and the script.
fn foot(out: &mut String, run: &Run) {
    let end = format!("</main><script>{SCRIPT}</script></body></html>\n");
    let room = PAGE_BYTES_MAX.saturating_sub(out.len() + end.len() + 1_000);
    let version = escape::html_line(&run.environment.version, 60);
    out.push_str("<footer><p>");
    match embed::embedded(run, room) {
        Some((json, rows)) => {
            let whole = if rows == run.series.len() {
                "the whole run".to_owned()
            } else {
                format!(
                    "the run with {rows} of its {} moments, lowest and highest values kept",
                    run.series.len()
                )
            };
            let _ = write!(
                out,
                "<button type=\"button\" class=\"save script\">Save the run</button> This page \
                 holds {whole}; what is saved is a file for <code>holdline load report</code> and \
                 <code>compare</code>. {version}</p></footer>\
                 <script type=\"application/json\" id=\"run\">{json}</script>"
            );
        }
        None => out.push_str("The run itself has no room in this page.</p></footer>"),
    }
    out.push_str(&end);
}

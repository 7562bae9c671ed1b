//! The stages side by side: the ladder of report 001, with bars behind its figures.
//!
//! A bar is as long as the figure is beside the column's largest.

use super::tables::more;
use super::top::{self, NAME_CHARS_MAX, SENTENCE_CHARS_MAX};
use crate::{escape, figure, sending, summary};
use lab::run::{CheckResult, Run, StageRun};
use lab::timing::Timing;
use std::fmt::Write;

/// Stages that are shown, at most; and of those that were not run.
pub const STAGES_MAX: usize = 64;
const SKIPPED_MAX: usize = 40;
/// Stages that are worth bars, at least.
const BARS_MIN: usize = 3;

/// Values of a stage for bars.
struct Rung {
    bound_ms: Option<f64>,
    connect_us: Option<f64>,
    bind_us: Option<f64>,
    errors: Option<f64>,
    memory: Option<f64>,
}

impl Rung {
    fn of(run: &Run, stage: &StageRun) -> Rung {
        let p99 = |timing: Timing| {
            let times = &stage.counts.timings.of(timing).corrected;
            (!times.is_empty()).then(|| times.at(99.0) as f64)
        };
        Rung {
            bound_ms: summary::all_bound_ms(stage).map(|ms| ms as f64),
            connect_us: p99(Timing::Connect),
            bind_us: p99(Timing::Bind),
            errors: Some(stage.counts.causes.errors() as f64),
            memory: summary::memory_a_connection(run, stage),
        }
    }
}

/// Stages that had a number of messages to send.
pub fn sent(out: &mut String, run: &Run) {
    let rows = sending::rows(run);
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "<section id=\"sending\"><h2>Sending</h2><div class=\"scroll\"><table><thead><tr>",
    );
    for (place, heading) in sending::HEADINGS.iter().enumerate() {
        let class = if place == 0 { "" } else { " class=\"n\"" };
        let _ = write!(out, "<th{class}>{heading}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows.iter().take(STAGES_MAX) {
        let [name, cells @ ..] = row;
        let _ = write!(out, "<tr><th>{}</th>", escape::html_line(name, NAME_CHARS_MAX));
        for cell in cells {
            let _ = write!(out, "<td class=\"n\">{cell}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    more(out, rows.len(), STAGES_MAX, "stages");
    let _ = write!(out, "<p class=\"dim\">{}</p></section>", sending::MEANING);
}

/// The stages: the ladder.
pub fn stages(out: &mut String, run: &Run) {
    out.push_str(
        "<section id=\"stages\"><h2>Stages</h2><div class=\"scroll\"><table class=\"ladder\">\
         <thead><tr><th>stage</th><th>time</th><th class=\"n\">clients</th>\
         <th class=\"n\">online</th><th class=\"n\">all bound after</th>\
         <th class=\"n\">connect p50 / p99</th><th class=\"n\">bind p50 / p99</th>\
         <th class=\"n\">errors</th><th class=\"n\">memory a connection</th><th>rules</th></tr>\
         </thead><tbody>",
    );
    let shown = run.stages.iter().take(STAGES_MAX);
    let rungs: Vec<Rung> = shown.clone().map(|stage| Rung::of(run, stage)).collect();
    for (rung, stage) in rungs.iter().zip(shown) {
        stage_row(out, &rungs, rung, stage);
        if let Some(bytes) = summary::kernel_memory_a_connection(run, stage) {
            let bytes = figure::bytes(bytes);
            let _ = write!(out, "<br><span class=\"dim\">kernel {bytes}</span>");
        }
        let _ = write!(out, "</td><td>{}</td></tr>", verdict(&stage.checks));
    }
    for (name, why) in run.skipped.iter().take(SKIPPED_MAX) {
        let name = escape::html_line(name, NAME_CHARS_MAX);
        let why = escape::html_line(why, SENTENCE_CHARS_MAX);
        let _ = write!(
            out,
            "<tr class=\"skipped\"><th>{name}</th><td colspan=\"9\">not run: {why}</td></tr>"
        );
    }
    out.push_str("</tbody></table></div>");
    more(out, run.stages.len(), STAGES_MAX, "stages");
    more(out, run.skipped.len(), SKIPPED_MAX, "stages that were not run");
    out.push_str("<details><summary>All rules</summary>");
    for stage in run.stages.iter().take(STAGES_MAX).filter(|stage| !stage.checks.is_empty()) {
        let _ = write!(out, "<h4>{}</h4>", escape::html_line(&stage.name, NAME_CHARS_MAX));
        top::checks(out, &stage.checks);
    }
    if !run.checks.is_empty() {
        out.push_str("<h4>The whole run</h4>");
        top::checks(out, &run.checks);
    }
    out.push_str("</details></section>");
}

/// How far a figure's bar goes, as a style; nothing where there is nothing to compare.
fn bar(rungs: &[Rung], of: &Rung, figure: fn(&Rung) -> Option<f64>) -> String {
    let most = rungs.iter().filter_map(figure).fold(0.0, f64::max);
    match figure(of) {
        Some(value) if rungs.len() >= BARS_MIN && most > 0.0 && value > 0.0 => {
            format!(" style=\"--p:{:.0}\"", value / most * 100.0)
        }
        _ => String::new(),
    }
}

fn stage_row(out: &mut String, rungs: &[Rung], of: &Rung, stage: &StageRun) {
    let counts = &stage.counts;
    let times = |timing: Timing| summary::two(&counts.timings.of(timing).corrected);
    let bound = of.bound_ms.map_or_else(
        || if stage.clients == 0 { "–".to_owned() } else { "never".to_owned() },
        |ms| figure::micros(ms * 1_000.0),
    );
    let errors = counts.causes.errors();
    let _ = write!(
        out,
        "<tr><th>{}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\"{}>{bound}</td><td class=\"n\"{}>{}</td><td class=\"n\"{}>{}</td>\
         <td class=\"n{}\"{}>{}</td><td class=\"n\"{}>{}",
        escape::html_line(&stage.name, NAME_CHARS_MAX),
        top::when(stage.from_ms, stage.to_ms),
        figure::count(stage.clients as f64),
        figure::count(counts.online as f64),
        bar(rungs, of, |rung| rung.bound_ms),
        bar(rungs, of, |rung| rung.connect_us),
        times(Timing::Connect),
        bar(rungs, of, |rung| rung.bind_us),
        times(Timing::Bind),
        if errors > 0 { " bad" } else { "" },
        bar(rungs, of, |rung| rung.errors),
        figure::count(errors as f64),
        bar(rungs, of, |rung| rung.memory),
        of.memory.map_or("–".to_owned(), figure::bytes),
    );
}

/// How many rules held, and which did not.
fn verdict(checks: &[CheckResult]) -> String {
    let held = checks.iter().filter(|check| check.held == Some(true)).count();
    if checks.is_empty() {
        return "<span class=\"dim\">none</span>".to_owned();
    }
    if held == checks.len() {
        return format!("<span class=\"ok\">{held} of {held} held</span>");
    }
    let mut out = format!("<span class=\"bad\">{held} of {} held</span>", checks.len());
    for check in checks.iter().filter(|check| check.held != Some(true)).take(3) {
        let _ = write!(
            out,
            "<br><code>{}</code> <span class=\"dim\">it was {}</span>",
            escape::html_line(&check.rule, 80),
            escape::html_line(&check.shown(), 40),
        );
    }
    out
}

//! A run for a terminal: what one wants to know before opening the page.
//!
//! At most 100 columns, no colours, no control characters but the ends of lines.

use crate::grid::{Grid, wrapped};
use crate::summary::{self, RunVerdict};
use crate::{escape, figure, sending};
use lab::cause::{Cause, Phase};
use lab::run::{Balance, Finding, Gravity, Run, StageRun};
use lab::timing::{Spectrum, Timing};

/// Columns, at most.
const WIDTH: usize = 100;
/// Rows of one list, at most.
const ROWS_MAX: usize = 40;
/// Characters of a sentence from outside, at most.
const SENTENCE_CHARS_MAX: usize = 600;

/// The text.
pub fn text(run: &Run) -> String {
    let mut out = String::new();
    head(&mut out, run);
    findings(&mut out, run);
    stages(&mut out, run);
    sent(&mut out, run);
    times(&mut out, run);
    causes(&mut out, run);
    codes(&mut out, run);
    sums(&mut out, run);
    rules(&mut out, run);
    out.replace(figure::SPACE, " ")
}

fn head(out: &mut String, run: &Run) {
    let word = match summary::verdict(run) {
        RunVerdict::Passed => "PASSED",
        RunVerdict::Failed => "FAILED",
        RunVerdict::Invalid => "NOT VALID",
    };
    out.push_str(&format!("{word}  {}\n", escape::line(&run.name, 80)));
    if summary::verdict(run) == RunVerdict::Invalid {
        out.push_str(&wrapped(RunVerdict::Invalid.word(), "", WIDTH));
        for why in run.saturation.iter().take(ROWS_MAX) {
            paragraph(out, why, "  ");
        }
        more(out, run.saturation.len());
    }
    paragraph(out, &summary::why(run), "");
    out.push('\n');
    let written = run.summary.trim();
    let parts = if written.is_empty() {
        summary::sentences(run)
    } else {
        written.split("\n\n").take(8).map(str::to_owned).collect()
    };
    parts.iter().for_each(|part| paragraph(out, part, ""));
}

fn findings(out: &mut String, run: &Run) {
    let first = summary::first_limit(run);
    let Some(first) = first else {
        if !run.findings.is_empty() {
            out.push_str("\nFindings\n");
        }
        others(out, run, None);
        return;
    };
    out.push_str("\nFirst limit\n");
    finding(out, first);
    if run.findings.len() > 1 {
        out.push_str("\nOther findings\n");
    }
    others(out, run, Some(first));
}

fn others(out: &mut String, run: &Run, first: Option<&Finding>) {
    let mut others: Vec<&Finding> = run
        .findings
        .iter()
        .filter(|f| first.is_none_or(|first| !std::ptr::eq(*f, first)))
        .collect();
    others.sort_by_key(|finding| (std::cmp::Reverse(finding.gravity), finding.from_ms));
    others.iter().take(ROWS_MAX).for_each(|other| finding(out, other));
    more(out, others.len());
}

fn finding(out: &mut String, finding: &Finding) {
    let word = match finding.gravity {
        Gravity::Note => "note",
        Gravity::Warning => "warning",
        Gravity::Limit => "limit",
        Gravity::Invalid => "not valid",
    };
    let (from, to) = (figure::clock(finding.from_ms), figure::clock(finding.to_ms));
    let when = if from == to { from } else { format!("{from} to {to}") };
    let side = match finding.side.as_str() {
        "" => String::new(),
        side => format!(", {}", escape::line(side, 30)),
    };
    paragraph(out, &format!("{when}{side}, {word}: {}", finding.what), "  ");
    for (what, text) in [("evidence", &finding.evidence), ("remedy", &finding.remedy)] {
        if !text.is_empty() {
            paragraph(out, &format!("{what}: {text}"), "    ");
        }
    }
}

fn stages(out: &mut String, run: &Run) {
    if run.stages.is_empty() && run.skipped.is_empty() {
        return;
    }
    out.push_str("\nStages\n");
    let mut grid = Grid::new(&[
        "stage",
        ">clients",
        ">online",
        ">all bound",
        ">connect p50/p99",
        ">bind p50/p99",
        ">errors",
        ">a client",
        "rules",
    ]);
    run.stages.iter().take(ROWS_MAX).for_each(|stage| grid.row(stage_row(run, stage)));
    for (name, _) in run.skipped.iter().take(ROWS_MAX) {
        grid.row(vec![escape::line(name, 60), "not run".to_owned()]);
    }
    out.push_str(&grid.text(WIDTH));
    more(out, run.stages.len());
    for (name, why) in run.skipped.iter().take(ROWS_MAX) {
        paragraph(out, &format!("{} was not run: {why}", escape::line(name, 60)), "  ");
    }
    more(out, run.skipped.len());
}

fn stage_row(run: &Run, stage: &StageRun) -> Vec<String> {
    let held = stage.checks.iter().filter(|check| check.held == Some(true)).count();
    let times = |timing: Timing| {
        summary::two(&stage.counts.timings.of(timing).corrected).replace(" / ", "/")
    };
    let bound = summary::all_bound_ms(stage);
    let never = if stage.clients == 0 { "–" } else { "never" };
    vec![
        escape::line(&stage.name, 60),
        figure::count(stage.clients as f64),
        figure::count(stage.counts.online as f64),
        bound.map_or(never.to_owned(), |ms| figure::micros(ms as f64 * 1_000.0)),
        times(Timing::Connect),
        times(Timing::Bind),
        figure::count(stage.counts.causes.errors() as f64),
        summary::memory_a_connection(run, stage).map_or("–".to_owned(), figure::bytes),
        match (held, stage.checks.len()) {
            (_, 0) => "–".to_owned(),
            (held, all) if held == all => "held".to_owned(),
            (held, all) => format!("{held} of {all}"),
        },
    ]
}

fn sent(out: &mut String, run: &Run) {
    let rows = sending::rows(run);
    if rows.is_empty() {
        return;
    }
    out.push_str("\nSending\n");
    let headings = sending::HEADINGS.map(|heading| match heading {
        "stage" => heading.to_owned(),
        heading => format!(">{heading}"),
    });
    let mut grid = Grid::new(&headings.each_ref().map(String::as_str));
    rows.into_iter().take(ROWS_MAX).for_each(|row| grid.row(row.into()));
    out.push_str(&grid.text(WIDTH));
    paragraph(out, sending::MEANING, "  ");
}

fn times(out: &mut String, run: &Run) {
    if run.total.timings.iter().next().is_none() {
        return;
    }
    out.push_str("\nTimes (corrected: from the planned moment; raw: from the real one)\n");
    let mut grid =
        Grid::new(&["", "from", ">count", ">mean", ">p50", ">p90", ">p99", ">p99.9", ">longest"]);
    for (timing, timed) in run.total.timings.iter() {
        let both = timed.raw == timed.corrected;
        let from = if both { "both" } else { "corrected" };
        grid.row(time_row(timing.name(), from, &timed.corrected));
        if !both {
            grid.row(time_row("", "raw", &timed.raw));
        }
    }
    out.push_str(&grid.text(WIDTH));
}

fn time_row(name: &str, from: &str, times: &Spectrum) -> Vec<String> {
    let mut row = vec![name.to_owned(), from.to_owned(), figure::count(times.count() as f64)];
    let points = [50.0, 90.0, 99.0, 99.9].map(|percent| times.at(percent) as f64);
    let all = [times.mean()].into_iter().chain(points).chain([times.max() as f64]);
    row.extend(all.map(figure::micros));
    row
}

fn causes(out: &mut String, run: &Run) {
    let causes = &run.total.causes;
    let mut rows: Vec<(u64, Cause)> =
        Cause::ALL.iter().map(|&cause| (causes.all_of(cause), cause)).collect();
    rows.retain(|(count, _)| *count > 0);
    rows.sort_by_key(|(count, cause)| (!cause.is_error(), std::cmp::Reverse(*count)));
    if rows.is_empty() {
        return;
    }
    out.push_str("\nEnds by cause and side\n");
    let mut grid = Grid::new(&["cause", "side", ">ends", "phases"]);
    for (count, cause) in &rows {
        let phases = Phase::ALL.into_iter().map(|phase| (phase, causes.of(phase, *cause)));
        let phases = phases.filter(|(_, count)| *count > 0);
        let phases: Vec<String> = phases
            .map(|(phase, count)| format!("{} {}", phase.name(), figure::count(count as f64)))
            .collect();
        let count = figure::count(*count as f64);
        let side = run.side_of(*cause).name();
        grid.row(vec![cause.name().into(), side.into(), count, phases.join(", ")]);
    }
    out.push_str(&grid.text(WIDTH));
    for (_, cause) in rows.iter().filter(|(_, cause)| cause.is_error()) {
        let mut words = format!("{}: {}", cause.name(), cause.meaning());
        if !cause.setting().is_empty() {
            words.push_str(&format!(" Likely: {}.", cause.setting()));
        }
        if !cause.counter().is_empty() {
            words.push_str(&format!(" Counter: {}.", cause.counter()));
        }
        paragraph(out, &words, "  ");
    }
}

fn codes(out: &mut String, run: &Run) {
    if run.total.codes.is_empty() {
        return;
    }
    out.push_str("\nCodes of the protocol\n");
    let mut codes: Vec<_> = run.total.codes.iter().collect();
    codes.sort_by_key(|(code, count)| (std::cmp::Reverse(**count), code.as_str()));
    let mut grid = Grid::new(&["code", ">times"]);
    for (code, count) in codes.iter().take(ROWS_MAX) {
        grid.row(vec![escape::line(code, 80), figure::count(**count as f64)]);
    }
    out.push_str(&grid.text(WIDTH));
    more(out, codes.len());
}

fn sums(out: &mut String, run: &Run) {
    if run.total.accounts.is_empty() {
        return;
    }
    out.push_str("\nSums\n");
    for account in run.total.accounts.iter().take(ROWS_MAX) {
        let word = if account.agrees() { "agrees" } else { "DOES NOT AGREE" };
        paragraph(out, &format!("{word}: {}", proof(account)), "  ");
    }
    more(out, run.total.accounts.len());
}

fn rules(out: &mut String, run: &Run) {
    let stages = run.stages.iter().map(|stage| (stage.name.as_str(), &stage.checks));
    let all = stages.chain([("whole run", &run.checks)]);
    let mut grid = Grid::new(&["rule", "measured", "in"]);
    let mut broken = 0;
    for (of, checks) in all {
        for check in checks.iter().filter(|check| check.held != Some(true)) {
            broken += 1;
            if broken <= ROWS_MAX {
                let rule = escape::line(&check.rule, 60);
                grid.row(vec![rule, escape::line(&check.shown(), 30), escape::line(of, 40)]);
            }
        }
    }
    if broken > 0 {
        out.push_str("\nFailed rules\n");
        out.push_str(&grid.text(WIDTH));
        more(out, broken);
    }
}

/// A sum in one line: `attempts 431,233 = open 0 + ended 431,233`.
pub fn proof(account: &Balance) -> String {
    const PARTS_MAX: usize = 60;
    let count = |value: u64| figure::count(value as f64);
    let parts = account.parts.iter().filter(|(_, count)| *count > 0);
    let mut parts =
        parts.map(|(part, value)| format!("{} {}", escape::line(part, 60), count(*value)));
    let mut shown: Vec<String> = parts.by_ref().take(PARTS_MAX).collect();
    shown.extend(parts.next().map(|_| "…".to_owned()));
    let sum = account.parts.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let parts = if shown.is_empty() { "0".to_owned() } else { shown.join(" + ") };
    let equal = if account.agrees() { "=".to_owned() } else { format!("≠ {} =", count(sum)) };
    format!("{} {} {equal} {parts}", escape::line(&account.what, 60), count(account.total))
}

fn paragraph(out: &mut String, text: &str, indent: &str) {
    out.push_str(&wrapped(&escape::line(text, SENTENCE_CHARS_MAX), indent, WIDTH));
}

fn more(out: &mut String, all: usize) {
    if all > ROWS_MAX {
        out.push_str(&format!("  {} more are in the page.\n", all - ROWS_MAX));
    }
}

//! Summary of a run: a verdict, sentences without jargon, and a handful of figures.
//!
//! This module judges nothing that is not in the run already.

use crate::{escape, figure};
use lab::run::{CheckResult, Counts, Finding, Gravity, Run, StageRun};
use lab::timing::{Spectrum, Timing};

/// How a run ended, in a word and a sentence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunVerdict {
    /// Its rules held.
    Passed,
    /// A rule did not hold, or could not be known, or it did not come to its end.
    Failed,
    /// The tester itself was the limit.
    Invalid,
}

impl RunVerdict {
    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            RunVerdict::Passed => "Passed.",
            RunVerdict::Failed => "Failed.",
            RunVerdict::Invalid => "The tester was saturated, this result is not valid.",
        }
    }
}

/// How it ended.
pub fn verdict(run: &Run) -> RunVerdict {
    let invalid = run.findings.iter().any(|finding| finding.gravity == Gravity::Invalid);
    if !run.saturation.is_empty() || invalid {
        RunVerdict::Invalid
    } else if run.passed() {
        RunVerdict::Passed
    } else {
        RunVerdict::Failed
    }
}

/// Why that is so.
pub fn why(run: &Run) -> String {
    let checks: Vec<&CheckResult> = all_checks(run).collect();
    let held = checks.iter().filter(|check| check.held == Some(true)).count();
    let broken = checks.iter().filter(|check| check.held == Some(false)).count();
    let unknown = checks.len() - held - broken;
    let mut parts = Vec::new();
    match checks.len() {
        0 => parts.push("The plan had no rules".to_owned()),
        1 if held == 1 => parts.push("Its only rule passed".to_owned()),
        2 if held == 2 => parts.push("Both rules passed".to_owned()),
        all if held == all => parts.push(format!("All {all} rules passed")),
        all => parts.push(format!("{held} of {all} rules passed")),
    }
    if broken > 0 {
        let first = checks.iter().find(|check| check.held == Some(false));
        let rule = first.map_or("", |check| check.rule.as_str());
        let were = if broken == 1 { "failed" } else { "and others failed" };
        parts.push(format!("`{}` {were}", escape::line(rule, 80)));
    }
    if unknown > 0 {
        parts.push(format!("{unknown} could not be evaluated, which counts as a failure"));
    }
    if !run.finished {
        parts.push("the run ended before its plan was finished".to_owned());
    }
    parts.join("; ") + "."
}

/// All rules, those of the stages first.
pub fn all_checks(run: &Run) -> impl Iterator<Item = &CheckResult> {
    run.stages.iter().flat_map(|stage| &stage.checks).chain(&run.checks)
}

/// The limit that was met first: findings stand in the order in which they matter.
pub fn first_limit(run: &Run) -> Option<&Finding> {
    run.findings.iter().find(|finding| finding.gravity == Gravity::Limit)
}

/// Clients that were online at once, at most.
pub fn most_online(run: &Run) -> u64 {
    let online = run.series.values("clients.online").iter().flatten();
    online.fold(run.total.online as f64, |most, value| most.max(*value)) as u64
}

/// Clients that were planned to be there at once, at most.
pub fn most_planned(run: &Run) -> u64 {
    run.stages.iter().map(|stage| stage.clients).fold(run.total.planned, u64::max)
}

/// The sentences.
pub fn sentences(run: &Run) -> Vec<String> {
    let count = |value: u64| figure::count(value as f64);
    let took = figure::seconds(run.took_ms as f64 / 1_000.0);
    let total = &run.total;
    let (online, planned) = (most_online(run), most_planned(run));
    let target = run.target.first().map_or("the target", |target| target.as_str());
    let mut out = vec![format!(
        "{} had at most {} clients online at once, of {} planned. The run took {took}.",
        escape::line(target, 80),
        count(online),
        count(planned),
    )];
    let share = figure::share(total.bound as f64 / total.attempts.max(1) as f64);
    out.push(format!(
        "Of {} connection attempts {} ({share}) succeeded; {} connections failed or ended \
         unplanned.",
        count(total.attempts),
        count(total.bound),
        count(total.causes.errors()),
    ));
    out.extend(times(total));
    out.extend(traffic(total));
    if let Some(limit) = first_limit(run) {
        let (what, at) = (escape::line(&limit.what, 300), figure::clock(limit.from_ms));
        out.push(format!("The first limit was reached at {at}: {what}"));
    }
    out
}

/// The time that matters most to who calls.
fn times(total: &Counts) -> Option<String> {
    let times = &total.timings.of(Timing::Bind).corrected;
    let [p50, p99] = [50.0, 99.0].map(|percent| figure::micros(times.at(percent) as f64));
    let max = figure::micros(times.max() as f64);
    (!times.is_empty()).then(|| format!("Bind times: median {p50}, p99 {p99}, longest {max}."))
}

fn traffic(total: &Counts) -> Vec<String> {
    let mut out = Vec::new();
    let figure = |name: &str| total.figure(name);
    if figure("heartbeats.sent") > 0.0 {
        let (sent, lost) = (figure("heartbeats.sent"), figure("heartbeats.lost"));
        out.push(format!(
            "Of {} heartbeats {} were lost ({}) and {} were late.",
            figure::count(sent),
            figure::count(lost),
            figure::share(lost / sent),
            figure::count(figure("heartbeats.late")),
        ));
    }
    if figure("messages.sent") + figure("messages.received") > 0.0 {
        out.push(format!(
            "{} messages were sent and {} received; {} are missing, {} are duplicates.",
            figure::count(figure("messages.sent")),
            figure::count(figure("messages.received")),
            figure::count(figure("messages.missing")),
            figure::count(figure("messages.repeated")),
        ));
    }
    if figure("requests.sent") > 0.0 {
        out.push(format!(
            "Of {} requests {} were answered, {} of them with an error.",
            figure::count(figure("requests.sent")),
            figure::count(figure("requests.answered")),
            figure::count(figure("requests.errors")),
        ));
    }
    out
}

/// A handful of figures: what, how much, and what stands beside it.
pub fn tiles(run: &Run) -> Vec<(String, String, String)> {
    let count = |value: u64| figure::count(value as f64);
    let total = &run.total;
    let mut tiles = vec![(
        "Most online".to_owned(),
        count(most_online(run)),
        format!("of {} planned", count(most_planned(run))),
    )];
    let errors = total.causes.errors();
    let share = errors as f64 / total.attempts.max(1) as f64;
    let beside = format!("{} of {} attempts", figure::share(share), count(total.attempts));
    tiles.push(("Errors".to_owned(), count(errors), beside));
    for timing in [Timing::Connect, Timing::Bind, Timing::Delivery, Timing::Request] {
        let times = &total.timings.of(timing).corrected;
        if !times.is_empty() && tiles.len() < 5 {
            let what = format!("{} p99", timing.name());
            let beside = format!("median {}", figure::micros(times.at(50.0) as f64));
            tiles.push((what, figure::micros(times.at(99.0) as f64), beside));
        }
    }
    if let Some(bytes) = run.stages.iter().rev().find_map(|stage| memory_a_connection(run, stage)) {
        let of = "slope of the target's memory".to_owned();
        tiles.push(("Memory a connection".to_owned(), figure::bytes(bytes), of));
    }
    let sent = total.figure("heartbeats.sent");
    if sent > 0.0 {
        let lost = total.figure("heartbeats.lost");
        let of = format!("of {} sent", figure::count(sent));
        tiles.push(("Heartbeats lost".to_owned(), figure::count(lost), of));
    }
    tiles
}

/// Bytes that the target's process grew by for each client, from the run's beginning to a stage's
/// end; `None`: it was not observed, or hardly any client came.
pub fn memory_a_connection(run: &Run, stage: &StageRun) -> Option<f64> {
    a_connection(run, stage, "target.process.rss")
}

/// Bytes that the kernel's objects on the target's machine grew by for each client, from the run's
/// beginning to a stage's end; `None`: they were not observed, or hardly any client came.
pub fn kernel_memory_a_connection(run: &Run, stage: &StageRun) -> Option<f64> {
    a_connection(run, stage, "target.memory.slab")
}

fn a_connection(run: &Run, stage: &StageRun, figure: &str) -> Option<f64> {
    let at_end = |name: &str| -> Option<(f64, f64)> {
        let cells = run.series.times_ms().iter().zip(run.series.values(name));
        let read = cells.filter_map(|(at, cell)| Some((*at, (*cell)?)));
        let before = read.clone().next()?.1;
        let after = read.take_while(|(at, _)| *at <= stage.to_ms).last()?.1;
        Some((before, after))
    };
    let (bytes_before, bytes_after) = at_end(figure)?;
    let (online_before, online_after) = at_end("clients.online")?;
    let (clients, bytes) = (online_after - online_before, bytes_after - bytes_before);
    (clients >= 100.0 && bytes > 0.0).then(|| bytes / clients)
}

/// How long it took until all of a stage's clients were there; `None`: they never were.
pub fn all_bound_ms(stage: &StageRun) -> Option<u64> {
    let there = stage.counts.online >= stage.clients || {
        let errors = stage.counts.causes.errors();
        errors == 0 && stage.arrived_ms < stage.to_ms
    };
    (stage.clients > 0 && there).then(|| stage.arrived_ms.saturating_sub(stage.from_ms))
}

/// Two percentiles of a distribution, `3.1 ms / 48 ms`; a dash: there is none.
pub fn two(times: &Spectrum) -> String {
    if times.is_empty() {
        return "–".to_owned();
    }
    let [p50, p99] = [50.0, 99.0].map(|percent| figure::micros(times.at(percent) as f64));
    format!("{p50} / {p99}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_rules_held_is_said_in_words() {
        let said = |held: &[Option<bool>]| {
            let check = |held: &Option<bool>| CheckResult {
                rule: "errors == 0".to_owned(),
                value: None,
                held: *held,
            };
            let checks = held.iter().map(check).collect();
            why(&Run { checks, finished: true, ..Run::default() })
        };
        let (held, broken, unknown) = (Some(true), Some(false), None);
        for (checks, words) in [
            (&[][..], "The plan had no rules."),
            (&[held], "Its only rule passed."),
            (&[held, held], "Both rules passed."),
            (&[held; 3], "All 3 rules passed."),
            (&[broken], "0 of 1 rules passed; `errors == 0` failed."),
            (&[held, broken], "1 of 2 rules passed; `errors == 0` failed."),
            (&[broken, broken], "0 of 2 rules passed; `errors == 0` and others failed."),
            (
                &[held, unknown],
                "1 of 2 rules passed; 1 could not be evaluated, which counts as a failure.",
            ),
            (
                &[unknown],
                "0 of 1 rules passed; 1 could not be evaluated, which counts as a failure.",
            ),
        ] {
            assert_eq!(said(checks), words);
        }
    }
}

//! A run of `holdline load` on one core against a server on the other, and what is read from it.
//!
//! This module does not know the demands of a plan. The server's CPU is that of its whole process,
//! its log included, as the run's own series has it. Invariant: of a run whose rules did not hold
//! nothing is read, but for rules that are named as those of the machine.

use crate::child::Child;
use crate::holdline::{self, Holdline};
use crate::scenario::CALLER_CORE;
use lab::run::{Run, StageRun};
use lab::timing::Timing;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use tempfile::TempDir;

/// Exit code of a run whose tester was saturated.
const SATURATED: i32 = 3;

/// Result of a run.
pub struct Talked {
    /// The run.
    pub run: Run,
    /// How it ended.
    pub code: i32,
    folder: TempDir,
}

/// Runs a plan that comes along, by its name, with these parameters.
pub fn known(server: &Holdline, plan: &str, sets: &[String]) -> io::Result<Talked> {
    over(server, "im", plan, sets)
}

/// As [`known`], over another protocol, by its scheme.
pub fn over(server: &Holdline, scheme: &str, plan: &str, sets: &[String]) -> io::Result<Talked> {
    go(server, scheme, Path::new(plan), sets)
}

/// Runs a plan that is written here.
pub fn written(server: &Holdline, plan: &str) -> io::Result<Talked> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("plan.toml");
    std::fs::write(&file, plan)?;
    go(server, "im", &file, &[])
}

fn go(server: &Holdline, scheme: &str, plan: &Path, sets: &[String]) -> io::Result<Talked> {
    let folder = tempfile::tempdir()?;
    let mut command = holdline::clean(holdline::binary()?);
    command.args(["load", "run"]).arg(plan).arg(format!("{scheme}://{}", server.address));
    command.args(["--quiet", "--out"]).arg(folder.path());
    command.args(sets.iter().flat_map(|set| ["--set", set]));
    let code = Child::start(&mut command, Some(CALLER_CORE))?.finished()?;
    let run = made(folder.path())
        .map_err(|why| io::Error::other(format!("holdline load ended with {code}: {why}")))?;
    Ok(Talked { run, code, folder })
}

/// The run that was made.
fn made(folder: &Path) -> io::Result<Run> {
    let mut folders = std::fs::read_dir(folder)?;
    let run = folders.next().ok_or_else(|| io::Error::other("it left no run"))??;
    let text = std::fs::read(run.path().join("run.json"))?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

impl Talked {
    /// Keeps the run where something could not be read from it, and says where.
    pub fn kept(self, why: &io::Error) -> io::Error {
        let path = self.folder.keep();
        io::Error::other(format!("{why}; the run is in {}", path.display()))
    }

    /// A stage of it.
    pub fn stage(&self, name: &str) -> io::Result<&StageRun> {
        let found = self.run.stages.iter().find(|stage| stage.name == name);
        found.ok_or_else(|| io::Error::other(format!("no stage `{name}`: {:?}", self.run.notes)))
    }

    /// Whether the tester says that it was the limit.
    pub fn is_saturated(&self) -> bool {
        self.code == SATURATED
    }

    /// An error unless every rule held, but for those that depend on the machine: how each of them
    /// stands.
    pub fn held_but(&self, of_the_machine: &[&str]) -> io::Result<Vec<Value>> {
        let rules = self.run.stages.iter().flat_map(|stage| &stage.checks).chain(&self.run.checks);
        let mut told = Vec::new();
        for rule in rules {
            match of_the_machine.contains(&rule.rule.as_str()) {
                true => told.push(json!({ "rule": rule.rule, "held": rule.held })),
                false if rule.held == Some(true) => {}
                false => {
                    let notes = &self.run.notes;
                    return Err(io::Error::other(format!("{rule:?}; {notes:?}")));
                }
            }
        }
        Ok(told)
    }

    /// The highest value of a column of the series in a stage.
    pub fn most(&self, stage: &str, column: &str) -> io::Result<f64> {
        let stage = self.stage(stage)?;
        let rows = self.run.series.times_ms().iter().zip(self.run.series.values(column));
        let within = rows.filter(|(at, _)| (stage.from_ms..=stage.to_ms).contains(*at));
        let most = within.filter_map(|(_, value)| *value).reduce(f64::max);
        most.ok_or_else(|| io::Error::other(format!("{column} was not observed")))
    }

    /// Processor seconds of the server from the beginning of the stage `from` to the end of `to`.
    pub fn cpu_s(&self, from: &str, to: &str) -> io::Result<f64> {
        let (from_ms, to_ms) = (self.stage(from)?.from_ms, self.stage(to)?.to_ms);
        let spent = self.run.series.values("target.process.cpu_s");
        let rows = self.run.series.times_ms().iter().zip(spent);
        let rows: Vec<(u64, f64)> = rows.filter_map(|(&at, spent)| Some((at, (*spent)?))).collect();
        let at = |ms| rows.iter().rev().find(|(at, _)| *at <= ms).map(|(_, spent)| *spent);
        let spent = at(to_ms).zip(at(from_ms)).map(|(to, from)| to - from);
        let spent = spent.filter(|spent| *spent > 0.0);
        spent.ok_or_else(|| io::Error::other("the server's CPU was not observed"))
    }

    /// Seconds from the first row with a message that was taken in a stage to the last one with
    /// more; no number where there is none.
    pub fn sending_s(&self, send: &StageRun) -> f64 {
        let times = self.run.series.times_ms().iter();
        let taken = self.run.series.values("clients.messages.taken");
        let rows: Vec<(u64, f64)> = times
            .zip(taken)
            .filter(|(at, _)| (send.arrived_ms..=send.to_ms).contains(*at))
            .filter_map(|(at, taken)| Some((*at, (*taken)?)))
            .collect();
        let last = rows.last().map_or(0.0, |(_, taken)| *taken);
        let end = rows.iter().find(|(_, taken)| *taken >= last).map_or(0, |(at, _)| *at);
        let span_ms = end.saturating_sub(send.arrived_ms);
        if span_ms == 0 { f64::NAN } else { span_ms as f64 / 1e3 }
    }

    /// Latencies of a stage, each by its name, microseconds from the planned moment.
    pub fn latencies(send: &StageRun) -> impl Iterator<Item = (String, f64)> {
        let timings = [(Timing::Publish, "acknowledged"), (Timing::Delivery, "delivered")];
        timings.into_iter().flat_map(|(timing, what)| {
            let times = &send.counts.timings.of(timing).corrected;
            let at = |point| times.at(point) as f64;
            [(format!("{what}, p50"), at(50.0)), (format!("{what}, p99"), at(99.0))]
        })
    }
}

/// A plan that is written here is one that the laboratory reads; for tests.
#[cfg(test)]
pub fn is_plan(text: &str) -> Result<lab::plan::Plan, String> {
    load::run::file::read("written", text, &["target.url=[\"im://127.0.0.1:1\"]".to_owned()])
}

//! The result of a run: one JSON file in the form of `bench/results`, and a few lines for people.

use crate::book::{Tally, Violation};
use crate::clock;
use crate::plan::Plan;
use base::calendar;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Result of a run.
pub struct Outcome {
    /// When it began, Unix seconds.
    pub began_s: u64,
    /// Load average over one minute then, as it is printed.
    pub load_before: String,
    /// Lives of the server that ended by a kill, and by SIGTERM.
    pub ends: (u32, u32),
    /// From each start until the server was up, microseconds.
    pub recoveries_us: Vec<u64>,
    /// How often things happened.
    pub tally: Tally,
    /// Violations.
    pub violations: Vec<Violation>,
    /// How many there were.
    pub violations_count: u64,
    /// Damage that was done on purpose.
    pub sabotage: Vec<String>,
}

impl Outcome {
    /// Stores it, and returns where. Only a run that found nothing, and was to find nothing, is a
    /// result of the project; any other is stored with what is kept of it.
    pub fn store(&self, plan: &Plan) -> io::Result<PathBuf> {
        let (day, hour) = (calendar::date(self.began_s), calendar::hour(self.began_s));
        let root = root();
        let good = self.violations_count == 0 && plan.sabotage.is_none();
        let folder = if good { root.join("bench/results") } else { plan.keep.clone() };
        let file = plan
            .result
            .clone()
            .unwrap_or_else(|| folder.join(format!("{day}-{}.json", name(plan))));
        let violations = self
            .violations
            .iter()
            .map(|found| json!({ "kind": found.kind, "life": found.life, "text": found.text }));
        let value = json!({
            "scenario": "crash",
            "date": day,
            "began": hour,
            "seconds": clock::unix_s().saturating_sub(self.began_s),
            "commit": commit(&plan.binary),
            "machine": machine(),
            "load": { "before": self.load_before, "after": load() },
            "plan": plan_told(plan),
            "figures": self.figures(),
            "details": { "counts": self.tally.0, "sabotage": self.sabotage },
            "violations": violations.collect::<Vec<_>>(),
        });
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&file, serde_json::to_string_pretty(&value)? + "\n")?;
        Ok(file)
    }

    /// The figures, as a table for people.
    pub fn told(&self) -> String {
        let figures = self.figures();
        let lines = figures.as_array().into_iter().flatten().map(|figure| {
            let name = figure["name"].as_str().unwrap_or_default();
            let unit = figure["unit"].as_str().unwrap_or_default();
            format!("  {name:<32} {} {unit}\n", figure["value"])
        });
        let counts = self.tally.0.iter().map(|(name, count)| format!("  {name:<52} {count}\n"));
        lines.chain(counts).collect()
    }

    fn figures(&self) -> Value {
        let of = |name: &str| self.tally.0.get(name).copied().unwrap_or(0);
        let ms = |share| json!(percentile(&self.recoveries_us, share) as f64 / 1_000.0);
        let figure = |name, value, unit| figure(name, &value, unit);
        json!([
            figure("violations", json!(self.violations_count), ""),
            figure("lost", json!(self.of_kind("lost")), ""),
            figure("doubled", json!(self.of_kind("doubled")), ""),
            figure("kills", json!(self.ends.0), ""),
            figure("clean stops", json!(self.ends.1), ""),
            figure("pushes answered stored", json!(of("pushes answered stored")), ""),
            figure("mqtt messages answered", json!(of("mqtt messages answered")), ""),
            figure("mqtt deliveries promised", json!(of("mqtt deliveries promised")), ""),
            figure("mqtt deliveries", json!(of("mqtt deliveries")), ""),
            figure("recovery, shortest", ms(0.0), "ms"),
            figure("recovery, median", ms(0.5), "ms"),
            figure("recovery, p99", ms(0.99), "ms"),
            figure("recovery, longest", ms(1.0), "ms"),
        ])
    }

    fn of_kind(&self, kind: &str) -> usize {
        self.violations.iter().filter(|found| found.kind.starts_with(kind)).count()
    }
}

/// The name of the result: that of a run with MQTT alone, or with both, says so.
fn name(plan: &Plan) -> &'static str {
    match (plan.miop, plan.mqtt) {
        (true, true) => "crash",
        (false, true) => "crash-mqtt",
        _ => "crash-miop",
    }
}

fn figure(name: &str, value: &Value, unit: &str) -> Value {
    json!({ "name": name, "value": value, "unit": unit })
}

/// The value below which `share` of all are.
fn percentile(values: &[u64], share: f64) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    let at = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    values.get(at).copied().unwrap_or(0)
}

fn plan_told(plan: &Plan) -> Value {
    let sets = plan.sets.iter().map(|(section, key, value)| format!("{section}.{key}={value}"));
    json!({
        "cycles": plan.cycles,
        "seed": plan.seed,
        "seconds_max": plan.seconds,
        "fsync": plan.fsync,
        "clean_percent": plan.clean_percent,
        "miop": plan.miop,
        "mqtt": plan.mqtt,
        "keys": plan.keys,
        "reports": plan.reports,
        "tags": plan.tags,
        "collapse": plan.collapse,
        "set": sets.collect::<Vec<_>>(),
        "sabotage": plan.sabotage.map(|how| format!("{how:?}")),
        "load_ms": [crate::LOAD_MS.0, crate::LOAD_MS.1],
    })
}

/// The folder of the project: where the nearest `ARCHITECTURE.md` above the working folder lies.
fn root() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let found = here.ancestors().find(|folder| folder.join("ARCHITECTURE.md").is_file());
    found.map_or_else(|| here.clone(), PathBuf::from)
}

/// The commit that a server says to be of: the tree may have gone on since it was built.
fn commit(binary: &Path) -> String {
    let told = Command::new(binary).arg("--version").output();
    let told = told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let told = told.unwrap_or_default();
    let commit = told.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    commit.map_or("unknown", |(commit, _)| commit).to_owned()
}

/// Load average over one minute, as it is printed.
pub fn load() -> String {
    read("/proc/loadavg").split(' ').next().unwrap_or("unknown").to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn machine() -> Value {
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    json!({
        "cpu": model.map_or("unknown", |(_, name)| name.trim()),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<u64> = (1..=100).rev().collect();
        let of = |share| percentile(&values, share);
        assert_eq!([of(0.0), of(0.5), of(0.99), of(1.0)], [1, 50, 99, 100]);
        assert_eq!(percentile(&[], 0.5), 0);
    }
}

//! Results: what was planned, where it ran, what came out, and whether that is enough.
//!
//! A result is one JSON file a scenario and day in `bench/results`; `README.md` there is made from
//! the latest of each. A figure without a target is shown and not judged; a target without a
//! figure stands in the table as missing.

mod capacity;
pub mod table;

use crate::measure::machine;
use crate::{clock, targets};
use base::calendar;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;

/// One figure of a result.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the figure, unique within the scenario.
    pub name: String,
    /// Value of the figure.
    pub value: f64,
    /// Unit of the figure.
    pub unit: &'static str,
}

/// Result of a scenario.
pub struct Outcome {
    /// All parameters.
    pub plan: Value,
    /// The figures, the judged ones first.
    pub figures: Vec<Figure>,
    /// Raw values behind the figures, and other observations.
    pub details: Value,
}

impl Outcome {
    /// An outcome without figures yet.
    pub fn new(plan: Value) -> Outcome {
        Outcome { plan, figures: Vec::new(), details: json!({}) }
    }

    /// Adds a figure.
    pub fn figure(&mut self, name: &str, value: f64, unit: &'static str) {
        self.figures.push(Figure { name: name.to_owned(), value, unit });
    }

    /// Adds a detail.
    pub fn detail(&mut self, name: &str, value: impl Into<Value>) {
        self.details[name] = value.into();
    }
}

/// How a figure stands to its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// As good as the aim.
    Stretch,
    /// As good as is owed.
    Floor,
    /// Less than is owed.
    Missed,
}

impl Verdict {
    /// The verdict's word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Stretch => "stretch",
            Verdict::Floor => "floor",
            Verdict::Missed => "missed",
        }
    }
}

/// Facts from before the scenario began.
pub struct Before {
    load: String,
    unix_s: u64,
}

impl Before {
    /// Notes time and load.
    pub fn note() -> Before {
        Before { load: machine::load(), unix_s: clock::unix_s() }
    }
}

/// Stores `outcome` as the result of `scenario`, and returns where. A quick run is stored apart
/// from the others, for its figures mean little.
pub fn store(
    scenario: &str,
    quick: bool,
    before: &Before,
    outcome: &Outcome,
) -> io::Result<PathBuf> {
    let folder = if quick { root().join("target/bench-quick") } else { folder() };
    let file = folder.join(format!("{}-{scenario}.json", calendar::date(before.unix_s)));
    let value = json!({
        "scenario": scenario,
        "date": calendar::date(before.unix_s),
        "began": calendar::hour(before.unix_s),
        "seconds": clock::unix_s().saturating_sub(before.unix_s),
        "commit": machine::commit(&root()),
        "machine": machine::describe(),
        "load": { "before": before.load, "after": machine::load() },
        "plan": outcome.plan,
        "figures": outcome.figures.iter().map(|it| figure(scenario, it)).collect::<Vec<_>>(),
        "details": outcome.details,
    });
    std::fs::create_dir_all(&folder)?;
    std::fs::write(&file, serde_json::to_string_pretty(&value)? + "\n")?;
    Ok(file)
}

fn figure(scenario: &str, figure: &Figure) -> Value {
    let mut value = json!({
        "name": figure.name,
        "value": rounded(figure.value),
        "unit": figure.unit,
    });
    if let Some(target) = targets::of(scenario, &figure.name) {
        value["floor"] = json!(target.floor);
        value["stretch"] = json!(target.stretch);
        value["verdict"] = json!(target.verdict(figure.value).name());
    }
    value
}

/// Four digits that mean something.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    if scale < 1.0 { value.round() } else { (value * scale).round() / scale }
}

/// The folder of the project: where the nearest `ARCHITECTURE.md` above the working folder lies.
pub fn root() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let found = here.ancestors().find(|folder| folder.join("ARCHITECTURE.md").is_file());
    found.map_or_else(|| here.clone(), PathBuf::from)
}

/// The folder of the results.
pub fn folder() -> PathBuf {
    root().join("bench/results")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_to_what_they_can_mean() {
        assert_eq!(rounded(123.456_78), 123.5);
        assert_eq!(rounded(0.001_234_56), 0.001_235);
        assert_eq!(rounded(123_456.7), 123_457.0);
        assert_eq!(rounded(0.0), 0.0);
        assert!(rounded(f64::NAN).is_nan());
    }

    #[test]
    fn a_figure_carries_its_target_and_verdict() {
        let told = figure("echo", &Figure { name: "ping ratio".into(), value: 1.3, unit: "times" });
        assert_eq!((told["floor"].as_f64(), told["verdict"].as_str()), (Some(1.5), Some("floor")));
        let told = figure("echo", &Figure { name: "unheard of".into(), value: 1.3, unit: "" });
        assert!(told.get("verdict").is_none());
    }
}

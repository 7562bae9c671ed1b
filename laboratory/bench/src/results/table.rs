//! `bench/results/README.md`: the latest result of each scenario as a table.
//!
//! Made from the JSON files alone, so that it can be made again at any time.

use super::capacity::{self, Latest};
use crate::targets;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io;

const HEAD: &str = "# Results\n\n\
    Made by `make bench` from the files beside it; do not edit. The latest result of each \
    scenario. *Floor* is what is owed, *stretch* the aim. What is measured and how stands in \
    [../README.md](../README.md); each file holds plan, commit, machine and details.\n";

/// Writes the table, and that of the documentation.
pub fn write() -> io::Result<()> {
    let latest = latest()?;
    std::fs::write(super::folder().join("README.md"), render(&latest))?;
    capacity::write(&latest)
}

/// The latest stored result of each scenario.
pub fn latest() -> io::Result<Latest> {
    let mut results = Vec::new();
    for entry in std::fs::read_dir(super::folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            results.push(serde_json::from_str(&std::fs::read_to_string(&path)?)?);
        }
    }
    Ok(latest_of(results))
}

fn latest_of(results: Vec<Value>) -> Latest {
    let mut latest = Latest::new();
    for result in results {
        let scenario = text(&result["scenario"]).to_owned();
        let newer = |old: &Value| text(&old["date"]) < text(&result["date"]);
        if latest.get(&scenario).is_none_or(newer) {
            latest.insert(scenario, result);
        }
    }
    latest
}

/// The table of these results.
fn render(latest: &Latest) -> String {
    let mut out = HEAD.to_owned();
    for (scenario, result) in latest {
        section(scenario, result, &mut out);
    }
    missing(latest, &mut out);
    out
}

fn section(scenario: &str, result: &Value, out: &mut String) {
    let machine = &result["machine"];
    let _ = writeln!(
        out,
        "\n## {scenario}\n\n{} {}, commit {}, {} × {}, Linux {}, load {} to {}.\n",
        text(&result["date"]),
        text(&result["began"]),
        text(&result["commit"]),
        machine["cores"],
        text(&machine["cpu"]),
        text(&machine["kernel"]),
        text(&result["load"]["before"]),
        text(&result["load"]["after"]),
    );
    out.push_str(
        "| figure | value | floor | stretch | verdict |\n| --- | --- | --- | --- | --- |\n",
    );
    for figure in result["figures"].as_array().into_iter().flatten() {
        // By the targets as they are now, also of runs from before them.
        let target = targets::of(scenario, text(&figure["name"]));
        let verdict = target.zip(figure["value"].as_f64()).map(|(it, value)| it.verdict(value));
        let _ = writeln!(
            out,
            "| {} | {} {} | {} | {} | {} |",
            text(&figure["name"]),
            number(&figure["value"]),
            text(&figure["unit"]),
            number(&json!(target.map(|it| it.floor))),
            number(&json!(target.map(|it| it.stretch))),
            verdict.map_or("", |it| it.name()),
        );
    }
}

/// Targets for which there is no figure.
fn missing(latest: &Latest, out: &mut String) {
    let measured = |target: &&targets::Target| {
        let figures = latest.get(target.scenario).map(|result| &result["figures"]);
        figures.and_then(Value::as_array).is_some_and(|figures| {
            figures.iter().any(|figure| text(&figure["name"]) == target.figure)
        })
    };
    let mut head = "\n## Missing\n\n";
    for target in targets::ALL.iter().filter(|target| !measured(target)) {
        let _ = writeln!(out, "{head}- {}: {}", target.scenario, target.figure);
        head = "";
    }
}

/// A text; empty if it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// A number as people read it; empty if it is none.
pub fn number(value: &Value) -> String {
    let Some(number) = value.as_f64() else { return String::new() };
    if number.fract() != 0.0 && number.abs() < 1000.0 {
        return number.to_string();
    }
    let digits = format!("{:.0}", number.abs());
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if number < 0.0 { format!("-{grouped}") } else { grouped }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(date: &str, value: f64) -> Value {
        json!({
            "scenario": "echo", "date": date, "began": "10:00", "commit": "abc",
            "machine": { "cores": 2, "cpu": "x", "kernel": "6" },
            "load": { "before": "1", "after": "2" },
            "figures": [{
                "name": "ping ratio", "value": value, "unit": "times", "floor": 1.5,
                "stretch": 9.0, "verdict": "missed",
            }],
        })
    }

    #[test]
    fn the_latest_of_each_scenario_is_shown() {
        let text = render(&latest_of(vec![result("2026-11-20", 1.25), result("2026-11-19", 9.75)]));
        assert!(text.contains("| ping ratio | 1.25 times | 1.5 | 1.1 | floor |"), "{text}");
        assert!(!text.contains("9.75"));
    }

    #[test]
    fn targets_without_a_figure_are_named() {
        let text = render(&latest_of(vec![result("2026-11-20", 1.25)]));
        assert!(!text.contains("- echo: ping ratio\n"));
        assert!(text.contains("## Missing\n\n- memory-plain: user bytes a connection\n"), "{text}");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(&json!(1_234_567.0)), "1,234,567");
        assert_eq!(number(&json!(-1234.4)), "-1,234");
        assert_eq!(number(&json!(999)), "999");
        assert_eq!(number(&json!(0.125)), "0.125");
        assert_eq!(number(&Value::Null), "");
    }
}

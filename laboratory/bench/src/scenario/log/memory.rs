//! Memory: what a timeline costs that was written to once, while its head is resident and after.
//!
//! A process of its own gives each timeline a message, in steps, with a checkpoint after each: what
//! waits for one is bounded by its own limits and no part of a timeline at rest. *Resident*: all
//! heads may stay, up to ten million. *Spilled*: the engine's default of a million, and three times
//! as many timelines.
//! The allocator here is the system's; the server's has less overhead.

use super::ours;
use crate::child::Child;
use crate::measure::slope;
use crate::results::Outcome;
use crate::scenario::Scale;
use serde_json::{Value, json};
use std::io;

const MILLION: u32 = 1_000_000;

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(json!({
        "timelines": [scale.of(10 * MILLION), scale.of(3 * MILLION)], "messages_each": 1,
        "user_memory": "Private_Dirty", "ours": ours::plan(),
    }));
    let all = usize::try_from(u32::MAX >> 1).unwrap_or(usize::MAX);
    for (name, most, heads) in
        [("resident", 10 * MILLION, all), ("spilled", 3 * MILLION, ours::heads_resident_max())]
    {
        let told = touched(scale.of(most), heads)?;
        let steps = told["steps"].as_array().cloned().unwrap_or_default();
        let of = |step: &Value, name: &str| step[name].as_f64().unwrap_or(f64::NAN);
        let points: Vec<(f64, f64)> =
            steps.iter().map(|step| (of(step, "timelines"), of(step, "private_dirty"))).collect();
        let slope = slope::through(&points);
        outcome.figure(&format!("{name}: a timeline"), slope.each, "bytes");
        outcome.figure(&format!("{name}: R² of the slope"), slope.r2, "");
        for step in steps.iter().step_by(steps.len().max(2) - 1) {
            let name = format!("{name}: RSS at {:.1} million", of(step, "timelines") / 1e6);
            outcome.figure(&name, of(step, "rss"), "bytes");
        }
        outcome.detail(name, told);
    }
    Ok(outcome)
}

fn touched(most: u32, heads: usize) -> io::Result<Value> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("log");
    let path = place.to_str().ok_or_else(|| io::Error::other("the folder's name is no text"))?;
    let (most, heads) = (most.to_string(), heads.to_string());
    let mut child = Child::again(&["log", "touch", path, &most, &heads], None)?;
    Ok(serde_json::from_str(&child.ready()?)?)
}

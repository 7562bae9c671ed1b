//! A run as a file, and back.
//!
//! The file is JSON with its version first. For any file, the answer is a whole run or a sentence
//! that says what is wrong.

use lab::run::{FORMAT, Run};
use serde::Deserialize;
use std::borrow::Cow;

/// The run as a file.
pub fn json(run: &Run) -> String {
    serde_json::to_string(&*finite(run)).expect("keys are texts, and nothing fails by itself")
}

/// The run with zero wherever a figure is none: JSON has no word for it, and would not be read.
fn finite(run: &Run) -> Cow<'_, Run> {
    let of_agents = run.agents.iter().flat_map(|agent| [agent.cpu_s, agent.busiest]);
    let stages = run.stages.iter().map(|stage| &stage.counts);
    let counts = stages.chain([&run.total]).flat_map(|counts| counts.figures.values().copied());
    if of_agents.chain(counts).all(f64::is_finite) {
        return Cow::Borrowed(run);
    }
    let mend = |value: &mut f64| {
        if !value.is_finite() {
            *value = 0.0;
        }
    };
    let mut run = run.clone();
    for agent in &mut run.agents {
        mend(&mut agent.cpu_s);
        mend(&mut agent.busiest);
    }
    let stages = run.stages.iter_mut().map(|stage| &mut stage.counts);
    for counts in stages.chain([&mut run.total]) {
        counts.figures.values_mut().for_each(mend);
    }
    Cow::Owned(run)
}

/// Part of the file that is read first.
#[derive(Deserialize)]
struct Head {
    format: Option<u64>,
}

/// Reads a file.
pub fn read(text: &str) -> Result<Run, String> {
    if text.trim().is_empty() {
        return Err("the file is empty".to_owned());
    }
    if !text.trim_start().starts_with('{') {
        return Err("this is no file of a run: it does not begin with `{`".to_owned());
    }
    let head: Head = serde_json::from_str(text).map_err(|error| {
        if error.is_eof() {
            format!("the file is cut off at line {}, column {}", error.line(), error.column())
        } else {
            format!("this is no file of a run: {error}")
        }
    })?;
    match head.format {
        None => return Err("this is no file of a run: it has no `format`".to_owned()),
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => {
            return Err(format!(
                "the file has format {format}; this version reads format {FORMAT} only"
            ));
        }
    }
    let run: Run =
        serde_json::from_str(text).map_err(|error| format!("the file is damaged: {error}"))?;
    if !run.series.is_whole() {
        return Err("the file is damaged: its series has columns of different lengths".to_owned());
    }
    Ok(run)
}

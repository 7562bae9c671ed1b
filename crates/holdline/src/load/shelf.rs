//! Lists of the plans that come along and of stored runs.
//!
//! Nothing here makes load.

use super::{FAILED, PASSED, made};
use ::load::run::folder;
use ::load::scenario::{ALL, Scenario};
use clap::Args;
use lab::compare::Better;
use lab::run::Run;
use std::path::{Path, PathBuf};

/// Which runs to compare.
#[derive(Args)]
pub struct Compare {
    /// First run: its folder, or its run.json
    before: PathBuf,
    /// Second run
    after: PathBuf,
    /// More runs like the first; can be repeated. Several runs a side separate chance from change
    #[arg(long, value_name = "RUN")]
    more_before: Vec<PathBuf>,
    /// More runs like the second; can be repeated
    #[arg(long, value_name = "RUN")]
    more_after: Vec<PathBuf>,
    /// Compare runs of different plans as well
    #[arg(long)]
    anyway: bool,
    /// Also writes the comparison as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Lists the plans.
pub fn plans() -> Result<u8, String> {
    for scenario in ALL {
        out!("{:<22} {}", scenario.name, scenario.about());
    }
    Ok(PASSED)
}

/// Prints a plan.
pub fn plan(name: &str) -> Result<u8, String> {
    let scenario = Scenario::named(name)
        .ok_or_else(|| format!("no built-in plan `{name}`; `holdline load plans` lists them"))?;
    crate::out::print(scenario.text);
    Ok(PASSED)
}

/// Makes a run's report anew, in its folder.
pub fn report(at: &Path) -> Result<u8, String> {
    let run = folder::read(at)?;
    let folder = if at.is_dir() { Some(at) } else { at.parent() };
    folder::render(&run, folder.unwrap_or(Path::new(".")))?;
    out!("{}", report::text(&run));
    Ok(made::code(&run))
}

/// Compares runs. Its code is 1 when a figure became worse.
pub fn compare(compare: &Compare) -> Result<u8, String> {
    let read = |first: &PathBuf, more: &[PathBuf]| -> Result<Vec<Run>, String> {
        std::iter::once(first).chain(more).map(|path| folder::read(path)).collect()
    };
    let before = read(&compare.before, &compare.more_before)?;
    let after = read(&compare.after, &compare.more_after)?;
    let judged = if compare.anyway {
        verdict::compare_anyway(&before, &after)
    } else {
        verdict::compare(&before, &after)
    };
    let worse = judged.rows.iter().any(|row| row.better == Better::Worse);
    crate::out::print(&report::compare::text(&judged));
    if let Some(path) = &compare.html {
        std::fs::write(path, report::compare::html(&judged))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if !judged.compared {
        return Err("not compared: the runs are of different plans (use --anyway)".into());
    }
    Ok(if worse { FAILED } else { PASSED })
}

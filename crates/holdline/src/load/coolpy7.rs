//! `holdline load coolpy7`, and `coolpy7_benchmark`: Coolpy7's line, its lines while clients come,
//! then our report and the table of its report: what the server used, by size.

use super::asked::Show;
use super::{PASSED, made};
use crate::out::Raw;
use ::load::coolpy7::{self, ProgressPrinter, USAGE};
use ::load::scenario::{ReadyPlan, port_here};
use std::path::PathBuf;

/// Runs Coolpy7's line.
pub fn coolpy7(words: &[String]) -> Result<u8, String> {
    if words.iter().any(|word| ["-h", "-help", "--help"].contains(&word.as_str())) {
        out!("{USAGE}");
        return Ok(PASSED);
    }
    let usage = |why: String| format!("{why}\n\n{USAGE}");
    let arguments = coolpy7::parse(words).map_err(usage)?;
    let plan = arguments.plan().map_err(usage)?;
    let (skipped, notes) = (Vec::new(), Vec::new());
    let port_here = port_here(&plan.target.url);
    let ready = ReadyPlan { plan, skipped, notes, port_here, is_shipped: false };
    let show = Show { out: PathBuf::from("runs"), sizes: true, ..Show::default() };
    made::make(&ready, &show, vec![Box::new(ProgressPrinter::new(Raw))])
}

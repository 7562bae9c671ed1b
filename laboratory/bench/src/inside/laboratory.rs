//! The laboratory itself inside the VM: a plan of links in steps, its run and its summary.

use super::{MARK, setup};
use crate::holdline;
use crate::scenario::stages;
use serde_json::{Value, json};
use std::io;
use std::process::Stdio;

/// Clients of the plan `million`.
const PLANNED: u32 = 1_000_000;

/// Runs the measurement.
pub fn run(clients: u32) -> io::Result<()> {
    let server = setup(clients).start()?;
    let folder = tempfile::tempdir()?;
    let runs = folder.path().join("runs");
    let mut command = holdline::clean(holdline::binary()?);
    command.args(["load", "run", "million", &format!("miop://lab:demo@{}/", server.address)]);
    command.args(["--pid", &server.pid().to_string(), "--out"]).arg(&runs);
    command.args(["--scale", &(f64::from(clients) / f64::from(PLANNED)).to_string()]);
    let code = command.stdin(Stdio::null()).status()?.code();
    let (mut run, summary) = stages::made(&runs)?;
    println!("{summary}");
    let errors: u64 = run["total"]["causes"]
        .as_object()
        .map_or(0, |causes| causes.values().filter_map(Value::as_u64).sum());
    stages::shorten(&mut run);
    let told = json!({
        "exit_code": code, "errors": errors, "summary": summary, "run": run,
        "holdline": server.plan(),
    });
    println!("{MARK}{told}");
    Ok(())
}

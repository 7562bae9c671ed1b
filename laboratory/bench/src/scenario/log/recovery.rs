//! Recovery: how long opening takes after a kill, against what was written since the checkpoint.
//!
//! One process fills a log without a checkpoint and is killed; another opens what it left, and
//! reads every acknowledged message back. The files are in the kernel's cache, as they are when a
//! process dies; once more they are not, as after a reboot. The bytes read are the process's own
//! account (`rchar`), state included.

use super::disk;
use super::ours;
use crate::child::Child;
use crate::results::Outcome;
use crate::scenario::Scale;
use serde_json::{Value, json};
use std::io;

/// MiB of log, whether a checkpoint is made at the end, whether the kernel forgets the files.
const POINTS: [(u32, bool, bool); 6] = [
    (1, false, false),
    (16, false, false),
    (64, false, false),
    (256, false, false),
    (64, true, false),
    (256, false, true),
];

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(json!({
        "mib_checkpoint_forgotten": POINTS.map(|point| json!(point)), "killed": true,
        "body_bytes": super::traffic::BODY_BYTES, "timelines_each": 2, "ours": ours::plan(),
    }));
    for (mib, checkpoint, forgotten) in POINTS {
        let mib = scale.of(mib);
        let name = match (checkpoint, forgotten) {
            (true, _) => format!("{mib} MiB, checkpoint just made"),
            (_, true) => format!("{mib} MiB, not in the kernel's cache"),
            _ => format!("{mib} MiB since the checkpoint"),
        };
        let told = point(mib, checkpoint, forgotten)?;
        let number = |name: &str| told[name].as_f64().unwrap_or(f64::NAN);
        outcome.figure(&name, number("ms"), "ms to open");
        outcome.figure(&format!("{name}: CPU"), number("cpu_ms"), "ms");
        outcome.figure(&format!("{name}: read"), number("bytes_read"), "bytes");
        outcome.detail(&name, told);
    }
    Ok(outcome)
}

fn point(mib: u32, checkpoint: bool, forgotten: bool) -> io::Result<Value> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("log");
    let path = place.to_str().ok_or_else(|| io::Error::other("the folder's name is no text"))?;
    let when = if checkpoint { "now" } else { "never" };
    let mut filler = Child::again(&["log", "fill", path, &mib.to_string(), when], None)?;
    let filled = filler.ready()?;
    let messages = filled.split(' ').next().unwrap_or_default().to_owned();
    filler.kill()?;
    if forgotten {
        disk::forget(&place)?;
    }
    let mut opener = Child::again(&["log", "open", path, &messages], None)?;
    let mut told: Value = serde_json::from_str(&opener.ready()?)?;
    told["filled"] = json!(filled);
    Ok(told)
}

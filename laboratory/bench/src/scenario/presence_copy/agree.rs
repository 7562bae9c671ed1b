//! How long it takes to compare a million devices, over the table in the process.

use super::DEVICES;
use super::rig::{Rig, at, device};
use crate::clock;
use crate::results::Outcome;
use crate::scenario::Scale;
use presence::MemoryDirectory;
use serde_json::json;
use std::io;

/// Records that are made to lie.
const LIES: u32 = 1_000;

/// With nothing to find, and with something.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let devices = scale.of(DEVICES);
    let (mut rig, mut table) = (Rig::new(devices, true, "process"), MemoryDirectory::new());
    (0..devices).for_each(|number| _ = rig.flap(at(0), number));
    rig.settle(0, &mut table)?;
    let mut outcome = Outcome::new(json!({ "devices": devices, "lies": LIES, "settle_ms": 0 }));
    let began = clock::now();
    rig.audit(&mut table, 0)?;
    outcome.figure("to find that all agree", clock::since(began).as_secs_f64(), "s");
    for number in 0..LIES {
        table.tamper(&device(number * (devices / LIES)).key(), None);
    }
    let began = clock::now();
    rig.audit(&mut table, u64::from(LIES))?;
    outcome.figure("to find the lies", clock::since(began).as_secs_f64(), "s");
    Ok(outcome)
}

//! Idle: what devices cost that do nothing but ping, as a share of one core.
//!
//! 15,000 devices that ping every 60 s are 250 pings a second, evenly spread: each wakes the
//! server alone, which is the dearest way they can come. Binding is not measured.

use super::Scale;
use crate::caller::orders::Remote;
use crate::caller::speech::Speech;
use crate::clock;
use crate::holdline::Setup;
use crate::measure::cpu;
use crate::results::Outcome;
use serde_json::json;
use std::io;
use std::time::Duration;

const DEVICES: u32 = 15_000;
const HEARTBEAT_S: u32 = 60;

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let devices = scale.of(DEVICES);
    let span = Duration::from_secs(u64::from(scale.of(HEARTBEAT_S)));
    let per_s = devices.div_ceil(HEARTBEAT_S);
    let holdline = Setup::default().start()?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "heartbeat_s": HEARTBEAT_S, "pings_per_s": per_s,
        "measured_s": span.as_secs(), "holdline": holdline.plan(),
    }));
    let speech =
        Speech::Miop { product: "demo".to_owned(), prefix: "idle".to_owned(), reports: false };
    let mut caller = Remote::start(holdline.address, &speech, None)?;
    caller.open(devices, 100, 0)?;
    std::thread::sleep(Duration::from_secs(2));
    let (began, before) = (clock::now(), cpu::used(holdline.pid())?);
    let pings = caller.pace(span, per_s)?;
    let (used, took) = (cpu::used(holdline.pid())? - before, clock::since(began));
    let share = 100.0 * used.as_secs_f64() / took.as_secs_f64();
    let online = holdline.api.online()?;
    outcome.figure("percent of a core", share, "%");
    outcome.figure("a ping", used.as_nanos() as f64 / 1e3 / pings as f64, "µs of CPU");
    outcome.figure("pings answered", pings as f64, "");
    outcome.figure("devices online at the end", online as f64, "");
    if online != u64::from(devices) {
        return Err(io::Error::other(format!("{online} of {devices} devices are online")));
    }
    Ok(outcome)
}

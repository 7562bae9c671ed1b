//! Fan-out: one push to a product's 15,000 devices, and what a single push feels of it.
//!
//! CPU a delivery includes the request and the devices' acknowledgements. The latency of a single
//! push is taken by a device of another product (`probe`): from the request to the frame, first
//! alone, then while one fan-out follows the other.

use super::Scale;
use crate::api;
use crate::caller::orders::Remote;
use crate::caller::speech::Speech;
use crate::holdline::{Holdline, Setup};
use crate::measure::{cpu, slope};
use crate::probe::Probe;
use crate::results::Outcome;
use serde_json::json;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DEVICES: u32 = 15_000;
const PROBES: u32 = 2_000;
/// After the last delivery, for its acknowledgement to be taken.
const SETTLE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (devices, rounds) = (scale.of(DEVICES), if scale.quick { 3 } else { 11 });
    let probes = scale.of(PROBES);
    let holdline = Setup::default().start()?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "rounds": rounds, "body_bytes": 64, "single_pushes": probes,
        "holdline": holdline.plan(),
    }));
    let speech =
        Speech::Miop { product: "demo".to_owned(), prefix: "fan".to_owned(), reports: false };
    let mut caller = Remote::start(holdline.address, &speech, None)?;
    caller.open(devices, 100, 0)?;
    let nanos = deliveries(&holdline, &mut caller, devices, rounds)?;
    outcome.figure("a delivery", slope::median(&nanos), "ns of CPU");
    outcome.detail("ns_a_delivery", json!(nanos));

    let mut probe = Probe::connect(holdline.address, &holdline.api, "probe")?;
    probe.latencies(probes / 10, None)?; // warms up
    let idle = probe.latencies(probes, None)?;
    let (busy, fanouts) = beside_fanouts(&holdline, &mut caller, &mut probe, devices, probes)?;
    let [idle99, busy99] = [&idle, &busy].map(|all| slope::quantile(all, 0.99));
    outcome.figure("p99 ratio", busy99 / idle99, "times");
    for (name, all) in [("idle", &idle), ("beside fan-outs", &busy)] {
        outcome.figure(&format!("p50 {name}"), slope::quantile(all, 0.5), "µs");
        outcome.figure(&format!("p99 {name}"), slope::quantile(all, 0.99), "µs");
        outcome.figure(&format!("longest {name}"), slope::quantile(all, 1.0), "µs");
    }
    outcome.figure("fan-outs meanwhile", fanouts as f64, "");
    Ok(outcome)
}

/// CPU a delivery in nanoseconds, each round after a first that warms up.
fn deliveries(
    holdline: &Holdline,
    caller: &mut Remote,
    devices: u32,
    rounds: u32,
) -> io::Result<Vec<f64>> {
    let mut nanos = Vec::new();
    for round in 0..=rounds {
        caller.listen(u64::from(devices), PATIENCE)?;
        let before = cpu::used(holdline.pid())?;
        holdline.api.push(&api::to_all("demo"))?;
        let came = caller.heard()?;
        std::thread::sleep(SETTLE);
        if came != u64::from(devices) {
            return Err(io::Error::other(format!("{came} of {devices} deliveries came")));
        }
        let used = cpu::used(holdline.pid())? - before;
        if round > 0 {
            nanos.push(used.as_nanos() as f64 / f64::from(devices));
        }
    }
    Ok(nanos)
}

/// Latencies of single pushes in microseconds while fan-outs follow each other, and how many did.
fn beside_fanouts(
    holdline: &Holdline,
    caller: &mut Remote,
    probe: &mut Probe,
    devices: u32,
    probes: u32,
) -> io::Result<(Vec<f64>, u64)> {
    let over = AtomicBool::new(false);
    let api = holdline.api.clone();
    std::thread::scope(|scope| {
        let storm = || -> io::Result<u64> {
            let mut fanouts = 0;
            while !over.load(Ordering::Relaxed) {
                caller.listen(u64::from(devices), PATIENCE)?;
                api.push(&api::to_all("demo"))?;
                if caller.heard()? != u64::from(devices) {
                    return Err(io::Error::other("deliveries are missing"));
                }
                fanouts += 1;
            }
            Ok(fanouts)
        };
        let storm = std::thread::Builder::new().name("storm".into()).spawn_scoped(scope, storm)?;
        let latencies = probe.latencies(probes, Some(Duration::from_millis(2)));
        over.store(true, Ordering::Relaxed);
        let fanouts = storm.join().map_err(|_| io::Error::other("the fan-outs failed"))??;
        Ok((latencies?, fanouts))
    })
}

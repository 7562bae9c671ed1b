//! Fan-out: one push to a product's 15,000 devices, and what a single push feels of it.
//!
//! CPU a delivery includes the request and the devices' acknowledgements. The latency of a single
//! push is taken by a device of another product (`probe`): from the request to the frame, first
//! alone, then while one fan-out follows the other.

use super::{CALLER_CORE, SERVER_CORE, Scale};
use crate::api;
use crate::caller::orders::Remote;
use crate::caller::probe::Probe;
use crate::caller::speech::Speech;
use crate::holdline::{Holdline, Setup};
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use serde_json::json;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DEVICES: u32 = 15_000;
const PROBES: u32 = 3_000;
/// Idle and busy take turns.
const TURNS: u32 = 5;
/// Pause between two single pushes.
const PAUSE: Duration = Duration::from_millis(2);
/// Time after the last delivery, for its acknowledgement to be taken.
const SETTLE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (devices, rounds) = (scale.of(DEVICES), if scale.quick { 3 } else { 11 });
    let probes = scale.of(PROBES);
    // One shard and the API on one core, all devices on the other: on a machine with few cores the
    // devices' own work would otherwise be what a single push waits for.
    let setup = Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() };
    let holdline = setup.start()?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "rounds": rounds, "body_bytes": 64, "single_pushes": probes,
        "turns": TURNS,
        "cores": [SERVER_CORE, CALLER_CORE],
        "holdline": holdline.plan(),
    }));
    let speech =
        Speech::Miop { product: "demo".to_owned(), prefix: "fan".to_owned(), reports: false };
    let mut caller = Remote::start(holdline.address, &speech, Some(CALLER_CORE))?;
    caller.open(devices, 100, 0)?;
    let nanos = deliveries(&holdline, &mut caller, devices, rounds)?;
    outcome.figure("a delivery", slope::median(&nanos), "ns of CPU");
    outcome.detail("ns_a_delivery", json!(nanos));

    caller.give_way()?;
    let mut probe = Probe::connect(holdline.address, &holdline.api, "probe")?;
    probe.latencies(probes / 10, None)?; // warms up
    let (mut idle, mut busy, mut fanouts) = (Vec::new(), Vec::new(), 0);
    for _ in 0..TURNS {
        idle.push(probe.latencies(probes / TURNS, Some(PAUSE))?);
        let (latencies, more) =
            beside_fanouts(&holdline, &mut caller, &mut probe, devices, probes / TURNS)?;
        busy.push(latencies);
        fanouts += more;
    }
    // Of each turn its own quantile, and of those the median: what else runs on the machine falls
    // on single turns.
    let middle = |turns: &[Vec<f64>], share: f64| {
        let each: Vec<f64> = turns.iter().map(|turn| slope::quantile(turn, share)).collect();
        slope::median(&each)
    };
    outcome.figure("p99 ratio", middle(&busy, 0.99) / middle(&idle, 0.99), "times");
    for (name, turns) in [("idle", &idle), ("beside fan-outs", &busy)] {
        for (quantile, share) in [("p50", 0.5), ("p99", 0.99), ("longest", 1.0)] {
            outcome.figure(&format!("{quantile} {name}"), middle(turns, share), "µs");
        }
        let each: Vec<f64> = turns.iter().map(|turn| slope::quantile(turn, 0.99)).collect();
        outcome.detail(&format!("p99 {name}"), json!(each));
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
        let latencies = probe.latencies(probes, Some(PAUSE));
        over.store(true, Ordering::Relaxed);
        let fanouts = storm.join().map_err(|_| io::Error::other("the fan-outs failed"))??;
        Ok((latencies?, fanouts))
    })
}

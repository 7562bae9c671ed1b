//! Pushes with acknowledgement: server CPU a push, as pushes a second of one core.
//!
//! Requests come over the API and each push is done when its device's acknowledgement was taken.
//! *Lists*: each request names 1,000 online devices, one push for each, four requests at a time.
//! *Streams*: eight pushes to the whole product follow each other at once, so that a device has
//! several in its window. The cost of a request itself is measured by lists of devices that are
//! offline (nothing is delivered) and by requests for one device.

use super::Scale;
use crate::api;
use crate::caller::orders::Remote;
use crate::caller::speech::{self, Speech};
use crate::holdline::{Holdline, Setup};
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;

const DEVICES: u32 = 10_000;
const LIST: u32 = 1_000;
const POSTERS: usize = 4;
const STREAM: u32 = 8;
const SINGLES: u32 = 1_000;
const SETTLE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(60);
/// Time to live of pushes that are stored before they are answered, seconds.
const TTL_S: u32 = 3_600;

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (devices, list) = (scale.of(DEVICES), scale.of(LIST));
    let rounds = if scale.quick { 2 } else { 7 };
    let holdline = Setup::default().start()?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "devices_a_request": list, "requests_at_once": POSTERS,
        "stream": STREAM, "rounds": rounds, "body_bytes": 64, "stored_ttl_s": TTL_S,
        "holdline": holdline.plan(),
    }));
    let speech =
        Speech::Miop { product: "demo".to_owned(), prefix: "push".to_owned(), reports: false };
    let mut caller = Remote::start(holdline.address, &speech, None)?;
    caller.open(devices, 100, 0)?;

    let to = |prefix: &str, first: u32, ttl_s| {
        let names: Vec<String> =
            (first..first + list).map(|number| speech::device(prefix, number)).collect();
        api::to_list("demo", &names, ttl_s)
    };
    let lists = |prefix: &str, ttl_s| -> Vec<Value> {
        (0..devices / list).map(|at| to(prefix, at * list, ttl_s)).collect()
    };
    let single = |at| api::to_list("demo", &[speech::device("push", at % devices)], 0);
    let singles: Vec<Value> = (0..scale.of(SINGLES)).map(single).collect();
    let stream = vec![api::to_all("demo"); STREAM as usize];
    let each = u64::from(devices / list * list);
    let shapes = [
        ("", lists("push", 0), each),
        (", streams", stream, u64::from(devices * STREAM)),
        (", stored first", lists("push", TTL_S), each),
        (", one device a request", singles, u64::from(scale.of(SINGLES))),
    ];
    for (name, orders, pushes) in &shapes {
        let nanos = round(&holdline, &mut caller, orders, *pushes, rounds)?;
        let median = slope::median(&nanos);
        outcome.figure(&format!("pushes a second a core{name}"), 1e9 / median, "a second");
        outcome.detail(&format!("ns a push{name}"), json!(nanos));
    }
    let absent = cost(&holdline, &lists("none", 0), 2 * rounds)? / each as f64;
    outcome.figure("a device in a list, offline", absent, "ns of CPU");
    Ok(outcome)
}

/// CPU a push in nanoseconds, of each round after one that warms up.
fn round(
    holdline: &Holdline,
    caller: &mut Remote,
    orders: &[Value],
    pushes: u64,
    rounds: u32,
) -> io::Result<Vec<f64>> {
    let mut nanos = Vec::new();
    for round in 0..=rounds {
        caller.listen(pushes, PATIENCE)?;
        let before = cpu::used(holdline.pid())?;
        post(holdline, orders)?;
        let came = caller.heard()?;
        std::thread::sleep(SETTLE);
        let used = cpu::used(holdline.pid())? - before;
        if came != pushes {
            return Err(io::Error::other(format!("{came} of {pushes} pushes came")));
        }
        if round > 0 {
            nanos.push(used.as_nanos() as f64 / pushes as f64);
        }
    }
    Ok(nanos)
}

/// CPU of all `orders` in nanoseconds, where nothing is delivered: median of `rounds`.
fn cost(holdline: &Holdline, orders: &[Value], rounds: u32) -> io::Result<f64> {
    let mut nanos = Vec::new();
    for _ in 0..rounds {
        let before = cpu::used(holdline.pid())?;
        post(holdline, orders)?;
        nanos.push((cpu::used(holdline.pid())? - before).as_nanos() as f64);
    }
    Ok(slope::median(&nanos))
}

/// Posts all `orders`, some at a time.
fn post(holdline: &Holdline, orders: &[Value]) -> io::Result<()> {
    std::thread::scope(|scope| {
        let share = orders.len().div_ceil(POSTERS).max(1);
        let mut posters = Vec::new();
        for orders in orders.chunks(share) {
            let api = holdline.api.clone();
            let post = move || orders.iter().try_for_each(|order| api.push(order).map(drop));
            let thread = std::thread::Builder::new().name("poster".into());
            posters.push(thread.spawn_scoped(scope, post)?);
        }
        let failed = || io::Error::other("a poster failed");
        posters.into_iter().try_for_each(|poster| poster.join().map_err(|_| failed())?)
    })
}

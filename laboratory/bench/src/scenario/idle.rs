//! Idle: what devices cost that do nothing but ping, as a share of one core; and what it costs to
//! look at them, at the console and by a trace.
//!
//! 15,000 devices that ping every 60 s are 250 pings a second, evenly spread: each wakes the server
//! alone, which is the dearest way they can come. Binding is not measured. The onlooker is a reader
//! of the stream that an open page of the console reads, and is no part of the server.

use super::{CALLER_CORE, SERVER_CORE, Scale};
use crate::api::Followed;
use crate::caller::orders::Remote;
use crate::caller::speech::Speech;
use crate::clock;
use crate::holdline::Setup;
use crate::measure::cpu;
use crate::results::Outcome;
use serde_json::json;
use std::io;
use std::thread;
use std::time::Duration;

const DEVICES: u32 = 15_000;
const HEARTBEAT_S: u32 = 60;

/// Devices that are looked at.
const LOOKED_AT: u32 = 10_000;
/// Pages of the console that are open at once, where there are many.
const PAGES: usize = 20;
/// Devices whose pings are followed by nobody, or by a trace.
const TRACED: u32 = 1_000;
/// Their pings in a second.
const TRACED_PINGS: u32 = 4_000;

/// Devices of MIOP that are called so.
fn devices_of(prefix: &str) -> Speech {
    Speech::Miop { product: "demo".to_owned(), prefix: prefix.to_owned(), reports: false }
}

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
    let mut caller = Remote::start(holdline.address, &devices_of("idle"), None)?;
    caller.open(devices, 100, 0)?;
    thread::sleep(Duration::from_secs(2));
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

/// Cost of an open console for the server, with ten thousand devices that ping.
pub fn console(scale: Scale) -> io::Result<Outcome> {
    let devices = scale.of(LOOKED_AT);
    let span = Duration::from_secs(u64::from(scale.of(HEARTBEAT_S)));
    let per_s = devices.div_ceil(HEARTBEAT_S);
    let holdline = Setup::default().start()?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "pings_per_s": per_s, "measured_s": span.as_secs(), "pages": PAGES,
        "holdline": holdline.plan(),
    }));
    let mut caller = Remote::start(holdline.address, &devices_of("seen"), None)?;
    caller.open(devices, 100, 0)?;
    thread::sleep(Duration::from_secs(2));
    let mut share = |pages: usize| -> io::Result<f64> {
        let looked: Vec<_> =
            (0..pages).map(|_| holdline.api.follow("/v1/overview/stream", "overview")).collect();
        let looked = looked.into_iter().collect::<io::Result<Vec<_>>>()?;
        thread::sleep(Duration::from_secs(2));
        let (began, before) = (clock::now(), cpu::used(holdline.pid())?);
        caller.pace(span, per_s)?;
        let (used, took) = (cpu::used(holdline.pid())? - before, clock::since(began));
        for page in looked {
            let figures = page.end();
            if figures < span.as_secs() / 2 {
                return Err(io::Error::other(format!("a page had {figures} figures")));
            }
        }
        Ok(100.0 * used.as_secs_f64() / took.as_secs_f64())
    };
    let (nobody, one, many) = (share(0)?, share(1)?, share(PAGES)?);
    outcome.figure("nobody looks, percent of a core", nobody, "%");
    outcome.figure("a page is open: percent of a core on top", one - nobody, "%");
    outcome.figure("twenty pages are open: percent of a core on top", many - nobody, "%");
    outcome.figure("devices online at the end", holdline.api.online()? as f64, "");
    Ok(outcome)
}

/// Cost of a trace for connections that it does not follow.
pub fn traced(scale: Scale) -> io::Result<Outcome> {
    let devices = scale.of(TRACED);
    let span = Duration::from_secs(u64::from(scale.of(20)));
    let holdline = Setup { core: Some(SERVER_CORE), ..Setup::default() }.start()?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "pings_per_s": TRACED_PINGS, "measured_s": span.as_secs(),
        "holdline": holdline.plan(),
    }));
    let mut caller = Remote::start(holdline.address, &devices_of("told"), Some(CALLER_CORE))?;
    caller.open(devices, 100, 0)?;
    let mut ping = |wish: Option<&str>| -> io::Result<f64> {
        let path = wish.map(|wish| format!("/v1/trace?{wish}&duration_s=300"));
        let trace = path.map(|path| holdline.api.follow(&path, "trace")).transpose()?;
        thread::sleep(Duration::from_secs(2));
        let before = cpu::used(holdline.pid())?;
        let pings = caller.pace(span, TRACED_PINGS)?;
        let used = cpu::used(holdline.pid())? - before;
        let told = trace.map_or(0, Followed::end);
        if told > 0 {
            return Err(io::Error::other(format!("it told {told} events of nobody")));
        }
        Ok(used.as_nanos() as f64 / 1e3 / pings as f64)
    };
    let (quiet, other) = (ping(None)?, ping(Some("client=nobody"))?);
    outcome.figure("a ping, nobody traces", quiet, "µs of CPU");
    outcome.figure("a ping, a trace follows somebody else", other, "µs of CPU");
    outcome.figure("on top for somebody else's trace", other - quiet, "µs of CPU");
    Ok(outcome)
}

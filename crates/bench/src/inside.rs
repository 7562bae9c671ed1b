//! Many devices against one server, both on this machine: bound, pushed to, held, counted.
//!
//! This runs inside the laboratory's VM, where a process may open millions of descriptors, and
//! outside it with fewer devices. It prints how far it has come, and its result as one line that
//! begins with [`MARK`]. Memory and capacity are true inside; times are those of an emulation.

mod laboratory;
mod mqtt;
mod xmpp;

use crate::api;
use crate::clock;
use crate::crowd;
use crate::holdline::{Holdline, Setup};
use crate::measure::memory::Memory;
use crate::measure::slab::{self, Slabs};
use crate::measure::{machine, slope};
use base::prng::Prng;
use lab::plan::Arrival;
use load::{Fleet, FleetPlan, Reconnect, Snapshot};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Begins the line of the result.
pub const MARK: &str = "RESULT ";
/// A million pings in five minutes would leave an emulated machine a quarter of its logins.
const HEARTBEAT_S: u16 = 1_200;
const WINDOW: u32 = 90;
const STEPS: u64 = 5;
const PUSHED: u32 = 1_000;
/// Devices that come back a second, at most, when the server was killed: an emulated machine lets
/// some 750 in.
const BACK_A_SECOND: u32 = 600;
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(15);

/// Runs it: `miop|mqtt|xmpp|lab DEVICES HOLD_SECONDS PATIENCE_SECONDS`, the last for everything but
/// what is held.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let Some((protocol, arguments)) = arguments.split_first() else {
        return Err(io::Error::other("miop|mqtt|xmpp|lab DEVICES HOLD_SECONDS PATIENCE_SECONDS"));
    };
    let numbers: Option<Vec<u32>> = arguments.iter().map(|word| word.parse().ok()).collect();
    let Some([devices, hold_s, patience_s]) = numbers.as_deref() else {
        return Err(io::Error::other("DEVICES HOLD_SECONDS PATIENCE_SECONDS"));
    };
    let patience = Duration::from_secs(u64::from(*patience_s));
    match protocol.as_str() {
        "mqtt" => return mqtt::run(*devices, *hold_s),
        "xmpp" => return xmpp::run(*devices, *hold_s, patience),
        "lab" => return laboratory::run(*devices),
        _ => {}
    }
    let setup = Setup { connections: devices + 1_000, bind_ms: 120_000, ..Setup::default() };
    let mut holdline = setup.start()?;
    let profile = Arc::new(crowd::profile(HEARTBEAT_S)?);
    let mut plan = FleetPlan::new(holdline.address, *devices, Arc::clone(&profile));
    plan.arrival = Arrival::Window { open: WINDOW };
    plan.sources = load::source::spread(&[], &plan.to, *devices).map_err(io::Error::other)?;
    plan.first_number = crowd::FIRST;
    plan.timeout = Duration::from_secs(120);
    plan.reconnect = back_off(*devices);
    let began = clock::now();
    let fleet = Fleet::start(plan).map_err(io::Error::other)?;
    let mut samples = Vec::new();
    let bound = bind(&holdline, &fleet, u64::from(*devices), patience, &mut samples)?;
    let bind_s = clock::since(began).as_secs_f64();
    println!("{bound} bound after {bind_s:.0} s");

    let names: Vec<String> = numbers_of(*devices).iter().map(|n| profile.device(*n)).collect();
    let mut order = api::to_list("demo", &names, 3_600);
    order["wait_ms"] = json!(30_000);
    let pushed = clock::now();
    let answer = holdline.api.push(&order)?;
    let push_s = clock::since(pushed).as_secs_f64();
    let outcomes = answer["outcomes"].as_array().map_or(&[][..], Vec::as_slice);
    let delivered = outcomes.iter().filter(|it| it["outcome"] == "delivered").count();
    println!("{delivered} of {} pushes acknowledged after {push_s:.1} s", names.len());

    let hold = Duration::from_secs(u64::from(*hold_s));
    let held = clock::now();
    while clock::since(held) < hold {
        std::thread::sleep(TELL_EVERY.min(hold));
        let seen = fleet.snapshot();
        println!("holding {}: {} pings, {} answered", seen.online_now, seen.pings, seen.pongs);
    }
    samples.push(sample(&holdline, fleet.snapshot().online_now)?);
    let seen = fleet.snapshot();
    let told = json!({
        "devices": devices, "hold_s": hold_s, "window": WINDOW, "heartbeat_s": HEARTBEAT_S,
        "bind_s": bind_s, "held": seen.online_now, "online": holdline.api.online()?,
        "pushed": names.len(), "delivered": delivered, "push_s": push_s,
        "pings": seen.pings, "pongs": seen.pongs, "messages": seen.messages,
        "errors": causes(&seen),
        "accounts_agree": seen.conserved(), "machine": machine::describe(),
        "memory": memory(&samples), "holdline": holdline.plan(),
        "killed": comes_back(&mut holdline, &fleet, u64::from(*devices), began + hold + patience)
            .unwrap_or_else(|error| json!({ "failed": error.to_string() })),
    });
    println!("{MARK}{told}");
    fleet.stop();
    Ok(())
}

/// Errors by their causes.
fn causes(seen: &Snapshot) -> BTreeMap<String, u64> {
    crowd::errors(seen).into_iter().collect()
}

/// Devices come back after a wait that is drawn at random: so many a second at first.
fn back_off(devices: u32) -> Reconnect {
    // The first half of a wait is certain, the other one drawn.
    let base = 2 * Duration::from_secs(u64::from(devices / BACK_A_SECOND).max(1));
    Reconnect::Backoff { base, max: base * 2 }
}

/// The server is killed and started again: how many are back, and when.
fn comes_back(
    holdline: &mut Holdline,
    fleet: &Fleet,
    devices: u64,
    until: Instant,
) -> io::Result<Value> {
    let before = fleet.snapshot();
    let killed = clock::now();
    holdline.kill_and_start()?;
    let started_s = clock::since(killed).as_secs_f64();
    println!("killed, and up again after {started_s:.1} s");
    // Its end is seen before its return: all are gone at first.
    let all_went = |seen: &Snapshot| seen.reconnects - before.reconnects >= devices;
    while !fleet.wait(|seen| all_went(seen) && seen.online_now >= devices, TELL_EVERY) {
        let seen = fleet.snapshot();
        println!("{} back, {} calls again", seen.online_now, seen.reconnects - before.reconnects);
        if clock::now() > until {
            break;
        }
    }
    let seen = fleet.snapshot();
    let back_s = clock::since(killed).as_secs_f64();
    Ok(json!({
        "started_s": started_s, "back": seen.online_now, "online": holdline.api.online()?,
        "back_s": (seen.online_now >= devices).then_some(back_s),
        "calls": seen.reconnects - before.reconnects, "gave_up": seen.over - before.over,
        "accounts_agree": seen.conserved(), "rss": Memory::of(holdline.pid())?.rss,
        "ends": causes(&seen),
    }))
}

/// What was held at a moment.
struct Sample {
    online: u64,
    memory: Memory,
    slabs: Option<Slabs>,
}

fn sample(holdline: &Holdline, online: u64) -> io::Result<Sample> {
    Ok(Sample { online, memory: Memory::of(holdline.pid())?, slabs: slab::read()? })
}

/// Waits until all are bound, taking samples on the way. An error that the fleet saw ends it.
fn bind(
    holdline: &Holdline,
    fleet: &Fleet,
    devices: u64,
    patience: Duration,
    samples: &mut Vec<Sample>,
) -> io::Result<u64> {
    let began = clock::now();
    for step in 1..=STEPS {
        let goal = devices * step / STEPS;
        let come = |seen: &Snapshot| seen.online_now >= goal || !crowd::errors(seen).is_empty();
        while !fleet.wait(come, TELL_EVERY) {
            println!("{} bound", fleet.snapshot().online_now);
            if clock::since(began) > patience {
                return Err(io::Error::other(format!("not bound: {:?}", fleet.snapshot())));
            }
        }
        let seen = fleet.snapshot();
        if !crowd::errors(&seen).is_empty() {
            return Err(io::Error::other(format!("errors: {:?}", crowd::errors(&seen))));
        }
        std::thread::sleep(Duration::from_millis(200));
        samples.push(sample(holdline, fleet.snapshot().online_now)?);
    }
    Ok(fleet.snapshot().online_now)
}

/// Different numbers among the devices', drawn with a fixed seed.
fn numbers_of(devices: u32) -> Vec<u32> {
    let mut drawn = BTreeSet::new();
    let mut prng = Prng::new(0x686f_6c64);
    while drawn.len() < PUSHED.min(devices) as usize {
        drawn.insert(crowd::FIRST + prng.below(u64::from(devices)) as u32);
    }
    drawn.into_iter().collect()
}

/// Bytes a connection as slopes over the samples with connections: the server's first memory
/// comes in large pieces. The kernel's are both ends'.
fn memory(samples: &[Sample]) -> Value {
    let slope = |of: fn(&Memory) -> u64| {
        let point = |it: &Sample| (it.online as f64, of(&it.memory) as f64);
        slope::through(&samples.iter().map(point).collect::<Vec<_>>())
    };
    let user = slope(|memory| memory.private_dirty);
    let known: Option<Vec<(u32, Slabs)>> =
        samples.iter().map(|it| Some((it.online as u32, it.slabs.clone()?))).collect();
    let kernel = known.map(|steps| slab::Growth::over(&steps));
    json!({
        "private_dirty_a_connection": user.each, "r2": user.r2, "fixed": user.fixed,
        "rss_a_connection": slope(|memory| memory.rss).each,
        "pss_a_connection": slope(|memory| memory.pss).each,
        "rss": samples.last().map_or(0, |it| it.memory.rss),
        "kernel_a_connection_both_ends": kernel.as_ref().map(slab::Growth::total),
        "caches": kernel.as_ref().map(slab::Growth::shown),
    })
}

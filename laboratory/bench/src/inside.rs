//! Many devices against one server, both on this machine: bound, pushed to, held, counted.
//!
//! This runs inside the laboratory's VM, where a process may open millions of descriptors, and
//! outside it with fewer devices. It prints how far it has come, and its result as one line that
//! begins with [`MARK`]. Memory and capacity are true inside; times are those of an emulation.

mod laboratory;
mod miop;
mod mqtt;
mod xmpp;

use crate::api::Api;
use crate::clock;
use crate::crowd;
use crate::holdline::{Holdline, Setup};
use crate::measure::memory::Memory;
use crate::measure::slab::{self, Slabs};
use crate::measure::slope;
use base::prng::Prng;
use load::{Fleet, Reconnect, Snapshot};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// Begins the line of the result.
pub const MARK: &str = "RESULT ";
/// A million pings in five minutes would leave an emulated machine a quarter of its logins.
const HEARTBEAT_S: u16 = 1_200;
const WINDOW: u32 = 90;
const STEPS: u64 = 5;
const PUSHED: u32 = 1_000;
/// Seed of who is pushed to.
const DRAWN: u64 = 0x686f_6c64;
/// Devices that come back a second, at most, when the server was killed: an emulated machine lets
/// some 750 in.
const BACK_A_SECOND: u32 = 600;
/// An emulated machine takes so long at most to start over what a million have left.
const START_S: u32 = 900;
/// Time between two reports of progress.
const TELL_EVERY: Duration = Duration::from_secs(15);

/// Runs a measurement inside the VM: `miop|mqtt|mqtt-kept|xmpp|lab DEVICES HOLD_SECONDS
/// PATIENCE_SECONDS`, the last for everything but what is held.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let Some((protocol, arguments)) = arguments.split_first() else {
        let usage = "miop|mqtt|mqtt-kept|xmpp|lab DEVICES HOLD_SECONDS PATIENCE_SECONDS";
        return Err(io::Error::other(usage));
    };
    let numbers: Option<Vec<u32>> = arguments.iter().map(|word| word.parse().ok()).collect();
    let Some([devices, hold_s, patience_s]) = numbers.as_deref() else {
        return Err(io::Error::other("DEVICES HOLD_SECONDS PATIENCE_SECONDS"));
    };
    let patience = Duration::from_secs(u64::from(*patience_s));
    match protocol.as_str() {
        "mqtt" => mqtt::run(*devices, *hold_s, patience, false),
        "mqtt-kept" => mqtt::run(*devices, *hold_s, patience, true),
        "xmpp" => xmpp::run(*devices, *hold_s, patience),
        "lab" => laboratory::run(*devices),
        _ => miop::run(*devices, *hold_s, patience),
    }
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

/// A server that holds so many, or more.
fn setup(devices: u32) -> Setup {
    let start_s = START_S;
    Setup { connections: devices + 1_000, bind_ms: 120_000, start_s, ..Setup::default() }
}

/// Holds who is there, and tells how it goes.
fn hold(fleet: &Fleet, hold_s: u32) {
    let (held, hold) = (clock::now(), Duration::from_secs(u64::from(hold_s)));
    while clock::since(held) < hold {
        std::thread::sleep(TELL_EVERY.min(hold));
        let seen = fleet.snapshot();
        println!("holding {}: {} pings, {} answered", seen.online_now, seen.pings, seen.pongs);
    }
}

/// A server and a fleet that it holds.
struct Held<'a> {
    holdline: &'a mut Holdline,
    fleet: &'a Fleet,
    devices: u64,
    /// When nobody waits any longer.
    until: Instant,
}

impl Held<'_> {
    /// The server is killed and started again: how many are back, and when. Something happens when
    /// it is up and few are there; `online` says how many the server holds for online.
    fn comes_back(
        &mut self,
        online: fn(&Api) -> io::Result<u64>,
        meanwhile: impl FnOnce(&Api) -> io::Result<()>,
    ) -> io::Result<Value> {
        let (fleet, devices) = (self.fleet, self.devices);
        let before = fleet.snapshot();
        let killed = clock::now();
        self.holdline.kill_and_start()?;
        let started_s = clock::since(killed).as_secs_f64();
        println!("killed, and up again after {started_s:.1} s");
        meanwhile(&self.holdline.api)?;
        // Its end is seen before its return: all are gone at first.
        let all_went = |seen: &Snapshot| seen.reconnects - before.reconnects >= devices;
        while !fleet.wait(|seen| all_went(seen) && seen.online_now >= devices, TELL_EVERY) {
            let seen = fleet.snapshot();
            let calls = seen.reconnects - before.reconnects;
            println!("{} back, {calls} calls again", seen.online_now);
            if clock::now() > self.until {
                break;
            }
        }
        let seen = fleet.snapshot();
        let back_s = clock::since(killed).as_secs_f64();
        Ok(json!({
            "started_s": started_s, "back": seen.online_now,
            "online": online(&self.holdline.api)?,
            "back_s": (seen.online_now >= devices).then_some(back_s),
            "calls": seen.reconnects - before.reconnects, "gave_up": seen.over - before.over,
            "went_on": seen.resumed - before.resumed,
            "accounts_agree": seen.conserved(), "rss": Memory::of(self.holdline.pid())?.rss,
            "ends": causes(&seen),
        }))
    }
}

/// Sizes at a moment.
struct Sample {
    online: u64,
    memory: Memory,
    /// Memory of the store's indexes among it, whose limits are no session's: blocks that were
    /// read, and rows that wait to be written.
    cached: u64,
    unwritten: u64,
    slabs: Option<Slabs>,
}

fn sample(holdline: &Holdline, online: u64) -> io::Result<Sample> {
    let overview = holdline.api.ask("overview")?;
    let reading = |name: &str| {
        let missing = || io::Error::other(format!("an overview without {name}"));
        overview["readings"][name].as_u64().ok_or_else(missing)
    };
    let (cached, unwritten) = (reading("store_cache_bytes")?, reading("store_unwritten_bytes")?);
    let memory = Memory::of(holdline.pid())?;
    Ok(Sample { online, memory, cached, unwritten, slabs: slab::read()? })
}

impl Sample {
    fn shown(&self) -> Value {
        json!({
            "online": self.online, "private_dirty": self.memory.private_dirty,
            "index_blocks": self.cached, "index_rows": self.unwritten,
        })
    }
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

/// Different numbers among the devices', the first of which is `first`, drawn with this seed.
fn drawn(seed: u64, first: u32, devices: u32) -> Vec<u32> {
    let mut drawn = BTreeSet::new();
    let mut prng = Prng::new(seed);
    while drawn.len() < PUSHED.min(devices) as usize {
        drawn.insert(first + prng.below(u64::from(devices)) as u32);
    }
    drawn.into_iter().collect()
}

/// Bytes a connection as slopes over the samples with connections: the server's first memory
/// comes in large pieces. The kernel's are both ends'.
fn memory(samples: &[Sample]) -> Value {
    let slope = |of: fn(&Sample) -> u64| {
        let point = |it: &Sample| (it.online as f64, of(it) as f64);
        slope::through(&samples.iter().map(point).collect::<Vec<_>>())
    };
    let user = slope(|it| it.memory.private_dirty);
    let known: Option<Vec<(u32, Slabs)>> =
        samples.iter().map(|it| Some((it.online as u32, it.slabs.clone()?))).collect();
    let kernel = known.map(|steps| slab::Growth::over(&steps));
    json!({
        "private_dirty_a_connection": user.each, "r2": user.r2, "fixed": user.fixed,
        "rss_a_connection": slope(|it| it.memory.rss).each,
        "pss_a_connection": slope(|it| it.memory.pss).each,
        "index_blocks_a_connection": slope(|it| it.cached).each,
        "index_rows_a_connection": slope(|it| it.unwritten).each,
        "samples": samples.iter().map(Sample::shown).collect::<Vec<_>>(),
        "rss": samples.last().map_or(0, |it| it.memory.rss),
        "kernel_a_connection_both_ends": kernel.as_ref().map(slab::Growth::total),
        "caches": kernel.as_ref().map(slab::Growth::shown),
    })
}

//! Many devices of MIOP: bound, pushed to, held; then the server is killed, and all come back.

use super::{DRAWN, HEARTBEAT_S, Held, MARK, PUSHED, WINDOW, bind, causes, drawn, hold};
use super::{back_off, memory, sample, setup};
use crate::api::{self, Api};
use crate::clock;
use crate::crowd;
use crate::measure::machine;
use lab::plan::Arrival;
use load::{Fleet, FleetPlan};
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Runs the measurement.
pub fn run(devices: u32, hold_s: u32, patience: Duration) -> io::Result<()> {
    let mut holdline = setup(devices).start()?;
    let profile = Arc::new(crowd::profile(HEARTBEAT_S)?);
    let mut plan = FleetPlan::new(holdline.address, devices, Arc::clone(&profile));
    plan.arrival = Arrival::Window { open: WINDOW };
    plan.sources = load::source::spread(&[], &plan.to, devices).map_err(io::Error::other)?;
    plan.first_number = crowd::FIRST;
    plan.timeout = Duration::from_secs(120);
    plan.reconnect = back_off(devices);
    let began = clock::now();
    let fleet = Fleet::start(plan).map_err(io::Error::other)?;
    let mut samples = Vec::new();
    let bound = bind(&holdline, &fleet, u64::from(devices), patience, &mut samples)?;
    let bind_s = clock::since(began).as_secs_f64();
    println!("{bound} bound after {bind_s:.0} s");

    let numbers = drawn(DRAWN, crowd::FIRST, devices);
    let names: Vec<String> = numbers.iter().map(|number| profile.device(*number)).collect();
    let mut order = api::to_list("demo", &names, 3_600);
    order["wait_ms"] = json!(30_000);
    let pushed = clock::now();
    let answer = holdline.api.push(&order)?;
    let push_s = clock::since(pushed).as_secs_f64();
    let outcomes = answer["outcomes"].as_array().map_or(&[][..], Vec::as_slice);
    let delivered = outcomes.iter().filter(|it| it["outcome"] == "delivered").count();
    println!("{delivered} of {} pushes acknowledged after {push_s:.1} s", PUSHED.min(devices));

    hold(&fleet, hold_s);
    let seen = fleet.snapshot();
    samples.push(sample(&holdline, seen.online_now)?);
    let mut told = json!({
        "devices": devices, "hold_s": hold_s, "window": WINDOW, "heartbeat_s": HEARTBEAT_S,
        "bind_s": bind_s, "held": seen.online_now, "online": holdline.api.online()?,
        "pushed": names.len(), "delivered": delivered, "push_s": push_s,
        "pings": seen.pings, "pongs": seen.pongs, "messages": seen.messages,
        "errors": causes(&seen),
        "accounts_agree": seen.conserved(), "machine": machine::describe(),
        "memory": memory(&samples), "holdline": holdline.plan(),
    });
    let until = began + Duration::from_secs(u64::from(hold_s)) + patience;
    let devices = u64::from(devices);
    let mut held = Held { holdline: &mut holdline, fleet: &fleet, devices, until };
    told["killed"] = held
        .comes_back(Api::online, |_| Ok(()))
        .unwrap_or_else(|error| json!({ "failed": error.to_string() }));
    println!("{MARK}{told}");
    fleet.stop();
    Ok(())
}

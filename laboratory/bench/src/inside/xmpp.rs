//! XMPP sessions, each of an account of its own among 200,003: bound, there for others, counted.

use super::{MARK, STEPS, WINDOW, bind, causes, memory, sample, setup};
use crate::clock;
use crate::measure::machine;
use crate::scenario::lab::chat::accounts;
use client::Formula;
use lab::plan::Arrival;
use load::fleet::client::FleetProfile;
use load::fleet::client::xmpp::XmppProfile;
use load::{Fleet, FleetPlan};
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Runs the measurement.
pub fn run(sessions: u32, hold_s: u32, patience: Duration) -> io::Result<()> {
    let mut holdline = setup(sessions).start()?;
    let imported_s = accounts::bring_people(&holdline, accounts::users())?;
    // What bringing them left in memory is none of what sessions cost.
    holdline.restart(|_| Ok(()))?;
    println!("{} accounts after {imported_s:.1} s", accounts::ACCOUNTS);
    let profile = XmppProfile {
        user: Formula::new("user-%i"),
        domain: "localhost".into(),
        resource: Formula::new("bench"),
        password: Some(accounts::PASSWORD.into()),
        is_scram: true,
        silence_s: 600,
        is_lite: false,
    };
    let profile = FleetProfile::Xmpp(Arc::new(profile));
    let mut plan = FleetPlan::new(holdline.address, sessions, profile);
    plan.arrival = Arrival::Window { open: WINDOW };
    plan.sources = load::source::spread(&[], &plan.to, sessions).map_err(io::Error::other)?;
    plan.timeout = Duration::from_secs(120);
    let began = clock::now();
    let fleet = Fleet::start(plan).map_err(io::Error::other)?;
    let mut samples = Vec::new();
    bind(&holdline, &fleet, u64::from(sessions), patience, &mut samples)?;
    let bind_s = clock::since(began).as_secs_f64();
    println!("{sessions} bound after {bind_s:.0} s, in {STEPS} steps");
    std::thread::sleep(Duration::from_secs(u64::from(hold_s)));
    let seen = fleet.snapshot();
    samples.push(sample(&holdline, seen.online_now)?);
    let told = json!({
        "devices": sessions, "accounts": accounts::ACCOUNTS, "hold_s": hold_s, "window": WINDOW,
        "imported_s": imported_s, "bind_s": bind_s, "held": seen.online_now,
        "pings": seen.pings, "pongs": seen.pongs, "errors": causes(&seen),
        "accounts_agree": seen.conserved(), "machine": machine::describe(),
        "memory": memory(&samples), "holdline": holdline.plan(),
    });
    println!("{MARK}{told}");
    fleet.stop();
    Ok(())
}

//! Many MQTT clients with one subscription of its own each: subscribed, reached, held; then the
//! server is killed, and all come back.
//!
//! The clients' view is counted: every call has one end, by its cause, or is open. With kept
//! sessions all clients resume. A client that resumes does not subscribe again, so its later
//! messages came by the session that the server had kept; messages for clients that are still away
//! wait for them. With clean sessions all clients subscribe anew.

use super::{DRAWN, HEARTBEAT_S, Held, MARK, PUSHED, TELL_EVERY, WINDOW, bind, causes, drawn};
use super::{back_off, hold, memory, sample, setup};
use crate::api::Api;
use crate::clock;
use crate::measure::machine;
use lab::plan::Arrival;
use load::{Fleet, FleetPlan, Snapshot};
use proto_mqtt::client::{Clean, Formula, Profile, Wanted};
use proto_mqtt::codec::subscribe::SubscribeOptions;
use proto_mqtt::codec::{Qos, Version};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first client's number: all have as many digits, and identifiers of 16 characters.
const FIRST: u32 = 100_000_000;
/// Seed of who is published to when all are gone.
const DRAWN_AWAY: u64 = 0x6177_6179;

/// Runs the measurement, with sessions that are kept, or that end with their connection.
pub fn run(clients: u32, hold_s: u32, patience: Duration, is_kept: bool) -> io::Result<()> {
    let mut holdline = setup(clients).start()?;
    let mut plan = FleetPlan::new(holdline.mqtt, clients, Arc::new(profile(is_kept)));
    plan.arrival = Arrival::Window { open: WINDOW };
    plan.sources = load::source::spread(&[], &plan.to, clients).map_err(io::Error::other)?;
    plan.first_number = FIRST;
    plan.timeout = Duration::from_secs(120);
    plan.reconnect = back_off(clients);
    let began = clock::now();
    let until = began + Duration::from_secs(u64::from(hold_s)) + patience;
    let fleet = Fleet::start(plan).map_err(io::Error::other)?;
    let mut samples = Vec::new();
    bind(&holdline, &fleet, u64::from(clients), patience, &mut samples)?;
    wait(&fleet, until, |seen| seen.subscribed >= u64::from(clients));
    let bind_s = clock::since(began).as_secs_f64();
    println!("{} subscribed after {bind_s:.0} s", fleet.snapshot().subscribed);

    let pushed = u64::from(PUSHED.min(clients));
    let matched = publish(&holdline.api, &drawn(DRAWN, FIRST, clients))?;
    wait(&fleet, until, |seen| seen.messages >= pushed);
    println!("{} of {pushed} messages came", fleet.snapshot().messages);
    hold(&fleet, hold_s);
    let seen = fleet.snapshot();
    samples.push(sample(&holdline, seen.online_now)?);
    let mut told = json!({
        "devices": clients, "hold_s": hold_s, "window": WINDOW, "heartbeat_s": HEARTBEAT_S,
        "bind_s": bind_s, "held": seen.online_now, "online": holdline.api.sessions_online()?,
        "subscribed": seen.subscribed, "not_subscribed": seen.not_subscribed,
        "pushed": pushed, "matched": matched, "delivered": seen.messages,
        "pings": seen.pings, "pongs": seen.pongs, "errors": causes(&seen),
        "accounts_agree": seen.conserved(), "machine": machine::describe(),
        "memory": memory(&samples), "holdline": holdline.plan(),
        "subscription": "bench/N/#, unique, QoS 1", "version": "3.1.1", "sessions_kept": is_kept,
    });
    let devices = u64::from(clients);
    let mut held = Held { holdline: &mut holdline, fleet: &fleet, devices, until };
    told["killed"] = comes_back(&mut held, clients, &seen, is_kept)
        .unwrap_or_else(|error| json!({ "failed": error.to_string() }));
    println!("{MARK}{told}");
    fleet.stop();
    Ok(())
}

/// A client.
fn profile(is_kept: bool) -> Profile {
    let mut profile = Profile::new(Version::V311, Formula::new("client-%i"));
    profile.beats = false;
    profile.keep_alive_s = HEARTBEAT_S;
    profile.clean = if is_kept { Clean::Never } else { Clean::Always };
    let filter = Formula::new("bench/%i/#");
    profile.wanted = vec![Wanted { filter, options: SubscribeOptions::of(Qos::AtLeastOnce) }];
    profile
}

/// The server is killed and started again. Some are published to: where sessions are kept before
/// they are back, else when they have subscribed anew.
fn comes_back(
    held: &mut Held<'_>,
    clients: u32,
    before: &Snapshot,
    is_kept: bool,
) -> io::Result<Value> {
    let pushed = u64::from(PUSHED.min(clients));
    let mut matched = 0;
    let mut publish_again = |api: &Api| {
        matched = publish(api, &drawn(DRAWN_AWAY, FIRST, clients))?;
        Ok(())
    };
    let mut told = match is_kept {
        true => held.comes_back(Api::sessions_online, &mut publish_again)?,
        false => {
            let told = held.comes_back(Api::sessions_online, |_| Ok(()))?;
            let all = before.subscribed + u64::from(clients);
            wait(held.fleet, held.until, |seen| seen.subscribed >= all);
            publish_again(&held.holdline.api)?;
            told
        }
    };
    let came = |seen: &Snapshot| seen.messages - before.messages;
    wait(held.fleet, held.until, |seen| came(seen) >= pushed);
    let seen = held.fleet.snapshot();
    told["pushed"] = json!(pushed);
    told["matched"] = json!(matched);
    told["delivered"] = json!(came(&seen));
    told["subscribed_anew"] = json!(seen.subscribed - before.subscribed);
    Ok(told)
}

/// The API publishes to the topics of these clients; how many of them somebody has subscribed to.
fn publish(api: &Api, numbers: &[u32]) -> io::Result<u64> {
    let (payload, topic) = ("x".repeat(64), |number: &u32| format!("bench/{number}/in"));
    let message = |it: &u32| json!({ "topic": topic(it), "payload": payload, "qos": 1 });
    let list: Vec<Value> = numbers.iter().map(message).collect();
    let answer = api.post("/v1/publish", &json!(list))?;
    let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(results.iter().filter(|one| one["matched"] == true).count() as u64)
}

/// Waits for something until it is too late; what is measured then says so.
fn wait(fleet: &Fleet, until: Instant, came: impl Fn(&Snapshot) -> bool) {
    while !fleet.wait(&came, TELL_EVERY) && clock::now() < until {
        let seen = fleet.snapshot();
        println!("{} subscribed, {} messages", seen.subscribed, seen.messages);
    }
}

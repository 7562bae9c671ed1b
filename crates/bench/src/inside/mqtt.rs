//! Many MQTT clients, each with one subscription of its own: connected, reached, held, counted.

use super::{MARK, PUSHED, STEPS, Sample, memory, sample};
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::measure::machine;
use crate::swarm::orders::Remote;
use serde_json::json;
use std::io;

/// Connects under way at once.
const WINDOW: u32 = 90;

/// Runs it.
pub fn run(clients: u32, hold_s: u32) -> io::Result<()> {
    let setup = Setup { connections: clients + 1_000, bind_ms: 120_000, ..Setup::default() };
    let holdline: Holdline = setup.start()?;
    let mut swarm = Remote::start(holdline.mqtt)?;
    let (began, mut samples): (_, Vec<Sample>) = (clock::now(), Vec::new());
    // Orders of a few thousand, so that one can see it go on.
    const ORDER: u32 = 20_000;
    let mut held = 0;
    while held < clients {
        let count = ORDER.min(clients - held);
        swarm.open(&format!("hold {count} {} {WINDOW} wildcard", 100_000_000 + held))?;
        held += count;
        let step = |held: u32| u64::from(held) * STEPS / u64::from(clients);
        if step(held) > step(held - count) {
            println!("{held} connected and subscribed");
            samples.push(sample(&holdline, u64::from(held))?);
        }
    }
    let bind_s = clock::since(began).as_secs_f64();
    let reached = swarm.run(&format!("reach {}", PUSHED.min(clients)))?;
    println!("{} of {} reached", reached.delivered, PUSHED.min(clients));
    let held_for = swarm.run(&format!("ping {hold_s}"))?;
    println!("{} pings answered in {:.0} s", held_for.delivered, held_for.seconds);
    samples.push(sample(&holdline, u64::from(held))?);
    let told = json!({
        "devices": clients, "hold_s": hold_s, "window": WINDOW, "bind_s": bind_s,
        "held": held, "online": holdline.api.sessions_online()?,
        "pushed": PUSHED.min(clients), "delivered": reached.delivered,
        "pings": clients, "pongs": held_for.delivered, "errors": {},
        "machine": machine::describe(), "memory": memory(&samples),
        "subscription": "bench/N/#, unique, QoS 0", "holdline": holdline.plan(),
    });
    println!("{MARK}{told}");
    Ok(())
}

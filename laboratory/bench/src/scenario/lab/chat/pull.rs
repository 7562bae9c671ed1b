//! Pulls of what came while somebody was away: from memory, from the kernel's page cache, from the
//! disk; each page asked for by IM and answered in frames.
//!
//! Two hundred people get a thousand messages each while they are away, by a plan of `holdline
//! load`. Then each of them comes with a new device and pulls all of it, page by page, one person
//! after the other. *Memory*: the server has just stored it. *Page cache*: after a restart, the
//! second time. *Disk*: after a restart, the kernel was asked to forget the files
//! (`POSIX_FADV_DONTNEED`; what lies below the kernel may still have them). CPU is the server's;
//! every message is counted.

use super::super::talk;
use super::person::Person;
use super::rest;
use crate::child::pinned;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use crate::scenario::log::disk;
use crate::scenario::{CALLER_CORE, SERVER_CORE, Scale};
use client::im::{ImEvent, ImOrder};
use serde_json::json;
use std::io;
use std::time::Duration;

/// People that are away.
const PEOPLE: u32 = 200;
/// Senders to each person in turn, and the messages of each.
const SENDERS: u32 = 20;
const LOOPS: u32 = 50;
/// Bytes of a message.
const BYTES: u32 = 200;
/// Messages of a page: as many as a server gives by default.
const PAGE: u16 = 128;
/// Notifications and pulls that Wildfire reports, a second a core.
const WILDFIRE: f64 = 2_978.0;

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let people = scale.of(PEOPLE);
    let mut server = setup().start()?;
    let mut outcome = Outcome::new(json!({
        "people": people, "messages_each": SENDERS * LOOPS, "bytes": BYTES, "page": PAGE,
        "server": server.plan(),
        "cores": "the server on one, who pulls on the other; one person after the other",
    }));
    let talked = talk::written(&server, &plan(people))?;
    talked.held_but(&[])?;
    rest(&server)?;
    pull(&server, "memory", people, &mut outcome)?;
    server.restart(disk::forget)?;
    rest(&server)?;
    pull(&server, "disk", people, &mut outcome)?;
    server.restart(|_| Ok(()))?;
    rest(&server)?;
    pull(&server, "page cache", people, &mut outcome)?;
    Ok(outcome)
}

fn setup() -> Setup {
    Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() }
}

/// Has every account pull all with a new device, named after `from`.
fn pull(server: &Holdline, from: &str, people: u32, outcome: &mut Outcome) -> io::Result<()> {
    let device = from.replace(' ', "-");
    let before = cpu::used(server.pid())?;
    let pulled = pinned(CALLER_CORE, || {
        let mut pulled = Pulled::default();
        (0..people).try_for_each(|number| pulled.all_of(server, number, &device))?;
        Ok(pulled)
    })?;
    let cpu_s = (cpu::used(server.pid())? - before).as_secs_f64();
    let messages = pulled.messages as f64;
    let a_core = messages / cpu_s;
    outcome.figure(&format!("from {from}: CPU"), 1e6 * cpu_s / messages, "µs a message");
    outcome.figure(&format!("from {from}: messages a second a core"), a_core, "a second");
    outcome.figure(&format!("from {from}: against Wildfire's"), a_core / WILDFIRE, "times");
    let rate = messages / pulled.took.as_secs_f64();
    outcome.figure(&format!("from {from}: messages"), rate, "a second");
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let us = slope::quantile(&pulled.pages_us, share);
        outcome.figure(&format!("from {from}: a page, {name}"), us, "µs");
    }
    outcome.detail(from, json!({ "messages": pulled.messages, "pages": pulled.pages_us.len() }));
    Ok(())
}

/// Pulls so far.
#[derive(Default)]
struct Pulled {
    messages: u64,
    pages_us: Vec<f64>,
    took: Duration,
}

impl Pulled {
    /// Pulls the inbox of one person, which has what was said to it.
    fn all_of(&mut self, server: &Holdline, number: u32, device: &str) -> io::Result<()> {
        let mut person = Person::login(server.address, &format!("r_{number}"), device)?;
        let (mut after, mut messages) = (0, 0);
        loop {
            let began = clock::now();
            let page = person.ask(|number| ImOrder::Pull { number, after, count: PAGE })?;
            let took = clock::since(began);
            let ImEvent::Page { messages: some, upto, head, .. } = page else {
                return Err(io::Error::other(format!("{page:?}")));
            };
            self.took += took;
            self.pages_us.push(took.as_secs_f64() * 1e6);
            messages += some.len() as u64;
            after = upto;
            if upto >= head {
                break;
            }
        }
        person.goes();
        self.messages += messages;
        let owed = u64::from(SENDERS * LOOPS);
        match messages == owed {
            true => Ok(()),
            false => Err(io::Error::other(format!("{messages} of {owed} came to r_{number}"))),
        }
    }
}

/// Plan in which every receiver comes once, and is away while messages are sent to it.
fn plan(people: u32) -> String {
    format!(
        "name = \"pull\"\npass = [\"accounts == 1\", \"unexplained == 0\"]\n\n\
         [[group]]\nname = \"senders\"\nuser = \"s_%i\"\nid = \"c_s_%i\"\nlite = true\n\n\
         [[group]]\nname = \"receivers\"\nuser = \"r_%i\"\nid = \"c_r_%i\"\n\n\
         [[stage]]\nname = \"accounts\"\nclients = {{ receivers = {people} }}\n\
         pass = [\"online_share == 1\", \"errors == 0\"]\nstop_on_failure = true\n\n\
         [[stage]]\nname = \"connect\"\nclients = {{ senders = {SENDERS}, receivers = 0 }}\n\
         pass = [\"online_share == 1\", \"errors == 0\"]\nstop_on_failure = true\n\n\
         [[stage]]\nname = \"send\"\nhold = \"10m\"\n\
         pass = [\"messages.owed == 0\", \"errors == 0\"]\n\n\
         [[stage.traffic.senders]]\nwhat = \"publish\"\ntopic = \"r_%i\"\namong = {people}\n\
         loops = {LOOPS}\nbytes = {BYTES}\npace = {{ window = 16 }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_a_plan() {
        assert_eq!(talk::is_plan(&plan(PEOPLE)).map(|plan| plan.stages.len()), Ok(3));
    }
}

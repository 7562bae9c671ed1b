//! Wildfire's single chats, W1 and W2, its groups, W3 to W5, and its chatrooms, W6 to W8, at the
//! size of the shipped plans: 10 million messages, and 10 to 20 million distributions. In lock step
//! W1 and W2 go a part of it.
//!
//! The server has one core, with its log and all its threads; `holdline load` has the other. CPU is
//! the server's process's, from the first send until it is at rest, the log's included. A figure is
//! only given where the plan's audit held: acknowledged = stored = observed. A distribution of a
//! group is an entry that the audit has pulled from a member's inbox; of groups that are read there
//! is none. Of a chatroom nothing is distributed: delivered is what its members had, and the
//! messages reported to them as missed are a figure beside it. Wildfire's reported figures are
//! divided by all cores of its server and its database.

use super::talk::{self, Talked};
use crate::holdline::Setup;
use crate::results::Outcome;
use crate::scenario::{SERVER_CORE, Scale};
use serde_json::json;
use std::io;

/// Rounds of each sender over all receivers, pipelined: as many as Wildfire went.
const LOOPS: u32 = 50;
/// Rounds in lock step: a part of those.
const LOOPS_IN_LOCK_STEP: u32 = 2;
/// Groups of W3 to W5, as many as Wildfire had.
const GROUPS: u32 = 100;
/// Messages without an answer that a pipelined sender has.
const WINDOW: u32 = 64;
/// Rules whose end depends on the machine: they are reported with the figures.
const OF_THE_MACHINE: [&str; 3] =
    ["cpu_limited == 1", "target.process.cpu.last < 0.1", "messages.tail_ms <= 1000"];

/// Send only, one message at a time.
pub fn w1(scale: Scale) -> io::Result<Outcome> {
    single(scale, ("im-w1", 1_227.0), 1)
}

/// Send only, pipelined.
pub fn w1_pipelined(scale: Scale) -> io::Result<Outcome> {
    single(scale, ("im-w1", 1_227.0), WINDOW)
}

/// Send and receive, one message at a time.
pub fn w2(scale: Scale) -> io::Result<Outcome> {
    single(scale, ("im-w2", 869.0), 1)
}

/// Send and receive, pipelined.
pub fn w2_pipelined(scale: Scale) -> io::Result<Outcome> {
    single(scale, ("im-w2", 869.0), WINDOW)
}

/// Groups of 100, of whom half send.
pub fn w3(scale: Scale) -> io::Result<Outcome> {
    groups(scale, ("im-w3", 8_375.0), (50, 20))
}

/// Groups of 200, of whom half send.
pub fn w4(scale: Scale) -> io::Result<Outcome> {
    groups(scale, ("im-w4", 8_573.0), (100, 10))
}

/// Groups of 1,000, of whom a hundred send.
pub fn w5(scale: Scale) -> io::Result<Outcome> {
    groups(scale, ("im-w5", 8_750.0), (900, 2))
}

/// As [`w5`], with groups of more than 200 read: no message of it is a distribution.
pub fn w5_read(scale: Scale) -> io::Result<Outcome> {
    run(("im-w5-read", f64::NAN), sets_of_groups(scale, (900, 2)), Of::ReadGroups)
}

/// A chatroom of 1,000.
pub fn w6(scale: Scale) -> io::Result<Outcome> {
    room(scale, ("im-w6", 32_000.0), 1_000)
}

/// A chatroom of 2,000.
pub fn w7(scale: Scale) -> io::Result<Outcome> {
    room(scale, ("im-w7", 25_773.0), 2_000)
}

/// A chatroom of 5,000.
pub fn w8(scale: Scale) -> io::Result<Outcome> {
    room(scale, ("im-w8", 13_440.0), 5_000)
}

/// A chatroom with so many who listen; all ten thousand messages, as fast as the plan has them.
fn room(scale: Scale, what: (&str, f64), receivers: u32) -> io::Result<Outcome> {
    let sets = vec![
        format!("ReceiveUserCount={}", scale.of(receivers)),
        format!("SendUserCount={}", scale.of(100)),
    ];
    run(what, sets, Of::Room)
}

/// Groups with so many receivers and all senders, and rounds of each sender over its groups;
/// pipelined, as what a distribution costs is asked.
fn groups(scale: Scale, what: (&str, f64), (receivers, loops): (u32, u32)) -> io::Result<Outcome> {
    run(what, sets_of_groups(scale, (receivers, loops)), Of::Groups)
}

fn sets_of_groups(scale: Scale, (receivers, loops): (u32, u32)) -> Vec<String> {
    vec![
        format!("ReceiveUserCount={receivers}"),
        format!("GroupCount={}", scale.of(GROUPS)),
        format!("Loop={loops}"),
        format!("Window={WINDOW}"),
    ]
}

/// Send and receive between two.
fn single(scale: Scale, what: (&str, f64), window: u32) -> io::Result<Outcome> {
    let loops = if window == 1 { LOOPS_IN_LOCK_STEP } else { scale.of(LOOPS) };
    let sets = vec![
        format!("ReceiveUserCount={}", scale.of(1_000)),
        format!("Loop={loops}"),
        format!("Window={window}"),
    ];
    run(what, sets, Of::Two)
}

/// Sides between which messages go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Two,
    Groups,
    /// Groups that are read: those who are away draw what was said when they come.
    ReadGroups,
    Room,
}

fn run((plan, wildfire): (&str, f64), sets: Vec<String>, of: Of) -> io::Result<Outcome> {
    let (core, group_members) = (Some(SERVER_CORE), 1_000);
    let group_written = if of == Of::ReadGroups { 200 } else { 2_000 };
    let setup = Setup { shards: 1, core, group_members, group_written, ..Setup::default() };
    let server = setup.start()?;
    let talked = talk::known(&server, plan, &sets)?;
    let mut outcome = Outcome::new(json!({
        "plan": plan, "parameters": sets, "server": server.plan(),
        "cpu": "the server's process, its log included, from the first send until it is at rest",
        "cores": "the server on one, holdline load on the other",
    }));
    tell(&talked, wildfire, of, &mut outcome)?;
    Ok(outcome)
}

fn tell(talked: &Talked, wildfire: f64, kind: Of, outcome: &mut Outcome) -> io::Result<()> {
    let of_the_machine = talked.held_but(&OF_THE_MACHINE)?;
    let send = talked.stage("send")?;
    let cpu_s = talked.cpu_s("send", "quiet")?;
    let of = |name: &str| send.counts.figure(name);
    let (taken, received) = (of("messages.taken"), of("messages.received"));
    let a_core = taken / cpu_s;
    let entries = match kind {
        // Of what two say the audit looks at one's inbox; it stands in both.
        Of::Two => 2.0 * taken,
        Of::Room | Of::ReadGroups => 0.0,
        Of::Groups => talked.stage("audit")?.counts.figure("audit.entries"),
    };
    let distributed = entries / cpu_s;
    outcome.figure("sends a second a core", a_core, "a second");
    let mut compared = |figure: f64| {
        outcome.figure("against Wildfire's", figure / wildfire, "times");
    };
    match kind {
        Of::Two => compared(a_core),
        Of::Groups => compared(distributed),
        Of::Room => compared(received / cpu_s),
        Of::ReadGroups => {} // it has published none that are
    }
    match kind {
        Of::Room => {
            let skipped = of("messages.skipped");
            outcome.figure("left out, and told", 100.0 * skipped / (received + skipped), "%");
        }
        Of::ReadGroups => {
            // Those who were away have drawn and pulled it: what that cost is the audit's.
            let drawn = talked.stage("audit")?.counts.figure("audit.entries");
            let cpu_s = talked.cpu_s("audit", "audit")?;
            outcome.figure("drawn and pulled a second a core", drawn / cpu_s, "a second");
        }
        Of::Two | Of::Groups => {
            outcome.figure("distributions a second a core", distributed, "a second");
        }
    }
    outcome.figure("deliveries a second a core", received / cpu_s, "a second");
    outcome.figure("CPU", 1e6 * cpu_s / taken, "µs a send");
    outcome.figure("sends", taken / talked.sending_s(send), "a second");
    for (name, us) in Talked::latencies(send) {
        outcome.figure(&name, us, "µs");
    }
    let run = &talked.run;
    outcome.detail("rules of the machine", of_the_machine);
    outcome.detail("the tester of itself", run.saturation.clone());
    outcome.detail("audit", run.notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>());
    outcome.detail("messages", json!({ "taken": taken, "received": received, "cpu_s": cpu_s }));
    Ok(())
}

//! Wildfire's single chats, W1 and W2, its groups, W3 to W5, and its chatrooms, W6 to W8, at the
//! size of the shipped plans: 10 million messages, and 10 to 20 million distributions. In lock step
//! W1 and W2 go a part of it.
//!
//! The server has one core, with its log and all its threads; `holdline load` has the other. CPU is
//! the server's process's, from the first send until it is at rest, the log's included. A figure is
//! only given where the plan's audit held: acknowledged = stored = observed. A distribution of a
//! group is an entry that the audit has pulled from a member's inbox. Of a chatroom nothing is
//! distributed: delivered is what its members had, and what they were told that they had not is a
//! figure beside it. What Wildfire reports is
//! divided by all cores of its server and its database.

use crate::child::Child;
use crate::holdline::{self, Setup};
use crate::results::Outcome;
use crate::scenario::{CALLER_CORE, SERVER_CORE, Scale};
use lab::run::{Run, StageRun};
use lab::timing::Timing;
use serde_json::json;
use std::io;
use std::path::Path;
use std::process::Command;

/// Rounds of each sender over all receivers, pipelined: as many as Wildfire went.
const LOOPS: u32 = 50;
/// The same in lock step: a part.
const LOOPS_IN_LOCK_STEP: u32 = 2;
/// Groups of W3 to W5, as many as Wildfire had.
const GROUPS: u32 = 100;
/// Messages without an answer that a pipelined sender has.
const WINDOW: u32 = 64;
/// Rules whose end depends on the machine: they are told with the figures.
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
    let sets = vec![
        format!("ReceiveUserCount={receivers}"),
        format!("GroupCount={}", scale.of(GROUPS)),
        format!("Loop={loops}"),
        format!("Window={WINDOW}"),
    ];
    run(what, sets, Of::Groups)
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

/// Between whom messages go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Two,
    Groups,
    Room,
}

fn run((plan, wildfire): (&str, f64), sets: Vec<String>, of: Of) -> io::Result<Outcome> {
    let (core, group_members) = (Some(SERVER_CORE), 1_000);
    let server = Setup { shards: 1, core, group_members, ..Setup::default() }.start()?;
    let folder = tempfile::tempdir()?;
    let url = format!("im://{}", server.address);
    let mut command = Command::new(holdline::binary()?);
    command.args(["load", "run", plan, &url, "--quiet", "--out"]).arg(folder.path());
    command.args(sets.iter().flat_map(|set| ["--set", set]));
    let code = Child::start(&mut command, Some(CALLER_CORE))?.finished()?;
    let made = made(folder.path())
        .map_err(|why| io::Error::other(format!("holdline load ended with {code}: {why}")))?;
    let mut outcome = Outcome::new(json!({
        "plan": plan, "parameters": sets, "server": server.plan(),
        "cpu": "the server's process, its log included, from the first send until it is at rest",
        "cores": "the server on one, holdline load on the other",
    }));
    tell(&made, wildfire, of, &mut outcome)?;
    Ok(outcome)
}

/// The run that was made.
fn made(folder: &Path) -> io::Result<Run> {
    let mut folders = std::fs::read_dir(folder)?;
    let run = folders.next().ok_or_else(|| io::Error::other("it left no run"))??;
    let text = std::fs::read(run.path().join("run.json"))?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

fn stage<'a>(made: &'a Run, name: &str) -> io::Result<&'a StageRun> {
    let found = made.stages.iter().find(|stage| stage.name == name);
    found.ok_or_else(|| io::Error::other(format!("no stage `{name}`: {:?}", made.notes)))
}

fn tell(made: &Run, wildfire: f64, kind: Of, outcome: &mut Outcome) -> io::Result<()> {
    let (send, quiet) = (stage(made, "send")?, stage(made, "quiet")?);
    let rules = made.stages.iter().flat_map(|stage| &stage.checks).chain(&made.checks);
    let mut of_the_machine = Vec::new();
    for rule in rules {
        match OF_THE_MACHINE.contains(&rule.rule.as_str()) {
            true => of_the_machine.push(json!({ "rule": rule.rule, "held": rule.held })),
            false if rule.held == Some(true) => {}
            false => return Err(io::Error::other(format!("{rule:?}; {:?}", made.notes))),
        }
    }
    let cpu_s = cpu_s(made, send.from_ms, quiet.to_ms);
    let cpu_s = cpu_s.ok_or_else(|| io::Error::other("the server's CPU was not observed"))?;
    let of = |name: &str| send.counts.figure(name);
    let (taken, received) = (of("messages.taken"), of("messages.received"));
    let a_core = taken / cpu_s;
    let entries = match kind {
        // Of what two say the audit looks at one's inbox; it stands in both.
        Of::Two => 2.0 * taken,
        Of::Room => 0.0,
        Of::Groups => stage(made, "audit")?.counts.figure("audit.entries"),
    };
    let distributed = entries / cpu_s;
    let compared = match kind {
        Of::Two => a_core,
        Of::Groups => distributed,
        Of::Room => received / cpu_s,
    };
    outcome.figure("sends a second a core", a_core, "a second");
    outcome.figure("against Wildfire's", compared / wildfire, "times");
    if kind == Of::Room {
        let skipped = of("messages.skipped");
        outcome.figure("left out, and told", 100.0 * skipped / (received + skipped), "%");
    } else {
        outcome.figure("distributions a second a core", distributed, "a second");
    }
    outcome.figure("deliveries a second a core", received / cpu_s, "a second");
    outcome.figure("CPU", 1e6 * cpu_s / taken, "µs a send");
    let sent = sending_s(made, send).unwrap_or(f64::NAN);
    outcome.figure("sends", taken / sent, "a second");
    for (timing, what) in [(Timing::Publish, "acknowledged"), (Timing::Delivery, "delivered")] {
        let times = &send.counts.timings.of(timing).corrected;
        for (name, point) in [("p50", 50.0), ("p99", 99.0)] {
            outcome.figure(&format!("{what}, {name}"), times.at(point) as f64, "µs");
        }
    }
    outcome.detail("rules of the machine", of_the_machine);
    outcome.detail("the tester of itself", made.saturation.clone());
    outcome.detail("audit", made.notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>());
    outcome.detail("messages", json!({ "taken": taken, "received": received, "cpu_s": cpu_s }));
    Ok(())
}

/// Processor seconds of the server between two moments, at each of which a stage made a row.
fn cpu_s(made: &Run, from_ms: u64, to_ms: u64) -> Option<f64> {
    let spent = made.series.values("target.process.cpu_s");
    let rows = made.series.times_ms().iter().zip(spent);
    let rows: Vec<(u64, f64)> = rows.filter_map(|(&at, spent)| Some((at, (*spent)?))).collect();
    let at = |ms| rows.iter().rev().find(|(at, _)| *at <= ms).map(|(_, spent)| *spent);
    Some(at(to_ms)? - at(from_ms)?).filter(|spent| *spent > 0.0)
}

/// Seconds from the first row with a message that was taken in a stage to the last one with more.
fn sending_s(made: &Run, send: &StageRun) -> Option<f64> {
    let times = made.series.times_ms().iter();
    let taken = made.series.values("clients.messages.taken");
    let rows: Vec<(u64, f64)> = times
        .zip(taken)
        .filter(|(at, _)| (send.arrived_ms..=send.to_ms).contains(*at))
        .filter_map(|(at, taken)| Some((*at, (*taken)?)))
        .collect();
    let last = rows.last()?.1;
    let end = rows.iter().find(|(_, taken)| *taken >= last)?.0;
    (end > send.arrived_ms).then(|| (end - send.arrived_ms) as f64 / 1e3)
}

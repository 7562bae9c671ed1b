//! The highest rate that the laboratory plans and keeps before it says that it is saturated.
//!
//! Holdline with one shard on one core, the laboratory on the other. The rate is doubled until the
//! run is not valid, then halved in between. The run's own verdict is taken: its exit code is 3
//! where the tester was saturated, 1 where a rule did not hold, and then the server, not the
//! tester, was the limit, which is reported.

use super::super::{CALLER_CORE, SERVER_CORE, Scale};
use crate::child::Child;
use crate::holdline::{self, Setup};
use crate::results::Outcome;
use crate::scenario::stages;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;

/// Clients that publish to topics of their own.
const CLIENTS: u32 = 200;
/// The first rate, messages a second.
const FIRST: u32 = 10_000;
/// The highest that is tried.
const LAST: u32 = 1_280_000;
/// Steps between a rate that was kept and one that was not.
const STEPS: u32 = 3;
/// A rate is held for so long, seconds.
const HOLD_S: u32 = 8;

/// Result of a rate.
struct Tried {
    per_s: u32,
    code: i32,
    said: Value,
}

/// The highest rates at QoS 0 and 1.
pub fn highest(scale: Scale) -> io::Result<Outcome> {
    let (clients, hold_s) = (CLIENTS, scale.of(HOLD_S).max(2));
    let mut outcome = Outcome::new(json!({
        "clients": clients, "hold_s": hold_s, "server": "holdline, one shard on core 0",
        "tester": "holdline load on core 1, one thread",
        "each": "MQTT 3.1.1, 64 bytes, published to a topic of its own and received once",
    }));
    for qos in [0, 1] {
        let mut tried = Vec::new();
        let highest = search(qos, hold_s, &mut tried)?;
        outcome.figure(&format!("highest rate kept, QoS {qos}"), f64::from(highest), "messages/s");
        let told = |it: &Tried| json!({ "per_s": it.per_s, "code": it.code, "said": it.said });
        let told: Vec<_> = tried.iter().map(told).collect();
        outcome.detail(&format!("qos{qos}"), json!(told));
    }
    Ok(outcome)
}

/// Doubles, then looks in between.
fn search(qos: u8, hold_s: u32, tried: &mut Vec<Tried>) -> io::Result<u32> {
    let mut holds = |per_s: u32| -> io::Result<bool> {
        let it = run(qos, per_s, hold_s)?;
        println!("  QoS {qos}, {per_s} a second: exit code {}", it.code);
        let kept = it.code == 0;
        tried.push(it);
        Ok(kept)
    };
    let (mut good, mut bad) = (0, FIRST);
    while bad <= LAST && holds(bad)? {
        (good, bad) = (bad, bad * 2);
    }
    for _ in 0..STEPS {
        let between = good + (bad - good) / 2;
        match holds(between)? {
            true => good = between,
            false => bad = between,
        }
    }
    Ok(good)
}

/// One rate, against a server of its own.
fn run(qos: u8, per_s: u32, hold_s: u32) -> io::Result<Tried> {
    let setup = Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() };
    let server = setup.start()?;
    let folder = tempfile::tempdir()?;
    let (file, runs) = (folder.path().join("plan.toml"), folder.path().join("runs"));
    std::fs::write(&file, plan(qos, per_s, hold_s))?;
    let mut command = holdline::clean(holdline::binary()?);
    command.args(["load", "run"]).arg(&file).arg(url(server.mqtt)).arg("--quiet");
    command.args(["--pid", &server.pid().to_string(), "--out"]).arg(&runs);
    let mut child = Child::start(&mut command, Some(CALLER_CORE))?;
    let code = child.finished()?;
    let (run, _) = stages::made(&runs)?;
    Ok(Tried { per_s, code, said: run["saturation"].clone() })
}

fn url(to: SocketAddr) -> String {
    format!("mqtt://{to}")
}

/// Each client publishes to its own topic, so that all is received once.
fn plan(qos: u8, per_s: u32, hold_s: u32) -> String {
    format!(
        "name = \"rate\"\npass = [\"accounts == 1\"]\n\n[[group]]\nname = \"devices\"\n\
         subscribe = [\"lab/rate/%i\"]\nsubscribe_qos = {qos}\nthreads = 1\n\
         hears = {{ devices = 1 }}\n\n[[stage]]\n\
         name = \"rate\"\nclients = {{ devices = {CLIENTS} }}\n\
         arrive = {{ shape = \"rate\", per_s = 500.0 }}\nhold = \"{hold_s}s\"\n\
         pass = [\"errors == 0\", \"messages.missing == 0\"]\n\n[[stage.traffic.devices]]\n\
         what = \"publish\"\ntopic = \"lab/rate/%i\"\nqos = {qos}\nbytes = 64\n\
         pace = {{ per_s = {per_s}.0 }}\n"
    )
}

//! Little to do: a server with nobody on it, and one with many who say next to nothing.
//!
//! Fixed costs are measured as they are, not as a slope. A thread that has nothing to do must not
//! wake: the number of threads that ran shows whether it did, and the share of a core its cost.

use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::measure::cpu::{self, Slices};
use crate::measure::memory::Memory;
use crate::results::Outcome;
use crate::scenario::Scale;
use crate::swarm::orders::Remote;
use crate::swarm::peers::Kind;
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::Duration;

/// Pause after the start, or after the last connection: longer than `bind_ms_max`, whose timers end
/// then.
const SETTLE: Duration = Duration::from_secs(12);
/// Clients that say nothing.
const QUIET: u32 = 10_000;
/// One says something to another every four seconds.
const TALK_PER_S: f64 = 0.25;
/// Time that is looked at.
const SPAN_S: u32 = 60;

/// Measures a server without clients: memory and threads, beside mosquitto's.
pub fn empty(scale: Scale) -> io::Result<Outcome> {
    let span = Duration::from_secs(u64::from(scale.of(SPAN_S)));
    let holdline = Setup::default().start()?;
    let mut outcome = Outcome::new(json!({
        "settle_s": SETTLE.as_secs(), "measured_s": span.as_secs(),
        "mosquitto": Kind::Mosquitto.version(), "holdline": holdline.plan(),
    }));
    thread::sleep(SETTLE);
    let memory = Memory::of(holdline.pid())?;
    outcome.figure("user memory", memory.private_dirty as f64 / 1e6, "MB");
    outcome.figure("resident, code included", memory.rss as f64 / 1e6, "MB");
    let looked = look(holdline.pid(), span, || Ok(()))?;
    outcome.figure("percent of a core", looked.percent, "%");
    outcome.figure("threads", looked.threads as f64, "");
    outcome.figure("threads that ran meanwhile", looked.ran.len() as f64, "");
    outcome.detail("ran", json!(looked.ran));
    if Kind::Mosquitto.program().is_some() {
        let peer = Kind::Mosquitto.start(false)?;
        thread::sleep(SETTLE / 4);
        let memory = Memory::of(peer.pid())?;
        outcome.figure("mosquitto: user memory", memory.private_dirty as f64 / 1e6, "MB");
        outcome.figure("mosquitto: resident, code included", memory.rss as f64 / 1e6, "MB");
    }
    Ok(outcome)
}

/// Ten thousand are there and silent, and two of them talk.
pub fn quiet(scale: Scale) -> io::Result<Outcome> {
    let (clients, span_s) = (scale.of(QUIET), scale.of(SPAN_S));
    let holdline = Setup::default().start()?;
    let mut outcome = Outcome::new(json!({
        "clients": clients, "of_whom_two_talk_per_s": TALK_PER_S, "measured_s": span_s,
        "settle_s": SETTLE.as_secs(), "holdline": holdline.plan(),
    }));
    let mut talk = Remote::start(holdline.mqtt)?;
    talk.open("pair 0 1")?;
    let two = talking(&holdline, &mut talk, span_s)?;
    let mut swarm = Remote::start(holdline.mqtt)?;
    swarm.open(&format!("hold {clients} 100000 100 exact"))?;
    let all = talking(&holdline, &mut talk, span_s)?;
    for (who, looked) in [("", &all), ("two alone: ", &two)] {
        outcome.figure(&format!("{who}percent of a core"), looked.percent, "%");
        outcome.figure(&format!("{who}shards' threads that ran"), looked.shards() as f64, "");
        outcome.figure(&format!("{who}threads that ran"), looked.ran.len() as f64, "");
        outcome.detail(&format!("{who}ran"), json!(looked.ran));
    }
    let online = holdline.api.sessions_online()?;
    outcome.figure("clients online at the end", online as f64, "");
    if online != u64::from(clients) + 2 {
        return Err(io::Error::other(format!("{online} clients are online, not {clients} and 2")));
    }
    Ok(outcome)
}

/// Activity of a process for a while.
struct Looked {
    percent: f64,
    threads: usize,
    /// Threads that ran, by name: how often they were put on a core.
    ran: BTreeMap<String, u64>,
}

impl Looked {
    fn shards(&self) -> usize {
        self.ran.keys().filter(|name| name.starts_with("shard-")).count()
    }
}

fn talking(holdline: &Holdline, talk: &mut Remote, span_s: u32) -> io::Result<Looked> {
    thread::sleep(SETTLE);
    let span = Duration::from_secs(u64::from(span_s));
    look(holdline.pid(), span, || talk.run(&format!("pace {TALK_PER_S} {span_s}")).map(drop))
}

/// Looks at a process for so long, while something is done.
fn look(pid: u32, span: Duration, work: impl FnOnce() -> io::Result<()>) -> io::Result<Looked> {
    let (began, before) = (clock::now(), cpu::threads(pid)?);
    work()?;
    thread::sleep(span.saturating_sub(clock::since(began)));
    let (took, after) = (clock::since(began), cpu::threads(pid)?);
    let mut looked = Looked { percent: 0.0, threads: after.len(), ran: BTreeMap::new() };
    let mut used = Duration::ZERO;
    for (thread, now) in after {
        let zero = Slices::default();
        let was = before.get(&thread).unwrap_or(&zero);
        used += now.used.saturating_sub(was.used);
        let slices = now.count.saturating_sub(was.count);
        if slices > 0 {
            *looked.ran.entry(now.name).or_default() += slices;
        }
    }
    looked.percent = 100.0 * used.as_secs_f64() / took.as_secs_f64();
    Ok(looked)
}

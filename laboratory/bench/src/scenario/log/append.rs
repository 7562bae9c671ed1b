//! Durable appends: ours beside other engines and the bare disk, and to many timelines at once.
//!
//! Rounds take turns, each round a window of appends for a while; the first warms up. After the
//! last one every engine is closed, opened again, and read back whole: an engine that lost a row
//! has no result. A batch is what arrived while the last was written, in all of them.

use super::audit::GROUPS_PULLED_MAX;
use super::drive::{self, Plan, Run};
use super::lane::{Group, Lane};
use super::ours;
use super::rival::Kind;
use super::traffic::{BODY_BYTES, LABEL_BYTES, TIMELINES, Traffic, timelines};
use crate::clock;
use crate::measure::slope;
use crate::results::Outcome;
use crate::scenario::Scale;
use model::timeline::TimelineId;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{io, iter};

const ROUNDS: u32 = 3;
const ROUND: Duration = Duration::from_millis(800);
/// Appends of a round, so that reading them back stays bounded.
const ROUND_ROWS_MAX: u64 = 400_000;
const CACHE_BYTES: usize = 256 * 1024 * 1024;

/// The ways of appending: name, window.
const WAYS: [(&str, usize); 3] = [("lock step", 1), ("200 producers", 200), ("pipelined", 4_096)];
/// Timelines of an append, and its window.
const FANS: [(u32, usize); 3] = [(1, 4_096), (100, 160), (1_000, 16)];

/// Store under measurement: a lane of ours, or an engine behind the group commit of all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contestant {
    /// Our log as others use it: its own threads, calls, completions.
    Log,
    Behind(Kind),
}

impl Contestant {
    fn all() -> impl Iterator<Item = Contestant> {
        iter::once(Contestant::Log).chain(Kind::ALL.map(Contestant::Behind))
    }

    const fn name(self) -> &'static str {
        match self {
            Contestant::Log => "log",
            Contestant::Behind(kind) => kind.name(),
        }
    }

    fn lane(self, folder: &Path) -> io::Result<Box<dyn Lane>> {
        Ok(match self {
            Contestant::Log => Box::new(ours::Threaded::open(folder)?),
            Contestant::Behind(kind) => Box::new(Group::start(kind.open(folder, CACHE_BYTES)?)?),
        })
    }

    /// Rows that are there when the files are opened again.
    fn audit(self, folder: &Path, traffic: &Traffic) -> io::Result<u64> {
        let mut rival = match self {
            Contestant::Log => Box::new(ours::behind_log(folder)?),
            Contestant::Behind(kind) => kind.open(folder, CACHE_BYTES)?,
        };
        let rows = rival.audit(traffic)?;
        rival.close()?;
        Ok(rows)
    }
}

/// Rounds of one contestant.
struct Rounds {
    contestant: Contestant,
    appends: u64,
    cpu: Duration,
    rates: Vec<f64>,
    cpu_us: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
}

impl Rounds {
    fn of(contestant: Contestant) -> Rounds {
        let [rates, cpu_us, p50_us, p99_us] = [const { Vec::new() }; 4];
        Rounds { contestant, appends: 0, cpu: Duration::ZERO, rates, cpu_us, p50_us, p99_us }
    }

    fn add(&mut self, run: &Run) {
        self.appends += run.appends;
        self.cpu += run.cpu;
        self.rates.push(run.rate());
        self.cpu_us.push(run.cpu_us());
        self.p50_us.push(slope::quantile(&run.latencies_us, 0.5));
        self.p99_us.push(slope::quantile(&run.latencies_us, 0.99));
    }

    fn rate(&self) -> f64 {
        slope::median(&self.rates)
    }

    /// CPU an append in microseconds, over all rounds: flushes and checkpoints fall on some of
    /// them and belong to all.
    fn cpu(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.appends as f64
    }

    fn told(&self) -> Value {
        json!({
            "appends_a_second": self.rates, "cpu_us_an_append": self.cpu_us,
            "p50_us": self.p50_us, "p99_us": self.p99_us,
        })
    }
}

/// Appends to two timelines of a million: lock step, 200 producers, pipelined.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(plan(scale, json!({ "ways": WAYS, "timelines_each": 2 })));
    let timelines = timelines(scale.of(TIMELINES) & !1);
    for (way, window) in WAYS {
        let rounds = rounds(scale, 2, window, &timelines, &mut outcome)?;
        for each in &rounds {
            let name = format!("{way}, {}", each.contestant.name());
            outcome.figure(&name, each.rate(), "appends a second");
        }
        for each in &rounds {
            let name = format!("{way}, {}: CPU", each.contestant.name());
            outcome.figure(&name, each.cpu(), "µs an append");
        }
        if let Some(log) = rounds.iter().find(|each| each.contestant == Contestant::Log) {
            let name = format!("{way}: appends a second a core");
            outcome.figure(&name, 1e6 / log.cpu(), "a second");
        }
        ratios(way, &rounds, &mut outcome);
        for each in rounds {
            outcome.detail(&format!("{way}, {}", each.contestant.name()), each.told());
        }
    }
    Ok(outcome)
}

/// Appends to 1, 100 and 1,000 timelines.
pub fn fanout(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(plan(scale, json!({ "timelines_each_and_window": FANS })));
    for (fan, window) in FANS {
        let timelines = timelines(scale.of(TIMELINES) / fan * fan);
        let rounds = rounds(scale, fan, window, &timelines, &mut outcome)?;
        let way = format!("to {fan}");
        for each in &rounds {
            let name = format!("{way}, {}", each.contestant.name());
            outcome.figure(&name, each.rate(), "appends a second");
            outcome.figure(&format!("{name}: rows"), each.rate() * f64::from(fan), "rows a second");
            let ns = each.cpu() * 1e3 / f64::from(fan);
            outcome.figure(&format!("{name}: CPU"), ns, "ns a row");
        }
        if let Some(log) = rounds.iter().find(|each| each.contestant == Contestant::Log) {
            let rows = 1e6 / log.cpu() * f64::from(fan);
            outcome.figure(&format!("{way}: rows a second a core"), rows, "a second");
        }
        ratios(&way, &rounds, &mut outcome);
        for each in rounds {
            outcome.detail(&format!("{way}, {}", each.contestant.name()), each.told());
        }
    }
    Ok(outcome)
}

fn plan(scale: Scale, more: Value) -> Value {
    let mut plan = json!({
        "body_bytes": BODY_BYTES, "key_bytes": 8 + LABEL_BYTES, "timelines": scale.of(TIMELINES),
        "rounds": ROUNDS, "round_ms": ROUND.as_millis(), "round_rows_max": ROUND_ROWS_MAX,
        "cache_bytes": CACHE_BYTES,
        "batch": "what arrived while the last one was written",
        "rate": "median of the rounds",
        "cpu": "all rounds; all threads but the producer's, until the process is at rest",
        "sync": "fdatasync before a batch is answered",
        "peers": "heads of timelines in memory, not kept; keys rise, which trees like best",
        "read_back": "all rows; all messages, of ours those of so many groups of timelines",
        "groups_pulled_max": GROUPS_PULLED_MAX, "ours": ours::plan(),
    });
    if let (Some(plan), Some(more)) = (plan.as_object_mut(), more.as_object()) {
        plan.extend(more.clone());
    }
    plan
}

/// One contestant alone for so many seconds, for whoever profiles it by hand; what came of it.
pub fn alone(name: &str, fan: u32, window: usize, seconds: u32) -> io::Result<Value> {
    let found = Contestant::all().find(|contestant| contestant.name() == name);
    let contestant = found.ok_or_else(|| io::Error::other("there is no such contestant"))?;
    let folder = tempfile::tempdir()?;
    let mut lane = contestant.lane(folder.path())?;
    let mut traffic = Traffic::new(1, fan, &timelines(TIMELINES / fan * fan));
    let time = Duration::from_secs(1);
    let mut told = Vec::new();
    for _ in 0..seconds {
        let plan = Plan { window, time, appends_max: u64::MAX };
        let run = drive::run(&mut *lane, &mut traffic, &plan)?;
        told.push(json!([run.rate().round(), run.cpu_us()]));
    }
    lane.close()?;
    Ok(json!({ "appends_a_second_and_cpu_us": told }))
}

/// All contestants in turns, then closed, opened again and read back.
fn rounds(
    scale: Scale,
    fan: u32,
    window: usize,
    timelines: &Arc<[TimelineId]>,
    outcome: &mut Outcome,
) -> io::Result<Vec<Rounds>> {
    let folder = tempfile::tempdir()?;
    let mut all = Vec::new();
    for contestant in Contestant::all() {
        let place = folder.path().join(contestant.name());
        let named = |error| named(contestant, error);
        let lane = contestant.lane(&place).map_err(named)?;
        let rounds = Rounds::of(contestant);
        all.push((rounds, place, lane, Traffic::new(u64::from(fan), fan, timelines)));
    }
    let (time, rounds) = if scale.quick { (ROUND / 10, 1) } else { (ROUND, ROUNDS) };
    let appends_max = u64::from(scale.of((ROUND_ROWS_MAX / u64::from(fan)) as u32));
    for round in 0..=rounds {
        let time = if round == 0 { time / 3 } else { time };
        for (rounds, _, lane, traffic) in &mut all {
            let plan = Plan { window, time, appends_max };
            let run = drive::run(&mut **lane, traffic, &plan);
            let run = run.map_err(|error| named(rounds.contestant, error))?;
            if round > 0 {
                rounds.add(&run);
            }
        }
    }
    let (mut done, mut audited) = (Vec::new(), json!({}));
    for (rounds, place, lane, traffic) in all {
        let named = |error| named(rounds.contestant, error);
        let began = clock::now();
        lane.close().map_err(named)?;
        let rows = rounds.contestant.audit(&place, &traffic).map_err(named)?;
        if rows != traffic.messages() * u64::from(fan) {
            return Err(named(io::Error::other(format!("{rows} rows came back"))));
        }
        let ms = clock::since(began).as_millis() as u64;
        audited[rounds.contestant.name()] = json!({
            "messages": traffic.messages(), "rows": rows, "closed_and_read_back_ms": ms,
            "bytes": super::disk::bytes(&place)?,
        });
        std::fs::remove_dir_all(&place)?;
        done.push(rounds);
    }
    outcome.detail(&format!("read back, {fan} timelines each, window {window}"), audited);
    Ok(done)
}

fn named(contestant: Contestant, error: io::Error) -> io::Error {
    io::Error::other(format!("{}: {error}", contestant.name()))
}

/// Ratios of our log to each of the others: CPU, where less is better, and the rate of a bare file.
fn ratios(way: &str, rounds: &[Rounds], outcome: &mut Outcome) {
    let ours = |each: &&Rounds| each.contestant == Contestant::Log;
    let Some(log) = rounds.iter().find(ours) else { return };
    for other in rounds.iter().filter(|each| !ours(each)) {
        let name = format!("{way}: CPU of the log to {}", other.contestant.name());
        outcome.figure(&name, log.cpu() / other.cpu(), "times");
        if other.contestant == Contestant::Behind(Kind::Bare) {
            let name = format!("{way}: rate of the log to bare");
            outcome.figure(&name, log.rate() / other.rate(), "times");
        }
    }
}

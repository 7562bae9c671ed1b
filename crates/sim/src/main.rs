//! `sim`: runs worlds by their seeds, or holds many devices to measure their memory.
//!
//! `sim --seed N --steps M` runs one world, `sim --seeds N [--from S] [--steps M]` many; a failure
//! prints the command that repeats it and ends with another status than 0. `sim hold --clients N`
//! holds devices, or clients of MQTT with a subscription each, or devices of accounts of IM, and
//! prints JSON; with `--cut M` so many of MQTT lose their connections at once and come back.

use model::limits::Limits;
use sim::hold::{HoldMeasurement, HoldPlan, HoldProtocol, HoldStage, StormTally, hold, storm};
use sim::simulation::Simulation;
use sim::topics::TopicSimulation;
use std::panic::catch_unwind;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Steps of a world when nothing else is said.
const STEPS: u64 = 3_000;

/// The world that runs: a release build ends at the first failure, having said which it was.
static SEED: AtomicU64 = AtomicU64::new(0);
/// Worlds of topics, and not of pushes.
static TOPICS: AtomicBool = AtomicBool::new(false);

/// Protocols that can be held, by option; without one, devices of MIOP.
const PROTOCOLS: [(&str, HoldProtocol); 2] =
    [("--mqtt", HoldProtocol::Mqtt), ("--im", HoldProtocol::Im)];

const USAGE: &str = "usage: sim --seed N [--steps M] [--topics]
       sim --seeds N [--from S] [--steps M] [--topics]
       sim hold --clients N [--mqtt|--im] [--shards K] [--cut M]";

fn main() -> ExitCode {
    server::start::pages::let_be_huge(false);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    if args.first().is_some_and(|arg| arg == "hold") {
        let named = PROTOCOLS.iter().find(|(name, _)| args.iter().any(|arg| arg == name));
        let plan = HoldPlan {
            protocol: named.map_or(HoldProtocol::Miop, |(_, protocol)| *protocol),
            clients: number("--clients").unwrap_or(1_000_000) as u32,
            shards: number("--shards").unwrap_or(1) as u16,
        };
        if let Some(cut) = number("--cut") {
            return print_storm(plan, cut as u32);
        }
        let stage = args.iter().position(|arg| arg == "--stage").and_then(|at| args.get(at + 1));
        return match stage.map(|name| HoldStage::named(name)) {
            None => report(plan),
            Some(Some(stage)) => print_stage(stage, plan),
            Some(None) => usage(),
        };
    }
    let steps = number("--steps").unwrap_or(STEPS);
    let topics = args.iter().any(|arg| arg == "--topics");
    TOPICS.store(topics, Ordering::Relaxed);
    tell_seed(steps);
    match (number("--seed"), number("--seeds")) {
        (Some(seed), _) => {
            SEED.store(seed, Ordering::Relaxed);
            match topics {
                true => println!("{:#?}", TopicSimulation::run(seed, steps)),
                false => println!("{:#?}", Simulation::run(seed, steps)),
            }
            ExitCode::SUCCESS
        }
        (None, Some(seeds)) => run_many(number("--from").unwrap_or(0), seeds, steps),
        (None, None) => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn run_many(from: u64, seeds: u64, steps: u64) -> ExitCode {
    let mut failed = 0;
    for seed in from..from + seeds {
        SEED.store(seed, Ordering::Relaxed);
        let ended = catch_unwind(|| match TOPICS.load(Ordering::Relaxed) {
            true => drop(TopicSimulation::run(seed, steps)),
            false => drop(Simulation::run(seed, steps)),
        });
        failed += u64::from(ended.is_err());
    }
    println!("{seeds} worlds of {steps} steps from seed {from}: {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell_seed(steps: u64) {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        let seed = SEED.load(Ordering::Relaxed);
        let topics = if TOPICS.load(Ordering::Relaxed) { " --topics" } else { "" };
        eprintln!("failed: cargo run -p sim -- --seed {seed} --steps {steps}{topics}");
    }));
}

/// Runs one stage in this process and prints its figures in one line.
fn print_stage(stage: HoldStage, plan: HoldPlan) -> ExitCode {
    let held = hold(stage, plan);
    let HoldMeasurement { count, before, after, record_bytes, sent } = held;
    println!(
        "{count} {} {} {} {} {} {record_bytes} {sent}",
        before.rss,
        before.pss,
        after.rss,
        after.pss,
        after.rss.saturating_sub(before.rss),
    );
    ExitCode::SUCCESS
}

/// Runs a storm and prints what came of it.
fn print_storm(plan: HoldPlan, cut: u32) -> ExitCode {
    if plan.protocol != HoldProtocol::Mqtt || cut >= plan.clients {
        eprintln!(
            "a storm is one of MQTT's (--mqtt), and some are not cut (--cut below --clients)"
        );
        return ExitCode::from(2);
    }
    let StormTally { clients, back, ms, refused, silent, lost, pings, pongs, pong_ms_max } =
        storm(plan, cut, &Limits::default());
    println!(
        "{{\"held\": {}, \"shards\": {}, \"cut\": {clients}, \"back\": {back}, \"ms\": {ms}, \
         \"refused\": {refused}, \"silent\": {silent}, \"lost\": {lost}, \"pings\": {pings}, \
         \"pongs\": {pongs}, \"pong_ms_max\": {pong_ms_max}}}",
        plan.clients, plan.shards,
    );
    ExitCode::SUCCESS
}

/// Runs every stage in a process of its own and prints what a client costs.
fn report(plan: HoldPlan) -> ExitCode {
    let stages = ["network", "index", "whole"].map(|stage| figures(stage, plan));
    let [Some(network), Some(index), Some(whole)] = stages else {
        eprintln!("a stage failed");
        return ExitCode::FAILURE;
    };
    let count = whole[0].max(1) as f64;
    let each = |bytes: u64| bytes as f64 / count;
    let (grown, own) = (each(whole[5]), each(network[5]));
    let (record, entry) = (whole[6] as f64, each(index[5]));
    let (shards, protocol) = match plan.protocol {
        HoldProtocol::Miop => (plan.shards, "miop7"),
        HoldProtocol::Mqtt => (plan.shards, "mqtt3.1.1, a subscription each"),
        HoldProtocol::Im => (plan.shards, "im, an account each"),
    };
    println!(
        "{{\"clients\": {}, \"shards\": {shards}, \"id_bytes\": 16, \
         \"protocol\": \"{protocol}\",\n \
         \"rss_bytes\": {}, \"pss_bytes\": {}, \"rss_before_bytes\": {},\n \
         \"a_client\": {{\"with_network\": {grown:.1}, \"network\": {own:.1}, \"server\": {:.1}, \
         \"record\": {record:.1}, \"index\": {entry:.1}, \"service_and_rest\": {:.1}}},\n \
         \"sent_bytes\": {}}}",
        whole[0],
        whole[3],
        whole[4],
        whole[1],
        grown - own,
        grown - own - record - entry,
        whole[7],
    );
    ExitCode::SUCCESS
}

fn figures(stage: &str, plan: HoldPlan) -> Option<Vec<u64>> {
    let this = std::env::current_exe().ok()?;
    let (clients, shards) = (plan.clients.to_string(), plan.shards.to_string());
    let args = ["hold", "--stage", stage, "--clients", &clients, "--shards", &shards];
    let named = PROTOCOLS.iter().find(|(_, protocol)| *protocol == plan.protocol);
    let args = args.into_iter().chain(named.map(|(name, _)| *name));
    let output = Command::new(this).args(args).output().ok()?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).ok()?;
    let figures: Vec<u64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    (output.status.success() && figures.len() == 8).then_some(figures)
}

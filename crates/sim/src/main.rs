//! `sim`: runs worlds by their seeds, or holds many devices to measure their memory.
//!
//! `sim --seed N --steps M` runs one world, `sim --seeds N [--from S] [--steps M]` many; a failure
//! prints the command that repeats it and ends with status 1. `sim hold --devices N` measures.

use sim::world::World;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of a world when nothing else is said.
const STEPS: u64 = 3_000;

/// The world that runs: a release build ends at the first failure, having said which it was.
static SEED: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    let steps = number("--steps").unwrap_or(STEPS);
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        let seed = SEED.load(Ordering::Relaxed);
        eprintln!("failed: cargo run -p sim -- --seed {seed} --steps {steps}");
    }));
    if let Some(seed) = number("--seed") {
        SEED.store(seed, Ordering::Relaxed);
        let story = World::run(seed, steps);
        println!("{story:#?}");
        return ExitCode::SUCCESS;
    }
    let Some(seeds) = number("--seeds") else {
        eprintln!("usage: sim --seed N [--steps M] | --seeds N [--from S] [--steps M]");
        eprintln!("       sim hold --devices N [--shards K]");
        return ExitCode::from(2);
    };
    let from = number("--from").unwrap_or(0);
    let mut failed = 0;
    for seed in from..from + seeds {
        SEED.store(seed, Ordering::Relaxed);
        failed += u64::from(catch_unwind(|| World::run(seed, steps)).is_err());
    }
    println!("{seeds} worlds of {steps} steps from seed {from}: {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

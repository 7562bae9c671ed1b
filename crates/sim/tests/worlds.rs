//! Many small worlds, each from its seed: the short run of every commit. A failure prints the seed;
//! `cargo run -p sim -- --seed N --steps M` repeats it.

use sim::simulation::{Simulation, Story};
use std::collections::BTreeMap;

const STEPS: u64 = 1_500;

/// Runs some worlds; the harness prints the panic's message, this says which world it was.
fn run(seeds: std::ops::Range<u64>) -> Vec<Story> {
    let one = |seed| {
        let repeat = Repeat { seed };
        let story = Simulation::run(seed, STEPS);
        std::mem::forget(repeat);
        story
    };
    seeds.map(one).collect()
}

/// Prints how to run a world again, unless it is forgotten because the world ended well.
struct Repeat {
    seed: u64,
}

impl Drop for Repeat {
    fn drop(&mut self) {
        eprintln!("failed: cargo run -p sim -- --seed {} --steps {STEPS}", self.seed);
    }
}

#[test]
fn whatever_happens_every_promise_is_kept_and_nothing_is_left() {
    let stories = run(0..300);
    // Worlds in which nothing happens prove nothing.
    let mut told = BTreeMap::<&str, u64>::new();
    let mut closed = BTreeMap::<&str, u64>::new();
    for story in &stories {
        story.told.iter().for_each(|(name, count)| *told.entry(name).or_default() += count);
        story.closed.iter().for_each(|(name, count)| *closed.entry(name).or_default() += count);
    }
    let names = ["delivered", "stored", "expired", "rejected", "busy", "report", "online"];
    for name in names.into_iter().chain(["earlier", "store_failed"]) {
        assert!(told.get(name).is_some_and(|&count| count > 50), "{name}: {told:?}");
    }
    let ends = [
        "peer_closed",
        "peer_closed_mid_frame",
        "peer_reset",
        "unbound",
        "replaced",
        "admin_kick",
        "bind_timeout",
        "keep_alive_timeout",
        "timed_out",
        "malformed",
        "unknown_protocol",
        "out_of_order",
        "busy",
        "full",
        "no_descriptor",
        "web_socket_failed",
    ];
    let missing: Vec<_> = ends.into_iter().filter(|name| !closed.contains_key(name)).collect();
    assert!(missing.is_empty(), "no world saw {missing:?}: {closed:?}");
    assert!(stories.iter().any(|story| story.crashes > 0), "some servers crashed");
    let faults: u64 = stories.iter().map(|story| story.faults).sum();
    assert!(faults > 300, "{faults} calls to disks failed");
    let moves = |of: fn(&Story) -> u64| stories.iter().map(of).sum::<u64>();
    let (out, back) = (moves(|story| story.handed_over), moves(|story| story.given_back));
    assert!(out > 20 && back > 20, "load moved shards {out} and {back} times");
    let upsets: u64 = stories.iter().map(|story| story.upsets).sum();
    assert!(upsets > 3_000, "{upsets} times something befell a directory");
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in [3, 17] {
        assert_eq!(Simulation::run(seed, STEPS), Simulation::run(seed, STEPS));
    }
    assert_ne!(Simulation::run(3, STEPS), Simulation::run(4, STEPS));
}

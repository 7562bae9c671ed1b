//! Random histories of people who subscribe and unsubscribe, with crashes: in the end both homes
//! agree, and subscribers have the presence.

use crate::world::World;

/// Runs a history; returns how often a session was resumed, and how often it could not be.
fn history(seed: u64, shards: u16, steps: u32) -> (usize, usize) {
    println!("seed {seed}, {shards} shards");
    let mut world = World::new(seed, shards, 4);
    for _ in 0..steps {
        world.step();
    }
    world.heal();
    world.check();
    let resumed = world.devices.iter().map(|it| it.resumed).sum();
    (resumed, world.devices.iter().map(|it| it.not_resumed.len()).sum())
}

#[test]
fn whatever_happens_homes_agree_and_who_is_subscribed_sees_who_is_there() {
    let (mut resumed, mut over) = (0, 0);
    for seed in 0..60 {
        let (went_on, was_over) = history(seed, 1 + (seed % 4) as u16, 1_500);
        (resumed, over) = (resumed + went_on, over + was_over);
    }
    assert!(resumed > 100 && over > 20, "{resumed} went on, {over} could not");
}

#[test]
#[ignore = "as many as one has time for: CHAT_SEEDS"]
fn many_histories() {
    let seeds = std::env::var("CHAT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000);
    for seed in 1_000..1_000 + seeds {
        history(seed, 1 + (seed % 4) as u16, 3_000);
    }
}

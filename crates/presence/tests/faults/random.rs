//! All faults at random, from a seed that a failure prints.
//!
//! Three nodes, devices that come, go and move, with and without a farewell to where they were,
//! and everything that can happen to a directory and to nodes. At the end all is well again, and
//! whoever is connected is where the directory says.

use crate::harness::{PresenceHarness, devices};
use base::prng::Prng;
use model::ports::presence::directory::DirectoryError;
use model::presence::{BUCKETS, Principal, bucket};
use presence::{FailedCall, ReplicatorSettings};
use std::collections::BTreeSet;

const NAMES: [&str; 3] = ["a", "b", "c"];
const DEVICES: usize = 150;
const STEPS: u32 = 600;

fn brisk(settings: &mut ReplicatorSettings) {
    settings.background_s = 15;
    settings.sweep_s = 120;
}

/// Source of random faults and starts, beside the events of devices.
struct Weather {
    prng: Prng,
    starts: u32,
}

impl Weather {
    fn below(&mut self, bound: usize) -> usize {
        self.prng.below(bound as u64) as usize
    }

    fn fault(&mut self) -> DirectoryError {
        match self.below(4) {
            0 => DirectoryError::Unreachable("reset".into()),
            1 => DirectoryError::Refused("LOADING".into()),
            2 => DirectoryError::Nonsense("half an answer".into()),
            _ => DirectoryError::Slow,
        }
    }

    /// Something happens to the directory or to a node.
    fn strike(&mut self, world: &mut PresenceHarness, all: &[Principal]) {
        let node = self.below(world.nodes.len());
        let link = world.nodes[node].link.clone();
        match self.below(13) {
            0 => {
                let done = if self.below(2) == 0 { FailedCall::Before } else { FailedCall::After };
                link.fail(1 + self.below(20) as u32, self.fault(), done);
            }
            1 => link.pause(true),
            2 | 3 => link.pause(false),
            4 => link.hold_back(self.below(2) == 0),
            5 => link.deliver(),
            6 => link.slow([0, 50, 450, 700][self.below(4)]),
            7 => {
                let who = &all[self.below(all.len())];
                link.refuse(bucket(&who.key()), self.below(2) == 0);
                link.refuse(self.below(usize::from(BUCKETS)) as u16, self.below(2) == 0);
            }
            8 => world.table.lose(1_000 + self.prng.below(4_000)),
            9 if self.below(4) == 0 => world.table.flush(),
            10 => {
                let who = all[self.below(all.len())].key();
                world.table.tamper(&who, None);
            }
            11 => {
                let steps = [-60_000, -5_000, 0, 0, 0, 2_000];
                world.nodes[node].ahead_ms = steps[self.below(steps.len())];
            }
            12 if self.below(4) == 0 => {
                let dead = world.kill(node);
                self.starts += 1;
                let name = if self.below(2) == 0 {
                    dead.lease.node.to_string()
                } else {
                    format!(
                        "{}{}",
                        dead.lease.node.as_str().split('-').next().expect("one"),
                        -i64::from(self.starts)
                    )
                };
                world.start(&name, &brisk);
            }
            _ => link.heal(),
        }
    }
}

/// One world.
fn run(seed: u64) {
    let mut world = PresenceHarness::with(&NAMES, seed, &brisk);
    world.table.remember(5_000);
    let all = devices(DEVICES);
    let mut weather = Weather { prng: Prng::new(seed ^ 0xface), starts: 0 };
    // Devices that were ever connected to two nodes at once: only those may be put off.
    let mut torn: BTreeSet<Principal> = BTreeSet::new();
    for _ in 0..STEPS {
        for _ in 0..weather.below(20) {
            let who = &all[weather.below(all.len())];
            let node = weather.below(world.nodes.len());
            world.flap(node, who);
            let places = world.nodes.iter().filter(|node| node.online.contains_key(who));
            if places.count() > 1 {
                torn.insert(who.clone());
            }
        }
        if weather.below(6) == 0 {
            weather.strike(&mut world, &all);
        }
        world.run(1 + weather.prng.below(300));
    }
    for node in &mut world.nodes {
        node.link.heal();
        node.link.hold_back(false);
        node.link.pause(false);
        node.link.deliver();
        node.ahead_ms = 0;
    }
    for node in &world.nodes {
        assert!(node.unwritten_max <= 2 * DEVICES as u64, "what waits is bounded by principals");
        let unneeded = node.outvoted.iter().find(|who| !torn.contains(*who));
        assert_eq!(unneeded, None, "it was connected to one node only, and ended");
    }
    // The clocks that were ahead have to be caught up with, and the background goes round twice.
    world.run(70_000);
    world.settle(30_000);
    world.run(40_000);
    world.settle(5_000);
    world.assert_agrees();
}

#[test]
fn whatever_happens_in_whatever_order_they_agree_in_the_end() {
    for seed in 1..=12 {
        let done = std::panic::catch_unwind(|| run(seed));
        assert!(done.is_ok(), "the seed is {seed}");
    }
}

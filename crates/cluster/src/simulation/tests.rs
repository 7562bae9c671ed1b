//! Many worlds with all rules, and without each rule.

use super::{MS, Story, World};
use crate::rules::{Rule, without};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Worlds of every run of the tests.
const SEEDS: u64 = 120;

/// Characters of a line of a trace.
const TRACE: usize = 230;

impl Story {
    fn add(&mut self, other: &Story) {
        self.releases += other.releases;
        self.opens += other.opens;
        self.generations += other.generations - 1;
        self.written += other.written;
        self.losses += other.losses;
        let faults = self.faults.as_flattened_mut().iter_mut();
        faults.zip(other.faults.as_flattened()).for_each(|(sum, more)| *sum += more);
    }
}

impl World {
    /// Prints what happens, if somebody wants to see this world.
    pub(super) fn trace(&self, node: usize, way: &str, what: &dyn std::fmt::Debug) {
        if self.is_traced {
            let text = format!("{what:?}");
            let text = &text[..text.len().min(TRACE)];
            eprintln!("{:>6} {node} {way} {text}", self.now / MS);
        }
    }
}

fn one(seed: u64, is_traced: bool) -> Story {
    struct Repeat(u64);
    impl Drop for Repeat {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!(
                    "failed: CLUSTER_SEED={} cargo test -p cluster -- --ignored one_world",
                    self.0
                );
            }
        }
    }
    let _repeat = Repeat(seed);
    World::run(seed, is_traced)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whatever_happens_every_invariant_holds() {
    let mut sum = Story::default();
    for seed in 0..SEEDS {
        sum.add(&one(seed, false));
    }
    // Worlds in which nothing happens prove nothing.
    assert!(sum.releases > 100 * SEEDS && sum.opens > 2 * SEEDS, "{sum:?}");
    assert!(u64::from(sum.generations) > SEEDS / 4, "{sum:?}");
    assert!(sum.faults.as_flattened().iter().all(|count| *count > 0), "{sum:?}");
}

#[test]
#[ignore = "one world: CLUSTER_SEED"]
fn one_world() {
    println!("{:?}", one(number("CLUSTER_SEED").unwrap_or(0), true));
}

#[test]
#[ignore = "many worlds, from CLUSTER_SEED on: CLUSTER_SEEDS, 10,000 without it"]
fn many_worlds() {
    let (from, count) = (number("CLUSTER_SEED").unwrap_or(0), number("CLUSTER_SEEDS"));
    let (mut failed, mut sum) = (Vec::new(), Story::default());
    for seed in from..from + count.unwrap_or(10_000) {
        match catch_unwind(|| one(seed, false)) {
            Ok(story) => sum.add(&story),
            Err(_) => failed.push(seed),
        }
    }
    println!("{sum:?}");
    assert!(failed.is_empty(), "{} failed: {failed:?}", failed.len());
}

#[test]
fn the_same_seed_is_the_same_world() {
    assert_eq!(one(3, false), one(3, false));
}

/// The first world in which something does not hold without a rule, and what that is in all.
fn noticed(rule: Rule, worlds: u64) -> (Option<u64>, BTreeSet<String>) {
    let fault = |seed: u64| {
        let world = AssertUnwindSafe(|| without(rule, || World::run(seed, false)));
        let told = catch_unwind(world).err()?;
        let text = told.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| told.downcast_ref::<&str>().copied()).unwrap_or_default();
        let invariant = text.find("invariant").map_or(text, |at| &text[at..]);
        Some((seed, invariant.split(':').next().unwrap_or_default().to_owned()))
    };
    let (seeds, faults): (Vec<u64>, _) = (0..worlds).filter_map(fault).unzip();
    (seeds.first().copied(), faults)
}

/// Rules that few worlds miss: a test of `replica` or `counting` fails without each of them.
const DIRECTED: &[Rule] = &[
    Rule::BeginWithTheFirstPart,
    Rule::EndTheGeneration,
    Rule::EndWhatWasJudged,
    Rule::LeadWhenSettled,
    Rule::EmptyStreamIsNoBeginning,
    Rule::FollowTheGeneration,
    Rule::LookAfterSilence,
    Rule::LookBeforePurge,
    Rule::HeedLaterEpochs,
    Rule::EmptyTableIsNoBeginning,
];

#[test]
#[ignore = "a minute: CLUSTER_SEEDS worlds without each rule, 100 without it"]
fn a_rule_that_is_taken_out_is_noticed() {
    let worlds = number("CLUSTER_SEEDS").unwrap_or(100);
    let found = Rule::ALL.map(|rule| (rule, noticed(rule, worlds)));
    for (rule, (world, faults)) in &found {
        println!("{rule:?}: world {world:?}, {faults:?}");
    }
    let missed = found.iter().filter(|(_, (world, _))| world.is_none()).map(|(rule, _)| *rule);
    let missed: Vec<Rule> = missed.filter(|rule| !DIRECTED.contains(rule)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

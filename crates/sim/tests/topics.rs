//! Many small worlds of topics, each from its seed: the short run of every commit.

use sim::topics::{TopicSimulation, TopicStory};

const STEPS: u64 = 3_000;

fn run(seeds: std::ops::Range<u64>) -> Vec<TopicStory> {
    let one = |seed| {
        let told = Told { seed };
        let story = TopicSimulation::run(seed, STEPS);
        std::mem::forget(told);
        story
    };
    seeds.map(one).collect()
}

/// Prints which world it was, unless it is forgotten because the world ended well.
struct Told {
    seed: u64,
}

impl Drop for Told {
    fn drop(&mut self) {
        eprintln!("failed: cargo run -p sim -- --topics --seed {} --steps {STEPS}", self.seed);
    }
}

#[test]
fn whatever_was_taken_is_heard_by_all_whom_it_concerns() {
    let stories = run(0..100);
    // Worlds in which nothing happens prove nothing.
    let taken: usize = stories.iter().map(|story| story.taken).sum();
    let deliveries: u64 = stories.iter().map(|story| story.deliveries).sum();
    assert!(taken > 5_000 && deliveries > 5_000, "{taken} taken, {deliveries} heard");
    assert!(stories.iter().any(|story| story.crashes > 0), "some servers crashed");
}

#[test]
fn the_same_seed_gives_the_same_world_of_topics() {
    assert_eq!(TopicSimulation::run(3, STEPS), TopicSimulation::run(3, STEPS));
    assert_ne!(TopicSimulation::run(3, STEPS), TopicSimulation::run(4, STEPS));
}

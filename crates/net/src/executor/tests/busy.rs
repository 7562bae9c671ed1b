//! Two threads under load, in simulated time: the executors move shards by themselves, once each
//! way, and not in between.

use super::*;

/// How often mail comes.
const STEP_US: u64 = 1_000;

/// So many milliseconds of a load, in thousandths of a core, half of it each shard's. Gives how
/// often shards moved.
fn live(world: &World, ms: u64, permille: u64) -> usize {
    let (mut moves, mut held) = (0, world.held());
    world.mail_us.set(permille / 2 * STEP_US / 1_000);
    for _ in 0..ms * 1_000 / STEP_US {
        let until = world.us.get() + STEP_US;
        for shard in [0, 1].into_iter().filter(|_| permille > 0) {
            world.posted.set(world.posted.get() + 1);
            world.boxes[usize::from(shard)].borrow_mut().messages.push(ShardMessage::Mail(0));
            world.ring(shard);
        }
        for _ in 0..4 {
            (0..2).for_each(|at| world.take(Step::Round(at)));
        }
        world.us.set(until.max(world.us.get()));
        let now = world.held();
        moves += usize::from(now != held);
        held = now;
    }
    assert_eq!(world.heard(), world.posted.get(), "all mail is heard within its step");
    moves
}

#[test]
fn load_moves_a_shard_to_another_thread_and_quiet_brings_it_back() {
    let world = World::new(true);
    world.rest();
    let (together, apart) = ([vec![0, 1], vec![]], [vec![0], vec![1]]);
    for (ms, permille, moves, held) in [
        (3_000, 450, 0, &together), // one thread can do it
        (20, 900, 1, &apart),       // a burst is shared within milliseconds
        (900, 900, 0, &apart),
        (5_000, 900, 1, &together), // a trial shows that one thread can do it
        (3_000, 200, 0, &together), // quiet: the trial is forgotten
        (5_000, 450, 0, &together),
        (20, 900, 1, &apart),
        (3_000, 0, 1, &together), // a thread without mail wakes by itself to give it back
    ] {
        let moved = live(&world, ms, permille);
        assert_eq!((moved, world.held()), (moves, held.clone()), "{permille} for {ms} ms");
    }
}

#[test]
fn a_burst_of_less_than_two_windows_moves_nothing() {
    let world = World::new(true);
    world.rest();
    for _ in 0..20 {
        let moved = live(&world, 4, 1_000) + live(&world, 96, 20);
        assert_eq!((moved, world.held()), (0, [vec![0, 1], vec![]]));
    }
}

//! An account with very many contacts that comes and goes: the work is bounded, and the last state
//! is delivered.

use crate::world::{SHARDS_OF_STORM as SHARDS, World, person};
use model::chat::*;

const CONTACTS: u32 = 5_000;

/// An account that many see, the last of them by a device.
fn world() -> World {
    let mut world = World::new(9, SHARDS, CONTACTS + 1);
    let first = |n: u32| n as usize * 2;
    for n in 0..=CONTACTS {
        world.connect(first(n));
        if n % 500 == 0 {
            world.rest();
        }
    }
    world.rest();
    for n in 1..=CONTACTS {
        world.wants(0, n, ContactOrder::Say(SubscriptionVerb::Subscribed, Box::default()));
        if n % 500 == 0 {
            world.rest();
        }
    }
    for n in 1..=CONTACTS {
        let order = ContactOrder::Say(SubscriptionVerb::Subscribe, Box::default());
        world.wants(first(n), 0, order);
        if n % 500 == 0 {
            world.rest();
        }
    }
    world.rest();
    world.presents(first(CONTACTS), Some(1));
    world.rest();
    world
}

#[test]
fn who_flaps_costs_a_word_a_shard_and_slice_and_its_last_state_is_told() {
    let mut world = world();
    let looks = CONTACTS as usize * 2;
    // Contacts in slices, and a word for each other shard.
    let a_walk = (CONTACTS as usize).div_ceil(1_024) * usize::from(SHARDS - 1);
    let mut words = 0;
    for n in 0..200 {
        world.presents(0, (n % 2 == 0).then_some(n as i8 % 100));
        let said = world.one_turn(0);
        assert!(said <= usize::from(SHARDS - 1), "one slice a turn, not {said} words");
        words += said;
        world.pass_ms(10);
    }
    // In these two seconds.
    let tellings = 3 + 2;
    assert!(words <= tellings * a_walk, "three at once, and one a second: {words} words");
    let own = 1;
    assert!(world.devices[looks].presences <= own + tellings);
    world.presents(0, Some(77));
    for _ in 0..40 {
        world.one_turn(0);
        world.pass_ms(100);
    }
    let how = &world.devices[looks].seen[&(person(0), "d0".into())];
    assert_eq!(how.priority, 77);
    assert!(world.devices[looks].presences > 1, "it was told what was");
}

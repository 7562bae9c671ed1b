//! Names that pass to other accounts: messages stay with the accounts that exchanged them.

use crate::world::{Names, World};
use model::chat::ChatFault;
use model::ports::access::NameOwner;

/// Two people, with two devices each.
const ANN: usize = 0;
const BOB: usize = 2;
const BOBS_NAME: &str = "p1";

fn world(shards: u16, owner: NameOwner) -> World {
    let mut world = World::new(1, shards);
    world.names.give(BOBS_NAME, owner);
    for at in [ANN, BOB] {
        world.connect(at);
        world.rest();
        assert!(world.is_here(at));
    }
    world
}

fn give(world: &mut World, owner: NameOwner) {
    Names::give(&world.names, BOBS_NAME, owner);
    world.rest();
}

/// Bob logs in with a device that has nothing.
fn comes_anew(world: &mut World) {
    world.forgets(BOB);
    world.connect(BOB);
    world.rest();
    assert!(world.is_here(BOB));
}

#[test]
fn a_name_that_is_given_to_another_is_another_account() {
    for shards in 1..=4 {
        let mut world = world(shards, NameOwner::Account(1));
        world.says(ANN, 1, "to the first").expect("sent");
        assert_eq!(world.texts(BOB), ["to the first"]);
        give(&mut world, NameOwner::Account(2));
        assert!(!world.is_here(BOB), "the first one's session has ended");
        world.says(ANN, 1, "to the second").expect("sent, though nobody has logged in yet");
        comes_anew(&mut world);
        assert_eq!(world.texts(BOB), ["to the second"]);
    }
}

#[test]
fn who_is_no_user_any_more_is_not_written_to_and_who_takes_the_name_has_nothing() {
    for shards in 1..=4 {
        let mut world = world(shards, NameOwner::Account(1));
        world.says(ANN, 1, "to the user").expect("sent");
        give(&mut world, NameOwner::Unknown);
        assert!(!world.is_here(BOB));
        assert_eq!(world.says(ANN, 1, "to nobody"), Err(ChatFault::UnknownAccount));
        comes_anew(&mut world);
        assert_eq!(world.texts(BOB), Vec::<String>::new());
        world.says(ANN, 1, "to whoever it is").expect("sent");
        assert_eq!(world.texts(BOB), ["to whoever it is"]);
    }
}

#[test]
fn a_name_that_becomes_a_users_brings_nothing_of_who_had_it_without_a_proof() {
    for shards in 1..=4 {
        let mut world = world(shards, NameOwner::Unknown);
        world.says(ANN, 1, "to anybody").expect("sent");
        give(&mut world, NameOwner::Account(7));
        assert!(!world.is_here(BOB), "nobody goes by a user's name without a proof");
        comes_anew(&mut world);
        assert_eq!(world.texts(BOB), Vec::<String>::new());
        world.says(BOB, 0, "back").expect("sent");
        assert!(world.texts(ANN).contains(&String::from("back")));
    }
}

//! Transients, step by step.

use crate::world::{World, person};
use model::chat::{ChatFault, GroupVerb};

/// The devices of four people, two each.
const ANN: usize = 0;
const ANNS_OTHER: usize = 1;
const BOB: usize = 2;
const BOBS_OTHER: usize = 3;
const CAROL: usize = 4;

fn world(shards: u16) -> World {
    let mut world = World::new(5, shards);
    for at in [ANN, ANNS_OTHER, BOB, BOBS_OTHER, CAROL] {
        world.connect(at);
        world.rest();
    }
    world
}

#[test]
fn every_device_of_the_receiver_hears_of_it_and_it_is_kept_nowhere() {
    for shards in 1..=4 {
        let mut world = world(shards);
        assert_eq!(world.typing(ANN, &person(1)), [BOB, BOBS_OTHER]);
        assert_eq!(world.typing(ANN, &person(0)), [ANNS_OTHER], "to oneself");
        assert_eq!(world.typing(ANN, &person(3)), [], "nobody is there");
        world.dies();
        world.heal();
        for at in [ANN, BOB, CAROL] {
            assert!(world.texts(at).is_empty());
        }
    }
}

#[test]
fn members_of_a_group_that_is_not_too_large_hear_of_it_if_one_may_speak_there() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
        let group = world.groups()[0].clone();
        assert_eq!(world.typing(ANN, &group), [BOB, BOBS_OTHER]);
        assert_eq!(world.typing(CAROL, &group), [], "no member");
        world.orders(ANN, GroupVerb::Mute, Some(&group), &[1]).expect("muted");
        assert_eq!(world.typing(BOB, &group), [], "muted");
        assert_eq!(world.typing(ANN, &group), [BOB, BOBS_OTHER]);
        world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("added");
        assert_eq!(world.typing(ANN, &group), [], "one member more than the limit of tests");
    }
}

#[test]
fn one_with_a_number_is_answered_once_whatever_becomes_of_it() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
        let (group, bob) = (world.groups()[0].clone(), person(1));
        assert_eq!(world.told_with_number(ANN, &bob, 1), Ok(()));
        assert_eq!(world.told_with_number(ANN, &group, 1), Ok(()));
        assert_eq!(world.told_with_number(ANN, &bob, 65), Err(ChatFault::TooLarge));
        assert_eq!(world.told_with_number(CAROL, &group, 1), Err(ChatFault::NotMember));
        world.blocks(BOB, &person(2));
        assert_eq!(world.told_with_number(CAROL, &bob, 1), Err(ChatFault::UnknownAccount));
        assert_eq!(world.told_with_number(BOB, &person(2), 1), Err(ChatFault::Blocked));
        world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("added");
        assert_eq!(world.told_with_number(ANN, &group, 1), Err(ChatFault::TooLarge));
        while world.is_heard(ANN, &bob, 1) {}
        assert_eq!(world.told_with_number(ANN, &bob, 1), Err(ChatFault::RateLimited));
    }
}

#[test]
fn what_is_too_large_or_too_often_is_dropped() {
    for shards in 1..=2 {
        let (mut world, bob) = (world(shards), person(1));
        assert!(!world.is_heard(ANN, &bob, 0), "nothing is said");
        assert!(!world.is_heard(ANN, &bob, 65), "the limit of tests is 64");
        assert!(world.is_heard(ANN, &bob, 64));
        let heard = (0..300).filter(|_| world.is_heard(ANN, &bob, 1)).count();
        assert_eq!(heard, 119, "of 120 in a minute one was told before");
        assert!(world.is_heard(ANNS_OTHER, &bob, 1), "it is a session's");
        world.pass_ms(60_000);
        assert!(world.is_heard(ANN, &bob, 1));
    }
}

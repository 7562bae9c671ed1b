//! Groups, step by step: who may do what, and who hears of it.

use crate::world::World;
use model::account::AccountAddress;
use model::chat::{ChatFault, GroupVerb};

/// The first devices of three people, who are in a group of at most three, and of one who is not.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;
const DAVE: usize = 6;

/// Ann has made a group with Bob and Carol.
fn group(shards: u16) -> (World, AccountAddress) {
    let mut world = World::new(7, shards);
    for at in [ANN, BOB, CAROL, DAVE] {
        world.connect(at);
        world.rest();
    }
    world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
    let group = world.groups().first().cloned().expect("everybody has heard of it");
    (world, group)
}

fn heard(world: &mut World, at: usize, text: &str) -> bool {
    world.texts(at).iter().any(|it| it == text)
}

#[test]
fn what_is_said_to_a_group_is_for_its_members_and_they_alone_say_it() {
    for shards in 1..=4 {
        let (mut world, group) = group(shards);
        world.says_to(BOB, &group, "hello").expect("a member");
        assert!(heard(&mut world, ANN, "hello") && heard(&mut world, CAROL, "hello"));
        assert!(world.texts(DAVE).is_empty());
        assert_eq!(world.says_to(DAVE, &group, "me too"), Err(ChatFault::NotMember));
        let nowhere = AccountAddress::of_group(1, "a.example").expect("right");
        assert_eq!(world.says_to(ANN, &nowhere, "anybody?"), Err(ChatFault::NotMember));
        world.heal();
        world.check();
    }
}

#[test]
fn who_is_removed_is_told_so_and_hears_nothing_after() {
    let (mut world, group) = group(3);
    world.orders(ANN, GroupVerb::Remove, Some(&group), &[2]).expect("an owner may");
    world.says_to(BOB, &group, "she is gone").expect("a member");
    assert!(!heard(&mut world, CAROL, "she is gone"));
    assert_eq!(world.says_to(CAROL, &group, "am I?"), Err(ChatFault::NotMember));
    world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("there is room again");
    world.says_to(ANN, &group, "welcome back").expect("a member");
    assert!(heard(&mut world, CAROL, "welcome back") && !heard(&mut world, CAROL, "she is gone"));
    world.heal();
    world.check();
}

#[test]
fn roles_say_who_may_change_what() {
    let (mut world, group) = group(2);
    let mut order = |at, verb, whom: &[u32]| world.orders(at, verb, Some(&group), whom);
    assert_eq!(order(BOB, GroupVerb::Remove, &[2]), Err(ChatFault::Forbidden));
    assert_eq!(order(ANN, GroupVerb::Leave, &[]), Err(ChatFault::Forbidden), "it needs an owner");
    assert_eq!(order(ANN, GroupVerb::Add, &[3]), Err(ChatFault::GroupFull));
    assert_eq!(order(ANN, GroupVerb::Add, &[1]), Err(ChatFault::Unchanged));
    assert_eq!(order(DAVE, GroupVerb::Open, &[]), Err(ChatFault::NotMember));
    order(ANN, GroupVerb::Promote, &[1]).expect("an owner may");
    assert_eq!(order(BOB, GroupVerb::Remove, &[0]), Err(ChatFault::Forbidden), "the owner");
    order(BOB, GroupVerb::Remove, &[2]).expect("an admin may");
    order(ANN, GroupVerb::HandOver, &[1]).expect("an owner may");
    assert_eq!(order(ANN, GroupVerb::Dissolve, &[]), Err(ChatFault::Forbidden), "no owner now");
    order(ANN, GroupVerb::Leave, &[]).expect("an admin may");
    order(BOB, GroupVerb::Dissolve, &[]).expect("an owner may");
    assert_eq!(world.says_to(BOB, &group, "anybody?"), Err(ChatFault::NotMember));
    world.heal();
    world.check();
}

#[test]
fn the_muted_and_those_of_a_closed_group_say_nothing() {
    let (mut world, group) = group(2);
    world.orders(ANN, GroupVerb::Mute, Some(&group), &[1]).expect("an owner may");
    assert_eq!(world.says_to(BOB, &group, "why?"), Err(ChatFault::Muted));
    world.orders(ANN, GroupVerb::Unmute, Some(&group), &[1]).expect("an owner may");
    world.says_to(BOB, &group, "thanks").expect("not muted");
    world.orders(ANN, GroupVerb::Close, Some(&group), &[]).expect("an owner may");
    assert_eq!(world.says_to(BOB, &group, "and now?"), Err(ChatFault::Muted));
    world.says_to(ANN, &group, "quiet").expect("an owner");
    world.orders(ANN, GroupVerb::Open, Some(&group), &[]).expect("an owner may");
    world.says_to(BOB, &group, "at last").expect("open");
    world.heal();
    world.check();
}

//! Groups that are dissolved, and later groups of the same names.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{ChatFault, GroupRole, GroupVerb, MembersRange};

/// The first devices of four people.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;
const DAVE: usize = 6;

fn everybody_comes(world: &mut World) {
    for at in [ANN, BOB, CAROL, DAVE] {
        world.connect(at);
        world.rest();
    }
}

fn named(address: &str) -> AccountAddress {
    AccountAddress::parse(address, "").expect("right")
}

fn lunch() -> AccountAddress {
    named("lunch@conference.a.example")
}

fn heard(world: &mut World, at: usize, text: &str) -> bool {
    world.texts(at).iter().any(|it| it == text)
}

/// Texts of a group as a device reads them, without notices of changes.
fn reads(world: &mut World, at: usize, group: &AccountAddress) -> Vec<String> {
    let mut all = world.history(at, group, true);
    all.retain(|it| !it.content.is_reserved());
    all.iter().rev().map(|it| it.content.text.to_string()).collect()
}

/// Ann's group with Bob, with many messages and changes, is dissolved, and Dave creates one with
/// Carol under its name.
fn made_anew(shards: u16, border: u32) -> (World, AccountAddress) {
    let (mut world, lunch) = (World::with_border(7, shards, border), lunch());
    everybody_comes(&mut world);
    let group = Some(&lunch);
    for (verb, whom) in [
        (GroupVerb::Create, &[1][..]),
        (GroupVerb::Ban, &[2]),
        (GroupVerb::Describe, &[]),
        (GroupVerb::Unlock, &[]),
        (GroupVerb::Reveal, &[]),
        (GroupVerb::Promote, &[1]),
        (GroupVerb::Close, &[]),
    ] {
        world.orders(ANN, verb, group, whom).expect("she owns it");
    }
    world.says_to(BOB, &lunch, "of then").expect("an admin");
    world.orders(ANN, GroupVerb::Dissolve, group, &[]).expect("an owner may");
    for at in [ANN, BOB, DAVE] {
        assert_eq!(world.says_to(at, &lunch, "anybody?"), Err(ChatFault::NotMember));
    }
    world.orders(DAVE, GroupVerb::Create, group, &[2]).expect("the name is free");
    (world, lunch)
}

#[test]
fn nothing_is_left_of_a_group_whose_name_another_one_has() {
    for (shards, border) in (1..=4).flat_map(|shards| [(shards, 0), (shards, 1)]) {
        let (mut world, lunch) = made_anew(shards, border);
        let group = Some(&lunch);
        for round in 0..2 {
            let page = world.lists(DAVE, &lunch, (0, 0, 9)).expect("a member");
            let is = (page.closed, page.unlocked, page.public, &*page.description);
            assert_eq!(is, (false, false, false, ""), "as it was made");
            let mut all: Vec<_> =
                page.members.iter().map(|it| (it.member.address.clone(), it.role)).collect();
            all.sort();
            let expected = [(person(2), GroupRole::Member), (person(3), GroupRole::Owner)];
            assert_eq!(all, expected, "who was banned is welcome");
            let (version, from, count, banned) = (0, 0, 9, true);
            let range = MembersRange { group: lunch.clone().into(), version, from, count, banned };
            assert_eq!(world.lists_so(DAVE, range).map(|page| page.total), Ok(0));
            for at in [ANN, BOB] {
                assert_eq!(world.says_to(at, &lunch, "I own it"), Err(ChatFault::NotMember));
                assert_eq!(world.lists(at, &lunch, (0, 0, 9)), Err(ChatFault::NotMember));
            }
            world.says_to(CAROL, &lunch, &format!("now {round}")).expect("a member");
            assert!(heard(&mut world, DAVE, &format!("now {round}")));
            if round == 0 {
                world.dies();
                world.heal();
                everybody_comes(&mut world);
            }
        }
        for at in [CAROL, DAVE] {
            assert_eq!(reads(&mut world, at, &lunch), ["now 0", "now 1"]);
        }
        // A member of both groups has the messages of both in its inbox, and reads the new group's
        // history.
        world.orders(DAVE, GroupVerb::Add, group, &[1]).expect("an owner may");
        world.says_to(DAVE, &lunch, "welcome").expect("an owner");
        assert!(heard(&mut world, BOB, "welcome") && !heard(&mut world, BOB, "now 0"));
        assert_eq!(reads(&mut world, BOB, &lunch), ["welcome"]);
        world.heal();
        world.check();
    }
}

#[test]
fn who_has_the_name_calls_nothing_back_that_was_said_in_another_group() {
    for shards in 1..=3 {
        let (mut world, lunch) = made_anew(shards, 0);
        let before = world.said_at(&person(1), "of then").expect("he has said it");
        assert_eq!(world.recalls(DAVE, &lunch, before), Err(ChatFault::Forbidden));
        world.says_to(CAROL, &lunch, "of now").expect("a member");
        let now = world.said_at(&person(2), "of now").expect("she has said it");
        world.recalls(DAVE, &lunch, now).expect("an owner moderates");
        world.heal();
        world.check();
    }
}

#[test]
fn an_order_that_is_given_again_late_brings_nothing_back() {
    for shards in 1..=3 {
        let mut world = World::new(8, shards);
        everybody_comes(&mut world);
        world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
        let group = world.groups().first().cloned().expect("everybody has heard of it");
        world.orders(ANN, GroupVerb::Dissolve, Some(&group), &[]).expect("an owner may");
        assert_eq!(world.makes_again(ANN), Ok(()), "the answer of then");
        assert_eq!(world.says_to(ANN, &group, "anybody?"), Err(ChatFault::NotMember));
        // The log knows the order by which a group with a chosen name was created.
        let lunch = lunch();
        world.orders(ANN, GroupVerb::Create, Some(&lunch), &[1]).expect("made");
        world.orders(ANN, GroupVerb::Dissolve, Some(&lunch), &[]).expect("an owner may");
        assert_eq!(world.makes_again(ANN), Ok(()), "the answer of then");
        assert_eq!(world.says_to(ANN, &lunch, "anybody?"), Err(ChatFault::NotMember));
        world.orders(BOB, GroupVerb::Create, Some(&lunch), &[]).expect("the name is free");
        assert_eq!(world.makes_again(ANN), Err(ChatFault::Conflict), "it is his");
        assert_eq!(world.makes_again(BOB), Ok(()));
        world.says_to(BOB, &lunch, "mine").expect("its owner");
        assert!(!heard(&mut world, ANN, "mine"));
        world.heal();
        world.check();
    }
}

#[test]
fn the_name_of_a_channel_is_taken_for_good() {
    let (mut world, news) = (World::new(9, 2), named("news@channel.a.example"));
    everybody_comes(&mut world);
    world.orders(ANN, GroupVerb::Create, Some(&news), &[]).expect("made");
    world.says_to(ANN, &news, "first").expect("she publishes");
    world.orders(ANN, GroupVerb::Dissolve, Some(&news), &[]).expect("an owner may");
    for at in [ANN, BOB] {
        let again = world.orders(at, GroupVerb::Create, Some(&news), &[]);
        assert_eq!(again, Err(ChatFault::Conflict));
    }
    assert_eq!(world.orders(BOB, GroupVerb::Join, Some(&news), &[]), Err(ChatFault::NotMember));
}

//! Groups, step by step: rights of members, and the receivers of changes.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{ChatFault, GroupRole, GroupVerb, MEMBERS_PAGE_MAX};
use std::collections::BTreeMap;

/// The first devices of three people in a group of at most three, and of one outside.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;
const DAVE: usize = 6;

/// Ann has created a group with Bob and Carol.
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
fn several_own_a_group_and_one_of_them_stays() {
    for shards in 1..=3 {
        let (mut world, group) = group(shards);
        let mut order = |at, verb, whom: &[u32]| world.orders(at, verb, Some(&group), whom);
        assert_eq!(order(BOB, GroupVerb::AddOwner, &[1]), Err(ChatFault::Forbidden));
        assert_eq!(order(ANN, GroupVerb::RemoveOwner, &[0]), Err(ChatFault::Forbidden), "the last");
        assert_eq!(order(ANN, GroupVerb::RemoveOwner, &[1]), Err(ChatFault::Unchanged));
        order(ANN, GroupVerb::Mute, &[1]).expect("an owner may");
        order(ANN, GroupVerb::AddOwner, &[1, 2]).expect("an owner may");
        assert_eq!(order(ANN, GroupVerb::AddOwner, &[1]), Err(ChatFault::Unchanged));
        assert_eq!(order(ANN, GroupVerb::Mute, &[1]), Err(ChatFault::Forbidden), "an owner speaks");
        assert_eq!(order(ANN, GroupVerb::Demote, &[1]), Err(ChatFault::Unchanged), "is no admin");
        order(BOB, GroupVerb::RemoveOwner, &[0]).expect("owners are equal");
        assert_eq!(order(ANN, GroupVerb::Remove, &[1]), Err(ChatFault::Forbidden));
        order(BOB, GroupVerb::Remove, &[2]).expect("owners are equal");
        assert_eq!(order(BOB, GroupVerb::Leave, &[]), Err(ChatFault::Forbidden), "the last");
        order(BOB, GroupVerb::AddOwner, &[0]).expect("an admin becomes one");
        order(BOB, GroupVerb::Leave, &[]).expect("another owner stays");
        world.says_to(ANN, &group, "mine again").expect("a member");
        world.heal();
        world.check();
    }
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

#[test]
fn members_are_told_who_is_in_their_group_in_pages_and_nobody_else_is() {
    for shards in 1..=4 {
        let (mut world, group) = group(shards);
        world.orders(ANN, GroupVerb::Promote, Some(&group), &[1]).expect("an owner may");
        world.orders(ANN, GroupVerb::Mute, Some(&group), &[2]).expect("an owner may");
        for at in [ANN, BOB, CAROL] {
            let mut seen = BTreeMap::new();
            let (mut version, mut from) = (0, 0);
            while seen.len() < 3 {
                let page = world.lists(at, &group, (version, from, 1)).expect("a member");
                assert_eq!((page.total, page.from, page.members.len()), (3, from, 1));
                assert!(version == 0 || page.version == version);
                let own = Some(person(at as u32 / 2)).filter(|_| from == 0);
                let own = own.filter(|own| page.members[0].member.address != *own);
                assert_eq!(page.own.map(|it| it.member.address), own, "on the first page");
                (version, from) = (page.version, from + 1);
                let one = page.members[0].clone();
                seen.insert(one.member.address, (one.role, one.muted));
            }
            let expected = [
                (person(0), (GroupRole::Owner, false)),
                (person(1), (GroupRole::Admin, false)),
                (person(2), (GroupRole::Member, true)),
            ];
            assert_eq!(seen, BTreeMap::from(expected));
            let end = world.lists(at, &group, (version, 7, 1)).expect("a member");
            assert_eq!((end.from, end.members.len()), (3, 0), "there are no more");
        }
        let fault = |world: &mut World, at, group: &AccountAddress, count| {
            world.lists(at, group, (0, 0, count)).expect_err("it may not")
        };
        assert_eq!(fault(&mut world, DAVE, &group, 1), ChatFault::NotMember);
        let nowhere = AccountAddress::of_group(1, "a.example").expect("right");
        assert_eq!(fault(&mut world, ANN, &nowhere, 1), ChatFault::NotMember);
        assert_eq!(fault(&mut world, ANN, &person(1), 1), ChatFault::Invalid, "no group");
        assert_eq!(fault(&mut world, ANN, &group, 0), ChatFault::Invalid);
        assert_eq!(fault(&mut world, ANN, &group, MEMBERS_PAGE_MAX + 1), ChatFault::Invalid);
        world.heal();
        world.check();
    }
}

#[test]
fn a_list_that_changed_meanwhile_begins_anew() {
    let (mut world, group) = group(3);
    let first = world.lists(ANN, &group, (0, 0, 2)).expect("a member");
    world.orders(ANN, GroupVerb::Rename, Some(&group), &[]).expect("an owner may");
    let next = world.lists(ANN, &group, (first.version, 2, 2)).expect("a member");
    assert!(next.version > first.version && next.title != first.title);
    assert_eq!((next.from, next.members.len()), (0, 2), "from the beginning on");
    let last = world.lists(ANN, &group, (next.version, 2, 2)).expect("a member");
    assert_eq!((last.version, last.from, last.members.len()), (next.version, 2, 1));
    world.orders(ANN, GroupVerb::Close, Some(&group), &[]).expect("an owner may");
    world.orders(ANN, GroupVerb::Remove, Some(&group), &[2]).expect("an owner may");
    let page = world.lists(BOB, &group, (0, 0, 9)).expect("a member");
    assert_eq!((page.closed, page.total, page.members.len()), (true, 2, 2));
    assert_eq!(world.lists(CAROL, &group, (0, 0, 9)), Err(ChatFault::NotMember), "no more");
    world.heal();
    world.check();
}

#[test]
fn a_group_may_have_a_name_that_is_chosen_and_no_two_have_one_at_once() {
    for shards in 1..=4 {
        let (mut world, _) = group(shards);
        let named = |name: &str| AccountAddress::parse(name, "").expect("right");
        let lunch = named("lunch@conference.a.example");
        world.orders(ANN, GroupVerb::Create, Some(&lunch), &[1]).expect("made");
        world.says_to(BOB, &lunch, "where?").expect("a member");
        assert!(heard(&mut world, ANN, "where?") && !heard(&mut world, CAROL, "where?"));
        let mut makes =
            |at, group: &AccountAddress| world.orders(at, GroupVerb::Create, Some(group), &[]);
        assert_eq!(makes(DAVE, &lunch), Err(ChatFault::Conflict), "it is there");
        for elsewhere in ["x@conference.b.example", "x@a.example", "x@conference.a.example.b"] {
            assert_eq!(makes(DAVE, &named(elsewhere)), Err(ChatFault::Invalid), "{elsewhere}");
        }
        world.orders(ANN, GroupVerb::Dissolve, Some(&lunch), &[]).expect("an owner may");
        world.orders(DAVE, GroupVerb::Create, Some(&lunch), &[]).expect("the name is free");
        world.heal();
        world.check();
    }
}

#[test]
fn an_order_that_names_nobody_it_needs_makes_no_sense() {
    let (mut world, group) = group(1);
    for &verb in GroupVerb::ALL.iter().filter(|verb| verb.names_members()) {
        assert_eq!(world.orders(ANN, verb, Some(&group), &[]), Err(ChatFault::Invalid), "{verb:?}");
    }
    world.orders(ANN, GroupVerb::Open, Some(&group), &[]).expect_err("it is open");
    world.heal();
    world.check();
}

#[test]
fn a_channel_is_published_in_by_few_and_subscribed_to_by_whoever_wants() {
    let mut world = World::new(11, 3);
    let everybody_comes = |world: &mut World| {
        for at in [ANN, BOB, CAROL] {
            world.connect(at);
            world.rest();
        }
    };
    everybody_comes(&mut world);
    let channel = AccountAddress::parse("news@channel.a.example", "").expect("right");
    let named = Some(&channel);
    assert_eq!(world.orders(ANN, GroupVerb::Create, named, &[1]), Err(ChatFault::Invalid));
    assert_eq!(world.orders(ANN, GroupVerb::Create, named, &[]), Ok(()));
    assert_eq!(world.says_to(ANN, &channel, "first"), Ok(()));
    assert_eq!(world.says_to(BOB, &channel, "hello?"), Err(ChatFault::NotMember));
    assert_eq!(world.orders(BOB, GroupVerb::Join, named, &[2]), Ok(()), "and nobody else");
    assert_eq!(world.says_to(CAROL, &channel, "hello?"), Err(ChatFault::NotMember));
    assert_eq!(world.orders(BOB, GroupVerb::Join, named, &[]), Err(ChatFault::Unchanged));
    assert_eq!(world.says_to(BOB, &channel, "hello?"), Err(ChatFault::Muted));
    assert_eq!(world.says_to(ANN, &channel, "second"), Ok(()));
    assert!(heard(&mut world, BOB, "second") && !heard(&mut world, BOB, "first"));
    // Earlier messages are in the history; subscribers are listed nowhere.
    let said =
        world.history(BOB, &channel, false).into_iter().map(|it| it.content.text.to_string());
    let said: Vec<String> = said.skip(1).collect();
    assert_eq!(said, ["first", "second"]);
    assert_eq!(world.lists(BOB, &channel, (0, 0, 3)), Err(ChatFault::Forbidden));
    assert_eq!(world.lists(ANN, &channel, (0, 0, 3)).map(|page| page.total), Ok(2));
    world.dies();
    everybody_comes(&mut world);
    assert_eq!(world.says_to(ANN, &channel, "third"), Ok(()));
    assert!(heard(&mut world, BOB, "third"), "it is a subscriber still");
    assert_eq!(world.orders(BOB, GroupVerb::Leave, named, &[]), Ok(()));
    assert_eq!(world.says_to(ANN, &channel, "fourth"), Ok(()));
    assert!(!heard(&mut world, BOB, "fourth"));
    // No account can join a group by itself.
    assert_eq!(world.orders(ANN, GroupVerb::Create, None, &[1]), Ok(()));
    let group = world.groups().into_iter().find(|it| !it.is_channel()).expect("it was made");
    assert_eq!(world.orders(CAROL, GroupVerb::Join, Some(&group), &[]), Err(ChatFault::NotMember));
}

#[test]
fn who_subscribes_to_a_channel_is_told_to_nobody_with_an_archive_outside_either() {
    for shards in 1..=3 {
        let mut world = World::new(12, shards);
        world.keeps_for_archive();
        for at in [ANN, BOB, CAROL] {
            world.connect(at);
            world.rest();
        }
        let channel = AccountAddress::parse("news@channel.a.example", "").expect("right");
        let named = Some(&channel);
        world.orders(ANN, GroupVerb::Create, named, &[]).expect("made");
        world.orders(BOB, GroupVerb::Join, named, &[]).expect("whoever wants");
        let had = world.texts(ANN).len();
        world.orders(CAROL, GroupVerb::Join, named, &[]).expect("whoever wants");
        world.orders(ANN, GroupVerb::Remove, named, &[2]).expect("an owner may");
        world.says_to(ANN, &channel, "first").expect("she publishes");
        assert_eq!(world.texts(BOB), ["first"]);
        assert!(world.texts(CAROL).is_empty(), "she is gone again");
        assert_eq!(world.texts(ANN).len() - had, 0, "her own device has said it");
        let places: Vec<_> = world.history(BOB, &channel, false).iter().map(|it| it.seq).collect();
        assert_eq!(places, [1, 2]);
    }
}

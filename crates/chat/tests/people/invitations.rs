//! Additions and invitations to groups: blocks, the account's own setting, former members, and the
//! limit of groups that an account creates.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{Adding, Affiliation, ChatFault, GroupChange, GroupVerb, PrivacyWish};

/// The first devices of four people.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;
const DAVE: usize = 6;

fn world(shards: u16, border: u32) -> World {
    let mut world = World::with_border(31, shards, border);
    for at in [ANN, BOB, CAROL, DAVE] {
        world.connect(at);
        world.rest();
    }
    world
}

fn adds(world: &mut World, at: usize, adding: Adding) {
    let wish = PrivacyWish { adding: Some(adding), ..PrivacyWish::default() };
    assert_eq!(world.wants_privacy(at, wish).adding, adding);
}

/// Changes of a group that a device got: verbs, and whether this person is named.
fn told(world: &mut World, at: usize, who: u32) -> Vec<(GroupVerb, bool)> {
    world.texts(at);
    let all = world.has(at).into_iter().filter_map(|it| GroupChange::of(&it.content));
    let named = |it: &GroupChange| it.members.iter().any(|one| one.address == person(who));
    all.map(|it| (it.verb, named(&it))).collect()
}

fn group(world: &World) -> AccountAddress {
    world.groups().last().cloned().expect("somebody has heard of it")
}

#[test]
fn nobody_is_added_or_invited_by_whom_it_blocks() {
    for shards in 1..=3 {
        let mut world = world(shards, 0);
        world.blocks(BOB, &person(0));
        let made = world.orders(ANN, GroupVerb::Create, None, &[1, 2]);
        assert_eq!(made, Err(ChatFault::UnknownAccount));
        world.orders(ANN, GroupVerb::Create, None, &[2]).expect("made");
        let group = group(&world);
        for verb in [GroupVerb::Add, GroupVerb::Invite] {
            let order = world.orders(ANN, verb, Some(&group), &[1]);
            assert_eq!(order, Err(ChatFault::UnknownAccount), "{verb:?}");
        }
        assert_eq!(told(&mut world, BOB, 1), []);
        // Another member can add him.
        world.orders(ANN, GroupVerb::Promote, Some(&group), &[2]).expect("an owner may");
        world.orders(CAROL, GroupVerb::Add, Some(&group), &[1]).expect("an admin may");
        assert_eq!(told(&mut world, BOB, 1), [(GroupVerb::Add, true)]);
    }
}

#[test]
fn who_wants_to_be_asked_is_invited_and_accepts_or_declines() {
    for (shards, border) in [(1, 0), (3, 0), (3, 1)] {
        let mut world = world(shards, border);
        adds(&mut world, BOB, Adding::Nobody);
        world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
        let group = group(&world);
        let all = Some(&group);
        assert_eq!(told(&mut world, BOB, 1), [(GroupVerb::Invite, true)]);
        let carols = [(GroupVerb::Create, false), (GroupVerb::Invite, true)];
        assert_eq!(told(&mut world, CAROL, 1), carols);
        // He gets the description of the group, but not its members, and is not a member.
        let page = world.lists(BOB, &group, (0, 0, 9)).expect("he is invited");
        assert_eq!((page.total, page.members.len()), (2, 0));
        assert_eq!(world.says_to(BOB, &group, "hello"), Err(ChatFault::NotMember));
        world.says_to(ANN, &group, "before").expect("an owner");
        assert!(!world.texts(BOB).contains(&"before".to_owned()));
        assert_eq!(world.list_groups(BOB), []);
        // The invitation is for him alone.
        assert_eq!(world.orders(DAVE, GroupVerb::Join, all, &[]), Err(ChatFault::NotMember));
        assert_eq!(world.orders(ANN, GroupVerb::Invite, all, &[1]), Err(ChatFault::Unchanged));
        // The invitation survives a restart.
        world.dies();
        world.pass_ms(1_000);
        for at in [ANN, BOB, CAROL, DAVE] {
            world.connect(at);
            world.rest();
        }
        world.orders(BOB, GroupVerb::Join, all, &[]).expect("he is invited");
        world.says_to(BOB, &group, "hello").expect("a member");
        assert!(world.texts(CAROL).contains(&"hello".to_owned()));
        assert_eq!(world.list_groups(BOB), std::slice::from_ref(&group));
        let read = world.history(BOB, &group, false);
        assert!(!read.iter().any(|it| *it.content.text == *"before"), "as one who is added");
        // A member who has left is not added again, but invited; and may decline.
        world.orders(BOB, GroupVerb::Leave, all, &[]).expect("a member may");
        adds(&mut world, BOB, Adding::Everybody);
        world.orders(ANN, GroupVerb::Add, all, &[1]).expect("he is invited");
        assert_eq!(told(&mut world, BOB, 1).last(), Some(&(GroupVerb::Invite, true)));
        let both = world.orders(ANN, GroupVerb::Add, all, &[1, 3]);
        assert_eq!(both, Err(ChatFault::InvitationNeeded));
        world.orders(BOB, GroupVerb::Leave, all, &[]).expect("he declines");
        assert_eq!(told(&mut world, ANN, 1).last(), Some(&(GroupVerb::Leave, true)));
        assert_eq!(told(&mut world, BOB, 1).last(), Some(&(GroupVerb::Leave, true)));
        assert_eq!(world.orders(BOB, GroupVerb::Join, all, &[]), Err(ChatFault::NotMember));
        // An invitation is withdrawn.
        world.orders(ANN, GroupVerb::Invite, all, &[1]).expect("an owner may");
        world.orders(ANN, GroupVerb::Remove, all, &[1]).expect("an owner may");
        assert_eq!(told(&mut world, BOB, 1).last(), Some(&(GroupVerb::Remove, true)));
        assert_eq!(world.orders(BOB, GroupVerb::Join, all, &[]), Err(ChatFault::NotMember));
        // A removed member can be added again.
        world.orders(ANN, GroupVerb::Remove, all, &[2]).expect("an owner may");
        world.orders(ANN, GroupVerb::Add, all, &[2]).expect("an owner may");
        assert_eq!(told(&mut world, CAROL, 2).last(), Some(&(GroupVerb::Add, true)));
    }
}

#[test]
fn who_is_invited_is_told_that_the_group_is_dissolved() {
    for (shards, border) in [(1, 0), (3, 0), (1, 1), (3, 1)] {
        for is_away in [false, true] {
            let mut world = world(shards, border);
            adds(&mut world, BOB, Adding::Nobody);
            world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
            let group = group(&world);
            world.says_to(ANN, &group, "all are here").expect("an owner");
            if is_away {
                world.leaves(BOB);
            }
            // A dissolution names another group to go to instead, and no member of this one.
            world.orders(ANN, GroupVerb::Dissolve, Some(&group), &[3]).expect("an owner may");
            if is_away {
                world.dies();
                for at in [ANN, BOB, CAROL] {
                    world.connect(at);
                }
                world.rest();
            }
            let verbs = |world: &mut World, at| {
                told(world, at, 1).into_iter().map(|(verb, _)| verb).collect::<Vec<_>>()
            };
            let bobs = [GroupVerb::Invite, GroupVerb::Dissolve];
            assert_eq!(verbs(&mut world, BOB), bobs, "{shards} shards, {border}, {is_away}");
            assert_eq!(verbs(&mut world, CAROL).last(), Some(&GroupVerb::Dissolve));
            world.heal();
            world.check();
        }
    }
}

#[test]
fn contacts_add_whom_others_invite() {
    let mut world = world(2, 0);
    adds(&mut world, BOB, Adding::Contacts);
    world.lists_contact(BOB, &person(2));
    world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
    assert_eq!(told(&mut world, BOB, 1), [(GroupVerb::Invite, true)]);
    world.orders(CAROL, GroupVerb::Create, None, &[1]).expect("made");
    let all = told(&mut world, BOB, 1);
    assert_eq!(all, [(GroupVerb::Invite, true), (GroupVerb::Create, true)]);
}

#[test]
fn typing_of_somebody_who_is_blocked_does_not_come_through_a_group() {
    let mut world = world(2, 0);
    world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
    let group = group(&world);
    assert_eq!(world.typing(ANN, &group), [BOB]);
    world.blocks(BOB, &person(0));
    assert_eq!(world.typing(ANN, &group), [0; 0]);
    // Blocks hold after a restart, when none of his ties is in memory.
    world.dies();
    for at in [ANN, BOB] {
        world.connect(at);
        world.rest();
    }
    assert_eq!(world.typing(ANN, &group), [0; 0]);
    assert_eq!(world.typing(BOB, &group), [ANN], "she has blocked nobody");
}

#[test]
fn nobody_is_mentioned_by_whom_it_blocks() {
    for shards in 1..=3 {
        let mut world = world(shards, 0);
        world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
        let group = group(&world);
        // A text that ends with a 4 mentions Bob.
        let mentions = |world: &mut World| world.knows(BOB, &group).expect("his").mentions;
        world.says_to(ANN, &group, "text 4").expect("an owner");
        assert_eq!(mentions(&mut world), 1);
        world.blocks(BOB, &person(0));
        world.says_to(ANN, &group, "text 14").expect("an owner");
        assert_eq!(mentions(&mut world), 1);
        world.says_to(CAROL, &group, "text 24").expect("a member");
        assert_eq!(mentions(&mut world), 2);
    }
}

#[test]
fn who_makes_groups_too_fast_or_too_many_is_told_so() {
    let mut world = world(2, 0);
    for _ in 0..12 {
        world.orders(ANN, GroupVerb::Create, None, &[]).expect("so many at once");
    }
    assert_eq!(world.orders(ANN, GroupVerb::Create, None, &[]), Err(ChatFault::RateLimited));
    world.orders(BOB, GroupVerb::Create, None, &[]).expect("nobody pays for another");
    world.pass_ms(60_000);
    for _ in 0..2 {
        world.orders(ANN, GroupVerb::Create, None, &[]).expect("some more in a minute");
    }
    assert_eq!(world.orders(ANN, GroupVerb::Create, None, &[]), Err(ChatFault::GroupsFull));
    let group = world.list_groups(ANN).pop().expect("one of them");
    world.orders(ANN, GroupVerb::Dissolve, Some(&group), &[]).expect("an owner may");
    world.orders(ANN, GroupVerb::Create, None, &[]).expect("there is room");
}

/// Verbs of the changes of groups that a device got, by messages.
fn verbs(world: &mut World, at: usize) -> Vec<Vec<GroupVerb>> {
    world.texts(at);
    let all = world.has(at).into_iter().map(|it| GroupChange::all_of(&it.content));
    let all = all.filter(|changes| !changes.is_empty());
    all.map(|changes| changes.iter().map(|it| it.verb).collect()).collect()
}

#[test]
fn of_a_list_an_invited_account_reads_its_invitation_and_a_subscriber_nothing_of_subscribers() {
    use GroupVerb::{Ban, Create, Invite, Join, Promote};
    for (shards, border) in [(1, 0), (2, 0), (3, 0), (3, 1)] {
        let mut world = world(shards, border);
        adds(&mut world, BOB, Adding::Nobody);
        world.orders(ANN, Create, None, &[2]).expect("made");
        let lunch = group(&world);
        let list = [(2, Affiliation::Outcast, "spam"), (1, Affiliation::Member, "welcome")];
        assert_eq!(world.affiliates(ANN, &lunch, &list), Ok(()));
        assert_eq!(verbs(&mut world, BOB), [[Invite]], "{shards} shards, border {border}");
        let invitation = world.has(BOB).pop().expect("it is there");
        assert_eq!(&*invitation.content.text, "welcome");
        assert_eq!(verbs(&mut world, CAROL).last(), Some(&vec![Ban]));
        assert_eq!(verbs(&mut world, ANN).last(), Some(&vec![Invite]));
        assert_eq!(world.affiliates(ANN, &lunch, &list), Err(ChatFault::Unchanged));
    }
    for shards in 1..=3 {
        let mut world = world(shards, 0);
        let news = AccountAddress::parse("news@channel.a.example", "").expect("right");
        world.orders(ANN, Create, Some(&news), &[]).expect("made");
        for at in [BOB, CAROL] {
            world.orders(at, Join, Some(&news), &[]).expect("it subscribes");
        }
        let list = [(2, Affiliation::Outcast, "spam"), (1, Affiliation::Admin, "")];
        assert_eq!(world.affiliates(ANN, &news, &list), Ok(()));
        assert_eq!(world.affiliates(ANN, &news, &[(3, Affiliation::Admin, "")]), Ok(()));
        assert_eq!(verbs(&mut world, BOB), [[Promote], [Promote]]);
        assert_eq!(verbs(&mut world, DAVE), [[Promote]]);
        for at in [BOB, DAVE] {
            assert_eq!(world.says_to(at, &news, "read this"), Ok(()));
        }
        assert_eq!(world.lists(ANN, &news, (0, 0, 9)).map(|page| page.total), Ok(3));
    }
}

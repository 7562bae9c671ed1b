//! Notices of groups to some members only: declined invitations, and requests for voice.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{ChatFault, GroupVerb};

/// The devices of people, two each.
const ANN: usize = 0;
const ANNS_PHONE: usize = 1;
const BOB: usize = 2;
const BOBS_OTHER: usize = 3;
const CAROL: usize = 4;
const DAVE: usize = 6;

/// Ann has a group with Bob and Carol; all are connected by XMPP, and Ann by IM, too.
fn world(shards: u16) -> (World, AccountAddress) {
    let mut world = World::new(5, shards);
    for at in [ANN, BOB, BOBS_OTHER, CAROL, DAVE] {
        world.binds(at);
    }
    world.connect(ANNS_PHONE);
    world.rest();
    world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
    let group = world.groups()[0].clone();
    (world, group)
}

/// Whether only this device got the notice that this person declined, with the order's reason.
fn declined(told: &[(usize, String)], at: usize, who: u32) -> bool {
    let begin = format!("{} declined: title ", person(who));
    !told.is_empty() && told.iter().all(|(to, it)| *to == at && it.starts_with(&begin))
}

#[test]
fn whoever_had_invited_is_told_who_declined_and_why_once() {
    for shards in 1..=4 {
        let (mut world, group) = world(shards);
        let group = Some(&group);
        world.orders(CAROL, GroupVerb::Leave, group, &[0]).expect("she may go");
        let told = world.asides();
        assert!(declined(&told, ANN, 2) && told.len() == 1, "{told:?}");
        assert_eq!(world.orders(CAROL, GroupVerb::Leave, group, &[0]), Err(ChatFault::NotMember));
        assert_eq!(world.asides(), [], "she is no member any more");
        world.orders(ANN, GroupVerb::Add, group, &[2]).expect("added");
        for named in [&[][..], &[2], &[3]] {
            world.orders(CAROL, GroupVerb::Leave, group, named).expect("she may go");
            assert_eq!(world.asides(), [], "nobody who is there besides is named: {named:?}");
            world.orders(ANN, GroupVerb::Add, group, &[2]).expect("added");
        }
        world.orders(CAROL, GroupVerb::Leave, group, &[1]).expect("she may go");
        let told = world.asides();
        assert!(declined(&told[..1], BOB, 2) && declined(&told[1..], BOBS_OTHER, 2), "{told:?}");
        assert_eq!(world.orders(ANN, GroupVerb::Leave, group, &[1]), Err(ChatFault::Forbidden));
        assert_eq!(world.asides(), [], "the owner stays");
        world.orders(ANN, GroupVerb::Unlock, group, &[]).expect("the owner may");
        world.orders(DAVE, GroupVerb::Join, group, &[]).expect("it is unlocked");
        world.orders(DAVE, GroupVerb::Leave, group, &[0]).expect("he may go");
        assert_eq!(world.asides(), [], "nobody has invited him");
    }
}

#[test]
fn owner_and_admins_are_asked_for_voice_by_members_without_one_at_a_pace() {
    for shards in 1..=4 {
        let (mut world, group) = world(shards);
        let carol = format!("{} asks", person(2));
        assert_eq!(world.asks_for_voice(CAROL, &group), [], "she has one");
        world.orders(ANN, GroupVerb::Mute, Some(&group), &[2]).expect("muted");
        assert_eq!(world.asks_for_voice(DAVE, &group), [], "no member");
        assert_eq!(world.asks_for_voice(CAROL, &group), [(ANN, carol.clone())]);
        assert_eq!(world.asks_for_voice(CAROL, &group), [], "she has just asked");
        world.pass_ms(60_000);
        world.orders(ANN, GroupVerb::Promote, Some(&group), &[1]).expect("promoted");
        let all = [ANN, BOB, BOBS_OTHER].map(|at| (at, carol.clone()));
        assert_eq!(world.asks_for_voice(CAROL, &group), all);
        world.orders(BOB, GroupVerb::Unmute, Some(&group), &[2]).expect("an admin may");
        world.orders(ANN, GroupVerb::Demote, Some(&group), &[1]).expect("the owner may");
        world.pass_ms(60_000);
        assert_eq!(world.asks_for_voice(CAROL, &group), []);
        world.orders(ANN, GroupVerb::Close, Some(&group), &[]).expect("the owner may");
        assert_eq!(world.asks_for_voice(CAROL, &group), [(ANN, carol)], "nobody else has one");
    }
}

//! Presence of members in groups, step by step.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{GroupVerb, Show};

/// The devices of four people, two each.
const ANN: usize = 0;
const ANNS_OTHER: usize = 1;
const BOB: usize = 2;
const BOBS_PHONE: usize = 3;
const CAROL: usize = 4;

/// Ann and Bob are in a group, by XMPP, and Bob by IM, too.
fn world(shards: u16) -> (World, AccountAddress) {
    let mut world = World::new(5, shards);
    for at in [ANN, ANNS_OTHER, BOB, CAROL] {
        world.binds(at);
    }
    world.connect(BOBS_PHONE);
    world.rest();
    world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
    let group = world.groups()[0].clone();
    (world, group)
}

fn said(at: usize, status: &str) -> (usize, Option<String>) {
    (at, Some(status.into()))
}

#[test]
fn devices_of_members_hear_how_one_is_there_and_whoever_lists_them_later_does() {
    for shards in 1..=4 {
        let (mut world, group) = world(shards);
        let all = [said(ANN, "tea"), said(ANNS_OTHER, "tea"), said(BOB, "tea")];
        assert_eq!(world.shows(ANN, &group, Some((Show::Away, "tea"))), all);
        assert_eq!(world.shows(ANN, &group, Some((Show::Away, "tea"))), [], "nothing new");
        assert_eq!(world.shows(CAROL, &group, Some((Show::Away, "tea"))), [], "no member");
        let listed = |world: &mut World| {
            let page = world.lists(BOB, &group, (0, 0, 9)).expect("a member");
            let ann = page.members.iter().find(|it| it.member.address == person(0));
            ann.expect("a member").show.as_ref().map(|it| (it.show, it.status.to_string()))
        };
        assert_eq!(listed(&mut world), Some((Show::Away, "tea".into())));
        let back = [(ANN, None), (ANNS_OTHER, None), (BOB, None)];
        assert_eq!(world.shows(ANNS_OTHER, &group, None), [], "that one has said nothing");
        assert_eq!(world.shows(ANNS_OTHER, &group, Some((Show::Here, ""))), back, "she is back");
        assert_eq!(listed(&mut world), None);
        world.shows(ANN, &group, Some((Show::DoNotDisturb, "")));
        assert_eq!(world.goes_from_groups(ANN), back[1..], "the device is there no more");
    }
}

#[test]
fn who_may_not_speak_says_no_words_and_in_a_large_group_one_hears_itself_alone() {
    for shards in 1..=4 {
        let (mut world, group) = world(shards);
        world.orders(ANN, GroupVerb::Mute, Some(&group), &[1]).expect("muted");
        let all = [said(ANN, ""), said(ANNS_OTHER, ""), said(BOB, "")];
        assert_eq!(world.shows(BOB, &group, Some((Show::Away, "a way to speak"))), all);
        world.orders(ANN, GroupVerb::Remove, Some(&group), &[1]).expect("removed");
        assert_eq!(world.shows(BOB, &group, Some((Show::Away, ""))), [], "no member");
        for who in [1, 2] {
            world.orders(ANN, GroupVerb::Add, Some(&group), &[who]).expect("added");
        }
        assert!(
            world
                .lists(ANN, &group, (0, 0, 9))
                .expect("a member")
                .members
                .iter()
                .all(|it| it.show.is_none())
        );
        let own = [said(ANN, "x"), said(ANNS_OTHER, "x")];
        assert_eq!(world.shows(ANN, &group, Some((Show::Away, "x"))), own, "more than in tests");
        assert!(
            world
                .lists(BOB, &group, (0, 0, 9))
                .expect("a member")
                .members
                .iter()
                .all(|it| it.show.is_none())
        );
    }
}

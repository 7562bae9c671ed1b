//! Read groups, step by step: nothing is written for offline members, who draw the messages when
//! they connect.

use crate::world::World;
use model::account::AccountAddress;
use model::chat::{Excerpt, GroupVerb};
use model::counters::ChatCounter;

/// The first devices of three people, who are in a group, and of one who is not.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;
const DAVE: usize = 6;

/// Groups of more than `border` members are read; Ann has created one with Bob and Carol.
fn group(shards: u16, border: u32) -> (World, AccountAddress) {
    let mut world = World::with_border(7, shards, border);
    for at in [ANN, BOB, CAROL, DAVE] {
        world.connect(at);
        world.rest();
    }
    world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
    let group = world.groups().first().cloned().expect("everybody has heard of it");
    (world, group)
}

/// Texts that a device got, without notices of changes of the group.
fn said(world: &mut World, at: usize) -> Vec<String> {
    let mut texts = world.texts(at);
    texts.retain(|text| !text.is_empty() && !text.starts_with("title"));
    texts
}

/// Number of entries distributed to inboxes, and of those drawn into them.
fn placed(world: &World) -> (u64, u64) {
    (world.counted(ChatCounter::Distributed), world.counted(ChatCounter::Drawn))
}

fn turns(world: &World) -> u64 {
    world.counted(ChatCounter::GroupsTurned)
}

fn says_all(world: &mut World, group: &AccountAddress, texts: &[&str]) {
    for text in texts {
        world.says_to(BOB, group, text).expect("a member");
    }
}

#[test]
fn nothing_is_written_for_who_is_away_until_it_comes() {
    for shards in 1..=4 {
        let (mut world, group) = group(shards, 1);
        world.leaves(CAROL);
        let before = placed(&world);
        let all = ["one", "two", "three", "four"];
        says_all(&mut world, &group, &all);
        // The notice of the turn is drawn, too.
        assert_eq!(placed(&world), (before.0, 2 * 5), "the conversation has the only copy");
        assert_eq!(said(&mut world, ANN), all);
        world.connect(CAROL);
        world.rest();
        assert_eq!(said(&mut world, CAROL), all);
        assert_eq!(placed(&world), (before.0, 3 * 5));
        assert_eq!(turns(&world), 1);
        world.heal();
        world.check();
    }
}

#[test]
fn who_comes_after_a_long_absence_is_listed_the_last_message_of_each_group() {
    for shards in 1..=4 {
        let (mut world, loud) = group(shards, 1);
        world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
        let quiet = world.groups().last().cloned().expect("everybody has heard of it");
        assert_ne!(loud, quiet);
        world.texts(CAROL);
        world.acknowledges_all(CAROL);
        world.leaves(CAROL);
        for n in 0..40 {
            world.says_to(BOB, &loud, &format!("loud {n}")).expect("a member");
        }
        says_all(&mut world, &quiet, &["quiet 0", "quiet 1"]);
        says_all(&mut world, &loud, &["the last"]);
        world.connect(CAROL);
        world.rest();
        let seen = |world: &mut World| {
            let page = world.list(CAROL, u64::MAX, 5).expect("told");
            let all =
                page.conversations.into_iter().filter(|it| [&loud, &quiet].contains(&&it.with));
            let text = |last: Option<Excerpt>| last.map(|last| last.text.to_string());
            let mut all: Vec<_> =
                all.map(|it| (text(it.last).unwrap_or_default(), it.unread)).collect();
            all.sort();
            all
        };
        let listed = seen(&mut world);
        let texts: Vec<&str> = listed.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["quiet 1", "the last"], "{shards} shards");
        assert!(listed[1].1 > 30, "{listed:?}");
        assert_eq!(said(&mut world, CAROL).len(), 43, "each once");
        assert_eq!(seen(&mut world), listed, "it was right before they were read");
        world.heal();
        world.check();
    }
}

#[test]
fn a_loud_group_does_not_keep_a_quiet_one_from_being_listed() {
    let (mut world, loud) = group(2, 1);
    world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
    let quiet = world.groups().last().cloned().expect("everybody has heard of it");
    world.leaves(CAROL);
    for n in 0..500 {
        world.says_to(BOB, &loud, &format!("loud {n}")).expect("a member");
    }
    says_all(&mut world, &quiet, &["quiet 1"]);
    world.connect(CAROL);
    world.rest();
    let before = placed(&world).1;
    let page = world.list(CAROL, u64::MAX, 5).expect("told");
    let found = page.conversations.iter().find(|it| it.with == quiet).expect("listed");
    assert_eq!(found.last.as_ref().map(|last| &*last.text), Some("quiet 1"));
    // The number of messages drawn for a list is limited, also when the list is requested again.
    world.list(CAROL, u64::MAX, 5).expect("told");
    let drawn = placed(&world).1 - before;
    assert!((100..=264).contains(&drawn), "{drawn}");
}

#[test]
fn a_group_at_the_border_is_written() {
    let (mut world, group) = group(2, 3);
    world.leaves(CAROL);
    let before = placed(&world);
    says_all(&mut world, &group, &["one", "two"]);
    assert_eq!((placed(&world), turns(&world)), ((before.0 + 6, 0), 0));
}

#[test]
fn who_is_removed_and_added_again_while_away_has_what_was_said_while_a_member() {
    for shards in 1..=4 {
        let (mut world, group) = group(shards, 1);
        says_all(&mut world, &group, &["all are here"]);
        world.leaves(CAROL);
        says_all(&mut world, &group, &["she is away"]);
        world.orders(ANN, GroupVerb::Remove, Some(&group), &[2]).expect("an owner may");
        says_all(&mut world, &group, &["she is gone"]);
        world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("there is room");
        world.dies();
        for at in [ANN, BOB] {
            world.connect(at);
        }
        world.rest();
        says_all(&mut world, &group, &["she is back"]);
        world.connect(CAROL);
        world.rest();
        assert_eq!(said(&mut world, CAROL), ["all are here", "she is away", "she is back"]);
        world.heal();
        world.check();
    }
}

#[test]
fn a_group_that_has_become_small_is_drawn_by_all_at_once_and_turns_again() {
    for shards in 1..=4 {
        let (mut world, group) = group(shards, 2);
        says_all(&mut world, &group, &["large"]);
        world.orders(ANN, GroupVerb::HandOver, Some(&group), &[1]).expect("an owner may");
        world.leaves(ANN);
        says_all(&mut world, &group, &["ann is away"]);
        for who in [0, 2] {
            world.orders(BOB, GroupVerb::Remove, Some(&group), &[who]).expect("an owner may");
        }
        says_all(&mut world, &group, &["alone"]);
        assert_eq!(turns(&world), 2, "it has turned back");
        world.orders(BOB, GroupVerb::Add, Some(&group), &[0]).expect("there is room");
        let before = placed(&world);
        says_all(&mut world, &group, &["two again"]);
        assert!(placed(&world).1 >= before.1 + 2, "a small one is not left to who comes");
        world.orders(BOB, GroupVerb::Add, Some(&group), &[2]).expect("there is room");
        says_all(&mut world, &group, &["three again"]);
        assert_eq!(turns(&world), 3);
        world.connect(ANN);
        world.rest();
        assert_eq!(said(&mut world, ANN), ["large", "ann is away", "two again", "three again"]);
        assert_eq!(said(&mut world, CAROL), ["large", "ann is away", "three again"]);
        world.heal();
        world.check();
    }
}

#[test]
fn an_inbox_is_drawn_not_far_beyond_what_a_device_was_sent() {
    let (mut world, group) = group(2, 1);
    world.leaves(CAROL);
    let all: Vec<String> = (0..90).map(|n| format!("message {n}")).collect();
    says_all(&mut world, &group, &all.iter().map(String::as_str).collect::<Vec<_>>());
    let before = placed(&world);
    world.connect(CAROL);
    world.rest();
    let drawn = placed(&world).1 - before.1;
    // Some are drawn at a time, and the last of these may exceed the limit (6 in these tests).
    assert!((6..=70).contains(&drawn), "{drawn} of 90 for who has asked for none");
    assert_eq!(said(&mut world, CAROL), all);
}

#[test]
fn who_was_added_more_often_than_is_remembered_loses_no_stay() {
    for shards in [1, 3] {
        let (mut world, group) = group(shards, 1);
        says_all(&mut world, &group, &["large"]);
        world.leaves(CAROL);
        let mut expected = vec!["large".to_owned()];
        for stay in 0..24 {
            let (inside, outside) = (format!("stay {stay}"), format!("gone {stay}"));
            says_all(&mut world, &group, &[&inside]);
            world.orders(ANN, GroupVerb::Remove, Some(&group), &[2]).expect("an owner may");
            says_all(&mut world, &group, &[&outside]);
            world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("there is room");
            expected.push(inside);
            if stay % 9 == 5 {
                world.dies();
                for at in [ANN, BOB] {
                    world.connect(at);
                }
                world.rest();
            }
        }
        says_all(&mut world, &group, &["at last"]);
        expected.push("at last".to_owned());
        world.connect(CAROL);
        world.rest();
        assert_eq!(said(&mut world, CAROL), expected);
        says_all(&mut world, &group, &["and live"]);
        expected.push("and live".to_owned());
        assert_eq!(said(&mut world, CAROL), expected);
        world.heal();
        world.check();
    }
}

#[test]
fn what_was_called_back_while_one_was_away_is_not_unread() {
    for shards in 1..=3 {
        let (mut world, group) = group(shards, 1);
        world.leaves(CAROL);
        let all: Vec<String> = (0..70).map(|n| format!("message {n}")).collect();
        says_all(&mut world, &group, &all.iter().map(String::as_str).collect::<Vec<_>>());
        let is_one = |text: &str| text.starts_with("message");
        world.texts(ANN);
        let said = world.has(ANN).into_iter().filter(|it| is_one(&it.content.text));
        let said: Vec<_> = said.collect();
        for message in &said[..60] {
            assert_eq!(world.recalls(BOB, &group, message.seq), Ok(()));
        }
        // The notices of the recalls are further behind than is drawn at first.
        world.connect(CAROL);
        world.rest();
        let left = said[60..].iter().filter(|it| it.content.counts).count() as u16;
        let unread = world.knows(CAROL, &group).expect("a member").unread;
        assert!(left > 5 && unread <= left, "{unread} unread, of which there are {left}");
        world.texts(CAROL);
        assert_eq!(world.knows(CAROL, &group).expect("a member").unread, left);
    }
}

//! Erasure: an account's messages have no contents any more, and the account is nowhere, whenever
//! the process crashes meanwhile.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{ChatFault, ChatMessage, Content, ConversationChange, GroupVerb};
use std::sync::Arc;

const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;

/// Ann has exchanged messages with Bob and in two groups, of one of which she is the only member.
fn world(seed: u64, shards: u16) -> World {
    let mut world = World::new(seed, shards);
    for at in [ANN, BOB, CAROL] {
        world.connect(at);
        world.rest();
    }
    world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
    world.orders(ANN, GroupVerb::Create, None, &[]).expect("made");
    for group in world.groups() {
        world.says_to(ANN, &group, "a secret in a group").expect("sent");
    }
    for n in 0..70 {
        world.says(ANN, 1, &format!("secret {n}")).expect("sent");
    }
    world.says(BOB, 0, "what bob said").expect("sent");
    world
}

/// Checks that Bob has no contents of Ann's messages, that she is in no group, and that her next
/// login makes a new account.
fn is_gone(world: &mut World) {
    for at in [BOB, CAROL] {
        if !world.is_here(at) {
            world.connect(at);
            world.rest();
        }
        world.forgets(at);
        let texts = world.texts(at);
        assert!(texts.iter().all(|text| !text.contains("secret")), "{texts:?}");
    }
    let mine = world.texts(BOB);
    assert!(mine.contains(&"what bob said".to_owned()), "what others said stays");
    let kinds = world.kinds(BOB, &person(0));
    assert_eq!(kinds.iter().filter(|kind| **kind == Content::RECALLED).count(), 71, "{kinds:?}");
    let left = world.groups().into_iter().map(|group| world.readers(CAROL, &group, (1, 0, 5)));
    let mut left: Vec<_> = left.map(|told| told.map(|page| page.total)).collect();
    left.sort_by_key(|told| told.is_ok());
    assert_eq!(left, [Err(ChatFault::NotMember), Ok(1)], "one is gone, bob is in the other");
    world.connect(ANN);
    world.rest();
    assert!(world.is_here(ANN), "somebody else has the name");
    world.forgets(ANN);
    assert!(world.texts(ANN).is_empty());
}

#[test]
fn an_account_is_erased_and_what_it_said_with_it() {
    for shards in 1..=4 {
        let mut world = world(5, shards);
        let status = world.erases(0).expect("it is begun");
        assert!(!world.is_here(ANN), "her sessions have ended");
        assert_eq!(status.step, "messages");
        world.connect(ANN);
        world.rest();
        assert!(!world.is_here(ANN), "nobody comes in by the name");
        world.goes_on(6_000, false);
        world.rest();
        assert_eq!(world.erases(0), None, "nothing is left of it");
        is_gone(&mut world);
    }
}

#[test]
fn an_erasure_goes_on_over_kills() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut world = world(seed, 1 + (seed % 3) as u16);
        assert!(world.erases(0).is_some());
        world.goes_on(3_000, true);
        world.goes_on(6_000, false);
        world.rest();
        assert_eq!(world.erases(0), None, "nothing is left of it");
        is_gone(&mut world);
    }
}

#[test]
fn what_was_said_in_a_group_that_is_dissolved_is_called_back_too() {
    for shards in 1..=3 {
        let mut world = World::new(8, shards);
        for at in [ANN, BOB] {
            world.connect(at);
            world.rest();
        }
        world.orders(BOB, GroupVerb::Create, None, &[0]).expect("made");
        let group = world.groups()[0].clone();
        world.says_to(ANN, &group, "a secret in a group").expect("sent");
        assert!(world.texts(BOB).contains(&"a secret in a group".to_owned()));
        world.orders(BOB, GroupVerb::Dissolve, Some(&group), &[]).expect("an owner may");
        assert!(world.erases(0).is_some());
        world.goes_on(6_000, false);
        world.rest();
        assert_eq!(world.erases(0), None, "nothing is left of it");
        world.forgets(BOB);
        world.dies();
        world.connect(BOB);
        world.rest();
        let texts = world.texts(BOB);
        assert!(texts.iter().all(|text| !text.contains("secret")), "{texts:?}");
    }
}

#[test]
fn of_an_erased_account_nothing_is_unread_and_what_was_said_with_it_is_opened() {
    for shards in 1..=4 {
        let (mut world, ann) = (world(5, shards), person(0));
        world.pass_ms(6_000);
        world.texts(BOB);
        let counts =
            |it: &Arc<ChatMessage>| it.content.counts && it.from == ann && it.to == person(1);
        let count = world.has(BOB).iter().filter(|it| counts(it)).count();
        let knows = world.knows(BOB, &ann).expect("a conversation");
        assert!(count > 50 && usize::from(knows.unread) == count, "{knows:?}, {count} count");
        assert!(world.erases(0).is_some());
        world.goes_on(6_000, false);
        world.rest();
        assert_eq!(world.erases(0), None, "nothing is left of it");
        world.texts(BOB);
        let knows = world.knows(BOB, &ann).expect("the conversation is his, too");
        assert_eq!(knows.unread, 0);
        let read = world.history(BOB, &ann, false);
        assert!(read.len() > 1 && read.iter().all(|it| it.content.kind == Content::RECALLED));
        assert_eq!(world.has_read(BOB, &ann, knows.last_seq), Ok(knows.last_seq));
        assert_eq!(world.keeps(BOB, &ann, ConversationChange::Hide(true)), Ok(()));
        assert!(world.knows(BOB, &ann).expect("it is there").hidden);
        assert_eq!(world.says(BOB, 0, "hello"), Err(ChatFault::UnknownAccount));
        let nobody = AccountAddress::parse("nobody", "a.example").expect("right");
        let hide = ConversationChange::Hide(true);
        assert_eq!(world.keeps(BOB, &nobody, hide), Err(ChatFault::UnknownAccount));
    }
}

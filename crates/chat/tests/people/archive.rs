//! Archives, step by step: the same ids in both orders, bounds, recalled messages, unknown ids.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{ArchiveId, ArchivePage, ArchiveRange, ChatFault, ChatMessage, Content};
use std::sync::Arc;

/// The first devices of three people.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;

/// Ann has exchanged messages with Bob and with Carol in turn, ten each, one per second.
fn world(shards: u16) -> World {
    let mut world = World::new(3, shards);
    for at in [ANN, BOB, CAROL] {
        world.connect(at);
        world.rest();
    }
    for n in 0..10 {
        world.says(ANN, 1, &format!("to bob {n}")).expect("sent");
        world.pass_ms(1_000);
        world.says(CAROL, 0, &format!("of carol {n}")).expect("sent");
        world.pass_ms(1_000);
    }
    world
}

fn texts(messages: &[Arc<ChatMessage>]) -> Vec<&str> {
    messages.iter().map(|message| &*message.content.text).collect()
}

fn first(count: u16) -> ArchiveRange {
    ArchiveRange::whole(false, count)
}

fn page(world: &mut World, range: ArchiveRange) -> ArchivePage {
    world.archive(ANN, range).expect("it is read")
}

#[test]
fn one_id_leads_on_in_both_orders() {
    for shards in 1..=4 {
        let (mut world, bob) = (world(shards), person(1));
        let all = world.whole_archive(ANN, None, false);
        assert_eq!(all.len(), 20);
        assert_eq!(texts(&all[..3]), ["to bob 0", "of carol 0", "to bob 1"]);
        let with_bob = world.whole_archive(ANN, Some(&bob), true);
        assert_eq!(texts(&with_bob[8..]), ["to bob 8", "to bob 9"]);
        let after = vec![ArchiveId::of(&with_bob[8])];
        let range = ArchiveRange { after, ..first(5) };
        assert_eq!(
            texts(&page(&mut world, range).messages),
            ["of carol 8", "to bob 9", "of carol 9"]
        );
        let before = vec![ArchiveId::of(&all[4])];
        let with = Some(bob.into());
        let range = ArchiveRange { with, before, ..ArchiveRange::whole(true, 1) };
        let page = page(&mut world, range);
        assert_eq!(texts(&page.messages), ["to bob 1"]);
        assert_eq!(page.goes_on, Some(ArchiveId::of(&all[2])));
        world.heal();
        world.check();
    }
}

#[test]
fn the_other_s_archive_has_the_same_ids_and_nothing_of_third_ones() {
    let mut world = world(3);
    let all = world.whole_archive(BOB, None, false);
    let with_bob = world.whole_archive(ANN, Some(&person(1)), false);
    assert_eq!(all, with_bob);
    let with_carol = world.whole_archive(BOB, Some(&person(2)), false);
    assert!(with_carol.is_empty());
}

#[test]
fn times_are_searched_for_in_either_order() {
    for shards in 1..=3 {
        let mut world = world(shards);
        let all = world.whole_archive(ANN, None, false);
        let since_ms = all[13].at_ms;
        let until_ms = all[16].at_ms;
        for with in [None, Some(person(2))] {
            let is_with =
                |it: &&Arc<ChatMessage>| with.as_ref().is_none_or(|with| it.from == *with);
            let expected: Vec<_> = all[13..=16].iter().filter(is_with).cloned().collect();
            for backwards in [false, true] {
                let with = with.clone().map(Into::into);
                let range = ArchiveRange { with, since_ms, until_ms, backwards, ..first(5) };
                let page = page(&mut world, range);
                assert_eq!((texts(&page.messages), page.goes_on), (texts(&expected), None));
            }
            let with = with.clone().map(Into::into);
            let range = ArchiveRange { with, since_ms: all[19].at_ms + 1, ..first(5) };
            assert!(page(&mut world, range).messages.is_empty());
        }
    }
}

#[test]
fn what_was_called_back_keeps_its_id_and_nothing_else() {
    let (mut world, bob) = (world(2), person(1));
    let with_bob = world.whole_archive(ANN, Some(&bob), false);
    assert_eq!(world.recalls(ANN, &bob, 5), Ok(()));
    for with in [None, Some(&bob)] {
        let all = world.whole_archive(ANN, with, false);
        let found = all.iter().find(|it| ArchiveId::of(it) == ArchiveId::of(&with_bob[4]));
        let found = found.expect("its place is there");
        assert_eq!((found.content.kind, &*found.content.text), (Content::RECALLED, ""));
        let with = with.cloned().map(Into::into);
        let range = ArchiveRange { with, after: vec![ArchiveId::of(found)], ..first(1) };
        assert!(world.archive(ANN, range).is_ok(), "and leads on");
    }
    let named = vec![ArchiveId::of(&with_bob[4]), ArchiveId::of(&with_bob[2])];
    for with in [None, Some(bob.clone().into())] {
        let range = ArchiveRange { with, named: named.clone(), ..first(1) };
        assert_eq!(texts(&page(&mut world, range).messages), ["to bob 2", ""]);
    }
}

#[test]
fn what_is_not_there_is_unknown_and_with_nobody_there_is_nothing() {
    let mut world = world(2);
    let all = world.whole_archive(ANN, None, false);
    let of_carol = ArchiveId::of(&all[1]);
    let wrong = ArchiveId { number: of_carol.number + 1, ..of_carol };
    let nobody = AccountAddress::parse("nobody", "a.example").expect("right");
    let group = AccountAddress::of_group(1, "a.example").expect("right");
    for (with, id) in [
        (None, wrong),
        (Some(person(2)), wrong),
        (Some(person(1)), of_carol), // the id is of another conversation
        (Some(nobody.clone()), of_carol),
    ] {
        for range in [
            ArchiveRange { after: vec![id], ..first(5) },
            ArchiveRange { before: vec![id], ..first(5) },
            ArchiveRange { named: vec![id], ..first(5) },
        ] {
            let range = ArchiveRange { with: with.clone().map(Into::into), ..range };
            assert_eq!(
                world.archive_fault(ANN, range.clone()),
                ChatFault::UnknownMessage,
                "{range:?}"
            );
        }
    }
    let of_group = ArchiveRange { with: Some(group.into()), ..first(5) };
    assert_eq!(world.archive_fault(ANN, of_group), ChatFault::NotMember);
    for with in [nobody, person(0)] {
        assert!(world.whole_archive(ANN, Some(&with), false).is_empty());
    }
    let too_many = ArchiveRange { after: vec![of_carol; 3], ..first(5) };
    assert_eq!(world.archive_fault(ANN, too_many), ChatFault::Invalid);
    let none = ArchiveRange { count: 0, ..first(1) };
    assert_eq!(world.archive_fault(ANN, none), ChatFault::Invalid);
}

#[test]
fn it_is_the_same_after_a_death() {
    let mut world = world(3);
    let all = world.whole_archive(ANN, None, false);
    world.dies();
    world.connect(ANN);
    world.rest();
    assert_eq!(world.whole_archive(ANN, None, true), all);
    let after = vec![ArchiveId::of(&all[18])];
    let range = ArchiveRange { after, ..first(5) };
    assert_eq!(texts(&page(&mut world, range).messages), ["of carol 9"]);
}

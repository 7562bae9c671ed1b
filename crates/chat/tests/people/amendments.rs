//! Edits of messages and reactions to them, step by step.

use crate::world::{World, person};
use model::chat::{ChatFault, ChatMessage, Content, GroupVerb};
use std::sync::Arc;

const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;

fn world(shards: u16) -> World {
    let mut world = World::new(9, shards);
    for at in [ANN, BOB, CAROL] {
        world.connect(at);
        world.rest();
    }
    world
}

/// Ann has sent this message to Bob.
fn said(world: &mut World, text: &str) -> Arc<ChatMessage> {
    world.says(ANN, 1, text).expect("sent");
    world.texts(BOB);
    world.has(BOB).into_iter().find(|it| *it.content.text == *text).expect("he has it")
}

/// Kinds and texts of a conversation, as a device reads it.
fn reads(world: &mut World, at: usize, with: u32) -> Vec<(u16, String)> {
    let read = world.history(at, &person(with), false);
    read.iter().map(|it| (it.content.kind, it.content.text.to_string())).collect()
}

#[test]
fn an_edit_is_told_and_whoever_reads_later_finds_the_new_text_alone() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        let first = said(&mut world, "first");
        assert_eq!(world.edits(ANN, &bob, (&first, "second")), Ok(()));
        world.texts(BOB);
        let told = world.has(BOB).into_iter().find(|it| it.content.kind == Content::EDIT);
        let told = told.expect("he is told");
        assert_eq!((&*told.content.text, told.content.target().expect("of it").seq), ("second", 1));
        let both = [(Content::TEXT, "second".into()), (Content::EDIT, "second".into())];
        assert_eq!(reads(&mut world, BOB, 0), both);
        assert!(world.history(BOB, &ann, false)[0].amended.as_ref().expect("edited").edited_ms > 0);
        assert_eq!(world.edits(ANN, &bob, (&first, "third")), Ok(()));
        assert_eq!(
            reads(&mut world, ANN, 1)[..2].to_vec(),
            [(Content::TEXT, "third".into()), (Content::EDIT, "third".into())]
        );
        let knows = world.knows(BOB, &ann).expect("a conversation");
        let last = knows.last.expect("the last that was said");
        assert_eq!((knows.said_seq, knows.last_seq, knows.unread), (1, 3, 1));
        assert_eq!(&*last.text, "third", "the list shows it");
        world.dies();
        world.heal();
        world.check();
    }
}

#[test]
fn nobody_edits_what_is_not_its_own_not_there_too_old_or_no_text() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        let first = said(&mut world, "first");
        assert_eq!(world.edits(BOB, &ann, (&first, "mine")), Err(ChatFault::Forbidden));
        let nowhere = ChatMessage { seq: 7, ..(*first).clone() };
        assert_eq!(world.edits(ANN, &bob, (&nowhere, "x")), Err(ChatFault::UnknownMessage));
        let other = ChatMessage { id: 7, ..(*first).clone() };
        assert_eq!(world.edits(ANN, &bob, (&other, "x")), Err(ChatFault::UnknownMessage));
        assert_eq!(world.edits(ANN, &bob, (&first, "")), Err(ChatFault::Invalid));
        let long = "x".repeat(300);
        assert_eq!(world.edits(ANN, &bob, (&first, &long)), Err(ChatFault::TooLarge));
        assert_eq!(world.edits(ANN, &bob, (&first, "second")), Ok(()));
        world.texts(BOB);
        let edit = world.has(BOB).into_iter().find(|it| it.content.kind == Content::EDIT);
        let edit = edit.expect("he has it");
        assert_eq!(world.edits(ANN, &bob, (&edit, "x")), Err(ChatFault::Forbidden));
        assert_eq!(world.recalls(ANN, &bob, 2), Err(ChatFault::Forbidden), "an edit stays");
        world.pass_ms(3_600_001);
        assert_eq!(world.edits(ANN, &bob, (&first, "third")), Err(ChatFault::TooLate));
        assert_eq!(reads(&mut world, BOB, 0)[0].1, "second");
    }
}

#[test]
fn what_was_called_back_is_edited_no_more_and_its_edits_say_nothing() {
    for shards in 1..=4 {
        let (mut world, bob) = (world(shards), person(1));
        let first = said(&mut world, "a secret");
        assert_eq!(world.edits(ANN, &bob, (&first, "another secret")), Ok(()));
        assert_eq!(world.recalls(ANN, &bob, 1), Ok(()));
        assert_eq!(world.edits(ANN, &bob, (&first, "x")), Err(ChatFault::UnknownMessage));
        assert_eq!(world.reacts(BOB, &person(0), (&first, "👍")), Err(ChatFault::UnknownMessage));
        let read = reads(&mut world, BOB, 0);
        assert!(read.iter().all(|(_, text)| !text.contains("secret")), "{read:?}");
        assert_eq!(
            read[..2].to_vec(),
            [(Content::RECALLED, "".into()), (Content::EDIT, "".into())]
        );
    }
}

#[test]
fn the_last_reaction_of_each_counts_and_no_more_than_a_few_emoji() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        let first = said(&mut world, "first");
        assert_eq!(world.reacts(BOB, &ann, (&first, "👍 🎉 👍")), Ok(()));
        assert_eq!(world.reacts(ANN, &bob, (&first, "❤️")), Ok(()));
        let reactions = |world: &mut World| {
            let read = world.history(ANN, &bob, false);
            let amended = read[0].amended.clone().unwrap_or_default();
            let of = |it: &model::chat::Reaction| (it.by.name().to_owned(), it.emoji.to_string());
            amended.reactions.iter().map(of).collect::<Vec<_>>()
        };
        let all = [("p1".into(), "👍 🎉".into()), ("p0".into(), "❤️".into())];
        assert_eq!(reactions(&mut world), all);
        assert_eq!(world.reacts(BOB, &ann, (&first, "")), Ok(()), "taken back");
        assert_eq!(reactions(&mut world), all[1..]);
        let many = "1 2 3 4 5 6 7";
        assert_eq!(world.reacts(BOB, &ann, (&first, many)), Err(ChatFault::Invalid));
        let knows = world.knows(ANN, &bob).expect("a conversation");
        assert_eq!((knows.unread, knows.said_seq), (0, 1), "they count for nothing");
        world.dies();
        world.heal();
        world.check();
    }
}

#[test]
fn members_react_to_what_they_may_read_and_those_who_may_not_speak_do_not() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
        let group = world.groups()[0].clone();
        world.says_to(ANN, &group, "before").expect("sent");
        world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("added");
        world.says_to(ANN, &group, "behind").expect("sent");
        world.texts(BOB);
        let has = |text: &str| {
            world.has(BOB).into_iter().find(|it| *it.content.text == *text).expect("he has it")
        };
        let (before, behind) = (has("before"), has("behind"));
        assert_eq!(world.reacts(CAROL, &group, (&before, "👍")), Err(ChatFault::UnknownMessage));
        assert_eq!(world.reacts(CAROL, &group, (&behind, "👍")), Ok(()));
        world.orders(ANN, GroupVerb::Mute, Some(&group), &[1]).expect("muted");
        assert_eq!(world.reacts(BOB, &group, (&behind, "👍")), Err(ChatFault::Muted));
        world.orders(ANN, GroupVerb::Remove, Some(&group), &[2]).expect("removed");
        assert_eq!(world.reacts(CAROL, &group, (&behind, "")), Err(ChatFault::NotMember));
        world.texts(CAROL);
        assert_eq!(world.list_groups(CAROL), [], "a group that one was removed from is none");
        let knows = world.knows(CAROL, &group).expect("it is known");
        assert!(knows.left && !world.knows(BOB, &group).expect("it is known").left);
    }
}

/// Begins an amendment, without waiting for the answer.
type Begins = fn(&mut World, &ChatMessage);

#[test]
fn an_amendment_that_a_kill_breaks_off_is_done_and_told_or_neither() {
    let edit: Begins = |world, said| world.begins_to_edit(ANN, said, "second");
    let reaction: Begins = |world, said| world.begins_to_react(ANN, said, "👍");
    let recall: Begins = |world, said| world.calls_this_back(ANN, said.to.clone(), said.seq);
    let kinds = [(Content::EDIT, edit), (Content::REACTION, reaction), (Content::RECALL, recall)];
    for (kind, begins) in kinds {
        let mut done = [0, 0];
        for (shards, calls) in (1..=3).flat_map(|shards| (0..8).map(move |n| (shards, n))) {
            println!("kind {kind}, {shards} shards, a kill after {calls} calls to the logs");
            let mut world = world(shards);
            let first = said(&mut world, "first");
            begins(&mut world, &first);
            world.dies_after(calls);
            world.texts(BOB);
            let is_told = world.has(BOB).iter().any(|it| it.content.kind == kind);
            let read = world.history(BOB, &person(0), false);
            let is_done = *read[0] != *first;
            assert_eq!(is_done, is_told, "{:?}", read[0]);
            let unread = world.knows(BOB, &person(0)).expect("a conversation").unread;
            assert_eq!(unread, u16::from(kind != Content::RECALL || !is_done));
            done[usize::from(is_done)] += 1;
            world.check();
        }
        assert!(done[0] > 0 && done[1] > 0, "{done:?} were done before the kill, and not");
    }
}

#[test]
fn an_edit_that_is_distributed_after_a_start_is_told_with_its_text() {
    for shards in 1..=3 {
        for calls in 0..8 {
            let mut world = world(shards);
            let first = said(&mut world, "first");
            world.texts(BOB);
            world.begins_to_edit(ANN, &first, "second");
            world.dies_after(calls);
            let told = world.has(BOB).into_iter().find(|it| it.content.kind == Content::EDIT);
            assert!(told.is_none_or(|it| *it.content.text == *"second"), "after {calls} calls");
        }
    }
}

//! Quotes and mentions, step by step.

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

/// The message of a device with a text that ends so.
fn with(world: &mut World, at: usize, end: &str) -> Arc<ChatMessage> {
    world.texts(at);
    world.has(at).into_iter().find(|it| it.content.text.ends_with(end)).expect("it has that")
}

#[test]
fn a_quote_says_which_message_and_by_whom_and_outlives_a_death() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        world.says(ANN, 1, "first").expect("sent");
        let first = with(&mut world, BOB, "first");
        assert_eq!(world.quotes(BOB, &ann, (&first, "indeed")), Ok(()));
        let live = with(&mut world, ANN, "indeed").content.quote.clone().expect("a quote");
        assert_eq!((live.target.seq, live.target.id, live.from), (1, first.id, Some(ann.clone())));
        assert_eq!(&*live.text, "first", "who is there has the beginning of it");
        world.dies();
        world.heal();
        let read = world.history(BOB, &ann, false);
        let quote = read[1].content.quote.clone().expect("a quote");
        assert_eq!((quote.target.id, &*quote.text), (first.id, ""), "its text stands nowhere else");
        assert_eq!(*quote.target.name, *first.client_id.text());
        assert_eq!(world.edits(BOB, &ann, (&read[1], "not so")), Ok(()));
        let read = world.history(ANN, &bob, false);
        assert_eq!((&*read[1].content.text, read[1].content.quote.is_some()), ("not so", true));
        world.heal();
        world.check();
    }
}

#[test]
fn what_is_not_there_or_not_to_be_read_is_quoted_by_nobody() {
    let (mut world, ann, bob) = (world(2), person(0), person(1));
    world.says(ANN, 1, "first").expect("sent");
    let first = with(&mut world, BOB, "first");
    for wrong in [(7, first.id), (1, first.id + 1)] {
        let wrong = ChatMessage { seq: wrong.0, id: wrong.1, ..(*first).clone() };
        let answer = world.quotes(BOB, &ann, (&wrong, "that"));
        assert_eq!(answer, Err(ChatFault::UnknownMessage));
    }
    assert_eq!(
        world.quotes(BOB, &ann, (&ChatMessage { seq: 0, ..(*first).clone() }, "that")),
        Err(ChatFault::Invalid)
    );
    assert_eq!(world.edits(ANN, &bob, (&first, "second")), Ok(()));
    world.texts(BOB);
    let edit = world.has(BOB).into_iter().find(|it| it.content.kind == Content::EDIT);
    let edit = edit.expect("he is told");
    assert_eq!(world.quotes(BOB, &ann, (&edit, "that")), Err(ChatFault::UnknownMessage));
    world.heal();
    world.check();
}

#[test]
fn what_was_called_back_may_be_quoted_and_says_nothing_there() {
    let (mut world, ann, bob) = (world(3), person(0), person(1));
    world.says(ANN, 1, "a secret").expect("sent");
    let first = with(&mut world, BOB, "a secret");
    world.recalls(ANN, &bob, 1).expect("called back");
    assert_eq!(world.quotes(BOB, &ann, (&first, "really?")), Ok(()));
    let quote = with(&mut world, ANN, "really?").content.quote.clone().expect("a quote");
    assert_eq!((quote.target.id, &*quote.text), (first.id, ""));
    world.heal();
    world.check();
}

#[test]
fn members_quote_what_they_may_read_and_many_do_so_at_once() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
        let group = world.groups()[0].clone();
        world.says_to(ANN, &group, "before").expect("sent");
        world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("added");
        world.says_to(ANN, &group, "behind").expect("sent");
        let (before, behind) = (with(&mut world, BOB, "before"), with(&mut world, BOB, "behind"));
        let answer = world.quotes(CAROL, &group, (&before, "that"));
        assert_eq!(answer, Err(ChatFault::UnknownMessage));
        world.says_at_once(&[BOB, CAROL, ANN], &group, &format!("quote:4:{}:yes", behind.id));
        for at in [ANN, BOB, CAROL] {
            let read = world.history(at, &group, true);
            let quotes = read.iter().filter(|it| it.content.quote.is_some());
            assert_eq!(quotes.count(), 3, "nobody was in another one's way");
        }
        world.heal();
        world.check();
    }
}

#[test]
fn whom_a_message_mentions_has_it_counted_apart_until_it_is_read() {
    for shards in 1..=4 {
        let (mut world, bob) = (world(shards), person(1));
        world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
        let group = world.groups()[0].clone();
        // The last figure of a text chooses the account that it mentions.
        for text in ["nobody 0", "bob 1", "all 5", "bob 4"] {
            world.says_to(ANN, &group, text).expect("sent");
        }
        let counts = |world: &mut World, at| {
            let knows = world.knows(at, &group).expect("a conversation");
            (knows.unread, knows.mentions)
        };
        assert_eq!(counts(&mut world, BOB), (4, 3));
        assert_eq!(counts(&mut world, CAROL), (4, 1));
        assert_eq!(counts(&mut world, ANN).1, 0, "nobody mentions itself");
        world.texts(BOB);
        world.dies();
        world.heal();
        assert_eq!(counts(&mut world, BOB), (4, 3));
        world.recalls(ANN, &group, 3).expect("called back");
        assert_eq!(counts(&mut world, BOB), (3, 2));
        world.texts(BOB);
        world.has_read(BOB, &group, 4).expect("read");
        assert_eq!(counts(&mut world, BOB), (1, 1));
        world.says(ANN, 1, "to him 1").expect("sent");
        assert_eq!(world.knows(BOB, &person(0)).expect("a conversation").mentions, 1);
        assert_eq!(world.knows(ANN, &bob).expect("a conversation").mentions, 0);
        world.heal();
        world.check();
    }
}

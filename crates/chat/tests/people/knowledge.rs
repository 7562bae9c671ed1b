//! Accounts' knowledge of their conversations, step by step: read positions, unread counts, lists,
//! settings; and recalls.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{ChatFault, Content, ConversationChange, GroupVerb, MuteLevel};
use model::timeline::Seq;

/// The first devices of four people, and the second one of the second.
const ANN: usize = 0;
const BOB: usize = 2;
const BOBS_OTHER: usize = 3;
const CAROL: usize = 4;
const DAVE: usize = 6;

fn world(shards: u16) -> World {
    let mut world = World::new(3, shards);
    for at in [ANN, BOB, BOBS_OTHER, CAROL, DAVE] {
        world.connect(at);
        world.rest();
        assert!(world.is_here(at));
    }
    world
}

/// Ann has sent this many messages to Bob.
fn said(world: &mut World, count: u32) {
    for n in 0..count {
        world.says(ANN, 1, &format!("text {n} of ann")).expect("sent");
    }
}

#[test]
fn what_others_said_is_unread_until_any_device_has_read_it() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        said(&mut world, 5);
        world.says(BOB, 0, "one of bob's own").expect("sent");
        let knows = world.knows(BOB, &ann).expect("a conversation");
        assert_eq!((knows.unread, knows.read, knows.last_seq), (5, 0, 6), "own sends move nothing");
        assert_eq!(knows.last.expect("the last one").text, "one of bob's own".into());
        assert_eq!(world.has_read(BOB, &ann, 3), Ok(3));
        for at in [BOB, BOBS_OTHER] {
            let knows = world.knows(at, &ann).expect("a conversation");
            assert_eq!((knows.unread, knows.read), (2, 3));
        }
        assert_eq!(world.has_read(BOBS_OTHER, &ann, 2), Ok(3), "it never falls");
        assert_eq!(world.has_read(BOBS_OTHER, &ann, 6), Ok(6));
        assert_eq!(world.knows(BOB, &ann).expect("a conversation").unread, 0);
        let knows = world.knows(ANN, &bob).expect("a conversation");
        assert_eq!((knows.peer_read, knows.read, knows.unread), (6, 0, 1), "she is told");
        world.heal();
        world.check();
    }
}

#[test]
fn groups_are_listed_by_themselves_and_though_they_are_hidden() {
    for shards in 1..=4 {
        let mut world = world(shards);
        for _ in 0..2 {
            world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
        }
        said(&mut world, 1);
        let groups = world.groups();
        let mut listed = world.list_groups(BOB);
        listed.sort();
        assert_eq!((listed.len(), &listed), (2, &groups));
        world.keeps(BOB, &groups[0], ConversationChange::Hide(true)).expect("it is his");
        assert_eq!(world.list_groups(BOB).len(), 2);
        assert!(world.list_groups(CAROL).is_empty());
        world.heal();
        world.check();
    }
}

#[test]
fn a_cursor_goes_no_further_than_the_inbox_and_only_where_there_is_something() {
    for shards in 1..=4 {
        let (mut world, ann) = (world(shards), person(0));
        said(&mut world, 2);
        assert_eq!(world.has_read(BOB, &ann, 3), Err(ChatFault::Invalid));
        assert_eq!(world.has_read(BOB, &ann, Seq::MAX), Err(ChatFault::Invalid));
        assert_eq!(world.has_read(BOB, &person(2), 1), Err(ChatFault::Invalid), "nothing was said");
        let nobody = AccountAddress::parse("nobody", "a.example").expect("right");
        assert_eq!(world.has_read(BOB, &nobody, 1), Err(ChatFault::UnknownAccount));
        let group = AccountAddress::of_group(1, "a.example").expect("right");
        assert_eq!(world.has_read(BOB, &group, 1), Err(ChatFault::NotMember));
        assert_eq!(
            world.keeps(BOB, &group, ConversationChange::Pin(true)),
            Err(ChatFault::NotMember)
        );
        assert_eq!(world.knows(BOB, &group), None);
        let long = ConversationChange::Draft("x".repeat(1_025).into());
        assert_eq!(world.keeps(BOB, &ann, long), Err(ChatFault::TooLarge));
        for count in [0, 257] {
            assert_eq!(world.list(BOB, Seq::MAX, count), Err(ChatFault::Invalid));
        }
        assert_eq!(world.knows(BOB, &ann).expect("a conversation").read, 0);
        world.heal();
        world.check();
    }
}

#[test]
fn a_cursor_right_behind_ones_own_message_waits_until_the_inbox_has_that() {
    for shards in 1..=4 {
        let (mut world, bob) = (world(shards), person(1));
        said(&mut world, 1);
        // Ann's knowledge is in memory, so her position is judged before her inbox has the message.
        assert_eq!(world.knows(ANN, &bob).expect("a conversation").last_seq, 1);
        assert_eq!(world.says_and_has_read(ANN, (&bob, 2)), Ok(2));
        assert_eq!(
            world.says_and_has_read(ANN, (&bob, 4)),
            Err(ChatFault::Invalid),
            "nobody says it"
        );
        world.heal();
        world.check();
    }
}

#[test]
fn a_list_has_the_newest_first_in_pages_and_what_is_kept_how() {
    for shards in 1..=4 {
        let mut world = world(shards);
        for who in [0, 2, 3] {
            world.says(BOB, who, &format!("to p{who}")).expect("sent");
        }
        let names = |world: &mut World, before, count| {
            let page = world.list(BOB, before, count).expect("a list");
            let last = page.conversations.last().map_or(0, |row| row.place);
            let names = page.conversations.into_iter().map(|row| row.with.name().to_string());
            (names.collect::<Vec<_>>(), last, page.more)
        };
        let (first, place, more) = names(&mut world, Seq::MAX, 2);
        assert_eq!((first, more), (vec!["p3".to_string(), "p2".to_string()], true));
        assert_eq!(names(&mut world, place, 2).0, ["p0"]);
        for change in [
            ConversationChange::Pin(true),
            ConversationChange::Mute(MuteLevel::ButMentions),
            ConversationChange::Draft("hell".into()),
            ConversationChange::Hide(true),
        ] {
            world.keeps(BOB, &person(3), change).expect("it may be");
        }
        assert_eq!(names(&mut world, Seq::MAX, 5).0, ["p2", "p0"], "it is hidden");
        let row = world.knows(BOBS_OTHER, &person(3)).expect("it is there");
        assert_eq!((row.pinned, row.muted, row.hidden, &*row.draft), (true, true, true, "hell"));
        world.says(BOBS_OTHER, 3, "again").expect("sent");
        assert_eq!(names(&mut world, Seq::MAX, 5).0, ["p3", "p2", "p0"], "something was said");
        let draft = ConversationChange::Draft("first words".into());
        world.keeps(BOB, &person(1), draft).expect("one may begin to write to anybody");
        assert_eq!(names(&mut world, Seq::MAX, 1).0, ["p1"]);
        world.heal();
        world.check();
    }
}

#[test]
fn what_is_known_outlives_the_process() {
    for shards in 1..=4 {
        let (mut world, ann) = (world(shards), person(0));
        said(&mut world, 40);
        assert_eq!(world.has_read(BOB, &ann, 25), Ok(25));
        world
            .keeps(BOB, &ann, ConversationChange::Mute(MuteLevel::ButMentions))
            .expect("it may be");
        let before = world.knows(BOB, &ann);
        world.dies();
        world.connect(BOB);
        world.rest();
        assert_eq!(world.knows(BOB, &ann), before);
        world.heal();
        world.check();
    }
}

#[test]
fn what_is_called_back_says_nothing_any_more_and_is_not_unread() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        said(&mut world, 3);
        assert_eq!(world.knows(BOB, &ann).expect("a conversation").unread, 3);
        world.recalls(ANN, &bob, 2).expect("she said it");
        let knows = world.knows(BOB, &ann).expect("a conversation");
        assert_eq!((knows.unread, knows.last_seq), (2, 4));
        assert_eq!(knows.last.expect("what says so").kind, Content::RECALL);
        world.forgets(BOB);
        let texts = ["text 0 of ann", "", "text 2 of ann", ""];
        assert_eq!(world.texts(BOB), texts, "pulled");
        for backwards in [false, true] {
            let mut read = world.history(BOB, &ann, backwards);
            if backwards {
                read.reverse();
            }
            let kinds: Vec<_> = read.iter().map(|it| (it.seq, it.content.kind)).collect();
            assert_eq!(kinds, [(1, 1), (2, Content::RECALLED), (3, 1), (4, Content::RECALL)]);
            assert!(read[1].content.text.is_empty() && read[1].at_ms > 0, "time stays");
        }
        world.recalls(ANN, &bob, 2).expect("asked again, it is there once");
        assert_eq!(world.knows(BOB, &ann).expect("a conversation").last_seq, 4);
        world.heal();
        world.check();
    }
}

#[test]
fn nobody_calls_back_what_is_anothers_or_old_or_not_there() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        said(&mut world, 2);
        assert_eq!(world.recalls(BOB, &ann, 1), Err(ChatFault::Forbidden));
        assert_eq!(world.recalls(ANN, &bob, 3), Err(ChatFault::UnknownMessage));
        assert_eq!(world.recalls(ANN, &bob, Seq::MAX), Err(ChatFault::UnknownMessage));
        assert_eq!(world.recalls(ANN, &bob, 0), Err(ChatFault::Invalid));
        assert_eq!(world.recalls(CAROL, &bob, 1), Err(ChatFault::UnknownMessage), "not hers");
        world.recalls(ANN, &bob, 1).expect("she said it");
        assert_eq!(world.recalls(BOB, &ann, 1), Err(ChatFault::Forbidden), "nor once it is");
        assert_eq!(world.recalls(ANN, &bob, 3), Err(ChatFault::Forbidden), "what says so stays");
        world.pass_ms(3_601_000);
        assert_eq!(world.recalls(ANN, &bob, 2), Err(ChatFault::TooLate));
        assert_eq!(world.recalls(ANN, &bob, 1), Err(ChatFault::Unchanged));
        world.heal();
        world.check();
    }
}

#[test]
fn in_a_group_members_call_their_own_back_and_whoever_has_left_does_not() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
        let group = world.groups().first().cloned().expect("everybody has heard of it");
        world.says_to(BOB, &group, "a secret").expect("a member");
        assert_eq!(world.recalls(CAROL, &group, 2), Err(ChatFault::Forbidden));
        assert_eq!(world.recalls(BOB, &group, 1), Err(ChatFault::Forbidden), "what happened there");
        assert_eq!(world.knows(CAROL, &group).expect("a member").unread, 1);
        world.recalls(BOB, &group, 2).expect("he said it");
        assert_eq!(world.knows(CAROL, &group).expect("a member").unread, 0);
        world.says_to(BOB, &group, "another").expect("a member");
        world.orders(BOB, GroupVerb::Leave, Some(&group), &[]).expect("a member may");
        assert_eq!(world.recalls(BOB, &group, 4), Err(ChatFault::NotMember));
        world.heal();
        world.check();
    }
}

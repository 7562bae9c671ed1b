//! Occupants of a room: entering without becoming a member, names, roles, and how one leaves.

use crate::world::*;
use chat::words::WordList;
use model::chat::foreign::ForeignWord;
use model::chat::*;
use std::sync::Arc;
use std::time::Duration;

/// Ann's group of Bob, which is open; Carol is no member.
fn open(shards: u16) -> World {
    let mut world = World::new(shards);
    world.orders(CAROL, GroupVerb::Leave, &[]).expect("she is no member");
    world.says(ANN, "before").expect("a member");
    world.orders(ANN, GroupVerb::Unlock, &[]).expect("open");
    world
}

fn enter(world: &mut World, at: usize) -> Vec<String> {
    world.enters(at);
    world.rest();
    assert_eq!(world.devices[at].place, Place::Room);
    world.devices[at].found.clone()
}

#[test]
fn a_visitor_of_an_open_room_is_no_member_and_hears_reads_and_speaks_while_it_is_there() {
    for shards in 1..=3 {
        let mut world = open(shards);
        assert_eq!(world.says(CAROL, "outside"), Err(ChatFault::NotMember));
        assert_eq!(world.reads(CAROL), Err(ChatFault::NotMember));
        assert_eq!(enter(&mut world, BOB), ["bob bob member"]);
        assert_eq!(enter(&mut world, CAROL), ["carol carol visitor", "bob bob member"]);
        assert_eq!(world.hears_of(BOB), ["is carol carol visitor"]);
        world.says(CAROL, "hello").expect("it is open");
        world.says(ANN, "by IM").expect("a member");
        let both = ["said carol: hello", "said ann: by IM"];
        assert_eq!(world.hears_of(CAROL), both, "its own, too, in one order");
        assert_eq!(world.hears_of(BOB), [""; 0], "a member has it in its inbox");
        for at in [ANN, BOB] {
            let texts = world.devices[at].texts.clone();
            assert!(texts.ends_with(&["carol: hello".into(), "ann: by IM".into()]) || at == ANN);
            assert!(world.devices[at].texts.iter().any(|it| it == "carol: hello"), "{at}");
        }
        let since = ["carol: hello", "ann: by IM"];
        assert_eq!(world.reads(CAROL).expect("while it is there"), since, "not what was before");
        world.leaves(CAROL);
        world.rest();
        assert_eq!(world.hears_of(BOB), ["left carol"]);
        assert_eq!(world.says(CAROL, "outside"), Err(ChatFault::NotMember));
        assert_eq!(world.reads(CAROL), Err(ChatFault::NotMember));
        assert_eq!(world.members(ANN), ["ann", "bob"]);
        world.orders(ANN, GroupVerb::Lock, &[]).expect("for members");
        world.enters(CAROL);
        world.rest();
        assert_eq!(world.devices[CAROL].place, Place::Elsewhere);
        assert_eq!(world.devices[CAROL].answer.take(), Some(Err(ChatFault::NotMember)));
    }
}

#[test]
fn a_broken_connection_and_a_session_that_is_replaced_leave_the_room() {
    for shards in 1..=3 {
        let mut world = open(shards);
        for at in [BOB, CAROL] {
            enter(&mut world, at);
        }
        world.breaks(CAROL);
        world.rest();
        assert_eq!(world.hears_of(BOB), ["is carol carol visitor", "left carol"]);
        world.connects(CAROL);
        enter(&mut world, CAROL);
        world.connects(CAROL); // the same device once more
        assert_eq!(world.hears_of(BOB), ["is carol carol visitor", "left carol"]);
        world.restarts();
        assert_eq!(enter(&mut world, BOB), ["bob bob member"], "nobody else came back");
    }
}

#[test]
fn many_who_leave_at_once_are_told_by_few_words_and_a_leave_needs_no_group_in_memory() {
    const DEVICES: usize = 12;
    for shards in 2..=4 {
        // Each group is forgotten when another one is read, if no task waits for it.
        let mut world = World::with(shards, |limits| limits.group_members_known_max = 1);
        enter(&mut world, ANN);
        let mut all = Vec::new();
        for n in 0..DEVICES {
            world.connects_as(BOB, &format!("d{n}"));
            world.enters_as(BOB, &format!("b{n}"));
            world.rest();
            all.push((world.devices[BOB].conn, world.devices[BOB].session));
        }
        assert_eq!(world.hears_of(ANN).len(), DEVICES);
        world.words = 0;
        for (conn, session) in all {
            (world.devices[BOB].conn, world.devices[BOB].session) = (conn, session);
            world.breaks(BOB);
        }
        world.rest();
        assert_eq!(world.hears_of(ANN).len(), DEVICES);
        assert!(world.words <= 2 * DEVICES, "{} words", world.words);
        world.connects(BOB);
        assert_eq!(enter(&mut world, BOB), ["bob bob member", "ann ann owner"]);
    }
}

#[test]
fn names_are_chosen_changed_and_never_anothers() {
    for shards in 1..=3 {
        let mut world = open(shards);
        enter(&mut world, BOB);
        world.enters_as(CAROL, "BOB");
        world.rest();
        assert_eq!(world.devices[CAROL].answer.take(), Some(Err(ChatFault::Conflict)));
        world.enters_as(CAROL, "Ann");
        world.rest();
        let why = "ann is a member, in the room or not";
        assert_eq!(world.devices[CAROL].answer.take(), Some(Err(ChatFault::Conflict)), "{why}");
        for (alike, fault) in
            [("\u{ff41}nn", ChatFault::Conflict), ("an\u{200b}n", ChatFault::Invalid)]
        {
            world.enters_as(CAROL, alike);
            world.rest();
            assert_eq!(world.devices[CAROL].answer.take(), Some(Err(fault)), "{alike:?}");
        }
        world.enters_as(CAROL, "Mad Hatter");
        world.rest();
        assert_eq!(world.hears_of(BOB), ["is Mad Hatter carol visitor"]);
        world.says(CAROL, "tea").expect("it is open");
        assert_eq!(world.hears_of(CAROL), ["said Mad Hatter: tea"]);
        let rename = |nick: &str| OccupancyAsk::Rename(nick.into());
        assert_eq!(world.of_room(CAROL, rename("bob")), Err(ChatFault::Conflict));
        assert_eq!(world.of_room(CAROL, rename("March Hare")), Ok(()));
        assert_eq!(world.hears_of(BOB), ["renamed Mad Hatter: March Hare carol visitor"]);
        world.says(CAROL, "more").expect("it is open");
        let texts = ["Mad Hatter: tea", "March Hare: more"];
        assert_eq!(world.reads(BOB).expect("a member")[1..], texts, "as it was said");
        let find = |nick: &str| OccupancyAsk::Find(nick.into());
        assert_eq!(world.of_room(BOB, find("march hare")), Ok(()));
        assert_eq!(world.devices[BOB].found, ["March Hare carol visitor"]);
        assert_eq!(world.of_room(BOB, find("Mad Hatter")), Err(ChatFault::UnknownAccount));
        let show = OccupantShow::default();
        let enter =
            OccupancyAsk::Enter(Box::new(Entry { nick: "x\0".into(), show, ..Entry::default() }));
        assert_eq!(world.of_room(ANN, enter), Err(ChatFault::Invalid));
    }
}

#[test]
fn the_devices_of_an_occupant_have_its_name_when_one_of_them_changes_it_and_go_with_it() {
    for shards in 1..=3 {
        let mut world = open(shards);
        enter(&mut world, ANN);
        world.enters_as(CAROL, "Hatter");
        world.rest();
        let desk = (world.devices[CAROL].conn, world.devices[CAROL].session);
        world.connects_as(CAROL, "phone");
        world.enters_as(CAROL, "Hatter");
        world.rest();
        assert_eq!(world.of_room(CAROL, OccupancyAsk::Rename("Hare".into())), Ok(()));
        (world.devices[CAROL].conn, world.devices[CAROL].session) = desk;
        world.enters_as(BOB, "Hatter");
        world.rest();
        world.says(CAROL, "tea").expect("it is open");
        assert_eq!(world.reads(ANN).expect("a member").pop().as_deref(), Some("Hare: tea"));
        let kick = role("hare", RoomRole::None);
        assert_eq!(world.of_room(ANN, kick), Ok(()));
        world.orders(CAROL, GroupVerb::Join, &[]).expect("it is open");
        world.says(CAROL, "more").expect("a member");
        let texts = world.reads(ANN).expect("a member");
        assert_eq!(texts.last().map(String::as_str), Some("carol: more"), "out of the room");
    }
}

#[test]
fn devices_of_an_account_that_had_two_names_come_together_under_one() {
    for anew in [false, true] {
        let mut world = open(2);
        enter(&mut world, ANN);
        world.enters_as(CAROL, "Hatter");
        world.rest();
        let desk = (world.devices[CAROL].conn, world.devices[CAROL].session);
        world.connects_as(CAROL, "phone");
        world.enters_as(CAROL, "Hare");
        world.rest();
        world.hears_of(ANN);
        if anew {
            world.enters_as(CAROL, "hatter");
            world.rest();
            assert_eq!(world.devices[CAROL].found, ["Hatter carol visitor", "ann ann owner"]);
        } else {
            assert_eq!(world.of_room(CAROL, OccupancyAsk::Rename("hatter".into())), Ok(()));
        }
        assert_eq!(world.hears_of(ANN), ["renamed Hare: Hatter carol visitor"]);
        world.says(CAROL, "tea").expect("it is open");
        assert_eq!(world.reads(ANN).expect("a member").pop().as_deref(), Some("Hatter: tea"));
        world.leaves(CAROL);
        world.rest();
        assert_eq!(world.hears_of(ANN), [""; 0], "the other device is there");
        (world.devices[CAROL].conn, world.devices[CAROL].session) = desk;
        world.leaves(CAROL);
        world.rest();
        assert_eq!(world.hears_of(ANN), ["left Hatter"]);
    }
}

#[test]
fn a_session_enters_and_changes_its_name_so_often_in_a_minute() {
    let mut world = World::with(2, |limits| limits.presence_changes_a_minute_max = 3);
    enter(&mut world, ANN);
    enter(&mut world, BOB);
    let rename = |nick: &str| OccupancyAsk::Rename(nick.into());
    for nick in ["one", "two"] {
        assert_eq!(world.of_room(BOB, rename(nick)), Ok(()));
    }
    assert_eq!(world.of_room(BOB, rename("three")), Err(ChatFault::RateLimited));
    world.leaves(BOB);
    world.rest();
    world.enters(BOB);
    world.rest();
    assert_eq!(world.devices[BOB].answer.take(), Some(Err(ChatFault::RateLimited)));
    assert_eq!(world.hears_of(ANN).pop().as_deref(), Some("left two"));
    world.pass_s(60);
    assert_eq!(enter(&mut world, BOB)[0], "bob bob member");
}

#[test]
fn changes_of_the_group_are_changes_of_its_occupants() {
    for shards in 1..=3 {
        let mut world = open(shards);
        for at in [ANN, BOB, CAROL] {
            enter(&mut world, at);
        }
        (0..3).for_each(|at| drop(world.hears_of(at)));
        world.orders(CAROL, GroupVerb::Join, &[]).expect("it is open");
        for at in [BOB, CAROL] {
            assert_eq!(world.hears_of(at), ["is carol carol member by carol \"\""]);
        }
        let mut does = |verb, who: &[&str]| {
            world.orders(ANN, verb, who).expect("she may");
            let told = world.hears_of(BOB);
            world.hears_of(ANN);
            (told, world.hears_of(CAROL))
        };
        assert_eq!(
            does(GroupVerb::Mute, &["carol"]).0,
            ["is carol carol member silent by ann \"Lunch\""]
        );
        assert_eq!(
            does(GroupVerb::Promote, &["carol"]).0,
            ["is carol carol admin by ann \"Lunch\""]
        );
        let (bob, carol) = does(GroupVerb::Remove, &["carol"]);
        assert_eq!(bob, ["is carol carol visitor by ann \"Lunch\""], "the room is open");
        assert_eq!(carol, ["is carol carol visitor by ann \"Lunch\"", "said remove"]);
        assert_eq!(does(GroupVerb::Close, &[]).0.len(), 2, "two have no voice any more");
        assert_eq!(does(GroupVerb::Open, &[]).0.len(), 2);
        let (bob, carol) = does(GroupVerb::Lock, &[]);
        assert_eq!((&bob, &carol), (&vec!["locked carol by ann \"Lunch\"".into()], &bob));
        assert_eq!(does(GroupVerb::Ban, &["bob"]).0, ["banned bob by ann \"Lunch\""]);
        world.enters(BOB);
        world.rest();
        assert_eq!(world.devices[BOB].answer.take(), Some(Err(ChatFault::GroupBanned)));
        world.devices[ANN].place = Place::Elsewhere; // she ends it herself
        world.orders(ANN, GroupVerb::Dissolve, &[]).expect("she owns it");
        assert_eq!(world.hears_of(ANN).last().map(String::as_str), Some("dissolved ann \"Lunch\""));
    }
}

#[test]
fn a_moderator_shows_out_who_is_below_it_and_that_one_may_come_back() {
    let mut world = open(2);
    for at in [ANN, BOB, CAROL] {
        enter(&mut world, at);
    }
    (0..3).for_each(|at| drop(world.hears_of(at)));
    let kick = |nick: &str| role(nick, RoomRole::None);
    assert_eq!(world.of_room(BOB, kick("carol")), Err(ChatFault::Forbidden));
    assert_eq!(world.of_room(ANN, kick("nobody")), Err(ChatFault::UnknownAccount));
    assert_eq!(world.of_room(ANN, kick("ann")), Err(ChatFault::Outranked));
    for (at, nick) in [(CAROL, "carol"), (BOB, "bob")] {
        assert_eq!(world.of_room(ANN, kick(nick)), Ok(()));
        let told = format!("kicked {nick} by ann \"noise\"");
        assert_eq!(world.hears_of(at).pop(), Some(told.clone()));
        assert_eq!(world.hears_of(ANN), [told]);
    }
    assert_eq!(world.members(ANN), ["ann", "bob"], "he is a member still");
    assert_eq!(world.says(CAROL, "hello?"), Err(ChatFault::NotMember));
    for at in [BOB, CAROL] {
        enter(&mut world, at);
    }
}

#[test]
fn a_moderator_who_is_not_in_the_room_shows_the_last_occupant_out_of_a_temporary_one() {
    for shards in 1..=3 {
        let mut world = open(shards);
        enter(&mut world, CAROL);
        let kick = role("carol", RoomRole::None);
        assert_eq!(world.of_room(ANN, kick.clone()), Ok(()));
        assert_eq!(world.hears_of(CAROL), ["kicked carol by ann \"noise\""]);
        enter(&mut world, CAROL);
        world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
        world.devices[CAROL].place = Place::Elsewhere;
        assert_eq!(world.of_room(ANN, kick), Ok(()));
        assert!(!world.is_there(ANN), "nobody is in it any more");
    }
}

#[test]
fn a_moderator_takes_a_visitor_s_voice_and_gives_one_in_a_closed_room_until_it_leaves() {
    let mut world = open(2);
    for at in [ANN, BOB, CAROL] {
        enter(&mut world, at);
    }
    world.hears_of(BOB);
    let set = |whom: &str, voice| {
        role(whom, if voice { RoomRole::Participant } else { RoomRole::Visitor })
    };
    assert_eq!(world.of_room(BOB, set("carol", false)), Err(ChatFault::Forbidden));
    assert_eq!(world.of_room(ANN, set("nobody", false)), Err(ChatFault::UnknownAccount));
    assert_eq!(world.of_room(ANN, set("carol", false)), Ok(()));
    assert_eq!(world.hears_of(BOB), ["is carol carol visitor silent by ann \"noise\""]);
    assert_eq!(world.says(CAROL, "noise"), Err(ChatFault::Muted));
    let desk = (world.devices[CAROL].conn, world.devices[CAROL].session);
    world.connects_as(CAROL, "phone");
    world.enters_as(CAROL, "Hatter");
    world.rest();
    assert_eq!(world.devices[CAROL].found[0], "Hatter carol visitor silent", "by each name");
    world.breaks(CAROL);
    world.rest();
    world.hears_of(BOB);
    (world.devices[CAROL].conn, world.devices[CAROL].session) = desk;
    assert_eq!(world.of_room(ANN, set("carol@a.example", true)), Ok(()));
    assert_eq!(world.hears_of(BOB), ["is carol carol visitor by ann \"noise\""]);
    world.orders(ANN, GroupVerb::Close, &[]).expect("moderated");
    assert_eq!(world.says(CAROL, "she has a voice"), Ok(()));
    // A member has one in the room, too, and outside what the group gives it.
    assert_eq!(world.says(BOB, "closed"), Err(ChatFault::Muted));
    assert_eq!(world.of_room(ANN, set("bob", true)), Ok(()));
    assert_eq!(world.says(BOB, "he has a voice"), Ok(()));
    // Whom the group has muted it lets speak again.
    world.orders(ANN, GroupVerb::Mute, &["bob"]).expect("muted");
    assert_eq!(world.says(BOB, "muted"), Err(ChatFault::Muted));
    assert_eq!(world.of_room(ANN, set("bob", true)), Ok(()), "the asker gets the answer");
    assert_eq!(world.devices[ANN].found, ["bob bob member silent"]);
    let moderates = role("bob", RoomRole::Moderator);
    assert_eq!(world.of_room(ANN, moderates), Err(ChatFault::Outranked), "it is muted still");
    world.leaves(CAROL);
    world.rest();
    assert_eq!(enter(&mut world, CAROL)[0], "carol carol visitor silent", "no more");
}

#[test]
fn how_one_is_there_is_shown_and_one_without_a_voice_has_no_words() {
    let mut world = open(3);
    for at in [BOB, CAROL] {
        enter(&mut world, at);
    }
    world.hears_of(BOB);
    world.shows(CAROL, Show::Away, "tea");
    world.shows(CAROL, Show::Away, "tea");
    assert_eq!(world.hears_of(BOB), ["is carol carol visitor \"tea\""], "once");
    let extra = |size: usize| Some(Arc::new("x".repeat(size).into_boxed_str()));
    let with = |size| OccupantShow { extra: extra(size), ..OccupantShow::default() };
    world.asks_room(CAROL, 0, OccupancyAsk::Show(with(OCCUPANT_EXTRA_BYTES_MAX + 1)));
    world.rest();
    assert_eq!(world.hears_of(BOB), [""; 0], "too much");
    world.asks_room(CAROL, 0, OccupancyAsk::Show(with(OCCUPANT_EXTRA_BYTES_MAX)));
    world.rest();
    assert_eq!(world.hears_of(BOB), ["is carol carol visitor and 1024 bytes"]);
    assert_eq!(enter(&mut world, BOB)[1], "carol carol visitor and 1024 bytes");
    world.orders(ANN, GroupVerb::Close, &[]).expect("moderated");
    world.hears_of(BOB);
    world.shows(CAROL, Show::Away, "words");
    assert_eq!(world.hears_of(BOB), ["is carol carol visitor silent"]);
    assert_eq!(world.says(CAROL, "words"), Err(ChatFault::Muted));
    let rename = OccupancyAsk::Rename("words".into());
    assert_eq!(world.of_room(CAROL, rename), Err(ChatFault::Forbidden), "a name is words");
    world.enters_as(CAROL, "words");
    world.rest();
    assert_eq!(world.devices[CAROL].answer.take(), Some(Err(ChatFault::Forbidden)));
    assert_eq!(world.hears_of(BOB), [""; 0]);
}

#[test]
fn devices_of_another_server_are_occupants_and_are_told_by_their_names() {
    let mut world = open(2);
    enter(&mut world, BOB);
    world.hears_of(BOB);
    world.abroad.clear();
    world.eve_enters();
    assert_eq!(world.hears_of(BOB), ["is eve@b.example eve visitor"]);
    enter(&mut world, CAROL);
    world.says(CAROL, "hello").expect("it is open");
    let mut told = Vec::new();
    for word in std::mem::take(&mut world.abroad) {
        match word {
            ForeignWord::RoomNews(_, to) => {
                told.push(format!("news for {} {}", to[0].0, to[0].1));
            }
            ForeignWord::Room(word) => told.push(format!("{}", word.message.content.text)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, ["news for eve@b.example phone", "hello"]);
    world.eve(OccupancyAsk::Leave);
    assert_eq!(world.hears_of(BOB).last().map(String::as_str), Some("left eve@b.example"));
    world.says(CAROL, "alone").expect("it is open");
    assert!(world.abroad.is_empty(), "nobody is there");
}

#[test]
fn a_room_is_full_and_a_large_one_tells_only_who_it_is_about() {
    let mut world = World::with(2, |limits| {
        (limits.room_devices_max, limits.room_presences_max) = (2, 1);
    });
    enter(&mut world, BOB);
    assert_eq!(enter(&mut world, CAROL), ["carol carol member", "bob bob member"]);
    assert_eq!(world.hears_of(BOB), [""; 0], "two are more than one");
    world.shows(CAROL, Show::Away, "tea");
    assert_eq!((world.hears_of(BOB).len(), world.hears_of(CAROL).len()), (0, 1));
    enter(&mut world, ANN);
    world.leaves(ANN);
    world.rest();
    world.connects_as(BOB, "phone");
    world.enters(BOB);
    world.rest();
    assert_eq!(world.devices[BOB].answer.take(), Some(Err(ChatFault::ChatroomFull)));
}

#[test]
fn devices_in_a_room_that_was_large_learn_that_they_have_missed_news() {
    let mut world = World::with(2, |limits| limits.room_presences_max = 2);
    world.may_miss = true;
    for at in [BOB, CAROL, ANN] {
        enter(&mut world, at);
    }
    assert_eq!(world.hears_of(BOB), ["is carol carol member"], "three are more than two");
    world.leaves(ANN);
    world.rest();
    assert_eq!(world.hears_of(BOB), [""; 0], "two are more than half of two");
    world.leaves(CAROL);
    world.rest();
    assert_eq!(world.hears_of(BOB), ["missed some", "left carol"]);
    enter(&mut world, ANN);
    assert_eq!(world.hears_of(BOB), ["is ann ann owner"]);
}

/// A role for an occupant, which is named by its account if there is a domain.
fn role(whom: &str, role: RoomRole) -> OccupancyAsk {
    let whom = match whom.contains('@') {
        true => OccupantName::Account(address(whom)),
        false => OccupantName::Nick(whom.into()),
    };
    OccupancyAsk::SetRoles(vec![RoleItem { whom, role, reason: "noise".into() }])
}

#[test]
fn a_moderator_below_the_admins_kicks_gives_a_voice_and_the_subject_until_it_leaves() {
    use RoomRole::{Moderator, None, Participant, Visitor};
    for shards in 1..=3 {
        let mut world = World::new(shards);
        world.orders(ANN, GroupVerb::Remove, &["bob"]).expect("no member");
        world.orders(ANN, GroupVerb::Unlock, &[]).expect("open");
        for at in [ANN, BOB, CAROL] {
            enter(&mut world, at);
        }
        world.eve_enters();
        world.hears_of(ANN);
        assert_eq!(world.of_room(BOB, role("bob", Moderator)), Err(ChatFault::Forbidden));
        assert_eq!(world.of_room(ANN, role("ann", Participant)), Err(ChatFault::Outranked));
        assert_eq!(world.of_room(ANN, role("bob", Moderator)), Ok(()));
        assert_eq!(world.hears_of(ANN), ["is bob bob visitor moderator by ann \"noise\""]);
        assert_eq!(world.of_room(ANN, role("bob", Moderator)), Err(ChatFault::Unchanged));
        // It is an admin of nothing: nobody above it, and no moderators.
        for (whom, wanted, expected) in [
            ("carol", Visitor, Err(ChatFault::Outranked)),
            ("carol", None, Err(ChatFault::Outranked)),
            ("ann", None, Err(ChatFault::Outranked)),
            ("eve@b.example", Moderator, Err(ChatFault::Forbidden)),
            ("bob", Participant, Err(ChatFault::Forbidden)),
            ("eve@b.example", Visitor, Ok(())),
            ("eve@b.example", Participant, Ok(())),
            ("eve@b.example", None, Ok(())),
        ] {
            assert_eq!(world.of_room(BOB, role(whom, wanted)), expected, "{whom} {wanted:?}");
        }
        assert_eq!(world.orders(BOB, GroupVerb::Rename, &[]), Ok(()), "the subject");
        assert_eq!(world.orders(BOB, GroupVerb::Close, &[]), Err(ChatFault::NotMember));
        assert_eq!(world.of_room(ANN, OccupancyAsk::List(Moderator)), Ok(()));
        assert_eq!(world.devices[ANN].found, ["ann ann owner", "bob bob visitor moderator"]);
        assert_eq!(world.of_room(ANN, OccupancyAsk::List(Participant)), Ok(()));
        assert_eq!(world.devices[ANN].found, ["carol carol member"]);
        // Closed, it speaks; and is asked for a voice.
        world.orders(ANN, GroupVerb::Close, &[]).expect("moderated");
        assert_eq!(world.says(BOB, "listen"), Ok(()));
        world.eve_enters();
        assert_eq!(world.of_room(ANN, role("eve@b.example", Moderator)), Ok(()));
        world.abroad.clear();
        let (session, group) = (world.devices[CAROL].session, Box::new(room().into()));
        world.asks(CAROL, ChatRequest::Voice { session, group });
        world.rest();
        let is_asked = |it: &ForeignWord| match it {
            ForeignWord::Aside(word) => word.to.contains(&address(EVE)),
            _ => false,
        };
        assert!(world.abroad.iter().any(is_asked), "moderators of other servers, too");
        // All of a list, or nothing.
        let item = |whom: &str, role| RoleItem {
            whom: OccupantName::Nick(whom.into()),
            role,
            reason: "noise".into(),
        };
        world.hears_of(CAROL);
        let half = OccupancyAsk::SetRoles(vec![item("bob", Visitor), item("nobody", Visitor)]);
        assert_eq!(world.of_room(ANN, half), Err(ChatFault::UnknownAccount));
        assert_eq!(world.hears_of(CAROL), [""; 0]);
        // An admin's rank is above it, and it has nothing of the role when that is lost.
        for (n, affiliation) in (1..).zip([Affiliation::Admin, Affiliation::None]) {
            let account = address("bob").into();
            let items = vec![AffiliationItem { account, affiliation, reason: "".into() }];
            let list = RoomChange::Affiliations(items);
            assert_eq!(world.of_room(ANN, change(n, list)), Ok(()));
        }
        let news = ["is bob bob admin by ann \"\"", "is bob bob visitor silent by ann \"\""];
        assert_eq!(world.hears_of(CAROL), news);
        assert_eq!(world.of_room(ANN, role("bob", Moderator)), Ok(()));
        world.leaves(BOB);
        world.rest();
        assert_eq!(enter(&mut world, BOB)[0], "bob bob visitor silent", "no more");
    }
}

#[test]
fn a_list_gives_each_occupant_one_role_and_who_enters_anew_keeps_it() {
    use RoomRole::{Moderator, None, Visitor};
    let item = |whom: &str, role| {
        let whom = match whom.contains('@') {
            true => OccupantName::Account(address(whom)),
            false => OccupantName::Nick(whom.into()),
        };
        RoleItem { whom, role, reason: "noise".into() }
    };
    for shards in 1..=3 {
        let mut world = open(shards);
        for at in [ANN, BOB, CAROL] {
            enter(&mut world, at);
        }
        world.hears_of(ANN);
        for other in ["carol", "CAROL", "carol@a.example"] {
            let twice = vec![item("carol", None), item(other, Moderator)];
            let twice = OccupancyAsk::SetRoles(twice);
            assert_eq!(world.of_room(ANN, twice), Err(ChatFault::Invalid), "{other}");
        }
        assert_eq!(world.hears_of(ANN), [""; 0]);
        assert_eq!(world.of_room(ANN, role("carol", Moderator)), Ok(()));
        assert_eq!(enter(&mut world, CAROL)[0], "carol carol visitor moderator");
        assert_eq!(world.of_room(CAROL, role("carol", Visitor)), Err(ChatFault::Forbidden));
        assert_eq!(world.of_room(ANN, role("carol", Visitor)), Ok(()));
        assert_eq!(enter(&mut world, CAROL)[0], "carol carol visitor silent");
        world.leaves(CAROL);
        world.rest();
        assert_eq!(enter(&mut world, CAROL)[0], "carol carol visitor", "it had left");
    }
}

#[test]
fn what_an_occupant_says_to_another_one_reaches_the_devices_of_that_name_alone() {
    let whisper = |nick: &str| {
        let content = Box::new(Content::text("psst"));
        OccupancyAsk::Whisper { nick: nick.into(), content }
    };
    for shards in 1..=3 {
        let mut world = open(shards);
        assert_eq!(world.of_room(CAROL, whisper("bob")), Err(ChatFault::NotMember));
        for at in [ANN, BOB] {
            enter(&mut world, at);
        }
        world.enters_as(CAROL, "Hatter");
        world.eve_enters();
        (0..3).for_each(|at| drop(world.hears_of(at)));
        assert_eq!(world.of_room(CAROL, whisper("BOB")), Ok(()));
        assert_eq!(world.hears_of(BOB), ["Hatter whispers psst"]);
        assert_eq!(world.hears_of(ANN), [""; 0]);
        assert_eq!(world.of_room(CAROL, whisper("nobody")), Err(ChatFault::UnknownAccount));
        world.abroad.clear();
        assert_eq!(world.of_room(BOB, whisper(EVE)), Ok(()));
        let is_told = |it: &ForeignWord| match it {
            ForeignWord::RoomNews(news, to) => {
                matches!(news.event, RoomEvent::Whispered(..)) && to.len() == 1
            }
            _ => false,
        };
        assert!(world.abroad.iter().any(is_told));
        world.eve(whisper("hatter"));
        assert_eq!(world.hears_of(CAROL), [format!("{EVE} whispers psst")]);
        let said = world.reads(BOB).expect("a member");
        assert!(said.iter().all(|it| !it.contains("psst")), "it is not stored: {said:?}");
        world.leaves(BOB);
        world.rest();
        assert_eq!(world.of_room(CAROL, whisper("bob")), Err(ChatFault::UnknownAccount));
    }
}

fn relay(nick: &str, kind: RelayedKind) -> OccupancyAsk {
    let relayed = Arc::new(Relayed { kind, id: "q".into(), xml: "<q/>".into() });
    OccupancyAsk::Relay { nick: nick.into(), relayed }
}

fn answer(id: &str) -> OccupancyAsk {
    let (kind, xml) = (RelayedKind::Result, "<a/>".into());
    OccupancyAsk::Answer(Arc::new(Relayed { kind, id: id.into(), xml }))
}

/// Id under which the last question came to a device.
fn id_of_question(world: &mut World, at: usize) -> String {
    let heard = world.hears_of(at);
    let words: Vec<_> = heard.last().expect("a question").split(' ').collect();
    assert_eq!((words[1], words[4]), ("relays", "<q/>"), "{heard:?}");
    words[3].to_owned()
}

/// Bob and Carol in the room, and Eve.
fn of_questions(shards: u16) -> World {
    let mut world = open(shards);
    for at in [ANN, BOB, CAROL] {
        enter(&mut world, at);
    }
    world.eve_enters();
    (0..3).for_each(|at| drop(world.hears_of(at)));
    world
}

#[test]
fn a_question_to_an_occupant_goes_to_one_of_its_devices_and_the_answer_comes_back() {
    use RelayedKind::{Get, Set};
    for shards in 1..=3 {
        let mut world = open(shards);
        assert_eq!(world.of_room(BOB, relay("bob", Get)), Err(ChatFault::NotMember));
        let mut world = of_questions(shards);
        assert_eq!(world.of_room(CAROL, relay("dave", Get)), Err(ChatFault::UnknownAccount));
        assert_eq!(world.of_room(CAROL, relay("bob", Get)), Ok(()));
        let id = id_of_question(&mut world, BOB);
        assert_eq!(world.of_room(BOB, answer(&id)), Ok(()));
        assert_eq!(world.hears_of(CAROL), ["bob relays result q <a/>"], "by her own id");
        world.eve(relay("bob", Set));
        let id = id_of_question(&mut world, BOB);
        world.abroad.clear();
        assert_eq!(world.of_room(BOB, answer(&id)), Ok(()));
        let told = |word: &ForeignWord| match word {
            ForeignWord::RoomNews(news, to) => {
                to.len() == 1 && happened(&news.event).contains("result q")
            }
            _ => false,
        };
        assert!(world.abroad.iter().any(told));
        let xml = "x".repeat(RELAYED_BYTES_MAX + 1).into();
        let relayed = Arc::new(Relayed { kind: Get, id: "7".into(), xml });
        let long = OccupancyAsk::Relay { nick: "bob".into(), relayed: relayed.clone() };
        assert_eq!(world.of_room(CAROL, long), Err(ChatFault::Invalid));
        assert_eq!(world.of_room(CAROL, OccupancyAsk::Answer(relayed)), Err(ChatFault::Invalid));
        assert_eq!(world.hears_of(BOB), [""; 0]);
    }
}

#[test]
fn an_answer_goes_to_nobody_who_has_not_asked_and_once() {
    use RelayedKind::Get;
    for shards in 1..=3 {
        let mut world = of_questions(shards);
        let nothing_waits = Err(ChatFault::UnknownAccount);
        for id in ["1", "q", "0", ""] {
            assert_eq!(world.of_room(CAROL, answer(id)), nothing_waits, "nobody has asked");
        }
        assert_eq!(world.of_room(CAROL, relay("bob", Get)), Ok(()));
        let id = id_of_question(&mut world, BOB);
        assert_eq!(world.of_room(ANN, answer(&id)), nothing_waits, "another one was asked");
        world.eve(answer(&id));
        assert_eq!(world.hears_of(CAROL), [""; 0]);
        assert_eq!(world.of_room(BOB, OccupancyAsk::Rename("Hatter".into())), Ok(()));
        world.hears_of(CAROL);
        assert_eq!(world.of_room(BOB, answer(&id)), Ok(()));
        assert_eq!(world.hears_of(CAROL), ["Hatter relays result q <a/>"]);
        assert_eq!(world.of_room(BOB, answer(&id)), nothing_waits, "it has its answer");
        // A question has its time.
        assert_eq!(world.of_room(CAROL, relay("hatter", Get)), Ok(()));
        let id = id_of_question(&mut world, BOB);
        world.now.mono = world.now.mono + Duration::from_secs(60);
        assert_eq!(world.of_room(BOB, answer(&id)), nothing_waits);
        // An occupant who has left waits for nothing.
        assert_eq!(world.of_room(CAROL, relay("hatter", Get)), Ok(()));
        let id = id_of_question(&mut world, BOB);
        world.leaves(CAROL);
        world.rest();
        assert_eq!(world.of_room(BOB, answer(&id)), nothing_waits);
    }
}

#[test]
fn whom_somebody_has_blocked_neither_asks_nor_answers_it() {
    use RelayedKind::Get;
    for shards in 1..=3 {
        let mut world = of_questions(shards);
        assert_eq!(world.of_room(BOB, relay("carol", Get)), Ok(()));
        let id = id_of_question(&mut world, CAROL);
        world.blocks(BOB, "carol");
        world.hears_of(BOB);
        assert_eq!(world.of_room(CAROL, answer(&id)), Ok(()), "which does not tell it");
        assert_eq!(world.of_room(CAROL, relay("bob", Get)), Ok(()));
        assert_eq!(world.hears_of(BOB), [""; 0]);
    }
}

#[test]
fn so_many_questions_of_an_account_wait() {
    let mut world = of_questions(1);
    for _ in 0..64 {
        assert_eq!(world.of_room(CAROL, relay("bob", RelayedKind::Get)), Ok(()));
        world.now.mono = world.now.mono + Duration::from_millis(500);
    }
    let id = id_of_question(&mut world, BOB);
    let busy = Err(ChatFault::Busy);
    assert_eq!(world.of_room(CAROL, relay("bob", RelayedKind::Get)), busy);
    assert_eq!(world.of_room(BOB, answer(&id)), Ok(()));
    assert_eq!(world.of_room(CAROL, relay("bob", RelayedKind::Get)), Ok(()));
}

#[test]
fn what_is_said_to_one_occupant_has_the_rates_words_and_limits_of_messages() {
    let whisper = |text: &str| {
        let content = Box::new(Content::text(text));
        OccupancyAsk::Whisper { nick: "bob".into(), content }
    };
    for shards in 1..=3 {
        let mut world = World::with(shards, |limits| {
            (limits.sends_an_account_per_s, limits.sends_an_account_burst) = (1, 3);
            limits.text_bytes_max = 1_000;
        });
        let list = WordList::parse(b"refuse casino\nreplace |darn|");
        world.settings.words.put(list.expect("a list"));
        world.orders(ANN, GroupVerb::Unlock, &[]).expect("open");
        for at in [BOB, CAROL] {
            enter(&mut world, at);
        }
        world.eve_enters();
        world.hears_of(BOB);
        let (long, rated) = (whisper(&"x".repeat(1_001)), Err(ChatFault::RateLimited));
        assert_eq!(world.of_room(CAROL, long), Err(ChatFault::TooLarge));
        assert_eq!(world.of_room(CAROL, whisper("")), Err(ChatFault::Invalid));
        assert_eq!(world.of_room(CAROL, whisper("the CASINO")), Err(ChatFault::Rejected));
        assert_eq!(world.of_room(CAROL, whisper("darn")), Ok(()));
        assert_eq!(world.of_room(CAROL, whisper("three")), Ok(()));
        assert_eq!(world.of_room(CAROL, whisper("four")), rated);
        assert_eq!(world.says(CAROL, "all"), rated, "one rate for all that it says");
        assert_eq!(world.hears_of(BOB), ["carol whispers ****", "carol whispers three"]);
        // An account of another server has the same.
        for text in ["a casino", "one", "two", "three", "four"] {
            world.eve(whisper(text));
        }
        let heard = ["one", "two"].map(|text| format!("{EVE} whispers {text}"));
        assert_eq!(world.hears_of(BOB), heard);
    }
}

/// A change of the group as a whole, in the order with this number.
fn change(number: u8, change: RoomChange) -> OccupancyAsk {
    OccupancyAsk::Change { client_id: ClientMessageId([number; 16]), change }
}

#[test]
fn lists_and_forms_are_one_change_each_and_occupants_are_shown_once() {
    use Affiliation::{Admin, Member, None, Outcast, Owner};
    for shards in 1..=3 {
        let mut world = World::new(shards);
        for at in [ANN, BOB, CAROL] {
            enter(&mut world, at);
        }
        let lists = |items: &[(&str, Affiliation)]| {
            let items = items.iter().map(|(name, affiliation)| AffiliationItem {
                account: address(name).into(),
                affiliation: *affiliation,
                reason: "so".into(),
            });
            RoomChange::Affiliations(items.collect())
        };
        for at in [ANN, BOB, CAROL] {
            world.hears_of(at);
        }
        let all = lists(&[("bob", Outcast), ("carol", Owner), ("nobody", Outcast)]);
        assert_eq!(world.of_room(BOB, change(1, all.clone())), Err(ChatFault::Forbidden));
        assert_eq!(world.of_room(ANN, change(2, all.clone())), Ok(()));
        let news = ["is carol carol owner by ann \"so\"", "banned bob by ann \"so\""];
        assert_eq!(world.hears_of(CAROL), news, "once each");
        assert_eq!(world.of_room(ANN, change(2, all.clone())), Err(ChatFault::Unchanged));
        assert_eq!(world.members(ANN), ["ann", "carol"]);
        let half = lists(&[("bob", Member), ("carol", None), ("ann", Admin)]);
        assert_eq!(world.of_room(CAROL, change(3, half)), Err(ChatFault::LastOwner));
        assert_eq!(world.members(ANN), ["ann", "carol"], "nothing of it");
        world.hears_of(CAROL);
        assert_eq!(world.of_room(ANN, change(4, lists(&[("ann", Member)]))), Ok(()));
        assert_eq!(world.hears_of(CAROL), ["is ann ann member by ann \"so\""]);
        let settings = GroupSettings {
            title: Some("Tea".into()),
            public: Some(true),
            closed: Some(true),
            ..GroupSettings::default()
        };
        let settings = || RoomChange::Settings(Box::new(settings.clone()));
        assert_eq!(world.of_room(ANN, change(5, settings())), Err(ChatFault::Forbidden));
        assert_eq!(world.of_room(CAROL, change(6, settings())), Ok(()));
        assert_eq!(world.of_room(CAROL, change(7, settings())), Err(ChatFault::Unchanged));
        assert_eq!(world.hears_of(CAROL), ["is ann ann member silent by carol \"\""]);
        // The log has all changes that were made.
        world.restarts();
        assert_eq!((world.members(CAROL), world.public()), (vec!["ann".into(), "carol".into()], 1));
        assert_eq!(world.of_room(CAROL, change(8, settings())), Err(ChatFault::Unchanged));
        assert_eq!(world.of_room(CAROL, change(9, lists(&[("bob", Admin)]))), Ok(()));
        assert_eq!(world.members(CAROL), ["ann", "bob", "carol"], "banned no more");
    }
}

//! Chatrooms: joins, messages, changes and their rights, one case at a time.

use crate::arena::{Arena, addressee, order, person, room};
use model::chat::*;
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::ports::events::{ChatEvent, ChatWhat};

/// Three shards, an owner in the lobby, and another device.
fn lobby(durable: bool) -> (Arena, usize, usize) {
    let mut arena = Arena::new(7, 3, |_| {});
    let owner = arena.login("owner");
    let made = ChatroomOrder { durable, ..order("lobby", ChatroomVerb::Create, &[]) };
    assert_eq!(arena.ordered(owner, made), Ok(()));
    assert_eq!(arena.joins(owner, "lobby"), Ok(vec![]));
    let ann = arena.login("ann");
    (arena, owner, ann)
}

#[test]
fn who_is_there_hears_what_is_said_and_who_joins_has_the_last_of_it() {
    let (mut arena, owner, ann) = lobby(false);
    assert_eq!(arena.said(ann, "lobby", "let me in"), Err(ChatFault::NotInChatroom));
    for n in 1..=4 {
        assert_eq!(arena.said(owner, "lobby", &format!("m{n}")), Ok(n));
    }
    let last: Vec<String> = ["m2", "m3", "m4"].map(String::from).into();
    assert_eq!(arena.joins(ann, "lobby"), Ok(last), "it keeps three");
    assert_eq!(arena.said(ann, "lobby", "hello"), Ok(5));
    arena.rest();
    assert_eq!(arena.devices[owner].seats[&room("lobby")].heard, [1, 2, 3, 4, 5]);
    assert_eq!(arena.devices[ann].seats[&room("lobby")].heard, [5]);
    arena.pass_ms(5_000);
    assert_eq!(arena.devices[owner].seats[&room("lobby")].state.here, 2, "it is told, later");
    let leaves = ChatroomAsk::Leave(addressee("lobby"));
    assert!(arena.answered(ann, leaves.clone()).is_ok());
    assert_eq!(arena.answered(ann, leaves), Err(ChatFault::NotInChatroom));
    arena.pass_ms(5_000);
    assert_eq!(arena.devices[owner].seats[&room("lobby")].state.here, 1);
    assert_eq!(arena.joins(ann, "nowhere"), Err(ChatFault::NoChatroom));
    let other = ChatroomAsk::Join { room: addressee("lobby@a.example"), history: 0 };
    assert_eq!(arena.answered(ann, other), Err(ChatFault::NoChatroom));
}

#[test]
fn what_is_said_is_told_to_whoever_wants_events_once() {
    for durable in [false, true] {
        let (mut arena, owner, _) = lobby(durable);
        arena.said(owner, "lobby", "nobody listens").expect("it may");
        arena.wants_events();
        assert_eq!(arena.said(owner, "lobby", "hello"), Ok(2));
        assert_eq!(arena.says_again(owner, "lobby", "hello"), Ok(2));
        assert!(arena.said(owner, "lobby", &"x".repeat(5_000)).is_err(), "too large");
        let told: Vec<_> = std::mem::take(&mut arena.events);
        let [ChatEvent { what: ChatWhat::Stored(message), .. }] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!((&message.to, message.seq), (&room("lobby"), 2));
        assert_eq!(&*message.content.text, "hello");
    }
}

#[test]
fn a_room_that_keeps_its_messages_has_them_after_a_restart_and_no_more_of_them() {
    for durable in [true, false] {
        let (mut arena, owner, _) = lobby(durable);
        for n in 1..=20 {
            assert_eq!(arena.said(owner, "lobby", &format!("m{n}")), Ok(n));
        }
        arena.restart();
        let owner = arena.login("owner");
        let kept: &[&str] = if durable { &["m18", "m19", "m20"] } else { &[] };
        let kept: Vec<String> = kept.iter().map(|text| text.to_string()).collect();
        assert_eq!(arena.joins(owner, "lobby"), Ok(kept));
        let next = if durable { 21 } else { 1 };
        assert_eq!(arena.said(owner, "lobby", "on"), Ok(next));
        assert_eq!(arena.ordered(owner, order("lobby", ChatroomVerb::Close, &[])), Ok(()));
        assert_eq!(arena.joins(owner, "lobby"), Err(ChatFault::NoChatroom));
        arena.restart();
        let owner = arena.login("owner");
        assert_eq!(arena.joins(owner, "lobby"), Err(ChatFault::NoChatroom));
    }
}

#[test]
fn owner_and_moderators_say_who_may_speak_and_stay() {
    use ChatroomVerb::{Ban, Create, Kick, Mute, Promote, Quiet, Unban};
    let (mut arena, owner, ann) = lobby(false);
    let bob = arena.login("bob");
    for at in [ann, bob] {
        arena.joins(at, "lobby").expect("it may");
    }
    let on = |verb, to: &[&str]| order("lobby", verb, to);
    assert_eq!(arena.ordered(ann, on(Kick, &["bob"])), Err(ChatFault::Forbidden));
    assert_eq!(arena.ordered(owner, on(Promote, &["ghost"])), Err(ChatFault::UnknownAccount));
    assert_eq!(arena.ordered(owner, on(Promote, &["ann"])), Ok(()));
    assert_eq!(arena.ordered(ann, on(Mute, &["bob"])), Ok(()));
    assert_eq!(arena.said(bob, "lobby", "muted"), Err(ChatFault::Muted));
    assert_eq!(arena.ordered(ann, on(Quiet, &[])), Ok(()));
    assert_eq!(arena.said(ann, "lobby", "quiet"), Ok(1));
    arena.asks(ann, ChatroomAsk::Order(on(Kick, &["bob"])));
    arena.rest();
    assert_eq!(arena.devices[bob].outs, [ChatroomOut::Kicked]);
    arena.devices.iter_mut().for_each(|it| (it.told, it.outs) = Default::default());
    assert!(arena.joins(bob, "lobby").is_ok(), "it may come back");
    assert_eq!(arena.ordered(ann, on(Ban, &["bob", "cid"])), Ok(()));
    assert_eq!(arena.devices[bob].outs, [ChatroomOut::Banned]);
    assert_eq!(arena.joins(bob, "lobby"), Err(ChatFault::ChatroomBanned));
    assert_eq!(arena.ordered(ann, on(Unban, &["bob"])), Ok(()));
    assert!(arena.joins(bob, "lobby").is_ok());
    assert_eq!(arena.ordered(bob, on(Create, &[])), Err(ChatFault::Conflict));
    assert_eq!(arena.ordered(owner, on(Create, &[])), Err(ChatFault::Unchanged));
    arena.restart();
    let ann = arena.login("ann");
    arena.joins(ann, "lobby").expect("it may");
    assert_eq!(arena.ordered(ann, on(Kick, &["owner"])), Err(ChatFault::Forbidden));
    assert_eq!(arena.ordered(ann, on(Unban, &["cid"])), Ok(()), "what was answered holds");
}

#[test]
fn lists_rooms_and_halls_have_an_end() {
    let mut arena = Arena::new(7, 3, |limits| {
        limits.chatrooms_an_account_max = 1;
        limits.chatrooms_a_session_max = 2;
        limits.chatroom_members_max = 2;
    });
    let owner = arena.login("owner");
    let made: Vec<_> = (0..9)
        .map(|n| arena.ordered(owner, order(&format!("r{n}"), ChatroomVerb::Create, &[])))
        .collect();
    assert_eq!(made.iter().filter(|it| it.is_ok()).count(), 3, "one a shard");
    let names: Vec<String> = (0..9).filter(|n| made[*n].is_ok()).map(|n| format!("r{n}")).collect();
    let joined: Vec<_> = names.iter().map(|name| arena.joins(owner, name)).collect();
    assert_eq!(joined[2], Err(ChatFault::ChatroomsFull));
    let others: Vec<usize> = ["ann", "bob"].map(|name| arena.login(name)).into();
    assert!(arena.joins(others[0], &names[0]).is_ok());
    assert_eq!(arena.joins(others[1], &names[0]), Err(ChatFault::ChatroomFull));
    arena.goes(others[0]);
    arena.pass_ms(2_000);
    let bob = others[1] - 1;
    assert!(arena.joins(bob, &names[0]).is_ok(), "a seat is gone with its session");
    let nobody = Arena::new(1, 1, |limits| limits.chatrooms_an_account_max = 0);
    let mut arena = nobody;
    let ann = arena.login("ann");
    let make = order("mine", ChatroomVerb::Create, &[]);
    assert_eq!(arena.ordered(ann, make.clone()), Err(ChatFault::Forbidden));
    assert_eq!(
        arena.operator(ChatroomOrder { room: room("mine").into(), ..make }),
        ChatDelivery::Done { number: 0 }
    );
}

#[test]
fn who_is_there_is_listed_in_pages_from_all_shards() {
    let (mut arena, owner, ann) = lobby(false);
    for n in 0..7 {
        let at = arena.login(&format!("p{n}"));
        arena.joins(at, "lobby").expect("it may");
    }
    arena.pass_ms(3_000);
    assert_eq!(arena.members(ann, "lobby", 0), Err(ChatFault::NotInChatroom));
    let (mut names, mut pages) = (Vec::new(), 0);
    loop {
        let page = arena.members(owner, "lobby", names.len() as u32).expect("it is there");
        assert_eq!((page.total, page.from as usize), (8, names.len()));
        if page.members.is_empty() {
            break;
        }
        pages += 1;
        names.extend(page.members.into_iter().map(|it| (it.member.address, it.role)));
    }
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let mut all = vec![(person("owner"), GroupRole::Owner)];
    all.extend((0..7).map(|n| (person(&format!("p{n}")), GroupRole::Member)));
    assert_eq!(names, all);
    assert!(pages >= 4);
}

#[test]
fn operators_list_rooms_speak_in_them_and_close_them() {
    let (mut arena, owner, _) = lobby(false);
    assert_eq!(arena.ordered(owner, order("attic", ChatroomVerb::Create, &[])), Ok(()));
    let mut found = Vec::new();
    for _ in 0..3 {
        match arena.command(ChatCommand::Chatrooms { after: None, count: 9 }) {
            ChatAnswer::Chatrooms(some) => found.extend(some.into_iter().map(|it| it.room)),
            other => panic!("{other:?}"),
        }
        arena.next_shard();
    }
    found.sort();
    assert_eq!(found, [room("attic"), room("lobby")]);
    let on = |verb| ChatroomOrder { room: room("lobby").into(), ..order("x", verb, &[]) };
    assert_eq!(arena.operator(on(ChatroomVerb::Announce)), ChatDelivery::Done { number: 0 });
    arena.rest();
    assert_eq!(&*arena.devices[owner].seats[&room("lobby")].state.announcement, "words");
    assert_eq!(arena.operator(on(ChatroomVerb::Close)), ChatDelivery::Done { number: 0 });
    assert_eq!(arena.devices[owner].outs, [ChatroomOut::Closed]);
    let told = arena.operator(on(ChatroomVerb::Close));
    assert_eq!(told, ChatDelivery::Failed { number: 0, why: ChatFault::NoChatroom });
}

#[test]
fn what_is_said_again_is_there_once_and_what_is_too_large_is_not() {
    let (mut arena, owner, _) = lobby(false);
    assert_eq!(arena.said(owner, "lobby", "once"), Ok(1));
    assert_eq!(arena.says_again(owner, "lobby", "once"), Ok(1));
    assert_eq!(arena.says_again(owner, "lobby", "other"), Err(ChatFault::Conflict));
    assert_eq!(arena.devices[owner].seats[&room("lobby")].heard, [1]);
    let long = "x".repeat(4_097);
    assert_eq!(arena.said(owner, "lobby", &long), Err(ChatFault::TooLarge));
}

#[test]
fn a_room_that_is_made_anew_goes_on_with_its_numbers_and_misses_none() {
    let (mut arena, owner, ann) = lobby(true);
    for n in 1..=3 {
        assert_eq!(arena.said(owner, "lobby", &format!("m{n}")), Ok(n));
    }
    assert_eq!(arena.ordered(owner, order("lobby", ChatroomVerb::Close, &[])), Ok(()));
    let made = ChatroomOrder { durable: true, ..order("lobby", ChatroomVerb::Create, &[]) };
    assert_eq!(arena.ordered(owner, made), Ok(()));
    for at in [owner, ann] {
        assert_eq!(arena.joins(at, "lobby"), Ok(vec![]), "nothing of what was said before");
    }
    assert_eq!(arena.said(ann, "lobby", "anew"), Ok(4));
    arena.pass_ms(5_000);
    for at in [owner, ann] {
        let seat = &arena.devices[at].seats[&room("lobby")];
        assert_eq!((&seat.heard[..], seat.missed), (&[4][..], 0));
    }
}

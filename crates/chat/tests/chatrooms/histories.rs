//! Random histories of sessions that come and go, with lost letters, slow consumers and crashes:
//! the messages that a session got, and those it was told it missed, are all there were.

use crate::arena::{Arena, addressee, order, room};
use model::chat::{ChatFault, ChatroomAsk, ChatroomVerb};

const ROOMS: [&str; 2] = ["lobby", "hall"];

/// Runs a history; returns the messages missed and heard, and the rooms begun anew.
fn history(seed: u64, shards: u16) -> [u64; 2] {
    println!("seed {seed}, {shards} shards");
    let mut arena = Arena::new(seed, shards, |limits| {
        limits.chatroom_members_max = 6;
        limits.chatroom_messages_per_s = 50;
        limits.chatroom_messages_burst = 20;
        limits.chatroom_waiting_max = if seed.is_multiple_of(2) { 3 } else { 1_000 };
    });
    open(&mut arena);
    let (mut missed, mut heard) = (0, 0);
    for _ in 0..6 {
        arena.loses = 12;
        (0..250).for_each(|_| step(&mut arena));
        arena.heal();
        missed += arena.check();
        let seats = arena.devices.iter().flat_map(|device| device.seats.values());
        heard += seats.map(|seat| seat.heard.len() as u64).sum::<u64>();
        if arena.rng.one_in(3) {
            arena.restart();
        }
    }
    [missed, heard]
}

/// One room keeps its messages over a restart, the other does not.
fn open(arena: &mut Arena) {
    let owner = arena.login("owner");
    for (name, durable) in ROOMS.into_iter().zip([true, false]) {
        let made = order(name, ChatroomVerb::Create, &[]);
        arena
            .ordered(owner, model::chat::ChatroomOrder { durable, ..made })
            .expect("it may be made");
    }
}

fn step(arena: &mut Arena) {
    let who = arena.rng.below(4);
    let name = ROOMS[arena.rng.below(2) as usize];
    if arena.devices.len() < 3 {
        arena.login(&format!("p{who}"));
        return;
    }
    let at = arena.rng.below(arena.devices.len() as u64) as usize;
    match arena.rng.below(40) {
        0 => drop(arena.login(&format!("p{who}"))),
        1 => arena.goes(at),
        2..=5 => {
            arena.asks(at, ChatroomAsk::Join { room: addressee(name), history: 3 });
        }
        6 if arena.devices[at].seats.contains_key(&room(name)) => {
            arena.asks(at, ChatroomAsk::Leave(addressee(name)));
            arena.devices[at].seats.remove(&room(name));
        }
        7 => arena.devices[at].reads ^= true,
        8..=27 => {
            let text = format!("message {}", arena.rng.below(1 << 40));
            arena.says(at, name, &text);
        }
        28..=33 => arena.rest(),
        34..=38 => {
            let ms = arena.rng.below(700);
            arena.pass_ms(ms);
        }
        _ if arena.rng.one_in(10) => arena.pass_ms(30_000),
        _ => {}
    }
}

#[test]
fn whatever_is_lost_and_whoever_does_not_read_all_that_was_said_is_had_or_counted_as_missed() {
    let (mut missed, mut heard) = (0, 0);
    for seed in 0..40 {
        let [some, more] = history(seed, 1 + (seed % 4) as u16);
        (missed, heard) = (missed + some, heard + more);
    }
    assert!(missed > 1_000 && heard > 1_000, "{missed} missed, {heard} heard");
}

#[test]
fn a_room_that_is_too_loud_refuses_what_is_too_much_and_hears_its_moderators() {
    let mut arena = Arena::new(1, 3, |limits| {
        (limits.chatroom_messages_per_s, limits.chatroom_messages_burst) = (1, 8);
    });
    open(&mut arena);
    let ann = arena.login("ann");
    for at in [0, ann] {
        arena.joins(at, "lobby").expect("it may");
    }
    let said: Vec<_> = (0..8).map(|n| arena.said(ann, "lobby", &format!("m{n}"))).collect();
    assert_eq!(said.iter().filter(|it| it.is_ok()).count(), 6, "three fourths of the burst");
    assert_eq!(said[6], Err(ChatFault::RateLimited));
    assert_eq!(arena.said(0, "lobby", "order!"), Ok(7), "what is left is for moderators");
    arena.pass_ms(10_000);
    assert_eq!(arena.said(ann, "lobby", "later"), Ok(8));
    assert_eq!(arena.devices[0].seats[&room("lobby")].heard, (1..=8).collect::<Vec<_>>());
}

/// A room of one shard, with this many sessions and messages before any turn.
fn crowd(sessions: usize, messages: usize, waiting_max: u32) -> Arena {
    let mut arena = Arena::new(3, 1, |limits| limits.chatroom_waiting_max = waiting_max);
    open(&mut arena);
    for n in 0..sessions {
        let at = arena.login(&format!("p{n}"));
        arena.joins(at, "hall").expect("it may");
    }
    (0..messages).for_each(|n| arena.says(1, "hall", &format!("m{n}")));
    arena
}

#[test]
fn what_is_said_to_many_goes_out_in_turns_and_others_have_theirs_in_between() {
    let mut arena = crowd(100, 500, 1_000);
    let heard = |arena: &Arena| {
        arena.devices[1..].iter().map(|it| it.seats[&room("hall")].heard.len()).sum::<usize>()
    };
    let (mut turns, mut is_more) = (vec![0], true);
    while is_more {
        is_more = arena.goes_on();
        turns.push(heard(&arena));
        if turns.len() == 3 {
            // Another device's request is served while most of the messages wait.
            assert!(arena.joins_now(0, "lobby"), "it is answered within a turn");
        }
    }
    let most = turns.windows(2).map(|two| two[1] - two[0]).max();
    assert!(most < Some(100 * 500 / 2), "a part of it in a turn: {turns:?}");
    assert_eq!(turns.last(), Some(&(100 * 500)), "all of it in the end, in order and once");
}

#[test]
fn of_what_a_shard_cannot_hand_on_the_oldest_is_left_out_and_counted() {
    let mut arena = crowd(20, 500, 64);
    arena.heal();
    assert_eq!(arena.check(), 20 * (500 - 64));
    let seat = &arena.devices[1].seats[&room("hall")];
    assert_eq!(seat.heard, (500 - 64 + 1..=500).collect::<Vec<_>>(), "the newest are heard");
}

#[test]
fn who_joins_once_more_while_messages_wait_for_it_has_them_once_or_misses_them() {
    let mut arena = crowd(100, 500, 1_000);
    arena.goes_on();
    let before = arena.devices[1].seats[&room("hall")].heard.len() as u64;
    assert!((1..500).contains(&before), "{before} of them");
    arena.asks(1, ChatroomAsk::Join { room: addressee("hall"), history: 3 });
    arena.heal();
    assert_eq!(arena.check(), 500 - before, "it is told so, and nobody else misses any");
    arena.says(1, "hall", "and on");
    arena.rest();
    assert_eq!(arena.devices[1].seats[&room("hall")].heard.last(), Some(&501));
}

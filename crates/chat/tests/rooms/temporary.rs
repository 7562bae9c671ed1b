//! Temporary groups end when the last occupant leaves their room, and not before, whatever is on
//! its way between shards.

use crate::world::*;
use base::prng::Prng;
use base::time::Now;
use model::account::Addressee;
use model::chat::*;
use model::close::CloseReason;
use model::ports::log::{Call, RowHome, Table, Write};
use model::service::Service;
use std::time::Duration;

#[test]
fn a_temporary_group_ends_with_the_last_who_is_in_its_room_and_its_name_is_free() {
    for shards in [1, 3] {
        let mut world = World::new(shards);
        world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
        assert_eq!(world.orders(ANN, GroupVerb::Unpersist, &[]), Err(ChatFault::Unchanged));
        for at in [ANN, BOB] {
            world.enters(at);
            world.rest();
            assert_eq!(world.devices[at].place, Place::Room);
        }
        world.leaves(ANN);
        world.rest();
        assert!(world.is_there(ANN), "bob is in its room");
        world.breaks(BOB);
        world.rest();
        assert!(!world.is_there(ANN));
        let reason = "The room was temporary, and nobody is in it any more.";
        assert_eq!(world.ended, [reason; 2], "ann and carol are told");
        // Carol creates a permanent group under the name.
        assert_eq!(world.orders(CAROL, GroupVerb::Create, &[]), Ok(()));
        world.enters(CAROL);
        world.rest();
        world.leaves(CAROL);
        world.rest();
        assert!(world.is_there(CAROL));
        world.pass_s(2 * GRACE_S);
        assert!(world.is_there(CAROL));
    }
}

#[test]
fn one_that_is_made_persistent_stays_and_its_owner_alone_says_which_it_is() {
    let mut world = World::new(3);
    world.orders(ANN, GroupVerb::Promote, &["bob"]).expect("an admin");
    assert_eq!(world.orders(BOB, GroupVerb::Unpersist, &[]), Err(ChatFault::Forbidden));
    assert_eq!(world.orders(ANN, GroupVerb::Persist, &[]), Err(ChatFault::Unchanged));
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.enters(ANN);
    world.rest();
    assert_eq!(world.orders(BOB, GroupVerb::Persist, &[]), Err(ChatFault::Forbidden));
    world.orders(ANN, GroupVerb::Persist, &[]).expect("persistent");
    world.leaves(ANN);
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN));
    world.restarts();
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN));
}

#[test]
fn who_is_in_its_room_when_it_becomes_temporary_keeps_it() {
    let mut world = World::new(3);
    world.enters(BOB);
    world.rest();
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN));
    world.leaves(BOB);
    world.rest();
    assert!(!world.is_there(ANN));
}

#[test]
fn without_anybody_it_stays_for_the_time_of_grace_after_a_start_too() {
    for comes_back in [false, true] {
        let mut world = World::new(3);
        world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
        world.pass_s(GRACE_S - 1);
        assert!(world.is_there(ANN));
        world.restarts();
        world.pass_s(GRACE_S - 1);
        assert!(world.is_there(ANN));
        if comes_back {
            world.enters(BOB);
            world.rest();
        }
        world.pass_s(2);
        assert_eq!(world.is_there(ANN), comes_back);
    }
}

#[test]
fn a_device_of_another_server_keeps_it_until_it_leaves() {
    let mut world = World::new(3);
    world.orders(ANN, GroupVerb::Unlock, &[]).expect("for everybody");
    world.eve_enters();
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN), "eve is there");
    world.eve(OccupancyAsk::Leave);
    assert!(!world.is_there(ANN));
}

#[test]
fn a_server_that_is_stopped_ends_none() {
    for shards in [1, 3] {
        for stops in [1, shards] {
            let mut world = World::new(shards);
            world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
            world.enters(BOB);
            world.rest();
            // Bob's shard is the first to shut its sessions down.
            let first = shard_of(&address("bob"), shards.into()).0;
            for n in (0..shards).map(|n| (first + n) % shards).take(stops.into()) {
                let now = world.now;
                world.shards[usize::from(n)].chat.set_draining(now, true);
            }
            world.breaks(BOB);
            world.rest();
            world.restarts();
            assert!(world.is_there(ANN), "{stops} of {shards} shards");
            world.pass_s(GRACE_S);
            assert!(!world.is_there(ANN), "he does not come back");
        }
    }
}

#[test]
fn a_session_that_is_away_is_there_and_leaves_when_its_time_is_over() {
    let mut world = World::with(1, |limits| limits.temporary_group_grace_s = 86_400);
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.enters(BOB);
    world.rest();
    let session = world.devices[BOB].session;
    let id = ResumptionId { session, secret: 7 };
    world.asks(BOB, ChatRequest::Keep(Box::new(Keeping { id, seconds: 60 })));
    let (kept, reason) = (KeptSession::new(1_u8), CloseReason::PeerReset);
    let detaching = Detaching { session, kept, bytes: 1, handled: 0, reason };
    world.asks(BOB, ChatRequest::Detach(Box::new(detaching)));
    world.devices[BOB].place = Place::Elsewhere;
    // Another device of Bob's is connected, and enters no room.
    world.connects_as(BOB, "phone");
    world.enters(ANN);
    world.rest();
    world.leaves(ANN);
    world.pass_s(59);
    assert!(world.is_there(ANN), "he may come back");
    let later = world.now.after(Duration::from_secs(2));
    world.now = Now::new(later, world.now.wall_ms + 2_000);
    // Turns as a shard does: again when it asks for that, or has received something.
    loop {
        let shard = &mut world.shards[0];
        let next = Service::turn(&mut shard.chat, world.now, &mut shard.fx);
        world.collects(0);
        let mut is_more = next.is_some_and(|at| at <= world.now.mono);
        while world.a_log_works(0) {
            is_more = true;
        }
        if !is_more {
            break;
        }
    }
    assert!(!world.ended.is_empty(), "nothing else woke the shard");
}

#[test]
fn two_devices_of_one_are_two() {
    let mut world = World::new(2);
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.enters(BOB);
    world.rest();
    let first = (world.devices[BOB].conn, world.devices[BOB].session);
    world.connects_as(BOB, "phone");
    world.enters(BOB);
    world.rest();
    world.breaks(BOB);
    world.rest();
    assert!(world.is_there(ANN), "the first is there");
    (world.devices[BOB].conn, world.devices[BOB].session) = first;
    world.breaks(BOB);
    world.rest();
    assert!(!world.is_there(ANN));
}

#[test]
fn a_shard_has_so_many_temporary_groups_and_no_more_and_channels_are_none() {
    let mut world = World::with(1, |limits| limits.temporary_groups_max = 0);
    assert_eq!(world.orders(ANN, GroupVerb::Unpersist, &[]), Err(ChatFault::TemporaryFull));
    let group = Addressee::parse("news@channel.a.example").expect("right");
    let session = world.devices[ANN].session;
    for (number, verb, expected) in [
        (901, GroupVerb::Create, Ok(())),
        (902, GroupVerb::Unpersist, Err(ChatFault::Invalid)),
        (903, GroupVerb::Persist, Err(ChatFault::Invalid)),
    ] {
        let (client_id, group) = (ClientMessageId([number as u8; 16]), Some(group.clone()));
        let (title, members) = ("News".into(), vec![]);
        let order = Box::new(GroupOrder { group, client_id, verb, title, members });
        world.asks(ANN, ChatRequest::Group { session, number, order });
        world.rest();
        assert_eq!(world.devices[ANN].answer.take(), Some(expected));
    }
}

#[test]
fn a_row_without_its_change_goes_and_a_change_without_its_row_is_put_right() {
    let mut world = World::new(1);
    world.orders(ANN, GroupVerb::Reveal, &[]).expect("public");
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    // The row is lost, and a message is sent to the group.
    let key = RowHome::key_of(conversation_of_room(), &[]);
    let delete = Call::Write(Write::Delete { table: Table::ChatTemporary, key });
    world.shards[0].log.answer(&delete).expect("it was there");
    world.restarts();
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN), "nobody knew");
    world.pass_s(GRACE_S);
    assert!(!world.is_there(ANN), "now it was known");
    assert_eq!(world.public(), 0, "it is in no list");
    let mut world = World::new(1);
    let (session, number, client_id) = (world.devices[ANN].session, 99, ClientMessageId([8; 16]));
    let (group, verb) = (Some(room().into()), GroupVerb::Unpersist);
    let (title, members) = ("".into(), vec![]);
    let order = Box::new(GroupOrder { group, client_id, verb, title, members });
    world.asks(ANN, ChatRequest::Group { session, number, order });
    let is_of_row = |call: &Call| match call {
        Call::Write(Write::Put { table, .. }) => *table == Table::ChatTemporary,
        _ => false,
    };
    let calls = &world.calls[0];
    assert!(calls.len() == 1 && is_of_row(&calls[0].1), "the row goes first: {calls:?}");
    // The log has stored the row, and the process crashes.
    let (_, call) = world.calls[0].pop_front().expect("the row");
    world.shards[0].log.answer(&call).expect("it is stored");
    world.restarts();
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN), "it never was temporary");
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.pass_s(2 * GRACE_S);
    assert!(!world.is_there(ANN), "now it was");
}

/// Devices come and go while words between shards lag; in the end no device is in the room. Returns
/// how often a device was in the room, and how often the group ended before a device entered.
fn history(seed: u64, shards: u16) -> [usize; 2] {
    println!("seed {seed}, {shards} shards");
    let (mut world, mut rng) = (World::new(shards), Prng::new(seed));
    if seed.is_multiple_of(2) {
        world.orders(CAROL, GroupVerb::Leave, &[]).expect("she is no member");
        world.orders(ANN, GroupVerb::Unlock, &[]).expect("she may come");
    }
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    let mut were_in = 0;
    for _ in 0..800 {
        let at = rng.below(PEOPLE.len() as u64) as usize;
        let n = rng.below(shards.into()) as usize;
        were_in += usize::from(world.devices.iter().any(|it| it.place == Place::Room));
        match (rng.below(16), world.devices[at].place) {
            (0, _) if world.devices[at].conn.is_none() => world.connects(at),
            (0 | 1, Place::Elsewhere) => world.enters(at),
            (0, _) if rng.one_in(4) => world.breaks(at),
            (0 | 1, _) => world.leaves(at),
            (2..=4, _) => drop(world.a_log_works(n)),
            (5..=10, _) => drop(world.a_word_arrives(rng.below(64) as usize)),
            _ => world.turns(n),
        }
        if !world.ended.is_empty() {
            break;
        }
    }
    (0..PEOPLE.len()).for_each(|at| world.leaves(at));
    world.rest();
    if world.devices[ANN].conn.is_none() {
        world.connects(ANN);
    }
    assert!(!world.is_there(ANN), "nobody is in it");
    [were_in, world.missed]
}

#[test]
fn whatever_is_on_its_way_it_ends_with_nobody_in_it_and_with_nobody_it_ends() {
    let mut all = [0; 2];
    for seed in 0..600 {
        let seen = history(seed, 2 + (seed % 3) as u16);
        all.iter_mut().zip(seen).for_each(|(all, seen)| *all += seen);
    }
    let [were_in, missed] = all;
    assert!(were_in > 1_000, "{were_in} steps with somebody in it");
    assert!(missed > 5, "{missed} were too late");
}

//! Expired messages take no room in a queue.

use crate::harness::{BrokerHarness, Client, connect, durable, limits, message};
use model::session::*;
use model::topic::{Publication, Qos};
use std::sync::Arc;

/// Messages that a queue has room for.
const ROOM: u32 = 300;

fn world() -> BrokerHarness {
    BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.queue_count_max = ROOM;
        // After a restart of a client that was here eight windows are taken for sent.
        limits.topics.inflight_max = 10;
        settings.limits = Arc::new(limits);
    })
}

/// A durable client that is subscribed, and away.
fn away(world: &mut BrokerHarness) {
    let client = world.client(durable("a"));
    world.subscribe(&client, "t", Qos::AtLeastOnce);
    world.cut(&client);
}

fn expiring(world: &BrokerHarness, text: &str, seconds: u32) -> Publication {
    let mut message = message("t", Qos::AtLeastOnce, text);
    message.expire_at = world.now.unix_s() + seconds;
    message
}

/// Publishes so many that expire in so many seconds.
fn fill(world: &mut BrokerHarness, source: &Client, count: u32, seconds: u32) {
    for n in 0..count {
        let message = expiring(world, &format!("expires {n}"), seconds);
        assert!(world.publish_at(source, 1, message).is_some_and(|it| it.is_ok()));
    }
}

/// Publishes so many that do not expire; their texts.
fn lasting(world: &mut BrokerHarness, source: &Client, count: u32) -> Vec<String> {
    let texts: Vec<String> = (0..count).map(|n| format!("lasts {n}")).collect();
    for text in &texts {
        world.send(source, 1, message("t", Qos::AtLeastOnce, text));
        assert!(world.taken(source).is_some_and(|(_, it)| it.is_ok()));
    }
    texts
}

/// The client is back, and acknowledges whatever comes: the texts.
fn back(world: &mut BrokerHarness) -> Vec<String> {
    let client = world.client(durable("a"));
    let mut texts = Vec::new();
    loop {
        let messages = world.messages(&client);
        if messages.is_empty() {
            world.audit();
            return texts;
        }
        for it in messages {
            texts.push(crate::harness::payload(&it));
            world.puback(&client, it.id);
        }
    }
}

#[test]
fn what_has_expired_makes_room_for_what_comes() {
    let mut world = world();
    away(&mut world);
    let source = world.client(connect("source"));
    fill(&mut world, &source, ROOM, 2);
    fill(&mut world, &source, 1, 2);
    assert_eq!(world.dropped(Drop::QueueCount), 1, "it is full, and nothing has expired");
    world.pass_s(3);
    let texts = lasting(&mut world, &source, ROOM);
    assert_eq!(world.dropped(Drop::Expired), ROOM.into());
    lasting(&mut world, &source, 1);
    assert_eq!(world.dropped(Drop::QueueCount), 2, "it is full again");
    world.audit();
    assert_eq!(back(&mut world), texts);
}

#[test]
fn what_has_not_expired_keeps_its_place_and_its_order() {
    let mut world = world();
    away(&mut world);
    let source = world.client(connect("source"));
    let mut texts = lasting(&mut world, &source, 100);
    fill(&mut world, &source, 100, 2);
    texts.extend(lasting(&mut world, &source, 50));
    fill(&mut world, &source, 50, 3_000);
    texts.extend((0..50).map(|n| format!("expires {n}")));
    world.pass_s(3);
    texts.extend(lasting(&mut world, &source, 100));
    assert_eq!((world.dropped(Drop::Expired), world.dropped(Drop::QueueCount)), (100, 0));
    assert_eq!(back(&mut world), texts);
}

#[test]
fn what_expired_while_the_process_was_not_there_makes_room_too() {
    for cuts in [true, false] {
        let mut world = world();
        away(&mut world);
        let source = world.client(connect("source"));
        fill(&mut world, &source, ROOM, 2);
        if !cuts {
            // The client is here when the process dies, and has taken nothing.
            let client = world.client(ConnectRequest { receive_max: 1, ..durable("a") });
            world.messages(&client);
        }
        world.crash();
        world.pass_s(3);
        let source = world.client(connect("source"));
        let texts = lasting(&mut world, &source, 50);
        assert_eq!(world.dropped(Drop::QueueCount), 0, "{cuts}");
        let got = back(&mut world);
        let lasts: Vec<&String> = got.iter().filter(|it| it.starts_with("lasts")).collect();
        assert_eq!(lasts, texts.iter().collect::<Vec<_>>(), "{cuts}");
    }
}

#[test]
fn what_waits_in_memory_and_has_expired_makes_room_too() {
    let mut world = world();
    let client = world.client(ConnectRequest { receive_max: 1, ..connect("a") });
    world.subscribe(&client, "t", Qos::AtLeastOnce);
    let source = world.client(connect("source"));
    lasting(&mut world, &source, 1);
    fill(&mut world, &source, ROOM, 2);
    world.pass_s(3);
    let texts = lasting(&mut world, &source, ROOM);
    assert_eq!(world.dropped(Drop::QueueCount), 0);
    let mut got = Vec::new();
    loop {
        let messages = world.messages(&client);
        let Some(first) = messages.first() else { break };
        got.push(crate::harness::payload(first));
        world.puback(&client, first.id);
    }
    assert_eq!(got[1..], texts);
    world.audit();
}

#[test]
fn a_queue_that_is_swept_holds_no_more_than_a_little_beyond_its_limit() {
    let mut world = world();
    away(&mut world);
    let source = world.client(connect("source"));
    lasting(&mut world, &source, ROOM - 1);
    fill(&mut world, &source, 1, 2);
    world.pass_s(3);
    // The log does not answer: what is read of it stays unknown.
    world.keeps = false;
    for id in 1..=600 {
        world.send(&source, id, message("t", Qos::AtLeastOnce, "more"));
    }
    world.keeps = true;
    world.run();
    world.audit();
    let got = back(&mut world).len();
    assert!(got <= ROOM as usize + 128, "{got}");
}

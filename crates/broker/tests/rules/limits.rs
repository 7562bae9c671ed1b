//! Each limit exactly, and one beyond.

use crate::world::{Client, World, connect, durable, limits, message, wish};
use broker::Letter;
use model::event::Counter;
use model::id::ShardId;
use model::limits::TopicLimits;
use model::session::*;
use model::topic::{Publication, Qos, Wish};
use std::sync::Arc;

/// Memory of an entry, bytes: `ENTRY_BYTES` of the broker.
const ENTRY: u64 = 45;

fn with(shards: u16, change: impl Fn(&mut TopicLimits) + 'static) -> World {
    World::with(shards, move |settings| {
        let mut limits = limits();
        change(&mut limits.topics);
        settings.limits = Arc::new(limits);
    })
}

fn heavy(topic: &str, payload: &str) -> Publication {
    message(topic, Qos::AtLeastOnce, payload)
}

/// A publisher's answers to so many messages, one after the other.
fn answers(world: &mut World, messages: Vec<Publication>) -> Vec<Option<Denial>> {
    let source = world.client(connect("source"));
    let ids = 1..;
    let all = ids.zip(messages);
    all.map(|(id, it)| world.publish_at(&source, id, it).expect("an answer").err()).collect()
}

#[test]
fn identifiers_topics_and_filters_are_as_long_as_they_may_be() {
    let mut world = with(1, |limits| {
        limits.client_id_bytes_max = 4;
        limits.topic_bytes_max = 5;
        limits.share_name_bytes_max = 3;
    });
    assert_eq!(world.refused(connect("abcde")), Denial::ClientIdInvalid);
    let a = world.client(connect("abcd"));
    let filters = ["12345", "123456", "$share/abc/12345", "$share/abcd/1", "$share/abc/123456"];
    let wishes = filters.map(|filter| wish(filter, Qos::AtMostOnce)).to_vec();
    let (granted, refused) = (Ok(Qos::AtMostOnce), Err(Denial::FilterInvalid));
    let results = world.subscribe_with(&a, wishes, None);
    assert_eq!(results, [granted, refused, granted, refused, refused]);
    let topics = ["12345", "123456"].map(|topic| heavy(topic, "x")).to_vec();
    let source = world.client(connect("s"));
    for (id, (topic, refused)) in
        (1..).zip(topics.into_iter().zip([None, Some(Denial::TopicInvalid)]))
    {
        let answer = world.publish_at(&source, id, topic).expect("an answer");
        assert_eq!(answer.err(), refused);
    }
}

#[test]
fn sessions_and_subscriptions_are_as_many_as_there_may_be() {
    let mut world = with(1, |limits| limits.sessions_max = 2);
    let a = world.client(connect("a"));
    world.client(connect("b"));
    assert_eq!(world.refused(connect("c")), Denial::Full);
    world.leave(&a);
    world.client(connect("c"));

    let (granted, refused) = (Ok(Qos::AtMostOnce), Err(Denial::Quota));
    let wishes = || ["1", "$share/g/2", "3", "1"].map(|it| wish(it, Qos::AtMostOnce)).to_vec();
    let mut world = with(1, |limits| limits.subscriptions_a_session_max = 2);
    let (a, b) = (world.client(connect("a")), world.client(connect("b")));
    for client in [&a, &b] {
        let results = world.subscribe_with(client, wishes(), None);
        assert_eq!(results, [granted, granted, refused, granted], "the same again is none more");
    }
    let mut world = with(1, |limits| limits.subscriptions_max = 3);
    let (a, b) = (world.client(connect("a")), world.client(connect("b")));
    assert_eq!(world.subscribe_with(&a, wishes(), None), [granted; 4]);
    let results = world.subscribe_with(&b, vec![wish("x", Qos::AtMostOnce)], None);
    assert_eq!(results, [refused]);
    assert_eq!(world.unsubscribe(&a, "3"), Ok(true));
    let results = world.subscribe_with(&b, vec![wish("x", Qos::AtMostOnce)], None);
    assert_eq!(results, [granted]);
}

/// A durable client that is away, and is subscribed to `t`.
fn away(world: &mut World) -> Client {
    let away = world.client(durable("away"));
    world.subscribe(&away, "t", Qos::AtLeastOnce);
    world.cut(&away);
    away
}

#[test]
fn a_queue_holds_as_many_and_as_much_as_it_may() {
    let cost = ENTRY + heavy("t", "x").weight() as u64;
    let messages = || (0..5).map(|_| heavy("t", "x")).collect::<Vec<_>>();
    for (count, bytes, queued) in
        [(3, u64::from(u32::MAX), 3), (100, 3 * cost, 3), (100, 3 * cost - 1, 2)]
    {
        let mut world = with(1, move |limits| {
            limits.queue_count_max = count;
            limits.queue_bytes_max = u32::try_from(bytes).expect("it fits");
        });
        away(&mut world);
        answers(&mut world, messages());
        assert_eq!(world.status().queued, queued);
        let dropped = world.dropped(Drop::QueueCount) + world.dropped(Drop::QueueBytes);
        assert_eq!(dropped, 5 - queued);
    }
}

#[test]
fn all_queues_hold_as_much_as_they_may() {
    // What the first message costs besides its body, which the log alone has afterwards.
    let mut world = World::new(1);
    away(&mut world);
    answers(&mut world, vec![heavy("t", "x")]);
    let place = world.status().queued_bytes;
    let most = place + heavy("t", "x").weight() as u64;
    for (bytes, queued) in [(most, 1), (most - 1, 0)] {
        let mut world = with(1, move |limits| limits.queues_bytes_max = bytes);
        away(&mut world);
        answers(&mut world, vec![heavy("t", "x")]);
        assert_eq!((world.status().queued, world.dropped(Drop::QueueBytes)), (queued, 1 - queued));
    }
}

#[test]
fn a_window_is_as_wide_as_it_may_be() {
    let mut world = with(1, |limits| limits.inflight_max = 2);
    let a = world.client(connect("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    answers(&mut world, (0..3).map(|_| heavy("t", "x")).collect());
    let got = world.messages(&a);
    assert_eq!(got.len(), 2);
    world.puback(&a, got[0].id);
    assert_eq!(world.messages(&a).len(), 1);
}

#[test]
fn retained_messages_are_as_many_and_as_much_as_they_may_be() {
    let kept = |topic: &str| {
        let mut message = heavy(topic, "x");
        message.retain = true;
        message
    };
    let weight = kept("1").weight() as u64;
    for (count, bytes, taken) in [(2, u64::MAX / 4, 2), (9, 2 * weight, 2), (9, 2 * weight - 1, 1)]
    {
        let mut world = with(1, move |limits| {
            (limits.retained_max, limits.retained_bytes_max) = (count, bytes);
        });
        let answers = answers(&mut world, ["1", "2", "3"].map(kept).to_vec());
        let mut wanted = vec![None; taken];
        wanted.resize(3, Some(Denial::Quota));
        assert_eq!(answers, wanted);
        assert_eq!(world.count(Counter::RetainedRefused), 3 - taken as u64);
    }
}

#[test]
fn delayed_messages_are_as_many_and_as_late_as_they_may_be() {
    let mut world = with(1, |limits| (limits.delay_s_max, limits.delayed_max) = (10, 2));
    let topics = ["$delayed/11/t", "$delayed/10/t", "$delayed/1/t", "$delayed/1/t"];
    let answers = answers(&mut world, topics.map(|topic| heavy(topic, "x")).to_vec());
    assert_eq!(answers, [Some(Denial::Quota), None, None, Some(Denial::Quota)]);
}

#[test]
fn a_client_may_come_so_often() {
    let mut world = with(1, |limits| limits.flaps_max = 2);
    for _ in 0..2 {
        world.client(connect("a"));
    }
    assert_eq!(world.count(Counter::SessionsDelayed), 0);
    let (_, heard) = world.try_connect(connect("a"));
    assert_eq!(heard, []);
    assert_eq!(world.count(Counter::SessionsDelayed), 1);
}

#[test]
fn packets_that_wait_have_so_much_room() {
    // 128 filters are looked at when a packet comes, the last one waits.
    let filters = || (100..229).map(|n| wish(&format!("f{n}"), Qos::AtMostOnce)).collect();
    let one = (2 * "f100".len() + size_of::<Wish>() + 48) as u64;
    for (room, ends) in [(one, false), (one - 1, true)] {
        let mut world = with(1, move |limits| limits.subscribes_bytes_max = room);
        let a = world.client(connect("a"));
        let (session, subscription_id, wishes) = (a.session, None, filters());
        let packet = Subscribe { session, id: 1, subscription_id, wishes };
        world.ask(a.conn, SessionRequest::Subscribe(Box::new(packet)));
        let heard = world.heard(a.conn);
        let ended = heard.iter().any(|word| matches!(word, SessionDelivery::End(_)));
        assert_eq!((ended, heard.len()), (ends, 1), "{heard:?}");
    }
}

/// A message of QoS 1 on its way to the other shard, and a publisher who waits for it.
fn on_its_way(world: &mut World, id: u16, source: &Client) -> Letter {
    world.send(source, id, heavy("t", "x"));
    let from = source.session.shard().0;
    let lane = world.letters.get_mut(&(from, 1 - from)).expect("letters");
    let at = lane.iter().rposition(|it| matches!(it, Letter::Publish { .. })).expect("one");
    lane.remove(at)
}

#[test]
fn letters_that_wait_for_a_full_mailbox_have_so_much_room() {
    let letter = |receipt| Letter::Publish {
        message: Arc::new(heavy("t", "x")),
        from: ShardId(0),
        receipt,
        once: 0,
    };
    let weight = letter(0).weight() as u64;
    for (room, taken) in [(3 * weight, 3), (3 * weight - 1, 2)] {
        let mut world = with(2, move |limits| limits.letters_bytes_max = room);
        let node = &mut world.nodes[0];
        for _ in 0..4 {
            node.broker.unsent(world.now, ShardId(1), letter(0), &mut node.fx);
        }
        assert_eq!(node.fx.counters.dropped_of(Drop::Busy), 4 - taken as u64);
        assert_eq!(node.broker.unsettled(), taken);
        // An answer is never dropped: somebody waits for it.
        let receipt = Letter::Receipt { number: 7, result: Ok(true) };
        node.broker.unsent(world.now, ShardId(1), receipt, &mut node.fx);
        assert_eq!(node.broker.unsettled(), taken + 1);
        world.pass_ms(3);
        assert_eq!(world.nodes[0].broker.unsettled(), 0, "they go when there is room");
    }
}

#[test]
fn who_waits_for_a_letter_that_has_no_room_is_told() {
    for has_room in [true, false] {
        let mut world = with(2, move |limits| {
            limits.letters_bytes_max = if has_room { 1 << 20 } else { 1 };
        });
        let name = world.name_on(1, "there");
        let there = world.client(durable(&name));
        world.subscribe(&there, "t", Qos::AtLeastOnce);
        let name = world.name_on(0, "source");
        let source = world.client(connect(&name));
        world.carries = false;
        let letter = on_its_way(&mut world, 1, &source);
        let node = &mut world.nodes[0];
        node.broker.unsent(world.now, ShardId(1), letter, &mut node.fx);
        world.carries = true;
        world.pass_ms(3);
        let answer = if has_room { Ok(Routed::Matched) } else { Err(Denial::Busy) };
        assert_eq!(world.taken(&source), Some((1, answer)));
        assert_eq!(world.messages(&there).len(), usize::from(has_room));
        world.audit();
    }
}

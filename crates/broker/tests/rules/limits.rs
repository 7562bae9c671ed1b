//! Each limit exactly, and one beyond.

use crate::harness::{BrokerHarness, Client, connect, durable, limits, message, wish};
use model::counters::TopicCounter;
use model::limits::TopicLimits;
use model::session::*;
use model::timeline::Message;
use model::topic::{Publication, Qos, SubscriptionOptions};
use std::sync::Arc;

/// Weight of a message in a timeline beside its topic and payload, bytes: its label, the head of
/// its row, and the weight of every message.
const BESIDE: u64 = 13 + 32 + Message::WEIGHT_BESIDE as u64;

/// Weight of a message in the log, bytes.
fn kept(message: &Publication) -> u64 {
    BESIDE + (message.topic().len() + message.payload().len()) as u64
}

fn with(shards: u16, change: impl Fn(&mut TopicLimits) + 'static) -> BrokerHarness {
    BrokerHarness::with(shards, move |settings| {
        let mut limits = limits();
        change(&mut limits.topics);
        settings.limits = Arc::new(limits);
    })
}

fn heavy(topic: &str, payload: &str) -> Publication {
    message(topic, Qos::AtLeastOnce, payload)
}

/// A publisher's answers to so many messages, one after the other.
fn answers(world: &mut BrokerHarness, messages: Vec<Publication>) -> Vec<Option<Denial>> {
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
fn away(world: &mut BrokerHarness) -> Client {
    let away = world.client(durable("away"));
    world.subscribe(&away, "t", Qos::AtLeastOnce);
    world.cut(&away);
    away
}

#[test]
fn a_queue_holds_as_many_and_as_much_as_it_may() {
    let cost = kept(&heavy("t", "x"));
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
    let mut world = BrokerHarness::new(1);
    away(&mut world);
    answers(&mut world, vec![heavy("t", "x")]);
    let place = world.status().queued_bytes;
    let most = place + kept(&heavy("t", "x"));
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
        assert_eq!(world.count(TopicCounter::RetainedRefused), 3 - taken as u64);
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
    for _ in 0..3 {
        world.client(connect("a"));
    }
    assert_eq!(world.count(TopicCounter::SessionsDelayed), 0);
    let (_, heard) = world.try_connect(connect("a"));
    assert_eq!(heard, []);
    assert_eq!(world.count(TopicCounter::SessionsDelayed), 1);
}

#[test]
fn packets_that_wait_have_so_much_room() {
    // 128 filters are looked at when a packet comes, the last one waits.
    let filters = || (100..229).map(|n| wish(&format!("f{n}"), Qos::AtMostOnce)).collect();
    let one = (2 * "f100".len() + size_of::<SubscriptionOptions>() + 48) as u64;
    for (room, ends) in [(one, false), (one - 1, true)] {
        let mut world = with(1, move |limits| limits.subscribes_bytes_max = room);
        let a = world.client(connect("a"));
        let (session, subscription_id, wishes) = (a.session, None, filters());
        let packet = SubscribeRequest { session, id: 1, subscription_id, wishes };
        world.ask(a.conn, SessionRequest::Subscribe(Box::new(packet)));
        let heard = world.heard(a.conn);
        let ended = heard.iter().any(|word| matches!(word, SessionDelivery::End(_)));
        assert_eq!((ended, heard.len()), (ends, 1), "{heard:?}");
    }
}

#[test]
fn so_many_who_come_too_often_wait_and_one_more_is_refused() {
    const MOST: u64 = 16_384;
    let mut world = with(1, |limits| limits.flaps_max = 0);
    let come = |world: &mut BrokerHarness, id: &str| {
        let conn = world.conn(id);
        world.tell(conn, SessionRequest::Connect(Box::new(connect(id))));
    };
    // Each has a connection, and takes it over.
    (0..MOST).for_each(|n| come(&mut world, &n.to_string()));
    world.client(connect("more"));
    (0..MOST).for_each(|n| come(&mut world, &n.to_string()));
    assert_eq!(world.refused(connect("more")), Denial::Busy);
    assert_eq!(world.count(TopicCounter::SessionsDelayed), MOST + 1);
    world.pass_s(60);
    assert_eq!(world.status().sessions_online, MOST + 1);
    let (_, heard) = world.try_connect(connect("more"));
    assert_eq!(heard, [], "there is room to wait again");
}

#[test]
fn so_many_bytes_are_on_their_way_to_a_client_and_one_message_at_least() {
    const MOST: usize = 512 * 1024;
    let none = heavy("t", "").weight();
    let half = MOST / 2 - none;
    for (sizes, sent) in
        [(vec![half; 3], 2), (vec![half, half + 1, 1], 1), (vec![2 * MOST, 1], 1), (vec![1; 5], 5)]
    {
        let mut world = BrokerHarness::new(1);
        let a = world.client(connect("a"));
        world.subscribe(&a, "t", Qos::AtLeastOnce);
        answers(&mut world, sizes.iter().map(|bytes| heavy("t", &"x".repeat(*bytes))).collect());
        let mut got = world.messages(&a);
        assert_eq!(got.len(), sent, "{sizes:?}");
        let mut count = 0;
        while let Some(first) = got.first() {
            (count, got) = (count + 1, {
                world.puback(&a, first.id);
                let rest = got[1..].to_vec();
                [rest, world.messages(&a)].concat()
            });
        }
        assert_eq!(count, sizes.len(), "all of them come");
    }
}

#[test]
fn so_many_rows_of_a_packet_are_asked_for_at_a_time() {
    // What is refused makes no row; a slice has 128.
    for (refused, asked) in [(0, 2_048), (1, 2_047 + 128)] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(durable("a"));
        world.keeps = false;
        let filter = |n| if n < refused { "$share/g".to_owned() } else { format!("f{n}") };
        let wishes = (0..5_000).map(|n| wish(&filter(n), Qos::AtLeastOnce)).collect();
        let packet = SubscribeRequest { session: a.session, id: 1, subscription_id: None, wishes };
        world.ask(a.conn, SessionRequest::Subscribe(Box::new(packet)));
        assert_eq!(world.nodes[0].fx.calls.len(), asked);
        world.keeps = true;
        world.run();
        let heard = world.heard(a.conn);
        let [SessionDelivery::Subscribed { results, .. }] = &heard[..] else { panic!("{heard:?}") };
        let granted = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!((results.len(), granted), (5_000, 5_000 - refused));
    }
}

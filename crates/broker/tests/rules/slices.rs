//! No packet stalls a shard: units of work are counted, never time.

use crate::harness::{BrokerHarness, Client, connect, durable, limits, message, wish};
use broker::UNITS_A_CALL_MAX;
use model::close::CloseReason;
use model::session::*;
use model::topic::{Qos, SubscriptionOptions};
use std::sync::Arc;

const MANY: usize = 10_000;

fn wishes(count: usize) -> Vec<SubscriptionOptions> {
    (0..count).map(|n| wish(&format!("dev/{n}/in"), Qos::AtLeastOnce)).collect()
}

/// No call was longer than one may be.
fn bounded(world: &BrokerHarness, what: &str) {
    for node in &world.nodes {
        let most = node.broker.units_most();
        assert!(most <= UNITS_A_CALL_MAX, "{what}: {most} units in one call");
    }
}

fn unsubscribe(world: &mut BrokerHarness, client: &Client, filters: Vec<Box<str>>) -> usize {
    let packet = UnsubscribeRequest { session: client.session, id: 5, filters };
    world.ask(client.conn, SessionRequest::Unsubscribe(Box::new(packet)));
    match world.heard(client.conn).pop() {
        Some(SessionDelivery::Unsubscribed { results, .. }) => {
            results.iter().filter(|result| **result == Ok(true)).count()
        }
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn ten_thousand_filters_come_and_go_in_slices() {
    for make in [connect, durable] {
        let mut world = BrokerHarness::new(2);
        let a = world.client(make("a"));
        let results = world.subscribe_with(&a, wishes(MANY), Some(7));
        assert_eq!(results, vec![Ok(Qos::AtLeastOnce); MANY]);
        bounded(&world, "SUBSCRIBE");
        assert_eq!(world.status().subscriptions, MANY as u64);
        let source = world.client(connect("source"));
        world.send(&source, 1, message("dev/4711/in", Qos::AtLeastOnce, "x"));
        let got = world.messages(&a);
        assert_eq!(got[0].subscription_ids.as_deref(), Some(&[7][..]));
        world.puback(&a, got[0].id);
        let filters = wishes(MANY).into_iter().map(|wish| wish.filter).collect();
        assert_eq!(unsubscribe(&mut world, &a, filters), MANY);
        bounded(&world, "UNSUBSCRIBE");
        assert_eq!(world.status().subscriptions, 0);
        world.audit();
    }
}

#[test]
fn equal_filters_in_one_packet_are_one_subscription() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    let results = world.subscribe_with(&a, vec![wish("t", Qos::AtLeastOnce); 170_000], None);
    assert_eq!(results.len(), 170_000);
    bounded(&world, "170,000 equal filters");
    assert_eq!(world.status().subscriptions, 1);
    world.audit();
}

#[test]
fn packets_of_a_session_are_answered_in_their_order() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    let session = a.session;
    let (subscription_id, filter) = (None, "dev/0/in".into());
    let long = SubscribeRequest { session, id: 1, subscription_id, wishes: wishes(MANY) };
    world.tell(a.conn, SessionRequest::Subscribe(Box::new(long)));
    let filters = wishes(MANY).into_iter().map(|wish| wish.filter).collect();
    let all = UnsubscribeRequest { session, id: 2, filters };
    world.tell(a.conn, SessionRequest::Unsubscribe(Box::new(all)));
    let again = SubscribeRequest {
        session,
        id: 3,
        subscription_id,
        wishes: vec![SubscriptionOptions { filter, ..wish("x", Qos::AtMostOnce) }],
    };
    world.ask(a.conn, SessionRequest::Subscribe(Box::new(again)));
    let ids: Vec<u16> = world
        .heard(a.conn)
        .iter()
        .map(|word| match word {
            SessionDelivery::Subscribed { id, .. } | SessionDelivery::Unsubscribed { id, .. } => {
                *id
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((ids, world.status().subscriptions), (vec![1, 2, 3], 1));
    world.audit();
}

#[test]
fn packets_that_wait_have_a_limit_in_bytes() {
    for packets in [2, 80] {
        let mut world = BrokerHarness::with(1, |settings| {
            let mut limits = limits();
            limits.topics.subscribes_bytes_max = 1 << 22;
            settings.limits = Arc::new(limits);
        });
        let a = world.client(connect("a"));
        for id in 0..packets {
            let (session, subscription_id, wishes) = (a.session, None, wishes(1_000));
            let packet = SubscribeRequest { session, id, subscription_id, wishes };
            world.tell(a.conn, SessionRequest::Subscribe(Box::new(packet)));
        }
        world.run();
        let ended = world.heard(a.conn).into_iter().find_map(|word| match word {
            SessionDelivery::End(denied) => Some(denied.why),
            _ => None,
        });
        assert_eq!(ended, (packets == 80).then_some(Denial::Quota));
        world.audit();
    }
}

#[test]
fn a_publish_looks_at_nothing_but_what_matches() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.subscribe_with(&a, wishes(MANY), Some(7));
    let source = world.client(connect("source"));
    let before = world.nodes[0].broker.units_spent();
    world.publish(&source, "dev/1/in", "x");
    assert!(world.nodes[0].broker.units_spent() - before <= 4, "one of 10,000 with identifiers");
    assert_eq!(world.messages(&a)[0].subscription_ids.as_deref(), Some(&[7][..]));
    // Every combination of `+` at thirteen levels: all of them match, and are one delivery.
    let (all, topic) = overlapping(13);
    let b = world.client(connect("b"));
    for (n, wishes) in all.chunks(1_024).enumerate() {
        world.subscribe_with(&b, wishes.to_vec(), Some(n as u32 + 1));
    }
    bounded(&world, "overlapping filters");
    let before = world.nodes[0].broker.units_spent();
    world.publish(&source, &topic, "x");
    // Each node is looked at, and then who holds each filter.
    let spent = world.nodes[0].broker.units_spent() - before;
    assert!((2_048..4_096).contains(&spent), "{spent}");
    bounded(&world, "8,192 overlapping filters");
    let got = world.messages(&b);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].subscription_ids.as_deref(), Some(&[1, 2, 3, 4, 5, 6, 7, 8][..]));
}

/// All filters that match a name of so many levels `x` without `#`, and the name.
fn overlapping(levels: usize) -> (Vec<SubscriptionOptions>, String) {
    let level = |n: usize, bit: usize| if n >> bit & 1 == 0 { "+" } else { "x" };
    let filter = |n: usize| (0..levels).map(|bit| level(n, bit)).collect::<Vec<_>>().join("/");
    let wishes = (0..1 << levels).map(|n| wish(&filter(n), Qos::AtMostOnce));
    (wishes.collect(), vec!["x"; levels].join("/"))
}

#[test]
fn a_hundred_thousand_filters_that_match_one_name_are_gone_through_in_slices() {
    let mut world = BrokerHarness::new(1);
    let (all, topic) = overlapping(17);
    let mut clients = Vec::new();
    for (n, wishes) in all.chunks(8_192).enumerate() {
        let client = world.client(connect(&format!("c{n}")));
        world.subscribe_with(&client, wishes.to_vec(), Some(n as u32 + 1));
        clients.push(client);
    }
    let source = world.client(connect("source"));
    bounded(&world, "131,072 subscriptions");
    world.publish(&source, &topic, "x");
    bounded(&world, "131,072 overlapping filters");
    for (n, client) in clients.iter().enumerate() {
        let got = world.messages(client);
        assert_eq!(got.len(), 1, "each gets one copy");
        assert_eq!(got[0].subscription_ids.as_deref(), Some(&[n as u32 + 1][..]));
    }
    world.audit();
}

#[test]
fn filters_that_nearly_match_are_work_that_is_counted() {
    let mut world = BrokerHarness::new(1);
    let (all, topic) = overlapping(14);
    let client = world.client(connect("c"));
    for wishes in all.chunks(4_096) {
        let longer = |wish: &SubscriptionOptions| {
            let filter = format!("{}/y", wish.filter).into();
            SubscriptionOptions { filter, ..wish.clone() }
        };
        world.subscribe_with(&client, wishes.iter().map(longer).collect(), None);
    }
    let source = world.client(connect("source"));
    let before = world.nodes[0].broker.units_spent();
    world.publish(&source, &format!("{topic}/x"), "x");
    let spent = world.nodes[0].broker.units_spent() - before;
    assert!(spent > (1 << 14) / 8, "{spent}: each node is looked at");
    bounded(&world, "nodes that lead nowhere");
    assert_eq!(world.payloads(&client).len(), 0);
    world.publish(&source, &format!("{topic}/y"), "y");
    assert_eq!(world.payloads(&client), ["y"]);
    world.audit();
}

#[test]
fn filters_that_come_and_go_meanwhile_double_nothing_and_lose_nothing_of_others() {
    let mut world = BrokerHarness::new(1);
    let (all, topic) = overlapping(14);
    let [a, b, c, late] = ["a", "b", "c", "late"].map(|id| world.client(connect(id)));
    // Every third filter each, so that they are neighbours everywhere.
    for (n, client) in [&a, &b, &c].into_iter().enumerate() {
        let third = all.iter().skip(n).step_by(3).cloned().collect();
        world.subscribe_with(client, third, None);
    }
    let source = world.client(connect("source"));
    let (session, message) = (source.session, Arc::new(message(&topic, Qos::AtMostOnce, "x")));
    let word = SessionRequest::Publish { session, id: 0, again: false, message };
    world.tell(source.conn, word);
    // The message stands in line; what follows goes on in slices between its own.
    let filters = all.iter().skip(1).step_by(3).map(|wish| wish.filter.clone()).collect();
    let packet = UnsubscribeRequest { session: b.session, id: 5, filters };
    world.tell(b.conn, SessionRequest::Unsubscribe(Box::new(packet)));
    let wishes = all.iter().step_by(2).cloned().collect();
    let (session, subscription_id) = (late.session, None);
    let packet = SubscribeRequest { session, id: 6, subscription_id, wishes };
    world.tell(late.conn, SessionRequest::Subscribe(Box::new(packet)));
    // One is subscribed all the time, and otherwise in between (MQTT5 3.8.4-4).
    let plain = SubscriptionOptions { no_local: true, ..wish("", Qos::AtMostOnce) };
    let other = |wish: &SubscriptionOptions| SubscriptionOptions {
        filter: wish.filter.clone(),
        ..plain.clone()
    };
    let wishes = all.iter().skip(2).step_by(3).map(other).collect();
    let (session, subscription_id) = (c.session, None);
    let packet = SubscribeRequest { session, id: 7, subscription_id, wishes };
    world.tell(c.conn, SessionRequest::Subscribe(Box::new(packet)));
    world.run();
    bounded(&world, "filters that come and go");
    let mut copies = |client: &Client| {
        let heard = world.heard(client.conn);
        heard.iter().filter(|word| matches!(word, SessionDelivery::Publish(_))).count()
    };
    assert_eq!([&a, &c].map(&mut copies), [1, 1], "they were there all the time");
    assert!([&b, &late].map(&mut copies).into_iter().all(|copies| copies <= 1));
    world.audit();
}

#[test]
fn a_session_with_ten_thousand_shares_leaves_its_groups_in_slices_and_costs_them_nothing() {
    let group = |n: usize| format!("$share/g{n}/dev/{n}/in");
    for (shards, lasts) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut world = BrokerHarness::new(shards);
        let a = world.client(if lasts { durable("a") } else { connect("a") });
        let wishes = (0..MANY).map(|n| wish(&group(n), Qos::AtLeastOnce)).collect();
        world.subscribe_with(&a, wishes, None);
        let b = world.client(connect("b"));
        let some = [0, 17, 4_711, MANY - 1];
        world.subscribe_with(&b, some.map(|n| wish(&group(n), Qos::AtLeastOnce)).into(), None);
        let source = world.client(connect("source"));
        // The session ends, and not a turn passes.
        if lasts {
            let conn = world.conn("a");
            let connect = ConnectRequest { clean_start: true, ..durable("a") };
            world.tell(conn, SessionRequest::Connect(Box::new(connect)));
        } else {
            let (session, reason) = (a.session, CloseReason::PeerReset);
            world.tell(a.conn, SessionRequest::Closed { session, reason });
        }
        let left = world.status().subscriptions;
        assert!(left > 9_000, "{left}: that was more than a slice");
        for (id, n) in (1..).zip(some) {
            let message = Arc::new(message(&format!("dev/{n}/in"), Qos::AtLeastOnce, "x"));
            let (session, again) = (source.session, false);
            world.tell(source.conn, SessionRequest::Publish { session, id, again, message });
        }
        world.run();
        bounded(&world, "10,000 shares");
        assert_eq!(world.payloads(&b).len(), some.len(), "none went to a session that is gone");
        assert_eq!(world.status().subscriptions, some.len() as u64);
        world.audit();
    }
}

#[test]
fn a_message_passes_over_members_of_other_shards_that_are_ending() {
    let mut world = BrokerHarness::new(3);
    let group = |n: usize| format!("$share/g{n}/dev/{n}/in");
    let gone = [1, 2].map(|shard| {
        let client = world.client(connect(&world.name_on(shard, "gone")));
        let wishes = (0..1_000).map(|n| wish(&group(n), Qos::AtLeastOnce)).collect();
        world.subscribe_with(&client, wishes, None);
        client
    });
    let left = world.client(connect(&world.name_on(0, "left")));
    let some: Vec<usize> = (0..1_000).step_by(97).collect();
    let wishes = some.iter().map(|n| wish(&group(*n), Qos::AtLeastOnce)).collect();
    world.subscribe_with(&left, wishes, None);
    let source = world.client(connect("source"));
    for client in &gone {
        let (session, reason) = (client.session, CloseReason::PeerReset);
        world.tell(client.conn, SessionRequest::Closed { session, reason });
    }
    for (id, n) in (1..).zip(&some) {
        let message = Arc::new(message(&format!("dev/{n}/in"), Qos::AtLeastOnce, "x"));
        let (session, again) = (source.session, false);
        world.tell(source.conn, SessionRequest::Publish { session, id, again, message });
    }
    world.run();
    assert_eq!(world.payloads(&left).len(), some.len(), "all, and each once");
    assert_eq!(world.status().subscriptions, some.len() as u64);
    assert_eq!(world.dropped(Drop::NoMember), 0);
    world.audit();
}

#[test]
fn a_session_with_ten_thousand_filters_ends_in_slices() {
    for make in [connect, durable] {
        let mut world = BrokerHarness::new(2);
        let a = world.client(make("a"));
        world.subscribe_with(&a, wishes(MANY), Some(1));
        world.cut(&a);
        world.pass_s(4_000);
        bounded(&world, "the end of a session");
        let status = world.status();
        assert_eq!((status.sessions, status.subscriptions), (0, 0));
        world.audit();
    }
}

#[test]
fn an_expiring_queue_goes_in_slices() {
    const COUNT: u32 = 100_000;
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    world.cut(&a);
    let source = world.client(connect("source"));
    let (session, message) = (source.session, Arc::new(message("t", Qos::AtLeastOnce, "x")));
    for n in 0..COUNT {
        let (id, message) = ((n % 60_000) as u16 + 1, message.clone());
        let word = SessionRequest::Publish { session, id, again: false, message };
        world.tell(source.conn, word);
        if n % 1_000 == 0 {
            world.run();
        }
    }
    world.run();
    assert!(world.status().queued > 60_000, "{:?}", world.status());
    world.pass_s(4_000);
    bounded(&world, "100,000 queued messages");
    let status = world.status();
    assert_eq!((status.sessions, status.queued, status.queued_bytes), (1, 0, 0));
    world.audit();
}

#[test]
fn many_sessions_that_expire_at_once_go_in_slices() {
    const COUNT: u32 = 20_000;
    let mut world = BrokerHarness::new(1);
    for n in 0..COUNT {
        let conn = world.conn("x");
        let connect = ConnectRequest { expiry_s: 60, ..durable(&n.to_string()) };
        world.tell(conn, SessionRequest::Connect(Box::new(connect)));
        if n % 500 == 0 {
            world.run();
        }
    }
    world.run();
    // After a start all are away since the same second.
    world.crash();
    assert_eq!(world.status().sessions, u64::from(COUNT));
    world.pass_s(61);
    bounded(&world, "20,000 sessions at once");
    assert_eq!(world.status().sessions, 0);
    world.audit();
}

#[test]
fn who_comes_while_the_last_session_ends_waits_and_gets_none_of_it() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.subscribe_with(&a, wishes(MANY), None);
    // Not a turn passes between: the old session goes, and the new one has to wait for it.
    let conn = world.conn("a");
    let connect = ConnectRequest { clean_start: true, ..durable("a") };
    world.tell(conn, SessionRequest::Connect(Box::new(connect)));
    let node = &world.nodes[0];
    let is_welcome = |word: &SessionDelivery| matches!(word, SessionDelivery::Connected(_));
    let told = node.fx.deliveries.iter().any(|(to, word)| *to == conn && is_welcome(word));
    assert!(!told, "its last session is not gone yet");
    world.run();
    let heard = world.heard(conn);
    let Some(SessionDelivery::Connected(connected)) = heard.first() else { panic!("{heard:?}") };
    assert!(!connected.present);
    assert_eq!(world.status().subscriptions, 0);
    let new = Client { conn, session: connected.session, connected: (**connected).clone() };
    world.subscribe(&new, "dev/1/in", Qos::AtLeastOnce);
    world.crash();
    let status = world.status();
    assert_eq!((status.sessions, status.subscriptions), (1, 1), "and its rows are its own");
    world.audit();
}

#[test]
fn a_crash_while_a_session_ends_leaves_nothing_of_it() {
    for calls in [1, 2, 3, 100, 500] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(durable("a"));
        world.subscribe_with(&a, wishes(1_000), None);
        world.keeps = false;
        world.leave(&a);
        let b = world.conn("a");
        let connect = ConnectRequest { clean_start: true, ..durable("a") };
        world.tell(b, SessionRequest::Connect(Box::new(connect)));
        world.run();
        world.keeps = true;
        world.crash_after(calls);
        let status = world.status();
        assert!(status.sessions <= 1, "{calls}: {status:?}");
        let whole = status.subscriptions == 0 || status.subscriptions == 1_000;
        assert!(whole, "{calls}: {status:?}");
        world.audit();
    }
}

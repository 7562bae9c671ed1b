//! A message for very many goes in slices, and nothing else changes.

use crate::harness::{BrokerHarness, Client, connect, durable, limits, message, payload, wish};
use broker::UNITS_A_CALL_MAX;
use model::ports::log::StoreError;
use model::session::*;
use model::topic::{Publication, Qos};
use std::cell::Cell;
use std::sync::Arc;

/// Clients with these subscriptions, a few hundred at a time.
fn crowd(
    world: &mut BrokerHarness,
    make: impl Fn(&str) -> ConnectRequest,
    (count, filters, qos): (usize, &[&str], Qos),
) -> Vec<Client> {
    let mut conns = Vec::new();
    for n in 0..count {
        let id = format!("c{n}");
        conns.push(world.conn(&id));
        world.tell(conns[n], SessionRequest::Connect(Box::new(make(&id))));
        if n % 500 == 0 {
            world.run();
        }
    }
    world.run();
    let mut clients = Vec::new();
    for conn in conns {
        let Some(SessionDelivery::Connected(connected)) = world.heard(conn).pop() else {
            panic!("not connected");
        };
        let (session, connected) = (connected.session, *connected);
        let wishes = filters.iter().map(|filter| wish(filter, qos)).collect();
        let packet = SubscribeRequest { session, id: 1, subscription_id: Some(7), wishes };
        world.tell(conn, SessionRequest::Subscribe(Box::new(packet)));
        clients.push(Client { conn, session, connected });
    }
    world.run();
    clients.iter().for_each(|client| assert_eq!(world.heard(client.conn).len(), 1));
    clients
}

fn say(world: &mut BrokerHarness, client: &Client, id: u16, message: Publication) {
    let (session, message) = (client.session, Arc::new(message));
    world.tell(client.conn, SessionRequest::Publish { session, id, again: false, message });
}

fn bounded(world: &BrokerHarness) {
    for node in &world.nodes {
        let most = node.broker.units_most();
        assert!(most <= UNITS_A_CALL_MAX, "{most} units in one call");
    }
}

#[test]
fn a_publish_to_ten_thousand_goes_in_slices_and_in_order() {
    const COUNT: usize = 10_000;
    let mut world = BrokerHarness::new(1);
    let all = crowd(&mut world, connect, (COUNT, &["t"], Qos::AtMostOnce));
    let witness = world.client(connect("witness"));
    world.subscribe_with(&witness, vec![wish("u", Qos::AtMostOnce)], None);
    let (one, other) = (world.client(connect("one")), world.client(connect("other")));
    let before = world.nodes[0].broker.units_spent();
    say(&mut world, &one, 0, message("t", Qos::AtMostOnce, "1"));
    say(&mut world, &other, 0, message("t", Qos::AtMostOnce, "2"));
    say(&mut world, &one, 0, message("u", Qos::AtMostOnce, "behind"));
    say(&mut world, &other, 0, message("t", Qos::AtMostOnce, "3"));
    let stranger = world.client(connect("stranger"));
    world.collect(0);
    bounded(&world);
    say(&mut world, &stranger, 0, message("u", Qos::AtMostOnce, "not behind"));
    world.run();
    bounded(&world);
    assert!(world.nodes[0].broker.units_spent() - before > 3 * COUNT as u64);
    for client in &all {
        assert_eq!(world.payloads(client), ["1", "2", "3"]);
    }
    let mut got = world.payloads(&witness);
    got.sort();
    assert_eq!(got, ["behind", "not behind"]);
    assert_eq!(world.nodes[0].broker.unsettled(), 0);
    world.audit();
}

#[test]
fn nothing_of_a_publisher_and_nothing_on_a_topic_overtakes_and_the_rest_does() {
    let mut world = BrokerHarness::new(1);
    crowd(&mut world, connect, (3_000, &["t"], Qos::AtMostOnce));
    let witness = world.client(connect("witness"));
    let wishes = ["t", "u", "v"].map(|filter| wish(filter, Qos::AtMostOnce)).to_vec();
    world.subscribe_with(&witness, wishes, None);
    let (one, other) = (world.client(connect("one")), world.client(connect("other")));
    say(&mut world, &one, 0, message("t", Qos::AtMostOnce, "1"));
    say(&mut world, &one, 0, message("u", Qos::AtMostOnce, "2"));
    say(&mut world, &other, 0, message("v", Qos::AtMostOnce, "free"));
    say(&mut world, &other, 0, message("t", Qos::AtMostOnce, "3"));
    say(&mut world, &other, 0, message("v", Qos::AtMostOnce, "4"));
    // Not a turn has passed.
    world.collect(0);
    assert_eq!(world.payloads(&witness), ["free"]);
    world.run();
    assert_eq!(world.payloads(&witness), ["1", "2", "3", "4"]);
}

#[test]
fn overlapping_subscriptions_are_one_copy_in_whichever_slice() {
    let mut world = BrokerHarness::new(1);
    let all = crowd(&mut world, connect, (2_500, &["t", "+", "#"], Qos::AtMostOnce));
    let one = world.client(connect("one"));
    world.subscribe_with(&one, vec![wish("t", Qos::AtLeastOnce)], None);
    world.publish(&one, "t", "x");
    bounded(&world);
    for client in all.iter().chain([&one]) {
        assert_eq!(world.payloads(client), ["x"]);
    }
}

#[test]
fn the_answer_comes_when_the_last_slice_is_stored() {
    for refused in [false, true] {
        let mut world = BrokerHarness::new(1);
        let all = crowd(&mut world, durable, (3_000, &["t"], Qos::AtLeastOnce));
        let one = world.client(connect("one"));
        world.keeps = false;
        world.send(&one, 1, message("t", Qos::AtLeastOnce, "x"));
        let calls = world.nodes[0].fx.calls.len();
        assert!(calls >= 3, "{calls} appends");
        world.complete(calls - 1, |_| Ok(()));
        assert_eq!(world.taken(&one), None, "one is not stored");
        world.complete(1, |_| if refused { Err(StoreError::Full) } else { Ok(()) });
        let answer = if refused { Err(Denial::StoreFull) } else { Ok(Routed::Matched) };
        assert_eq!(world.taken(&one), Some((1, answer)));
        let got = all.iter().filter(|client| world.messages(client).len() == 1).count();
        assert!(if refused { got < 3_000 } else { got == 3_000 }, "{got}");
        bounded(&world);
        world.audit();
    }
}

#[test]
fn a_crash_between_slices_of_qos_2_doubles_nothing_and_loses_nothing() {
    for stored in [0, 1, 1_500, 2_999] {
        let mut world = BrokerHarness::new(1);
        crowd(&mut world, durable, (3_000, &["t"], Qos::ExactlyOnce));
        let one = world.client(durable("one"));
        world.keeps = false;
        world.send(&one, 7, message("t", Qos::ExactlyOnce, "x"));
        assert_eq!(world.nodes[0].fx.calls.len(), 1, "the mark alone");
        assert_eq!(world.taken(&one), None);
        world.complete_one(0);
        world.run();
        for _ in 0..stored {
            world.complete_one(0);
        }
        assert_eq!(world.taken(&one), None);
        world.keeps = true;
        world.crash();
        assert_eq!(world.status().queued, stored as u64);
        let again = world.client(durable("one"));
        world.send_again(&again, 7, message("t", Qos::ExactlyOnce, "x"));
        assert_eq!(world.taken(&again), Some((7, Ok(Routed::Matched))));
        assert_eq!(world.status().queued, 3_000);
        world.audit();
    }
}

#[test]
fn a_mark_that_the_log_refuses_lets_nothing_go_and_holds_nothing_up() {
    let mut world = BrokerHarness::new(1);
    let all = crowd(&mut world, connect, (1_500, &["t"], Qos::AtMostOnce));
    let one = world.client(durable("one"));
    world.keeps = false;
    world.send(&one, 7, message("t", Qos::ExactlyOnce, "x"));
    world.send(&one, 0, message("t", Qos::AtMostOnce, "y"));
    let first = Cell::new(true);
    world.keeps = true;
    world.complete(1, |_| if first.take() { Err(StoreError::Full) } else { Ok(()) });
    assert_eq!(world.taken(&one), Some((7, Err(Denial::StoreFull))));
    for client in &all {
        assert_eq!(world.payloads(client), ["y"]);
    }
    world.audit();
}

#[test]
fn what_stands_in_line_has_a_limit_in_bytes() {
    let cost = 256 + message("t", Qos::AtLeastOnce, "x").weight() as u64;
    for (room, taken) in [(3 * cost, 3), (3 * cost - 1, 2)] {
        for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
            let mut world = BrokerHarness::with(1, move |settings| {
                let mut limits = limits();
                limits.topics.fan_outs_bytes_max = room;
                settings.limits = Arc::new(limits);
            });
            let all = crowd(&mut world, connect, (1_025, &["t"], Qos::AtMostOnce));
            let one = world.client(connect("one"));
            let mut answers = Vec::new();
            for n in 1..=4 {
                let id = if qos == Qos::AtMostOnce { 0 } else { n };
                say(&mut world, &one, id, message("t", qos, "x"));
            }
            world.run();
            answers.extend(std::iter::from_fn(|| world.taken(&one)).map(|(_, result)| result));
            let mut wanted = vec![Ok(Routed::Matched); taken];
            wanted.resize(4, Err(Denial::Busy));
            if qos == Qos::AtMostOnce {
                wanted.clear();
            }
            assert_eq!((answers, world.dropped(Drop::Busy)), (wanted, 4 - taken as u64));
            assert_eq!(world.messages(&all[0]).len(), taken);
            world.audit();
        }
    }
}

#[test]
fn whoever_publishes_faster_than_it_goes_out_is_told_of_before_the_line_is_full() {
    let cost = 256 + message("t", Qos::AtMostOnce, "x").weight() as u64;
    let mut world = BrokerHarness::with(1, move |settings| {
        let mut limits = limits();
        limits.topics.fan_outs_bytes_max = 32 * cost;
        settings.limits = Arc::new(limits);
    });
    crowd(&mut world, connect, (1_025, &["t"], Qos::AtMostOnce));
    let one = world.client(connect("one"));
    for behind in [false, false, true] {
        say(&mut world, &one, 0, message("t", Qos::AtMostOnce, "x"));
        assert_eq!(world.nodes[0].broker.is_behind(), behind);
    }
    world.run();
    assert!(!world.nodes[0].broker.is_behind());
    assert_eq!(world.dropped(Drop::Busy), 0);
}

#[test]
fn up_to_so_many_are_served_at_once() {
    for (count, at_once) in [(1_024, true), (1_025, false)] {
        let mut world = BrokerHarness::new(1);
        let all = crowd(&mut world, connect, (count, &["t"], Qos::AtMostOnce));
        let one = world.client(connect("one"));
        say(&mut world, &one, 0, message("t", Qos::AtMostOnce, "x"));
        world.collect(0);
        assert_eq!(world.messages(&all[0]).len(), usize::from(at_once));
        world.run();
        let got: usize = all.iter().map(|client| world.messages(client).len()).sum();
        assert_eq!(got, count - usize::from(at_once));
    }
}

#[test]
fn who_comes_and_goes_between_slices_gets_it_once_at_most() {
    let mut world = BrokerHarness::new(1);
    let all = crowd(&mut world, connect, (3_000, &["t"], Qos::AtMostOnce));
    let one = world.client(connect("one"));
    say(&mut world, &one, 0, message("t", Qos::AtMostOnce, "x"));
    let node = &mut world.nodes[0];
    node.broker.turn(world.now, &mut node.fx);
    // Of those served and of those who are not, some go, and others take their slots.
    for client in [&all[0], &all[2_999]] {
        world.tell(
            client.conn,
            SessionRequest::Closed {
                session: client.session,
                reason: model::close::CloseReason::PeerReset,
            },
        );
    }
    let late = [world.conn("late"), world.conn("later")];
    for (conn, id) in late.iter().zip(["late", "later"]) {
        world.tell(*conn, SessionRequest::Connect(Box::new(connect(id))));
    }
    world.run();
    let mut count = 0;
    for client in &all[1..2_999] {
        let got = world.messages(client);
        count += got.len();
        assert!(got.iter().all(|it| payload(it) == "x"));
    }
    assert_eq!(count, 2_998);
    world.audit();
}

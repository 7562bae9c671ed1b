//! Packet identifiers, windows, and what is sent again.

use crate::harness::{BrokerHarness, connect, durable, limits, message};
use model::counters::TopicCounter;
use model::session::*;
use model::topic::{Publication, Qos};
use std::sync::Arc;

fn fill(world: &mut BrokerHarness, qos: Qos, count: u16) -> crate::harness::Client {
    let source = world.client(connect("source"));
    for n in 1..=count {
        world.send(&source, n, message("t", qos, &n.to_string()));
    }
    source
}

#[test]
fn no_more_is_on_the_way_than_the_client_takes() {
    for make in [connect, durable] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(ConnectRequest { receive_max: 2, ..make("a") });
        world.subscribe(&a, "t", Qos::ExactlyOnce);
        let source = fill(&mut world, Qos::AtLeastOnce, 5);
        let first = world.messages(&a);
        assert_eq!(first.iter().map(|o| o.id).collect::<Vec<_>>(), [1, 2]);
        world.send(&source, 0, message("t", Qos::AtMostOnce, "zero"));
        assert_eq!(world.payloads(&a), ["zero"], "QoS 0 does not wait for the window");
        world.puback(&a, 2);
        assert_eq!(world.payloads(&a), ["3"]);
        world.puback(&a, 2);
        assert_eq!(world.payloads(&a), [""; 0], "an answer is good for one message");
        world.puback(&a, 1);
        world.puback(&a, 3);
        assert_eq!(world.payloads(&a), ["4", "5"]);
        world.audit();
    }
}

#[test]
fn the_server_has_a_limit_of_its_own_and_one_in_bytes() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.inflight_max = 3;
        settings.limits = Arc::new(limits);
    });
    let a = world.client(connect("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    fill(&mut world, Qos::AtLeastOnce, 5);
    assert_eq!(world.messages(&a).len(), 3);
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    let source = world.client(connect("source"));
    for n in 1..=4 {
        let mut message = Publication::new("t", &[], &vec![0; 400_000]);
        message.qos = Qos::AtLeastOnce;
        world.send(&source, n, message);
    }
    assert_eq!(world.messages(&a).len(), 1, "half a megabyte, but always one");
    world.puback(&a, 1);
    assert_eq!(world.messages(&a).len(), 1);
    world.audit();
}

#[test]
fn what_is_unacknowledged_is_sent_again_on_resume_and_only_then_in_order_with_dup() {
    for crash in [false, true] {
        let mut world = BrokerHarness::new(2);
        let a = world.client(durable("a"));
        world.subscribe(&a, "t", Qos::ExactlyOnce);
        let source = fill(&mut world, Qos::AtLeastOnce, 3);
        for n in 4..=5 {
            world.send(&source, n, message("t", Qos::ExactlyOnce, &n.to_string()));
        }
        let first = world.messages(&a);
        assert!(first.iter().all(|outgoing| !outgoing.again), "first sent with DUP 0");
        world.puback(&a, first[1].id);
        world.pass_s(100);
        assert_eq!(world.payloads(&a), [""; 0], "nothing is sent again while it is connected");
        match crash {
            true => world.crash(),
            false => world.cut(&a),
        }
        let b = world.client(durable("a"));
        let again = world.messages(&b);
        let ids = |all: &[Outgoing]| all.iter().map(|o| (o.id, o.qos)).collect::<Vec<_>>();
        let left: Vec<_> = [&first[..1], &first[2..]].concat();
        assert_eq!(ids(&again), ids(&left), "the same identifiers, in order");
        assert!(again.iter().all(|outgoing| outgoing.again), "DUP is set");
        world.audit();
    }
}

#[test]
fn after_pubrec_a_message_is_released_and_never_sent_again() {
    for crash in [false, true] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(durable("a"));
        world.subscribe(&a, "t", Qos::ExactlyOnce);
        fill(&mut world, Qos::ExactlyOnce, 3);
        let ids: Vec<_> = world.messages(&a).iter().map(|o| o.id).collect();
        for &id in &ids[..2] {
            world.ack(&a, id, AckStep::Pubrec(false));
        }
        let release = |id| SessionDelivery::Release { id, unknown: false };
        assert_eq!(world.heard(a.conn), [release(ids[0]), release(ids[1])], "in their order");
        world.ack(&a, ids[0], AckStep::Pubrec(false));
        assert_eq!(world.heard(a.conn), [release(ids[0])], "said again when asked again");
        world.ack(&a, ids[0], AckStep::Pubcomp);
        match crash {
            true => world.crash(),
            false => world.cut(&a),
        }
        let b = world.client(durable("a"));
        let heard = world.heard(b.conn);
        assert_eq!(heard[0], release(ids[1]));
        match &heard[1..] {
            [SessionDelivery::Publish(outgoing)] => assert_eq!(outgoing.id, ids[2]),
            other => panic!("{other:?}"),
        }
        world.ack(&b, ids[1], AckStep::Pubcomp);
        world.ack(&b, ids[2], AckStep::Pubrec(false));
        world.ack(&b, ids[2], AckStep::Pubcomp);
        assert_eq!(world.status().queued, 0);
        world.cut(&b);
        world.crash();
        let c = world.client(durable("a"));
        assert_eq!(world.heard(c.conn), [], "all is over");
        world.audit();
    }
}

#[test]
fn a_refusal_by_the_client_is_an_acknowledgement() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(ConnectRequest { receive_max: 1, ..durable("a") });
    world.subscribe(&a, "t", Qos::ExactlyOnce);
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t", Qos::AtLeastOnce, "1"));
    world.send(&source, 2, message("t", Qos::ExactlyOnce, "2"));
    world.send(&source, 3, message("t", Qos::ExactlyOnce, "3"));
    for (payload, step) in [("1", AckStep::Puback(true)), ("2", AckStep::Pubrec(true))] {
        let messages = world.messages(&a);
        assert_eq!(crate::harness::payload(&messages[0]), payload);
        world.ack(&a, messages[0].id, step);
    }
    let third = world.messages(&a);
    world.ack(&a, third[0].id, AckStep::Unsendable);
    assert_eq!((world.dropped(Drop::ClientRefused), world.dropped(Drop::TooLarge)), (2, 1));
    world.cut(&a);
    let b = world.client(durable("a"));
    assert_eq!(world.heard(b.conn), []);
    world.audit();
}

#[test]
fn an_identifier_in_use_is_not_given_again_and_a_free_one_is() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    let source = world.client(connect("source"));
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..70_000u32 {
        world.tell(
            source.conn,
            SessionRequest::Publish {
                session: source.session,
                id: 1,
                again: false,
                message: Arc::new(message("t", Qos::AtLeastOnce, "x")),
            },
        );
        let node = &mut world.nodes[0];
        let id = node.fx.deliveries.iter().find_map(|(_, word)| match word {
            SessionDelivery::Publish(outgoing) => Some(outgoing.id),
            _ => None,
        });
        node.fx.deliveries.clear();
        node.fx.events.clear();
        let id = id.expect("it is delivered");
        assert_ne!(id, 0);
        seen.insert(id);
        if n > 0 {
            assert_ne!(id, 1, "the first one was never answered");
            let step = AckStep::Puback(false);
            world.tell(a.conn, SessionRequest::Acked { session: a.session, id, step });
        }
    }
    assert_eq!(seen.len(), 65_535, "all of them are used");
}

#[test]
fn answers_to_a_publisher_come_in_the_order_of_its_messages() {
    let mut world = BrokerHarness::new(1);
    let away = world.client(durable("away"));
    world.subscribe(&away, "kept", Qos::AtLeastOnce);
    world.keeps = false;
    let a = world.client(connect("a"));
    for (id, topic, qos) in [
        (1, "kept", Qos::AtLeastOnce),
        (2, "loose", Qos::AtLeastOnce),
        (3, "kept", Qos::ExactlyOnce),
        (4, "loose", Qos::ExactlyOnce),
    ] {
        world.send(&a, id, message(topic, qos, "x"));
    }
    assert_eq!(world.heard(a.conn), [], "the second waits for the first");
    world.complete(1, |_| Ok(()));
    let mut ids = || std::iter::from_fn(|| world.taken(&a)).map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(), [1, 2]);
    world.complete(usize::MAX, |_| Ok(()));
    let ids: Vec<_> = std::iter::from_fn(|| world.taken(&a)).map(|(id, _)| id).collect();
    assert_eq!(ids, [3, 4]);
    world.audit();
}

#[test]
fn qos_0_is_sent_without_identifier_and_dup_and_is_lost_when_nobody_is_there() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::ExactlyOnce);
    let source = world.client(connect("source"));
    world.publish(&source, "t", "x");
    let messages = world.messages(&a);
    assert_eq!((messages[0].id, messages[0].again, messages[0].qos), (0, false, Qos::AtMostOnce));
    world.cut(&a);
    world.publish(&source, "t", "y");
    assert_eq!(world.dropped(Drop::Offline), 1);
    let mut keeps = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.queue_qos0 = true;
        settings.limits = Arc::new(limits);
    });
    let a = keeps.client(durable("a"));
    keeps.subscribe(&a, "t", Qos::ExactlyOnce);
    keeps.cut(&a);
    let source = keeps.client(connect("source"));
    keeps.publish(&source, "t", "y");
    keeps.send(&source, 1, message("t", Qos::AtLeastOnce, "z"));
    let b = keeps.client(durable("a"));
    assert_eq!(keeps.payloads(&b), ["y", "z"], "unless the operator says otherwise");
    keeps.audit();
}

#[test]
fn dup_of_what_goes_out_is_not_that_of_what_came_in() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    let message = Arc::new(message("t", Qos::AtLeastOnce, "x"));
    let word = SessionRequest::Publish { session: a.session, id: 1, again: true, message };
    world.ask(a.conn, word);
    let heard = world.heard(a.conn);
    let outgoing = heard.iter().find_map(|word| match word {
        SessionDelivery::Publish(outgoing) => Some(outgoing),
        _ => None,
    });
    assert!(!outgoing.expect("it comes").again);
}

#[test]
fn what_expired_is_not_sent_but_what_was_sent_does_not_expire() {
    for make in [connect, durable] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(ConnectRequest { receive_max: 1, ..make("a") });
        world.subscribe(&a, "t", Qos::ExactlyOnce);
        let source = world.client(connect("source"));
        let soon = world.now.unix_s() + 10;
        for n in 1..=3 {
            let mut message = message("t", Qos::ExactlyOnce, &n.to_string());
            message.expire_at = if n == 3 { 0 } else { soon };
            world.send(&source, n, message);
        }
        let first = world.messages(&a);
        assert_eq!(first.len(), 1);
        world.pass_s(20);
        world.ack(&a, first[0].id, AckStep::Pubrec(false));
        let release = SessionDelivery::Release { id: first[0].id, unknown: false };
        assert_eq!(world.heard(a.conn), [release], "the exchange goes on though it expired");
        world.ack(&a, first[0].id, AckStep::Pubcomp);
        assert_eq!(world.payloads(&a), ["3"]);
        assert_eq!(world.dropped(Drop::Expired), 1);
        world.audit();
    }
}

#[test]
fn a_full_queue_drops_by_its_policy_and_counts() {
    for oldest in [false, true] {
        let mut world = BrokerHarness::with(1, move |settings| {
            let mut limits = limits();
            (limits.topics.queue_count_max, limits.topics.queue_drops_oldest) = (3, oldest);
            settings.limits = Arc::new(limits);
        });
        let a = world.client(durable("a"));
        world.subscribe(&a, "t", Qos::AtLeastOnce);
        world.cut(&a);
        fill(&mut world, Qos::AtLeastOnce, 5);
        assert_eq!(world.dropped(Drop::QueueCount), 2);
        world.audit();
        world.crash();
        let b = world.client(durable("a"));
        let expected = if oldest { ["3", "4", "5"] } else { ["1", "2", "3"] };
        assert_eq!(world.payloads(&b), expected);
        world.audit();
    }
}

#[test]
fn a_queue_has_a_limit_in_bytes() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.queue_bytes_max = 1_200;
        settings.limits = Arc::new(limits);
    });
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    world.cut(&a);
    let source = world.client(connect("source"));
    for n in 1..=3 {
        let long = "x".repeat(600);
        world.send(&source, n, message("t", Qos::AtLeastOnce, &long));
    }
    assert_eq!(world.dropped(Drop::QueueBytes), 2);
    assert_eq!(world.count(TopicCounter::Queued), 1);
}

#[test]
fn what_the_machine_dropped_is_counted() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    let (session, count, why) = (a.session, 7, Drop::SlowReader);
    world.ask(a.conn, SessionRequest::Dropped { session, count, why });
    assert_eq!(world.dropped(Drop::SlowReader), 7);
}

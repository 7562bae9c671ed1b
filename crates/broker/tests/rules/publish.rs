//! Messages find their receivers.

use crate::harness::{BrokerHarness, connect, message, payload, wish};
use model::session::{AckStep, Denial, Routed, SessionDelivery};
use model::topic::Qos;

#[test]
fn a_message_reaches_subscribers_of_its_shard_and_of_others() {
    let mut world = BrokerHarness::new(3);
    let names: Vec<_> = (0..3).map(|shard| world.name_on(shard, "s")).collect();
    let clients: Vec<_> = names.iter().map(|name| world.client(connect(name))).collect();
    for client in &clients {
        world.subscribe(client, "a/+/c", Qos::AtMostOnce);
    }
    world.publish(&clients[0], "a/b/c", "hello");
    world.publish(&clients[0], "a/b/d", "nobody");
    for client in &clients {
        assert_eq!(world.payloads(client), ["hello"]);
    }
    world.audit();
}

#[test]
fn qos_1_is_acknowledged_on_both_sides() {
    let mut world = BrokerHarness::new(2);
    let (a, b) = (world.name_on(0, "a"), world.name_on(1, "b"));
    let (a, b) = (world.client(connect(&a)), world.client(connect(&b)));
    world.subscribe(&b, "t", Qos::AtLeastOnce);
    let answer = world.publish_at(&a, 9, message("t", Qos::AtLeastOnce, "x"));
    assert_eq!(answer, Some(Ok(Routed::Matched)));
    let messages = world.messages(&b);
    assert_eq!((messages.len(), messages[0].id, messages[0].again), (1, 1, false));
    world.puback(&b, 1);
    let answer = world.publish_at(&a, 9, message("u", Qos::AtLeastOnce, "x"));
    assert_eq!(answer, Some(Ok(Routed::NoSubscriber)));
    assert_eq!(world.status().queued, 0);
    world.audit();
}

#[test]
fn qos_2_is_delivered_once() {
    let mut world = BrokerHarness::new(1);
    let (a, b) = (world.client(connect("a")), world.client(connect("b")));
    world.subscribe(&b, "t", Qos::ExactlyOnce);
    for _ in 0..3 {
        let answer = world.publish_at(&a, 5, message("t", Qos::ExactlyOnce, "x"));
        assert_eq!(answer, Some(Ok(Routed::Matched)));
    }
    let messages = world.messages(&b);
    assert_eq!((messages.len(), messages[0].qos), (1, Qos::ExactlyOnce));
    world.release(&a, 5);
    let done = SessionDelivery::Completed { id: 5, unknown: false };
    assert_eq!(world.heard(a.conn), [done]);
    let id = messages[0].id;
    world.ack(&b, id, AckStep::Pubrec(false));
    assert_eq!(world.heard(b.conn), [SessionDelivery::Release { id, unknown: false }]);
    world.ack(&b, id, AckStep::Pubcomp);
    world.send(&a, 5, message("t", Qos::ExactlyOnce, "y"));
    assert_eq!(world.payloads(&b), ["y"], "after PUBCOMP the identifier is a new message's");
    world.audit();
}

#[test]
fn an_unknown_identifier_is_said_to_be_unknown() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.release(&a, 5);
    assert_eq!(world.heard(a.conn), [SessionDelivery::Completed { id: 5, unknown: true }]);
    world.ack(&a, 8, AckStep::Pubrec(false));
    assert_eq!(world.heard(a.conn), [SessionDelivery::Release { id: 8, unknown: true }]);
    world.ack(&a, 8, AckStep::Puback(false));
    assert_eq!(world.heard(a.conn), []);
}

#[test]
fn overlapping_subscriptions_make_one_copy_with_the_highest_qos_and_all_identifiers() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    for (at, (filter, qos)) in [
        ("t/#", Qos::AtMostOnce),
        ("t/+", Qos::ExactlyOnce),
        ("t/x", Qos::AtLeastOnce),
        ("u", Qos::ExactlyOnce),
    ]
    .into_iter()
    .enumerate()
    {
        let id = Some(at as u32 + 1).filter(|&id| id != 2);
        world.subscribe_with(&a, vec![wish(filter, qos)], id);
    }
    world.send(&a, 3, message("t/x", Qos::ExactlyOnce, "x"));
    let heard = world.heard(a.conn).into_iter().filter_map(|word| match word {
        SessionDelivery::Publish(outgoing) => Some(outgoing),
        _ => None,
    });
    let heard: Vec<_> = heard.collect();
    assert_eq!((heard.len(), heard[0].qos), (1, Qos::ExactlyOnce));
    assert_eq!(heard[0].subscription_ids.as_deref(), Some(&[1, 3][..]));
    assert_eq!(payload(&heard[0]), "x");
}

#[test]
fn topics_of_the_servers_own_cannot_be_published_to() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    for topic in ["$SYS/x", "$share/g/t", "$delayed/5", "$delayed/5/", "$delayed/x/t"] {
        let answer = world.publish_at(&a, 1, message(topic, Qos::AtLeastOnce, "x"));
        assert_eq!(answer, Some(Err(Denial::TopicInvalid)), "{topic}");
    }
}

//! Much of one thing.

use crate::harness::{BrokerHarness, connect, durable, limits, message};
use model::counters::TopicCounter;
use model::session::*;
use model::topic::Qos;
use std::sync::Arc;

#[test]
fn ten_thousand_take_overs_of_one_identifier_leave_one_session() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.flaps_max = u16::MAX;
        settings.limits = Arc::new(limits);
    });
    let mut last = world.client(durable("a"));
    world.subscribe(&last, "t", Qos::AtLeastOnce);
    for n in 0..10_000u32 {
        let new = world.client(durable("a"));
        assert!(new.connected.present, "round {n}");
        let told = world.heard(last.conn);
        assert!(matches!(&told[..], [SessionDelivery::End(_)]));
        world.cut(&last);
        last = new;
    }
    assert_eq!(world.count(TopicCounter::SessionsTakenOver), 10_000);
    let status = world.status();
    assert_eq!((status.sessions, status.sessions_online, status.subscriptions), (1, 1, 1));
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t", Qos::AtLeastOnce, "x"));
    assert_eq!(world.payloads(&last), ["x"]);
    world.audit();
}

#[test]
fn a_subscriber_of_everything_gets_all_retained_messages_page_by_page() {
    const COUNT: usize = 100_000;
    for (shards, qos) in [(1, Qos::AtMostOnce), (3, Qos::AtMostOnce), (2, Qos::AtLeastOnce)] {
        let mut world = BrokerHarness::new(shards);
        let source = world.client(connect("source"));
        for n in 0..COUNT {
            let mut message = message(&format!("t/{n}"), qos, "x");
            message.retain = true;
            let (session, id) = (source.session, if qos == Qos::AtMostOnce { 0 } else { 1 });
            let message = Arc::new(message);
            world.tell(source.conn, SessionRequest::Publish { session, id, again: false, message });
            if n % 1_000 == 0 {
                world.run();
            }
        }
        world.run();
        world.heard(source.conn);
        assert_eq!(world.status().retained, COUNT as u64);
        let a = world.client(connect("a"));
        world.subscribe(&a, "#", qos);
        let (mut got, mut most) = (0, 0);
        loop {
            let messages = world.messages(&a);
            if messages.is_empty() {
                break;
            }
            (got, most) = (got + messages.len(), most.max(messages.len()));
            match qos {
                Qos::AtMostOnce => {
                    world.ask(a.conn, SessionRequest::Ready { session: a.session });
                }
                _ => messages.iter().for_each(|outgoing| world.puback(&a, outgoing.id)),
            }
        }
        assert_eq!(got, COUNT, "all of them");
        assert!(most <= 200, "{most} at once");
        world.audit();
    }
}

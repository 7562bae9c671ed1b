//! A log that takes some calls and refuses others: what is promised nevertheless.

use crate::harness::{BrokerHarness, Client, connect, durable, message};
use model::ports::log::{Call, StoreError, Write};
use model::session::*;
use model::topic::Qos;
use std::cell::Cell;

const BUSY: Result<(), StoreError> = Err(StoreError::Busy);

fn released(id: u16) -> SessionDelivery {
    SessionDelivery::Release { id, unknown: false }
}

/// A durable receiver that has a message of QoS 2, with its identifier.
fn receiver(world: &mut BrokerHarness) -> (Client, u16) {
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::ExactlyOnce);
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t", Qos::ExactlyOnce, "x"));
    let id = world.messages(&a)[0].id;
    (a, id)
}

#[test]
fn a_client_hears_of_its_release_when_the_mark_is_written_and_not_before() {
    let mut world = BrokerHarness::new(1);
    let (a, id) = receiver(&mut world);
    world.keeps = false;
    world.ack(&a, id, AckStep::Pubrec(false));
    for _ in 0..3 {
        world.complete(usize::MAX, |_| BUSY);
        assert_eq!(world.heard(a.conn), [], "nothing is known to the log");
        world.pass_s(2);
    }
    world.cut(&a);
    let a = world.client(durable("a"));
    assert_eq!(world.heard(a.conn), []);
    world.keeps = true;
    world.pass_s(2);
    assert_eq!(world.heard(a.conn), [released(id)]);
    world.ack(&a, id, AckStep::Pubcomp);
    assert_eq!(world.nodes[0].log.restoration().entries(), 0);
    world.audit();
}

#[test]
fn a_message_that_was_received_does_not_outlive_its_mark() {
    // The message leaves the log, and when it has its mark does; a crash may come between.
    for (left, again) in [(0, true), (1, true), (2, false)] {
        let mut world = BrokerHarness::new(1);
        let (a, id) = receiver(&mut world);
        world.keeps = false;
        world.ack(&a, id, AckStep::Pubrec(false));
        // Whatever leaves the log before the client is done is refused.
        for _ in 0..2 {
            world.complete(usize::MAX, |call| match call {
                Call::Write(Write::Remove { .. }) => BUSY,
                _ => Ok(()),
            });
        }
        assert_eq!(world.heard(a.conn), [released(id)]);
        world.ack(&a, id, AckStep::Pubcomp);
        (0..left).for_each(|_| world.complete(usize::MAX, |_| Ok(())));
        world.crash();
        world.keeps = true;
        world.run();
        assert_eq!(world.status().queued, 0, "it is no message that waits");
        let a = world.client(durable("a"));
        let heard = world.heard(a.conn);
        assert_eq!(heard, vec![released(id); usize::from(again)], "the message was heard");
        world.ack(&a, id, AckStep::Pubcomp);
        world.run();
        assert_eq!(world.nodes[0].log.restoration().entries(), 0);
        world.audit();
    }
}

/// A message of QoS 2 for two sessions, which one of them is refused. The publisher is told so.
fn refused_to_one(world: &mut BrokerHarness, protocol: &'static str) -> [Client; 3] {
    let source = world.client(ConnectRequest { protocol, ..durable("source") });
    let [a, b] = ["a", "b"].map(|name| world.client(durable(name)));
    world.subscribe(&a, "t", Qos::ExactlyOnce);
    world.subscribe(&b, "t", Qos::AtLeastOnce);
    world.keeps = false;
    world.send(&source, 7, message("t", Qos::ExactlyOnce, "x"));
    world.complete(usize::MAX, |_| Ok(()));
    let at = Cell::new(0);
    world.complete(usize::MAX, |_| {
        at.set(at.get() + 1);
        if at.get() == 2 { BUSY } else { Ok(()) }
    });
    assert!(at.get() >= 2, "the message was two appends behind its mark");
    assert_eq!(world.taken(&source), Some((7, Err(Denial::Busy))));
    world.keeps = true;
    world.run();
    [source, a, b]
}

#[test]
fn what_one_receiver_was_refused_is_said_again_and_the_others_have_it_once() {
    for protocol in ["mqtt311", "mqtt5"] {
        let mut world = BrokerHarness::new(1);
        let [source, a, b] = refused_to_one(&mut world, protocol);
        // The connection broke, and perhaps the answer was lost with it.
        world.cut(&source);
        let source = world.client(ConnectRequest { protocol, ..durable("source") });
        world.send_again(&source, 7, message("t", Qos::ExactlyOnce, "x"));
        assert_eq!(world.taken(&source), Some((7, Ok(Routed::Matched))));
        world.release(&source, 7);
        let done = SessionDelivery::Completed { id: 7, unknown: false };
        assert_eq!(world.heard(source.conn), [done]);
        assert_eq!([world.payloads(&a), world.payloads(&b)], [["x"], ["x"]], "{protocol}");
        world.audit();
    }
}

#[test]
fn after_a_refusal_its_identifier_may_be_another_messages() {
    let mut world = BrokerHarness::new(1);
    let [source, a, b] = refused_to_one(&mut world, "mqtt5");
    world.send(&source, 7, message("t", Qos::ExactlyOnce, "y"));
    assert_eq!(world.taken(&source), Some((7, Ok(Routed::Matched))));
    let heard = [world.payloads(&a), world.payloads(&b)];
    assert!(heard.iter().all(|of| of.last().is_some_and(|last| last == "y")), "{heard:?}");
    world.release(&source, 7);
    world.crash();
    let source = world.client(durable("source"));
    world.send(&source, 7, message("t", Qos::ExactlyOnce, "z"));
    let a = world.client(durable("a"));
    assert!(world.payloads(&a).contains(&"z".to_owned()));
    world.audit();
}

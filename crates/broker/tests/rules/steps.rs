//! Answers of another kind than their exchange awaits.

use crate::harness::{BrokerHarness, Client, connect, durable, message};
use model::close::CloseReason;
use model::session::*;
use model::topic::Qos;

const WRONG_FOR_QOS_1: [AckStep; 3] =
    [AckStep::Pubrec(false), AckStep::Pubrec(true), AckStep::Pubcomp];
const WRONG_FOR_QOS_2: [AckStep; 3] =
    [AckStep::Puback(false), AckStep::Puback(true), AckStep::Pubcomp];

/// A receiver of one message, and its identifier.
fn receiver(world: &mut BrokerHarness, connect: ConnectRequest, qos: Qos) -> (Client, u16) {
    let a = world.client(connect);
    world.subscribe(&a, "t", Qos::ExactlyOnce);
    let source = world.client(crate::harness::connect("source"));
    world.send(&source, 1, message("t", qos, "x"));
    let messages = world.messages(&a);
    assert_eq!(messages.len(), 1);
    (a, messages[0].id)
}

/// The connection was ended for a protocol error, and nothing else was said.
fn ended(world: &mut BrokerHarness, client: &Client) {
    let heard = world.heard(client.conn);
    let [SessionDelivery::End(denied)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((denied.why, denied.reason), (Denial::Protocol, CloseReason::OutOfOrder));
    assert!(denied.text.is_some(), "it hears what was wrong");
    world.ask(
        client.conn,
        SessionRequest::Closed { session: client.session, reason: CloseReason::OutOfOrder },
    );
    world.audit();
}

#[test]
fn an_answer_of_another_kind_ends_the_connection_and_the_message_stays() {
    let all = [(Qos::AtLeastOnce, WRONG_FOR_QOS_1), (Qos::ExactlyOnce, WRONG_FOR_QOS_2)];
    for (qos, wrong) in all {
        for step in wrong {
            for make in [connect, durable] {
                let mut world = BrokerHarness::new(1);
                let (a, id) = receiver(&mut world, make("a"), qos);
                world.ack(&a, id, step);
                ended(&mut world, &a);
                assert_eq!(world.status().sessions_online, 1, "only its publisher is here");
                world.ack(&a, id, AckStep::Puback(false));
                assert_eq!(world.heard(a.conn), [], "nothing more is heard of it");
                let b = world.client(make("a"));
                let again: Vec<_> = world.messages(&b).iter().map(|it| (it.id, it.qos)).collect();
                let kept = if b.connected.present { vec![(id, qos)] } else { vec![] };
                assert_eq!(again, kept, "{step:?}");
            }
        }
    }
}

#[test]
fn what_the_client_said_it_has_awaits_pubcomp_and_nothing_else() {
    for (step, is_wrong) in
        [(AckStep::Puback(false), true), (AckStep::Pubrec(false), false), (AckStep::Pubcomp, false)]
    {
        let mut world = BrokerHarness::new(1);
        let (a, id) = receiver(&mut world, connect("a"), Qos::ExactlyOnce);
        world.ack(&a, id, AckStep::Pubrec(false));
        let release = SessionDelivery::Release { id, unknown: false };
        assert_eq!(world.heard(a.conn), std::slice::from_ref(&release));
        world.ack(&a, id, step);
        match (is_wrong, step) {
            (true, _) => ended(&mut world, &a),
            (false, AckStep::Pubrec(_)) => assert_eq!(world.heard(a.conn), [release]),
            (false, _) => assert_eq!(world.heard(a.conn), []),
        }
    }
}

#[test]
fn pubcomp_before_pubrel_ends_the_connection() {
    let mut world = BrokerHarness::new(1);
    let (a, id) = receiver(&mut world, durable("a"), Qos::ExactlyOnce);
    world.keeps = false;
    world.ack(&a, id, AckStep::Pubrec(false));
    assert_eq!(world.heard(a.conn), [], "the log is asked first");
    world.ack(&a, id, AckStep::Pubcomp);
    world.keeps = true;
    ended(&mut world, &a);
}

#[test]
fn a_late_answer_of_a_connection_before_is_no_fault() {
    for (qos, wrong) in [(Qos::AtLeastOnce, WRONG_FOR_QOS_1), (Qos::ExactlyOnce, WRONG_FOR_QOS_2)] {
        for step in wrong {
            let mut world = BrokerHarness::new(1);
            let first = ConnectRequest { receive_max: 2, ..durable("a") };
            let (a, _) = receiver(&mut world, first, qos);
            let source = world.client(connect("other"));
            world.send(&source, 1, message("t", qos, "y"));
            let second = world.messages(&a)[0].id;
            world.cut(&a);
            // The window is one: the second is not sent again yet.
            let b = world.client(ConnectRequest { receive_max: 1, ..durable("a") });
            assert_eq!(world.messages(&b).len(), 1);
            world.ack(&b, second, step);
            let heard = world.heard(b.conn);
            assert!(!heard.iter().any(|it| matches!(it, SessionDelivery::End(_))), "{heard:?}");
            // What stands for nothing at all, neither: the message may be over.
            world.ack(&b, 9_999, step);
            let heard = world.heard(b.conn);
            assert!(!heard.iter().any(|it| matches!(it, SessionDelivery::End(_))), "{heard:?}");
            world.audit();
        }
    }
}

#[test]
fn a_release_before_its_message_was_taken_ends_the_connection() {
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let mut world = BrokerHarness::new(1);
        let away = world.client(durable("away"));
        world.subscribe(&away, "t", Qos::ExactlyOnce);
        let a = world.client(durable("a"));
        world.keeps = false;
        world.send(&a, 7, message("t", qos, "x"));
        assert_eq!(world.heard(a.conn), [], "the log is asked first");
        world.release(&a, 7);
        ended(&mut world, &a);
        world.complete(usize::MAX, |_| Ok(()));
        world.keeps = true;
        world.run();
        let b = world.client(durable("a"));
        world.send_again(&b, 7, message("t", qos, "x"));
        assert!(matches!(world.taken(&b), Some((7, Ok(_)))), "{qos:?}: it is sent again");
        let count = world.messages(&away).len();
        assert_eq!(count, if qos == Qos::ExactlyOnce { 1 } else { 2 }, "{qos:?}");
        world.audit();
    }
}

//! Answers that do not come: whoever waits for them hears of it in time, and what comes late harms
//! nobody.

use crate::harness::{BrokerHarness, Client, connect, durable, message};
use model::counters::TopicCounter;
use model::ports::lead::LeadProof;
use model::session::{AckStep, Denial, Routed, SessionDelivery};
use model::topic::Qos;

/// Beyond the time that an answer waits at most.
const LATE_S: u64 = 46;

/// A durable subscriber of "t" who is away, and a publisher at home on another shard.
fn two(world: &mut BrokerHarness) -> (Client, Client) {
    let names = [0, 1].map(|shard| world.name_on(shard, "c"));
    let subscriber = world.client(durable(&names[0]));
    world.subscribe(&subscriber, "t", Qos::ExactlyOnce);
    let publisher = world.client(connect(&names[1]));
    (subscriber, publisher)
}

/// Time passes as it does, with a look at what is due each second.
fn pass(world: &mut BrokerHarness, s: u64) {
    (0..s).for_each(|_| world.pass_s(1));
}

/// Whether the server has ended the client's connection since the last look, without an answer.
fn is_ended_unanswered(world: &mut BrokerHarness, client: &Client) -> bool {
    assert_eq!(world.taken(client), None, "an unknown outcome is no refusal");
    let heard = world.heard(client.conn);
    let is_busy = |word: &SessionDelivery| match word {
        SessionDelivery::End(denied) => denied.why == Denial::Busy,
        _ => false,
    };
    heard.iter().any(is_busy)
}

#[test]
fn a_log_that_does_not_answer_is_waited_for_so_long_and_no_longer() {
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let mut world = BrokerHarness::new(2);
        let (subscriber, publisher) = two(&mut world);
        world.keeps = false;
        assert_eq!(world.publish_at(&publisher, 1, message("t", qos, "x")), None);
        pass(&mut world, 29);
        assert!(!is_ended_unanswered(&mut world, &publisher), "not before its time");
        pass(&mut world, LATE_S - 29);
        assert!(is_ended_unanswered(&mut world, &publisher), "{qos:?}");
        assert!(world.count(TopicCounter::AnswersOverdue) >= 1);
        pass(&mut world, 2 * LATE_S);
        assert!(!is_ended_unanswered(&mut world, &publisher), "once");
        // It answers after all: the message is there.
        world.keeps = true;
        world.run();
        assert_eq!(world.payloads(&subscriber), ["x"]);
        let name = world.name_on(1, "c");
        let publisher = world.client(connect(&name));
        let again = world.publish_at(&publisher, 2, message("t", qos, "y"));
        assert_eq!(again, Some(Ok(Routed::Matched)), "{qos:?}");
        world.audit();
    }
}

#[test]
fn a_message_of_qos_2_waits_as_long_as_its_log_takes_and_is_delivered_once() {
    let mut world = BrokerHarness::new(2);
    let names = [0, 1].map(|shard| world.name_on(shard, "c"));
    let subscriber = world.client(durable(&names[0]));
    world.subscribe(&subscriber, "t", Qos::ExactlyOnce);
    let publisher = world.client(durable(&names[1]));
    world.keeps = false;
    assert_eq!(world.publish_at(&publisher, 1, message("t", Qos::ExactlyOnce, "x")), None);
    pass(&mut world, 3 * LATE_S);
    assert!(!is_ended_unanswered(&mut world, &publisher));
    // The client gives up first, and sends the message again over a new connection.
    world.cut(&publisher);
    let publisher = world.client(durable(&names[1]));
    world.send_again(&publisher, 1, message("t", Qos::ExactlyOnce, "x"));
    pass(&mut world, LATE_S);
    assert_eq!(world.taken(&publisher), None);
    world.keeps = true;
    world.run();
    assert_eq!(world.taken(&publisher), Some((1, Ok(Routed::Matched))));
    assert_eq!(world.payloads(&subscriber), ["x"]);
    world.audit();
}

#[test]
fn a_shard_that_does_not_answer_is_waited_for_so_long_and_its_receipt_may_come_late() {
    let mut world = BrokerHarness::new(2);
    let (subscriber, publisher) = two(&mut world);
    world.carries = false;
    assert_eq!(world.publish_at(&publisher, 1, message("t", Qos::AtLeastOnce, "x")), None);
    pass(&mut world, LATE_S);
    assert!(is_ended_unanswered(&mut world, &publisher));
    world.carries = true;
    world.run();
    assert_eq!(world.payloads(&subscriber), ["x"], "it was only late");
    world.audit();
    // What is lost is said again by the publisher, and stands there once.
    let name = world.name_on(1, "c");
    let publisher = world.client(durable(&name));
    world.carries = false;
    assert_eq!(world.publish_at(&publisher, 2, message("t", Qos::ExactlyOnce, "y")), None);
    world.peer_messages.clear();
    pass(&mut world, LATE_S);
    assert!(is_ended_unanswered(&mut world, &publisher));
    world.carries = true;
    world.cut(&publisher);
    let publisher = world.client(durable(&name));
    world.send_again(&publisher, 2, message("t", Qos::ExactlyOnce, "y"));
    assert_eq!(world.taken(&publisher), Some((2, Ok(Routed::Matched))));
    assert_eq!(world.payloads(&subscriber), ["y"]);
    world.ack(&subscriber, 2, AckStep::Pubrec(false));
    world.audit();
}

#[test]
fn a_node_that_may_not_lead_any_more_acknowledges_nothing() {
    let proof = LeadProof::none();
    let its = proof.clone();
    let mut world = BrokerHarness::with(1, move |settings| settings.lead_proof = its.clone());
    let publisher = world.client(connect("p"));
    // Nobody here subscribes, so nothing is stored.
    for (id, qos) in [(1, Qos::AtLeastOnce), (2, Qos::ExactlyOnce), (3, Qos::AtLeastOnce)] {
        assert_eq!(world.publish_at(&publisher, id, message("t", qos, "x")), None);
    }
    pass(&mut world, 5);
    assert_eq!(world.taken(&publisher), None);
    proof.hold_until(u64::MAX);
    pass(&mut world, 1);
    for id in 1..4 {
        assert_eq!(world.taken(&publisher), Some((id, Ok(Routed::NoSubscriber))));
    }
    assert!(world.publish_at(&publisher, 4, message("t", Qos::AtLeastOnce, "x")).is_some());
    // One that stays cut off lets its clients look for another node.
    proof.hold_until(0);
    assert_eq!(world.publish_at(&publisher, 5, message("t", Qos::AtLeastOnce, "x")), None);
    pass(&mut world, LATE_S);
    assert!(is_ended_unanswered(&mut world, &publisher));
    world.audit();
}

#[test]
fn a_page_of_retained_messages_that_does_not_come_is_asked_for_once_more() {
    let mut world = BrokerHarness::new(2);
    let names = [0, 1].map(|shard| world.name_on(shard, "c"));
    let publisher = world.client(connect(&names[1]));
    let topic = world.topic_on(1, "kept/");
    let mut kept = message(&topic, Qos::AtLeastOnce, "x");
    kept.retain = true;
    assert!(world.publish_at(&publisher, 1, kept).is_some());
    let subscriber = world.client(connect(&names[0]));
    world.carries = false;
    world.subscribe(&subscriber, "kept/#", Qos::AtMostOnce);
    assert!(!world.peer_messages.is_empty(), "the other shard is asked");
    let late = std::mem::take(&mut world.peer_messages);
    pass(&mut world, LATE_S);
    assert_eq!(world.count(TopicCounter::PagesOverdue), 1);
    assert!(!world.peer_messages.is_empty(), "and once more");
    world.carries = true;
    world.run();
    assert_eq!(world.payloads(&subscriber), ["x"]);
    // The first question comes after all: its answer means nothing.
    world.peer_messages = late;
    world.run();
    assert_eq!(world.payloads(&subscriber), Vec::<String>::new());
    pass(&mut world, 2 * LATE_S);
    assert_eq!(world.count(TopicCounter::PagesOverdue), 1);
    world.audit();
}

//! Answers that do not come: whoever waits for them hears of it in time, and what comes late harms
//! nobody.

use crate::harness::{BrokerHarness, Client, connect, durable, message};
use model::counters::TopicCounter;
use model::session::{AckStep, Denial, Routed};
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

#[test]
fn a_log_that_does_not_answer_is_waited_for_so_long_and_no_longer() {
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let mut world = BrokerHarness::new(2);
        let (subscriber, publisher) = two(&mut world);
        world.keeps = false;
        assert_eq!(world.publish_at(&publisher, 1, message("t", qos, "x")), None);
        pass(&mut world, 29);
        assert_eq!(world.taken(&publisher), None, "not before its time");
        pass(&mut world, LATE_S - 29);
        assert_eq!(world.taken(&publisher), Some((1, Err(Denial::Busy))), "{qos:?}");
        assert!(world.count(TopicCounter::AnswersOverdue) >= 1);
        pass(&mut world, 2 * LATE_S);
        assert_eq!(world.taken(&publisher), None, "once");
        // It answers after all: the message is there, as one is that was refused too late.
        world.keeps = true;
        world.run();
        assert_eq!(world.payloads(&subscriber), ["x"]);
        let again = world.publish_at(&publisher, 2, message("t", qos, "y"));
        assert_eq!(again, Some(Ok(Routed::Matched)), "{qos:?}");
        world.audit();
    }
}

#[test]
fn a_shard_that_does_not_answer_is_waited_for_so_long_and_its_receipt_may_come_late() {
    let mut world = BrokerHarness::new(2);
    let (subscriber, publisher) = two(&mut world);
    world.carries = false;
    assert_eq!(world.publish_at(&publisher, 1, message("t", Qos::AtLeastOnce, "x")), None);
    pass(&mut world, LATE_S);
    assert_eq!(world.taken(&publisher), Some((1, Err(Denial::Busy))));
    world.carries = true;
    world.run();
    assert_eq!(world.payloads(&subscriber), ["x"], "it was only late");
    world.audit();
    // What is lost is said again by the publisher, and stands there once.
    world.carries = false;
    assert_eq!(world.publish_at(&publisher, 2, message("t", Qos::ExactlyOnce, "y")), None);
    world.peer_messages.clear();
    pass(&mut world, LATE_S);
    assert_eq!(world.taken(&publisher), Some((2, Err(Denial::Busy))));
    world.carries = true;
    world.send_again(&publisher, 2, message("t", Qos::ExactlyOnce, "y"));
    assert_eq!(world.taken(&publisher), Some((2, Ok(Routed::Matched))));
    assert_eq!(world.payloads(&subscriber), ["y"]);
    world.ack(&subscriber, 2, AckStep::Pubrec(false));
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

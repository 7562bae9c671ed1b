//! How fast a client may publish.

use super::acks::publish;
use super::harness::ServerHarness;
use crate::codec::subscribe::{Subscribe, Subscriptions, push_subscription};
use crate::codec::{Packet, Qos, Version};
use std::time::Duration;

fn fill(harness: &mut ServerHarness, count: usize) -> usize {
    for _ in 0..count {
        harness.packet(&Packet::Publish(publish(Qos::AtMostOnce, 0)));
    }
    harness.take_words().len()
}

#[test]
fn a_client_beyond_its_rate_is_read_more_slowly() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.publishes_per_s = 10;
    let mut harness = harness.bound(Version::V311);
    assert_eq!(fill(&mut harness, 100), 20, "twice as many at once");
    assert!(harness.held && harness.ended.is_none() && harness.untaken() > 0);
    let mut taken = 20;
    for _ in 0..4 {
        harness.pass(Duration::from_secs(1));
        taken += harness.take_words().len();
    }
    assert_eq!(taken, 60, "ten a second then");
    harness.pass(Duration::from_millis(1));
    assert_eq!(harness.take_words().len(), 0);
    for _ in 0..10 {
        harness.pass(Duration::from_secs(1));
        taken += harness.take_words().len();
    }
    assert_eq!((taken, harness.untaken(), harness.held), (100, 0, false));
}

#[test]
fn bytes_are_counted_too_and_one_large_message_is_always_taken() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.publish_bytes_per_s = 90;
    let mut harness = harness.bound(Version::V311);
    assert_eq!(fill(&mut harness, 100), 23, "eight bytes each");
    let mut harness = ServerHarness::strict();
    harness.limits.topics.publish_bytes_per_s = 2;
    let mut harness = harness.bound(Version::V311);
    assert_eq!(fill(&mut harness, 2), 1);
    harness.pass(Duration::from_secs(2));
    assert_eq!(harness.take_words().len(), 0);
    harness.pass(Duration::from_secs(1));
    assert_eq!(harness.take_words().len(), 1);
}

fn subscribe(harness: &mut ServerHarness, filters: usize) {
    let mut list = Vec::new();
    for number in 0..filters {
        let filter = format!("f/{number}");
        push_subscription(&filter, Default::default(), &mut list).expect("it fits");
    }
    let subscriptions = Subscriptions::over(&list);
    let packet = Subscribe { id: 1, properties: Default::default(), subscriptions };
    harness.packet(&Packet::Subscribe(packet));
}

#[test]
fn a_client_that_subscribes_beyond_its_rate_is_read_more_slowly() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.subscribes_per_s = 10;
    let mut harness = harness.bound(Version::V311);
    (0..50).for_each(|_| subscribe(&mut harness, 2));
    assert_eq!(harness.take_words().len(), 10, "twenty filters at once");
    assert!(harness.held && harness.ended.is_none());
    let mut taken = 10;
    for _ in 0..12 {
        harness.pass(Duration::from_secs(1));
        taken += harness.take_words().len();
    }
    assert_eq!((taken, harness.untaken(), harness.held), (50, 0, false));
    harness.pass(Duration::from_secs(3));
    assert!(harness.machine.is_idle(), "nothing is kept of what is paid for");
}

#[test]
fn one_packet_of_many_filters_is_taken_and_paid_for_afterwards() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.subscribes_per_s = 10;
    let mut harness = harness.bound(Version::V5);
    subscribe(&mut harness, 100);
    subscribe(&mut harness, 1);
    assert_eq!(harness.take_words().len(), 1);
    harness.pass(Duration::from_secs(8));
    assert_eq!(harness.take_words().len(), 0);
    harness.pass(Duration::from_secs(1));
    assert_eq!(harness.take_words().len(), 1);
}

#[test]
fn nobody_waits_without_a_rate() {
    let mut harness = ServerHarness::strict().bound(Version::V311);
    assert_eq!(fill(&mut harness, 10_000), 10_000);
    assert!(harness.machine.is_idle());
}

//! How fast a client may publish.

use super::acks::publish;
use super::desk::Desk;
use crate::codec::{Packet, Qos, Version};
use std::time::Duration;

fn fill(desk: &mut Desk, count: usize) -> usize {
    for _ in 0..count {
        desk.packet(&Packet::Publish(publish(Qos::AtMostOnce, 0)));
    }
    desk.take_words().len()
}

#[test]
fn a_client_beyond_its_rate_is_read_more_slowly() {
    let mut desk = Desk::strict();
    desk.limits.topics.publishes_per_s = 10;
    let mut desk = desk.bound(Version::V311);
    assert_eq!(fill(&mut desk, 100), 20, "twice as many at once");
    assert!(desk.held && desk.ended.is_none() && desk.untaken() > 0);
    let mut taken = 20;
    for _ in 0..4 {
        desk.pass(Duration::from_secs(1));
        taken += desk.take_words().len();
    }
    assert_eq!(taken, 60, "ten a second then");
    desk.pass(Duration::from_millis(1));
    assert_eq!(desk.take_words().len(), 0);
    for _ in 0..10 {
        desk.pass(Duration::from_secs(1));
        taken += desk.take_words().len();
    }
    assert_eq!((taken, desk.untaken(), desk.held), (100, 0, false));
}

#[test]
fn bytes_are_counted_too_and_one_large_message_is_always_taken() {
    let mut desk = Desk::strict();
    desk.limits.topics.publish_bytes_per_s = 90;
    let mut desk = desk.bound(Version::V311);
    assert_eq!(fill(&mut desk, 100), 23, "eight bytes each");
    let mut desk = Desk::strict();
    desk.limits.topics.publish_bytes_per_s = 2;
    let mut desk = desk.bound(Version::V311);
    assert_eq!(fill(&mut desk, 2), 1);
    desk.pass(Duration::from_secs(2));
    assert_eq!(desk.take_words().len(), 0);
    desk.pass(Duration::from_secs(1));
    assert_eq!(desk.take_words().len(), 1);
}

#[test]
fn nobody_waits_without_a_rate() {
    let mut desk = Desk::strict().bound(Version::V311);
    assert_eq!(fill(&mut desk, 10_000), 10_000);
    assert!(desk.machine.is_idle());
}

//! Pushes that are published on a topic too.

use crate::harness::{HubHarness, id, product, settings};
use model::ports::pushes::{PushCommand, PushTarget};
use model::product::Product;

fn world() -> HubHarness {
    HubHarness::with(Product { topic: Some("push/%p/%d".into()), ..product() }, settings())
}

/// The publication of a push to a device: topic and body.
fn mirror(device: &str, body: &[u8]) -> (String, Vec<u8>) {
    (format!("push/{}/{device}", product().key), body.to_vec())
}

#[test]
fn a_push_to_a_list_is_published_for_each_device_known_or_not() {
    let mut world = world();
    world.seat("d");
    let devices = PushTarget::Devices(vec![id("d"), id("stranger")]);
    world.push_to(devices, |order| order.body = Box::from(*b"one"));
    assert_eq!(world.mirrors(), [mirror("d", b"one"), mirror("stranger", b"one")]);
}

#[test]
fn a_fan_out_is_published_for_each_device_it_visits() {
    let mut world = world();
    world.seat("d");
    world.seat("e");
    world.push_to(PushTarget::Product, |order| order.body = Box::from(*b"all"));
    world.turn();
    let mut mirrors = world.mirrors();
    mirrors.sort();
    assert_eq!(mirrors, [mirror("d", b"all"), mirror("e", b"all")]);
}

#[test]
fn an_order_with_a_key_is_published_once() {
    let mut world = world();
    let first = world.real_id();
    for expected in [vec![mirror("d", b"hello")], vec![]] {
        let again = world.real_id();
        world.push("d", |order| {
            order.id = if expected.is_empty() { again } else { first };
            order.idempotency_key = Some("order-1".into());
        });
        world.settle();
        assert_eq!(world.mirrors(), expected);
    }
}

#[test]
fn a_blocked_device_is_told_nothing_anywhere() {
    let mut world = world();
    let (product, device) = (product().key, id("d"));
    world.command(PushCommand::Block { product, device, blocked: true });
    world.push("d", |_| {});
    assert_eq!(world.mirrors(), []);
}

#[test]
fn without_a_topic_nothing_is_published() {
    let mut world = HubHarness::new();
    world.seat("d");
    world.push("d", |_| {});
    assert_eq!(world.mirrors(), []);
}

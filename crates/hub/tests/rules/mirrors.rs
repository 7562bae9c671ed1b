//! Pushes that are published on a topic too.

use crate::harness::{HubHarness, id, product, settings};
use model::ports::control::{Command, PushTarget};
use model::product::Product;

fn world() -> HubHarness {
    HubHarness::with(Product { topic: Some("push/%p/%d".into()), ..product() }, settings())
}

#[test]
fn a_push_to_a_list_is_published_for_each_device_known_or_not() {
    let mut world = world();
    world.seat("d");
    let (push, _) = world.push_to(PushTarget::Devices(vec![id("d"), id("stranger")]), |_| {});
    let key = product().key;
    let wanted = [(format!("push/{key}/d"), push), (format!("push/{key}/stranger"), push)];
    assert_eq!(world.mirrors(), wanted);
}

#[test]
fn a_fan_out_is_published_for_each_device_it_visits() {
    let mut world = world();
    world.seat("d");
    world.seat("e");
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    world.turn();
    let key = product().key;
    let mut mirrors = world.mirrors();
    mirrors.sort();
    assert_eq!(mirrors, [(format!("push/{key}/d"), push), (format!("push/{key}/e"), push)]);
}

#[test]
fn an_order_with_a_key_is_published_once() {
    let mut world = world();
    let first = world.real_id();
    for expected in [vec![(format!("push/{}/d", product().key), first)], vec![]] {
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
    world.command(Command::Block { product, device, blocked: true });
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

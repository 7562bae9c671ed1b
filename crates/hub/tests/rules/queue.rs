//! The queue of a device: collapse, bounds, floods.

use crate::log::Did;
use crate::world::{World, product, settings};
use model::event::Counter;
use model::id::MessageId;
use model::product::Product;
use model::push::{Outcome, Priority, Rejection};

fn bounded(count_max: u32, bytes_max: u32) -> World {
    let product =
        Product { offline_count_max: count_max, offline_bytes_max: bytes_max, ..product() };
    let product = Product { inflight_max: 1_000, ..product };
    World::with(product, settings())
}

fn waiting(world: &mut World, name: &str) -> Vec<MessageId> {
    world.deliveries();
    let mut bind = World::bind(name);
    bind.inflight_max = 1_000;
    let seat = world.seat_with(bind);
    let ids: Vec<_> = world.pushes().into_iter().map(|(id, _)| id).collect();
    world.close(&seat);
    ids
}

fn collapse(world: &mut World, name: &str, key: &str) -> MessageId {
    let change = |order: &mut model::ports::control::PushOrder| {
        (order.collapse, order.receipts) = (Some(key.into()), true);
    };
    world.push(name, change).0
}

#[test]
fn a_collapse_key_replaces_what_waits() {
    let mut world = World::new();
    let old = collapse(&mut world, "d", "k");
    let other = collapse(&mut world, "d", "l");
    let new = collapse(&mut world, "d", "k");
    assert_eq!(world.receipts(), [(old, Outcome::Rejected(Rejection::Collapsed))]);
    assert_eq!(world.count(Counter::PushesCollapsed), 1);
    assert_eq!(waiting(&mut world, "d"), [other, new]);
    world.hub.audit();
}

#[test]
fn a_collapse_key_replaces_what_is_on_its_way() {
    let mut world = World::new();
    let seat = world.seat("d");
    let old = collapse(&mut world, "d", "k");
    let new = collapse(&mut world, "d", "k");
    assert_eq!(world.pushes(), [(old, false), (new, false)]);
    world.ack(&seat, &[old]);
    assert_eq!(world.count(Counter::PushesDelivered), 0, "it was given up");
    world.ack(&seat, &[new]);
    assert_eq!(world.count(Counter::PushesDelivered), 1);
    world.hub.audit();
}

#[test]
fn a_full_queue_evicts_its_oldest_normal_push() {
    let mut world = bounded(3, 1 << 20);
    let (first, _) = world.push("d", |order| order.priority = Priority::High);
    let (second, _) = world.push("d", |order| order.receipts = true);
    let (third, fourth) = (world.give("d"), world.give("d"));
    assert_eq!(world.receipts(), [(second, Outcome::Rejected(Rejection::Evicted))]);
    assert_eq!(world.count(Counter::PushesEvicted), 1);
    assert_eq!(waiting(&mut world, "d"), [first, third, fourth]);
    world.hub.audit();
}

#[test]
fn a_queue_full_of_important_pushes_refuses_others() {
    let mut world = bounded(2, 1 << 20);
    let high: Vec<_> =
        (0..3).map(|_| world.push("d", |order| order.priority = Priority::High).0).collect();
    let (_, reply) = world.push("d", |_| {});
    assert_eq!(world.outcome(reply), Some(Outcome::Rejected(Rejection::QueueFull)));
    assert_eq!(waiting(&mut world, "d"), high[1..], "equals give way to newer ones");
    world.hub.audit();
}

#[test]
fn bytes_are_bounded_too() {
    let weigh = |order: &mut model::ports::control::PushOrder| order.body = vec![0; 300].into();
    let mut world = bounded(100, 1_000);
    let given: Vec<_> = (0..4).map(|_| world.push("d", weigh).0).collect();
    assert_eq!(world.count(Counter::PushesEvicted), 2, "364 bytes each");
    let (_, reply) = world.push("d", |order| order.body = vec![0; 1_000].into());
    assert_eq!(world.outcome(reply), Some(Outcome::Rejected(Rejection::QueueFull)));
    assert_eq!(waiting(&mut world, "d"), given[2..]);
    world.hub.audit();
}

#[test]
fn what_is_refused_collapses_nothing() {
    let mut world = bounded(100, 1_000);
    let old = collapse(&mut world, "d", "k");
    let (_, reply) = world.push("d", |order| {
        (order.collapse, order.body) = (Some("k".into()), vec![0; 2_000].into());
    });
    assert_eq!(world.outcome(reply), Some(Outcome::Rejected(Rejection::QueueFull)));
    assert_eq!(waiting(&mut world, "d"), [old]);
}

#[test]
fn all_devices_together_are_bounded() {
    let mut world =
        World::with(product(), hub::Settings { offline_bytes_max: 1_000, ..settings() });
    let outcomes: Vec<_> = (0..20)
        .map(|n| {
            let (_, reply) = world.push(&format!("d{n}"), |_| {});
            world.outcome(reply).expect("an answer at once")
        })
        .collect();
    let stored = outcomes.iter().filter(|outcome| **outcome == Outcome::Stored).count();
    let full = Outcome::Rejected(Rejection::StoreFull);
    assert_eq!(stored, 14, "69 bytes each");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == full).count(), 6);
    assert_eq!(world.hub.status().devices, 14, "a refused push makes no record");
    world.hub.audit();
}

#[test]
fn a_hundred_thousand_pushes_to_one_device_that_is_away() {
    let mut world = bounded(100, 256 * 1024);
    let mut kept = std::collections::BTreeSet::new();
    world.keeps = false;
    for _ in 0..100_000 {
        world.give("d");
        for did in world.complete(Ok(())) {
            match did {
                Did::Waits(id) => assert!(kept.insert(id)),
                Did::Over(id) => assert!(kept.remove(&id)),
            }
        }
        world.fx.answers.clear();
        world.fx.events.clear();
    }
    let status = world.hub.status();
    assert_eq!((status.waiting, status.devices), (100, 1), "bounded by the product");
    assert_eq!(status.waiting_bytes, 100 * 69);
    assert_eq!(world.count(Counter::PushesStored), 100_000);
    assert_eq!(world.count(Counter::PushesEvicted), 99_900);
    world.keeps = true;
    let waiting = waiting(&mut world, "d");
    assert_eq!(waiting, kept.into_iter().collect::<Vec<_>>(), "store and memory agree");
    assert_eq!(waiting.last(), Some(&MessageId(100_000)), "the newest are kept");
    world.hub.audit();
}

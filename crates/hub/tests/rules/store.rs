//! The store answers late, or no, and gives back what it kept.

use crate::world::{World, id, product, settings};
use model::event::Counter;
use model::id::ProductKey;
use model::ports::control::{Answer, Command};
use model::ports::journal::{Entry, StoreError};
use model::product::Product;
use model::push::{Outcome, Rejection};
use std::sync::Arc;

fn key() -> ProductKey {
    ProductKey::parse("p").expect("a name")
}

#[test]
fn a_push_the_store_refuses_is_rejected_and_dropped() {
    let busy = Outcome::Rejected(Rejection::Busy);
    let full = Outcome::Rejected(Rejection::StoreFull);
    for (error, outcome) in
        [(StoreError::Full, full), (StoreError::Failed, full), (StoreError::Busy, busy)]
    {
        let mut world = World::new();
        world.keeps = false;
        let (_, reply) = world.push("d", |_| {});
        world.complete(Err(error));
        assert_eq!(world.outcome(reply), Some(outcome));
        assert_eq!((world.hub.status().waiting, world.fx.entries.len()), (0, 0));
        assert_eq!(world.count(Counter::StoreFailures), 1);
        world.seat("d");
        assert_eq!(world.pushes(), []);
        world.hub.audit();
    }
}

#[test]
fn an_acknowledgement_that_beats_the_store_wins() {
    let mut world = World::new();
    world.keeps = false;
    let (push, reply) = world.push("d", |_| {});
    let seat = world.seat("d");
    world.ack(&seat, &[push]);
    assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    let entries = world.complete(Ok(()));
    let [Entry::Waits { .. }, Entry::Over { id, .. }] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(*id, push);
    assert_eq!(world.outcome(reply), None);
    world.hub.audit();
}

#[test]
fn a_refusal_that_comes_after_the_acknowledgement_changes_nothing() {
    let mut world = World::new();
    world.keeps = false;
    let (push, reply) = world.push("d", |_| {});
    let seat = world.seat("d");
    world.ack(&seat, &[push]);
    world.complete(Err(StoreError::Full));
    assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    assert_eq!(world.count(Counter::PushesRejected), 0);
    world.hub.audit();
}

#[test]
fn every_end_of_a_stored_push_is_told_to_the_store() {
    let mut world = World::new();
    let product = Product { offline_count_max: 2, ..product() };
    world.hub.install(Arc::new(product));
    world.keeps = false;
    let (collapsed, _) = world.push("d", |order| order.collapse = Some("k".into()));
    let (expired, _) = world.push("d", |order| {
        (order.collapse, order.time_to_live_s) = (Some("k".into()), 5);
    });
    let evicted = world.give("e");
    world.give("e");
    world.give("e");
    world.pass_ms(40_000);
    let entries = world.complete(Ok(()));
    let over = entries.iter().filter_map(|entry| match entry {
        Entry::Over { id, .. } => Some(*id),
        _ => None,
    });
    assert_eq!(over.collect::<Vec<_>>(), [collapsed, evicted, expired]);
    world.hub.audit();
}

#[test]
fn what_the_store_gives_back_waits_again() {
    let mut world = World::new();
    world.keeps = false;
    let (a, b) = (world.give("d"), world.give("d"));
    world.tell(Command::Block { product: key(), device: id("bad"), blocked: true });
    let kept = world.complete(Ok(()));
    let mut after = World::new();
    after.keeps = false;
    assert!(after.hub.restore(after.now, Entry::Product(Arc::new(product()))));
    for entry in kept {
        assert!(after.hub.restore(after.now, entry));
    }
    after.hub.audit();
    assert_eq!(after.hub.status().waiting, 2);
    assert!(after.state("bad").expect("known").blocked);
    let seat = after.seat("d");
    assert_eq!(after.pushes(), [(a, false), (b, false)]);
    after.ack(&seat, &[a, b]);
    assert_eq!(after.complete(Ok(())).len(), 2, "the store is told");
    after.hub.audit();
}

#[test]
fn what_belongs_to_nobody_is_not_restored() {
    let mut world = World::new();
    let mut stranger =
        crate::world::order(world.message_id(), model::ports::control::Target::Product);
    stranger.product = ProductKey::parse("q").expect("a name");
    let gone = Entry::NoProduct(stranger.product.clone());
    let blocked = Entry::Blocked { product: stranger.product, device: id("d"), blocked: true };
    assert!(!world.hub.restore(world.now, gone));
    assert!(!world.hub.restore(world.now, blocked));
    world.hub.audit_idle();
}

#[test]
fn a_product_is_there_once_it_is_stored() {
    let mut world = World::new();
    world.keeps = false;
    let other = Product::new(ProductKey::parse("q").expect("a name"), 9);
    let reply = world.tell(Command::PutProduct(Box::new(other.clone())));
    assert_eq!(world.answer(reply), None);
    assert_eq!(world.command(Command::Products), Answer::Products(vec![Arc::new(product())]));
    world.complete(Ok(()));
    assert_eq!(world.answer(reply), Some(Answer::Done(true)));
    let all = vec![Arc::new(product()), Arc::new(other)];
    assert_eq!(world.command(Command::Products), Answer::Products(all));
    let reply = world.tell(Command::DropProduct(key()));
    world.complete(Err(StoreError::Failed));
    assert_eq!(world.answer(reply), Some(Answer::StoreFailed));
    assert!(matches!(world.command(Command::Products), Answer::Products(all) if all.len() == 2));
}

#[test]
fn a_block_is_in_force_once_it_is_stored() {
    let mut world = World::new();
    world.keeps = false;
    let reply = world.tell(Command::Block { product: key(), device: id("d"), blocked: true });
    world.seat("d");
    world.complete(Ok(()));
    assert_eq!(world.answer(reply), Some(Answer::Done(true)));
    let state = world.state("d").expect("known");
    assert!(state.blocked && !state.online);
    let (_, reply) = world.push("d", |_| {});
    assert_eq!(world.outcome(reply), Some(Outcome::Rejected(Rejection::DeviceBlocked)));
    world.hub.audit();
}

#[test]
fn completions_may_come_in_any_order() {
    let mut world = World::with(product(), settings());
    world.keeps = false;
    let orders: Vec<_> = (0..5).map(|n| world.push(&format!("d{n}"), |_| {}).1).collect();
    let entries = std::mem::take(&mut world.fx.entries);
    for (ticket, _) in entries.iter().rev() {
        world.hub.complete(world.now, (*ticket, Ok(())), &mut world.fx);
    }
    for reply in orders {
        assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    }
    world.hub.audit();
}

#[test]
fn the_store_hears_of_a_new_push_before_the_end_of_the_one_it_replaces() {
    let mut world = World::new();
    world.keeps = false;
    let key = |order: &mut model::ports::control::PushOrder| order.collapse = Some("k".into());
    let (old, _) = world.push("d", key);
    world.complete(Ok(()));
    let (new, _) = world.push("d", key);
    let entries = world.complete(Ok(()));
    let [Entry::Waits { push, .. }, Entry::Over { id, .. }] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!((push.id, *id), (new, old));
}

#[test]
fn a_store_that_does_not_answer_makes_pushes_busy() {
    let mut world = World::new();
    world.keeps = false;
    let mut refused = 0;
    for n in 0..65_536 + 10 {
        let (_, reply) = world.push(&format!("d{n}"), |_| {});
        if let Some(outcome) = world.outcome(reply) {
            assert_eq!(outcome, Outcome::Rejected(Rejection::Busy));
            refused += 1;
        }
    }
    assert_eq!(refused, 10);
    let seat = world.seat("late");
    let (_, reply) = world.push("late", |order| order.time_to_live_s = 0);
    world.close(&seat);
    assert_eq!(world.outcome(reply), Some(Outcome::Expired), "what needs no store goes on");
    world.complete(Ok(()));
    let (_, reply) = world.push("late", |_| {});
    world.complete(Ok(()));
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    world.hub.audit();
}

//! A log that answers late, or refuses.

use crate::harness::{HubHarness, id, product, settings};
use crate::log::Did;
use model::counters::{ProcessCounter, PushCounter};
use model::id::ProductKey;
use model::ports::log::{Call, StoreError, Write};
use model::ports::pushes::{PushAnswer, PushCommand, PushOrder};
use model::product::Product;
use model::push::{Outcome, Rejection};
use model::service::Service;
use model::timeline::Space;
use std::sync::Arc;

fn key() -> ProductKey {
    ProductKey::parse("p").expect("a name")
}

#[test]
fn a_push_the_store_refuses_is_rejected_and_dropped() {
    let busy = Outcome::Rejected(Rejection::Busy);
    let full = Outcome::Rejected(Rejection::StoreFull);
    let failed = Outcome::Rejected(Rejection::StoreFailed);
    for (error, outcome) in
        [(StoreError::Full, full), (StoreError::Failed, failed), (StoreError::Busy, busy)]
    {
        let mut world = HubHarness::new();
        let seat = world.seat("d");
        world.close(&seat);
        world.keeps = false;
        let (_, reply) = world.push("d", |_| {});
        world.complete(Err(error));
        assert_eq!(world.outcome(reply), Some(outcome));
        assert_eq!((world.hub.status().waiting, world.asked()), (0, 0));
        assert_eq!(world.count(ProcessCounter::StoreFailures), 1);
        world.seat("d");
        assert_eq!(world.pushes(), []);
        world.hub.audit();
    }
}

#[test]
fn an_acknowledgement_that_beats_the_store_wins() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let (push, reply) = world.push("d", |_| {});
    let seat = world.seat("d");
    world.ack(&seat, &[push]);
    assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    assert_eq!(world.complete(Ok(())), [Did::Waits(push)]);
    assert_eq!(world.complete(Ok(())), [Did::Over(push)], "told once its place is known");
    assert_eq!(world.outcome(reply), None);
    assert_eq!(world.log.kept(Space::Pushes), []);
    world.hub.audit();
}

#[test]
fn a_refusal_that_comes_after_the_acknowledgement_changes_nothing() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let (push, reply) = world.push("d", |_| {});
    let seat = world.seat("d");
    world.ack(&seat, &[push]);
    world.complete(Err(StoreError::Full));
    assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    assert_eq!(world.count(PushCounter::Rejected), 0);
    world.hub.audit();
}

#[test]
fn every_end_of_a_stored_push_is_told_to_the_store() {
    let mut world = HubHarness::new();
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
    let mut did = world.complete(Ok(()));
    did.extend(world.complete(Ok(())));
    world.pass_ms(40_000);
    did.extend(world.complete(Ok(())));
    let over = did.iter().filter(|did| matches!(did, Did::Over(_)));
    let over: Vec<_> = over.copied().collect();
    assert_eq!(over, [collapsed, evicted, expired].map(Did::Over));
    assert_eq!(world.log.kept(Space::Pushes).len(), 2);
    world.hub.audit();
}

#[test]
fn a_product_is_there_once_it_is_stored() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let other = Product::new(ProductKey::parse("q").expect("a name"), 9);
    let reply = world.tell(PushCommand::PutProduct(Box::new(other.clone())));
    assert_eq!(world.answer(reply), None);
    assert_eq!(
        world.command(PushCommand::Products),
        PushAnswer::Products(vec![Arc::new(product())])
    );
    world.complete(Ok(()));
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    let all = vec![Arc::new(product()), Arc::new(other)];
    assert_eq!(world.command(PushCommand::Products), PushAnswer::Products(all));
    let reply = world.tell(PushCommand::DropProduct(key()));
    world.complete(Err(StoreError::Failed));
    assert_eq!(world.answer(reply), Some(PushAnswer::StoreFailed));
    assert!(
        matches!(world.command(PushCommand::Products), PushAnswer::Products(all) if all.len() == 2)
    );
}

#[test]
fn a_block_is_in_force_once_it_is_stored() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let reply = world.tell(PushCommand::Block { product: key(), device: id("d"), blocked: true });
    world.seat("d");
    world.complete(Ok(()));
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    let state = world.state("d").expect("known");
    assert!(state.blocked && !state.online);
    let (_, reply) = world.push("d", |_| {});
    assert_eq!(world.outcome(reply), Some(Outcome::Rejected(Rejection::DeviceBlocked)));
    world.hub.audit();
}

#[test]
fn completions_may_come_in_any_order() {
    let mut world = HubHarness::with(product(), settings());
    world.keeps = false;
    let orders: Vec<_> = (0..5).map(|n| world.push(&format!("d{n}"), |_| {}).1).collect();
    let calls = std::mem::take(&mut world.fx.calls);
    for (ticket, call) in calls.iter().rev() {
        let done = world.log.answer(call);
        world.hub.complete(world.now, (*ticket, done), &mut world.fx);
    }
    for reply in orders {
        assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    }
    world.hub.audit();
}

#[test]
fn the_store_hears_of_a_new_push_before_the_end_of_the_one_it_replaces() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let key = |order: &mut model::ports::pushes::PushOrder| order.collapse = Some("k".into());
    let (old, _) = world.push("d", key);
    world.complete(Ok(()));
    let (new, _) = world.push("d", key);
    assert_eq!(world.complete(Ok(())), [Did::Waits(new)]);
    assert_eq!(world.complete(Ok(())), [Did::Over(old)]);
}

#[test]
fn a_store_that_does_not_answer_makes_pushes_busy() {
    let mut world = HubHarness::new();
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

#[test]
fn a_refused_removal_is_asked_for_again() {
    for error in [StoreError::Busy, StoreError::Full] {
        let mut world = HubHarness::new();
        let pushes = [world.give("d"), world.give("d")];
        let seat = world.seat("d");
        world.keeps = false;
        world.ack(&seat, &pushes);
        let removals = world.fx.calls.iter().filter(
            |(_, call)| matches!(call, Call::Write(Write::Remove { seqs, .. }) if seqs.len() == 2),
        );
        assert_eq!(removals.count(), 1, "in one call");
        world.complete(Err(error));
        world.turn();
        assert_eq!(world.fx.calls.len(), 0, "after a pause");
        world.pass_ms(1_100);
        assert_eq!(world.complete(Err(error)), pushes.map(Did::Over));
        world.pass_ms(1_100);
        assert_eq!(world.complete(Ok(())), pushes.map(Did::Over));
        assert_eq!(world.log.kept(Space::Pushes), []);
        world.pass_ms(5_000);
        world.settle();
        world.close(&seat);
        world.hub.audit_idle();
        assert_eq!(world.count(ProcessCounter::RemovalsGivenUp), 0);
    }
}

#[test]
fn removals_that_find_no_room_are_counted_and_found_at_the_next_start() {
    let mut world = HubHarness::with(Product { inflight_max: 1_000, ..product() }, settings());
    world.keeps = false;
    for n in 0..66_000 {
        world.push(&format!("d{n}"), |order| order.time_to_live_s = 5);
        if n % 1_000 == 0 {
            world.complete(Ok(()));
        }
    }
    world.complete(Ok(()));
    for _ in 0..80 {
        world.pass_ms(500);
        world.complete_as(|call| match call {
            Call::Write(Write::Remove { .. }) => Err(StoreError::Busy),
            _ => Ok(()),
        });
    }
    assert_eq!(world.hub.status().waiting, 0);
    assert_eq!(world.count(ProcessCounter::RemovalsGivenUp), 66_000 - 65_536);
    for left in [66_000 - 65_536, 0] {
        world.restart();
        world.turn();
        world.settle();
        assert_eq!(world.log.kept(Space::Pushes).len(), left);
    }
}

#[test]
fn a_push_for_many_is_one_call() {
    let mut world = HubHarness::new();
    for n in 0..100 {
        let seat = world.seat(&format!("d{n}"));
        world.close(&seat);
    }
    world.keeps = false;
    let key = |order: &mut model::ports::pushes::PushOrder| order.collapse = Some("k".into());
    let devices: Vec<_> = (0..100).map(|n| id(&format!("d{n}"))).collect();
    let target = model::ports::pushes::PushTarget::Devices(devices);
    world.push_to(target.clone(), key);
    let appends = |world: &HubHarness| {
        let calls = world.fx.calls.iter();
        calls.filter(|(_, call)| matches!(call, Call::Write(Write::Append(_)))).count()
    };
    assert_eq!((appends(&world), world.asked()), (1, 100));
    world.complete(Ok(()));
    let (_, reply) = world.push_to(target, key);
    assert_eq!((appends(&world), world.asked()), (1, 100));
    world.settle();
    let outcomes = world.outcomes(reply).expect("stored");
    assert!(outcomes.len() == 100 && outcomes.iter().all(|(_, is)| *is == Outcome::Stored));
    assert_eq!(world.log.kept(Space::Pushes).len(), 100);
    let (fan_out, _) = world.push_to(model::ports::pushes::PushTarget::Product, |_| {});
    world.complete(Ok(())); // the order itself
    world.hub.turn(world.now, &mut world.fx);
    assert_eq!((appends(&world), world.asked()), (1, 64), "one call a slice");
    world.complete(Ok(()));
    world.hub.turn(world.now, &mut world.fx);
    world.complete(Ok(()));
    assert_eq!(world.counts(fan_out).stored, 100);
    world.hub.audit();
}

#[test]
fn an_acknowledged_push_never_touches_the_log() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    world.keeps = false;
    world.settle();
    for _ in 0..10 {
        let (push, reply) = world.push("d", |_| {});
        world.ack(&seat, &[push]);
        assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    }
    assert_eq!(world.fx.calls.len(), 0);
}

#[test]
fn what_a_refused_push_was_to_replace_stays() {
    let key = |order: &mut PushOrder| order.collapse = Some("k".into());
    for error in [StoreError::Full, StoreError::TooLarge, StoreError::Busy, StoreError::Failed] {
        let mut world = HubHarness::with(Product { offline_count_max: 1, ..product() }, settings());
        let (old, _) = world.push("d", key);
        world.keeps = false;
        let (_, refused) = world.push("d", key);
        let (_, too) = world.push("d", key);
        world.complete(Err(error));
        assert!(matches!(world.outcome(refused), Some(Outcome::Rejected(_))));
        assert!(matches!(world.outcome(too), Some(Outcome::Rejected(_))));
        assert_eq!((world.hub.status().waiting, world.log.kept(Space::Pushes)), (1, vec![old.0]));
        world.hub.audit();
        world.seat("d");
        world.settle();
        assert_eq!(world.pushes(), [(old, false)], "{error:?}");
        world.hub.audit();
    }
}

#[test]
fn what_is_replaced_goes_when_the_log_or_the_device_has_the_new_one() {
    let key = |order: &mut PushOrder| order.collapse = Some("k".into());
    let mut world = HubHarness::new();
    let (old, _) = world.push("d", key);
    let (new, _) = world.push("d", key);
    assert_eq!((world.hub.status().waiting, world.log.kept(Space::Pushes)), (1, vec![new.0]));
    assert_eq!(world.count(PushCounter::Collapsed), 1);
    // The second push is stored when a third comes, and the device acknowledges that one before the
    // log has stored it.
    let mut bind = HubHarness::bind("d");
    bind.pulls = true;
    let seat = world.seat_with(bind);
    world.keeps = false;
    let (newest, _) = world.push("d", key);
    assert_eq!(world.pushes(), [(newest, false)]);
    world.ack(&seat, &[newest]);
    assert_eq!((world.hub.status().waiting, world.count(PushCounter::Collapsed)), (0, 2));
    world.hub.audit();
    world.settle();
    assert_eq!(world.log.kept(Space::Pushes), [] as [u64; 0], "nothing of {old:?}");
    // An acknowledgement of the old push does not end the new one.
    world.keeps = true;
    world.close(&seat);
    let (old, _) = world.push("d", key);
    let seat = world.seat("d");
    assert_eq!(world.pushes(), [(old, false)]);
    world.keeps = false;
    let (new, _) = world.push("d", key);
    world.ack(&seat, &[old]);
    assert_eq!(world.hub.status().waiting, 1);
    world.settle();
    assert_eq!(world.log.kept(Space::Pushes), [new.0]);
    world.hub.audit();
}

//! Orders with an idempotency key.

use crate::harness::{HubHarness, id, product, settings};
use crate::log::Did;
use model::counters::{ProcessCounter, PushCounter};
use model::id::MessageId;
use model::ports::log::StoreError;
use model::ports::pushes::{PushAnswer, PushCommand, PushOrder, PushTarget};
use model::product::Product;
use model::push::{Outcome, Priority, Rejection};
use model::timeline::Space;

/// Orders a push for these devices under a key; returns its id and the number of the command.
fn order(
    world: &mut HubHarness,
    names: &[&str],
    key: &str,
    change: impl FnOnce(&mut PushOrder),
) -> (MessageId, u64) {
    let message = world.real_id();
    let target = PushTarget::Devices(names.iter().map(|name| id(name)).collect());
    let reply = world.push_to(target, |order| {
        (order.id, order.wait_ms) = (message, 0);
        order.idempotency_key = Some(key.into());
        change(order);
    });
    (message, reply.1)
}

fn pushed(world: &mut HubHarness, reply: u64) -> (MessageId, Vec<(String, Outcome)>) {
    match world.answer(reply) {
        Some(PushAnswer::Pushed { id, outcomes, .. }) => {
            let mut outcomes: Vec<_> =
                outcomes.into_iter().map(|(device, is)| (device.to_string(), is)).collect();
            outcomes.sort_by(|a, b| a.0.cmp(&b.0));
            (id, outcomes)
        }
        other => panic!("not pushed: {other:?}"),
    }
}

fn all(names: &[&str], outcome: Outcome) -> Vec<(String, Outcome)> {
    names.iter().map(|name| ((*name).to_owned(), outcome)).collect()
}

#[test]
fn an_order_is_stored_before_it_is_sent() {
    let mut world = HubHarness::new();
    let seat = world.seat("there");
    world.keeps = false;
    world.settle();
    let (push, reply) = order(&mut world, &["there", "away"], "k", |_| {});
    assert_eq!((world.pushes(), world.answer(reply)), (vec![], None));
    world.hub.audit();
    assert_eq!(world.complete(Ok(())), [Did::Waits(push), Did::Waits(push)]);
    assert_eq!(world.pushes(), [(push, false)]);
    assert_eq!(pushed(&mut world, reply), (push, all(&["away", "there"], Outcome::Stored)));
    world.ack(&seat, &[push]);
    assert_eq!(world.complete(Ok(())), [Did::Over(push)]);
    assert_eq!(world.count(PushCounter::Stored), 2);
    world.hub.audit();
}

#[test]
fn an_order_may_wait_for_acknowledgements() {
    let mut world = HubHarness::new();
    let seat = world.seat("a");
    world.seat("b");
    let (push, reply) = order(&mut world, &["a", "b", "c"], "k", |order| order.wait_ms = 1_000);
    world.ack(&seat, &[push]);
    assert_eq!(world.answer(reply), None);
    world.pass_ms(1_200);
    let mut expected = all(&["a"], Outcome::Delivered);
    expected.extend(all(&["b", "c"], Outcome::Stored));
    assert_eq!(pushed(&mut world, reply), (push, expected));
    world.hub.audit();
}

#[test]
fn a_repeated_order_changes_nothing_also_later_and_after_a_restart() {
    let mut world = HubHarness::new();
    let (first, reply) = order(&mut world, &["d"], "k", |_| {});
    assert_eq!(pushed(&mut world, reply), (first, all(&["d"], Outcome::Stored)));
    for round in 0..3 {
        world.pass_ms(61_000);
        if round == 1 {
            world.restart();
        }
        let (again, reply) = order(&mut world, &["d"], "k", |_| {});
        assert_ne!(again, first);
        assert_eq!(pushed(&mut world, reply), (first, all(&["d"], Outcome::Stored)));
    }
    assert_eq!(world.log.kept(Space::Pushes), [first.0]);
    world.seat("d");
    assert_eq!(world.pushes(), [(first, false)]);
    world.hub.audit();
}

#[test]
fn an_order_lives_as_long_as_it_says() {
    let mut world = HubHarness::new();
    order(&mut world, &["d"], "k", |order| order.time_to_live_s = 100);
    world.pass_ms(95_000);
    assert_eq!(world.hub.status().waiting, 1);
    world.restart();
    assert_eq!(world.hub.status().waiting, 1);
    world.pass_ms(10_000);
    world.restart();
    assert_eq!(world.hub.status().waiting, 0);
}

#[test]
fn another_order_under_the_same_key_is_a_conflict() {
    let mut world = HubHarness::new();
    order(&mut world, &["d"], "k", |_| {});
    let changes: [fn(&mut PushOrder); 6] = [
        |order| order.body = Box::from(*b"other"),
        |order| order.silent = true,
        |order| order.notifies = true,
        |order| order.time_to_live_s = 60,
        |order| order.priority = Priority::High,
        |order| order.target = PushTarget::Devices(vec![id("e")]),
    ];
    for change in changes {
        let (_, reply) = order(&mut world, &["d"], "k", change);
        assert_eq!(world.answer(reply), Some(PushAnswer::Conflict));
    }
    assert_eq!(world.hub.status().waiting, 1);
    assert_eq!(world.count(ProcessCounter::StoreFailures), 0);
    let (other, reply) = order(&mut world, &["d"], "l", |_| {});
    assert_eq!(pushed(&mut world, reply).0, other);
    world.hub.audit();
}

#[test]
fn an_order_without_devices_keeps_its_key_alone() {
    let mut world = HubHarness::new();
    let claim = |world: &mut HubHarness, body: &[u8]| {
        let (_, reply) = order(world, &[], "k", |order| {
            (order.body, order.time_to_live_s) = (body.into(), 0);
        });
        world.answer(reply)
    };
    let Some(PushAnswer::Pushed { id: first, .. }) = claim(&mut world, b"one") else {
        panic!("not taken")
    };
    for _ in 0..2 {
        world.pass_ms(1_000);
        let again = claim(&mut world, b"one");
        let is_first = matches!(again, Some(PushAnswer::Pushed { id, .. }) if id == first);
        assert!(is_first, "{again:?}");
        assert_eq!(claim(&mut world, b"two"), Some(PushAnswer::Conflict));
        world.restart();
    }
    assert_eq!(world.hub.status().waiting, 0);
    world.hub.audit();
}

#[test]
fn devices_that_would_not_take_it_are_answered_so() {
    let mut world = HubHarness::with(Product { store_for_unknown: false, ..product() }, settings());
    world.seat("d");
    let blocked = PushCommand::Block { product: product().key, device: id("b"), blocked: true };
    world.tell(blocked);
    let (push, reply) = order(&mut world, &["b", "d", "x"], "k", |_| {});
    let expected = vec![
        ("b".to_owned(), Outcome::Rejected(Rejection::DeviceBlocked)),
        ("d".to_owned(), Outcome::Stored),
        ("x".to_owned(), Outcome::Rejected(Rejection::UnknownDevice)),
    ];
    assert_eq!(pushed(&mut world, reply), (push, expected.clone()));
    assert_eq!(world.log.kept(Space::Pushes), [push.0]);
    let (_, reply) = order(&mut world, &["b", "d", "x"], "k", |_| {});
    assert_eq!(pushed(&mut world, reply), (push, expected));
    let (_, reply) = order(&mut world, &["x"], "nobody", |_| {});
    assert_eq!(pushed(&mut world, reply).1.len(), 1, "nothing to claim");
    world.hub.audit();
}

#[test]
fn a_repeated_order_calls_nothing_stored_that_is_not() {
    let mut world = HubHarness::new();
    let block = |blocked| PushCommand::Block { product: product().key, device: id("b"), blocked };
    world.tell(block(true));
    let (push, _) = order(&mut world, &["a", "b"], "k", |_| {});
    world.tell(block(false));
    let (_, reply) = order(&mut world, &["a", "b"], "k", |_| {});
    let mut expected = all(&["a"], Outcome::Stored);
    expected.extend(all(&["b"], Outcome::Rejected(Rejection::Busy)));
    assert_eq!(pushed(&mut world, reply), (push, expected));
    let (push, _) = order(&mut world, &["a", "b"], "l", |_| {});
    world.tell(block(true));
    let (_, reply) = order(&mut world, &["a", "b"], "l", |_| {});
    assert_eq!(pushed(&mut world, reply), (push, all(&["a", "b"], Outcome::Stored)));
    world.hub.audit();
}

#[test]
fn now_or_never_is_sent_once() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let now = |order: &mut PushOrder| order.time_to_live_s = 0;
    let (push, reply) = order(&mut world, &["away", "d"], "k", now);
    world.ack(&seat, &[push]);
    let mut expected = all(&["away"], Outcome::Expired);
    expected.extend(all(&["d"], Outcome::Delivered));
    assert_eq!(pushed(&mut world, reply), (push, expected));
    world.pushes();
    let (_, reply) = order(&mut world, &["away", "d"], "k", now);
    assert_eq!(pushed(&mut world, reply).0, push);
    assert_eq!((world.pushes(), world.log.kept(Space::Pushes)), (vec![], vec![]));
    world.hub.audit();
}

#[test]
fn collapse_and_eviction_hold() {
    let mut world = HubHarness::with(Product { offline_count_max: 2, ..product() }, settings());
    let key = |order: &mut PushOrder| order.collapse = Some("c".into());
    let (old, _) = order(&mut world, &["d"], "1", key);
    let (new, _) = order(&mut world, &["d"], "2", key);
    assert_eq!(world.log.kept(Space::Pushes), [new.0]);
    let (third, _) = order(&mut world, &["d"], "3", |_| {});
    let (fourth, _) = order(&mut world, &["d"], "4", |_| {});
    assert_eq!(world.log.kept(Space::Pushes), [third.0, fourth.0]);
    assert_eq!((world.count(PushCounter::Collapsed), world.count(PushCounter::Evicted)), (1, 1));
    let (_, reply) = order(&mut world, &["d"], "1", key);
    assert_eq!(pushed(&mut world, reply).0, old, "it is over, and is not sent again");
    world.hub.audit();
}

#[test]
fn a_log_that_refuses_is_an_outcome_and_the_order_may_be_repeated() {
    for (error, why) in [
        (StoreError::Busy, Rejection::Busy),
        (StoreError::Full, Rejection::StoreFull),
        (StoreError::Failed, Rejection::StoreFailed),
    ] {
        let mut world = HubHarness::new();
        world.keeps = false;
        let (_, reply) = order(&mut world, &["a", "b"], "k", |_| {});
        world.complete(Err(error));
        assert_eq!(pushed(&mut world, reply).1, all(&["a", "b"], Outcome::Rejected(why)));
        let (push, reply) = order(&mut world, &["a", "b"], "k", |_| {});
        world.complete(Ok(()));
        assert_eq!(pushed(&mut world, reply), (push, all(&["a", "b"], Outcome::Stored)));
        world.hub.audit();
    }
}

#[test]
fn a_device_that_changed_while_the_log_was_asked_is_judged_again() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let (push, reply) = order(&mut world, &["b", "d"], "k", |_| {});
    let calls = std::mem::take(&mut world.fx.calls);
    world.tell(PushCommand::Block { product: product().key, device: id("b"), blocked: true });
    world.settle();
    world.fx.calls = calls;
    world.complete(Ok(()));
    let (_, outcomes) = pushed(&mut world, reply);
    assert_eq!(outcomes[0].1, Outcome::Rejected(Rejection::DeviceBlocked));
    assert_eq!(outcomes[1].1, Outcome::Stored);
    assert_eq!(world.complete(Ok(())), [Did::Over(push)]);
    world.hub.audit();
}

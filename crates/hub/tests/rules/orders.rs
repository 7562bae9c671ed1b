//! Answers to orders for a list of devices.

use crate::harness::{HubHarness, id, product, settings};
use crate::log::Did;
use model::counters::PushCounter;
use model::id::ProductKey;
use model::ports::pushes::{PushAnswer, PushCommand, PushTarget};
use model::product::Product;
use model::push::{Outcome, Rejection};

#[test]
fn an_acknowledged_push_is_delivered() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let (push, reply) = world.push("d", |_| {});
    assert_eq!(world.pushes(), [(push, false)]);
    assert_eq!(world.outcome(reply), None, "the answer waits");
    world.ack(&seat, &[push]);
    assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    assert_eq!(world.count(PushCounter::Stored), 0, "the store was not troubled");
    world.hub.audit();
}

#[test]
fn an_unacknowledged_push_is_stored_when_the_wait_is_over() {
    let mut world = HubHarness::new();
    world.seat("d");
    world.keeps = false;
    let (_, reply) = world.push("d", |_| {});
    world.pass_ms(900);
    assert_eq!(world.asked(), 0);
    world.pass_ms(300);
    assert_eq!(world.asked(), 1);
    assert_eq!(world.outcome(reply), None, "not stored before the store says so");
    world.complete(Ok(()));
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    world.hub.audit();
}

#[test]
fn a_push_for_a_device_that_is_away_is_stored() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let (_, reply) = world.push("stranger", |_| {});
    assert_eq!((world.asked(), world.outcome(reply)), (1, None));
    world.complete(Ok(()));
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    let state = world.state("stranger").expect("known by now");
    assert_eq!((state.epoch, state.since_ms, state.waiting), (0, 0, 1));
    world.hub.audit();
}

#[test]
fn now_or_never_needs_the_device_at_once() {
    let mut world = HubHarness::new();
    let now = |order: &mut model::ports::pushes::PushOrder| order.time_to_live_s = 0;
    let (_, reply) = world.push("stranger", now);
    assert_eq!(world.outcome(reply), Some(Outcome::Expired));
    assert_eq!(world.state("stranger"), None, "no record is made for it");
    let seat = world.seat("d");
    let (push, reply) = world.push("d", now);
    world.ack(&seat, &[push]);
    assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    let (_, reply) = world.push("d", now);
    world.pass_ms(10_200);
    assert_eq!(world.outcome(reply), Some(Outcome::Expired));
    let (_, reply) = world.push("d", now);
    world.close(&seat);
    assert_eq!(world.outcome(reply), Some(Outcome::Expired));
    assert_eq!(world.asked(), 0);
    world.hub.audit_idle();
}

#[test]
fn now_or_never_finds_a_full_window_closed() {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind("d");
    bind.inflight_max = 1;
    world.seat_with(bind);
    world.give("d");
    let (_, reply) = world.push("d", |order| order.time_to_live_s = 0);
    assert_eq!(world.outcome(reply), Some(Outcome::Expired));
}

#[test]
fn now_or_never_without_a_wait_is_given_the_time_that_devices_have_to_acknowledge() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let (push, reply) = world.push("d", |order| {
        (order.time_to_live_s, order.wait_ms) = (0, 0);
    });
    world.pass_ms(9_000);
    assert_eq!(world.outcome(reply), None);
    world.ack(&seat, &[push]);
    assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    let (_, reply) = world.push("d", |order| {
        (order.time_to_live_s, order.wait_ms) = (0, 0);
    });
    world.pass_ms(10_200);
    assert_eq!(world.outcome(reply), Some(Outcome::Expired));
}

#[test]
fn an_order_that_does_not_wait_is_stored_at_once_though_the_device_is_there() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let (push, reply) = world.push("d", |order| order.wait_ms = 0);
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    assert_eq!(world.pushes(), [(push, false)]);
    world.keeps = false;
    world.ack(&seat, &[push]);
    assert_eq!(world.complete(Ok(())), [Did::Over(push)]);
    world.hub.audit();
}

#[test]
fn each_device_of_a_list_has_its_own_outcome_once() {
    let mut world = HubHarness::new();
    let (there, slow) = (world.seat("there"), world.seat("slow"));
    world.tell(PushCommand::Block {
        product: ProductKey::parse("p").expect("a name"),
        device: id("blocked"),
        blocked: true,
    });
    let names = ["there", "slow", "away", "blocked", "there", "away"];
    let (push, reply) = world.push_to(PushTarget::Devices(names.map(id).to_vec()), |_| {});
    world.ack(&there, &[push]);
    assert_eq!(world.outcomes(reply), None);
    world.pass_ms(1_200);
    let mut outcomes = world.outcomes(reply).expect("the wait is over");
    outcomes.sort_by(|a, b| a.0.cmp(&b.0));
    let blocked = Outcome::Rejected(Rejection::DeviceBlocked);
    assert_eq!(
        outcomes,
        [
            (id("away"), Outcome::Stored),
            (id("blocked"), blocked),
            (id("slow"), Outcome::Stored),
            (id("there"), Outcome::Delivered),
        ]
    );
    world.ack(&slow, &[push]);
    assert_eq!(world.outcomes(reply), None, "answered once");
    world.hub.audit();
}

#[test]
fn a_close_while_the_answer_waits_stores_the_push() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let (push, reply) = world.push("d", |order| order.wait_ms = 30_000);
    world.close(&seat);
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    world.pushes();
    world.seat("d");
    assert_eq!(world.pushes(), [(push, true)]);
    world.hub.audit();
}

#[test]
fn a_take_over_while_the_answer_waits_does_not_lose_it() {
    let mut world = HubHarness::new();
    world.seat("d");
    let (push, reply) = world.push("d", |order| order.wait_ms = 30_000);
    let new = world.seat("d");
    world.ack(&new, &[push]);
    assert_eq!(world.outcome(reply), Some(Outcome::Delivered));
    assert_eq!(world.count(PushCounter::Stored), 0);
    world.hub.audit();
}

#[test]
fn a_product_may_refuse_devices_that_never_bound() {
    let product = Product { store_for_unknown: false, ..product() };
    let mut world = HubHarness::with(product, settings());
    let (_, reply) = world.push("stranger", |_| {});
    assert_eq!(world.outcome(reply), Some(Outcome::Rejected(Rejection::UnknownDevice)));
    assert_eq!(world.hub.status().devices, 0);
    let seat = world.seat("d");
    world.close(&seat);
    let (_, reply) = world.push("d", |_| {});
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
}

#[test]
fn an_unknown_product_and_a_repeated_id_are_answered() {
    let mut world = HubHarness::new();
    world.seat("d");
    let (_, reply) = world.push("d", |order| {
        order.product = ProductKey::parse("q").expect("a name");
    });
    assert_eq!(world.answer(reply), Some(PushAnswer::UnknownProduct));
    let (first, _) = world.push("d", |_| {});
    let (_, reply) = world.push("d", |order| order.id = first);
    assert_eq!(world.answer(reply), Some(PushAnswer::Busy));
    world.hub.audit();
}

#[test]
fn a_time_to_live_is_cut_to_the_products_longest() {
    let product = Product { time_to_live_max_s: 10, ..product() };
    let mut world = HubHarness::with(product, settings());
    world.give("d");
    world.pass_ms(45_000);
    assert_eq!(world.count(PushCounter::Expired), 1);
}

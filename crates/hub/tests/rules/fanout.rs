//! Pushes to tags and products, and other scans over many devices.

use crate::harness::{HubHarness, id, limited, product, settings, tag};
use model::counters::PushCounter;
use model::id::ProductKey;
use model::ports::pushes::{PushAnswer, PushCommand, PushTarget};
use model::product::Product;
use model::push::{Outcome, Rejection};
use model::request::{PushDelivery, Refusal};
use model::service::Service;
use std::sync::Arc;

fn key() -> ProductKey {
    ProductKey::parse("p").expect("a name")
}

fn crowd(count: usize) -> (HubHarness, Vec<crate::harness::Seat>) {
    let mut world = HubHarness::new();
    let seats = (0..count).map(|n| world.seat(&format!("d{n}"))).collect();
    world.deliveries();
    (world, seats)
}

#[test]
fn a_fan_out_goes_in_slices() {
    let (mut world, _) = crowd(1_000);
    let (push, reply) = world.push_to(PushTarget::Product, |_| {});
    let Some(PushAnswer::Pushed { id, outcomes, counts }) = world.answer(reply) else {
        panic!("answered at once");
    };
    assert_eq!((id, outcomes.len(), counts.running, counts.matched), (push, 0, true, 0));
    let mut slices = Vec::new();
    while world.counts(push).running {
        world.hub.turn(world.now, &mut world.fx);
        slices.push(world.pushes().len());
    }
    assert!(slices.iter().all(|&slice| slice <= 64), "{slices:?}");
    assert_eq!(slices.iter().sum::<usize>(), 1_000);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.pending), (1_000, 1_000));
    world.hub.audit();
}

#[test]
fn counts_follow_each_push_to_its_end() {
    let (mut world, seats) = crowd(4);
    world.close(&seats[3]);
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    world.turn();
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.pending, counts.stored), (4, 3, 1));
    world.ack(&seats[0], &[push]);
    world.close(&seats[1]);
    let counts = world.counts(push);
    assert_eq!((counts.pending, counts.delivered, counts.stored), (1, 1, 2));
    world.pass_ms(11_000); // unacknowledged for so long: the store has to know
    let counts = world.counts(push);
    assert_eq!((counts.pending, counts.delivered, counts.stored), (0, 1, 3));
    world.ack(&seats[2], &[push]);
    let late = world.seat("d3");
    world.ack(&late, &[push]);
    let counts = world.counts(push);
    assert_eq!((counts.pending, counts.delivered, counts.stored), (0, 3, 1));
    world.pass_ms(3_700_000);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.delivered, counts.expired), (4, 3, 1));
    world.hub.audit();
}

#[test]
fn a_fan_out_for_now_or_never_is_over_soon() {
    let (mut world, seats) = crowd(3);
    world.close(&seats[0]);
    let (push, _) = world.push_to(PushTarget::Product, |order| order.time_to_live_s = 0);
    world.turn();
    world.ack(&seats[1], &[push]);
    world.pass_ms(11_000);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.delivered, counts.expired), (3, 1, 2));
    assert_eq!(world.hub.status().waiting, 0);
    world.hub.audit();
}

#[test]
fn a_tag_reaches_those_who_carry_it() {
    let mut world = HubHarness::new();
    for (name, tags) in [("a", vec!["x"]), ("b", vec!["x", "y"]), ("c", vec!["y"]), ("d", vec![])] {
        let mut bind = HubHarness::bind(name);
        bind.tags = Some(tags.into_iter().map(tag).collect());
        world.seat_with(bind);
    }
    let matched = |world: &mut HubHarness, name: &str| {
        let (push, _) = world.push_to(PushTarget::Tag(tag(name)), |_| {});
        world.turn();
        let counts = world.counts(push);
        assert!(!counts.running);
        counts.matched
    };
    assert_eq!(["x", "y", "z"].map(|name| matched(&mut world, name)), [2, 2, 0]);
    let tags = vec![tag("z"), tag("z")];
    let set = PushCommand::SetTags { product: key(), device: id("b"), tags };
    assert_eq!(world.command(set), PushAnswer::Done(true));
    assert_eq!(["x", "y", "z"].map(|name| matched(&mut world, name)), [1, 1, 1]);
    let tags = (0..33).map(|n| tag(&format!("t{n}"))).collect();
    let many = PushCommand::SetTags { product: key(), device: id("b"), tags };
    assert_eq!(world.command(many), PushAnswer::Done(false));
    world.hub.audit();
}

#[test]
fn who_comes_and_goes_during_a_scan_is_matched_at_most_once() {
    let (mut world, seats) = crowd(200);
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    world.hub.turn(world.now, &mut world.fx);
    for n in 0..100 {
        world.seat(&format!("new{n}"));
    }
    for seat in &seats {
        world.close(seat);
    }
    for n in 0..200 {
        world.seat(&format!("d{n}"));
    }
    world.turn();
    let counts = world.counts(push);
    assert_eq!(counts.matched, 200, "those who were known when it began");
    let mut got: Vec<_> = world
        .fx
        .deliveries
        .iter()
        .filter_map(|(conn, delivery)| {
            matches!(delivery, PushDelivery::Push { .. }).then_some(*conn)
        })
        .collect();
    got.sort_unstable();
    assert!(got.windows(2).all(|pair| pair[0] != pair[1]), "once a connection");
    world.hub.audit();
}

#[test]
fn two_fan_outs_take_turns() {
    let (mut world, _) = crowd(300);
    let (first, _) = world.push_to(PushTarget::Product, |_| {});
    let (second, _) = world.push_to(PushTarget::Product, |_| {});
    for _ in 0..4 {
        world.hub.turn(world.now, &mut world.fx);
    }
    assert_eq!([first, second].map(|push| world.counts(push).matched), [128, 128]);
    world.turn();
    assert_eq!([first, second].map(|push| world.counts(push).matched), [300, 300]);
}

#[test]
fn a_fan_out_waits_for_the_store_to_catch_up() {
    let mut world = HubHarness::with(product(), settings());
    for n in 0..6_000 {
        let seat = world.seat(&format!("d{n}"));
        world.close(&seat);
    }
    world.keeps = false;
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    for _ in 0..200 {
        world.hub.turn(world.now, &mut world.fx);
    }
    world.complete(Ok(())); // the order itself
    for _ in 0..200 {
        world.hub.turn(world.now, &mut world.fx);
    }
    let waiting = world.asked();
    assert!((4_096..4_096 + 64).contains(&waiting), "{waiting}");
    let next = world.hub.turn(world.now, &mut world.fx).expect("it goes on");
    assert!(next > world.now.mono, "it does not spin");
    world.keeps = true;
    world.turn();
    world.pass_ms(20);
    world.pass_ms(20);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.stored, counts.running), (6_000, 6_000, false));
    world.hub.audit();
}

#[test]
fn only_so_many_jobs_are_remembered() {
    let limits = limited(|pushes| pushes.jobs_max = 3);
    let mut world = HubHarness::with(product(), hub::Settings { limits, ..settings() });
    let pushes: Vec<_> = (0..3).map(|_| world.push_to(PushTarget::Product, |_| {}).0).collect();
    let (_, reply) = world.push_to(PushTarget::Product, |_| {});
    assert_eq!(world.answer(reply), Some(PushAnswer::Busy), "all three are running");
    world.turn();
    let (last, _) = world.push_to(PushTarget::Product, |_| {});
    world.turn();
    assert_eq!(world.command(PushCommand::PushCounts(pushes[0])), PushAnswer::Counts(None));
    assert_eq!(world.counts(pushes[1]).matched + world.counts(last).matched, 0);
}

#[test]
fn receipts_tell_each_end() {
    let (mut world, seats) = crowd(2);
    let (push, _) = world.push_to(PushTarget::Product, |order| {
        (order.receipts, order.time_to_live_s) = (true, 0);
    });
    world.turn();
    world.events();
    world.ack(&seats[0], &[push]);
    world.close(&seats[1]);
    assert_eq!(world.receipts(), [(push, Outcome::Delivered), (push, Outcome::Expired)]);
}

#[test]
fn new_terms_reach_those_online() {
    let (mut world, seats) = crowd(100);
    world.close(&seats[0]);
    let mut changed = product();
    changed.heartbeat.default_s = 600;
    changed.inflight_max = 5;
    world.tell(PushCommand::PutProduct(Box::new(changed)));
    world.deliveries();
    assert_eq!(world.command(PushCommand::Configure { product: key() }), PushAnswer::Done(true));
    world.turn();
    let deliveries = world.deliveries();
    assert_eq!(deliveries.len(), 99);
    for (_, delivery) in deliveries {
        let PushDelivery::Configure { heartbeat_s, inflight_max, .. } = delivery else {
            panic!("{delivery:?}");
        };
        assert!((600..=660).contains(&heartbeat_s) && inflight_max == 5);
    }
}

#[test]
fn a_dropped_product_takes_its_devices_along() {
    let (mut world, seats) = crowd(100);
    world.close(&seats[0]);
    let mut bind = HubHarness::bind("tagged");
    bind.tags = Some(vec![tag("t")]);
    world.seat_with(bind);
    let (first, reply) = world.push("d0", |order| order.receipts = true);
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    let (_, waits) = world.push("d1", |order| order.wait_ms = 30_000);
    let (scan, _) = world.push_to(PushTarget::Product, |_| {});
    world.hub.turn(world.now, &mut world.fx);
    world.deliveries();
    assert_eq!(world.command(PushCommand::DropProduct(key())), PushAnswer::Done(true));
    let conn = world.conn();
    let PushDelivery::Refused(refused) = world.try_bind(conn, HubHarness::bind("d1")) else {
        panic!()
    };
    assert_eq!(refused.why, Refusal::UnknownProduct);
    world.turn();
    let is_kick = |delivery: &PushDelivery| match delivery {
        PushDelivery::Kick(kick) => kick.why == Refusal::AdminKick,
        _ => false,
    };
    let kicked = world.deliveries().into_iter().filter(|(_, delivery)| is_kick(delivery));
    assert_eq!(kicked.count(), 100);
    let given_up = Outcome::Rejected(Rejection::Evicted);
    assert_eq!(world.outcome(waits), Some(given_up));
    assert!(world.receipts().contains(&(first, given_up)));
    let counts = world.counts(scan);
    assert_eq!((counts.running, counts.rejected), (false, counts.matched));
    assert_eq!(world.hub.status().devices, 0);
    world.pass_ms(1_000);
    world.turn();
    world.hub.audit_idle();
    // The same key now names another product.
    world.hub.install(Arc::new(Product { app_id: 8, ..product() }));
    assert_eq!(world.seat("d1").bound.app_id, 8);
    assert_eq!(world.command(PushCommand::DropProduct(ProductKey::parse("q").expect("a name"))), {
        PushAnswer::Done(false)
    });
    assert_eq!(world.count(PushCounter::BindsRefused), 1);
    world.hub.audit();
}

#[test]
fn what_finds_a_full_window_is_stored_at_once() {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind("d");
    bind.inflight_max = 1;
    world.seat_with(bind);
    let (first, _) = world.push_to(PushTarget::Product, |_| {});
    let (second, _) = world.push_to(PushTarget::Product, |_| {});
    world.turn();
    let stored = [first, second].map(|push| world.counts(push).stored);
    assert_eq!((stored, world.pushes()), ([0, 1], vec![(first, false)]));
    world.hub.audit();
}

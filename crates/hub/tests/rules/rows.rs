//! Rows of devices: which changes are written when, and which answers wait for them.

use crate::harness::{HubHarness, id, limited, product, settings, tag};
use crate::log::Did;
use model::ports::log::{Call, StoreError, Table, Write};
use model::ports::pushes::{PushAnswer, PushCommand, PushTarget};
use model::push::{Outcome, Rejection};
use model::service::Service;
use model::timeline::Space;

fn set_tags(name: &str, tags: &[&str]) -> PushCommand {
    let tags = tags.iter().map(|name| tag(name)).collect();
    PushCommand::SetTags { product: product().key, device: id(name), tags }
}

fn block(name: &str, blocked: bool) -> PushCommand {
    PushCommand::Block { product: product().key, device: id(name), blocked }
}

fn rows_asked(world: &HubHarness) -> usize {
    let is_row =
        |call: &Call| matches!(call, Call::Write(Write::Put { table: Table::Devices, .. }));
    world.fx.calls.iter().filter(|(_, call)| is_row(call)).count()
}

fn tags(world: &mut HubHarness, name: &str) -> Vec<String> {
    let state = world.state(name);
    state.map_or(Vec::new(), |state| state.tags.iter().map(ToString::to_string).collect())
}

#[test]
fn a_first_bind_is_written_at_once_and_later_ones_by_the_sweep() {
    let mut world = HubHarness::new();
    world.keeps = false;
    world.settle();
    let seat = world.seat("d");
    assert_eq!(rows_asked(&world), 1, "and nobody waited");
    world.settle();
    world.close(&seat);
    world.seat("d");
    assert_eq!((rows_asked(&world), world.hub.unwritten()), (0, 1));
    world.pass_ms(31_000);
    assert_eq!((rows_asked(&world), world.hub.unwritten()), (1, 0), "together");
    world.complete(Err(StoreError::Full));
    assert_eq!(world.hub.unwritten(), 1);
    world.pass_ms(31_000);
    world.settle();
    assert_eq!(world.hub.unwritten(), 0, "again after a refusal");
    world.pass_ms(31_000);
    assert_eq!(rows_asked(&world), 0);
    world.hub.audit();
}

#[test]
fn tags_of_a_bind_are_written_at_once() {
    let mut world = HubHarness::new();
    world.seat("d");
    world.keeps = false;
    let mut bind = HubHarness::bind("d");
    bind.tags = Some(vec![tag("t")]);
    world.seat_with(bind.clone());
    assert_eq!(rows_asked(&world), 1);
    world.settle();
    world.seat_with(bind);
    assert_eq!(rows_asked(&world), 0, "they are the same");
    world.restart();
    assert_eq!(tags(&mut world, "d"), ["t"]);
}

#[test]
fn tags_of_the_api_are_answered_when_they_are_stored() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let reply = world.tell(set_tags("d", &["a"]));
    assert_eq!((world.answer(reply), tags(&mut world, "d")), (None, vec![]));
    world.hub.audit();
    world.complete(Ok(()));
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    assert_eq!(tags(&mut world, "d"), ["a"]);
    let reply = world.tell(set_tags("d", &["b"]));
    world.complete(Err(StoreError::Full));
    assert_eq!(world.answer(reply), Some(PushAnswer::StoreFailed));
    assert_eq!(tags(&mut world, "d"), ["a"], "nothing was done");
    world.pass_ms(31_000);
    world.settle();
    world.restart();
    assert_eq!(tags(&mut world, "d"), ["a"]);
    let reply = world.tell(set_tags("new", &["a"]));
    world.complete(Err(StoreError::Busy));
    assert_eq!((world.answer(reply), world.state("new")), (Some(PushAnswer::StoreFailed), None));
    world.hub.audit();
}

#[test]
fn orders_that_overlap_do_not_undo_each_other() {
    let mut world = HubHarness::new();
    world.keeps = false;
    world.tell(block("d", true));
    world.tell(set_tags("d", &["a"]));
    assert_eq!(rows_asked(&world), 1, "the second waits for the first");
    world.complete(Ok(()));
    assert_eq!(rows_asked(&world), 1);
    world.complete(Ok(()));
    world.restart();
    assert!(world.state("d").expect("known").blocked);
    assert_eq!(tags(&mut world, "d"), ["a"]);
}

#[test]
fn a_refused_order_is_in_no_other_row_even_for_a_moment() {
    let mut world = HubHarness::new();
    world.seat("d");
    world.keeps = false;
    let reply = world.tell(block("d", true));
    let mut bind = HubHarness::bind("d");
    bind.tags = Some(vec![tag("own")]);
    world.seat_with(bind);
    let next = world.tell(set_tags("d", &["a"]));
    assert_eq!(rows_asked(&world), 1, "what is not stored is in no row but its own");
    world.complete(Err(StoreError::Full));
    assert_eq!((world.answer(reply), rows_asked(&world)), (Some(PushAnswer::StoreFailed), 1));
    world.complete(Ok(()));
    assert_eq!(world.answer(next), Some(PushAnswer::Done(true)));
    world.restart();
    assert!(!world.state("d").expect("known").blocked);
    assert_eq!(tags(&mut world, "d"), ["a"]);
}

#[test]
fn what_a_device_told_while_an_order_was_on_its_way_is_written_behind_it() {
    let mut world = HubHarness::new();
    world.seat("d");
    world.keeps = false;
    world.tell(block("d", false));
    let mut bind = HubHarness::bind("d");
    bind.tags = Some(vec![tag("own")]);
    world.seat_with(bind);
    world.complete(Ok(()));
    assert_eq!(rows_asked(&world), 1, "at once");
    world.complete(Ok(()));
    world.restart();
    assert_eq!(tags(&mut world, "d"), ["own"]);
}

#[test]
fn orders_of_one_device_that_wait_have_a_limit_and_each_is_answered() {
    let mut world = HubHarness::new();
    world.seat("d");
    world.keeps = false;
    let replies: Vec<_> = (0..65).map(|n| world.tell(block("d", n % 2 == 0))).collect();
    let late = world.tell(block("d", true));
    assert_eq!(world.answer(late), Some(PushAnswer::Busy));
    for reply in replies {
        assert_eq!(world.answer(reply), None);
        world.complete(Ok(()));
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    }
    world.settle();
    world.hub.audit();
    world.restart();
    assert!(world.state("d").expect("known").blocked);
}

#[test]
fn orders_that_wait_for_a_device_that_goes_are_answered() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let first = world.tell(block("d", true));
    let second = world.tell(set_tags("d", &["a"]));
    let dropped = world.tell(PushCommand::DropProduct(product().key));
    let calls = std::mem::take(&mut world.fx.calls);
    for (ticket, call) in calls.into_iter().rev() {
        let done = world.log.answer(&call);
        world.hub.complete(world.now, (ticket, done), &mut world.fx);
        world.turn();
    }
    assert_eq!(world.answer(dropped), Some(PushAnswer::Done(true)));
    for reply in [first, second] {
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(false)));
    }
    world.settle();
    world.hub.audit();
}

#[test]
fn a_push_for_a_device_that_never_bound_makes_its_row_first() {
    let mut world = HubHarness::new();
    world.keeps = false;
    world.give("d");
    let calls: Vec<_> = world.fx.calls.iter().map(|(_, call)| call).collect();
    let [Call::Write(Write::Put { .. }), Call::Write(Write::Append(_))] = calls[..] else {
        panic!("{calls:?}");
    };
    world.complete(Ok(()));
    world.give("d");
    assert_eq!(rows_asked(&world), 0);
}

#[test]
fn a_forgotten_device_loses_its_row() {
    let limits = limited(|pushes| pushes.forget_after_s = 100);
    let mut world = HubHarness::with(product(), hub::Settings { limits, ..settings() });
    let seat = world.seat("d");
    world.seat("online");
    world.close(&seat);
    assert_eq!(world.log.rows(Table::Devices), 2);
    for _ in 0..5 {
        world.pass_ms(31_000);
    }
    assert_eq!((world.state("d"), world.log.rows(Table::Devices)), (None, 1));
    world.hub.audit();
}

#[test]
fn a_row_that_could_not_be_deleted_is_deleted_later_unless_its_device_is_back() {
    for back in [false, true] {
        let limits = limited(|pushes| pushes.forget_after_s = 100);
        let mut world = HubHarness::with(product(), hub::Settings { limits, ..settings() });
        let seat = world.seat("d");
        world.close(&seat);
        world.keeps = false;
        for _ in 0..5 {
            world.pass_ms(31_000);
            world.complete_as(|call| match call {
                Call::Write(Write::Delete { .. }) => Err(StoreError::Busy),
                _ => Ok(()),
            });
        }
        assert_eq!((world.state("d"), world.log.rows(Table::Devices)), (None, 1));
        if back {
            world.seat("d");
        }
        world.pass_ms(2_000);
        world.settle();
        assert_eq!(world.log.rows(Table::Devices), usize::from(back));
    }
}

#[test]
fn a_drain_writes_all_rows_in_slices() {
    let mut world = HubHarness::new();
    let seats: Vec<_> = (0..6_000).map(|n| world.seat(&format!("d{n}"))).collect();
    world.pass_ms(31_000);
    for _ in 0..100 {
        world.pass_ms(5_000);
    }
    assert_eq!(world.hub.unwritten(), 0);
    world.keeps = false;
    let now = world.now;
    world.hub.set_draining(now, true);
    seats.iter().for_each(|seat| world.close(seat));
    assert_eq!(world.hub.unwritten(), 6_000);
    world.hub.turn(world.now, &mut world.fx);
    assert_eq!(rows_asked(&world), 256);
    for _ in 0..100 {
        world.hub.turn(world.now, &mut world.fx);
    }
    assert_eq!(rows_asked(&world), 4_096, "no more than the log may be handed");
    let next = world.hub.turn(world.now, &mut world.fx).expect("it goes on");
    assert!(next > world.now.mono, "it does not spin");
    world.keeps = true;
    world.store();
    world.pass_ms(10);
    assert_eq!(world.hub.unwritten(), 0);
    let next = world.hub.turn(world.now, &mut world.fx).expect("it sweeps on");
    assert!(next > world.now.mono, "there is nothing left to write");
    world.restart();
    let reason = world.state("d5999").expect("known").reason;
    assert_eq!(reason, Some(model::close::CloseReason::PeerClosed));
}

#[test]
fn a_log_that_has_failed_is_not_asked_for_rows() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    world.keeps = false;
    world.give("d");
    world.complete(Err(StoreError::Failed));
    world.close(&seat);
    world.complete(Err(StoreError::Failed));
    for _ in 0..10 {
        world.pass_ms(31_000);
        world.complete(Err(StoreError::Failed));
    }
    let now = world.now;
    world.hub.set_draining(now, true);
    world.turn();
    assert_eq!((world.fx.calls.len(), world.hub.unwritten()), (0, 0));
    world.hub.audit();
}

#[test]
fn a_dropped_product_takes_rows_and_pushes_along() {
    let mut world = HubHarness::new();
    for n in 0..100 {
        world.give(&format!("d{n}"));
    }
    let seat = world.seat("d0");
    world.keeps = false;
    let (_, late) = world.push("d1", |_| {}); // not in the log yet when the product goes
    let reply = world.tell(PushCommand::DropProduct(product().key));
    world.complete(Ok(()));
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    assert!(world.outcome(late).is_some());
    let (_, last) = world.push_to(PushTarget::Product, |_| {});
    assert_eq!(world.answer(last), Some(PushAnswer::UnknownProduct));
    world.hub.turn(world.now, &mut world.fx);
    let forgets = |world: &HubHarness| {
        let calls = world.fx.calls.iter();
        calls.filter(|(_, call)| matches!(call, Call::Write(Write::Forget(_)))).count()
    };
    assert_eq!(forgets(&world), 64, "in slices");
    world.turn();
    assert_eq!((forgets(&world), world.asked()), (100, 0));
    world.complete_as(|call| match call {
        Call::Write(Write::Forget(_)) => Err(StoreError::Busy),
        _ => Ok(()),
    });
    world.pass_ms(2_000);
    world.settle();
    assert_eq!((world.log.rows(Table::Devices), world.log.rows(Table::Products)), (0, 1));
    assert_eq!(world.log.kept(Space::Pushes), []);
    assert!(!world.deliveries().is_empty(), "{seat:?} was kicked");
    world.hub.audit_idle();
}

#[test]
fn nothing_is_stored_for_a_device_whose_first_row_was_refused() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let (push, reply) = world.push("d", |_| {});
    world.complete_as(|call| match call {
        Call::Write(Write::Put { .. }) => Err(StoreError::Busy),
        _ => Ok(()),
    });
    assert_eq!(world.outcome(reply), Some(Outcome::Rejected(Rejection::Busy)));
    assert_eq!(world.complete(Ok(())), [Did::Over(push)]);
    let (_, reply) = world.push("d", |_| {});
    assert_eq!(rows_asked(&world), 1, "asked for again with the next push");
    world.complete(Ok(()));
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    world.restart();
    assert_eq!(world.hub.status().waiting, 1);
    world.hub.audit();
}

//! A restart rebuilds the hub's memory from the log.

use crate::harness::{HubHarness, id, product, settings, tag};
use base::hash::HashKey;
use hub::{home_parts, timeline_of};
use model::close::CloseReason;
use model::id::{MessageId, ProductKey};
use model::ports::log::{Append, Call, Restored, RowHome, StoreError, Table, Write};
use model::ports::pushes::{PushAnswer, PushCommand, PushOrder};
use model::product::Product;
use model::push::{Outcome, Priority, Rejection};
use model::request::{PushDelivery, Refusal, Resume};
use model::timeline::Space;
use std::sync::Arc;

#[test]
fn what_waits_waits_again_in_its_order() {
    let mut world = HubHarness::new();
    let (a, b) = (world.give("d"), world.give("d"));
    let (high, _) = world.push("d", |order| order.priority = Priority::High);
    let before = world.hub.status();
    world.restart();
    world.hub.audit();
    let after = world.hub.status();
    assert_eq!((after.waiting, after.waiting_bytes), (3, before.waiting_bytes));
    let seat = world.seat("d");
    assert_eq!(seat.bound.offline_count, 3);
    assert_eq!(world.pushes(), [high, a, b].map(|id| (id, false)));
    world.ack(&seat, &[a, b, high]);
    assert_eq!(world.log.kept(Space::Pushes), []);
    world.restart();
    assert_eq!(world.hub.status().waiting, 0);
    world.hub.audit();
}

#[test]
fn rules_hold_for_what_was_restored() {
    let mut world = HubHarness::with(Product { offline_count_max: 2, ..product() }, settings());
    let key = |order: &mut PushOrder| order.collapse = Some("k".into());
    world.push("d", key);
    world.restart();
    let (new, _) = world.push("d", key);
    assert_eq!(world.log.kept(Space::Pushes), [new.0], "collapse");
    let second = world.give("d");
    world.restart();
    let third = world.give("d");
    assert_eq!(world.log.kept(Space::Pushes), [second.0, third.0], "eviction");
    world.push("e", |order| order.time_to_live_s = 5);
    world.restart();
    assert_eq!(world.hub.status().waiting, 3);
    world.pass_ms(40_000);
    assert_eq!(world.hub.status().waiting, 2, "expiry");
    assert_eq!(world.log.kept(Space::Pushes).len(), 2);
}

#[test]
fn what_replaces_a_stored_push_is_stored_itself_whoever_waits_for_its_acknowledgement() {
    let mut world = HubHarness::with(Product { offline_count_max: 1, ..product() }, settings());
    let key = |order: &mut PushOrder| order.collapse = Some("k".into());
    world.push("d", key);
    world.seat("d");
    let (new, _) = world.push("d", key);
    assert_eq!(world.log.kept(Space::Pushes), [new.0], "collapse");
    let (last, _) = world.push("d", |_| {});
    assert_eq!(world.log.kept(Space::Pushes), [last.0], "eviction");
    world.restart();
    assert_eq!(world.hub.status().waiting, 1);
    world.hub.audit();
}

#[test]
fn what_was_replaced_stays_replaced_when_a_kill_comes_between() {
    let mut world = HubHarness::new();
    let key = |order: &mut PushOrder| order.collapse = Some("k".into());
    world.push("d", key);
    world.keeps = false;
    let (new, _) = world.push("d", key);
    world.complete_as(|call| match call {
        Call::Write(Write::Remove { .. }) => Err(StoreError::Busy),
        _ => Ok(()),
    });
    assert_eq!(world.log.kept(Space::Pushes).len(), 2, "the old one is not over for the log");
    world.restart();
    assert_eq!(world.hub.status().waiting, 1);
    world.keeps = true;
    world.turn();
    world.settle();
    assert_eq!(world.log.kept(Space::Pushes), [new.0]);
    world.hub.audit();
}

#[test]
fn what_expired_meanwhile_is_cleaned_up() {
    let mut world = HubHarness::new();
    world.push("d", |order| order.time_to_live_s = 5);
    let kept = world.give("d");
    world.now.wall_ms += 10_000;
    world.restart();
    assert_eq!(world.hub.status().waiting, 1);
    world.turn();
    assert_eq!(world.log.kept(Space::Pushes), [kept.0]);
}

#[test]
fn a_push_without_its_completion_is_there_once_or_not_at_all() {
    let mut world = HubHarness::new();
    world.keeps = false;
    world.give("d");
    world.restart();
    assert_eq!(world.hub.status().waiting, 0, "the log did not have it");
    let push = world.give("d");
    let calls = std::mem::take(&mut world.fx.calls);
    calls.iter().for_each(|(_, call)| assert!(world.log.answer(call).is_ok()));
    world.restart();
    assert_eq!((world.hub.status().waiting, world.log.kept(Space::Pushes)), (1, vec![push.0]));
    world.hub.audit();
}

#[test]
fn a_push_that_stands_in_the_log_twice_waits_once() {
    let mut world = HubHarness::new();
    let (push, next) = (world.give("d"), world.give("d"));
    let timeline = timeline_of(settings().home, "p", "d");
    let message = world.log.messages(timeline).swap_remove(0);
    let append = Append { message, to: vec![timeline], once: None, heard: None, ends: false };
    assert!(world.log.answer(&Call::Write(Write::Append(append))).is_ok());
    world.restart();
    world.turn();
    assert_eq!((world.hub.status().waiting, world.log.messages(timeline).len()), (2, 2));
    world.seat("d");
    assert_eq!(world.pushes(), [(push, false), (next, false)]);
    world.hub.audit();
}

#[test]
fn an_end_that_was_not_told_is_a_push_sent_again() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let push = world.give("d");
    let seat = world.seat("d");
    world.ack(&seat, &[push]);
    world.complete(Ok(()));
    world.restart();
    world.keeps = true;
    world.seat("d");
    assert_eq!(world.pushes(), [(push, false)], "at least once");
}

#[test]
fn tags_blocks_and_the_last_session_are_remembered() {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind("d");
    bind.tags = Some(vec![tag("a"), tag("b")]);
    let seat = world.seat_with(bind);
    world.seat("online");
    world.pass_ms(1_000);
    world.close(&seat);
    let product = product().key;
    world.tell(PushCommand::Block { product: product.clone(), device: id("bad"), blocked: true });
    let tags = vec![tag("c")];
    world.tell(PushCommand::SetTags { product, device: id("new"), tags: tags.clone() });
    world.pass_ms(31_000);
    world.pass_ms(31_000);
    let names = ["d", "bad", "new"];
    let before = names.map(|name| world.state(name).expect("known"));
    assert_eq!(before[0].reason, Some(CloseReason::PeerClosed));
    world.restart();
    assert_eq!(names.map(|name| world.state(name).expect("known")), before);
    let online = world.state("online").expect("known");
    assert_eq!((online.online, online.reason), (false, Some(CloseReason::ServerStopped)));
    assert_eq!((online.protocol, online.epoch > 0), ("miop7", true));
    assert_eq!((before[1].blocked, before[2].tags.clone()), (true, tags));
    let conn = world.conn();
    let PushDelivery::Refused(refused) = world.try_bind(conn, HubHarness::bind("bad")) else {
        panic!()
    };
    assert_eq!(refused.why, Refusal::DeviceBlocked);
    let (push, _) = world.push_to(model::ports::pushes::PushTarget::Tag(tag("a")), |_| {});
    world.turn();
    assert_eq!(world.counts(push).matched, 1);
    world.hub.audit();
}

#[test]
fn a_device_that_was_bound_once_is_known_for_good() {
    let unknown = Outcome::Rejected(Rejection::UnknownDevice);
    let mut world = HubHarness::with(Product { store_for_unknown: false, ..product() }, settings());
    world.seat("d");
    world.restart();
    let (_, reply) = world.push("d", |_| {});
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
    let (_, reply) = world.push("stranger", |_| {});
    assert_eq!(world.outcome(reply), Some(unknown));
}

#[test]
fn a_session_goes_on_over_a_restart() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    world.restart();
    let mut bind = HubHarness::bind("d");
    bind.resume = Some(Resume { token: seat.bound.token, epoch: seat.bound.epoch });
    assert!(world.seat_with(bind).bound.resumed);
}

#[test]
fn epochs_rise_over_a_restart_though_the_clock_went_back() {
    let (mut world, mut last) = (HubHarness::new(), 0);
    for round in 0..20 {
        let epoch = world.seat("d").bound.epoch;
        assert!(epoch > last, "round {round}");
        last = epoch;
        world.pass_ms(70_000);
        world.seat("e");
        last = last.max(world.seat("f").bound.epoch);
        assert!(world.hub.id_floor() >= MessageId(last));
        assert!(world.state("f").expect("known").since_ms <= world.now.wall_ms);
        world.now.wall_ms -= 3_600_000;
        world.restart();
        assert!(world.hub.id_floor() >= MessageId(last));
    }
}

#[test]
fn no_epoch_is_given_above_the_stored_bound() {
    let mut world = HubHarness::new();
    world.crash();
    let conn = world.conn();
    world.keeps = false;
    let PushDelivery::Refused(refused) = world.try_bind(conn, HubHarness::bind("d")) else {
        panic!()
    };
    assert_eq!(refused.why, Refusal::Busy);
    assert!((200..=1_200).contains(&refused.retry_after_ms));
    world.complete(Ok(()));
    world.seat("d");
    // The log is busy for a long time: the rest of the bound is used up.
    for _ in 0..40 {
        world.pass_ms(31_000);
        world.complete(Err(StoreError::Busy));
        world.seat("d");
    }
    for _ in 0..2 {
        world.pass_ms(1_000);
        world.complete(Ok(()));
    }
    let epoch = world.seat("d").bound.epoch;
    assert!(epoch >> 22 >= world.now.wall_ms - MessageId::EPOCH_MS, "by the clock again");
    world.complete(Err(StoreError::Failed));
    world.pass_ms(500_000);
    world.complete(Err(StoreError::Failed));
    let epoch = world.seat("d").bound.epoch;
    assert!(epoch >> 22 >= world.now.wall_ms - MessageId::EPOCH_MS, "given up at a failure");
    world.hub.audit();
}

#[test]
fn what_belongs_to_a_product_that_was_dropped_is_cleaned_up() {
    let mut world = HubHarness::new();
    let q = ProductKey::parse("q").expect("a name");
    let other = Product { key: q.clone(), ..product() };
    world.tell(PushCommand::PutProduct(Box::new(other)));
    world.push("d", |order| order.product = q.clone());
    let kept = world.give("d");
    assert_eq!(world.log.rows(Table::Devices), 2);
    world.keeps = false;
    world.tell(PushCommand::DropProduct(q));
    world.complete(Ok(()));
    world.restart(); // before the scan over its devices began
    assert_eq!((world.log.rows(Table::Devices), world.hub.status().devices), (2, 1));
    world.turn();
    world.settle();
    assert_eq!((world.log.rows(Table::Devices), world.log.rows(Table::Products)), (1, 1));
    assert_eq!(world.log.kept(Space::Pushes), [kept.0]);
    world.restart();
    world.turn();
    world.settle();
    assert_eq!(world.log.rows(Table::Products), 0, "nothing of it is left to clean up");
    assert_eq!(world.log.kept(Space::Pushes), [kept.0]);
    world.hub.audit();
}

#[test]
fn a_product_that_is_not_configured_this_time_finds_its_pushes_the_next() {
    let mut world = HubHarness::new();
    let kept = world.give("d");
    let usual = product();
    world.change(|_, product| product.key = ProductKey::parse("typo").expect("a name"));
    world.restart();
    world.pass_ms(120_000);
    world.settle();
    assert_eq!((world.hub.status().waiting, world.hub.status().devices), (0, 0));
    world.change(|_, product| *product = usual);
    world.restart();
    assert_eq!((world.hub.status().waiting, world.hub.status().devices), (1, 1));
    assert_eq!(world.log.kept(Space::Pushes), [kept.0]);
    world.hub.audit();
}

#[test]
fn of_the_api_and_the_configuration_the_one_holds_that_spoke_last() {
    let mut world = HubHarness::new();
    let made = Product::new(ProductKey::parse("q").expect("a name"), 9);
    world.tell(PushCommand::PutProduct(Box::new(made.clone())));
    world.tell(PushCommand::PutProduct(Box::new(Product { app_id: 99, ..product() })));
    world.restart();
    let told = |app_id: u32| {
        let products = vec![Product { app_id, ..product() }, made.clone()];
        PushAnswer::Products(products.into_iter().map(Arc::new).collect())
    };
    // A restart or a reload with an unchanged configuration undoes nothing.
    assert_eq!(world.command(PushCommand::Products), told(99));
    assert!(world.hub.install(Arc::new(product())));
    assert_eq!(world.command(PushCommand::Products), told(99));
    assert_eq!(world.hub.changed_since_configured(), [product().key]);
    // The configuration changes later than the API did, so it applies.
    assert!(world.hub.install(Arc::new(Product { app_id: 54, ..product() })));
    assert_eq!(world.command(PushCommand::Products), told(54));
    world.change(|_, product| product.app_id = 55);
    world.restart();
    assert_eq!(world.command(PushCommand::Products), told(55));
    assert_eq!(world.hub.changed_since_configured(), []);
    world.tell(PushCommand::PutProduct(Box::new(Product { app_id: 98, ..product() })));
    world.restart();
    assert_eq!(world.command(PushCommand::Products), told(98));
}

#[test]
fn what_cannot_be_taken_in_stays_in_the_log() {
    let mut world = HubHarness::new();
    let kept = [world.give("a"), world.give("b")];
    world.change(|settings, _| settings.devices_max = 1);
    assert_eq!(world.crash(), 2, "a row and a push");
    world.hub.restored(world.now, &mut world.fx);
    world.turn();
    assert_eq!(world.hub.status().waiting, 1);
    assert_eq!(world.log.kept(Space::Pushes).len(), 2);
    world.change(|settings, _| settings.devices_max = 2);
    world.restart();
    assert_eq!(world.hub.status().waiting, 2);
    assert_eq!(kept.len(), world.log.kept(Space::Pushes).len());
}

#[test]
fn pushes_of_nobody_are_removed_unless_a_row_could_not_be_read() {
    let put = |world: &mut HubHarness, key: &[u8], value: &[u8]| {
        let (table, key, value) = (Table::Devices, key.into(), value.into());
        assert!(world.log.answer(&Call::Write(Write::Put { table, key, value })).is_ok());
    };
    let mut world = HubHarness::new();
    world.give("d");
    put(&mut world, b"not a name", b"");
    let key = row_of_d();
    let delete = Write::Delete { table: Table::Devices, key };
    assert!(world.log.answer(&Call::Write(delete)).is_ok());
    assert_eq!(world.crash(), 2);
    world.hub.restored(world.now, &mut world.fx);
    world.turn();
    assert_eq!(world.log.kept(Space::Pushes).len(), 1);
    let delete = Write::Delete { table: Table::Devices, key: b"not a name".to_vec().into() };
    assert!(world.log.answer(&Call::Write(delete)).is_ok());
    world.restart();
    world.turn();
    assert!(world.log.kept(Space::Pushes).is_empty());
    // The device of a row with an unknown version is known as owner, but gets nothing until the row
    // can be read.
    world.give("d");
    put(&mut world, &row_of_d(), &[99]);
    assert_eq!(world.crash(), 2);
    world.hub.restored(world.now, &mut world.fx);
    world.turn();
    assert_eq!(world.log.kept(Space::Pushes).len(), 1);
}

/// The key of the row of device "d".
fn row_of_d() -> Box<[u8]> {
    let hash = home_parts(HashKey::new(21, 22), &product().key, &id("d"));
    RowHome::at(hash).key(&[b"p\xffd"])
}

#[test]
fn everything_restored_has_a_home() {
    let home = HashKey::new(21, 22);
    let mut world = HubHarness::new();
    world.tell(PushCommand::PutProduct(Box::new(Product { app_id: 99, ..product() })));
    world.give("d");
    let expected = home_parts(home, &product().key, &id("d"));
    let mut seen = Vec::new();
    world.log.restore(|restored| {
        let of = restored.home();
        match restored {
            Restored::Row { table: Table::Devices, .. }
            | Restored::Timeline { .. }
            | Restored::Entry { .. } => {
                assert_eq!(of, RowHome::at(expected));
            }
            Restored::Row { .. } => assert_eq!(of, RowHome::Everywhere),
        }
        seen.push(of);
    });
    assert_eq!(seen.len(), 4, "product, device, mark, push");
    assert_eq!(expected, timeline_of(home, "p", "d").home_hash());
}

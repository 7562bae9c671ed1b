//! The queue of a device: collapse, bounds, floods. Each limit is tested exactly at it, and one
//! beyond.

use crate::harness::{HubHarness, SECRET, id, limited, product, settings, tag};
use crate::log::Did;
use model::counters::{ProcessCounter, PushCounter};
use model::id::{DeviceId, MessageId, ProductKey};
use model::limits::Limits;
use model::ports::log::{APPEND_SLICE, Call, Write};
use model::ports::pushes::{PushAnswer, PushCommand, PushOrder, PushTarget};
use model::pressure::Pressure;
use model::product::{Product, Secret};
use model::push::{Outcome, Priority, Rejection};
use model::request::{PushDelivery, Refusal};
use model::service::Service;
use std::sync::Arc;

fn bounded(count_max: u32, bytes_max: u32) -> HubHarness {
    let product =
        Product { offline_count_max: count_max, offline_bytes_max: bytes_max, ..product() };
    let product = Product { inflight_max: 1_000, ..product };
    HubHarness::with(product, settings())
}

fn waiting(world: &mut HubHarness, name: &str) -> Vec<MessageId> {
    world.deliveries();
    let mut bind = HubHarness::bind(name);
    bind.inflight_max = 1_000;
    let seat = world.seat_with(bind);
    let ids: Vec<_> = world.pushes().into_iter().map(|(id, _)| id).collect();
    world.close(&seat);
    ids
}

fn collapse(world: &mut HubHarness, name: &str, key: &str) -> MessageId {
    let change = |order: &mut model::ports::pushes::PushOrder| {
        (order.collapse, order.receipts) = (Some(key.into()), true);
    };
    world.push(name, change).0
}

#[test]
fn a_collapse_key_replaces_what_waits() {
    let mut world = HubHarness::new();
    let old = collapse(&mut world, "d", "k");
    let other = collapse(&mut world, "d", "l");
    let new = collapse(&mut world, "d", "k");
    assert_eq!(world.receipts(), [(old, Outcome::Rejected(Rejection::Collapsed))]);
    assert_eq!(world.count(PushCounter::Collapsed), 1);
    assert_eq!(waiting(&mut world, "d"), [other, new]);
    world.hub.audit();
}

#[test]
fn a_collapse_key_replaces_what_is_on_its_way() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let old = collapse(&mut world, "d", "k");
    let new = collapse(&mut world, "d", "k");
    assert_eq!(world.pushes(), [(old, false), (new, false)]);
    world.ack(&seat, &[old]);
    assert_eq!(world.count(PushCounter::Delivered), 0, "it was given up");
    world.ack(&seat, &[new]);
    assert_eq!(world.count(PushCounter::Delivered), 1);
    world.hub.audit();
}

#[test]
fn a_full_queue_evicts_its_oldest_normal_push() {
    let mut world = bounded(3, 1 << 20);
    let (first, _) = world.push("d", |order| order.priority = Priority::High);
    let (second, _) = world.push("d", |order| order.receipts = true);
    let (third, fourth) = (world.give("d"), world.give("d"));
    assert_eq!(world.receipts(), [(second, Outcome::Rejected(Rejection::Evicted))]);
    assert_eq!(world.count(PushCounter::Evicted), 1);
    assert_eq!(waiting(&mut world, "d"), [first, third, fourth]);
    world.hub.audit();
}

#[test]
fn what_has_expired_gives_way_before_what_lasts() {
    let mut world = bounded(3, 1 << 20);
    let lasts = world.give("d");
    let expires = [Priority::High, Priority::Normal].map(|priority| {
        let change = |order: &mut PushOrder| {
            (order.priority, order.time_to_live_s, order.receipts) = (priority, 2, true);
        };
        world.push("d", change).0
    });
    world.pass_ms(3_000);
    let new = [world.give("d"), world.give("d")];
    assert_eq!(world.receipts(), expires.map(|id| (id, Outcome::Expired)));
    assert_eq!(world.count(PushCounter::Evicted), 0);
    assert_eq!(waiting(&mut world, "d"), [lasts, new[0], new[1]]);
    // Expired pushes of high priority do not cause a later one to be refused.
    for _ in 0..3 {
        let change = |order: &mut PushOrder| {
            (order.priority, order.time_to_live_s) = (Priority::High, 2);
        };
        world.push("e", change);
    }
    world.pass_ms(3_000);
    let new = world.give("e");
    assert_eq!(waiting(&mut world, "e"), [new]);
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
    let weigh = |order: &mut model::ports::pushes::PushOrder| order.body = vec![0; 300].into();
    let mut world = bounded(100, 1_000);
    let given: Vec<_> = (0..4).map(|_| world.push("d", weigh).0).collect();
    assert_eq!(world.count(PushCounter::Evicted), 2, "364 bytes each");
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
        HubHarness::with(product(), hub::Settings { offline_bytes_max: 1_000, ..settings() });
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
    assert_eq!(world.count(PushCounter::Stored), 100_000);
    assert_eq!(world.count(PushCounter::Evicted), 99_900);
    world.keeps = true;
    let waiting = waiting(&mut world, "d");
    assert_eq!(waiting, kept.into_iter().collect::<Vec<_>>(), "store and memory agree");
    assert_eq!(waiting.last(), Some(&MessageId(100_000)), "the newest are kept");
    world.hub.audit();
}

#[test]
fn what_is_refused_for_want_of_memory_is_counted_as_that() {
    for (level, refused) in [(Pressure::Qos0, 0), (Pressure::Stores, 1)] {
        let mut world = HubHarness::with(product(), settings());
        let seat = world.seat("here");
        world.hub.press(level);
        let (_, reply) = world.push("away", |_| {});
        let full = world.outcome(reply) == Some(Outcome::Rejected(Rejection::StoreFull));
        assert_eq!(full, refused == 1, "{level:?}");
        world.give("here");
        assert_eq!(world.pushes().len(), 1, "who is here gets it");
        assert_eq!(world.count(ProcessCounter::PressedStores), refused, "{level:?}");
        world.close(&seat);
    }
}

fn key(name: &str) -> ProductKey {
    ProductKey::parse(name).expect("a name")
}

fn weighing(bytes: usize) -> impl Fn(&mut PushOrder) {
    move |order| order.body = vec![0; bytes].into()
}

#[test]
fn tags_a_device() {
    let tags = |count: u16| (0..count).map(|n| tag(&format!("t{n}"))).collect::<Vec<_>>();
    let max = Limits::default().pushes.tags_a_device_max;
    let mut world = HubHarness::new();
    for (count, fits) in [(max, true), (max + 1, false)] {
        let mut bind = HubHarness::bind("d");
        bind.tags = Some(tags(count));
        let conn = world.conn();
        match world.try_bind(conn, bind) {
            PushDelivery::Bound(_) => assert!(fits),
            PushDelivery::Refused(refused) => assert!(!fits && refused.why == Refusal::Quota),
            other => panic!("{other:?}"),
        }
        let (product, device) = (key("p"), id("e"));
        let set = PushCommand::SetTags { product, device, tags: tags(count) };
        assert_eq!(world.command(set), PushAnswer::Done(fits), "{count}");
    }
    assert_eq!(world.state("e").map(|state| state.tags.len()), Some(max.into()));
}

#[test]
fn bytes_that_wait_on_a_shard_and_for_a_device() {
    let stored = |world: &mut HubHarness, name: &str, bytes: usize| {
        let (_, reply) = world.push(name, weighing(bytes));
        world.outcome(reply).expect("an answer at once")
    };
    let weight = {
        let mut world = HubHarness::new();
        stored(&mut world, "d", 100);
        world.hub.status().waiting_bytes
    };
    for (room, second) in
        [(2 * weight, Outcome::Stored), (2 * weight - 1, Outcome::Rejected(Rejection::StoreFull))]
    {
        let mut world =
            HubHarness::with(product(), hub::Settings { offline_bytes_max: room, ..settings() });
        let both = ["d", "e"].map(|name| stored(&mut world, name, 100));
        assert_eq!(both, [Outcome::Stored, second], "{room}");
    }
    for (room, first, left) in [
        (weight, Outcome::Stored, 1),
        (weight - 1, Outcome::Rejected(Rejection::QueueFull), 0),
        (2 * weight - 1, Outcome::Stored, 1),
        (2 * weight, Outcome::Stored, 2),
    ] {
        let product = Product { offline_bytes_max: room as u32, ..product() };
        let mut world = HubHarness::with(product, settings());
        let both = [0, 1].map(|_| stored(&mut world, "d", 100));
        assert_eq!((both, world.hub.status().waiting), ([first, first], left), "{room}");
    }
}

#[test]
fn pushes_that_wait_for_a_device_whatever_its_product_says() {
    let hard = Product::OFFLINE_COUNT_HARD_MAX;
    for (said, kept) in [(2, 2), (hard + 1, u64::from(hard))] {
        let product = Product { offline_count_max: said, offline_bytes_max: u32::MAX, ..product() };
        let mut world =
            HubHarness::with(product, hub::Settings { offline_bytes_max: 1 << 40, ..settings() });
        (0..=kept).for_each(|_| _ = world.give("d"));
        assert_eq!(world.hub.status().waiting, kept);
    }
}

#[test]
fn an_answer_waits_a_minute_at_most() {
    let mut world = HubHarness::new();
    world.seat("d");
    let (_, reply) = world.push("d", |order| order.wait_ms = u32::MAX);
    world.pass_ms(59_900);
    assert_eq!(world.outcome(reply), None);
    world.pass_ms(200);
    assert_eq!(world.outcome(reply), Some(Outcome::Stored));
}

#[test]
fn products() {
    let mut world = HubHarness::new(); // one is there
    let product = |n: u32| Product::new(key(&format!("p{n}")), n);
    assert!((1..4_096).all(|n| world.hub.install(Arc::new(product(n)))));
    assert!(!world.hub.install(Arc::new(product(4_096))));
    assert_eq!(
        world.command(PushCommand::PutProduct(Box::new(product(4_096)))),
        PushAnswer::Done(false)
    );
    assert_eq!(
        world.command(PushCommand::PutProduct(Box::new(product(4_095)))),
        PushAnswer::Done(true)
    );
}

#[test]
fn secrets_of_a_product_come_back() {
    let mut world = HubHarness::new();
    let secrets = (0..8).map(|key_id| Secret { key_id, bytes: SECRET.into() }).collect();
    let many = Product { secrets, ..Product::new(key("many"), 3) };
    world.tell(PushCommand::PutProduct(Box::new(many.clone())));
    world.restart();
    let PushAnswer::Products(all) = world.command(PushCommand::Products) else { panic!() };
    assert!(all.iter().any(|product| **product == many));
}

#[test]
fn scans_that_wait() {
    let mut world = HubHarness::new();
    let mut configure = || world.command(PushCommand::Configure { product: key("p") });
    assert!((0..1_024).all(|_| configure() == PushAnswer::Done(true)));
    assert_eq!(configure(), PushAnswer::Busy);
}

#[test]
fn a_page_of_devices() {
    let mut world = HubHarness::new();
    (0..1_001).for_each(|n| _ = world.give(&format!("d{n}")));
    for (count, came) in [(0, 1), (1_000, 1_000), (1_001, 1_000), (u32::MAX, 1_000)] {
        let (product, online, tag, after) = (Some(key("p")), None, None, None);
        let list = PushCommand::List { product, online, tag, after, count };
        match world.command(list) {
            PushAnswer::Page { devices, .. } => assert_eq!(devices.len(), came),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_window_is_no_larger_than_the_hub_can_bear() {
    let mut world = HubHarness::with(Product { inflight_max: 5_000, ..product() }, settings());
    assert_eq!(world.seat("d").bound.inflight_max, 1_024);
}

#[test]
fn devices_of_one_call_to_the_log_and_of_an_order_with_a_key() {
    let devices =
        |count: usize| (0..count).map(|n| id(&format!("d{n}"))).collect::<Vec<DeviceId>>();
    let mut world = HubHarness::new();
    // The devices must be known first: their rows would come between the appends.
    (0..=APPEND_SLICE).for_each(|n| _ = world.give(&format!("d{n}")));
    world.keeps = false;
    world.push_to(PushTarget::Devices(devices(APPEND_SLICE + 1)), |_| {});
    let calls = world.fx.calls.iter().filter_map(|(_, call)| match call {
        Call::Write(Write::Append(append)) => Some(append.to.len()),
        _ => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), [APPEND_SLICE, 1]);
    let mut world = HubHarness::new();
    for (count, outcome) in [
        (APPEND_SLICE, Outcome::Stored),
        (APPEND_SLICE + 1, Outcome::Rejected(Rejection::TooLarge)),
    ] {
        let real = world.real_id();
        let key = |order: &mut PushOrder| {
            (order.id, order.idempotency_key) = (real, Some(count.to_string().into()));
        };
        let (_, reply) = world.push_to(PushTarget::Devices(devices(count)), key);
        let outcomes = world.outcomes(reply).expect("an answer at once");
        assert_eq!(
            (outcomes.len(), outcomes[0].1, outcomes[count - 1].1),
            (count, outcome, outcome)
        );
    }
}

#[test]
fn orders_that_are_over_are_remembered_so_long() {
    let limits = limited(|pushes| pushes.job_age_s_max = 100);
    let mut world = HubHarness::with(product(), hub::Settings { limits, ..settings() });
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    world.turn();
    let counts = |world: &mut HubHarness| match world.command(PushCommand::PushCounts(push)) {
        PushAnswer::Counts(counts) => counts,
        other => panic!("{other:?}"),
    };
    world.pass_ms(99_000);
    assert!(counts(&mut world).is_some());
    world.pass_ms(60_000);
    assert_eq!(counts(&mut world), None);
}

//! Pushes to audiences: expressions over tags, lists of devices, exclusions, saved segments.

use crate::harness::{HubHarness, id, limited, order, product, settings, tag};
use crate::many::{Pair, owner, rest, waiting};
use hub::Settings;
use model::audience::{Audience, DeviceList, DeviceListDraft, TagExpression};
use model::id::{MessageId, ProductKey, SegmentName};
use model::ports::log::{StoreError, Table};
use model::ports::pushes::{
    AudienceCounts, PushAnswer, PushCommand, PushOrder, PushState, PushTarget,
};
use model::product::Product;
use model::push::{Outcome, Rejection};
use model::service::Service;
use model::timeline::Space;
use std::num::NonZeroU32;
use std::sync::Arc;

fn key() -> ProductKey {
    ProductKey::parse("p").expect("a name")
}

fn has(name: &str) -> TagExpression {
    TagExpression::Tag(tag(name))
}

fn not(tags: TagExpression) -> TagExpression {
    TagExpression::Not(Box::new(tags))
}

fn list(names: &[&str]) -> Option<DeviceList> {
    let mut made = DeviceListDraft::default();
    names.iter().for_each(|name| made.add(name).expect("a name"));
    Some(made.list())
}

fn audience(tags: Option<TagExpression>, devices: &[&str], except: &[&str]) -> PushTarget {
    let devices = if devices.is_empty() { None } else { list(devices) };
    let except = if except.is_empty() { None } else { list(except) };
    PushTarget::Audience(Arc::new(Audience { user: None, tags, devices, except }))
}

fn set_tags(world: &mut HubHarness, device: &str, names: &[&str]) {
    let tags = names.iter().map(|name| tag(name)).collect();
    world.tell(PushCommand::SetTags { product: key(), device: id(device), tags });
}

/// Eight devices, d0 to d7, whose tags are the bits of their numbers: a, b, c.
fn tagged(world: &mut HubHarness) {
    for n in 0..8_u32 {
        let all = ["a", "b", "c"].into_iter().enumerate();
        let names: Vec<_> = all.filter(|(bit, _)| n >> bit & 1 > 0).map(|(_, name)| name).collect();
        let seat = world.seat(&format!("d{n}"));
        world.close(&seat);
        set_tags(world, &format!("d{n}"), &names);
    }
    world.settle();
}

fn slow() -> Settings {
    Settings { limits: limited(|pushes| pushes.fan_out_slice = 2), ..settings() }
}

fn counted(world: &mut HubHarness, target: PushTarget) -> AudienceCounts {
    let reply = world.tell(PushCommand::Count { product: key(), target });
    world.turn();
    match world.answer(reply) {
        Some(PushAnswer::Counted(counts)) => counts,
        other => panic!("not counted: {other:?}"),
    }
}

/// Expressions and lists, with the numbers of the devices of `tagged` that they are for.
fn cases() -> Vec<(PushTarget, Vec<u32>)> {
    let and = TagExpression::And(vec![has("a"), not(has("b"))]);
    let or = TagExpression::Or(vec![has("a"), has("c")]);
    vec![
        (audience(None, &[], &[]), (0..8).collect()),
        (audience(None, &[], &["d0", "d7", "elsewhere"]), (1..7).collect()),
        (audience(Some(and.clone()), &[], &[]), vec![1, 5]),
        (audience(Some(or.clone()), &[], &["d1"]), vec![3, 4, 5, 6, 7]),
        (audience(Some(not(or.clone())), &[], &[]), vec![0, 2]),
        (audience(None, &["d3", "d1", "d2"], &["d2"]), vec![1, 3]),
        (audience(Some(and), &["d1", "d3", "d4"], &[]), vec![1]),
    ]
}

#[test]
fn a_push_reaches_exactly_its_audience_wherever_the_kill_comes() {
    for (case, (target, expected)) in cases().into_iter().enumerate() {
        for kept in 0.. {
            let mut world = HubHarness::with(product(), slow());
            tagged(&mut world);
            world.log.die_after(Some(kept));
            let (push, reply) = world.push_to(target.clone(), |_| {});
            for _ in 0..8 {
                world.hub.turn(world.now, &mut world.fx);
                world.store();
            }
            let (is_all, answer) = (!world.log.is_dead(), world.answer(reply));
            world.log.die_after(None);
            world.restart();
            rest(&mut world);
            let reached: Vec<u32> = waiting(&mut world, 0..8);
            let wanted = (0..8).map(|n| u32::from(expected.contains(&n)));
            match answer {
                Some(_) => {
                    assert_eq!(reached, wanted.collect::<Vec<_>>(), "{case} {kept}");
                    let counts = world.counts(push);
                    let all = (PushState::Finished, expected.len() as u64);
                    assert_eq!((counts.state, counts.stored), all, "{case} {kept}");
                }
                None => assert!(kept == 0 && reached == [0; 8], "{case} {kept}"),
            }
            world.hub.audit();
            if is_all {
                assert!(kept > 2, "{case}: it broke off everywhere");
                break;
            }
        }
    }
}

#[test]
fn a_count_tells_the_size_of_an_audience_and_changes_nothing() {
    let mut world = HubHarness::with(product(), slow());
    tagged(&mut world);
    world.seat("d1");
    for (target, expected) in cases() {
        let online = u64::from(expected.contains(&1));
        let matched = expected.len() as u64;
        assert_eq!(counted(&mut world, target), AudienceCounts { matched, online, unknown: 0 });
    }
    let of = AudienceCounts { matched: 3, online: 1, unknown: 1 };
    assert_eq!(counted(&mut world, audience(None, &["d0", "d1", "new"], &[])), of);
    assert_eq!(counted(&mut world, PushTarget::Product).matched, 8);
    assert_eq!(counted(&mut world, PushTarget::Tag(tag("a"))).matched, 4);
    assert_eq!(world.state("new"), None);
    let product = ProductKey::parse("q").expect("a name");
    let unknown = PushCommand::Count { product, target: PushTarget::Product };
    assert_eq!(world.command(unknown), PushAnswer::UnknownProduct);
    world.hub.audit();
}

#[test]
fn a_count_is_cut_into_slices_and_ends_with_its_product() {
    let mut world = HubHarness::new();
    for n in 0..9_000 {
        set_tags(&mut world, &format!("n{n}"), &[if n % 3 == 0 { "a" } else { "b" }]);
    }
    let target = || audience(Some(not(has("b"))), &[], &[]);
    let reply = world.tell(PushCommand::Count { product: key(), target: target() });
    for _ in 0..2 {
        world.hub.turn(world.now, &mut world.fx);
        assert_eq!(world.answer(reply), None, "a turn visits some thousand devices");
    }
    world.turn();
    let counts = AudienceCounts { matched: 3_000, ..AudienceCounts::default() };
    assert_eq!(world.answer(reply), Some(PushAnswer::Counted(counts)));
    let reply = world.tell(PushCommand::Count { product: key(), target: target() });
    world.tell(PushCommand::DropProduct(key()));
    assert!(matches!(world.answer(reply), Some(PushAnswer::Counted(_))), "it is answered");
}

#[test]
fn a_turn_visits_fewer_devices_for_a_larger_expression() {
    let names: Vec<String> = (0..100).map(|n| format!("n{n}")).collect();
    for (listed, is_one_turn) in [(false, [true, false]), (true, [true, false])] {
        for (terms, is_one_turn) in
            [4, TagExpression::RESOLVED_TERMS_MAX].into_iter().zip(is_one_turn)
        {
            let mut world = HubHarness::new();
            for name in &names {
                set_tags(&mut world, name, &["b"]);
            }
            let tags = Some(not(TagExpression::Or(vec![has("a"); terms])));
            let devices: Vec<&str> = names.iter().map(String::as_str).collect();
            let target = audience(tags, if listed { &devices } else { &[] }, &[]);
            let reply = world.tell(PushCommand::Count { product: key(), target });
            world.hub.turn(world.now, &mut world.fx);
            assert_eq!(world.answer(reply).is_some(), is_one_turn, "{terms} {listed}");
            if !is_one_turn {
                world.turn();
                let counts = AudienceCounts { matched: 100, ..AudienceCounts::default() };
                assert_eq!(world.answer(reply), Some(PushAnswer::Counted(counts)));
            }
        }
    }
}

#[test]
fn unknown_devices_of_a_list_have_their_outcome_and_get_no_record() {
    for stores in [false, true] {
        let mut product = product();
        product.store_for_unknown = stores;
        let mut world = HubHarness::with(product, slow());
        tagged(&mut world);
        world.events();
        let target = audience(Some(not(has("a"))), &["d0", "d1", "new1", "new2"], &["new2"]);
        let (push, _) = world.push_to(target, |order| order.receipts = true);
        rest(&mut world);
        let counts = world.counts(push);
        assert_eq!((counts.matched, counts.stored, counts.rejected), (2, 1, 1), "{stores}");
        let unknown = Outcome::Rejected(Rejection::UnknownDevice);
        assert_eq!(world.receipts(), [(push, unknown)], "{stores}");
        assert_eq!((world.state("new1"), world.state("new2")), (None, None), "{stores}");
        world.restart();
        rest(&mut world);
        assert_eq!(world.counts(push), counts);
        world.hub.audit();
    }
}

/// A large expression that every device without the tag `a` satisfies.
fn large() -> PushTarget {
    let part = TagExpression::Or(vec![has("a"); TagExpression::RESOLVED_TERMS_MAX / 4]);
    audience(Some(not(TagExpression::Or(vec![part; 4]))), &[], &[])
}

#[test]
fn a_push_visits_fewer_devices_a_turn_the_more_earlier_audiences_are_compared_there() {
    for (earlier, expected) in [(0, 64), (10, 18)] {
        let mut world = HubHarness::new();
        (0..100).for_each(|n| set_tags(&mut world, &format!("n{n}"), &["b"]));
        let first: Vec<_> = (0..earlier).map(|_| world.push_to(large(), |_| {}).0).collect();
        let (last, _) = world.push_to(PushTarget::Product, |_| {});
        // Each of the earlier ones visits 16 devices in its turn. The last one visits the same,
        // and two more, at which all the earlier ones come first.
        for _ in 0..=earlier {
            world.hub.turn(world.now, &mut world.fx);
            world.store();
        }
        assert_eq!(world.counts(last).matched, expected, "{earlier}");
        rest(&mut world);
        for push in first.into_iter().chain([last]) {
            assert_eq!(world.counts(push).matched, 100, "{earlier}");
        }
        world.hub.audit();
    }
}

#[test]
fn the_audiences_of_a_products_open_pushes_have_so_many_tags_together() {
    let mut world = HubHarness::new();
    let made =
        world.command(PushCommand::PutProduct(Box::new(Product { key: other(), ..product() })));
    assert_eq!(made, PushAnswer::Done(true));
    let at_ms = world.now.wall_ms + 60_000;
    let later = |order: &mut PushOrder| order.send_at_ms = Some(at_ms);
    let keyed = |order: &mut PushOrder| {
        (order.send_at_ms, order.idempotency_key) = (Some(at_ms), Some("k".into()));
    };
    let (_, reply) = world.push_to(large(), keyed);
    let Some(PushAnswer::Pushed { id: first, .. }) = world.answer(reply) else { panic!() };
    for _ in 1..16 {
        let (_, reply) = world.push_to(large(), later);
        assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { .. })));
    }
    world.restart();
    for refused in [large(), audience(None, &[], &["d0"])] {
        let (_, reply) = world.push_to(refused, |_| {});
        assert_eq!(world.answer(reply), Some(PushAnswer::Busy));
    }
    for target in [audience(Some(has("a")), &[], &[]), PushTarget::Tag(tag("a"))] {
        let (_, reply) = world.push_to(target, |_| {});
        assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { .. })), "it compares one");
    }
    let (_, reply) = world.push_to(large(), |order| order.product = other());
    assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { .. })), "another product");
    let (_, reply) = world.push_to(large(), keyed);
    let again = world.answer(reply);
    assert!(matches!(again, Some(PushAnswer::Pushed { id, .. }) if id == first), "{again:?}");
    let id = world.message_id();
    world.tell(PushCommand::Cancel { id, push: first, product: None });
    rest(&mut world);
    let (_, reply) = world.push_to(large(), |_| {});
    assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { .. })), "one is cancelled");
    world.hub.audit();
}

/// Asks for the size of a product; returns the number of the command.
fn ask_size(world: &mut HubHarness, product: ProductKey) -> u64 {
    world.tell(PushCommand::Count { product, target: PushTarget::Product })
}

#[test]
fn a_product_has_so_many_dry_runs_at_once() {
    let mut world = HubHarness::new();
    tagged(&mut world);
    world.command(PushCommand::PutProduct(Box::new(Product { key: other(), ..product() })));
    for _ in 0..2 {
        let replies: Vec<_> = (0..4).map(|_| ask_size(&mut world, key())).collect();
        let refused = ask_size(&mut world, key());
        assert_eq!(world.answer(refused), Some(PushAnswer::Busy));
        let of_other = ask_size(&mut world, other());
        assert_eq!(world.answer(of_other), None, "another product has its own");
        world.turn();
        for reply in replies {
            let counts = AudienceCounts { matched: 8, ..AudienceCounts::default() };
            assert_eq!(world.answer(reply), Some(PushAnswer::Counted(counts)));
        }
        assert!(matches!(world.answer(of_other), Some(PushAnswer::Counted(_))));
    }
}

#[test]
fn a_dry_run_ends_when_nobody_waits_for_it_any_more() {
    let mut world = HubHarness::new();
    tagged(&mut world);
    let replies: Vec<_> = (0..4).map(|_| ask_size(&mut world, key())).collect();
    world.pass_ms(settings().limits.answer_ms_max.into());
    for reply in replies {
        assert_eq!(world.answer(reply), Some(PushAnswer::Busy));
    }
    assert_eq!(counted(&mut world, PushTarget::Product).matched, 8, "there is room again");
}

#[test]
fn open_pushes_leave_room_for_dry_runs_and_new_terms() {
    let mut world = HubHarness::new();
    for _ in 0..1_024 {
        world.push_to(PushTarget::Product, |_| {});
    }
    let reply = ask_size(&mut world, key());
    assert_eq!(world.answer(reply), None);
    assert_eq!(world.command(PushCommand::Configure { product: key() }), PushAnswer::Done(true));
    world.turn();
    assert!(matches!(world.answer(reply), Some(PushAnswer::Counted(_))));
}

#[test]
fn a_device_gets_the_pushes_of_lists_and_single_ones_in_the_order_of_their_orders() {
    let mut world = HubHarness::with(product(), slow());
    tagged(&mut world);
    let names: Vec<String> = (0..8).map(|n| format!("d{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (first, _) = world.push_to(audience(None, &names, &[]), |_| {});
    let (second, _) = world.push_to(audience(Some(has("c")), &[], &[]), |_| {});
    world.hub.turn(world.now, &mut world.fx);
    world.store();
    // The scans have come to the first devices only.
    let single = world.give("d7");
    // A named device that is registered after the order belongs to it nevertheless; one that leaves
    // a tag gets the push before.
    set_tags(&mut world, "d6", &[]);
    rest(&mut world);
    for (name, expected) in [("d7", vec![first, second, single]), ("d6", vec![first, second])] {
        world.deliveries();
        world.seat(name);
        world.settle();
        world.turn();
        let ids: Vec<_> = world.pushes().iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, expected, "{name}");
    }
    assert_eq!((world.counts(first).matched, world.counts(second).matched), (8, 4));
    world.hub.audit();
}

#[test]
fn a_named_device_that_is_registered_during_the_order_gets_the_push_once() {
    let mut world = HubHarness::with(product(), slow());
    tagged(&mut world);
    let target = audience(None, &["d0", "d1", "d2", "d3", "z"], &[]);
    let (push, _) = world.push_to(target, |_| {});
    world.hub.turn(world.now, &mut world.fx);
    world.store();
    let seat = world.seat("z");
    world.give("z");
    rest(&mut world);
    let times = world.pushes().iter().filter(|(id, again)| *id == push && !again).count();
    assert_eq!((times, world.counts(push).matched), (1, 5));
    world.close(&seat);
    world.hub.audit();
}

#[test]
fn a_named_device_gets_the_push_in_the_slot_of_one_that_was_visited_early_and_forgotten() {
    let mut world = HubHarness::new();
    let seat = world.seat("d0");
    world.close(&seat);
    let slowly = |order: &mut PushOrder| order.devices_per_s = NonZeroU32::new(1);
    let (push, _) = world.push_to(audience(None, &["d0", "d1", "d2"], &[]), slowly);
    world.turn();
    // The order comes to d1 ahead of its tags, which the log refuses.
    world.keeps = false;
    set_tags(&mut world, "d1", &["a"]);
    assert_eq!(world.counts(push).matched, 2);
    world.complete(Err(StoreError::Full));
    world.keeps = true;
    world.turn();
    assert_eq!(world.state("d1"), None);
    let seat = world.seat("d2");
    world.close(&seat);
    world.pass_ms(5_000);
    rest(&mut world);
    assert_eq!((waiting(&mut world, 2..3), world.counts(push).matched), (vec![1], 3));
    world.hub.audit();
}

#[test]
fn audiences_are_scheduled_paced_paused_and_cancelled_as_other_pushes() {
    let mut world = HubHarness::new();
    tagged(&mut world);
    let names = ["d0", "d1", "d2", "d3", "d4", "d5"];
    let (push, _) = world.push_to(audience(None, &names, &["d5"]), |order| {
        order.devices_per_s = NonZeroU32::new(2);
    });
    (0..2).for_each(|_| world.pass_ms(500));
    let matched = world.counts(push).matched;
    assert!((2..=3).contains(&matched), "{matched}");
    let change = |world: &mut HubHarness, paused| {
        let id = world.message_id();
        world.tell(PushCommand::Pause { id, push, product: None, paused });
        world.turn();
    };
    change(&mut world, true);
    world.restart();
    (0..4).for_each(|_| world.pass_ms(1_000));
    assert_eq!(
        (world.counts(push).state, world.counts(push).matched),
        (PushState::Paused, matched)
    );
    change(&mut world, false);
    (0..8).for_each(|_| world.pass_ms(500));
    rest(&mut world);
    assert_eq!(
        (waiting(&mut world, 0..8), world.counts(push).stored),
        (vec![1, 1, 1, 1, 1, 0, 0, 0], 5)
    );
    let id = world.message_id();
    world.tell(PushCommand::Cancel { id, push, product: None });
    rest(&mut world);
    assert_eq!((waiting(&mut world, 0..8), world.counts(push).cancelled), (vec![0; 8], 5));
    // The audience of a scheduled push is that of its time.
    let at_ms = world.now.wall_ms + 60_000;
    let later = |order: &mut PushOrder| order.send_at_ms = Some(at_ms);
    world.push_to(audience(Some(has("a")), &[], &["d1"]), later);
    set_tags(&mut world, "d0", &["a"]);
    world.restart();
    world.pass_ms(60_000);
    rest(&mut world);
    assert_eq!(waiting(&mut world, 0..8), [1, 0, 0, 1, 0, 1, 0, 1]);
    assert_eq!(world.log.kept(Space::Pushes).len(), 4);
    world.hub.audit();
}

#[test]
fn the_lists_of_all_open_orders_have_so_many_bytes() {
    let limits = limited(|pushes| pushes.lists_bytes_max = 50);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    tagged(&mut world);
    let at_ms = world.now.wall_ms + 60_000;
    let later = |order: &mut PushOrder| order.send_at_ms = Some(at_ms);
    let keyed = |order: &mut PushOrder| {
        (order.send_at_ms, order.idempotency_key) = (Some(at_ms), Some("k".into()));
    };
    // Six bytes a name.
    let small = || audience(None, &["d0", "d1"], &["d2", "d3"]);
    let (_, reply) = world.push_to(small(), keyed);
    let Some(PushAnswer::Pushed { id: first, .. }) = world.answer(reply) else { panic!() };
    let (_, reply) = world.push_to(small(), later);
    assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { .. })), "48 bytes");
    world.restart();
    for refused in [small(), audience(None, &["d0"], &[])] {
        let (_, reply) = world.push_to(refused, |_| {});
        assert_eq!(world.answer(reply), Some(PushAnswer::ListsFull));
    }
    for target in [audience(Some(has("a")), &[], &[]), PushTarget::Product] {
        let (_, reply) = world.push_to(target, |_| {});
        assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { .. })), "it has no list");
    }
    let (_, reply) = world.push_to(small(), keyed);
    let again = world.answer(reply);
    assert!(matches!(again, Some(PushAnswer::Pushed { id, .. }) if id == first), "{again:?}");
    let id = world.message_id();
    world.tell(PushCommand::Cancel { id, push: first, product: None });
    rest(&mut world);
    let (_, reply) = world.push_to(small(), |_| {});
    assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { .. })), "there is room again");
    world.hub.audit();
}

#[test]
fn an_idempotency_key_is_for_one_audience() {
    let mut world = HubHarness::new();
    tagged(&mut world);
    let keyed = |order: &mut PushOrder| order.idempotency_key = Some("k".into());
    let target = audience(Some(has("a")), &["d1", "d3"], &["d2"]);
    let (push, _) = world.push_to(target.clone(), keyed);
    let (_, reply) = world.push_to(target, keyed);
    assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { id, .. }) if id == push));
    for other in [
        audience(Some(has("b")), &["d1", "d3"], &["d2"]),
        audience(Some(has("a")), &["d1"], &["d2"]),
        audience(Some(has("a")), &["d1", "d3"], &[]),
        audience(Some(not(has("a"))), &["d1", "d3"], &["d2"]),
        PushTarget::Tag(tag("a")),
    ] {
        let (_, reply) = world.push_to(other, keyed);
        assert_eq!(world.answer(reply), Some(PushAnswer::Conflict));
    }
}

#[test]
fn a_repeated_order_is_answered_as_the_first_whatever_became_of_its_segment() {
    let mut world = HubHarness::new();
    tagged(&mut world);
    let keyed = |order: &mut PushOrder| order.idempotency_key = Some("k".into());
    let vip = SegmentName::parse("vip").expect("a name");
    let of = |tags: Option<TagExpression>| {
        let tags = TagExpression::Segment(vip.clone(), tags.map(Arc::new));
        audience(Some(TagExpression::And(vec![has("b"), tags])), &[], &[])
    };
    let (_, reply) = world.push_to(of(None), keyed);
    assert_eq!(world.answer(reply), Some(PushAnswer::UnknownSegment(vip.clone())));
    let (first, reply) = world.push_to(of(Some(has("a"))), keyed);
    assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { id, .. }) if id == first));
    rest(&mut world);
    assert_eq!(world.counts(first).matched, 2);
    for tags in [None, Some(has("c"))] {
        let (_, reply) = world.push_to(of(tags), keyed);
        let again = world.answer(reply);
        assert!(matches!(again, Some(PushAnswer::Pushed { id, .. }) if id == first), "{again:?}");
    }
    let other = TagExpression::Segment(vip.clone(), None);
    let (_, reply) = world.push_to(audience(Some(other), &[], &[]), keyed);
    assert_eq!(world.answer(reply), Some(PushAnswer::Conflict));
    world.hub.audit();
}

#[test]
fn each_shard_visits_its_part_of_a_list() {
    for number in 0..4 {
        let mut pair = Pair::with_away();
        let push = MessageId(1_000 + number);
        let names: Vec<String> = (0..40).map(|n| format!("d{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let of = order(push, audience(None, &names, &["d39"]));
        pair.worlds[owner(push)].tell(PushCommand::Push(of));
        (0..number).for_each(|_| pair.step());
        pair.restart();
        pair.rest();
        let counts = [0, 1].map(|at: usize| pair.worlds[at].counts(push));
        assert_eq!(counts[0].matched + counts[1].matched, 39, "{number}");
        assert!(counts.iter().all(|counts| counts.matched > 5 && !counts.running));
        pair.worlds.iter_mut().for_each(|world| world.hub.audit());
    }
}

#[test]
fn a_segment_is_stored_listed_changed_and_removed() {
    let limits = limited(|pushes| pushes.segments_a_product_max = 2);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    let segment = |name: &str| SegmentName::parse(name).expect("a name");
    let put = |world: &mut HubHarness, name: &str, tags: TagExpression| {
        world.command(PushCommand::PutSegment { product: key(), segment: segment(name), tags })
    };
    assert_eq!(put(&mut world, "vip", has("a")), PushAnswer::Done(true));
    assert_eq!(put(&mut world, "far", not(has("a"))), PushAnswer::Done(true));
    assert_eq!(put(&mut world, "more", has("a")), PushAnswer::TooManySegments);
    assert_eq!(put(&mut world, "vip", has("b")), PushAnswer::Done(false));
    world.keeps = false;
    let tags = has("c");
    let reply =
        world.tell(PushCommand::PutSegment { product: key(), segment: segment("vip"), tags });
    assert_eq!(world.answer(reply), None);
    world.complete(Err(StoreError::Full));
    assert_eq!(world.answer(reply), Some(PushAnswer::StoreFailed));
    world.keeps = true;
    let expected =
        [("far", not(has("a"))), ("vip", has("b"))].map(|(n, tags)| (segment(n), Arc::new(tags)));
    let of = |product: ProductKey, names: Option<&[&str]>| {
        let names = names.map(|names| names.iter().map(|name| segment(name)).collect());
        PushCommand::Segments { product, names }
    };
    for _ in 0..2 {
        let all = world.command(of(key(), None));
        assert_eq!(all, PushAnswer::Segments(expected.to_vec()));
        let some = world.command(of(key(), Some(&["vip", "none"])));
        assert_eq!(some, PushAnswer::Segments(expected[1..].to_vec()));
        world.restart();
    }
    let drop_it = PushCommand::DropSegment { product: key(), segment: segment("far") };
    assert_eq!(world.command(drop_it.clone()), PushAnswer::Done(true));
    assert_eq!(world.command(drop_it), PushAnswer::Done(false));
    let other = ProductKey::parse("q").expect("a name");
    assert_eq!(world.command(of(other, None)), PushAnswer::UnknownProduct);
    world.tell(PushCommand::DropProduct(key()));
    rest(&mut world);
    assert_eq!(world.log.rows(Table::Segments), 0, "they go with their product");
}

fn save(world: &mut HubHarness, name: &str, tags: TagExpression) -> u64 {
    let segment = SegmentName::parse(name).expect("a name");
    world.tell(PushCommand::PutSegment { product: key(), segment, tags })
}

fn segments(world: &mut HubHarness) -> usize {
    match world.command(PushCommand::Segments { product: key(), names: None }) {
        PushAnswer::Segments(all) => all.len(),
        other => panic!("no segments: {other:?}"),
    }
}

#[test]
fn a_product_has_so_many_segments_those_included_that_are_being_saved() {
    let limits = limited(|pushes| pushes.segments_a_product_max = 2);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    world.keeps = false;
    let replies = ["s0", "s1", "s1", "s2"].map(|name| save(&mut world, name, has("a")));
    world.settle();
    let answers = replies.map(|reply| world.answer(reply));
    let done = [true, true, false].map(|new| Some(PushAnswer::Done(new)));
    assert_eq!((&answers[..3], &answers[3]), (&done[..], &Some(PushAnswer::TooManySegments)));
    world.keeps = true;
    world.command(PushCommand::PutProduct(Box::new(Product { key: other(), ..product() })));
    let (product, segment) = (other(), SegmentName::parse("s").expect("a name"));
    let of_other = PushCommand::PutSegment { product, segment, tags: has("a") };
    assert_eq!(world.command(of_other), PushAnswer::Done(true), "another product has its own");
}

fn remove(world: &mut HubHarness, name: &str) -> u64 {
    let segment = SegmentName::parse(name).expect("a name");
    world.tell(PushCommand::DropSegment { product: key(), segment })
}

#[test]
fn a_refused_change_of_a_segment_does_not_hold_after_a_restart_though_the_log_took_it() {
    for changed in [Some(has("b")), None] {
        let mut world = HubHarness::new();
        save(&mut world, "vip", has("a"));
        world.keeps = false;
        let reply = match &changed {
            Some(tags) => save(&mut world, "vip", tags.clone()),
            None => remove(&mut world, "vip"),
        };
        for (_, call) in &world.fx.calls {
            world.log.answer(call).expect("it is written");
        }
        world.complete(Err(StoreError::Busy));
        assert_eq!(world.answer(reply), Some(PushAnswer::StoreFailed));
        world.keeps = true;
        rest(&mut world);
        for _ in 0..2 {
            let told = world.command(PushCommand::Segments { product: key(), names: None });
            let vip = SegmentName::parse("vip").expect("a name");
            let before = PushAnswer::Segments(vec![(vip, Arc::new(has("a")))]);
            assert_eq!(told, before, "{changed:?}");
            world.restart();
        }
    }
}

#[test]
fn a_segment_that_is_removed_after_a_refused_change_does_not_come_back() {
    let mut world = HubHarness::new();
    save(&mut world, "vip", has("a"));
    world.keeps = false;
    save(&mut world, "vip", has("b"));
    world.complete(Err(StoreError::Busy));
    let reply = remove(&mut world, "vip");
    world.hub.turn(world.now, &mut world.fx);
    world.settle();
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    world.keeps = true;
    rest(&mut world);
    assert_eq!((segments(&mut world), world.log.rows(Table::Segments)), (0, 0));
}

fn other() -> ProductKey {
    ProductKey::parse("q").expect("a name")
}

#[test]
fn a_segment_that_is_saved_while_its_product_is_dropped_goes_with_it() {
    let mut world = HubHarness::new();
    world.keeps = false;
    let dropped = world.tell(PushCommand::DropProduct(key()));
    let saved = save(&mut world, "vip", has("a"));
    world.settle();
    assert_eq!(world.answer(dropped), Some(PushAnswer::Done(true)));
    assert_eq!(world.answer(saved), Some(PushAnswer::UnknownProduct));
    world.keeps = true;
    rest(&mut world);
    assert_eq!(world.log.rows(Table::Segments), 0);
}

#[test]
fn a_segment_of_a_new_product_survives_the_cleanup_of_the_old_one() {
    for kept in 0.. {
        let mut world = HubHarness::new();
        let old = save(&mut world, "vip", has("old"));
        assert_eq!(world.answer(old), Some(PushAnswer::Done(true)));
        save(&mut world, "far", has("old"));
        world.keeps = false;
        world.tell(PushCommand::DropProduct(key()));
        world.complete(Ok(()));
        // The log refuses the deletions, which are asked for again later.
        world.hub.turn(world.now, &mut world.fx);
        world.complete(Err(StoreError::Busy));
        world.log.die_after(Some(kept));
        world.keeps = true;
        let made = world.tell(PushCommand::PutProduct(Box::new(product())));
        let made = world.answer(made);
        let saved = save(&mut world, "vip", has("new"));
        let saved = world.answer(saved);
        (0..3).for_each(|_| world.pass_ms(1_000));
        rest(&mut world);
        let is_all = !world.log.is_dead();
        world.log.die_after(None);
        for _ in 0..2 {
            if saved == Some(PushAnswer::Done(true)) && made.is_some() {
                let vip = SegmentName::parse("vip").expect("a name");
                let names = Some(vec![vip.clone()]);
                let told = world.command(PushCommand::Segments { product: key(), names });
                let new = PushAnswer::Segments(vec![(vip, Arc::new(has("new")))]);
                assert_eq!(told, new, "{kept}");
            }
            world.restart();
            rest(&mut world);
        }
        if is_all {
            assert_eq!((segments(&mut world), world.log.rows(Table::Segments)), (1, 1));
            assert!(kept > 2, "it broke off everywhere");
            break;
        }
    }
}

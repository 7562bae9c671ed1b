//! Pushes that are scheduled for later.

use crate::harness::{HubHarness, id, limited, order, product, settings, tag};
use crate::many::{Pair, away, each_of_ten_has_it_after_a_start, owner, rest, waiting};
use hub::Settings;
use model::counters::PushCounter;
use model::id::{MessageId, ProductKey};
use model::ports::log::Table;
use model::ports::pushes::{OrderState, PushAnswer, PushCommand, PushOrder, PushState, PushTarget};
use model::service::Service;

/// How far ahead pushes are scheduled, milliseconds.
const AHEAD_MS: u64 = 3_600_000;

/// Schedules a push; returns its id once the order is answered.
fn schedule(
    world: &mut HubHarness,
    target: PushTarget,
    change: impl FnOnce(&mut PushOrder),
) -> MessageId {
    let at_ms = world.now.wall_ms + AHEAD_MS;
    let (_, reply) = world.push_to(target, |order| {
        order.send_at_ms = Some(at_ms);
        change(order);
    });
    pushed(world, reply)
}

fn pushed(world: &mut HubHarness, reply: u64) -> MessageId {
    match world.answer(reply) {
        Some(PushAnswer::Pushed { id, outcomes, .. }) if outcomes.is_empty() => id,
        other => panic!("not scheduled: {other:?}"),
    }
}

fn names(names: std::ops::Range<u32>) -> PushTarget {
    PushTarget::Devices(names.map(|n| id(&format!("d{n}"))).collect())
}

fn cancel(world: &mut HubHarness, push: MessageId) -> Option<PushAnswer> {
    let id = MessageId(1 << 40 | world.message_id().0);
    let reply = world.tell(PushCommand::Cancel { id, push, product: None });
    rest(world);
    world.answer(reply)
}

fn list(world: &mut HubHarness, before: Option<MessageId>, count: u32) -> Vec<OrderState> {
    match world.command(PushCommand::Orders { product: None, before, count }) {
        PushAnswer::Orders(orders) => orders,
        other => panic!("no orders: {other:?}"),
    }
}

#[test]
fn a_scheduled_push_is_sent_at_its_time_to_those_that_are_there_then() {
    for kill in [false, true] {
        let mut world = HubHarness::new();
        away(&mut world, 0..5);
        world.keeps = false;
        let at_ms = world.now.wall_ms + AHEAD_MS;
        let later = |order: &mut PushOrder| order.send_at_ms = Some(at_ms);
        let (_, reply) = world.push_to(PushTarget::Tag(tag("t")), later);
        world.turn();
        assert_eq!(world.answer(reply), None, "nothing is kept yet");
        world.complete(Ok(()));
        let push = pushed(&mut world, reply);
        assert_eq!(push.at_ms(), at_ms);
        world.keeps = true;
        if kill {
            world.restart();
        }
        away(&mut world, 5..8);
        world.pass_ms(AHEAD_MS - 2_000);
        rest(&mut world);
        assert_eq!(world.counts(push).state, PushState::Scheduled);
        assert_eq!((waiting(&mut world, 0..8), world.counts(push).matched), (vec![0; 8], 0));
        // The next turn is never due later than the push.
        while world.now.wall_ms < at_ms {
            let next = world.hub.turn(world.now, &mut world.fx).expect("it looks at the clock");
            let ms = (next.nanos() - world.now.mono.nanos()) / 1_000_000;
            assert!((1..=500).contains(&ms));
            world.pass_ms(ms);
        }
        world.turn();
        away(&mut world, 8..9);
        rest(&mut world);
        assert_eq!((waiting(&mut world, 0..8), waiting(&mut world, 8..9)), (vec![1; 8], vec![0]));
        let counts = world.counts(push);
        assert_eq!((counts.state, counts.matched, counts.stored), (PushState::Finished, 8, 8));
        world.restart();
        rest(&mut world);
        assert_eq!((world.counts(push), waiting(&mut world, 0..8)), (counts, vec![1; 8]));
        world.hub.audit();
    }
}

#[test]
fn named_devices_get_a_scheduled_push_too_and_are_counted() {
    let mut world = HubHarness::new();
    let product = ProductKey::parse("p").expect("a name");
    world.tell(PushCommand::Block { product, device: id("d1"), blocked: true });
    let push = schedule(&mut world, names(0..4), |order| order.receipts = true);
    world.restart();
    let seat = world.seat("d0");
    world.pass_ms(AHEAD_MS);
    rest(&mut world);
    assert!(world.pushes().iter().any(|(id, _)| *id == push));
    world.ack(&seat, &[push]);
    rest(&mut world);
    for _ in 0..2 {
        let counts = world.counts(push);
        assert_eq!((counts.matched, counts.delivered, counts.stored), (4, 1, 2));
        assert_eq!((counts.rejected, counts.state), (1, PushState::Finished));
        assert_eq!(waiting(&mut world, 0..4), [0, 0, 1, 1]);
        world.restart();
        rest(&mut world);
    }
    assert_eq!(cancel(&mut world, push), Some(PushAnswer::Done(true)));
    assert_eq!((world.counts(push).cancelled, waiting(&mut world, 0..4)), (2, vec![0; 4]));
    world.hub.audit();
}

#[test]
fn a_push_whose_time_came_while_the_server_was_down_is_sent_at_the_start_or_is_expired() {
    for (down_ms, stored) in [(AHEAD_MS + 1_000, 1), (2 * AHEAD_MS + 1_000, 0)] {
        for target in [names(0..3), PushTarget::Product] {
            let mut world = HubHarness::new();
            away(&mut world, 0..3);
            let push = schedule(&mut world, target, |order| order.time_to_live_s = 3_600);
            let nanos = world.now.mono.nanos() + down_ms * 1_000_000;
            let wall_ms = world.now.wall_ms + down_ms;
            world.now = base::time::Now::new(base::time::Instant::from_nanos(nanos), wall_ms);
            world.restart();
            rest(&mut world);
            assert_eq!(waiting(&mut world, 0..3), [stored; 3], "{down_ms}");
            let counts = world.counts(push);
            assert_eq!((counts.matched, counts.expired), (3, 3 - 3 * u64::from(stored)));
            world.hub.audit();
        }
    }
}

#[test]
fn a_scheduled_push_that_is_cancelled_is_never_sent() {
    for kill in [false, true] {
        let mut world = HubHarness::new();
        away(&mut world, 0..3);
        let pushes = [names(0..3), PushTarget::Product];
        let pushes = pushes.map(|target| schedule(&mut world, target, |_| {}));
        for push in pushes {
            assert_eq!(cancel(&mut world, push), Some(PushAnswer::Done(true)));
            if kill {
                world.restart();
            }
            assert_eq!(world.counts(push).state, PushState::Cancelled);
        }
        world.pass_ms(2 * AHEAD_MS);
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..3), [0; 3]);
        assert!(pushes.iter().all(|push| world.counts(*push).matched == 0));
        assert_eq!(world.log.rows(Table::Orders), 4, "counts alone");
        // Another order for the same time gets another id.
        world.now = base::time::Now::new(world.now.mono, world.now.wall_ms - 2 * AHEAD_MS);
        let other = schedule(&mut world, PushTarget::Product, |_| {});
        assert!(!pushes.contains(&other));
        world.hub.audit();
    }
}

#[test]
fn wherever_the_kill_comes_a_scheduled_push_comes_once() {
    let small = || {
        let limits = limited(|pushes| pushes.fan_out_slice = 3);
        Settings { limits, ..settings() }
    };
    for target in [names(0..10), PushTarget::Tag(tag("t"))] {
        for kept in 0.. {
            let mut world = HubHarness::with(product(), small());
            away(&mut world, 0..10);
            let push = schedule(&mut world, target.clone(), |_| {});
            world.log.die_after(Some(kept));
            for _ in 0..6 {
                world.pass_ms(AHEAD_MS / 4);
                world.hub.turn(world.now, &mut world.fx);
                world.store();
            }
            let is_all = !world.log.is_dead();
            each_of_ten_has_it_after_a_start(&mut world, push, kept);
            if is_all {
                assert!(kept > 2, "it broke off everywhere: {kept}");
                break;
            }
        }
    }
}

#[test]
fn only_so_many_pushes_are_scheduled_and_they_take_no_room_from_others() {
    let limits = limited(|pushes| (pushes.scheduled_max, pushes.jobs_max) = (3, 2));
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    let pushes: Vec<_> =
        (0..3).map(|_| schedule(&mut world, PushTarget::Product, |_| {})).collect();
    let at_ms = world.now.wall_ms + AHEAD_MS;
    let later = |order: &mut PushOrder| order.send_at_ms = Some(at_ms);
    let (_, reply) = world.push_to(names(0..1), later);
    assert_eq!(world.answer(reply), Some(PushAnswer::TooManyScheduled));
    for _ in 0..3 {
        let (push, reply) = world.push_to(PushTarget::Product, |_| {});
        rest(&mut world);
        assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { .. })), "{push:?}");
    }
    assert!(pushes.iter().all(|push| world.counts(*push).state == PushState::Scheduled));
    assert_eq!(cancel(&mut world, pushes[0]), Some(PushAnswer::Done(true)));
    let (_, reply) = world.push_to(names(0..1), later);
    pushed(&mut world, reply);
    world.hub.audit();
}

#[test]
fn a_repeated_order_is_the_first_one_and_at_another_time_another_one() {
    let mut world = HubHarness::new();
    away(&mut world, 0..2);
    let at_ms = world.now.wall_ms + AHEAD_MS;
    let keyed = move |ms| {
        move |order: &mut PushOrder| {
            (order.send_at_ms, order.idempotency_key) = (ms, Some("k".into()));
        }
    };
    let (_, reply) = world.push_to(names(0..2), keyed(Some(at_ms)));
    let first = pushed(&mut world, reply);
    for _ in 0..2 {
        let (_, reply) = world.push_to(names(0..2), keyed(Some(at_ms)));
        assert_eq!(pushed(&mut world, reply), first);
        for (target, ms) in [(names(0..2), at_ms + 1), (names(0..1), at_ms)] {
            let (_, reply) = world.push_to(target, keyed(Some(ms)));
            assert_eq!(world.answer(reply), Some(PushAnswer::Conflict));
        }
        let (_, reply) = world.push_to(PushTarget::Product, keyed(None));
        assert_eq!(world.answer(reply), Some(PushAnswer::Conflict));
        world.restart();
    }
    world.pass_ms(AHEAD_MS);
    rest(&mut world);
    assert_eq!(waiting(&mut world, 0..2), [1, 1]);
    let (_, reply) = world.push_to(names(0..2), keyed(Some(at_ms)));
    assert_eq!(pushed(&mut world, reply), first);
    world.hub.audit();
}

#[test]
fn of_two_pushes_with_a_collapse_key_the_one_that_is_sent_later_holds() {
    let mut world = HubHarness::new();
    away(&mut world, 0..1);
    let collapses = |order: &mut PushOrder| order.collapse = Some("k".into());
    let scheduled = schedule(&mut world, PushTarget::Product, collapses);
    let between = world.real_id();
    world.push("d0", |order| {
        collapses(order);
        order.id = between;
    });
    world.pass_ms(AHEAD_MS);
    rest(&mut world);
    let seat = world.seat("d0");
    assert_eq!(world.pushes().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [scheduled]);
    world.pass_ms(1_000);
    let last = world.real_id();
    world.push("d0", |order| {
        collapses(order);
        order.id = last;
    });
    world.ack(&seat, &[last]);
    assert_eq!(world.state("d0").map(|state| state.waiting), Some(0));
    world.hub.audit();
}

#[test]
fn a_scheduled_push_that_waits_keeps_no_other_from_a_device() {
    let slow = limited(|pushes| pushes.fan_out_slice = 1);
    let mut world = HubHarness::with(product(), Settings { limits: slow, ..settings() });
    away(&mut world, 0..20);
    let cancelled = schedule(&mut world, PushTarget::Product, |_| {});
    let push = schedule(&mut world, PushTarget::Product, |_| {});
    // An order is at work while a device is registered, and while the first scheduled push is
    // cancelled.
    world.push_to(PushTarget::Product, |_| {});
    world.hub.turn(world.now, &mut world.fx);
    world.store();
    let id = MessageId(1 << 40);
    world.tell(PushCommand::Cancel { id, push: cancelled, product: None });
    world.hub.turn(world.now, &mut world.fx);
    world.store();
    away(&mut world, 20..21);
    let (second, _) = world.push_to(PushTarget::Product, |order| order.time_to_live_s = 9_000);
    rest(&mut world);
    assert_eq!((waiting(&mut world, 20..21), world.counts(second).matched), (vec![1], 21));
    world.pass_ms(AHEAD_MS);
    rest(&mut world);
    assert_eq!((waiting(&mut world, 20..21), world.counts(push).matched), (vec![2], 21));
    world.hub.audit();
}

#[test]
fn a_scheduled_push_is_remembered_from_its_time_on() {
    let limits = limited(|pushes| pushes.job_age_s_max = 60);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    let push = schedule(&mut world, PushTarget::Product, |_| {});
    world.pass_ms(AHEAD_MS + 30_000);
    rest(&mut world);
    assert_eq!(world.counts(push).state, PushState::Finished);
    world.pass_ms(60_000);
    rest(&mut world);
    assert_eq!(world.command(PushCommand::PushCounts(push)), PushAnswer::Counts(None));
}

#[test]
fn orders_are_listed_page_by_page_the_last_one_first() {
    let mut world = HubHarness::new();
    let (first, _) = world.push_to(PushTarget::Product, |_| {});
    rest(&mut world);
    let push = schedule(&mut world, PushTarget::Tag(tag("t")), |_| {});
    let at_ms = push.at_ms();
    let all = list(&mut world, None, 10);
    let told: Vec<_> = all.iter().map(|it| (it.id, it.send_at_ms, it.counts.state)).collect();
    let expected = [(push, Some(at_ms), PushState::Scheduled), (first, None, PushState::Finished)];
    assert_eq!(told, expected);
    assert_eq!(list(&mut world, None, 1), all[..1]);
    assert_eq!(list(&mut world, Some(push), 10), all[1..]);
    world.restart();
    assert_eq!(list(&mut world, None, 10), all);
    let product = ProductKey::parse("q").ok();
    let others = PushCommand::Orders { product, before: None, count: 10 };
    assert_eq!(world.command(others), PushAnswer::Orders(Vec::new()));
}

#[test]
fn each_shard_sends_its_part_at_its_time_and_nobody_is_asked_meanwhile() {
    for kill in [false, true] {
        for number in 0..4 {
            let mut pair = Pair::with_away();
            let own = MessageId(1_000 + number);
            let at = owner(own);
            let list = (0..12).map(|n| id(&format!("d{n}"))).collect();
            let target =
                if number < 2 { PushTarget::Devices(list) } else { PushTarget::Tag(tag("t")) };
            let at_ms = pair.worlds[at].now.wall_ms + AHEAD_MS;
            let order = PushOrder { send_at_ms: Some(at_ms), ..order(own, target) };
            let reply = pair.worlds[at].tell(PushCommand::Push(order));
            pair.step();
            if kill {
                pair.restart();
            }
            pair.rest();
            let state = list_of(&mut pair.worlds[at]);
            assert!(kill || pair.worlds[at].answer(reply).is_some());
            (0..9).for_each(|_| pair.pass_s(301));
            let overdue = |pair: &Pair| {
                let of = |at: usize| pair.worlds[at].fx.counters.of(PushCounter::OrdersOverdue);
                of(0) + of(1)
            };
            assert_eq!(overdue(&pair), 0);
            pair.pass_s(1_000);
            let counts = [0, 1].map(|at: usize| pair.worlds[at].counts(state));
            assert!(counts.iter().all(|counts| counts.state == PushState::Finished));
            assert_eq!(counts[0].matched + counts[1].matched, 12, "{number}");
            for world in &mut pair.worlds {
                assert_eq!(world.log.rows(Table::Orders), 1, "counts alone");
                world.hub.audit();
            }
        }
    }
}

/// Id of the only order that the hub remembers.
fn list_of(world: &mut HubHarness) -> MessageId {
    let all = list(world, None, 10);
    assert_eq!(all.len(), 1);
    all[0].id
}

//! Changes of pushes (pauses, cancels) that name a product, that repeat, or that come late.

use crate::harness::{HubHarness, id, limited, order, product, settings, tag};
use crate::many::{Pair, away, owner, rest, waiting};
use hub::Settings;
use model::id::{MessageId, ProductKey};
use model::ports::log::{Call, StoreError, Table, Write};
use model::ports::pushes::{
    OrderState, PushAnswer, PushCommand, PushCounts, PushOrder, PushState, PushTarget,
};
use model::service::Service;
use std::num::NonZeroU32;

const AHEAD_MS: u64 = 600_000;

fn change(world: &mut HubHarness, push: MessageId, product: Option<&str>, cancels: bool) -> u64 {
    let id = world.message_id();
    let product = product.map(|name| ProductKey::parse(name).expect("a name"));
    world.tell(match cancels {
        true => PushCommand::Cancel { id, push, product },
        false => PushCommand::Pause { id, push, product, paused: true },
    })
}

fn pause(world: &mut HubHarness, push: MessageId, paused: bool) -> u64 {
    let id = world.message_id();
    world.tell(PushCommand::Pause { id, push, product: None, paused })
}

fn scheduled(world: &mut HubHarness, key: Option<&str>) -> MessageId {
    let at_ms = world.now.wall_ms + AHEAD_MS;
    let (_, reply) = world.push_to(PushTarget::Product, |order| {
        (order.send_at_ms, order.idempotency_key) = (Some(at_ms), key.map(Into::into));
    });
    match world.answer(reply) {
        Some(PushAnswer::Pushed { id, .. }) => id,
        other => panic!("not scheduled: {other:?}"),
    }
}

fn paced(world: &mut HubHarness) -> MessageId {
    let (push, _) = world.push_to(PushTarget::Product, |order| {
        order.devices_per_s = NonZeroU32::new(1);
    });
    world.hub.turn(world.now, &mut world.fx);
    world.store();
    push
}

#[test]
fn a_change_for_devices_of_another_product_has_no_effect_wherever_the_kill_comes() {
    for cancels in [false, true] {
        for kept in 0.. {
            let mut world = HubHarness::new();
            away(&mut world, 0..4);
            let (push, later) = (paced(&mut world), scheduled(&mut world, None));
            world.log.die_after(Some(kept));
            for of in [push, later] {
                change(&mut world, of, Some("q"), cancels);
                world.hub.turn(world.now, &mut world.fx);
                world.store();
            }
            let is_all = !world.log.is_dead();
            world.log.die_after(None);
            world.restart();
            assert_eq!(world.counts(push).state, PushState::Running, "{cancels} {kept}");
            assert_eq!(world.counts(later).state, PushState::Scheduled, "{cancels} {kept}");
            (0..5).for_each(|_| world.pass_ms(1_000));
            world.pass_ms(AHEAD_MS);
            rest(&mut world);
            assert_eq!(waiting(&mut world, 0..4), [2; 4], "{cancels} {kept}");
            world.hub.audit();
            if is_all {
                break;
            }
        }
    }
}

#[test]
fn a_change_for_another_product_has_no_effect_beside_a_silent_shard() {
    for cancels in [false, true] {
        let mut pair = Pair::with_away();
        let push = MessageId(1_000);
        let mut of = order(push, PushTarget::Tag(tag("t")));
        (of.devices_per_s, of.time_to_live_s) = (NonZeroU32::new(2), 1_000_000);
        pair.worlds[owner(push)].tell(PushCommand::Push(of));
        (0..3).for_each(|_| pair.step());
        let at = usize::from(base::hash::home(hub::cancel_home(settings().home, push), 2));
        change(&mut pair.worlds[at], push, Some("q"), cancels);
        // The other shard stores the change, and is not heard after that.
        pair.worlds[at].hub.turn(pair.worlds[at].now, &mut pair.worlds[at].fx);
        pair.worlds[at].store();
        pair.post(at);
        pair.post(1 - at);
        pair.loses = true;
        let silence_s = settings().limits.pushes.order_silence_s_max;
        (0..6).for_each(|_| pair.pass_s(u64::from(silence_s)));
        pair.loses = false;
        pair.restart();
        pair.rest();
        for world in &mut pair.worlds {
            let state = world.counts(push).state;
            assert!(matches!(state, PushState::Running | PushState::Finished), "{state:?}");
        }
        (0..8).for_each(|_| pair.pass_s(1));
        for shard in 0..2 {
            let waiting = waiting(&mut pair.worlds[shard], Pair::devices_of(shard));
            assert!(waiting.iter().all(|&count| count == 1), "{cancels}: {waiting:?}");
        }
    }
}

#[test]
fn a_key_is_for_one_pace_and_its_order_is_repeated_after_its_time_too() {
    let mut world = HubHarness::new();
    away(&mut world, 0..2);
    let keyed = |rate| {
        move |order: &mut PushOrder| {
            order.idempotency_key = Some("pace".into());
            order.devices_per_s = NonZeroU32::new(rate);
        }
    };
    let (push, _) = world.push_to(PushTarget::Product, keyed(5));
    let (_, reply) = world.push_to(PushTarget::Product, keyed(5));
    assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { id, .. }) if id == push));
    for rate in [0, 6] {
        let (_, reply) = world.push_to(PushTarget::Product, keyed(rate));
        assert_eq!(world.answer(reply), Some(PushAnswer::Conflict), "{rate}");
    }
    let at_ms = world.now.wall_ms + AHEAD_MS;
    let first = scheduled(&mut world, Some("k"));
    world.pass_ms(2 * AHEAD_MS);
    rest(&mut world);
    for key in ["k", "another"] {
        let (_, reply) = world.push_to(PushTarget::Product, |order| {
            (order.send_at_ms, order.idempotency_key) = (Some(at_ms), Some(key.into()));
        });
        let answer = world.answer(reply).expect("an answer");
        match key {
            "k" => assert!(matches!(answer, PushAnswer::Pushed { id, .. } if id == first)),
            _ => assert_eq!(answer, PushAnswer::TimePassed),
        }
    }
    world.hub.audit();
}

#[test]
fn changes_that_repeat_while_a_shard_takes_nothing_are_bounded() {
    let mut pair = Pair::with_away();
    let push = MessageId(1_000);
    let mut of = order(push, PushTarget::Tag(tag("t")));
    of.devices_per_s = NonZeroU32::new(1);
    pair.worlds[owner(push)].tell(PushCommand::Push(of));
    (0..3).for_each(|_| pair.step());
    let at = usize::from(base::hash::home(hub::cancel_home(settings().home, push), 2));
    pair.worlds[1 - at].keeps = false;
    let rows = pair.worlds[at].log.rows(Table::Orders);
    let mut replies = Vec::new();
    for n in 0..200 {
        // The same wish again and again waits for one order; a change of mind is another order.
        let paused = n >= 100 && n % 2 == 0;
        replies.push(pause(&mut pair.worlds[at], push, paused));
        pair.step();
        pair.worlds[1 - at].complete(Err(StoreError::Busy));
        if n == 99 {
            assert_eq!(pair.worlds[at].log.rows(Table::Orders), rows + 1);
        }
    }
    assert_eq!(pair.worlds[at].log.rows(Table::Orders), rows + 8);
    pair.worlds[1 - at].keeps = true;
    (0..10).for_each(|_| pair.pass_s(1));
    let answers: Vec<_> = replies.iter().map(|reply| pair.worlds[at].answer(*reply)).collect();
    let of = |wanted: PushAnswer| answers.iter().flatten().filter(|it| **it == wanted).count();
    assert_eq!(of(PushAnswer::Done(true)) + of(PushAnswer::Busy), 200, "each is answered");
    assert!(of(PushAnswer::Done(true)) > 64);
    pair.worlds.iter_mut().for_each(|world| world.hub.audit());
}

#[test]
fn a_scheduled_push_that_is_resumed_late_reaches_devices_that_came_behind_later_orders() {
    for kill in [false, true] {
        let slow = limited(|pushes| pushes.fan_out_slice = 1);
        let mut world = HubHarness::with(product(), Settings { limits: slow, ..settings() });
        away(&mut world, 0..20);
        let push = scheduled(&mut world, None);
        pause(&mut world, push, true);
        world.pass_ms(2 * AHEAD_MS);
        rest(&mut world);
        let later = world.real_id();
        let (_, reply) = world.push_to(PushTarget::Product, |order| order.id = later);
        world.hub.turn(world.now, &mut world.fx);
        world.store();
        assert!(world.answer(reply).is_some() && later > push);
        away(&mut world, 20..21);
        pause(&mut world, push, false);
        for _ in 0..4 {
            world.hub.turn(world.now, &mut world.fx);
            world.store();
        }
        if kill {
            world.restart();
        } else {
            // A device that comes after the push has started is none of its devices.
            away(&mut world, 21..22);
        }
        rest(&mut world);
        assert_eq!(world.counts(push).matched, 21, "{kill}");
        assert_eq!(waiting(&mut world, 20..22), [1, 0], "{kill}");
        assert_eq!(world.counts(later).matched, 20, "{kill}");
        world.hub.audit();
    }
}

#[test]
fn paused_and_cancelled_scheduled_pushes_leave_the_limits_of_others_as_they_are() {
    let limits = limited(|pushes| (pushes.scheduled_max, pushes.jobs_max) = (6, 4));
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    away(&mut world, 0..3);
    let later: Vec<_> = (0..6).map(|_| scheduled(&mut world, None)).collect();
    for push in &later {
        pause(&mut world, *push, true);
    }
    rest(&mut world);
    // Four orders that stay open, and no fifth.
    for _ in 0..4 {
        paced(&mut world);
    }
    let (_, reply) = world.push_to(PushTarget::Product, |_| {});
    assert_eq!(world.answer(reply), Some(PushAnswer::Busy));
    (0..10).for_each(|_| world.pass_ms(1_000));
    rest(&mut world);
    for push in &later {
        let reply = change(&mut world, *push, None, true);
        rest(&mut world);
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    }
    assert!(all(&mut world).len() <= 4, "those that are over are forgotten");
    let pushes: Vec<_> = (0..4).map(|_| paced(&mut world)).collect();
    (0..10).for_each(|_| world.pass_ms(1_000));
    rest(&mut world);
    let finished = PushCounts { matched: 3, stored: 3, ..PushCounts::default() };
    assert!(pushes.iter().all(|push| world.counts(*push) == finished));
    assert_eq!(all(&mut world).len(), 4);
    world.restart();
    rest(&mut world);
    assert_eq!((all(&mut world).len(), world.log.rows(Table::Orders)), (4, 4));
    assert_eq!(waiting(&mut world, 0..3), [8; 3]);
    assert!(world.state(id("d0").as_str()).is_some());
    world.hub.audit();
}

fn all(world: &mut HubHarness) -> Vec<OrderState> {
    match world.command(PushCommand::Orders { product: None, before: None, count: 100 }) {
        PushAnswer::Orders(orders) => orders,
        other => panic!("no orders: {other:?}"),
    }
}

#[test]
fn devices_that_end_while_the_counts_of_an_order_are_being_stored_are_counted_after_a_kill() {
    for is_refused in [false, true] {
        let mut world = HubHarness::new();
        away(&mut world, 0..3);
        world.keeps = false;
        let (push, _) = world.push_to(PushTarget::Product, |_| {});
        let closes = |world: &HubHarness| {
            world.fx.calls.iter().any(|(_, call)| match call {
                Call::Write(Write::Put { table: Table::Orders, key, .. }) => {
                    key.get(10) == Some(&1)
                }
                _ => false,
            })
        };
        for _ in 0..100 {
            if closes(&world) {
                break;
            }
            world.complete(Ok(()));
            world.pass_ms(100);
        }
        assert!(closes(&world), "the counts are at the log");
        if is_refused {
            world.complete(Err(StoreError::Busy));
        }
        // The pushes expire where they wait.
        (0..90).for_each(|_| world.pass_ms(40_000));
        (0..8).for_each(|_| world.pass_ms(300));
        world.settle();
        let counts = world.counts(push);
        assert_eq!((counts.matched, counts.expired, counts.stored), (3, 3, 0), "{is_refused}");
        world.restart();
        world.keeps = true;
        rest(&mut world);
        assert_eq!(world.counts(push), counts, "{is_refused}");
    }
}

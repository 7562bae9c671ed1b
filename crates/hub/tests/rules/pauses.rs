//! Pushes to many devices that are paused, resumed, or sent at a pace.

use crate::harness::{HubHarness, id, limited, order, product, settings, tag};
use crate::many::{Pair, away, owner, rest, waiting};
use hub::Settings;
use model::id::{MessageId, ProductKey, ShardId};
use model::ports::log::Table;
use model::ports::pushes::{PushAnswer, PushCommand, PushState, PushTarget};
use model::service::Service;
use std::num::NonZeroU32;

fn slow() -> Settings {
    Settings { limits: limited(|pushes| pushes.fan_out_slice = 3), ..settings() }
}

/// Pauses or resumes a push; returns whether the push was known.
fn pause(world: &mut HubHarness, push: MessageId, paused: bool) -> bool {
    let id = world.message_id();
    let reply = world.tell(PushCommand::Pause { id, push, product: None, paused });
    for _ in 0..4 {
        world.hub.turn(world.now, &mut world.fx);
        world.store();
    }
    match world.answer(reply) {
        Some(PushAnswer::Done(known)) => known,
        other => panic!("no answer: {other:?}"),
    }
}

fn state(world: &mut HubHarness, push: MessageId) -> PushState {
    world.counts(push).state
}

fn has(world: &mut HubHarness, names: std::ops::Range<u32>) -> u32 {
    waiting(world, names).iter().sum()
}

#[test]
fn a_paused_push_stops_where_it_is_and_goes_on_when_it_is_resumed_over_kills_too() {
    for kill in [false, true] {
        let mut world = HubHarness::with(product(), slow());
        away(&mut world, 0..40);
        let (push, _) = world.push_to(PushTarget::Product, |_| {});
        world.hub.turn(world.now, &mut world.fx);
        world.store();
        assert!(pause(&mut world, push, true));
        let before = has(&mut world, 0..40);
        assert!((1..40).contains(&before), "{before}");
        if kill {
            world.restart();
        }
        (0..5).for_each(|_| world.pass_ms(60_000));
        assert_eq!((state(&mut world, push), has(&mut world, 0..40)), (PushState::Paused, before));
        // The paused push holds back no other push, and another push does not bring it along.
        let single = world.give("d39");
        let (other, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
        rest(&mut world);
        assert_eq!(world.counts(other).matched, 40);
        assert_eq!(world.state("d39").map(|state| state.waiting), Some(2), "{single:?}");
        // The scan would miss a device that leaves the tag, so the device gets the push first.
        let product = ProductKey::parse("p").expect("a name");
        let tags = Vec::new();
        world.tell(PushCommand::SetTags { product, device: id("d38"), tags });
        assert_eq!(world.state("d38").map(|state| state.waiting), Some(2));
        assert!(pause(&mut world, push, false));
        if kill {
            world.restart();
        }
        rest(&mut world);
        let counts = world.counts(push);
        assert_eq!((counts.state, counts.matched), (PushState::Finished, 40));
        assert_eq!(has(&mut world, 0..40), 81);
        world.restart();
        rest(&mut world);
        assert_eq!(world.log.rows(Table::Orders), 2, "of the pause nothing is left");
        world.hub.audit();
    }
}

#[test]
fn a_push_whose_time_is_over_does_not_stay_paused() {
    let mut world = HubHarness::with(product(), slow());
    away(&mut world, 0..40);
    let now_s = world.now.unix_s();
    let (push, _) = world.push_to(PushTarget::Product, |order| order.time_to_live_s = 100);
    world.hub.turn(world.now, &mut world.fx);
    world.store();
    assert!(pause(&mut world, push, true));
    (0..3).for_each(|_| world.pass_ms(20_000));
    assert!(world.now.unix_s() < now_s + 100);
    assert_eq!(state(&mut world, push), PushState::Paused);
    (0..3).for_each(|_| world.pass_ms(20_000));
    rest(&mut world);
    let counts = world.counts(push);
    assert_eq!((counts.state, counts.matched), (PushState::Finished, 40));
    assert_eq!((counts.expired, has(&mut world, 0..40)), (40, 0));
    world.hub.audit();
}

#[test]
fn wherever_the_kill_comes_a_pause_that_was_answered_holds() {
    for kept in 0.. {
        let mut world = HubHarness::with(product(), slow());
        away(&mut world, 0..30);
        let (push, _) = world.push_to(PushTarget::Product, |_| {});
        world.hub.turn(world.now, &mut world.fx);
        world.store();
        world.log.die_after(Some(kept));
        let id = world.message_id();
        let reply = world.tell(PushCommand::Pause { id, push, product: None, paused: true });
        for _ in 0..4 {
            world.hub.turn(world.now, &mut world.fx);
            world.store();
        }
        let (is_all, answer) = (!world.log.is_dead(), world.answer(reply));
        world.log.die_after(None);
        world.restart();
        rest(&mut world);
        match answer {
            Some(_) => assert_eq!(state(&mut world, push), PushState::Paused, "{kept}"),
            None => assert_ne!(state(&mut world, push), PushState::Running, "{kept}"),
        }
        pause(&mut world, push, false);
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..30), [1; 30], "{kept}");
        world.hub.audit();
        if is_all {
            return;
        }
    }
}

#[test]
fn of_pauses_and_resumes_the_last_one_holds_and_an_unknown_push_is_told() {
    let mut world = HubHarness::with(product(), slow());
    away(&mut world, 0..30);
    let (push, _) = world.push_to(PushTarget::Product, |order| {
        order.devices_per_s = NonZeroU32::new(1);
    });
    world.hub.turn(world.now, &mut world.fx);
    world.store();
    for _ in 0..20 {
        assert!(pause(&mut world, push, true));
        assert_eq!(state(&mut world, push), PushState::Paused);
        assert!(pause(&mut world, push, false));
        assert!(pause(&mut world, push, true));
    }
    world.pass_ms(1_000);
    assert!(world.log.rows(Table::Orders) < 10, "those before the last one are forgotten");
    world.restart();
    rest(&mut world);
    assert_eq!(state(&mut world, push), PushState::Paused);
    assert!(!pause(&mut world, MessageId(1 << 30), true));
    // A paused push can be cancelled.
    let (id, before) = (world.message_id(), world.counts(push).matched);
    let reply = world.tell(PushCommand::Cancel { id, push, product: None });
    rest(&mut world);
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    let counts = world.counts(push);
    assert_eq!((counts.state, counts.cancelled), (PushState::Cancelled, before));
    assert!(pause(&mut world, push, false), "it changes nothing");
    rest(&mut world);
    assert_eq!((world.counts(push), has(&mut world, 0..30)), (counts, 0));
    world.hub.audit();
}

#[test]
fn a_scheduled_push_that_is_paused_is_sent_when_it_is_resumed() {
    let mut world = HubHarness::new();
    away(&mut world, 0..5);
    let at_ms = world.now.wall_ms + 60_000;
    let names = (0..5).map(|n| id(&format!("d{n}"))).collect();
    for target in [PushTarget::Product, PushTarget::Devices(names)] {
        let later = |order: &mut model::ports::pushes::PushOrder| order.send_at_ms = Some(at_ms);
        let (_, reply) = world.push_to(target, later);
        let Some(PushAnswer::Pushed { id: push, .. }) = world.answer(reply) else { panic!() };
        assert!(pause(&mut world, push, true));
    }
    world.pass_ms(120_000);
    world.restart();
    rest(&mut world);
    assert_eq!(has(&mut world, 0..5), 0);
    let PushAnswer::Orders(all) =
        world.command(PushCommand::Orders { product: None, before: None, count: 9 })
    else {
        panic!()
    };
    for push in all.iter().map(|order| order.id) {
        assert_eq!(state(&mut world, push), PushState::Paused);
        assert!(pause(&mut world, push, false));
    }
    rest(&mut world);
    assert_eq!(waiting(&mut world, 0..5), [2; 5]);
    world.hub.audit();
}

#[test]
fn a_pace_bounds_the_devices_a_second() {
    let mut world = HubHarness::new();
    away(&mut world, 0..50);
    let (push, _) = world.push_to(PushTarget::Product, |order| {
        order.devices_per_s = NonZeroU32::new(10);
    });
    let (fast, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
    world.turn();
    assert_eq!(world.counts(fast).matched, 50, "others are not slowed down");
    for tenth in 1..=45 {
        world.pass_ms(100);
        let matched = world.counts(push).matched;
        assert!((tenth..=tenth + 1).contains(&matched), "{tenth}: {matched}");
        if tenth == 20 {
            world.restart();
        }
    }
    // After a pause the scan does not catch up on its pace.
    assert!(pause(&mut world, push, true));
    world.pass_ms(10_000);
    let before = world.counts(push).matched;
    assert!(pause(&mut world, push, false));
    assert!(world.counts(push).matched <= before + 2);
    world.pass_ms(1_000);
    for _ in 0..10 {
        world.pass_ms(500);
    }
    rest(&mut world);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.state), (50, PushState::Finished));
    assert_eq!(waiting(&mut world, 0..50), [2; 50]);
    world.hub.audit();
}

#[test]
fn a_shard_that_is_new_knows_of_pauses_and_cancels() {
    for cancels in [false, true] {
        let mut pair = Pair::with_away();
        let push = MessageId(1_000);
        let mut of = order(push, PushTarget::Tag(tag("t")));
        of.devices_per_s = NonZeroU32::new(2);
        pair.worlds[owner(push)].tell(PushCommand::Push(of));
        (0..3).for_each(|_| pair.step());
        let home = hub::cancel_home(settings().home, push);
        let at = usize::from(base::hash::home(home, 2));
        let id = MessageId(5_000);
        pair.worlds[at].tell(match cancels {
            true => PushCommand::Cancel { id, push, product: None },
            false => PushCommand::Pause { id, push, product: None, paused: true },
        });
        // The push is open when the number of shards changes, and its pause is over already.
        (0..6).for_each(|_| pair.step());
        let third = Settings { shard: ShardId(2), shards: 3, ..settings() };
        let mut world = HubHarness::with(product(), third);
        pair.worlds.iter().for_each(|of| world.log.take_over(&of.log));
        for _ in 0..3 {
            world.restart();
            rest(&mut world);
            let before = has(&mut world, 0..12);
            (0..5).for_each(|_| world.pass_ms(2_000));
            assert_eq!(has(&mut world, 0..12), before, "cancels: {cancels}");
            assert!(before < 12 && (before == 0 || !cancels));
            world.hub.audit();
        }
    }
}

#[test]
fn a_pause_reaches_every_shard_wherever_a_kill_comes() {
    for number in 0..4 {
        for steps in 0..6 {
            let mut pair = Pair::with_away();
            let push = MessageId(1_000 + number);
            let mut of = order(push, PushTarget::Tag(tag("t")));
            of.devices_per_s = NonZeroU32::new(1);
            pair.worlds[owner(push)].tell(PushCommand::Push(of));
            (0..3).for_each(|_| pair.step());
            let home = hub::cancel_home(settings().home, push);
            let at = usize::from(base::hash::home(home, 2));
            let change = |n: u64, paused| PushCommand::Pause {
                id: MessageId(5_000 + n),
                push,
                product: None,
                paused,
            };
            let reply = pair.worlds[at].tell(change(0, true));
            (0..steps).for_each(|_| pair.step());
            let answer = pair.worlds[at].answer(reply);
            pair.restart();
            pair.rest();
            let states = [0, 1].map(|at: usize| pair.worlds[at].counts(push).state);
            assert_eq!(states[0], states[1], "{number} {steps}");
            assert!(answer.is_none() || states[0] == PushState::Paused, "{number} {steps}");
            let before: Vec<_> =
                pair.worlds.iter_mut().map(|world| world.counts(push).matched).collect();
            if states[0] == PushState::Paused {
                pair.pass_s(5);
                let after = pair.worlds.iter_mut().map(|world| world.counts(push).matched);
                assert_eq!(after.collect::<Vec<_>>(), before);
            }
            pair.worlds[at].tell(change(1, false));
            (0..40).for_each(|_| pair.pass_s(1));
            for (shard, names) in [(0, Pair::devices_of(0)), (1, Pair::devices_of(1))] {
                let world = &mut pair.worlds[shard];
                let waiting = waiting(world, names);
                assert!(waiting.iter().all(|&count| count == 1), "{number} {steps} {waiting:?}");
                world.hub.audit();
            }
        }
    }
}

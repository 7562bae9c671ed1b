//! Pushes that devices get when their clocks show a time.

use crate::harness::{HubHarness, WALL_MS, id, limited, order, product, settings, tag};
use crate::many::{Pair, away, each_of_ten_has_it_after_a_start, owner, rest, waiting};
use crate::outcomes::lines;
use base::prng::Prng;
use base::time::{Instant, Now};
use hub::Settings;
use model::id::{MessageId, ProductKey};
use model::ports::log::Table;
use model::ports::pushes::{PushAnswer, PushCommand, PushOrder, PushState, PushTarget};
use model::service::Service;
use model::zone::{CivilTime, LocalTime, Passed, Zone};

const HOUR_MS: u64 = 3_600_000;

/// Zones by how many hours after the first one their clocks show a time.
const ZONES: [(&str, u64); 4] =
    [("Asia/Tokyo", 0), ("Asia/Dhaka", 3), ("UTC", 9), ("America/New_York", 14)];

/// The time of all tests: noon of the next day, in Tokyo 19 hours after the beginning.
fn noon() -> LocalTime {
    let at = CivilTime::parse("2027-01-16T12:00").expect("a time");
    LocalTime { at, zone: Zone::UTC, passed: Passed::Send }
}

/// When a clock in Tokyo shows the time.
const FIRST_MS: u64 = WALL_MS + 19 * HOUR_MS;

fn zone(name: &str) -> Zone {
    Zone::parse(name).expect("a zone")
}

fn set_zone(world: &mut HubHarness, device: u32, name: Option<&str>) {
    let product = ProductKey::parse("p").expect("a name");
    let (device, zone) = (id(&format!("d{device}")), name.map(zone));
    world.tell(PushCommand::SetZone { product, device, zone });
    world.settle();
}

/// Devices that are away: two in each zone, and two without one.
fn spread(world: &mut HubHarness) {
    away(world, 0..10);
    for device in 0..8 {
        set_zone(world, device, Some(ZONES[device as usize / 2].0));
    }
}

fn schedule(
    world: &mut HubHarness,
    target: PushTarget,
    change: impl FnOnce(&mut PushOrder),
) -> MessageId {
    let (_, reply) = world.push_to(target, |order| {
        (order.local, order.time_to_live_s) = (Some(noon()), 48 * 3_600);
        change(order);
    });
    match world.answer(reply) {
        Some(PushAnswer::Pushed { id, outcomes, .. }) if outcomes.is_empty() => id,
        other => panic!("not scheduled: {other:?}"),
    }
}

/// Lets the wall clock show this time.
fn pass_to(world: &mut HubHarness, at_ms: u64) {
    let ms = at_ms.saturating_sub(world.now.wall_ms);
    world.pass_ms(ms);
    rest(world);
}

fn next_ms(world: &mut HubHarness, push: MessageId) -> Option<u64> {
    match world.command(PushCommand::Orders { product: None, before: None, count: 10 }) {
        PushAnswer::Orders(orders) => orders.into_iter().find(|it| it.id == push)?.send_at_ms,
        other => panic!("no orders: {other:?}"),
    }
}

#[test]
fn each_device_gets_the_push_when_its_clock_shows_the_time() {
    for target in [PushTarget::Product, PushTarget::Tag(tag("t"))] {
        for kill in [false, true] {
            let mut world = HubHarness::new();
            spread(&mut world);
            let push = schedule(&mut world, target.clone(), |_| {});
            assert_eq!(world.counts(push).state, PushState::Scheduled);
            for (at, (_, hours)) in ZONES.iter().enumerate() {
                pass_to(&mut world, FIRST_MS + hours * HOUR_MS - 60_000);
                if kill {
                    world.restart();
                    rest(&mut world);
                }
                let before = waiting(&mut world, 0..8);
                let expected = (0..8).map(|n| u32::from(n / 2 < at)).collect::<Vec<_>>();
                assert_eq!(before, expected, "{at}");
                assert!(world.counts(push).running);
                let due_ms = FIRST_MS + hours * HOUR_MS;
                if at > 0 {
                    assert_eq!(next_ms(&mut world, push), Some(due_ms), "{at}");
                }
                pass_to(&mut world, due_ms);
            }
            assert_eq!(waiting(&mut world, 0..10), [1; 10]);
            let counts = world.counts(push);
            assert_eq!(
                (counts.state, counts.matched, counts.stored),
                (PushState::Finished, 10, 10)
            );
            assert_eq!(world.log.rows(Table::Orders), 1, "counts alone");
            world.restart();
            rest(&mut world);
            assert_eq!((world.counts(push), waiting(&mut world, 0..10)), (counts, vec![1; 10]));
            world.hub.audit();
        }
    }
}

#[test]
fn a_tracked_push_has_a_line_for_each_device_when_its_zone_has_had_it() {
    let named = || PushTarget::Devices((0..10).map(|n| id(&format!("d{n}"))).collect());
    for target in [PushTarget::Product, PushTarget::Tag(tag("t")), named()] {
        for kill in [false, true] {
            let mut world = HubHarness::new();
            spread(&mut world);
            let push = schedule(&mut world, target.clone(), |order| order.track = true);
            for (at, (_, hours)) in ZONES.iter().enumerate() {
                pass_to(&mut world, FIRST_MS + hours * HOUR_MS);
                if kill {
                    world.restart();
                    rest(&mut world);
                }
                // Those without a zone are in UTC.
                let unzoned = if at < 2 { 0 } else { 2 };
                assert_eq!(lines(&mut world, push, None).len(), 2 * (at + 1) + unzoned, "{at}");
                world.hub.audit();
            }
            for n in 0..10 {
                let seat = world.seat(&format!("d{n}"));
                world.ack(&seat, &[push]);
            }
            rest(&mut world);
            for _ in 0..2 {
                let counts = world.counts(push);
                assert_eq!(
                    (counts.state, counts.matched, counts.delivered, counts.tracked),
                    (PushState::Finished, 10, 10, true)
                );
                let mut told = lines(&mut world, push, None);
                told.sort();
                assert_eq!(told, (0..10).map(|n| format!("d{n} delivered")).collect::<Vec<_>>());
                world.hub.audit();
                world.restart();
                rest(&mut world);
            }
        }
    }
}

#[test]
fn zones_whose_time_has_passed_get_the_push_at_once_or_not_at_all() {
    for (passed, first) in [(Passed::Send, 1), (Passed::Skip, 0)] {
        let mut world = HubHarness::new();
        spread(&mut world);
        pass_to(&mut world, FIRST_MS + HOUR_MS);
        let time = LocalTime { passed, ..noon() };
        let push = schedule(&mut world, PushTarget::Product, |order| order.local = Some(time));
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..10), [first, first, 0, 0, 0, 0, 0, 0, 0, 0]);
        pass_to(&mut world, FIRST_MS + 24 * HOUR_MS);
        assert_eq!(waiting(&mut world, 0..10), [first, first, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(world.counts(push).matched, 8 + 2 * u64::from(first));
        world.hub.audit();
    }
}

#[test]
fn the_time_to_live_counts_from_the_time_of_the_zone() {
    let mut world = HubHarness::new();
    spread(&mut world);
    let live = |order: &mut PushOrder| order.time_to_live_s = 2 * 3_600;
    let push = schedule(&mut world, PushTarget::Product, live);
    pass_to(&mut world, FIRST_MS + 3 * HOUR_MS);
    world.seat("d0");
    world.seat("d2");
    assert_eq!(world.pushes(), [(push, false)], "that of Tokyo has expired");
    // A zone whose time came during a stop gets the push as long as it lives.
    let later = FIRST_MS + 15 * HOUR_MS;
    world.now = Now::new(Instant::from_nanos(world.now.mono.nanos() + 1), later);
    world.restart();
    rest(&mut world);
    assert_eq!(waiting(&mut world, 4..8), [0, 0, 1, 1]);
    world.hub.audit();
}

#[test]
fn named_devices_get_the_push_by_their_clocks_and_an_unknown_one_is_told() {
    let mut world = HubHarness::new();
    spread(&mut world);
    let target = PushTarget::Devices([0, 6, 8, 77].map(|n| id(&format!("d{n}"))).into());
    let push = schedule(&mut world, target, |_| {});
    pass_to(&mut world, FIRST_MS);
    assert_eq!(waiting(&mut world, 0..10), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    pass_to(&mut world, FIRST_MS + 14 * HOUR_MS);
    assert_eq!(waiting(&mut world, 0..10), [1, 0, 0, 0, 0, 0, 1, 0, 1, 0]);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.rejected, counts.state), (4, 1, PushState::Finished));
    world.hub.audit();
}

#[test]
fn a_push_by_the_devices_clocks_is_cancelled_and_paused_between_zones() {
    for kill in [false, true] {
        let mut world = HubHarness::new();
        spread(&mut world);
        let push = schedule(&mut world, PushTarget::Product, |_| {});
        let pause = |world: &mut HubHarness, paused| {
            let (id, product) = (MessageId(1 << 40 | world.message_id().0), None);
            let reply = world.tell(PushCommand::Pause { id, push, product, paused });
            rest(world);
            assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
            if kill {
                world.restart();
                rest(world);
            }
        };
        pass_to(&mut world, FIRST_MS);
        pause(&mut world, true);
        pass_to(&mut world, FIRST_MS + 4 * HOUR_MS);
        assert_eq!(waiting(&mut world, 0..4), [1, 1, 0, 0]);
        assert_eq!(world.counts(push).state, PushState::Paused);
        pause(&mut world, false);
        assert_eq!(waiting(&mut world, 0..4), [1; 4]);
        let id = MessageId(1 << 40 | world.message_id().0);
        world.tell(PushCommand::Cancel { id, push, product: None });
        pass_to(&mut world, FIRST_MS + 15 * HOUR_MS);
        assert_eq!((waiting(&mut world, 0..10), world.counts(push).cancelled), (vec![0; 10], 4));
        assert_eq!(world.counts(push).state, PushState::Cancelled);
        world.hub.audit();
    }
}

#[test]
fn a_repeated_order_is_the_first_one_and_by_another_time_another_one() {
    let mut world = HubHarness::new();
    spread(&mut world);
    let keyed = |time: LocalTime| {
        move |order: &mut PushOrder| {
            (order.local, order.idempotency_key) = (Some(time), Some("k".into()));
        }
    };
    let first = schedule(&mut world, PushTarget::Product, keyed(noon()));
    for hours in [0, 1, 20] {
        pass_to(&mut world, FIRST_MS + hours * HOUR_MS);
        assert_eq!(schedule(&mut world, PushTarget::Product, keyed(noon())), first);
        let others = [
            LocalTime { passed: Passed::Skip, ..noon() },
            LocalTime { zone: zone("Asia/Tokyo"), ..noon() },
            LocalTime { at: CivilTime::parse("2027-01-16T12:01").expect("a time"), ..noon() },
        ];
        for time in others {
            let (_, reply) = world.push_to(PushTarget::Product, keyed(time));
            assert_eq!(world.answer(reply), Some(PushAnswer::Conflict));
        }
        world.restart();
        rest(&mut world);
    }
    assert_eq!(waiting(&mut world, 0..10), [1; 10]);
    world.hub.audit();
}

#[test]
fn a_device_that_is_new_gets_the_push_if_its_time_is_still_to_come() {
    let mut world = HubHarness::new();
    spread(&mut world);
    schedule(&mut world, PushTarget::Product, |_| {});
    pass_to(&mut world, FIRST_MS + 10 * HOUR_MS);
    // Its first zone is the default one, whose time has passed.
    away(&mut world, 20..23);
    set_zone(&mut world, 20, Some("America/New_York"));
    set_zone(&mut world, 21, Some("Asia/Tokyo"));
    assert_eq!(waiting(&mut world, 20..23), [0, 1, 0]);
    pass_to(&mut world, FIRST_MS + 14 * HOUR_MS);
    assert_eq!(waiting(&mut world, 20..23), [1, 1, 0]);
    world.hub.audit();
}

#[test]
fn wherever_the_kill_comes_each_device_gets_the_push_once() {
    let small = || {
        let limits = limited(|pushes| pushes.fan_out_slice = 3);
        Settings { limits, ..settings() }
    };
    for kept in 0.. {
        let mut world = HubHarness::with(product(), small());
        spread(&mut world);
        let push = schedule(&mut world, PushTarget::Product, |_| {});
        world.pass_ms(18 * HOUR_MS);
        world.log.die_after(Some(kept));
        for _ in 0..17 {
            world.pass_ms(HOUR_MS);
            world.hub.turn(world.now, &mut world.fx);
            world.store();
        }
        let is_all = !world.log.is_dead();
        each_of_ten_has_it_after_a_start(&mut world, push, kept);
        if is_all {
            assert!(kept > 5, "it broke off everywhere: {kept}");
            break;
        }
    }
}

#[test]
fn whoever_moves_between_zones_and_whenever_a_kill_comes_each_gets_the_push_once() {
    let (mut moves, mut kills) = (0, 0);
    for seed in 0..40 {
        let (mut rng, slow) = (Prng::new(seed), limited(|pushes| pushes.fan_out_slice = 2));
        let mut world = HubHarness::with(product(), Settings { limits: slow, ..settings() });
        spread(&mut world);
        let target = match rng.below(3) {
            0 => PushTarget::Product,
            1 => PushTarget::Tag(tag("t")),
            _ => PushTarget::Devices((0..10).map(|n| id(&format!("d{n}"))).collect()),
        };
        let is_tracked = seed % 2 == 0;
        let push = schedule(&mut world, target, |order| {
            (order.time_to_live_s, order.track) = (120 * 3_600, is_tracked);
        });
        world.pass_ms(18 * HOUR_MS);
        world.keeps = false;
        for _ in 0..80 {
            match rng.below(8) {
                0..=2 => {
                    let product = ProductKey::parse("p").expect("a name");
                    let device = id(&format!("d{}", rng.below(10)));
                    let zone = ZONES.get(rng.below(5) as usize).map(|(name, _)| zone(name));
                    world.tell(PushCommand::SetZone { product, device, zone });
                    moves += 1;
                }
                3..=4 => drop(world.complete(Ok(()))),
                5 => {
                    world.hub.turn(world.now, &mut world.fx);
                }
                6 if rng.one_in(8) => {
                    world.restart();
                    kills += 1;
                }
                _ => {
                    let ms = rng.below(HOUR_MS);
                    world.pass_ms(ms);
                }
            }
            world.hub.audit();
        }
        world.keeps = true;
        world.settle();
        for _ in 0..40 {
            world.pass_ms(HOUR_MS);
        }
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..10), [1; 10], "seed {seed}");
        let counts = world.counts(push);
        assert_eq!((counts.running, counts.matched), (false, 10), "seed {seed}: {counts:?}");
        if is_tracked {
            let mut told = lines(&mut world, push, None);
            told.sort();
            let all: Vec<_> = (0..10).map(|n| format!("d{n} stored")).collect();
            assert_eq!(told, all, "seed {seed}");
        }
        world.hub.audit();
    }
    assert!(moves > 500 && kills > 20, "{moves} {kills}");
}

#[test]
fn each_shard_goes_through_the_zones_of_its_devices() {
    for number in 0..4 {
        let mut pair = Pair::with_away();
        let own = MessageId(1_000 + number);
        let at = owner(own);
        let time = LocalTime { zone: zone("Asia/Tokyo"), ..noon() };
        let order = PushOrder {
            local: Some(time),
            time_to_live_s: 48 * 3_600,
            ..order(own, PushTarget::Tag(tag("t")))
        };
        pair.worlds[at].tell(PushCommand::Push(order));
        pair.step();
        if number % 2 == 0 {
            pair.restart();
        }
        pair.rest();
        pair.pass_s(19 * 3_600 + 60);
        let list = PushCommand::Orders { product: None, before: None, count: 10 };
        let PushAnswer::Orders(orders) = pair.worlds[at].command(list) else { panic!("no orders") };
        let counts = [0, 1].map(|at: usize| pair.worlds[at].counts(orders[0].id));
        assert!(counts.iter().all(|counts| counts.state == PushState::Finished), "{counts:?}");
        assert_eq!(counts[0].matched + counts[1].matched, 12, "{number}");
        for world in &mut pair.worlds {
            assert_eq!(world.log.rows(Table::Orders), 1, "counts alone");
            world.hub.audit();
        }
    }
}

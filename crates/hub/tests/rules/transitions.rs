//! Transitions of presence: alternating, with rising versions.

use crate::harness::{HubHarness, Seat, WALL_MS, id, product};
use base::slab::Key;
use model::close::CloseReason;
use model::id::{ConnRef, ProductKey, ShardId};
use model::ports::events::DeviceWhat;
use model::ports::log::StoreError;
use model::ports::pushes::PushCommand;
use model::presence::{OnlineState, PresenceVersion, Principal, Transition};
use model::product::Product;
use model::request::{HeartbeatWish, PushDelivery, PushRequest, Refusal};
use model::service::Service;

fn key() -> ProductKey {
    product().key
}

fn who(name: &str) -> Principal {
    Principal::Device(key(), id(name))
}

/// The hub's state of a device's presence.
fn found(world: &HubHarness, name: &str) -> Option<(OnlineState, PresenceVersion)> {
    let found = world.hub.find(world.now, &Principal::Device(key(), id(name)))?;
    Some((found.state, found.version))
}

/// The transitions that `act` causes.
fn told(world: &mut HubHarness, act: impl FnOnce(&mut HubHarness)) -> Vec<Transition> {
    world.keeps = false;
    act(world);
    let told = world.fx.transitions.clone();
    world.call_roll();
    world.settle();
    world.keeps = true;
    told
}

fn bind_from(world: &mut HubHarness, conn: ConnRef) -> Vec<Transition> {
    let now = world.now;
    told(world, |world| {
        let bind = PushRequest::Bind(Box::new(HubHarness::bind("d")));
        world.hub.request(now, conn, bind, &mut world.fx);
    })
}

#[test]
fn a_device_comes_and_goes_though_nobody_listens() {
    let mut world = HubHarness::new();
    world.fx.events_wanted = false;
    let seat = world.seat("d");
    let online = world.roll.of(&who("d")).expect("it came").clone();
    assert_eq!((online.state, online.version), {
        (OnlineState::Online("miop7"), PresenceVersion(seat.bound.epoch))
    });
    assert_eq!((online.protocol, online.user), ("miop7", None));
    world.pass_ms(5_000);
    world.close(&seat);
    let offline = world.roll.of(&who("d")).expect("it went").clone();
    assert_eq!(offline.state, OnlineState::Offline(CloseReason::PeerClosed));
    assert_eq!((offline.version.unix_ms(), offline.protocol), (world.now.wall_ms, "miop7"));
    assert_eq!((world.roll.count, world.events().len()), (2, 0));
    assert_eq!(found(&world, "stranger"), None);
    world.give("never");
    assert_eq!(found(&world, "never"), None, "it never bound");
    world.hub.audit();
}

#[test]
fn a_take_over_is_an_offline_and_an_online_with_the_events_versions() {
    let mut world = HubHarness::new();
    let old = world.seat("d");
    world.events();
    let conn = world.conn();
    // A take-over from another connection, and one from the same connection.
    for conn in [conn, conn] {
        let mut told = bind_from(&mut world, conn);
        let (online, offline) = (told.pop().expect("two"), told.pop().expect("two"));
        assert_eq!(offline.state, OnlineState::Offline(CloseReason::Replaced));
        assert_eq!(online.state, OnlineState::Online("miop7"));
        assert!(
            PresenceVersion(old.bound.epoch) < offline.version && offline.version < online.version
        );
        let events = world.events();
        assert_eq!([offline.version, online.version], [events[0].version, events[1].version]);
        assert!(matches!(events[0].what, DeviceWhat::Offline { reason: CloseReason::Replaced }));
    }
    world.close(&old);
    assert!(found(&world, "d").is_some_and(|(state, _)| state.is_online()), "a late close");
    world.hub.audit();
}

#[test]
fn what_is_neither_coming_nor_going_has_no_version() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let (term, seq, device, body) = (0, 5, seat.device, Box::default());
    world.ask(seat.conn, PushRequest::Report { term, device, seq, body });
    world.push("stranger", |order| (order.receipts, order.time_to_live_s) = (true, 0));
    let events = world.events();
    let others = events.iter().filter(|event| !matches!(event.what, DeviceWhat::Online { .. }));
    let versions: Vec<_> = others.map(|event| event.version).collect();
    assert_eq!(versions, [PresenceVersion(0), PresenceVersion(0)]);
}

#[test]
fn a_device_that_another_server_has_is_let_go_without_the_last_word() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    world.seat("other");
    world.pass_ms(60_000);
    world.deliveries();
    let theirs = PresenceVersion(((WALL_MS + 10_000 - 1_577_836_800_000) << 22) | 7);
    world.hub.observe(theirs);
    world.hub.outvoted(world.now, &key(), &id("d"), &mut world.fx);
    let deliveries = world.deliveries();
    let [(to, PushDelivery::Kick(kick))] = &deliveries[..] else { panic!("{deliveries:?}") };
    assert_eq!((*to, kick.why), (seat.conn, Refusal::Replaced));
    world.call_roll();
    let (state, version) = found(&world, "d").expect("known");
    assert_eq!(state, OnlineState::Offline(CloseReason::Replaced));
    assert!(PresenceVersion(seat.bound.epoch) < version && version < theirs);
    // A device that is offline, or unknown, is left alone.
    for name in ["d", "stranger"] {
        world.hub.outvoted(world.now, &key(), &id(name), &mut world.fx);
    }
    assert!(world.fx.transitions.is_empty());
    world.hub.audit();
    let again = world.seat("d");
    assert!(PresenceVersion(again.bound.epoch) > theirs);
}

#[test]
fn what_is_given_is_above_what_was_seen_and_nonsense_is_passed_over() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let ahead = PresenceVersion(seat.bound.epoch + (5_000 << 22));
    world.hub.observe(ahead);
    world.hub.observe(PresenceVersion(u64::MAX));
    world.close(&seat);
    let (_, version) = found(&world, "d").expect("known");
    assert!(version > ahead && version < PresenceVersion(ahead.0 + (1_000 << 22)));
    // An observed version above the log's bound: Binds are refused until the bound is raised.
    let far = PresenceVersion(ahead.0 + (600_000 << 22));
    world.hub.observe(far);
    world.keeps = false;
    let conn = world.conn();
    assert!(matches!(world.try_bind(conn, HubHarness::bind("d")), PushDelivery::Refused(_)));
    world.settle();
    world.keeps = true;
    assert!(PresenceVersion(world.seat("d").bound.epoch) > far);
    let state = world.state("d").expect("known");
    assert_eq!((state.since_ms, state.seen_ms), (world.now.wall_ms, world.now.wall_ms));
    world.hub.audit();
}

#[test]
fn versions_rise_though_the_log_does_not_answer_and_over_restarts() {
    let mut world = HubHarness::new();
    for round in 0..30 {
        let seats: Vec<Seat> = ["a", "b", "c"].map(|name| world.seat(name)).into();
        world.keeps = false;
        for _ in 0..8 {
            world.pass_ms(31_000);
            world.complete(Err(StoreError::Busy));
        }
        seats.iter().for_each(|seat| world.close(seat));
        world.hub.audit();
        world.settle();
        world.keeps = true;
        world.pass_ms(100);
        world.now.wall_ms -= 3_600_000;
        if round % 3 == 0 {
            world.seat("online");
            world.restart();
        }
    }
    assert!(world.roll.count > 180, "{}", world.roll.count);
}

#[test]
fn whoever_is_restored_is_below_all_to_come() {
    let mut world = HubHarness::new();
    let seat = world.seat("away");
    world.pass_ms(1_000);
    world.close(&seat);
    let online = world.seat("online");
    (0..3).for_each(|_| world.pass_ms(31_000));
    let before = found(&world, "away").expect("known");
    world.restart();
    let (state, away) = found(&world, "away").expect("known");
    assert_eq!((state, away.unix_ms()), (before.0, before.1.unix_ms()));
    let (state, was_online) = found(&world, "online").expect("known");
    assert_eq!(state, OnlineState::Offline(CloseReason::ServerStopped));
    assert!(was_online > PresenceVersion(online.bound.epoch), "it follows its online");
    assert_eq!(world.fx.transitions, [], "nobody came or went");
    for name in ["away", "online"] {
        let epoch = world.seat(name).bound.epoch;
        assert!(PresenceVersion(epoch) > before.1.max(away).max(was_online));
    }
    world.hub.audit();
}

#[test]
fn whoever_is_online_was_seen_within_its_heartbeat() {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind("d");
    bind.heartbeat = HeartbeatWish { want_s: 60, min_s: 0, max_s: 60 };
    let seat = world.seat_with(bind);
    let since_ms = world.now.wall_ms;
    world.pass_ms(20_000);
    let seen = |world: &mut HubHarness| world.state("d").expect("known").seen_ms;
    assert_eq!(seen(&mut world), since_ms, "it is there for certain since then");
    world.pass_ms(1_000_000);
    let vouched_ms = world.now.wall_ms - seen(&mut world);
    assert!((90_000..100_000).contains(&vouched_ms), "{vouched_ms}");
    world.close(&seat);
    assert_eq!(seen(&mut world), world.now.wall_ms);
    assert_eq!(world.state("d").expect("known").version, found(&world, "d").expect("known").1);
    world.give("never");
    let never = world.state("never").expect("known");
    assert_eq!((never.since_ms, never.seen_ms, never.version), (0, 0, PresenceVersion(0)));
}

#[test]
fn a_product_that_is_dropped_and_made_again_does_not_end_those_who_came_since() {
    let mut world = HubHarness::new();
    let old = world.seat("d");
    world.call_roll();
    world.keeps = false;
    world.tell(PushCommand::DropProduct(key()));
    world.complete(Ok(()));
    world.tell(PushCommand::PutProduct(Box::new(Product { app_id: 8, ..product() })));
    world.complete(Ok(()));
    let conn = ConnRef::new(ShardId(3), Key { slot: 77, generation: 1 });
    world.hub.request(
        world.now,
        conn,
        PushRequest::Bind(Box::new(HubHarness::bind("d"))),
        &mut world.fx,
    );
    world.hub.turn(world.now, &mut world.fx);
    let told = std::mem::take(&mut world.fx.transitions);
    let states: Vec<_> = told.iter().map(|told| told.state.is_online()).collect();
    assert_eq!(states, [true, false]);
    assert!(told[1].version < told[0].version, "the late word is known as late: {told:?}");
    assert_eq!(told[1].version, PresenceVersion(old.bound.epoch));
    world.hub.audit();
}

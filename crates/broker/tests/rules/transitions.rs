//! Transitions by turns, with versions that rise, of clients that were welcomed.

use crate::harness::{BrokerHarness, connect, durable, will};
use model::close::CloseReason;
use model::ports::events::ClientWhat;
use model::ports::log::StoreError;
use model::ports::presence::queries::PresenceStatus;
use model::ports::topics::{ClientState, TopicAnswer, TopicCommand};
use model::presence::{OnlineState, PresenceVersion, Principal};
use model::service::Service;
use model::session::*;

fn find(world: &BrokerHarness, id: &str) -> Option<PresenceStatus> {
    world.nodes[world.home(id)].broker.find(world.now, &Principal::Client(id.into()))
}

fn who(id: &str) -> Principal {
    Principal::Client(id.into())
}

fn client(world: &mut BrokerHarness, id: &str) -> ClientState {
    let home = world.home(id);
    match world.command(home, TopicCommand::Client(id.into())) {
        TopicAnswer::Client(Some(client)) => *client,
        other => panic!("not known: {other:?}"),
    }
}

#[test]
fn a_client_comes_and_goes_though_nobody_listens() {
    let mut world = BrokerHarness::new(2);
    world.nodes.iter_mut().for_each(|node| node.fx.events_wanted = false);
    let a = world.client(connect("a"));
    let online = world.roll.of(&who("a")).expect("it came").clone();
    assert_eq!((online.state, online.protocol), (OnlineState::Online("mqtt5"), "mqtt5"));
    world.pass_ms(1_500);
    world.leave(&a);
    let offline = world.roll.of(&who("a")).expect("it went").clone();
    assert_eq!(offline.state, OnlineState::Offline(CloseReason::Unbound));
    assert_eq!((offline.version.unix_ms(), offline.protocol), (world.now.wall_ms, "mqtt5"));
    assert_eq!((world.roll.count, world.events.len()), (2, 0));
    assert_eq!(find(&world, "a"), None, "its session ended with it");
    world.audit();
}

#[test]
fn a_take_over_is_an_offline_and_an_online_with_the_events_versions() {
    let mut world = BrokerHarness::new(1);
    for make in [connect("a"), durable("a")] {
        world.client(make.clone());
        world.events.clear();
        let count = world.roll.count;
        let again = world.client(make);
        assert_eq!(world.roll.count, count + 2);
        let is_turn = |what: &ClientWhat| {
            matches!(what, ClientWhat::Connected { .. } | ClientWhat::Disconnected { .. })
        };
        let events: Vec<_> = world.events.iter().filter(|event| is_turn(&event.what)).collect();
        let [offline, online] = events[..] else { panic!("{events:?}") };
        let reason = CloseReason::Replaced;
        assert_eq!(offline.what, ClientWhat::Disconnected { reason });
        assert!(PresenceVersion(0) < offline.version && offline.version < online.version);
        assert_eq!(world.roll.of(&who("a")).map(|last| last.version), Some(online.version));
        let rest = world.events.iter().filter(|event| !is_turn(&event.what));
        assert!(rest.into_iter().all(|event| event.version == PresenceVersion(0)));
        world.leave(&again);
    }
    world.audit();
}

#[test]
fn whoever_is_refused_after_it_was_bound_never_was_online() {
    let mut world = BrokerHarness::new(1);
    let known = world.client(durable("known"));
    world.pass_s(1);
    world.cut(&known);
    let before = find(&world, "known");
    world.events.clear();
    let count = world.roll.count;
    world.pass_s(1);
    for id in ["new", "known"] {
        for refused in [true, false] {
            world.keeps = false;
            let own = Some(will("w", "gone", 0));
            let (conn, _) = world.try_connect(ConnectRequest { will: own, ..durable(id) });
            assert_eq!(find(&world, id).map(|it| it.state.is_online()), {
                (id == "known").then_some(false)
            });
            match refused {
                true => world.complete(usize::MAX, |_| Err(StoreError::Full)),
                false => world.ask(conn, SessionRequest::Gone),
            }
            world.keeps = true;
            world.pass_s(5);
            world.audit();
        }
    }
    assert_eq!((world.roll.count, find(&world, "new")), (count, None));
    assert_eq!(find(&world, "known"), before, "its presence is what it was");
    let told = world.events.iter().map(|event| &event.what);
    let turns = told.filter(|what| {
        matches!(what, ClientWhat::Connected { .. } | ClientWhat::Disconnected { .. })
    });
    assert_eq!(turns.count(), 0);
    let state = client(&mut world, "known");
    assert_eq!((state.online, state.reason), (false, Some(CloseReason::PeerReset)));
}

#[test]
fn a_client_that_another_server_has_is_let_go_without_the_last_word() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    let came = find(&world, "a").expect("known").version;
    world.pass_s(60);
    let theirs = PresenceVersion(came.0 + (30_000 << 22));
    let node = &mut world.nodes[0];
    node.broker.observe(theirs);
    node.broker.outvoted(world.now, "a", &mut node.fx);
    world.run();
    let heard = world.heard(a.conn);
    let [SessionDelivery::End(end)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((end.why, end.reason), (Denial::TakenOver, CloseReason::Replaced));
    let found = find(&world, "a").expect("known");
    assert_eq!(found.state, OnlineState::Offline(CloseReason::Replaced));
    assert!(came < found.version && found.version < theirs);
    let count = world.roll.count;
    for id in ["a", "stranger"] {
        let node = &mut world.nodes[0];
        node.broker.outvoted(world.now, id, &mut node.fx);
    }
    world.cut(&a);
    assert_eq!(world.roll.count, count, "there is nobody to let go");
    world.audit();
    world.client(durable("a"));
    assert!(find(&world, "a").is_some_and(|found| found.version > theirs));
}

#[test]
fn versions_rise_though_the_wall_steps_back_and_over_restarts() {
    let mut world = BrokerHarness::new(2);
    for round in 0..40_u64 {
        let [a, b] = [durable("a"), connect("b")].map(|make| world.client(make));
        world.pass_s(11);
        world.cut(&a);
        world.leave(&b);
        world.now.wall_ms -= round % 3 * 5_000;
        if round % 8 == 7 {
            world.client(durable("a"));
            let before = find(&world, "a").expect("online").version;
            world.now.wall_ms += 60_000; // as its clock begins with the wall
            world.crash();
            let found = find(&world, "a").expect("restored");
            assert_eq!(found.state, OnlineState::Offline(CloseReason::ServerStopped));
            assert!(found.version > before);
            let again = world.client(durable("a"));
            assert!(find(&world, "a").is_some_and(|it| it.version > found.version));
            world.cut(&again);
        }
    }
    assert!(world.roll.count > 160);
    world.audit();
}

#[test]
fn whoever_is_online_was_seen_within_its_keep_alive() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(ConnectRequest { keep_alive_s: 60, ..durable("a") });
    world.client(ConnectRequest { keep_alive_s: 0, ..durable("ever") });
    let since_ms = world.now.wall_ms;
    world.pass_s(1_000);
    let vouched_ms = world.now.wall_ms - client(&mut world, "a").seen_ms;
    assert!((90_000..100_000).contains(&vouched_ms), "{vouched_ms}");
    let ever = client(&mut world, "ever");
    assert_eq!((ever.since_ms, ever.seen_ms), (since_ms, since_ms), "nothing vouches for it");
    world.cut(&a);
    let state = client(&mut world, "a");
    assert_eq!((state.seen_ms, state.since_ms), (world.now.wall_ms, world.now.wall_ms));
    assert_eq!(Some(state.version), find(&world, "a").map(|found| found.version));
}

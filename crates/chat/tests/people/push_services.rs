//! External push services: their notifications, independent failures, and the removal of one that
//! fails.

use crate::world::World;
use model::chat::{Notification, NotifiedMessage, PushWish};
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};

/// The first devices of three people.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;

/// Ann and Carol are connected; Bob has registered with two services, and is offline.
fn world(shards: u16) -> World {
    let mut world = World::new(5, shards);
    for at in [ANN, BOB, CAROL] {
        world.connect(at);
        world.rest();
        assert!(world.is_here(at));
    }
    for service in ["one.example", "two.example"] {
        world.registers_at(BOB, service, "n").expect("registered");
    }
    world.leaves(BOB);
    world
}

/// The services that were notified in this time, and the notifications.
fn told(world: &mut World, ms: u64) -> Vec<(String, Notification)> {
    world.passes(ms);
    let of = |order: NotificationOrder| match (order.targets, order.what) {
        (NotificationTargets::Service(at), NotificationWhat::Notification(it)) => {
            assert_eq!(at.options, [("secret".into(), "s".into())], "given back as it was");
            (at.address.to_string(), it)
        }
        other => panic!("{other:?}"),
    };
    let mut all: Vec<_> = world.carrier.told.drain(..).map(of).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// The services among them, with the unread counts.
fn numbers(all: &[(String, Notification)]) -> Vec<(&str, u32)> {
    all.iter().map(|(service, it)| (&**service, it.badge)).collect()
}

fn registered(world: &mut World) -> Vec<String> {
    world.connect(BOB);
    world.rest();
    let all = world.push_status(BOB).registrations;
    world.leaves(BOB);
    all.into_iter().map(|it| it.name.to_string()).collect()
}

#[test]
fn services_are_told_once_that_something_came_and_nothing_of_it() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.says(ANN, 1, "one").expect("sent");
        world.says(CAROL, 1, "two").expect("sent");
        let all = told(&mut world, 3_000);
        assert_eq!(numbers(&all), [("one.example", 2), ("two.example", 2)]);
        for (_, it) in &all {
            let Some(NotifiedMessage { conversation, sender, text, .. }) = &it.said else {
                panic!("{it:?}")
            };
            assert!(conversation.is_none() && sender.is_none() && text.is_none(), "{it:?}");
        }
        assert!(told(&mut world, 60_000).is_empty(), "once");
        world.connect(BOB);
        world.rest();
        world.texts(BOB);
        world.leaves(BOB);
        assert!(told(&mut world, 60_000).is_empty(), "nobody is woken to see that nothing came");
    }
}

#[test]
fn a_service_that_fails_is_tried_again_and_the_other_is_not_told_twice() {
    let mut world = world(1);
    world.carrier.services.insert("one.example".into(), Notified::Failing);
    world.says(ANN, 1, "is anybody there").expect("sent");
    assert_eq!(numbers(&told(&mut world, 60_000)), [("two.example", 1)]);
    assert!(world.carrier.asked["one.example"] > 2, "{:?}", world.carrier.asked);
    assert_eq!(world.carrier.asked["two.example"], 1);
    world.says(ANN, 1, "and now").expect("sent");
    assert_eq!(numbers(&told(&mut world, 60_000)), [("two.example", 2)]);
    world.dies();
    world.rest();
    world.carrier.services.clear();
    let all = told(&mut world, 60_000);
    assert!(numbers(&all).contains(&("one.example", 2)), "a start goes on with it: {all:?}");
    assert!(told(&mut world, 60_000).is_empty());
    assert_eq!(registered(&mut world), ["one.example n", "two.example n"]);
}

#[test]
fn a_service_that_does_not_know_the_device_is_forgotten_at_once() {
    let mut world = world(2);
    let gone = Notified::Taken { gone: vec!["n".into()] };
    world.carrier.services.insert("one.example".into(), gone);
    world.says(ANN, 1, "is anybody there").expect("sent");
    assert_eq!(numbers(&told(&mut world, 60_000)), [("two.example", 1)]);
    assert_eq!(world.carrier.asked["one.example"], 1);
    assert_eq!(registered(&mut world), ["two.example n"]);
    world.dies();
    world.rest();
    assert_eq!(registered(&mut world), ["two.example n"]);
}

#[test]
fn a_service_that_fails_for_as_long_as_is_tried_is_forgotten_one_that_is_away_is_not() {
    let mut world = world(1);
    world.carrier.services.insert("one.example".into(), Notified::Failing);
    let away = Notified::Later { rest_ms: 0 };
    world.carrier.services.insert("two.example".into(), away);
    world.says(ANN, 1, "is anybody there").expect("sent");
    world.passes(30_000);
    assert_eq!(registered(&mut world), ["one.example n", "two.example n"], "it may come back");
    for _ in 0..24 {
        world.pass_ms(3_600_000);
        world.passes(40_000);
    }
    assert_eq!(registered(&mut world), ["two.example n"]);
}

#[test]
fn a_device_takes_back_what_it_enabled_and_nothing_else() {
    let mut world = world(1);
    let disable = |service: Option<&str>, node: Option<&str>| PushWish::Disable {
        service: service.map(Box::from),
        node: node.map(Box::from),
    };
    world.connect(BOB);
    world.rest();
    world.registers(BOB, "token").expect("registered");
    for (wish, left) in [
        (disable(Some("one.example"), Some("other")), 3),
        (disable(Some("elsewhere.example"), None), 3),
        (disable(None, Some("n")), 3),
        (disable(None, None), 2),
        (disable(Some("one.example"), Some("n")), 1),
        (disable(Some("two.example"), None), 0),
    ] {
        world.wishes(BOB, wish.clone()).expect("also what is not there");
        assert_eq!(world.push_status(BOB).registrations.len(), left, "{wish:?}");
    }
}

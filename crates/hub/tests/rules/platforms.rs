//! Pushes that go through a platform's push service while their device is away.

use crate::harness::{HubHarness, id, limited, product, settings};
use base::time::Now;
use model::id::{MessageId, ProductKey};
use model::ports::events::DeviceWhat;
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::ports::pushes::{PushAnswer, PushCommand};
use model::ports::requests::{PortReply, PortRequest};
use model::product::Product;
use model::push::{PlatformRule, PlatformToken, Priority};
use model::request::Bind;
use model::service::Service;
use std::sync::Arc;

const AWAY_MS: u64 = 60_000;

fn harness() -> HubHarness {
    let mut settings = settings();
    settings.platforms = [PlatformRule { name: "web".into(), away_s: 60 }].into();
    HubHarness::with(product(), settings)
}

fn register(world: &mut HubHarness, name: &str, token: &str) {
    let token = PlatformToken { platform: "web".into(), token: token.into() };
    set(world, name, Some(token));
}

fn set(world: &mut HubHarness, name: &str, token: Option<PlatformToken>) {
    let (product, device) = (ProductKey::parse("p").expect("a name"), id(name));
    let answer = world.command(PushCommand::SetPlatform { product, device, token });
    assert_eq!(answer, PushAnswer::Done(true));
}

/// A device with a token that has bound, and is away.
fn away(world: &mut HubHarness, name: &str) {
    let seat = world.seat(name);
    register(world, name, "t1");
    world.close(&seat);
}

/// Orders since the last look: their numbers, tokens and pushes.
fn orders(world: &mut HubHarness) -> Vec<(u64, Box<str>, MessageId)> {
    let requests = std::mem::take(&mut world.fx.port_requests).into_iter();
    let orders = requests.map(|(number, request)| (number, order_of(request)));
    let orders = orders.map(|(number, order)| match (order.targets, order.what) {
        (NotificationTargets::Platform(token, _), NotificationWhat::Push(_, push)) => {
            assert_eq!(*push.body, *b"hello");
            (number, token.token.clone(), push.id)
        }
        other => panic!("not for a platform: {other:?}"),
    });
    orders.collect()
}

fn order_of(request: PortRequest) -> Box<NotificationOrder> {
    let PortRequest::Notify(order) = request else { panic!("no order: {request:?}") };
    order
}

fn ids(world: &mut HubHarness) -> Vec<MessageId> {
    orders(world).into_iter().map(|(_, _, id)| id).collect()
}

fn only(world: &mut HubHarness) -> (u64, Box<str>, MessageId) {
    let mut orders = orders(world);
    assert_eq!(orders.len(), 1, "{orders:?}");
    orders.remove(0)
}

fn say(world: &mut HubHarness, number: u64, what: Notified) {
    world.hub.port_reply(world.now, number, PortReply::Notify(what), &mut world.fx);
    world.store();
}

fn taken() -> Notified {
    Notified::Taken { gone: Vec::new() }
}

fn dead() -> Notified {
    Notified::Taken { gone: vec!["t1".into()] }
}

#[test]
fn a_push_goes_to_the_platform_once_its_device_has_been_away_long_enough() {
    let mut world = harness();
    away(&mut world, "a");
    let first = world.give("a");
    world.pass_ms(AWAY_MS - 1_000);
    assert_eq!(ids(&mut world), []);
    world.pass_ms(2_000);
    let (number, token, id) = only(&mut world);
    assert_eq!((&*token, id), ("t1", first));
    let second = world.give("a");
    assert_eq!(ids(&mut world), [], "one at a time");
    say(&mut world, number, taken());
    let (number, _, id) = only(&mut world);
    assert_eq!(id, second);
    say(&mut world, number, taken());
    world.pass_ms(100 * AWAY_MS / 10);
    assert_eq!(ids(&mut world), [], "each goes once");
    let seat = world.seat("a");
    let got: Vec<_> = world.pushes().into_iter().map(|(id, _)| id).collect();
    assert_eq!(got, [first, second], "the device takes the same ids over its own connection");
    world.ack(&seat, &[first, second]);
    world.close(&seat);
    world.hub.audit();
    assert_eq!(world.hub.status().waiting, 0);
}

#[test]
fn a_device_that_comes_back_in_time_is_not_reached_elsewhere() {
    let mut world = harness();
    away(&mut world, "a");
    let id = world.give("a");
    world.pass_ms(AWAY_MS / 2);
    let seat = world.seat("a");
    world.pass_ms(AWAY_MS);
    assert_eq!(ids(&mut world), []);
    world.close(&seat);
    world.pass_ms(AWAY_MS - 1_000);
    assert_eq!(ids(&mut world), [], "its absence began anew");
    world.pass_ms(2_000);
    assert_eq!(only(&mut world).2, id);
}

#[test]
fn an_order_that_is_put_off_goes_out_again_and_one_that_is_refused_does_not() {
    let mut world = harness();
    away(&mut world, "a");
    world.pass_ms(AWAY_MS);
    let [first, second] = [(); 2].map(|()| world.give("a"));
    let (number, _, id) = only(&mut world);
    assert_eq!(id, first);
    say(&mut world, number, Notified::Later { rest_ms: 5_000 });
    world.pass_ms(4_000);
    assert_eq!(ids(&mut world), []);
    world.pass_ms(4_000);
    let (number, _, id) = only(&mut world);
    assert_eq!(id, first);
    say(&mut world, number, Notified::Failing);
    world.pass_ms(120_000);
    let (number, _, id) = only(&mut world);
    assert_eq!(id, first);
    say(&mut world, number, Notified::Refused);
    assert_eq!(only(&mut world).2, second, "the platform never takes the first one");
    assert_eq!(world.hub.status().waiting, 2, "the device gets both when it connects");
}

#[test]
fn a_dead_token_is_removed_and_told_and_the_push_goes_to_the_next_one() {
    let mut world = harness();
    away(&mut world, "a");
    world.pass_ms(AWAY_MS);
    let id = world.give("a");
    let (number, ..) = only(&mut world);
    world.events();
    say(&mut world, number, dead());
    let told = world.events().into_iter().map(|event| event.what);
    let dead: Vec<_> = told.filter(|what| matches!(what, DeviceWhat::TokenDead { .. })).collect();
    assert_eq!(dead, [DeviceWhat::TokenDead { platform: "web".into() }]);
    assert_eq!(world.state("a").and_then(|state| state.platform), None);
    world.restart();
    world.pass_ms(10 * AWAY_MS);
    assert_eq!(ids(&mut world), []);
    register(&mut world, "a", "t2");
    let (_, token, again) = only(&mut world);
    assert_eq!((&*token, again), ("t2", id));
}

#[test]
fn the_death_of_a_token_does_not_remove_the_one_that_replaced_it() {
    let mut world = harness();
    away(&mut world, "a");
    world.pass_ms(AWAY_MS);
    let id = world.give("a");
    let (number, ..) = only(&mut world);
    register(&mut world, "a", "t2");
    assert_eq!(ids(&mut world), []);
    say(&mut world, number, dead());
    let (number, token, again) = only(&mut world);
    assert_eq!((&*token, again), ("t2", id));
    set(&mut world, "a", None);
    say(&mut world, number, dead());
    assert_eq!(
        (world.state("a").and_then(|state| state.platform), ids(&mut world)),
        (None, vec![])
    );
}

#[test]
fn an_order_is_withdrawn_when_its_push_or_its_address_ends() {
    let ends: [fn(&mut HubHarness, MessageId); 4] = [
        |world, _| set(world, "a", None),
        |world, _| register(world, "a", "t2"),
        |world, _| {
            let (product, device) = (ProductKey::parse("p").expect("a name"), id("a"));
            world.command(PushCommand::Block { product, device, blocked: true });
        },
        |world, id| {
            let seat = world.seat("a");
            world.ack(&seat, &[id]);
        },
    ];
    for end in ends {
        let mut world = harness();
        away(&mut world, "a");
        world.pass_ms(AWAY_MS);
        let push = world.give("a");
        let (_, request) = world.fx.port_requests.pop().expect("an order");
        let NotificationTargets::Platform(_, withdrawal) = order_of(request).targets else {
            panic!("ours")
        };
        assert!(!withdrawal.is_withdrawn());
        end(&mut world, push);
        assert!(withdrawal.is_withdrawn());
    }
}

#[test]
fn what_is_said_of_a_token_holds_for_no_later_one() {
    for answer in [Notified::Refused, Notified::Later { rest_ms: 300_000 }, Notified::Failing] {
        let mut world = harness();
        away(&mut world, "a");
        world.pass_ms(AWAY_MS);
        let push = world.give("a");
        let (number, ..) = only(&mut world);
        register(&mut world, "a", "t2");
        say(&mut world, number, answer);
        let (_, token, id) = only(&mut world);
        assert_eq!((&*token, id), ("t2", push));
    }
}

#[test]
fn no_body_is_read_for_a_platform_that_rests() {
    let mut world = harness();
    ["a", "b", "c"].into_iter().for_each(|name| away(&mut world, name));
    world.pass_ms(AWAY_MS);
    let first = world.give("a");
    let (number, ..) = only(&mut world);
    let read = world.log.read;
    say(&mut world, number, Notified::Resting { rest_ms: 60_000 });
    let others = ["b", "c"].map(|name| world.give(name));
    world.pass_ms(59_000);
    assert_eq!((ids(&mut world), world.log.read), (vec![], read));
    world.pass_ms(40_000);
    let mut all = ids(&mut world);
    all.sort();
    assert_eq!(all, [first, others[0], others[1]]);
}

#[test]
fn a_shorter_wait_is_not_held_up_by_the_timer_of_a_longer_one() {
    let mut world = harness();
    away(&mut world, "a");
    world.pass_ms(AWAY_MS);
    let push = world.give("a");
    let (number, ..) = only(&mut world);
    say(&mut world, number, Notified::Later { rest_ms: 600_000 });
    let seat = world.seat("a");
    register(&mut world, "a", "t2");
    world.close(&seat);
    world.pass_ms(AWAY_MS + 2_000);
    let (_, token, id) = only(&mut world);
    assert_eq!((&*token, id), ("t2", push));
}

#[test]
fn a_device_that_waits_for_a_place_and_leaves_its_platform_is_reached_by_the_next_one() {
    let mut world = harness();
    for n in 0..1_100 {
        away(&mut world, &format!("d{n}"));
    }
    world.pass_ms(AWAY_MS);
    let pushes: Vec<_> = (0..1_100).map(|n| world.give(&format!("d{n}"))).collect();
    assert_eq!(orders(&mut world).len(), 1_024);
    for _ in 0..3 {
        set(&mut world, "d1099", None);
        register(&mut world, "d1099", "t3");
    }
    set(&mut world, "d1098", None);
    let mut last = Vec::new();
    for number in 1.. {
        say(&mut world, number, taken());
        last.extend(ids(&mut world));
        if number > 4_000 || last.len() == 75 {
            break;
        }
    }
    assert_eq!(last.iter().filter(|id| **id == pushes[1_099]).count(), 1, "once");
    assert!(!last.contains(&pushes[1_098]), "it has no platform any more");
    world.hub.audit();
}

#[test]
fn a_device_that_the_server_sends_away_is_not_reached_elsewhere() {
    let mut world = harness();
    away(&mut world, "a");
    world.hub.set_draining(world.now, true);
    let push = world.give("a");
    world.pass_ms(10 * AWAY_MS);
    assert_eq!(ids(&mut world), []);
    world.hub.set_draining(world.now, false);
    world.pass_ms(AWAY_MS - 1_000);
    assert_eq!(ids(&mut world), [], "its absence counts from the end of the drain");
    world.pass_ms(2_000);
    assert_eq!(ids(&mut world), [push]);
}

#[test]
fn a_stop_waits_for_the_answers_to_orders_and_notes_them() {
    let mut world = harness();
    away(&mut world, "a");
    world.pass_ms(AWAY_MS);
    world.give("a");
    let (number, ..) = only(&mut world);
    world.hub.set_draining(world.now, true);
    world.turn();
    assert_eq!(world.hub.unsettled(), 1);
    say(&mut world, number, taken());
    world.turn();
    assert_eq!(world.hub.unsettled(), 0);
    world.restart();
    world.pass_ms(2 * AWAY_MS);
    assert_eq!(ids(&mut world), [], "it is noted");
}

#[test]
fn a_clock_that_is_set_back_stops_no_pushes() {
    let mut world = harness();
    away(&mut world, "a");
    world.pass_ms(AWAY_MS);
    world.now = Now::new(world.now.mono, world.now.wall_ms - 3_600_000);
    let push = world.give("a");
    assert_eq!(ids(&mut world), [push]);
}

#[test]
fn a_kill_between_the_answer_and_the_row_sends_a_push_again_and_loses_none() {
    for is_noted in [true, false] {
        let mut world = harness();
        away(&mut world, "a");
        world.pass_ms(AWAY_MS);
        let first = world.give("a");
        let (number, ..) = only(&mut world);
        world.keeps = is_noted;
        world.hub.port_reply(world.now, number, PortReply::Notify(taken()), &mut world.fx);
        world.store();
        world.restart();
        world.keeps = true;
        let second = world.give("a");
        world.pass_ms(AWAY_MS - 1_000);
        assert_eq!(ids(&mut world), [], "the absence counts from the start");
        world.pass_ms(2_000);
        let (number, _, id) = only(&mut world);
        assert_eq!(id, if is_noted { second } else { first });
        say(&mut world, number, taken());
        let rest = if is_noted { vec![] } else { vec![second] };
        assert_eq!(ids(&mut world), rest);
    }
}

#[test]
fn a_push_for_now_or_never_and_one_that_has_expired_stay_away_from_the_platform() {
    let mut world = harness();
    away(&mut world, "a");
    world.push("a", |order| order.time_to_live_s = 0);
    world.push("a", |order| (order.time_to_live_s, order.wait_ms) = (30, 0));
    world.pass_ms(2 * AWAY_MS);
    assert_eq!(ids(&mut world), []);
}

#[test]
fn blocked_devices_and_unknown_platforms_get_nothing() {
    let mut world = harness();
    away(&mut world, "a");
    world.give("a");
    let (product, device) = (ProductKey::parse("p").expect("a name"), id("a"));
    world.command(PushCommand::Block { product, device, blocked: true });
    world.pass_ms(10 * AWAY_MS);
    assert_eq!(ids(&mut world), []);
    let (product, device) = (ProductKey::parse("p").expect("a name"), id("a"));
    world.command(PushCommand::Block { product, device, blocked: false });
    assert_eq!(ids(&mut world).len(), 1, "it is unblocked");
    let seat = world.seat("b");
    set(&mut world, "b", Some(PlatformToken { platform: "other".into(), token: "t".into() }));
    world.close(&seat);
    world.give("b");
    world.pass_ms(10 * AWAY_MS);
    assert_eq!(ids(&mut world), []);
}

#[test]
fn more_devices_than_places_are_reached_one_after_the_other() {
    let mut world = harness();
    let names: Vec<String> = (0..1_100).map(|number| format!("d{number}")).collect();
    names.iter().for_each(|name| away(&mut world, name));
    world.pass_ms(AWAY_MS);
    names.iter().for_each(|name| {
        world.give(name);
    });
    let mut reached = 0;
    loop {
        let open = orders(&mut world);
        assert!(open.len() <= 1_024);
        if open.is_empty() {
            break;
        }
        reached += open.len();
        open.into_iter().for_each(|(number, ..)| say(&mut world, number, taken()));
        world.turn();
    }
    assert_eq!(reached, names.len());
    world.hub.audit();
}

/// Hub with two platforms, "a" and "b".
fn two_platforms() -> HubHarness {
    let mut settings = settings();
    let rule = |name: &str| PlatformRule { name: name.into(), away_s: 60 };
    settings.platforms = [rule("a"), rule("b")].into();
    HubHarness::with(product(), settings)
}

/// A device of a product that is away, with a token of a platform that is the device's name.
fn away_at(world: &mut HubHarness, product: &str, name: &str, platform: &str) {
    let product = ProductKey::parse(product).expect("a name");
    let seat = world.seat_with(Bind { product: product.clone(), ..HubHarness::bind(name) });
    let token = PlatformToken { platform: platform.into(), token: name.into() };
    let (device, token) = (id(name), Some(token));
    let answer = world.command(PushCommand::SetPlatform { product, device, token });
    assert_eq!(answer, PushAnswer::Done(true));
    world.close(&seat);
}

fn tokens(world: &mut HubHarness) -> Vec<(u64, Box<str>)> {
    orders(world).into_iter().map(|(number, token, _)| (number, token)).collect()
}

#[test]
fn a_platform_that_does_not_answer_leaves_the_places_of_the_others() {
    let mut world = two_platforms();
    let names: Vec<String> = (0..1_100).map(|number| format!("d{number}")).collect();
    names.iter().for_each(|name| away_at(&mut world, "p", name, "a"));
    away_at(&mut world, "p", "other", "b");
    world.pass_ms(AWAY_MS);
    names.iter().for_each(|name| {
        world.give(name);
    });
    assert_eq!(tokens(&mut world).len(), 512);
    world.give("other");
    let other = tokens(&mut world);
    assert_eq!(other.len(), 1);
    assert_eq!(&*other[0].1, "other");
    world.hub.audit();
}

#[test]
fn products_take_turns_at_the_places_of_a_platform_and_urgent_pushes_go_first() {
    let mut world = two_platforms();
    let other = Product { key: ProductKey::parse("q").expect("a name"), ..product() };
    assert!(world.hub.install(Arc::new(other)));
    let names: Vec<String> = (0..600).map(|number| format!("d{number}")).collect();
    names.iter().for_each(|name| away_at(&mut world, "p", name, "a"));
    away_at(&mut world, "q", "other", "a");
    world.pass_ms(AWAY_MS);
    for _ in 0..2 {
        names.iter().for_each(|name| {
            world.give(name);
        });
    }
    let mut open = tokens(&mut world);
    assert_eq!(open.len(), 512);
    world.push("other", |order| {
        order.product = ProductKey::parse("q").expect("a name");
        order.wait_ms = 0;
    });
    world.push("d599", |order| (order.priority, order.wait_ms) = (Priority::High, 0));
    assert_eq!(tokens(&mut world), []);
    let mut next = Vec::new();
    for (number, _) in open.drain(..3) {
        say(&mut world, number, taken());
        next.extend(tokens(&mut world).into_iter().map(|(_, token)| token));
    }
    next[..2].sort();
    let next: Vec<&str> = next.iter().map(|it| &**it).collect();
    assert_eq!(next, ["d599", "other", "d512"], "a place that is free is not its device's again");
    world.hub.audit();
}

#[test]
fn a_device_with_a_token_is_not_forgotten() {
    let mut settings = settings();
    settings.limits = limited(|limits| limits.forget_after_s = 60);
    let mut world = HubHarness::with(product(), settings);
    away(&mut world, "a");
    let seat = world.seat("b");
    world.close(&seat);
    for _ in 0..10 {
        world.pass_ms(30_000);
    }
    assert!(world.state("a").is_some() && world.state("b").is_none());
    set(&mut world, "a", None);
    for _ in 0..10 {
        world.pass_ms(30_000);
    }
    assert!(world.state("a").is_none());
}

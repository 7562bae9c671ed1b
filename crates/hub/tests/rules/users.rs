//! Users of devices: pushes to their devices, and devices that change hands.

use crate::harness::{HubHarness, id, limited, product, settings, tag};
use crate::many::{rest, waiting};
use hub::Settings;
use model::audience::{Audience, TagExpression};
use model::id::{DeviceUser, MessageId, ProductKey};
use model::ports::log::StoreError;
use model::ports::pushes::{PushAnswer, PushCommand, PushOrder, PushTarget};
use model::push::{Outcome, Rejection};
use model::request::{Proof, PushDelivery};
use model::timeline::Space;
use std::num::NonZeroU32;
use std::sync::Arc;

fn key() -> ProductKey {
    ProductKey::parse("p").expect("a name")
}

fn user(name: &str) -> Option<DeviceUser> {
    if name.is_empty() { None } else { Some(DeviceUser::parse(name).expect("a name")) }
}

/// Gives a device to a user; returns the number of the command.
fn give(world: &mut HubHarness, device: &str, to: &str) -> u64 {
    let (product, device) = (key(), id(device));
    world.tell(PushCommand::SetUser { product, device, user: user(to) })
}

fn given(world: &mut HubHarness, device: &str, to: &str) {
    let reply = give(world, device, to);
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)), "{device} {to}");
}

fn of(world: &mut HubHarness, name: &str) -> Vec<String> {
    let user = user(name).expect("a name");
    match world.command(PushCommand::UserDevices { product: key(), user }) {
        PushAnswer::Devices(states) => {
            states.iter().map(|state| state.device.as_str().to_owned()).collect()
        }
        other => panic!("no devices: {other:?}"),
    }
}

/// Pushes to a device, if it belongs to a user.
fn push(world: &mut HubHarness, device: &str, to: &str) -> Option<Outcome> {
    let (_, reply) = world.push(device, |order| (order.user, order.wait_ms) = (user(to), 0));
    world.outcome(reply)
}

fn to_user(name: &str, tags: Option<TagExpression>) -> PushTarget {
    let user = user(name);
    PushTarget::Audience(Arc::new(Audience { user, tags, ..Audience::default() }))
}

const CHANGED: Outcome = Outcome::Rejected(Rejection::UserChanged);

#[test]
fn a_device_belongs_to_its_last_user_and_keeps_its_tags() {
    let mut world = HubHarness::new();
    let tags = vec![tag("ios")];
    world.tell(PushCommand::SetTags { product: key(), device: id("d0"), tags: tags.clone() });
    for device in ["d0", "d1", "d2"] {
        given(&mut world, device, "ann@example.org");
    }
    given(&mut world, "d2", "bob");
    given(&mut world, "d1", "");
    for _ in 0..2 {
        assert_eq!(of(&mut world, "ann@example.org"), ["d0"]);
        assert_eq!(of(&mut world, "bob"), ["d2"]);
        let state = world.state("d0").expect("it is known");
        assert_eq!((state.tags, state.user), (tags.clone(), user("ann@example.org")));
        assert_eq!(world.state("d1").map(|state| state.user), Some(None));
        world.hub.audit();
        world.restart();
    }
    world.tell(PushCommand::SetTags { product: key(), device: id("d0"), tags: Vec::new() });
    assert_eq!(of(&mut world, "ann@example.org"), ["d0"]);
    let product = ProductKey::parse("q").expect("a name");
    let unknown = PushCommand::UserDevices { product, user: user("bob").expect("a name") };
    assert_eq!(world.command(unknown), PushAnswer::UnknownProduct);
    world.tell(PushCommand::DropProduct(key()));
    rest(&mut world);
    world.hub.audit();
}

#[test]
fn a_push_to_a_user_is_refused_by_devices_of_others() {
    let mut world = HubHarness::new();
    given(&mut world, "d0", "ann");
    world.seat("d1");
    for (device, to, outcome) in
        [("d0", "ann", Outcome::Stored), ("d0", "bob", CHANGED), ("d1", "ann", CHANGED)]
    {
        world.seat(device);
        assert_eq!(push(&mut world, device, to), Some(outcome), "{device} {to}");
    }
    // Nor is it published where the device's new user may read it.
    world.change(|_, product| product.topic = Some("push/%d".into()));
    world.restart();
    let told =
        [("d0", "ann"), ("d0", "bob"), ("d1", "ann"), ("unknown", "ann")].map(|(device, to)| {
            push(&mut world, device, to);
            world.mirrors().len()
        });
    assert_eq!(told, [1, 0, 0, 0]);
    // The change is at the log: the device is no longer the old user's.
    world.keeps = false;
    let reply = give(&mut world, "d0", "bob");
    let (_, answer) = world.push("d0", |order| (order.user, order.wait_ms) = (user("ann"), 0));
    assert_eq!((world.outcome(answer), world.answer(reply)), (Some(CHANGED), None));
    world.settle();
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    world.hub.audit();
}

#[test]
fn a_device_that_changes_hands_leaves_the_pushes_of_its_old_user_wherever_the_kill_comes() {
    for to in ["bob", ""] {
        for kept in 0.. {
            let mut world = HubHarness::new();
            for device in ["d0", "d1"] {
                let seat = world.seat(device);
                world.close(&seat);
                given(&mut world, device, "ann");
            }
            let olds = [0, 1].map(|_| push(&mut world, "d0", "ann"));
            assert_eq!(olds, [Some(Outcome::Stored); 2]);
            let (many, _) = world.push_to(to_user("ann", None), |_| {});
            rest(&mut world);
            assert_eq!(waiting(&mut world, 0..2), [3, 1]);
            world.log.die_after(Some(kept));
            let reply = give(&mut world, "d0", to);
            let answer = world.answer(reply);
            if answer.is_some() {
                assert_eq!(waiting(&mut world, 0..2), [0, 1], "at once");
            }
            world.give("d0");
            rest(&mut world);
            let is_all = !world.log.is_dead();
            world.log.die_after(None);
            world.restart();
            rest(&mut world);
            let is_given = world.state("d0").expect("known").user == user(to);
            assert!(is_given || answer.is_none(), "{kept}: it was answered");
            let left = waiting(&mut world, 0..1)[0];
            match is_given {
                true => assert!(left <= 1, "{kept}: {left}"),
                false => assert!((3..=4).contains(&left), "{kept}: {left}"),
            }
            if is_all {
                let counts = world.counts(many);
                assert_eq!((counts.matched, counts.rejected, counts.stored), (2, 1, 1));
                assert_eq!((left, world.log.kept(Space::Pushes).len()), (1, 2));
            }
            world.hub.audit();
            if is_all {
                assert!(kept > 2, "it broke off everywhere");
                break;
            }
        }
    }
}

#[test]
fn a_push_whose_removal_waits_to_be_tried_again_does_not_come_to_the_next_user() {
    let mut world = HubHarness::new();
    given(&mut world, "d0", "ann");
    assert_eq!(push(&mut world, "d0", "ann"), Some(Outcome::Stored));
    let seat = world.seat("d0");
    let delivered: Vec<_> = world.pushes().into_iter().map(|(id, _)| id).collect();
    world.keeps = false;
    world.ack(&seat, &delivered);
    world.turn();
    assert_eq!((delivered.len(), world.fx.calls.is_empty()), (1, false), "it is to be removed");
    world.complete(Err(StoreError::Full));
    world.keeps = true;
    world.close(&seat);
    given(&mut world, "d0", "bob");
    assert_eq!(world.log.kept(Space::Pushes).len(), 1);
    world.restart();
    assert_eq!(waiting(&mut world, 0..1), [0]);
    world.hub.audit();
}

#[test]
fn a_device_leaves_its_user_also_while_the_change_waits_behind_another() {
    for is_many in [false, true] {
        let mut world = HubHarness::new();
        for device in ["d0", "d1"] {
            let seat = world.seat(device);
            world.close(&seat);
            given(&mut world, device, "ann");
        }
        world.keeps = false;
        let (product, device, tags) = (key(), id("d0"), vec![tag("ios")]);
        world.tell(PushCommand::SetTags { product, device, tags });
        let reply = give(&mut world, "d0", "bob");
        match is_many {
            false => {
                let order = |order: &mut PushOrder| (order.user, order.wait_ms) = (user("ann"), 0);
                let (_, answer) = world.push("d0", order);
                assert_eq!(world.outcome(answer), Some(CHANGED));
                // For whoever has the device: it was queued for the old user.
                world.give("d0");
            }
            true => drop(world.push_to(to_user("ann", None), |_| {})),
        }
        world.turn();
        assert_eq!(world.answer(reply), None);
        world.keeps = true;
        world.store();
        rest(&mut world);
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
        assert_eq!(waiting(&mut world, 0..2), [0, u32::from(is_many)]);
        world.restart();
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..2), [0, u32::from(is_many)]);
        world.hub.audit();
    }
}

#[test]
fn a_push_that_comes_to_a_device_after_it_changed_hands_survives_a_kill() {
    let mut world = HubHarness::new();
    for device in ["d0", "d1"] {
        let seat = world.seat(device);
        world.close(&seat);
        given(&mut world, device, "ann");
    }
    // The scan comes to the second device after a second.
    let slowly = |order: &mut PushOrder| order.devices_per_s = NonZeroU32::new(1);
    let (many, _) = world.push_to(PushTarget::Product, slowly);
    world.turn();
    given(&mut world, "d1", "bob");
    world.give("d0");
    for ms in [2_000, 0, 0] {
        world.pass_ms(ms);
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..2), [2, 1]);
        world.restart();
    }
    let counts = world.counts(many);
    assert_eq!((counts.matched, counts.stored, counts.rejected), (2, 2, 0));
    world.hub.audit();
}

#[test]
fn an_open_order_goes_by_whose_a_device_is_when_the_scan_comes_to_it() {
    for kill in [false, true] {
        let mut world = HubHarness::new();
        for (n, name) in ["ann", "ann", "ann", "bob", "bob"].into_iter().enumerate() {
            let device = format!("d{n}");
            let seat = world.seat(&device);
            world.close(&seat);
            given(&mut world, &device, name);
        }
        let slowly = |order: &mut PushOrder| order.devices_per_s = NonZeroU32::new(1);
        let (push, _) = world.push_to(to_user("ann", None), slowly);
        world.turn();
        assert_eq!(waiting(&mut world, 0..5), [1, 0, 0, 0, 0]);
        // The first device goes and comes back, the second goes, the fourth comes.
        for (device, to) in [("d0", "bob"), ("d0", "ann"), ("d1", "bob"), ("d3", "ann")] {
            given(&mut world, device, to);
        }
        if kill {
            world.restart();
        }
        (0..4).for_each(|_| world.pass_ms(1_000));
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..5), [0, 0, 1, 1, 0], "{kill}");
        let counts = world.counts(push);
        assert_eq!((counts.matched, counts.stored, counts.rejected), (3, 2, 1), "{kill}");
        world.hub.audit();
    }
}

#[test]
fn a_bind_for_a_user_takes_the_old_ones_pushes_while_the_same_change_is_at_the_log() {
    let mut world = HubHarness::new();
    let until = world.now.wall_ms / 1_000 + 3_600;
    let (product, device) = (key(), id("d0"));
    let token =
        match world.command(PushCommand::Token { product, device, user: user("bob"), until }) {
            PushAnswer::Token(Some(token)) => token,
            other => panic!("no token: {other:?}"),
        };
    let seat = world.seat("d0");
    world.close(&seat);
    given(&mut world, "d0", "ann");
    assert_eq!(push(&mut world, "d0", "ann"), Some(Outcome::Stored));
    world.pushes();
    world.keeps = false;
    let reply = give(&mut world, "d0", "bob");
    let mut bind = HubHarness::bind("d0");
    bind.proof = Proof::Token(token.as_bytes().into());
    let seat = world.seat_with(bind);
    assert_eq!((seat.bound.offline_count, world.pushes()), (0, vec![]));
    world.close(&seat);
    world.keeps = true;
    rest(&mut world);
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    assert_eq!(of(&mut world, "bob"), ["d0"]);
    world.hub.audit();
}

#[test]
fn a_bind_counts_the_devices_that_changes_at_the_log_give_to_its_user() {
    for given in ["d0", "d1"] {
        let limits = limited(|pushes| pushes.devices_a_user_max = 1);
        let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
        let until = world.now.wall_ms / 1_000 + 3_600;
        let (product, device, user) = (key(), id("d0"), user("ann"));
        let token = world.command(PushCommand::Token { product, device, user, until });
        let PushAnswer::Token(Some(token)) = token else { panic!("no token: {token:?}") };
        world.keeps = false;
        let reply = give(&mut world, given, "ann");
        let mut bind = HubHarness::bind("d0");
        bind.proof = Proof::Token(token.as_bytes().into());
        world.seat_with(bind);
        world.keeps = true;
        rest(&mut world);
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
        assert_eq!(of(&mut world, "ann"), [given]);
        world.hub.audit();
    }
}

#[test]
fn a_bind_with_the_token_of_a_user_gives_the_device_before_anything_is_sent_to_it() {
    let mut world = HubHarness::new();
    let until = world.now.wall_ms / 1_000 + 3_600;
    let token = |world: &mut HubHarness, name: &str| {
        let (product, device, user) = (key(), id("d0"), user(name));
        match world.command(PushCommand::Token { product, device, user, until }) {
            PushAnswer::Token(Some(token)) => token,
            other => panic!("no token: {other:?}"),
        }
    };
    let bind = |token: &str| {
        let mut bind = HubHarness::bind("d0");
        bind.proof = Proof::Token(token.as_bytes().into());
        bind
    };
    let [ann, bob, nobody] = ["ann@example.org", "bob", ""].map(|name| token(&mut world, name));
    let seat = world.seat_with(bind(&ann));
    world.close(&seat);
    assert_eq!(push(&mut world, "d0", "ann@example.org"), Some(Outcome::Stored));
    // A token without a user changes nothing.
    let seat = world.seat_with(bind(&nobody));
    assert_eq!(seat.bound.offline_count, 1);
    world.close(&seat);
    world.pushes();
    for kill in [false, true] {
        let seat = world.seat_with(bind(&bob));
        assert_eq!((seat.bound.offline_count, world.pushes()), (0, vec![]), "{kill}");
        assert_eq!((of(&mut world, "bob").len(), of(&mut world, "ann@example.org").len()), (1, 0));
        world.close(&seat);
        world.restart();
        rest(&mut world);
    }
    // A token is for its user alone.
    let hex = |name: &str| name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    for forged in [bob.replace(&hex("bob"), &hex("ann")), format!("{nobody}.{}", hex("ann"))] {
        let conn = world.conn();
        let answer = world.try_bind(conn, bind(&forged));
        assert!(matches!(answer, PushDelivery::Refused(_)), "{answer:?}");
    }
    assert_eq!(of(&mut world, "bob"), ["d0"]);
    world.hub.audit();
}

#[test]
fn a_device_without_a_user_and_one_that_stays_keep_their_pushes() {
    let mut world = HubHarness::new();
    let seat = world.seat("d0");
    world.close(&seat);
    world.give("d0");
    given(&mut world, "d0", "ann");
    given(&mut world, "d0", "ann");
    assert_eq!(waiting(&mut world, 0..1), [1]);
    // A push that is on its way to an online device is not the next user's either.
    let seat = world.seat("d1");
    given(&mut world, "d1", "ann");
    let (sent, reply) =
        world.push("d1", |order| (order.user, order.wait_ms) = (user("ann"), 9_000));
    world.turn();
    given(&mut world, "d1", "bob");
    assert_eq!(world.outcome(reply), Some(CHANGED));
    world.ack(&seat, &[sent]);
    assert_eq!(waiting(&mut world, 1..2), [0]);
    world.hub.audit();
}

#[test]
fn a_scheduled_push_goes_to_the_devices_of_the_user_at_its_time() {
    let mut world = HubHarness::new();
    for (n, name) in ["ann", "ann", "bob", "ann"].into_iter().enumerate() {
        let device = format!("d{n}");
        let seat = world.seat(&device);
        world.close(&seat);
        given(&mut world, &device, name);
    }
    let tags = |world: &mut HubHarness, device: &str| {
        let (device, tags) = (id(device), vec![tag("ios")]);
        world.tell(PushCommand::SetTags { product: key(), device, tags });
    };
    ["d1", "d2", "d3"].into_iter().for_each(|device| tags(&mut world, device));
    let at_ms = world.now.wall_ms + 60_000;
    let later = |order: &mut PushOrder| order.send_at_ms = Some(at_ms);
    let ios = TagExpression::Tag(tag("ios"));
    let (_, reply) = world.push_to(to_user("ann", Some(ios)), later);
    let Some(PushAnswer::Pushed { id: push, .. }) = world.answer(reply) else { panic!() };
    given(&mut world, "d2", "ann");
    given(&mut world, "d3", "bob");
    world.restart();
    world.pass_ms(60_000);
    rest(&mut world);
    assert_eq!((waiting(&mut world, 0..4), world.counts(push).matched), (vec![0, 1, 1, 0], 2));
    world.hub.audit();
}

#[test]
fn a_user_has_so_many_devices_and_a_refused_change_changes_nothing() {
    let limits = limited(|pushes| pushes.devices_a_user_max = 2);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    given(&mut world, "d0", "ann");
    world.keeps = false;
    let first = give(&mut world, "d1", "ann");
    let reply = give(&mut world, "d2", "ann");
    world.settle();
    world.keeps = true;
    assert_eq!(world.answer(first), Some(PushAnswer::Done(true)));
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(false)));
    given(&mut world, "d1", "ann");
    world.keeps = false;
    let reply = give(&mut world, "d0", "bob");
    world.complete(Err(StoreError::Full));
    assert_eq!(world.answer(reply), Some(PushAnswer::StoreFailed));
    world.keeps = true;
    rest(&mut world);
    assert_eq!(of(&mut world, "ann"), ["d0", "d1"]);
    let (push, _) = world.push("d0", |order| (order.user, order.wait_ms) = (user("ann"), 0));
    assert!(push > MessageId(0));
    world.hub.audit();
}

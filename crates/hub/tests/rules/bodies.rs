//! Bodies of stored pushes are in the log, and are fetched when they can be sent.

use crate::harness::{HubHarness, Seat, product, settings};
use model::counters::{ProcessCounter, PushCounter};
use model::id::MessageId;
use model::ports::log::{Call, Pull, Read, StoreError};
use model::ports::pushes::PushOrder;
use model::product::Product;
use model::push::{Outcome, Priority};
use model::request::{Bind, PushDelivery, PushRequest};
use model::service::Service;
use model::timeline::Space;

/// A hub with a device that was bound, went offline, and has queued pushes.
fn away(count: usize) -> (HubHarness, Vec<MessageId>) {
    let mut world = HubHarness::with(Product { inflight_max: 200, ..product() }, settings());
    let seat = world.seat("d");
    world.close(&seat);
    let given = (0..count).map(|_| world.give("d")).collect();
    world.deliveries();
    (world, given)
}

fn pulls(world: &HubHarness) -> Vec<Pull> {
    let calls = world.fx.calls.iter();
    let pulls = calls.filter_map(|(_, call)| match call {
        Call::Read(Read::Pull(pull)) => Some(*pull),
        _ => None,
    });
    pulls.collect()
}

fn ids(world: &mut HubHarness) -> Vec<MessageId> {
    world.pushes().into_iter().map(|(id, _)| id).collect()
}

fn windowed(window: u16) -> Bind {
    Bind { inflight_max: window, ..HubHarness::bind("d") }
}

#[test]
fn a_body_is_fetched_when_its_device_binds() {
    let (mut world, given) = away(3);
    assert_eq!(world.log.read, 0);
    world.keeps = false;
    let seat = world.seat("d");
    assert_eq!((seat.bound.offline_count, ids(&mut world)), (3, vec![]));
    let [pull] = pulls(&world)[..] else { panic!("one pull") };
    assert_eq!((pull.from, pull.backwards, pull.count_max), (0, false, 3));
    world.hub.audit();
    world.complete(Ok(()));
    let deliveries = world.deliveries();
    let bodies: Vec<_> = deliveries
        .iter()
        .filter_map(|(_, delivery)| match delivery {
            PushDelivery::Push { push, again: false, .. } => {
                Some((push.id, &*push.body, push.app_id))
            }
            _ => None,
        })
        .collect();
    let expected: Vec<_> = given.iter().map(|&id| (id, &b"hello"[..], 7)).collect();
    assert_eq!(bodies, expected);
    world.ack(&seat, &given);
    world.complete(Ok(()));
    assert_eq!((world.count(PushCounter::Delivered), world.hub.status().waiting), (3, 0));
    assert_eq!(world.log.kept(Space::Pushes), []);
    world.hub.audit();
}

#[test]
fn everything_a_push_carries_comes_back() {
    let (mut world, _) = away(0);
    let (id, _) = world.push("d", |order| {
        (order.priority, order.silent) = (Priority::High, true);
        order.collapse = Some("score".into());
    });
    let expire_at = world.now.unix_s() + 3_600;
    world.seat("d");
    let push = world.deliveries().into_iter().find_map(|(_, delivery)| match delivery {
        PushDelivery::Push { push, .. } => Some(push),
        _ => None,
    });
    let push = push.expect("sent");
    assert_eq!((push.id, push.priority, push.silent), (id, Priority::High, true));
    assert_eq!((push.collapse.as_deref(), push.expire_at), (Some("score"), expire_at));
    assert_eq!(push.product, product().key);
}

#[test]
fn pages_are_bounded_by_count_and_bytes_and_one_is_on_its_way_at_a_time() {
    let (mut world, given) = away(100);
    world.keeps = false;
    world.seat("d");
    let mut pages = Vec::new();
    while let [pull] = pulls(&world)[..] {
        assert!(pull.count_max <= 64 && pull.bytes_max == 256 * 1024);
        world.pass_ms(100);
        assert_eq!(pulls(&world).len(), 1, "one at a time");
        world.complete(Ok(()));
        pages.push(ids(&mut world).len());
    }
    assert_eq!((pages, world.log.read), (vec![64, 36], 100));
    assert_eq!(world.state("d").expect("known").inflight, given.len() as u32);
}

#[test]
fn nothing_is_fetched_without_room_in_the_window() {
    let (mut world, given) = away(70);
    let seat = world.seat_with(windowed(2));
    assert_eq!((ids(&mut world), world.log.read), (given[..2].to_vec(), 64));
    for pair in given.chunks(2) {
        world.ack(&seat, pair);
    }
    assert_eq!((world.log.read, world.hub.status().waiting), (70, 0));
}

#[test]
fn nothing_overtakes_what_is_on_its_way_from_the_log() {
    let (mut world, mut given) = away(2);
    world.keeps = false;
    world.seat("d");
    let (live, waits) = world.push("d", |_| {});
    assert_eq!(ids(&mut world), []);
    let (high, _) = world.push("d", |order| order.priority = Priority::High);
    assert_eq!(ids(&mut world), [high], "what is urgent goes first, as ever");
    world.complete(Ok(()));
    given.push(live);
    assert_eq!(ids(&mut world), given);
    assert_eq!(world.outcome(waits), None);
    world.hub.audit();
}

#[test]
fn what_is_over_meanwhile_is_not_sent() {
    let (mut world, given) = away(2);
    let key = |order: &mut PushOrder| order.collapse = Some("k".into());
    let (old, _) = world.push("d", key);
    world.push("d", |order| order.time_to_live_s = 5);
    world.keeps = false;
    world.seat("d");
    let (new, _) = world.push("d", key);
    world.now.wall_ms += 6_000;
    // The log stores the new push before it answers the fetch of the bodies.
    for (ticket, call) in std::mem::take(&mut world.fx.calls).into_iter().rev() {
        let done = world.log.answer(&call);
        world.hub.complete(world.now, (ticket, done), &mut world.fx);
    }
    world.complete(Ok(()));
    let expected: Vec<_> = given.into_iter().chain([new]).collect();
    assert_eq!(ids(&mut world), expected);
    assert!(!expected.contains(&old));
    world.hub.audit();
}

#[test]
fn a_device_that_goes_and_comes_back_while_it_fetches_gets_everything_once() {
    let (mut world, given) = away(3);
    world.keeps = false;
    let first = world.seat("d");
    world.close(&first);
    world.seat("d");
    assert_eq!(pulls(&world).len(), 1, "the one that is on its way serves both");
    world.complete(Ok(()));
    assert_eq!(ids(&mut world), given);
    let second = world.seat("d");
    world.close(&second);
    world.settle();
    world.hub.audit();
    assert_eq!(ids(&mut world), given, "sent again by the take-over");
}

#[test]
fn a_page_for_a_device_that_is_gone_is_dropped() {
    let (mut world, given) = away(3);
    world.keeps = false;
    let seat = world.seat("d");
    world.close(&seat);
    world.complete(Ok(()));
    assert_eq!(ids(&mut world), []);
    world.hub.audit();
    world.seat("d");
    world.complete(Ok(()));
    assert_eq!(ids(&mut world), given);
}

#[test]
fn a_body_that_cannot_be_read_is_passed_over_until_the_next_session() {
    let (mut world, given) = away(5);
    world.log.damaged.insert(given[2].0);
    let seat = world.seat("d");
    let others = [given[0], given[1], given[3], given[4]];
    assert_eq!(ids(&mut world), others);
    assert!(world.count(ProcessCounter::PullsFailed) > 0);
    world.ack(&seat, &others);
    assert_eq!(world.hub.status().waiting, 1, "it is not dropped");
    let live = world.give("d");
    assert_eq!(ids(&mut world), [live]);
    world.hub.audit();
    world.close(&seat);
    world.log.damaged.clear();
    world.seat("d");
    assert_eq!(ids(&mut world), [live, given[2]]);
    world.hub.audit();
}

#[test]
fn a_log_that_cannot_be_read_now_is_asked_again() {
    for error in [StoreError::Busy, StoreError::Failed] {
        let (mut world, given) = away(3);
        world.keeps = false;
        world.seat("d");
        let (_, reply) = world.push("d", |order| order.time_to_live_s = 0);
        assert_eq!(world.outcome(reply), None, "its turn would come");
        world.complete(Err(error));
        assert_eq!(world.outcome(reply), Some(Outcome::Expired), "it cannot wait");
        assert_eq!((ids(&mut world), pulls(&world).len()), (vec![], 0));
        assert_eq!(world.count(ProcessCounter::PullsFailed), 1);
        world.pass_ms(1_100);
        assert_eq!(pulls(&world).len(), 1);
        world.complete(Ok(()));
        assert_eq!(ids(&mut world), given);
        world.hub.audit();
    }
}

#[test]
fn what_the_log_has_no_more_is_over() {
    let (mut world, given) = away(3);
    let timeline = hub::timeline_of(settings().home, "p", "d");
    world.log.drop_message(timeline, 1);
    world.seat("d");
    assert_eq!(ids(&mut world), given[1..]);
    assert_eq!(world.count(PushCounter::Expired), 1);
    world.hub.audit();
}

fn pull(seat: &Seat, after: u64, count: u16) -> PushRequest {
    PushRequest::Pull { term: 0, device: seat.device, after: MessageId(after), count }
}

fn remaining(world: &mut HubHarness) -> (Vec<MessageId>, Vec<u32>) {
    let (mut ids, mut answers) = (Vec::new(), Vec::new());
    for (_, delivery) in world.deliveries() {
        match delivery {
            PushDelivery::Push { push, .. } => {
                assert!(answers.is_empty(), "the answer comes last");
                ids.push(push.id);
            }
            PushDelivery::Pulled { remaining, .. } => answers.push(remaining),
            _ => {}
        }
    }
    (ids, answers)
}

#[test]
fn a_pull_is_answered_after_what_it_asked_for() {
    let (mut world, given) = away(6);
    world.keeps = false;
    let seat = world.seat_with(Bind { pulls: true, ..HubHarness::bind("d") });
    assert_eq!((world.fx.calls.len(), remaining(&mut world).0.len()), (0, 0));
    world.ask(seat.conn, pull(&seat, given[0].0, 2));
    assert_eq!(remaining(&mut world), (vec![], vec![]), "its bodies are on their way");
    let live = world.give("d");
    world.complete(Ok(()));
    assert_eq!(remaining(&mut world), (vec![given[1], given[2], live], vec![3]).clone());
    world.ask(seat.conn, pull(&seat, 0, 1));
    world.ask(seat.conn, pull(&seat, 0, 1));
    world.settle();
    assert_eq!(world.deliveries().len(), 4, "two pushes, two answers");
    world.hub.audit();
}

#[test]
fn a_pull_that_cannot_be_served_is_answered_and_may_be_repeated() {
    let (mut world, given) = away(3);
    world.keeps = false;
    let seat = world.seat_with(Bind { pulls: true, ..HubHarness::bind("d") });
    world.ask(seat.conn, pull(&seat, 0, 2));
    world.complete(Err(StoreError::Busy));
    assert_eq!(remaining(&mut world), (vec![], vec![3]));
    world.pass_ms(5_000);
    assert_eq!(pulls(&world).len(), 0, "it asks itself");
    world.ask(seat.conn, pull(&seat, 0, 2));
    world.settle();
    assert_eq!(remaining(&mut world), (given[..2].to_vec(), vec![1]));
    world.log.damaged.insert(given[2].0);
    world.ask(seat.conn, pull(&seat, given[1].0, 2));
    world.settle();
    assert_eq!(remaining(&mut world), (vec![], vec![0]), "no reason to ask for ever");
    world.hub.audit();
}

#[test]
fn bodies_are_let_go_when_the_device_leaves() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let push = world.give("d");
    assert_eq!((world.log.read, ids(&mut world)), (0, vec![push]));
    world.close(&seat);
    world.hub.audit();
    world.seat("d");
    assert_eq!((world.log.read, world.pushes()), (1, vec![(push, true)]));
}

//! A cancel recalls undelivered pushes, whenever a kill comes, and no recalled push comes back.

use crate::harness::{HubHarness, Seat, id, limited, order, product, settings, tag};
use crate::many::{Pair, away, owner, rest, waiting};
use base::prng::Prng;
use hub::Settings;
use model::counters::PushCounter;
use model::id::{MessageId, ProductKey};
use model::ports::log::{StoreError, Table};
use model::ports::pushes::{PushAnswer, PushCommand, PushCounts, PushOrder, PushState, PushTarget};
use model::push::{Outcome, Rejection};
use model::service::Service;
use model::timeline::Space;

const CANCELLED: Outcome = Outcome::Rejected(Rejection::Cancelled);

/// Cancels a push; returns the number of the command.
fn cancel(world: &mut HubHarness, push: MessageId) -> u64 {
    cancel_of(world, push, None)
}

fn cancel_of(world: &mut HubHarness, push: MessageId, product: Option<&str>) -> u64 {
    let product = product.map(|name| ProductKey::parse(name).expect("a name"));
    let id = world.message_id();
    world.tell(PushCommand::Cancel { id, push, product })
}

/// Cancels a push and waits; returns whether the push was known.
fn cancelled(world: &mut HubHarness, push: MessageId) -> bool {
    let reply = cancel(world, push);
    rest(world);
    match world.answer(reply) {
        Some(PushAnswer::Done(known)) => known,
        other => panic!("no answer: {other:?}"),
    }
}

fn unknown(world: &mut HubHarness, push: MessageId) -> bool {
    world.command(PushCommand::PushCounts(push)) == PushAnswer::Counts(None)
}

fn tagged(world: &mut HubHarness, names: std::ops::Range<u32>) -> Vec<Seat> {
    let seat = |n| {
        let mut bind = HubHarness::bind(&format!("d{n}"));
        bind.tags = Some(vec![tag("t")]);
        world.seat_with(bind)
    };
    names.map(seat).collect()
}

fn slow() -> Settings {
    Settings { limits: limited(|pushes| pushes.fan_out_slice = 3), ..settings() }
}

#[test]
fn a_push_to_many_is_recalled_where_it_waits_and_counted_where_it_was_delivered() {
    let mut world = HubHarness::new();
    let seats = tagged(&mut world, 0..4);
    away(&mut world, 4..10);
    let (push, _) = world.push_to(PushTarget::Tag(tag("t")), |order| order.receipts = true);
    rest(&mut world);
    world.ack(&seats[0], &[push]);
    world.events();
    assert!(cancelled(&mut world, push));
    let counts = world.counts(push);
    let state = PushState::Cancelled;
    let expected =
        PushCounts { matched: 10, delivered: 1, cancelled: 9, state, ..Default::default() };
    assert_eq!(counts, expected);
    assert_eq!(world.receipts(), [(push, CANCELLED); 9]);
    assert_eq!(waiting(&mut world, 0..10), [0; 10]);
    assert_eq!(world.log.kept(Space::Pushes), []);
    assert_eq!(world.count(PushCounter::Cancelled), 9);
    // A late acknowledgement changes nothing, and devices that come later do not get the push.
    world.ack(&seats[1], &[push]);
    world.pushes();
    tagged(&mut world, 4..12);
    assert_eq!(world.pushes(), []);
    for _ in 0..2 {
        assert!(cancelled(&mut world, push), "the same answer");
        assert_eq!(world.counts(push), expected);
        world.restart();
        rest(&mut world);
    }
    world.hub.audit();
}

#[test]
fn a_fan_out_that_runs_is_stopped() {
    let mut world = HubHarness::with(product(), slow());
    away(&mut world, 0..20);
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    world.hub.turn(world.now, &mut world.fx);
    world.store();
    let reply = cancel(&mut world, push);
    rest(&mut world);
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.cancelled, counts.running), (3, 3, false));
    assert_eq!(waiting(&mut world, 0..20), [0; 20]);
    world.restart();
    rest(&mut world);
    assert_eq!((world.counts(push), waiting(&mut world, 0..20)), (counts, vec![0; 20]));
    world.hub.audit();
}

#[test]
fn an_answered_cancel_has_the_same_counts_after_a_kill() {
    let mut world = HubHarness::new();
    let seats = tagged(&mut world, 0..3);
    away(&mut world, 3..6);
    let (push, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
    world.turn();
    world.ack(&seats[0], &[push]);
    let reply = cancel(&mut world, push);
    (0..4).for_each(|_| world.turn());
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)), "at once");
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.delivered, counts.cancelled), (6, 1, 5));
    world.restart();
    rest(&mut world);
    assert_eq!(world.counts(push), counts);
    world.hub.audit();
}

#[test]
fn a_push_to_named_devices_is_recalled_and_remembered_from_then_on() {
    let mut world = HubHarness::new();
    let seat = world.seat("a");
    let names = ["a", "b", "c"].map(id).to_vec();
    let (push, reply) = world.push_to(PushTarget::Devices(names), |order| order.wait_ms = 30_000);
    assert!(unknown(&mut world, push));
    assert!(cancelled(&mut world, push));
    let mut outcomes = world.outcomes(reply).expect("nothing is waited for");
    outcomes.sort_by(|a, b| a.0.cmp(&b.0));
    let stored = Outcome::Stored;
    assert_eq!(outcomes, [(id("a"), CANCELLED), (id("b"), stored), (id("c"), stored)]);
    for _ in 0..2 {
        let counts = world.counts(push);
        assert_eq!((counts.matched, counts.cancelled), (3, 3));
        assert_eq!(counts.state, PushState::Cancelled);
        assert!(cancelled(&mut world, push));
        world.restart();
        rest(&mut world);
    }
    world.pushes();
    world.seat("b");
    world.ack(&seat, &[push]);
    assert_eq!((world.pushes(), world.log.kept(Space::Pushes)), (vec![], vec![]));
    world.hub.audit();
}

#[test]
fn of_a_push_that_nobody_knows_nothing_is_kept() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let (delivered, _) = world.push("d", |_| {});
    world.ack(&seat, &[delivered]);
    let (kept, _) = world.push_to(PushTarget::Product, |_| {});
    for push in [delivered, MessageId(1 << 30)] {
        assert!(!cancelled(&mut world, push));
        assert!(unknown(&mut world, push));
    }
    rest(&mut world);
    world.counts(kept);
    assert_eq!(world.log.rows(Table::Orders), 1, "that of the push to many");
    world.hub.audit();
}

#[test]
fn a_cancel_for_one_product_leaves_pushes_of_others() {
    let mut world = HubHarness::new();
    away(&mut world, 0..3);
    let (many, _) = world.push_to(PushTarget::Product, |_| {});
    let listed = world.give("d0");
    rest(&mut world);
    for push in [many, listed] {
        let reply = cancel_of(&mut world, push, Some("q"));
        rest(&mut world);
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(false)));
    }
    assert_eq!(waiting(&mut world, 0..3), [2, 1, 1]);
    assert_eq!(world.counts(many).state, PushState::Finished);
    for push in [many, listed] {
        let reply = cancel_of(&mut world, push, Some("p"));
        rest(&mut world);
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    }
    assert_eq!(waiting(&mut world, 0..3), [0; 3]);
    // A later cancel that names a product other than the push's has no effect.
    let reply = cancel_of(&mut world, many, Some("q"));
    rest(&mut world);
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(false)));
    assert_eq!(world.counts(many).state, PushState::Cancelled);
    // Two overlapping cancels of the same push, one with its product, are both answered.
    let (other, _) = world.push_to(PushTarget::Product, |_| {});
    let replies = [None, Some("p")].map(|product| cancel_of(&mut world, other, product));
    rest(&mut world);
    for reply in replies {
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    }
    world.hub.audit();
}

#[test]
fn a_cancel_that_cannot_be_stored_changes_nothing_and_says_so() {
    let mut world = HubHarness::new();
    away(&mut world, 0..3);
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    rest(&mut world);
    world.keeps = false;
    let reply = cancel(&mut world, push);
    world.complete(Err(StoreError::Full));
    assert_eq!(world.answer(reply), Some(PushAnswer::StoreFailed));
    world.keeps = true;
    rest(&mut world);
    assert_eq!((waiting(&mut world, 0..3), world.counts(push).stored), (vec![1; 3], 3));
}

#[test]
fn wherever_the_kill_comes_an_answered_cancel_holds_and_one_that_is_not_is_whole_or_nothing() {
    for kept in 0.. {
        let mut world = HubHarness::with(product(), slow());
        let seats = tagged(&mut world, 0..4);
        away(&mut world, 4..12);
        world.settle();
        let (push, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
        for _ in 0..3 {
            world.hub.turn(world.now, &mut world.fx);
        }
        world.settle();
        world.ack(&seats[0], &[push]);
        world.log.die_after(Some(kept));
        let reply = cancel(&mut world, push);
        for _ in 0..8 {
            world.hub.turn(world.now, &mut world.fx);
            world.store();
        }
        world.pass_ms(300);
        let (is_all, answer) = (!world.log.is_dead(), world.answer(reply));
        world.log.die_after(None);
        world.restart();
        rest(&mut world);
        let (waiting, counts) = (waiting(&mut world, 0..12), world.counts(push));
        assert!(!counts.running, "{kept}: {counts:?}");
        match counts.state {
            PushState::Cancelled => assert_eq!(waiting, [0; 12], "{kept}"),
            _ => assert_eq!((answer, waiting[4..].to_vec()), (None, vec![1; 8]), "{kept}"),
        }
        world.hub.audit();
        if is_all {
            assert_eq!(counts.state, PushState::Cancelled);
            assert!(kept > 4, "it broke off everywhere: {kept}");
            return;
        }
    }
}

#[test]
fn a_kill_while_a_list_is_recalled_brings_none_of_it_back() {
    for kept in 1.. {
        let mut world = HubHarness::with(product(), slow());
        let names = (0..12).map(|n| id(&format!("d{n}"))).collect();
        let (push, _) = world.push_to(PushTarget::Devices(names), |order| order.wait_ms = 0);
        world.settle();
        world.log.die_after(Some(kept));
        cancel(&mut world, push);
        for _ in 0..8 {
            world.hub.turn(world.now, &mut world.fx);
            world.store();
        }
        world.pass_ms(300);
        let is_all = !world.log.is_dead();
        world.log.die_after(None);
        world.restart();
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..12), [0; 12], "{kept}");
        let counts = world.counts(push);
        assert_eq!((counts.matched, counts.cancelled), (12, 12), "{kept}");
        assert_eq!(world.log.kept(Space::Pushes), [], "{kept}");
        world.hub.audit();
        if is_all {
            return;
        }
    }
}

#[test]
fn a_push_that_was_forgotten_is_recalled_and_counted_where_it_still_waits() {
    let limits = limited(|pushes| (pushes.jobs_max, pushes.fan_out_slice) = (1, 1));
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    let seats = tagged(&mut world, 0..6);
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    // No device acknowledges the push, so it is stored, and another order takes its place in
    // memory.
    (0..9).for_each(|_| world.pass_ms(10_000));
    rest(&mut world);
    world.push_to(PushTarget::Tag(tag("none")), |_| {});
    rest(&mut world);
    world.push_to(PushTarget::Tag(tag("none")), |_| {});
    rest(&mut world);
    assert!(unknown(&mut world, push));
    world.ack(&seats[0], &[push]);
    let reply = cancel(&mut world, push);
    for _ in 0..2 {
        world.hub.turn(world.now, &mut world.fx);
        world.store();
    }
    // A device that has the push may acknowledge it while the recall is running.
    assert!(world.counts(push).cancelled < 4);
    world.ack(&seats[5], &[push]);
    rest(&mut world);
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    let counts = world.counts(push);
    let told = (counts.matched, counts.delivered, counts.cancelled, counts.stored);
    assert_eq!(told, (5, 1, 4, 0));
    assert_eq!(world.log.kept(Space::Pushes), []);
    world.restart();
    rest(&mut world);
    assert_eq!(world.counts(push), counts);
    world.hub.audit();
}

#[test]
fn a_push_that_the_log_was_asked_to_keep_is_recalled_when_it_answers() {
    let mut world = HubHarness::new();
    away(&mut world, 0..1);
    world.keeps = false;
    let (push, _) = world.push("d0", |order| order.wait_ms = 0);
    let reply = cancel(&mut world, push);
    for _ in 0..6 {
        world.pass_ms(300);
        world.complete(Ok(()));
    }
    assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
    assert_eq!(world.log.kept(Space::Pushes), []);
    world.hub.audit();
}

#[test]
fn a_repeated_order_that_was_cancelled_sends_nothing() {
    let mut world = HubHarness::new();
    away(&mut world, 0..2);
    let first = world.real_id();
    let keyed = move |order: &mut PushOrder| {
        (order.id, order.idempotency_key) = (MessageId(first.0 + order.id.0), Some("k".into()));
    };
    let names = ["d0", "d1"].map(id).to_vec();
    let (_, reply) = world.push_to(PushTarget::Devices(names.clone()), keyed);
    let Some(PushAnswer::Pushed { id: push, .. }) = world.answer(reply) else { panic!() };
    assert!(cancelled(&mut world, push));
    let (_, reply) = world.push_to(PushTarget::Devices(names), keyed);
    let outcomes = world.outcomes(reply).expect("it was taken before");
    assert!(outcomes.iter().all(|(_, outcome)| *outcome == CANCELLED), "{outcomes:?}");
    // The part of the order for another shard arrives only after the cancel.
    let (_, reply) = world.push("d1", |order| order.id = push);
    assert_eq!(world.outcome(reply), Some(CANCELLED));
    assert_eq!(waiting(&mut world, 0..2), [0; 2]);
    world.hub.audit();
}

#[test]
fn a_cancel_is_remembered_as_long_as_its_push() {
    let limits = limited(|pushes| pushes.jobs_max = 3);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    away(&mut world, 0..2);
    let (push, _) = world.push_to(PushTarget::Product, |_| {});
    assert!(cancelled(&mut world, push));
    for _ in 0..6 {
        let known = !unknown(&mut world, push);
        assert!(!known || world.counts(push).state == PushState::Cancelled);
        world.push_to(PushTarget::Product, |_| {});
        rest(&mut world);
    }
    assert!(unknown(&mut world, push));
    assert!(world.log.rows(Table::Orders) <= 3);
    world.hub.audit();
}

/// The shard that owns the cancel of this push.
fn owner_of_cancel(push: MessageId) -> usize {
    usize::from(base::hash::home(hub::cancel_home(settings().home, push), 2))
}

/// Sends a cancel to its owner; returns the owner and the number of the command.
fn cancel_in(pair: &mut Pair, push: MessageId) -> (usize, u64) {
    let (owner, id) = (owner_of_cancel(push), MessageId(5_000 + push.0));
    let reply = pair.worlds[owner].tell(PushCommand::Cancel { id, push, product: None });
    (owner, reply)
}

#[test]
fn every_shard_hears_of_a_cancel_wherever_a_kill_comes_and_whatever_is_lost() {
    let mut owners = std::collections::BTreeSet::new();
    for number in 0..6 {
        for steps in 0..8 {
            let mut pair = Pair::with_away();
            let push = MessageId(1_000 + number);
            let at = owner(push);
            let order = order(push, PushTarget::Tag(tag("t")));
            pair.worlds[at].tell(PushCommand::Push(order));
            (0..number).for_each(|_| pair.step());
            let (at, reply) = cancel_in(&mut pair, push);
            owners.insert(at);
            (0..steps).for_each(|_| pair.step());
            let answer = pair.worlds[at].answer(reply);
            pair.restart();
            pair.rest();
            for (shard, names) in [(0, Pair::devices_of(0)), (1, Pair::devices_of(1))] {
                let world = &mut pair.worlds[shard];
                assert!(waiting(world, names).iter().all(|&count| count == 0), "{number} {steps}");
                world.hub.audit();
            }
            assert!(answer.is_none() || answer == Some(PushAnswer::Done(true)));
        }
    }
    assert_eq!(owners.len(), 2);
}

#[test]
fn whichever_letters_are_lost_a_cancel_reaches_every_shard() {
    for seed in 0..60 {
        let mut pair = Pair::with_away();
        let push = MessageId(1_000 + seed % 6);
        let at = owner(push);
        pair.worlds[at].tell(PushCommand::Push(order(push, PushTarget::Tag(tag("t")))));
        pair.weather = Some(Prng::new(seed));
        (0..seed % 5).for_each(|_| pair.step());
        let (at, reply) = cancel_in(&mut pair, push);
        (0..8).for_each(|_| pair.pass_s(31));
        pair.weather = None;
        (0..3).for_each(|_| pair.pass_s(301));
        assert_eq!(pair.worlds[at].answer(reply), Some(PushAnswer::Done(true)), "seed {seed}");
        for (shard, names) in [(0, Pair::devices_of(0)), (1, Pair::devices_of(1))] {
            let world = &mut pair.worlds[shard];
            let waiting = waiting(world, names);
            assert!(waiting.iter().all(|&count| count == 0), "seed {seed}: {waiting:?}");
            world.hub.audit();
        }
    }
}

#[test]
fn a_push_to_devices_of_one_shard_is_recalled_by_the_cancel_of_another() {
    for number in 0..6 {
        let mut pair = Pair::new();
        let push = MessageId(1_000 + number);
        let list = order(push, PushTarget::Devices(vec![id("d")]));
        pair.worlds[0].tell(PushCommand::Push(list));
        for known in [push, MessageId(77)] {
            let (at, reply) = cancel_in(&mut pair, known);
            pair.rest();
            let answer = pair.worlds[at].answer(reply);
            assert_eq!(answer, Some(PushAnswer::Done(known == push)), "{number}");
        }
        assert_eq!(waiting_of(&mut pair.worlds[0], "d"), 0);
        // The other shard remembers the cancel too: a part of the order that comes later is not
        // sent.
        let late = order(push, PushTarget::Devices(vec![id("e")]));
        let reply = pair.worlds[1].tell(PushCommand::Push(late));
        assert_eq!(pair.worlds[1].outcome(reply), Some(CANCELLED));
        pair.worlds.iter().for_each(|world| world.hub.audit());
    }
}

fn waiting_of(world: &mut HubHarness, name: &str) -> u32 {
    world.state(name).map_or(0, |state| state.waiting)
}

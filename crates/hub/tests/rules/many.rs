//! Orders to tags and products: stored before they are answered, and never half executed.

use crate::harness::{HubHarness, Seat, id, limited, product, settings, tag};
use base::prng::Prng;
use base::time::{Instant, Now};
use hub::{OrderMessage, Settings};
use model::counters::PushCounter;
use model::id::{MessageId, ProductKey, ShardId};
use model::ports::log::{Call, StoreError, Table, Write};
use model::ports::pushes::{PushAnswer, PushCommand, PushCounts, PushOrder, PushTarget};
use model::push::Outcome;
use model::request::PushDelivery;
use model::service::Service;
use model::timeline::Space;
use std::collections::BTreeMap;
use testkit::crossing::crossed;

fn key() -> ProductKey {
    ProductKey::parse("p").expect("a name")
}

/// Devices with the tag `t`, all of them away.
pub fn away(world: &mut HubHarness, names: std::ops::Range<u32>) {
    for n in names {
        let mut bind = HubHarness::bind(&format!("d{n}"));
        bind.tags = Some(vec![tag("t")]);
        let seat = world.seat_with(bind);
        world.close(&seat);
    }
    world.settle();
}

/// For each device, how many pushes are in its queue.
pub fn waiting(world: &mut HubHarness, names: std::ops::Range<u32>) -> Vec<u32> {
    let waiting = |n: u32| world.state(&format!("d{n}")).map_or(0, |state| state.waiting);
    names.map(waiting).collect()
}

/// Turns the hub, completes log calls and lets time pass, so that open orders can finish.
pub fn rest(world: &mut HubHarness) {
    for _ in 0..4 {
        world.turn();
        world.settle();
        world.pass_ms(300);
    }
}

/// Starts a world again whose log took `kept` writes, and checks that each of ten devices that are
/// away has a push, once.
pub fn each_of_ten_has_it_after_a_start(world: &mut HubHarness, push: MessageId, kept: usize) {
    world.log.die_after(None);
    world.restart();
    rest(world);
    assert_eq!(waiting(world, 0..10), [1; 10], "{kept}");
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.stored, counts.running), (10, 10, false), "{kept}");
    assert_eq!(world.log.kept(Space::Pushes).len(), 10, "{kept}");
    world.hub.audit();
}

#[test]
fn an_order_is_kept_before_it_is_answered_and_goes_on_after_a_kill() {
    let mut world = HubHarness::new();
    away(&mut world, 0..10);
    world.keeps = false;
    let (push, reply) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
    world.turn();
    assert_eq!(world.answer(reply), None, "nothing is kept yet");
    world.complete(Ok(()));
    assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { id, .. }) if id == push));
    world.restart();
    world.keeps = true;
    rest(&mut world);
    assert_eq!(waiting(&mut world, 0..10), [1; 10]);
    let counts = world.counts(push);
    assert_eq!((counts.running, counts.matched, counts.stored), (false, 10, 10));
    world.hub.audit();
}

/// Events while an order scans: some devices acknowledge, some disconnect, some are new.
fn bustle(world: &mut HubHarness, push: MessageId, seats: &[Seat]) {
    for _ in 0..2 {
        world.hub.turn(world.now, &mut world.fx);
        world.store();
    }
    world.ack(&seats[0], &[push]);
    world.ack(&seats[1], &[push]);
    world.hub.turn(world.now, &mut world.fx);
    let tags = |device: &str, tags: &[&str]| PushCommand::SetTags {
        product: key(),
        device: id(device),
        tags: tags.iter().map(|name| tag(name)).collect(),
    };
    world.tell(tags("d9", &[]));
    world.tell(tags("late", &["t"]));
    world.pass_ms(300);
    world.hub.turn(world.now, &mut world.fx);
}

#[test]
fn wherever_the_kill_comes_each_device_has_it_once_and_only_those_it_was_for() {
    let small = || {
        let limits = limited(|pushes| pushes.fan_out_slice = 3);
        Settings { limits, ..settings() }
    };
    // Four devices are online, of which two acknowledge; six are away. The log dies after `kept`
    // calls.
    for kept in 0.. {
        let mut world = HubHarness::with(product(), small());
        let seats: Vec<_> = (0..4)
            .map(|n| {
                let mut bind = HubHarness::bind(&format!("d{n}"));
                bind.tags = Some(vec![tag("t")]);
                world.seat_with(bind)
            })
            .collect();
        away(&mut world, 4..10);
        let late = world.seat("late");
        world.close(&late);
        world.settle();
        world.log.die_after(Some(kept));
        let (push, reply) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
        bustle(&mut world, push, &seats);
        let (is_all, answer) = (!world.log.is_dead(), world.answer(reply));
        world.log.die_after(None);
        world.restart();
        rest(&mut world);
        let waiting = waiting(&mut world, 0..10);
        let PushAnswer::Counts(Some(counts)) = world.command(PushCommand::PushCounts(push)) else {
            assert_eq!((answer, kept, waiting), (None, 0, vec![0; 10]));
            continue;
        };
        // Devices that acknowledged may get the push again if that was not recorded; the others
        // have it once.
        assert!(waiting[..2].iter().all(|&count| count <= 1), "{kept}: {waiting:?}");
        assert_eq!(waiting[2..], [1; 8], "{kept}");
        assert_eq!(is_all, is_all && waiting[..2] == [0, 0], "{kept}: it was noted");
        let late = world.state("late").map_or(0, |state| state.waiting);
        assert_eq!(late, 0, "{kept}: it carried no tag then");
        assert_eq!((counts.running, counts.matched), (false, 10), "{kept}: {counts:?}");
        assert_eq!(counts.stored, u64::from(waiting.iter().sum::<u32>()), "{kept}");
        world.hub.audit();
        if is_all {
            assert!(kept > 6, "it broke off everywhere: {kept}");
            return;
        }
    }
}

#[test]
fn each_that_took_it_is_noted_apart_while_an_order_scans() {
    let limits = limited(|pushes| pushes.fan_out_slice = 1);
    let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
    let seats: Vec<_> = (0..2)
        .map(|n| {
            let mut bind = HubHarness::bind(&format!("d{n}"));
            bind.tags = Some(vec![tag("t")]);
            world.seat_with(bind)
        })
        .collect();
    away(&mut world, 2..30);
    let (push, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
    let step = |world: &mut HubHarness| {
        world.hub.turn(world.now, &mut world.fx);
        world.store();
    };
    (0..4).for_each(|_| step(&mut world));
    for (seat, rows) in seats.iter().zip([2, 3]) {
        world.ack(seat, &[push]);
        // Only time passes: one turn more, and the order would be over.
        let mono = world.now.mono.nanos() + 300_000_000;
        world.now = Now::new(Instant::from_nanos(mono), world.now.wall_ms + 300);
        step(&mut world);
        assert_eq!(world.log.rows(Table::Orders), rows, "the order and a row for each");
    }
    world.restart();
    rest(&mut world);
    assert_eq!(waiting(&mut world, 0..3), [0, 0, 1]);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.delivered, counts.stored), (30, 2, 28));
}

#[test]
fn what_ends_while_the_server_goes_is_noted_without_waiting_for_more() {
    for is_drained in [false, true] {
        let mut world = HubHarness::new();
        away(&mut world, 0..2);
        let (push, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
        rest(&mut world);
        let seat = world.seat("d0");
        world.settle();
        if is_drained {
            let now = world.now;
            world.hub.set_draining(now, true);
        }
        world.ack(&seat, &[push]);
        world.hub.turn(world.now, &mut world.fx);
        world.store();
        world.restart();
        rest(&mut world);
        assert_eq!(world.counts(push).delivered, u64::from(is_drained));
    }
}

#[test]
fn what_an_order_has_come_to_is_known_after_restarts() {
    let mut world = HubHarness::new();
    away(&mut world, 0..5);
    let (push, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
    rest(&mut world);
    let seat = world.seat("d0");
    world.ack(&seat, &[push]);
    rest(&mut world);
    for _ in 0..2 {
        world.restart();
        rest(&mut world);
        let counts = world.counts(push);
        let expected = PushCounts { matched: 5, delivered: 1, stored: 4, ..PushCounts::default() };
        assert_eq!(counts, expected);
    }
    assert_eq!(world.log.rows(Table::Orders), 1, "its counts alone are kept");
    world.pass_ms(3_700_000);
    rest(&mut world);
    world.restart();
    assert_eq!(world.counts(push).expired, 4);
    world.pass_ms(7 * 24 * 3_600_000);
    rest(&mut world);
    assert_eq!(world.command(PushCommand::PushCounts(push)), PushAnswer::Counts(None));
    assert_eq!(world.log.rows(Table::Orders), 0);
}

#[test]
fn an_end_that_was_noted_and_not_removed_is_counted_once() {
    let mut world = HubHarness::new();
    away(&mut world, 0..3);
    let (push, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
    rest(&mut world);
    let seat = world.seat("d0");
    world.keeps = false;
    world.ack(&seat, &[push]);
    world.pass_ms(300);
    world.complete_as(|call| match call {
        Call::Write(Write::Remove { .. }) => Err(StoreError::Busy),
        _ => Ok(()),
    });
    assert_eq!(world.log.kept(Space::Pushes).len(), 3, "the kill comes before it is removed");
    world.restart();
    world.keeps = true;
    rest(&mut world);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.delivered, counts.stored), (3, 1, 2));
    assert_eq!(world.log.kept(Space::Pushes).len(), 2);
}

#[test]
fn a_repeated_order_to_many_is_the_first_one_also_after_a_restart() {
    let mut world = HubHarness::new();
    away(&mut world, 0..4);
    let first = world.real_id();
    let named = move |order: &mut PushOrder| {
        order.id = MessageId(first.0 + order.id.0 - 1); // rising, and telling the time
        order.idempotency_key = Some("k".into());
    };
    world.push_to(PushTarget::Tag(tag("t")), named);
    for restarts in [false, true] {
        rest(&mut world);
        if restarts {
            world.restart();
            rest(&mut world);
        }
        let (_, reply) = world.push_to(PushTarget::Tag(tag("t")), named);
        assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { id, .. }) if id == first));
        let other = |order: &mut PushOrder| {
            named(order);
            order.body = Box::from(*b"another");
        };
        for (target, change) in [(PushTarget::Product, false), (PushTarget::Tag(tag("t")), true)] {
            let (_, reply) = match change {
                true => world.push_to(target, other),
                false => world.push_to(target, named),
            };
            assert_eq!(world.answer(reply), Some(PushAnswer::Conflict));
        }
        rest(&mut world);
        assert_eq!(waiting(&mut world, 0..4), [1; 4]);
    }
    world.keeps = false;
    let late = world.real_id();
    let named = move |order: &mut PushOrder| {
        (order.id, order.idempotency_key) = (late, Some("l".into()));
    };
    let (_, one) = world.push_to(PushTarget::Product, named);
    let (_, other) = world.push_to(PushTarget::Product, named);
    world.complete(Ok(()));
    for reply in [one, other] {
        assert!(matches!(world.answer(reply), Some(PushAnswer::Pushed { id, .. }) if id == late));
    }
}

#[test]
fn an_order_that_is_not_kept_is_not_carried_out() {
    let mut world = HubHarness::new();
    away(&mut world, 0..4);
    world.keeps = false;
    for (error, answer) in
        [(StoreError::Full, PushAnswer::StoreFailed), (StoreError::Busy, PushAnswer::Busy)]
    {
        let (push, reply) = world.push_to(PushTarget::Product, |_| {});
        world.complete(Err(error));
        world.turn();
        assert_eq!(world.answer(reply), Some(answer));
        assert_eq!(world.command(PushCommand::PushCounts(push)), PushAnswer::Counts(None));
    }
    assert_eq!((waiting(&mut world, 0..4), world.asked()), (vec![0; 4], 0));
}

/// Two shards, each with its log.
pub struct Pair {
    pub worlds: [HubHarness; 2],
    /// Messages between the shards are lost while this is set.
    pub loses: bool,
    /// While this is set, one of three messages between the shards is lost.
    pub weather: Option<Prng>,
}

impl Pair {
    pub fn new() -> Pair {
        let worlds = [0, 1].map(|shard| {
            let settings = Settings { shard: ShardId(shard), shards: 2, ..settings() };
            HubHarness::with(product(), settings)
        });
        Pair { worlds, loses: false, weather: None }
    }

    /// Two shards with devices that have the tag `t` and are offline: 5 on the first, 7 on the
    /// other.
    pub fn with_away() -> Pair {
        let mut pair = Pair::new();
        (0..2).for_each(|shard| away(&mut pair.worlds[shard], Pair::devices_of(shard)));
        pair
    }

    pub fn devices_of(shard: usize) -> std::ops::Range<u32> {
        if shard == 0 { 0..5 } else { 5..12 }
    }

    /// Asserts that each device of a shard has one queued push.
    fn each_has_one(&mut self, shard: usize) {
        let waiting = waiting(&mut self.worlds[shard], Pair::devices_of(shard));
        assert!(waiting.iter().all(|&count| count == 1), "{waiting:?}");
    }

    /// Turns each shard once, and delivers its messages.
    pub fn step(&mut self) {
        for from in 0..2 {
            self.worlds[from].hub.turn(self.worlds[from].now, &mut self.worlds[from].fx);
            self.worlds[from].store();
            self.post(from);
        }
    }

    /// Lets the shards exchange messages until they have no more.
    fn talk(&mut self) {
        for _ in 0..40 {
            for from in 0..2 {
                self.worlds[from].turn();
                self.post(from);
            }
        }
    }

    pub fn post(&mut self, from: usize) {
        let peer_messages: Vec<(ShardId, OrderMessage)> =
            std::mem::take(&mut self.worlds[from].fx.peer_messages);
        for (to, order_message) in peer_messages {
            if self.loses || self.weather.as_mut().is_some_and(|weather| weather.one_in(3)) {
                continue;
            }
            let world = &mut self.worlds[usize::from(to.0)];
            world.hub.peer_message(
                world.now,
                ShardId(from as u16),
                crossed(order_message),
                &mut world.fx,
            );
            world.store();
        }
    }

    pub fn rest(&mut self) {
        for _ in 0..4 {
            self.talk();
            self.worlds.iter_mut().for_each(|world| world.pass_ms(300));
        }
        self.talk();
    }

    pub fn pass_s(&mut self, s: u64) {
        self.worlds.iter_mut().for_each(|world| world.pass_ms(s * 1_000));
        self.rest();
    }

    pub fn restart(&mut self) {
        self.worlds.iter_mut().for_each(HubHarness::restart);
    }

    fn stored(&mut self, push: MessageId) -> Vec<(u64, bool)> {
        let counts = |world: &mut HubHarness| world.counts(push);
        self.worlds.iter_mut().map(counts).map(|it| (it.stored, it.running)).collect()
    }
}

/// The shard that owns the order with this id.
pub fn owner(push: MessageId) -> usize {
    let order = crate::harness::order(push, PushTarget::Product);
    usize::from(base::hash::home(hub::order_home(settings().home, &order), 2))
}

#[test]
fn every_shard_gets_an_order_whatever_is_lost_between_them() {
    let mut owners = BTreeMap::<usize, u32>::new();
    for number in 0..6 {
        for kill in 0..6 {
            let mut pair = Pair::with_away();
            let push = MessageId(1_000 + number);
            let owner = owner(push);
            *owners.entry(owner).or_default() += 1;
            let order = crate::harness::order(push, PushTarget::Tag(tag("t")));
            let reply = pair.worlds[owner].tell(PushCommand::Push(order));
            assert_eq!(pair.worlds[owner].answer(reply), None, "the other one has not spoken");
            for _ in 0..kill {
                for from in 0..2 {
                    pair.worlds[from].hub.turn(pair.worlds[from].now, &mut pair.worlds[from].fx);
                    pair.post(from);
                }
            }
            if kill > 1 {
                assert!(pair.worlds[owner].answer(reply).is_some());
            }
            pair.restart();
            pair.rest();
            let mut stored = pair.stored(push);
            assert_eq!(stored, [(5, false), (7, false)], "{number} {kill}");
            // The counts are the same after a restart when the order is over.
            pair.restart();
            pair.rest();
            stored = pair.stored(push);
            assert_eq!(stored, [(5, false), (7, false)], "{number} {kill}");
            for world in &mut pair.worlds {
                assert_eq!(world.log.rows(Table::Orders), 1, "counts alone: {number} {kill}");
                world.hub.audit();
            }
        }
    }
    assert_eq!(owners.len(), 2, "{owners:?}");
}

#[test]
fn an_order_that_is_over_elsewhere_is_not_walked_again_after_a_kill() {
    // The owner's Close to the other shard is lost, and then both shards are killed.
    let mut pair = Pair::with_away();
    let push = MessageId(1_000);
    let (owner, other) = (owner(push), 1 - owner(push));
    let order = crate::harness::order(push, PushTarget::Product);
    pair.worlds[owner].tell(PushCommand::Push(order));
    while !matches!(pair.worlds[owner].fx.peer_messages.last(), Some((_, OrderMessage::Close(..))))
    {
        pair.post(owner);
        pair.worlds[other].turn();
        pair.post(other);
        pair.worlds[owner].turn();
        pair.worlds.iter_mut().for_each(|world| world.pass_ms(100));
    }
    pair.restart();
    // The owner's Close is repeated before the other shard has finished its scan.
    let world = &mut pair.worlds[other];
    let close = OrderMessage::Close(push, true);
    world.hub.peer_message(world.now, ShardId(owner as u16), close, &mut world.fx);
    world.store();
    world.hub.audit();
    pair.rest();
    assert_eq!(pair.stored(push), [(5, false), (7, false)]);
    pair.each_has_one(other);
}

#[test]
fn a_shard_whose_log_is_full_gets_the_order_later() {
    let mut pair = Pair::with_away();
    let push = MessageId(1_000);
    let (owner, other) = (owner(push), 1 - owner(push));
    pair.worlds[other].keeps = false;
    let order = crate::harness::order(push, PushTarget::Product);
    let reply = pair.worlds[owner].tell(PushCommand::Push(order));
    pair.post(owner);
    pair.worlds[other].complete(Err(StoreError::Full));
    pair.post(other);
    assert!(pair.worlds[owner].answer(reply).is_some(), "the promise is kept by its owner");
    pair.worlds[other].keeps = true;
    pair.talk();
    assert_eq!(pair.worlds[other].command(PushCommand::PushCounts(push)), PushAnswer::Counts(None));
    pair.worlds.iter_mut().for_each(|world| world.pass_ms(1_100));
    pair.rest();
    assert_eq!(pair.stored(push), [(5, false), (7, false)]);
}

#[test]
fn a_push_for_now_or_never_is_over_for_those_it_had_not_reached() {
    let mut world = HubHarness::new();
    away(&mut world, 0..3);
    let here = world.seat("here");
    world.keeps = false;
    let (push, _) = world.push_to(PushTarget::Product, |order| order.time_to_live_s = 0);
    world.complete(Ok(()));
    world.restart();
    world.keeps = true;
    rest(&mut world);
    let counts = world.counts(push);
    assert_eq!((counts.matched, counts.expired, counts.running), (4, 4, false));
    let sent = world.deliveries();
    assert!(!sent.iter().any(|(_, it)| matches!(it, PushDelivery::Push { .. })), "{here:?}");
}

#[test]
fn a_shard_that_does_not_answer_is_told_again_and_whoever_ordered_waits_no_longer() {
    let mut pair = Pair::with_away();
    let push = MessageId(1_000);
    let owner = owner(push);
    let order = crate::harness::order(push, PushTarget::Tag(tag("t")));
    pair.loses = true;
    let reply = pair.worlds[owner].tell(PushCommand::Push(order));
    pair.talk();
    pair.worlds.iter_mut().for_each(|world| world.pass_ms(29_000));
    pair.talk();
    assert_eq!(pair.worlds[owner].answer(reply), None, "the other one has not spoken");
    pair.worlds.iter_mut().for_each(|world| world.pass_ms(2_000));
    pair.talk();
    let answer = pair.worlds[owner].answer(reply);
    let is_pushed = matches!(answer, Some(PushAnswer::Pushed { id, .. }) if id == push);
    assert!(is_pushed, "it is stored here, and goes on by itself: {answer:?}");
    pair.loses = false;
    pair.worlds.iter_mut().for_each(|world| world.pass_ms(31_000));
    pair.rest();
    assert_eq!(pair.stored(push), [(5, false), (7, false)]);
    let told = pair.worlds[owner].fx.counters.of(PushCounter::OrdersOverdue);
    assert_eq!(told, 2, "once more in vain, and once more");
    pair.worlds.iter().for_each(|world| world.hub.audit());
}

#[test]
fn whichever_letters_are_lost_every_shard_has_an_order_once_and_closes_it() {
    for seed in 0..90 {
        let mut pair = Pair::with_away();
        let push = MessageId(1_000 + seed % 6);
        let owner = owner(push);
        let order = crate::harness::order(push, PushTarget::Tag(tag("t")));
        pair.weather = Some(Prng::new(seed));
        let reply = pair.worlds[owner].tell(PushCommand::Push(order));
        (0..8).for_each(|_| pair.pass_s(31));
        assert!(pair.worlds[owner].answer(reply).is_some(), "seed {seed}");
        pair.weather = None;
        // The owner asks shards that were silent, and shards that missed the Close report again.
        (0..3).for_each(|_| pair.pass_s(301));
        assert_eq!(pair.stored(push), [(5, false), (7, false)], "seed {seed}");
        for (shard, names) in [0..5, 5..12].into_iter().enumerate() {
            let world = &mut pair.worlds[shard];
            let waiting = waiting(world, names);
            assert!(waiting.iter().all(|&count| count == 1), "seed {seed}: {waiting:?}");
            assert_eq!(world.log.rows(Table::Orders), 1, "seed {seed}: counts alone");
            assert_eq!(world.fx.counters.of(PushCounter::OrdersGivenUp), 0, "seed {seed}");
            world.hub.audit();
        }
    }
}

#[test]
fn an_order_is_closed_without_a_shard_that_has_it_and_is_silent_and_that_one_goes_on() {
    let mut pair = Pair::with_away();
    let push = MessageId(1_000);
    let (owner, other) = (owner(push), 1 - owner(push));
    let order = crate::harness::order(push, PushTarget::Tag(tag("t")));
    let reply = pair.worlds[owner].tell(PushCommand::Push(order));
    pair.post(owner);
    // The other shard has the order; its log does not answer for the devices, and then all messages
    // are lost.
    pair.worlds[other].keeps = false;
    pair.post(other);
    assert!(pair.worlds[owner].answer(reply).is_some(), "both have it");
    pair.pass_s(290);
    pair.loses = true;
    let of = |pair: &Pair, counter| pair.worlds[owner].fx.counters.of(counter);
    pair.pass_s(20);
    assert_eq!(of(&pair, PushCounter::OrdersOverdue), 1, "it was asked");
    pair.pass_s(280);
    assert_eq!(of(&pair, PushCounter::OrdersGivenUp), 0);
    pair.pass_s(30);
    assert_eq!(of(&pair, PushCounter::OrdersGivenUp), 1);
    assert_eq!(pair.worlds[owner].log.rows(Table::Orders), 1, "counts alone");
    // Messages get through again, and the other shard was at work all the time: its devices get the
    // push once.
    pair.loses = false;
    pair.worlds[other].keeps = true;
    pair.worlds[other].store();
    pair.rest();
    assert_eq!(pair.stored(push), [(5, false), (7, false)]);
    for world in &mut pair.worlds {
        assert_eq!(world.log.rows(Table::Orders), 1, "counts alone");
        world.hub.audit();
    }
    pair.each_has_one(other);
}

#[test]
fn a_shard_that_is_at_work_for_long_is_not_given_up() {
    let mut pair = Pair::with_away();
    let push = MessageId(1_000);
    let (owner, other) = (owner(push), 1 - owner(push));
    let order = crate::harness::order(push, PushTarget::Tag(tag("t")));
    pair.worlds[owner].tell(PushCommand::Push(order));
    pair.post(owner);
    pair.worlds[other].keeps = false;
    (0..9).for_each(|_| pair.pass_s(301));
    let of = |counter| pair.worlds[owner].fx.counters.of(counter);
    assert_eq!((of(PushCounter::OrdersOverdue), of(PushCounter::OrdersGivenUp)), (9, 0));
    pair.worlds[other].keeps = true;
    pair.worlds[other].store();
    pair.rest();
    assert_eq!(pair.stored(push), [(5, false), (7, false)]);
    assert!(pair.worlds.iter().all(|world| world.log.rows(Table::Orders) == 1));
}

#[test]
fn a_shard_that_goes_leaves_what_its_rows_tell_whether_it_heard_that_an_order_is_closed_or_not() {
    for hears in [false, true] {
        let mut pair = Pair::with_away();
        let push = (1_000..).map(MessageId).find(|push| owner(*push) == 0).expect("some are");
        let order = crate::harness::order(push, PushTarget::Tag(tag("t")));
        pair.worlds[0].tell(PushCommand::Push(order));
        // A device of the other shard acknowledges the push while the order is open.
        pair.post(0);
        pair.worlds[1].turn();
        let seat = pair.worlds[1].seat("d5");
        pair.worlds[1].ack(&seat, &[push]);
        pair.worlds[1].pass_ms(300);
        for _ in 0..20 {
            pair.worlds[1].turn();
            pair.post(1);
            pair.worlds[0].turn();
            let closes =
                |(_, message): &(ShardId, OrderMessage)| matches!(message, OrderMessage::Close(..));
            pair.loses = !hears && pair.worlds[0].fx.peer_messages.iter().any(closes);
            pair.post(0);
        }
        let other = pair.worlds[1].log.clone();
        let world = &mut pair.worlds[0];
        world.log.take_over(&other);
        world.change(|settings, _| settings.shards = 1);
        for _ in 0..3 {
            world.restart();
            let counts = world.counts(push);
            let told = (counts.matched, counts.delivered, counts.stored);
            assert_eq!(told, (12, 1, 11), "hears: {hears}");
            rest(world);
            world.hub.audit();
        }
    }
}

/// Sets the collapse key of an order.
fn collapses(order: &mut PushOrder) {
    order.collapse = Some("k".into());
}

/// Ids of the queued pushes of a device, in the order in which it gets them when it binds.
fn got(world: &mut HubHarness, n: u32) -> Vec<MessageId> {
    world.deliveries();
    let seat = world.seat(&format!("d{n}"));
    let got = world.pushes().into_iter().map(|(id, _)| id).collect();
    world.close(&seat);
    got
}

#[test]
fn a_push_by_name_never_overtakes_an_order_to_many_that_was_given_before_it() {
    let slow = limited(|pushes| pushes.fan_out_slice = 1);
    let mut world = HubHarness::with(product(), Settings { limits: slow, ..settings() });
    away(&mut world, 0..20);
    let (older, _) = world.push_to(PushTarget::Product, collapses);
    world.hub.turn(world.now, &mut world.fx);
    let newer: Vec<_> = (10..20).map(|n| world.push(&format!("d{n}"), collapses)).collect();
    world.pass_ms(2_000);
    rest(&mut world);
    for (n, (newer, reply)) in (10..20).zip(newer) {
        assert_eq!(world.outcome(reply), Some(Outcome::Stored), "{n}");
        assert_eq!(got(&mut world, n), [newer], "{n}");
    }
    assert_eq!(got(&mut world, 3), [older]);
    let counts = world.counts(older);
    assert_eq!((counts.matched, counts.stored, counts.rejected), (20, 10, 10), "{counts:?}");
    world.hub.audit();
}

#[test]
fn a_device_that_is_here_has_pushes_in_the_order_of_their_orders() {
    let slow = limited(|pushes| pushes.fan_out_slice = 1);
    for keyed in [false, true] {
        let limits = slow.clone();
        let mut world = HubHarness::with(product(), Settings { limits, ..settings() });
        away(&mut world, 0..19);
        let seat = world.seat("d19");
        world.deliveries();
        let (all, _) = world.push_to(PushTarget::Product, |_| {});
        let (tagged, _) = world.push_to(PushTarget::Tag(tag("t")), |_| {});
        world.hub.turn(world.now, &mut world.fx);
        let named = world.real_id();
        let (one, _) = world.push("d19", |order| {
            if keyed {
                (order.id, order.idempotency_key) = (named, Some("once".into()));
            }
        });
        let one = if keyed { named } else { one };
        rest(&mut world);
        let pushes: Vec<_> = world.pushes().into_iter().map(|(id, _)| id).collect();
        assert_eq!(pushes, [all, one], "keyed: {keyed}");
        world.ack(&seat, &pushes);
        assert_eq!([all, tagged].map(|id| world.counts(id).matched), [20, 19]);
        world.hub.audit();
    }
}

#[test]
fn of_two_orders_to_many_the_later_holds_wherever_a_kill_comes() {
    let slow = || limited(|pushes| pushes.fan_out_slice = 2);
    for kept in 0.. {
        let mut world = HubHarness::with(product(), Settings { limits: slow(), ..settings() });
        let seat = |world: &mut HubHarness, n| world.seat(&format!("d{n}"));
        let seats: Vec<_> = (0..4).map(|n| seat(&mut world, n)).collect();
        away(&mut world, 4..12);
        world.settle();
        world.log.die_after(Some(kept));
        let (older, _) = world.push_to(PushTarget::Product, collapses);
        world.hub.turn(world.now, &mut world.fx);
        world.store();
        let (newer, reply) = world.push_to(PushTarget::Product, collapses);
        for _ in 0..8 {
            world.hub.turn(world.now, &mut world.fx);
            world.store();
        }
        world.ack(&seats[0], &[newer]);
        world.pass_ms(50);
        let (is_all, answer) = (!world.log.is_dead(), world.answer(reply));
        world.log.die_after(None);
        world.restart();
        rest(&mut world);
        if answer.is_some() {
            for n in 4..12 {
                assert_eq!(got(&mut world, n), [newer], "{kept}: device {n}");
            }
            let has_older = got(&mut world, 0).contains(&older);
            assert!(!has_older, "{kept}: the older one came after the newer was acknowledged");
            for id in [older, newer] {
                let counts = world.counts(id);
                assert_eq!((counts.running, counts.matched), (false, 12), "{kept}: {counts:?}");
            }
        }
        world.hub.audit();
        if is_all {
            return;
        }
    }
}

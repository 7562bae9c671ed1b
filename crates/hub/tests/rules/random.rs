//! Thousands of random operations: the invariants hold after each of them, every order is answered
//! once with one outcome per device, and no state is left at the end.

use crate::harness::{HubHarness, Seat, id, product, settings, tag};
use base::prng::Prng;
use model::counters::{Counters, ProcessCounter, PushCounter};
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::events::DeviceWhat;
use model::ports::log::{StoreError, Table};
use model::ports::pushes::{PushAnswer, PushCommand, PushOrder, PushTarget};
use model::product::Product;
use model::push::{Outcome, Priority};
use model::request::{PushDelivery, PushRequest};
use model::timeline::Space;
use model::zone::{CivilTime, LocalTime, Passed, Zone};
use std::collections::{BTreeMap, BTreeSet};

const DEVICES: u64 = 12;

/// Time zones within an hour of UTC.
const ZONES: [&str; 3] = ["Etc/GMT-1", "UTC", "Etc/GMT+1"];

struct Play {
    world: HubHarness,
    rng: Prng,
    /// Last seat of each device, by name.
    seats: BTreeMap<String, Seat>,
    /// Pushes that were sent, with the device's name.
    sent: Vec<(String, MessageId)>,
    /// Devices of list orders without an answer yet.
    lists: BTreeMap<u64, BTreeSet<DeviceId>>,
    /// Pushes of orders to many without an answer yet; `fan_outs` has those that were accepted.
    many: BTreeMap<u64, MessageId>,
    fan_outs: Vec<MessageId>,
    /// Pushes reported as stored that have not ended since: device, push, and Unix second of
    /// expiry.
    stored: BTreeMap<(DeviceId, MessageId), u32>,
    /// Pushes that ended at a device, possibly before their whole order is answered.
    over: BTreeSet<(DeviceId, MessageId)>,
    /// Id and expiry of the pushes of orders without an answer yet.
    ends: BTreeMap<u64, (MessageId, u32)>,
    /// Pushes for which a cancel was sent.
    cancelled: BTreeSet<MessageId>,
    conflicts: u32,
    restarts: u32,
    survived: u32,
}

impl Play {
    fn new(seed: u64) -> Play {
        let product = Product { offline_count_max: 6, inflight_max: 3, ..product() };
        let mut world = HubHarness::with(product, settings());
        world.keeps = false;
        Play {
            world,
            rng: Prng::new(seed),
            seats: BTreeMap::new(),
            sent: Vec::new(),
            lists: BTreeMap::new(),
            many: BTreeMap::new(),
            fan_outs: Vec::new(),
            stored: BTreeMap::new(),
            over: BTreeSet::new(),
            ends: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            conflicts: 0,
            restarts: 0,
            survived: 0,
        }
    }

    fn name(&mut self) -> String {
        let n = self.rng.below(DEVICES);
        if n.is_multiple_of(3) { format!("a-device-with-a-long-name-{n}") } else { format!("d{n}") }
    }

    fn step(&mut self) {
        match self.rng.below(18) {
            0..=2 => self.bind(),
            3 => self.close(),
            4..=7 => self.push(),
            8..=9 => self.acknowledge(),
            10 => self.pull(),
            11 => self.complete(),
            12 => {
                let longest = if self.rng.one_in(8) { 60_000 } else { 3_000 };
                self.pass(longest);
            }
            13 if self.rng.one_in(3) => {
                let (device, zone) = (id(&self.name()), ZONES.get(self.rng.below(4) as usize));
                let product = ProductKey::parse("p").expect("a name");
                let zone = zone.and_then(|name| Zone::parse(name));
                self.world.tell(PushCommand::SetZone { product, device, zone });
            }
            13 => {
                let name = self.name();
                let tags = (0..self.rng.below(3)).map(|n| tag(&format!("t{n}"))).collect();
                let product = ProductKey::parse("p").expect("a name");
                self.world.tell(PushCommand::SetTags { product, device: id(&name), tags });
            }
            14 => {
                let (device, blocked) = (id(&self.name()), self.rng.one_in(3));
                let product = ProductKey::parse("p").expect("a name");
                self.world.tell(PushCommand::Block { product, device, blocked });
            }
            15 if self.rng.one_in(2) => self.cancel(),
            15 => self.order_with_key(),
            16 if self.rng.one_in(12) => self.restart(),
            _ => {
                let device = id(&self.name());
                let product = ProductKey::parse("p").expect("a name");
                self.world.tell(PushCommand::Kick { product, device, addrs: Vec::new() });
            }
        }
        self.look();
        self.world.hub.audit();
        self.law();
    }

    fn bind(&mut self) {
        let name = self.name();
        let mut bind = HubHarness::bind(&name);
        bind.inflight_max = self.rng.below(5) as u16;
        bind.pulls = self.rng.one_in(3);
        bind.tags = self.rng.one_in(3).then(|| vec![tag("t1")]);
        bind.last_id = self.rng.one_in(2).then(|| MessageId(self.rng.below(300)));
        let again = self.seats.get(&name).filter(|_| self.rng.clone().one_in(4));
        let conn = match again {
            Some(seat) => seat.conn,
            None => self.world.conn(),
        };
        if let PushDelivery::Bound(bound) = self.world.try_bind(conn, bind) {
            let device = bound.device;
            self.seats.insert(name, Seat { conn, device, bound: *bound });
        }
    }

    /// Cancels some push of any kind, or an unknown one.
    fn cancel(&mut self) {
        let stored = self.stored.keys().map(|(_, push)| *push);
        let many = self.fan_outs.iter().rev().take(2).copied();
        let known: Vec<_> = many.chain(stored).collect();
        let at = self.rng.below(known.len() as u64 + 1) as usize;
        let push = known.get(at).copied().unwrap_or(MessageId(1 << 61));
        let id = self.world.message_id();
        self.world.tell(PushCommand::Cancel { id, push, product: None });
        self.cancelled.insert(push);
    }

    fn seat(&mut self) -> Option<Seat> {
        let name = self.name();
        self.seats.get(&name).cloned()
    }

    fn close(&mut self) {
        if let Some(seat) = self.seat() {
            self.world.close(&seat);
        }
    }

    fn push(&mut self) {
        let rng = &mut self.rng;
        let (high, key) = (rng.one_in(4), rng.below(6));
        let wait_ms = [0, 500, 20_000][rng.below(3) as usize];
        let time_to_live_s = [0, 15, 3_600][rng.below(3) as usize];
        let change = |order: &mut PushOrder| {
            (order.wait_ms, order.time_to_live_s) = (wait_ms, time_to_live_s);
            order.priority = if high { Priority::High } else { Priority::Normal };
            order.collapse = (key < 2).then(|| format!("k{key}").into());
            order.receipts = true;
        };
        match self.rng.below(6) {
            0 => {
                let (is_local, minutes) = (self.rng.one_in(3), self.rng.below(20) as u32);
                let now = Zone::UTC.shows(self.world.now.wall_ms).minutes();
                let at = CivilTime::of_minutes(now + minutes).expect("a time");
                let time = LocalTime { at, zone: Zone::UTC, passed: Passed::Send };
                let (push, reply) = self.world.push_to(PushTarget::Product, |order| {
                    change(order);
                    order.local = is_local.then_some(time);
                });
                self.many.insert(reply, push);
            }
            1 => {
                let (push, reply) = self.world.push_to(PushTarget::Tag(tag("t1")), change);
                self.many.insert(reply, push);
            }
            _ => {
                let count = 1 + self.rng.below(4);
                let devices: Vec<_> = (0..count).map(|_| id(&self.name())).collect();
                let open = devices.iter().cloned().collect();
                let (push, reply) = self.world.push_to(PushTarget::Devices(devices), change);
                self.ends.insert(reply, (push, self.world.now.unix_s() + time_to_live_s));
                self.lists.insert(reply, open);
            }
        }
    }

    fn order_with_key(&mut self) {
        let (key, time_to_live_s) =
            (self.rng.below(40), [0, 15, 3_600][self.rng.below(3) as usize]);
        let message = self.world.real_id();
        let devices: BTreeSet<_> = (0..3).map(|_| id(&self.name())).collect();
        let change = |order: &mut PushOrder| {
            (order.id, order.time_to_live_s, order.receipts) = (message, time_to_live_s, true);
            order.idempotency_key = Some(format!("order-{key}").into());
        };
        let target = PushTarget::Devices(devices.iter().cloned().collect());
        let reply = self.world.push_to(target, change).1;
        self.ends.insert(reply, (message, self.world.now.unix_s() + time_to_live_s));
        self.lists.insert(reply, devices);
    }

    /// Kills the process and starts it again. Only pushes that the log has may remain queued.
    fn restart(&mut self) {
        self.look();
        assert_eq!(self.world.crash(), 0);
        self.world.hub.audit();
        self.world.hub.restored(self.world.now, &mut self.world.fx);
        // Open orders to many go on after the restart.
        for _ in 0..20 {
            self.world.pass_ms(200);
            self.answer_store(Ok(()));
        }
        let waiting = self.world.hub.status().waiting;
        assert_eq!(self.world.log.kept(Space::Pushes).len() as u64, waiting);
        let now_s = self.world.now.unix_s();
        let stored = std::mem::take(&mut self.stored);
        let mut expected = BTreeMap::<_, u32>::new();
        let stored = stored.into_iter().filter(|((_, push), _)| !self.cancelled.contains(push));
        for ((device, _), _) in stored.filter(|(_, end)| *end > now_s) {
            *expected.entry(device).or_default() += 1;
        }
        for (device, count) in expected {
            let waiting = self.world.state(device.as_str()).map_or(0, |state| state.waiting);
            assert!(waiting >= count, "{count} were called stored for {device}, not {waiting}");
            self.survived += count;
        }
        self.seats.clear();
        self.sent.clear();
        self.lists.clear();
        self.ends.clear();
        self.over.clear();
        self.many.clear();
        self.restarts += 1;
    }

    fn acknowledge(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = self.rng.below(self.sent.len() as u64) as usize;
        let (name, push) = self.sent.swap_remove(at);
        let Some(seat) = self.seats.get(&name).cloned() else { return };
        if self.rng.one_in(3) {
            let (upto, ids) = (Some(push), Vec::new());
            self.world.ask(seat.conn, PushRequest::Ack { device: seat.device, upto, ids });
        } else {
            self.world.ack(&seat, &[push]);
        }
    }

    fn pull(&mut self) {
        let Some(seat) = self.seat() else { return };
        let (after, count) = (MessageId(self.rng.below(200)), 1 + self.rng.below(4) as u16);
        let pull = PushRequest::Pull { term: 0, device: seat.device, after, count };
        self.world.ask(seat.conn, pull);
    }

    fn complete(&mut self) {
        let fails = self.rng.one_in(6);
        let error = [StoreError::Full, StoreError::Busy][self.rng.below(2) as usize];
        self.answer_store(if fails { Err(error) } else { Ok(()) });
    }

    fn answer_store(&mut self, result: Result<(), StoreError>) {
        let seed = self.rng.draw();
        let calls = std::cell::Cell::new(seed);
        self.world.complete_as(|_| {
            calls.set(calls.get().wrapping_add(seed | 1));
            // Even in a batch that fails, some calls succeed.
            if base::prng::Prng::new(calls.get()).one_in(4) { Ok(()) } else { result }
        });
    }

    fn pass(&mut self, longest_ms: u64) {
        let ms = self.rng.below(longest_ms);
        self.world.pass_ms(ms);
    }

    fn look(&mut self) {
        let names: BTreeMap<_, _> =
            self.seats.iter().map(|(name, seat)| (seat.conn, name.clone())).collect();
        for (conn, delivery) in self.world.deliveries() {
            if let (PushDelivery::Push { push, .. }, Some(name)) = (delivery, names.get(&conn)) {
                self.sent.push((name.clone(), push.id));
            }
        }
        for (reply, answer) in std::mem::take(&mut self.world.fx.answers) {
            if answer == PushAnswer::Conflict {
                self.conflicts += 1;
                self.lists.remove(&reply).expect("an order with a key");
            }
            let many = self.many.remove(&reply);
            let PushAnswer::Pushed { id, outcomes, .. } = answer else { continue };
            self.fan_outs.extend(many);
            let own = self.ends.remove(&reply).filter(|(own, _)| *own == id);
            let Some(mut open) = self.lists.remove(&reply) else { continue };
            for (device, outcome) in outcomes {
                if let (Outcome::Stored, Some((_, end))) = (outcome, own) {
                    self.stored.insert((device.clone(), id), end);
                }
                assert!(open.remove(&device), "{device} had an outcome already, now {outcome:?}");
            }
            assert!(open.is_empty(), "no outcome for {open:?}");
        }
        for event in self.world.events() {
            if let DeviceWhat::Pushed { id, .. } = event.what {
                self.over.insert((event.device, id));
            }
        }
        let over = &self.over;
        self.stored.retain(|push, _| !over.contains(push));
    }

    fn law(&mut self) {
        let fan_outs = self.fan_outs.clone();
        for push in fan_outs {
            let c = self.world.counts(push);
            let sum = c.pending + c.delivered + c.stored + c.expired + c.rejected + c.cancelled;
            assert_eq!(c.matched, sum, "{push:?}: {c:?}");
        }
    }

    /// Disconnects all devices, answers all log calls, and lets time pass until no state is left.
    fn end(mut self) -> Counters {
        for seat in self.seats.values().cloned().collect::<Vec<_>>() {
            self.world.close(&seat);
        }
        // A push by the devices' clocks begins up to 80 minutes later, and lives an hour.
        for _ in 0..32 {
            self.world.turn();
            self.answer_store(Ok(()));
            self.world.pass_ms(300_000);
            self.look();
        }
        assert!(self.lists.is_empty(), "orders without an answer: {:?}", self.lists);
        assert_eq!(self.world.log.kept(Space::Pushes), [], "the log keeps something");
        for push in self.fan_outs.clone() {
            let counts = self.world.counts(push);
            assert_eq!((counts.running, counts.pending, counts.stored), (false, 0, 0));
        }
        self.world.settle();
        self.world.hub.audit_idle();
        let product = ProductKey::parse("p").expect("a name");
        self.world.tell(PushCommand::DropProduct(product));
        self.answer_store(Ok(()));
        self.world.turn();
        self.world.settle();
        assert_eq!(self.world.log.rows(Table::Devices), 0, "rows go with the product");
        assert_eq!(self.world.hub.status().devices, 0);
        self.world.hub.audit_idle();
        *self.world.fx.counters
    }
}

#[test]
fn whatever_happens_the_invariants_hold() {
    let (mut counters, mut read) = (Counters::default(), 0);
    let (mut conflicts, mut restarts, mut survived) = (0, 0, 0);
    for seed in 0..13 {
        let mut play = Play::new(seed);
        for _ in 0..600 {
            play.step();
        }
        conflicts += play.conflicts;
        restarts += play.restarts;
        survived += play.survived;
        read += play.world.log.read;
        counters.add(&play.end());
    }
    let quiet = [conflicts, restarts, survived, read as u32 / 10].iter().any(|&count| count < 20);
    assert!(!quiet, "{conflicts} {restarts} {survived} {read}");
    // A counter that stays zero means that the plays did not test that behaviour.
    let quiet = [
        PushCounter::Delivered,
        PushCounter::Stored,
        PushCounter::Expired,
        PushCounter::Evicted,
        PushCounter::Collapsed,
        PushCounter::Cancelled,
        PushCounter::Rejected,
        PushCounter::Resent,
        PushCounter::BindsRefused,
    ];
    let quiet = quiet.into_iter().filter(|&counter| counters.of(counter) < 50);
    assert_eq!(quiet.collect::<Vec<_>>(), []);
    assert!(counters.of(ProcessCounter::StoreFailures) >= 50);
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let run = |seed| {
        let mut play = Play::new(seed);
        (0..300).for_each(|_| play.step());
        (play.world.fx.counters.clone(), play.world.hub.status())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

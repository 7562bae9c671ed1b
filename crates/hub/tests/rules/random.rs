//! Thousands of operations in any order: the invariants hold after each of them, every order is
//! answered once with one outcome a device, and nothing is left when all is over.

use crate::world::{Seat, World, id, product, settings, tag};
use base::prng::Prng;
use model::event::{Counter, Counters};
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::control::{Answer, Command, PushOrder, Target};
use model::ports::journal::{Entry, StoreError};
use model::product::Product;
use model::push::Priority;
use model::request::{Delivery, Request};
use std::collections::{BTreeMap, BTreeSet};

const DEVICES: u64 = 12;

struct Play {
    world: World,
    rng: Prng,
    /// Devices by name: the seat they had last.
    seats: BTreeMap<String, Seat>,
    /// Pushes each connection was sent.
    sent: Vec<(String, MessageId)>,
    /// Lists whose answers are open.
    lists: BTreeMap<u64, BTreeSet<DeviceId>>,
    fan_outs: Vec<MessageId>,
    /// What the store keeps, by device and push.
    kept: BTreeSet<(String, MessageId)>,
}

impl Play {
    fn new(seed: u64) -> Play {
        let product = Product { offline_count_max: 6, inflight_max: 3, ..product() };
        let mut world = World::with(product, settings());
        world.keeps = false;
        Play {
            world,
            rng: Prng::new(seed),
            seats: BTreeMap::new(),
            sent: Vec::new(),
            lists: BTreeMap::new(),
            fan_outs: Vec::new(),
            kept: BTreeSet::new(),
        }
    }

    fn name(&mut self) -> String {
        let n = self.rng.below(DEVICES);
        if n.is_multiple_of(3) { format!("a-device-with-a-long-name-{n}") } else { format!("d{n}") }
    }

    fn step(&mut self) {
        match self.rng.below(16) {
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
            13 => {
                let name = self.name();
                let tags = (0..self.rng.below(3)).map(|n| tag(&format!("t{n}"))).collect();
                let product = ProductKey::parse("p").expect("a name");
                self.world.tell(Command::SetTags { product, device: id(&name), tags });
            }
            14 => {
                let (device, blocked) = (id(&self.name()), self.rng.one_in(3));
                let product = ProductKey::parse("p").expect("a name");
                self.world.tell(Command::Block { product, device, blocked });
            }
            _ => {
                let device = id(&self.name());
                let product = ProductKey::parse("p").expect("a name");
                self.world.tell(Command::Kick { product, device, addrs: Vec::new() });
            }
        }
        self.look();
        self.world.hub.audit();
        self.law();
    }

    fn bind(&mut self) {
        let name = self.name();
        let mut bind = World::bind(&name);
        bind.inflight_max = self.rng.below(5) as u16;
        bind.pulls = self.rng.one_in(3);
        bind.tags = self.rng.one_in(3).then(|| vec![tag("t1")]);
        bind.last_id = self.rng.one_in(2).then(|| MessageId(self.rng.below(300)));
        let again = self.seats.get(&name).filter(|_| self.rng.clone().one_in(4));
        let conn = match again {
            Some(seat) => seat.conn,
            None => self.world.conn(),
        };
        if let Delivery::Bound(bound) = self.world.try_bind(conn, bind) {
            let device = bound.device;
            self.seats.insert(name, Seat { conn, device, bound: *bound });
        }
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
                let push = self.world.push_to(Target::Product, change).0;
                self.fan_outs.push(push);
            }
            1 => {
                let push = self.world.push_to(Target::Tag(tag("t1")), change).0;
                self.fan_outs.push(push);
            }
            _ => {
                let count = 1 + self.rng.below(4);
                let devices: Vec<_> = (0..count).map(|_| id(&self.name())).collect();
                let open = devices.iter().cloned().collect();
                let reply = self.world.push_to(Target::Devices(devices), change).1;
                self.lists.insert(reply, open);
            }
        }
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
            self.world.ask(seat.conn, Request::Ack { device: seat.device, upto, ids });
        } else {
            self.world.ack(&seat, &[push]);
        }
    }

    fn pull(&mut self) {
        let Some(seat) = self.seat() else { return };
        let (after, count) = (MessageId(self.rng.below(200)), 1 + self.rng.below(4) as u16);
        let pull = Request::Pull { term: 0, device: seat.device, after, count };
        self.world.ask(seat.conn, pull);
    }

    fn complete(&mut self) {
        let fails = self.rng.one_in(6);
        let error = [StoreError::Full, StoreError::Busy][self.rng.below(2) as usize];
        self.answer_store(if fails { Err(error) } else { Ok(()) });
    }

    fn answer_store(&mut self, result: Result<(), StoreError>) {
        for entry in self.world.complete(result) {
            // A store that cannot take a push can still take its end: what is gone costs nothing.
            match entry {
                Entry::Waits { push, device } if result.is_ok() => {
                    assert!(self.kept.insert((device.to_string(), push.id)), "kept twice");
                }
                Entry::Over { device, id, .. } => {
                    self.kept.remove(&(device.to_string(), id));
                }
                _ => {}
            }
        }
    }

    fn pass(&mut self, longest_ms: u64) {
        let ms = self.rng.below(longest_ms);
        self.world.pass_ms(ms);
    }

    fn look(&mut self) {
        let names: BTreeMap<_, _> =
            self.seats.iter().map(|(name, seat)| (seat.conn, name.clone())).collect();
        for (conn, delivery) in self.world.deliveries() {
            if let (Delivery::Push { push, .. }, Some(name)) = (delivery, names.get(&conn)) {
                self.sent.push((name.clone(), push.id));
            }
        }
        self.world.events();
        for (reply, answer) in std::mem::take(&mut self.world.fx.answers) {
            let Answer::Pushed { outcomes, .. } = answer else { continue };
            let Some(mut open) = self.lists.remove(&reply) else { continue };
            for (device, outcome) in outcomes {
                assert!(open.remove(&device), "{device} had an outcome already, now {outcome:?}");
            }
            assert!(open.is_empty(), "no outcome for {open:?}");
        }
    }

    fn law(&mut self) {
        let fan_outs = self.fan_outs.clone();
        for push in fan_outs {
            let c = self.world.counts(push);
            let sum = c.pending + c.delivered + c.stored + c.expired + c.rejected;
            assert_eq!(c.matched, sum, "{push:?}: {c:?}");
        }
    }

    /// Everybody leaves, the store catches up, time passes.
    fn end(mut self) -> Counters {
        for seat in self.seats.values().cloned().collect::<Vec<_>>() {
            self.world.close(&seat);
        }
        for _ in 0..20 {
            self.world.turn();
            self.answer_store(Ok(()));
            self.world.pass_ms(300_000);
            self.look();
        }
        assert!(self.lists.is_empty(), "orders without an answer: {:?}", self.lists);
        assert!(self.kept.is_empty(), "the store keeps {:?}", self.kept);
        for push in self.fan_outs.clone() {
            let counts = self.world.counts(push);
            assert_eq!((counts.running, counts.pending, counts.stored), (false, 0, 0));
        }
        self.world.hub.audit_idle();
        let product = ProductKey::parse("p").expect("a name");
        self.world.tell(Command::DropProduct(product));
        self.answer_store(Ok(()));
        self.world.turn();
        assert_eq!(self.world.hub.status().devices, 0);
        self.world.hub.audit_idle();
        self.world.fx.counters
    }
}

#[test]
fn whatever_happens_the_invariants_hold() {
    let mut counters = Counters::default();
    for seed in 0..12 {
        let mut play = Play::new(seed);
        for _ in 0..600 {
            play.step();
        }
        counters.add(&play.end());
    }
    // A play in which something never happens shows nothing about it.
    let quiet = [
        Counter::PushesDelivered,
        Counter::PushesStored,
        Counter::PushesExpired,
        Counter::PushesEvicted,
        Counter::PushesCollapsed,
        Counter::PushesRejected,
        Counter::PushesResent,
        Counter::StoreFailures,
        Counter::BindsRefused,
    ];
    let quiet = quiet.into_iter().filter(|&counter| counters.of(counter) < 50);
    assert_eq!(quiet.collect::<Vec<_>>(), []);
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

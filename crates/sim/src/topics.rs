//! A world of topics: the same shards, network and disks, with clients of MQTT.
//!
//! First everybody subscribes, in fair weather; then messages are published while connections
//! break, the server's machine dies and time leaps; then all is calm again, and after a while every
//! promise must have been kept ([`book`]).

pub mod book;
pub mod callers;

use crate::copies::SimReplicators;
use crate::disk::{DiskFaults, SimDisk};
use crate::fabric::{Fabric, HostId};
use crate::net::SimNet;
use crate::post::SimMailboxes;
use crate::simulation::{ADDRESS, Parts, Server, SimPlan, SimShard, raise};
use crate::weather::Weather;
use base::hash::HashKey;
use base::prng::Prng;
use broker::Broker;
use callers::{CallerLogic, CallerMood};
use model::id::ShardId;
use model::limits::{Limits, TopicLimits};
use model::ports::control::Status;
use model::service::ServiceKind;
use net::Shard;
use net::shard::{Census, ShardMessage};
use server::shard_logic::Mail;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A world of topics.
pub struct TopicSimulation {
    plan: SimPlan,
    rng: Prng,
    fabric: Rc<RefCell<Fabric>>,
    disk: Rc<RefCell<SimDisk>>,
    events: Rc<RefCell<crate::simulation::Feed>>,
    copies: Rc<RefCell<SimReplicators>>,
    limits: Arc<Limits>,
    server: Server,
    callers: SimShard<CallerLogic>,
    callers_host: HostId,
    /// Completions that found a full mailbox.
    completed: Vec<(ShardId, ServiceKind, Vec<model::ports::log::Completion>)>,
    crashes: u64,
}

/// Counts of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicStory {
    /// Messages of QoS 1 and 2 that were taken.
    pub taken: usize,
    /// Messages that were refused.
    pub refused: u64,
    /// Messages that were heard.
    pub deliveries: u64,
    /// Crashes of the server.
    pub crashes: u64,
    /// Simulated seconds.
    pub seconds: u64,
}

impl TopicSimulation {
    /// Runs a world from its seed to its end. Panics where something does not hold.
    pub fn run(seed: u64, steps: u64) -> TopicStory {
        let mut world = TopicSimulation::new(plan(seed, steps));
        world.live_until("all are subscribed", |world| world.logic().all_subscribed());
        let weather = world.plan.weather.clone();
        world.fabric.borrow_mut().set_weather(weather.clone());
        world.disk.borrow_mut().set_faults(world.plan.faults);
        world.set_mood(CallerMood::Wild);
        for _ in 0..steps {
            world.whims();
            world.step();
        }
        world.disk.borrow_mut().set_faults(DiskFaults::default());
        if world.disk.borrow().is_failed() {
            world.crash();
        }
        world.fabric.borrow_mut().set_weather(weather.cleared());
        world.plan.upset_in = 0;
        let now = world.fabric.borrow().now();
        world.copies.borrow_mut().clear(now);
        world.set_mood(CallerMood::Calm);
        let subscriptions: Vec<_> = world.logic().subscriptions().collect();
        world.live_until("every promise is kept", |world| {
            world.logic().all_settled()
                && world.logic().book.broken(&subscriptions).is_empty()
                && world.status().queued == 0
        });
        let broken = world.logic().book.broken(&subscriptions);
        assert_eq!(broken, [""; 0]);
        let status = world.status();
        assert_eq!(status.sessions, subscriptions.len() as u64);
        world.live_until("the directory agrees", TopicSimulation::copies_agree);
        world.story()
    }

    fn new(plan: SimPlan) -> TopicSimulation {
        let seed = plan.seed;
        let fabric = Rc::new(RefCell::new(Fabric::new(seed ^ 1, Weather::calm())));
        let disk = SimDisk::new(seed ^ 2, plan.shards, DiskFaults::default());
        let disk = Rc::new(RefCell::new(disk));
        let limits = Arc::new(plan.limits.clone());
        let mut rng = Prng::new(seed ^ 3);
        let callers_host = fabric.borrow_mut().add_host();
        let post = Rc::new(RefCell::new(SimMailboxes::new(&[callers_host], usize::MAX)));
        let settings = net::Settings {
            shard: ShardId(0),
            shards: 1,
            hash_key: HashKey::new(1, 2),
            limits: Arc::new(Limits::default()),
            doors: Vec::new(),
            census: Arc::new(Census::default()),
            seed,
            secrets: [9; 32],
        };
        let net = SimNet::new(fabric.clone(), post, ShardId(0));
        let mut callers = CallerLogic::new(seed ^ 4, ADDRESS, plan.devices);
        callers.book.refuses = plan.faults.refuse_in != 0;
        let events = Rc::default();
        let hash_key = HashKey::new(rng.draw(), rng.draw());
        let names = (0..plan.devices).map(|number| CallerLogic::who(number).key());
        let copies = Rc::new(RefCell::new(SimReplicators::new(seed ^ 6, names.collect())));
        let parts =
            Parts { fabric: &fabric, disk: &disk, events: &events, copies: &copies, further: None };
        let server = raise(&plan, &limits, hash_key, &parts);
        let (completed, crashes) = (Vec::new(), 0);
        let callers = Shard::new(settings, net, callers);
        TopicSimulation {
            plan,
            rng,
            fabric,
            disk,
            events,
            copies,
            limits,
            server,
            callers,
            callers_host,
            completed,
            crashes,
        }
    }

    fn logic(&self) -> &CallerLogic {
        self.callers.logic()
    }

    fn set_mood(&mut self, mood: CallerMood) {
        self.callers.logic_mut().set_mood(mood);
        self.fabric.borrow_mut().stir(self.callers_host);
    }

    fn story(&self) -> TopicStory {
        let book = &self.logic().book;
        TopicStory {
            taken: book.taken(),
            refused: book.refused(),
            deliveries: book.deliveries(),
            crashes: self.crashes,
            seconds: u64::from(self.fabric.borrow().now().secs()),
        }
    }

    fn status(&self) -> Status {
        let mut status = Status::default();
        self.server
            .shards()
            .for_each(|shard| shard.logic().service::<Broker>().status(&mut status));
        status
    }

    fn whims(&mut self) {
        let mut fabric = self.fabric.borrow_mut();
        let leap_in = fabric.weather().leap_in;
        if fabric.strikes(leap_in) {
            let most = fabric.weather().leap_ms_max;
            let span = fabric.below(most + 1);
            fabric.pass(Duration::from_millis(span));
        }
        drop(fabric);
        let failed = self.disk.borrow().is_failed() && self.rng.one_in(200);
        if failed || self.plan.crash_in != 0 && self.rng.one_in(self.plan.crash_in) {
            self.crash();
        }
    }

    /// The machine dies and the server is started again over what the disk kept.
    fn crash(&mut self) {
        self.crashes += 1;
        self.disk.borrow_mut().restart();
        self.completed.clear();
        for &host in &self.server.hosts {
            self.fabric.borrow_mut().kill(host);
        }
        let hash_key = HashKey::new(self.rng.draw(), self.rng.draw());
        let TopicSimulation { fabric, disk, events, copies, .. } = &*self;
        let parts = Parts { fabric, disk, events, copies, further: None };
        self.server = raise(&self.plan, &self.limits, hash_key, &parts);
    }

    fn step(&mut self) {
        if self.rng.one_in(4) {
            self.complete();
        }
        self.copy();
        let Some(host) = self.fabric.borrow_mut().next_host() else {
            return self.fabric.borrow_mut().pass(Duration::from_millis(100));
        };
        if host == self.callers_host {
            self.callers.turn();
        } else {
            self.server.round(host, &mut self.rng);
        }
        let spent_us = 1 + self.rng.below(200);
        self.fabric.borrow_mut().pass(Duration::from_micros(spent_us));
    }

    /// The disk goes on with some shard's calls.
    fn complete(&mut self) {
        let shard = ShardId(self.rng.below(u64::from(self.plan.shards)) as u16);
        let now_s = self.fabric.borrow().now().unix_s();
        let done = self.disk.borrow_mut().work(now_s, shard);
        self.completed.extend(done.into_iter().map(|(service, done)| (shard, service, done)));
        for (shard, service, done) in std::mem::take(&mut self.completed) {
            let shard_message = ShardMessage::Mail(Mail::Completions(service, done.clone()));
            if self.server.post.borrow_mut().put(None, shard, shard_message).is_ok() {
                let host = self.server.hosts[usize::from(shard.0)];
                self.fabric.borrow_mut().ring(host);
            } else {
                self.completed.push((shard, service, done));
            }
        }
    }

    /// Has the replicator do its due work, and shards take their notices.
    fn copy(&mut self) {
        let now = self.fabric.borrow().now();
        let words = {
            let mut copies = self.copies.borrow_mut();
            if copies.strikes(self.plan.upset_in) {
                copies.upset(now);
            }
            copies.turn(now);
            copies.words()
        };
        let (left, told) = self.server.tell(words);
        for shard in told {
            self.fabric.borrow_mut().ring(self.server.hosts[usize::from(shard.0)]);
        }
        self.copies.borrow_mut().words_again(left);
    }

    /// Whether memory and directory agree: by the audit, and by what brokers know.
    fn copies_agree(&self) -> bool {
        let (copies, now) = (self.copies.borrow(), self.fabric.borrow().now());
        if !copies.is_settled(now) || self.server.post.borrow().waiting() > 0 {
            return false;
        }
        let who = (0..self.plan.devices).map(CallerLogic::who);
        copies.agrees(&self.server.trackers(), &self.server.online(now, who))
    }

    /// How things are, for whoever wonders.
    fn describe(&self) -> String {
        let logic = self.logic();
        let subscriptions: Vec<_> = logic.subscriptions().collect();
        let ends = |counters: &model::counters::Counters| {
            let ends = model::close::CloseReason::ALL.iter();
            let ends = ends.map(|reason| (reason.name(), counters.closed_of(*reason)));
            ends.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
        };
        let servers = self.server.shards().map(|shard| ends(&shard.handle().counters));
        format!(
            "{:#?} queued {}, crashes {}, shards {}, {} ends here {:?} there {:?} {:?}",
            logic.book.broken(&subscriptions),
            self.status().queued,
            self.crashes,
            self.plan.shards,
            logic.describe(),
            ends(&self.callers.handle().counters),
            servers.collect::<Vec<_>>(),
            self.plan.weather,
        ) + &self.copies.borrow().describe(self.fabric.borrow().now())
    }

    /// Steps until something holds, looking once a second. Panics when it never does.
    fn live_until(&mut self, what: &str, holds: impl Fn(&TopicSimulation) -> bool) {
        let began = self.fabric.borrow().now().mono;
        let mut looked = began;
        loop {
            self.step();
            let now = self.fabric.borrow().now().mono;
            if now - looked < Duration::from_secs(1) {
                continue;
            }
            looked = now;
            if holds(self) {
                return;
            }
            if now - began > Duration::from_secs(600) {
                panic!("after ten minutes still not: {what}. {}", self.describe());
            }
        }
    }
}

/// The plan that follows from a seed.
fn plan(seed: u64, steps: u64) -> SimPlan {
    let mut rng = Prng::new(seed);
    let topics = TopicLimits {
        flaps_max: u16::MAX,
        queue_count_max: 1 << 20,
        inflight_max: 1 + rng.below(20) as u16,
        receive_max: 1 + rng.below(20) as u16,
        ..TopicLimits::default()
    };
    let plan = SimPlan::calm(seed, 1 + rng.below(4) as u16, 2 + rng.below(9) as u32);
    SimPlan {
        crash_in: if rng.one_in(2) { 0 } else { 1 + steps / 3 },
        weather: Weather { no_descriptor_in: 0, stall_in: 0, ..Weather::drawn(&mut rng) },
        faults: DiskFaults {
            refuse_in: if rng.one_in(2) { 0 } else { 5 + rng.below(40) },
            fail_in: if rng.one_in(3) { 100 + rng.below(400) } else { 0 },
        },
        limits: Limits { binds_per_s: 1_000, topics, ..plan.limits.clone() },
        upset_in: [0, 10, 60, 300][rng.below(4) as usize],
        move_in: [0, 2, 7, 50][rng.below(4) as usize],
        ..plan
    }
}

//! A whole world: a server's shards, the virtual clients' shard, an application, logs, a network.
//!
//! A step is one turn of one shard, with whatever the outside does before it. After the wild part
//! comes the finale: the weather clears, every device binds and fetches what waits for it, then all
//! leave; what must hold at the end is in [`checks`](self::checks).

mod build;
mod checks;
mod life;
mod outside;

pub use build::{ADDRESS, SimPlan, product};
pub(crate) use build::{Parts, raise};
pub(crate) use life::Server;
pub(crate) use outside::Feed;
pub use outside::SimOutside;

use crate::application::{Application, ApplicationQuestion};
use crate::copies::SimReplicators;
use crate::disk::{DiskFaults, HOME, SimDisk};
use crate::fabric::{Fabric, HostId, Socket};
use crate::net::SimNet;
use crate::post::SimMailboxes;
use crate::virtual_clients::{ClientLogic, ClientMood};
use base::prng::Prng;
use model::id::{DeviceId, MessageId, ShardId};
use model::limits::Limits;
use model::ports::control::{Command, Reply};
use model::ports::pushes::{DeviceState, PushCommand, PushTarget};
use model::request::owner;
use model::service::{Service, ServiceKind};
use net::Shard;
use net::shard::{Census, ShardMessage, ShardMessageOf};
use server::shard_logic::{Mail, ServerLogic};
use server::switchboard;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The server's logic in a simulated world.
pub type SimLogic = ServerLogic<SimOutside>;
type ShardMessageFor<H> = ShardMessageOf<H, Socket>;
/// A shard over the simulated network.
pub type SimShard<H> = Shard<SimNet<ShardMessageFor<H>>, H>;
type PostOf<H> = Rc<RefCell<SimMailboxes<ShardMessageFor<H>>>>;

/// Steps between two audits.
const AUDIT_EVERY: u64 = 40;

/// Simulation of a whole server: its shards, its clients and an application, from a seed.
pub struct Simulation {
    plan: SimPlan,
    rng: Prng,
    fabric: Rc<RefCell<Fabric>>,
    disk: Rc<RefCell<SimDisk>>,
    events: Rc<RefCell<outside::Feed>>,
    copies: Rc<RefCell<SimReplicators>>,
    further: build::Further,
    limits: Arc<Limits>,
    server: Server,
    virtual_clients: SimShard<ClientLogic>,
    virtual_clients_host: HostId,
    virtual_clients_census: Arc<Census>,
    application: Application,
    /// Completions that found a full mailbox.
    completed: Vec<(ShardId, ServiceKind, Vec<model::ports::log::Completion>)>,
    names: BTreeMap<DeviceId, u32>,
    steps: u64,
    crashes: u64,
    orders_left: u64,
}

/// Counts of a run, to show that something happened in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Story {
    /// Turns taken.
    pub steps: u64,
    /// Simulated seconds.
    pub seconds: u64,
    /// Orders of the application.
    pub orders: usize,
    /// Crashes of the server.
    pub crashes: u64,
    /// Faults of the disk.
    pub faults: u64,
    /// Faults of the directory.
    pub upsets: u64,
    /// Times a busy thread handed shards over, since its load asked for it.
    pub handed_over: u64,
    /// Times a thread gave its shards back, since the first could do its work as well.
    pub given_back: u64,
    /// Binds that the last life of the server accepted.
    pub binds: u64,
    /// Connections that virtual clients made.
    pub connections: u64,
    /// Answers to the application, by name.
    pub told: BTreeMap<&'static str, u64>,
    /// How the server's connections ended, by reason, in its last life.
    pub closed: BTreeMap<&'static str, u64>,
}

impl Simulation {
    /// Runs a world from its seed to its end. Panics where something does not hold.
    pub fn run(seed: u64, steps: u64) -> Story {
        let mut world = Simulation::new(SimPlan::drawn(seed, steps));
        for _ in 0..steps {
            world.step();
        }
        world.finale();
        world.story()
    }

    /// One turn of one shard, with whatever the outside does before it.
    pub fn step(&mut self) {
        self.steps += 1;
        self.whims();
        if self.orders_left > 0 && self.rng.one_in(10) {
            self.orders_left -= 1;
            let now = self.fabric.borrow().now();
            let questions = self.application.next(now, self.plan.shards);
            questions.into_iter().for_each(|question| self.ask(question));
        }
        if self.rng.one_in(4) {
            self.complete();
        }
        self.copy();
        self.turn();
        self.listen();
        if self.steps.is_multiple_of(AUDIT_EVERY) {
            self.audit();
        }
    }

    /// The callers.
    pub fn virtual_clients(&self) -> &ClientLogic {
        self.virtual_clients.logic()
    }

    /// The network.
    pub fn fabric(&self) -> std::cell::RefMut<'_, Fabric> {
        self.fabric.borrow_mut()
    }

    /// Changes what virtual clients do, at once.
    pub fn set_mood(&mut self, mood: ClientMood) {
        self.virtual_clients.logic_mut().set_mood(mood);
        self.fabric.borrow_mut().stir(self.virtual_clients_host);
    }

    /// Causes a fault of the directory.
    pub fn upset(&mut self) {
        let now = self.fabric.borrow().now();
        self.copies.borrow_mut().upset(now);
    }

    /// Orders a push of so many bytes to one device, to be kept until it comes.
    pub fn push_to(&mut self, device: u32, bytes: usize) {
        let id = DeviceId::parse(&ClientLogic::device_id(device)).expect("a name");
        let now = self.fabric.borrow().now();
        let question = self.application.push_to(now, &id, &vec![0x33; bytes]);
        self.ask(question);
    }

    /// Steps until so much time has passed.
    pub fn live(&mut self, span: Duration) {
        let until = self.fabric.borrow().now().mono + span;
        while self.fabric.borrow().now().mono < until {
            self.step();
        }
    }

    /// The weather clears and everybody leaves; then everybody comes, fetches what waits, and
    /// leaves again. Now nobody may fail, and in the end nothing may be left.
    pub fn finale(&mut self) {
        self.orders_left = 0;
        self.disk.borrow_mut().set_faults(DiskFaults::default());
        self.plan.crash_in = 0;
        if self.disk.borrow().is_failed() {
            self.crash();
        }
        let cleared = self.fabric.borrow().weather().cleared();
        self.fabric.borrow_mut().set_weather(cleared);
        self.plan.upset_in = 0;
        let now = self.fabric.borrow().now();
        self.copies.borrow_mut().clear(now);
        let left = |world: &Simulation| {
            world.virtual_clients.connections() == 0 && world.connections() == 0 && world.settled()
        };
        self.set_mood(ClientMood::Leaving);
        self.live_until("everybody has left", left);
        self.live_until("the directory agrees", Simulation::copies_agree);
        self.unblock_all();
        assert_eq!(self.online(), 0, "nobody is online without a connection");
        let before = self.counters();
        self.set_mood(ClientMood::Calm);
        let devices = self.plan.devices as usize;
        let settled = |world: &Simulation| {
            world.virtual_clients.logic().bound() == devices
                && world.online() == devices as u64
                && world.waiting() == 0
                && world.application.waiting() == 0
                && world.disk.borrow().waiting() == 0
        };
        self.live_until("everybody is bound and has what waited", settled);
        self.check_bound();
        self.check_fan_outs();
        self.application.check_promises(|device, id| self.saw(device, id));
        let logic = self.virtual_clients.logic();
        self.application.check_cancelled(|id| logic.came_over(id));
        self.check_states();
        self.live_until("the directory agrees again", Simulation::copies_agree);
        self.set_mood(ClientMood::Leaving);
        self.live_until("everybody has left again", left);
        self.live_until("the directory has nobody", Simulation::copies_agree);
        self.check_calm(&before);
        self.check_empty();
    }

    /// The machine dies and the server is started again over what the disk kept.
    pub fn crash(&mut self) {
        self.crashes += 1;
        let failed = self.disk.borrow().is_failed();
        self.application.dies(failed);
        self.disk.borrow_mut().restart();
        self.completed.clear();
        for &host in &self.server.hosts {
            self.fabric.borrow_mut().kill(host);
        }
        let moved = self.server.moved;
        self.server = build::server(self);
        self.server.moved = moved;
        self.listen(); // questions that died with it are answered now
        self.events.borrow_mut().heard.clear();
        self.application.crashed(failed);
        self.application.crashed_at(self.fabric.borrow().now().mono);
        self.check_states();
    }

    /// The server is told to let everybody go and to end.
    pub fn drain(&mut self) {
        let drain_ms = self.limits.drain_ms;
        for shard in (0..self.plan.shards).map(ShardId) {
            assert!(
                self.mail(shard, Mail::Drain(drain_ms, Arc::default())),
                "a calm mailbox has room"
            );
            self.ring(shard);
        }
    }

    /// Whether a shard of the server still runs.
    pub fn runs(&self) -> bool {
        self.server.runs()
    }

    /// Asks the server something.
    pub fn ask(&mut self, question: ApplicationQuestion) {
        let ApplicationQuestion { command, number, to } = question;
        let to = to.unwrap_or_else(|| self.owner_of(&command));
        let answers = self.application.answers();
        let reply = move |answer| crate::virtual_clients::lock(&answers).push((number, answer));
        self.ask_shard(to, command, Box::new(reply));
    }

    /// Asks one shard of the server something.
    pub fn ask_shard(&mut self, to: ShardId, command: Command, reply: Reply) {
        let part = switchboard::part(reply);
        // A shard message that finds no room is dropped, which answers it.
        if self.mail(to, Mail::Ask(command, part)) {
            self.ring(to);
        }
    }

    /// A service of a shard, to look at. Panics when it has none such.
    pub fn service<S: Service>(&self, shard: ShardId) -> &S {
        self.server.shard(shard).logic().service()
    }

    /// Sends mail to a shard's logic, from outside the shards; false when there is no room.
    pub fn mail(&mut self, to: ShardId, mail: Mail) -> bool {
        self.server.post.borrow_mut().put(None, to, ShardMessage::Mail(mail)).is_ok()
    }

    /// Counts so far.
    pub fn story(&self) -> Story {
        let counters = self.counters();
        let closed = model::close::CloseReason::ALL
            .iter()
            .map(|reason| (reason.name(), counters.closed_of(*reason)));
        Story {
            steps: self.steps,
            seconds: u64::from(self.fabric.borrow().now().secs()),
            orders: self.application.orders(),
            crashes: self.crashes,
            faults: self.disk.borrow().faults(),
            upsets: self.copies.borrow().upsets,
            handed_over: self.server.moved.handed_over,
            given_back: self.server.moved.given_back,
            binds: counters.of(model::counters::PushCounter::Binds),
            connections: self.virtual_clients.handle().counters.closed_sum(),
            told: self.application.told().clone(),
            closed: closed.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn turn(&mut self) {
        let Some(host) = self.fabric.borrow_mut().next_host() else {
            return self.fabric.borrow_mut().pass(Duration::from_millis(100));
        };
        if host == self.virtual_clients_host {
            self.virtual_clients.turn();
        } else {
            self.server.round(host, &mut self.rng);
        }
        let spent_us = 1 + self.rng.below(200);
        self.fabric.borrow_mut().pass(Duration::from_micros(spent_us));
    }

    /// Asks again all questions that were blocked by a full mailbox, until none is.
    fn unblock_all(&mut self) {
        for _ in 0..100 {
            let questions = self.application.unblock_all();
            if questions.is_empty() {
                return;
            }
            questions.into_iter().for_each(|question| self.ask(question));
            self.live_until("all is answered", |world| world.application.waiting() == 0);
        }
        panic!("somebody stays blocked. {}", self.describe());
    }

    /// Applies random faults of the whole world.
    fn whims(&mut self) {
        let mut fabric = self.fabric.borrow_mut();
        let (wall_jump_in, leap_in) = (fabric.weather().wall_jump_in, fabric.weather().leap_in);
        if fabric.strikes(wall_jump_in) {
            let by_ms = fabric.below(2 * 3_600_000) as i64 - 3_600_000;
            fabric.jump_wall(by_ms);
        }
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

    /// The disk goes on with some shard's calls.
    fn complete(&mut self) {
        let shard = ShardId(self.rng.below(u64::from(self.plan.shards)) as u16);
        let now_s = self.fabric.borrow().now().unix_s();
        let completions = self.disk.borrow_mut().work(now_s, shard);
        let completions = completions.into_iter();
        self.completed
            .extend(completions.map(|(service, completions)| (shard, service, completions)));
        for (shard, service, completions) in std::mem::take(&mut self.completed) {
            // Like a log, it does not give up: a completion must not be lost.
            if self.mail(shard, Mail::Completions(service, completions.clone())) {
                self.ring(shard);
            } else {
                self.completed.push((shard, service, completions));
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
        let full = self.server.tell(words);
        full.1.into_iter().for_each(|shard| self.ring(shard));
        self.copies.borrow_mut().words_again(full.0);
    }

    /// Has the application take its events.
    fn listen(&mut self) {
        let events = std::mem::take(&mut self.events.borrow_mut().heard);
        let (logic, names) = (self.virtual_clients.logic(), &self.names);
        let seen = |device: &DeviceId, id| logic.seen(names[device], id) > 0;
        self.application.hear(events, seen);
        self.application.read(seen);
    }

    fn ring(&mut self, shard: ShardId) {
        self.fabric.borrow_mut().ring(self.server.hosts[shard.0 as usize]);
    }

    fn saw(&self, device: &DeviceId, id: MessageId) -> bool {
        self.virtual_clients.logic().seen(self.names[device], id) > 0
    }

    fn owner_of(&self, command: &Command) -> ShardId {
        let (product, device) = match command {
            Command::Push(PushCommand::Kick { product, device, .. })
            | Command::Push(PushCommand::SetTags { product, device, .. })
            | Command::Push(PushCommand::Block { product, device, .. }) => (product, device),
            Command::Push(PushCommand::Push(order)) => match &order.target {
                PushTarget::Devices(devices) => (&order.product, &devices[0]),
                _ => {
                    let home = hub::order_home(HOME, order);
                    return ShardId(base::hash::home(home, self.plan.shards));
                }
            },
            Command::Push(PushCommand::Cancel { push, .. }) => {
                let home = hub::cancel_home(HOME, *push);
                return ShardId(base::hash::home(home, self.plan.shards));
            }
            _ => return ShardId(0),
        };
        owner((HOME, self.plan.shards), product, device)
    }

    /// Steps until something holds, looking once a second. Panics when it never does.
    pub fn live_until(&mut self, what: &str, holds: impl Fn(&Simulation) -> bool) {
        let began = self.fabric.borrow().now().mono;
        let mut looked = began;
        loop {
            self.step();
            let now = self.fabric.borrow().now().mono;
            if now - looked > Duration::from_secs(1) {
                looked = now;
                if holds(self) {
                    return;
                }
            }
            let late = now - began > Duration::from_secs(1_200);
            if late {
                let odd = |(_, device): &(_, DeviceState)| device.waiting > 0 || !device.online;
                let waits = self.devices().into_iter().filter(odd);
                let waits: Vec<_> = waits.collect();
                panic!("after twenty minutes still not: {what}. {} {waits:#?}", self.describe());
            }
        }
    }
}

//! One shard's inside: machines on one side, the hub on the other.
//!
//! Requests go to the hub of the shard that owns the device, deliveries to the shard where the
//! connection lives; mostly both are this one. The house carries out what the hub wants and has no
//! opinion of its own.

use crate::machines::ServerMachine;
use crate::outside::Outside;
use crate::switchboard::Part;
use base::hash::{self, HashKey};
use base::slab::{Key, Slab};
use base::time::{Instant, Now};
use hub::{Effects, Hub};
use model::close::CloseReason;
use model::event::Counter;
use model::id::{ConnRef, DeviceId, ProductKey, ShardId};
use model::link::Link;
use model::ports::control::{Answer, Command};
use model::ports::log::{Completion, StoreError, Ticket};
use model::product::Product;
use model::request::{Delivery, Request};
use net::{Desk, House, Opened};
use std::sync::Arc;

/// Commands that may wait for their answers on one shard. More are told that it is busy.
const ASKS_MAX: usize = 65_536;

/// What shards, the API and the store send a house.
pub enum Mail {
    /// From a machine on another shard, for a device owned here.
    Request(ConnRef, Request),
    /// From the API.
    Ask(Command, Part),
    /// From the shard's log.
    Completions(Vec<Completion>),
    /// From configuration: these products are so from now on.
    Install(Vec<Arc<Product>>),
    /// Let everybody go, then end.
    Drain,
}

/// One shard's inside.
pub struct ServerHouse<O: Outside> {
    shard: ShardId,
    shards: u16,
    hash_key: HashKey,
    bind_ms_max: u32,
    hub: Hub,
    effects: Effects,
    asks: Slab<Part>,
    outside: O,
}

impl<O: Outside> ServerHouse<O> {
    /// A house over `hub`, one of `shards`.
    pub fn new(hub: Hub, settings: &net::Settings, outside: O) -> Self {
        ServerHouse {
            shard: settings.shard,
            shards: settings.shards,
            hash_key: settings.hash_key,
            bind_ms_max: settings.limits.bind_ms_max,
            hub,
            effects: Effects::default(),
            asks: Slab::new(ASKS_MAX),
            outside,
        }
    }

    /// The hub, to look at.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The hub, to prepare it before the first turn.
    pub fn hub_mut(&mut self) -> &mut Hub {
        &mut self.hub
    }

    /// Everything that the logs kept has been given to the hub. Gives how many calls it hands to
    /// its log before anything else: until they are completed it admits nobody.
    pub fn restored(&mut self, now: Now) -> usize {
        self.hub.restored(now, &mut self.effects);
        let calls = self.effects.calls.len();
        self.call(now);
        calls
    }

    /// Before the shard's first turn and after its last one: what the log has completed. Gives how
    /// many it were.
    pub fn completed(&mut self, now: Now, mail: impl Iterator<Item = Mail>) -> usize {
        let mut count = 0;
        for mail in mail {
            if let Mail::Completions(completions) = mail {
                count += completions.len();
                self.complete(now, completions.into_iter());
            }
        }
        self.carry_out_alone(now);
        count
    }

    /// After the shard's last turn: lets the hub say what it still has to say to its log. True when
    /// that is all.
    pub fn wind_up(&mut self, now: Now) -> bool {
        self.hub.turn(now, &mut self.effects);
        self.carry_out_alone(now);
        self.hub.unsettled() == 0
    }

    /// What the hub has counted.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// The outside, to look at.
    pub fn outside(&self) -> &O {
        &self.outside
    }

    fn owner(&self, product: &ProductKey, device: &DeviceId) -> ShardId {
        owner(self.hash_key, self.shards, product, device)
    }

    fn request(&mut self, now: Now, from: ConnRef, request: Request, desk: &mut Desk<Self>) {
        let owner = match &request {
            Request::Bind(bind) => self.owner(&bind.product, &bind.device),
            Request::Unbind { device, .. }
            | Request::Ack { device, .. }
            | Request::Unsendable { device, .. }
            | Request::Pull { device, .. }
            | Request::Report { device, .. }
            | Request::Closed { device, .. } => device.shard(),
            Request::Session(_) => return,
        };
        if owner == self.shard {
            self.look_outside();
            self.hub.request(now, from, request, &mut self.effects);
            self.carry_out(now, desk);
        } else {
            desk.post(owner, Mail::Request(from, request));
        }
    }

    /// Somebody may have begun to listen a moment ago: the hub is told before each of its acts.
    fn look_outside(&mut self) {
        self.effects.events_wanted = self.outside.events_wanted();
    }

    fn ask(&mut self, now: Now, command: Command, part: Part, desk: &mut Desk<Self>) {
        match self.asks.insert(part) {
            Ok(key) => {
                self.look_outside();
                self.hub.control(now, key.pack(), command, &mut self.effects);
                self.carry_out(now, desk);
            }
            Err(part) => part.answer(Answer::Busy),
        }
    }

    /// Empties the hub's effects; carrying them out may make new ones.
    fn carry_out(&mut self, now: Now, desk: &mut Desk<Self>) {
        while !self.effects.is_empty() {
            for (to, delivery) in self.effects.deliveries.drain(..) {
                desk.deliver(to, delivery);
            }
            for (ask, answer) in std::mem::take(&mut self.effects.answers) {
                self.answer(ask, answer, desk);
            }
            self.publish();
            self.call(now);
        }
    }

    /// The same without connections to deliver to.
    fn carry_out_alone(&mut self, now: Now) {
        while !self.effects.is_empty() {
            self.effects.deliveries.clear();
            for (ask, answer) in std::mem::take(&mut self.effects.answers) {
                if let Some(part) = self.asks.remove(Key::unpack(ask)) {
                    part.answer(answer);
                }
            }
            self.publish();
            self.call(now);
        }
    }

    fn publish(&mut self) {
        if !self.effects.events.is_empty() {
            let events = std::mem::take(&mut self.effects.events);
            let dropped = self.outside.publish(events);
            self.effects.counters.count_by(Counter::EventsDropped, dropped as u64);
        }
    }

    fn call(&mut self, now: Now) {
        if !self.effects.calls.is_empty() {
            let calls = std::mem::take(&mut self.effects.calls);
            let refused = self.outside.call(calls);
            let busy = |ticket: Ticket| (ticket, Err(StoreError::Busy));
            self.complete(now, refused.into_iter().map(busy));
        }
    }

    fn complete(&mut self, now: Now, completions: impl Iterator<Item = Completion>) {
        for completion in completions {
            self.hub.complete(now, completion, &mut self.effects);
        }
    }

    fn answer(&mut self, ask: u64, mut answer: Answer, desk: &mut Desk<Self>) {
        if let Answer::Status(status) = &mut answer {
            status.counters.add(&desk.counters);
            status.counters.add(&self.effects.counters);
            status.connections = desk.connections as u64;
            status.turn_us_max = std::mem::take(&mut desk.turn_us_max);
        }
        if let Some(part) = self.asks.remove(Key::unpack(ask)) {
            part.answer(answer);
        }
    }
}

/// Which of `shards` owns a device: what `Outbox::home` computes from the same two names.
pub fn owner(key: HashKey, shards: u16, product: &ProductKey, device: &DeviceId) -> ShardId {
    let hash = key.of(&[product.as_str().as_bytes(), device.as_str().as_bytes()]);
    ShardId(hash::home(hash, shards))
}

impl<O: Outside> House for ServerHouse<O> {
    type Machine = ServerMachine;
    type Mail = Mail;

    fn machine(&mut self, _: Now, link: &Link, _: Opened) -> Option<ServerMachine> {
        ServerMachine::new(link, self.bind_ms_max)
    }

    fn word(&mut self, now: Now, from: ConnRef, word: Request, desk: &mut Desk<Self>) {
        self.request(now, from, word, desk);
    }

    fn mail(&mut self, now: Now, mail: Mail, desk: &mut Desk<Self>) {
        match mail {
            Mail::Request(from, request) => self.request(now, from, request, desk),
            Mail::Ask(command, part) => self.ask(now, command, part, desk),
            Mail::Completions(completions) => {
                self.outside.completed(&completions);
                self.look_outside();
                self.complete(now, completions.into_iter());
                self.carry_out(now, desk);
            }
            Mail::Install(products) => {
                for product in products {
                    self.hub.install(product);
                }
            }
            Mail::Drain => {
                self.hub.drain();
                desk.drain();
            }
        }
    }

    fn turn(&mut self, now: Now, desk: &mut Desk<Self>) -> Option<Instant> {
        self.look_outside();
        let next = self.hub.turn(now, &mut self.effects);
        self.carry_out(now, desk);
        next
    }

    fn undelivered(&mut self, now: Now, to: ConnRef, down: Delivery, desk: &mut Desk<Self>) {
        // A Bind was answered from another shard after its connection had ended: nobody else will
        // tell the owner that the device is gone.
        if let Delivery::Bound(bound) = down {
            let (device, reason) = (bound.device, CloseReason::PeerClosed);
            self.request(now, to, Request::Closed { device, reason }, desk);
        }
    }
}

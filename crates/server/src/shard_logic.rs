//! One shard's inside: machines on one side, the hub and the broker on the other.
//!
//! Requests go to the hub of the shard that owns the device, deliveries to the shard where the
//! connection lives; mostly both are this one. What is about topics goes to the broker, always of
//! this shard ([`topics`]). Both say who came and went ([`shard_presence`]). The logic carries out
//! what they want and has no opinion of its own.

pub mod homes;
mod shard_presence;
mod topics;

pub use self::shard_presence::topic::EventTopic;
pub use self::shard_presence::{Figures, ShardPresence};
use crate::machines::{ListenerProfile, ServerMachine};
use crate::outside::{Outside, Service};
use crate::switchboard::ShardPart;
use base::hash::{self, HashKey};
use base::slab::{Key, Slab};
use base::text::escaped;
use base::time::{Instant, Now};
use broker::Broker;
use hub::{Effects, Hub, OrderMessage};
use model::close::CloseReason;
use model::event::Counter;
use model::id::{ConnRef, DeviceId, ProductKey, ShardId};
use model::link::Link;
use model::ports::access::Admission;
use model::ports::control::{Answer, Command};
use model::ports::directory::{DirectoryEntry, DirectoryError, Put};
use model::ports::log::{Completion, StoreError, Ticket};
use model::presence::{PresenceVersion, Principal};
use model::product::Product;
use model::request::{Delivery, Request};
use model::session::{SessionDelivery, SessionRequest};
use net::{ConnectionOrigin, ShardHandle, ShardLogic};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use topics::Topics;
pub use topics::{PeerBacklog, PeerMessages};

/// Commands that may wait for their answers on one shard. More are told that it is busy.
const ASKS_MAX: usize = 65_536;

/// Mail that shards, the API and the store send to a shard's logic.
pub enum Mail {
    /// From a machine on another shard, for a device owned here.
    Request(ConnRef, Request),
    /// From the API.
    Ask(Command, ShardPart),
    /// From the shard's log, for one of the two services.
    Completions(Service, Vec<Completion>),
    /// From the hub of another shard.
    Order(ShardId, OrderMessage),
    /// From the broker of another shard: what it had to say in a turn.
    PeerMessages(PeerMessages),
    /// The answer to a question about access.
    Admitted(u64, Admission),
    /// From configuration: these products are so from now on.
    Install(Vec<Arc<Product>>),
    /// What became of the batches that this shard's tracker handed out.
    Written(Result<Vec<Put>, DirectoryError>),
    /// All that the directory has in a bucket.
    Compare(u16, Arc<Vec<DirectoryEntry>>),
    /// Somebody wants to know this shard's totals.
    Figures(SyncSender<Figures>),
    /// A retained message of an earlier start says that this principal is online.
    Recall(Principal, PresenceVersion),
    /// Something was noted behind the tracker's last turn.
    Attend,
    /// Let everybody go, then end.
    Drain,
}

/// One shard's inside.
pub struct ServerLogic<O: Outside> {
    shard: ShardId,
    shards: u16,
    hash_key: HashKey,
    profiles: Arc<[ListenerProfile]>,
    hub: Hub,
    effects: Effects,
    topics: Topics,
    shard_presence: ShardPresence,
    asks: Slab<ShardPart>,
    outside: O,
}

/// Services that a shard's logic joins, and what they need.
pub struct Services {
    /// Pushes and devices.
    pub hub: Hub,
    /// Topics and sessions.
    pub broker: Broker,
    /// Peer messages on their way to each shard.
    pub waiting: PeerBacklog,
    /// How each listener takes MQTT, by its place; the last holds for those behind it.
    pub profiles: Arc<[ListenerProfile]>,
    /// Who is there.
    pub shard_presence: ShardPresence,
}

impl<O: Outside> ServerLogic<O> {
    /// A logic over these services, one of `settings.shards`.
    pub fn new(services: Services, settings: &net::Settings, outside: O) -> Self {
        let Services { hub, broker, waiting, profiles, shard_presence } = services;
        ServerLogic {
            shard: settings.shard,
            shards: settings.shards,
            hash_key: settings.hash_key,
            profiles,
            hub,
            effects: Effects::default(),
            topics: Topics::new(broker, settings.shard, waiting),
            shard_presence,
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
        self.topics.restored(now);
        let calls = self.effects.calls.len() + self.topics.calls();
        self.call(now);
        self.carry_out_alone(now);
        calls
    }

    /// What its broker has to say to those of other shards, before the shards run.
    pub fn said(&mut self, send: impl FnMut(ShardId, PeerMessages)) {
        self.topics.post(send);
    }

    /// What another shard's broker says then; how many calls it hands to its log for it.
    pub fn told(&mut self, now: Now, peer_messages: PeerMessages) -> usize {
        self.topics.peer_messages(now, peer_messages);
        let calls = self.topics.calls();
        self.call(now);
        self.carry_out_alone(now);
        calls
    }

    /// Who is there, to look at.
    pub fn shard_presence(&self) -> &ShardPresence {
        &self.shard_presence
    }

    /// The broker, to look at.
    pub fn broker(&self) -> &Broker {
        &self.topics.broker
    }

    /// Before the shard's first turn and after its last one: what the log has completed. Gives how
    /// many it were.
    pub fn completed(&mut self, now: Now, mail: impl Iterator<Item = Mail>) -> usize {
        let mut count = 0;
        for mail in mail {
            match mail {
                Mail::Completions(service, completions) => {
                    count += completions.len();
                    self.complete(now, service, completions.into_iter());
                }
                Mail::PeerMessages(peer_messages) => self.topics.peer_messages(now, peer_messages),
                Mail::Written(result) => {
                    self.shard_presence.written(now, result, &mut self.outside);
                    self.obey(now);
                }
                _ => {}
            }
        }
        self.carry_out_alone(now);
        count
    }

    /// After the shard's last turn: lets hub and broker say what they still have to say to their
    /// log, and the tracker to the directory. True when that is all.
    pub fn wind_up(&mut self, now: Now) -> bool {
        self.hub.turn(now, &mut self.effects);
        self.topics.turn(now);
        self.carry_out_alone(now);
        self.shard_presence.turn(now, &mut self.outside);
        self.obey(now);
        self.carry_out_alone(now);
        self.is_logged() && self.shard_presence.is_settled()
    }

    /// Whether the log has everything that hub and broker had to say.
    pub fn is_logged(&self) -> bool {
        self.hub.unsettled() == 0 && self.topics.broker.unsettled() == 0
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

    fn request(
        &mut self,
        now: Now,
        from: ConnRef,
        request: Request,
        handle: &mut ShardHandle<Self>,
    ) {
        let owner = match &request {
            Request::Bind(bind) => self.owner(&bind.product, &bind.device),
            Request::Unbind { device, .. }
            | Request::Ack { device, .. }
            | Request::Unsendable { device, .. }
            | Request::Pull { device, .. }
            | Request::Report { device, .. }
            | Request::Written { device }
            | Request::Closed { device, .. } => device.shard(),
            // A machine lives where its session does.
            Request::Session(_) => self.shard,
        };
        if owner != self.shard {
            return handle.post(owner, Mail::Request(from, request));
        }
        self.look_outside();
        tell_login(from, &request);
        match request {
            Request::Session(word) => {
                self.topics.request(now, from, word);
                self.carry_out_topics(now, handle);
            }
            request => {
                self.hub.request(now, from, request, &mut self.effects);
                self.carry_out(now, handle);
            }
        }
    }

    /// Somebody may have begun to listen a moment ago: the hub is told before each of its acts.
    fn look_outside(&mut self) {
        self.effects.events_wanted = self.outside.events_wanted();
        let effects = &mut self.topics.effects;
        effects.events_wanted = self.outside.clients_wanted();
        effects.messages_wanted = self.outside.messages_wanted();
        let pressure = self.outside.pressure();
        self.hub.press(pressure);
        self.topics.broker.press(pressure);
    }

    fn ask(&mut self, now: Now, command: Command, part: ShardPart, handle: &mut ShardHandle<Self>) {
        if let Command::Presence(command) = command {
            return self.ask_presence(now, command, part);
        }
        match self.asks.insert(part) {
            Ok(key) => {
                self.look_outside();
                match command {
                    Command::Topics(command) => self.topics.command(now, key.pack(), command),
                    command => self.hub.control(now, key.pack(), command, &mut self.effects),
                }
                self.carry_out(now, handle);
            }
            Err(part) => part.answer(Answer::Busy),
        }
    }

    /// Empties the effects of both; carrying them out may make new ones.
    fn carry_out(&mut self, now: Now, handle: &mut ShardHandle<Self>) {
        while !self.effects.is_empty() {
            for (to, delivery) in self.effects.deliveries.drain(..) {
                if let Delivery::Refused(refused) = &delivery {
                    handle.turned_away(to, refused.why.name(), refused.who.as_deref());
                }
                handle.deliver(to, delivery);
            }
            for (ask, answer) in std::mem::take(&mut self.effects.answers) {
                self.answer(ask, answer, handle);
            }
            for (to, order_message) in self.effects.order_messages.drain(..) {
                handle.post(to, Mail::Order(self.shard, order_message));
            }
            self.publish();
            self.mirror(now);
            self.attend(now);
            self.call(now);
        }
        self.carry_out_topics(now, handle);
    }

    /// Empties the broker's effects.
    fn carry_out_topics(&mut self, now: Now, handle: &mut ShardHandle<Self>) {
        while !self.topics.effects.is_empty() {
            for (to, delivery) in self.topics.effects.deliveries.drain(..) {
                if let SessionDelivery::Refused(denied) = &delivery {
                    handle.turned_away(to, denied.why.name(), denied.who.as_deref());
                }
                handle.deliver(to, Delivery::Session(delivery));
            }
            for (ask, answer) in std::mem::take(&mut self.topics.effects.answers) {
                self.answer(ask, Answer::Topics(answer), handle);
            }
            self.attend(now);
            self.topics.carry_out(now, &mut self.outside);
        }
    }

    /// Pushes that are published on a topic too.
    fn mirror(&mut self, now: Now) {
        for (topic, push) in std::mem::take(&mut self.effects.mirrors) {
            self.topics.mirror(now, &topic, &push);
        }
    }

    /// The same without connections to deliver to.
    fn carry_out_alone(&mut self, now: Now) {
        while !(self.effects.is_empty() && self.topics.effects.is_empty()) {
            self.effects.deliveries.clear();
            // What orders have to say to each other is said again at the first turn after a start.
            self.effects.order_messages.clear();
            self.topics.effects.deliveries.clear();
            let mut answers = std::mem::take(&mut self.effects.answers);
            let others = std::mem::take(&mut self.topics.effects.answers);
            answers.extend(others.into_iter().map(|(ask, answer)| (ask, Answer::Topics(answer))));
            for (ask, answer) in answers {
                if let Some(part) = self.asks.remove(Key::unpack(ask)) {
                    part.answer(answer);
                }
            }
            self.publish();
            self.mirror(now);
            self.attend(now);
            self.call(now);
            self.topics.carry_out(now, &mut self.outside);
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
            let refused = self.outside.call(Service::Hub, calls);
            self.complete(now, Service::Hub, refused.into_iter().map(busy));
        }
    }

    fn complete(
        &mut self,
        now: Now,
        service: Service,
        completions: impl Iterator<Item = Completion>,
    ) {
        for completion in completions {
            match service {
                Service::Hub => self.hub.complete(now, completion, &mut self.effects),
                Service::Broker => self.topics.complete(now, completion),
            }
        }
    }

    fn answer(&mut self, ask: u64, mut answer: Answer, handle: &mut ShardHandle<Self>) {
        if let Answer::Status(status) = &mut answer {
            status.counters.add(&handle.counters);
            status.counters.add(&self.effects.counters);
            status.counters.add(&self.topics.effects.counters);
            self.topics.broker.status(status);
            status.connections = handle.connections as u64;
            status.pressure = self.outside.pressure();
            status.turn_us_max = std::mem::take(&mut handle.turn_us_max);
        }
        if let Some(part) = self.asks.remove(Key::unpack(ask)) {
            part.answer(answer);
        }
    }
}

/// Who wants to be whom, for the log: a line of the life of a connection.
fn tell_login(from: ConnRef, request: &Request) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let (shard, conn) = (from.shard().0, from.key().pack());
    match request {
        Request::Bind(bind) => {
            let (product, device) = (bind.product.as_str(), bind.device.as_str());
            tracing::debug!(shard, conn, product, device, "it asks to be let in");
        }
        Request::Session(SessionRequest::Connect(connect)) => {
            let device = escaped(&connect.client_id);
            tracing::debug!(shard, conn, %device, "it asks to be let in");
        }
        _ => {}
    }
}

/// What becomes of a call that was not taken.
fn busy(ticket: Ticket) -> Completion {
    (ticket, Err(StoreError::Busy))
}

/// Which of `shards` owns a device: what `Outbox::home` computes from the same two names.
pub fn owner(key: HashKey, shards: u16, product: &ProductKey, device: &DeviceId) -> ShardId {
    let hash = key.of(&[product.as_str().as_bytes(), device.as_str().as_bytes()]);
    ShardId(hash::home(hash, shards))
}

impl<O: Outside> ShardLogic for ServerLogic<O> {
    type Machine = ServerMachine;
    type Mail = Mail;

    fn machine(&mut self, _: Now, link: &Link, _: ConnectionOrigin) -> Option<ServerMachine> {
        let profile = self.profiles.get(usize::from(link.door)).or(self.profiles.last())?;
        ServerMachine::new(link, *profile)
    }

    fn word(&mut self, now: Now, from: ConnRef, word: Request, handle: &mut ShardHandle<Self>) {
        self.request(now, from, word, handle);
    }

    fn mail(&mut self, now: Now, mail: Mail, handle: &mut ShardHandle<Self>) {
        match mail {
            Mail::Request(from, request) => self.request(now, from, request, handle),
            Mail::Ask(command, part) => self.ask(now, command, part, handle),
            Mail::Completions(service, completions) => {
                if service == Service::Hub {
                    self.outside.completed(&completions);
                }
                self.look_outside();
                self.complete(now, service, completions.into_iter());
                self.carry_out(now, handle);
            }
            Mail::Order(from, order_message) => {
                self.look_outside();
                self.hub.order_message(now, from, order_message, &mut self.effects);
                self.carry_out(now, handle);
            }
            Mail::PeerMessages(peer_messages) => {
                self.look_outside();
                self.topics.peer_messages(now, peer_messages);
                self.carry_out_topics(now, handle);
            }
            Mail::Admitted(number, answer) => {
                self.look_outside();
                self.topics.admitted(now, number, answer);
                self.carry_out_topics(now, handle);
            }
            Mail::Install(products) => {
                for product in products {
                    self.hub.install(product);
                }
            }
            Mail::Written(result) => {
                self.look_outside();
                self.shard_presence.written(now, result, &mut self.outside);
                self.obey(now);
                self.carry_out(now, handle);
            }
            Mail::Compare(bucket, stored) => {
                self.look_outside();
                self.shard_presence.compare(now, (bucket, &stored), &mut self.outside);
                self.obey(now);
                self.carry_out(now, handle);
            }
            // Nobody waits any more when it is late.
            Mail::Figures(to) => drop(to.try_send(self.figures(handle))),
            Mail::Recall(who, version) => {
                self.look_outside();
                let known = self.find(now, &who);
                if let Some(message) = self.shard_presence.recall((who, version), known) {
                    self.topics.say(now, message);
                    self.carry_out_topics(now, handle);
                }
            }
            // The turn that ends with this mail is what was wanted.
            Mail::Attend => {}
            Mail::Drain => {
                self.hub.drain();
                self.topics.broker.drain();
                handle.drain();
            }
        }
    }

    fn turn(&mut self, now: Now, handle: &mut ShardHandle<Self>) -> Option<Instant> {
        self.look_outside();
        let hub = self.hub.turn(now, &mut self.effects);
        let broker = self.topics.turn(now);
        self.carry_out(now, handle);
        let tracker = self.shard_presence.turn(now, &mut self.outside);
        self.obey(now);
        self.carry_out(now, handle);
        hub.into_iter().chain(broker).chain(tracker).min()
    }

    fn turned(&mut self, _: Now, handle: &mut ShardHandle<Self>) {
        self.topics.post(|to, peer_messages| handle.post(to, Mail::PeerMessages(peer_messages)));
        if self.shard_presence.is_behind() {
            handle.post(self.shard, Mail::Attend);
        }
    }

    fn congested(&self) -> bool {
        self.topics.congested()
    }

    fn undelivered(
        &mut self,
        now: Now,
        to: ConnRef,
        down: Delivery,
        handle: &mut ShardHandle<Self>,
    ) {
        match down {
            // A Bind was answered from another shard after its connection had ended: nobody else
            // will tell the owner that the device is gone.
            Delivery::Bound(bound) => {
                let (device, reason) = (bound.device, CloseReason::PeerClosed);
                self.request(now, to, Request::Closed { device, reason }, handle);
            }
            Delivery::Session(delivery) => {
                self.topics.undelivered(now, to, delivery);
                self.carry_out_topics(now, handle);
            }
            _ => {}
        }
    }
}

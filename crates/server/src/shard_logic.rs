//! Logic of one shard: machines on one side, services on the other.
//!
//! Requests go to the service they are for, on the shard that owns what they are about; deliveries
//! to the shard where the connection lives; mostly both are this one. Services say who came and
//! went ([`shard_presence`]) and what other shards must hear ([`peers`]). The logic carries out
//! what they want ([`running`]), has no opinion of its own, and names no service: it holds a list.

mod call_clock;
mod disconnections;
pub mod outside;
mod peers;
pub mod running;
mod shard_bans;
mod shard_presence;
mod slow_list;
mod top_list;

use self::disconnections::Disconnections;
use self::outside::Outside;
pub use self::peers::{PeerBacklog, PeerBag};
pub use self::running::{AnyService, RunningService};
pub use self::shard_presence::history_line;
pub use self::shard_presence::topic::EventTopic;
pub use self::shard_presence::{Figures, FiguresCell, ShardPresence};
use self::slow_list::SlowList;
use self::top_list::TopList;
use crate::machines::{DoorProfile, ServerMachine, WIRES};
use crate::switchboard::ShardPart;
use crate::trace::{ActiveTrace, TraceTap, subject_of};
use base::hash::HashKey;
use base::slab::{Key, Slab};
use base::text::escaped;
use base::time::{Instant, Now, earliest};
use model::chat::foreign::{ForeignRefused, ForeignWord};
use model::counters::Counters;
use model::id::{ConnRef, ShardId};
use model::latency::LatencyPhase;
use model::limits::Limits;
use model::link::{Link, WireProfile};
use model::ports::backlog::ReportHook;
use model::ports::bans::BanAct;
use model::ports::control::disconnections::Parting;
use model::ports::control::slow_clients::{Loss, SlowReader};
use model::ports::control::{Answer, Command, ShardLoop, Status};
use model::ports::events::{ClientEvent, ClientWhat};
use model::ports::log::{Call, Completion, Ticket};
use model::ports::presence::directory::{DirectoryEntry, DirectoryError, Put};
use model::ports::requests::{PortReply, PortRequest};
use model::presence::{PresenceVersion, Principal, Transition};
use model::product::Product;
use model::service::{Delivery, Event, Request, Service, ServiceKind};
use model::topic::Publication;
use model::{event, tell};
use net::shard::ListenerChange;
use net::{
    ConnectionEnd, ConnectionOrigin, OtherServers, PassedBytes, ShardHandle, ShardLogic, TapNotes,
    Tapped,
};
use running::{Carrier, Surroundings};
use shard_bans::Knock;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use store::LostMessage;

/// Commands that may wait for their answers on one shard. More are refused as busy.
const ASKS_MAX: usize = 65_536;

/// Mail that shards, the API and the store send to a shard's logic.
pub enum Mail {
    /// From a machine on another shard, about what is owned here.
    Request(ConnRef, Request),
    /// From the API.
    Ask(Command, ShardPart),
    /// From the shard's log, for one of its services.
    Completions(ServiceKind, Vec<Completion>),
    /// From a service of another shard: what it had to say in a turn.
    Peer(PeerBag),
    /// The reply of a port to a service's request with this number.
    PortReply(ServiceKind, u64, PortReply),
    /// From configuration: these products are so from now on.
    Install(Vec<Arc<Product>>),
    /// Results of the batches that this shard's tracker handed out.
    Written(Result<Vec<Put>, DirectoryError>),
    /// All that the directory has in a bucket.
    Compare(u16, Arc<Vec<DirectoryEntry>>),
    /// Asks whether the shard's thread runs; it answers with its number.
    Turns(SyncSender<ShardId>),
    /// A retained message of an earlier start says that this principal is online.
    Recall(Principal, PresenceVersion),
    /// Wakes the shard because of a transition that was noted after the tracker's last turn.
    Attend,
    /// A message that was stored here cannot be read any more.
    Lost(Box<LostMessage>),
    /// Follows connections for a trace from now on.
    Trace(Arc<ActiveTrace>),
    /// From configuration: these webhooks want Reports from now on. The sender is dropped once that
    /// is so.
    ReportHooks(Arc<[ReportHook]>, SyncSender<Infallible>),
    /// From configuration: these limits, and listeners that take protocols so, from now on.
    Configure(Arc<Limits>, Arc<[DoorProfile]>),
    /// From configuration: listeners take protocols so from now on, and these change.
    Listeners(Arc<[DoorProfile]>, Vec<ListenerChange>),
    /// Let everybody go, over so many milliseconds, to these servers, then end.
    Drain(u32, Arc<OtherServers>),
    /// Let everybody go, over so many milliseconds, and refuse who comes; or (none) do that no
    /// longer.
    Evacuate(Option<u32>),
}

/// Logic of one shard.
pub struct ServerLogic<O: Outside> {
    shard: ShardId,
    shards: u16,
    hash_key: HashKey,
    profiles: Arc<[DoorProfile]>,
    services: Vec<Box<dyn AnyService>>,
    backlog: PeerBacklog,
    around: Around<O>,
}

/// Surroundings of services while their effects are carried out.
struct Around<O: Outside> {
    shard_presence: ShardPresence,
    asks: Slab<ShardPart>,
    outside: O,
    /// Messages of the server's own, to be published.
    publications: Vec<Publication>,
    /// Requests of services in the name of connections.
    requests: Vec<(ConnRef, Request)>,
    /// Traces in progress.
    tap: TraceTap,
    /// The device that asked to be let in last.
    knock: Option<Knock>,
    /// Connections that ended.
    disconnections: Disconnections,
    /// Clients that do not keep up.
    slow: SlowList,
    /// Top talkers.
    top: TopList,
}

/// Parts of a shard's logic.
pub struct LogicParts {
    /// The services, one of a kind.
    pub services: Vec<Box<dyn AnyService>>,
    /// Peer messages on their way to each shard.
    pub backlog: PeerBacklog,
    /// How each listener takes protocols, by its place; the last holds for those behind it.
    pub profiles: Arc<[DoorProfile]>,
    /// Presence on this shard.
    pub shard_presence: ShardPresence,
}

impl<O: Outside> ServerLogic<O> {
    /// A logic over these services, one of `settings.shards`.
    pub fn new(parts: LogicParts, settings: &net::Settings, outside: O) -> Self {
        let LogicParts { services, backlog, profiles, shard_presence } = parts;
        let (publications, requests) = (Vec::new(), Vec::new());
        let asks = Slab::new(ASKS_MAX);
        ServerLogic {
            shard: settings.shard,
            shards: settings.shards,
            hash_key: settings.hash_key,
            profiles,
            services,
            backlog,
            around: Around {
                shard_presence,
                asks,
                outside,
                publications,
                requests,
                tap: TraceTap::new(settings.shard),
                knock: None,
                disconnections: Disconnections::new(settings),
                slow: SlowList::new(settings.shard, settings.limits.slow_clients_max),
                top: TopList::default(),
            },
        }
    }

    /// A service, to look at. Panics when it is not in the list.
    pub fn service<S: Service>(&self) -> &S {
        let mut all = self.services.iter().filter_map(|service| service.inner().downcast_ref());
        all.next().expect("it is in the list")
    }

    /// As [`service`](Self::service), to prepare it before the first turn.
    pub fn service_mut<S: Service>(&mut self) -> &mut S {
        let all = self.services.iter_mut();
        let mut all = all.filter_map(|service| service.inner_mut().downcast_mut());
        all.next().expect("it is in the list")
    }

    /// Ends the start, once the services have got what the logs kept. Returns the number of calls
    /// that they hand to the log first: until these are completed no client is admitted.
    pub fn restored(&mut self, now: Now) -> usize {
        self.services.iter_mut().for_each(|service| service.restored(now));
        self.begin(now)
    }

    /// Messages of its services for those of other shards, before the shards run.
    pub fn said(&mut self, mut send: impl FnMut(PeerBag)) {
        self.services
            .iter_mut()
            .for_each(|service| service.post(self.shard, &self.backlog, &mut send));
    }

    /// Handles the messages of another shard's service; returns the number of calls to the log that
    /// they caused.
    pub fn told(&mut self, now: Now, bag: PeerBag) -> usize {
        self.peer_messages(now, bag);
        self.begin(now)
    }

    fn begin(&mut self, now: Now) -> usize {
        let calls = self.services.iter().map(|service| service.calls()).sum();
        self.carry_out(now, None);
        calls
    }

    /// Presence on this shard, to look at.
    pub fn shard_presence(&self) -> &ShardPresence {
        &self.around.shard_presence
    }

    /// Before the shard's first turn and after its last one: takes calls that the log has
    /// completed, and returns their number.
    pub fn completed(&mut self, now: Now, mail: impl Iterator<Item = Mail>) -> usize {
        let mut count = 0;
        for mail in mail {
            match mail {
                Mail::Completions(service, completions) => {
                    count += completions.len();
                    self.complete(now, service, completions);
                }
                Mail::Peer(bag) => self.peer_messages(now, bag),
                Mail::Written(result) => self.written(now, result),
                Mail::PortReply(service, number, reply @ PortReply::Notify(_)) => {
                    if let Some(service) = self.of(service) {
                        service.port_reply(now, number, reply);
                    }
                }
                _ => {}
            }
        }
        self.carry_out(now, None);
        count
    }

    /// After the shard's last turn: lets the services write their last calls to the log, and the
    /// tracker to the directory. Returns true when that is all.
    pub fn wind_up(&mut self, now: Now) -> bool {
        for service in &mut self.services {
            service.stir();
            service.turn(now);
        }
        self.carry_out(now, None);
        self.turn_presence(now);
        self.carry_out(now, None);
        self.is_logged() && self.around.shard_presence.is_settled()
    }

    /// Whether the log has everything that the services had to say.
    pub fn is_logged(&self) -> bool {
        self.services.iter().all(|service| service.unsettled() == 0)
    }

    /// Counters of the services.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.services.iter().for_each(|service| sum.add(service.counters()));
        sum
    }

    /// The outside, to look at.
    pub fn outside(&self) -> &O {
        &self.around.outside
    }

    /// Panics where a service does not agree with itself.
    pub fn audit(&self) {
        self.services.iter().for_each(|service| service.audit());
    }

    fn set_draining(&mut self, now: Now, draining: bool) {
        self.services.iter_mut().for_each(|service| service.set_draining(now, draining));
    }

    /// Gives new limits to everything on this shard that has some, between two of its acts.
    fn configure(
        &mut self,
        limits: Arc<Limits>,
        profiles: Arc<[DoorProfile]>,
        handle: &mut ShardHandle<Self>,
    ) {
        self.services.iter_mut().for_each(|service| service.configure(&limits));
        self.around.disconnections.set_max(&limits, self.shards);
        self.around.slow.set_max(limits.slow_clients_max);
        self.backlog.configure(&limits);
        self.profiles = profiles;
        handle.set_limits(limits);
    }

    /// The service of this kind. One that is not in the list is asked nothing.
    fn of(&mut self, kind: ServiceKind) -> Option<&mut Box<dyn AnyService>> {
        running::of_kind(&mut self.services, kind)
    }

    /// Has whoever owns what a request is about hear it.
    fn request(
        &mut self,
        now: Now,
        from: ConnRef,
        request: Request,
        handle: Option<&mut ShardHandle<Self>>,
    ) {
        let owner = request.owner(self.shard, (self.hash_key, self.shards));
        if owner == self.shard {
            tell_login(from, &request);
            if self.is_refused(now, from, &request, handle) {
                return;
            }
            if let Some(service) = self.of(request.service()) {
                service.request(now, from, request);
            }
        } else if let Some(handle) = handle {
            handle.post(owner, Mail::Request(from, request));
        }
    }

    /// Notes whether events are wanted and how short memory is, so that services learn of it before
    /// each of their acts.
    fn look_outside(&mut self) {
        let outside = &self.around.outside;
        let (messages_wanted, pressure) = (outside.messages_wanted(), outside.pressure());
        for service in &mut self.services {
            let events_wanted = outside.events_wanted(service.kind());
            service.look(Surroundings { events_wanted, messages_wanted, pressure });
        }
    }

    fn ask(&mut self, now: Now, command: Command, part: ShardPart, handle: &mut ShardHandle<Self>) {
        let kind = match command {
            Command::Presence(command) => return self.ask_presence(now, command, part),
            Command::Status => return part.answer(self.status(handle)),
            Command::Disconnections(query) => {
                let page = self.around.disconnections.page(&query);
                return part.answer(Answer::Disconnections(page));
            }
            Command::SlowClients => {
                let clients = self.around.slow.clients(&self.services);
                return part.answer(Answer::SlowClients(clients));
            }
            Command::Top(kind) => {
                return part.answer(Answer::Top(self.around.top.page(now, kind)));
            }
            _ => command.service(),
        };
        let service = kind.and_then(|kind| running::of_kind(&mut self.services, kind));
        let Some(service) = service else { return part.answer(Answer::Busy) };
        match self.around.asks.insert(part) {
            Ok(key) => service.command(now, key.pack(), command),
            Err(part) => part.answer(Answer::Busy),
        }
    }

    fn status(&self, handle: &mut ShardHandle<Self>) -> Answer {
        let mut status = Status {
            counters: handle.counters.clone(),
            connections: handle.connections as u64,
            shards: 1,
            threads: self.around.outside.threads(),
            turn_us_max: std::mem::take(&mut handle.turn_us_max),
            pressure: self.around.outside.pressure(),
            slow_clients: self.around.slow.len() as u64,
            loops: vec![ShardLoop {
                shard: self.shard,
                connections: handle.connections as u64,
                turns: handle.turns,
                busy_us: handle.busy.as_micros() as u64,
                lag_us: handle.late.as_micros() as u64,
            }],
            ..Status::default()
        };
        self.services.iter().for_each(|service| service.status(&mut status));
        Answer::Status(Box::new(status))
    }

    fn complete(&mut self, now: Now, kind: ServiceKind, completions: Vec<Completion>) {
        if let Some(service) = self.of(kind) {
            service.complete(now, completions);
        }
    }

    /// Reports whose message is lost.
    fn tell_lost(&self, lost: &LostMessage) {
        let LostMessage { timeline, seq, id, label } = lost;
        let owners = self.services.iter().find_map(|service| service.owner(*timeline, label));
        let owner = owners.unwrap_or_else(|| format!("{timeline:?}"));
        tell!(event::MESSAGE_LOST, owner = %escaped(&owner), message = id, place = seq);
    }

    fn peer_messages(&mut self, now: Now, bag: PeerBag) {
        if let Some(service) = self.of(bag.service) {
            service.peer_messages(now, bag);
        }
    }

    /// Does what the services want until they want nothing more. Without a handle there are no
    /// connections to deliver to, and no other shards to ask.
    fn carry_out(&mut self, now: Now, mut handle: Option<&mut ShardHandle<Self>>) {
        loop {
            let around = &mut self.around;
            let mut carrying = Carrying { now, around, handle: handle.as_deref_mut() };
            let mut any = false;
            for service in &mut self.services {
                any |= service.carry_out(now, &mut carrying);
            }
            for (from, request) in std::mem::take(&mut self.around.requests) {
                any = true;
                self.request(now, from, request, handle.as_deref_mut());
            }
            for message in std::mem::take(&mut self.around.publications) {
                any = true;
                self.services.iter_mut().for_each(|service| service.publish(now, &message));
            }
            if !any {
                return;
            }
        }
    }
}

/// Carries out what a service wants: the parts of a logic beside its services.
struct Carrying<'a, O: Outside> {
    now: Now,
    around: &'a mut Around<O>,
    handle: Option<&'a mut ShardHandle<ServerLogic<O>>>,
}

impl<O: Outside> Carrier for Carrying<'_, O> {
    fn deliver(&mut self, to: ConnRef, delivery: Delivery) {
        let Some(handle) = &mut self.handle else { return };
        if let Some(refusal) = delivery.refusal() {
            self.around.heed_refusal(self.now, to, refusal.why);
            self.around.note_refusal(handle, to, &refusal);
        }
        if self.around.tap.is_active() {
            self.around.tap.delivers(self.now, to, &delivery);
        }
        self.around.top.delivers(self.now, &delivery);
        handle.deliver(to, delivery);
    }

    fn ask(&mut self, from: ConnRef, request: Request) {
        self.around.requests.push((from, request));
    }

    fn answer(&mut self, ask: u64, answer: Answer) {
        if let Some(part) = self.around.asks.remove(Key::unpack(ask)) {
            part.answer(answer);
        }
    }

    fn call(&mut self, service: ServiceKind, calls: Vec<(Ticket, Call)>) -> Vec<Ticket> {
        self.around.outside.call(service, calls)
    }

    fn ask_port(
        &mut self,
        service: ServiceKind,
        number: u64,
        request: PortRequest,
    ) -> Result<(), PortReply> {
        self.around.outside.ask_port(service, number, request)
    }

    fn go_out(&mut self, words: Vec<ForeignWord>) -> (ForeignRefused, Vec<ForeignWord>) {
        self.around.outside.go_out(words)
    }

    fn tell(&mut self, events: Vec<Event>) -> usize {
        self.around.outside.publish(events)
    }

    fn note(&mut self, transition: Transition) {
        self.around.heed_leaving(self.now, &transition);
        let Around { shard_presence, outside, publications, .. } = &mut *self.around;
        let message = shard_presence.note(self.now, transition, outside);
        publications.extend(message);
    }

    fn part(&mut self, parting: Parting) {
        self.around.disconnections.parts(parting);
    }

    fn lose(&mut self, loss: Loss) {
        self.around.slow.loses(self.now, loss);
    }

    fn publish(&mut self, message: Publication) {
        self.around.publications.push(message);
    }
}

/// Logs the identity that a login claims: a line of the life of a connection.
fn tell_login(from: ConnRef, request: &Request) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    if let Some((product, name)) = request.login() {
        let (shard, conn, device) = (from.shard().0, from.key().pack(), escaped(name));
        tell!(event::DEVICE_ASKS, shard, conn, product, %device);
    }
}

impl<O: Outside> ShardLogic for ServerLogic<O> {
    type Machine = ServerMachine;
    type Mail = Mail;
    const WIRES: &'static [WireProfile] = &WIRES;
    const WATCHES: bool = true;

    fn machine(&mut self, _: Now, link: &Link, _: ConnectionOrigin) -> Option<ServerMachine> {
        let profile = self.profiles.get(usize::from(link.door)).or(self.profiles.last())?;
        ServerMachine::new(link, profile)
    }

    fn lets_in(&mut self, now: Now, peer: IpAddr, act: BanAct) -> bool {
        !self.around.outside.is_banned(now, Some(peer), None, act)
    }

    fn bans_version(&self) -> u64 {
        self.around.outside.bans_version()
    }

    fn asked_again(&mut self, version: u64) {
        self.around.outside.asked_again(version);
    }

    fn login_phase(machine: &ServerMachine) -> Option<LatencyPhase> {
        Some(match machine {
            ServerMachine::Miop(_) => LatencyPhase::LoginMiop,
            ServerMachine::Mqtt(_) | ServerMachine::ChatOverMqtt(_) => LatencyPhase::LoginMqtt,
            ServerMachine::Im(_) => LatencyPhase::LoginIm,
            ServerMachine::Xmpp(_) => LatencyPhase::LoginXmpp,
        })
    }

    fn word(&mut self, now: Now, from: ConnRef, word: Request, handle: &mut ShardHandle<Self>) {
        self.look_outside();
        self.around.top.hears(now, from, &word, &self.services);
        self.request(now, from, word, Some(&mut *handle));
        self.carry_out(now, Some(handle));
    }

    fn mail(&mut self, now: Now, mail: Mail, handle: &mut ShardHandle<Self>) {
        self.look_outside();
        match mail {
            Mail::Request(from, request) => {
                self.request(now, from, request, Some(&mut *handle));
            }
            Mail::Ask(command, part) => self.ask(now, command, part, handle),
            Mail::Completions(service, completions) => {
                self.around.outside.completed(service, &completions);
                self.complete(now, service, completions);
            }
            Mail::Peer(bag) => self.peer_messages(now, bag),
            Mail::PortReply(service, number, reply) => {
                if let Some(service) = self.of(service) {
                    service.port_reply(now, number, reply);
                }
            }
            Mail::Install(products) => {
                self.services.iter_mut().for_each(|service| service.install(&products));
            }
            Mail::Written(result) => self.written(now, result),
            Mail::Compare(bucket, stored) => self.compare(now, (bucket, &stored)),
            // Nobody waits any more when it is late.
            Mail::Turns(to) => drop(to.try_send(self.shard)),
            Mail::Recall(who, version) => self.recall(now, who, version),
            // The turn that ends with this mail is what was wanted.
            Mail::Attend => {}
            Mail::Lost(lost) => self.tell_lost(&lost),
            Mail::Trace(trace) => {
                self.around.tap.begin(trace);
                handle.set_tapping(true);
            }
            Mail::ReportHooks(hooks, _done) => {
                self.services.iter_mut().for_each(|service| service.set_report_hooks(&hooks));
            }
            Mail::Configure(limits, profiles) => self.configure(limits, profiles, handle),
            Mail::Listeners(profiles, changes) => {
                self.profiles = profiles;
                changes.into_iter().for_each(|change| handle.change_listener(change));
            }
            Mail::Drain(over_ms, to) => {
                self.set_draining(now, true);
                handle.drain_to(over_ms, to);
            }
            Mail::Evacuate(over_ms) => {
                self.set_draining(now, over_ms.is_some());
                match over_ms {
                    Some(over_ms) => handle.evacuate(over_ms),
                    None => handle.stay(),
                }
            }
        }
        self.carry_out(now, Some(handle));
    }

    fn turn(&mut self, now: Now, handle: &mut ShardHandle<Self>) -> Option<Instant> {
        self.look_outside();
        let mut next = None;
        for service in &mut self.services {
            next = earliest([next, service.turn(now)]);
        }
        let behind = self.services.iter().any(|service| service.is_behind());
        self.backlog.set_behind(self.shard, behind);
        self.carry_out(now, Some(&mut *handle));
        let tracker = self.turn_presence(now);
        self.carry_out(now, Some(&mut *handle));
        let figures = self.tell_figures(now, handle);
        let slow = self.around.slow.turn(now, &self.services);
        earliest([next, tracker, figures, slow, self.around.outside.give_back(now)])
    }

    fn tell_shards(&mut self, _: Now, handle: &mut ShardHandle<Self>) {
        let mut send = |bag: PeerBag| handle.post(bag.to, Mail::Peer(bag));
        self.services
            .iter_mut()
            .for_each(|service| service.post(self.shard, &self.backlog, &mut send));
    }

    fn turned(&mut self, _: Now, handle: &mut ShardHandle<Self>) {
        if self.around.shard_presence.is_behind() {
            handle.post(self.shard, Mail::Attend);
        }
    }

    fn disconnected(&mut self, now: Now, conn: Option<ConnRef>, end: &ConnectionEnd) {
        conn.into_iter().for_each(|conn| self.around.slow.ended(conn));
        let is_wanted = self.around.outside.events_wanted(ServiceKind::Topics);
        let kept = self.around.disconnections.ended(now, conn, end);
        if let Some(kept) = kept.filter(|_| is_wanted) {
            let event = Event::Topics(ClientEvent {
                at_ms: kept.at_ms,
                client_id: kept.client.clone(),
                user: kept.user.clone(),
                version: PresenceVersion::default(),
                what: ClientWhat::ConnectionEnded(Box::new(kept.clone())),
            });
            self.around.outside.publish(vec![event]);
        }
    }

    fn slow(
        &mut self,
        now: Now,
        conn: ConnRef,
        machine: &mut ServerMachine,
        found: (SlowReader, bool),
    ) {
        if let Some(whose) = subject_of(machine) {
            self.around.slow.reads(now, conn, whose, found);
        }
    }

    fn passed(
        &mut self,
        now: Now,
        conn: ConnRef,
        machine: &mut ServerMachine,
        passed: PassedBytes,
    ) {
        let who = subject_of(machine).and_then(|(subject, _)| {
            self.services.iter().find_map(|service| service.identity(conn, subject))
        });
        self.around.top.passed(now, passed, who);
    }

    fn tapped(
        &mut self,
        now: Now,
        conn: ConnRef,
        machine: &mut ServerMachine,
        tapped: Tapped<'_, Request>,
    ) {
        self.around.tap.tapped(now, conn, machine, tapped, &self.services);
    }

    fn tapped_turn(&mut self) -> bool {
        self.around.tap.turn()
    }

    fn tap_leaves(&mut self, conn: ConnRef) -> Option<TapNotes> {
        self.around.tap.leaves(conn)
    }

    fn tap_comes(&mut self, conn: ConnRef, notes: TapNotes) {
        self.around.tap.comes(conn, notes);
    }

    fn congested(&self) -> bool {
        self.services.iter().any(|service| service.is_behind())
            || self.backlog.is_long_beside(self.shard)
    }

    fn undelivered(
        &mut self,
        now: Now,
        to: ConnRef,
        down: Delivery,
        handle: &mut ShardHandle<Self>,
    ) {
        if let Some(service) = self.of(down.service()) {
            service.undelivered(now, to, down);
        }
        self.carry_out(now, Some(handle));
    }
}

//! A service at work on a shard, of whatever kind: what the logic does with all of them alike.
//!
//! A running service keeps its effects and its messages to other shards, and converts its words to
//! those of all services. The logic holds a list of these and names none.

use super::call_clock::CallClock;
use super::peers::{PeerBacklog, PeerBag};
use base::time::{Instant, Now};
use model::chat::foreign::{ForeignRefused, ForeignWord};
use model::counters::{ChatCounter, Counters, ProcessCounter};
use model::id::{ConnRef, ShardId};
use model::latency::LatencyPhase;
use model::limits::Limits;
use model::ports::backlog::ReportHook;
use model::ports::control::disconnections::Parting;
use model::ports::control::slow_clients::Loss;
use model::ports::control::{Answer, Command, Status};
use model::ports::log::{Call, Completion, Restored, StoreError, Ticket};
use model::ports::presence::queries::PresenceStatus;
use model::ports::requests::{PortReply, PortRequest};
use model::ports::trace::{TraceIdentity, TraceSubject};
use model::presence::{PresenceVersion, Principal, Transition};
use model::pressure::Pressure;
use model::product::Product;
use model::service::{Delivery, Effects, Event, Request, Service, ServiceKind};
use model::timeline::TimelineId;
use model::topic::Publication;
use std::any::Any;
use std::sync::Arc;

/// Carries out what services want. Implemented by the logic.
pub trait Carrier {
    /// For the machine of a connection.
    fn deliver(&mut self, to: ConnRef, delivery: Delivery);

    /// Asked in the name of a connection, of whoever owns what it is about.
    fn ask(&mut self, from: ConnRef, request: Request);

    /// The answer to a command.
    fn answer(&mut self, ask: u64, answer: Answer);

    /// For the log; the tickets of calls that were not taken come back.
    fn call(&mut self, service: ServiceKind, calls: Vec<(Ticket, Call)>) -> Vec<Ticket>;

    /// Hands over a request to a port; replies at once when it cannot be taken.
    fn ask_port(
        &mut self,
        service: ServiceKind,
        number: u64,
        request: PortRequest,
    ) -> Result<(), PortReply>;

    /// For other domains; what was refused before, and those that find no room now.
    fn go_out(&mut self, words: Vec<ForeignWord>) -> (ForeignRefused, Vec<ForeignWord>);

    /// Hands over events for applications, and returns how many were dropped.
    fn tell(&mut self, events: Vec<Event>) -> usize;

    /// Notes that a principal came online or went offline.
    fn note(&mut self, transition: Transition);

    /// A session or device is about to leave its connection.
    fn part(&mut self, parting: Parting);

    /// Messages for a client that is online were dropped.
    fn lose(&mut self, loss: Loss);

    /// A message of the server's own.
    fn publish(&mut self, message: Publication);
}

/// Events wanted outside the shard, and the memory pressure.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Events of this service.
    pub events_wanted: bool,
    /// Messages that clients publish.
    pub messages_wanted: bool,
    /// How short memory is.
    pub pressure: Pressure,
}

/// A service of any kind, at work on its shard. Methods that are named as those of [`Service`] do
/// the same; what they want done is kept until [`carry_out`](AnyService::carry_out).
pub trait AnyService: Send {
    /// Which one it is.
    fn kind(&self) -> ServiceKind;
    /// Takes something that the log kept.
    fn restore(&mut self, now: Now, restored: Restored<'_>) -> bool;
    /// Whether the entries of a timeline are wanted.
    fn wants_entries(&self, timeline: TimelineId) -> bool;
    /// Ends the start: the log has handed over everything.
    fn restored(&mut self, now: Now);
    /// State outside the shard, before the service acts.
    fn look(&mut self, surroundings: Surroundings);
    /// A machine asks.
    fn request(&mut self, now: Now, from: ConnRef, request: Request);
    /// A delivery found its connection gone.
    fn undelivered(&mut self, now: Now, to: ConnRef, delivery: Delivery);
    /// The API asks.
    fn command(&mut self, now: Now, ask: u64, command: Command);
    /// The log answers calls.
    fn complete(&mut self, now: Now, completions: Vec<Completion>);
    /// Handles messages from the same service of another shard.
    fn peer_messages(&mut self, now: Now, bag: PeerBag);
    /// The reply of a port.
    fn port_reply(&mut self, now: Now, number: u64, reply: PortReply);
    /// A message of the server's own is published.
    fn publish(&mut self, now: Now, message: &Publication);
    /// Has a service take its turn, if it got anything since its last turn, or had wanted one by
    /// now.
    fn turn(&mut self, now: Now) -> Option<Instant>;
    /// Has it turn next time, whatever it got.
    fn stir(&mut self);
    /// Does what it wants done; that may make it want more. Whether there was anything.
    fn carry_out(&mut self, now: Now, carrier: &mut dyn Carrier) -> bool;
    /// Calls that are to be handed to the log.
    fn calls(&self) -> usize;
    /// Sends what it said to other shards in this turn, in the name of this one.
    fn post(&mut self, from: ShardId, backlog: &PeerBacklog, send: &mut dyn FnMut(PeerBag));
    /// Calls that its log has not got or not answered.
    fn unsettled(&self) -> usize;
    /// Whether what comes in goes out more slowly.
    fn is_behind(&self) -> bool;
    /// Notes whether newcomers are refused because the server drains.
    fn set_draining(&mut self, now: Now, draining: bool);
    /// Applies new limits.
    fn configure(&mut self, limits: &Arc<Limits>);
    /// Applies the products of the configuration.
    fn install(&mut self, products: &[Arc<Product>]);
    /// Applies the webhooks that want Reports.
    fn set_report_hooks(&mut self, hooks: &[ReportHook]);
    /// Adds its gauges and counters.
    fn status(&self, status: &mut Status);
    /// Its counters.
    fn counters(&self) -> &Counters;
    /// Its state of a principal.
    fn find(&self, now: Now, who: &Principal) -> Option<PresenceStatus>;
    /// Identity that a machine serves on this connection.
    fn identity(&self, conn: ConnRef, subject: TraceSubject) -> Option<TraceIdentity<'_>>;
    /// Owner of this timeline, in words.
    fn owner(&self, timeline: TimelineId, label: &[u8]) -> Option<String>;
    /// Versions of its transitions are above this one from now on.
    fn observe(&mut self, version: PresenceVersion);
    /// Another server has this principal by now.
    fn outvoted(&mut self, now: Now, who: &Principal);
    /// Panics where it does not agree with itself.
    fn audit(&self);
    /// The service itself, to look at.
    fn inner(&self) -> &dyn Any;
    /// The service itself, to prepare it.
    fn inner_mut(&mut self) -> &mut dyn Any;
}

/// The service of this kind, if it is among these.
pub(super) fn of_kind(
    services: &mut [Box<dyn AnyService>],
    kind: ServiceKind,
) -> Option<&mut Box<dyn AnyService>> {
    services.iter_mut().find(|service| service.kind() == kind)
}

/// Gives something that the log kept to the service that kept it. False: it did not take it, or is
/// not among these.
pub fn restore(services: &mut [Box<dyn AnyService>], now: Now, restored: Restored<'_>) -> bool {
    let service = restored.service().and_then(|kind| of_kind(services, kind));
    service.is_some_and(|service| service.restore(now, restored))
}

/// Whether its service wants the entries of a timeline that the log is about to give back.
pub fn want_entries(services: &mut [Box<dyn AnyService>], restored: Restored<'_>) -> bool {
    let Restored::Timeline { timeline, .. } = restored else { return false };
    let service = restored.service().and_then(|kind| of_kind(services, kind));
    service.is_some_and(|service| service.wants_entries(timeline))
}

/// A service with its effects and what it said.
pub struct RunningService<S: Service> {
    service: S,
    effects: Effects<S>,
    /// Messages to each shard since the last turn.
    said: Vec<Vec<S::PeerMessage>>,
    /// Whether the service got or did something since its last turn.
    stirred: bool,
    /// When it wants to turn at the latest.
    next: Option<Instant>,
    /// How short of memory it knows the process to be.
    pressure: Option<Pressure>,
    clock: CallClock,
}

impl<S: Service> RunningService<S> {
    /// A service, to be put into the list of a shard.
    pub fn boxed(service: S) -> Box<dyn AnyService> {
        let (effects, said, clock) = Default::default();
        let (next, pressure) = Default::default();
        Box::new(RunningService { service, effects, said, clock, stirred: true, next, pressure })
    }

    /// The service, to tell it something.
    fn told(&mut self) -> (&mut S, &mut Effects<S>) {
        self.stirred = true;
        (&mut self.service, &mut self.effects)
    }
}

/// The phase of a service's calls to the log.
fn store_phase(kind: ServiceKind) -> Option<LatencyPhase> {
    match kind {
        ServiceKind::Push => Some(LatencyPhase::StorePush),
        ServiceKind::Topics => Some(LatencyPhase::StoreTopics),
        ServiceKind::Chat => Some(LatencyPhase::StoreChat),
        ServiceKind::Echo => None,
    }
}

/// Answer to a call that the log did not accept.
fn busy(ticket: Ticket) -> Completion {
    (ticket, Err(StoreError::Busy))
}

/// Words for other domains go out. Whether some come back, for which there is no room.
fn goes_out<S: Service>(
    now: Now,
    (service, effects): (&mut S, &mut Effects<S>),
    carrier: &mut dyn Carrier,
) -> bool {
    let (told, back) = carrier.go_out(std::mem::take(&mut effects.foreign));
    effects.counters.count_by(ChatCounter::ForeignDropped, told.dropped);
    effects.counters.count_by(ChatCounter::Invalid, told.invalid);
    let is_any = !back.is_empty();
    service.not_out(now, back, effects);
    is_any
}

/// A word that came to the service it is for; another one is impossible, and passed over.
fn mine<W, S: TryFrom<W>>(word: W) -> Option<S> {
    let mine = S::try_from(word).ok();
    base::never!(mine.is_none(), "a word for another service");
    mine
}

impl<S: Service> AnyService for RunningService<S> {
    fn kind(&self) -> ServiceKind {
        S::KIND
    }

    fn restore(&mut self, now: Now, restored: Restored<'_>) -> bool {
        self.told().0.restore(now, restored)
    }

    fn wants_entries(&self, timeline: TimelineId) -> bool {
        self.service.wants_entries(timeline)
    }

    fn restored(&mut self, now: Now) {
        let (service, fx) = self.told();
        service.restored(now, fx);
    }

    fn look(&mut self, surroundings: Surroundings) {
        self.effects.events_wanted = surroundings.events_wanted;
        self.effects.messages_wanted = surroundings.messages_wanted;
        if self.pressure != Some(surroundings.pressure) {
            self.pressure = Some(surroundings.pressure);
            self.told().0.press(surroundings.pressure);
        }
    }

    fn request(&mut self, now: Now, from: ConnRef, request: Request) {
        if let Some(request) = mine(request) {
            let (service, fx) = self.told();
            service.request(now, from, request, fx);
        }
    }

    fn undelivered(&mut self, now: Now, to: ConnRef, delivery: Delivery) {
        if let Some(delivery) = mine(delivery) {
            let (service, fx) = self.told();
            service.undelivered(now, to, delivery, fx);
        }
    }

    fn command(&mut self, now: Now, ask: u64, command: Command) {
        if let Some(command) = mine(command) {
            let (service, fx) = self.told();
            service.command(now, ask, command, fx);
        }
    }

    fn complete(&mut self, now: Now, completions: Vec<Completion>) {
        for completion in completions {
            let lasted = self.clock.completed(now, completion.0);
            let (service, fx) = self.told();
            if let (Some(lasted), Some(phase)) = (lasted, store_phase(S::KIND)) {
                fx.counters.lasted(phase, lasted);
            }
            service.complete(now, completion, fx);
        }
    }

    fn peer_messages(&mut self, now: Now, bag: PeerBag) {
        let from = bag.from;
        let (service, fx) = self.told();
        for message in bag.open::<S::PeerMessage>() {
            service.peer_message(now, from, message, fx);
        }
    }

    fn port_reply(&mut self, now: Now, number: u64, reply: PortReply) {
        let (service, fx) = self.told();
        service.port_reply(now, number, reply, fx);
    }

    fn publish(&mut self, now: Now, message: &Publication) {
        let (service, fx) = self.told();
        service.publish(now, message, fx);
    }

    fn turn(&mut self, now: Now) -> Option<Instant> {
        let is_due = self.next.is_some_and(|next| next <= now.mono);
        if std::mem::take(&mut self.stirred) || is_due || self.service.has_news() {
            self.next = self.service.turn(now, &mut self.effects);
        }
        self.next
    }

    fn stir(&mut self) {
        self.stirred = true;
    }

    fn carry_out(&mut self, now: Now, carrier: &mut dyn Carrier) -> bool {
        let RunningService { service, effects, said, stirred, clock, .. } = self;
        if effects.is_empty() {
            return false;
        }
        effects.partings.drain(..).for_each(|parting| carrier.part(parting));
        effects.losses.drain(..).for_each(|loss| carrier.lose(loss));
        for (to, delivery) in effects.deliveries.drain(..) {
            carrier.deliver(to, delivery.into());
        }
        for (from, request) in effects.requests.drain(..) {
            carrier.ask(from, request.into());
        }
        for (ask, answer) in effects.answers.drain(..) {
            carrier.answer(ask, answer.into());
        }
        for (to, message) in effects.peer_messages.drain(..) {
            let to = usize::from(to.0);
            if said.len() <= to {
                said.resize_with(to + 1, Vec::new);
            }
            said[to].push(message);
        }
        for (number, request) in std::mem::take(&mut effects.port_requests) {
            if let Err(reply) = carrier.ask_port(S::KIND, number, request) {
                *stirred = true;
                service.port_reply(now, number, reply, effects);
            }
        }
        if !effects.foreign.is_empty() {
            *stirred |= goes_out(now, (service, effects), carrier);
        }
        if !effects.events.is_empty() {
            let dropped = carrier.tell(effects.events.drain(..).map(Into::into).collect());
            effects.counters.count_by(ProcessCounter::EventsDropped, dropped as u64);
        }
        effects.transitions.drain(..).for_each(|transition| carrier.note(transition));
        for message in effects.publications.drain(..) {
            carrier.publish(message);
        }
        if !effects.calls.is_empty() {
            let calls = std::mem::take(&mut effects.calls);
            clock.handed(now, calls.iter().map(|(ticket, _)| *ticket));
            for ticket in carrier.call(S::KIND, calls) {
                *stirred = true;
                clock.completed(now, ticket);
                service.complete(now, busy(ticket), effects);
            }
        }
        true
    }

    fn calls(&self) -> usize {
        self.effects.calls.len()
    }

    fn post(&mut self, from: ShardId, backlog: &PeerBacklog, send: &mut dyn FnMut(PeerBag)) {
        for (to, messages) in self.said.iter_mut().enumerate() {
            if !messages.is_empty() {
                let messages = std::mem::take(messages);
                let way = (from, ShardId(to as u16));
                send(PeerBag::new(S::KIND, way, messages, backlog));
            }
        }
    }

    fn unsettled(&self) -> usize {
        self.service.unsettled()
    }

    fn is_behind(&self) -> bool {
        self.service.is_behind()
    }

    fn set_draining(&mut self, now: Now, draining: bool) {
        self.told().0.set_draining(now, draining);
    }

    fn configure(&mut self, limits: &Arc<Limits>) {
        self.told().0.configure(limits);
    }

    fn install(&mut self, products: &[Arc<Product>]) {
        self.told().0.install(products);
    }

    fn set_report_hooks(&mut self, hooks: &[ReportHook]) {
        self.told().0.set_report_hooks(hooks);
    }

    fn status(&self, status: &mut Status) {
        status.counters.add(&self.effects.counters);
        self.service.status(status);
    }

    fn counters(&self) -> &Counters {
        &self.effects.counters
    }

    fn find(&self, now: Now, who: &Principal) -> Option<PresenceStatus> {
        self.service.find(now, who)
    }

    fn identity(&self, conn: ConnRef, subject: TraceSubject) -> Option<TraceIdentity<'_>> {
        self.service.identity(conn, subject)
    }

    fn owner(&self, timeline: TimelineId, label: &[u8]) -> Option<String> {
        self.service.owner(timeline, label)
    }

    fn observe(&mut self, version: PresenceVersion) {
        self.told().0.observe(version);
    }

    fn outvoted(&mut self, now: Now, who: &Principal) {
        let (service, fx) = self.told();
        service.outvoted(now, who, fx);
    }

    fn audit(&self) {
        self.service.audit();
    }

    fn inner(&self) -> &dyn Any {
        &self.service
    }

    fn inner_mut(&mut self) -> &mut dyn Any {
        self.told().0
    }
}

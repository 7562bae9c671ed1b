//! The third contract: what a service is on a shard.
//!
//! A service is the rules of one kind of messaging over one shard's part of it: pushes and devices,
//! topics and sessions. It is pure and synchronous: it gets the time as an argument, takes one
//! request, command, completion or peer message, and says in [`Effects`] what is to be done. The
//! roof holds a list of services and treats all of them alike. [`calls`](crate::ports::calls) is
//! what each needs of its log.
//!
//! Every word that passes between a service and the rest has one variant a service: [`Request`],
//! [`Delivery`], [`Event`], and [`Command`] and [`Answer`] of the control port. A new service is a
//! crate that implements [`Service`], a variant in each of them, and a line in the roof's list.

use crate::chat::foreign::ForeignWord;
use crate::chat::{ChatDelivery, ChatRequest};
use crate::counters::Counters;
use crate::id::{ConnRef, ShardId};
use crate::limits::Limits;
use crate::ports::backlog::ReportHook;
use crate::ports::chat::{ChatAnswer, ChatCommand};
use crate::ports::control::disconnections::Parting;
use crate::ports::control::slow_clients::Loss;
use crate::ports::control::{Answer, Command, Status};
use crate::ports::events::{ChatEvent, ClientEvent, ClientWhat, DeviceEvent};
use crate::ports::log::{Call, Completion, Restored, Ticket};
use crate::ports::presence::queries::PresenceStatus;
use crate::ports::pushes::{PushAnswer, PushCommand};
use crate::ports::requests::{PortReply, PortRequest};
use crate::ports::topics::{TopicAnswer, TopicCommand};
use crate::ports::trace::{TraceIdentity, TraceSubject};
use crate::presence::{PresenceVersion, Principal, Transition};
use crate::pressure::Pressure;
use crate::product::Product;
use crate::request::{PushDelivery, PushRequest};
use crate::session::{SessionDelivery, SessionRequest};
use crate::timeline::TimelineId;
use crate::topic::Publication;
use base::encoding::Encoding;
use base::hash::HashKey;
use base::time::{Instant, Now};
use std::sync::Arc;

/// All services. Each has its own tickets at its shard's log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ServiceKind {
    /// Pushes and devices.
    Push,
    /// Topics and sessions.
    Topics,
    /// Accounts and conversations.
    Chat,
    /// Repeats what it receives: the smallest service, for tests.
    Echo,
}

/// Request of a server machine to a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// About a device and its pushes.
    Push(PushRequest),
    /// About a session and its topics.
    Topics(SessionRequest),
    /// About an account and its conversations.
    Chat(ChatRequest),
    /// Bytes to send back.
    Echo(Echo),
}

/// Delivery of a service through a server machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// About a device and its pushes.
    Push(PushDelivery),
    /// About a session and its topics.
    Topics(SessionDelivery),
    /// About an account and its conversations.
    Chat(ChatDelivery),
    /// Said again.
    Echo(Echo),
}

/// Event for applications.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An event of a device.
    Push(DeviceEvent),
    /// An event of a client of a publish-and-subscribe protocol.
    Topics(ClientEvent),
    /// An event of chat.
    Chat(ChatEvent),
    /// The echo service repeated a message.
    Echo(Echo),
}

/// Word of the echo service, whatever it is used for: a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Echo(pub Box<str>);

/// Declares that these words are these variants of the wider ones.
macro_rules! variants {
    ($($wide:ident::$variant:ident($word:ty);)+) => {$(
        impl From<$word> for $wide {
            fn from(word: $word) -> $wide {
                $wide::$variant(word)
            }
        }

        impl TryFrom<$wide> for $word {
            type Error = $wide;

            fn try_from(wide: $wide) -> Result<$word, $wide> {
                match wide {
                    $wide::$variant(word) => Ok(word),
                    other => Err(other),
                }
            }
        }
    )+};
}

variants! {
    Request::Push(PushRequest);
    Request::Topics(SessionRequest);
    Request::Chat(ChatRequest);
    Request::Echo(Echo);
    Delivery::Push(PushDelivery);
    Delivery::Topics(SessionDelivery);
    Delivery::Chat(ChatDelivery);
    Delivery::Echo(Echo);
    Event::Push(DeviceEvent);
    Event::Topics(ClientEvent);
    Event::Chat(ChatEvent);
    Event::Echo(Echo);
    Command::Push(PushCommand);
    Command::Topics(TopicCommand);
    Command::Chat(ChatCommand);
    Command::Echo(Echo);
    Answer::Topics(TopicAnswer);
    Answer::Echo(Echo);
}

impl From<ChatAnswer> for Answer {
    /// A service that is busy is as a shard that is.
    fn from(answer: ChatAnswer) -> Answer {
        match answer {
            ChatAnswer::Busy => Answer::Busy,
            answer => Answer::Chat(answer),
        }
    }
}

impl From<PushAnswer> for Answer {
    /// A service that is busy is as a shard that is.
    fn from(answer: PushAnswer) -> Answer {
        match answer {
            PushAnswer::Busy => Answer::Busy,
            answer => Answer::Push(answer),
        }
    }
}

impl Request {
    /// The service it is for.
    pub const fn service(&self) -> ServiceKind {
        match self {
            Request::Push(_) => ServiceKind::Push,
            Request::Topics(_) => ServiceKind::Topics,
            Request::Chat(_) => ServiceKind::Chat,
            Request::Echo(_) => ServiceKind::Echo,
        }
    }

    /// The shard that owns the request, of `shards`, when the asking machine lives on shard `here`.
    /// `key` is the key that chooses shards.
    pub fn owner(&self, here: ShardId, (key, shards): (HashKey, u16)) -> ShardId {
        match self {
            Request::Push(request) => request.owner((key, shards)),
            Request::Chat(request) => request.owner(here, (key, shards)),
            // A machine lives where its session does.
            Request::Topics(_) | Request::Echo(_) => here,
        }
    }

    /// The identity that a login claims: its product, if it has one, and its name. `None`: the
    /// request is no login.
    pub fn login(&self) -> Option<(&str, &str)> {
        match self {
            Request::Push(PushRequest::Bind(bind)) => {
                Some((bind.product.as_str(), bind.device.as_str()))
            }
            Request::Topics(SessionRequest::Connect(connect)) => Some(("", &connect.client_id)),
            Request::Chat(ChatRequest::Login(login)) => Some(("", login.account.as_str())),
            Request::Chat(ChatRequest::Enter(it)) => Some(("", it.login.account.as_str())),
            Request::Chat(ChatRequest::Redeem(it)) => Some(("", it.login.account.as_str())),
            _ => None,
        }
    }
}

impl Delivery {
    /// The service it is of.
    pub const fn service(&self) -> ServiceKind {
        match self {
            Delivery::Push(_) => ServiceKind::Push,
            Delivery::Topics(_) => ServiceKind::Topics,
            Delivery::Chat(_) => ServiceKind::Chat,
            Delivery::Echo(_) => ServiceKind::Echo,
        }
    }

    /// The refusal of a login, if this is one.
    pub fn refusal(&self) -> Option<LoginRefusal<'_>> {
        Some(match self {
            Delivery::Push(PushDelivery::Refused(refused)) => {
                let name = refused.who.as_deref();
                let parts = name.and_then(|name| name.split_once('/'));
                LoginRefusal {
                    why: refused.why.name(),
                    name,
                    client: parts.map(|(_, device)| device),
                    product: parts.map(|(product, _)| product),
                    user: None,
                }
            }
            Delivery::Topics(SessionDelivery::Refused(denied)) => {
                let (name, user) = (denied.who.as_deref(), denied.user.as_deref());
                LoginRefusal { why: denied.why.name(), name, client: name, product: None, user }
            }
            Delivery::Chat(ChatDelivery::Refused(refused)) => {
                let (why, name) = (refused.why.name(), refused.who.as_deref());
                LoginRefusal { why, name, client: None, product: None, user: name }
            }
            _ => return None,
        })
    }
}

/// The refusal of a login: the reason, and the names that the client gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginRefusal<'a> {
    /// The word for the reason.
    pub why: &'static str,
    /// The name in the log: `product/device`, client identifier, or account.
    pub name: Option<&'a str>,
    /// Client identifier, or device.
    pub client: Option<&'a str>,
    /// Product of the device.
    pub product: Option<&'a str>,
    /// User, or account.
    pub user: Option<&'a str>,
}

impl Event {
    /// Whether it is a message that a client published.
    pub const fn is_message(&self) -> bool {
        matches!(self, Event::Topics(ClientEvent { what: ClientWhat::Published(_), .. }))
    }
}

/// Size of a message in transit, by which queues are bounded.
pub trait Weigh {
    /// Approximate memory, bytes.
    fn weight(&self) -> usize;
}

/// Rules of one kind of messaging over one shard's part of it.
///
/// Each call puts its effects into `fx`; the caller empties it after every call. Every command is
/// answered once, every ticket completed once.
pub trait Service: Send + 'static {
    /// Kind of the service.
    const KIND: ServiceKind;

    /// Its requests.
    type Request: TryFrom<Request> + Into<Request> + Send;
    /// Its deliveries.
    type Delivery: TryFrom<Delivery> + Into<Delivery> + Send;
    /// Its events.
    type Event: Into<Event> + Send;
    /// Its commands.
    type Command: TryFrom<Command>;
    /// Its answers.
    type Answer: Into<Answer> + Send;
    /// Messages of the service to its counterparts on other shards.
    type PeerMessage: Weigh + Encoding + Send + 'static;

    /// Takes something that the log kept, before anything else is asked. False: it cannot be read,
    /// or has no room.
    fn restore(&mut self, now: Now, restored: Restored<'_>) -> bool;

    /// Whether the entries of a timeline are wanted that the log is about to give back.
    fn wants_entries(&self, _timeline: TimelineId) -> bool {
        true
    }

    /// Handles the end of the start: the log has handed over everything.
    fn restored(&mut self, now: Now, fx: &mut Effects<Self>);

    /// A machine asks. A request of a connection that is not (or no longer) bound to its session or
    /// device changes nothing.
    fn request(&mut self, now: Now, from: ConnRef, request: Self::Request, fx: &mut Effects<Self>);

    /// A delivery found its connection gone, on the shard where that had lived.
    fn undelivered(
        &mut self,
        now: Now,
        to: ConnRef,
        delivery: Self::Delivery,
        fx: &mut Effects<Self>,
    );

    /// The API asks. The answer comes in `fx.answers` under `ask`, now or later.
    fn command(&mut self, now: Now, ask: u64, command: Self::Command, fx: &mut Effects<Self>);

    /// The log answers a call.
    fn complete(&mut self, now: Now, completion: Completion, fx: &mut Effects<Self>);

    /// Handles a message from the same service of another shard.
    fn peer_message(
        &mut self,
        now: Now,
        from: ShardId,
        message: Self::PeerMessage,
        fx: &mut Effects<Self>,
    );

    /// Takes the reply of a port to the request with this number.
    fn port_reply(&mut self, _now: Now, _number: u64, _reply: PortReply, _fx: &mut Effects<Self>) {}

    /// Takes back words that found no room on the way to other domains.
    fn not_out(&mut self, _now: Now, _words: Vec<ForeignWord>, _fx: &mut Effects<Self>) {}

    /// The server publishes a message; services with topics deliver it.
    fn publish(&mut self, _now: Now, _message: &Publication, _fx: &mut Effects<Self>) {}

    /// Advances all pending work, a slice of each, and returns when to call again at the latest;
    /// `now` if more is left.
    fn turn(&mut self, now: Now, fx: &mut Effects<Self>) -> Option<Instant>;

    /// Whether state that the service polls in its turns has changed since the last one: rules,
    /// which threads of the process share.
    fn has_news(&self) -> bool {
        false
    }

    /// Number of operations that the service has still to finish with its log.
    fn unsettled(&self) -> usize;

    /// Whether what comes in goes out more slowly: machines, here and on other shards, had better
    /// be read no further until it does not.
    fn is_behind(&self) -> bool {
        false
    }

    /// Notes how short memory is.
    fn press(&mut self, pressure: Pressure);

    /// Notes whether newcomers are refused because the server drains.
    fn set_draining(&mut self, now: Now, draining: bool);

    /// Applies new limits. Sessions and entries that exceed a lower limit stay until they end.
    fn configure(&mut self, _limits: &Arc<Limits>) {}

    /// Applies the products of the configuration.
    fn install(&mut self, _products: &[Arc<Product>]) {}

    /// Applies the webhooks that want Reports. Those that a log is about to store are stored where
    /// they were to go.
    fn set_report_hooks(&mut self, _hooks: &[ReportHook]) {}

    /// Adds its gauges.
    fn status(&self, status: &mut Status);

    /// Presence of a principal; `None`: the service does not know it.
    fn find(&self, now: Now, who: &Principal) -> Option<PresenceStatus>;

    /// The identity for which a machine speaks over this connection; `None`: the service does not
    /// know it. For traces.
    fn identity(&self, _conn: ConnRef, _subject: TraceSubject) -> Option<TraceIdentity<'_>> {
        None
    }

    /// Owner of a timeline, or the two accounts of its message as its label names them; as text for
    /// the log. May visit everything that the service has.
    fn owner(&self, _timeline: TimelineId, _label: &[u8]) -> Option<String> {
        None
    }

    /// Versions of its transitions are above this one from now on.
    fn observe(&mut self, version: PresenceVersion);

    /// Another server has this principal now: its connection here ends.
    fn outvoted(&mut self, now: Now, who: &Principal, fx: &mut Effects<Self>);

    /// Panics where it does not agree with itself.
    fn audit(&self);
}

/// Actions that a service asks its shard for, in lanes that are emptied after every call;
/// `counters` only grow. Order within a lane is the order of carrying out.
pub struct Effects<S: Service + ?Sized> {
    /// Deliveries for the machines of these connections.
    pub deliveries: Vec<(ConnRef, S::Delivery)>,
    /// Requests in the name of these connections, for the owners of their subjects.
    pub requests: Vec<(ConnRef, S::Request)>,
    /// Answers to commands, under the number of the command.
    pub answers: Vec<(u64, S::Answer)>,
    /// Calls of the log; each ticket is completed once.
    pub calls: Vec<(Ticket, Call)>,
    /// Messages to the same service of other shards, in order for each shard.
    pub peer_messages: Vec<(ShardId, S::PeerMessage)>,
    /// Requests to ports outside the shard; replies come by [`Service::port_reply`].
    pub port_requests: Vec<(u64, PortRequest)>,
    /// Traffic to other domains, in order for each domain.
    pub foreign: Vec<ForeignWord>,
    /// Events for applications.
    pub events: Vec<S::Event>,
    /// Principals that came or went, whether or not anybody listens: for presence.
    pub transitions: Vec<Transition>,
    /// Connections that lose their session or device now.
    pub partings: Vec<Parting>,
    /// Messages dropped because a client that is online did not take them.
    pub losses: Vec<Loss>,
    /// Messages of the server's own.
    pub publications: Vec<Publication>,
    /// Counts since the process began.
    pub counters: Box<Counters>,
    /// Set by the roof: events have listeners.
    pub events_wanted: bool,
    /// Set by the roof: published messages have listeners.
    pub messages_wanted: bool,
}

impl<S: Service + ?Sized> Default for Effects<S> {
    fn default() -> Self {
        Effects {
            deliveries: Vec::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            calls: Vec::new(),
            peer_messages: Vec::new(),
            port_requests: Vec::new(),
            foreign: Vec::new(),
            events: Vec::new(),
            transitions: Vec::new(),
            partings: Vec::new(),
            losses: Vec::new(),
            publications: Vec::new(),
            counters: Box::default(),
            events_wanted: false,
            messages_wanted: false,
        }
    }
}

impl<S: Service + ?Sized> Effects<S> {
    /// Whether every lane is empty.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
            && self.requests.is_empty()
            && self.answers.is_empty()
            && self.calls.is_empty()
            && self.peer_messages.is_empty()
            && self.port_requests.is_empty()
            && self.foreign.is_empty()
            && self.events.is_empty()
            && self.transitions.is_empty()
            && self.partings.is_empty()
            && self.losses.is_empty()
            && self.publications.is_empty()
    }

    /// Publishes an event, if there are listeners.
    pub fn tell(&mut self, event: S::Event) {
        if self.events_wanted {
            self.events.push(event);
        }
    }
}

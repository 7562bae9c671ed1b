//! Commands of the API to the broker: publish, and look at clients, sessions, subscriptions and
//! retained messages.
//!
//! A command about one client goes to its owner's shard; a command about all clients goes to all
//! shards and their answers are merged, as with every command of [`super::control`].

use crate::close::CloseReason;
use crate::presence::PresenceVersion;
use crate::topic::{Publication, Qos, SubscriptionOptions};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A question or an order about topics and sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopicCommand {
    /// Publish. Answer: `Published`, once it is where it has to be.
    Publish {
        /// The message.
        message: Arc<Publication>,
        /// Seconds to wait before.
        delay_s: u32,
    },
    /// A page of clients. Answer: `Clients`.
    Clients {
        /// Filter of the clients.
        of: ClientFilter,
        /// Where the last page ended.
        after: Option<u64>,
        /// The most to return.
        count: u32,
    },
    /// One client. Answer: `Client`.
    Client(Box<str>),
    /// The subscriptions of a client. Answer: `Subscriptions`.
    Subscriptions(Box<str>),
    /// Subscribe a client. Answer: `Done` (false: it has no session).
    Subscribe(Box<str>, SubscriptionOptions),
    /// Unsubscribe a client. Answer: `Done`.
    Unsubscribe(Box<str>, Box<str>),
    /// End a client's connection. Answer: `Done` (whether it had one).
    Kick(Box<str>),
    /// End a client's connection and session. Answer: `Done` (whether it had one).
    DropSession(Box<str>),
    /// A page of retained messages. Answer: `Retained`.
    Retained {
        /// Filter of the topics.
        filter: Box<str>,
        /// Where the page before said to go on.
        after: Option<Box<str>>,
        /// The most to return.
        count: u32,
    },
    /// Forget the retained message of a topic. Answer: `Done`.
    ClearRetained(Box<str>),
}

/// Filter of clients: all that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientFilter {
    /// Whether the client has a connection.
    pub online: Option<bool>,
    /// Name of the user.
    pub user: Option<Box<str>>,
    /// Prefix of the client identifier.
    pub prefix: Option<Box<str>>,
    /// Address that the connection comes from.
    pub address: Option<IpAddr>,
    /// The least number of messages that wait for the client.
    pub queued_min: Option<u32>,
    /// Least number of messages that the client lost since its session began.
    pub dropped_min: Option<u64>,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopicAnswer {
    /// Answer to `Publish`.
    Published {
        /// Whether any session is subscribed to the topic.
        matched: bool,
    },
    /// Answer to `Clients`.
    Clients {
        /// The clients.
        clients: Vec<ClientState>,
        /// Where to go on; absent at the end.
        next: Option<u64>,
    },
    /// Answer to `Client`.
    Client(Option<Box<ClientState>>),
    /// Answer to `Subscriptions`; `None`: no such session.
    Subscriptions(Option<Vec<SubscriptionState>>),
    /// Answer to `Retained`, in the order of their topics.
    Retained {
        /// The messages.
        messages: Vec<Arc<Publication>>,
        /// Topic behind which to go on, which may be one that was looked at and is not shown, and
        /// the page empty for it; `None`: that was all.
        next: Option<Box<str>>,
    },
    /// The command is done; `false`: it changed nothing.
    Done(bool),
    /// The message or wish was refused, with the reason as text.
    Refused(&'static str),
}

/// State of a client, for the API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientState {
    /// Its identifier.
    pub client_id: Box<str>,
    /// Its user.
    pub user: Option<Arc<str>>,
    /// Whether the client is connected, and has been welcomed.
    pub online: bool,
    /// `mqtt31`, `mqtt311`, `mqtt5`.
    pub protocol: &'static str,
    /// The client's address, while it is online and if it is known.
    pub peer: Option<SocketAddr>,
    /// Unix millisecond since when it is online or away.
    pub since_ms: u64,
    /// Unix millisecond at which it was certainly there for the last time.
    pub seen_ms: u64,
    /// Version of its last transition; without one, the version it was made with.
    pub version: PresenceVersion,
    /// How its last connection ended, when it is away; absent if it never was online.
    pub reason: Option<CloseReason>,
    /// Longest silence agreed, seconds.
    pub keep_alive_s: u16,
    /// Seconds the session outlives the connection; `u32::MAX`: for ever.
    pub expiry_s: u32,
    /// Subscriptions.
    pub subscriptions: u32,
    /// Deliveries on the way.
    pub inflight: u32,
    /// Messages that wait, those on the way included.
    pub queued: u32,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Messages dropped since the session began.
    pub dropped: u64,
    /// Whether the client has a will.
    pub has_will: bool,
}

/// One subscription of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionState {
    /// Options that the client asked for.
    pub wish: SubscriptionOptions,
    /// The QoS that was granted.
    pub granted: Qos,
    /// The number that deliveries name.
    pub subscription_id: Option<u32>,
}

//! Clients of topics, their sessions and subscriptions.

use crate::orders::messages::RETAIN_HANDLING;
use crate::texts::{CloseWord, QosNumber, Version};
use model::close::CloseReason;
use model::ports::topics::{ClientState, SubscriptionState};
use schemars::JsonSchema;
use serde::Serialize;

/// State of a client.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Client {
    /// Its identifier.
    client_id: String,
    /// Who it is; null: anonymous.
    user: Option<String>,
    /// It has a connection.
    online: bool,
    /// `mqtt31`, `mqtt311`, `mqtt5`.
    protocol: &'static str,
    /// Its address, while it is online and as far as it is known.
    peer: Option<String>,
    /// Unix millisecond since when it is online or away.
    since_ms: u64,
    /// Unix millisecond at which it was certainly there for the last time; 0: never.
    seen_ms: u64,
    /// Of its last transition: 64 bits as sixteen hexadecimal digits, so that texts sort as
    /// versions do.
    #[schemars(with = "Version")]
    version: String,
    /// How its last connection ended, when it is away.
    #[schemars(with = "Option<CloseWord>")]
    reason: Option<&'static str>,
    /// Longest silence agreed, seconds; 0: any.
    keep_alive_s: u16,
    /// Seconds the session outlives the connection; null: for ever.
    session_expiry_s: Option<u32>,
    /// Subscriptions.
    subscriptions: u32,
    /// Deliveries on the way.
    inflight: u32,
    /// Messages that wait, those on the way included.
    queued: u32,
    /// Their bytes.
    queued_bytes: u64,
    /// Messages dropped since the session began.
    dropped: u64,
    /// It has a will.
    has_will: bool,
}

impl From<&ClientState> for Client {
    fn from(state: &ClientState) -> Client {
        Client {
            client_id: state.client_id.to_string(),
            user: state.user.as_deref().map(str::to_owned),
            online: state.online,
            protocol: state.protocol,
            peer: state.peer.map(|peer| peer.to_string()),
            since_ms: state.since_ms,
            seen_ms: state.seen_ms,
            version: state.version.to_string(),
            reason: state.reason.map(CloseReason::name),
            keep_alive_s: state.keep_alive_s,
            session_expiry_s: (state.expiry_s != u32::MAX).then_some(state.expiry_s),
            subscriptions: state.subscriptions,
            inflight: state.inflight,
            queued: state.queued,
            queued_bytes: state.queued_bytes,
            dropped: state.dropped,
            has_will: state.has_will,
        }
    }
}

/// A page of clients.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ClientPage {
    /// The page.
    pub(crate) clients: Vec<Client>,
    /// Where to go on: the next query's `after`; null at the end.
    pub(crate) next: Option<String>,
}

/// What of a client is over.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ClientKicked {
    Connection {
        /// There was a connection.
        was_online: bool,
    },
    Session {
        /// The session is gone too.
        dropped: bool,
    },
}

/// A subscription of a client.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Subscription {
    /// Topic filter.
    filter: String,
    /// The highest QoS that was wished for.
    #[schemars(with = "QosNumber")]
    qos: u8,
    /// The one that was granted.
    #[schemars(with = "QosNumber")]
    granted: u8,
    /// Nothing that it published itself.
    no_local: bool,
    /// Messages keep their retain flag.
    retain_as_published: bool,
    /// When retained messages are sent.
    #[schemars(extend("enum" = RETAIN_HANDLING.map(|(word, _)| word)))]
    retain_handling: &'static str,
    /// The number that deliveries name.
    subscription_id: Option<u32>,
}

impl From<&SubscriptionState> for Subscription {
    fn from(state: &SubscriptionState) -> Subscription {
        let wish = &state.wish;
        let mut handling = RETAIN_HANDLING.into_iter();
        let handling = handling.find(|(_, known)| *known == wish.retain_handling);
        Subscription {
            filter: wish.filter.to_string(),
            qos: wish.qos as u8,
            granted: state.granted as u8,
            no_local: wish.no_local,
            retain_as_published: wish.retain_as_published,
            retain_handling: handling.map_or("send", |(word, _)| word),
            subscription_id: state.subscription_id,
        }
    }
}

/// Subscriptions of a client.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Subscriptions {
    /// All of them.
    pub(crate) subscriptions: Vec<Subscription>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Subscribed {
    /// It is.
    pub(crate) subscribed: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Unsubscribed {
    /// It is.
    pub(crate) unsubscribed: bool,
}

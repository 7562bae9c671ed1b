//! MQTT clients, their sessions and subscriptions.

pub(crate) mod disconnections;
pub(crate) mod top;

use super::devices::Kicked;
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
    /// Its user; null: anonymous.
    user: Option<String>,
    /// Whether it is connected.
    online: bool,
    /// `mqtt31`, `mqtt311`, `mqtt5`.
    protocol: &'static str,
    /// Its address, if it is online and the address is known.
    peer: Option<String>,
    /// Unix millisecond since which it is online or offline.
    since_ms: u64,
    /// Unix millisecond at which it was last known to be connected; 0: never.
    seen_ms: u64,
    /// Version of its last transition: 64 bits as sixteen hexadecimal digits, so that texts sort as
    /// versions do.
    #[schemars(with = "Version")]
    version: String,
    /// How its last connection ended, if it is offline.
    #[schemars(with = "Option<CloseWord>")]
    reason: Option<&'static str>,
    /// Agreed keep-alive, seconds; 0: none.
    keep_alive_s: u16,
    /// Seconds that the session outlives the connection; null: for ever.
    session_expiry_s: Option<u32>,
    /// Subscriptions.
    subscriptions: u32,
    /// Deliveries sent and not acknowledged.
    inflight: u32,
    /// Messages queued, including unacknowledged ones.
    queued: u32,
    /// Bytes of these.
    queued_bytes: u64,
    /// Messages dropped since the session began.
    dropped: u64,
    /// Whether it has a will.
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
    /// Where to continue: the next query's `after`; null at the end.
    pub(crate) next: Option<String>,
}

/// Ended parts of a client.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ClientKicked {
    Connection(Kicked),
    Session(SessionDropped),
}

/// The session of a client is deleted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionDropped {
    /// Whether the session was deleted as well.
    pub(crate) dropped: bool,
}

/// A subscription of a client.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Subscription {
    /// Topic filter.
    filter: String,
    /// The requested maximum QoS.
    #[schemars(with = "QosNumber")]
    qos: u8,
    /// The granted QoS.
    #[schemars(with = "QosNumber")]
    granted: u8,
    /// Whether its own messages are not sent to it.
    no_local: bool,
    /// Whether messages keep their retain flag.
    retain_as_published: bool,
    /// When retained messages are sent.
    #[schemars(extend("enum" = RETAIN_HANDLING.map(|(word, _)| word)))]
    retain_handling: &'static str,
    /// The subscription identifier in deliveries.
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
    /// All subscriptions of the client.
    pub(crate) subscriptions: Vec<Subscription>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Subscribed {
    /// Always true.
    pub(crate) subscribed: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Unsubscribed {
    /// Always true.
    pub(crate) unsubscribed: bool,
}

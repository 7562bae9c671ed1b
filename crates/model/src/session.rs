//! Requests that the server machine of a publish-and-subscribe protocol makes to the broker, and
//! deliveries of the broker through that machine.
//!
//! Words of the model, not of a wire: the machine knows packets and their rules, the broker knows
//! sessions. State that outlives a connection is the session's: identifiers in use, messages on the
//! way, subscriptions, the will. A machine and its session live on the same shard.

use crate::chat::{AccountDevice, ChatCall};
use crate::close::CloseReason;
use crate::id::SessionRef;
use crate::topic::{Publication, Qos, SubscriptionIds, SubscriptionOptions};
use std::net::SocketAddr;
use std::sync::Arc;

/// Request of a machine to the broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionRequest {
    /// Begin or resume a session over this connection. Answered by `Connected`, `Refused` or
    /// `Challenge`. Nothing else is asked before the answer, except `Proceed` and `Gone`.
    Connect(Box<ConnectRequest>),
    /// The next step of an authentication: the first one's, or (bound) a new one.
    Proceed(Box<Proceed>),
    /// The connection ended before `ConnectRequest` was answered.
    Gone,
    /// A message. At QoS 1 and 2 answered by `Taken`, in the order of the messages.
    Publish {
        /// Session that asks, on its owner's shard.
        session: SessionRef,
        /// The publisher's packet identifier; 0 at QoS 0.
        id: u16,
        /// Whether the message may have been sent before.
        again: bool,
        /// The message, not shared yet.
        message: Arc<Publication>,
    },
    /// The publisher will not send this message of QoS 2 again. Answered by `Completed`.
    Release {
        /// Session that asks, on its owner's shard.
        session: SessionRef,
        /// Its packet identifier.
        id: u16,
    },
    /// The subscriber answers a delivery.
    Acked {
        /// Session that asks, on its owner's shard.
        session: SessionRef,
        /// The packet identifier of the delivery.
        id: u16,
        /// Step of the acknowledgement.
        step: AckStep,
    },
    /// Answered by `Subscribed`.
    Subscribe(Box<SubscribeRequest>),
    /// Answered by `Unsubscribed`.
    Unsubscribe(Box<UnsubscribeRequest>),
    /// Everything sent has been written: messages that are paced by the socket may follow.
    Ready {
        /// Session that asks, on its owner's shard.
        session: SessionRef,
    },
    /// Deliveries of QoS 0 that were not sent, because too much waits for the socket or the packet
    /// would be larger than the client takes.
    Dropped {
        /// Session that asks, on its owner's shard.
        session: SessionRef,
        /// Number of deliveries.
        count: u32,
        /// Reason for which it was dropped.
        why: Drop,
    },
    /// The client says farewell.
    Leave {
        /// Session that asks, on its owner's shard.
        session: SessionRef,
        /// The will is published all the same (MQTT5 3.14.2.1, 0x04).
        with_will: bool,
        /// A new expiry of the session, seconds; `u32::MAX`: never.
        expiry_s: Option<u32>,
    },
    /// The connection ended while this session was bound to it.
    Closed {
        /// Session that asks, on its owner's shard.
        session: SessionRef,
        /// Reason why the connection ended.
        reason: CloseReason,
    },
}

/// Step of a subscriber's acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckStep {
    /// The subscriber has a message of QoS 1. True: it says that it could not take it (a reason of
    /// 0x80 and above).
    Puback(bool),
    /// The subscriber has received a message of QoS 2, which is to be released. True: it rejected
    /// the message, and the exchange has ended.
    Pubrec(bool),
    /// The subscriber knows that the message will not come again.
    Pubcomp,
    /// The machine could not send it: the packet would be larger than the client takes, so it is
    /// as if it had been completed (MQTT5 3.1.2-25).
    Unsendable,
}

/// Reason why a message was not delivered to a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Drop {
    /// The client's socket had too large a backlog (QoS 0).
    SlowReader,
    /// Larger than the client's maximum packet size.
    TooLarge,
    /// The session's queue was full (number of messages).
    QueueCount,
    /// The session's queue was full (bytes).
    QueueBytes,
    /// The message expired.
    Expired,
    /// The session was offline, and QoS 0 is not queued.
    Offline,
    /// The session ended.
    SessionEnded,
    /// The log refused it.
    StoreFull,
    /// No member of the shared subscription was left.
    NoMember,
    /// No member of the shared subscription may read it.
    NoReader,
    /// A mailbox between shards was full.
    Busy,
    /// An access rule forbids the client to read it.
    NotAuthorized,
    /// The client refused it (a reason of 0x80 and above).
    ClientRefused,
}

impl Drop {
    /// Meaning of the drop, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Drop::SlowReader => "The client's socket had too large a backlog (QoS 0).",
            Drop::TooLarge => "Larger than the client's maximum packet size.",
            Drop::QueueCount => "The session's queue was full (number of messages).",
            Drop::QueueBytes => "The session's queue was full (bytes).",
            Drop::Expired => "The message expired.",
            Drop::Offline => "The session was offline, and QoS 0 is not queued.",
            Drop::SessionEnded => "The session ended.",
            Drop::StoreFull => "The log refused it.",
            Drop::NoMember => "No member of the shared subscription was left.",
            Drop::NoReader => "No member of the shared subscription may read it.",
            Drop::Busy => "A mailbox between shards was full.",
            Drop::NotAuthorized => "An access rule forbids the client to read it.",
            Drop::ClientRefused => "The client refused it (a reason of 0x80 and above).",
        }
    }

    /// Every reason.
    pub const ALL: [Drop; 13] = [
        Drop::SlowReader,
        Drop::TooLarge,
        Drop::QueueCount,
        Drop::QueueBytes,
        Drop::Expired,
        Drop::Offline,
        Drop::SessionEnded,
        Drop::StoreFull,
        Drop::NoMember,
        Drop::NoReader,
        Drop::Busy,
        Drop::NotAuthorized,
        Drop::ClientRefused,
    ];

    /// The word in counters, events and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Drop::SlowReader => "slow_reader",
            Drop::TooLarge => "too_large",
            Drop::QueueCount => "queue_count",
            Drop::QueueBytes => "queue_bytes",
            Drop::Expired => "expired",
            Drop::Offline => "offline",
            Drop::SessionEnded => "session_ended",
            Drop::StoreFull => "store_full",
            Drop::NoMember => "no_member",
            Drop::NoReader => "no_reader",
            Drop::Busy => "busy",
            Drop::NotAuthorized => "not_authorized",
            Drop::ClientRefused => "client_refused",
        }
    }
}

/// Fields of a client's request to connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectRequest {
    /// The protocol, for events and queries: `mqtt31`, `mqtt311`, `mqtt5`.
    pub protocol: &'static str,
    /// The client identifier; empty: the broker gives one whose home is this shard.
    pub client_id: Box<str>,
    /// Discard an earlier session.
    pub clean_start: bool,
    /// How long the session outlives the connection, seconds; `u32::MAX`: for ever.
    pub expiry_s: u32,
    /// Longest silence the client wishes, seconds; 0: any.
    pub keep_alive_s: u16,
    /// Deliveries of QoS 1 and 2 it takes at once, 1 to 65,535.
    pub receive_max: u16,
    /// Whether the client marks itself as a bridge: it gets retain flags as published, and none of
    /// its own messages.
    pub is_bridge: bool,
    /// Whether the client asks for a topic prefix for responses (MQTT5 3.1.2.11.6).
    pub wants_response_information: bool,
    /// Its will.
    pub will: Option<Will>,
    /// User name that the client claims.
    pub user: Option<Box<str>>,
    /// Password or token of the client.
    pub password: Option<Box<[u8]>>,
    /// The name of the device that it is, where it has another one than its identifier.
    pub device: Option<Box<str>>,
    /// An exchange it wants instead: method, and first data.
    pub method: Option<(Box<str>, Box<[u8]>)>,
    /// Identity in its verified certificate, or of its pre-shared key.
    pub certificate: Option<Box<str>>,
    /// Its address, from the PROXY header when the listener trusts one.
    pub peer: SocketAddr,
    /// Whether the client is on this machine, as its socket says.
    pub near: bool,
    /// The listener it came through.
    pub door: u8,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Whether the connection exceeds the limit, and was accepted only to be answered that the
    /// server is full.
    pub crowded: bool,
}

/// A message for the time after (MQTT5 3.1.2.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Will {
    /// The message; its expiry begins when it is published, so `expire_at` is 0.
    pub message: Arc<Publication>,
    /// Seconds between the end of the connection and its publication.
    pub delay_s: u32,
    /// Seconds it may live once published; 0: it does not expire.
    pub expiry_s: u32,
}

/// A step of an authentication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proceed {
    /// The session, when a bound client authenticates again.
    pub session: Option<SessionRef>,
    /// The method.
    pub method: Box<str>,
    /// Its data.
    pub data: Box<[u8]>,
}

/// Standing interests, in one packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribeRequest {
    /// Session that asks, on its owner's shard.
    pub session: SessionRef,
    /// The packet identifier.
    pub id: u16,
    /// The number that deliveries shall name, 1 to 268,435,455.
    pub subscription_id: Option<u32>,
    /// Filters with their options, in the order of the packet.
    pub wishes: Vec<SubscriptionOptions>,
}

/// The end of standing interests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnsubscribeRequest {
    /// Session that asks, on its owner's shard.
    pub session: SessionRef,
    /// The packet identifier.
    pub id: u16,
    /// Filters, in the order of the packet.
    pub filters: Vec<Box<str>>,
}

/// Delivery of the broker through a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionDelivery {
    /// The session is bound.
    Connected(Box<Connected>),
    /// The session is refused; the connection ends.
    Refused(Box<Denied>),
    /// The client must answer this.
    Challenge {
        /// The method.
        method: Box<str>,
        /// Its data.
        data: Box<[u8]>,
    },
    /// A bound client has authenticated again.
    Authenticated {
        /// The method.
        method: Box<str>,
        /// The server's last word.
        data: Box<[u8]>,
    },
    /// A message for the client.
    Publish(Outgoing),
    /// A message of QoS 2 that the client has: release it.
    Release {
        /// The packet identifier.
        id: u16,
        /// The identifier is not known (MQTT5 3.6.2.1).
        unknown: bool,
    },
    /// The broker's answer to a message of QoS 1 or 2: on stable storage where it has to be.
    Taken {
        /// The publisher's packet identifier.
        id: u16,
        /// Its QoS: which packet answers.
        qos: Qos,
        /// Result of the publish.
        result: Result<Routed, Denial>,
    },
    /// The broker's answer to `Release`.
    Completed {
        /// The publisher's packet identifier.
        id: u16,
        /// The identifier was not known.
        unknown: bool,
    },
    /// Each wish granted with a QoS, or not.
    Subscribed {
        /// The packet identifier.
        id: u16,
        /// Result for each wish, in the order of the wishes.
        results: Box<[Result<Qos, Denial>]>,
    },
    /// Each filter: whether it was there, or why not.
    Unsubscribed {
        /// The packet identifier.
        id: u16,
        /// Result for each filter, in the order of the filters.
        results: Box<[Result<bool, Denial>]>,
    },
    /// A message that chat is to answer. The publisher gets its result by `Taken`, as from the
    /// broker, and all deliveries of chat by `Publish`.
    Call(Box<ChatCall>),
    /// The account of the client's device has changed, or the events that it wants.
    Device(Box<AccountDevice>),
    /// The server ends it: say so and go.
    End(Box<Denied>),
}

/// Reach of a message when it was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routed {
    /// Some session is subscribed.
    Matched,
    /// No session is subscribed.
    NoSubscriber,
}

/// A message on its way to one client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The message.
    pub message: Arc<Publication>,
    /// The packet identifier; 0 at QoS 0.
    pub id: u16,
    /// QoS of the delivery.
    pub qos: Qos,
    /// Whether the message may have been sent before.
    pub again: bool,
    /// The retain flag it carries.
    pub retain: bool,
    /// Whether others on this shard get it too: its frame is worth keeping for them.
    pub shared: bool,
    /// Identifiers of the subscriptions that the message matches.
    pub subscription_ids: SubscriptionIds,
}

/// A session was bound to its connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connected {
    /// The session's record.
    pub session: SessionRef,
    /// An earlier session goes on.
    pub present: bool,
    /// The identifier the broker gave, when the client brought none.
    pub assigned: Option<Box<str>>,
    /// The silence in force, seconds; 0: any.
    pub keep_alive_s: u16,
    /// The expiry in force, seconds; `u32::MAX`: never.
    pub expiry_s: u32,
    /// Messages of QoS 1 and 2 that the client may have unanswered.
    pub receive_max: u16,
    /// The prefix for response topics.
    pub response_information: Option<Box<str>>,
    /// The last word of an exchange: method and data.
    pub method: Option<(Box<str>, Box<[u8]>)>,
    /// A bridge of MQTT 3 that marked itself.
    pub is_bridge: bool,
}

/// A refusal or an end, with what may be said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied {
    /// Reason of the refusal.
    pub why: Denial,
    /// Details for people, if they say more than the name.
    pub text: Option<Box<str>>,
    /// The server to use instead.
    pub server: Option<Box<str>>,
    /// How the connection is counted.
    pub reason: CloseReason,
    /// The client it is about, for the log.
    pub who: Option<Box<str>>,
    /// Name of the user that the client claimed, likewise.
    pub user: Option<Box<str>>,
}

impl Denied {
    /// A refusal without a text.
    pub fn of(why: Denial, reason: CloseReason) -> Denied {
        Denied { why, text: None, server: None, reason, who: None, user: None }
    }
}

/// Declares the denials once: variant, word in answers, events and the log, meaning.
macro_rules! denials {
    ($($variant:ident $name:literal $meaning:literal;)+) => {
        /// Why the broker refused a request.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Denial { $(#[doc = $meaning] $variant,)+ }

        impl Denial {
            /// All denials.
            pub const ALL: &'static [Denial] = &[$(Denial::$variant,)+];

            /// The word in answers, events and the log.
            pub const fn name(self) -> &'static str {
                match self { $(Denial::$variant => $name,)+ }
            }
        }
    };
}

denials! {
    BadCredentials "bad_credentials" "Wrong name, password, token or proof.";
    NotAuthorized "not_authorized" "An access rule forbids it.";
    ClientIdInvalid "client_id_invalid" "The client identifier is not allowed.";
    BadMethod "bad_method" "Unknown authentication method.";
    Unavailable "unavailable" "External authentication does not answer.";
    Busy "busy" "Too many requests at once; retry later.";
    Full "full" "A limit of connections or sessions is reached.";
    Quota "quota" "A quota is exceeded.";
    Rate "rate" "A rate limit is exceeded.";
    Banned "banned" "The address, the client or the user is banned.";
    UseAnother "use_another" "Use another server for now.";
    Moved "moved" "Use another server from now on.";
    ShuttingDown "shutting_down" "The server is shutting down.";
    TakenOver "taken_over" "A newer connection took over the session.";
    AdminKick "admin_kick" "An operator ended the connection.";
    Expired "expired" "The authorization of the session expired.";
    TopicInvalid "topic_invalid" "The topic name is valid but not accepted.";
    FilterInvalid "filter_invalid" "The topic filter is valid but not accepted.";
    PayloadFormat "payload_format" "The payload does not have the stated format.";
    StoreFull "store_full" "The log is full.";
    StoreFailed "store_failed" "The log failed: writes are refused until the server restarts.";
    NoWildcards "no_wildcards" "Wildcards are not accepted.";
    NoShared "no_shared" "Shared subscriptions are not accepted.";
    IdInUse "id_in_use" "The packet identifier is in use.";
    ReceiveMax "receive_max" "More unacknowledged messages than agreed (MQTT5 3.3.4-9).";
    Protocol "protocol" "The session or protocol state does not allow it.";
    Unspecified "unspecified" "Another reason.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_drops_line_up_with_their_counters() {
        let distinct = |mut names: Vec<&'static str>| {
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            names.len() == all && names.iter().all(|name| !name.is_empty())
        };
        assert!(distinct(Drop::ALL.iter().map(|why| why.name()).collect()));
        assert!(distinct(Denial::ALL.iter().map(|why| why.name()).collect()));
        assert!(Drop::ALL.iter().enumerate().all(|(at, &why)| why as usize == at));
    }

    #[test]
    fn a_denial_says_why_and_no_more() {
        let denied = Denied::of(Denial::Busy, CloseReason::Busy);
        assert_eq!((denied.why, denied.reason), (Denial::Busy, CloseReason::Busy));
        assert!(denied.text.is_none() && denied.server.is_none() && denied.who.is_none());
    }
}

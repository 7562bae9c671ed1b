//! Events of a client for whoever drives it, and orders to it.
//!
//! The machine says [`Heard`], which borrows from the packet; a [`EventTranslator`] is what its
//! driver makes of that: an [`MqttEvent`] that owns everything, or the laboratory's `Observation`,
//! which keeps next to nothing. Messages that were sent and received are known by tokens of the
//! driver's or of the machine's, never by packet identifiers.

use super::relay::{RelayEvent, RelayOrder};
use crate::codec::ReasonCode;
use crate::codec::ack::Reasons;
use crate::codec::block::{Block, Properties};
use crate::codec::property::Property;
use crate::codec::publish::Publish;
use base::time::Now;
use model::topic::{Publication, Qos, SubscriptionOptions};
use std::sync::Arc;

/// Event of a client, as it was read.
pub enum Heard<'a> {
    /// The server accepted it.
    Connected {
        /// Whether an earlier session goes on.
        session_present: bool,
        /// The keep-alive that holds, seconds; 0: none.
        keep_alive_s: u16,
        /// Further properties of the CONNACK.
        properties: Properties<'a>,
    },
    /// The server refused it.
    Refused {
        /// Reason code of the packet.
        reason: ReasonCode,
        /// The code as it came: before 5.0 a return code.
        code: u8,
        /// Further properties of the CONNACK.
        properties: Properties<'a>,
    },
    /// A message.
    Message {
        /// Token by which it is acknowledged, if the caller does that.
        token: u32,
        /// Topic of the message.
        topic: &'a str,
        /// The packet.
        publish: &'a Publish<'a>,
    },
    /// Result of a publish.
    Published {
        /// Token that the driver gave with its order.
        token: u32,
        /// Token up to which no message is under way any more.
        up_to: Option<u32>,
        /// The server's reason code, or why the message was not published.
        result: Result<ReasonCode, Unpublished>,
    },
    /// The session ended with this message on the way: it may have come, or not.
    Lost {
        /// Token that the driver gave with its order.
        token: u32,
        /// The message, if it was kept.
        message: Option<Arc<Publication>>,
    },
    /// The answer to a subscription.
    Subscribed {
        /// Token that the driver gave with its order.
        token: u32,
        /// One for each filter.
        reasons: Reasons<'a>,
    },
    /// The answer to its end; before 5.0 without reasons.
    Unsubscribed {
        /// Token that the driver gave with its order.
        token: u32,
        /// One for each filter.
        reasons: Reasons<'a>,
    },
    /// The server wants the next step of the exchange.
    Challenge {
        /// Data of the method.
        data: &'a [u8],
    },
    /// The server has authenticated it again.
    Authenticated {
        /// The method's last word.
        data: &'a [u8],
    },
    /// PINGREQ was answered.
    Pong,
    /// A step of a message that is relayed.
    Relay(RelayEvent),
    /// The server said farewell.
    Disconnected {
        /// Reason code of the packet.
        reason: ReasonCode,
        /// Further properties of the DISCONNECT.
        properties: Properties<'a>,
    },
}

/// Translator of a client's events into a driver's.
pub trait EventTranslator: Sized {
    /// The word for it; `None`: of no interest.
    fn of(now: Now, heard: Heard<'_>) -> Option<Self>;
}

/// Reason why a message was not published.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unpublished {
    /// The server said no.
    Refused(ReasonCode),
    /// Too many wait.
    QueueFull,
    /// The message is larger than the server takes (MQTT5 3.1.2-25).
    TooLarge,
    /// The server does not serve its QoS (MQTT5 3.2.2-11).
    QosNotServed,
    /// The server keeps no messages (MQTT5 3.2.2-14).
    RetainNotServed,
    /// Its time was over before it could be sent.
    Expired,
    /// The message has QoS 0, and there is no connection.
    Offline,
}

/// Event that a client has seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MqttEvent {
    /// The server accepted it.
    Connected(Box<ConnectAccepted>),
    /// The server refused it.
    Refused(Box<Farewell>),
    /// A message.
    Message {
        /// Token by which it is acknowledged, if the caller does that.
        token: u32,
        /// QoS of this delivery.
        qos: Qos,
        /// The server had kept it; or, where retain is left as published, so it was published.
        retain: bool,
        /// Whether the message may have been sent before.
        again: bool,
        /// Identifiers of the subscriptions it is for.
        ids: Vec<u32>,
        /// The packet identifier; 0 at QoS 0.
        packet_id: u16,
        /// The message; QoS and retain are those of the delivery.
        message: Arc<Publication>,
    },
    /// Result of a publish.
    Published {
        /// Token that the driver gave with its order.
        token: u32,
        /// The server's reason code, or why the message was not published.
        result: Result<ReasonCode, Unpublished>,
    },
    /// The session ended with this message on the way.
    Lost {
        /// Token that the driver gave with its order.
        token: u32,
        /// The message.
        message: Option<Arc<Publication>>,
    },
    /// The answer to a subscription, one reason for each filter.
    Subscribed {
        /// Token that the driver gave with its order.
        token: u32,
        /// One for each filter.
        reasons: Vec<ReasonCode>,
    },
    /// The answer to the end of one; before 5.0 without reasons.
    Unsubscribed {
        /// Token that the driver gave with its order.
        token: u32,
        /// One for each filter.
        reasons: Vec<ReasonCode>,
    },
    /// The next step of the exchange, please.
    Challenge(Box<[u8]>),
    /// The client has been authenticated again.
    Authenticated(Box<[u8]>),
    /// PINGREQ was answered.
    Pong,
    /// A step of a message that is relayed.
    Relay(RelayEvent),
    /// The server said farewell.
    Disconnected(Box<Farewell>),
}

/// The server's yes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectAccepted {
    /// Whether an earlier session goes on.
    pub session_present: bool,
    /// The keep-alive that holds, seconds; 0: none.
    pub keep_alive_s: u16,
    /// The client identifier that the server gave.
    pub client_id: Option<Box<str>>,
    /// How long the session is kept, when the server says so; seconds.
    pub expiry_s: Option<u32>,
    /// Prefix of response topics.
    pub response_information: Option<Box<str>>,
    /// The method's last word.
    pub auth_data: Option<Box<[u8]>>,
}

/// The server's no, or its farewell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Farewell {
    /// Reason code of the packet.
    pub reason: ReasonCode,
    /// Why, in words.
    pub text: Option<Box<str>>,
    /// Another server.
    pub elsewhere: Option<Box<str>>,
}

impl Farewell {
    fn of(reason: ReasonCode, properties: Properties<'_>) -> Box<Farewell> {
        Box::new(Farewell {
            reason,
            text: properties.reason_string().map(Box::from),
            elsewhere: properties.server_reference().map(Box::from),
        })
    }
}

impl EventTranslator for MqttEvent {
    fn of(now: Now, heard: Heard<'_>) -> Option<MqttEvent> {
        Some(match heard {
            Heard::Connected { session_present, keep_alive_s, properties } => {
                MqttEvent::Connected(Box::new(ConnectAccepted {
                    session_present,
                    keep_alive_s,
                    client_id: properties.assigned_client_id().map(Box::from),
                    expiry_s: properties.session_expiry(),
                    response_information: properties.response_information().map(Box::from),
                    auth_data: properties.auth_data().map(Box::from),
                }))
            }
            Heard::Refused { reason, properties, .. } => {
                MqttEvent::Refused(Farewell::of(reason, properties))
            }
            Heard::Message { token, topic, publish } => message(now, token, topic, publish),
            Heard::Published { token, result, .. } => MqttEvent::Published { token, result },
            Heard::Lost { token, message } => MqttEvent::Lost { token, message },
            Heard::Subscribed { token, reasons } => {
                MqttEvent::Subscribed { token, reasons: reasons.iter().collect() }
            }
            Heard::Unsubscribed { token, reasons } => {
                MqttEvent::Unsubscribed { token, reasons: reasons.iter().collect() }
            }
            Heard::Challenge { data } => MqttEvent::Challenge(data.into()),
            Heard::Authenticated { data } => MqttEvent::Authenticated(data.into()),
            Heard::Pong => MqttEvent::Pong,
            Heard::Relay(event) => MqttEvent::Relay(event),
            Heard::Disconnected { reason, properties } => {
                MqttEvent::Disconnected(Farewell::of(reason, properties))
            }
        })
    }
}

/// The properties of a message.
pub fn properties_of(message: &Publication) -> impl Iterator<Item = Property<'_>> {
    Properties::of_message(message.properties()).iter()
}

/// Properties of one delivery and not of the message.
const OWN: [u8; 3] = [0x02, 0x0b, 0x23]; // expiry, subscription identifier, topic alias

/// A message with these properties; an expiry becomes a time, and what belongs to one delivery is
/// left out.
pub fn publication(
    unix_s: u32,
    topic: &str,
    properties: Properties<'_>,
    payload: &[u8],
) -> Publication {
    let mut made = if OWN.iter().any(|&id| properties.has(id)) {
        let kept = crate::codec::writer::without(properties, &OWN);
        Publication::new(topic, kept.properties().block(), payload)
    } else {
        Publication::new(topic, properties.block(), payload)
    };
    made.at_s = unix_s;
    made.expire_at = properties.message_expiry().map_or(0, |s| unix_s.saturating_add(s).max(1));
    made
}

fn message(now: Now, token: u32, topic: &str, publish: &Publish<'_>) -> MqttEvent {
    let (properties, qos) = (publish.properties, publish.qos);
    let unix_s = u32::try_from(now.wall_ms / 1_000).unwrap_or(u32::MAX);
    let mut made = publication(unix_s, topic, properties, publish.payload);
    (made.qos, made.retain) = (qos, publish.retain);
    MqttEvent::Message {
        token,
        qos,
        retain: publish.retain,
        again: publish.dup,
        ids: properties.subscription_ids().collect(),
        packet_id: publish.id,
        message: Arc::new(made),
    }
}

/// Order to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientOrder {
    /// Publish this, at its own QoS. Answered by [`MqttEvent::Published`], at QoS 0 when it has
    /// been handed to the link.
    Publish {
        /// Token that the answer repeats.
        token: u32,
        /// The message.
        message: Arc<Publication>,
    },
    /// Answered by [`MqttEvent::Subscribed`].
    Subscribe {
        /// Token that the answer repeats.
        token: u32,
        /// At least one.
        wishes: Vec<SubscriptionOptions>,
        /// The subscription identifier and user properties, for 5.0.
        properties: Block,
    },
    /// Answered by [`MqttEvent::Unsubscribed`].
    Unsubscribe {
        /// Token that the answer repeats.
        token: u32,
        /// At least one.
        filters: Vec<Box<str>>,
        /// User properties, for 5.0.
        properties: Block,
    },
    /// Acknowledges a message, where the caller does that. Before 5.0 a failure cannot be said.
    Ack {
        /// Token of the message.
        token: u32,
        /// Success, or why it was not taken.
        reason: ReasonCode,
    },
    /// A step of a message that is relayed; for a client that relays alone.
    Relay(RelayOrder),
    /// The answer to a [`MqttEvent::Challenge`].
    Prove(Box<[u8]>),
    /// Begins the exchange again on a connection that is up, by the same method (MQTT5 4.12.1-1).
    Reauthenticate(Box<[u8]>),
    /// Send PINGREQ.
    Ping,
    /// Say farewell and end the connection.
    Disconnect {
        /// Why; 5.0 only.
        reason: ReasonCode,
        /// The session's new expiry, seconds, and user properties; 5.0 only.
        properties: Block,
    },
}

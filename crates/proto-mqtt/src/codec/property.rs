//! Properties of 5.0 (MQTT5 2.2.2): identifier, value, the packets that may carry them.
//!
//! Declared once, in the table below: from it follow reading, writing, the places where a property
//! may stand, and the question for its value in a [`Properties`]. Rules that depend on other fields
//! of the packet, or on what the ends agreed on, are not known here.

use super::block::Properties;
use super::header::write_varint;
use super::reader::FieldReader;
use super::writer::{Unsent, write_binary};
use super::{PacketFault, PacketKind, Sender};

/// Where properties can stand, one bit for each packet type by its number, and one for the will.
pub mod place {
    use super::PacketKind;

    /// Properties of the will, in CONNECT.
    pub const WILL: u16 = 1;
    pub(super) const CONNECT: u16 = of(PacketKind::Connect);
    pub(super) const CONNACK: u16 = of(PacketKind::Connack);
    pub(super) const PUBLISH: u16 = of(PacketKind::Publish);
    pub(super) const SUBSCRIBE: u16 = of(PacketKind::Subscribe);
    pub(super) const DISCONNECT: u16 = of(PacketKind::Disconnect);
    pub(super) const AUTH: u16 = of(PacketKind::Auth);
    /// Packets with reason codes, CONNACK included.
    pub(super) const ANSWERS: u16 = CONNACK
        | of(PacketKind::Puback)
        | of(PacketKind::Pubrec)
        | of(PacketKind::Pubrel)
        | of(PacketKind::Pubcomp)
        | of(PacketKind::Suback)
        | of(PacketKind::Unsuback)
        | DISCONNECT
        | AUTH;
    pub(super) const REQUESTS: u16 = CONNECT | SUBSCRIBE | of(PacketKind::Unsubscribe);

    /// The bit of a packet type.
    pub const fn of(kind: PacketKind) -> u16 {
        1 << kind.number()
    }
}

/// Values in force where a property is absent (MQTT5 3.1.2.11, 3.1.3.2, 3.2.2.3).
pub mod absent {
    /// The session ends with its connection.
    pub const SESSION_EXPIRY_S: u32 = 0;
    /// Unacknowledged messages of QoS 1 and 2.
    pub const RECEIVE_MAXIMUM: u16 = 65_535;
    /// No topic aliases.
    pub const TOPIC_ALIAS_MAXIMUM: u16 = 0;
    /// The will is published at once.
    pub const WILL_DELAY_S: u32 = 0;
    /// Reason strings are welcome.
    pub const REQUEST_PROBLEM: u8 = 1;
    /// Response information is not asked for.
    pub const REQUEST_RESPONSE: u8 = 0;
    /// QoS 2 is served.
    pub const MAXIMUM_QOS: u8 = 2;
    /// Retained messages, wildcards, subscription identifiers and shared subscriptions are there.
    pub const AVAILABLE: u8 = 1;
}

/// A type of value (MQTT5 1.5): how it is read and written.
trait Value<'a>: Sized {
    fn read(reader: &mut FieldReader<'a>) -> Result<Self, PacketFault>;
    fn write(&self, out: &mut Vec<u8>) -> Result<(), Unsent>;
}

macro_rules! number {
    ($($type:ident)+) => { $(
        impl Value<'_> for $type {
            fn read(reader: &mut FieldReader<'_>) -> Result<Self, PacketFault> {
                reader.$type()
            }
            fn write(&self, out: &mut Vec<u8>) -> Result<(), Unsent> {
                out.extend_from_slice(&self.to_be_bytes());
                Ok(())
            }
        }
    )+ };
}

number! { u8 u16 u32 }

/// A variable byte integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VarInt(pub u32);

impl Value<'_> for VarInt {
    fn read(reader: &mut FieldReader<'_>) -> Result<Self, PacketFault> {
        reader.varint().map(VarInt)
    }
    fn write(&self, out: &mut Vec<u8>) -> Result<(), Unsent> {
        if self.0 > super::varint_max() {
            return Err(Unsent::TooLong);
        }
        write_varint(self.0, out);
        Ok(())
    }
}

impl<'a> Value<'a> for &'a str {
    fn read(reader: &mut FieldReader<'a>) -> Result<Self, PacketFault> {
        reader.text()
    }
    fn write(&self, out: &mut Vec<u8>) -> Result<(), Unsent> {
        write_binary(self.as_bytes(), out)
    }
}

impl<'a> Value<'a> for &'a [u8] {
    fn read(reader: &mut FieldReader<'a>) -> Result<Self, PacketFault> {
        reader.binary()
    }
    fn write(&self, out: &mut Vec<u8>) -> Result<(), Unsent> {
        write_binary(self, out)
    }
}

/// A name and a value (MQTT5 1.5.7).
impl<'a> Value<'a> for (&'a str, &'a str) {
    fn read(reader: &mut FieldReader<'a>) -> Result<Self, PacketFault> {
        Ok((reader.text()?, reader.text()?))
    }
    fn write(&self, out: &mut Vec<u8>) -> Result<(), Unsent> {
        self.0.write(out)?;
        self.1.write(out)
    }
}

macro_rules! properties {
    ($($id:literal $variant:ident $name:ident: $type:ty, [$($place:ident)+] $doc:literal;)+) => {
        /// A property.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum Property<'a> { $(#[doc = $doc] $variant($type),)+ }

        impl<'a> Property<'a> {
            /// Identifier, name and places of each.
            pub const ALL: &'static [(u8, &'static str, u16)] =
                &[$(($id, stringify!($name), 0 $(| place::$place)+),)+];

            /// The identifier.
            pub const fn id(&self) -> u8 {
                match self { $(Property::$variant(_) => $id,)+ }
            }

            /// The name in logs and vectors.
            pub const fn name(&self) -> &'static str {
                match self { $(Property::$variant(_) => stringify!($name),)+ }
            }

            /// Packets that may carry the property, bits of [`place`].
            pub const fn places(&self) -> u16 {
                match self { $(Property::$variant(_) => 0 $(| place::$place)+,)+ }
            }

            pub(super) fn read(reader: &mut FieldReader<'a>) -> Result<Property<'a>, PacketFault> {
                Ok(match reader.varint()? {
                    $($id => Property::$variant(Value::read(reader)?),)+
                    _ => return Err(PacketFault::UnknownProperty),
                })
            }

            pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Unsent> {
                out.push(self.id());
                match self { $(Property::$variant(value) => Value::write(value, out),)+ }
            }
        }

        impl<'a> Properties<'a> {
            $(
                #[doc = $doc]
                #[doc = ""]
                #[doc = "The first one, where several are allowed."]
                pub fn $name(&self) -> Option<$type> {
                    if !self.has($id) {
                        return None;
                    }
                    self.iter().find_map(|property| match property {
                        Property::$variant(value) => Some(value),
                        _ => None,
                    })
                }
            )+
        }
    };
}

properties! {
    0x01 PayloadFormat payload_format: u8, [PUBLISH WILL] "1: the payload is UTF-8 text.";
    0x02 MessageExpiry message_expiry: u32, [PUBLISH WILL] "Seconds the message lives.";
    0x03 ContentType content_type: &'a str, [PUBLISH WILL] "What the payload is.";
    0x08 ResponseTopic response_topic: &'a str, [PUBLISH WILL] "Where an answer goes.";
    0x09 CorrelationData correlation_data: &'a [u8], [PUBLISH WILL] "What an answer repeats.";
    0x0b SubscriptionId subscription_id: VarInt, [PUBLISH SUBSCRIBE] "Names a subscription.";
    0x11 SessionExpiry session_expiry: u32, [CONNECT CONNACK DISCONNECT]
        "Seconds the session outlives its connection; `0xffff_ffff`: for ever.";
    0x12 AssignedClientId assigned_client_id: &'a str, [CONNACK]
        "The client identifier that the server chose.";
    0x13 ServerKeepAlive server_keep_alive: u16, [CONNACK] "The keep-alive to use, seconds.";
    0x15 AuthMethod auth_method: &'a str, [CONNECT CONNACK AUTH] "How to authenticate.";
    0x16 AuthData auth_data: &'a [u8], [CONNECT CONNACK AUTH] "What the method says.";
    0x17 RequestProblem request_problem: u8, [CONNECT] "0: no reason strings, please.";
    0x18 WillDelay will_delay: u32, [WILL] "Seconds before the will is published.";
    0x19 RequestResponse request_response: u8, [CONNECT] "1: response information, please.";
    0x1a ResponseInformation response_information: &'a str, [CONNACK]
        "What response topics are made of.";
    0x1c ServerReference server_reference: &'a str, [CONNACK DISCONNECT] "Another server.";
    0x1f ReasonString reason_string: &'a str, [ANSWERS] "Words for a log.";
    0x21 ReceiveMaximum receive_maximum: u16, [CONNECT CONNACK]
        "Unacknowledged messages that the sender takes; absent: 65,535.";
    0x22 TopicAliasMaximum topic_alias_maximum: u16, [CONNECT CONNACK]
        "Highest topic alias that the sender takes; absent: 0.";
    0x23 TopicAlias topic_alias: u16, [PUBLISH] "A number in place of the topic name.";
    0x24 MaximumQos maximum_qos: u8, [CONNACK] "Highest QoS served; absent: 2.";
    0x25 RetainAvailable retain_available: u8, [CONNACK] "0: no retained messages.";
    0x26 UserProperty user_property: (&'a str, &'a str), [REQUESTS ANSWERS PUBLISH WILL]
        "A name and a value of the application's own.";
    0x27 MaximumPacketSize maximum_packet_size: u32, [CONNECT CONNACK]
        "Largest packet that the sender takes, bytes; absent: no limit.";
    0x28 WildcardAvailable wildcard_available: u8, [CONNACK] "0: no wildcards.";
    0x29 SubscriptionIdAvailable subscription_id_available: u8, [CONNACK]
        "0: no subscription identifiers.";
    0x2a SharedAvailable shared_available: u8, [CONNACK] "0: no shared subscriptions.";
}

impl Property<'_> {
    /// Whether this sender may say it more than once there (MQTT5 2.2.2.2, 3.3.2.3.8).
    pub(super) const fn may_repeat(&self, at: u16) -> bool {
        matches!(self, Property::UserProperty(_))
            || matches!(self, Property::SubscriptionId(_)) && at == place::PUBLISH
    }

    /// Whether its value is allowed, of this sender (MQTT5 3.1.2.11, 3.2.2.3, 3.3.2.3).
    pub(super) fn check(&self, at: u16, sender: Sender) -> Result<(), PacketFault> {
        let fault = match *self {
            Property::PayloadFormat(value)
            | Property::RequestProblem(value)
            | Property::RequestResponse(value)
            | Property::MaximumQos(value)
            | Property::RetainAvailable(value)
            | Property::WildcardAvailable(value)
            | Property::SubscriptionIdAvailable(value)
            | Property::SharedAvailable(value) => (value > 1).then_some(PacketFault::PropertyValue),
            Property::ReceiveMaximum(0)
            | Property::MaximumPacketSize(0)
            | Property::SubscriptionId(VarInt(0)) => Some(PacketFault::PropertyValue),
            Property::SubscriptionId(_) if at == place::PUBLISH && sender == Sender::Client => {
                Some(PacketFault::ClientSubscriptionId)
            }
            Property::SessionExpiry(_) if at == place::DISCONNECT && sender == Sender::Server => {
                Some(PacketFault::ServerSessionExpiry)
            }
            Property::TopicAlias(0) => Some(PacketFault::AliasInvalid),
            Property::ResponseTopic(topic) if topic.is_empty() || topic.contains(['+', '#']) => {
                Some(PacketFault::ResponseTopic)
            }
            _ => None,
        };
        fault.map_or(Ok(()), Err)
    }
}

impl std::fmt::Debug for Property<'_> {
    /// The name only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

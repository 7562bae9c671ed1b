//! One message for many receivers: what is the same for all is encoded once (MQTT5 3.3.2.3).
//!
//! ```text
//!  head, of one receiver                                              | tail, of all
//!  | first | length | topic | [id] | [properties' length | own ones]  | shared ones | payload |
//! ```
//! Receivers of one [`Shape`] that need nothing of their own share a whole
//! [`FanoutMessage::frame`]: at QoS 0 as it is, at QoS 1 and 2 with the packet identifier patched
//! in. A receiver with subscription identifiers or a topic alias gets a head of its own and the
//! shared tail.

use super::block::Properties;
use super::header::{varint_bytes, write_varint};
use super::publish::{first_byte, with_dup, write_header};
use super::writer::{Unsent, without, write_binary};
use super::{Qos, Terms, Version};
use std::borrow::Cow;

/// A message on its way to receivers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FanoutMessage<'a> {
    /// Topic of the message.
    pub topic: &'a str,
    /// Properties as its publisher sent them, or those of a will; what does not go on is left out
    /// (MQTT5 3.3.2-4, 3.3.2-15 to 3.3.2-20).
    pub properties: Properties<'a>,
    /// Seconds it has left to live, in place of those it was sent with (MQTT5 3.3.2-6).
    pub expiry_s: Option<u32>,
    /// Payload of the message.
    pub payload: &'a [u8],
}

/// A kind of receiver: those of one shape are sent the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// The version it speaks.
    pub version: Version,
    /// The QoS of this delivery.
    pub qos: Qos,
    /// Whether RETAIN is set.
    pub retain: bool,
}

impl Shape {
    /// A number for it, distinct from that of every other shape.
    pub const fn number(self) -> u8 {
        self.version.level() << 3 | (self.qos as u8) << 1 | self.retain as u8
    }
}

/// Fields of a PUBLISH that differ by receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverFields<'a> {
    /// The packet identifier; not looked at, at QoS 0.
    pub id: u16,
    /// Whether it may have been sent before.
    pub dup: bool,
    /// An alias for the topic name.
    pub alias: Alias,
    /// Identifiers of the subscriptions that matched (MQTT5 3.3.4-3).
    pub subscription_ids: &'a [u32],
}

/// An alias that stands, or will stand, for the topic name (MQTT5 3.3.2.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Alias {
    /// No alias.
    #[default]
    None,
    /// The name, and the alias that stands for it from now on.
    Announced(u16),
    /// The alias alone.
    Known(u16),
}

/// How long the shared part is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    properties_bytes: usize,
    payload_bytes: usize,
}

impl Tail {
    /// Bytes of it.
    pub const fn bytes(&self) -> usize {
        self.properties_bytes + self.payload_bytes
    }
}

impl FanoutMessage<'_> {
    /// Appends a whole packet for receivers of this shape that have nothing of their own, and says
    /// where in it the packet identifier stands, for [`patch`]; `None` at QoS 0.
    pub fn frame(&self, shape: Shape, out: &mut Vec<u8>) -> Result<Option<usize>, Unsent> {
        let start = out.len();
        self.write(shape, &ReceiverFields::default(), &Terms::of(shape.version), out)?;
        Ok((shape.qos != Qos::AtMostOnce).then(|| id_at(&out[start..])))
    }

    /// Appends a whole packet for one receiver, if it takes such a packet.
    pub fn write(
        &self,
        shape: Shape,
        own: &ReceiverFields<'_>,
        terms: &Terms,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        let tail = self.measure(shape.version);
        out.reserve(self.topic.len() + tail.bytes() + 16);
        self.head(shape, own, tail, terms, out)?;
        self.tail(shape.version, out);
        Ok(())
    }

    /// How long the part is that all receivers of a version share.
    pub fn measure(&self, version: Version) -> Tail {
        let payload_bytes = self.payload.len();
        if !version.has_properties() {
            return Tail { properties_bytes: 0, payload_bytes };
        }
        let expiry_bytes = if self.expiry_s.is_some() { 5 } else { 0 };
        let properties_bytes = expiry_bytes + passed_on(self.properties).len();
        Tail { properties_bytes, payload_bytes }
    }

    /// Appends the part that all receivers of a version share.
    pub fn tail(&self, version: Version, out: &mut Vec<u8>) -> Tail {
        let start = out.len();
        self.properties_of_tail(version, out);
        let properties_bytes = out.len() - start;
        out.extend_from_slice(self.payload);
        Tail { properties_bytes, payload_bytes: self.payload.len() }
    }

    /// Appends the tail without its payload.
    pub fn properties_of_tail(&self, version: Version, out: &mut Vec<u8>) {
        if version.has_properties() {
            self.write_shared(out);
        }
    }

    /// Appends the part of one receiver; the tail goes behind it. A packet above the receiver's
    /// terms is not begun.
    pub fn head(
        &self,
        shape: Shape,
        own: &ReceiverFields<'_>,
        tail: Tail,
        terms: &Terms,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        let has_properties = shape.version.has_properties();
        let topic = if has_properties { own.topic(self.topic) } else { self.topic };
        if topic.len() > usize::from(u16::MAX) {
            return Err(Unsent::TooLong);
        }
        let properties_bytes = own.properties_bytes() + tail.properties_bytes;
        let mut remaining = 2 + topic.len() + tail.bytes();
        remaining += if shape.qos == Qos::AtMostOnce { 0 } else { 2 };
        if has_properties {
            remaining += varint_bytes(properties_bytes as u32) + own.properties_bytes();
        }
        write_header(first_byte(shape.qos, own.dup, shape.retain), remaining, terms, out)?;
        write_binary(topic.as_bytes(), out)?;
        if shape.qos != Qos::AtMostOnce {
            out.extend_from_slice(&own.id.to_be_bytes());
        }
        if has_properties {
            write_varint(properties_bytes as u32, out);
            own.write_properties(out);
        }
        Ok(())
    }

    /// The properties that go on unaltered and in order, and what is left of the expiry.
    fn write_shared(&self, out: &mut Vec<u8>) {
        if let Some(seconds) = self.expiry_s {
            out.push(MESSAGE_EXPIRY);
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        out.extend_from_slice(&passed_on(self.properties));
    }
}

/// The properties of a message that go on unaltered and in order to whoever receives it (MQTT5
/// 3.3.2-4, 3.3.2-15 to 3.3.2-20): all but expiry, subscription identifiers, will delay and alias.
pub fn passed_on<'a>(properties: Properties<'a>) -> Cow<'a, [u8]> {
    let stays = [MESSAGE_EXPIRY, SUBSCRIPTION_ID, WILL_DELAY, TOPIC_ALIAS];
    if stays.iter().any(|&id| properties.has(id)) {
        Cow::Owned(without(properties, &stays).properties().block().to_vec())
    } else {
        Cow::Borrowed(properties.block())
    }
}

const MESSAGE_EXPIRY: u8 = 0x02;
const SUBSCRIPTION_ID: u8 = 0x0b;
const WILL_DELAY: u8 = 0x18;
const TOPIC_ALIAS: u8 = 0x23;

impl ReceiverFields<'_> {
    fn topic<'t>(&self, name: &'t str) -> &'t str {
        if matches!(self.alias, Alias::Known(_)) { "" } else { name }
    }

    fn properties_bytes(&self) -> usize {
        let alias = if self.alias == Alias::None { 0 } else { 3 };
        alias + self.subscription_ids.iter().map(|&id| 1 + varint_bytes(id)).sum::<usize>()
    }

    fn write_properties(&self, out: &mut Vec<u8>) {
        if let Alias::Announced(alias) | Alias::Known(alias) = self.alias {
            out.push(TOPIC_ALIAS);
            out.extend_from_slice(&alias.to_be_bytes());
        }
        for &id in self.subscription_ids {
            out.push(SUBSCRIPTION_ID);
            write_varint(id, out);
        }
    }
}

/// Where in a PUBLISH of QoS 1 or 2 the packet identifier stands.
pub fn id_at(frame: &[u8]) -> usize {
    let topic_at = 2 + frame[1..].iter().take_while(|byte| *byte & 0x80 != 0).count();
    topic_at + 2 + usize::from(u16::from_be_bytes([frame[topic_at], frame[topic_at + 1]]))
}

/// Makes a copy of a [`FanoutMessage::frame`] one receiver's own: its packet identifier at `id_at`,
/// and whether it may have been sent before.
pub fn patch(frame: &mut [u8], id_at: usize, id: u16, dup: bool) {
    frame[0] = with_dup(frame[0], dup);
    frame[id_at..id_at + 2].copy_from_slice(&id.to_be_bytes());
}

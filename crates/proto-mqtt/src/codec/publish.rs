//! PUBLISH: a message (MQTT5 3.3, MQTT3 3.3).
//!
//! ```text
//!  | 0011 dup qos:2 retain | length | topic name | [packet identifier 2] | [properties] | payload
//! ```
//! Nothing of it is copied and nothing allocated. A large one can be decided upon before its
//! payload has come: [`Publish::peek`]. One message for many receivers is [`super::fanout`].

use super::block::Properties;
use super::header::{FixedHeader, Front, varint_bytes, write_varint};
use super::name::check_name;
use super::property::place;
use super::reader::FieldReader;
use super::writer::write_binary;
use super::{DecodeRules, PacketFault, PacketKind, Qos, Terms, Unsent};

/// A message on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Whether it may have been sent before.
    pub dup: bool,
    /// Promised deliveries.
    pub qos: Qos,
    /// From a client: keep it; from a server: it was kept.
    pub retain: bool,
    /// The topic name; empty where an alias stands for it.
    pub topic: &'a str,
    /// The packet identifier; 0 at QoS 0, which has none (MQTT5 2.2.1-2).
    pub id: u16,
    /// Properties of 5.0.
    pub properties: Properties<'a>,
    /// Payload of the message.
    pub payload: &'a [u8],
}

/// A PUBLISH whose payload has perhaps not come yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishHead<'a> {
    /// The packet; of its payload only what has come.
    pub publish: Publish<'a>,
    /// Bytes of the whole payload.
    pub payload_bytes: usize,
    /// Bytes of the whole packet.
    pub packet_bytes: usize,
}

/// Bits of the flags in the first byte (MQTT5 3.3.1).
const RETAIN: u8 = 0x01;
const DUP: u8 = 0x08;

impl<'a> Publish<'a> {
    /// Reads the body.
    #[inline]
    pub(crate) fn read(
        flags: u8,
        reader: &mut FieldReader<'a>,
        rules: &DecodeRules,
    ) -> Result<Publish<'a>, PacketFault> {
        let qos = Qos::of(flags >> 1 & 3).ok_or(PacketFault::PublishQos3)?;
        let dup = flags & DUP != 0;
        if dup && qos == Qos::AtMostOnce {
            reader.fault(PacketFault::DupAtQos0)?;
        }
        let topic = reader.text()?;
        let id = if qos == Qos::AtMostOnce { 0 } else { reader.packet_id()? };
        let mut properties = Properties::default();
        if rules.version.has_properties() {
            properties = Properties::read(reader, place::of(PacketKind::Publish), rules.sender)?;
        }
        if !topic.is_empty() || !properties.has(TOPIC_ALIAS) {
            check_name(topic, rules)?;
        }
        let retain = flags & RETAIN != 0;
        Ok(Publish { dup, qos, retain, topic, id, properties, payload: reader.take_rest() })
    }

    /// The packet at the front of `bytes`, if that is a PUBLISH and has come as far as its
    /// payload: enough to refuse it, or to say where its payload goes. `None` otherwise. A property
    /// that runs past the end of its block shows only when the packet is whole.
    pub fn peek(
        bytes: &'a [u8],
        rules: &DecodeRules,
    ) -> Result<Option<PublishHead<'a>>, PacketFault> {
        let Front::Header(header) = FixedHeader::read(bytes, rules)? else { return Ok(None) };
        if header.kind != PacketKind::Publish {
            return Ok(None);
        }
        let end = bytes.len().min(header.packet_bytes());
        let mut reader = FieldReader::new(&bytes[header.header_bytes..end], rules);
        reader.faults(header.faults(rules.version))?;
        match Publish::read(header.flags, &mut reader, rules) {
            Err(PacketFault::Cut) if end < header.packet_bytes() => Ok(None),
            Err(fault) => Err(fault),
            Ok(publish) => {
                let packet_bytes = header.packet_bytes();
                let payload_bytes = packet_bytes - end + publish.payload.len();
                Ok(Some(PublishHead { publish, payload_bytes, packet_bytes }))
            }
        }
    }

    /// The alias that stands for the topic name, or is to stand for it from now on.
    pub fn topic_alias(&self) -> Option<u16> {
        self.properties.topic_alias()
    }

    /// Whether the payload is what its Payload Format Indicator says. To look is the server's
    /// choice (MQTT5 3.3.2.3.2); the fault is [`PacketFault::PayloadFormat`].
    pub fn payload_is_as_said(&self) -> bool {
        self.properties.payload_format() != Some(1) || std::str::from_utf8(self.payload).is_ok()
    }

    /// Appends it. DUP is never written at QoS 0 (MQTT5 3.3.1-2).
    pub fn write(&self, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        let mut remaining = 2 + self.topic.len() + self.payload.len();
        remaining += if self.qos == Qos::AtMostOnce { 0 } else { 2 };
        if terms.version.has_properties() {
            remaining += self.properties.wire_bytes();
        }
        if self.topic.len() > usize::from(u16::MAX) {
            return Err(Unsent::TooLong);
        }
        write_header(first_byte(self.qos, self.dup, self.retain), remaining, terms, out)?;
        write_binary(self.topic.as_bytes(), out)?;
        if self.qos != Qos::AtMostOnce {
            out.extend_from_slice(&self.id.to_be_bytes());
        }
        if terms.version.has_properties() {
            self.properties.write(out);
        }
        out.extend_from_slice(self.payload);
        Ok(())
    }
}

const TOPIC_ALIAS: u8 = 0x23;

/// The first byte of a PUBLISH.
pub(crate) const fn first_byte(qos: Qos, dup: bool, retain: bool) -> u8 {
    let dup = if dup && !matches!(qos, Qos::AtMostOnce) { DUP } else { 0 };
    PacketKind::Publish.number() << 4 | dup | (qos as u8) << 1 | retain as u8
}

/// Sets or clears DUP in the first byte of a PUBLISH of QoS 1 or 2.
pub(crate) const fn with_dup(first: u8, dup: bool) -> u8 {
    if dup { first | DUP } else { first & !DUP }
}

/// Appends a fixed header for a body of known length, if the receiver takes such a packet.
pub(crate) fn write_header(
    first: u8,
    remaining: usize,
    terms: &Terms,
    out: &mut Vec<u8>,
) -> Result<(), Unsent> {
    let most = super::varint_max() as usize;
    let remaining = u32::try_from(remaining.min(most + 1)).map_err(|_| Unsent::TooLarge)?;
    let packet_bytes = 1 + varint_bytes(remaining) as u32 + remaining;
    if remaining as usize > most || packet_bytes > terms.packet_bytes_max {
        return Err(Unsent::TooLarge);
    }
    out.push(first);
    write_varint(remaining, out);
    Ok(())
}

impl std::fmt::Debug for Publish<'_> {
    /// Without the payload.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publish")
            .field("topic", &self.topic)
            .field("qos", &self.qos)
            .field("dup", &self.dup)
            .field("retain", &self.retain)
            .field("id", &self.id)
            .field("properties", &self.properties)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

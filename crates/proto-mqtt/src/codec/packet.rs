//! One packet of any type, and the way from bytes to it.
//!
//! [`decode`] looks at the front of what has come. It never takes part of a packet: what is not
//! whole is shown again with more behind it, and says how much more it needs at least.

use super::ack::{Ack, Suback};
use super::auth::{Auth, Disconnect};
use super::connack::Connack;
use super::connect::Connect;
use super::header::{FixedHeader, Front};
use super::publish::Publish;
use super::reader::FieldReader;
use super::subscribe::{Subscribe, Unsubscribe};
use super::writer::framed;
use super::{DecodeRules, FaultSet, PacketFault, PacketKind, Sender, Terms, Unsent};

/// A packet that borrows from the bytes it was read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// Boxed: it is long, and comes once a connection.
    Connect(Box<Connect<'a>>),
    /// The answer to it.
    Connack(Connack<'a>),
    /// A message.
    Publish(Publish<'a>),
    /// A message of QoS 1 was taken.
    Puback(Ack<'a>),
    /// A message of QoS 2 was taken.
    Pubrec(Ack<'a>),
    /// The sender of the message will not send it again.
    Pubrel(Ack<'a>),
    /// Its identifier is free.
    Pubcomp(Ack<'a>),
    /// A wish for messages.
    Subscribe(Subscribe<'a>),
    /// The answer to it.
    Suback(Suback<'a>),
    /// A wish for no more.
    Unsubscribe(Unsubscribe<'a>),
    /// The answer to it.
    Unsuback(Suback<'a>),
    /// Is anybody there?
    Pingreq,
    /// PINGRESP: the server's answer to a PINGREQ.
    Pingresp,
    /// A farewell.
    Disconnect(Disconnect<'a>),
    /// A step of an authentication.
    Auth(Auth<'a>),
}

const _: () = assert!(size_of::<Packet>() <= 72, "a packet is handed on by value");

/// Step of decoding: what the front of a byte string is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecodeStep<'a> {
    /// The packet is incomplete: at least so many more bytes are needed.
    More(usize),
    /// A packet.
    Packet {
        /// The packet.
        packet: Packet<'a>,
        /// Its length.
        bytes: usize,
        /// Faults that were let pass.
        tolerated: FaultSet,
    },
}

/// Reads the packet at the front of `bytes`, sent by `rules.sender`. The rules' version is that of
/// the connection; a CONNECT brings its own. Nothing of `bytes` is copied.
pub fn decode<'a>(bytes: &'a [u8], rules: &DecodeRules) -> Result<DecodeStep<'a>, PacketFault> {
    let header = match FixedHeader::read(bytes, rules)? {
        Front::More(more) => return Ok(DecodeStep::More(more)),
        Front::Header(header) => header,
    };
    let whole = header.packet_bytes();
    let Some(body) = bytes.get(header.header_bytes..whole) else {
        return Ok(DecodeStep::More(whole - bytes.len()));
    };
    let mut reader = FieldReader::new(body, rules);
    if header.kind != PacketKind::Connect {
        reader.faults(header.faults(rules.version))?;
    }
    let packet = read_body(&header, &mut reader, rules)?;
    reader.finish()?;
    Ok(DecodeStep::Packet { packet, bytes: whole, tolerated: reader.tolerated() })
}

/// As [`decode`], for the first packet of a connection that was accepted: it must be a CONNECT, and
/// that shows in its first byte (MQTT5 3.1.0-1).
pub fn decode_first<'a>(
    bytes: &'a [u8],
    rules: &DecodeRules,
) -> Result<DecodeStep<'a>, PacketFault> {
    match bytes.first() {
        Some(first) if first >> 4 != PacketKind::Connect.number() => Err(PacketFault::NotConnect),
        _ => decode(bytes, rules),
    }
}

#[inline]
fn read_body<'a>(
    header: &FixedHeader,
    reader: &mut FieldReader<'a>,
    rules: &DecodeRules,
) -> Result<Packet<'a>, PacketFault> {
    let kind = header.kind;
    Ok(match kind {
        PacketKind::Connect => Packet::Connect(Box::new(Connect::read(header, reader, rules)?)),
        PacketKind::Connack => Packet::Connack(Connack::read(reader, rules)?),
        PacketKind::Publish => Packet::Publish(Publish::read(header.flags, reader, rules)?),
        PacketKind::Puback => Packet::Puback(Ack::read(kind, reader, rules)?),
        PacketKind::Pubrec => Packet::Pubrec(Ack::read(kind, reader, rules)?),
        PacketKind::Pubrel => Packet::Pubrel(Ack::read(kind, reader, rules)?),
        PacketKind::Pubcomp => Packet::Pubcomp(Ack::read(kind, reader, rules)?),
        PacketKind::Subscribe => Packet::Subscribe(Subscribe::read(reader, rules)?),
        PacketKind::Suback => Packet::Suback(Suback::read(kind, reader, rules)?),
        PacketKind::Unsubscribe => Packet::Unsubscribe(Unsubscribe::read(reader, rules)?),
        PacketKind::Unsuback => Packet::Unsuback(Suback::read(kind, reader, rules)?),
        PacketKind::Pingreq => Packet::Pingreq,
        PacketKind::Pingresp => Packet::Pingresp,
        PacketKind::Disconnect => Packet::Disconnect(Disconnect::read(reader, rules)?),
        PacketKind::Auth => Packet::Auth(Auth::read(reader, rules)?),
    })
}

impl Packet<'_> {
    /// Which type it is.
    pub const fn kind(&self) -> PacketKind {
        match self {
            Packet::Connect(_) => PacketKind::Connect,
            Packet::Connack(_) => PacketKind::Connack,
            Packet::Publish(_) => PacketKind::Publish,
            Packet::Puback(_) => PacketKind::Puback,
            Packet::Pubrec(_) => PacketKind::Pubrec,
            Packet::Pubrel(_) => PacketKind::Pubrel,
            Packet::Pubcomp(_) => PacketKind::Pubcomp,
            Packet::Subscribe(_) => PacketKind::Subscribe,
            Packet::Suback(_) => PacketKind::Suback,
            Packet::Unsubscribe(_) => PacketKind::Unsubscribe,
            Packet::Unsuback(_) => PacketKind::Unsuback,
            Packet::Pingreq => PacketKind::Pingreq,
            Packet::Pingresp => PacketKind::Pingresp,
            Packet::Disconnect(_) => PacketKind::Disconnect,
            Packet::Auth(_) => PacketKind::Auth,
        }
    }

    /// Appends it, as `sender` sends it, to a receiver of these terms; on `Err` nothing was
    /// appended.
    pub fn write(&self, sender: Sender, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
        let kind = self.kind();
        match self {
            Packet::Connect(connect) => connect.write(terms, out),
            Packet::Connack(connack) => connack.write(terms, out),
            Packet::Publish(publish) => publish.write(terms, out),
            Packet::Puback(ack)
            | Packet::Pubrec(ack)
            | Packet::Pubrel(ack)
            | Packet::Pubcomp(ack) => ack.write(kind, terms, out),
            Packet::Subscribe(subscribe) => subscribe.write(terms, out),
            Packet::Suback(suback) | Packet::Unsuback(suback) => suback.write(kind, terms, out),
            Packet::Unsubscribe(unsubscribe) => unsubscribe.write(terms, out),
            Packet::Pingreq | Packet::Pingresp => framed(kind.first_byte(), terms, out, |_| Ok(())),
            Packet::Disconnect(disconnect) => disconnect.write(sender, terms, out),
            Packet::Auth(auth) => auth.write(terms, out),
        }
    }
}

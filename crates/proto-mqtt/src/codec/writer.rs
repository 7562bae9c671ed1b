//! Writes packets: the frame around a body, and what the receiver's terms make of it.
//!
//! A packet is appended whole or not at all. One that is above the receiver's Maximum Packet Size
//! first loses its User Properties, then its Reason String; if it still does not fit, it is not
//! sent (MQTT5 3.1.2-24 and the clauses of each packet, 3.4.2-2 to 3.15.2-3).

use super::block::{Properties, REASON_STRING, USER_PROPERTY};
use super::header::{varint_bytes, write_varint};
use super::{PACKET_BYTES_MAX, PacketKind, Version};

/// Terms of a receiver of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The version that CONNECT agreed on.
    pub version: Version,
    /// Its Maximum Packet Size, bytes, fixed header included.
    pub packet_bytes_max: u32,
    /// Whether it wants Reason Strings and User Properties outside PUBLISH, CONNACK and
    /// DISCONNECT (Request Problem Information, MQTT5 3.1.2-29).
    pub problems: bool,
}

impl Terms {
    /// Terms of a receiver that named none.
    pub const fn of(version: Version) -> Terms {
        Terms { version, packet_bytes_max: PACKET_BYTES_MAX, problems: true }
    }
}

/// Reason why a packet was not written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unsent {
    /// The packet is above the receiver's Maximum Packet Size (MQTT5 3.1.2-25: discard it).
    TooLarge,
    /// Text or data above 65,535 bytes (MQTT5 1.5.4, 1.5.6), or a number above its range.
    TooLong,
    /// The version has no such packet, or no word for it: just close.
    NotInVersion,
}

/// Appends bytes with a length of two bytes in front.
pub(crate) fn write_binary(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Unsent> {
    let length = u16::try_from(bytes.len()).map_err(|_| Unsent::TooLong)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// Appends a packet with this first byte and what `body` writes.
pub(crate) fn framed(
    first: u8,
    terms: &Terms,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), Unsent>,
) -> Result<(), Unsent> {
    let start = out.len();
    out.extend_from_slice(&[first, 0]);
    let written = body(out).and_then(|()| close_frame(start, terms, out));
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Sets the length of the frame that begins at `start` and has room for one byte of it.
fn close_frame(start: usize, terms: &Terms, out: &mut Vec<u8>) -> Result<(), Unsent> {
    let remaining = out.len() - start - 2;
    if remaining > super::varint_max() as usize {
        return Err(Unsent::TooLarge);
    }
    let remaining = remaining as u32;
    if 1 + varint_bytes(remaining) as u32 + remaining > terms.packet_bytes_max {
        return Err(Unsent::TooLarge);
    }
    if remaining < 0x80 {
        out[start + 1] = remaining as u8;
    } else {
        let mut length = Vec::with_capacity(4);
        write_varint(remaining, &mut length);
        out.splice(start + 1..start + 2, length);
    }
    Ok(())
}

/// As `framed`, for packets whose Reason String and User Properties may be left out: `body` is
/// called with what is left of `properties`.
pub(crate) fn framed_with_texts(
    kind: PacketKind,
    properties: Properties<'_>,
    terms: &Terms,
    out: &mut Vec<u8>,
    body: impl Fn(Properties<'_>, &mut Vec<u8>) -> Result<(), Unsent>,
) -> Result<(), Unsent> {
    let first = kind.first_byte();
    let may_tell = terms.problems || matches!(kind, PacketKind::Connack | PacketKind::Disconnect);
    let has_texts = properties.has(REASON_STRING) || properties.has(USER_PROPERTY);
    if may_tell || !has_texts {
        let whole = framed(first, terms, out, |out| body(properties, out));
        if whole != Err(Unsent::TooLarge) || !has_texts {
            return whole;
        }
        let block = without(properties, &[USER_PROPERTY]);
        let shorter = framed(first, terms, out, |out| body(block.properties(), out));
        if shorter != Err(Unsent::TooLarge) {
            return shorter;
        }
    }
    let block = without(properties, &[USER_PROPERTY, REASON_STRING]);
    framed(first, terms, out, |out| body(block.properties(), out))
}

/// The properties without those of some identifiers.
pub(crate) fn without(properties: Properties<'_>, ids: &[u8]) -> super::block::Block {
    let mut block = super::block::Block::default();
    for property in properties.iter().filter(|property| !ids.contains(&property.id())) {
        block.push(property).expect("what came in a packet fits into one");
    }
    block
}

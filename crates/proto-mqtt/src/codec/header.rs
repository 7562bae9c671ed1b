//! The fixed header: type, flags and the length of the rest (MQTT5 2.1, MQTT3 2.2).
//!
//! ```text
//!  0             1 .. 4
//!  | type:flags | remaining length | remaining bytes ...
//!                  7 bits a byte, least first, 0x80: another byte follows
//! ```
//! The size is held against the limit here, when one byte of the packet's body has yet to come.

use super::{DecodeRules, FaultSet, PacketFault, PacketKind, Version};

/// A fixed header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedHeader {
    /// Type of the packet.
    pub kind: PacketKind,
    /// The lower four bits of the first byte.
    pub flags: u8,
    /// Bytes of the fixed header, 2 to 5.
    pub header_bytes: usize,
    /// Bytes after it.
    pub remaining_bytes: usize,
    /// Whether the length is written with needless bytes (MQTT5 1.5.5-1).
    pub is_padded: bool,
}

/// Front of a byte string, as far as it tells of its first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Front {
    /// At least so many more bytes are needed before the header can be read.
    More(usize),
    /// The header.
    Header(FixedHeader),
}

impl FixedHeader {
    /// Bytes of the whole packet.
    pub const fn packet_bytes(&self) -> usize {
        self.header_bytes + self.remaining_bytes
    }

    /// Reads the header at the front of `bytes`, and says what is wrong with it that can be known
    /// without the rest. Flags and length of a CONNECT are judged when its version is known.
    #[inline]
    pub fn read(bytes: &[u8], rules: &DecodeRules) -> Result<Front, PacketFault> {
        let Some((&first, rest)) = bytes.split_first() else { return Ok(Front::More(2)) };
        let kind = PacketKind::of(first >> 4).ok_or(PacketFault::ReservedType)?;
        if kind == PacketKind::Auth && !rules.version.has_properties() {
            return Err(PacketFault::ReservedType);
        }
        if !kind.may_come_from(rules.sender, rules.version) {
            return Err(PacketFault::WrongDirection);
        }
        let Some((remaining, length_bytes)) = read_varint(rest)? else {
            return Ok(Front::More(1));
        };
        let header = FixedHeader {
            kind,
            flags: first & 0x0f,
            header_bytes: 1 + length_bytes,
            remaining_bytes: remaining as usize,
            is_padded: length_bytes > varint_bytes(remaining),
        };
        if header.packet_bytes() > rules.packet_bytes_max as usize {
            return Err(PacketFault::TooLarge);
        }
        Ok(Front::Header(header))
    }

    /// Faults of the flags and of the form of the length in this version.
    #[inline]
    pub fn faults(&self, version: Version) -> FaultSet {
        let mut faults = FaultSet::NONE;
        if !self.kind.flags_fit(self.flags, version) {
            faults.insert(PacketFault::HeaderFlags);
        }
        if self.is_padded && version == Version::V5 {
            faults.insert(PacketFault::LengthNotShortest);
        }
        faults
    }
}

/// The variable byte integer at the front of `bytes` and its length; `None` when it is cut off
/// (MQTT5 1.5.5).
#[inline]
pub fn read_varint(bytes: &[u8]) -> Result<Option<(u32, usize)>, PacketFault> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((value, at + 1)));
        }
    }
    if bytes.len() >= 4 { Err(PacketFault::LengthTooLong) } else { Ok(None) }
}

/// Bytes that a variable byte integer needs.
#[inline]
pub const fn varint_bytes(value: u32) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    }
}

/// Appends a variable byte integer, in its shortest form (MQTT5 1.5.5-1).
pub fn write_varint(mut value: u32, out: &mut Vec<u8>) {
    debug_assert!(value <= super::varint_max());
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The protocol level that a CONNECT at the front of `bytes` asks for, if its protocol name is one
/// of MQTT's and that much has come. It looks at nothing else, so it may be asked of bytes with
/// any fault behind that.
pub fn peek_version(bytes: &[u8]) -> Option<u8> {
    let (_, length_bytes) = read_varint(bytes.get(1..)?).ok()??;
    let body = bytes.get(1 + length_bytes..)?;
    [Version::V31, Version::V5].iter().find_map(|version| {
        let name = version.protocol_name().as_bytes();
        let rest = body.strip_prefix(&[0, name.len() as u8])?.strip_prefix(name)?;
        rest.first().copied()
    })
}

//! Reads the fields of one packet: integers, text, binary data (MQTT5 1.5, MQTT3 1.5).
//!
//! The reader gets exactly the bytes after the fixed header, so a field that runs past them is a
//! fault and not a reason to wait. It remembers the faults that it lets pass. Nothing is copied.

use super::header::{read_varint, varint_bytes};
use super::{DecodeRules, FaultSet, PacketFault, scan};

/// The fields of a packet that have not been read yet.
#[derive(Clone, Debug)]
pub struct FieldReader<'a> {
    rest: &'a [u8],
    tolerate: FaultSet,
    tolerated: FaultSet,
    strict_text: bool,
}

impl<'a> FieldReader<'a> {
    /// Reader of all of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8], rules: &DecodeRules) -> FieldReader<'a> {
        let tolerated = FaultSet::NONE;
        let (tolerate, strict_text) = (rules.tolerate, rules.strict_text);
        FieldReader { rest: bytes, tolerate, tolerated, strict_text }
    }

    /// Reader of bytes that were read once and found valid: tolerates all that can be tolerated.
    pub(crate) fn again(bytes: &'a [u8]) -> FieldReader<'a> {
        let (tolerate, tolerated) = (FaultSet::TOLERABLE, FaultSet::NONE);
        FieldReader { rest: bytes, tolerate, tolerated, strict_text: false }
    }

    /// Another one over a part of the bytes, by the same rules.
    pub(crate) fn over(&self, part: &'a [u8]) -> FieldReader<'a> {
        FieldReader { rest: part, ..self.clone() }
    }

    /// Goes on behind a part that was read: with the rest of `after`, and what the part was let
    /// pass.
    pub(crate) fn go_on(&mut self, after: FieldReader<'a>) {
        self.rest = after.rest;
    }

    /// Ends reading with `fault`, or remembers it and goes on.
    pub fn fault(&mut self, fault: PacketFault) -> Result<(), PacketFault> {
        if !(self.tolerate.contains(fault) && FaultSet::TOLERABLE.contains(fault)) {
            return Err(fault);
        }
        self.tolerated.insert(fault);
        Ok(())
    }

    /// As [`fault`](Self::fault), for each fault of a set.
    #[inline]
    pub fn faults(&mut self, faults: FaultSet) -> Result<(), PacketFault> {
        if faults.is_empty() {
            return Ok(());
        }
        faults.iter().try_for_each(|fault| self.fault(fault))
    }

    /// Faults that were let pass so far.
    pub fn tolerated(&self) -> FaultSet {
        self.tolerated
    }

    /// Bytes that are not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes what is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Checks that no bytes are left.
    #[inline]
    pub fn finish(&mut self) -> Result<(), PacketFault> {
        if self.is_empty() { Ok(()) } else { self.fault(PacketFault::Trailing) }
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], PacketFault> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(PacketFault::Cut)?;
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], PacketFault> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(PacketFault::Cut)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, PacketFault> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, the higher first (MQTT5 1.5.2).
    #[inline]
    pub fn u16(&mut self) -> Result<u16, PacketFault> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, the highest first (MQTT5 1.5.3).
    pub fn u32(&mut self) -> Result<u32, PacketFault> {
        self.array().map(u32::from_be_bytes)
    }

    /// A variable byte integer inside a packet; only 5.0 has them there (MQTT5 1.5.5-1).
    pub fn varint(&mut self) -> Result<u32, PacketFault> {
        let (value, length) = read_varint(self.rest)?.ok_or(PacketFault::Cut)?;
        if length > varint_bytes(value) {
            self.fault(PacketFault::LengthNotShortest)?;
        }
        self.rest = &self.rest[length..];
        Ok(value)
    }

    /// Bytes with a length of two bytes in front (MQTT5 1.5.6).
    pub fn binary(&mut self) -> Result<&'a [u8], PacketFault> {
        let length = self.u16()?;
        self.bytes(usize::from(length))
    }

    /// UTF-8 text with a length of two bytes in front (MQTT5 1.5.4, MQTT3 1.5.3). A byte order
    /// mark is a character like others (MQTT5 1.5.4-3).
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, PacketFault> {
        let text = self.text_with_nul()?;
        if scan::has_nul(text.as_bytes()) { Err(PacketFault::Nul) } else { Ok(text) }
    }

    /// As [`text`](Self::text), for text that only the server uses, where a NUL can be tolerated.
    pub fn own_text(&mut self) -> Result<&'a str, PacketFault> {
        let text = self.text_with_nul()?;
        if scan::has_nul(text.as_bytes()) {
            self.fault(PacketFault::Nul)?;
        }
        Ok(text)
    }

    #[inline]
    fn text_with_nul(&mut self) -> Result<&'a str, PacketFault> {
        let bytes = self.binary()?;
        let text = std::str::from_utf8(bytes).map_err(|_| PacketFault::BadUtf8)?;
        if self.strict_text && text.chars().any(is_doubtful) {
            return Err(PacketFault::ControlCharacter);
        }
        Ok(text)
    }

    /// A packet identifier (MQTT5 2.2.1, MQTT3 2.3.1). Zero, when it is let pass, is what the
    /// acknowledgement repeats.
    #[inline]
    pub fn packet_id(&mut self) -> Result<u16, PacketFault> {
        let id = self.u16()?;
        if id == 0 {
            self.fault(PacketFault::PacketIdZero)?;
        }
        Ok(id)
    }
}

/// Control characters but NUL, which is worse, and the non-characters of Unicode (MQTT5 1.5.4).
fn is_doubtful(char: char) -> bool {
    let code = char as u32;
    matches!(code, 0x01..=0x1f | 0x7f..=0x9f | 0xfdd0..=0xfdef) || code & 0xfffe == 0xfffe
}

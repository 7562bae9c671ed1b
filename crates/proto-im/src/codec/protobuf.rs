//! The part of the encoding of Protocol Buffers that the schema needs (protobuf.dev, "Encoding").
//!
//! A message is a row of fields: a tag, which is a number and a type, and a value. Reading yields
//! the fields one by one and leaves it to whoever knows the schema to skip a number; groups, which
//! proto3 does not have, are refused. Writing goes to a [`Sink`], of which there are two: one
//! counts, one appends. A value of zero or of no bytes is not written, as proto3 wants it.

use super::WireFault;

/// A field's value as its type tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireValue<'a> {
    /// A number.
    Varint(u64),
    /// A number of eight bytes.
    Fixed64(u64),
    /// A row of bytes, a text or a message.
    Bytes(&'a [u8]),
    /// A number of four bytes, which no field is.
    Fixed32,
}

/// Name of [`WireValue`] within the codec.
pub(super) type Value<'a> = WireValue<'a>;

/// The fields of a message, from the first to the last.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Fields of this message.
    pub const fn of(message: &'a [u8]) -> Fields<'a> {
        Fields(message)
    }

    /// The next field, for whoever knows none by its number.
    pub fn next_field(&mut self) -> Result<Option<(u32, WireValue<'a>)>, WireFault> {
        self.next()
    }

    /// The next field: its number, and its value.
    pub(super) fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, WireFault> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        // 29 bits (protobuf.dev, "Assigning Field Numbers").
        let number = u32::try_from(tag >> 3).ok().filter(|n| (1..1 << 29).contains(n));
        let number = number.ok_or(WireFault::FieldNumber)?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                let (bytes, rest) = self.0.split_first_chunk().ok_or(WireFault::Truncated)?;
                self.0 = rest;
                Value::Fixed64(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| WireFault::Truncated)?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Value::Fixed32
            }
            _ => return Err(WireFault::WireType),
        };
        Ok(Some((number, value)))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], WireFault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(WireFault::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, WireFault> {
        match varint(self.0, 10)? {
            Some((value, bytes)) => {
                self.0 = &self.0[bytes..];
                Ok(value)
            }
            None => Err(WireFault::Truncated),
        }
    }
}

/// The number at the front, and of how many bytes it is; `None`: it goes on. One of more than
/// `bytes_max` bytes is a fault, as is one beyond 64 bits.
pub(crate) fn varint(bytes: &[u8], bytes_max: usize) -> Result<Option<(u64, usize)>, WireFault> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().enumerate() {
        if at == bytes_max || at == 9 && byte > 1 {
            return Err(WireFault::Varint);
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(Some((value, at + 1)));
        }
    }
    if bytes.len() >= bytes_max { Err(WireFault::Varint) } else { Ok(None) }
}

/// The bytes of a number.
pub(super) const fn varint_bytes(value: u64) -> usize {
    // Seven bits a byte, and one byte at least.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

impl<'a> WireValue<'a> {
    /// The value as a number of 64 bits.
    pub fn u64(self) -> Result<u64, WireFault> {
        match self {
            Value::Varint(value) => Ok(value),
            _ => Err(WireFault::WireType),
        }
    }

    /// The value as a number of 32 bits.
    pub fn u32(self) -> Result<u32, WireFault> {
        u32::try_from(self.u64()?).map_err(|_| WireFault::Range)
    }

    /// A number with a sign.
    pub fn sint32(self) -> Result<i32, WireFault> {
        let folded = self.u32()?;
        Ok((folded >> 1) as i32 ^ -((folded & 1) as i32))
    }

    /// The value as a truth.
    pub fn bool(self) -> Result<bool, WireFault> {
        Ok(self.u64()? != 0)
    }

    /// The value as a number of eight bytes.
    pub fn fixed64(self) -> Result<u64, WireFault> {
        match self {
            Value::Fixed64(value) => Ok(value),
            _ => Err(WireFault::WireType),
        }
    }

    /// The value as bytes.
    pub fn bytes(self) -> Result<&'a [u8], WireFault> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(WireFault::WireType),
        }
    }

    /// The value as text.
    pub fn text(self) -> Result<&'a str, WireFault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireFault::Text)
    }

    /// A message within the message.
    pub fn fields(self) -> Result<Fields<'a>, WireFault> {
        Ok(Fields::of(self.bytes()?))
    }
}

/// Where a message is written to.
pub trait Sink {
    /// A number without its tag.
    fn varint(&mut self, value: u64);

    /// Bytes as they are.
    fn raw(&mut self, bytes: &[u8]);

    /// A message behind its length.
    fn sized(&mut self, message: &impl Body);

    /// A number, unless it is zero.
    fn u64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, 0);
            self.varint(value);
        }
    }

    /// A number of 32 bits, unless it is zero.
    fn u32(&mut self, field: u32, value: u32) {
        self.u64(field, u64::from(value));
    }

    /// A number with a sign, which is its lowest bit (protobuf.dev, "Signed Integers").
    fn sint32(&mut self, field: u32, value: i32) {
        self.u32(field, (value << 1 ^ value >> 31) as u32);
    }

    /// A truth, unless it is false.
    fn bool(&mut self, field: u32, value: bool) {
        self.u64(field, u64::from(value));
    }

    /// A number of eight bytes, unless it is zero.
    fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, 1);
            self.raw(&value.to_le_bytes());
        }
    }

    /// Bytes, unless there are none.
    fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.tag(field, 2);
            self.varint(value.len() as u64);
            self.raw(value);
        }
    }

    /// A text, unless it is empty.
    fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// One of several texts, which is there even if it is empty.
    fn each_text(&mut self, field: u32, value: &str) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.raw(value.as_bytes());
    }

    /// A message within the message, which is there even if it has no fields.
    fn body(&mut self, field: u32, message: &impl Body) {
        self.tag(field, 2);
        self.sized(message);
    }

    /// The tag of a field.
    fn tag(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }
}

/// A message that can be written.
pub trait Body {
    /// Its fields, in the order of their numbers.
    fn put(&self, sink: &mut impl Sink);

    /// How many bytes they are.
    fn size(&self) -> usize {
        let mut counter = Counter(0);
        self.put(&mut counter);
        counter.0
    }
}

/// Counts the bytes that would be written.
struct Counter(usize);

impl Sink for Counter {
    fn varint(&mut self, value: u64) {
        self.0 += varint_bytes(value);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn sized(&mut self, message: &impl Body) {
        let size = message.size();
        self.0 += varint_bytes(size as u64) + size;
    }
}

impl Sink for Vec<u8> {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn sized(&mut self, message: &impl Body) {
        let size = message.size();
        self.varint(size as u64);
        let start = self.len();
        message.put(self);
        debug_assert_eq!(self.len() - start, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bytes_of_the_documents_examples() {
        for (value, expected) in [
            (0, &b"\x00"[..]),
            (1, b"\x01"),
            (127, b"\x7f"),
            (128, b"\x80\x01"),
            (150, b"\x96\x01"),
            (16_384, b"\x80\x80\x01"),
            (u64::MAX, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ] {
            let mut bytes = Vec::new();
            bytes.varint(value);
            assert_eq!((bytes.as_slice(), varint_bytes(value)), (expected, expected.len()));
            assert_eq!(varint(&bytes, 10), Ok(Some((value, bytes.len()))));
            for end in 0..bytes.len() {
                assert_eq!(varint(&bytes[..end], 10), Ok(None), "{value} to {end}");
            }
        }
    }

    #[test]
    fn a_number_that_is_too_long_is_a_fault_as_soon_as_it_shows() {
        assert_eq!(varint(&[0x80; 10], 10), Err(WireFault::Varint));
        assert_eq!(varint(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10), Err(WireFault::Varint));
        assert_eq!(varint(&[0x80; 5], 5), Err(WireFault::Varint));
        assert_eq!(varint(&[0x80; 4], 5), Ok(None));
        // Longer than needed is a number all the same, as every library reads it.
        assert_eq!(varint(b"\x81\x00", 10), Ok(Some((1, 2))));
    }

    #[test]
    fn fields_are_read_one_by_one_and_what_is_no_field_is_a_fault() {
        let mut fields = Fields::of(b"\x08\x96\x01\x12\x02hi\x19\x01\0\0\0\0\0\0\0\x25\0\0\0\0");
        let mut seen = Vec::new();
        while let Some(field) = fields.next().expect("well formed") {
            seen.push(field);
        }
        let expected = [
            (1, Value::Varint(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Fixed64(1)),
            (4, Value::Fixed32),
        ];
        assert_eq!(seen, expected);
        for (bytes, fault) in [
            (&b"\x08"[..], WireFault::Truncated),
            (b"\x08\x80", WireFault::Truncated),
            (b"\x12\x03hi", WireFault::Truncated),
            (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", WireFault::Truncated),
            (b"\x19\x01", WireFault::Truncated),
            (b"\x25\0\0\0", WireFault::Truncated),
            (b"\x00\x00", WireFault::FieldNumber),
            (b"\x80\x80\x80\x80\x10\x00", WireFault::FieldNumber),
            (b"\x0b", WireFault::WireType),
            (b"\x0c", WireFault::WireType),
            (b"\x0e", WireFault::WireType),
        ] {
            assert_eq!(Fields::of(bytes).next(), Err(fault), "{bytes:02x?}");
        }
    }
}

//! Encoding of messages between shards of different processes.
//!
//! A type that may leave the process implements [`Encoding`], mostly by the derive of the same
//! name. A socket, a channel or an [`Instant`](crate::time::Instant) has none, and the compiler
//! refuses a message with one. The encoding does not describe itself: both sides know the types.
//!
//! ```text
//! messages: level (1), count (4), message …
//! number   little endian, in its width      bool, Option, Result   a byte (0 or 1), then the value
//! text, list   count (4), elements               enum   tag (1), fields of the variant
//! Arc       0 value: it has one holder    1 value: the next shared one    2 number (4): that one
//! ```
//! A value behind an [`Arc`] that several messages share is written once. A reader understands its
//! own [`LEVEL`] and the one before: a field that a level adds stands last and is absent below it.
//!
//! Invariant: any bytes decode to a value or an error. A decoder neither panics nor takes more
//! memory than the values that it has read so far, and nesting is bounded.

pub mod sample;
mod values;

pub use encoding_derive::Encoding;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The level at which this build writes.
pub const LEVEL: u8 = 1;

/// The lowest level that this build reads.
pub const LEVEL_MIN: u8 = 1;

/// Most boxes and lists inside each other. A message of chat has eight.
pub const NESTING_MAX: u8 = 32;

/// Bytes that are reserved for the elements of a list before the first is read.
const RESERVED_MAX: usize = 4 * 1024;

/// A value that may leave the process.
pub trait Encoding: Sized {
    /// Appends the value.
    fn encode(&self, to: &mut Encoder);

    /// Reads a value as [`encode`](Self::encode) wrote it.
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError>;

    /// Appends several, without their count.
    fn encode_each(all: &[Self], to: &mut Encoder) {
        all.iter().for_each(|one| one.encode(to));
    }

    /// Reads so many.
    fn decode_each(count: usize, from: &mut Decoder<'_>) -> Result<Vec<Self>, DecodeError> {
        let mut all = Vec::with_capacity(count.min(RESERVED_MAX / size_of::<Self>().max(1)));
        for _ in 0..count {
            all.push(Self::decode(from)?);
        }
        Ok(all)
    }
}

/// Reason why bytes could not be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The bytes end too early, or a length exceeds them.
    Truncated,
    /// Bytes are left behind the last value.
    TooLong,
    /// The level is not readable.
    Level(u8),
    /// An enum has no variant with this tag.
    Tag(&'static str, u8),
    /// The type does not allow this value.
    Invalid(&'static str),
    /// More than [`NESTING_MAX`] boxes and lists are inside each other.
    Nesting,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => write!(f, "the bytes end too early"),
            DecodeError::TooLong => write!(f, "bytes are left over"),
            DecodeError::Level(level) => {
                write!(f, "level {level} is not readable, allowed are {LEVEL_MIN} to {LEVEL}")
            }
            DecodeError::Tag(of, tag) => write!(f, "{of} has no variant {tag}"),
            DecodeError::Invalid(what) => write!(f, "not a valid {what}"),
            DecodeError::Nesting => write!(f, "nested more than {NESTING_MAX} deep"),
        }
    }
}

/// Encodes messages, values that they share once.
pub fn encode<T: Encoding>(messages: &[T]) -> Vec<u8> {
    encode_at(LEVEL, messages)
}

/// As [`encode`], for a reader of this level.
pub fn encode_at<T: Encoding>(level: u8, messages: &[T]) -> Vec<u8> {
    let mut to = Encoder { bytes: vec![level], level, shared: HashMap::new() };
    to.list(messages);
    to.bytes
}

/// Decodes messages. An error concerns all of them, for later ones may refer to values of the one
/// that is wrong.
pub fn decode<T: Encoding>(bytes: &[u8]) -> Result<Vec<T>, DecodeError> {
    let mut from = Decoder { bytes, level: 0, shared: Vec::new(), nesting: 0 };
    from.level = from.byte()?;
    if !(LEVEL_MIN..=LEVEL).contains(&from.level) {
        return Err(DecodeError::Level(from.level));
    }
    let messages = from.list()?;
    if from.bytes.is_empty() { Ok(messages) } else { Err(DecodeError::TooLong) }
}

/// Bytes of messages that are being encoded.
pub struct Encoder {
    bytes: Vec<u8>,
    level: u8,
    /// Shared values by their addresses. The messages are borrowed while they are encoded, so an
    /// address names one value.
    shared: HashMap<usize, u32>,
}

impl Encoder {
    /// The level of the reader.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Appends a byte.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Appends bytes, without their count.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a list.
    pub fn list<T: Encoding>(&mut self, all: &[T]) {
        self.count(all.len());
        T::encode_each(all, self);
    }

    /// Appends a text.
    pub fn text(&mut self, text: &str) {
        self.list(text.as_bytes());
    }

    /// Appends the number of elements.
    fn count(&mut self, count: usize) {
        (count as u32).encode(self);
    }

    /// Appends a shared value, which `encode` writes, or the number under which it was written.
    fn shared<T: ?Sized>(&mut self, value: &Arc<T>, encode: impl FnOnce(&T, &mut Encoder)) {
        if Arc::strong_count(value) == 1 {
            self.byte(0);
            return encode(value, self);
        }
        let address = Arc::as_ptr(value).cast::<()>() as usize;
        if let Some(number) = self.shared.get(&address) {
            let number = *number;
            self.byte(2);
            return number.encode(self);
        }
        self.byte(1);
        encode(value, self);
        self.shared.insert(address, self.shared.len() as u32);
    }
}

/// Bytes of messages that are being decoded.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    level: u8,
    /// Shared values, as `Arc<T>`.
    shared: Vec<Box<dyn Any>>,
    nesting: u8,
}

impl<'a> Decoder<'a> {
    /// The level of the writer.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Takes a byte.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    /// Takes a list of bytes.
    pub fn counted(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.count()?;
        self.take(count)
    }

    /// Takes a text.
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.counted()?).map_err(|_| DecodeError::Invalid("UTF-8 text"))
    }

    /// Takes a list.
    pub fn list<T: Encoding>(&mut self) -> Result<Vec<T>, DecodeError> {
        let count = self.count()?;
        self.nested(|from| T::decode_each(count, from))
    }

    /// Takes the number of elements of a list. Each takes at least a byte, so a list that is longer
    /// than what is left is refused.
    fn count(&mut self) -> Result<usize, DecodeError> {
        let count = u32::decode(self)? as usize;
        if count > self.bytes.len() { Err(DecodeError::Truncated) } else { Ok(count) }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Decodes the content of a box or list.
    fn nested<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.nesting == NESTING_MAX {
            return Err(DecodeError::Nesting);
        }
        self.nesting += 1;
        let value = decode(self)?;
        self.nesting -= 1;
        Ok(value)
    }

    /// Takes a shared value, which `decode` reads.
    fn shared<T: ?Sized + Send + Sync + 'static>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<Arc<T>, DecodeError>,
    ) -> Result<Arc<T>, DecodeError> {
        match self.byte()? {
            0 => self.nested(decode),
            1 => {
                let value = self.nested(decode)?;
                self.shared.push(Box::new(value.clone()));
                Ok(value)
            }
            2 => {
                let number = u32::decode(self)? as usize;
                let known = self.shared.get(number).and_then(|it| it.downcast_ref::<Arc<T>>());
                known.cloned().ok_or(DecodeError::Invalid("number of a shared value"))
            }
            tag => Err(DecodeError::Tag("Arc", tag)),
        }
    }
}

#[cfg(test)]
mod tests;

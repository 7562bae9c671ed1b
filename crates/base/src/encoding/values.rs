//! Encodings of numbers, texts, lists and tuples.
//!
//! `usize` has none: its width is the machine's.

use super::{DecodeError, Decoder, Encoder, Encoding};
use crate::slab::Key;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

macro_rules! numbers {
    ($($number:ty)+) => {$(
        impl Encoding for $number {
            fn encode(&self, to: &mut Encoder) {
                to.bytes(&self.to_le_bytes());
            }

            fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                from.array().map(<$number>::from_le_bytes)
            }
        }
    )+};
}

numbers!(u16 u32 u64 u128 i8 i16 i32 i64);

impl Encoding for u8 {
    fn encode(&self, to: &mut Encoder) {
        to.byte(*self);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<u8, DecodeError> {
        from.byte()
    }

    fn encode_each(all: &[u8], to: &mut Encoder) {
        to.bytes(all);
    }

    fn decode_each(count: usize, from: &mut Decoder<'_>) -> Result<Vec<u8>, DecodeError> {
        from.take(count).map(<[u8]>::to_vec)
    }
}

impl Encoding for bool {
    fn encode(&self, to: &mut Encoder) {
        to.byte(u8::from(*self));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<bool, DecodeError> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(DecodeError::Tag("bool", tag)),
        }
    }
}

impl Encoding for NonZeroU32 {
    fn encode(&self, to: &mut Encoder) {
        self.get().encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<NonZeroU32, DecodeError> {
        NonZeroU32::new(u32::decode(from)?).ok_or(DecodeError::Invalid("number above zero"))
    }
}

impl<const N: usize> Encoding for [u8; N] {
    fn encode(&self, to: &mut Encoder) {
        to.bytes(self);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<[u8; N], DecodeError> {
        from.array()
    }
}

impl Encoding for Box<str> {
    fn encode(&self, to: &mut Encoder) {
        to.text(self);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Box<str>, DecodeError> {
        from.text().map(Box::from)
    }
}

impl Encoding for Arc<str> {
    fn encode(&self, to: &mut Encoder) {
        to.shared(self, |text, to| to.text(text));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Arc<str>, DecodeError> {
        from.shared(|from| from.text().map(Arc::from))
    }
}

impl<T: Encoding> Encoding for Vec<T> {
    fn encode(&self, to: &mut Encoder) {
        to.list(self);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Vec<T>, DecodeError> {
        from.list()
    }
}

impl<T: Encoding> Encoding for Box<[T]> {
    fn encode(&self, to: &mut Encoder) {
        to.list(self);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Box<[T]>, DecodeError> {
        from.list().map(Vec::into_boxed_slice)
    }
}

impl<T: Encoding + Send + Sync + 'static> Encoding for Arc<[T]> {
    fn encode(&self, to: &mut Encoder) {
        to.shared(self, |all, to| to.list(all));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Arc<[T]>, DecodeError> {
        from.shared(|from| from.list().map(Arc::from))
    }
}

impl<T: Encoding + Send + Sync + 'static> Encoding for Arc<T> {
    fn encode(&self, to: &mut Encoder) {
        to.shared(self, T::encode);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Arc<T>, DecodeError> {
        from.shared(|from| T::decode(from).map(Arc::new))
    }
}

impl<T: Encoding> Encoding for Box<T> {
    fn encode(&self, to: &mut Encoder) {
        T::encode(self, to);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Box<T>, DecodeError> {
        from.nested(T::decode).map(Box::new)
    }
}

impl<T: Encoding + Ord> Encoding for BTreeSet<T> {
    fn encode(&self, to: &mut Encoder) {
        to.count(self.len());
        self.iter().for_each(|one| one.encode(to));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<BTreeSet<T>, DecodeError> {
        from.list().map(BTreeSet::from_iter)
    }
}

impl<T: Encoding> Encoding for Option<T> {
    fn encode(&self, to: &mut Encoder) {
        to.byte(u8::from(self.is_some()));
        self.iter().for_each(|value| value.encode(to));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Option<T>, DecodeError> {
        match from.byte()? {
            0 => Ok(None),
            1 => T::decode(from).map(Some),
            tag => Err(DecodeError::Tag("Option", tag)),
        }
    }
}

impl<T: Encoding, E: Encoding> Encoding for Result<T, E> {
    fn encode(&self, to: &mut Encoder) {
        to.byte(u8::from(self.is_err()));
        match self {
            Ok(value) => value.encode(to),
            Err(fault) => fault.encode(to),
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Result<T, E>, DecodeError> {
        match from.byte()? {
            0 => T::decode(from).map(Ok),
            1 => E::decode(from).map(Err),
            tag => Err(DecodeError::Tag("Result", tag)),
        }
    }
}

impl<A: Encoding, B: Encoding> Encoding for (A, B) {
    fn encode(&self, to: &mut Encoder) {
        self.0.encode(to);
        self.1.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<(A, B), DecodeError> {
        Ok((A::decode(from)?, B::decode(from)?))
    }
}

impl<A: Encoding, B: Encoding, C: Encoding> Encoding for (A, B, C) {
    fn encode(&self, to: &mut Encoder) {
        self.0.encode(to);
        self.1.encode(to);
        self.2.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<(A, B, C), DecodeError> {
        Ok((A::decode(from)?, B::decode(from)?, C::decode(from)?))
    }
}

impl Encoding for Key {
    fn encode(&self, to: &mut Encoder) {
        self.pack().encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Key, DecodeError> {
        u64::decode(from).map(Key::unpack)
    }
}

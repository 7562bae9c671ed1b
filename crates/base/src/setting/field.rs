//! Types that the field of a section may have.
//!
//! A number becomes a number, everything else a text or a list of texts. Invariant: what a field
//! shows it takes again.

use super::{Kind, Value, text};
use crate::hex;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A type that a field of a section may have.
pub trait Field: Sized {
    /// As a value.
    fn show(&self) -> Value;

    /// Of a value; none if it is of another sort, or too large.
    fn take(value: &Value) -> Option<Self>;
}

/// A type whose values need no further words: any of them may be the key's.
pub trait Plain: Field {
    /// Kind of the values.
    const KIND: Kind;
}

/// An enum that is written as one of some words ([`words!`](crate::words)).
pub trait Word: Field + Copy {
    /// The words of all.
    const WORDS: &'static [&'static str];

    /// Word of the value.
    fn word(self) -> &'static str;
}

/// Some of the words, in an order that may mean something.
impl<T: Word> Field for Vec<T> {
    fn show(&self) -> Value {
        Value::List(self.iter().map(|one| one.word().to_owned()).collect())
    }

    fn take(value: &Value) -> Option<Self> {
        let Value::List(texts) = value else { return None };
        texts.iter().map(|text| T::take(&Value::Text(text.clone()))).collect()
    }
}

impl<T: Word> Plain for Vec<T> {
    const KIND: Kind = Kind::Choice(T::WORDS);
}

impl Plain for bool {
    const KIND: Kind = Kind::Bool;
}

impl Plain for PathBuf {
    const KIND: Kind = text("a path", |path| !path.is_empty() && is_path(path));
}

impl Plain for Option<PathBuf> {
    const KIND: Kind = text("a path, or empty for none", is_path);
}

/// Longest path, bytes (PATH_MAX of Linux).
const PATH_BYTES_MAX: usize = 4_096;

macro_rules! whole_field {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn show(&self) -> Value {
                Value::Whole(u64::from(*self))
            }

            fn take(value: &Value) -> Option<Self> {
                match value {
                    Value::Whole(number) => <$type>::try_from(*number).ok(),
                    _ => None,
                }
            }
        }
    )+};
}

whole_field!(u8, u16, u32, u64);

macro_rules! text_field {
    ($($type:ty, |$from:ident| $show:expr, |$text:ident| $take:expr;)+) => {$(
        impl Field for $type {
            fn show(&self) -> Value {
                let $from = self;
                Value::Text($show)
            }

            fn take(value: &Value) -> Option<Self> {
                match value {
                    Value::Text($text) => $take,
                    _ => None,
                }
            }
        }
    )+};
}

text_field! {
    String, |from| from.clone(), |text| Some(text.clone());
    PathBuf, |from| from.display().to_string(), |text| Some(text.into());
    SocketAddr, |from| from.to_string(), |text| text.parse().ok();
    Hidden, |from| from.0.clone(), |text| Some(Hidden(text.clone()));
    Box<[u8]>, |from| hex::encode(from), |text| hex::decode(text);
    Option<Box<str>>,
        |from| from.as_deref().unwrap_or_default().to_owned(),
        |text| Some((!text.is_empty()).then(|| text.as_str().into()));
    Option<PathBuf>,
        |from| from.as_ref().map_or(String::new(), |path| path.display().to_string()),
        |text| Some((!text.is_empty()).then(|| text.into()));
}

impl Field for bool {
    fn show(&self) -> Value {
        Value::Bool(*self)
    }

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(yes) => Some(*yes),
            _ => None,
        }
    }
}

impl Field for Vec<String> {
    fn show(&self) -> Value {
        Value::List(self.clone())
    }

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::List(texts) => Some(texts.clone()),
            _ => None,
        }
    }
}

/// A text that is never printed: its `Debug` says only that it is there.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Hidden(String);

impl Hidden {
    /// This text.
    pub fn of(text: &str) -> Hidden {
        Hidden(text.into())
    }

    /// The text itself; empty if none was configured.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "(hidden)" })
    }
}

fn is_path(text: &str) -> bool {
    text.len() <= PATH_BYTES_MAX && !text.contains('\0')
}

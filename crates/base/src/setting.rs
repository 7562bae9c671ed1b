//! A setting: one key of a configuration, declared once.
//!
//! [`section!`](crate::section) declares a struct whose fields are keys, each with its type, its
//! default, the values that it takes, and its text, which is the field's documentation and the
//! file's. Reading, overriding, checking, printing, comparing and documenting a configuration walk
//! the table that it makes ([`Section::settings`]). Nothing here knows a file, TOML, or a section.
//! Invariant: [`Section::put`] takes every value that its setting's [`Kind`] fits, unless the type
//! of the field is narrower, and then it says so.

mod declare;
mod field;
mod kind;

pub use field::{Field, Hidden, Plain, Word};
pub use kind::{Kind, choice, list, switch, text, whole};

use crate::text::quoted;
use std::fmt;

/// One key of a section.
#[derive(Debug)]
pub struct Setting {
    /// Its name in the file.
    pub name: &'static str,
    /// Its allowed values.
    pub kind: Kind,
    /// Whether a running process follows a change of it.
    pub reload: Reload,
    /// Meaning, and what happens at the limit: sentences.
    pub text: &'static str,
    /// Whether the key has no default and must be set.
    pub required: bool,
    /// How much of its value may be seen.
    pub shown: Shown,
}

/// Whether a running process follows a change of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// A running process follows the change.
    Live,
    /// The key keeps its value until the next start.
    Restart,
}

/// How much of a value may be seen in messages, logs and printed configurations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The whole value.
    Whole,
    /// The value is a URL: all of it is shown but the user, the password and other secrets.
    WithoutSecrets,
    /// No part of the value.
    Never,
}

/// A value, on its way between text and field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Whole(u64),
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// A value of a kind that no key takes: negative number, fraction, date, table, mixed list.
    Other,
}

/// As TOML writes it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(yes) => write!(f, "{yes}"),
            Value::Whole(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(&quoted(text)),
            Value::List(texts) => {
                let texts: Vec<String> = texts.iter().map(|t| quoted(t)).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            Value::Other => f.write_str("?"),
        }
    }
}

/// A struct that is a section of a configuration, or a part of one.
pub trait Section {
    /// Its keys, in the order of the file.
    fn settings() -> Vec<&'static Setting>;

    /// The value of a key; none if it has no such key.
    fn value(&self, name: &str) -> Option<Value>;

    /// Changes the value of a key. False if there is no such key, or its field cannot hold it.
    fn put(&mut self, name: &str, value: &Value) -> bool;
}

#[cfg(test)]
mod tests;

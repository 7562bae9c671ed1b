//! Import from other XMPP servers: accounts, as lines of an import, and their data.
//!
//! [`prosody`] reads the folder in which Prosody keeps a host, [`xep_0227`] files of the portable
//! form (XEP-0227) that Prosody and ejabberd write. An account is a name and either its password or
//! keys for SCRAM, which say it without telling it; what comes of each is a line that `holdline
//! user import` and the API take ([`ImportForm`]). Contacts, block lists, vCards, nodes, messages,
//! rooms and what was said in them come one by one ([`MovedItem`]); [`sorted`] puts messages of all
//! in the order of their times. It makes no accounts and knows no server. Invariants: what is found
//! is taken over whole or named with the reason; no program is run, no other file opened, whatever
//! a file says; memory is bounded by accounts and by one item, whatever the files' sizes; nothing
//! here prints a password or a key by `Debug`.

mod account;
#[cfg(test)]
mod bent;
mod element;
mod lua;
mod moved;
pub mod prosody;
pub mod sorted;
pub mod xep_0227;

pub use element::{MovedElement, MovedInner};
pub use moved::{
    MovedContact, MovedItem, MovedNode, MovedRoom, MovedSaid, MovedStanza, MovedTime, MovedWhat,
    Taking,
};

use model::ports::users::ImportForm;
use std::fmt;

/// Accounts of one import, at most.
pub const ACCOUNTS_MAX: usize = 5_000_000;

/// Accounts found on another server.
#[derive(Debug, Default)]
pub struct Moving {
    /// Lines, each of an account.
    pub lines: Vec<MovingLine>,
    /// Accounts that cannot be imported.
    pub left: Vec<LeftOut>,
}

/// An account as a line of an import.
#[derive(Clone, PartialEq, Eq)]
pub struct MovingLine {
    /// Place in the source, for messages.
    pub place: String,
    /// Format of the line.
    pub form: ImportForm,
    /// The line.
    pub text: String,
}

impl fmt::Debug for MovingLine {
    /// Without what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MovingLine({}, {:?})", self.place, self.form)
    }
}

/// An account that cannot be taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Place in the source.
    pub place: String,
    /// The reason, in words.
    pub why: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

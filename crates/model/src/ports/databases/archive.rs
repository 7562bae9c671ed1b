//! Port of an archive outside: tables of messages.
//!
//! The log acknowledges; what it has stored goes there behind that, in the order in which it was
//! stored in each conversation. A message may be given again: it is there once, and a recalled one
//! does not come back. Every call ends within its time, and blocks until then: never on a shard's
//! thread.

use super::accounts::DatabaseFault;
use std::fmt;

/// Messages that are given at once, at most.
pub const ARCHIVED_A_CALL_MAX: usize = 1_024;

/// A message as an archive keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct ArchivedMessage {
    /// The server's number of it, no other's in its conversation, and ordered by time there.
    pub id: u64,
    /// Names its conversation.
    pub conversation: [u8; 16],
    /// When it was stored, Unix milliseconds.
    pub at_ms: u64,
    /// Sender, `name@domain`.
    pub from: Box<str>,
    /// Device of the sender.
    pub device: Box<str>,
    /// Recipient: an account, or a group.
    pub to: Box<str>,
    /// The sending client's id of the message.
    pub client_id: [u8; 16],
    /// Kind of the message.
    pub kind: u16,
    /// Whether the message counts as unread.
    pub counts: bool,
    /// Text of the message, for people.
    pub text: Box<str>,
    /// Payload of the message, for programs.
    pub extra: Box<[u8]>,
    /// The number of the message that it edits, reacts to or quotes.
    pub about: Option<u64>,
    /// Accounts that the message mentions: addresses separated by blanks, `*` for all.
    pub mentions: Box<str>,
    /// Number of the message that this one recalls: that message has no content from then on.
    pub recalls: Option<u64>,
    /// Present state of the message that this one edits or reacts to; absent: it does neither, or
    /// that message was recalled.
    pub amends: Option<ArchivedState>,
}

/// State of a message that was edited or reacted to.
#[derive(Clone, PartialEq, Eq)]
pub struct ArchivedState {
    /// Kind of the message.
    pub kind: u16,
    /// Text of the message, for people.
    pub text: Box<str>,
    /// Payload of the message, for programs.
    pub extra: Box<[u8]>,
    /// When it was edited last, Unix milliseconds; 0: it was not.
    pub edited_ms: u64,
    /// Accounts that react, each with its emoji separated by blanks.
    pub reactions: Vec<(Box<str>, Box<str>)>,
}

impl fmt::Debug for ArchivedState {
    /// Without what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArchivedState { kind, edited_ms, .. } = self;
        f.debug_struct("ArchivedState")
            .field("kind", kind)
            .field("edited_ms", edited_ms)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ArchivedMessage {
    /// Without what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArchivedMessage { id, kind, recalls, .. } = self;
        f.debug_struct("ArchivedMessage")
            .field("id", id)
            .field("kind", kind)
            .field("recalls", recalls)
            .finish_non_exhaustive()
    }
}

/// The archive. Calls block for a bounded time.
pub trait MessageArchive: Send + Sync {
    /// Makes the tables, or brings them up to this build's version.
    fn open(&self) -> Result<(), DatabaseFault>;

    /// Takes messages, all or none, at most [`ARCHIVED_A_CALL_MAX`]; those that it has already stay
    /// as they are.
    fn put(&self, messages: &[ArchivedMessage]) -> Result<(), DatabaseFault>;

    /// Aborts the call in progress; no more calls are made.
    fn close(&self) {}
}

//! Reviews: an external service is asked about a message before it is stored.
//!
//! A service hands a [`Review`] over and goes on; the verdict comes later, or never. The service
//! keeps the time. The external reviewer may be slow, dead or answer garbage: all of that is one
//! verdict, [`ReviewVerdict::None`], and the operator's [`Unreviewed`] decides the fate of the
//! message then.

use crate::account::AccountAddress;
use crate::chat::{ClientMessageId, Content};
use base::words;

/// A message to be reviewed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Review {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Milliseconds after which the verdict is ignored.
    pub ms_max: u32,
    /// Sender of the message.
    pub from: AccountAddress,
    /// Device of the sender; empty: it has none.
    pub device: Box<str>,
    /// Recipient.
    pub to: AccountAddress,
    /// The sender's id for it.
    pub client_id: ClientMessageId,
    /// Content of the message.
    pub content: Content,
}

/// Verdict of a reviewer on a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReviewVerdict {
    /// The message is stored.
    Allow,
    /// Stores the message with another text, or with another `extra`.
    Change {
        /// The text; absent: as it is.
        text: Option<Box<str>>,
        /// Replacement of the payload for programs; absent: it stays as it is.
        extra: Option<Box<[u8]>>,
    },
    /// The message is not stored; its sender gets this reason.
    Refuse(Box<str>),
    /// The reviewer gave no valid verdict in time.
    None,
}

words! {
    /// Fate of a message that was not reviewed in time.
    pub enum Unreviewed {
        /// The server stores the message.
        Allow = "allow",
        /// The sender gets an error: the message is not allowed now.
        Refuse = "refuse",
    }
}

words! {
    /// Kinds of messages that are reviewed.
    pub enum Reviewed {
        /// Messages between two accounts.
        Single = "single",
        /// Messages to groups.
        Group = "group",
    }
}

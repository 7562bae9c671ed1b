//! The archive of an account: what was said between it and others, to be read at any time, by any
//! device.
//!
//! It is no second store. All of it is in the order of the account's inbox; what was said with one
//! other is in the order of that conversation, which is the same for those messages. One id names a
//! message in both, so whoever has read by one order goes on by the other.

use super::ChatMessage;
use crate::account::Addressee;
use crate::timeline::Seq;
use std::sync::Arc;

/// Ids that a range may begin behind, and end before.
pub const ARCHIVE_BOUNDS_MAX: usize = 2;

/// Messages that may be asked for by their ids at once.
pub const ARCHIVE_NAMED_MAX: usize = 16;

/// Names a message in whichever archive it is, and never another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ArchiveId {
    /// The server's number for it.
    pub number: u64,
    /// Its place in its conversation.
    pub seq: Seq,
}

impl ArchiveId {
    /// That of a message.
    pub const fn of(message: &ChatMessage) -> ArchiveId {
        ArchiveId { number: message.id, seq: message.seq }
    }
}

/// Part of an account's archive: what all of this is true of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveRange {
    /// Said with this one; none: with anybody, in no group.
    pub with: Option<Addressee>,
    /// Behind each of these, at most [`ARCHIVE_BOUNDS_MAX`]. One that is not there:
    /// [`ChatFault::UnknownMessage`](super::ChatFault::UnknownMessage).
    pub after: Vec<ArchiveId>,
    /// Before each of these, likewise.
    pub before: Vec<ArchiveId>,
    /// Of these alone, if there are any, at most [`ARCHIVE_NAMED_MAX`]; each must be there.
    pub named: Vec<ArchiveId>,
    /// Said at this time or later, Unix milliseconds.
    pub since_ms: u64,
    /// Said at this time or before, Unix milliseconds.
    pub until_ms: u64,
    /// The last of it is wanted; else the first.
    pub backwards: bool,
    /// The most that is wanted, 1 to [`PAGE_MESSAGES_MAX`](super::PAGE_MESSAGES_MAX).
    pub count: u16,
}

impl ArchiveRange {
    /// The first messages of all there is; or the last.
    pub const fn whole(backwards: bool, count: u16) -> ArchiveRange {
        ArchiveRange {
            with: None,
            after: Vec::new(),
            before: Vec::new(),
            named: Vec::new(),
            since_ms: 0,
            until_ms: u64::MAX,
            backwards,
            count,
        }
    }

    /// Whether something said at this time may be in it.
    pub fn has_time(&self, at_ms: u64) -> bool {
        (self.since_ms..=self.until_ms).contains(&at_ms)
    }
}

/// Part of an archive, in its order, whichever end it is from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchivePage {
    /// The request's.
    pub number: u32,
    /// Messages. Of those that were called back, what is left.
    pub messages: Vec<Arc<ChatMessage>>,
    /// The range may have more, in the direction that was asked for: behind this message, or before
    /// it. That need not be one of the page.
    pub goes_on: Option<ArchiveId>,
}

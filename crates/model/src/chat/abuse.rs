//! Reports of abuse: an account tells the operator of another one, with messages of it as evidence.
//!
//! The reporter names messages; their contents are read from its archive, so that no reporter
//! invents any. They are in their present state: the sender may have edited or recalled them.

use super::{ArchiveId, ChatMessage};
use crate::account::{AccountAddress, Addressee};
use std::sync::Arc;

/// Longest text of a report, bytes.
pub const ABUSE_TEXT_BYTES_MAX: usize = 1_024;

/// Reason of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbuseReason {
    /// Unwanted bulk messages.
    Spam,
    /// Unlawful or malicious messages.
    Abuse,
    /// A reason that this server does not know.
    Other,
}

impl AbuseReason {
    /// Every one.
    pub const ALL: [AbuseReason; 3] = [AbuseReason::Spam, AbuseReason::Abuse, AbuseReason::Other];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            AbuseReason::Spam => "spam",
            AbuseReason::Abuse => "abuse",
            AbuseReason::Other => "other",
        }
    }
}

/// Parties to whom the reporter lets the operator forward a report (XEP-0377 5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ForwardConsent {
    /// The domain of the reported account.
    pub origin: bool,
    /// Third parties, such as block lists.
    pub third_party: bool,
}

/// Report of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AbuseReport {
    /// The account, or the whole domain, that is reported.
    pub of: Addressee,
    /// Reason of the report.
    pub reason: AbuseReason,
    /// Text of the reporter for the operator, at most [`ABUSE_TEXT_BYTES_MAX`] bytes; may be empty.
    pub text: Box<str>,
    /// Messages of the account, at most [`ARCHIVE_NAMED_MAX`](super::ARCHIVE_NAMED_MAX).
    pub named: Vec<ArchiveId>,
    /// Number of further messages that the reporter names and that are not looked for.
    pub unread: u32,
    /// Parties to whom it may be forwarded.
    pub consent: ForwardConsent,
}

/// A report as the operator gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportedAbuse {
    /// The account that reports.
    pub reporter: AccountAddress,
    /// The account, or the whole domain, that is reported.
    pub reported: AccountAddress,
    /// Reason of the report.
    pub reason: AbuseReason,
    /// Text of the reporter; may be empty.
    pub text: Box<str>,
    /// Those of the named messages that the reporter's archive has from the reported one.
    pub messages: Vec<Arc<ChatMessage>>,
    /// Number of named messages that are not among them: no such messages of the reported one, or
    /// beyond a limit.
    pub left_out: u32,
    /// Number of named messages that could not be read now: the server was busy, or its log failed.
    pub unreadable: u32,
    /// Parties to whom it may be forwarded.
    pub consent: ForwardConsent,
}

impl ReportedAbuse {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let messages = self.messages.iter().map(|message| message.weight());
        let names = self.reporter.as_str().len() + self.reported.as_str().len();
        size_of::<ReportedAbuse>() + names + self.text.len() + messages.sum::<usize>()
    }
}

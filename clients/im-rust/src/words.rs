//! The protocol's words (IM 8): why a session ends, why something was not done, and what follows.

use crate::pb::{Fault, Reason};
use std::fmt;

/// Reasons with which a client does not come back by itself.
const LASTING: [Reason; 11] = [
    Reason::BadCredentials,
    Reason::NotAuthorized,
    Reason::NameInvalid,
    Reason::BadMethod,
    Reason::TakenOver,
    Reason::AdminKick,
    Reason::Expired,
    Reason::Malformed,
    Reason::TooLarge,
    Reason::OutOfOrder,
    Reason::UnknownVersion,
];

/// Why something was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The protocol's word (IM 8.2), or `disconnected`, `queue_full`, `invalid`, `stopped`.
    pub code: String,
    /// The operator's text for people, mostly empty.
    pub reason: String,
}

impl Error {
    pub(crate) fn new(code: &str) -> Error {
        Error { code: code.to_owned(), reason: String::new() }
    }

    pub(crate) fn of(fault: i32, reason: &str) -> Error {
        Error { code: fault_word(fault), reason: reason.to_owned() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.reason.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.code, self.reason)
    }
}

impl std::error::Error for Error {}

/// An unknown reason is treated as 0 (IM 8.1).
pub(crate) fn reason(number: i32) -> Reason {
    Reason::try_from(number).unwrap_or_default()
}

/// The word of a reason.
pub(crate) fn word(reason: Reason) -> String {
    reason.as_str_name()["REASON_".len()..].to_lowercase()
}

fn fault_word(number: i32) -> String {
    let fault = Fault::try_from(number).unwrap_or_default();
    fault.as_str_name()["FAULT_".len()..].to_lowercase()
}

/// Whether a client does not come back by itself.
pub(crate) fn is_lasting(reason: Reason) -> bool {
    LASTING.contains(&reason)
}

/// Whether the same message may be taken later.
pub(crate) fn is_passing(fault: i32) -> bool {
    let passing = [Fault::Busy, Fault::StoreFull, Fault::StoreFailed, Fault::RateLimited];
    passing.iter().any(|it| *it as i32 == fault)
}

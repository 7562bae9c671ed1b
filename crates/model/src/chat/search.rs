//! Search: what an account has said and heard, by the texts of messages.

use super::ChatMessage;
use crate::account::Addressee;
use crate::timeline::Seq;
use base::encoding::Encoding;
use std::sync::Arc;

/// Longest text that is searched for, bytes.
pub const SEARCH_TEXT_BYTES_MAX: usize = 256;

/// Criteria of a search, all of which must hold for a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchRange {
    /// Their texts have this in them, in whichever case; 1 to [`SEARCH_TEXT_BYTES_MAX`] bytes.
    pub text: Box<str>,
    /// Only messages of the conversation with this account; none: of any.
    pub with: Option<Addressee>,
    /// This one has said them; none: anybody.
    pub from: Option<Addressee>,
    /// Only messages of this time or later, Unix milliseconds.
    pub since_ms: u64,
    /// Only messages of this time or earlier, Unix milliseconds.
    pub until_ms: u64,
    /// Only messages before this place in the inbox ([`Seq::MAX`]: from the newest on).
    pub before: Seq,
    /// The most that are wanted, 1 to [`PAGE_MESSAGES_MAX`](super::PAGE_MESSAGES_MAX).
    pub count: u16,
}

/// Matches, the newest first.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct SearchPage {
    /// Number of the request.
    pub number: u32,
    /// Messages, with their places in the inbox.
    pub found: Vec<(Seq, Arc<ChatMessage>)>,
    /// All of the inbox from here on was looked through: where to go on.
    pub before: Seq,
    /// Whether the inbox has more before that.
    pub more: bool,
}

/// A text as it is compared: without case.
pub fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // By the upper case, which some lower ones share: of ß and of both sigmas.
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_without_case_in_every_script() {
        for (one, other) in [
            ("Hello", "hELLO"),
            ("STRASSE", "straße"),
            ("ΟΔΟΣ", "οδος"),
            ("ΟΔΟΣ", "οδοσ"),
            ("ÄÖÜ", "äöü"),
            ("ПРИВЕТ", "привет"),
        ] {
            assert_eq!(folded(one), folded(other), "{one}");
        }
        assert!(folded("今天下午三点开会").contains(&folded("下午")));
        assert!(!folded("今天").contains(&folded("明天")));
    }
}

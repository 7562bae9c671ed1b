//! Messages that another server had kept before their account came here.

use super::{ClientMessageId, Content};
use crate::account::Addressee;
use crate::id::MessageId;

/// A message of an account, as another server had kept it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedMessage {
    /// The other of the two.
    pub with: Addressee,
    /// The account said it; else the other did.
    pub is_own: bool,
    /// On which device it was said; may be empty.
    pub device: Box<str>,
    /// When, Unix milliseconds.
    pub at_ms: u64,
    /// The sender's own id for it.
    pub client_id: ClientMessageId,
    /// What was said.
    pub content: Content,
}

impl MovedMessage {
    /// The number that a message of this time has, whoever brings it and however often: `told` is a
    /// hash that tells it from others of the same millisecond. `None`: no number is of that time.
    pub const fn number_at(at_ms: u64, told: u64) -> Option<u64> {
        match at_ms.checked_sub(MessageId::EPOCH_MS) {
            Some(ms) if ms > 0 && ms < 1 << 42 => Some(ms << 22 | told & 0x3f_ffff),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_its_time_and_the_same_whenever_it_is_made() {
        let at_ms = MessageId::EPOCH_MS + 5;
        let number = MovedMessage::number_at(at_ms, u64::MAX).expect("of this age");
        assert_eq!((number >> 22, number & 0x3f_ffff), (5, 0x3f_ffff));
        assert!(number < MovedMessage::number_at(at_ms + 1, 0).expect("later"));
        let before = [0, MessageId::EPOCH_MS, MessageId::EPOCH_MS + (1 << 42)];
        assert!(before.iter().all(|at_ms| MovedMessage::number_at(*at_ms, 7).is_none()));
    }
}

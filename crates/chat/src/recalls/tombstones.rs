//! Tombstones: what is left of messages that were called back.
//!
//! The message itself is taken out of its conversation, so its place is a gap there. Whoever reads
//! over a gap looks into a table, by conversation and place: what was called back is given without
//! what it said. Gaps of other kinds, and reads without a gap, cost nothing.
//!
//! ```text
//! version u8 | inbox of who said it 16 | number u64 | the message as envelope.rs has it, empty
//! ```
//! Invariant: a tombstone is there before its message is taken out.

use crate::envelope::{self, Sender};
use base::bytes::ByteReader;
use model::chat::{ChatMessage, Content, NewMessage};
use model::ports::log::{ROWS_MAX, Read, RowHome, Table};
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

const VERSION: u8 = 1;

/// What is left of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tombstone {
    /// The inbox of who said it.
    pub from: TimelineId,
    /// The message without what it said.
    pub message: Arc<ChatMessage>,
}

impl Tombstone {
    /// What is to be left of a message that this inbox's account said.
    pub(crate) fn of(from: TimelineId, message: &ChatMessage) -> Tombstone {
        let counts = message.content.counts;
        let content = Content { kind: Content::RECALLED, counts, ..Content::default() };
        Tombstone { from, message: Arc::new(ChatMessage { content, ..message.clone() }) }
    }

    pub(crate) fn encode(&self) -> Box<[u8]> {
        let ChatMessage { id, from, device, to, client_id, content, .. } = &*self.message;
        let said =
            NewMessage { to: to.clone().into(), client_id: *client_id, content: content.clone() };
        let body = envelope::encode(Sender { address: from, device }, to, &said);
        [&[VERSION][..], &self.from.to_bytes(), &id.to_le_bytes(), &body].concat().into()
    }

    /// That of the place that the key says.
    pub(crate) fn decode((key, value): (&[u8], &[u8])) -> Option<Tombstone> {
        let seq = u64::from_be_bytes(*key.last_chunk()?);
        let mut bytes = ByteReader::of(VERSION, value)?;
        let from = TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?;
        let id = bytes.u64()?;
        let message = Arc::new(envelope::decode(id, seq, bytes.rest())?);
        Some(Tombstone { from, message })
    }
}

/// The key of that of a place.
pub(crate) fn key_of(conversation: TimelineId, seq: Seq) -> Box<[u8]> {
    RowHome::key_of(conversation, &[&seq.to_be_bytes()])
}

/// Reads those of a conversation from a place on, as many as there are of so many, within
/// [`ROWS_MAX`].
pub(crate) fn read(conversation: TimelineId, first: Seq, count: u64) -> Read {
    Read::Rows {
        table: Table::ChatRecalled,
        prefix: RowHome::key_of(conversation, &[]),
        after: first.checked_sub(1).map(|before| key_of(conversation, before)),
        count: usize::try_from(count).unwrap_or(ROWS_MAX).min(ROWS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::account::AccountAddress;
    use model::chat::ClientMessageId;
    use model::timeline::Space;

    #[test]
    fn a_tombstone_says_all_of_its_message_but_what_it_said() {
        let name = |text| AccountAddress::parse(text, "a.example").expect("right");
        let home = HashKey::new(1, 2);
        let conversation = TimelineId::of(Space::Conversation, home, &[b"ab"]);
        let from = TimelineId::of(Space::Inbox, home, &[b"a"]);
        let id = 510_613_618_950_144_001;
        let message = ChatMessage {
            id,
            seq: 258,
            at_ms: envelope::time_of(id),
            from: name("ann"),
            device: "phone".into(),
            to: name("bob"),
            client_id: ClientMessageId([7; 16]),
            content: Content { extra: [1].into(), ..Content::text("secret") },
        };
        let tombstone = Tombstone::of(from, &message);
        let content = Content { kind: Content::RECALLED, counts: true, ..Content::default() };
        assert_eq!(*tombstone.message, ChatMessage { content, ..message });
        let (key, value) = (key_of(conversation, 258), tombstone.encode());
        assert!(!value.windows(6).any(|bytes| bytes == b"secret"));
        assert_eq!(Tombstone::decode((&key, &value)), Some(tombstone));
        for end in 0..value.len() {
            assert_eq!(Tombstone::decode((&key, &value[..end])), None);
        }
        assert!(key_of(conversation, 255) < key_of(conversation, 256), "in the order of places");
    }
}

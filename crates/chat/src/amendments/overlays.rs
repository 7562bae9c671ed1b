//! Overlays: what messages are now that were edited, reacted to or called back.
//!
//! The message itself is taken out of its conversation, so its place is a gap there. Whoever reads
//! over a gap looks into a table, by conversation and place. Gaps of other kinds, and reads without
//! a gap, cost nothing.
//!
//! ```text
//! version u8 | inbox of who said it 16 | number u64 | edited u64 | its name u16 bytes
//!   | applied u8 × u64 | reactions u16 × (who u16 bytes, emoji u16 bytes)
//!   | the message as envelope.rs has it
//! ```
//! Of a message that was called back the overlay is a tombstone: it has the message without what
//! it said, and who has moderated it, if somebody has. Version 1 had nothing but those, without a
//! name. Invariant: an overlay is there before its message is taken out.

use crate::envelope::{self, Sender};
use base::bytes::{ByteReader, put_text};
use model::account::AccountAddress;
use model::chat::{Amended, ChatMessage, Content, Moderated, NewMessage, Reaction};
use model::ports::log::{ROWS_MAX, Read, RowHome, Table};
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

const VERSION: u8 = 2;
const VERSION_OF_TOMBSTONES: u8 = 1;

/// Amendments of one message that are known again when they are asked for again, the last ones.
const APPLIED_MAX: usize = 32;

/// What a message is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Overlay {
    /// The inbox of who said it.
    pub from: TimelineId,
    /// The name by which XMPP knows it.
    pub name: Box<str>,
    /// Once keys of what amended it, the last ones.
    applied: Vec<u64>,
    /// The message as it is now.
    pub message: Arc<ChatMessage>,
}

impl Overlay {
    /// That of a message as it was said, by this inbox's account.
    pub(crate) fn of(from: TimelineId, message: ChatMessage) -> Overlay {
        let name = message.content.name(message.client_id).into();
        Overlay { from, name, applied: Vec::new(), message: Arc::new(message) }
    }

    /// Whether the message was called back.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.message.content.kind == Content::RECALLED
    }

    /// What is to be left of it when it is called back, by somebody else than who said it, or not.
    pub(crate) fn buried(self, by: Option<&Moderated>) -> Overlay {
        let counts = self.message.content.counts;
        let extra = by.map(Moderated::write).unwrap_or_default();
        let content = Content { kind: Content::RECALLED, extra, counts, ..Content::default() };
        let message = ChatMessage { content, amended: None, ..(*self.message).clone() };
        Overlay { applied: Vec::new(), message: Arc::new(message), ..self }
    }

    /// Whether what has this once key is in it.
    pub(crate) fn has(&self, once: u64) -> bool {
        self.applied.contains(&once)
    }

    /// With what amends it, which has this once key.
    pub(crate) fn amended(mut self, once: u64, content: Content, amended: Amended) -> Overlay {
        if self.applied.len() >= APPLIED_MAX {
            self.applied.remove(0);
        }
        self.applied.push(once);
        let amended = (!amended.is_nothing()).then(|| Box::new(amended));
        let message = ChatMessage { content, amended, ..(*self.message).clone() };
        Overlay { message: Arc::new(message), ..self }
    }

    pub(crate) fn encode(&self) -> Box<[u8]> {
        let ChatMessage { id, from, device, to, client_id, content, amended, .. } = &*self.message;
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.from.to_bytes());
        out.extend_from_slice(&id.to_le_bytes());
        let nothing = Amended::default();
        let Amended { edited_ms, reactions } = amended.as_deref().unwrap_or(&nothing);
        out.extend_from_slice(&edited_ms.to_le_bytes());
        put_text(&self.name, &mut out);
        out.push(self.applied.len() as u8);
        self.applied.iter().for_each(|once| out.extend_from_slice(&once.to_le_bytes()));
        out.extend_from_slice(&(reactions.len() as u16).to_le_bytes());
        for Reaction { by, emoji } in reactions {
            put_text(by.as_str(), &mut out);
            put_text(emoji, &mut out);
        }
        let said =
            NewMessage { to: to.clone().into(), client_id: *client_id, content: content.clone() };
        out.extend_from_slice(&envelope::encode(Sender { address: from, device }, to, &said));
        out.into()
    }

    /// That of the place that the key says.
    pub(crate) fn decode((key, value): (&[u8], &[u8])) -> Option<Overlay> {
        let seq = u64::from_be_bytes(*key.last_chunk()?);
        if value.first() == Some(&VERSION_OF_TOMBSTONES) {
            let mut bytes = ByteReader::of(VERSION_OF_TOMBSTONES, value)?;
            let from = TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?;
            let id = bytes.u64()?;
            return Some(Overlay::of(from, envelope::decode(id, seq, bytes.rest())?));
        }
        let mut bytes = ByteReader::of(VERSION, value)?;
        let from = TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?;
        let (id, edited_ms) = (bytes.u64()?, bytes.u64()?);
        let name = bytes.text()?.into();
        let applied = (0..bytes.byte()?).map(|_| bytes.u64()).collect::<Option<_>>()?;
        let reaction = |bytes: &mut ByteReader<'_>| {
            let by = AccountAddress::parse(bytes.text()?, "").ok()?;
            Some(Reaction { by, emoji: bytes.text()?.into() })
        };
        let count = bytes.u16()?;
        let reactions = (0..count).map(|_| reaction(&mut bytes)).collect::<Option<_>>()?;
        let mut message = envelope::decode(id, seq, bytes.rest())?;
        let amended = Amended { edited_ms, reactions };
        message.amended = (!amended.is_nothing()).then(|| Box::new(amended));
        Some(Overlay { from, name, applied, message: Arc::new(message) })
    }
}

/// The key of that of a place.
pub(crate) fn key_of(conversation: TimelineId, seq: Seq) -> Box<[u8]> {
    RowHome::key_of(conversation, &[&seq.to_be_bytes()])
}

/// Reads that of a place.
pub(crate) fn read_one(conversation: TimelineId, seq: Seq) -> Read {
    Read::Row { table: Table::ChatRecalled, key: key_of(conversation, seq) }
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
    use model::chat::ClientMessageId;
    use model::timeline::Space;

    fn name(text: &str) -> AccountAddress {
        AccountAddress::parse(text, "a.example").expect("right")
    }

    fn said() -> (TimelineId, TimelineId, ChatMessage) {
        let home = HashKey::new(1, 2);
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
            amended: None,
        };
        let of = |space, name: &[u8]| TimelineId::of(space, home, &[name]);
        (of(Space::Conversation, b"ab"), of(Space::Inbox, b"a"), message)
    }

    #[test]
    fn a_tombstone_says_all_of_its_message_but_what_it_said() {
        let (conversation, from, message) = said();
        let edited = Amended { edited_ms: 5, reactions: Vec::new() };
        let overlay = Overlay::of(from, message.clone());
        let content = Content { text: "a secret, too".into(), ..message.content.clone() };
        let by = Moderated { by: name("eve"), at_ms: 5, reason: "a reason".into() };
        let moderated = overlay.clone().buried(Some(&by));
        let tombstone = overlay.amended(9, content, edited).buried(None);
        assert_eq!(Moderated::of(&moderated.message.content), Some(by));
        let key = key_of(conversation, 258);
        assert_eq!(Overlay::decode((&key, &moderated.encode())), Some(moderated));
        let content = Content { kind: Content::RECALLED, counts: true, ..Content::default() };
        assert_eq!(*tombstone.message, ChatMessage { content, ..message });
        assert!(tombstone.is_tombstone() && *tombstone.name == *message.client_id.text());
        let (key, value) = (key_of(conversation, 258), tombstone.encode());
        assert!(!value.windows(6).any(|bytes| bytes == b"secret"));
        assert_eq!(Overlay::decode((&key, &value)), Some(tombstone));
        for end in 0..value.len() {
            assert_eq!(Overlay::decode((&key, &value[..end])), None);
        }
        assert!(key_of(conversation, 255) < key_of(conversation, 256), "in the order of places");
    }

    #[test]
    fn an_overlay_is_read_as_it_was_written_and_knows_what_was_done_last() {
        let (conversation, from, message) = said();
        let mut amended = Amended { edited_ms: 7, reactions: Vec::new() };
        assert!(amended.reacts(&name("bob"), "👍 🎉", 9) && amended.reacts(&name("ann"), "x", 9));
        let mut overlay = Overlay::of(from, message);
        for once in 0..40 {
            let content = Content::text(&format!("edited {once}"));
            overlay = overlay.amended(once, content, amended.clone());
        }
        assert!(!overlay.has(7) && overlay.has(8) && overlay.has(39));
        let (key, value) = (key_of(conversation, 258), overlay.encode());
        assert_eq!(Overlay::decode((&key, &value)), Some(overlay));
        for end in 0..value.len() {
            assert_eq!(Overlay::decode((&key, &value[..end])), None, "{end}");
        }
    }
}

//! Overlays: the present state of messages that were edited, reacted to or recalled.
//!
//! The message itself is taken out of its conversation, so its place is a gap there. A reader that
//! finds a gap looks into a table, by conversation and place. Gaps of other kinds, and reads
//! without a gap, cost nothing.
//!
//! ```text
//! version u8 | inbox of the sender 16 | number u64 | edited u64 | its name u16 bytes
//!   | applied u8 × u64 | reactions u16 × (account u16 bytes, emoji u16 bytes, since u64)
//!   | changed u64 | earlier u8 × (since u64, edited u64, length u32, the message as it was then)
//!   | the message as envelope.rs has it
//! ```
//! `changed` and `since` are numbers as messages of the conversation have them, so an overlay has
//! the state of the message at any message of the conversation: an account that left a group reads
//! it as it was when it left ([`Overlay::as_of`]). The text before an edit is kept only if a member
//! left while it was the text, and a recall drops all texts.
//!
//! The overlay of a recalled message is a tombstone: the message without its content, and with its
//! moderator, if one recalled it. Version 1 had tombstones only, without a name; version 2 had no
//! numbers, so members who left do not get its reactions. Invariant: one write takes the message
//! out and stores its overlay.

use crate::envelope::{self, Sender};
use base::bytes::{ByteReader, put_text};
use model::account::AccountAddress;
use model::chat::{Amended, ChatMessage, Content, Moderated, NewMessage, Reaction};
use model::ports::log::{ROWS_MAX, Read, RowHome, Table};
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

const VERSION: u8 = 3;
const VERSION_WITHOUT_NUMBERS: u8 = 2;
const VERSION_OF_TOMBSTONES: u8 = 1;

/// Amendments of one message whose retries are recognized: the last ones.
const APPLIED_MAX: usize = 32;

/// Earlier texts of one message that are kept for members who left the group before an edit. One
/// more drops the oldest, and members who left while that was the text no longer find the message.
const EARLIER_MAX: usize = 4;

/// The moment of an amendment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    /// A number as messages have it, lower than that of any message stored later.
    pub number: u64,
    /// The number of the last message by which a member left the group; 0: no member left.
    pub left: u64,
}

/// A text that a message had before it was edited.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Earlier {
    since: u64,
    edited_ms: u64,
    content: Content,
}

/// The present state of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Overlay {
    /// The inbox of the sender.
    pub from: TimelineId,
    /// The message's name in XMPP.
    pub name: Box<str>,
    /// Once keys of the last amendments.
    applied: Vec<u64>,
    /// The number since which the message has its text, or is recalled; 0: since it was sent.
    changed: u64,
    /// The number since which each reaction exists, in their order.
    reacted: Vec<u64>,
    /// Earlier texts, the oldest first.
    earlier: Vec<Earlier>,
    /// The message as it is now.
    pub message: Arc<ChatMessage>,
}

impl Overlay {
    /// The overlay of an unchanged message, sent by the account with this inbox.
    pub(crate) fn of(from: TimelineId, message: ChatMessage) -> Overlay {
        let name = message.content.name(message.client_id).into();
        let (applied, reacted, earlier) = Default::default();
        let message = Arc::new(message);
        Overlay { from, name, applied, changed: 0, reacted, earlier, message }
    }

    /// Whether the state differs from the message as it was sent.
    pub(crate) fn is_amended(&self) -> bool {
        self.changed > 0 || !self.reacted.is_empty()
    }

    /// The message as it was when one with this number was stored. `None`: that state is no longer
    /// known. A message that was recalled since then is a recalled one, without its moderator.
    pub(crate) fn as_of(&self, number: u64) -> Option<Arc<ChatMessage>> {
        let message = &self.message;
        let now_ms = message.amended.as_ref().map_or(0, |it| it.edited_ms);
        let (content, edited_ms) = if self.changed < number {
            (message.content.clone(), now_ms)
        } else if self.is_tombstone() {
            (Content { extra: Box::default(), ..message.content.clone() }, 0)
        } else {
            let then = self.earlier.iter().rev().find(|it| it.since < number)?;
            (then.content.clone(), then.edited_ms)
        };
        let reactions = message.amended.iter().flat_map(|it| &it.reactions).zip(&self.reacted);
        let then = reactions.filter(|(_, since)| **since < number);
        let reactions = then.map(|(reaction, _)| reaction.clone()).collect();
        let amended = Amended { edited_ms, reactions };
        let amended = (!amended.is_nothing()).then(|| Box::new(amended));
        Some(Arc::new(ChatMessage { content, amended, ..(**message).clone() }))
    }

    /// Whether the message was recalled.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.message.content.kind == Content::RECALLED
    }

    /// The tombstone of the message, recalled by this moderator, or else by its sender.
    pub(crate) fn buried(self, number: u64, by: Option<&Moderated>) -> Overlay {
        let (counts, nick) = (self.message.content.counts, self.message.content.nick.clone());
        let (kind, extra) = (Content::RECALLED, by.map(Moderated::write).unwrap_or_default());
        let content = Content { kind, extra, counts, nick, ..Content::default() };
        let message = ChatMessage { content, amended: None, ..(*self.message).clone() };
        let (applied, reacted, earlier) = Default::default();
        let message = Arc::new(message);
        Overlay { applied, reacted, earlier, changed: number, message, ..self }
    }

    /// Whether the amendment with this once key was made before.
    pub(crate) fn has(&self, once: u64) -> bool {
        self.applied.contains(&once)
    }

    /// The state after an amendment at this moment, which has this once key.
    pub(crate) fn amended(
        mut self,
        at: Moment,
        once: u64,
        content: Content,
        amended: Amended,
    ) -> Overlay {
        if self.applied.len() >= APPLIED_MAX {
            self.applied.remove(0);
        }
        self.applied.push(once);
        let before = self.message.amended.as_deref();
        let edited_ms = before.map_or(0, |it| it.edited_ms);
        let known: Vec<_> = before.into_iter().flat_map(|it| &it.reactions).collect();
        let since = |reaction: &Reaction| {
            let known = known.iter().position(|it| *it == reaction);
            known.and_then(|at| self.reacted.get(at).copied()).unwrap_or(at.number)
        };
        let reacted = amended.reactions.iter().map(since).collect();
        if content != self.message.content || amended.edited_ms != edited_ms {
            if at.left > self.changed.max(self.message.id) {
                if self.earlier.len() >= EARLIER_MAX {
                    self.earlier.remove(0);
                }
                let (since, content) = (self.changed, self.message.content.clone());
                self.earlier.push(Earlier { since, edited_ms, content });
            }
            self.changed = at.number;
        }
        self.reacted = reacted;
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
        for (Reaction { by, emoji }, since) in reactions.iter().zip(&self.reacted) {
            put_text(by.as_str(), &mut out);
            put_text(emoji, &mut out);
            out.extend_from_slice(&since.to_le_bytes());
        }
        let said = |content: &Content| {
            let content = content.clone();
            let said = NewMessage { to: to.clone().into(), client_id: *client_id, content };
            envelope::encode(Sender { address: from, device }, to, &said)
        };
        out.extend_from_slice(&self.changed.to_le_bytes());
        out.push(self.earlier.len() as u8);
        for Earlier { since, edited_ms, content } in &self.earlier {
            let body = said(content);
            out.extend_from_slice(&since.to_le_bytes());
            out.extend_from_slice(&edited_ms.to_le_bytes());
            out.extend_from_slice(&(body.len() as u32).to_le_bytes());
            out.extend_from_slice(&body);
        }
        out.extend_from_slice(&said(content));
        out.into()
    }

    /// Decodes the overlay at the place that the key has.
    pub(crate) fn decode((key, value): (&[u8], &[u8])) -> Option<Overlay> {
        let seq = u64::from_be_bytes(*key.last_chunk()?);
        if value.first() == Some(&VERSION_OF_TOMBSTONES) {
            let mut bytes = ByteReader::of(VERSION_OF_TOMBSTONES, value)?;
            let from = TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?;
            let id = bytes.u64()?;
            return Some(Overlay::of(from, envelope::decode(id, seq, bytes.rest())?));
        }
        let has_numbers = value.first() != Some(&VERSION_WITHOUT_NUMBERS);
        let version = if has_numbers { VERSION } else { VERSION_WITHOUT_NUMBERS };
        let mut bytes = ByteReader::of(version, value)?;
        let from = TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?;
        let (id, edited_ms) = (bytes.u64()?, bytes.u64()?);
        let name = bytes.text()?.into();
        let applied = (0..bytes.byte()?).map(|_| bytes.u64()).collect::<Option<_>>()?;
        let reaction = |bytes: &mut ByteReader<'_>| {
            let by = AccountAddress::parse(bytes.text()?, "").ok()?;
            let reaction = Reaction { by, emoji: bytes.text()?.into() };
            // The version before had no number: members who have left do not get the reaction.
            Some((reaction, if has_numbers { bytes.u64()? } else { u64::MAX }))
        };
        let count = bytes.u16()?;
        let reactions: Vec<_> = (0..count).map(|_| reaction(&mut bytes)).collect::<Option<_>>()?;
        let (reactions, reacted) = reactions.into_iter().unzip();
        let (changed, earlier) = match has_numbers {
            true => (bytes.u64()?, earlier(&mut bytes, (id, seq))?),
            false => (0, Vec::new()),
        };
        let mut message = envelope::decode(id, seq, bytes.rest())?;
        let changed = match edited_ms {
            _ if has_numbers => changed,
            0 if message.content.kind == Content::RECALLED => u64::MAX,
            0 => 0,
            ms => envelope::last_number_of(ms),
        };
        let amended = Amended { edited_ms, reactions };
        message.amended = (!amended.is_nothing()).then(|| Box::new(amended));
        let message = Arc::new(message);
        Some(Overlay { from, name, applied, changed, reacted, earlier, message })
    }
}

/// Earlier texts of the message with this number and place, from before its edits.
fn earlier(bytes: &mut ByteReader<'_>, (id, seq): (u64, Seq)) -> Option<Vec<Earlier>> {
    let count = bytes.byte()?;
    let mut all = Vec::with_capacity(count.into());
    for _ in 0..count {
        let (since, edited_ms) = (bytes.u64()?, bytes.u64()?);
        let length = bytes.u32()? as usize;
        let content = envelope::decode(id, seq, bytes.take(length)?)?.content;
        all.push(Earlier { since, edited_ms, content });
    }
    Some(all)
}

/// The key of the overlay at a place.
pub(crate) fn key_of(conversation: TimelineId, seq: Seq) -> Box<[u8]> {
    RowHome::key_of(conversation, &[&seq.to_be_bytes()])
}

/// Reads the overlay at a place.
pub(crate) fn read_one(conversation: TimelineId, seq: Seq) -> Read {
    Read::Row { table: Table::ChatRecalled, key: key_of(conversation, seq) }
}

/// Reads the overlays of a conversation from a place on, at most so many, and at most [`ROWS_MAX`].
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
        let moderated = overlay.clone().buried(20, Some(&by));
        let at = Moment { number: 10, left: message.id + 1 };
        let tombstone = overlay.amended(at, 9, content, edited).buried(20, None);
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
            let at = Moment { number: once + 1, left: 0 };
            overlay = overlay.amended(at, once, content, amended.clone());
        }
        assert!(!overlay.has(7) && overlay.has(8) && overlay.has(39));
        let (key, value) = (key_of(conversation, 258), overlay.encode());
        assert_eq!(Overlay::decode((&key, &value)), Some(overlay));
        for end in 0..value.len() {
            assert_eq!(Overlay::decode((&key, &value[..end])), None, "{end}");
        }
    }

    #[test]
    fn who_left_reads_a_message_as_it_was_then() {
        let (conversation, from, message) = said();
        let id = message.id;
        let mut overlay = Overlay::of(from, message);
        let mut amended = Amended::default();
        let read = |overlay: &Overlay, number| {
            let then = overlay.as_of(number)?;
            let amended = then.amended.as_deref().cloned().unwrap_or_default();
            let by = amended.reactions.iter().map(|it| it.by.name().to_owned());
            Some((then.content.text.to_string(), amended.edited_ms, by.collect::<Vec<_>>()))
        };
        let at = |number, left| Moment { number, left };
        assert!(amended.reacts(&name("bob"), "x", 9));
        let content = overlay.message.content.clone();
        overlay = overlay.amended(at(id + 10, 0), 1, content, amended.clone());
        // A member leaves by 20; then the message is edited, twice, and ann reacts.
        amended.edited_ms = 7;
        overlay = overlay.amended(at(id + 30, id + 20), 2, Content::text("b"), amended.clone());
        amended.edited_ms = 8;
        overlay = overlay.amended(at(id + 31, id + 20), 3, Content::text("c"), amended.clone());
        assert!(amended.reacts(&name("ann"), "y", 9));
        let content = overlay.message.content.clone();
        overlay = overlay.amended(at(id + 40, id + 20), 4, content, amended.clone());
        let key = key_of(conversation, 258);
        overlay = Overlay::decode((&key, &overlay.encode())).expect("as it was written");
        let both = vec!["bob".to_owned(), "ann".to_owned()];
        assert_eq!(read(&overlay, id + 5), Some(("secret".into(), 0, vec![])));
        assert_eq!(read(&overlay, id + 20), Some(("secret".into(), 0, both[..1].to_vec())));
        assert_eq!(read(&overlay, id + 35), Some(("c".into(), 8, both[..1].to_vec())));
        assert_eq!(read(&overlay, id + 41), Some(("c".into(), 8, both)));
        // No member left between the two edits, so the text between them is not kept.
        assert_eq!(overlay.earlier.len(), 1);
        let by = Moderated { by: name("eve"), at_ms: 5, reason: "a reason".into() };
        let buried = overlay.clone().buried(id + 50, Some(&by));
        let then = buried.as_of(id + 20).expect("a tombstone");
        assert_eq!((then.content.kind, then.content.extra.len()), (Content::RECALLED, 0));
        let now = buried.as_of(id + 51).expect("a tombstone");
        assert!(buried.earlier.is_empty() && !now.content.extra.is_empty());
        // Of many texts the oldest are dropped, and then the message is not found as it was.
        for n in 0..10 {
            let (number, left) = (id + 100 + n * 10, id + 95 + n * 10);
            let amended = Amended { edited_ms: 9 + n, reactions: Vec::new() };
            let text = Content::text(&format!("text {n}"));
            overlay = overlay.amended(at(number, left), 10 + n, text, amended);
        }
        assert_eq!(read(&overlay, id + 20), None);
        assert_eq!(read(&overlay, id + 185).expect("kept").0, "text 8");
    }

    #[test]
    fn what_was_stored_without_numbers_is_read_and_shown_to_nobody_who_left() {
        let (conversation, from, message) = said();
        let id = message.id;
        let mut amended = Amended { edited_ms: 7, reactions: Vec::new() };
        assert!(amended.reacts(&name("bob"), "x", 9));
        let at = Moment { number: id + 1, left: 0 };
        let text = message.content.clone();
        let overlay = Overlay::of(from, message).amended(at, 9, text, amended);
        let (key, value) = (key_of(conversation, 258), overlay.encode());
        // The row as the version before wrote it: without `since` of the one reaction, and without
        // the nine bytes of `changed` and `earlier`.
        let behind = value.windows(8).position(|it| it == (id + 1).to_le_bytes()).expect("since");
        let old = [&[VERSION_WITHOUT_NUMBERS][..], &value[1..behind], &value[behind + 17..]];
        let read = Overlay::decode((&key, &old.concat())).expect("it is read");
        assert_eq!((&read.message, &read.reacted[..]), (&overlay.message, &[u64::MAX][..]));
        // The text was edited in the millisecond 7.
        assert_eq!(read.as_of(envelope::last_number_of(6)), None);
        let then = read.as_of(id).expect("it was edited long before");
        assert_eq!(then.amended.as_deref(), Some(&Amended { edited_ms: 7, reactions: vec![] }));
        assert_eq!(Overlay::decode((&key, &read.encode())), Some(read));
    }
}

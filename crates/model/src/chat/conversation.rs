//! An account's view of its conversations: its read cursors, its unread counts and its settings for
//! each conversation; also recalls of messages.
//!
//! An account has one **read cursor** in a conversation, whichever device moves it: the place of
//! the conversation up to which the account has read. It never falls. A change takes a place in the
//! account's inbox, as messages do, so that all devices learn of changes in one order.

use super::{Content, TargetMessage};
use crate::account::{AccountAddress, Addressee};
use crate::timeline::Seq;
use base::encoding::Encoding;

/// Places at the end of a conversation among which it is counted what is unread.
pub const UNREAD_PLACES_MAX: u64 = 1_024;

/// Longest beginning of a message's text in a list of conversations, bytes.
pub const EXCERPT_BYTES_MAX: usize = 256;

/// Longest draft, bytes.
pub const DRAFT_BYTES_MAX: usize = 8 * 1024;

/// Change of an account to one of its conversations.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Pin = 0, Mute = 1, Hide = 2, Draft = 3)]
pub enum ConversationChange {
    /// Whether clients show the conversation before the others.
    Pin(bool),
    /// Its messages are to make no noise, or some again.
    Mute(MuteLevel),
    /// Whether clients hide the conversation until its next message, or until it is shown again.
    Hide(bool),
    /// Draft; empty: none. At most [`DRAFT_BYTES_MAX`].
    Draft(Box<str>),
}

/// Messages of a conversation that make no noise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Encoding)]
#[encoding(Off = 0, ButMentions = 1, Everything = 2)]
pub enum MuteLevel {
    /// All of them make noise.
    #[default]
    Off,
    /// All but those that mention the account.
    ButMentions,
    /// All messages. Only XMPP can set this; the other protocols show it as muted.
    Everything,
}

impl MuteLevel {
    /// Whether the conversation is muted.
    pub const fn is_on(self) -> bool {
        !matches!(self, MuteLevel::Off)
    }
}

impl From<bool> for MuteLevel {
    /// Meaning for a client that knows only muted and not muted.
    fn from(is_muted: bool) -> MuteLevel {
        if is_muted { MuteLevel::ButMentions } else { MuteLevel::Off }
    }
}

/// Event that takes a place in an inbox and is not a message.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct InboxEvent {
    /// The conversation, by whom it is with: an account or a group.
    pub with: AccountAddress,
    /// The change that happened.
    pub what: InboxChange,
}

/// Changes of a conversation of an account, beside messages.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Read = 0, PeerRead = 1, Set = 2)]
pub enum InboxChange {
    /// The account has read up to this place.
    Read(Seq),
    /// The other of the two has read up to this place.
    PeerRead(Seq),
    /// A setting of the conversation changed.
    Set(ConversationChange),
}

/// A conversation as an account has it.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Conversation {
    /// Other side of the conversation: an account or a group.
    pub with: AccountAddress,
    /// The place in the inbox of the last that was said; of a conversation in which nothing was,
    /// that of its last change. By this they are in order.
    pub place: Seq,
    /// The last place in the conversation, as far as the inbox has it.
    pub last_seq: Seq,
    /// That of the last that was said and is no amendment.
    pub said_seq: Seq,
    /// That; absent, if nothing was said or it is not there any more.
    pub last: Option<Excerpt>,
    /// The account has read up to here.
    pub read: Seq,
    /// The other of the two has read up to here; 0 in a group.
    pub peer_read: Seq,
    /// Messages behind `read` that count and are others', among the last [`UNREAD_PLACES_MAX`]
    /// places.
    pub unread: u16,
    /// Number of unread messages that mention the account.
    pub mentions: u16,
    /// Whether clients show the conversation before the others.
    pub pinned: bool,
    /// Whether the conversation notifies nobody.
    pub muted: bool,
    /// Whether clients hide the conversation.
    pub hidden: bool,
    /// The account was in the group, and is no more.
    pub left: bool,
    /// Draft.
    pub draft: Box<str>,
}

/// The beginning of a message.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Excerpt {
    /// The server's number for the message.
    pub id: u64,
    /// When it was taken, Unix milliseconds.
    pub at_ms: u64,
    /// Sender of the message.
    pub from: AccountAddress,
    /// Kind of the message, as [`Content::kind`].
    pub kind: u16,
    /// The beginning of its text, at most [`EXCERPT_BYTES_MAX`].
    pub text: Box<str>,
    /// That is all of it, and there is nothing beside.
    pub whole: bool,
}

impl Excerpt {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<Excerpt>() + self.from.as_str().len() + self.text.len()
    }
}

/// Part of an account's list of conversations, the newest first.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ConversationsPage {
    /// Number of the request.
    pub number: u32,
    /// Place of the inbox up to which the list is complete: entries behind it say what changed
    /// since.
    pub upto: Seq,
    /// Conversations.
    pub conversations: Vec<Conversation>,
    /// Whether older ones follow.
    pub more: bool,
}

/// A message that is to be called back.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct RecallOrder {
    /// The conversation.
    pub with: Addressee,
    /// The message's place there.
    pub seq: Seq,
    /// Why, in words for people, of what another one has said in a group: at most
    /// [`REASON_BYTES_MAX`](super::REASON_BYTES_MAX).
    pub reason: Box<str>,
}

/// Recall of another member's message in a group: by whom, and why.
///
/// ```text
/// address, blank, Unix milliseconds, blank, reason
/// ```
/// So it stands in the `extra` of what is left of the message, and of the message that tells of it
/// behind its target and a newline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moderated {
    /// Account that recalled it: an admin of the group, or its owner.
    pub by: AccountAddress,
    /// When, Unix milliseconds.
    pub at_ms: u64,
    /// Why, in words for people; empty: that was not said.
    pub reason: Box<str>,
}

impl Moderated {
    /// The moderation that a message carries: one that was recalled, or the message that tells of
    /// the recall. `None`: its sender or an operator recalled it.
    pub fn of(content: &Content) -> Option<Moderated> {
        match content.kind {
            Content::RECALLED => Moderated::read(&content.extra),
            Content::RECALL => Moderated::read(TargetMessage::read(&content.extra)?.1),
            _ => None,
        }
    }

    /// Text of the recall for a message's `extra`.
    pub fn write(&self) -> Box<[u8]> {
        let Moderated { by, at_ms, reason } = self;
        format!("{by} {at_ms} {reason}").into_bytes().into()
    }

    fn read(extra: &[u8]) -> Option<Moderated> {
        let mut words = std::str::from_utf8(extra).ok()?.splitn(3, ' ');
        let by = AccountAddress::parse(words.next()?, "").ok()?;
        let (at_ms, reason) = (words.next()?.parse().ok()?, words.next()?.into());
        Some(Moderated { by, at_ms, reason })
    }
}

/// A message is called back: what the message says that tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recall {
    /// The place of the message in their conversation.
    pub seq: Seq,
    /// The server's number for it.
    pub id: u64,
}

impl Recall {
    /// Content of the message about it: `extra` is a [`TargetMessage`], by its name in XMPP.
    pub fn content(self, name: &str) -> Content {
        self.moderated(name, None)
    }

    /// As [`content`](Self::content), for a recall by somebody else than the message's author.
    pub fn moderated(self, name: &str, by: Option<&Moderated>) -> Content {
        let beside = by.map(Moderated::write).unwrap_or_default();
        let extra = TargetMessage { seq: self.seq, id: self.id, name: name.into() }.extra(&beside);
        Content { kind: Content::RECALL, extra, ..Content::default() }
    }

    /// Recall that a message is about; `None`: none.
    pub fn of(content: &Content) -> Option<Recall> {
        let (target, _) =
            TargetMessage::read(&content.extra).filter(|_| content.kind == Content::RECALL)?;
        Some(Recall { seq: target.seq, id: target.id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_moderated_is_read_as_it_was_written_and_where_nobody_has_there_is_none() {
        let by = AccountAddress::parse("ann", "a.example").expect("right");
        let recall = Recall { seq: 5, id: 7 };
        for reason in ["", "spam", "two words\nand a line "] {
            let it = Moderated { by: by.clone(), at_ms: u64::MAX, reason: reason.into() };
            let told = recall.moderated("a name", Some(&it));
            assert_eq!(Recall::of(&told), Some(recall));
            let left = Content { kind: Content::RECALLED, extra: it.write(), ..Content::default() };
            assert_eq!([told, left].map(|it| Moderated::of(&it)), [Some(it.clone()), Some(it)]);
        }
        // As they were stored before.
        for content in [recall.content("a name"), recall.content("")] {
            assert_eq!(Moderated::of(&content), None);
        }
        let of = |kind, extra: &str| {
            Moderated::of(&Content { kind, extra: extra.as_bytes().into(), ..Content::default() })
        };
        assert!(of(Content::RECALLED, "ann@a.example 1 ").is_some());
        for extra in ["", "ann@a.example", "ann@a.example 1", "ann@a.example x y", "Ann 1 x"] {
            assert_eq!(of(Content::RECALLED, extra), None, "{extra}");
        }
        assert_eq!(of(Content::TEXT, "ann@a.example 1 x"), None);
    }

    #[test]
    fn a_recall_is_read_as_it_was_written_and_what_is_none_is_not_guessed_at() {
        let recall = Recall { seq: 1 << 40, id: u64::MAX };
        assert_eq!(Recall::of(&recall.content("")), Some(recall));
        assert_eq!(Recall::of(&recall.content("a name")), Some(recall));
        let of = |kind, extra: &str| {
            Recall::of(&Content { kind, extra: extra.as_bytes().into(), ..Content::text("") })
        };
        assert!(of(Content::RECALL, "1 2").is_some());
        assert_eq!(of(Content::TEXT, "1 2"), None);
        for extra in ["", "1", "1 ", "1 x", "-1 2"] {
            assert_eq!(of(Content::RECALL, extra), None, "{extra}");
        }
    }
}

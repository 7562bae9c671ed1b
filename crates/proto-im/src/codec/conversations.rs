//! Lists of conversations, as both directions have them (IM 11.4).
//!
//! A list is what the inbox says up to a place; of each last message there is the beginning.

use super::WireFault;
use super::group::address;
use super::protobuf::{Body, Sink, Value};
use model::chat::{Conversation, Excerpt};
use model::timeline::Seq;

/// `ConversationsPage`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ConversationsPageFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// Place of the inbox up to which the page is complete.
    pub upto: Seq,
    /// Conversations.
    pub conversations: Vec<ConversationFields<'a>>,
    /// Whether older ones follow.
    pub more: bool,
}

/// `Conversation`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ConversationFields<'a> {
    /// Other side of the conversation, with domain.
    pub with: &'a str,
    /// The place by which they are in order.
    pub place: Seq,
    /// The last place in the conversation.
    pub last_seq: Seq,
    /// Excerpt of the last message.
    pub last: Option<ExcerptFields<'a>>,
    /// The account has read up to here.
    pub read: Seq,
    /// The other has read up to here.
    pub peer_read: Seq,
    /// How many are unread.
    pub unread: u32,
    /// How many of them mention the account.
    pub mentions: u32,
    /// Whether clients show the conversation before the others.
    pub pinned: bool,
    /// Whether the conversation notifies nobody.
    pub muted: bool,
    /// Whether clients hide the conversation.
    pub hidden: bool,
    /// Draft of the account.
    pub draft: &'a str,
    /// The account was in the group, and is no more.
    pub left: bool,
    /// The place in the conversation of the last that was said and is no amendment.
    pub said_seq: Seq,
}

/// `Excerpt`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ExcerptFields<'a> {
    /// The server's number for the message.
    pub id: u64,
    /// When it was taken, Unix milliseconds.
    pub at_ms: u64,
    /// Full address of the sender.
    pub from: &'a str,
    /// Kind of the message.
    pub kind: u32,
    /// The beginning of its text.
    pub text: &'a str,
    /// That is all of it.
    pub whole: bool,
}

impl<'a> ConversationsPageFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<ConversationsPageFields<'a>, WireFault> {
        let mut it = ConversationsPageFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.upto = value.u64()?,
                3 => it.conversations.push(ConversationFields::read(value)?),
                4 => it.more = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ConversationsPageFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.u64(2, self.upto);
        self.conversations.iter().for_each(|one| sink.body(3, one));
        sink.bool(4, self.more);
    }
}

impl<'a> ConversationFields<'a> {
    /// Of a conversation.
    pub fn of(it: &'a Conversation) -> ConversationFields<'a> {
        let Conversation { place, last_seq, read, peer_read, pinned, muted, hidden, .. } = *it;
        ConversationFields {
            with: it.with.as_str(),
            place,
            last_seq,
            last: it.last.as_ref().map(ExcerptFields::of),
            read,
            peer_read,
            unread: it.unread.into(),
            mentions: it.mentions.into(),
            pinned,
            muted,
            hidden,
            draft: &it.draft,
            left: it.left,
            said_seq: it.said_seq,
        }
    }

    /// The conversation, if it can be one.
    pub fn conversation(&self) -> Result<Conversation, WireFault> {
        let ConversationFields { place, last_seq, read, peer_read, .. } = *self;
        Ok(Conversation {
            with: address(self.with)?,
            place,
            last_seq,
            last: self.last.map(|last| last.excerpt()).transpose()?,
            read,
            peer_read,
            unread: u16::try_from(self.unread).map_err(|_| WireFault::Range)?,
            mentions: u16::try_from(self.mentions).map_err(|_| WireFault::Range)?,
            pinned: self.pinned,
            muted: self.muted,
            hidden: self.hidden,
            draft: self.draft.into(),
            left: self.left,
            said_seq: self.said_seq,
        })
    }

    fn read(value: Value<'a>) -> Result<ConversationFields<'a>, WireFault> {
        let mut it = ConversationFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.with = value.text()?,
                2 => it.place = value.u64()?,
                3 => it.last_seq = value.u64()?,
                4 => it.last = Some(ExcerptFields::read(value)?),
                5 => it.read = value.u64()?,
                6 => it.peer_read = value.u64()?,
                7 => it.unread = value.u32()?,
                8 => it.pinned = value.bool()?,
                9 => it.muted = value.bool()?,
                10 => it.hidden = value.bool()?,
                11 => it.draft = value.text()?,
                12 => it.left = value.bool()?,
                13 => it.said_seq = value.u64()?,
                30 => it.mentions = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ConversationFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.with);
        sink.u64(2, self.place);
        sink.u64(3, self.last_seq);
        self.last.iter().for_each(|last| sink.body(4, last));
        sink.u64(5, self.read);
        sink.u64(6, self.peer_read);
        sink.u32(7, self.unread);
        sink.bool(8, self.pinned);
        sink.bool(9, self.muted);
        sink.bool(10, self.hidden);
        sink.text(11, self.draft);
        sink.bool(12, self.left);
        sink.u64(13, self.said_seq);
        sink.u32(30, self.mentions);
    }
}

impl<'a> ExcerptFields<'a> {
    fn of(it: &'a Excerpt) -> ExcerptFields<'a> {
        let Excerpt { id, at_ms, kind, whole, .. } = *it;
        let (from, text) = (it.from.as_str(), &*it.text);
        ExcerptFields { id, at_ms, from, kind: kind.into(), text, whole }
    }

    fn excerpt(&self) -> Result<Excerpt, WireFault> {
        let ExcerptFields { id, at_ms, whole, .. } = *self;
        let kind = u16::try_from(self.kind).map_err(|_| WireFault::Range)?;
        Ok(Excerpt { id, at_ms, from: address(self.from)?, kind, text: self.text.into(), whole })
    }

    fn read(value: Value<'a>) -> Result<ExcerptFields<'a>, WireFault> {
        let mut it = ExcerptFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.id = value.fixed64()?,
                2 => it.at_ms = value.u64()?,
                3 => it.from = value.text()?,
                4 => it.kind = value.u32()?,
                5 => it.text = value.text()?,
                6 => it.whole = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ExcerptFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.fixed64(1, self.id);
        sink.u64(2, self.at_ms);
        sink.text(3, self.from);
        sink.u32(4, self.kind);
        sink.text(5, self.text);
        sink.bool(6, self.whole);
    }
}

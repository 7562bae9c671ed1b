//! Messages and what is said in them, as both directions have them (IM 4.1, 5.1).
//!
//! The fields borrow: from the bytes that were read, or from the model's noun that is written.

pub mod quote;

use super::WireFault;
use super::group::address;
use super::protobuf::{Body, Fields, Sink, Value};
use model::account::Addressee;
use model::chat::{Amended, ChatMessage, ClientMessageId, Content, Reaction};
use model::timeline::Seq;
use quote::{QuoteFields, mentions_of};

/// `Content`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentFields<'a> {
    /// Kind of the message; 0 is text, too.
    pub kind: u32,
    /// For people.
    pub text: &'a str,
    /// Bytes for programs.
    pub extra: &'a [u8],
    /// Whether the message is left out of the unread count.
    pub uncounted: bool,
    /// Quote of another message.
    pub quote: Option<QuoteFields<'a>>,
    /// Accounts that the message mentions.
    pub mentions: Vec<&'a str>,
    /// Whether the message mentions everybody.
    pub everybody: bool,
}

impl<'a> ContentFields<'a> {
    /// Of nothing.
    pub const EMPTY: ContentFields<'static> = ContentFields::new(0, "", &[]);

    /// Of a kind, with a text and what stands beside it.
    pub const fn new(kind: u32, text: &'a str, extra: &'a [u8]) -> ContentFields<'a> {
        ContentFields {
            kind,
            text,
            extra,
            uncounted: false,
            quote: None,
            mentions: Vec::new(),
            everybody: false,
        }
    }

    /// Of a content.
    pub fn of(content: &'a Content) -> ContentFields<'a> {
        let mentions = content.mentions.as_deref();
        let accounts = mentions.map_or(&[][..], |it| &it.accounts).iter();
        ContentFields {
            kind: u32::from(content.kind),
            text: &content.text,
            extra: &content.extra,
            uncounted: !content.counts,
            quote: content.quote.as_deref().map(QuoteFields::of),
            mentions: accounts.map(Addressee::as_str).collect(),
            everybody: mentions.is_some_and(|it| it.everybody),
        }
    }

    /// The content that a client says; `None`: its kind is none, or it mentions what has no
    /// address.
    pub fn content(&self) -> Option<Content> {
        let kind = u16::try_from(self.kind).ok()?;
        Some(Content {
            kind: if kind == 0 { Content::TEXT } else { kind },
            text: self.text.into(),
            extra: self.extra.into(),
            counts: !self.uncounted,
            quote: self.quote.map(|quote| Box::new(quote.asked())),
            mentions: mentions_of(&self.mentions, self.everybody)?,
            nick: None,
        })
    }

    /// The content that a server tells of.
    fn told(&self) -> Result<Content, WireFault> {
        let content = self.content().ok_or(WireFault::Range)?;
        let quote = self.quote.map(|quote| quote.quote().map(Box::new)).transpose()?;
        Ok(Content { quote, ..content })
    }

    pub(super) fn read(value: Value<'a>) -> Result<ContentFields<'a>, WireFault> {
        let mut it = ContentFields::EMPTY;
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.kind = value.u32()?,
                2 => it.text = value.text()?,
                3 => it.extra = value.bytes()?,
                4 => it.uncounted = value.bool()?,
                30 => it.quote = Some(QuoteFields::read(value)?),
                31 => it.mentions.push(value.text()?),
                32 => it.everybody = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ContentFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.kind);
        sink.text(2, self.text);
        sink.bytes(3, self.extra);
        sink.bool(4, self.uncounted);
        self.quote.iter().for_each(|quote| sink.body(30, quote));
        self.mentions.iter().for_each(|account| sink.text(31, account));
        sink.bool(32, self.everybody);
    }
}

/// `ChatMessage`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageFields<'a> {
    /// The server's number for it.
    pub id: u64,
    /// Its place in the conversation.
    pub seq: Seq,
    /// When it was taken, Unix milliseconds.
    pub at_ms: u64,
    /// Full address of the sender.
    pub from: &'a str,
    /// Device of the sender.
    pub device: &'a str,
    /// Recipient, with domain.
    pub to: &'a str,
    /// The sender's id for it.
    pub client_id: &'a [u8],
    /// Content of the message, as it is now.
    pub content: ContentFields<'a>,
    /// When it was edited last, Unix milliseconds; 0: it was not.
    pub edited_ms: u64,
    /// Reactions to the message.
    pub reactions: Vec<ReactionFields<'a>>,
}

/// `Reaction`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReactionFields<'a> {
    /// Full address of the account that reacts.
    pub by: &'a str,
    /// The emoji, separated by blanks.
    pub emoji: &'a str,
}

impl<'a> MessageFields<'a> {
    /// Of a message.
    pub fn of(message: &'a ChatMessage) -> MessageFields<'a> {
        let amended = message.amended.as_deref();
        let reactions = amended.map_or(&[][..], |it| &it.reactions).iter();
        let of = |it: &'a Reaction| ReactionFields { by: it.by.as_str(), emoji: &it.emoji };
        MessageFields {
            id: message.id,
            seq: message.seq,
            at_ms: message.at_ms,
            from: message.from.as_str(),
            device: &message.device,
            to: message.to.as_str(),
            client_id: &message.client_id.0,
            content: ContentFields::of(&message.content),
            edited_ms: amended.map_or(0, |it| it.edited_ms),
            reactions: reactions.map(of).collect(),
        }
    }

    /// The message, if it can be one.
    pub fn message(&self) -> Result<ChatMessage, WireFault> {
        let of =
            |it: &ReactionFields<'_>| Ok(Reaction { by: address(it.by)?, emoji: it.emoji.into() });
        let reactions = self.reactions.iter().map(of).collect::<Result<_, WireFault>>()?;
        let amended = Amended { edited_ms: self.edited_ms, reactions };
        Ok(ChatMessage {
            id: self.id,
            seq: self.seq,
            at_ms: self.at_ms,
            from: address(self.from)?,
            device: self.device.into(),
            to: address(self.to)?,
            client_id: client_id(self.client_id).ok_or(WireFault::Range)?,
            content: self.content.told()?,
            amended: (!amended.is_nothing()).then(|| Box::new(amended)),
        })
    }

    pub(super) fn read(value: Value<'a>) -> Result<MessageFields<'a>, WireFault> {
        let mut it = MessageFields {
            id: 0,
            seq: 0,
            at_ms: 0,
            from: "",
            device: "",
            to: "",
            client_id: &[],
            content: ContentFields::EMPTY,
            edited_ms: 0,
            reactions: Vec::new(),
        };
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.id = value.fixed64()?,
                2 => it.seq = value.u64()?,
                3 => it.at_ms = value.u64()?,
                4 => it.from = value.text()?,
                5 => it.device = value.text()?,
                6 => it.to = value.text()?,
                7 => it.client_id = value.bytes()?,
                8 => it.content = ContentFields::read(value)?,
                9 => it.edited_ms = value.u64()?,
                10 => it.reactions.push(ReactionFields::read(value)?),
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for MessageFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.fixed64(1, self.id);
        sink.u64(2, self.seq);
        sink.u64(3, self.at_ms);
        sink.text(4, self.from);
        sink.text(5, self.device);
        sink.text(6, self.to);
        sink.bytes(7, self.client_id);
        sink.body(8, &self.content);
        sink.u64(9, self.edited_ms);
        self.reactions.iter().for_each(|reaction| sink.body(10, reaction));
    }
}

impl<'a> ReactionFields<'a> {
    fn read(value: Value<'a>) -> Result<ReactionFields<'a>, WireFault> {
        let mut it = ReactionFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.by = value.text()?,
                2 => it.emoji = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ReactionFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.by);
        sink.text(2, self.emoji);
    }
}

/// `InboxEntry`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryFields<'a> {
    /// Its place in the inbox.
    pub seq: Seq,
    /// The message.
    pub message: MessageFields<'a>,
}

impl<'a> EntryFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<EntryFields<'a>, WireFault> {
        let (mut seq, mut message) = (0, None);
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => seq = value.u64()?,
                2 => message = Some(MessageFields::read(value)?),
                _ => {}
            }
        }
        // An entry without a message is one that has no address either.
        let message = message.ok_or(WireFault::Address)?;
        Ok(EntryFields { seq, message })
    }
}

impl Body for EntryFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u64(1, self.seq);
        sink.body(2, &self.message);
    }
}

/// A sender's id, if it has sixteen bytes.
pub fn client_id(bytes: &[u8]) -> Option<ClientMessageId> {
    bytes.try_into().ok().map(ClientMessageId)
}

/// The only field of a message that says one number.
pub(super) fn one_number(value: Value<'_>) -> Result<u64, WireFault> {
    let mut it = 0;
    let mut fields = value.fields()?;
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            it = value.u64()?;
        }
    }
    Ok(it)
}

/// Reads a message whose only field is a number of 32 bits.
pub(super) fn one_u32(value: Value<'_>) -> Result<u32, WireFault> {
    let mut it = 0;
    let mut fields = value.fields()?;
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            it = value.u32()?;
        }
    }
    Ok(it)
}

/// The only field of a message that says one row of bytes.
pub(super) fn one_row(value: Value<'_>) -> Result<&[u8], WireFault> {
    let mut it: &[u8] = &[];
    let mut fields = value.fields()?;
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            it = value.bytes()?;
        }
    }
    Ok(it)
}

/// Reads over a message of no fields that are known.
pub(super) fn nothing(value: Value<'_>) -> Result<(), WireFault> {
    let mut fields: Fields<'_> = value.fields()?;
    while fields.next()?.is_some() {}
    Ok(())
}

/// A message of one number.
pub(super) struct OneNumber(pub u64);

impl Body for OneNumber {
    fn put(&self, sink: &mut impl Sink) {
        sink.u64(1, self.0);
    }
}

/// A message whose only field is a number of 32 bits.
pub(super) struct OneU32(pub u32);

impl Body for OneU32 {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.0);
    }
}

/// A message of one row of bytes.
pub(super) struct OneRow<'a>(pub &'a [u8]);

impl Body for OneRow<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.bytes(1, self.0);
    }
}

/// A message without fields.
pub(super) struct Nothing;

impl Body for Nothing {
    fn put(&self, _: &mut impl Sink) {}
}

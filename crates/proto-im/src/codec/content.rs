//! Messages and what is said in them, as both directions have them (IM 4.1, 5.1).
//!
//! The fields borrow: from the bytes that were read, or from the model's noun that is written.

use super::WireFault;
use super::protobuf::{Body, Fields, Sink, Value};
use model::account::AccountAddress;
use model::chat::{ChatMessage, ClientMessageId, Content};
use model::timeline::Seq;

/// `Content`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentFields<'a> {
    /// What it is; 0 is text, too.
    pub kind: u32,
    /// For people.
    pub text: &'a str,
    /// Beside it.
    pub extra: &'a [u8],
    /// It does not count as unread.
    pub uncounted: bool,
}

impl<'a> ContentFields<'a> {
    /// Of nothing.
    pub const EMPTY: ContentFields<'static> =
        ContentFields { kind: 0, text: "", extra: &[], uncounted: false };

    /// Of a content.
    pub fn of(content: &'a Content) -> ContentFields<'a> {
        ContentFields {
            kind: u32::from(content.kind),
            text: &content.text,
            extra: &content.extra,
            uncounted: !content.counts,
        }
    }

    /// The content; `None`: its kind is none.
    pub fn content(&self) -> Option<Content> {
        let kind = u16::try_from(self.kind).ok()?;
        Some(Content {
            kind: if kind == 0 { Content::TEXT } else { kind },
            text: self.text.into(),
            extra: self.extra.into(),
            counts: !self.uncounted,
        })
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
    }
}

/// `ChatMessage`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageFields<'a> {
    /// The server's number for it.
    pub id: u64,
    /// Its place in the conversation.
    pub seq: Seq,
    /// When it was taken, Unix milliseconds.
    pub at_ms: u64,
    /// Who said it, whole.
    pub from: &'a str,
    /// On which device.
    pub device: &'a str,
    /// To whom, whole.
    pub to: &'a str,
    /// The sender's id for it.
    pub client_id: &'a [u8],
    /// What was said.
    pub content: ContentFields<'a>,
}

impl<'a> MessageFields<'a> {
    /// Of a message.
    pub fn of(message: &'a ChatMessage) -> MessageFields<'a> {
        MessageFields {
            id: message.id,
            seq: message.seq,
            at_ms: message.at_ms,
            from: message.from.as_str(),
            device: &message.device,
            to: message.to.as_str(),
            client_id: &message.client_id.0,
            content: ContentFields::of(&message.content),
        }
    }

    /// The message, if it can be one.
    pub fn message(&self) -> Result<ChatMessage, WireFault> {
        let address = |text| AccountAddress::parse(text, "").map_err(|_| WireFault::Address);
        Ok(ChatMessage {
            id: self.id,
            seq: self.seq,
            at_ms: self.at_ms,
            from: address(self.from)?,
            device: self.device.into(),
            to: address(self.to)?,
            client_id: client_id(self.client_id).ok_or(WireFault::Range)?,
            content: self.content.content().ok_or(WireFault::Range)?,
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
    }
}

/// `InboxEntry`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// Likewise, of a number of 32 bits.
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

/// Likewise, of 32 bits.
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

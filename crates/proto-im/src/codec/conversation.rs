//! Cursors, settings and what is asked of conversations, as both directions have it (IM 11).
//!
//! An event of the inbox that a later version added has a place and nothing that is known here:
//! whoever reads it goes on behind it.

use super::WireFault;
use super::group::address;
use super::protobuf::{Body, Sink, Value};
use model::chat::{ConversationChange, InboxChange, InboxEvent};
use model::timeline::Seq;

/// `InboxEvent`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EventFields<'a> {
    /// Its place in the inbox.
    pub seq: Seq,
    /// The conversation, by whom it is with, whole.
    pub with: &'a str,
    /// The account has read up to here.
    pub read: Seq,
    /// The other has read up to here.
    pub peer_read: Seq,
    /// Change of a setting of the conversation.
    pub change: Option<ChangeFields<'a>>,
}

/// `Change`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ChangeFields<'a> {
    /// The setting's number.
    pub setting: u32,
    /// Whether it is to be so, of all but drafts.
    pub on: bool,
    /// Draft of the account.
    pub draft: &'a str,
}

/// `MarkRead`, and `Recall`: a place of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PlaceFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Other side of the conversation, perhaps without a domain.
    pub with: &'a str,
    /// The place.
    pub seq: Seq,
}

/// `MarkedRead`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MarkedFields {
    /// Number of the request.
    pub number: u32,
    /// The place.
    pub upto: Seq,
}

/// `SetConversation`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Other side of the conversation, perhaps without a domain.
    pub with: &'a str,
    /// Change of the settings.
    pub change: ChangeFields<'a>,
}

/// `Conversations`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ConversationsFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// The one with whom, perhaps without a domain; empty: all.
    pub with: &'a str,
    /// Of all, those before this place; 0: from the newest on.
    pub before: Seq,
    /// Of all, the most it wants.
    pub count: u32,
    /// Of all, those with groups alone, and hidden ones too.
    pub groups: bool,
}

impl<'a> EventFields<'a> {
    /// Of an event at its place.
    pub fn of(seq: Seq, event: &'a InboxEvent) -> EventFields<'a> {
        let it = EventFields { seq, with: event.with.as_str(), ..EventFields::default() };
        match &event.what {
            InboxChange::Read(upto) => EventFields { read: *upto, ..it },
            InboxChange::PeerRead(upto) => EventFields { peer_read: *upto, ..it },
            InboxChange::Set(change) => {
                EventFields { change: Some(ChangeFields::of(change)), ..it }
            }
        }
    }

    /// The event; `None`: one that a later version added.
    pub fn event(&self) -> Result<Option<InboxEvent>, WireFault> {
        let what = match (self.read, self.peer_read, self.change) {
            (0, 0, None) => None,
            (0, 0, Some(change)) => change.change().map(InboxChange::Set),
            (0, upto, _) => Some(InboxChange::PeerRead(upto)),
            (upto, ..) => Some(InboxChange::Read(upto)),
        };
        let Some(what) = what else { return Ok(None) };
        Ok(Some(InboxEvent { with: address(self.with)?, what }))
    }

    pub(super) fn read(value: Value<'a>) -> Result<EventFields<'a>, WireFault> {
        let mut it = EventFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.seq = value.u64()?,
                2 => it.with = value.text()?,
                3 => it.read = value.u64()?,
                4 => it.peer_read = value.u64()?,
                5 => it.change = Some(ChangeFields::read(value)?),
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for EventFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u64(1, self.seq);
        sink.text(2, self.with);
        sink.u64(3, self.read);
        sink.u64(4, self.peer_read);
        self.change.iter().for_each(|change| sink.body(5, change));
    }
}

impl<'a> ChangeFields<'a> {
    /// Of a change.
    pub fn of(change: &'a ConversationChange) -> ChangeFields<'a> {
        let (on, draft) = match change {
            ConversationChange::Pin(on) | ConversationChange::Hide(on) => (*on, ""),
            ConversationChange::Mute(mute) => (mute.is_on(), ""),
            ConversationChange::Draft(draft) => (false, &**draft),
        };
        ChangeFields { setting: setting_number(change), on, draft }
    }

    /// The change; `None`: none, or one that a later version added.
    pub fn change(&self) -> Option<ConversationChange> {
        Some(match self.setting {
            1 => ConversationChange::Pin(self.on),
            2 => ConversationChange::Mute(self.on.into()),
            3 => ConversationChange::Hide(self.on),
            4 => ConversationChange::Draft(self.draft.into()),
            _ => return None,
        })
    }

    fn read(value: Value<'a>) -> Result<ChangeFields<'a>, WireFault> {
        let mut it = ChangeFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.setting = value.u32()?,
                2 => it.on = value.bool()?,
                3 => it.draft = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ChangeFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.setting);
        sink.bool(2, self.on);
        sink.text(3, self.draft);
    }
}

/// The number of a setting on the wire (IM 8.6).
pub const fn setting_number(change: &ConversationChange) -> u32 {
    match change {
        ConversationChange::Pin(_) => 1,
        ConversationChange::Mute(_) => 2,
        ConversationChange::Hide(_) => 3,
        ConversationChange::Draft(_) => 4,
    }
}

impl<'a> PlaceFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<PlaceFields<'a>, WireFault> {
        let mut it = PlaceFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.with = value.text()?,
                3 => it.seq = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for PlaceFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.with);
        sink.u64(3, self.seq);
    }
}

impl MarkedFields {
    pub(super) fn read(value: Value<'_>) -> Result<MarkedFields, WireFault> {
        let mut it = MarkedFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.upto = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for MarkedFields {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.u64(2, self.upto);
    }
}

impl<'a> SetFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<SetFields<'a>, WireFault> {
        let mut it = SetFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.with = value.text()?,
                3 => it.change = ChangeFields::read(value)?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for SetFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.with);
        sink.body(3, &self.change);
    }
}

impl<'a> ConversationsFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<ConversationsFields<'a>, WireFault> {
        let mut it = ConversationsFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.with = value.text()?,
                3 => it.before = value.u64()?,
                4 => it.count = value.u32()?,
                5 => it.groups = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ConversationsFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.with);
        sink.u64(3, self.before);
        sink.u32(4, self.count);
        sink.bool(5, self.groups);
    }
}

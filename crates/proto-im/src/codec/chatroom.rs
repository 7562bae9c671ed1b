//! Chatrooms, as both directions have them (IM 18).
//!
//! Of the names of an order one more is kept than is allowed, so that an order with too many is
//! refused.

use super::WireFault;
use super::content::MessageFields;
use super::group::{address, role_number};
use super::protobuf::{Body, Sink, Value};
use model::account::{AccountAddress, Addressee};
use model::chat::{
    CHATROOM_NAMED_MAX, ChatroomJoined, ChatroomOrder, ChatroomOut, ChatroomState, ChatroomVerb,
};

/// `ChatroomOrder`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ChatroomOrderFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Which, perhaps by its name alone.
    pub room: &'a str,
    /// The verb's number.
    pub verb: u32,
    /// Title or announcement.
    pub text: &'a str,
    /// Accounts that the order is about, perhaps without domains; at most one more than may be.
    pub accounts: Vec<&'a str>,
    /// How many messages it keeps.
    pub keeps: u32,
    /// Whether the change survives a restart.
    pub durable: bool,
}

/// `JoinChatroom`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct JoinFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Which, perhaps by its name alone.
    pub room: &'a str,
    /// The most of its last messages that are wanted.
    pub history: u32,
}

/// `LeaveChatroom`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeaveFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Which, perhaps by its name alone.
    pub room: &'a str,
}

/// `ChatroomState`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StateFields<'a> {
    /// Which, whole.
    pub room: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Announcement of the chatroom.
    pub announcement: &'a str,
    /// Only owner and moderators may speak.
    pub quiet: bool,
    /// How many are there.
    pub here: u32,
    /// The number of the last message.
    pub head: u64,
}

/// `ChatroomJoined`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct JoinedFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// State of the chatroom.
    pub state: StateFields<'a>,
    /// The number of the account's role.
    pub role: u32,
    /// The account may say nothing.
    pub muted: bool,
    /// The last messages, the oldest first.
    pub history: Vec<MessageFields<'a>>,
}

/// `ChatroomMessage`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaidFields<'a> {
    /// The message.
    pub message: MessageFields<'a>,
    /// A moderator's, or an operator's.
    pub important: bool,
}

/// `ChatroomMissed`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MissedFields<'a> {
    /// Which, whole.
    pub room: &'a str,
    /// How many messages.
    pub missed: u32,
}

/// `ChatroomNews`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NewsFields<'a> {
    /// State of the chatroom; if the session has left it, only its address.
    pub state: StateFields<'a>,
    /// Why the session is in it no more; 0: it is.
    pub out: u32,
}

impl<'a> ChatroomOrderFields<'a> {
    /// Of an order.
    pub fn of(number: u32, order: &'a ChatroomOrder) -> ChatroomOrderFields<'a> {
        ChatroomOrderFields {
            number,
            room: order.room.as_str(),
            verb: chatroom_verb_number(order.verb),
            text: &order.text,
            accounts: order.accounts.iter().map(Addressee::as_str).collect(),
            keeps: order.keeps.into(),
            durable: order.durable,
        }
    }

    /// The order; `None`: these fields make none.
    pub fn order(&self) -> Option<ChatroomOrder> {
        let accounts = self.accounts.iter().map(|name| Addressee::parse(name).ok());
        Some(ChatroomOrder {
            room: Addressee::parse(self.room).ok()?,
            verb: chatroom_verb_of(self.verb)?,
            text: self.text.into(),
            accounts: accounts.collect::<Option<_>>()?,
            keeps: self.keeps.min(u16::MAX.into()) as u16,
            durable: self.durable,
        })
    }

    pub(super) fn read(value: Value<'a>) -> Result<ChatroomOrderFields<'a>, WireFault> {
        let mut it = ChatroomOrderFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.room = value.text()?,
                3 => it.verb = value.u32()?,
                4 => it.text = value.text()?,
                5 => {
                    let name = value.text()?;
                    if it.accounts.len() <= CHATROOM_NAMED_MAX {
                        it.accounts.push(name);
                    }
                }
                6 => it.keeps = value.u32()?,
                7 => it.durable = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ChatroomOrderFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.room);
        sink.u32(3, self.verb);
        sink.text(4, self.text);
        self.accounts.iter().for_each(|name| sink.each_text(5, name));
        sink.u32(6, self.keeps);
        sink.bool(7, self.durable);
    }
}

impl<'a> JoinFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<JoinFields<'a>, WireFault> {
        let mut it = JoinFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.room = value.text()?,
                3 => it.history = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for JoinFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.room);
        sink.u32(3, self.history);
    }
}

impl<'a> LeaveFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<LeaveFields<'a>, WireFault> {
        let mut it = LeaveFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.room = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for LeaveFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.room);
    }
}

impl<'a> StateFields<'a> {
    /// Of a room that is so.
    pub fn of(room: &'a AccountAddress, state: &'a ChatroomState) -> StateFields<'a> {
        let ChatroomState { title, announcement, quiet, here, head } = state;
        let (quiet, here, head) = (*quiet, *here, *head);
        StateFields { room: room.as_str(), title, announcement, quiet, here, head }
    }

    /// The room's address, and how it is.
    pub fn state(&self) -> Result<(AccountAddress, ChatroomState), WireFault> {
        let StateFields { room, title, announcement, quiet, here, head } = *self;
        let (title, announcement) = (title.into(), announcement.into());
        Ok((address(room)?, ChatroomState { title, announcement, quiet, here, head }))
    }

    fn read(value: Value<'a>) -> Result<StateFields<'a>, WireFault> {
        let mut it = StateFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.room = value.text()?,
                2 => it.title = value.text()?,
                3 => it.announcement = value.text()?,
                4 => it.quiet = value.bool()?,
                5 => it.here = value.u32()?,
                6 => it.head = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for StateFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.room);
        sink.text(2, self.title);
        sink.text(3, self.announcement);
        sink.bool(4, self.quiet);
        sink.u32(5, self.here);
        sink.u64(6, self.head);
    }
}

impl<'a> JoinedFields<'a> {
    /// Of a session that is in a room.
    pub fn of(joined: &'a ChatroomJoined) -> JoinedFields<'a> {
        JoinedFields {
            number: joined.number,
            state: StateFields::of(&joined.room, &joined.state),
            role: role_number(joined.role),
            muted: joined.muted,
            history: joined.history.iter().map(|it| MessageFields::of(&it.message)).collect(),
        }
    }

    pub(super) fn read(value: Value<'a>) -> Result<JoinedFields<'a>, WireFault> {
        let mut it = JoinedFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.state = StateFields::read(value)?,
                3 => it.role = value.u32()?,
                4 => it.muted = value.bool()?,
                5 => it.history.push(MessageFields::read(value)?),
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for JoinedFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.body(2, &self.state);
        sink.u32(3, self.role);
        sink.bool(4, self.muted);
        self.history.iter().for_each(|message| sink.body(5, message));
    }
}

impl<'a> SaidFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<SaidFields<'a>, WireFault> {
        let (mut message, mut important) = (None, false);
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => message = Some(MessageFields::read(value)?),
                2 => important = value.bool()?,
                _ => {}
            }
        }
        Ok(SaidFields { message: message.ok_or(WireFault::Address)?, important })
    }
}

impl Body for SaidFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.body(1, &self.message);
        sink.bool(2, self.important);
    }
}

impl<'a> MissedFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<MissedFields<'a>, WireFault> {
        let mut it = MissedFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.room = value.text()?,
                2 => it.missed = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for MissedFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.room);
        sink.u32(2, self.missed);
    }
}

impl<'a> NewsFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<NewsFields<'a>, WireFault> {
        let mut it = NewsFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.state = StateFields::read(value)?,
                2 => it.out = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for NewsFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.body(1, &self.state);
        sink.u32(2, self.out);
    }
}

/// The number of a verb on the wire (IM 18.2): its place among all, from 1.
pub fn chatroom_verb_number(verb: ChatroomVerb) -> u32 {
    let at = ChatroomVerb::ALL.iter().position(|it| *it == verb);
    at.map_or(0, |at| at as u32 + 1)
}

/// The verb with this number; `None`: none, or one that a later version added.
pub fn chatroom_verb_of(number: u32) -> Option<ChatroomVerb> {
    ChatroomVerb::ALL.get(number.checked_sub(1)? as usize).copied()
}

/// The number of why a session is in a room no more (IM 18.5).
pub const fn out_number(out: ChatroomOut) -> u32 {
    match out {
        ChatroomOut::Kicked => 1,
        ChatroomOut::Banned => 2,
        ChatroomOut::Closed => 3,
    }
}

/// Why, by its number; `None`: the session is in it, or for a reason that a later version added.
pub fn out_of(number: u32) -> Option<ChatroomOut> {
    ChatroomOut::ALL.into_iter().find(|out| out_number(*out) == number)
}

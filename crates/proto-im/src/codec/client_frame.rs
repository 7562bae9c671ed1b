//! Frames of clients: `ClientFrame` (IM 3 to 7, 10 to 15).

use super::WireFault;
use super::chatroom::{ChatroomOrderFields, JoinFields, LeaveFields};
use super::contact::{ContactsFields, OrderFields};
use super::content::{ContentFields, Nothing, OneNumber, OneRow, nothing, one_number, one_row};
use super::conversation::{ConversationsFields, PlaceFields, SetFields};
use super::frame;
use super::group::{GroupFields, MembersFields};
use super::presence::SetPresenceFields;
use super::protobuf::{Body, Fields, Sink, Value};
use super::push::{PushFields, PushSettingsFields};
use super::receipts::{PrivacyFields, ReadersFields};
use super::search::SearchFields;
use super::transient::TransientFields;
use super::upload::UploadFields;
use model::timeline::Seq;

/// A frame of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientFrame<'a> {
    /// Asks for a session (IM 3.1).
    Login(LoginFields<'a>),
    /// The next step of an exchange (IM 3.2).
    Proceed(&'a [u8]),
    /// Sends a message (IM 4.1).
    Send(SendFields<'a>),
    /// Asks for the inbox behind a place (IM 5.4).
    Pull(PullFields),
    /// Asks for a conversation (IM 6).
    History(HistoryFields<'a>),
    /// Has everything up to this place (IM 5.5).
    Acknowledge(Seq),
    /// Is there (IM 7.1).
    Ping,
    /// Goes (IM 7.2).
    Goodbye,
    /// Makes a group, or changes one (IM 10.1).
    Group(GroupFields<'a>),
    /// Asks who is in a group (IM 10.3).
    Members(MembersFields<'a>),
    /// Has read a conversation up to a place (IM 11.2).
    MarkRead(PlaceFields<'a>),
    /// Changes settings of a conversation (IM 11.3).
    Set(SetFields<'a>),
    /// Asks for the list of conversations (IM 11.4).
    Conversations(ConversationsFields<'a>),
    /// Calls a message back (IM 11.5).
    Recall(PlaceFields<'a>),
    /// Asks for contacts (IM 12.2).
    Contacts(ContactsFields),
    /// Changes a contact (IM 12.3).
    Contact(OrderFields<'a>),
    /// Is there so, or not (IM 12.4).
    Presence(SetPresenceFields<'a>),
    /// Tells something that is kept nowhere (IM 16.1).
    Transient(TransientFields<'a>),
    /// Searches what the account has said and heard (IM 16.4).
    Search(SearchFields<'a>),
    /// Requests to upload a file (IM 14.1).
    Upload(UploadFields<'a>),
    /// Is to be woken so, or no longer (IM 15.1).
    Push(PushFields<'a>),
    /// Sets quiet hours, or requests the registrations (IM 15.2).
    PushSettings(PushSettingsFields),
    /// Asks who has read what (IM 17.2).
    Readers(ReadersFields<'a>),
    /// Shares what its account has read, or not (IM 17.3).
    Privacy(PrivacyFields),
    /// Makes a chatroom, or changes one (IM 18.2).
    ChatroomOrder(ChatroomOrderFields<'a>),
    /// Joins a chatroom (IM 18.1).
    JoinChatroom(JoinFields<'a>),
    /// Leaves a chatroom (IM 18.1).
    LeaveChatroom(LeaveFields<'a>),
    /// Requests a token for the next login, or revokes all tokens (IM 3.5).
    Token(TokenRequestFields),
}

/// `Login`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LoginFields<'a> {
    /// The account, perhaps with its domain.
    pub name: &'a str,
    /// The device's name.
    pub device: &'a str,
    /// A password or a token; empty: none.
    pub password: &'a [u8],
    /// An authentication method; empty: none.
    pub method: &'a str,
    /// Its first data.
    pub data: &'a [u8],
    /// The longest silence it wishes, seconds; 0: the server's.
    pub silence_s: u32,
}

/// `TokenRequest`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TokenRequestFields {
    /// Number that the answer repeats.
    pub number: u32,
    /// The device's tokens are to be revoked; otherwise it wants one.
    pub revoke: bool,
}

/// `Send`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Recipient, perhaps without a domain.
    pub to: &'a str,
    /// The sender's id for it.
    pub client_id: &'a [u8],
    /// Content of the message.
    pub content: ContentFields<'a>,
}

/// `Pull`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PullFields {
    /// Number that the answer repeats.
    pub number: u32,
    /// The last place that it has.
    pub after: Seq,
    /// The most it wants.
    pub count: u32,
}

/// `History`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HistoryFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Other side of the conversation, perhaps without a domain.
    pub with: &'a str,
    /// Where to begin; 0: the beginning or the end.
    pub from: Seq,
    /// The direction.
    pub backwards: bool,
    /// The most it wants.
    pub count: u32,
}

impl<'a> ClientFrame<'a> {
    /// Reads what stands in a frame. Of several requests the last one counts, as proto3 has it.
    pub fn read(frame: &'a [u8]) -> Result<ClientFrame<'a>, WireFault> {
        let mut request = None;
        let mut fields = Fields::of(frame);
        while let Some((number, value)) = fields.next()? {
            request = match number {
                1 => Some(ClientFrame::Login(LoginFields::read(value)?)),
                2 => Some(ClientFrame::Proceed(one_row(value)?)),
                3 => Some(ClientFrame::Send(SendFields::read(value)?)),
                4 => Some(ClientFrame::Pull(PullFields::read(value)?)),
                5 => Some(ClientFrame::History(HistoryFields::read(value)?)),
                6 => Some(ClientFrame::Acknowledge(one_number(value)?)),
                7 => nothing(value).map(|()| Some(ClientFrame::Ping))?,
                8 => nothing(value).map(|()| Some(ClientFrame::Goodbye))?,
                9 => Some(ClientFrame::Group(GroupFields::read(value)?)),
                10 => Some(ClientFrame::Members(MembersFields::read(value)?)),
                11 => Some(ClientFrame::MarkRead(PlaceFields::read(value)?)),
                12 => Some(ClientFrame::Set(SetFields::read(value)?)),
                13 => Some(ClientFrame::Conversations(ConversationsFields::read(value)?)),
                14 => Some(ClientFrame::Recall(PlaceFields::read(value)?)),
                15 => Some(ClientFrame::Contacts(ContactsFields::read(value)?)),
                16 => Some(ClientFrame::Contact(OrderFields::read(value)?)),
                17 => Some(ClientFrame::Presence(SetPresenceFields::read(value)?)),
                18 => Some(ClientFrame::Transient(TransientFields::read(value)?)),
                20 => Some(ClientFrame::Search(SearchFields::read(value)?)),
                22 => Some(ClientFrame::Upload(UploadFields::read(value)?)),
                24 => Some(ClientFrame::Push(PushFields::read(value)?)),
                25 => Some(ClientFrame::PushSettings(PushSettingsFields::read(value)?)),
                30 => Some(ClientFrame::Readers(ReadersFields::read(value)?)),
                31 => Some(ClientFrame::Privacy(PrivacyFields::read(value)?)),
                32 => Some(ClientFrame::ChatroomOrder(ChatroomOrderFields::read(value)?)),
                33 => Some(ClientFrame::JoinChatroom(JoinFields::read(value)?)),
                34 => Some(ClientFrame::LeaveChatroom(LeaveFields::read(value)?)),
                35 => Some(ClientFrame::Token(TokenRequestFields::read(value)?)),
                _ => request,
            };
        }
        request.ok_or(WireFault::NoRequest)
    }

    /// Appends the frame with its length.
    pub fn write(&self, out: &mut Vec<u8>) {
        frame::write(self, out);
    }
}

impl Body for ClientFrame<'_> {
    fn put(&self, sink: &mut impl Sink) {
        match self {
            ClientFrame::Login(login) => sink.body(1, login),
            ClientFrame::Proceed(data) => sink.body(2, &OneRow(data)),
            ClientFrame::Send(send) => sink.body(3, send),
            ClientFrame::Pull(pull) => sink.body(4, pull),
            ClientFrame::History(history) => sink.body(5, history),
            ClientFrame::Acknowledge(upto) => sink.body(6, &OneNumber(*upto)),
            ClientFrame::Ping => sink.body(7, &Nothing),
            ClientFrame::Goodbye => sink.body(8, &Nothing),
            ClientFrame::Group(order) => sink.body(9, order),
            ClientFrame::Members(members) => sink.body(10, members),
            ClientFrame::MarkRead(place) => sink.body(11, place),
            ClientFrame::Set(set) => sink.body(12, set),
            ClientFrame::Conversations(wish) => sink.body(13, wish),
            ClientFrame::Recall(place) => sink.body(14, place),
            ClientFrame::Contacts(wish) => sink.body(15, wish),
            ClientFrame::Contact(order) => sink.body(16, order),
            ClientFrame::Presence(presence) => sink.body(17, presence),
            ClientFrame::Transient(transient) => sink.body(18, transient),
            ClientFrame::Search(search) => sink.body(20, search),
            ClientFrame::Upload(wish) => sink.body(22, wish),
            ClientFrame::Push(push) => sink.body(24, push),
            ClientFrame::PushSettings(settings) => sink.body(25, settings),
            ClientFrame::Readers(wish) => sink.body(30, wish),
            ClientFrame::Privacy(wish) => sink.body(31, wish),
            ClientFrame::ChatroomOrder(order) => sink.body(32, order),
            ClientFrame::JoinChatroom(join) => sink.body(33, join),
            ClientFrame::LeaveChatroom(leave) => sink.body(34, leave),
            ClientFrame::Token(wish) => sink.body(35, wish),
        }
    }
}

impl<'a> LoginFields<'a> {
    fn read(value: Value<'a>) -> Result<LoginFields<'a>, WireFault> {
        let mut it = LoginFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.name = value.text()?,
                2 => it.device = value.text()?,
                3 => it.password = value.bytes()?,
                4 => it.method = value.text()?,
                5 => it.data = value.bytes()?,
                6 => it.silence_s = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for LoginFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.name);
        sink.text(2, self.device);
        sink.bytes(3, self.password);
        sink.text(4, self.method);
        sink.bytes(5, self.data);
        sink.u32(6, self.silence_s);
    }
}

impl TokenRequestFields {
    fn read(value: Value<'_>) -> Result<TokenRequestFields, WireFault> {
        let mut it = TokenRequestFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.revoke = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for TokenRequestFields {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.bool(2, self.revoke);
    }
}

impl<'a> SendFields<'a> {
    fn read(value: Value<'a>) -> Result<SendFields<'a>, WireFault> {
        let mut it =
            SendFields { number: 0, to: "", client_id: &[], content: ContentFields::EMPTY };
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.to = value.text()?,
                3 => it.client_id = value.bytes()?,
                4 => it.content = ContentFields::read(value)?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for SendFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.to);
        sink.bytes(3, self.client_id);
        sink.body(4, &self.content);
    }
}

impl PullFields {
    fn read(value: Value<'_>) -> Result<PullFields, WireFault> {
        let mut it = PullFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.after = value.u64()?,
                3 => it.count = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for PullFields {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.u64(2, self.after);
        sink.u32(3, self.count);
    }
}

impl<'a> HistoryFields<'a> {
    fn read(value: Value<'a>) -> Result<HistoryFields<'a>, WireFault> {
        let mut it = HistoryFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.with = value.text()?,
                3 => it.from = value.u64()?,
                4 => it.backwards = value.bool()?,
                5 => it.count = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for HistoryFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.with);
        sink.u64(3, self.from);
        sink.bool(4, self.backwards);
        sink.u32(5, self.count);
    }
}

//! Frames of servers: `ServerFrame` (IM 3 to 7, 10 to 15).

use super::chatroom::{JoinedFields, MissedFields, NewsFields, SaidFields};
use super::contact::{ContactChangedFields, ContactsPageFields};
use super::content::{
    EntryFields, MessageFields, Nothing, OneNumber, OneRow, OneU32, nothing, one_number, one_row,
    one_u32,
};
use super::conversation::{EventFields, MarkedFields};
use super::conversations::ConversationsPageFields;
use super::group::{ChangedFields, MembersPageFields};
use super::presence::PresenceFields;
use super::protobuf::{Body, Fields, Sink, Value};
use super::push::PushStatusFields;
use super::receipts::{DeliveredFields, PrivacyFields, ReadersPageFields};
use super::search::FoundFields;
use super::transient::TransientFields;
use super::upload::SlotFields;
use super::{WireFault, frame};
use model::timeline::Seq;
use std::fmt;

/// A frame of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerFrame<'a> {
    /// The device has its session (IM 3.3).
    LoggedIn(LoggedInFields<'a>),
    /// The client must answer this (IM 3.2).
    Challenge(&'a [u8]),
    /// The device is not let in (IM 3.4).
    Refused(EndFields<'a>),
    /// The message is stored (IM 4.2).
    Sent(SentFields),
    /// The request was not carried out (IM 4.3).
    Failed(FailedFields<'a>),
    /// The next of the inbox (IM 5.2).
    Message(EntryFields<'a>),
    /// The inbox has more entries (IM 5.3).
    Notify(Seq),
    /// A part of the inbox (IM 5.4).
    Page(PageFields<'a>),
    /// A part of a conversation (IM 6).
    History(HistoryPageFields<'a>),
    /// The connection ends (IM 7.3).
    End(EndFields<'a>),
    /// The answer to a Ping (IM 7.1).
    Pong,
    /// The change of a group is stored (IM 10.2).
    Changed(ChangedFields<'a>),
    /// A part of the members of a group (IM 10.3).
    Members(MembersPageFields<'a>),
    /// The next of the inbox is no message (IM 11.1).
    Event(EventFields<'a>),
    /// The account has read so far (IM 11.2).
    MarkedRead(MarkedFields),
    /// A conversation is kept as it was wanted (IM 11.3); of which request.
    Set(u32),
    /// A part of the list of conversations (IM 11.4).
    Conversations(ConversationsPageFields<'a>),
    /// A part of the contacts (IM 12.2).
    Contacts(ContactsPageFields<'a>),
    /// The request of this number was carried out (IM 12.3, 12.4).
    Done(u32),
    /// A contact has changed (IM 12.3).
    Contact(ContactChangedFields<'a>),
    /// Presence of another account or of one of its devices changed (IM 12.4).
    Presence(PresenceFields<'a>),
    /// A transient from another session (IM 16.1).
    Transient(TransientFields<'a>),
    /// Result of a search (IM 16.4).
    Found(FoundFields<'a>),
    /// A file may be uploaded (IM 14.2).
    Upload(SlotFields<'a>),
    /// How the account's devices are woken (IM 15.2).
    PushStatus(PushStatusFields<'a>),
    /// A code was pushed to the device that is to be woken (IM 15.1); of which request.
    PushCode(u32),
    /// How far others have read a conversation (IM 17.2).
    Readers(ReadersPageFields<'a>),
    /// Whether the account shares what it has read (IM 17.3).
    Privacy(PrivacyFields),
    /// A recipient's device has received messages of the account (IM 17.1).
    Delivered(DeliveredFields<'a>),
    /// The device is in a chatroom (IM 18.1).
    ChatroomJoined(JoinedFields<'a>),
    /// A message in a chatroom (IM 18.3).
    ChatroomSaid(SaidFields<'a>),
    /// The device was not sent messages of a chatroom (IM 18.4).
    ChatroomMissed(MissedFields<'a>),
    /// A chatroom is otherwise (IM 18.5).
    ChatroomNews(NewsFields<'a>),
    /// The device has a token for its next login (IM 3.5).
    Token(TokenFields<'a>),
}

/// `LoggedIn`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LoggedInFields<'a> {
    /// The account, whole.
    pub account: &'a str,
    /// The last place of its inbox.
    pub head: Seq,
    /// How far this device has come.
    pub cursor: Seq,
    /// The server's clock, Unix milliseconds.
    pub server_ms: u64,
    /// The last word of an exchange.
    pub data: &'a [u8],
    /// The silence in force, seconds.
    pub silence_s: u32,
    /// Most messages of a page.
    pub page_messages_max: u32,
    /// Most bytes of a text.
    pub text_bytes_max: u32,
    /// Most bytes beside it.
    pub extra_bytes_max: u32,
    /// Most requests without an answer.
    pub requests_max: u32,
    /// Most bytes of a file; 0: files are not taken.
    pub file_bytes_max: u64,
}

/// `LoginToken`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// The token.
    pub token: &'a str,
    /// When it expires, Unix milliseconds.
    pub until_ms: u64,
}

impl fmt::Debug for TokenFields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFields").field("number", &self.number).finish_non_exhaustive()
    }
}

/// `Refused`, and `End`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EndFields<'a> {
    /// The reason's number (IM 8.1).
    pub reason: u32,
    /// Its word.
    pub word: &'a str,
    /// When to come back, milliseconds; 0: not said.
    pub retry_after_ms: u32,
    /// The server to use instead, `host:port`; empty: not said.
    pub server: &'a str,
}

/// `Sent`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SentFields {
    /// Number of the request.
    pub number: u32,
    /// The server's number for the message.
    pub id: u64,
    /// Its place in the conversation.
    pub seq: Seq,
    /// When it was taken, Unix milliseconds.
    pub at_ms: u64,
    /// Whether a message with this id was stored before: this repeats its answer.
    pub again: bool,
}

/// `Failed`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FailedFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// The fault's number (IM 8.2).
    pub fault: u32,
    /// Its word.
    pub word: &'a str,
    /// Of a message that was not taken: why, for people.
    pub reason: &'a str,
    /// For a refused message: time until it may be sent again, milliseconds; 0: not said.
    pub retry_after_ms: u32,
}

/// `InboxPage`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PageFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// Messages with their places.
    pub entries: Vec<EntryFields<'a>>,
    /// The place up to which this is everything.
    pub upto: Seq,
    /// The last place there is.
    pub head: Seq,
    /// Events other than messages.
    pub events: Vec<EventFields<'a>>,
}

/// `HistoryPage`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HistoryPageFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// Messages.
    pub messages: Vec<MessageFields<'a>>,
    /// Whether more follow.
    pub more: bool,
}

impl<'a> ServerFrame<'a> {
    /// Reads what stands in a frame; `None`: an answer that is not known here.
    pub fn read(frame: &'a [u8]) -> Result<Option<ServerFrame<'a>>, WireFault> {
        let mut answer = None;
        let mut fields = Fields::of(frame);
        while let Some((number, value)) = fields.next()? {
            answer = match number {
                1 => Some(ServerFrame::LoggedIn(LoggedInFields::read(value)?)),
                2 => Some(ServerFrame::Challenge(one_row(value)?)),
                3 => Some(ServerFrame::Refused(EndFields::read(value)?)),
                4 => Some(ServerFrame::Sent(SentFields::read(value)?)),
                5 => Some(ServerFrame::Failed(FailedFields::read(value)?)),
                6 => Some(ServerFrame::Message(EntryFields::read(value)?)),
                7 => Some(ServerFrame::Notify(one_number(value)?)),
                8 => Some(ServerFrame::Page(PageFields::read(value)?)),
                9 => Some(ServerFrame::History(HistoryPageFields::read(value)?)),
                10 => Some(ServerFrame::End(EndFields::read(value)?)),
                11 => nothing(value).map(|()| Some(ServerFrame::Pong))?,
                12 => Some(ServerFrame::Changed(ChangedFields::read(value)?)),
                13 => Some(ServerFrame::Members(MembersPageFields::read(value)?)),
                14 => Some(ServerFrame::Event(EventFields::read(value)?)),
                15 => Some(ServerFrame::MarkedRead(MarkedFields::read(value)?)),
                16 => Some(ServerFrame::Set(one_u32(value)?)),
                17 => Some(ServerFrame::Conversations(ConversationsPageFields::read(value)?)),
                18 => Some(ServerFrame::Contacts(ContactsPageFields::read(value)?)),
                19 => Some(ServerFrame::Done(one_u32(value)?)),
                20 => Some(ServerFrame::Contact(ContactChangedFields::read(value)?)),
                21 => Some(ServerFrame::Presence(PresenceFields::read(value)?)),
                22 => Some(ServerFrame::Transient(TransientFields::read(value)?)),
                24 => Some(ServerFrame::Found(FoundFields::read(value)?)),
                26 => Some(ServerFrame::Upload(SlotFields::read(value)?)),
                28 => Some(ServerFrame::PushStatus(PushStatusFields::read(value)?)),
                29 => Some(ServerFrame::PushCode(one_u32(value)?)),
                30 => Some(ServerFrame::Readers(ReadersPageFields::read(value)?)),
                31 => Some(ServerFrame::Privacy(PrivacyFields::read(value)?)),
                36 => Some(ServerFrame::Delivered(DeliveredFields::read(value)?)),
                32 => Some(ServerFrame::ChatroomJoined(JoinedFields::read(value)?)),
                33 => Some(ServerFrame::ChatroomSaid(SaidFields::read(value)?)),
                34 => Some(ServerFrame::ChatroomMissed(MissedFields::read(value)?)),
                35 => Some(ServerFrame::ChatroomNews(NewsFields::read(value)?)),
                37 => Some(ServerFrame::Token(TokenFields::read(value)?)),
                _ => answer,
            };
        }
        Ok(answer)
    }

    /// Appends the frame with its length.
    pub fn write(&self, out: &mut Vec<u8>) {
        frame::write(self, out);
    }
}

impl Body for ServerFrame<'_> {
    fn put(&self, sink: &mut impl Sink) {
        match self {
            ServerFrame::LoggedIn(accepted) => sink.body(1, accepted),
            ServerFrame::Challenge(data) => sink.body(2, &OneRow(data)),
            ServerFrame::Refused(refused) => sink.body(3, refused),
            ServerFrame::Sent(sent) => sink.body(4, sent),
            ServerFrame::Failed(failed) => sink.body(5, failed),
            ServerFrame::Message(entry) => sink.body(6, entry),
            ServerFrame::Notify(head) => sink.body(7, &OneNumber(*head)),
            ServerFrame::Page(page) => sink.body(8, page),
            ServerFrame::History(page) => sink.body(9, page),
            ServerFrame::End(end) => sink.body(10, end),
            ServerFrame::Pong => sink.body(11, &Nothing),
            ServerFrame::Changed(changed) => sink.body(12, changed),
            ServerFrame::Members(page) => sink.body(13, page),
            ServerFrame::Event(event) => sink.body(14, event),
            ServerFrame::MarkedRead(marked) => sink.body(15, marked),
            ServerFrame::Set(number) => sink.body(16, &OneU32(*number)),
            ServerFrame::Conversations(page) => sink.body(17, page),
            ServerFrame::Contacts(page) => sink.body(18, page),
            ServerFrame::Done(number) => sink.body(19, &OneU32(*number)),
            ServerFrame::Contact(change) => sink.body(20, change),
            ServerFrame::Presence(presence) => sink.body(21, presence),
            ServerFrame::Transient(transient) => sink.body(22, transient),
            ServerFrame::Found(page) => sink.body(24, page),
            ServerFrame::Upload(slot) => sink.body(26, slot),
            ServerFrame::PushStatus(status) => sink.body(28, status),
            ServerFrame::PushCode(number) => sink.body(29, &OneU32(*number)),
            ServerFrame::Readers(page) => sink.body(30, page),
            ServerFrame::Privacy(told) => sink.body(31, told),
            ServerFrame::Delivered(news) => sink.body(36, news),
            ServerFrame::ChatroomJoined(joined) => sink.body(32, joined),
            ServerFrame::ChatroomSaid(said) => sink.body(33, said),
            ServerFrame::ChatroomMissed(missed) => sink.body(34, missed),
            ServerFrame::ChatroomNews(news) => sink.body(35, news),
            ServerFrame::Token(token) => sink.body(37, token),
        }
    }
}

impl<'a> LoggedInFields<'a> {
    fn read(value: Value<'a>) -> Result<LoggedInFields<'a>, WireFault> {
        let mut it = LoggedInFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.account = value.text()?,
                2 => it.head = value.u64()?,
                3 => it.cursor = value.u64()?,
                4 => it.server_ms = value.u64()?,
                5 => it.data = value.bytes()?,
                6 => it.silence_s = value.u32()?,
                7 => it.page_messages_max = value.u32()?,
                8 => it.text_bytes_max = value.u32()?,
                9 => it.extra_bytes_max = value.u32()?,
                10 => it.requests_max = value.u32()?,
                20 => it.file_bytes_max = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for LoggedInFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.account);
        sink.u64(2, self.head);
        sink.u64(3, self.cursor);
        sink.u64(4, self.server_ms);
        sink.bytes(5, self.data);
        sink.u32(6, self.silence_s);
        sink.u32(7, self.page_messages_max);
        sink.u32(8, self.text_bytes_max);
        sink.u32(9, self.extra_bytes_max);
        sink.u32(10, self.requests_max);
        sink.u64(20, self.file_bytes_max);
    }
}

impl<'a> TokenFields<'a> {
    fn read(value: Value<'a>) -> Result<TokenFields<'a>, WireFault> {
        let mut it = TokenFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.token = value.text()?,
                3 => it.until_ms = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for TokenFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.token);
        sink.u64(3, self.until_ms);
    }
}

impl<'a> EndFields<'a> {
    fn read(value: Value<'a>) -> Result<EndFields<'a>, WireFault> {
        let mut it = EndFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.reason = value.u32()?,
                2 => it.word = value.text()?,
                3 => it.retry_after_ms = value.u32()?,
                4 => it.server = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for EndFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.reason);
        sink.text(2, self.word);
        sink.u32(3, self.retry_after_ms);
        sink.text(4, self.server);
    }
}

impl SentFields {
    fn read(value: Value<'_>) -> Result<SentFields, WireFault> {
        let mut it = SentFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.id = value.fixed64()?,
                3 => it.seq = value.u64()?,
                4 => it.at_ms = value.u64()?,
                5 => it.again = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for SentFields {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.fixed64(2, self.id);
        sink.u64(3, self.seq);
        sink.u64(4, self.at_ms);
        sink.bool(5, self.again);
    }
}

impl<'a> FailedFields<'a> {
    fn read(value: Value<'a>) -> Result<FailedFields<'a>, WireFault> {
        let mut it = FailedFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.fault = value.u32()?,
                3 => it.word = value.text()?,
                4 => it.reason = value.text()?,
                5 => it.retry_after_ms = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for FailedFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.u32(2, self.fault);
        sink.text(3, self.word);
        sink.text(4, self.reason);
        sink.u32(5, self.retry_after_ms);
    }
}

impl<'a> PageFields<'a> {
    fn read(value: Value<'a>) -> Result<PageFields<'a>, WireFault> {
        let mut it = PageFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.entries.push(EntryFields::read(value)?),
                3 => it.upto = value.u64()?,
                4 => it.head = value.u64()?,
                5 => it.events.push(EventFields::read(value)?),
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for PageFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        self.entries.iter().for_each(|entry| sink.body(2, entry));
        sink.u64(3, self.upto);
        sink.u64(4, self.head);
        self.events.iter().for_each(|event| sink.body(5, event));
    }
}

impl<'a> HistoryPageFields<'a> {
    fn read(value: Value<'a>) -> Result<HistoryPageFields<'a>, WireFault> {
        let mut it = HistoryPageFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.messages.push(MessageFields::read(value)?),
                3 => it.more = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for HistoryPageFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        self.messages.iter().for_each(|message| sink.body(2, message));
        sink.bool(3, self.more);
    }
}

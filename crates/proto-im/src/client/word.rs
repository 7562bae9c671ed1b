//! Orders to a client machine, and its events.

use crate::codec::push::RegisteredPushes;
use crate::codec::server_frame::FailedFields;
use crate::codec::{EndReason, fault_of};
use model::account::{AccountAddress, Addressee};
use model::chat::{
    Availability, ChatFault, ChatMessage, ChatroomAsk, ChatroomOut, ChatroomState, ClientMessageId,
    ContactChange, ContactWish, ContactsPage, ContactsRange, Content, ConversationChange,
    ConversationsPage, DeliveredNews, GroupChanged, GroupOrder, GroupRole, InboxEvent, MembersPage,
    MembersRange, NewTransient, Presence, PrivacyState, PrivacyWish, PushWish, ReadersPage,
    ReadersRange, SearchPage, SearchRange, Transient,
};
use model::media::{UploadSlot, UploadWish};
use model::timeline::Seq;
use std::sync::Arc;

/// Credentials and terms of a log-in.
#[derive(Clone, PartialEq, Eq)]
pub struct Profile {
    /// The account, perhaps without its domain.
    pub name: Box<str>,
    /// The device.
    pub device: Box<str>,
    /// A password or a token; empty: none.
    pub password: Box<[u8]>,
    /// An exchange instead: method, and first data.
    pub method: Option<(Box<str>, Box<[u8]>)>,
    /// The longest silence it wishes, seconds; 0: the server's.
    pub silence_s: u16,
}

impl Profile {
    /// Profile with a name and a device, and nothing else.
    pub fn new(name: &str, device: &str) -> Profile {
        Profile {
            name: name.into(),
            device: device.into(),
            password: Box::default(),
            method: None,
            silence_s: 0,
        }
    }
}

/// Order to a client machine. Before the log-in only `Proceed` and `Goodbye` are carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImOrder {
    /// Go on with an exchange.
    Proceed(Box<[u8]>),
    /// Say something.
    Send {
        /// Given back with the answer.
        number: u32,
        /// Recipient.
        to: Addressee,
        /// Client's id of the message, which repeats when it is sent again.
        client_id: ClientMessageId,
        /// Content of the message.
        content: Content,
    },
    /// Ask for the inbox behind a place.
    Pull {
        /// Given back with the answer.
        number: u32,
        /// The last place that is here.
        after: Seq,
        /// The most that is wanted.
        count: u16,
    },
    /// Ask for a conversation.
    History {
        /// Given back with the answer.
        number: u32,
        /// Other side of the conversation.
        with: Addressee,
        /// Where to begin; 0: at the beginning, or at the end.
        from: Seq,
        /// The direction.
        backwards: bool,
        /// The most that is wanted.
        count: u16,
    },
    /// Make a group, or change one.
    Group {
        /// Given back with the answer.
        number: u32,
        /// The order to carry out.
        order: Box<GroupOrder>,
    },
    /// Ask who is in a group.
    Members {
        /// Given back with the answer.
        number: u32,
        /// Which part of which list.
        range: Box<MembersRange>,
    },
    /// A conversation was read.
    MarkRead {
        /// Given back with the answer.
        number: u32,
        /// Other side of the conversation.
        with: Addressee,
        /// Place of the conversation up to which it was read.
        upto: Seq,
    },
    /// Keep a conversation otherwise.
    Set {
        /// Given back with the answer.
        number: u32,
        /// Other side of the conversation.
        with: Addressee,
        /// Change of the settings.
        change: ConversationChange,
    },
    /// Ask for the list of conversations, or for one of them.
    Conversations {
        /// Given back with the answer.
        number: u32,
        /// The one with whom; absent: all.
        with: Option<Addressee>,
        /// Of all, those before this place; 0: from the newest on.
        before: Seq,
        /// Of all, the most that is wanted.
        count: u16,
        /// Of all, those with groups alone.
        groups: bool,
    },
    /// Call a message back.
    Recall {
        /// Given back with the answer.
        number: u32,
        /// The conversation.
        with: Addressee,
        /// The message's place there.
        seq: Seq,
    },
    /// Ask for contacts. From now on the device gets the changes of contacts, and is available.
    Contacts {
        /// Given back with the answer.
        number: u32,
        /// Which part of them.
        range: ContactsRange,
    },
    /// Changes a contact.
    Contact {
        /// Given back with the answer.
        number: u32,
        /// The contact, and the change.
        wish: Box<ContactWish>,
    },
    /// Registers the device for push notifications, or changes settings.
    Push {
        /// Given back with the answer.
        number: u32,
        /// The wish.
        wish: Box<PushWish>,
    },
    /// Be there so; none: be seen by nobody, and see nobody.
    Present {
        /// Given back with the answer.
        number: u32,
        /// Availability to set; `None`: be offline.
        how: Option<Box<Availability>>,
    },
    /// Ask who has read what.
    Readers {
        /// Given back with the answer.
        number: u32,
        /// The conversation, and part of its readers.
        range: Box<ReadersRange>,
    },
    /// Set the account's privacy, or ask for it.
    Privacy {
        /// Given back with the answer.
        number: u32,
        /// Settings to change.
        wish: PrivacyWish,
    },
    /// Ask for leave to upload a file.
    Upload {
        /// Given back with the answer.
        number: u32,
        /// The file.
        wish: Box<UploadWish>,
    },
    /// Search what the account has said and heard.
    Search {
        /// Given back with the answer.
        number: u32,
        /// Criteria of the search.
        range: Box<SearchRange>,
    },
    /// Tell something that is kept nowhere.
    Transient(Box<NewTransient>),
    /// Sends a request to a chatroom.
    Chatroom {
        /// Given back with the answer.
        number: u32,
        /// The request.
        ask: Box<ChatroomAsk>,
    },
    /// Acknowledges the entries of the inbox up to this place.
    Acknowledge(Seq),
    /// Ask whether the server is there.
    Ping,
    /// Go.
    Goodbye,
}

/// Event of a client machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImEvent {
    /// The device has its session.
    LoggedIn(Box<Welcome>),
    /// The server wants this answered.
    Challenge(Box<[u8]>),
    /// The device is not let in.
    Refused(SaidEnd),
    /// A message is stored.
    Sent {
        /// Number of the order.
        number: u32,
        /// The server's number for the message.
        id: u64,
        /// Its place in the conversation.
        seq: Seq,
        /// When it was taken, Unix milliseconds.
        at_ms: u64,
        /// Whether a message with this id was stored before: this repeats its answer.
        again: bool,
    },
    /// The request was not carried out.
    Failed {
        /// Number of the order.
        number: u32,
        /// Reason; `None`: one that a later version added.
        why: Option<ChatFault>,
        /// Its word, and behind a colon what the server says besides.
        word: Box<str>,
    },
    /// The next of the inbox.
    Message {
        /// Its place.
        seq: Seq,
        /// The message.
        message: Arc<ChatMessage>,
    },
    /// The next of the inbox is no message.
    Event {
        /// Its place.
        seq: Seq,
        /// The event; `None`: a later version added it.
        event: Option<Arc<InboxEvent>>,
    },
    /// The inbox has more entries.
    Notify(Seq),
    /// A part of the inbox.
    Page {
        /// Number of the order.
        number: u32,
        /// Messages with their places.
        messages: Vec<(Seq, Arc<ChatMessage>)>,
        /// Known events other than messages, each with its place.
        events: Vec<(Seq, Arc<InboxEvent>)>,
        /// Where to go on.
        upto: Seq,
        /// The last place there is.
        head: Seq,
    },
    /// A part of a conversation.
    History {
        /// Number of the order.
        number: u32,
        /// Messages.
        messages: Vec<Arc<ChatMessage>>,
        /// Whether more follow.
        more: bool,
    },
    /// The change of a group is stored.
    Changed(Box<GroupChanged>),
    /// A part of the members of a group.
    Members(Box<MembersPage>),
    /// The account has read a conversation.
    MarkedRead {
        /// Number of the order.
        number: u32,
        /// Place up to which it was read.
        upto: Seq,
    },
    /// A conversation is kept as it was wanted.
    Set {
        /// Number of the order.
        number: u32,
    },
    /// A part of the list of conversations.
    Conversations(Box<ConversationsPage>),
    /// A part of the contacts.
    Contacts(Box<ContactsPage>),
    /// The request about a contact, or about presence, was carried out.
    Done {
        /// Number of the order.
        number: u32,
    },
    /// A contact has changed.
    Contact(Box<ContactChange>),
    /// Presence of another account or of one of its devices changed.
    Presence(Box<Presence>),
    /// How the account's devices are woken.
    PushStatus(Box<RegisteredPushes>),
    /// A code was pushed to the device that is to be woken.
    PushCode {
        /// Number of the order.
        number: u32,
    },
    /// A token for the next login.
    Token {
        /// Number of the order.
        number: u32,
    },
    /// How far others have read a conversation.
    Readers(Box<ReadersPage>),
    /// The account's privacy.
    Privacy {
        /// Number of the order.
        number: u32,
        /// State of the settings.
        state: PrivacyState,
    },
    /// A recipient's device has received messages of the account.
    Delivered(Box<DeliveredNews>),
    /// A file may be uploaded.
    Upload {
        /// Number of the order.
        number: u32,
        /// Where, and until when.
        slot: Box<UploadSlot>,
    },
    /// Messages that were searched for.
    Found(Box<SearchPage>),
    /// A transient from another session.
    Transient(Box<Transient>),
    /// The device is in a chatroom.
    ChatroomJoined(Box<ChatroomEntry>),
    /// A message in a chatroom.
    ChatroomSaid {
        /// The message; its place is its number in the room.
        message: Arc<ChatMessage>,
        /// A moderator's, or an operator's.
        important: bool,
    },
    /// This device was not sent messages of a chatroom.
    ChatroomMissed {
        /// The room.
        room: AccountAddress,
        /// Number of messages missed since the last notice.
        missed: u32,
    },
    /// A chatroom is otherwise, or the device is in it no more.
    ChatroomNews {
        /// The room.
        room: Box<AccountAddress>,
        /// The notification itself.
        what: Box<ChatroomTold>,
    },
    /// The server ends the connection.
    End(SaidEnd),
    /// The server is there.
    Pong,
}

/// A device is in a chatroom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatroomEntry {
    /// Number of the order.
    pub number: u32,
    /// The room.
    pub room: AccountAddress,
    /// State of the chatroom.
    pub state: ChatroomState,
    /// The account's role in the chatroom.
    pub role: GroupRole,
    /// The account may say nothing.
    pub muted: bool,
    /// The last messages, the oldest first.
    pub history: Vec<Arc<ChatMessage>>,
}

/// Notification to a device in a chatroom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatroomTold {
    /// The chatroom's new state.
    State(ChatroomState),
    /// The device is in it no more.
    Out(ChatroomOut),
}

/// The server's terms for a device that is logged in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The account.
    pub account: AccountAddress,
    /// The last place of its inbox.
    pub head: Seq,
    /// How far this device has come.
    pub cursor: Seq,
    /// The server's clock, Unix milliseconds.
    pub server_ms: u64,
    /// The last word of an exchange.
    pub data: Box<[u8]>,
    /// The silence in force, seconds.
    pub silence_s: u16,
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

/// Refusal of a log-in, or end of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaidEnd {
    /// The reason.
    pub reason: EndReason,
    /// The server's word for it.
    pub word: Box<str>,
    /// When to come back, milliseconds; 0: not said.
    pub retry_after_ms: u32,
    /// The server to use instead, `host:port`; empty: not said.
    pub server: Box<str>,
}

/// A Failed, told.
pub(super) fn failed(fields: &FailedFields<'_>) -> ImEvent {
    let &FailedFields { number, fault, word, reason, .. } = fields;
    let word = if reason.is_empty() { word.into() } else { format!("{word}: {reason}").into() };
    ImEvent::Failed { number, why: fault_of(fault), word }
}

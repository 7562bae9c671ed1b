//! Requests that the server machine of a chat protocol makes to the chat service, and deliveries of
//! the service through that machine.
//!
//! Words of the model, not of a wire. A **session** is what one device of an account has on one
//! connection; it lives on the shard where the account is at home. Entries about an account stand
//! in its **inbox**, in one order for all its devices; each device goes through it at its own pace
//! and says how far it has come. A message is stored once, in its conversation:
//!
//! ```text
//! device ─► Send ─► conversation (stored, answered) ─► inboxes of both ─► Message, or Notify
//! device ─► Pull ─► inbox, from a place on ─► Page
//! ```

mod abuse;
mod amend;
mod archive;
mod chatroom;
mod conversation;
mod endings;
mod fast;
mod fault;
pub mod foreign;
mod group;
mod members;
mod nodes;
mod numbers;
mod over_topics;
mod people;
mod push;
mod quote;
mod receipts;
mod resumption;
mod room;
mod rules;
mod search;
mod transient;

pub use abuse::{ABUSE_TEXT_BYTES_MAX, AbuseReason, AbuseReport, ForwardConsent, ReportedAbuse};
pub use amend::{
    AMENDED_BYTES_HARD_MAX, Amended, EMOJI_BYTES_MAX, EMOJI_HARD_MAX, REACTORS_HARD_MAX, Reaction,
    TargetMessage, emoji_of,
};
pub use archive::{
    ARCHIVE_BOUNDS_MAX, ARCHIVE_NAMED_MAX, ArchiveId, ArchivePage, ArchiveRange, HistoryPage,
    HistoryRange, InboxPage, MovedChange, MovedMessage,
};
pub use chatroom::{
    CHATROOM_KEEPS_MAX, CHATROOM_MODERATORS_MAX, CHATROOM_NAMED_MAX, CHATROOM_SERVICE,
    CHATROOM_TEXT_BYTES_MAX, ChatroomAsk, ChatroomJoined, ChatroomMessage, ChatroomMissed,
    ChatroomNews, ChatroomOrder, ChatroomOut, ChatroomRequest, ChatroomState, ChatroomStatus,
    ChatroomVerb, ChatroomWhat,
};
pub use conversation::{
    Conversation, ConversationChange, ConversationsPage, DRAFT_BYTES_MAX, EXCERPT_BYTES_MAX,
    Excerpt, InboxChange, InboxEvent, Moderated, MuteLevel, Recall, RecallOrder, UNREAD_PLACES_MAX,
};
pub use endings::{LoginRefused, SessionEnd};
pub use fast::{
    FAST_AGENT_BYTES_MAX, FastAnswer, FastBinding, FastOutcome, FastSecret, FastWish, Redeeming,
};
pub use fault::{ChatFault, REFUSED_PAUSE, SendRejected};
pub use foreign::HandingOn;
pub use group::{
    Affiliation, AffiliationItem, CHANNEL_SERVICE, FanOut, GROUP_MEMBERS_HARD_MAX, GROUP_NAMED_MAX,
    GROUP_SERVICE, GROUP_TITLE_BYTES_MAX, GroupChange, GroupMember, GroupOrder, GroupSettings,
    GroupVerb, RoomChange,
};
pub use members::{
    GroupChanged, GroupRole, MEMBERS_PAGE_MAX, MemberStatus, MembersPage, MembersRange,
    PUBLIC_PAGE_MAX, PublicGroup, PublicPage, PublicRange,
};
pub use nodes::{
    BADGE_BYTES_MAX, BOOKMARKS_NODE, BookmarkFormat, BookmarkSettings, DISPLAYED_NODE,
    INTERESTS_MAX, ITEM_ID_BYTES_MAX, ItemsChosen, ItemsWanted, NODE_CHANGE_MAX, NODE_GROUPS_MAX,
    NODE_NAME_BYTES_MAX, NODE_PAGE_BYTES_MAX, NODE_PAGE_MAX, NODES_ASKED_MAX, NodeAccess,
    NodeChange, NodeConfig, NodeEvent, NodeFound, NodeItem, NodeItems, NodeNews, NodeOptions,
    NodeSpace, NodesAnswer, NodesAsk, NodesFault, NodesFound, NodesRequest, PROFILE_BYTES_MAX,
    ProfileRequest, ProfileSaid, SendLast, displayed_item, displays,
};
pub use over_topics::{
    AccountDevice, CHAT_ANSWERS, CHAT_EVENTS, CHAT_EVENTS_JSON, CHAT_REQUESTS, CHAT_TOPICS,
    ChatCall, EventsForm, EventsWanted, GrantedLogin, NoDevice,
};
pub use people::{
    Availability, CONTACT_GROUP_BYTES_MAX, CONTACT_GROUPS_MAX, CONTACT_NAME_BYTES_MAX,
    CONTACTS_HARD_MAX, CONTACTS_PAGE_MAX, Contact, ContactChange, ContactList, ContactOrder,
    ContactWish, ContactsPage, ContactsRange, GREETING_BYTES_MAX, GREETING_EXTRA_BYTES_MAX, Half,
    PRESENCE_EXTRA_BYTES_MAX, PeopleAsk, PeopleRequest, Presence, STATUS_BYTES_MAX, Show,
    Subscription, SubscriptionVerb, greeting_of, greeting_parts,
};
pub use push::{
    Loudness, Notification, NotifiedMessage, PUSH_APP_BYTES_MAX, PUSH_CODE_CHARS,
    PUSH_NAME_BYTES_MAX, PUSH_OPTIONS_BYTES_MAX, PUSH_OPTIONS_MAX, PUSH_REGISTRATIONS_HARD_MAX,
    PUSH_SERVICE_BYTES_MAX, PUSH_SERVICE_NAME_BYTES_MAX, PUSH_TOKEN_BYTES_MAX, PushRegistration,
    PushRoute, PushService, PushStatus, PushWish, QuietHours,
};
pub use quote::{MENTIONS_HARD_MAX, Mentions, Quote};
pub use receipts::{
    Adding, DeliveredNews, PrivacyState, PrivacyWish, READERS_HARD_MAX, READERS_PAGE_MAX, Reader,
    ReadersPage, ReadersRange,
};
pub use resumption::{Detaching, Keeping, KeptSession, Resumed, ResumptionId};
pub use room::*;
pub use rules::*;
pub use search::{SEARCH_TEXT_BYTES_MAX, SearchPage, SearchRange, folded};
pub use transient::{
    AsideWhat, ChatState, DirectedPresence, GroupAside, HandingTo, NewTransient, Transient,
};

use crate::account::{AccountAddress, AccountId, Addressee};
use crate::close::CloseReason;
use crate::id::SessionRef;
use crate::link::ChannelBindings;
use crate::media::{UploadSlot, UploadWish};
use crate::ports::users::{Announcement, BookAnswer, BookRequest, Registering};
use crate::timeline::{Seq, TimelineId};
use base::encoding::Encoding;
use std::net::SocketAddr;
use std::sync::Arc;

/// Longest name of a device, bytes.
pub const DEVICE_NAME_BYTES_MAX: usize = 64;

/// Longest reason why something was done or refused, for people, bytes.
pub const REASON_BYTES_MAX: usize = 512;

/// Longest text of a message that the limits may allow, bytes.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Most bytes that a message carries beside its text.
pub const EXTRA_BYTES_MAX: usize = 64 * 1024;

/// Most messages that are asked for at once, of an inbox or a conversation.
pub const PAGE_MESSAGES_MAX: u16 = 256;

/// Bytes of messages after which a page takes no further one.
pub const PAGE_BYTES_MAX: usize = 192 * 1024;

/// Request of a machine to the chat service. `number` is the machine's own, given back with the
/// answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatRequest {
    /// Begin a session over this connection. Answered by `LoggedIn`, `Challenge` or `Refused`;
    /// nothing else is asked before, but `Proceed` and `Gone`.
    Login(Box<Login>),
    /// As `Login`, for a device that another service has admitted; never answered by `Challenge`.
    Enter(Box<GrantedLogin>),
    /// The next step of an exchange that was begun.
    Proceed(Box<[u8]>),
    /// The connection ended before it had a session.
    Gone,
    /// Name a session that was begun without a name ([`Login::binds`]). A session of the account
    /// that has that name ends. Answered by `Bound`.
    Bind {
        /// Session that asks.
        session: SessionRef,
        /// The name it wants, 1 to [`DEVICE_NAME_BYTES_MAX`] bytes; none: one that is made up.
        device: Option<Box<str>>,
    },
    /// How far the device has come, now. Answered by `Standing`.
    Standing {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
    },
    /// Say something. Answered by `Sent` or `Failed`.
    Send {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// The message to store.
        message: Box<NewMessage>,
    },
    /// Tell whoever is there something that is kept nowhere. Answered by `Done`, or by why not.
    Transient {
        /// Session that says it.
        session: SessionRef,
        /// Number that the answer repeats; 0: the session wants no answer.
        number: u32,
        /// The transient to pass on.
        transient: Box<NewTransient>,
    },
    /// Enter the room of a group, be there otherwise, or leave it.
    Room(Box<OccupancyRequest>),
    /// Ask owner and admins of a group for voice there. Not answered.
    Voice {
        /// Session that asks.
        session: SessionRef,
        /// Address of the group.
        group: Box<Addressee>,
    },
    /// Change a group, or make one. Answered by `Changed`, of its message, or by `Failed`.
    Group {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// The order to carry out.
        order: Box<GroupOrder>,
    },
    /// Asks for a group's members, as one of them. Answered by `Members` or `Failed`.
    Members {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Part of the list.
        range: Box<MembersRange>,
    },
    /// Requests the public groups of a domain. Answered by `PublicGroups` or `Failed`.
    PublicGroups {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Part of the list.
        range: Box<PublicRange>,
    },
    /// Asks for the entries of the account's inbox behind a place. Answered by `Page` or `Failed`.
    Pull {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// The last place that the device has.
        after: Seq,
        /// The most it wants, 1 to [`PAGE_MESSAGES_MAX`].
        count: u16,
    },
    /// Asks for the messages of a conversation before or behind a place. Answered by `History` or
    /// `Failed`.
    History {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Conversation and part of it.
        range: Box<HistoryRange>,
    },
    /// Asks for the account's sent and received messages, of one conversation or of all those
    /// between two accounts. Answered by `Archive` or `Failed`.
    Archive {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Part of the archive.
        range: Box<ArchiveRange>,
    },
    /// Searches the account's messages for a text. Answered by `Found` or `Failed`.
    Search {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Criteria of the search.
        range: Box<SearchRange>,
    },
    /// The account has read a conversation up to a place that its inbox has. Answered by `Read` or
    /// `Failed`.
    Read {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Other side of the conversation.
        with: Box<Addressee>,
        /// The place in the conversation.
        upto: Seq,
    },
    /// The account wants a conversation kept otherwise. Answered by `Set` or `Failed`.
    Set {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Other side of the conversation.
        with: Box<Addressee>,
        /// Change of the settings.
        change: Box<ConversationChange>,
    },
    /// The account's conversations that are not hidden, the newest first. Answered by
    /// `Conversations` or `Failed`.
    Conversations {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Only those with a [`Conversation::place`] before this one ([`Seq::MAX`]: all).
        before: Seq,
        /// The most it wants, 1 to [`PAGE_MESSAGES_MAX`].
        count: u16,
        /// Only groups that the account is a member of, hidden ones included.
        groups: bool,
    },
    /// One conversation of the account, hidden or not. Answered by `Conversations`, of one or none,
    /// or `Failed`.
    Conversation {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Other side of the conversation.
        with: Box<Addressee>,
    },
    /// Call a message of the account back. Answered by `Sent`, of the message that tells of it, or
    /// `Failed`. Asked again, it is there once.
    Recall {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// The message, and the reason.
        order: Box<RecallOrder>,
    },
    /// How far others have read a conversation. Answered by `Readers` or `Failed`.
    Readers {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// The conversation, and part of its readers.
        range: Box<ReadersRange>,
    },
    /// The account's privacy is to be so, or only asked for. Answered by `Privacy` or `Failed`.
    Privacy {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// Settings to change; none: they are only asked for.
        wish: PrivacyWish,
    },
    /// Leave to upload a file. Answered by `Upload` or `Failed`.
    Upload {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// The file.
        wish: Box<UploadWish>,
    },
    /// The device has everything in the inbox up to this place. It never goes back.
    Acknowledge {
        /// Session that asks.
        session: SessionRef,
        /// The place.
        upto: Seq,
    },
    /// Request about contacts and presence.
    People(Box<PeopleRequest>),
    /// Begin a session by a token. Answered as `Login` is; `LoggedIn` says by its data that the
    /// server has the token, too.
    Redeem(Box<Redeeming>),
    /// Give the device a token, or revoke those that it has. Answered by `Token`.
    Token(Box<FastWish>),
    /// Keep the session for a time when its connection ends, or no longer.
    Keep(Box<Keeping>),
    /// The connection ended, and the session is to be kept. If it may not be, it ends.
    Detach(Box<Detaching>),
    /// Go on with another session instead of this one, which has no name yet. Answered by
    /// `Resumed` or `NotResumed`.
    Resume {
        /// Session that asks.
        session: SessionRef,
        /// The one it was.
        id: Box<ResumptionId>,
    },
    /// Request about push notifications to the account's devices. Answered by `Done`, `PushCode`,
    /// `PushStatus` or `Failed`.
    Push {
        /// Session that asks.
        session: SessionRef,
        /// Number that the answer repeats.
        number: u32,
        /// The wish.
        wish: Box<PushWish>,
    },
    /// Request about nodes. Answered by [`ChatDelivery::Nodes`].
    Nodes(Box<NodesRequest>),
    /// Nodes that a device is interested in. Not answered.
    Profile(Box<ProfileRequest>),
    /// Request about a chatroom. Answered by [`ChatDelivery::ChatroomJoined`], `Done` or `Failed`.
    /// Messages to it are sent as to an account.
    Chatroom(Box<ChatroomRequest>),
    /// Messages of a chatroom were not sent to a device that does not read. Not answered.
    ChatroomMissed {
        /// Session that missed them.
        session: SessionRef,
        /// The room.
        room: TimelineId,
        /// How many; none: only news of the room were.
        missed: u32,
        /// Whether they were counted before: now the notice about them was not sent.
        again: bool,
    },
    /// Hand on a stanza for another domain. Not answered: whoever is there answers.
    HandOn(Box<HandingOn>),
    /// Hand a stanza to devices of an account here. Answered by `Done`, when one has it, or by
    /// `Failed`.
    HandTo(Box<HandingTo>),
    /// Request to the book of accounts. Answered by `Book`.
    Book(Box<BookRequest>),
    /// An account for whoever has no session yet. Answered by `Book`, of the number 0.
    Register(Box<Registering>),
    /// The connection ended while this session was bound to it.
    Closed {
        /// Session that asks.
        session: SessionRef,
        /// Reason why the connection ended.
        reason: CloseReason,
    },
}

/// Fields of a log-in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// The protocol, for events and queries: `im`, `xmpp`.
    pub protocol: &'static str,
    /// The account.
    pub account: AccountAddress,
    /// The device's own name, 1 to [`DEVICE_NAME_BYTES_MAX`] bytes; the same each time it comes.
    /// Empty if it `binds`.
    pub device: Box<str>,
    /// Whether the device is named later, by [`ChatRequest::Bind`], perhaps by a name that is made
    /// up each time. All devices of an account that bind share one place in the inbox.
    pub binds: bool,
    /// A password, or a token.
    pub password: Option<Box<[u8]>>,
    /// An exchange it wants instead: method, and first data.
    pub method: Option<(Box<str>, Box<[u8]>)>,
    /// Identity in its verified certificate.
    pub certificate: Option<Box<str>>,
    /// Channel bindings that the exchange may use, if its protocol offers them.
    pub bindings: Option<Box<ChannelBindings>>,
    /// Its address.
    pub peer: SocketAddr,
    /// Whether the client is on this machine, as its socket says.
    pub near: bool,
    /// The listener it came through.
    pub door: u8,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The connection was only let in to be told that the server is full.
    pub crowded: bool,
}

/// A message as somebody says it.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct NewMessage {
    /// Recipient: an account, a group or a chatroom.
    pub to: Addressee,
    /// The sender's own id: whoever sends it again makes no second message.
    pub client_id: ClientMessageId,
    /// Content of the message.
    pub content: Content,
}

/// Id that a sender gives its message, unique for its account: sixteen bytes, by custom a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Encoding)]
pub struct ClientMessageId(pub [u8; 16]);

/// Content of a message.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct Content {
    /// Kind: 1 is text; below 1,000 are ours, the others an application's own.
    pub kind: u16,
    /// Text for people, which searches find; at most `text_bytes_max` of the limits, bytes.
    pub text: Box<str>,
    /// Opaque bytes beside it, at most [`EXTRA_BYTES_MAX`].
    pub extra: Box<[u8]>,
    /// Whether the message counts as unread until it is read.
    pub counts: bool,
    /// The message that it quotes.
    pub quote: Option<Box<Quote>>,
    /// Accounts that the message mentions.
    pub mentions: Option<Box<Mentions>>,
    /// Name of the sender in the room of a group, if it is not the account's; the service sets it.
    pub nick: Option<Box<str>>,
}

impl Content {
    /// The kind of plain text.
    pub const TEXT: u16 = 1;

    /// The kind of a text that came with more by XMPP: `extra` is a `message` stanza without
    /// addresses and without its body.
    pub const STANZA: u16 = 2;

    /// The kind of a message that tells of a change of its group: [`GroupChange`]. Only the service
    /// itself says such.
    pub const GROUP: u16 = 3;

    /// The kind of a message that calls another one back, [`Recall`]; only the service says such.
    pub const RECALL: u16 = 4;

    /// The kind that a message has which was called back: it says nothing any more.
    pub const RECALLED: u16 = 5;

    /// The kind of a file or picture: `extra` is a [`FileNote`](crate::media::FileNote), `text`
    /// what is shown where the file is not, and searched.
    pub const FILE: u16 = 20;

    /// Memory beside itself, bytes.
    pub fn weight(&self) -> usize {
        let nick = self.nick.as_ref().map_or(0, |it| it.len());
        self.text.len() + self.extra.len() + nick + self.weight_of_others()
    }

    /// Whether only the service itself says such.
    pub const fn is_reserved(&self) -> bool {
        matches!(self.kind, Content::GROUP | Content::RECALL | Content::RECALLED)
    }

    /// A plain text, which counts.
    pub fn text(text: &str) -> Content {
        Content { kind: Content::TEXT, text: text.into(), counts: true, ..Content::default() }
    }
}

/// A message at its place in its conversation: made once, and shared.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ChatMessage {
    /// The server's number for it, ordered by time within its conversation.
    pub id: u64,
    /// Its place there, from 1 without gaps.
    pub seq: Seq,
    /// When it was taken, Unix milliseconds.
    pub at_ms: u64,
    /// Its sender.
    pub from: AccountAddress,
    /// Device of the sender.
    pub device: Box<str>,
    /// Recipient.
    pub to: AccountAddress,
    /// The sender's id for it.
    pub client_id: ClientMessageId,
    /// Content; of a message that was edited, the current one.
    pub content: Content,
    /// Later amendments; absent: none.
    pub amended: Option<Box<Amended>>,
}

impl NewMessage {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<NewMessage>() + self.content.weight()
    }
}

impl ChatMessage {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let addresses = self.from.as_str().len() + self.to.as_str().len();
        let amended = self.amended.as_deref().map_or(0, Amended::weight);
        size_of::<ChatMessage>() + self.device.len() + addresses + self.content.weight() + amended
    }
}

/// Delivery of the chat service through a machine.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding[
    LoggedIn = 0, Challenge = 1, Bound = 2, Standing = 3, Refused = 4, Sent = 5, Changed = 6,
    Members = 7, PublicGroups = 8, Failed = 9, Rejected = 10, Message = 11, Event = 12, Read = 13,
    Set = 14, Conversations = 15, Readers = 16, Privacy = 17, Delivered = 18, Upload = 19,
    Notify = 20, Page = 21, History = 22, Archive = 23, Found = 24, Contacts = 25,
    ContactsPage = 26, Done = 27, PushStatus = 28, PushCode = 29, Contact = 30, Presence = 31,
    Token = 32, Resumed = 33, NotResumed = 34, Yield = 35, Nodes = 36, NodeNews = 37, Stanza = 38,
    ProfileWanted = 39, Transient = 40, ForDevice = 41, Announcement = 42, RoomEntered = 43,
    Occupant = 44, Occupants = 45, RoomNews = 46, Aside = 47, ChatroomJoined = 48,
    ChatroomSaid = 49, ChatroomMissed = 50, ChatroomNews = 51, Book = 52, End = 53
]]
pub enum ChatDelivery {
    /// The device has its session.
    LoggedIn(Box<LoggedIn>),
    /// The client must answer this.
    Challenge(Box<[u8]>),
    /// The session is named.
    Bound {
        /// Its name.
        device: Box<str>,
    },
    /// How far the device has come.
    Standing {
        /// Number of the request.
        number: u32,
        /// Place up to which this device, or any that shares its place, has acknowledged.
        cursor: Seq,
        /// The last place of the inbox.
        head: Seq,
    },
    /// The device is not let in. The connection ends.
    Refused(Box<LoginRefused>),
    /// The message is stored, and will reach every device of both.
    Sent {
        /// Number of the request.
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
    /// The change of a group is stored, and every device of its members will hear of it, the one
    /// that asked for it too.
    Changed(Box<GroupChanged>),
    /// A part of the list of a group's members.
    Members(Box<MembersPage>),
    /// A part of the list of the public groups of a domain.
    PublicGroups(Box<PublicPage>),
    /// The request was not carried out.
    Failed {
        /// Number of the request.
        number: u32,
        /// Reason why not.
        why: ChatFault,
    },
    /// A message was not taken, and more is known of it than why.
    Rejected(Box<SendRejected>),
    /// The next of the account's inbox.
    Message {
        /// Its place there.
        seq: Seq,
        /// The message.
        message: Arc<ChatMessage>,
    },
    /// The next of the account's inbox is no message.
    Event {
        /// Its place there.
        seq: Seq,
        /// The event.
        event: Arc<InboxEvent>,
    },
    /// The account has read a conversation up to here.
    Read {
        /// Number of the request.
        number: u32,
        /// The place: that which was asked for, or one beyond, of before.
        upto: Seq,
    },
    /// A conversation is kept as it was wanted.
    Set {
        /// Number of the request.
        number: u32,
    },
    /// Conversations of the account.
    Conversations(Box<ConversationsPage>),
    /// How far others have read a conversation.
    Readers(Box<ReadersPage>),
    /// The account's privacy.
    Privacy {
        /// Number of the request.
        number: u32,
        /// State of the settings.
        state: PrivacyState,
    },
    /// A recipient's device has received messages of the account.
    Delivered(Box<DeliveredNews>),
    /// A file may be uploaded.
    Upload {
        /// Number of the request.
        number: u32,
        /// Where, and until when.
        slot: Box<UploadSlot>,
    },
    /// The inbox has more entries, up to this place: to be pulled.
    Notify {
        /// The last place.
        head: Seq,
    },
    /// A part of the inbox.
    Page(Box<InboxPage>),
    /// A part of a conversation.
    History(Box<HistoryPage>),
    /// A part of the account's archive.
    Archive(Box<ArchivePage>),
    /// Messages that were searched for.
    Found(Box<SearchPage>),
    /// An account's contacts, or those of them that changed.
    Contacts(Box<ContactList>),
    /// A part of them.
    ContactsPage(Box<ContactsPage>),
    /// The request was carried out.
    Done {
        /// Number of the request.
        number: u32,
    },
    /// How the account's devices are woken.
    PushStatus(Box<PushStatus>),
    /// A code was pushed to the device that is to be woken: it is wanted with the same wish.
    PushCode {
        /// Number of the request.
        number: u32,
    },
    /// A contact has changed, or said something.
    Contact(Box<ContactChange>),
    /// Presence of another account or of one of its devices changed.
    Presence(Box<Presence>),
    /// The answer to a request for a token.
    Token(Box<FastAnswer>),
    /// The connection has the session that it asked for.
    Resumed(Box<Resumed>),
    /// The session does not exist, or not any more.
    NotResumed {
        /// Stanzas of the client that it had handled, where that is known.
        handled: Option<u32>,
    },
    /// The session goes on over another connection: say so, `Detach` it and go.
    Yield,
    /// Answer to a request about nodes.
    Nodes(Box<NodesAnswer>),
    /// Event of a node.
    NodeNews(Box<NodeNews>),
    /// A stanza from another domain, as it is.
    Stanza(Arc<[u8]>),
    /// The device is to say what its profile is.
    ProfileWanted {
        /// The name of the profile.
        profile: Box<str>,
    },
    /// A transient from another session.
    Transient(Arc<Transient>),
    /// A message, at its place, was addressed to the device, which wants none for all.
    ForDevice(Seq, Arc<ChatMessage>),
    /// An announcement of an administrator to everybody who is online.
    Announcement(Arc<Announcement>),
    /// The session is in the room of a group.
    RoomEntered(Box<RoomEntered>),
    /// An occupant of a room.
    Occupant {
        /// Number of the request.
        number: u32,
        /// The occupant.
        occupant: Arc<Occupant>,
    },
    /// Occupants of a room, at most [`ROLES_LISTED_MAX`].
    Occupants {
        /// Number of the request.
        number: u32,
        /// The occupants.
        occupants: Box<[Arc<Occupant>]>,
    },
    /// News of a room that the session is in.
    RoomNews(Arc<RoomNews>),
    /// A group tells some of its members something that is kept nowhere.
    Aside(Arc<GroupAside>),
    /// The session is in a chatroom.
    ChatroomJoined(Box<ChatroomJoined>),
    /// A message in a chatroom.
    ChatroomSaid(Arc<ChatroomMessage>),
    /// The device was not sent messages of a chatroom.
    ChatroomMissed(Box<ChatroomMissed>),
    /// A chatroom is otherwise, or the session is in it no more.
    ChatroomNews(Arc<ChatroomNews>),
    /// Result of an order to the book.
    Book {
        /// Number of the request.
        number: u32,
        /// The book's answer.
        answer: Box<BookAnswer>,
    },
    /// The server ends the session: say so and go.
    End(Box<SessionEnd>),
}

/// A device has its session.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct LoggedIn {
    /// The session's record.
    pub session: SessionRef,
    /// The account that logged in.
    pub account: AccountId,
    /// Its address.
    pub address: AccountAddress,
    /// The last place of the inbox.
    pub head: Seq,
    /// How far this device has come, as it said.
    pub cursor: Seq,
    /// The server's clock, Unix milliseconds.
    pub server_ms: u64,
    /// The last word of an exchange.
    pub data: Option<Box<[u8]>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_words_of_their_own() {
        let mut names: Vec<_> = ChatFault::ALL.iter().map(|fault| fault.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ChatFault::ALL.len());
    }

    #[test]
    fn a_text_is_a_text_that_counts() {
        let text = Content::text("hello");
        assert_eq!((text.kind, &*text.text, text.counts), (Content::TEXT, "hello", true));
        assert!(text.extra.is_empty());
    }
}

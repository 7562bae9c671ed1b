//! Accounts, conversations, groups and messages of chat.
//!
//! Places in conversations and inboxes are numbers that count from 1; numbers of messages and
//! accounts have 64 bits and are text. Invariant: message contents are only in responses to
//! requests for them.

pub(crate) mod export;

use crate::texts::{Base64, ContactsPlace, Decimal, GroupsPlace};
use base::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::chat::{
    ChatMessage, ChatroomStatus, Contact, ContactsPage, Conversation, ConversationsPage, GroupRole,
    Half, HistoryPage, MemberStatus, MembersPage,
};
use model::ports::chat::{ChatAccountStatus, GroupSummary, GroupsPage};
use model::timeline::Seq;
use schemars::JsonSchema;
use serde::Serialize;

/// An account.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatAccount")]
pub(crate) struct Account {
    /// Its address, `name@domain`.
    account: String,
    /// Its number, never reused.
    #[schemars(with = "Decimal")]
    number: String,
    /// Unix second at which it was made.
    made_at: u32,
    /// Names of the connected devices.
    devices: Vec<String>,
    /// The last place of its inbox.
    head: Seq,
    /// Unix second until which it is muted; null: it is not.
    muted_until: Option<u32>,
}

impl Account {
    pub(crate) fn new(account: &str, status: &ChatAccountStatus) -> Account {
        Account {
            account: account.into(),
            number: status.id.0.to_string(),
            made_at: status.made_s,
            devices: status.devices.iter().map(|name| name.to_string()).collect(),
            head: status.head,
            muted_until: Some(status.muted_until_s).filter(|until_s| *until_s > 0),
        }
    }
}

/// An account that is being erased, or is erased.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatErasure")]
pub(crate) struct Erasure {
    /// Whether the erasure is complete.
    pub(crate) erased: bool,
    /// The current step; null: complete.
    #[schemars(extend("enum" = ["messages", "groups", "contacts", "nodes", "rows", null]))]
    pub(crate) step: Option<&'static str>,
    /// Recalled messages of it.
    pub(crate) messages: u64,
    /// Whether a user of its name was deleted from the user database.
    pub(crate) user_removed: bool,
}

/// Ended sessions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatEnded")]
pub(crate) struct Ended {
    /// Number of them.
    pub(crate) ended: u32,
}

/// An accepted message, or change of a group.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatSent")]
pub(crate) struct Sent {
    /// The group, if one was created or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    /// The server's number for the message.
    #[schemars(with = "Decimal")]
    pub(crate) id: String,
    /// Its place in the conversation.
    pub(crate) seq: Seq,
    /// Unix millisecond at which it was accepted.
    pub(crate) at_ms: u64,
    /// Whether it was sent before with this id: this is the first response.
    pub(crate) again: bool,
}

/// A message at its place in its conversation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatMessage")]
pub(crate) struct Message {
    /// The server's number for it.
    #[schemars(with = "Decimal")]
    id: String,
    /// Its place in the conversation.
    seq: Seq,
    /// Unix millisecond at which it was accepted.
    at_ms: u64,
    /// The sender.
    from: String,
    /// The sender's device; empty: none.
    device: String,
    /// The receiver.
    to: String,
    /// The sender's id of the message, 32 hexadecimal digits.
    client_id: String,
    /// 1 is text; 3 a change of the group, 4 a recall of another message, 5 a recalled message.
    kind: u16,
    /// The text.
    text: String,
    /// The extra data.
    #[schemars(with = "Base64")]
    extra_base64: String,
    /// Whether it counts as unread until it is read.
    counts: bool,
}

impl From<&ChatMessage> for Message {
    fn from(message: &ChatMessage) -> Message {
        let content = &message.content;
        Message {
            id: message.id.to_string(),
            seq: message.seq,
            at_ms: message.at_ms,
            from: message.from.to_string(),
            device: message.device.to_string(),
            to: message.to.to_string(),
            client_id: hex::encode(&message.client_id.0),
            kind: content.kind,
            text: content.text.to_string(),
            extra_base64: STANDARD.encode(&content.extra),
            counts: content.counts,
        }
    }
}

/// A part of a conversation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatHistory")]
pub(crate) struct History {
    /// Messages, in the requested direction.
    messages: Vec<Message>,
    /// Whether more follow in this direction.
    more: bool,
}

impl From<&HistoryPage> for History {
    fn from(page: &HistoryPage) -> History {
        let messages = page.messages.iter().map(|message| Message::from(&**message)).collect();
        History { messages, more: page.more }
    }
}

/// A conversation of an account.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatConversation")]
pub(crate) struct ConversationTold {
    /// The other side: an account or a group.
    with: String,
    /// Place of the last message in the conversation.
    last_seq: Seq,
    /// Its beginning; null: no message, or no longer stored.
    last: Option<Excerpt>,
    /// Place up to which the account has read.
    read: Seq,
    /// Place up to which the other side has read; 0 in a group.
    peer_read: Seq,
    /// Unread messages, among about the last 1,000.
    unread: u16,
    /// Number of those that mention the account.
    mentions: u16,
    /// Whether it is pinned.
    pinned: bool,
    /// Whether it is muted.
    muted: bool,
    /// Whether it is hidden.
    hidden: bool,
}

/// The beginning of a message.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExcerpt")]
struct Excerpt {
    /// The server's number for it.
    #[schemars(with = "Decimal")]
    id: String,
    /// Unix millisecond at which it was accepted.
    at_ms: u64,
    /// The sender.
    from: String,
    /// Its kind.
    kind: u16,
    /// The beginning of its text.
    text: String,
    /// Whether this is the whole text.
    whole: bool,
}

impl From<&Conversation> for ConversationTold {
    fn from(it: &Conversation) -> ConversationTold {
        let last = it.last.as_ref().map(|last| Excerpt {
            id: last.id.to_string(),
            at_ms: last.at_ms,
            from: last.from.to_string(),
            kind: last.kind,
            text: last.text.to_string(),
            whole: last.whole,
        });
        ConversationTold {
            with: it.with.to_string(),
            last_seq: it.last_seq,
            last,
            read: it.read,
            peer_read: it.peer_read,
            unread: it.unread,
            mentions: it.mentions,
            pinned: it.pinned,
            muted: it.muted,
            hidden: it.hidden,
        }
    }
}

/// A page of an account's conversations.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatConversations")]
pub(crate) struct Conversations {
    /// The page, the newest first.
    conversations: Vec<ConversationTold>,
    /// The next query's `before`; null at the end.
    #[schemars(with = "Option<Decimal>")]
    next: Option<String>,
}

impl From<&ConversationsPage> for Conversations {
    fn from(page: &ConversationsPage) -> Conversations {
        let last = page.conversations.last().filter(|_| page.more);
        Conversations {
            conversations: page.conversations.iter().map(ConversationTold::from).collect(),
            next: last.map(|last| last.place.to_string()),
        }
    }
}

/// A chatroom.
#[derive(Serialize, JsonSchema)]
struct ChatroomTold {
    /// Its address.
    room: String,
    /// The owner.
    owner: String,
    /// Its title.
    title: String,
    /// The announcement.
    announcement: String,
    /// Whether only owner and moderators may write.
    quiet: bool,
    /// Recent number of sessions in it.
    here: u32,
    /// Number of the last message.
    said: Seq,
    /// Number of banned accounts.
    banned: u32,
}

/// A page of chatrooms.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatroomsPage")]
pub(crate) struct Chatrooms {
    /// The page, by address.
    chatrooms: Vec<ChatroomTold>,
    /// The next query's `after`; null at the end.
    next: Option<String>,
}

impl Chatrooms {
    /// The first `count` of these.
    pub(crate) fn new(found: &[ChatroomStatus], count: u16) -> Chatrooms {
        let of = |it: &ChatroomStatus| ChatroomTold {
            room: it.room.to_string(),
            owner: it.owner.to_string(),
            title: it.state.title.to_string(),
            announcement: it.state.announcement.to_string(),
            quiet: it.state.quiet,
            here: it.state.here,
            said: it.state.head,
            banned: it.banned,
        };
        let shown = &found[..found.len().min(count.into())];
        let last = shown.last().filter(|_| found.len() > shown.len());
        Chatrooms {
            chatrooms: shown.iter().map(of).collect(),
            next: last.map(|last| last.room.to_string()),
        }
    }
}

/// A chatroom was changed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChatroomDone {
    /// Its address.
    pub(crate) room: String,
}

/// A contact.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatContact")]
pub(crate) struct ContactTold {
    /// Its account.
    account: String,
    /// Whether it is in the account's contact list.
    listed: bool,
    /// The account's name for it.
    name: String,
    /// Contact groups of the account that contain it.
    groups: Vec<String>,
    /// Whether the account sees its presence, or has asked to.
    #[schemars(extend("enum" = ["no", "asks", "yes"]))]
    sees: &'static str,
    /// Whether it sees the account's presence, or has asked to.
    #[schemars(extend("enum" = ["no", "asks", "yes"]))]
    seen: &'static str,
    /// Whether the account has blocked it.
    blocked: bool,
}

fn half(half: Half) -> &'static str {
    match half {
        Half::None => "no",
        Half::Pending => "asks",
        Half::Subscribed => "yes",
    }
}

impl From<&Contact> for ContactTold {
    fn from(contact: &Contact) -> ContactTold {
        ContactTold {
            account: contact.address.to_string(),
            listed: contact.is_listed,
            name: contact.name.to_string(),
            groups: contact.groups.iter().map(|group| group.to_string()).collect(),
            sees: half(contact.subscription.to),
            seen: half(contact.subscription.from),
            blocked: contact.is_blocked,
        }
    }
}

/// A page of an account's contacts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatContacts")]
pub(crate) struct Contacts {
    /// The page, the most recently changed last.
    contacts: Vec<ContactTold>,
    /// The next query's `after`; null at the end.
    #[schemars(with = "Option<ContactsPlace>")]
    next: Option<String>,
}

impl From<&ContactsPage> for Contacts {
    fn from(page: &ContactsPage) -> Contacts {
        let is_there = |contact: &&std::sync::Arc<Contact>| !contact.is_gone();
        let contacts = page.contacts.iter().filter(is_there);
        Contacts {
            contacts: contacts.map(|contact| ContactTold::from(&**contact)).collect(),
            next: page.more.then(|| format!("{}-{}", page.upto, page.since)),
        }
    }
}

/// A member of a group.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatMember")]
struct Member {
    /// Its account.
    account: String,
    /// Its role.
    #[schemars(extend("enum" = GroupRole::ALL.iter().map(|role| role.word()).collect::<Vec<_>>()))]
    role: &'static str,
    /// Whether it is muted.
    muted: bool,
}

impl From<&MemberStatus> for Member {
    fn from(it: &MemberStatus) -> Member {
        let account = it.member.address.to_string();
        Member { account, role: it.role.word(), muted: it.muted }
    }
}

/// A group, and a page of its members.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatGroup")]
pub(crate) struct Group {
    /// Its address.
    group: String,
    /// Its title.
    title: String,
    /// Whether only owner and admins may write.
    closed: bool,
    /// Whether it is in the public list of its domain.
    public: bool,
    /// Whether it ends when its XMPP room is empty.
    temporary: bool,
    /// Whether its XMPP room has a password.
    protected: bool,
    /// The limit of occupants of its XMPP room; null: none of its own.
    occupants_max: Option<u32>,
    /// Number of members.
    total: u32,
    /// Number of its last change, for the next query.
    #[schemars(with = "Decimal")]
    version: String,
    /// The page.
    members: Vec<Member>,
    /// The next query's `after`; null at the end.
    next: Option<u32>,
}

impl From<&MembersPage> for Group {
    fn from(page: &MembersPage) -> Group {
        let upto = page.from + page.members.len() as u32;
        Group {
            group: page.group.to_string(),
            title: page.title.to_string(),
            closed: page.closed,
            public: page.public,
            temporary: page.temporary,
            protected: page.protected,
            occupants_max: Some(page.rules.occupants_max).filter(|most| *most > 0),
            total: page.total,
            version: page.version.to_string(),
            members: page.members.iter().map(Member::from).collect(),
            next: Some(upto).filter(|upto| *upto < page.total && !page.members.is_empty()),
        }
    }
}

/// A group in a list of all.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatGroupSummary")]
struct Summary {
    /// Its address.
    group: String,
    /// Its title.
    title: String,
    /// The owner.
    owner: String,
    /// Number of members.
    members: u32,
    /// Whether only owner and admins may write.
    closed: bool,
    /// Whether it is in the public list of its domain.
    public: bool,
    /// Whether it ends when its XMPP room is empty.
    temporary: bool,
    /// The place of its last message.
    last_seq: Seq,
    /// Unix millisecond of that message; null: no longer stored.
    last_ms: Option<u64>,
}

impl From<&GroupSummary> for Summary {
    fn from(it: &GroupSummary) -> Summary {
        Summary {
            group: it.group.to_string(),
            title: it.title.to_string(),
            owner: it.owner.to_string(),
            members: it.members,
            closed: it.closed,
            public: it.public,
            temporary: it.temporary,
            last_seq: it.last_seq,
            last_ms: Some(it.last_ms).filter(|at| *at > 0),
        }
    }
}

/// A page of all groups.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatGroups")]
pub(crate) struct Groups {
    /// The page; it may be empty without being the last.
    groups: Vec<Summary>,
    /// The next query's `after`; null at the end.
    #[schemars(with = "Option<GroupsPlace>")]
    next: Option<String>,
}

impl Groups {
    /// Of a page of this shard.
    pub(crate) fn new(shard: u16, page: &GroupsPage) -> Groups {
        let next = match &page.next {
            Some(key) => Some(format!("{shard}-{}", hex::encode(key))),
            None => Some(format!("{}-", shard + 1)).filter(|_| shard + 1 < page.shards),
        };
        Groups { groups: page.groups.iter().map(Summary::from).collect(), next }
    }
}

/// A message that is sent to many accounts.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "ChatBroadcast")]
pub(crate) struct Broadcast {
    /// Its number.
    pub(crate) id: String,
    /// The sender.
    pub(crate) from: String,
    /// The id of each of its messages, 32 hexadecimal digits.
    pub(crate) client_id: String,
    /// Its state.
    #[schemars(extend("enum" = ["running", "done", "cancelled", "failed"]))]
    pub(crate) state: &'static str,
    /// Accounts to which it was sent.
    pub(crate) sent: u64,
    /// Accounts among them that had received it before.
    pub(crate) again: u64,
    /// Accounts that were skipped: unknown, or refused.
    pub(crate) refused: u64,
    /// Number of receivers; null: all accounts of the book, which is read in turn.
    pub(crate) total: Option<u64>,
    /// Why it failed; null: it did not.
    pub(crate) failure: Option<String>,
}

/// Recent broadcasts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatBroadcasts")]
pub(crate) struct Broadcasts {
    /// The newest first.
    pub(crate) broadcasts: Vec<Broadcast>,
}

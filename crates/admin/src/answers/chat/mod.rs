//! Accounts, conversations, groups and messages of chat.
//!
//! Places in conversations and inboxes are numbers that count from 1; numbers of messages and
//! accounts have 64 bits and are text. Invariant: what a message says is in no answer but those
//! that are asked for it.

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
    /// Its number, never given twice.
    #[schemars(with = "Decimal")]
    number: String,
    /// Unix second at which it was made.
    made_at: u32,
    /// Names of the devices that are here.
    devices: Vec<String>,
    /// The last place of its inbox.
    head: Seq,
    /// Unix second until which it may say nothing; null: it may.
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

/// An account that is being erased, or was.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatErasure")]
pub(crate) struct Erasure {
    /// Nothing is left of it.
    pub(crate) erased: bool,
    /// What is being done; null: it is erased.
    #[schemars(extend("enum" = ["messages", "groups", "contacts", "nodes", "rows", null]))]
    pub(crate) step: Option<&'static str>,
    /// Messages of it that were called back.
    pub(crate) messages: u64,
    /// The book had a user of its name, who was removed.
    pub(crate) user_removed: bool,
}

/// Sessions that were ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatEnded")]
pub(crate) struct Ended {
    /// How many there were.
    pub(crate) ended: u32,
}

/// A message was taken, or a change of a group.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatSent")]
pub(crate) struct Sent {
    /// The group, where one was made or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    /// The server's number for the message.
    #[schemars(with = "Decimal")]
    pub(crate) id: String,
    /// Its place in the conversation.
    pub(crate) seq: Seq,
    /// Unix millisecond at which it was taken.
    pub(crate) at_ms: u64,
    /// It was sent before with this id: this is the first answer.
    pub(crate) again: bool,
}

/// A message at its place in its conversation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatMessage")]
pub(crate) struct Message {
    /// The server's number for it.
    #[schemars(with = "Decimal")]
    id: String,
    /// Its place.
    seq: Seq,
    /// Unix millisecond at which it was taken.
    at_ms: u64,
    /// Who said it.
    from: String,
    /// On which device; empty: on none.
    device: String,
    /// To whom.
    to: String,
    /// The sender's id for it, 32 hexadecimal digits.
    client_id: String,
    /// 1 is text; 3 tells of a change of the group, 4 calls another one back, 5 was called back.
    kind: u16,
    /// What was said.
    text: String,
    /// What was said beside it.
    #[schemars(with = "Base64")]
    extra_base64: String,
    /// It counts as unread until it is read.
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
    /// Messages, in the direction that was asked for.
    messages: Vec<Message>,
    /// There are more in this direction, behind the last of these.
    more: bool,
}

impl From<&HistoryPage> for History {
    fn from(page: &HistoryPage) -> History {
        let messages = page.messages.iter().map(|message| Message::from(&**message)).collect();
        History { messages, more: page.more }
    }
}

/// What an account knows of a conversation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatConversation")]
pub(crate) struct ConversationTold {
    /// With whom: an account or a group.
    with: String,
    /// The place in the conversation of the last that was said.
    last_seq: Seq,
    /// Its beginning; null: nothing was said, or it is not there any more.
    last: Option<Excerpt>,
    /// The account has read up to here.
    read: Seq,
    /// The other of the two has; 0 in a group.
    peer_read: Seq,
    /// Messages that count and are not read, among the last 1,000 or so.
    unread: u16,
    /// How many of those mention the account.
    mentions: u16,
    /// To be shown before the others.
    pinned: bool,
    /// Makes no noise.
    muted: bool,
    /// Not to be shown.
    hidden: bool,
}

/// The beginning of a message.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExcerpt")]
struct Excerpt {
    /// The server's number for it.
    #[schemars(with = "Decimal")]
    id: String,
    /// Unix millisecond at which it was taken.
    at_ms: u64,
    /// Who said it.
    from: String,
    /// What it is.
    kind: u16,
    /// The beginning of its text.
    text: String,
    /// That is all of it.
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
    /// Whose it is.
    owner: String,
    /// Its title.
    title: String,
    /// What was announced.
    announcement: String,
    /// Only owner and moderators may say something.
    quiet: bool,
    /// Sessions that are there, as of a while ago.
    here: u32,
    /// The number of the last message.
    said: Seq,
    /// Accounts that are banned.
    banned: u32,
}

/// A page of chatrooms.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatroomsPage")]
pub(crate) struct Chatrooms {
    /// The page, in the order of their addresses.
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

/// Somebody whom an account knows.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatContact")]
pub(crate) struct ContactTold {
    /// Who.
    account: String,
    /// It is in the account's list.
    listed: bool,
    /// What the account calls it.
    name: String,
    /// Groups in which the account has it.
    groups: Vec<String>,
    /// The account sees its presence, or asks to.
    #[schemars(extend("enum" = ["no", "asks", "yes"]))]
    sees: &'static str,
    /// It sees the account's.
    #[schemars(extend("enum" = ["no", "asks", "yes"]))]
    seen: &'static str,
    /// The account has blocked it.
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
    /// The page, those that changed last at the end.
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
    /// Who.
    account: String,
    /// What it may do.
    #[schemars(extend("enum" = GroupRole::ALL.iter().map(|role| role.word()).collect::<Vec<_>>()))]
    role: &'static str,
    /// It may not say anything.
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
    /// Only owner and admins may say something.
    closed: bool,
    /// It is in the list of its domain.
    public: bool,
    /// It ends when nobody is in its room of XMPP any more.
    temporary: bool,
    /// How many members there are.
    total: u32,
    /// Number of its last change: goes along with the next query.
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
    /// Who owns it.
    owner: String,
    /// How many members it has.
    members: u32,
    /// Only owner and admins may say something.
    closed: bool,
    /// It is in the list of its domain.
    public: bool,
    /// It ends when nobody is in its room of XMPP any more.
    temporary: bool,
    /// The place of its last message.
    last_seq: Seq,
    /// Unix millisecond at which that was taken; null: it is not there any more.
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
    /// The page; it may be empty and not be the last.
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

/// A message on its way to many accounts.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "ChatBroadcast")]
pub(crate) struct Broadcast {
    /// Its number.
    pub(crate) id: String,
    /// Who says it.
    pub(crate) from: String,
    /// The id that each of its messages has, 32 hexadecimal digits.
    pub(crate) client_id: String,
    /// How it is.
    #[schemars(extend("enum" = ["running", "done", "cancelled", "failed"]))]
    pub(crate) state: &'static str,
    /// Accounts to which it was sent.
    pub(crate) sent: u64,
    /// Of these, to which it had been sent before.
    pub(crate) again: u64,
    /// Accounts that were left out: they are not there, or say no.
    pub(crate) refused: u64,
    /// How many it is for; null: for all of the book, which is gone through.
    pub(crate) total: Option<u64>,
    /// Why it failed; null: it did not.
    pub(crate) failure: Option<String>,
}

/// Broadcasts that are remembered.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatBroadcasts")]
pub(crate) struct Broadcasts {
    /// The newest first.
    pub(crate) broadcasts: Vec<Broadcast>,
}

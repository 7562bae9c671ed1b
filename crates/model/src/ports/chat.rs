//! Commands of the API to the chat service. Each command is about one account, and goes to the home
//! shard of that account.
//!
//! An [`Errand`] is something that is done in the name of an account as one of its devices would do
//! it, without one being here; it is answered by the very delivery that a device would get. An
//! operator's errand is carried out whatever restricts the account: roles in a group, blocks,
//! mutes, limits.

use crate::account::{AccountAddress, AccountId, Addressee};
use crate::chat::foreign::ForeignArrival;
use crate::chat::{
    ArchiveRange, ChatDelivery, ChatroomOrder, ChatroomStatus, ContactWish, ContactsRange,
    GroupOrder, HistoryRange, MembersRange, MovedChange, MovedMessage, NewMessage, NodesAsk,
    OccupancyAsk, PublicRange, RecallOrder,
};
use crate::ports::users::Announcement;
use crate::timeline::{Seq, TimelineId};
use base::encoding::Encoding;
use std::sync::Arc;

/// The name, in every domain, of the account in which the server itself speaks. Nobody logs in by
/// it.
pub const SYSTEM_NAME: &str = "system";

impl AccountAddress {
    /// Whether the server itself speaks by it.
    pub fn is_system(&self) -> bool {
        self.name() == SYSTEM_NAME && !self.is_group()
    }
}

/// A question or an order about an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatCommand {
    /// Look at it. Answer: `Account`.
    Account(AccountAddress),
    /// Make it, if it is not there: it may be written to before it logs in. Answer: `Account`.
    Open(AccountAddress),
    /// End its sessions. Answer: `Ended`.
    Kick(AccountAddress),
    /// Erase it: all that is kept of it goes, and what it said is called back. Answer: `Erasing`,
    /// when it is stored that this is to be done; asked again, how far it is.
    Erase(AccountAddress),
    /// Mutes the account until a Unix second; zero: unmutes it. Answer: `Account`, or `MutesFull`.
    Mute(AccountAddress, u32),
    /// Request in the name of an account. Answer: `Told`.
    Errand(Box<Errand>),
    /// Groups that are at home on a shard. Answer: `Groups`.
    Groups {
        /// The shard.
        shard: u16,
        /// Lists groups behind this one, as the answer before said it; empty: from the first on.
        after: Box<[u8]>,
        /// The most that is wanted.
        count: u16,
    },
    /// The chatrooms of a shard, in the order of their addresses. Answer: `Chatrooms`.
    Chatrooms {
        /// Lists chatrooms behind this one.
        after: Option<AccountAddress>,
        /// The most chatrooms.
        count: u16,
    },
    /// Accounts of a shard that have devices here: how many, and at most so many of them. Answer:
    /// `Online`.
    Online(u16),
    /// Sends an announcement to all devices of a shard that want messages. Answer: `Announcing`.
    Announce(Arc<Announcement>),
    /// Traffic from a foreign account or domain. Answer: `Told`, or `Reached`.
    Foreign(Box<ForeignArrival>),
    /// Messages of a shard's queue for other servers are with these, or were refused: they need
    /// not stand there any more. Answer: `Reached`.
    LeftQueue {
        /// The queue.
        queue: TimelineId,
        /// Their places.
        seqs: Box<[Seq]>,
    },
    /// Another server had kept a message of it: it takes its place, at its time. One that is not
    /// newer than the last of its conversation is there already, or does not come in. In a group
    /// it may have been said by an account that is not there any more, or never was one of ours.
    /// Answer: `Told`, as of a message that is sent.
    MoveIn(AccountAddress, Box<MovedMessage>),
    /// Another server had a group as a room: it is made, or changed, in the name of this account,
    /// with the number that it would have had then. Answer: `Told`, as of a change.
    ChangeMoved(AccountAddress, Box<MovedChange>),
    /// Marks the entries of the account's inbox up to a place as delivered, because its old server
    /// delivered them. Answer: `Told`, of `Done`.
    MovedUpTo(AccountAddress, Seq),
}

impl ChatCommand {
    /// Account that the command is about; `None`: the command names its shard, or every shard is
    /// asked.
    pub fn account(&self) -> Option<AccountAddress> {
        let account = match self {
            ChatCommand::Groups { .. }
            | ChatCommand::Chatrooms { .. }
            | ChatCommand::LeftQueue { .. }
            | ChatCommand::Online(_)
            | ChatCommand::Announce(_) => return None,
            ChatCommand::Account(account)
            | ChatCommand::Open(account)
            | ChatCommand::Kick(account)
            | ChatCommand::Erase(account)
            | ChatCommand::MoveIn(account, _)
            | ChatCommand::ChangeMoved(account, _)
            | ChatCommand::MovedUpTo(account, _)
            | ChatCommand::Mute(account, _) => account,
            ChatCommand::Errand(errand) => &errand.by,
            ChatCommand::Foreign(arrival) => return Some(arrival.concerns()),
        };
        Some(account.clone())
    }
}

/// Request in the name of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errand {
    /// Account in whose name it is done. The server's own is made where it is not there.
    pub by: AccountAddress,
    /// An operator wants it: what stands in the way of an account does not.
    pub is_operators: bool,
    /// The errand itself.
    pub what: ErrandWhat,
}

/// Kind of an errand, as [`ChatRequest`](crate::chat::ChatRequest) has it.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding[
    Send = 0, Group = 1, Members = 2, PublicGroups = 3, History = 4, Archive = 5, Conversations = 6,
    Recall = 7, Contacts = 8, Inbox = 9, Privacy = 10, Pushes = 11, Nodes = 12, Contact = 13,
    Chatroom = 14, Room = 15, Voice = 16
]]
pub enum ErrandWhat {
    /// Say something. An operator reaches groups that the account is no member of.
    Send(Box<NewMessage>),
    /// Make a group, or change it.
    Group(Box<GroupOrder>),
    /// Members of a group.
    Members(Box<MembersRange>),
    /// Requests the public groups of a domain.
    PublicGroups(Box<PublicRange>),
    /// Messages of a conversation.
    History(Box<HistoryRange>),
    /// A part of an archive, of its own or of a group.
    Archive(Box<ArchiveRange>),
    /// The account's conversations that are not hidden, or those with groups alone.
    Conversations {
        /// Lists conversations whose place is before this one ([`Seq::MAX`]: all).
        before: Seq,
        /// The most that is wanted.
        count: u16,
        /// Only groups, hidden ones included.
        groups: bool,
    },
    /// Call a message back; an operator any, whoever said it and however long ago.
    Recall(Box<RecallOrder>),
    /// The account's contacts.
    Contacts(ContactsRange),
    /// Reads entries of the account's inbox behind a place.
    Inbox {
        /// The place.
        after: Seq,
        /// The most that is wanted.
        count: u16,
    },
    /// Whether it shares what it has read.
    Privacy,
    /// How its devices are woken.
    Pushes,
    /// Request about its nodes.
    Nodes(Box<NodesAsk>),
    /// Change of a contact.
    Contact(Box<ContactWish>),
    /// Make a chatroom, or change it.
    Chatroom(Box<ChatroomOrder>),
    /// Enter the room of a group, be there otherwise, or leave it.
    Room(Addressee, OccupancyAsk),
    /// Ask owner and admins of a group for voice there.
    Voice(Addressee),
}

impl ErrandWhat {
    /// Whether it changes what the account has, or is in.
    pub const fn is_change(&self) -> bool {
        match self {
            ErrandWhat::Group(_)
            | ErrandWhat::Contact(_)
            | ErrandWhat::Room(_, OccupancyAsk::Change { .. }) => true,
            ErrandWhat::Nodes(ask) => ask.is_change(),
            _ => false,
        }
    }
}

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatAnswer {
    /// The account, if there is one.
    Account(Option<ChatAccountStatus>),
    /// Number of sessions that were ended.
    Ended(u32),
    /// The delivery that a device would have got; none: the account does not exist.
    Told(Option<Box<ChatDelivery>>),
    /// How far the erasure of an account is; nothing: there is no such account, or no more. To
    /// what is not done for an account that is being erased, too.
    Erasing(Option<ErasureStatus>),
    /// Some groups of a shard.
    Groups(Box<GroupsPage>),
    /// Whether there was anybody for what came from elsewhere.
    Reached(bool),
    /// The limit of muted accounts is reached.
    MutesFull,
    /// Chatrooms, in the order of their addresses.
    Chatrooms(Vec<ChatroomStatus>),
    /// Number of accounts that have devices here, and some of them, in the order of their
    /// addresses.
    Online(u64, Vec<AccountAddress>),
    /// The announcement is being delivered.
    Announcing,
    /// Too much at once, or no answer in time: nothing was promised, try again.
    Busy,
    /// The log does not take it.
    StoreFailed,
}

/// Status of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatAccountStatus {
    /// Its number.
    pub id: AccountId,
    /// When it was made, Unix seconds.
    pub made_s: u32,
    /// Names of the devices that are here.
    pub devices: Vec<Box<str>>,
    /// The last place of its inbox.
    pub head: u64,
    /// The Unix second until which it may say nothing; zero: it may.
    pub muted_until_s: u32,
}

/// How far an erasure is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErasureStatus {
    /// Messages of the account that were called back.
    pub messages: u64,
    /// The current step, in a word.
    pub step: &'static str,
}

/// Some groups that are at home on one shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupsPage {
    /// The groups, in the order of their internal names.
    pub groups: Vec<GroupSummary>,
    /// Place behind which more groups follow; `None`: no more on this shard.
    pub next: Option<Box<[u8]>>,
    /// How many shards there are.
    pub shards: u16,
}

/// A group, as a list of all groups shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSummary {
    /// Its address.
    pub group: AccountAddress,
    /// Its title.
    pub title: Box<str>,
    /// Owner of the group.
    pub owner: AccountAddress,
    /// How many members it has.
    pub members: u32,
    /// Only owner and admins may say something.
    pub closed: bool,
    /// Whether the group is in the list of its domain.
    pub public: bool,
    /// Whether the group ends as soon as nobody is in its room.
    pub temporary: bool,
    /// The place of its last message.
    pub last_seq: Seq,
    /// When that was said, Unix milliseconds; zero: it is not there any more.
    pub last_ms: u64,
}

//! Messages between the chat services of a process.
//!
//! A message may be lost where a mailbox is full: a request is given up after a time, and a message
//! that must not be lost is repeated until its receipt has come.

use crate::accounts::AccountRow;
use crate::amendments::AmendOrder;
use crate::conversations::receipts::delivered::DeliveredTold;
use crate::conversations::receipts::positions::{Positions, PositionsAsked};
use crate::conversations::receipts::readers::{Others, ReadersSought};
use crate::groups::adding::{AddingAsked, NotAdded};
use crate::groups::asides::VoiceAsked;
use crate::groups::changes::ChangeOrder;
use crate::groups::chatrooms::words::{ChatroomAsked, ChatroomWord, JoinAsked, Saying};
use crate::groups::members::MembersAsked;
use crate::groups::rooms::{RoomAsked, SeatSaid, SeatsLeft, SeatsTold};
use crate::label::{Relation, Route};
use crate::operators::moving::ImportOrder;
use crate::outbox::left::scans::Sought;
use crate::outbox::receivers::Carriage;
use crate::people::nodes::{LastAsked, NodesAsked, NodesTold};
use crate::people::stanzas::StanzaHanded;
use crate::people::{
    ArrivalTaken, PresenceTold, ProbeAsked, Probed, TieReceipt, TieTold, weight_of,
};
use crate::sessions::transients::{BoundTold, TransientSaid, TransientTold};
use base::encoding::Encoding;
use model::account::AccountAddress;
use model::chat::foreign::ForeignArrival;
use model::chat::{
    ChatFault, ChatMessage, ChatroomJoined, Excerpt, GroupChange, GroupMember, GroupVerb,
    InboxChange, InboxEvent, MembersPage, NodesFault, NodesFound, Occupant, PUSH_TOKEN_BYTES_MAX,
    PublicPage, PublicRange, PushRoute, RoomEntered,
};
use model::id::ShardId;
use model::service::Weigh;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// A message between the chat services of two shards. `number` is the asker's own, given back with
/// the answer.
#[derive(Debug, Encoding)]
#[encoding[
    Request = 0, Reply = 1, Place = 2, Placed = 3, NotPlaced = 4, Seek = 5, Sought = 6, Fetch = 7,
    Fetched = 8, Erased = 9, Delivered = 10, TransientSaid = 11, TransientTold = 12, SeatSaid = 13,
    SeatsLeft = 14, SeatsTold = 15, BoundTold = 16, VoiceAsked = 17, Tie = 18, TieHeard = 19,
    Presence = 20, PresenceHeard = 21, Probe = 22, Probed = 23, NodesTold = 24, LastAsked = 25,
    Arrival = 26, ArrivalTaken = 27, PushClaimed = 28, PushYielded = 29, Chatroom = 30
]]
pub enum ChatWord {
    /// The request of a flow. Answered by `Reply`.
    Request {
        /// The request's number, for the answer.
        number: u64,
        /// The request itself.
        request: PeerRequest,
    },
    /// The result of a request, or why it was refused.
    Reply {
        /// The request's number.
        number: u64,
        /// The reply, or the fault.
        result: Result<PeerReply, ChatFault>,
    },
    /// Put a parcel into inboxes. Answered by `Placed`, eventually, for all parcels up to a number.
    Place(Parcel),
    /// All parcels up to this number are in their inboxes.
    Placed {
        /// The number of the last of these parcels.
        upto: u64,
    },
    /// A parcel was refused, because the log of the shard takes no more now.
    NotPlaced,
    /// Ask whether an inbox has this reference. Answered by `Sought`.
    Seek(Box<Sought>),
    /// The answer to `Seek`.
    Sought {
        /// The number of the question.
        number: u64,
        /// The inbox that was asked about.
        inbox: TimelineId,
        /// Whether the inbox has the reference.
        has: bool,
    },
    /// Read these ranges of conversations. Answered by `Fetched`.
    Fetch {
        /// The question's number, for the answer.
        number: u64,
        /// The ranges to read.
        ranges: Box<[Range]>,
        /// The reader of the ranges.
        reader: ReadBy,
    },
    /// The answer to `Fetch`.
    Fetched {
        /// The number of the question.
        number: u64,
        /// The messages, or why they cannot be read.
        result: Result<Fetched, ChatFault>,
    },
    /// An account was erased: its number is not to be used any more.
    Erased(Box<AccountAddress>),
    /// A device of an account has received what another account has sent.
    Delivered(Box<DeliveredTold>),
    /// A message to a group that is not stored; its sender waits for no answer.
    TransientSaid(Box<TransientSaid>),
    /// A message for devices that is not stored.
    TransientTold(Box<TransientTold>),
    /// How a device is in a room.
    SeatSaid(Box<SeatSaid>),
    /// For the home of a group: these devices are in its room no more.
    SeatsLeft(Box<SeatsLeft>),
    /// News of a room, for sessions that are in it.
    SeatsTold(Box<SeatsTold>),
    /// A message for devices of XMPP that is not stored.
    BoundTold(Box<BoundTold>),
    /// A member of a group that may not speak asks for voice.
    VoiceAsked(Box<VoiceAsked>),
    /// The relation of an account to another. Answered by `TieHeard`.
    Tie(Box<TieTold>),
    /// The receipt of a `Tie`: accepted or refused.
    TieHeard(Box<TieReceipt>),
    /// The presence of an account, for the accounts that see it. Answered by `PresenceHeard`.
    Presence(Box<PresenceTold>),
    /// The receipt of a `Presence`, `NodesTold` or `LastAsked`.
    PresenceHeard {
        /// The number of the message that has arrived.
        number: u64,
    },
    /// Ask for the presence of these accounts. Answered by `Probed`.
    Probe(Box<ProbeAsked>),
    /// The answer to `Probe`.
    Probed(Box<Probed>),
    /// Changes of an account's nodes. Answered by `PresenceHeard`, if the message has a number.
    NodesTold(Box<NodesTold>),
    /// Ask for the last items of these accounts. Answered by `PresenceHeard`, and by `NodesTold`
    /// for each account that has any.
    LastAsked(Box<LastAsked>),
    /// A request in the name of an account of another server, which no account here has blocked.
    /// Answered by `ArrivalTaken`, by the number.
    Arrival(u64, Box<ForeignArrival>),
    /// The result of an `Arrival`.
    ArrivalTaken(Box<ArrivalTaken>),
    /// A device for push notifications belongs to this account from now on: which other accounts
    /// have it registered? Answered by `PushYielded`.
    PushClaimed {
        /// The question's number, for the answer.
        number: u64,
        /// The push route of the device.
        route: Box<PushRoute>,
        /// The inbox of the account.
        by: TimelineId,
    },
    /// The answer to `PushClaimed`: a registration was removed, or more answers will come.
    PushYielded {
        /// The number of the question.
        number: u64,
        /// The number of answers that are still to come from there, beside those that have.
        more: u32,
        /// The registration was removed.
        is_done: bool,
    },
    /// A message about a chatroom.
    Chatroom(Box<ChatroomWord>),
}

/// A flow's request to another shard.
#[derive(Debug, Encoding)]
#[encoding[
    Find = 0, Send = 1, Amend = 2, Change = 3, Import = 4, Adding = 5, PublicGroups = 6,
    Chatroom = 7, Stanza = 8, Transient = 9, Members = 10, Readers = 11, Positions = 12, Room = 13,
    Nodes = 14, Join = 15, Say = 16
]]
pub enum PeerRequest {
    /// Find the account with this address. Answered by `Account`.
    Find(Box<AccountAddress>),
    /// Store this message in its conversation. Answered by `Stored`.
    Send(Box<SendOrder>),
    /// Amend a message. Answered by `Stored`, for the message that amends it.
    Amend(Box<AmendOrder>),
    /// Change a group. Answered by `Stored`, for the message that announces the change.
    Change(Box<ChangeOrder>),
    /// Store a message imported from another server. Answered by `Stored`.
    Import(Box<ImportOrder>),
    /// Find those of these accounts that another may not add to a group. Answered by `NotAdded`.
    Adding(Box<AddingAsked>),
    /// List the public groups of a domain that are at home there. Answered by `PublicGroups`.
    PublicGroups(Box<PublicRange>),
    /// Create a chatroom, or change one. Answered by `Done`.
    Chatroom(Box<ChatroomAsked>),
    /// Deliver a stanza to devices of an account. Answered by `Done`.
    Stanza(Box<StanzaHanded>),
    /// Deliver a message to a group without storing it. Answered by `Done`.
    Transient(Box<TransientSaid>),
    /// List the members of a group, or the sessions in a chatroom. Answered by `Members`.
    Members(Box<MembersAsked>),
    /// List the other members of a group, if it is not too large. Answered by `Readers`.
    Readers(Box<ReadersSought>),
    /// Get the positions of these accounts in a conversation. Answered by `Positions`.
    Positions(Box<PositionsAsked>),
    /// Enter the room of a group, or ask something of it. Answered by `Room`, `Occupant`, `Renamed`
    /// or `Done`.
    Room(Box<RoomAsked>),
    /// Read or change the nodes of an account. Answered by `Nodes`.
    Nodes(Box<NodesAsked>),
    /// Join a session to a chatroom. Answered by `Joined`.
    Join(Box<JoinAsked>),
    /// Send a message in a chatroom. Answered by `Stored`.
    Say(Box<Saying>),
}

/// The result of a [`PeerRequest`].
#[derive(Debug, Encoding)]
#[encoding[
    Account = 0, Stored = 1, NotAdded = 2, PublicGroups = 3, Members = 4, Readers = 5,
    Positions = 6, Nodes = 7, Room = 8, Occupant = 9, Occupants = 10, Renamed = 11, Joined = 12,
    Done = 13
]]
pub enum PeerReply {
    /// The row of the account.
    Account(AccountRow),
    /// A message is stored.
    Stored(StoredMessage),
    /// Accounts that may not be added, but invited.
    NotAdded(NotAdded),
    /// A page of public groups.
    PublicGroups(Box<PublicPage>),
    /// A page of the members.
    Members(Box<MembersPage>),
    /// The other members, with their inboxes.
    Readers(Others),
    /// The positions of the accounts in the conversation.
    Positions(Positions),
    /// The result of the request about nodes.
    Nodes(Box<Result<NodesFound, NodesFault>>),
    /// The device is in the room.
    Room(Box<RoomEntered>),
    /// An occupant of the room.
    Occupant(Arc<Occupant>),
    /// Occupants of a room.
    Occupants(Box<[Arc<Occupant>]>),
    /// The device has this name in the room.
    Renamed(Box<str>),
    /// The session is in the chatroom.
    Joined(Box<ChatroomJoined>),
    /// The request is carried out.
    Done,
}

/// A flow of some shard that waits for a reply.
#[derive(Clone, Copy, Debug, Encoding)]
pub(crate) struct ReplyTo {
    pub(crate) shard: ShardId,
    /// The request's number: the key of the wait.
    pub(crate) number: u64,
}

/// A message to be sent, for the home of its conversation.
#[derive(Debug, Encoding)]
pub struct SendOrder {
    pub(crate) route: Route,
    /// Names the message among all of its conversation: a hash of its sender and the sender's id.
    pub(crate) once: u64,
    /// The sender is an operator: rules that may stop an account do not apply.
    pub(crate) is_operator: bool,
    pub(crate) body: Box<[u8]>,
}

/// A message that is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
pub struct StoredMessage {
    pub(crate) id: u64,
    pub(crate) seq: Seq,
    /// The message was stored before: the order was a retry.
    pub(crate) again: bool,
}

/// An entry on its way into inboxes of one shard. Parcels from one shard to another are numbered,
/// from 1 on.
#[derive(Clone, Debug, Encoding)]
pub struct Parcel {
    pub(crate) number: u64,
    pub(crate) inboxes: Arc<[TimelineId]>,
    pub(crate) conversation: TimelineId,
    /// The relation of the entry to the owners of the inboxes.
    pub(crate) relation: Relation,
    pub(crate) cargo: Cargo,
    /// How the receiving shard handles the parcel.
    pub(crate) carriage: Carriage,
}

/// The content of a parcel.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Message = 0, Event = 1)]
pub enum Cargo {
    /// A message, by reference.
    Message(Arc<ChatMessage>),
    /// A change other than a message, and the number of the entry that it comes from.
    Event(u64, Arc<InboxEvent>),
}

/// The reader of a conversation; only in a group does it make a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
#[encoding(Anybody = 0, Member = 1, Holder = 2)]
pub enum ReadBy {
    /// A reader that may read all of it, as it is now.
    Anybody,
    /// The account with this inbox, as a member: messages since it became one.
    Member(TimelineId),
    /// The account with this inbox, which has references to the messages. After it has left, it
    /// reads them as they were when it left.
    Holder(TimelineId),
}

/// A range of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
pub struct Range {
    pub(crate) conversation: TimelineId,
    /// The range is behind this place; if backwards, before it.
    pub(crate) from: Seq,
    pub(crate) backwards: bool,
    pub(crate) count: u16,
    /// Only messages in the next `count` places are wanted; else the next `count` messages,
    /// wherever they are.
    pub(crate) is_run: bool,
    /// Only the beginnings of the messages are wanted.
    pub(crate) is_excerpt: bool,
    /// The place up to which retention has dropped messages of the conversation is wanted, too.
    pub(crate) wants_front: bool,
}

impl Range {
    /// A run that begins with the place behind this one.
    pub(crate) fn run(conversation: TimelineId, from: Seq) -> Range {
        Range { is_run: true, ..Range::part(conversation, from, false, 1) }
    }

    /// Up to so many messages of a history, behind a place or before it.
    pub(crate) fn part(conversation: TimelineId, from: Seq, backwards: bool, count: u16) -> Range {
        let (is_run, is_excerpt, wants_front) = (false, false, false);
        Range { conversation, from, backwards, count, is_run, is_excerpt, wants_front }
    }

    /// The beginning of the message behind a place.
    pub(crate) fn excerpt(conversation: TimelineId, from: Seq, wants_front: bool) -> Range {
        Range { is_excerpt: true, wants_front, ..Range::run(conversation, from) }
    }
}

/// The result of reading ranges of conversations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encoding)]
pub struct Fetched {
    /// Messages with their conversations, in the order of the ranges and within them.
    pub(crate) messages: Vec<(TimelineId, Arc<ChatMessage>)>,
    /// Beginnings of messages, with their conversations.
    pub(crate) excerpts: Vec<(TimelineId, Excerpt)>,
    /// Conversations that were read only in part, with the place to go on from: there was too much.
    pub(crate) unread: Vec<(TimelineId, Seq)>,
    /// Places up to which retention has dropped messages of conversations, where that was wanted.
    pub(crate) dropped: Vec<(TimelineId, Seq)>,
    /// More messages exist behind the last range.
    pub(crate) more: bool,
}

impl Weigh for ChatWord {
    fn weight(&self) -> usize {
        let beside = match self {
            ChatWord::Request { request, .. } => request.weight(),
            ChatWord::Place(parcel) => parcel.weight(),
            ChatWord::Fetch { ranges, .. } => size_of_val(&**ranges),
            ChatWord::Fetched { result: Ok(fetched), .. } => {
                let excerpts: usize = fetched.excerpts.iter().map(|(_, it)| it.weight()).sum();
                let messages: usize = fetched.messages.iter().map(|(_, it)| it.weight()).sum();
                messages + excerpts
            }
            ChatWord::Seek(_) => size_of::<Sought>(),
            ChatWord::Reply { result: Ok(reply), .. } => reply.weight(),
            ChatWord::Delivered(told) => told.weight(),
            ChatWord::TransientSaid(said) => said.weight(),
            ChatWord::TransientTold(told) => told.weight(),
            ChatWord::SeatSaid(said) => said.weight(),
            ChatWord::SeatsLeft(left) => left.weight(),
            ChatWord::SeatsTold(told) => told.weight(),
            ChatWord::BoundTold(told) => told.weight(),
            ChatWord::VoiceAsked(asked) => asked.weight(),
            ChatWord::Tie(told) => told.weight(),
            ChatWord::TieHeard(receipt) => size_of::<TieReceipt>() + receipt.told.weight(),
            ChatWord::Presence(told) => {
                size_of::<PresenceTold>() + size_of_val(&*told.to) + weight_of(&told.states)
            }
            ChatWord::Probe(asked) => size_of::<ProbeAsked>() + size_of_val(&*asked.to),
            ChatWord::Probed(probed) => {
                let of = probed.found.iter().map(|(_, _, states)| 128 + weight_of(states));
                size_of::<Probed>() + of.sum::<usize>()
            }
            ChatWord::NodesTold(told) => told.weight(),
            ChatWord::LastAsked(asked) => asked.weight(),
            ChatWord::Arrival(_, arrival) => arrival.weight(),
            ChatWord::ArrivalTaken(taken) => taken.weight(),
            ChatWord::PushClaimed { .. } => size_of::<PushRoute>() + PUSH_TOKEN_BYTES_MAX,
            ChatWord::Chatroom(word) => size_of::<ChatroomWord>() + word.weight(),
            _ => 0,
        };
        size_of::<ChatWord>() + beside
    }
}

impl PeerRequest {
    /// Approximate memory, bytes.
    fn weight(&self) -> usize {
        match self {
            PeerRequest::Find(address) => address.as_str().len(),
            PeerRequest::Send(order) => order.weight(),
            PeerRequest::Amend(order) => order.weight(),
            PeerRequest::Change(order) => order.weight(),
            PeerRequest::Import(order) => order.weight(),
            PeerRequest::Adding(asked) => asked.weight(),
            PeerRequest::PublicGroups(range) => size_of::<PublicRange>() + range.weight(),
            PeerRequest::Chatroom(asked) => asked.weight(),
            PeerRequest::Stanza(handed) => handed.weight(),
            PeerRequest::Transient(said) => said.weight(),
            PeerRequest::Members(asked) => asked.weight(),
            PeerRequest::Room(asked) => asked.weight(),
            PeerRequest::Readers(sought) => sought.weight(),
            PeerRequest::Positions(asked) => asked.weight(),
            PeerRequest::Nodes(asked) => asked.weight(),
            PeerRequest::Join(asked) => asked.weight(),
            PeerRequest::Say(saying) => saying.weight(),
        }
    }
}

impl PeerReply {
    /// Approximate memory beside itself, bytes.
    fn weight(&self) -> usize {
        match self {
            PeerReply::PublicGroups(page) => page.weight(),
            PeerReply::Members(page) => page.weight(),
            PeerReply::Room(entered) => entered.weight(),
            PeerReply::Readers(others) => {
                let named = others.iter().map(|(it, _)| it.as_str().len());
                size_of_val(&**others) + named.sum::<usize>()
            }
            PeerReply::Positions(found) => size_of_val(&**found),
            PeerReply::Joined(joined) => joined.weight(),
            PeerReply::Nodes(result) => result.as_ref().as_ref().map_or(0, NodesFound::weight),
            PeerReply::NotAdded(some) => some.weight(),
            PeerReply::Occupant(it) => it.weight(),
            PeerReply::Occupants(all) => size_of_val(&**all),
            PeerReply::Renamed(nick) => nick.len(),
            PeerReply::Account(_) | PeerReply::Stored(_) | PeerReply::Done => 0,
        }
    }
}

impl SendOrder {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<SendOrder>() + self.body.len()
    }
}

impl Parcel {
    /// Approximate memory, bytes. A group's members are counted at its home.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Parcel>() + size_of_val(&*self.inboxes) + self.cargo.weight()
    }
}

impl Cargo {
    /// The accounts that the message invites to a group.
    pub(crate) fn invited(&self) -> Vec<GroupMember> {
        let Cargo::Message(message) = self else { return Vec::new() };
        let mut changes = GroupChange::all_of(&message.content);
        changes.retain(|change| change.verb == GroupVerb::Invite);
        changes.into_iter().flat_map(|change| change.members).collect()
    }

    pub(crate) fn invites(&self) -> bool {
        !self.invited().is_empty()
    }

    /// The number by which the outbox knows the entry.
    pub(crate) fn id(&self) -> u64 {
        match self {
            Cargo::Message(message) => message.id,
            Cargo::Event(id, _) => *id,
        }
    }

    /// The place in the conversation that the entry is about.
    pub(crate) fn seq(&self) -> Seq {
        match self {
            Cargo::Message(message) => message.seq,
            Cargo::Event(_, event) => match event.what {
                InboxChange::Read(upto) | InboxChange::PeerRead(upto) => upto,
                InboxChange::Set(_) => 0,
            },
        }
    }

    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Cargo::Message(message) => message.weight(),
            Cargo::Event(_, event) => size_of::<InboxEvent>() + event.with.as_str().len(),
        }
    }
}

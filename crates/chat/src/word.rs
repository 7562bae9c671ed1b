//! What the chat services of a process say to each other.
//!
//! A message may be lost where a mailbox is full: whoever asks waits for so long and not longer,
//! and what must not be lost is said until its receipt has come.

use crate::accounts::AccountRow;
use crate::amendments::AmendOrder;
use crate::conversations::receipts::delivered::DeliveredTold;
use crate::conversations::receipts::positions::{Positions, PositionsAsked};
use crate::conversations::receipts::readers::{Others, ReadersSought};
use crate::groups::adding::AddingAsked;
use crate::groups::asides::VoiceAsked;
use crate::groups::changes::ChangeOrder;
use crate::groups::chatrooms::words::{ChatroomAsked, ChatroomWord, JoinAsked, Saying};
use crate::groups::members::MembersAsked;
use crate::groups::shows::ShowSaid;
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
use model::account::AccountAddress;
use model::chat::foreign::ForeignArrival;
use model::chat::{
    AttendanceAsked, AttendanceTold, ChatFault, ChatMessage, ChatroomJoined, Excerpt, GroupChange,
    GroupVerb, InboxChange, InboxEvent, MembersPage, NodesFault, NodesFound, PUSH_TOKEN_BYTES_MAX,
    PublicPage, PublicRange, PushRoute,
};
use model::id::ShardId;
use model::service::Weigh;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// A message between the chat services of two shards. `number` is the asker's own, given back with
/// the answer.
#[derive(Debug)]
pub enum ChatWord {
    /// A flow asks for something. Answered by `Reply`.
    Request {
        /// For the answer.
        number: u64,
        /// What it asks for.
        request: PeerRequest,
    },
    /// It is done, or why not.
    Reply {
        /// The request's.
        number: u64,
        /// The answer.
        result: Result<PeerReply, ChatFault>,
    },
    /// Put this into inboxes. Answered by `Placed`, sooner or later, for all up to a number.
    Place(Parcel),
    /// Everything up to this number is in its inbox.
    Placed {
        /// The parcel's.
        upto: u64,
    },
    /// A parcel was refused, for its log takes no more now.
    NotPlaced,
    /// Has an inbox this reference? Answered by `Sought`.
    Seek(Box<Sought>),
    /// It has, or has not.
    Sought {
        /// The question's.
        number: u64,
        /// The inbox.
        inbox: TimelineId,
        /// The answer.
        has: bool,
    },
    /// Read these of conversations. Answered by `Fetched`.
    Fetch {
        /// For the answer.
        number: u64,
        /// What to read.
        ranges: Box<[Range]>,
        /// Who reads.
        reader: ReadBy,
    },
    /// What was read.
    Fetched {
        /// The question's.
        number: u64,
        /// The answer.
        result: Result<Fetched, ChatFault>,
    },
    /// Nothing is left of an account: its number is not to be used any more.
    Erased(Box<AccountAddress>),
    /// Some device of an account has what another said.
    Delivered(Box<DeliveredTold>),
    /// Somebody tells a group something that is kept nowhere, and does not wait.
    TransientSaid(Box<TransientSaid>),
    /// Tell devices something that is kept nowhere.
    TransientTold(Box<TransientTold>),
    /// Somebody says how it is there in a group.
    ShowSaid(Box<ShowSaid>),
    /// Tell devices of XMPP something of now.
    BoundTold(Box<BoundTold>),
    /// Somebody asks for voice in a group.
    VoiceAsked(Box<VoiceAsked>),
    /// Is a session there in a temporary group? Answered by `AttendanceTold`.
    AttendanceAsked(Box<AttendanceAsked>),
    /// Whether one is; or that the last one has left a group.
    AttendanceTold(Box<AttendanceTold>),
    /// What an account is to another. Answered by `TieHeard`.
    Tie(Box<TieTold>),
    /// It was taken, or refused.
    TieHeard(Box<TieReceipt>),
    /// How an account is there, for those who see it. Answered by `PresenceHeard`.
    Presence(Box<PresenceTold>),
    /// They have heard it.
    PresenceHeard {
        /// The word's.
        number: u64,
    },
    /// How are these accounts there? Answered by `Probed`.
    Probe(Box<ProbeAsked>),
    /// Like this.
    Probed(Box<Probed>),
    /// What happened to nodes of an account. Answered by `PresenceHeard`, if it has a number.
    NodesTold(Box<NodesTold>),
    /// What are the last items of these accounts? Answered by `PresenceHeard`, and by `NodesTold`
    /// for each that has any.
    LastAsked(Box<LastAsked>),
    /// Something from elsewhere is to be done in the name of an account of another server, whom
    /// nobody here has blocked. Answered by `ArrivalTaken`, by the number.
    Arrival(u64, Box<ForeignArrival>),
    /// This came of it.
    ArrivalTaken(Box<ArrivalTaken>),
    /// A device to be woken is this account's from now on: who else has it registered? Answered by
    /// `PushYielded`.
    PushClaimed {
        /// For the answer.
        number: u64,
        /// The way to the device.
        route: Box<PushRoute>,
        /// The account's inbox.
        by: TimelineId,
    },
    /// A registration is gone, or so many more answers come.
    PushYielded {
        /// The question's.
        number: u64,
        /// Answers that are still to come from there, beside those that were.
        more: u32,
        /// It is gone.
        is_done: bool,
    },
    /// Something about a chatroom.
    Chatroom(Box<ChatroomWord>),
}

/// What a flow asks of another shard.
#[derive(Debug)]
pub enum PeerRequest {
    /// Who has this address? Answered by `Account`.
    Find(Box<AccountAddress>),
    /// Store this message in its conversation. Answered by `Stored`.
    Send(Box<SendOrder>),
    /// Amend a message. Answered by `Stored`, of the message that says so.
    Amend(Box<AmendOrder>),
    /// Change a group. Answered by `Stored`, of the message that tells of it.
    Change(Box<ChangeOrder>),
    /// Store a message that comes over from another server. Answered by `Stored`.
    Import(Box<ImportOrder>),
    /// Are these accounts added to a group by that one? Answered by `NotAdded`.
    Adding(Box<AddingAsked>),
    /// Which public groups of a domain are at home there? Answered by `PublicGroups`.
    PublicGroups(Box<PublicRange>),
    /// Make a chatroom, or change one. Answered by `Done`.
    Chatroom(Box<ChatroomAsked>),
    /// A stanza for devices of an account. Answered by `Done`.
    Stanza(Box<StanzaHanded>),
    /// Somebody tells a group something that is kept nowhere. Answered by `Done`.
    Transient(Box<TransientSaid>),
    /// Who is in this group, or in this chatroom? Answered by `Members`.
    Members(Box<MembersAsked>),
    /// Who else is in this group, as long as it is not too large? Answered by `Readers`.
    Readers(Box<ReadersSought>),
    /// How far are these with a conversation? Answered by `Positions`.
    Positions(Box<PositionsAsked>),
    /// Something is wanted of the nodes of an account. Answered by `Nodes`.
    Nodes(Box<NodesAsked>),
    /// A session wants to be in a chatroom. Answered by `Joined`.
    Join(Box<JoinAsked>),
    /// Somebody says something in a chatroom. Answered by `Stored`.
    Say(Box<Saying>),
}

/// What the other shard has done for it.
#[derive(Debug)]
pub enum PeerReply {
    /// The account.
    Account(AccountRow),
    /// A message is stored.
    Stored(StoredMessage),
    /// These are not added, but may be invited.
    NotAdded(Vec<AccountAddress>),
    /// These public groups.
    PublicGroups(Box<PublicPage>),
    /// A page of the members.
    Members(Box<MembersPage>),
    /// The others, with their inboxes.
    Readers(Others),
    /// They are so far.
    Positions(Positions),
    /// This came of what was wanted of nodes.
    Nodes(Box<Result<NodesFound, NodesFault>>),
    /// It is in the chatroom.
    Joined(Box<ChatroomJoined>),
    /// It is done.
    Done,
}

/// A flow of some shard that waits for a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) shard: ShardId,
    /// The request's number: the key of the wait.
    pub(crate) number: u64,
}

/// A message that somebody sends, for the home of its conversation.
#[derive(Debug)]
pub struct SendOrder {
    pub(crate) route: Route,
    /// Names the message among all of its conversation: a hash of its sender and the sender's id.
    pub(crate) once: u64,
    /// An operator says it: what stands in the way of an account does not.
    pub(crate) is_operator: bool,
    pub(crate) body: Box<[u8]>,
}

/// A message is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredMessage {
    pub(crate) id: u64,
    pub(crate) seq: Seq,
    /// It was before.
    pub(crate) again: bool,
}

/// Something on its way into inboxes of one shard. Those from one shard to another are numbered,
/// from 1 on.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub(crate) number: u64,
    pub(crate) inboxes: Arc<[TimelineId]>,
    pub(crate) conversation: TimelineId,
    /// What it is to those whose inboxes they are.
    pub(crate) relation: Relation,
    pub(crate) cargo: Cargo,
    /// What is to be done with it.
    pub(crate) carriage: Carriage,
}

/// What is put into inboxes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cargo {
    /// A message, by reference.
    Message(Arc<ChatMessage>),
    /// Something else, and the number of the entry that it comes from.
    Event(u64, Arc<InboxEvent>),
}

/// Who reads a conversation, where that makes a difference: in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadBy {
    /// Whoever may read all of it, as it is now.
    Anybody,
    /// The account with this inbox, as a member: what was said since it became one.
    Member(TimelineId),
    /// The account with this inbox, which has references to what is read. Once it has left, it
    /// reads that as it was then.
    Holder(TimelineId),
}

/// Part of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub(crate) conversation: TimelineId,
    /// Forwards, what comes after this place; backwards, before it.
    pub(crate) from: Seq,
    pub(crate) backwards: bool,
    pub(crate) count: u16,
    /// Exactly so many neighbours are wanted, as far as they are there; else as many as there are.
    pub(crate) is_run: bool,
    /// The beginnings of the messages are enough.
    pub(crate) is_excerpt: bool,
    /// Up to where retention has dropped messages of the conversation is wanted, too.
    pub(crate) wants_front: bool,
}

impl Range {
    /// Neighbours, from the one behind this place on.
    pub(crate) fn run(conversation: TimelineId, from: Seq) -> Range {
        Range { is_run: true, ..Range::part(conversation, from, false, 1) }
    }

    /// So many of a history, behind a place or before it.
    pub(crate) fn part(conversation: TimelineId, from: Seq, backwards: bool, count: u16) -> Range {
        let (is_run, is_excerpt, wants_front) = (false, false, false);
        Range { conversation, from, backwards, count, is_run, is_excerpt, wants_front }
    }

    /// The beginning of the message behind a place.
    pub(crate) fn excerpt(conversation: TimelineId, from: Seq, wants_front: bool) -> Range {
        Range { is_excerpt: true, wants_front, ..Range::run(conversation, from) }
    }
}

/// What was read of conversations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fetched {
    /// Messages with their conversations, in the order of the ranges and within them.
    pub(crate) messages: Vec<(TimelineId, Arc<ChatMessage>)>,
    /// Beginnings of messages, with their conversations.
    pub(crate) excerpts: Vec<(TimelineId, Excerpt)>,
    /// Conversations of which not all was read, and from which place on: there was too much.
    pub(crate) unread: Vec<(TimelineId, Seq)>,
    /// Up to where conversations have lost their messages to retention, where that was wanted.
    pub(crate) dropped: Vec<(TimelineId, Seq)>,
    /// There are more behind the last range.
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
            ChatWord::ShowSaid(said) => said.weight(),
            ChatWord::BoundTold(told) => told.weight(),
            ChatWord::VoiceAsked(asked) => asked.weight(),
            ChatWord::AttendanceAsked(asked) => 64 + asked.group.as_str().len(),
            ChatWord::AttendanceTold(told) => 64 + told.group.as_str().len(),
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
            PeerReply::Readers(others) => {
                let named = others.iter().map(|(it, _)| it.as_str().len());
                size_of_val(&**others) + named.sum::<usize>()
            }
            PeerReply::Positions(found) => size_of_val(&**found),
            PeerReply::Joined(joined) => joined.weight(),
            PeerReply::Nodes(result) => result.as_ref().as_ref().map_or(0, NodesFound::weight),
            PeerReply::NotAdded(some) => some.iter().map(|it| 24 + it.as_str().len()).sum(),
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
    /// What it costs in memory, bytes, roughly. A group's members are its home's.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Parcel>() + size_of_val(&*self.inboxes) + self.cargo.weight()
    }
}

impl Cargo {
    /// The group change in it, if that is an invitation.
    pub(crate) fn invitation(&self) -> Option<GroupChange> {
        let Cargo::Message(message) = self else { return None };
        GroupChange::of(&message.content).filter(|change| change.verb == GroupVerb::Invite)
    }

    pub(crate) fn invites(&self) -> bool {
        self.invitation().is_some()
    }

    /// The number by which the outbox knows it.
    pub(crate) fn id(&self) -> u64 {
        match self {
            Cargo::Message(message) => message.id,
            Cargo::Event(id, _) => *id,
        }
    }

    /// The place in the conversation that it is about.
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

//! What shards say to each other of chatrooms.
//!
//! ```text
//! session's shard ─► Here: so many are here, and heard so far ─► home
//! home ─► Said, News, Outs ─► each shard with members ─► its sessions      List: a page of them
//! ```
//! Joins, messages and orders are requests of flows ([`PeerRequest`](crate::PeerRequest)). Any of
//! it may be lost. Whoever asks waits for so long and not longer; a shard that was not told of
//! messages sees it by their numbers, or is told the last one when it says how far it heard; who is
//! to leave is named until the shard has heard it.

use super::row::{By, ChatroomRow};
use crate::word::ReplyTo;
use model::account::AccountAddress;
use model::chat::{
    ChatroomMessage, ChatroomNews, ChatroomOrder, ChatroomOut, ClientMessageId, Content,
};
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// A word about a chatroom.
#[derive(Debug)]
pub enum ChatroomWord {
    /// This was said.
    Said(Arc<[Arc<ChatroomMessage>]>),
    /// It is so now.
    News(Arc<ChatroomNews>),
    /// These are to leave it, all whom the shard has not heard of.
    Outs {
        /// Which room.
        timeline: TimelineId,
        /// Who, in the order of their numbers.
        outs: Arc<[Leaving]>,
    },
    /// So many sessions of the shard are there, or wait to be.
    Here {
        /// Which room.
        room: AccountAddress,
        /// How many.
        here: u32,
        /// The last message that the shard heard of.
        heard: Seq,
        /// The last of [`Leaving::number`], likewise.
        outs: u64,
    },
    /// A page of those who are on this shard, for the flow that asked the home.
    List(Box<PageAsked>),
}

/// A session that wants to be in a chatroom.
#[derive(Debug)]
pub struct JoinAsked {
    pub(crate) room: AccountAddress,
    pub(crate) by: By,
    /// The most of its last messages that are wanted.
    pub(crate) history: u16,
    /// It is not in it already.
    pub(crate) is_new: bool,
}

/// Something that is said in a chatroom.
#[derive(Debug)]
pub struct Saying {
    pub(crate) room: AccountAddress,
    pub(crate) by: By,
    pub(crate) device: Box<str>,
    pub(crate) client_id: ClientMessageId,
    pub(crate) content: Content,
}

/// A change that is wanted of a chatroom, as its home hears of it.
#[derive(Debug)]
pub struct ChatroomAsked {
    pub(crate) room: AccountAddress,
    pub(crate) by: By,
    pub(crate) order: ChatroomOrder,
    /// Those whom it names, with the inbox of one who gets rights.
    pub(crate) named: Vec<(AccountAddress, Option<TimelineId>)>,
}

/// An account whose sessions are to leave; nobody in particular: all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaving {
    /// Rises.
    pub(crate) number: u64,
    pub(crate) account: Option<AccountAddress>,
    pub(crate) why: ChatroomOut,
}

/// A page of the members of a chatroom that are on one shard.
#[derive(Debug)]
pub struct PageAsked {
    pub(crate) to: ReplyTo,
    pub(crate) room: AccountAddress,
    /// What the page says besides.
    pub(crate) row: Arc<ChatroomRow>,
    pub(crate) total: u32,
    pub(crate) from: u32,
    /// So many of the shard's own stand before.
    pub(crate) skip: u32,
    pub(crate) count: u16,
}

impl JoinAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<JoinAsked>() + self.by.address.as_str().len() + self.room.as_str().len()
    }
}

impl Saying {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let names = self.by.address.as_str().len() + self.room.as_str().len();
        size_of::<Saying>() + names + self.content.weight()
    }
}

impl ChatroomAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let named = self.named.iter().map(|(it, _)| 2 * (48 + it.as_str().len()));
        size_of::<ChatroomAsked>() + self.order.text.len() + named.sum::<usize>()
    }
}

impl ChatroomWord {
    /// What it costs in memory beside itself, bytes, roughly.
    pub(crate) fn weight(&self) -> usize {
        match self {
            ChatroomWord::Said(messages) => messages.iter().map(|it| it.weight()).sum(),
            ChatroomWord::Outs { outs, .. } => outs.len() * (size_of::<Leaving>() + 64),
            ChatroomWord::Here { room, .. } => room.as_str().len(),
            ChatroomWord::List(asked) => size_of::<PageAsked>() + asked.room.as_str().len(),
            ChatroomWord::News(_) => 64,
        }
    }
}

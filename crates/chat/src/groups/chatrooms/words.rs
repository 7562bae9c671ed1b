//! Messages between shards about chatrooms.
//!
//! ```text
//! session's shard ─► Here: number of sessions, last message ─► home
//! home ─► Said, News, Outs ─► each shard with members ─► its sessions      List: a page of them
//! ```
//! Joins, messages and orders are requests of flows ([`PeerRequest`](crate::PeerRequest)). Any of
//! them may be lost. A request is given up after a time; a shard that did not get messages finds
//! that out by their numbers, or gets the last number when it reports how far it has heard; an
//! account that is to leave is named until the shard has confirmed it.

use super::row::{By, ChatroomRow};
use crate::word::ReplyTo;
use base::encoding::Encoding;
use model::account::AccountAddress;
use model::chat::{
    ChatroomMessage, ChatroomNews, ChatroomOrder, ChatroomOut, ClientMessageId, Content,
};
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// A message between shards about a chatroom.
#[derive(Debug, Encoding)]
#[encoding(Said = 0, News = 1, Outs = 2, Here = 3, List = 4)]
pub enum ChatroomWord {
    /// These messages were sent in it.
    Said(Arc<[Arc<ChatroomMessage>]>),
    /// The present state of the room.
    News(Arc<ChatroomNews>),
    /// These accounts are to leave the room: all that the shard has not confirmed.
    Outs {
        /// The room's conversation.
        timeline: TimelineId,
        /// The accounts, in the order of their numbers.
        outs: Arc<[Leaving]>,
    },
    /// The number of the shard's sessions that are in the room, or wait to be.
    Here {
        /// The room's address.
        room: AccountAddress,
        /// The number of sessions.
        here: u32,
        /// The place of the last message of which the shard knows.
        heard: Seq,
        /// The last [`Leaving::number`] of which the shard knows.
        outs: u64,
    },
    /// A page of the sessions on this shard, for the flow that asked the home.
    List(Box<PageAsked>),
}

/// A session's request to join a chatroom.
#[derive(Debug, Encoding)]
pub struct JoinAsked {
    pub(crate) room: AccountAddress,
    pub(crate) by: By,
    /// The maximum number of the room's last messages that are wanted.
    pub(crate) history: u16,
    /// The session is not in the room yet.
    pub(crate) is_new: bool,
}

/// A message to be sent in a chatroom.
#[derive(Debug, Encoding)]
pub struct Saying {
    pub(crate) room: AccountAddress,
    pub(crate) by: By,
    pub(crate) device: Box<str>,
    pub(crate) client_id: ClientMessageId,
    pub(crate) content: Content,
}

/// A change that an account wants of a chatroom, for its home.
#[derive(Debug, Encoding)]
pub struct ChatroomAsked {
    pub(crate) room: AccountAddress,
    pub(crate) by: By,
    pub(crate) order: ChatroomOrder,
    /// The accounts that the order names, with the inbox of the one that gets rights.
    pub(crate) named: Vec<(AccountAddress, Option<TimelineId>)>,
}

/// An account whose sessions are to leave; `None`: all sessions.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Leaving {
    /// The number rises with each account that is to leave.
    pub(crate) number: u64,
    pub(crate) account: Option<AccountAddress>,
    pub(crate) why: ChatroomOut,
}

/// A page of the members of a chatroom that are on one shard.
#[derive(Debug, Encoding)]
pub struct PageAsked {
    pub(crate) to: ReplyTo,
    pub(crate) room: AccountAddress,
    /// The row of the room, for the rest of the page.
    pub(crate) row: Arc<ChatroomRow>,
    pub(crate) total: u32,
    pub(crate) from: u32,
    /// The number of the shard's sessions that come before the page.
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
    /// Approximate memory beside the message itself, bytes.
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

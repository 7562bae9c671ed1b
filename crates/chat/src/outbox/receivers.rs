//! Receivers of a message: inboxes that it is put into, or members of a group who draw it from its
//! conversation.
//!
//! This module does not assign accounts to shards. Invariant: the shards of members who draw a
//! message are all listed.

use crate::groups::state::Abroad;
use crate::label::Route;
use base::encoding::Encoding;
use model::id::ShardId;
use model::timeline::TimelineId;
use std::sync::Arc;

/// The receivers of a message.
#[derive(Clone, Debug)]
pub(crate) enum Receivers {
    /// Inboxes that the message is put into.
    Written(Arc<[TimelineId]>),
    /// Members who draw the message from its conversation.
    Read(Readers),
}

/// Members of a read group.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    /// The members' inboxes, sorted.
    pub(crate) members: Arc<[TimelineId]>,
    /// Home shards of the members.
    pub(crate) shards: Arc<[ShardId]>,
    /// The members who follow the group from this message on.
    pub(crate) begin: Arc<[TimelineId]>,
    /// All members draw the message at once, whether or not they are online.
    pub(crate) at_once: bool,
}

impl From<Arc<[TimelineId]>> for Receivers {
    fn from(inboxes: Arc<[TimelineId]>) -> Receivers {
        Receivers::Written(inboxes)
    }
}

/// Route and receivers of a message to be stored.
pub(crate) struct Audience {
    pub(crate) route: Route,
    pub(crate) receivers: Receivers,
    /// Members of other servers in the group of the message.
    pub(crate) abroad: Option<Abroad>,
}

impl Receivers {
    /// No receivers.
    pub(crate) fn nobody() -> Receivers {
        Receivers::Written([].into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Receivers::Written(inboxes) => inboxes.is_empty(),
            Receivers::Read(readers) => readers.members.is_empty(),
        }
    }
}

/// The operation that a parcel asks of its shard.
#[derive(Clone, Debug, Encoding)]
#[encoding(Write = 0, Begin = 1, Read = 2)]
pub(crate) enum Carriage {
    /// Put the message into these inboxes.
    Write,
    /// These inboxes follow the group from the message on.
    Begin,
    /// Online members draw the message, or all at once. `members` are those of all shards.
    Read { members: Arc<[TimelineId]>, at_once: bool },
}

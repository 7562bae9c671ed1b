//! Receivers of what is distributed: inboxes that it is put into, or members of a group who draw it
//! from its conversation.
//!
//! It knows nobody's place. Invariant: of members who draw, every shard is named that one of them
//! is at home on.

use crate::groups::state::Abroad;
use crate::label::Route;
use model::id::ShardId;
use model::timeline::TimelineId;
use std::sync::Arc;

/// Those for whom something is.
#[derive(Clone, Debug)]
pub(crate) enum Receivers {
    /// It is put into these inboxes.
    Written(Arc<[TimelineId]>),
    /// These members draw it.
    Read(Readers),
}

/// Members of a group that is read.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    /// Their inboxes, sorted.
    pub(crate) members: Arc<[TimelineId]>,
    /// Where these are at home.
    pub(crate) shards: Arc<[ShardId]>,
    /// Those of them who follow from this message on.
    pub(crate) begin: Arc<[TimelineId]>,
    /// All of them draw it at once, whether or not they are here.
    pub(crate) at_once: bool,
}

impl From<Arc<[TimelineId]>> for Receivers {
    fn from(inboxes: Arc<[TimelineId]>) -> Receivers {
        Receivers::Written(inboxes)
    }
}

/// Whom a message concerns that is stored.
pub(crate) struct Audience {
    pub(crate) route: Route,
    pub(crate) receivers: Receivers,
    /// Members of other servers of the group that it is said to.
    pub(crate) abroad: Option<Abroad>,
}

impl Receivers {
    /// Nobody.
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

/// What a parcel has its shard do.
#[derive(Clone, Debug)]
pub(crate) enum Carriage {
    /// Put it into these inboxes.
    Write,
    /// These inboxes follow the group from it on.
    Begin,
    /// Have those members who are here draw it, or all of them at once. They are those of all
    /// shards.
    Read { members: Arc<[TimelineId]>, at_once: bool },
}

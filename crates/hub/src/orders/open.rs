//! An order that is open on a shard: what of it is still to be done, here and at other shards.
//!
//! This file has the state only; `exchange` and `jobs` change it.

use crate::log::durable::order::{Kind, StoredOrder, key};
use base::time::Instant;
use model::id::{MessageId, ShardId};
use model::ports::pushes::DeviceStep;
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A device at which a push came to its end; of a tracked push also one at which it was stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settled {
    /// The device's timeline.
    pub timeline: TimelineId,
    /// Offset of the push's copy in that timeline, if it is to be removed.
    pub seq: Option<Seq>,
    /// Index into [`Ends`](crate::log::durable::order::Ends) of the column to count, if any.
    pub end: Option<usize>,
    /// The line about the device that is to be stored, if the push is tracked.
    pub line: Option<Box<DeviceStep>>,
}

/// Progress of an order on another shard, as the order's owner knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Other {
    /// The order has not been sent to the shard yet.
    Untold,
    /// The shard could not store the order; the order is sent again at this time.
    Refused(Instant),
    /// The order was sent and not answered; it is sent again at this time.
    Told(Instant),
    /// The order was sent more than once without an answer: its commands no longer wait for this
    /// shard.
    Late(Instant),
    /// The shard has stored the order and is at work; it is asked for its progress at this time.
    Taken(Instant),
    /// The shard was asked for its progress and has not answered; it is given up at this time.
    Silent(Instant),
    /// The shard has stored the order but stayed silent for too long: its owner waits no longer.
    GivenUp,
    /// The shard is through with the order.
    Over,
}

/// An order that is open.
pub(crate) struct Open {
    /// The order itself.
    pub order: Arc<StoredOrder>,
    /// The order is on this shard's stable storage.
    pub is_kept: bool,
    /// Commands whose answers wait until every shard has the order.
    pub replies: Vec<u64>,
    /// At the order's owner: the other shards.
    pub others: BTreeMap<u16, Other>,
    /// The order was open before the last start.
    pub is_resumed: bool,
    /// This shard is through and has reported it to the owner; it reports again at this time.
    pub over: Option<Instant>,
    /// At the owner of a change: some other shard knows the push.
    pub is_known: bool,
    /// All shards are through, and the log was asked to store the counts.
    pub is_closing: bool,
    /// The log was asked to store the counts, maybe in vain: from then on a row of counts tells the
    /// ends of devices, because a start passes over rows of devices beside it.
    pub is_counted: bool,
    /// Keys of the order's rows of devices, to be deleted when it closes.
    pub rows: Vec<Box<[u8]>>,
    /// Number of the next row of devices.
    pub next: u32,
    /// Devices that were through with the order before the last start.
    pub before: BTreeSet<TimelineId>,
    /// Of a scheduled order that has started: how many of them had started with it.
    pub start: Option<u64>,
}

impl Open {
    /// Whether the order's commands still have to wait for a shard.
    pub fn is_being_taken(&self) -> bool {
        !self.is_kept || self.others.values().any(|other| matches!(other, Other::Told(_)))
    }

    /// The kind of the next row of devices, whose key is noted.
    pub fn next_row(&mut self, id: MessageId, shard: ShardId) -> Kind {
        let kind = Kind::Through(shard, self.next);
        self.next += 1;
        self.rows.push(key(id, kind));
        kind
    }
}

//! Pending calls to the log: their purposes, until they complete.

use super::cleanup::CleanupTask;
use crate::lists::Claim;
use crate::orders::open::Settled;
use crate::orders::outcomes::PageQuestion;
use crate::registry::queue::Queue;
use crate::registry::rows::Change;
use crate::reports::WaitingReport;
use crate::schedules::{ScheduleChange, ScheduleKey};
use base::slab::Key;
use model::audience::TagExpression;
use model::id::{MessageId, ProductKey, SegmentName};
use model::product::Product;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// Purpose of an open call to the log.
pub(crate) enum PendingCall {
    /// Stores a push for devices.
    Keep(MessageId, Vec<Key>),
    /// Stores an order with an idempotency key.
    Claim(Box<Claim>),
    /// Removes ended pushes.
    Remove(TimelineId, Vec<Seq>),
    /// Deletes a leftover row or timeline.
    Cleanup(Box<CleanupTask>),
    /// Writes a device's row; no answer waits for it.
    Row(Key),
    /// Writes the row of a kicked device; the command is then answered with `was_online`.
    Kicked { reply: u64, key: Key, was_online: bool },
    /// Fetches bodies for a device.
    Pull(Key, Fetch),
    /// Reads a push at this offset, to send it through the device's platform of this number.
    Reach(Key, Seq, usize),
    /// Executes a command of the API.
    Order(Box<Order>),
    /// Stores a Report for webhooks.
    Report(Box<WaitingReport>),
    /// Stores a row of reports about a tracked push; the row has this weight.
    Reports { id: MessageId, reports: Vec<WaitingReport>, weight: u64 },
    /// Raises the bound of epochs to this number.
    Mark(u64),
    /// Stores an order to many.
    Take(MessageId),
    /// Records at which devices an order to many ended; `listed` is the weight of a row of lines.
    Told { id: MessageId, settled: Vec<Settled>, listed: Option<u64> },
    /// Reads lines of a tracked push for a command.
    Page(Box<PageQuestion>),
    /// Records the final counts of an order to many.
    Close(MessageId),
}

const _: () = assert!(size_of::<Queue>() <= 96 && size_of::<PendingCall>() <= 64);

/// Bodies that a device is fetching.
#[derive(Clone, Copy)]
pub(crate) struct Fetch {
    /// Offset of the first body.
    pub first: Seq,
    /// Number of bodies.
    pub count: usize,
}

/// A command of the API that takes effect, and is answered, once it is on stable storage.
pub(crate) struct Order {
    /// The number of the command.
    pub reply: u64,
    /// The change to make.
    pub what: OrderWhat,
}

/// Change that a command of the API makes.
pub(crate) enum OrderWhat {
    /// Make or change a product.
    Put(Arc<Product>),
    /// Remove a product.
    Drop(ProductKey),
    /// Save a segment of a product, or remove it.
    Segment((ProductKey, SegmentName), Option<Arc<TagExpression>>),
    /// Change a schedule of a product.
    Schedule(ScheduleKey, ScheduleChange),
    /// Change a device.
    Change(Key, Change),
}

//! Pending calls to the log: what was asked of it, until it answers.

use super::cleanup::CleanupTask;
use crate::lists::Claim;
use crate::orders::jobs::Settled;
use crate::registry::queue::Queue;
use crate::registry::rows::Change;
use crate::reports::WaitingReport;
use base::slab::Key;
use model::id::{MessageId, ProductKey};
use model::product::Product;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// Call to the log that is not completed: what it was for.
pub(crate) enum PendingCall {
    /// A push waits for devices.
    Keep(MessageId, Vec<Key>),
    /// An order with an idempotency key.
    Claim(Box<Claim>),
    /// Pushes are over.
    Remove(TimelineId, Vec<Seq>),
    /// A row or a timeline has to go.
    Cleanup(Box<CleanupTask>),
    /// A device's row: nobody waits for it.
    Row(Key),
    /// The row of a device that was kicked, to be answered: whether it was online.
    Kicked { reply: u64, key: Key, was_online: bool },
    /// A device is fetching bodies.
    Pull(Key, Fetch),
    /// An order of the API.
    Order(Box<Order>),
    /// A Report that webhooks want.
    Report(Box<WaitingReport>),
    /// Epochs may be so high.
    Mark(u64),
    /// An order to many was taken.
    Take(MessageId),
    /// Of an order to many it is told at whom it came to its end.
    Told(MessageId, Vec<Settled>),
    /// An order to many is over everywhere.
    Close(MessageId),
}

const _: () = assert!(size_of::<Queue>() <= 96 && size_of::<PendingCall>() <= 64);

/// Bodies that a device is fetching.
#[derive(Clone, Copy)]
pub(crate) struct Fetch {
    /// The place of the first.
    pub first: Seq,
    /// How many.
    pub count: usize,
}

/// An order of the API that is carried out, and answered, once it is on stable storage.
pub(crate) struct Order {
    /// The number of the command.
    pub reply: u64,
    /// What is to be done.
    pub what: OrderWhat,
}

/// What an order of the API changes.
pub(crate) enum OrderWhat {
    /// Make or change a product.
    Put(Arc<Product>),
    /// Remove a product.
    Drop(ProductKey),
    /// Change a device.
    Change(Key, Change),
}

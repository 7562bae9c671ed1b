//! What the hub asks of the store: entries that must survive.
//!
//! The hub hands over entries with a ticket and learns of each ticket, in order, whether the entry
//! is on stable storage. At start the store gives back what is still alive.

use crate::id::{DeviceId, MessageId, ProductKey};
use crate::product::Product;
use crate::push::Push;
use std::sync::Arc;

/// Something that must survive a restart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// This push waits for this device.
    Waits {
        /// The push.
        push: Arc<Push>,
        /// Whose device it waits for is in the push; which:
        device: DeviceId,
    },
    /// It waits no more: acknowledged, expired, evicted or collapsed.
    Over {
        /// Whose.
        product: ProductKey,
        /// Which.
        device: DeviceId,
        /// The push.
        id: MessageId,
    },
    /// The product is so from now on.
    Product(Arc<Product>),
    /// The product is gone, and whatever waited for its devices.
    NoProduct(ProductKey),
    /// The device is blocked, or no longer.
    Blocked {
        /// Whose.
        product: ProductKey,
        /// Which.
        device: DeviceId,
        /// From now on.
        blocked: bool,
    },
}

/// Names an entry until its completion. Rises by one within a shard.
pub type Ticket = u64;

/// Why an entry was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The disk, or the limit for it, is full. Space may come back.
    Full,
    /// The disk failed, or may only be read. The store takes nothing more until a restart.
    Failed,
    /// More waits for the disk than may wait. Try again.
    Busy,
}

/// The answer to an entry.
pub type Completion = (Ticket, Result<(), StoreError>);

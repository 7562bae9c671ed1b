//! What a data folder of format 1 held: the store reads it, the hub turns it into writes for a log.
//!
//! Only for the upgrade of such a folder; [`crate::ports::log`] is what took its place.

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

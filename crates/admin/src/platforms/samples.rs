//! Pushes for the tests of platforms.

use model::id::{MessageId, ProductKey};
use model::push::{Priority, Push};

/// A push with no more than a body, which never expires.
pub fn push() -> Push {
    Push {
        id: MessageId(7),
        product: ProductKey::parse("shop").expect("allowed"),
        app_id: 1,
        body: Box::from(*b"hello"),
        collapse: None,
        expire_at: u32::MAX,
        priority: Priority::Normal,
        silent: false,
        notifies: false,
    }
}

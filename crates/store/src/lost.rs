//! Messages that were stored and cannot be read any more, and the callback for them.

use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// A message that cannot be read any more, as the index knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostMessage {
    /// In whose timeline.
    pub timeline: TimelineId,
    /// Its place there.
    pub seq: Seq,
    /// The owner's number.
    pub id: u64,
    /// The owner's label.
    pub label: Box<[u8]>,
}

/// Callback for a message that a read has found to be lost, on the thread that reads; it must not
/// block, and may be called several times for one message.
pub type LostHook = Arc<dyn Fn(LostMessage) + Send + Sync>;

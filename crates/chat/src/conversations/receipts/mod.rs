//! Receipts: how far others have received and read an account's messages.
//!
//! ```text
//! a device acknowledges ─► its home, once a second ─► the sender's home ─► its devices
//! an account has read ─► its inbox and the other's, once a second           (changes.rs)
//! Readers ─► the members, or the partner ─► their homes: positions ─► one page
//! ```
//! No row is stored for receipts: read positions are stored in inboxes, and delivered positions
//! follow from how far an account's devices have acknowledged its inbox, when a client asks.
//! Invariants: a receipt is true, and a client that keeps the highest has a position that never
//! falls; an account that does not share its read positions gets those of no other, and no other
//! gets its own.

pub(crate) mod delivered;
pub(crate) mod paces;
pub(crate) mod positions;
pub(crate) mod privacy;
pub(crate) mod readers;

use crate::conversations::receipts::delivered::DeliveredTold;
use crate::conversations::receipts::paces::Paces;
use crate::conversations::receipts::privacy::Privacy;
use crate::{Chat, Effects};
use base::time::{Instant, Now};

/// The receipts that are under way on a shard.
#[derive(Default)]
pub(crate) struct Receipts {
    pub(crate) privacy: Privacy,
    pub(crate) paces: Paces,
    /// Notices for senders, sent at the next turn.
    untold: Vec<DeliveredTold>,
    /// The number of questions of devices of this shard that are under way.
    asked: usize,
}

impl Chat {
    /// Sends notices of delivery, and carries out paced cursors; returns when to continue.
    pub(crate) fn turn_receipts(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.tell_delivered(now, fx);
        self.turn_paces(now, fx)
    }
}

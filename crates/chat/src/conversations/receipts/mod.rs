//! Receipts: how far others have got what an account said, and read it.
//!
//! ```text
//! a device acknowledges ─► its home, once a second ─► the sender's home ─► its devices
//! an account has read ─► its inbox and the other's, once a second           (changes.rs)
//! Readers ─► who they are ─► their homes: what each knows ─► one page
//! ```
//! No row is made for any of it: what is read stands in inboxes, what is delivered is how far an
//! account's devices have acknowledged theirs, and is worked out when somebody asks. Invariants:
//! what is told is so, and who keeps the highest has a position that never falls; who does not
//! share what it has read is told of nobody, and nobody of it.

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

/// What a shard has under way of receipts.
#[derive(Default)]
pub(crate) struct Receipts {
    pub(crate) privacy: Privacy,
    pub(crate) paces: Paces,
    /// Senders who are to be told at the next turn.
    untold: Vec<DeliveredTold>,
    /// Questions of devices of this shard that are under way.
    asked: usize,
}

impl Chat {
    /// Tells what was delivered, and goes on with what was read; when to come back.
    pub(crate) fn turn_receipts(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.tell_delivered(now, fx);
        self.turn_paces(now, fx)
    }
}

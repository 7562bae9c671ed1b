//! Guests: accounts that nobody has, under names that were made up, for as long as their session
//! is there (SASL ANONYMOUS, RFC 4505).
//!
//! ```text
//! login ─► account's row ─► row of its erasure ─► let in ─► session ends ─► erased
//!                             └─ after a start: erased ─────────────────────┘
//! ```
//! That a guest is to be erased is stored before it is let in, so a kill leaves none behind.
//! Invariant: there are never more than may be, and each has a session, or is being erased.

use crate::log::{Answered, PendingCall};
use crate::sessions::login::is_by;
use crate::{Chat, Effects};
use model::account::AccountAddress;
use model::chat::Login;
use model::ports::access::ANONYMOUS;
use model::ports::log::Call;
use model::session::Denial;
use model::timeline::TimelineId;
use std::collections::HashMap;

/// Guests of this shard, by their inboxes.
pub(crate) type Guests = HashMap<TimelineId, AccountAddress>;

/// Whether somebody comes as a guest.
pub(crate) fn is_guest(login: &Login) -> bool {
    is_by(login, ANONYMOUS)
}

impl Chat {
    /// Why one more guest is not let in, if it is not.
    pub(crate) fn refuses_guest(&self, login: &Login) -> Option<Denial> {
        let shards = u32::from(self.settings.shards.max(1));
        let most = self.settings.limits.chat.guests_max.div_ceil(shards) as usize;
        (is_guest(login) && self.guests.len() >= most).then_some(Denial::Full)
    }

    /// The account of a guest is there: that it is to be erased is stored, before it is let in.
    /// False: somebody has that name.
    pub(crate) fn marks_guest(
        &mut self,
        inbox: TimelineId,
        address: &AccountAddress,
        fx: &mut Effects,
    ) -> bool {
        let is_new = self.guests.insert(inbox, address.clone()).is_none();
        if is_new {
            let write = self.erasures.row_of(inbox, address);
            self.log.ask(PendingCall::GuestMarked(inbox), Call::Write(write), fx);
        }
        is_new
    }

    /// It is stored, or cannot be: then it is not let in, or ends.
    pub(crate) fn guest_marked(&mut self, inbox: TimelineId, result: Answered, fx: &mut Effects) {
        if result.is_err() {
            self.end_all(inbox, fx);
        }
    }

    /// Nobody is there of an account any more: if it was a guest's, it is erased.
    pub(crate) fn leaves_guest(&mut self, inbox: TimelineId) {
        if let Some(address) = self.guests.remove(&inbox) {
            self.erasures.opens(inbox, address);
        }
    }
}

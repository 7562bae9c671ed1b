//! Guests: accounts that nobody has, under names that were made up, for as long as their session
//! is there (SASL ANONYMOUS, RFC 4505).
//!
//! ```text
//! login ─► account's row ─► row of its erasure ─► let in ─► session ends ─► erased
//!                             └─ after a start: erased ─────────────────────┘
//! ```
//! That a guest is to be erased is stored before it is let in, so a kill leaves nothing that it
//! said. Invariant: with those that are being erased there are never more than may be, and each has
//! a session, or is on its way to one.

use crate::accounts::fault_of;
use crate::log::{Answered, PendingCall};
use crate::sessions::login::{LetIn, is_by};
use crate::{Chat, Effects};
use model::account::{AccountAddress, AccountId};
use model::chat::{ChatFault, Login};
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
        // One that is being erased takes room until nothing is left of it.
        let there = self.guests.len() + self.erasures.len();
        (is_guest(login) && there >= most).then_some(Denial::Full)
    }

    /// The account of a guest is there: that it is to be erased is stored, before it is let in.
    pub(crate) fn marks_guest(
        &mut self,
        (let_in, id): (LetIn, AccountId),
        inbox: TimelineId,
        fx: &mut Effects,
    ) {
        let address = let_in.login.account.clone();
        // Others may have come since this one was asked for its name.
        if let Some(why) = self.refuses_guest(&let_in.login) {
            self.erasures.opens(inbox, address);
            return self.turn_away(&let_in.login, let_in.conn, why, fx);
        }
        let write = self.erasures.row_of(inbox, &address);
        if self.guests.insert(inbox, address).is_some() {
            return self.turn_away(&let_in.login, let_in.conn, Denial::Busy, fx);
        }
        let marked = PendingCall::GuestMarked(Box::new((let_in, id)));
        self.log.ask(marked, Call::Write(write), fx);
    }

    /// It is stored, or cannot be: then it is not let in.
    pub(crate) fn guest_marked(
        &mut self,
        (let_in, id): (LetIn, AccountId),
        result: Answered,
        fx: &mut Effects,
    ) {
        let inbox = let_in.login.account.inbox(self.settings.home, id);
        let fault = match result {
            Ok(_) if self.log.may_ask() => return self.looks_where(let_in, (id, inbox), fx),
            Ok(_) => ChatFault::Busy,
            Err(error) => fault_of(error),
        };
        self.leaves_guest(inbox);
        self.give_up(let_in, fault, fx);
    }

    /// Nobody is there of an account any more: if it was a guest's, it is erased.
    pub(crate) fn leaves_guest(&mut self, inbox: TimelineId) {
        if let Some(address) = self.guests.remove(&inbox) {
            self.erasures.opens(inbox, address);
        }
    }
}

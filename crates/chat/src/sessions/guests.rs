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

use crate::Chat;
use crate::accounts::fault_of;
use crate::service::flow::Flow;
use crate::sessions::login::{LetIn, denial_of, is_by};
use model::account::AccountAddress;
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

/// The account of a guest is there: that it is to be erased is stored, before it is let in.
pub(super) async fn mark(flow: &mut Flow, let_in: &LetIn, inbox: TimelineId) -> Result<(), Denial> {
    let (chat, _, _) = flow.state();
    let address = let_in.login.account.clone();
    // Others may have come since this one was asked for its name.
    let refused = match chat.log.may_ask() {
        true => chat.refuses_guest(&let_in.login),
        false => Some(Denial::Busy),
    };
    if let Some(why) = refused {
        chat.erasures.opens(inbox, address);
        return Err(why);
    }
    let write = chat.erasures.row_of(inbox, &address);
    if chat.guests.insert(inbox, address).is_some() {
        return Err(Denial::Busy);
    }
    let marked = flow.log(Call::Write(write)).await;
    let (chat, _, _) = flow.state();
    let fault = match marked {
        Ok(_) if chat.log.may_ask() => return Ok(()),
        Ok(_) => ChatFault::Busy,
        Err(error) => fault_of(error),
    };
    chat.leaves_guest(inbox);
    Err(denial_of(fault))
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

    /// Nobody is there of an account any more: if it was a guest's, it is erased.
    pub(crate) fn leaves_guest(&mut self, inbox: TimelineId) {
        if let Some(address) = self.guests.remove(&inbox) {
            self.erasures.opens(inbox, address);
        }
    }
}

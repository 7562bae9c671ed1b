//! Guests: temporary accounts under generated names, which exist as long as their session (SASL
//! ANONYMOUS, RFC 4505).
//!
//! ```text
//! login ─► account's row ─► row of its erasure ─► session ─► session ends ─► erased
//!                             └─ after a start: erased ──────────────────────┘
//! ```
//! The erasure of a guest is stored before its login, so a crash leaves nothing that it sent.
//! Invariant: guests and running erasures together never exceed the limit, and each guest has a
//! session, or is logging in.

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

/// Whether the login is a guest's.
pub(crate) fn is_guest(login: &Login) -> bool {
    is_by(login, ANONYMOUS)
}

/// Stores the erasure of a guest's account, before its login.
pub(super) async fn mark(flow: &mut Flow, let_in: &LetIn, inbox: TimelineId) -> Result<(), Denial> {
    let (chat, _, _) = flow.state();
    let address = let_in.login.account.clone();
    // Other guests may have come since the login began.
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
    /// The reason why one more guest is refused, if it is.
    pub(crate) fn refuses_guest(&self, login: &Login) -> Option<Denial> {
        let shards = u32::from(self.settings.shards.max(1));
        let most = self.settings.limits.chat.guests_max.div_ceil(shards) as usize;
        // A guest that is being erased occupies a place until nothing of it is left.
        let there = self.guests.len() + self.erasures.len();
        (is_guest(login) && there >= most).then_some(Denial::Full)
    }

    /// Erases an account without sessions, if it was a guest's.
    pub(crate) fn leaves_guest(&mut self, inbox: TimelineId) {
        if let Some(address) = self.guests.remove(&inbox) {
            self.erasures.opens(inbox, address);
        }
    }
}

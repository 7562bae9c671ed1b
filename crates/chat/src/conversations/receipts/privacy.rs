//! Privacy: accounts that hide their read positions from others, and whom an account allows to add
//! it to groups.
//!
//! An account with a privacy setting has a row at its home, which is in memory there from the
//! start; all others share, and the server's setting says who may add them. Invariant: a setting
//! that was answered holds from then on, over restarts too; a cursor that is stored later is sent
//! to others accordingly.

use crate::accounts::fault_of;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::{Chat, Effects};
use model::chat::{
    Adding, ChatDelivery, ChatFault, InboxChange, InboxEvent, PrivacyState, PrivacyWish,
};
use model::id::{ConnRef, SessionRef};
use model::ports::log::{Call, RowHome, Table, Write};
use model::timeline::TimelineId;
use std::collections::{HashMap, HashSet};

/// The value of the row of an account that hides its read positions.
const PRIVATE: u8 = 1;

/// The privacy settings of this shard's accounts, by their inboxes.
#[derive(Default)]
pub(crate) struct Privacy {
    private: HashSet<TimelineId>,
    adding: HashMap<TimelineId, Adding>,
}

/// The names of the rows, in the keys of an account.
const READS: &[u8] = b"reads";
const ADDING: &[u8] = b"adding";

/// The keys of the rows of an account with this inbox.
pub(crate) fn keys_of(inbox: TimelineId) -> [Box<[u8]>; 2] {
    [READS, ADDING].map(|name| RowHome::key_of(inbox, &[name]))
}

impl Privacy {
    /// Forgets the settings of an erased account.
    pub(crate) fn is_erased(&mut self, inbox: TimelineId) {
        self.private.remove(&inbox);
        self.adding.remove(&inbox);
    }

    /// Restores a row of the log.
    pub(crate) fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        match RowHome::parts_of(key) {
            Some((inbox, READS)) if value == [PRIVATE] => {
                self.private.insert(inbox);
            }
            Some((inbox, ADDING)) => {
                let word = std::str::from_utf8(value).ok().and_then(Adding::of);
                let Some(adding) = word else { return false };
                self.adding.insert(inbox, adding);
            }
            _ => return false,
        }
        true
    }
}

/// Sets an account's privacy, and answers with all of its settings.
async fn set(mut flow: Flow, wait: Requester, inbox: TimelineId, wish: PrivacyWish) {
    let stored = store(&mut flow, inbox, wish).await;
    let (chat, _, fx) = flow.state();
    let told = stored.map(|()| chat.privacy_of(inbox));
    chat.tell_privacy(wait, told, fx);
}

/// Stores the settings of a wish. Each holds as soon as it is stored, so memory has what the log
/// has, whatever another device sets meanwhile.
async fn store(flow: &mut Flow, inbox: TimelineId, wish: PrivacyWish) -> Result<(), ChatFault> {
    let ([reads, adding], table) = (keys_of(inbox), Table::ChatApart);
    if let Some(shares) = wish.shares_reads {
        let write = match shares {
            true => Write::Delete { table, key: reads },
            false => Write::Put { table, key: reads, value: [PRIVATE].into() },
        };
        flow.log(Call::Write(write)).await.map_err(fault_of)?;
        let private = &mut flow.state().0.receipts.privacy.private;
        match shares {
            true => _ = private.remove(&inbox),
            false => _ = private.insert(inbox),
        }
    }
    if let Some(it) = wish.adding {
        let write = Write::Put { table, key: adding, value: it.name().as_bytes().into() };
        flow.log(Call::Write(write)).await.map_err(fault_of)?;
        flow.state().0.receipts.privacy.adding.insert(inbox, it);
    }
    Ok(())
}

impl Chat {
    /// Whether an account shares its read positions with others.
    pub(crate) fn shares_reads(&self, inbox: TimelineId) -> bool {
        !self.receipts.privacy.private.contains(&inbox)
    }

    /// Whether an account's devices get an event: read positions of others only if the account
    /// shares its own.
    pub(crate) fn is_told_of(&self, inbox: TimelineId, event: &InboxEvent) -> bool {
        !matches!(event.what, InboxChange::PeerRead(_)) || self.shares_reads(inbox)
    }

    /// Whom an account allows to add it to groups without asking it.
    pub(crate) fn adding_of(&self, inbox: TimelineId) -> Adding {
        let said = self.receipts.privacy.adding.get(&inbox).copied();
        said.unwrap_or(self.settings.adding)
    }

    fn privacy_of(&self, inbox: TimelineId) -> PrivacyState {
        let (shares_reads, adding) = (self.shares_reads(inbox), self.adding_of(inbox));
        PrivacyState { shares_reads, adding }
    }

    /// A device sets its account's privacy, or asks for it.
    pub(crate) fn privacy(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        wish: PrivacyWish,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let inbox = asker.inbox;
        if wish == PrivacyWish::default() {
            return self.tell_privacy(wait, Ok(self.privacy_of(inbox)), fx);
        }
        if !self.log.may_ask() || !self.begin(|flow| set(flow, wait, inbox, wish)) {
            self.tell_privacy(wait, Err(ChatFault::Busy), fx);
        }
    }

    fn tell_privacy(
        &mut self,
        wait: Requester,
        told: Result<PrivacyState, ChatFault>,
        fx: &mut Effects,
    ) {
        let Requester { conn, session, number } = wait;
        let answer = match told {
            Ok(state) => ChatDelivery::Privacy { number, state },
            Err(why) => ChatDelivery::Failed { number, why },
        };
        self.answer_session((conn, session), answer, fx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    #[test]
    fn a_row_is_what_an_account_has_said_and_what_is_no_row_is_refused() {
        let inbox = TimelineId::of(Space::Inbox, HashKey::new(1, 2), &[b"a"]);
        let [reads, adding] = keys_of(inbox);
        let mut privacy = Privacy::default();
        assert!(privacy.restore(&reads, &[PRIVATE]) && privacy.restore(&adding, b"contacts"));
        assert!(privacy.private.contains(&inbox));
        assert_eq!(privacy.adding.get(&inbox), Some(&Adding::Contacts));
        for (key, value) in
            [(&reads[..4], &[PRIVATE][..]), (&reads, &[]), (&reads, &[9]), (&adding, b"whoever")]
        {
            assert!(!privacy.restore(key, value));
        }
        privacy.is_erased(inbox);
        assert!(privacy.private.is_empty() && privacy.adding.is_empty());
    }
}

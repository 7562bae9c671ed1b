//! Who does not let others know what it has read.
//!
//! Such an account has a row at its home, and is known there from the start on; all others share.
//! Invariant: what was answered holds from then on, over restarts too; a cursor that is stored
//! behind it is told accordingly.

use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::waits::Waits;
use crate::{Chat, Effects};
use model::chat::{ChatDelivery, ChatFault, InboxChange, InboxEvent};
use model::id::{ConnRef, SessionRef};
use model::ports::log::{Call, RowHome, Table, Write};
use model::timeline::TimelineId;
use std::collections::HashSet;

/// The value of a row that says that its account keeps what it reads private.
const PRIVATE: u8 = 1;

/// Accounts of this shard that do not share, by their inboxes.
#[derive(Default)]
pub(crate) struct Privacy {
    private: HashSet<TimelineId>,
    setting: Waits<Setting>,
}

/// A setting that is with the log.
struct Setting {
    wait: Requester,
    inbox: TimelineId,
    shares: bool,
}

/// What names its row among those of an account.
const NAME: &[u8] = b"reads";

/// The key of the row of an account with this inbox.
pub(crate) fn key_of(inbox: TimelineId) -> Box<[u8]> {
    RowHome::key_of(inbox, &[NAME])
}

impl Privacy {
    /// Nothing is left of an account.
    pub(crate) fn is_erased(&mut self, inbox: TimelineId) {
        self.private.remove(&inbox);
    }

    /// The log had this when the shard started.
    pub(crate) fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        let is_one = |(_, name): &(TimelineId, &[u8])| *name == NAME && value == [PRIVATE];
        let named = RowHome::parts_of(key).filter(is_one);
        named.map(|(inbox, _)| self.private.insert(inbox)).is_some()
    }
}

impl Chat {
    /// Whether an account lets others know what it has read.
    pub(crate) fn shares_reads(&self, inbox: TimelineId) -> bool {
        !self.receipts.privacy.private.contains(&inbox)
    }

    /// Whether a device of an account is told of what happened: of what others have read only if
    /// the account shares what it has.
    pub(crate) fn is_told_of(&self, inbox: TimelineId, event: &InboxEvent) -> bool {
        !matches!(event.what, InboxChange::PeerRead(_)) || self.shares_reads(inbox)
    }

    /// A device sets, or asks, whether its account shares.
    pub(crate) fn privacy(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        shares_reads: Option<bool>,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let is_so = self.shares_reads(asker.inbox);
        let (inbox, table) = (asker.inbox, Table::ChatApart);
        let Some(shares) = shares_reads else {
            return self.tell_privacy(wait, Ok(is_so), fx);
        };
        if !self.log.may_ask() {
            return self.tell_privacy(wait, Err(ChatFault::Busy), fx);
        }
        let key = key_of(inbox);
        let write = match shares {
            true => Write::Delete { table, key },
            false => Write::Put { table, key, value: [PRIVATE].into() },
        };
        let number = self.receipts.privacy.setting.put(Setting { wait, inbox, shares });
        self.log.ask(PendingCall::Privacy(number), Call::Write(write), fx);
    }

    /// The log has it, or not.
    pub(crate) fn privacy_set(&mut self, number: u64, result: Answered, fx: &mut Effects) {
        let Privacy { private, setting } = &mut self.receipts.privacy;
        let Some(Setting { wait, inbox, shares }) = setting.take(number) else { return };
        let told = result.map(|_| shares).map_err(crate::accounts::fault_of);
        match told {
            Ok(true) => _ = private.remove(&inbox),
            Ok(false) => _ = private.insert(inbox),
            Err(_) => {}
        }
        self.tell_privacy(wait, told, fx);
    }

    fn tell_privacy(&mut self, wait: Requester, told: Result<bool, ChatFault>, fx: &mut Effects) {
        let Requester { conn, session, number } = wait;
        let answer = match told {
            Ok(shares_reads) => ChatDelivery::Privacy { number, shares_reads },
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
    fn a_row_is_an_account_that_does_not_share_and_what_is_no_row_is_refused() {
        let inbox = TimelineId::of(Space::Inbox, HashKey::new(1, 2), &[b"a"]);
        let key = key_of(inbox);
        let mut privacy = Privacy::default();
        assert!(privacy.restore(&key, &[PRIVATE]));
        assert!(privacy.private.contains(&inbox));
        for (key, value) in [(&key[..4], &[PRIVATE][..]), (&key, &[]), (&key, &[9])] {
            assert!(!privacy.restore(key, value));
        }
    }
}

//! What one of two wants of the other that is no message: a block holds for it, too.
//!
//! ```text
//! Read, Readers ─► the other is found ─► the account's ties ─► asked as ever
//!                                                   └ one has blocked the other: refused, or, of
//!                                                     what it has read itself, told to nobody else
//! ```
//! It knows nothing of what is asked. Invariant: what an account asks of another goes on, or is
//! answered, once.

use crate::conversations::changes::Asked;
use crate::conversations::receipts::readers::ReadersWanted;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::ChatFault;
use model::counters::ChatCounter;
use model::timeline::TimelineId;

/// What is wanted of a conversation with another.
pub(crate) enum Reaching {
    /// It has read what the other said, who is to know it.
    Read(Asked),
    /// How far is the other?
    Readers(ReadersWanted),
}

impl Reaching {
    /// What one costs in memory, bytes, roughly.
    pub(crate) const WEIGHT: usize = size_of::<Reaching>() + size_of::<AccountAddress>();
}

impl Chat {
    /// An account wants something of another, who has this inbox.
    pub(crate) fn reach(
        &mut self,
        now: Now,
        (inbox, address): (TimelineId, &AccountAddress),
        (reaching, to): (Reaching, (AccountAddress, TimelineId)),
        fx: &mut Effects,
    ) {
        // Nobody blocks itself.
        if to.1 == inbox {
            return self.reached_other(now, (reaching, to), fx);
        }
        self.outbox.takes(Reaching::WEIGHT);
        let task = super::Task::Reach(Box::new(reaching), Box::new(to));
        self.for_person(now, (inbox, address), task, fx);
    }

    /// What the account has of the other is known.
    pub(super) fn reaches_other(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (reaching, to): (Reaching, (AccountAddress, TimelineId)),
        fx: &mut Effects,
    ) {
        let Some(fault) = self.is_barred(inbox, (&to.0, to.1)) else {
            return self.reached_other(now, (reaching, to), fx);
        };
        match reaching {
            // Its own devices are to know it.
            Reaching::Read(asked) => self.ask_of_other(now, asked, (&to.0, to.1), false, fx),
            reaching => {
                fx.counters.count(ChatCounter::BlockedSends);
                self.refuse_reaching(reaching, fault, fx);
            }
        }
    }

    fn reached_other(
        &mut self,
        now: Now,
        (reaching, (with, to)): (Reaching, (AccountAddress, TimelineId)),
        fx: &mut Effects,
    ) {
        match reaching {
            Reaching::Read(asked) => self.ask_of_other(now, asked, (&with, to), true, fx),
            Reaching::Readers(wanted) => self.readers_of_other(now, wanted, (&with, to), fx),
        }
    }

    /// It is not asked.
    pub(super) fn refuse_reaching(
        &mut self,
        reaching: Reaching,
        fault: ChatFault,
        fx: &mut Effects,
    ) {
        match reaching {
            Reaching::Read(asked) => self.refuse_asked(asked, fault, fx),
            Reaching::Readers(wanted) => self.refuse_readers(wanted, fault, fx),
        }
    }
}

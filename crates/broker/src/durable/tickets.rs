//! Pending calls to the log: what was asked of it, until it answers.
//!
//! Every call bears a ticket, every ticket holds a pending call: what is to happen when the call is
//! completed. The log completes every ticket once.

use super::retaining::Retaining;
use crate::Broker;
use crate::effects::Effects;
use crate::message::keep::Kept;
use crate::session::connect::Welcome;
use base::never;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::ports::log::{Call, Completion, StoreError, Ticket, Write};
use std::collections::VecDeque;

/// Call to the log that is not completed: what it was for.
pub(crate) enum PendingCall {
    /// A message stands in the timelines of sessions.
    Kept(Box<Kept>),
    /// Something that an answer waits for.
    Counted(Key),
    /// The mark that a packet identifier of QoS 2 is taken: session, identifier, wait.
    Marked(Key, u16, Key),
    /// That the client has a message of QoS 2.
    Released(Key, u16),
    /// That the client has released its own: session, identifier.
    Unmarked(Key, u16),
    /// A new durable session's row, or that of a will.
    Welcome(Box<Welcome>),
    /// The row of a subscription: the answer that waits, and which of its results.
    Granted(Key, usize),
    /// A page of bodies, beginning with this place.
    Bodies(Key, u64),
    /// A page of what is given to other members of groups, beginning with this place.
    Given(Key, u64),
    /// The row of a topic's retained message, which an answer waits for.
    Retaining(Box<Retaining>),
    /// The row of a topic's retained message; refused, it is written as it is by then.
    Retained(Box<str>),
    /// Something nobody waits for; refused, it is tried again.
    Retry(Box<Write>),
}

/// Tickets given and not completed.
#[derive(Default)]
pub(crate) struct Tickets {
    first: Ticket,
    open: VecDeque<Option<PendingCall>>,
    len: usize,
}

impl Tickets {
    /// Calls that may wait for the log; beyond, what needs it is refused as Busy.
    pub const MAX: usize = 262_144;

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn have_room(&self) -> bool {
        self.len < Tickets::MAX
    }

    /// Whether fewer than so many calls wait.
    pub fn have_room_for(&self, most: usize) -> bool {
        self.len < most
    }

    fn give(&mut self, pending: PendingCall) -> Ticket {
        self.len += 1;
        self.open.push_back(Some(pending));
        self.first + self.open.len() as Ticket - 1
    }

    fn take(&mut self, ticket: Ticket) -> Option<PendingCall> {
        let at = usize::try_from(ticket.checked_sub(self.first)?).ok()?;
        let pending = self.open.get_mut(at)?.take()?;
        self.len -= 1;
        while matches!(self.open.front(), Some(None)) {
            self.open.pop_front();
            self.first += 1;
        }
        Some(pending)
    }
}

impl Broker {
    /// Hands a call to the log.
    pub(crate) fn ask_log(&mut self, pending: PendingCall, call: Call, fx: &mut Effects) {
        let ticket = self.tickets.give(pending);
        fx.calls.push((ticket, call));
    }

    /// The log has completed a call.
    pub fn complete(&mut self, now: Now, completion: Completion, fx: &mut Effects) {
        self.units.begin();
        let (ticket, result) = completion;
        let pending = self.tickets.take(ticket);
        if never!(pending.is_none(), "ticket {ticket} was completed twice or never given") {
            return;
        }
        let Some(pending) = pending else { return };
        if result.is_err() {
            fx.counters.count(Counter::StoreFailures);
        }
        self.log_failed |= result == Err(StoreError::Failed);
        match pending {
            PendingCall::Kept(kept) => self.kept(now, *kept, result, fx),
            PendingCall::Counted(wait) => {
                let result = result.map(|_| ()).map_err(crate::message::waits::denial);
                self.arrived(now, wait, result, fx);
            }
            PendingCall::Marked(key, id, wait) => self.marked(now, (key, id, wait), result, fx),
            PendingCall::Released(key, id) => self.release_written(now, (key, id), result, fx),
            PendingCall::Unmarked(key, id) => self.unmarked(now, (key, id), result, fx),
            PendingCall::Welcome(welcome) => {
                self.welcome_written(now, *welcome, result.is_ok(), fx)
            }
            PendingCall::Granted(granting, at) => {
                let result = result.map(|_| ()).map_err(crate::message::waits::denial);
                self.granted(now, (granting, at), result, fx);
            }
            PendingCall::Bodies(key, seq) => self.bodies_came(now, (key, seq), result, fx),
            PendingCall::Given(key, seq) => self.given_came(now, (key, seq), result, fx),
            PendingCall::Retaining(retaining) => {
                self.retained_answered(now, *retaining, result, fx)
            }
            PendingCall::Retained(topic) => self.retained_written(now, topic, result, fx),
            PendingCall::Retry(write) => self.retry_write_done(now, *write, result, fx),
        }
    }
}

const _: () = assert!(size_of::<PendingCall>() <= 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_is_kept_once_whatever_the_order() {
        let mut tickets = Tickets::default();
        let pending = |n: u32| PendingCall::Retained(n.to_string().into());
        let given: Vec<Ticket> = (0..4).map(|n| tickets.give(pending(n))).collect();
        assert_eq!((&given[..], tickets.len()), (&[0, 1, 2, 3][..], 4));
        for (at, left) in [(2, 3), (0, 2), (1, 1), (3, 0)] {
            let name = match tickets.take(given[at]) {
                Some(PendingCall::Retained(name)) => name,
                _ => panic!("{at} was promised"),
            };
            assert_eq!((&*name, tickets.len()), (&*at.to_string(), left));
            assert!(tickets.take(given[at]).is_none(), "{at} again");
        }
        assert!(tickets.take(4).is_none() && tickets.open.is_empty());
        assert_eq!(tickets.give(pending(9)), 4, "no number is given twice");
    }

    #[test]
    fn so_many_calls_wait() {
        let of = |len: usize| Tickets { len, ..Tickets::default() };
        assert!(of(Tickets::MAX - 1).have_room() && !of(Tickets::MAX).have_room());
        assert!(of(9).have_room_for(10) && !of(10).have_room_for(10));
    }
}

//! Pending calls to the log: what was asked of it, until it answers.
//!
//! Every call bears a ticket, every ticket holds a pending call: what is to happen when the call is
//! completed. The log completes every ticket once.

use super::retaining::Retaining;
use crate::Broker;
use crate::Effects;
use crate::message::keep::Kept;
use crate::session::connect::Welcome;
use base::never;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::ports::calls;
use model::ports::log::{Call, Completion, StoreError, Write};

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
pub(crate) type Tickets = calls::Tickets<PendingCall>;

/// Calls that may wait for the log; beyond, what needs it is refused as Busy.
pub(crate) const CALLS_MAX: usize = 262_144;

impl Broker {
    /// Whether another call may wait for the log.
    pub(crate) fn may_ask_log(&self) -> bool {
        self.tickets.len() < CALLS_MAX
    }

    /// Whether so few calls wait for the log that work which asks much of it may go on.
    pub(crate) fn log_is_easy(&self) -> bool {
        self.tickets.len() < CALLS_MAX / 2
    }

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
    use crate::session::made::broker;
    use model::ports::log::{Read, Table};

    #[test]
    fn so_many_calls_wait() {
        let (mut broker, mut fx) = (broker(|_| {}), Effects::default());
        let mut ask = |count: usize| {
            for _ in 0..count {
                let (pending, read) = (
                    PendingCall::Retained("t".into()),
                    Read::Row { table: Table::Retained, key: Box::default() },
                );
                broker.ask_log(pending, Call::Read(read), &mut fx);
            }
            (broker.log_is_easy(), broker.may_ask_log())
        };
        assert_eq!(ask(CALLS_MAX / 2 - 1), (true, true));
        assert_eq!(ask(1), (false, true));
        assert_eq!(ask(CALLS_MAX / 2 - 1), (false, true));
        assert_eq!(ask(1), (false, false));
    }
}

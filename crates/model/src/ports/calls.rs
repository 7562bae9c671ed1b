//! A service's calls to the log: tickets that remember the purpose of each, and retries of writes.
//!
//! A service hands out calls and remembers under each ticket the step to take when it is completed
//! ([`Tickets`]), and whether the log has failed for good. A refused write for which no answer
//! waits is retried after a pause ([`RetryQueue`]).

use crate::ports::log::{Call, Done, StoreError, Ticket};
use crate::service::{Effects, Service};
use base::never;
use base::time::{Instant, Now};
use std::collections::VecDeque;
use std::time::Duration;

/// Calls given to the log and not completed, with what each is for. A number is given once.
#[derive(Debug)]
pub struct Tickets<P> {
    /// The ticket of the first of `open`.
    first: Ticket,
    open: VecDeque<Option<P>>,
    len: usize,
    has_failed: bool,
}

impl<P> Default for Tickets<P> {
    fn default() -> Self {
        Tickets { first: 0, open: VecDeque::new(), len: 0, has_failed: false }
    }
}

impl<P> Tickets<P> {
    /// How many are not completed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether all are completed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the log takes nothing more until a restart.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The number of the next.
    pub fn next(&self) -> Ticket {
        self.first + self.open.len() as Ticket
    }

    /// All below this one are completed.
    pub fn completed_below(&self) -> Ticket {
        self.first
    }

    /// Hands the log a call: the last in its lane.
    pub fn ask<S: Service>(&mut self, pending: P, call: Call, fx: &mut Effects<S>) {
        let ticket = self.give(pending);
        fx.calls.push((ticket, call));
    }

    /// The log has completed a call: what it was for.
    pub fn completed(&mut self, ticket: Ticket, result: &Result<Done, StoreError>) -> Option<P> {
        let pending = self.take(ticket);
        never!(pending.is_none(), "ticket {ticket} was completed twice or never given");
        self.has_failed |= *result == Err(StoreError::Failed);
        pending
    }

    /// A ticket for a call.
    fn give(&mut self, pending: P) -> Ticket {
        let ticket = self.next();
        self.len += 1;
        self.open.push_back(Some(pending));
        ticket
    }

    /// Takes the purpose of a completed ticket; `None`: it was completed before, or never given.
    fn take(&mut self, ticket: Ticket) -> Option<P> {
        let pending = self.open.get_mut(self.place(ticket)?)?.take()?;
        self.len -= 1;
        while matches!(self.open.front(), Some(None)) {
            self.open.pop_front();
            self.first += 1;
        }
        Some(pending)
    }

    /// The purpose of an open ticket, for additions before the call is carried out.
    pub fn at_mut(&mut self, ticket: Ticket) -> Option<&mut P> {
        let place = self.place(ticket)?;
        self.open.get_mut(place)?.as_mut()
    }

    /// Purposes of all of them.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.open.iter().flatten()
    }

    fn place(&self, ticket: Ticket) -> Option<usize> {
        usize::try_from(ticket.checked_sub(self.first)?).ok()
    }
}

/// Refused writes for which no answer waits, in order.
#[derive(Debug)]
pub struct RetryQueue<T> {
    waiting: VecDeque<T>,
    due: Instant,
}

/// Work that may wait to be asked for again, a service and shard. One more is left to the next
/// start.
pub const RETRIES_MAX: usize = 65_536;

/// Work asked for again in one turn.
pub const RETRIES_A_TURN_MAX: usize = 256;

/// How long a refusal of the log is taken to last.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl<T> Default for RetryQueue<T> {
    fn default() -> Self {
        RetryQueue { waiting: VecDeque::new(), due: Instant::default() }
    }
}

impl<T> RetryQueue<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Queues work behind the rest. False if the queue is full.
    pub fn put(&mut self, work: T) -> bool {
        let has_room = self.waiting.len() < RETRIES_MAX;
        if has_room {
            self.waiting.push_back(work);
        }
        has_room
    }

    /// The log refused something now: nothing is asked of it for a while.
    pub fn pause(&mut self, now: Now) {
        self.due = now.after(RETRY_PAUSE);
    }

    /// Whether it is time to ask again; else when.
    pub fn is_due(&self, now: Now) -> Result<(), Instant> {
        if now.mono < self.due { Err(self.due) } else { Ok(()) }
    }

    /// The waiting work, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter()
    }

    /// The next, to be asked for.
    pub fn take(&mut self) -> Option<T> {
        self.waiting.pop_front()
    }
}

/// Whether what the log refused with this may be taken later. Else it takes nothing until a
/// restart, or never takes this.
pub fn may_be_taken_later(error: StoreError) -> bool {
    matches!(error, StoreError::Busy | StoreError::Full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_ticket_is_for_is_kept_once_whatever_the_order() {
        let mut tickets = Tickets::default();
        let given: Vec<Ticket> = (0..4).map(|n| tickets.give(n)).collect();
        assert_eq!((&given[..], tickets.len()), (&[0, 1, 2, 3][..], 4));
        assert_eq!((tickets.completed_below(), tickets.next()), (0, 4));
        *tickets.at_mut(1).expect("it is open") += 10;
        assert_eq!(tickets.iter().collect::<Vec<_>>(), [&0, &11, &2, &3]);
        for (at, pending, left) in [(2, 2, 3), (0, 0, 2), (1, 11, 1), (3, 3, 0)] {
            assert_eq!((tickets.take(given[at]), tickets.len()), (Some(pending), left));
            assert!(tickets.take(given[at]).is_none(), "{at} again");
            assert!(tickets.at_mut(given[at]).is_none(), "{at} is over");
        }
        assert!(tickets.take(4).is_none() && tickets.is_empty() && tickets.open.is_empty());
        assert_eq!((tickets.completed_below(), tickets.next()), (4, 4));
        assert_eq!(tickets.give(9), 4, "no number is given twice");
        assert!(tickets.completed(4, &Err(StoreError::Full)) == Some(9) && !tickets.has_failed());
        tickets.give(10);
        assert_eq!(tickets.completed(5, &Err(StoreError::Failed)), Some(10));
        assert!(tickets.has_failed());
    }

    #[test]
    fn so_much_waits_to_be_asked_for_again_and_not_before_its_time() {
        let (mut retries, now) = (RetryQueue::default(), Now::default());
        assert!(retries.is_empty() && retries.is_due(now).is_ok());
        for n in 0..RETRIES_MAX {
            assert!(retries.put(n));
        }
        assert!(!retries.put(RETRIES_MAX));
        retries.pause(now);
        let due = now.after(RETRY_PAUSE);
        assert_eq!(retries.is_due(now), Err(due));
        assert_eq!(retries.is_due(Now::new(due, 0)), Ok(()));
        assert_eq!((retries.take(), retries.take(), retries.len()), (Some(0), Some(1), 65_534));
    }

    #[test]
    fn what_may_pass_is_taken_later() {
        let later = [StoreError::Full, StoreError::Busy];
        let never = [StoreError::Failed, StoreError::Conflict, StoreError::TooLarge];
        assert!(later.into_iter().all(may_be_taken_later));
        assert!(!never.into_iter().chain([StoreError::Damaged]).any(may_be_taken_later));
    }
}

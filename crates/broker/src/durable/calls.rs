//! Calls to the log: what was asked of it and is not completed, what it is asked again, and what
//! is over and leaves it.
//!
//! Every call bears a ticket, every ticket holds a pending call: what is to happen when the call is
//! completed. The log completes every ticket once. A write that nobody waits for and that was
//! refused is asked for again after a pause: a refusal is no reason to forget one. Messages that
//! are over are removed in batches, one call a session and turn.

use crate::Effects;
use crate::message::keep::Kept;
use crate::message::retain::Retaining;
use crate::session::admissions::Welcome;
use crate::session::record::{EntryRef, Exchange};
use base::never;
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::ProcessCounter;
use model::ports::calls::{self, RETRIES_MAX, RETRY_PAUSE, RetryQueue, may_be_taken_later};
use model::ports::log::{Call, Done, REMOVE_SEQS_MAX, StoreError, Table, Ticket, Write};
use model::timeline::{Seq, TimelineId};
use std::collections::BTreeSet;

/// Calls that may wait for the log; beyond, what needs it is refused as Busy.
pub(crate) const CALLS_MAX: usize = 262_144;

/// Call to the log that is not completed: what it was for.
pub(crate) enum PendingCall {
    /// A message stands in the timelines of sessions.
    Kept(Box<Kept>),
    /// Something that an answer waits for.
    Counted(Key),
    /// The mark that a packet identifier of QoS 2 is taken, and the wait for it.
    Marked(Exchange, Key),
    /// That the client has a message of QoS 2.
    Released(Exchange),
    /// That the client has released its own.
    Unmarked(Exchange),
    /// A new durable session's row, or that of a will.
    Welcome(Box<Welcome>),
    /// The row of a subscription: the answer that waits, and which of its results.
    Granted(Key, usize),
    /// A page of bodies, beginning with this place.
    Bodies(EntryRef),
    /// A page of what is given to other members of groups, beginning with this place.
    Given(EntryRef),
    /// The row of a topic's retained message, which an answer waits for.
    Retaining(Box<Retaining>),
    /// The row of a topic's retained message; refused, it is written as it is by then.
    Retained(Box<str>),
    /// Something nobody waits for; refused, it is tried again.
    Retry(Box<Write>),
}

const _: () = assert!(size_of::<PendingCall>() <= 40);

/// Something that the log refused, and is asked for again.
pub(crate) enum Retry {
    /// A row, or what becomes of a timeline: no more than [`RETRIES_MAX`] of these and the next.
    Write(Write),
    /// The row of a topic's retained message.
    Retained(Box<str>),
    /// The removal of a released packet identifier's mark, for which its client waits: no more
    /// than clients have in use.
    Unmark(Exchange),
    /// The mark of a message that a client has: no more than are on the way to clients.
    Received(Exchange),
}

/// The calls of a shard.
#[derive(Default)]
pub(crate) struct LogCalls {
    tickets: calls::Tickets<PendingCall>,
    writes: RetryQueue<Write>,
    topics: BTreeSet<Box<str>>,
    unmarks: Vec<Exchange>,
    received: Vec<Exchange>,
    /// Sessions whose bodies could not be read, and when it is tried again.
    pulls: Vec<(Instant, Key)>,
    /// Places that are over.
    over: Vec<EntryRef>,
}

impl LogCalls {
    /// Whether another call may wait for the log.
    pub fn may_ask(&self) -> bool {
        self.tickets.len() < CALLS_MAX
    }

    /// Whether so few calls wait for the log that work which asks much of it may go on.
    pub fn is_easy(&self) -> bool {
        self.tickets.len() < CALLS_MAX / 2
    }

    /// Whether the log takes nothing any more.
    pub fn has_failed(&self) -> bool {
        self.tickets.has_failed()
    }

    /// Calls that are not completed, writes that are asked for again, removals.
    pub fn unsettled(&self) -> usize {
        self.tickets.len() + self.retries() + self.over.len()
    }

    /// Hands a call to the log.
    pub fn ask(&mut self, pending: PendingCall, call: Call, fx: &mut Effects) {
        self.tickets.ask(pending, call, fx);
    }

    /// Has the log write something that nobody waits for.
    pub fn write(&mut self, write: Write, fx: &mut Effects) {
        if !self.has_failed() {
            self.ask(PendingCall::Retry(Box::new(write.clone())), Call::Write(write), fx);
        }
    }

    /// Has the log write a row that nobody waits for.
    pub fn put(&mut self, table: Table, key: Box<[u8]>, value: Box<[u8]>, fx: &mut Effects) {
        self.write(Write::Put { table, key, value }, fx);
    }

    /// Has the log delete a row; nobody waits for it.
    pub fn delete(&mut self, table: Table, key: Box<[u8]>, fx: &mut Effects) {
        self.write(Write::Delete { table, key }, fx);
    }

    /// A session's entry is over: it leaves the log, if it is there.
    pub fn remove(&mut self, session: Key, seq: Seq) {
        if seq != 0 {
            self.over.push(EntryRef { session, seq });
        }
    }

    /// The log has completed a call: what it was for.
    pub fn completed(
        &mut self,
        ticket: Ticket,
        result: &Result<Done, StoreError>,
        fx: &mut Effects,
    ) -> Option<PendingCall> {
        let pending = self.tickets.completed(ticket, result)?;
        if result.is_err() {
            fx.counters.count(ProcessCounter::StoreFailures);
        }
        Some(pending)
    }

    /// Something that nobody waits for was answered. Refused, it is asked for again, or given up
    /// and counted.
    pub fn settle(
        &mut self,
        now: Now,
        retry: Retry,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        match result {
            Ok(_) => {}
            Err(error) if may_be_taken_later(error) && self.retries() < RETRIES_MAX => {
                self.again(now, retry);
            }
            Err(_) => fx.counters.count(ProcessCounter::RemovalsGivenUp),
        }
    }

    /// Something is asked for again after a pause.
    pub fn again(&mut self, now: Now, retry: Retry) {
        self.writes.pause(now);
        match retry {
            Retry::Write(write) => {
                let has_room = self.writes.put(write);
                never!(!has_room, "all of them together have room");
            }
            Retry::Retained(topic) => _ = self.topics.insert(topic),
            Retry::Unmark(exchange) => self.unmarks.push(exchange),
            Retry::Received(exchange) => self.received.push(exchange),
        }
    }

    /// Writes that were refused and are asked for again.
    pub fn retries(&self) -> usize {
        self.writes.len() + self.topics.len() + self.unmarks.len() + self.received.len()
    }

    /// Whether it is time to ask again; or when.
    pub fn is_due(&self, now: Now) -> Result<(), Instant> {
        self.writes.is_due(now)
    }

    /// All exchanges whose marks are asked for again.
    pub fn take_marks(&mut self) -> impl Iterator<Item = Retry> + use<> {
        let unmarks = std::mem::take(&mut self.unmarks).into_iter().map(Retry::Unmark);
        unmarks.chain(std::mem::take(&mut self.received).into_iter().map(Retry::Received))
    }

    /// A topic whose row is asked for again.
    pub fn take_topic(&mut self) -> Option<Box<str>> {
        self.topics.pop_first()
    }

    /// A write that is asked for again.
    pub fn take_write(&mut self) -> Option<Write> {
        self.writes.take()
    }

    /// A session's bodies could not be read: it is tried again after a pause.
    pub fn pull_again(&mut self, now: Now, session: Key) {
        self.pulls.push((now.after(RETRY_PAUSE), session));
    }

    /// Sessions for which it is time to try again.
    pub fn take_pulls(&mut self, now: Now) -> impl Iterator<Item = Key> + use<> {
        let due = self.pulls.extract_if(.., |(at, _)| *at <= now.mono);
        due.map(|(_, session)| session).collect::<Vec<_>>().into_iter()
    }

    /// When the next is due.
    pub fn next_pull(&self) -> Option<Instant> {
        self.pulls.iter().map(|(at, _)| *at).min()
    }

    /// Has the log remove what is over. `timeline_of`: a session's timeline; what was a session's
    /// that is gone was forgotten with it.
    pub fn remove_over(
        &mut self,
        timeline_of: impl Fn(Key) -> Option<TimelineId>,
        fx: &mut Effects,
    ) {
        if self.over.is_empty() {
            return;
        }
        let mut over = std::mem::take(&mut self.over);
        over.sort_unstable();
        for of_one in over.chunk_by(|a, b| a.session == b.session) {
            let Some(timeline) = timeline_of(of_one[0].session) else { continue };
            for some in of_one.chunks(REMOVE_SEQS_MAX) {
                let seqs = some.iter().map(|entry| entry.seq).collect();
                self.write(Write::Remove { timeline, seqs }, fx);
            }
        }
        over.clear();
        self.over = over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::NOW;
    use model::ports::log::Read;

    #[test]
    fn so_many_calls_wait() {
        let (mut log, mut fx) = (LogCalls::default(), Effects::default());
        let mut ask = |count: usize| {
            for _ in 0..count {
                let read = Read::Row { table: Table::Retained, key: Box::default() };
                log.ask(PendingCall::Retained("t".into()), Call::Read(read), &mut fx);
            }
            (log.is_easy(), log.may_ask())
        };
        assert_eq!(ask(CALLS_MAX / 2 - 1), (true, true));
        assert_eq!(ask(1), (false, true));
        assert_eq!(ask(CALLS_MAX / 2 - 1), (false, true));
        assert_eq!(ask(1), (false, false));
    }

    #[test]
    fn so_many_writes_wait_and_one_more_is_left_to_the_next_start() {
        let (mut log, mut fx) = (LogCalls::default(), Effects::default());
        let write = || Retry::Write(Write::Delete { table: Table::Wills, key: Box::default() });
        let topic = |topic: &str| Retry::Retained(topic.into());
        let given_up = |fx: &Effects| fx.counters.of(ProcessCounter::RemovalsGivenUp);
        for n in 1..RETRIES_MAX {
            let why = if n % 2 == 0 { StoreError::Busy } else { StoreError::Full };
            log.settle(NOW, write(), Err(why), &mut fx);
        }
        log.settle(NOW, topic("t"), Err(StoreError::Busy), &mut fx);
        assert_eq!((log.retries(), given_up(&fx)), (RETRIES_MAX, 0));
        log.settle(NOW, write(), Err(StoreError::Busy), &mut fx);
        log.settle(NOW, topic("u"), Err(StoreError::Full), &mut fx);
        assert_eq!((log.retries(), given_up(&fx)), (RETRIES_MAX, 2));
    }

    #[test]
    fn what_is_over_leaves_the_log_in_one_call_a_session() {
        let (mut log, mut fx) = (LogCalls::default(), Effects::default());
        let key = |slot: u32| Key { slot, generation: 0 };
        for (slot, seq) in [(1, 7), (2, 3), (1, 5), (3, 1), (1, 0)] {
            log.remove(key(slot), seq);
        }
        let timelines = [1, 2].map(|slot| {
            crate::durable::entries::timeline_of(
                crate::session::made::HOME,
                if slot == 1 { "a" } else { "b" },
            )
        });
        let of = |key: Key| timelines.get(key.slot as usize - 1).copied();
        log.remove_over(of, &mut fx);
        let removed: Vec<_> = fx.calls.drain(..).map(|(_, call)| call).collect();
        let remove = |at: usize, seqs: &[Seq]| {
            Call::Write(Write::Remove { timeline: timelines[at], seqs: seqs.to_vec() })
        };
        assert_eq!(removed, [remove(0, &[5, 7]), remove(1, &[3])], "the third is gone");
    }
}

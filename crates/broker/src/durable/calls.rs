//! Calls to the log: open ones, retries, and removals of messages that ended.
//!
//! Every call bears a ticket, every ticket holds a pending call: what to do when the call
//! completes. The log completes every ticket once. A refused write for which no answer waits is
//! retried after a pause. Ended messages are removed in batches, one call per session and turn.

use crate::Effects;
use crate::message::delayed::Delay;
use crate::message::keep::Kept;
use crate::message::retain::Retaining;
use crate::session::admissions::Welcome;
use crate::session::inbound::Marker;
use crate::session::record::{EntryRef, Exchange};
use base::never;
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::ProcessCounter;
use model::ports::calls::{self, RETRIES_MAX, RETRY_PAUSE, RetryQueue, may_be_taken_later};
use model::ports::log::{Call, Done, REMOVE_SEQS_MAX, StoreError, Table, Ticket, Write};
use model::timeline::{Seq, Space, TimelineId};
use std::collections::BTreeSet;

/// Calls that may wait for the log; beyond, what needs it is refused as Busy.
pub(crate) const CALLS_MAX: usize = 262_144;

/// Call to the log that is not completed: what it was for.
pub(crate) enum PendingCall {
    /// A message stands in the timelines of sessions.
    Kept(Box<Kept>),
    /// The row of a delayed message.
    Delayed(Box<Delay>),
    /// The mark that a packet identifier of QoS 2 is taken, and the wait for it.
    Marked(Exchange, Key),
    /// The mark that a message of QoS 2 is wherever it has to be.
    Taken(Exchange),
    /// That the client has a message of QoS 2.
    Released(Exchange),
    /// That the client has released its own.
    Unmarked(Exchange),
    /// A new durable session's row, or that of a will.
    Welcome(Box<Welcome>),
    /// The row of a subscription: the answer that waits, and which of its results.
    Granted(Key, usize),
    /// A page of queued messages.
    Page(PageRef),
    /// A page of messages that a session hands over to other members of its groups, by its number.
    Given(Key, u64),
    /// A page of a session's queued messages, to find expired ones.
    Swept(PageRef),
    /// Whether a message stands at a place that is doubtful.
    Doubt(EntryRef),
    /// The removal of finished entries.
    Removed(Box<Removal>),
    /// The row of a topic's retained message, which an answer waits for.
    Retaining(Box<Retaining>),
    /// The row of a topic's retained message; refused, it is written as it is by then.
    Retained(Box<str>),
    /// Write that no answer waits for; if refused, it is tried again.
    Retry(Box<Write>),
}

const _: () = assert!(size_of::<PendingCall>() <= 40);

/// A page of a session's timeline that the log is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageRef {
    pub session: Key,
    /// Place behind which the page begins.
    pub from: Seq,
    /// The last place that was taken when it was asked for, as far as it was known.
    pub upto: Seq,
}

/// Finished entries of a session that are to be removed from its timelines.
pub(crate) struct Removal {
    pub session: Key,
    timeline: TimelineId,
    pub seqs: Vec<Seq>,
    /// Marks that say that the client has them. They leave when the messages have: one that left
    /// first would have its message sent once more.
    pub marks: Vec<Seq>,
}

/// Call to be made again because the log refused it.
pub(crate) enum Retry {
    /// A row, or a change of a timeline: at most [`RETRIES_MAX`] of these and of removals.
    Write(Write),
    /// The row of a topic's retained message.
    Retained(Box<str>),
    /// The removal of a released packet identifier's mark, for which the client waits: at most one
    /// per identifier that clients use.
    Unmark(Exchange),
    /// The mark of a message that a client has received: at most one per message in flight.
    Received(Exchange),
    /// A read of a place whose state is in doubt: at most one per mark at the start.
    Doubt(EntryRef),
    /// Removal of ended messages of one session: limited together with the writes.
    Removal(Box<Removal>),
}

/// Entry that a session no longer needs and that may leave its timeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Over {
    session: Key,
    /// The place of a message; 0: none.
    seq: Seq,
    /// The place of a mark among its exchanges; 0: none.
    mark: Seq,
}

/// The calls of a shard.
#[derive(Default)]
pub(crate) struct LogCalls {
    tickets: calls::Tickets<PendingCall>,
    writes: RetryQueue<Write>,
    topics: BTreeSet<Box<str>>,
    unmarks: Vec<Exchange>,
    received: Vec<Exchange>,
    doubts: Vec<EntryRef>,
    #[expect(clippy::vec_box, reason = "each goes as it came: boxed, to be asked for again")]
    removals: Vec<Box<Removal>>,
    /// Sessions whose bodies could not be read, and when it is tried again.
    pulls: Vec<(Instant, Key)>,
    over: Vec<Over>,
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

    /// Whether the log refuses all writes until a restart.
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

    /// Writes to the log without an answer that waits for it.
    pub fn write(&mut self, write: Write, fx: &mut Effects) {
        if !self.has_failed() {
            self.ask(PendingCall::Retry(Box::new(write.clone())), Call::Write(write), fx);
        }
    }

    /// Writes a row without an answer that waits for it.
    pub fn put(&mut self, table: Table, key: Box<[u8]>, value: Box<[u8]>, fx: &mut Effects) {
        self.write(Write::Put { table, key, value }, fx);
    }

    /// Deletes a row without an answer that waits for it.
    pub fn delete(&mut self, table: Table, key: Box<[u8]>, fx: &mut Effects) {
        self.write(Write::Delete { table, key }, fx);
    }

    /// Removes an ended message of a session from the log, if it is there.
    pub fn remove(&mut self, session: Key, seq: Seq) {
        self.remove_both(session, seq, 0);
    }

    /// Removes the mark of an exchange that has ended.
    pub fn remove_mark(&mut self, session: Key, mark: Seq) {
        self.remove_both(session, 0, mark);
    }

    /// Removes all marks of a packet identifier.
    pub fn remove_marks(&mut self, session: Key, marker: Marker) {
        marker.places().for_each(|mark| self.remove_mark(session, mark));
    }

    /// Removes an ended message, and after it the mark that its client has received it.
    pub fn remove_both(&mut self, session: Key, seq: Seq, mark: Seq) {
        if seq != 0 || mark != 0 {
            self.over.push(Over { session, seq, mark });
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

    /// Handles the answer to a call that no answer waits for. If refused, the call is made again,
    /// or given up and counted.
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

    /// Notes a call to be made again after a pause.
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
            Retry::Doubt(entry) => self.doubts.push(entry),
            Retry::Removal(removal) => self.removals.push(removal),
        }
    }

    /// Writes that were refused and are asked for again.
    pub fn retries(&self) -> usize {
        let marks = self.unmarks.len() + self.received.len() + self.doubts.len();
        self.writes.len() + self.removals.len() + self.topics.len() + marks
    }

    /// Whether it is time to ask again; or when.
    pub fn is_due(&self, now: Now) -> Result<(), Instant> {
        self.writes.is_due(now)
    }

    /// All exchanges whose marks are asked for again, and places that are doubtful still.
    pub fn take_marks(&mut self) -> impl Iterator<Item = Retry> + use<> {
        let unmarks = std::mem::take(&mut self.unmarks).into_iter().map(Retry::Unmark);
        let received = std::mem::take(&mut self.received).into_iter().map(Retry::Received);
        let doubts = std::mem::take(&mut self.doubts).into_iter().map(Retry::Doubt);
        unmarks.chain(received).chain(doubts)
    }

    /// A removal that is asked for again.
    pub fn take_removal(&mut self) -> Option<Box<Removal>> {
        self.removals.pop()
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

    /// Removes ended messages and marks from the log. `timeline_of` gives a session's timeline in a
    /// space; those of an ended session were forgotten with it.
    pub fn remove_over(
        &mut self,
        timeline_of: impl Fn(Key, Space) -> Option<TimelineId>,
        fx: &mut Effects,
    ) {
        if self.over.is_empty() {
            return;
        }
        let mut over = std::mem::take(&mut self.over);
        over.sort_unstable();
        for of_one in over.chunk_by(|a, b| a.session == b.session) {
            let session = of_one[0].session;
            for some in of_one.chunks(REMOVE_SEQS_MAX) {
                let (alone, with) = some.split_at(some.partition_point(|over| over.seq == 0));
                let marks: Vec<Seq> = alone.iter().map(|over| over.mark).collect();
                if !marks.is_empty()
                    && let Some(timeline) = timeline_of(session, Space::Exchanges)
                {
                    self.write(Write::Remove { timeline, seqs: marks }, fx);
                }
                let seqs: Vec<Seq> = with.iter().map(|over| over.seq).collect();
                if !seqs.is_empty()
                    && let Some(timeline) = timeline_of(session, Space::Sessions)
                {
                    let marks = with.iter().map(|over| over.mark).filter(|&mark| mark != 0);
                    let marks = marks.collect();
                    self.ask_removal(Box::new(Removal { session, timeline, seqs, marks }), fx);
                }
            }
        }
        over.clear();
        self.over = over;
    }

    /// Has the log remove messages of a session.
    pub fn ask_removal(&mut self, removal: Box<Removal>, fx: &mut Effects) {
        if !self.has_failed() {
            let (timeline, seqs) = (removal.timeline, removal.seqs.clone());
            let write = Write::Remove { timeline, seqs };
            self.ask(PendingCall::Removed(removal), Call::Write(write), fx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::entries::{exchanges_of, timeline_of};
    use crate::session::made::{HOME, NOW};
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
        log.remove_mark(key(1), 2);
        log.remove_both(key(2), 4, 1);
        let timelines = ["a", "b"].map(|id| (timeline_of(HOME, id), exchanges_of(HOME, id)));
        let of = |key: Key, space: Space| {
            let (messages, exchanges) = timelines.get(key.slot as usize - 1)?;
            Some(if space == Space::Exchanges { *exchanges } else { *messages })
        };
        log.remove_over(of, &mut fx);
        let removed: Vec<_> = fx.calls.drain(..).map(|(_, call)| call).collect();
        let remove =
            |timeline, seqs: &[Seq]| Call::Write(Write::Remove { timeline, seqs: seqs.to_vec() });
        let [a, b] = timelines;
        let first = [remove(a.1, &[2]), remove(a.0, &[5, 7])];
        let second = remove(b.0, &[3, 4]);
        assert_eq!(removed, [&first[..], &[second]].concat(), "the third is gone");
        let Some(PendingCall::Removed(last)) = log.completed(2, &Ok(Done::Written), &mut fx) else {
            panic!("what was asked for")
        };
        assert_eq!(
            (&last.seqs[..], &last.marks[..]),
            (&[3, 4][..], &[1][..]),
            "it goes afterwards"
        );
    }
}

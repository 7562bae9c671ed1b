//! Retry queue of writes to the log that nobody waits for: a refusal is no reason to forget one.
//!
//! A refused write is asked for again after a pause. Rows are written in the order in which they
//! are handed over; one that is asked for again must not undo a newer one, so it is written as it
//! is by then. Messages that are over are removed in batches, one call a session and turn.

use super::entries::timeline_of;
use super::rows::{self, SubscriptionRow};
use super::tickets::PendingCall;
use crate::Broker;
use crate::Effects;
use crate::session::record::{Session, Share};
use base::never;
use base::slab::Key;
use base::time::{Instant, Now};
use model::event::Counter;
use model::ports::calls::{RETRIES_A_TURN_MAX, RETRIES_MAX, RetryQueue, may_be_taken_later};
use model::ports::log::{Call, Done, REMOVE_SEQS_MAX, StoreError, Table, Write};
use std::collections::BTreeSet;

/// Writes that were refused. Together no more than [`RETRIES_MAX`], but for those that clients wait
/// for.
#[derive(Default)]
pub(crate) struct Retries {
    writes: RetryQueue<Write>,
    /// Marks of released packet identifiers, whose clients wait: no more than they have in use.
    marks: Vec<(Key, u16)>,
    /// Marks of messages that clients have: no more than are on the way to them.
    received: Vec<(Key, u16)>,
    /// Topics whose rows of retained messages were refused.
    topics: BTreeSet<Box<str>>,
}

impl Retries {
    pub fn len(&self) -> usize {
        self.writes.len() + self.marks.len() + self.received.len() + self.topics.len()
    }
}

impl Broker {
    /// Has the log write something that nobody waits for.
    pub(crate) fn retry_write(&mut self, write: Write, fx: &mut Effects) {
        if !self.log_failed {
            self.ask_log(PendingCall::Retry(Box::new(write.clone())), Call::Write(write), fx);
        }
    }

    pub(crate) fn retry_write_done(
        &mut self,
        now: Now,
        write: Write,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        if self.is_asked_again(now, result, fx) {
            let has_room = self.retries.writes.put(write);
            never!(!has_room, "all of them together have room");
        }
    }

    /// The row of a topic's retained message was answered.
    pub(crate) fn retained_written(
        &mut self,
        now: Now,
        topic: Box<str>,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        if self.is_asked_again(now, result, fx) {
            self.retries.topics.insert(topic);
        }
    }

    /// Whether what the log answered so is asked for again; what is given up is counted.
    fn is_asked_again(
        &mut self,
        now: Now,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) -> bool {
        match result {
            Ok(_) => false,
            Err(error) if may_be_taken_later(error) && self.retries.len() < RETRIES_MAX => {
                self.retries.writes.pause(now);
                true
            }
            Err(_) => {
                fx.counters.count(Counter::RemovalsGivenUp);
                false
            }
        }
    }

    /// The log did not remove a mark: it is asked again.
    pub(crate) fn unmark_later(&mut self, now: Now, mark: (Key, u16)) {
        self.retries.writes.pause(now);
        self.retries.marks.push(mark);
    }

    /// The log did not take the mark of a message that a client has: it is asked again.
    pub(crate) fn mark_later(&mut self, now: Now, mark: (Key, u16)) {
        self.retries.writes.pause(now);
        self.retries.received.push(mark);
    }

    /// Asks again for a slice of what was refused, if it is time.
    pub(crate) fn turn_retries(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.retries.len() == 0 {
            return None;
        }
        if let Err(due) = self.retries.writes.is_due(now) {
            return Some(due);
        }
        for mark in std::mem::take(&mut self.retries.marks) {
            self.unmark(mark, fx);
        }
        for mark in std::mem::take(&mut self.retries.received) {
            self.mark_received(now, mark, fx);
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            let Some(topic) = self.retries.topics.pop_first() else { break };
            self.write_retained(topic, fx);
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            let Some(write) = self.retries.writes.take() else { break };
            if let Some(write) = self.as_it_is(write) {
                self.retry_write(write, fx);
            }
        }
        (self.retries.len() > 0).then_some(now.mono)
    }

    /// What a refused write has become meanwhile: a row is written as it is now, or deleted.
    fn as_it_is(&self, write: Write) -> Option<Write> {
        let (Write::Put { table, key, .. } | Write::Delete { table, key }) = &write else {
            return Some(write);
        };
        let (table, key) = (*table, key.clone());
        let value = match table {
            Table::Sessions => self.session_row_of(&key),
            Table::Wills => self.will_row_of(&key),
            Table::Subscriptions => self.subscription_row_of(&key),
            // Those that were refused with an answer are not retries, retained messages have a
            // pending call of their own; the others are as they were.
            _ => return Some(write),
        };
        Some(match value {
            Some(value) => Write::Put { table, key, value },
            None => Write::Delete { table, key },
        })
    }

    fn session_of(&self, key: &[u8]) -> Option<(Key, &Session)> {
        let key = self.sessions.find(std::str::from_utf8(key).ok()?)?;
        Some((key, self.sessions.at(key)?))
    }

    fn session_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let (_, session) = self.session_of(key).filter(|(_, session)| session.is_durable())?;
        let user = self.principals.at(session.principal).user.as_deref();
        Some(rows::session_row(session, user, self.sessions.protocol_name(session.protocol)))
    }

    fn will_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let (_, session) = self.session_of(rows::subscriber(key)?.as_bytes())?;
        let (will, due_s) = &**session.more.as_ref()?.will.as_ref()?;
        let is_it = *rows::will_key(&session.id, will.message.id) == *key;
        is_it.then(|| rows::will_row(will, *due_s))
    }

    fn subscription_row_of(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let id = rows::subscriber(key)?;
        let (owner, session) = self.session_of(id.as_bytes())?;
        if !session.is_durable() {
            return None;
        }
        let home = self.settings.home;
        let is_it = |filter: &str| *rows::subscription_key(home, id, filter) == *key;
        let own = session.filters().map(|filter| (filter, self.filters.text(filter, id)));
        if let Some((filter, text)) = own.into_iter().find(|(_, text)| is_it(text)) {
            let options = self.filters.options(filter, owner.slot)?;
            let subscription_id = session.subscription_id(filter);
            let row = SubscriptionRow { options, subscription_id, filter: text.into() };
            return Some(row.encode());
        }
        let share = session.more.as_ref()?.shares.iter().find(|share| is_it(&share.filter))?;
        let Share { filter, options, subscription_id, .. } = share;
        let (filter, options) = (filter.clone(), *options);
        Some(SubscriptionRow { options, subscription_id: *subscription_id, filter }.encode())
    }

    /// Takes what is over out of the log.
    pub(crate) fn turn_removals(&mut self, fx: &mut Effects) {
        if self.removals.is_empty() {
            return;
        }
        let mut removals = std::mem::take(&mut self.removals);
        removals.sort_unstable();
        for of_one in removals.chunk_by(|(a, _), (b, _)| a == b) {
            // What was a session's that is gone was forgotten with it.
            let Some(session) = self.sessions.at(of_one[0].0) else { continue };
            let timeline = timeline_of(self.settings.home, &session.id);
            for some in of_one.chunks(REMOVE_SEQS_MAX) {
                let seqs = some.iter().map(|&(_, seq)| seq).collect();
                self.retry_write(Write::Remove { timeline, seqs }, fx);
            }
        }
        removals.clear();
        self.removals = removals;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::{HOME, NOW, broker};
    use model::ports::calls::RETRY_PAUSE;

    #[test]
    fn so_many_writes_wait_and_one_more_is_left_to_the_next_start() {
        let (mut broker, mut fx) = (broker(|_| {}), Effects::default());
        let write = || Write::Forget(timeline_of(HOME, "a"));
        let given_up = |fx: &Effects| fx.counters.of(Counter::RemovalsGivenUp);
        for n in 1..RETRIES_MAX {
            let why = if n % 2 == 0 { StoreError::Busy } else { StoreError::Full };
            broker.retry_write_done(NOW, write(), Err(why), &mut fx);
        }
        broker.retained_written(NOW, "t".into(), Err(StoreError::Busy), &mut fx);
        assert_eq!((broker.retries.len(), given_up(&fx)), (RETRIES_MAX, 0));
        broker.retry_write_done(NOW, write(), Err(StoreError::Busy), &mut fx);
        broker.retained_written(NOW, "u".into(), Err(StoreError::Full), &mut fx);
        assert_eq!((broker.retries.len(), given_up(&fx)), (RETRIES_MAX, 2));
    }

    #[test]
    fn what_was_refused_is_asked_for_again_after_a_pause_a_slice_a_turn() {
        let (mut broker, mut fx) = (broker(|_| {}), Effects::default());
        let write = || Write::Forget(timeline_of(HOME, "a"));
        broker.retry_write_done(NOW, write(), Err(StoreError::Failed), &mut fx);
        assert_eq!(broker.retries.len(), 0, "it will not be otherwise");
        assert_eq!(broker.turn_retries(NOW, &mut fx), None);
        for _ in 0..RETRIES_A_TURN_MAX + 1 {
            broker.retry_write_done(NOW, write(), Err(StoreError::Busy), &mut fx);
        }
        let due = NOW.after(RETRY_PAUSE);
        assert_eq!(broker.turn_retries(NOW, &mut fx), Some(due));
        assert!(fx.calls.is_empty());
        let later = Now::new(due, NOW.wall_ms + 1_000);
        assert_eq!(broker.turn_retries(later, &mut fx), Some(due), "there is more");
        assert_eq!(fx.calls.len(), RETRIES_A_TURN_MAX);
        assert_eq!(broker.turn_retries(later, &mut fx), None);
        assert_eq!((fx.calls.len(), broker.retries.len()), (RETRIES_A_TURN_MAX + 1, 0));
    }
}

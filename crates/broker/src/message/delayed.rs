//! Messages that are published later: wills, and delayed publications.
//!
//! A will belongs to the connection it came with. It is published when its delay is over or its
//! session ends, whichever is first; a reconnect before that, or a DISCONNECT, discards it (MQTT5
//! 3.1.2-8). Its row outlives the process: after a restart the connection counts as lost. When many
//! are due at once, a limited number is published per turn. Delayed wills and messages wait in
//! [`Later`].

use super::answers::{After, Origin, PendingAnswer};
use super::publish::DELAYED;
use super::retain::wall;
use crate::Broker;
use crate::Effects;
use crate::durable::calls::PendingCall;
use crate::durable::rows;
use crate::later::Later;
use crate::retained::encode;
use crate::session::timers::Timer;
use base::hash::HashKey;
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::TopicCounter;
use model::ports::access::Act;
use model::ports::log::{Call, Table, Write};
use model::session::{Denial, Will};
use model::topic::Publication;
use std::collections::VecDeque;
use std::sync::Arc;

/// Delayed messages that are published in one turn.
const DUE_SLICE: usize = 256;

/// Messages of a shard that are published later.
pub(crate) struct Delayed {
    /// Messages that were delayed at their publisher's request.
    put_by: Later,
    /// Wills that are due and wait for their turn, with their clients.
    wills: VecDeque<(Box<str>, Arc<Publication>)>,
    /// Wills published in this turn.
    spent: u32,
}

/// A message to delay whose row is being written.
pub(crate) struct Delay {
    at_s: u32,
    message: Arc<Publication>,
    /// The wait of its answer, if there is one.
    wait: Option<Key>,
}

impl Delayed {
    /// An empty store for at most `put_by_max` messages delayed by their publishers.
    pub fn new(home: HashKey, put_by_max: u32) -> Delayed {
        Delayed { put_by: Later::new(home, put_by_max), wills: VecDeque::new(), spent: 0 }
    }

    /// Sets the most delayed messages of publishers.
    pub fn set_max(&mut self, put_by_max: u32) {
        self.put_by.set_max(put_by_max);
    }

    /// Messages that were put by.
    pub fn len(&self) -> usize {
        self.put_by.len()
    }

    /// Wills that are due.
    pub fn wills(&self) -> usize {
        self.wills.len()
    }

    /// A will is due.
    pub fn push_will(&mut self, client_id: Box<str>, message: Arc<Publication>) {
        self.wills.push_back((client_id, message));
    }

    /// Takes in the row of a message that was put by. False: it is none.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.put_by.restore(key, value)
    }
}

impl Broker {
    /// Sets the session's will; its row must be written before its client gets the answer. Its
    /// number makes a repetition after a crash harmless.
    pub(crate) fn set_will(&mut self, now: Now, key: Key, mut will: Will) -> Option<Write> {
        let limits = &self.settings.limits.topics;
        will.delay_s = will.delay_s.min(limits.will_delay_s_max);
        self.routing.stamp(now, Arc::make_mut(&mut will.message));
        let session = self.sessions.at_mut(key)?;
        let row = Write::Put {
            table: Table::Wills,
            key: rows::will_key(self.settings.home, session.id(), will.message.id),
            value: rows::will_row(&will, 0),
        };
        session.set_will(will, 0);
        Some(row)
    }

    /// The will is discarded.
    pub(crate) fn cancel_will(&mut self, key: Key, fx: &mut Effects) {
        if let Some(will) = self.take_will(key)
            && let Some(session) = self.sessions.at(key)
        {
            let row = rows::will_key(self.settings.home, session.id(), will.message.id);
            self.log.delete(Table::Wills, row, fx);
        }
    }

    /// The connection is gone: the will is published, or will be.
    pub(crate) fn will_due(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        if session.conn().is_some() {
            return;
        }
        let Some((will, mut due_s)) = session.will() else { return };
        if due_s == 0 {
            due_s = session.since_s().saturating_add(will.delay_s).max(1);
            if will.delay_s > 0 {
                let value = rows::will_row(will, due_s);
                let row = rows::will_key(self.settings.home, session.id(), will.message.id);
                self.log.put(Table::Wills, row, value, fx);
            }
            session.set_will_due(due_s);
        }
        match due_s <= now.unix_s() {
            true => self.publish_will(now, key, fx),
            false => self.timers.set(now, Timer::Will(key), due_s.into()),
        }
    }

    /// Publishes the session's will, if it has one.
    pub(crate) fn publish_will(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(will) = self.take_will(key) else { return };
        let Some(session) = self.sessions.at(key) else { return };
        let id = Box::<str>::from(session.id());
        if !self.sessions.may(session, Act::Publish, will.message.topic()) {
            fx.counters.count(TopicCounter::PublishesRefused);
            let row = rows::will_key(self.settings.home, &id, will.message.id);
            return self.log.delete(Table::Wills, row, fx);
        }
        let message = self.will_message(now, &id, &will);
        self.delayed.push_will(id, message);
        let most = self.settings.limits.topics.wills_a_turn_max;
        if self.delayed.spent < most && self.delayed.wills() == 1 {
            self.publish_next_will(now, fx);
        }
    }

    /// The message of a will, as it is published now.
    pub(crate) fn will_message(&self, now: Now, id: &str, will: &Will) -> Arc<Publication> {
        let mut message = (*will.message).clone();
        message.publisher = self.routing.publisher_of(id);
        if will.expiry_s != 0 {
            message.expire_at = now.unix_s().saturating_add(will.expiry_s);
        }
        Arc::new(message)
    }

    /// Publishes a slice of the wills that wait.
    pub(crate) fn turn_wills(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.delayed.spent = 0;
        let most = self.settings.limits.topics.wills_a_turn_max;
        while self.delayed.wills() > 0 && self.delayed.spent < most {
            self.publish_next_will(now, fx);
        }
        (self.delayed.wills() > 0).then_some(now.mono)
    }

    fn publish_next_will(&mut self, now: Now, fx: &mut Effects) {
        let Some((id, mut message)) = self.delayed.wills.pop_front() else { return };
        self.delayed.spent += 1;
        fx.counters.count(TopicCounter::WillsPublished);
        let number = message.id;
        self.routing.stamp(now, Arc::make_mut(&mut message));
        let after = After::Row(Table::Wills, rows::will_key(self.settings.home, &id, number));
        self.publish_row(now, message, number, after, fx);
    }

    fn take_will(&mut self, key: Key) -> Option<Will> {
        let session = self.sessions.at_mut(key)?;
        let will = session.take_will();
        session.rest();
        will
    }

    /// A message is put by until its time: `$delayed/seconds/topic`.
    pub(crate) fn put_by(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        let rest = message.topic().strip_prefix(DELAYED).and_then(|rest| rest.split_once('/'));
        let delay_s = rest.and_then(|(seconds, _)| seconds.parse::<u32>().ok());
        let (Some((_, topic)), Some(delay_s)) = (rest, delay_s) else {
            pending_answer.error = Some(Denial::TopicInvalid);
            return false;
        };
        let renamed = message.renamed(topic);
        self.put_by_for(now, Arc::new(renamed), delay_s, pending_answer, fx);
        false
    }

    /// Delays a message by at least this many seconds, and by less than a second more: rows tell
    /// whole seconds.
    pub(crate) fn put_by_for(
        &mut self,
        now: Now,
        message: Arc<Publication>,
        delay_s: u32,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        if delay_s > self.settings.limits.topics.delay_s_max {
            pending_answer.error = Some(Denial::Quota);
            return;
        }
        let due_ms = now.wall_ms + u64::from(delay_s) * 1_000;
        let at_s = u32::try_from(due_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
        let value = encode(&message);
        let Ok(key) = self.delayed.put_by.reserve(at_s, &message) else {
            pending_answer.error = Some(Denial::Quota);
            return;
        };
        let wait = match pending_answer.origin {
            Origin::Server => None,
            _ => match self.answers.one_more(pending_answer) {
                None => return self.delayed.put_by.give_back(),
                wait => wait,
            },
        };
        let pending = PendingCall::Delayed(Box::new(Delay { at_s, message, wait }));
        let write = Write::Put { table: Table::Delayed, key, value };
        self.log.ask(pending, Call::Write(write), fx);
    }

    /// The row of a delayed message is written, or refused: then there is no such message, also
    /// where nobody waits for the answer.
    pub(crate) fn delay_written(
        &mut self,
        now: Now,
        Delay { at_s, message, wait }: Delay,
        result: Result<(), Denial>,
        fx: &mut Effects,
    ) {
        match result {
            Ok(()) => self.delayed.put_by.keep(at_s, message),
            Err(_) => self.delayed.put_by.give_back(),
        }
        match wait {
            Some(wait) => self.arrived(now, wait, result, fx),
            None if result.is_err() => fx.counters.count(TopicCounter::PublishesRefused),
            None => {}
        }
    }

    /// Publishes what was put by and is due, a slice of it.
    pub(crate) fn turn_later(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for _ in 0..DUE_SLICE {
            let Some(due) = self.delayed.put_by.pop(now.unix_s()) else { break };
            let mut message = (*due.message).clone();
            self.routing.stamp(now, &mut message);
            let after = After::Row(Table::Delayed, due.row_key);
            self.publish_row(now, Arc::new(message), due.message.id, after, fx);
        }
        self.delayed.put_by.next_at().map(|at_s| wall(now, at_s))
    }
}

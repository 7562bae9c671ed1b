//! Wills: published when their client goes without farewell.
//!
//! A will belongs to the connection it came with. It is published when its delay is over or its
//! session ends, whichever is first; a return before that, or a farewell, discards it (MQTT5
//! 3.1.2-8). Its row outlives the process: after a restart the connection is as lost. When many
//! are due at once they are published some a turn.

use super::timers::Timer;
use crate::Broker;
use crate::Effects;
use crate::durable::rows;
use crate::message::answers::After;
use base::slab::Key;
use base::time::{Instant, Now};
use model::event::Counter;
use model::ports::access::Act;
use model::ports::log::{Table, Write};
use model::session::Will;
use model::topic::Publication;
use std::collections::VecDeque;
use std::sync::Arc;

/// Wills that are due and wait for their turn.
#[derive(Default)]
pub(crate) struct Wills {
    waiting: VecDeque<(Box<str>, Arc<Publication>)>,
    /// Published in this turn.
    spent: u32,
}

impl Wills {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A will that was restored and is due.
    pub fn push(&mut self, client_id: Box<str>, message: Arc<Publication>) {
        self.waiting.push_back((client_id, message));
    }
}

impl Broker {
    /// The session has this will from now on; its row, to be written before its client is told.
    /// Its number makes a repetition after a crash harmless.
    pub(crate) fn set_will(&mut self, now: Now, key: Key, mut will: Will) -> Option<Write> {
        let limits = &self.settings.limits.topics;
        will.delay_s = will.delay_s.min(limits.will_delay_s_max);
        self.stamp(now, Arc::make_mut(&mut will.message));
        let session = self.sessions.at_mut(key)?;
        let row = Write::Put {
            table: Table::Wills,
            key: rows::will_key(&session.id, will.message.id),
            value: rows::will_row(&will, 0),
        };
        session.more().will = Some(Box::new((will, 0)));
        Some(row)
    }

    /// The will is discarded.
    pub(crate) fn cancel_will(&mut self, key: Key, fx: &mut Effects) {
        if let Some(will) = self.take_will(key)
            && let Some(session) = self.sessions.at(key)
        {
            let row = rows::will_key(&session.id, will.message.id);
            self.log.delete(Table::Wills, row, fx);
        }
    }

    /// The connection is gone: the will is published, or will be.
    pub(crate) fn will_due(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        if session.conn().is_some() {
            return;
        }
        let since_s = session.since_s;
        let Some((will, due_s)) = session.more.as_mut().and_then(|more| more.will.as_deref_mut())
        else {
            return;
        };
        if *due_s == 0 {
            *due_s = since_s.saturating_add(will.delay_s).max(1);
            if will.delay_s > 0 {
                let value = rows::will_row(will, *due_s);
                let row = rows::will_key(&session.id, will.message.id);
                self.log.put(Table::Wills, row, value, fx);
            }
        }
        let Some(session) = self.sessions.at(key) else { return };
        let due_s = session.more.as_ref().and_then(|more| more.will.as_ref()).map_or(0, |w| w.1);
        match due_s <= now.unix_s() {
            true => self.publish_will(now, key, fx),
            false => self.timers.set(now, Timer::Will(key), due_s.into()),
        }
    }

    /// Publishes the will, if there is one.
    pub(crate) fn publish_will(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(will) = self.take_will(key) else { return };
        let Some(session) = self.sessions.at(key) else { return };
        let id = session.id.clone();
        if !self.sessions.may(session, Act::Publish, will.message.topic()) {
            fx.counters.count(Counter::PublishesRefused);
            let row = rows::will_key(&id, will.message.id);
            return self.log.delete(Table::Wills, row, fx);
        }
        let message = self.will_message(now, &id, &will);
        self.wills.push(id, message);
        if self.wills.spent < self.settings.limits.topics.wills_a_turn_max && self.wills.len() == 1
        {
            self.publish_next_will(now, fx);
        }
    }

    /// The message of a will, as it is published now.
    pub(crate) fn will_message(&self, now: Now, id: &str, will: &Will) -> Arc<Publication> {
        let mut message = (*will.message).clone();
        message.publisher = self.publisher_of(id);
        if will.expiry_s != 0 {
            message.expire_at = now.unix_s().saturating_add(will.expiry_s);
        }
        Arc::new(message)
    }

    /// Publishes a slice of the wills that wait.
    pub(crate) fn turn_wills(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.wills.spent = 0;
        while self.wills.len() > 0
            && self.wills.spent < self.settings.limits.topics.wills_a_turn_max
        {
            self.publish_next_will(now, fx);
        }
        (self.wills.len() > 0).then_some(now.mono)
    }

    fn publish_next_will(&mut self, now: Now, fx: &mut Effects) {
        let Some((id, mut message)) = self.wills.waiting.pop_front() else { return };
        self.wills.spent += 1;
        fx.counters.count(Counter::WillsPublished);
        let number = message.id;
        self.stamp(now, Arc::make_mut(&mut message));
        let after = After::Row(Table::Wills, rows::will_key(&id, number));
        self.publish_row(now, (message, number), after, fx);
    }

    fn take_will(&mut self, key: Key) -> Option<Will> {
        let session = self.sessions.at_mut(key)?;
        let will = session.more.as_mut()?.will.take().map(|will| will.0);
        session.rest();
        will
    }
}

//! Cleanup of what a session leaves behind when it ends.
//!
//! It is gone at once: nobody finds it, and nothing is delivered to it. Its subscriptions and its
//! messages are taken away a slice a turn, its rows with them; its slot is free when the last has
//! gone. A client that comes meanwhile under the same identifier waits for that: what the log is
//! told of the old session must not come behind what it is told of the new one.

use super::admissions::Proven;
use crate::Broker;
use crate::Effects;
use crate::durable::rows::subscription_key;
use crate::message::queue::Queue;
use base::slab::Key;
use base::time::{Instant, Now};
use model::id::ConnRef;
use model::ports::log::Table;
use model::session::Denial;
use std::collections::BTreeMap;

/// Subscriptions, or eight times as many messages, that are taken away in a turn.
pub(crate) const UNITS_A_TURN: usize = 512;

/// The same for one session, when it ends.
pub(crate) const UNITS_AT_ONCE: usize = 128;

/// Messages that are a unit.
const MESSAGES: usize = 8;

/// A session that is gone.
pub(crate) struct Ending {
    pub key: Key,
    pub durable: bool,
    /// Its subscriptions, by their filters' numbers.
    pub filters: Vec<u32>,
    pub queue: Queue,
    /// Who came meanwhile.
    pub coming: Option<(ConnRef, Box<Proven>)>,
}

/// Those of a shard, by client identifier.
#[derive(Default)]
pub(crate) struct Endings {
    open: BTreeMap<Box<str>, Ending>,
    /// For whom connections wait.
    waits: BTreeMap<ConnRef, Box<str>>,
}

impl Endings {
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn has(&self, id: &str) -> bool {
        !self.open.is_empty() && self.open.contains_key(id)
    }

    /// A connection went before it was answered.
    pub fn forget(&mut self, conn: ConnRef) {
        if let Some(ending) = self.waits.remove(&conn).and_then(|id| self.open.get_mut(&id)) {
            ending.coming = None;
        }
    }

    /// Subscriptions that are not taken away yet, and queues.
    pub fn each(&self) -> impl Iterator<Item = (usize, &Queue)> {
        self.open.values().map(|ending| (ending.filters.len(), &ending.queue))
    }
}

impl Broker {
    /// A session is gone; what it leaves is taken away, as far as that is not too much.
    pub(crate) fn end_begins(&mut self, id: Box<str>, mut ending: Ending, fx: &mut Effects) {
        let mut left = UNITS_AT_ONCE.min(self.units.left(UNITS_A_TURN));
        match self.end_on(&id, (&mut ending, &mut left), fx) {
            true => self.sessions.free(ending.key),
            false => _ = self.endings.open.insert(id, ending),
        }
    }

    /// The session's last one is still ending: its client waits.
    pub(crate) fn come_later(
        &mut self,
        now: Now,
        (from, proven): (ConnRef, Box<Proven>),
        fx: &mut Effects,
    ) {
        let id = proven.connect.client_id.clone();
        let Some(ending) = self.endings.open.get_mut(&id) else { return };
        if let Some((before, _)) = ending.coming.replace((from, proven)) {
            self.endings.waits.remove(&before);
            self.turn_away(now, before, &id, Denial::Busy, fx);
        }
        self.endings.waits.insert(from, id);
    }

    /// Takes away a slice of what is left behind.
    pub(crate) fn turn_endings(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut left = UNITS_A_TURN;
        while left > 0 && self.log.is_easy() {
            let (id, mut ending) = self.endings.open.pop_first()?;
            if !self.end_on(&id, (&mut ending, &mut left), fx) {
                self.endings.open.insert(id, ending);
                break;
            }
            self.sessions.free(ending.key);
            if let Some((from, proven)) = ending.coming {
                self.endings.waits.remove(&from);
                self.attach_waited(now, from, *proven, fx);
            }
        }
        // Where the log has too much to do, its next answer brings a turn.
        let goes_on = self.log.is_easy();
        (goes_on && self.endings.len() > 0).then_some(now.mono)
    }

    /// Takes away so much; true: that was all.
    fn end_on(
        &mut self,
        id: &str,
        (ending, left): (&mut Ending, &mut usize),
        fx: &mut Effects,
    ) -> bool {
        let before = *left;
        while *left > 0 {
            let Some(filter) = ending.filters.pop() else { break };
            self.end_filter(id, (ending.key, filter), ending.durable, fx);
            *left -= 1;
        }
        if *left > 0 {
            let gone = ending.queue.drop_some(*left * MESSAGES, &mut self.totals);
            *left -= gone.div_ceil(MESSAGES);
        }
        self.units.spend(before - *left);
        ending.filters.is_empty() && ending.queue.count() == 0
    }

    fn end_filter(&mut self, id: &str, (key, number): (Key, u32), durable: bool, fx: &mut Effects) {
        let text = self.subscriptions.text(number, id);
        if self.subscriptions.let_go(number, id, key.slot, durable) && durable {
            let key = subscription_key(self.settings.home, id, &text);
            self.log.delete(Table::Subscriptions, key, fx);
        }
    }
}

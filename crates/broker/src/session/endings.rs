//! Cleanup of an ended session's state.
//!
//! The session is gone at once: it cannot be found, and nothing is delivered to it. Its
//! subscriptions and its messages are removed a slice a turn, its rows with them; its slot is free
//! when all are removed. A client that connects meanwhile under the same identifier waits for that:
//! the log must get the writes of the old session before those of the new one.

use super::admissions::Proven;
use super::shares::Share;
use crate::message::queue::Queue;
use base::slab::Key;
use model::id::ConnRef;
use std::collections::BTreeMap;

/// Subscriptions, or eight times as many messages, that are taken away in a turn.
pub(crate) const UNITS_A_TURN: usize = 512;

/// Subscriptions, or eight times as many messages, of one session that are removed at once when it
/// ends.
pub(crate) const UNITS_AT_ONCE: usize = 128;

/// Messages that are a unit.
pub(crate) const MESSAGES: usize = 8;

/// A session that is gone.
pub(crate) struct Ending {
    pub key: Key,
    pub durable: bool,
    /// Its subscriptions, by their filters' numbers.
    pub filters: Vec<u32>,
    /// Its shared subscriptions: the groups count it as a member until it leaves them.
    pub shares: Vec<Share>,
    pub queue: Queue,
    /// Client that connected meanwhile.
    pub coming: Option<(ConnRef, Box<Proven>)>,
}

/// Endings of a shard, by client identifier.
#[derive(Default)]
pub(crate) struct Endings {
    open: BTreeMap<Box<str>, Ending>,
    /// Client identifiers of endings that connections wait for.
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

    /// A session is gone whose last things are not taken away yet.
    pub fn put(&mut self, id: Box<str>, ending: Ending) {
        self.open.insert(id, ending);
    }

    /// Takes the next ended session to clean up.
    pub fn take(&mut self) -> Option<(Box<str>, Ending)> {
        let (id, ending) = self.open.pop_first()?;
        Some((id, ending))
    }

    /// Takes the client that waits for a session whose cleanup is done.
    pub fn take_coming(&mut self, ending: Ending) -> Option<(ConnRef, Box<Proven>)> {
        let (from, proven) = ending.coming?;
        self.waits.remove(&from);
        Some((from, proven))
    }

    /// A client waits for the end of the session before its own; the connection that did so far.
    pub fn wait(&mut self, from: ConnRef, proven: Box<Proven>) -> Option<ConnRef> {
        let id = proven.connect.client_id.clone();
        let before = self.open.get_mut(&id)?.coming.replace((from, proven));
        self.waits.insert(from, id);
        let (before, _) = before?;
        self.waits.remove(&before);
        Some(before)
    }
}

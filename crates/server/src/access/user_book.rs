//! The book of users on the log: what is put is on stable storage before the answer.
//!
//! One change at a time; whoever changes waits for the log, on a thread of its own. What users
//! mean is `guard`'s part. Invariant: the gate holds what the log has, and never before it has it.

use guard::Gate;
use guard::book::Entry;
use model::ports::log::{Call, Completion, Done, StoreError, Table, Ticket, Write};
use model::ports::users::{UserFault, UserOrder, UserState, Users};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Hands calls to the log that holds users; false when it takes none of them now.
pub type Submit = Box<dyn Fn(Vec<(Ticket, Call)>) -> bool + Send + Sync>;

/// Users in one page, at most.
const PAGE_MAX: usize = 10_000;

/// The book.
pub(super) struct UserBook {
    gate: Arc<Gate>,
    submit: OnceLock<Submit>,
    /// Held by whoever changes the book.
    changing: Mutex<()>,
    desk: Mutex<Desk>,
    /// The log has answered, or all is over.
    told: Condvar,
}

#[derive(Default)]
struct Desk {
    last_ticket: Ticket,
    /// Answers, until they are taken.
    calls: HashMap<Ticket, Option<Result<Done, StoreError>>>,
    closed: bool,
}

impl UserBook {
    pub(super) fn new(gate: Arc<Gate>) -> UserBook {
        UserBook {
            gate,
            submit: OnceLock::new(),
            changing: Mutex::default(),
            desk: Mutex::default(),
            told: Condvar::new(),
        }
    }

    /// From now on there is a log.
    pub(super) fn begin(&self, submit: Submit) {
        // A second one is as good as the first.
        let _ = self.submit.set(submit);
    }

    /// A row that the log kept. False: it cannot be read.
    pub(super) fn restore(&self, key: &[u8], value: &[u8]) -> bool {
        let row = std::str::from_utf8(key).ok().zip(Entry::read(value));
        row.map(|(name, entry)| self.gate.put(name, entry)).is_some()
    }

    /// The log has answered.
    pub(super) fn complete(&self, completions: Vec<Completion>) {
        let mut desk = self.lock();
        for (ticket, answer) in completions {
            if let Some(place) = desk.calls.get_mut(&ticket) {
                *place = Some(answer);
            }
        }
        drop(desk);
        self.told.notify_all();
    }

    /// Answers whoever waits; nothing is changed any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.told.notify_all();
    }

    /// Has the log write, and waits for it.
    pub(super) fn write(&self, write: Write) -> Result<(), UserFault> {
        let submit = self.submit.get().ok_or(UserFault::StoreFailed)?;
        let mut desk = self.lock();
        desk.last_ticket += 1;
        let ticket = desk.last_ticket;
        desk.calls.insert(ticket, None);
        drop(desk);
        let taken = submit(vec![(ticket, Call::Write(write))]);
        let waits = |desk: &mut Desk| {
            taken && !desk.closed && desk.calls.get(&ticket).is_some_and(Option::is_none)
        };
        let desk = self.told.wait_while(self.lock(), waits);
        let answer = desk.unwrap_or_else(PoisonError::into_inner).calls.remove(&ticket).flatten();
        match answer {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => {
                tracing::warn!(?error, "the log did not take a change of users or tokens");
                Err(UserFault::StoreFailed)
            }
            None => Err(UserFault::StoreFailed),
        }
    }

    /// Nothing panics half way through a change of the desk.
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Users for UserBook {
    fn list(&self, after: Option<&str>, count: usize) -> Vec<UserState> {
        let entries = self.gate.entries(after, count.min(PAGE_MAX));
        entries.iter().map(|(name, entry)| entry.state(name)).collect()
    }

    fn user(&self, name: &str) -> Option<UserState> {
        self.gate.entry(name).map(|entry| entry.state(name))
    }

    fn put(&self, order: UserOrder) -> Result<(), UserFault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, settings) = (self.gate.entry(&order.name), self.gate.settings());
        if before.is_none() && self.gate.entry_count() >= settings.users_max as usize {
            return Err(UserFault::Full);
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| UserFault::StoreFailed)?;
        let entry = Entry::ordered(before.as_ref(), &order, &settings.hashing, random);
        let entry = entry.map_err(UserFault::Wrong)?;
        let key = order.name.as_bytes().into();
        self.write(Write::Put { table: Table::Users, key, value: entry.row() })?;
        self.gate.put(&order.name, entry);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<bool, UserFault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.gate.entry(name).is_none() {
            return Ok(false);
        }
        self.write(Write::Delete { table: Table::Users, key: name.as_bytes().into() })?;
        Ok(self.gate.remove(name))
    }
}

//! The book of users on the log: what is put is on stable storage before the answer.
//!
//! One change at a time; whoever changes waits for the log, on a thread of its own. What users mean
//! is `guard`'s part. Invariant: access control holds what the log has, and never before it has it.

use super::{key_of, name_of};
use crate::backlog::ANSWER;
use guard::AccessControl;
use guard::book::UserEntry;
use model::ports::log::{Call, Completion, Done, StoreError, Table, Ticket, Write};
use model::ports::users::{UserFault, UserOrder, UserState, Users};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Hands calls to the log that holds users; false when it takes none of them now.
pub type SubmitUsers = Box<dyn Fn(Vec<(Ticket, Call)>) -> bool + Send + Sync>;

/// Users in one page, at most.
const PAGE_MAX: usize = 10_000;

/// The book.
pub(super) struct UserBook {
    access_control: Arc<AccessControl>,
    submit: OnceLock<SubmitUsers>,
    /// Held by whoever changes the book.
    changing: Mutex<()>,
    state: Mutex<UserBookState>,
    /// The log has answered, or all is over.
    told: Condvar,
}

#[derive(Default)]
struct UserBookState {
    last_ticket: Ticket,
    /// Answers, until they are taken.
    calls: HashMap<Ticket, Option<Result<Done, StoreError>>>,
    closed: bool,
}

impl UserBook {
    pub(super) fn new(access_control: Arc<AccessControl>) -> UserBook {
        UserBook {
            access_control,
            submit: OnceLock::new(),
            changing: Mutex::default(),
            state: Mutex::default(),
            told: Condvar::new(),
        }
    }

    /// From now on there is a log.
    pub(super) fn begin(&self, submit: SubmitUsers) {
        // A second one is as good as the first.
        let _ = self.submit.set(submit);
    }

    /// A row that the log kept. False: it cannot be read.
    pub(super) fn restore(&self, key: &[u8], value: &[u8]) -> bool {
        let row = name_of(key).zip(UserEntry::read(value));
        row.map(|(name, entry)| self.access_control.put(name, entry)).is_some()
    }

    /// The log has answered.
    pub(super) fn complete(&self, completions: Vec<Completion>) {
        let mut state = self.lock();
        for (ticket, answer) in completions {
            if let Some(place) = state.calls.get_mut(&ticket) {
                *place = Some(answer);
            }
        }
        drop(state);
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
        let mut state = self.lock();
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        state.calls.insert(ticket, None);
        drop(state);
        let taken = submit(vec![(ticket, Call::Write(write))]);
        let waits = |state: &mut UserBookState| {
            taken && !state.closed && state.calls.get(&ticket).is_some_and(Option::is_none)
        };
        let state = self.told.wait_timeout_while(self.lock(), ANSWER, waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner).0;
        let answer = state.calls.remove(&ticket).flatten();
        drop(state);
        match answer {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => {
                tracing::warn!(?error, "the log did not take a change of users or tokens");
                Err(UserFault::StoreFailed)
            }
            None => Err(UserFault::StoreFailed),
        }
    }

    /// Nothing panics half way through a change of the state.
    fn lock(&self) -> MutexGuard<'_, UserBookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Users for UserBook {
    fn list(&self, after: Option<&str>, count: usize) -> Vec<UserState> {
        let entries = self.access_control.entries(after, count.min(PAGE_MAX));
        entries.iter().map(|(name, entry)| entry.state(name)).collect()
    }

    fn user(&self, name: &str) -> Option<UserState> {
        self.access_control.entry(name).map(|entry| entry.state(name))
    }

    fn put(&self, order: UserOrder) -> Result<(), UserFault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, settings) =
            (self.access_control.entry(&order.name), self.access_control.settings());
        if before.is_none() && self.access_control.entry_count() >= settings.users_max as usize {
            return Err(UserFault::Full);
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| UserFault::StoreFailed)?;
        let entry = UserEntry::ordered(before.as_ref(), &order, &settings.hashing, random);
        let entry = entry.map_err(UserFault::Wrong)?;
        let key = key_of(&order.name);
        self.write(Write::Put { table: Table::Users, key, value: entry.row() })?;
        self.access_control.put(&order.name, entry);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<bool, UserFault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.access_control.entry(name).is_none() {
            return Ok(false);
        }
        self.write(Write::Delete { table: Table::Users, key: key_of(name) })?;
        Ok(self.access_control.remove(name))
    }
}

//! Calls to the logs by threads that wait for the answer: about rows of accounts and tokens, and
//! messages queued for an archive.
//!
//! This module knows which log a row is in, and nothing of the content of rows. Invariant: every
//! call is answered, at the latest after its time limit and when the server ends; a later answer is
//! dropped.

use crate::start::storage::backlog::ANSWER;
use base::hash::HashKey;
use model::id::NodeId;
use model::ports::log::{Call, Completion, Done, Read, Row, RowHome, StoreError, Table, Ticket};
use model::ports::log::{ROWS_MAX, Write};
use model::{event, tell};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Longest wait for a row: a connecting client waits no longer.
const READ: Duration = Duration::from_secs(10);

/// Hands calls to a log; false when it takes none of them now.
pub type SubmitRows = Box<dyn Fn(u16, Vec<(Ticket, Call)>) -> bool + Send + Sync>;

/// The way to the logs.
pub struct LogWay {
    /// Hands calls over.
    pub submit: SubmitRows,
    /// The cluster's key of homes.
    pub home: HashKey,
    /// Number of logs.
    pub shards: u16,
    /// The node's number.
    pub node: NodeId,
}

impl LogWay {
    /// The log that has the row with this key.
    fn log_of(&self, key: &[u8]) -> u16 {
        match RowHome::of(key) {
            RowHome::Slot(slot) => slot.home(self.shards),
            RowHome::Everywhere => 0,
        }
    }
}

/// A log did not do it, or did not answer in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFailed;

/// The logs.
#[derive(Default)]
pub struct RowLogs {
    way: OnceLock<LogWay>,
    state: Mutex<State>,
    /// Signalled when a log has answered, or at the end.
    told: Condvar,
}

#[derive(Default)]
struct State {
    last_ticket: Ticket,
    /// Answers, until they are taken.
    calls: HashMap<Ticket, Option<Result<Done, StoreError>>>,
    closed: bool,
}

impl RowLogs {
    /// How long the answer to a write is waited for.
    pub(crate) const ANSWER: Duration = ANSWER;

    /// Sets the way to the logs, once they exist.
    pub(crate) fn begin(&self, way: LogWay) {
        // A second one is as good as the first.
        let _ = self.way.set(way);
    }

    /// The way to the logs, once they exist.
    pub(super) fn way(&self) -> Result<&LogWay, LogFailed> {
        self.way.get().ok_or(LogFailed)
    }

    /// A log has answered.
    pub(crate) fn complete(&self, completions: Vec<Completion>) {
        let mut state = self.lock();
        for (ticket, answer) in completions {
            if let Some(place) = state.calls.get_mut(&ticket) {
                *place = Some(answer);
            }
        }
        drop(state);
        self.told.notify_all();
    }

    /// Fails all waiting calls; no more calls are made.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.told.notify_all();
    }

    /// Has rows written where they are at home, all of them or some before an error. They are on
    /// stable storage when this returns.
    pub(super) fn write(&self, writes: Vec<Write>) -> Result<(), LogFailed> {
        let way = self.way()?;
        let at = |write: Write| {
            let log = match &write {
                Write::Put { key, .. } | Write::Delete { key, .. } => way.log_of(key),
                _ => 0,
            };
            (log, Call::Write(write))
        };
        self.ask(writes.into_iter().map(at).collect(), ANSWER).map(drop)
    }

    /// Has a row written in every log.
    pub(super) fn write_everywhere(&self, write: &Write) -> Result<(), LogFailed> {
        let logs = 0..self.way()?.shards;
        self.ask(logs.map(|log| (log, Call::Write(write.clone()))).collect(), ANSWER).map(drop)
    }

    /// The values of these rows, as far as they exist.
    pub(crate) fn row_of_each(
        &self,
        table: Table,
        keys: Vec<Box<[u8]>>,
    ) -> Result<Vec<Option<Box<[u8]>>>, LogFailed> {
        let way = self.way()?;
        let read = |key: Box<[u8]>| (way.log_of(&key), Call::Read(Read::Row { table, key }));
        let answers = self.ask(keys.into_iter().map(read).collect(), READ)?;
        let value = |done| match done {
            Done::Row(value) => Ok(value),
            _ => Err(LogFailed),
        };
        answers.into_iter().map(value).collect()
    }

    /// Passes the rows of all logs behind a key to `each`, in the order of their keys, at most
    /// `count`; only rows whose keys contain a slot. A row counts if `each` returns true.
    pub(super) fn rows(
        &self,
        table: Table,
        behind: Option<Box<[u8]>>,
        count: usize,
        each: &mut dyn FnMut(Row) -> bool,
    ) -> Result<(), LogFailed> {
        let way = self.way()?;
        let first = behind.as_ref().map_or(0, |key| way.log_of(key));
        let (mut behind, mut left) = (behind, count);
        for log in first..way.shards {
            while left > 0 {
                let wanted = left.min(ROWS_MAX);
                let read =
                    Read::Rows { table, prefix: Box::default(), after: behind, count: wanted };
                let answer = self.ask(vec![(log, Call::Read(read))], READ)?.pop();
                let Some(Done::Rows(rows)) = answer else { return Err(LogFailed) };
                let is_last = rows.len() < wanted;
                behind = rows.last().map(|(key, _)| key.clone());
                left -= rows.into_iter().map(&mut *each).filter(|counts| *counts).count();
                if is_last {
                    break;
                }
            }
            behind = None;
        }
        Ok(())
    }

    /// Hands calls to logs, and waits for all of their answers, in the order of the calls.
    pub(crate) fn ask(
        &self,
        calls: Vec<(u16, Call)>,
        patience: Duration,
    ) -> Result<Vec<Done>, LogFailed> {
        let way = self.way()?;
        let mut state = self.lock();
        let mut by_log: Vec<Vec<(Ticket, Call)>> = Vec::new();
        by_log.resize_with(usize::from(way.shards), Vec::new);
        let mut tickets = Vec::with_capacity(calls.len());
        for (log, call) in calls {
            state.last_ticket += 1;
            tickets.push(state.last_ticket);
            let ticket = state.last_ticket;
            state.calls.insert(ticket, None);
            by_log[usize::from(log)].push((ticket, call));
        }
        drop(state);
        let asked = (0..).zip(by_log).filter(|(_, calls)| !calls.is_empty());
        let taken = asked.map(|(log, calls)| (way.submit)(log, calls)).fold(true, |a, b| a & b);
        let waits = |state: &mut State| {
            let open = |ticket| state.calls.get(ticket).is_some_and(Option::is_none);
            taken && !state.closed && tickets.iter().any(open)
        };
        let state = self.told.wait_timeout_while(self.lock(), patience, waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner).0;
        let answers: Vec<_> = tickets.iter().map(|ticket| state.calls.remove(ticket)).collect();
        drop(state);
        answers.into_iter().map(|answer| Self::done(answer.flatten())).collect()
    }

    fn done(answer: Option<Result<Done, StoreError>>) -> Result<Done, LogFailed> {
        match answer {
            Some(Ok(done)) => Ok(done),
            Some(Err(error)) => {
                tell!(event::ROW_REFUSED, ?error);
                Err(LogFailed)
            }
            None => Err(LogFailed),
        }
    }

    /// Locks the state. Nothing panics half way through a change of it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

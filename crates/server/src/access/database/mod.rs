//! The book of accounts in a database, with a copy in the logs.
//!
//! Changes go to the database first, and apply here when they are committed there
//! ([`BookDatabase::commit`]); changes by others are followed (`follower.rs`) and copied
//! (`copying.rs`). This file has the state of the database, for writers and for readers of it.
//! Invariant: every account put here is committed there; a database that is known to be unavailable
//! keeps no caller waiting.

mod copying;
mod cursor;
mod follower;
#[cfg(test)]
mod tests;

pub(super) use follower::Follower;

use guard::book::UserEntry;
use model::ports::databases::accounts::{
    AccountChange, AccountColumns, AccountTables, DatabaseFault,
};
use model::ports::log::RowHome;
use model::ports::users::UserFault;
use model::{event, tell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Key of the row that names the database of the book; no account's key is like it.
const COPY: &[u8] = b"copy";

/// Times that a change is retried because another writer was faster.
pub(super) const TRIES_MAX: u32 = 4;

/// How the database stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DatabaseStanding {
    /// The database was not asked yet.
    Unknown,
    /// The database answers, and the copy follows.
    There,
    /// The database does not answer.
    Away(String),
    /// The database answers, and the copy does not follow.
    Refuses(String),
}

/// Database that the book on the logs is a copy of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CopyMark {
    /// The database's number.
    pub(super) database: u64,
    /// How far it has come.
    pub(super) stage: CopyStage,
}

/// How far a copy has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyStage {
    /// The book was there first, and goes to the database.
    Filling = 0,
    /// The database is being read for the first time.
    Loading = 1,
    /// All accounts were read once.
    Whole = 2,
}

impl CopyMark {
    /// The key of its row, which every log has.
    pub(super) fn key() -> Box<[u8]> {
        RowHome::Everywhere.key(&[COPY])
    }

    pub(super) fn row(self) -> Box<[u8]> {
        [&self.database.to_be_bytes()[..], &[self.stage as u8]].concat().into()
    }

    pub(super) fn read(row: &[u8]) -> Option<CopyMark> {
        let (database, stage) = row.split_first_chunk()?;
        let stage = match stage {
            [0] => CopyStage::Filling,
            [1] => CopyStage::Loading,
            [2] => CopyStage::Whole,
            _ => return None,
        };
        Some(CopyMark { database: u64::from_be_bytes(*database), stage })
    }
}

/// Figures of the database of accounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatabaseCounts {
    /// 1: it answers, and the copy follows.
    pub up: u64,
    /// 1: every account was read once.
    pub whole: u64,
    /// Accounts that were read at the load that goes on, or the last one.
    pub loaded: u64,
    /// Words of changes that were carried out.
    pub news: u64,
    /// Calls that failed.
    pub faults: u64,
    /// Rows that are no accounts, and were left out.
    pub wrong: u64,
    /// Changes that were refused because it was away.
    pub refused: u64,
}

/// Figures that are counted.
#[derive(Default)]
pub(super) struct DatabaseTally {
    pub(super) whole: AtomicU64,
    pub(super) loaded: AtomicU64,
    pub(super) news: AtomicU64,
    faults: AtomicU64,
    pub(super) wrong: AtomicU64,
    refused: AtomicU64,
}

/// The database, and how it stands.
pub(super) struct BookDatabase {
    pub(super) tables: Arc<dyn AccountTables>,
    standing: Mutex<DatabaseStanding>,
    /// Set at the end; the follower is woken.
    over: AtomicBool,
    ended: Condvar,
    pub(super) tally: DatabaseTally,
}

impl BookDatabase {
    pub(super) fn new(tables: Arc<dyn AccountTables>) -> BookDatabase {
        BookDatabase {
            tables,
            standing: Mutex::new(DatabaseStanding::Unknown),
            over: AtomicBool::new(false),
            ended: Condvar::new(),
            tally: DatabaseTally::default(),
        }
    }

    /// Whether something may be changed now.
    pub(super) fn may_change(&self) -> Result<(), UserFault> {
        let why = match &*self.lock() {
            DatabaseStanding::There => return Ok(()),
            DatabaseStanding::Unknown => "the database was not reached yet".into(),
            DatabaseStanding::Away(why) | DatabaseStanding::Refuses(why) => why.clone(),
        };
        self.tally.refused.fetch_add(1, Ordering::Relaxed);
        Err(UserFault::DatabaseFailed(format!("{why}; nothing was done")))
    }

    /// Asks it for those who change the book. Its answer about itself is remembered.
    pub(super) fn asked<T>(
        &self,
        ask: impl FnOnce(&dyn AccountTables) -> Result<T, DatabaseFault>,
    ) -> Result<T, DatabaseFault> {
        let done = ask(&*self.tables);
        if let Err(fault) = &done {
            self.failed(fault);
        }
        done
    }

    /// The rows of these, in their order, and what they say.
    pub(super) fn find(
        &self,
        names: &[&str],
    ) -> Result<Vec<Option<(AccountColumns, UserEntry)>>, UserFault> {
        let rows = self.asked(|tables| tables.find(names))?;
        let mut rows: HashMap<String, AccountColumns> =
            rows.into_iter().map(|row| (row.name.clone(), row)).collect();
        let found = |name: &&str| {
            let Some(row) = rows.remove(*name) else { return Ok(None) };
            let entry = UserEntry::of_columns(&row).map_err(|why| {
                let name = base::text::quoted(name);
                UserFault::Wrong(format!("the database's row of {name} is no account: {why}"))
            })?;
            Ok(Some((row, entry)))
        };
        names.iter().map(found).collect()
    }

    /// Commits changes there.
    pub(super) fn commit(&self, changes: &[AccountChange]) -> Result<Vec<u64>, DatabaseFault> {
        self.asked(|tables| tables.commit(changes)).map_err(|fault| match fault {
            DatabaseFault::Away(why) => {
                DatabaseFault::Away(format!("{why}; it is not known whether it was done"))
            }
            other => other,
        })
    }

    /// Notes that the database failed: logged once, until it is back.
    pub(super) fn failed(&self, fault: &DatabaseFault) {
        let standing = match fault {
            DatabaseFault::Conflict => return,
            DatabaseFault::Away(_) => DatabaseStanding::Away(fault.to_string()),
            DatabaseFault::Refused(_) => DatabaseStanding::Refuses(fault.to_string()),
        };
        self.tally.faults.fetch_add(1, Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.lock(), standing.clone());
        let was_so = match (&before, &standing) {
            (DatabaseStanding::Away(_), DatabaseStanding::Away(_)) => true,
            (before, after) => before == after,
        };
        if !was_so {
            let whole = self.tally.whole.load(Ordering::Relaxed) == 1;
            let logins = if whole { "go on by the copy" } else { "of others are put off" };
            tell!(event::ACCOUNTS_AWAY, why = %fault, logins);
        }
    }

    /// Notes that the database is back, and that the copy follows.
    pub(super) fn is_there(&self) {
        let before = std::mem::replace(&mut *self.lock(), DatabaseStanding::There);
        if before != DatabaseStanding::There {
            tell!(event::ACCOUNTS_BACK);
        }
    }

    /// Whether it is there, as far as is known.
    pub(super) fn stands(&self) -> bool {
        *self.lock() == DatabaseStanding::There
    }

    /// Waits for this time, or until the end.
    pub(super) fn wait(&self, ms: u64) {
        let goes_on = |_: &mut DatabaseStanding| !self.is_over();
        drop(self.ended.wait_timeout_while(self.lock(), Duration::from_millis(ms), goes_on));
    }

    /// Stops following the database.
    pub(super) fn close(&self) {
        let standing = self.lock();
        self.over.store(true, Ordering::Release);
        drop(standing);
        self.tables.close();
        self.ended.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn counts(&self) -> DatabaseCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let DatabaseTally { whole, loaded, news, faults, wrong, refused } = &self.tally;
        DatabaseCounts {
            up: self.stands().into(),
            whole: count(whole),
            loaded: count(loaded),
            news: count(news),
            faults: count(faults),
            wrong: count(wrong),
            refused: count(refused),
        }
    }

    /// Locks the state. Nothing panics half way through a change of it.
    fn lock(&self) -> MutexGuard<'_, DatabaseStanding> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

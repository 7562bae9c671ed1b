//! The book of accounts on the logs: what is put is on stable storage before the answer.
//!
//! A row is in the log of its account's home; one more, in every log, says up to where numbers of
//! accounts may have been given. One change at a time; whoever changes waits for the log, on a
//! thread of its own. What accounts mean is `guard`'s part. Invariants: access control holds what
//! the log has, and never before it has it; a number is given once, whatever happens.

use super::row_logs::{LogFailed, RowLogs};
use guard::book::{self, EVERYBODY, UserEntry};
use guard::passwords::Kept;
use guard::{AccessControl, NotRead};
use model::ports::log::{RowHome, Table, Write};
use model::ports::users::{DOMAIN, ImportForm, Imported, UserFault, UserOrder, UserState, Users};
use model::ports::users::{account_key, account_of_key};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Users in one page, at most.
const PAGE_MAX: usize = 10_000;

/// What names the row of given numbers; no account's key is like it.
const NUMBERS: &[u8] = b"uids";

/// Numbers that are spoken for in advance, by one write. What is left of them at the end of the
/// process is never given.
const NUMBERS_AT_ONCE: u64 = 65_536;

/// Bits of a number below the node's: with its ten, 53 in all, as many as every reader of JSON
/// takes.
const NUMBER_BITS: u32 = 43;

/// Numbers of accounts, of which no two are alike.
#[derive(Default)]
pub(super) struct Numbers {
    /// The last that was given.
    last: u64,
    /// Up to here they are this process's, which stands in the logs.
    upto: u64,
}

/// The book.
pub(super) struct UserBook {
    pub(super) access_control: Arc<AccessControl>,
    pub(super) logs: Arc<RowLogs>,
    /// Held by whoever changes the book.
    changing: Mutex<Numbers>,
    /// Rows of a build before, that are not read.
    old_rows: AtomicU64,
}

impl From<LogFailed> for UserFault {
    fn from(_: LogFailed) -> UserFault {
        UserFault::StoreFailed
    }
}

impl UserBook {
    pub(super) fn new(access_control: Arc<AccessControl>, logs: Arc<RowLogs>) -> UserBook {
        let (changing, old_rows) = (Mutex::default(), AtomicU64::new(0));
        UserBook { access_control, logs, changing, old_rows }
    }

    /// A row that a log kept. False: it cannot be read.
    pub(super) fn restore(&self, key: &[u8], value: &[u8]) -> bool {
        if *key == *numbers_key() {
            let Ok(upto) = value.try_into().map(u64::from_be_bytes) else { return false };
            let mut numbers = self.lock();
            numbers.upto = numbers.upto.max(upto);
            numbers.last = numbers.upto;
            return true;
        }
        let Some((domain, name)) = account_of_key(key) else {
            self.old_rows.fetch_add(u64::from(value.first() == Some(&b'{')), Ordering::Relaxed);
            return false;
        };
        let mark = UserEntry::read_mark(value).filter(|_| domain == DOMAIN);
        mark.map(|mark| self.access_control.restore(name, mark)).is_some()
    }

    /// All rows were restored. In words, why it cannot go on with them.
    pub(super) fn restored(&self) -> Result<(), String> {
        self.access_control.restored();
        match self.old_rows.load(Ordering::Relaxed) {
            0 => Ok(()),
            count => Err(format!(
                "the data folder has {count} users in the form of an earlier build, which had no \
                 numbers of accounts: start with a new folder and make them anew (or go back to \
                 that build and remove them)"
            )),
        }
    }

    /// An account as its log has it.
    pub(super) fn read(&self, name: &str) -> Result<Option<UserEntry>, LogFailed> {
        self.read_each(&[name])?.pop().ok_or(LogFailed)
    }

    /// The same of several.
    pub(super) fn read_each(&self, names: &[&str]) -> Result<Vec<Option<UserEntry>>, LogFailed> {
        let home = self.logs.way()?.home;
        let keys = names.iter().map(|name| account_key(home, DOMAIN, name)).collect();
        let rows = self.logs.row_of_each(Table::Users, keys)?;
        let read = |(row, name): (Option<Box<[u8]>>, &&str)| {
            let Some(row) = row else { return Ok(None) };
            let entry = UserEntry::read(&row);
            if entry.is_none() {
                tracing::error!(user = name, "the row of a user cannot be read");
            }
            entry.map(Some).ok_or(LogFailed)
        };
        rows.into_iter().zip(names).map(read).collect()
    }

    /// The user with this name, if it has this password. Slow; for a name that nobody has a
    /// password is hashed all the same.
    pub(super) fn check(&self, name: &str, password: &str) -> Result<Option<UserState>, UserFault> {
        let entry = self.read(name)?.filter(|_| name != EVERYBODY);
        let Some(hash) = entry.as_ref().and_then(|entry| entry.account.kept.hash.as_ref()) else {
            self.kept(password)?;
            return Ok(None);
        };
        let is_right = hash.is_of(password.as_bytes());
        Ok(entry.filter(|_| is_right).map(|entry| entry.state(name)))
    }

    /// The same for access control.
    pub(super) fn entry(&self, name: &str) -> Result<Option<UserEntry>, NotRead> {
        self.read(name).map_err(|_| NotRead)
    }

    /// Puts an account's row, and has it hold. `before`: what it was.
    fn write(
        &self,
        name: &str,
        before: Option<&UserEntry>,
        entry: UserEntry,
    ) -> Result<UserState, UserFault> {
        let ends = before.is_some_and(|before| before.epoch != entry.epoch);
        if ends && !self.access_control.may_end() {
            return Err(UserFault::Busy);
        }
        let key = account_key(self.logs.way()?.home, DOMAIN, name);
        self.logs.write(vec![Write::Put { table: Table::Users, key, value: entry.row() }])?;
        let state = entry.state(name);
        self.access_control.put(name, entry, ends);
        Ok(state)
    }

    /// A number that was never given, and is not again.
    fn number(&self, numbers: &mut Numbers) -> Result<u64, UserFault> {
        let way = self.logs.way()?;
        if numbers.last == numbers.upto {
            let upto = numbers.upto + NUMBERS_AT_ONCE;
            if upto >> NUMBER_BITS != 0 {
                return Err(UserFault::Full);
            }
            let value = upto.to_be_bytes().into();
            let write = Write::Put { table: Table::Users, key: numbers_key(), value };
            self.logs.write_everywhere(&write)?;
            numbers.upto = upto;
        }
        numbers.last += 1;
        Ok(u64::from(way.node.number()) << NUMBER_BITS | numbers.last)
    }

    /// Nothing panics half way through a change.
    pub(super) fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept of a new password. Slow.
    pub(super) fn kept(&self, password: &str) -> Result<Kept, UserFault> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| UserFault::StoreFailed)?;
        Ok(self.access_control.settings().hashing.hash(password.as_bytes(), random))
    }

    /// A new account under this name, if there may be one more beside those that are being made.
    pub(super) fn made(
        &self,
        name: &str,
        making: usize,
        numbers: &mut Numbers,
    ) -> Result<UserEntry, UserFault> {
        if name == EVERYBODY {
            return Ok(UserEntry::default());
        }
        let most = self.access_control.settings().users_max as usize;
        if self.access_control.count() + making >= most {
            return Err(UserFault::Full);
        }
        if self.access_control.may_have(name) {
            // Memory would take the two for one.
            let why = "this name cannot stand beside another that there is: take another one";
            return Err(UserFault::Wrong(why.into()));
        }
        self.number(numbers).map(UserEntry::new)
    }
}

impl Users for UserBook {
    fn list(&self, after: Option<&str>, count: usize) -> Result<Vec<UserState>, UserFault> {
        let home = self.logs.way()?.home;
        let behind = after.map(|name| account_key(home, DOMAIN, name));
        let mut users = Vec::new();
        self.logs.rows(Table::Users, behind, count.min(PAGE_MAX), &mut |(key, value)| {
            let named = account_of_key(&key).filter(|(domain, _)| *domain == DOMAIN);
            let read = named.and_then(|(_, name)| Some(UserEntry::read(&value)?.state(name)));
            let is_user = read.is_some();
            users.extend(read);
            is_user
        })?;
        Ok(users)
    }

    fn user(&self, name: &str) -> Result<Option<UserState>, UserFault> {
        Ok(self.read(name)?.map(|entry| entry.state(name)))
    }

    fn put(&self, order: UserOrder) -> Result<UserState, UserFault> {
        book::check(&order).map_err(UserFault::Wrong)?;
        let kept = order.password.as_deref().map(|password| self.kept(password)).transpose()?;
        let mut numbers = self.lock();
        let before = self.read(&order.name)?;
        let made = match &before {
            Some(_) => None,
            None => Some(self.made(&order.name, 0, &mut numbers)?),
        };
        let base = before.as_ref().or(made.as_ref()).expect("one of them is there");
        let entry = base.ordered(&order, kept).map_err(UserFault::Wrong)?;
        self.write(&order.name, before.as_ref(), entry)
    }

    fn remove(&self, name: &str) -> Result<bool, UserFault> {
        let _one = self.lock();
        if self.read(name)?.is_none() {
            return Ok(false);
        }
        if !self.access_control.may_end() {
            return Err(UserFault::Busy);
        }
        let key = account_key(self.logs.way()?.home, DOMAIN, name);
        self.logs.write(vec![Write::Delete { table: Table::Users, key }])?;
        self.access_control.remove(name);
        Ok(true)
    }

    fn kick(&self, name: &str) -> Result<Option<UserState>, UserFault> {
        if name == EVERYBODY {
            return Err(UserFault::Wrong("* stands for everybody: it has no sessions".into()));
        }
        let _one = self.lock();
        let Some(before) = self.read(name)? else { return Ok(None) };
        self.write(name, Some(&before), before.kicked()).map(Some)
    }

    fn import(&self, lines: &[String], form: ImportForm) -> Result<Imported, UserFault> {
        self.import_lines(lines, form)
    }
}

/// Each log has its own, and the highest holds: it goes along with whatever part of a folder.
fn numbers_key() -> Box<[u8]> {
    RowHome::Everywhere.key(&[NUMBERS])
}

//! The book of accounts on the logs: an answer means stable storage.
//!
//! A row is in the log of its account's home; one more, in every log, holds the bound of the
//! numbers given to accounts. One change runs at a time; its caller waits for the log, on a thread
//! that may block. If a database has the book, it gets a change first, and gives the numbers; the
//! rows of the logs are a copy then (`database`). `guard` knows the meaning of accounts.
//! Invariants: access control has what the log has, and never before; a number is given once,
//! whatever happens.

use super::database::{BookDatabase, CopyMark, CopyStage, TRIES_MAX};
use super::row_logs::{LogFailed, RowLogs};
use guard::book::{self, EVERYBODY, UserEntry};
use guard::passwords::Kept;
use guard::{AccessControl, NotRead};
use model::account::AccountAddress;
use model::ports::databases::accounts::{AccountChange, AccountColumns, DatabaseFault};
use model::ports::log::{RowHome, Table, Write};
use model::ports::users::{
    Authority, DOMAIN, ImportForm, Imported, UserFault, UserOrder, UserState, Users, account_key,
    account_of_key,
};
use model::{event, tell};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Users in one page, at most.
const PAGE_MAX: usize = 10_000;

/// Key of the row of given numbers; no account's key is like it.
const NUMBERS: &[u8] = b"uids";

/// Numbers that are spoken for in advance, by one write. Numbers that are left at the end of the
/// process are never given.
const NUMBERS_AT_ONCE: u64 = 65_536;

/// Bits of a number below the node's: with its ten, 53 in all, as many as every reader of JSON
/// takes.
const NUMBER_BITS: u32 = 43;

/// Bits of a number that count accounts.
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Account after a change, with numbers for a new one.
type ToAccount<'a> =
    dyn Fn(Option<&UserEntry>, &mut Numbers) -> Result<Option<UserEntry>, UserFault> + 'a;

/// Numbers of accounts, of which no two are alike.
#[derive(Default)]
pub(super) struct Numbers {
    /// The last that was given.
    last: u64,
    /// Number up to which they are this process's, which stands in the logs.
    upto: u64,
}

impl Numbers {
    /// An account has this number: those up to it were given.
    fn saw(&mut self, uid: u64) {
        self.upto = self.upto.max(uid & NUMBER_MASK);
        self.last = self.last.max(self.upto);
    }
}

/// The book.
pub(super) struct UserBook {
    pub(super) access_control: Arc<AccessControl>,
    pub(super) logs: Arc<RowLogs>,
    /// The domain of chat whose accounts are users by their bare names.
    chat_domain: Box<str>,
    /// Where the book is kept, if not here.
    pub(super) database: Option<Arc<BookDatabase>>,
    /// Database that the book is a copy of, as the logs have it.
    copy: Mutex<Option<CopyMark>>,
    /// Held while the book is changed.
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
    pub(super) fn new(
        access_control: Arc<AccessControl>,
        (logs, chat_domain): (Arc<RowLogs>, Box<str>),
        database: Option<Arc<BookDatabase>>,
    ) -> UserBook {
        let (changing, old_rows, copy) = (Mutex::default(), AtomicU64::new(0), Mutex::default());
        UserBook { access_control, logs, chat_domain, database, copy, changing, old_rows }
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
        if *key == *CopyMark::key() {
            let mark = CopyMark::read(value);
            *self.copy.lock().unwrap_or_else(PoisonError::into_inner) = mark;
            return mark.is_some();
        }
        let Some((domain, name)) = account_of_key(key) else {
            self.old_rows.fetch_add(u64::from(value.first() == Some(&b'{')), Ordering::Relaxed);
            return false;
        };
        let mark = UserEntry::read_mark(value).filter(|_| domain == DOMAIN);
        mark.iter().for_each(|mark| self.lock().saw(mark.uid));
        mark.map(|mark| self.access_control.restore(name, mark)).is_some()
    }

    /// To be called when all rows are restored. The error says why the server cannot use them.
    pub(super) fn restored(&self) -> Result<(), String> {
        self.access_control.restored();
        if self.database.is_some() {
            // An incomplete copy does not show which users were removed.
            let is_whole = self.copy_mark().is_some_and(|mark| mark.stage != CopyStage::Loading);
            self.access_control.set_whole(is_whole);
        }
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

    /// As [`read`](Self::read), for several accounts.
    pub(super) fn read_each(&self, names: &[&str]) -> Result<Vec<Option<UserEntry>>, LogFailed> {
        let home = self.logs.way()?.home;
        let keys = names.iter().map(|name| account_key(home, DOMAIN, name)).collect();
        let rows = self.logs.row_of_each(Table::Users, keys)?;
        let read = |(row, name): (Option<Box<[u8]>>, &&str)| {
            let Some(row) = row else { return Ok(None) };
            let entry = UserEntry::read(&row);
            if entry.is_none() {
                tell!(event::USER_UNREADABLE, user = name);
            }
            entry.map(Some).ok_or(LogFailed)
        };
        rows.into_iter().zip(names).map(read).collect()
    }

    /// The user with this name, if it has this password. Slow; for an unknown name a password is
    /// hashed all the same.
    pub(super) fn check(&self, name: &str, password: &str) -> Result<Option<UserState>, UserFault> {
        let entry = self.read(name)?.filter(|_| name != EVERYBODY);
        let Some(hash) = entry.as_ref().and_then(|entry| entry.account.kept.hash.as_ref()) else {
            self.kept(password)?;
            return Ok(None);
        };
        let is_right = hash.is_of(password.as_bytes());
        Ok(entry.filter(|_| is_right).map(|entry| entry.state(name)))
    }

    /// As [`read`](Self::read), for access control.
    pub(super) fn entry(&self, name: &str) -> Result<Option<UserEntry>, NotRead> {
        self.read(name).map_err(|_| NotRead)
    }

    /// Makes of an account what `to` makes of what it is; absent is none. It is committed where the
    /// book is kept, on stable storage here, and holds.
    fn change(
        &self,
        name: &str,
        numbers: &mut Numbers,
        to: &ToAccount<'_>,
    ) -> Result<Option<UserEntry>, UserFault> {
        let held = self.read(name)?;
        let Some(database) = &self.database else {
            let after = to(held.as_ref(), numbers)?;
            self.check_ends(held.as_ref(), after.as_ref())?;
            return self.hold(name, held.as_ref(), after);
        };
        database.may_change()?;
        for _ in 0..TRIES_MAX {
            let found = database.find(&[name])?.pop().flatten();
            let (row, before) = found.unzip();
            let mut after = to(before.as_ref(), numbers)?;
            self.check_ends(held.as_ref(), after.as_ref())?;
            let Some(change) = changed(name, row, after.as_ref()) else { return Ok(None) };
            let uids = match database.commit(&[change]) {
                Err(DatabaseFault::Conflict) => continue,
                done => done?,
            };
            if let (Some(after), Some(uid)) = (&mut after, uids.first()) {
                after.uid = if name == EVERYBODY { 0 } else { *uid };
                self.know(numbers, after.uid)?;
            }
            return self.hold(name, held.as_ref(), after);
        }
        Err(UserFault::Busy)
    }

    /// Whether sessions may be ended, if it ends some.
    fn check_ends(
        &self,
        held: Option<&UserEntry>,
        after: Option<&UserEntry>,
    ) -> Result<(), UserFault> {
        let may = !ends(held, after) || self.access_control.may_end();
        may.then_some(()).ok_or(UserFault::Busy)
    }

    /// Puts an account's row, and has it hold. `held`: what it was here.
    fn hold(
        &self,
        name: &str,
        held: Option<&UserEntry>,
        after: Option<UserEntry>,
    ) -> Result<Option<UserEntry>, UserFault> {
        let (table, key) = (Table::Users, account_key(self.logs.way()?.home, DOMAIN, name));
        self.note_removed(gone(held, after.as_ref()).map(|uid| (name, uid)))?;
        match &after {
            Some(entry) => {
                let ends = ends(held, Some(entry));
                self.logs.write(vec![Write::Put { table, key, value: entry.row() }])?;
                self.access_control.put(name, entry.clone(), ends);
            }
            None if held.is_none() => {}
            None => {
                self.logs.write(vec![Write::Delete { table, key }])?;
                self.access_control.remove(name);
            }
        }
        Ok(after)
    }

    /// Stores that accounts are about to be removed: chat ends their ties, after a kill too.
    /// Nothing is removed if that cannot be stored.
    pub(super) fn note_removed<'a>(
        &self,
        gone: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<(), LogFailed> {
        let home = self.logs.way()?.home;
        let row = |(name, uid): (&str, u64)| {
            // Whoever has a name that chat does not take has no account there.
            let address = AccountAddress::parse(name, &self.chat_domain).ok()?;
            Some(chat::row_of_parting(home, (&address, uid), None))
        };
        let rows: Vec<Write> =
            gone.into_iter().filter(|(_, uid)| *uid != 0).filter_map(row).collect();
        if rows.is_empty() { Ok(()) } else { self.logs.write(rows) }
    }

    /// Database that the book is a copy of.
    pub(super) fn copy_mark(&self) -> Option<CopyMark> {
        *self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes into every log of which database the book is a copy; `None`: of none.
    pub(super) fn mark_copy(&self, mark: Option<CopyMark>) -> Result<(), UserFault> {
        let (table, key) = (Table::Users, CopyMark::key());
        let write = match mark {
            Some(mark) => Write::Put { table, key, value: mark.row() },
            None => Write::Delete { table, key },
        };
        self.logs.write_everywhere(&write)?;
        *self.copy.lock().unwrap_or_else(PoisonError::into_inner) = mark;
        Ok(())
    }

    /// Whether the book has no accounts, and no rules for all users.
    pub(super) fn is_empty(&self) -> Result<bool, UserFault> {
        Ok(self.access_control.count() == 0 && self.read(EVERYBODY)?.is_none())
    }

    /// Sets whether the book is complete, so that an unknown name has no account.
    pub(super) fn set_whole(&self, is_whole: bool) {
        self.access_control.set_whole(is_whole);
        if let Some(database) = &self.database {
            database.tally.whole.store(is_whole.into(), Ordering::Relaxed);
        }
    }

    /// The logs are there. The copy in them is known to be whole, or not.
    pub(super) fn begin(&self) -> Result<(), UserFault> {
        let mark = self.copy_mark();
        match (&self.database, mark) {
            (None, None) => {}
            // From now on the book is changed here, and is no copy of a database.
            (None, Some(_)) => self.mark_copy(None)?,
            (Some(_), Some(mark)) => self.set_whole(mark.stage != CopyStage::Loading),
            (Some(_), None) => self.set_whole(!self.is_empty()?),
        }
        Ok(())
    }

    /// Accounts behind the one called `behind`, in the order of [`Users::list`], that can be read.
    pub(super) fn page(
        &self,
        behind: Option<String>,
        count: usize,
    ) -> Result<Vec<(String, UserEntry)>, UserFault> {
        let home = self.logs.way()?.home;
        let behind = behind.map(|name| account_key(home, DOMAIN, &name));
        let mut page = Vec::new();
        self.logs.rows(Table::Users, behind, count, &mut |(key, value)| {
            let named = account_of_key(&key).filter(|(domain, _)| *domain == DOMAIN);
            let read =
                named.and_then(|(_, name)| Some((name.to_owned(), UserEntry::read(&value)?)));
            let is_account = read.is_some();
            page.extend(read);
            is_account
        })?;
        Ok(page)
    }

    /// Notes a number that another writer has given, so that it is not given here, even if the book
    /// moves later.
    pub(super) fn know(&self, numbers: &mut Numbers, uid: u64) -> Result<(), UserFault> {
        if uid & NUMBER_MASK > numbers.upto {
            let upto = (uid & NUMBER_MASK).next_multiple_of(NUMBERS_AT_ONCE);
            self.write_numbers(upto)?;
            numbers.saw(upto);
        }
        Ok(())
    }

    fn write_numbers(&self, upto: u64) -> Result<(), UserFault> {
        let value = upto.to_be_bytes().into();
        let write = Write::Put { table: Table::Users, key: numbers_key(), value };
        Ok(self.logs.write_everywhere(&write)?)
    }

    /// A number that was never given, and is not again.
    fn number(&self, numbers: &mut Numbers) -> Result<u64, UserFault> {
        if self.database.is_some() {
            // The database gives the number when the account is committed.
            return Ok(0);
        }
        let way = self.logs.way()?;
        if numbers.last == numbers.upto {
            let upto = numbers.upto + NUMBERS_AT_ONCE;
            if upto >> NUMBER_BITS != 0 {
                return Err(UserFault::Full);
            }
            self.write_numbers(upto)?;
            numbers.upto = upto;
        }
        numbers.last += 1;
        Ok(u64::from(way.node.number()) << NUMBER_BITS | numbers.last)
    }

    /// Locks the numbers. Nothing panics half way through a change of them.
    pub(super) fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an order with this authority may change an account: the one that there is now, if
    /// there is one, or what it would be afterwards.
    pub(super) fn reaches(
        &self,
        authority: Authority,
        name: &str,
        entry: Option<&UserEntry>,
    ) -> Result<(), UserFault> {
        let administers = || {
            self.access_control.administers(name)
                || entry.is_some_and(|entry| entry.account.is_super)
        };
        match authority == Authority::Admin || !administers() {
            true => Ok(()),
            false => Err(UserFault::OutOfReach(name.into())),
        }
    }

    /// Makes or changes a user, if it may be: as it is when nobody else changes it. `None`: it may
    /// not, and nothing was done.
    pub(super) fn put_if(
        &self,
        order: &UserOrder,
        authority: Authority,
        may: &dyn Fn(Option<&UserEntry>) -> bool,
    ) -> Result<Option<UserEntry>, UserFault> {
        book::check(order).map_err(UserFault::Wrong)?;
        self.reaches(authority, &order.name, None)?;
        let kept = order.password.as_deref().map(|password| self.kept(password)).transpose()?;
        let (mut numbers, refused) = (self.lock(), Cell::new(false));
        let put = self.change(&order.name, &mut numbers, &|before, numbers| {
            self.reaches(authority, &order.name, before)?;
            refused.set(!may(before));
            if refused.get() {
                return Err(UserFault::Busy); // nobody hears it
            }
            let made = match before {
                Some(_) => None,
                None => Some(self.made(&order.name, 0, numbers)?),
            };
            let base = before.or(made.as_ref()).expect("one of them is there");
            let after = base.ordered(order, kept.clone()).map_err(UserFault::Wrong)?;
            self.reaches(authority, &order.name, Some(&after))?;
            Ok(Some(after))
        });
        if refused.get() { Ok(None) } else { put }
    }

    /// Removes a user that is there, if it may be. False: there was none, or it may not.
    pub(super) fn remove_if(
        &self,
        name: &str,
        authority: Authority,
        may: &dyn Fn(&UserEntry) -> bool,
    ) -> Result<bool, UserFault> {
        let (mut numbers, refused) = (self.lock(), Cell::new(false));
        let removed = self.change(name, &mut numbers, &|before, _| {
            self.reaches(authority, name, before)?;
            refused.set(!before.is_some_and(may));
            match (before, refused.get()) {
                (Some(_), true) => Err(UserFault::Busy), // nobody hears it
                _ => Ok(None),
            }
        });
        if refused.get() { Ok(false) } else { removed.map(|_| true) }
    }

    /// Stored form of a new password. Slow.
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
        if self.access_control.may_have(name) && self.read(name)?.is_none() {
            // Memory would take the two for one.
            let why = "this name cannot stand beside another that there is: take another one";
            return Err(UserFault::Wrong(why.into()));
        }
        self.number(numbers).map(UserEntry::new)
    }
}

impl Users for UserBook {
    fn list(&self, after: Option<&str>, count: usize) -> Result<Vec<UserState>, UserFault> {
        let page = self.page(after.map(str::to_owned), count.min(PAGE_MAX))?;
        Ok(page.into_iter().map(|(name, entry)| entry.state(&name)).collect())
    }

    fn count(&self) -> u64 {
        self.access_control.count() as u64
    }

    fn user(&self, name: &str) -> Result<Option<UserState>, UserFault> {
        Ok(self.read(name)?.map(|entry| entry.state(name)))
    }

    fn keys(&self, name: &str) -> Result<Option<Vec<String>>, UserFault> {
        Ok(self.read(name)?.map(|entry| entry.key_texts()))
    }

    fn put(&self, order: UserOrder, authority: Authority) -> Result<UserState, UserFault> {
        let put = self.put_if(&order, authority, &|_| true)?;
        Ok(put.expect("it was put").state(&order.name))
    }

    fn remove(&self, name: &str, authority: Authority) -> Result<bool, UserFault> {
        self.remove_if(name, authority, &|_| true)
    }

    fn kick(&self, name: &str, authority: Authority) -> Result<Option<UserState>, UserFault> {
        if name == EVERYBODY {
            return Err(UserFault::Wrong(
                "the user * stands for everybody and has no \
                                         sessions"
                    .into(),
            ));
        }
        let mut numbers = self.lock();
        let kicked = |before: Option<&UserEntry>, _: &mut Numbers| {
            self.reaches(authority, name, before)?;
            Ok(before.map(UserEntry::kicked))
        };
        let after = self.change(name, &mut numbers, &kicked)?;
        Ok(after.map(|entry| entry.state(name)))
    }

    fn import(
        &self,
        lines: &[String],
        form: ImportForm,
        authority: Authority,
    ) -> Result<Imported, UserFault> {
        self.import_lines(lines, form, authority)
    }
}

/// Whether a change of an account ends sessions: of a removal or a new number, too.
pub(super) fn ends(held: Option<&UserEntry>, after: Option<&UserEntry>) -> bool {
    let of = |entry: &UserEntry| entry.granted();
    held.is_some_and(|held| after.is_none_or(|after| of(after) != of(held)))
}

/// The number of an account that is there no longer after a change.
pub(super) fn gone(held: Option<&UserEntry>, after: Option<&UserEntry>) -> Option<u64> {
    let held = held?.uid;
    after.is_none_or(|after| after.uid != held).then_some(held)
}

/// The change of a row; `None` if nothing changes.
fn changed(
    name: &str,
    before: Option<AccountColumns>,
    after: Option<&UserEntry>,
) -> Option<AccountChange> {
    let uid = before.as_ref().map_or(0, |row| row.uid);
    let after = after.map(|entry| entry.columns(name, uid));
    (before.is_some() || after.is_some()).then_some(AccountChange { before, after })
}

/// Each log has its own, and the highest holds: it goes along with whatever part of a folder.
fn numbers_key() -> Box<[u8]> {
    RowHome::Everywhere.key(&[NUMBERS])
}

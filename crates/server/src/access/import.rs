//! Import of many accounts: lines of a file become rows, in batches of one write per log.
//!
//! A batch is limited to one call: a number of lines and of plain passwords (each of which is
//! hashed here, on the caller's thread), no name twice. A caller with more lines continues behind
//! those that are done. Invariant: a line counts as done when its account is on stable storage and
//! can log in.

use super::user_book::{Numbers, UserBook};
use guard::accounts::ImportLine;
use guard::book::{EVERYBODY, UserEntry};
use guard::passwords::{Kept, StoredHash};
use model::ports::databases::accounts::{AccountChange, AccountColumns};
use model::ports::log::{Table, Write};
use model::ports::users::{
    Authority, DOMAIN, IMPORT_LINES_MAX, ImportForm, Imported, UserFault, account_key,
};
use std::collections::HashSet;

/// Plain passwords in one batch: with the dearest hashing, some seconds.
const PASSWORDS_MAX: usize = 64;

/// A line that is to be written, or is so already.
struct Wish {
    name: String,
    entry: UserEntry,
    before: Option<UserEntry>,
    /// As a database has it, where one keeps the book.
    row: Option<AccountColumns>,
}

impl Wish {
    fn is_same(&self) -> bool {
        self.before.as_ref().is_some_and(|before| {
            before.account == self.entry.account && before.epoch == self.entry.epoch
        })
    }

    fn ends(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.epoch != self.entry.epoch)
    }

    fn change(&self) -> AccountChange {
        let uid = self.row.as_ref().map_or(0, |row| row.uid);
        let after = Some(self.entry.columns(&self.name, uid));
        AccountChange { before: self.row.clone(), after }
    }
}

/// The lines of a batch with their places, and what is wrong with the one behind them.
fn batch(lines: &[String], form: ImportForm) -> (Vec<(usize, ImportLine)>, Imported) {
    let (mut batch, mut names, mut passwords) = (Vec::new(), HashSet::new(), 0);
    let mut told = Imported::default();
    for (at, line) in lines.iter().take(IMPORT_LINES_MAX).enumerate() {
        match ImportLine::read(line, form) {
            Ok(None) => {}
            Ok(Some(read)) => {
                passwords += usize::from(read.password.is_some());
                if passwords > PASSWORDS_MAX || !names.insert(read.name.clone()) {
                    break;
                }
                batch.push((at, read));
            }
            Err(why) => {
                told.wrong = Some(why);
                break;
            }
        }
        told.done = at + 1;
    }
    (batch, told)
}

impl UserBook {
    /// Carries out a batch ([`model::ports::users::Users::import`]).
    pub(super) fn import_lines(
        &self,
        lines: &[String],
        form: ImportForm,
        authority: Authority,
    ) -> Result<Imported, UserFault> {
        let (batch, mut told) = batch(lines, form);
        let mut numbers = self.lock();
        let names: Vec<&str> = batch.iter().map(|(_, line)| &*line.name).collect();
        let before = match &self.database {
            None => self.before(&names)?.into_iter().map(|entry| (None, entry)).collect(),
            Some(database) => {
                database.may_change()?;
                let found = database.find(&names)?;
                found.into_iter().map(Option::unzip).collect::<Vec<_>>()
            }
        };
        let (mut wishes, mut making) = (Vec::with_capacity(batch.len()), 0);
        for ((at, line), before) in batch.iter().zip(before) {
            // Before anything is hashed or compared: who may not change an administrator must not
            // learn whether a password is the administrator's.
            let reached = self.reaches(authority, &line.name, before.1.as_ref());
            let wish = reached.and_then(|()| self.wish(line, before, making, &mut numbers));
            let wish = wish.and_then(|wish| {
                self.reaches(authority, &line.name, Some(&wish.entry))?;
                Ok(wish)
            });
            match wish {
                Ok(wish) => {
                    making += usize::from(wish.before.is_none());
                    wishes.push(wish);
                }
                // The lines before it are done, and the next call begins with it.
                Err(_) if *at > 0 => {
                    (told.done, told.wrong) = (*at, None);
                    break;
                }
                Err(fault) => return Err(fault),
            }
        }
        self.carry_out(wishes, &mut numbers, &mut told)?;
        Ok(told)
    }

    /// Existing accounts among these. Those that memory does not know are not looked for.
    pub(super) fn before(&self, names: &[&str]) -> Result<Vec<Option<UserEntry>>, UserFault> {
        let known = |name: &&&str| self.access_control.may_have(name) || **name == EVERYBODY;
        let asked: Vec<&str> = names.iter().filter(known).copied().collect();
        let mut read = self.read_each(&asked)?.into_iter();
        let found = |name: &&str| if known(&name) { read.next().flatten() } else { None };
        Ok(names.iter().map(found).collect())
    }

    fn wish(
        &self,
        line: &ImportLine,
        (row, before): (Option<AccountColumns>, Option<UserEntry>),
        making: usize,
        numbers: &mut Numbers,
    ) -> Result<Wish, UserFault> {
        let made = match &before {
            Some(_) => None,
            None => Some(self.made(&line.name, making, numbers)?),
        };
        let base = before.as_ref().or(made.as_ref()).expect("one of them is there");
        let entry = base.imported(line, self.kept_of(line, &base.account.kept)?);
        Ok(Wish { name: line.name.clone(), entry, before, row })
    }

    /// The hashes to keep for a line's password; `None`: the account's password is the same
    /// already. Slow, if the password is plain.
    fn kept_of(&self, line: &ImportLine, before: &Kept) -> Result<Option<Kept>, UserFault> {
        let Some(password) = &line.password else { return Ok(Some(line.kept.clone())) };
        let is_of = |hash: &StoredHash| hash.is_of(password.as_bytes());
        match before.hash.as_ref().is_some_and(is_of) {
            true => Ok(None),
            false => self.kept(password).map(Some),
        }
    }

    fn carry_out(
        &self,
        wishes: Vec<Wish>,
        numbers: &mut Numbers,
        told: &mut Imported,
    ) -> Result<(), UserFault> {
        let home = self.logs.way()?.home;
        let (same, mut wishes): (Vec<_>, Vec<_>) = wishes.into_iter().partition(Wish::is_same);
        if wishes.iter().any(Wish::ends) && !self.access_control.may_end() {
            return Err(UserFault::Busy);
        }
        if let Some(database) = &self.database {
            let changes: Vec<AccountChange> = wishes.iter().map(Wish::change).collect();
            let uids = database.commit(&changes)?;
            self.know(numbers, uids.iter().copied().max().unwrap_or(0))?;
            wishes.iter_mut().zip(uids).for_each(|(wish, uid)| wish.entry.uid = uid);
        }
        let write = |wish: &Wish| {
            let key = account_key(home, DOMAIN, &wish.name);
            Write::Put { table: Table::Users, key, value: wish.entry.row() }
        };
        self.logs.write(wishes.iter().map(write).collect())?;
        told.same = same.len();
        told.made = wishes.iter().filter(|wish| wish.before.is_none()).count();
        told.changed = wishes.len() - told.made;
        let put = |wish: Wish| {
            let ends = wish.ends();
            (wish.name, wish.entry, ends)
        };
        self.access_control.put_all(wishes.into_iter().map(put).collect());
        Ok(())
    }
}

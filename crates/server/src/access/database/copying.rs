//! Changes by others, copied to the logs and to memory.
//!
//! Rows of the database are compared with those here, and only what differs is written. A change
//! that should have raised an epoch and did not is raised in the database first: sessions that it
//! ends, end everywhere. Rows that are no accounts count as none. Invariant: a copy is made under
//! the book's lock from rows that were read under it, so no older one comes over a newer.

use super::super::user_book::{Numbers, UserBook, ends, gone};
use super::BookDatabase;
use guard::book::{EVERYBODY, UserEntry};
use model::ports::databases::accounts::{AccountChange, AccountColumns, DatabaseFault};
use model::ports::log::{Table, Write};
use model::ports::users::{DOMAIN, UserFault, account_key};
use model::{event, tell};
use std::sync::atomic::Ordering;

/// A row that differs from what is here.
struct News {
    row: AccountColumns,
    /// Its content, with the epoch that it should have.
    entry: UserEntry,
    before: Option<UserEntry>,
}

impl News {
    fn is_late(&self) -> bool {
        self.row.name != EVERYBODY && self.entry.epoch != self.row.epoch
    }

    fn change(&self) -> AccountChange {
        let after = Some(self.entry.columns(&self.row.name, self.row.uid));
        AccountChange { before: Some(self.row.clone()), after }
    }
}

impl UserBook {
    /// Copies these rows, and that these names have none.
    pub(super) fn copy(
        &self,
        database: &BookDatabase,
        numbers: &mut Numbers,
        (rows, mut absent): (Vec<AccountColumns>, Vec<String>),
    ) -> Result<(), UserFault> {
        let mut read = Vec::with_capacity(rows.len());
        for row in rows {
            match UserEntry::of_columns(&row) {
                Ok(entry) => read.push((row, entry)),
                Err(why) => {
                    self.left_out(database, &row.name, why);
                    absent.push(row.name);
                }
            }
        }
        let news = self.news(database, read)?;
        let news = self.raise(database, news)?;
        self.put_copies(numbers, news)?;
        self.remove_copies(&absent)
    }

    fn left_out(&self, database: &BookDatabase, name: &str, why: &str) {
        database.tally.wrong.fetch_add(1, Ordering::Relaxed);
        let name = base::text::quoted(name);
        tell!(event::ACCOUNT_ROW_IS_NONE, %name, why);
    }

    /// Rows that differ from the copies here.
    fn news(
        &self,
        database: &BookDatabase,
        read: Vec<(AccountColumns, UserEntry)>,
    ) -> Result<Vec<News>, UserFault> {
        let names: Vec<&str> = read.iter().map(|(row, _)| row.name.as_str()).collect();
        let before = self.before(&names)?;
        let most = self.access_control.settings().users_max as usize;
        let (mut news, mut making) = (Vec::new(), 0);
        for ((row, entry), before) in read.into_iter().zip(before) {
            if before.as_ref().is_some_and(|before| before.row() == entry.row()) {
                continue;
            }
            if before.is_none() && row.name != EVERYBODY {
                if self.access_control.may_have(&row.name) {
                    self.left_out(database, &row.name, "its hash collides with another user");
                    continue;
                }
                making += 1;
                if self.access_control.count() + making > most {
                    return Err(UserFault::Full);
                }
            }
            let entry = before.as_ref().map_or(entry.clone(), |before| before.followed(entry));
            news.push(News { row, entry, before });
        }
        if news.iter().any(|it| ends(it.before.as_ref(), Some(&it.entry)))
            && !self.access_control.may_end()
        {
            return Err(UserFault::Busy);
        }
        Ok(news)
    }

    /// Raises epochs in the database that should have been. Accounts that were changed again
    /// meanwhile are left to the word of that change.
    fn raise(&self, database: &BookDatabase, news: Vec<News>) -> Result<Vec<News>, UserFault> {
        let late: Vec<AccountChange> =
            news.iter().filter(|it| it.is_late()).map(News::change).collect();
        if late.is_empty() {
            return Ok(news);
        }
        match database.commit(&late) {
            Ok(_) => return Ok(news),
            Err(DatabaseFault::Conflict) => {}
            Err(fault) => return Err(fault.into()),
        }
        let mut kept = Vec::with_capacity(news.len());
        for it in news {
            match it.is_late().then(|| database.commit(&[it.change()])) {
                Some(Err(DatabaseFault::Conflict)) => {}
                Some(Err(fault)) => return Err(fault.into()),
                Some(Ok(_)) | None => kept.push(it),
            }
        }
        Ok(kept)
    }

    fn put_copies(&self, numbers: &mut Numbers, news: Vec<News>) -> Result<(), UserFault> {
        if news.is_empty() {
            return Ok(());
        }
        let home = self.logs.way()?.home;
        self.know(numbers, news.iter().map(|it| it.entry.uid).max().unwrap_or(0))?;
        let put = |it: &News| {
            let key = account_key(home, DOMAIN, &it.row.name);
            Write::Put { table: Table::Users, key, value: it.entry.row() }
        };
        self.note_removed(news.iter().filter_map(|it| {
            let uid = gone(it.before.as_ref(), Some(&it.entry))?;
            Some((it.row.name.as_str(), uid))
        }))?;
        self.logs.write(news.iter().map(put).collect())?;
        let (everybody, accounts): (Vec<News>, _) =
            news.into_iter().partition(|it| it.row.name == EVERYBODY);
        everybody.into_iter().for_each(|it| self.access_control.put(EVERYBODY, it.entry, false));
        let all = accounts.into_iter().map(|it| {
            let ends = ends(it.before.as_ref(), Some(&it.entry));
            (it.row.name, it.entry, ends)
        });
        self.access_control.put_all(all.collect());
        Ok(())
    }

    fn remove_copies(&self, absent: &[String]) -> Result<(), UserFault> {
        let names: Vec<&str> = absent.iter().map(String::as_str).collect();
        let held = names.iter().zip(self.before(&names)?).filter(|(_, held)| held.is_some());
        let held = held.map(|(name, held)| (*name, held.map_or(0, |held| held.uid)));
        let gone: Vec<(&str, u64)> = held.collect();
        if gone.is_empty() {
            return Ok(());
        }
        if !self.access_control.may_end() {
            return Err(UserFault::Busy);
        }
        let home = self.logs.way()?.home;
        self.note_removed(gone.iter().copied())?;
        let delete = |(name, _): &(&str, u64)| {
            let key = account_key(home, DOMAIN, name);
            Write::Delete { table: Table::Users, key }
        };
        self.logs.write(gone.iter().map(delete).collect())?;
        for (name, _) in gone {
            self.access_control.remove(name);
        }
        Ok(())
    }
}

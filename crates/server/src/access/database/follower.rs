//! Thread that has the copy follow the database.
//!
//! ```text
//!  open ──► is the copy this database's? ── no, it has accounts ──► fill an empty one, or refuse
//!   ▲           │ yes, or empty
//!   │           ▼
//!   │         load: every account in pages, then who is gone
//!   │           │
//!   └── fault ──┴──► follow: changes, each second
//! ```
//! A database that was away for a short while is followed on from where it was. Invariant: what was
//! changed from the beginning of a load on is followed after it.

use super::super::user_book::{Numbers, UserBook};
use super::cursor::{NewsCursor, WRITER_S_MAX};
use super::{BookDatabase, CopyMark, CopyStage};
use crate::clock;
use guard::book::{EVERYBODY, UserEntry};
use model::ports::databases::accounts::{AccountChange, DatabaseFault};
use model::ports::users::UserFault;
use model::{event, tell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Time between two looks at changes.
const LOOK_MS: u64 = 1_000;

/// Accounts of a page of a load.
const PAGE: usize = 2_000;

/// Changes read at once, and accounts copied for them at once.
const NEWS: usize = 1_000;

/// Pages of changes in one look. The rest is left to the next one.
const NEWS_PAGES_MAX: usize = 64;

/// Seconds for which a database may be away and be followed on from where it was: far below the age
/// at which changes are forgotten.
const AWAY_S_MAX: u32 = 3_600;

/// Hours after which changes are forgotten.
const NEWS_HOURS: u32 = 72;

/// Seconds between two times at which they are.
const FORGET_S: u32 = 3_600;

/// How often some are forgotten each time.
const FORGETS_MAX: usize = 16;

/// Seconds between two words of how far a load has come.
const PROGRESS_S: u32 = 5;

/// Where the copy has come to.
struct Following {
    database: u64,
    cursor: NewsCursor,
    /// When changes were last looked at.
    at_s: u32,
}

/// Follows a database.
pub(in crate::access) struct Follower {
    book: Arc<UserBook>,
    database: Arc<BookDatabase>,
    /// Absent: the copy is to be loaded.
    following: Option<Following>,
    forgot_s: u32,
}

impl Follower {
    pub(in crate::access) fn new(book: Arc<UserBook>, database: Arc<BookDatabase>) -> Follower {
        Follower { book, database, following: None, forgot_s: 0 }
    }

    /// Follows until all is over.
    pub(in crate::access) fn run(mut self) {
        while !self.database.is_over() {
            match self.turn(clock::unix_s()) {
                Ok(()) | Err(UserFault::DatabaseFailed(_) | UserFault::Busy) => {}
                Err(UserFault::Full) => {
                    let why = "it has more accounts than [access] users_max allows".to_owned();
                    self.database.failed(&DatabaseFault::Refused(why));
                }
                Err(fault) => tell!(event::ACCOUNTS_UNCOPIED, ?fault),
            }
            self.database.wait(LOOK_MS);
        }
    }

    /// One look, with all that has to come before it.
    pub(super) fn turn(&mut self, now_s: u32) -> Result<(), UserFault> {
        if self.following.is_none() || !self.database.stands() {
            self.begin(now_s)?;
        }
        self.follow(now_s)?;
        self.forget(now_s)
    }

    fn begin(&mut self, now_s: u32) -> Result<(), UserFault> {
        let id = self.database.asked(|tables| tables.open())?;
        let last = self.database.asked(|tables| tables.last_news())?;
        let goes_on = |it: &Following| {
            let away_s = now_s.saturating_sub(it.at_s);
            it.database == id && last >= it.cursor.highest() && away_s < AWAY_S_MAX
        };
        if self.following.as_ref().is_some_and(goes_on) {
            self.database.is_there();
            return Ok(());
        }
        self.following = None;
        self.belong(id)?;
        self.database.is_there();
        // What was begun before the load may come into sight behind it, below what is in sight.
        let settled = self.database.asked(|tables| tables.settled_news(WRITER_S_MAX))?;
        self.load(id)?;
        self.following =
            Some(Following { database: id, cursor: NewsCursor::at(settled), at_s: now_s });
        Ok(())
    }

    /// Sees to it that the book here is the copy of this database and of no other.
    fn belong(&self, id: u64) -> Result<(), UserFault> {
        let mark = self.book.copy_mark();
        let stage = mark.filter(|mark| mark.database == id).map(|mark| mark.stage);
        let marked = |stage| self.book.mark_copy(Some(CopyMark { database: id, stage }));
        match stage {
            Some(CopyStage::Whole | CopyStage::Loading) => return Ok(()),
            Some(CopyStage::Filling) => {}
            None if self.book.is_empty()? => return marked(CopyStage::Loading),
            None if self.database.asked(|tables| tables.count())? == 0 => {
                marked(CopyStage::Filling)?;
            }
            None => {
                let why = "it has accounts, and so has the data folder, which is no copy of it: \
                           start with a new folder, or with an empty database, which is filled \
                           from the folder";
                let fault = DatabaseFault::Refused(why.into());
                self.database.failed(&fault);
                return Err(fault.into());
            }
        }
        self.fill()?;
        marked(CopyStage::Whole)
    }

    /// Gives the database the accounts that are here, with their numbers. Everybody's rules come
    /// last: they have no number here, and the one that the database gives them is above all then.
    fn fill(&self) -> Result<(), UserFault> {
        let (mut behind, mut filled, mut last) = (None, 0, Vec::new());
        loop {
            let _numbers = self.book.lock();
            let mut page = self.book.page(behind, NEWS)?;
            let Some((name, _)) = page.last() else { break };
            behind = Some(name.clone());
            last.extend(page.extract_if(.., |(name, _)| name == EVERYBODY));
            filled += self.fill_in(&page)?;
        }
        let _numbers = self.book.lock();
        filled += self.fill_in(&last)?;
        tell!(event::ACCOUNTS_FILLED, accounts = filled);
        Ok(())
    }

    /// Gives the database those of these that it does not have; how many.
    fn fill_in(&self, page: &[(String, UserEntry)]) -> Result<usize, UserFault> {
        let names: Vec<&str> = page.iter().map(|(name, _)| name.as_str()).collect();
        let there = self.database.asked(|tables| tables.find(&names))?;
        let there: BTreeSet<&str> = there.iter().map(|row| row.name.as_str()).collect();
        let new = page.iter().filter(|(name, _)| !there.contains(name.as_str()));
        let new = new.map(|(name, entry)| AccountChange {
            before: None,
            after: Some(entry.columns(name, entry.uid)),
        });
        let new: Vec<AccountChange> = new.collect();
        if new.is_empty() {
            return Ok(0);
        }
        match self.database.commit(&new) {
            Ok(_) => Ok(new.len()),
            Err(fault) => {
                if fault == DatabaseFault::Conflict {
                    let first = base::text::quoted(new[0].name());
                    tell!(event::ACCOUNTS_NOT_FILLED, accounts = new.len(), first = %first);
                }
                Err(fault.into())
            }
        }
    }

    /// Reads every account, and finds who is gone.
    fn load(&self, id: u64) -> Result<(), UserFault> {
        let total = self.database.asked(|tables| tables.count())?;
        // Counts do not say who is gone: rows are counted that are no accounts.
        let was_empty = self.book.is_empty()?;
        let loaded = &self.database.tally.loaded;
        let (mut behind, mut told_s) = (0, clock::unix_s());
        loaded.store(0, Ordering::Relaxed);
        while let Some(last) = self.load_page(behind)? {
            behind = last;
            let now_s = clock::unix_s();
            if now_s.saturating_sub(told_s) >= PROGRESS_S {
                let loaded = loaded.load(Ordering::Relaxed);
                tell!(event::ACCOUNTS_READING, loaded, total);
                told_s = now_s;
            }
        }
        if !was_empty {
            self.look_for_gone()?;
        }
        let loaded = loaded.load(Ordering::Relaxed);
        let mark = CopyMark { database: id, stage: CopyStage::Whole };
        if self.book.copy_mark() != Some(mark) {
            self.book.mark_copy(Some(mark))?;
        }
        self.book.set_whole(true);
        tell!(event::ACCOUNTS_READ, loaded);
        Ok(())
    }

    /// One page; gives the last number there, if there is one.
    fn load_page(&self, behind: u64) -> Result<Option<u64>, UserFault> {
        if self.database.is_over() {
            return Err(UserFault::DatabaseFailed("the server is stopping".into()));
        }
        let mut numbers = self.book.lock();
        let rows = self.database.asked(|tables| tables.page(behind, PAGE))?;
        let last = rows.last().map(|row| row.uid);
        let count = rows.len() as u64;
        self.book.copy(&self.database, &mut numbers, (rows, Vec::new()))?;
        self.database.tally.loaded.fetch_add(count, Ordering::Relaxed);
        Ok(last)
    }

    /// Removes accounts here that the database does not have.
    fn look_for_gone(&self) -> Result<(), UserFault> {
        let mut behind = None;
        loop {
            let mut numbers = self.book.lock();
            let page = self.book.page(behind, NEWS)?;
            let Some((name, _)) = page.last() else { return Ok(()) };
            behind = Some(name.clone());
            let names = page.into_iter().map(|(name, _)| name).collect();
            self.copy_names(&mut numbers, names)?;
        }
    }

    fn copy_names(&self, numbers: &mut Numbers, names: Vec<String>) -> Result<(), UserFault> {
        let asked: Vec<&str> = names.iter().map(String::as_str).collect();
        let rows = self.database.asked(|tables| tables.find(&asked))?;
        let there: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let absent = names.iter().filter(|name| !there.contains(name.as_str())).cloned().collect();
        drop(there);
        self.book.copy(&self.database, numbers, (rows, absent))
    }

    /// Copies what was changed since the last look.
    fn follow(&mut self, now_s: u32) -> Result<(), UserFault> {
        let Some(mut following) = self.following.take() else { return Ok(()) };
        let done = self.follow_on(&mut following, now_s);
        self.following = Some(following);
        done
    }

    fn follow_on(&self, following: &mut Following, now_s: u32) -> Result<(), UserFault> {
        let mut behind = following.cursor.look_behind(now_s);
        for _ in 0..NEWS_PAGES_MAX {
            let news = self.database.asked(|tables| tables.news(behind, NEWS))?;
            let Some(last) = news.last() else { break };
            behind = last.seq;
            let is_last = news.len() < NEWS;
            let new = news.into_iter().filter(|word| following.cursor.is_new(word.seq));
            let (seqs, names): (Vec<u64>, BTreeSet<String>) =
                new.map(|word| (word.seq, word.name)).unzip();
            if !names.is_empty() {
                let mut numbers = self.book.lock();
                self.copy_names(&mut numbers, names.into_iter().collect())?;
            }
            self.database.tally.news.fetch_add(seqs.len() as u64, Ordering::Relaxed);
            following.cursor.carried_out(now_s, seqs);
            if is_last {
                break;
            }
        }
        following.cursor.settle(now_s);
        following.at_s = now_s;
        Ok(())
    }

    /// Has the database forget old changes, now and then.
    fn forget(&mut self, now_s: u32) -> Result<(), UserFault> {
        if now_s.saturating_sub(self.forgot_s) < FORGET_S {
            return Ok(());
        }
        self.forgot_s = now_s;
        for _ in 0..FORGETS_MAX {
            if !self.database.asked(|tables| tables.forget_news(NEWS_HOURS))? {
                break;
            }
        }
        Ok(())
    }
}

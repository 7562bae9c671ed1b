//! Port of the database of accounts: tables that several servers, and other programs, write.
//!
//! The book of accounts is kept there where an operator says so; each server has a copy and lets in
//! by it. A change is carried out only if the account still is what it was changed from. Every call
//! ends within its time, and blocks until then: never on a shard's thread. The keeper of the book
//! knows the meaning of a row's texts.

use crate::ports::users::UserFault;
use std::fmt;

/// An account as its row in the tables has it. Its credentials are texts of the forms of a password
/// file; empty where there are none.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct AccountColumns {
    /// The account's number; it is the table's own sequence and never reused. 0: not assigned yet.
    pub uid: u64,
    /// Its name.
    pub name: String,
    /// Rises when its sessions end by order.
    pub epoch: u64,
    /// Whether the account may do everything.
    pub is_super: bool,
    /// Whether logins of the account are refused.
    pub is_disabled: bool,
    /// Hash of its password.
    pub password: String,
    /// Keys for SCRAM-SHA-256.
    pub scram_sha_256: String,
    /// Keys for SCRAM-SHA-1.
    pub scram_sha_1: String,
    /// Its rules.
    pub rules: String,
}

impl fmt::Debug for AccountColumns {
    /// Without what it is to prove.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AccountColumns { uid, name, epoch, .. } = self;
        f.debug_struct("AccountColumns")
            .field("uid", uid)
            .field("name", name)
            .field("epoch", epoch)
            .finish_non_exhaustive()
    }
}

/// A change of an account: from what it is to what it will be. Not both are absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountChange {
    /// Row before the change, as it was read; `None`: no account had this name.
    pub before: Option<AccountColumns>,
    /// Row after the change; `None`: the account is deleted. A new one has no number yet.
    pub after: Option<AccountColumns>,
}

impl AccountChange {
    /// Name of the changed account.
    pub fn name(&self) -> &str {
        let row = self.after.as_ref().or(self.before.as_ref());
        row.map_or("", |row| &row.name)
    }
}

/// A word of the table of changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountNews {
    /// The change's number. Numbers rise, with gaps, and a lower one may become visible later, when
    /// its writer commits.
    pub seq: u64,
    /// Name of the changed account.
    pub name: String,
}

/// Why a call to the account database failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DatabaseFault {
    /// The database is unreachable or did not answer in time. Whether a change was carried out is
    /// unknown.
    Away(String),
    /// The database refused the call; nothing changed.
    Refused(String),
    /// The account was changed by another writer meanwhile; nothing changed.
    Conflict,
}

impl fmt::Display for DatabaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseFault::Away(why) => write!(f, "the database is unreachable: {why}"),
            DatabaseFault::Refused(why) => write!(f, "the database refused: {why}"),
            DatabaseFault::Conflict => f.write_str("another writer changed the account meanwhile"),
        }
    }
}

impl From<DatabaseFault> for UserFault {
    fn from(fault: DatabaseFault) -> UserFault {
        match fault {
            DatabaseFault::Conflict => UserFault::Busy,
            fault => UserFault::DatabaseFailed(fault.to_string()),
        }
    }
}

/// Accounts in one page or change, at most.
pub const ACCOUNTS_A_CALL_MAX: usize = 4_096;

/// The tables of accounts. One serves all threads; calls block for a bounded time.
pub trait AccountTables: Send + Sync {
    /// Makes the tables, or brings them up to this build's version; gives what the database calls
    /// itself, once and for all.
    fn open(&self) -> Result<u64, DatabaseFault>;

    /// How many accounts there are.
    fn count(&self) -> Result<u64, DatabaseFault>;

    /// Accounts behind a number, in the order of their numbers.
    fn page(&self, behind_uid: u64, count: usize) -> Result<Vec<AccountColumns>, DatabaseFault>;

    /// Returns the accounts with these names that exist, in any order.
    fn find(&self, names: &[&str]) -> Result<Vec<AccountColumns>, DatabaseFault>;

    /// Carries changes out, all or none, with a word of each; no name is there twice. Gives the
    /// accounts' numbers, in the order of the changes; 0 for one that went.
    fn commit(&self, changes: &[AccountChange]) -> Result<Vec<u64>, DatabaseFault>;

    /// The highest number of a change; 0 if there are none.
    fn last_news(&self) -> Result<u64, DatabaseFault>;

    /// A number below which no further change becomes visible, if no writer takes longer than
    /// `writer_s_max` seconds; 0 if there is none yet.
    fn settled_news(&self, writer_s_max: u32) -> Result<u64, DatabaseFault>;

    /// Changes behind a number, in the order of their numbers.
    fn news(&self, behind: u64, count: usize) -> Result<Vec<AccountNews>, DatabaseFault>;

    /// Aborts the call in progress; no more calls are made.
    fn close(&self) {}

    /// Deletes some of the changes older than `hours`. True if more may be left.
    fn forget_news(&self, hours: u32) -> Result<bool, DatabaseFault>;
}

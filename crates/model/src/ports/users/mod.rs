//! The book of accounts: who may log in, by whatever protocol, and what the API and the command
//! line change of it.
//!
//! Accounts of the book stand beside the users of files. A row lives in the log of its account's
//! home ([`account_home`]), where everything of the account is. A change is on stable storage
//! before the answer, holds at once on every shard, and is there again after a restart. Calls may
//! block.

mod orders;

pub use orders::{
    ANNOUNCED_BYTES_MAX, ANNOUNCED_SUBJECT_BYTES_MAX, Announcement, BOOK_ACCOUNTS_MAX,
    BOOK_ONLINE_MAX, BookAnswer, BookDone, BookFault, BookOrder, BookRequest, BookWish,
    NewPassword, OperatorWish, Registering, Registration, UserChange, UserVerb,
};

use crate::ports::log::RowHome;
use base::hash::HashKey;
use base::words;

/// The domain of every account, as long as only one domain is supported.
pub const DOMAIN: &str = "localhost";

/// Ends the domain in a row's key: no byte of a domain or of a name.
const DOMAIN_END: u8 = 0;

/// The home of an account: the hash by which its log and its shard are found. `home` is the
/// cluster's key of homes.
pub fn account_home(home: HashKey, domain: &str, name: &str) -> u64 {
    home.of(&[domain.as_bytes(), name.as_bytes()])
}

/// The key of an account's row in [`Table::Users`](crate::ports::log::Table::Users).
pub fn account_key(home: HashKey, domain: &str, name: &str) -> Box<[u8]> {
    let at = RowHome::at(account_home(home, domain, name));
    at.key(&[domain.as_bytes(), &[DOMAIN_END], name.as_bytes()])
}

/// Domain and name in such a key.
pub fn account_of_key(key: &[u8]) -> Option<(&str, &str)> {
    let (domain, name) =
        std::str::from_utf8(RowHome::rest(key)?).ok()?.split_once(char::from(DOMAIN_END))?;
    (!domain.is_empty() && !name.is_empty()).then_some((domain, name))
}

/// Authority with which an order to the book is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Authority {
    /// Authority over users that may not administer the server, neither before the order nor after
    /// it.
    Users,
    /// Authority over every user.
    Admin,
}

/// The way to the book.
pub trait Users: Send + Sync {
    /// Users behind the one called `after` (whether it is there or not), at most `count`. The order
    /// is that of their homes: it stays the same, and a name says where in it one stands.
    fn list(&self, after: Option<&str>, count: usize) -> Result<Vec<UserState>, UserFault>;

    /// Number of users. Does not block.
    fn count(&self) -> u64;

    /// Returns a user.
    fn user(&self, name: &str) -> Result<Option<UserState>, UserFault>;

    /// The user's keys for SCRAM, as in lines of a password file; `None` if the user is unknown.
    fn keys(&self, name: &str) -> Result<Option<Vec<String>>, UserFault>;

    /// Makes or changes a user; as it is now.
    fn put(&self, order: UserOrder, authority: Authority) -> Result<UserState, UserFault>;

    /// Removes a user, and ends its sessions. False if the user is unknown.
    fn remove(&self, name: &str, authority: Authority) -> Result<bool, UserFault>;

    /// Ends all current sessions of a user, of every protocol, by raising its epoch. `None` if the
    /// user is unknown.
    fn kick(&self, name: &str, authority: Authority) -> Result<Option<UserState>, UserFault>;

    /// Creates or changes users from lines, one after the other, up to the first wrong line. It may
    /// stop before the end: a caller with more lines continues behind those that are done. A fault
    /// is about the first line only; the lines before a later fault are done.
    fn import(
        &self,
        lines: &[String],
        form: ImportForm,
        authority: Authority,
    ) -> Result<Imported, UserFault>;
}

/// Lines in one import, at most; the rest is left.
pub const IMPORT_LINES_MAX: usize = 4_096;

words! {
    /// Form of the lines of an import.
    #[derive(Hash)]
    pub enum ImportForm {
        /// Lines of a password file: a name, a colon, a hash or `$plain$` with a password; behind
        /// it keys for SCRAM, `super`, `disabled`. Empty lines and comments are left out.
        Passwords = "passwords",
        /// A name, a comma and a password (RFC 4180).
        Csv = "csv",
    }
}

/// Result of the lines of an import.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// Lines that are done, from the first.
    pub done: usize,
    /// Users that were made.
    pub made: usize,
    /// Users that were changed.
    pub changed: usize,
    /// Users that were so before.
    pub same: usize,
    /// Fault of the line behind those that are done.
    pub wrong: Option<String>,
}

/// A user as it is ordered.
#[derive(Clone, PartialEq, Eq)]
pub struct UserOrder {
    /// The user's name, 1 to [`UserOrder::NAME_BYTES_MAX`] bytes; `*` holds the rules for all
    /// users.
    pub name: String,
    /// A new password; absent: the old one stays. At most [`UserOrder::PASSWORD_BYTES_MAX`] bytes.
    pub password: Option<String>,
    /// Whether the user may do everything; absent: as before.
    pub is_super: Option<bool>,
    /// Whether logins of the user are refused; absent: as before.
    pub is_disabled: Option<bool>,
    /// Permissions of the user, of which the first that matches holds; at most
    /// [`UserOrder::RULES_MAX`]. Absent: those before stay.
    pub rules: Option<Vec<UserRule>>,
}

impl UserOrder {
    /// Longest name, bytes.
    pub const NAME_BYTES_MAX: usize = 256;
    /// Longest password, bytes.
    pub const PASSWORD_BYTES_MAX: usize = 1_024;
    /// Most rules.
    pub const RULES_MAX: usize = 256;
    /// Most rounds of anything that is computed for a password, the keys of SCRAM too.
    pub const ROUNDS_MAX: u32 = 10_000_000;
    /// Longest salt of a hash that was made elsewhere, bytes.
    pub const SALT_BYTES_MAX: usize = 1_024;
}

/// State of a user's account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserState {
    /// Its name.
    pub name: String,
    /// The user's number, never reused; 0 for `*`, which is no account. Below 2^53.
    pub uid: u64,
    /// Rises whenever its sessions end by order: with a new password, when it is disabled, by a
    /// kick.
    pub epoch: u64,
    /// Whether the user has a password.
    pub has_password: bool,
    /// Whether the user may do everything.
    pub is_super: bool,
    /// Whether logins of the user are refused.
    pub is_disabled: bool,
    /// Its permissions.
    pub rules: Vec<UserRule>,
}

/// One access rule of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRule {
    /// Allowed, or forbidden.
    pub allow: bool,
    /// Whether the rule holds for publishing.
    pub publish: bool,
    /// Whether the rule holds for reading: subscriptions, and the messages they bring.
    pub read: bool,
    /// A topic filter, with `%c` for the client identifier and `%u` for the user.
    pub filter: String,
}

/// Reason why the users' book was not changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserFault {
    /// The order violates a rule, with the reason as text.
    Wrong(String),
    /// This user administers the server, or would afterwards, and the order is not given with that
    /// authority.
    OutOfReach(String),
    /// The limit of users is reached.
    Full,
    /// The shards are still ending sessions of changes before: nothing was done. Try again.
    Busy,
    /// The log did not take it, or did not answer.
    StoreFailed,
    /// The database of accounts is unavailable or refuses, with the reason as text. A change in
    /// progress may have been carried out.
    DatabaseFailed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_at_its_accounts_home_and_says_whose_it_is() {
        let home = HashKey::new(1, 2);
        let key = account_key(home, DOMAIN, "ann");
        assert_eq!(RowHome::of(&key), RowHome::at(account_home(home, DOMAIN, "ann")));
        assert_eq!(account_of_key(&key), Some((DOMAIN, "ann")));
        assert_ne!(account_home(home, "a", "bc"), account_home(home, "ab", "c"));
        let longest = account_key(home, DOMAIN, &"x".repeat(UserOrder::NAME_BYTES_MAX));
        assert!(longest.len() <= crate::ports::log::ROW_KEY_BYTES_MAX);
    }

    #[test]
    fn other_keys_are_no_accounts() {
        let keys = [&b""[..], b"a", b"\0\0", b"\0\0ann", b"\0\0d\0", b"\0\0\0ann", b"\0\0\xff\0a"];
        assert!(keys.into_iter().all(|key| account_of_key(key).is_none()));
    }
}

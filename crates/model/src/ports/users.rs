//! The book of users: what the API and the command line change of who may do what.
//!
//! Users of the book stand beside those of files. What is put is on stable storage before the
//! answer, holds at once on every shard, and is there again after a restart. Calls may block.

/// The way to the book.
pub trait Users: Send + Sync {
    /// Users whose names come after `after`, in the order of their names, at most `count`.
    fn list(&self, after: Option<&str>, count: usize) -> Vec<UserState>;

    /// One of them.
    fn user(&self, name: &str) -> Option<UserState>;

    /// Makes or changes a user.
    fn put(&self, order: UserOrder) -> Result<(), UserFault>;

    /// Removes a user. False: there was none.
    fn remove(&self, name: &str) -> Result<bool, UserFault>;
}

/// A user as it is ordered.
#[derive(Clone, PartialEq, Eq)]
pub struct UserOrder {
    /// Its name, 1 to [`UserOrder::NAME_BYTES_MAX`] bytes; `*` holds the rules of everybody.
    pub name: String,
    /// A new password; absent: the old one stays. At most [`UserOrder::PASSWORD_BYTES_MAX`] bytes.
    pub password: Option<String>,
    /// It may do everything.
    pub is_super: bool,
    /// It is refused.
    pub is_disabled: bool,
    /// What it may do, the first that matches holds; at most [`UserOrder::RULES_MAX`]. Absent:
    /// those before stay.
    pub rules: Option<Vec<UserRule>>,
}

impl UserOrder {
    /// Longest name, bytes.
    pub const NAME_BYTES_MAX: usize = 256;
    /// Longest password, bytes.
    pub const PASSWORD_BYTES_MAX: usize = 1_024;
    /// Most rules.
    pub const RULES_MAX: usize = 256;
}

/// State of a user's account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserState {
    /// Its name.
    pub name: String,
    /// It has a password.
    pub has_password: bool,
    /// It may do everything.
    pub is_super: bool,
    /// It is refused.
    pub is_disabled: bool,
    /// What it may do.
    pub rules: Vec<UserRule>,
}

/// One line of what a user may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRule {
    /// Allowed, or forbidden.
    pub allow: bool,
    /// It is about publishing.
    pub publish: bool,
    /// It is about reading: subscriptions, and what they bring.
    pub read: bool,
    /// A topic filter, with `%c` for the client identifier and `%u` for the user.
    pub filter: String,
}

/// Reason why the users' book was not changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserFault {
    /// The order breaks a rule, in words.
    Wrong(String),
    /// As many users as there may be.
    Full,
    /// The log did not take it.
    StoreFailed,
}

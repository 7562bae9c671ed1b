//! Requests of chat clients to the book of users: a new password, registration, and the commands of
//! administrators.
//!
//! ```text
//! machine ─► BookRequest ─► chat: who asks? ─► BookOrder ─► the book, on a thread that may wait
//! machine ◄─ ChatDelivery::Book ◄─ chat ◄──────── BookAnswer ◄─────────┘
//! ```
//! Invariant: the identity behind an order is checked again when the order is executed, because the
//! account may have been replaced or ended on the way.

use super::UserOrder;
use crate::account::AccountAddress;
use crate::id::SessionRef;
use crate::link::Source;
use crate::ports::access::GrantedAccount;
use base::encoding::Encoding;
use base::words;
use std::fmt;
use std::sync::Arc;

/// Most accounts that one order is about.
pub const BOOK_ACCOUNTS_MAX: usize = 64;

/// Most accounts in a list of those that are here.
pub const BOOK_ONLINE_MAX: usize = 200;

/// Longest subject of an announcement, bytes.
pub const ANNOUNCED_SUBJECT_BYTES_MAX: usize = 256;

/// Longest announcement, bytes.
pub const ANNOUNCED_BYTES_MAX: usize = 4_096;

words! {
    /// Changes to accounts that users may make by a protocol of chat.
    pub enum Registration {
        /// No changes.
        Off = "off",
        /// A user that is logged in may change its own password.
        Password = "password",
        /// Also, anybody may register an account, and delete its own.
        Open = "open",
    }
}

/// A password that is to be kept. Its `Debug` says only that it is there.
#[derive(Clone, PartialEq, Eq)]
pub struct NewPassword(Box<str>);

impl NewPassword {
    /// A password of 1 to [`UserOrder::PASSWORD_BYTES_MAX`] bytes; `None` if the text is not one.
    pub fn new(text: &str) -> Option<NewPassword> {
        let is_one = (1..=UserOrder::PASSWORD_BYTES_MAX).contains(&text.len());
        is_one.then(|| NewPassword(text.into()))
    }

    /// The password in clear.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a password")
    }
}

/// A device wants something of the book.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookRequest {
    /// Session that asks.
    pub session: SessionRef,
    /// Number that the answer repeats.
    pub number: u32,
    /// The wish.
    pub wish: BookWish,
}

/// Request of a device to the book.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BookWish {
    /// A new password for the session's own account. Other sessions of the account end.
    Password(NewPassword),
    /// Deletes the account of the session, and ends its sessions.
    Leave,
    /// Command of an administrator.
    Operate(OperatorWish),
}

/// Order of an administrator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OperatorWish {
    /// Asks whether the account is an administrator; changes nothing.
    May,
    /// Change of accounts.
    Change(UserChange),
    /// Number of accounts.
    Registered,
    /// Number of accounts with devices on this server, and at most this many of them.
    Online(u16),
    /// Known facts about an account.
    Statistics(AccountAddress),
    /// Sends an announcement to all devices that are online.
    Announce(Arc<Announcement>),
}

/// Announcement of an administrator to all online users; not stored.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Announcement {
    /// Subject of the announcement, at most [`ANNOUNCED_SUBJECT_BYTES_MAX`]; perhaps empty.
    pub subject: Box<str>,
    /// Text of the announcement, 1 to [`ANNOUNCED_BYTES_MAX`] bytes.
    pub body: Box<str>,
}

impl Announcement {
    /// Unless it is empty or too long.
    pub fn new(subject: &str, body: &str) -> Option<Announcement> {
        let is_right = (1..=ANNOUNCED_BYTES_MAX).contains(&body.len())
            && subject.len() <= ANNOUNCED_SUBJECT_BYTES_MAX;
        is_right.then(|| Announcement { subject: subject.into(), body: body.into() })
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<Announcement>() + self.subject.len() + self.body.len()
    }
}

/// An order about accounts: one after the other, up to the first with which it cannot be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserChange {
    /// Operation to carry out.
    pub verb: UserVerb,
    /// Accounts to change, 1 to [`BOOK_ACCOUNTS_MAX`].
    pub accounts: Vec<AccountAddress>,
    /// Password, for the verbs that set one.
    pub password: Option<NewPassword>,
}

/// Kind of an order about accounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserVerb {
    /// Make one that was not there, with a password.
    Add,
    /// Remove it.
    Remove,
    /// Refuse it from now on.
    Disable,
    /// Let it in again.
    Enable,
    /// End its sessions, of every protocol.
    End,
    /// Give it another password.
    SetPassword,
}

impl UserVerb {
    /// The order's name in the audit log.
    pub const fn name(self) -> &'static str {
        match self {
            UserVerb::Add => "add",
            UserVerb::Remove => "remove",
            UserVerb::Disable => "disable",
            UserVerb::Enable => "enable",
            UserVerb::End => "end",
            UserVerb::SetPassword => "password",
        }
    }
}

/// Request of a client without a session to register an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registering {
    /// Its address.
    pub address: AccountAddress,
    /// Its password.
    pub password: NewPassword,
    /// Source of the request; `None`: this machine.
    pub source: Option<Source>,
}

/// An order to the book. Accounts are named as users are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BookOrder {
    /// A new password for the account of a session with this grant. Done: `Granted`.
    Password {
        /// User whose password it is.
        user: Box<str>,
        /// Account, as the session was granted it.
        account: GrantedAccount,
        /// The password.
        password: NewPassword,
    },
    /// An account goes, as its session was granted it. Done: `Done`.
    Leave {
        /// User whose account goes.
        user: Box<str>,
        /// Account, as the session was granted it.
        account: GrantedAccount,
    },
    /// Registers an account. Done: `Done`.
    Register {
        /// Its name.
        user: Box<str>,
        /// Its password.
        password: NewPassword,
        /// Source of the request; `None`: this machine.
        source: Option<Source>,
    },
    /// Command of an administrator, as its session was granted its account.
    Operate {
        /// Administrator that commands.
        by: Box<str>,
        /// Account, as the session was granted it.
        account: GrantedAccount,
        /// The command.
        wish: OperatorWish,
        /// The names of the accounts that a change is about.
        users: Vec<Box<str>>,
    },
}

/// Result of an order.
pub type BookAnswer = Result<BookDone, BookFault>;

/// Result of an order that was carried out.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Done = 0, Granted = 1, Count = 2, Online = 3, Statistics = 4)]
pub enum BookDone {
    /// The change is on stable storage and in force.
    Done,
    /// Done; the session that ordered it goes on with this grant.
    Granted(GrantedAccount),
    /// The count that was asked for.
    Count(u64),
    /// Accounts that are online: their number, and some of them, in order.
    Online {
        /// Number of accounts.
        count: u64,
        /// Some of them.
        accounts: Vec<AccountAddress>,
    },
    /// Known facts about an account.
    Statistics {
        /// How many contacts it has.
        contacts: u64,
        /// The account's devices on this server.
        devices: Vec<Box<str>>,
    },
}

/// Reason why an order was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding[
    Off = 0, Forbidden = 1, Conflict = 2, Unknown = 3, Wrong = 4, Rate = 5, Full = 6, Busy = 7,
    StoreFailed = 8
]]
pub enum BookFault {
    /// This command is not enabled here, for any user.
    Off,
    /// Only administrators may do this.
    Forbidden,
    /// The name is taken, or reserved.
    Conflict,
    /// The account does not exist.
    Unknown(Box<str>),
    /// The order violates a rule, with the reason as text.
    Wrong(Box<str>),
    /// Too many of late.
    Rate,
    /// The limit of accounts is reached.
    Full,
    /// Too much at once, or no answer in time: try again.
    Busy,
    /// Where the book is kept does not take it.
    StoreFailed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_a_length_and_is_never_shown() {
        let most = "x".repeat(UserOrder::PASSWORD_BYTES_MAX);
        let longest = NewPassword::new(&most).expect("it is one");
        assert_eq!(longest.reveal(), most);
        assert!(!format!("{longest:?}").contains('x'));
        assert!(NewPassword::new("").is_none() && NewPassword::new(&(most + "x")).is_none());
    }
}

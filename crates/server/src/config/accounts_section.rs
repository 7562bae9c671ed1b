//! `[accounts]` and `[mysql]`: where the book of accounts is kept, and how a database is reached.
//!
//! What a URL of MySQL says is `database`'s part. User and password are never shown.

use super::sections::is_short_secret;
use base::section;
use base::setting::{Hidden, text, whole};
use std::path::PathBuf;

section! {
    /// `[accounts]`: the book of accounts.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct AccountsSection {
        /// Where accounts are kept. "": in the logs of the data folder. mysql://user@host:3306/name
        /// is a database of MySQL or MariaDB, for several servers and other programs; the data
        /// folder has a copy, by which people log in, also while the database is away. Tables are
        /// made at the first start, and an empty database is filled from the data folder. User and
        /// password are never printed.
        store: Hidden = Hidden::default(),
            text("\"\" or mysql://user@host:3306/name", is_store), url;
    }
}

section! {
    /// `[mysql]`: how the databases are reached that [accounts] and [chat] name.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct MySqlSection {
        /// The password, where an address has none. Never printed; better in password_file or the
        /// environment.
        password: Hidden = Hidden::default(), text("at most 1024 bytes", is_short_secret), secret;
        /// A file whose first line is the password; "" is none.
        password_file: Option<PathBuf> = None;
        /// Whether connections are encrypted, and the server's certificate is checked.
        tls: bool = false;
        /// PEM file of the authorities that it is checked against; "" is those of the system, from
        /// /etc/ssl/certs/ca-certificates.crt.
        ca: Option<PathBuf> = None;
        /// How long a call may take. Beyond, the database counts as away: it is asked again each
        /// second.
        timeout_ms: u32 = 5_000, whole(100..=60_000, "milliseconds");
    }
}

/// What follows the scheme is looked at when it is used, which says what is wrong with it.
pub(super) fn is_store(text: &str) -> bool {
    text.is_empty() || text.len() <= 2_048 && database::check_url(text).is_ok()
}

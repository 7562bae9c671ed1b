//! `[accounts]` and `[mysql]`: where accounts are stored, and how a database is reached.
//!
//! `database` parses MySQL URLs. User and password are never shown.

use super::super::sections::is_short_secret;
use base::section;
use base::setting::{Hidden, text, whole};
use std::path::PathBuf;

section! {
    /// `[accounts]`: the user database.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct AccountsSection {
        /// Where accounts are stored. "": in the logs of the data folder.
        /// mysql://user@host:3306/name: a MySQL or MariaDB database, shared with other servers and
        /// programs; the data folder keeps a copy, which logins use, even while the database is
        /// unreachable. Tables are created at the first start, and an empty database is filled from
        /// the data folder. User and password are never printed.
        store: Hidden = Hidden::default(),
            text("\"\" or mysql://user@host:3306/name", is_store), url;
    }
}

section! {
    /// `[mysql]`: how the databases of [accounts] and [chat] are reached.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct MySqlSection {
        /// The password, if the address has none. Never printed; better kept in password_file or
        /// the environment.
        password: Hidden = Hidden::default(), text("at most 1024 bytes", is_short_secret), secret;
        /// File whose first line is the password; "" is none.
        password_file: Option<PathBuf> = None;
        /// Encrypt connections and verify the server's certificate.
        tls: bool = false;
        /// PEM file of the authorities that the certificate is verified against; "" is the
        /// system's, from /etc/ssl/certs/ca-certificates.crt.
        ca: Option<PathBuf> = None;
        /// Timeout of a call. After it, the database counts as unreachable and is retried every
        /// second.
        timeout_ms: u32 = 5_000, whole(100..=60_000, "milliseconds");
    }
}

/// The rest of the URL is checked when it is used, with a precise error.
pub(in crate::config) fn is_store(text: &str) -> bool {
    text.is_empty() || text.len() <= 2_048 && database::check_url(text).is_ok()
}

//! MySQL and MariaDB: accounts in tables that others write too, and an archive of messages.
//!
//! [`MySqlAccounts`] is `model`'s port of the tables of accounts, [`MySqlArchive`] that of an
//! archive. Each has one connection, on a
//! runtime of its own that whoever calls drives; calls wait for one another. Every call ends within
//! its time, whatever the other side does or does not do, and after any fault the connection is
//! dropped: the next call begins anew. Tables are made and brought up to date here, step by step
//! ([`schema`]). It does not know what an account may do.

mod accounts;
mod archive;
mod connection;
mod schema;
mod settings;

pub use accounts::MySqlAccounts;
pub use archive::MySqlArchive;
pub use settings::{DatabaseSettings, check_url};

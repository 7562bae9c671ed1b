//! Sections about what other machines keep for this server: accounts in a database, logs of a
//! cluster.

mod accounts;
mod cluster;

pub(in crate::config) use accounts::is_store;
pub use accounts::{AccountsSection, MySqlSection};
pub use cluster::ClusterSection;

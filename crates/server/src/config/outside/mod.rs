//! Sections about what other machines keep for this server: accounts in a database or a directory,
//! logs of a cluster.

mod accounts;
mod cluster;
mod ldap;

pub(in crate::config) use accounts::is_store;
pub use accounts::{AccountsSection, MySqlSection};
pub use cluster::ClusterSection;
pub use ldap::LdapSection;

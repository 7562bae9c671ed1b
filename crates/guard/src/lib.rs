//! Access control: users, passwords, tokens, certificates and rules.
//!
//! [`AccessControl`] is the way in: it implements the port that the broker asks, over files that
//! were read (`accounts`, `acl`), the book of users (`book`), tokens and the answers of others: a
//! service (`http`), an LDAP server (`ldap`). All of it is bytes and values; what takes its time is
//! an errand of whoever owns threads, and `now` is an argument. Invariant: whatever is not
//! understood, not known or not answered is refused.

pub mod access_control;
pub mod accounts;
pub mod acl;
pub mod bans;
pub mod book;
mod cache;
pub mod http;
pub mod ldap;
pub mod passwords;
pub mod pattern;
mod people;
pub mod problems;
pub mod rules;
pub mod scram;
pub mod settings;
pub mod token;

pub use access_control::known::Standing;
pub use access_control::{AccessControl, Errands, LoginWitness, NotRead};
pub use bans::sources;
pub use cache::CacheLimits;
pub use people::PeopleFiles;
pub use settings::{Anonymous, LdapPolicy, ListenerPolicy, Method, Settings};
pub use sources::{Known, SourceLimits};

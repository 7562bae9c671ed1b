//! Access control: users, passwords, tokens, certificates and rules.
//!
//! [`AccessControl`] is the entry: it implements the port that the broker asks, over parsed files
//! (`accounts`, `acl`), the book of users (`book`), tokens and external answers: of a service
//! (`http`), of an LDAP server. All of it is bytes and values; slow work is an errand for
//! the caller's threads, and `now` is an argument. Invariant: input that is malformed, unknown or
//! unanswered is refused.

pub mod access_control;
pub mod accounts;
pub mod acl;
pub mod bans;
pub mod book;
mod cache;
mod encodings;
pub mod http;
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

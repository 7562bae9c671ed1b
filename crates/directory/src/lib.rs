//! Presence in Redis: standalone, behind Sentinel, or a Cluster.
//!
//! [`Redis`] is `model`'s port of the directory, [`Stream`] that of a stream of events; which of
//! the three it is, is said by the URL alone ([`parse`]). Every call ends within its time, whatever
//! the other side does or does not do, and after any fault all connections are dropped and all that
//! was known of masters and slots is forgotten: the next call begins anew. That is allowed because
//! all that is written may be written again.
//!
//! This crate does not know who is online, nor when to write: it stores any record that is newer
//! (docs/presence.md).

mod calls;
mod clock;
mod connections;
mod course;
mod names;
mod reply;
mod script;
mod settings;
mod slots;
mod socket;
mod stream;
mod traffic;
mod url;
mod wire;

pub use calls::Redis;
pub use settings::{RedisTls, Settings};
pub use stream::Stream;
pub use url::{Credentials, HostPort, RedisKind, RedisUrl, parse};

//! XMPP in requests of HTTP (BOSH, XEP-0124 and 0206), on a thread of its own.
//!
//! ```text
//!  browser ─► listener ─► shard ─► BoshDoor: requests ─► session ─► a pair of sockets ─► shard
//! ```
//! A session's requests come over connections that any shard has taken. They are handed over as
//! soon as they ask for its path, and meet here. To the shards a session is one connection more,
//! which moves to its account's home as every connection does; what `proto-xmpp` decides of it is
//! carried out by a task of its own. It knows no account and no stanza. Invariants: there are never
//! more connections and sessions than may be, and each request is answered once.

mod answer;
mod door;
mod host_meta;
mod sessions;
mod tally;
mod task;

pub use answer::BoshListener;
pub use door::{BoshBounds, BoshDoor, BoshSettings, Caller};
pub use sessions::StreamGiver;
pub use tally::{BoshOutcome, BoshTally};

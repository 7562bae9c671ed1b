//! Presence: who is online, and how a copy of it is kept.
//!
//! A [`PresenceTracker`] on each shard notes every transition, counts, remembers the last ones of
//! each principal, and hands out what a directory has not taken yet. The [`Replicator`] of the
//! process carries that to a [`Directory`](model::ports::presence::directory::Directory), whatever
//! state it is in: circuit, lease, and a comparison by digests after any loss. [`MemoryDirectory`]
//! is the directory that lives in the process. Pure: `now` is an argument, and a directory is a
//! trait.
//!
//! Invariants: what waits is bounded by principals, never by events; a record is written until the
//! directory has it or something newer; nothing here is on a connection's way.

mod audit;
mod counts;
mod digests;
mod history;
mod ledger;
mod owner;
mod replicator;
mod statistics;
mod table;
mod tracker;

pub use audit::{AuditSides, MemoryReader, audit};
pub use digests::{Digests, TrackerCounter, sum};
pub use owner::owner;
pub use replicator::{ENTRIES_MAX, ReplicationSink, Replicator, ReplicatorSettings};
pub use statistics::Statistics;
pub use table::{Calls, FailedCall, MemoryDirectory};
pub use tracker::{Effects, PresenceTracker, Settings};

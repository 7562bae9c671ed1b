//! Who is online, and how a copy of it is kept.
//!
//! A [`Keeper`] on each shard notes every transition, counts, remembers the last ones of each
//! principal, and hands out what a directory has not taken yet. The [`Copyist`] of the process
//! carries that to a [`Directory`](model::ports::directory::Directory), whatever state it is in:
//! circuit, lease, and a comparison by digests after any loss. [`Table`] is the directory that
//! lives in the process. Pure: `now` is an argument, and a directory is a trait.
//!
//! Invariants: what waits is bounded by principals, never by events; a record is written until the
//! directory has it or something newer; nothing here is on a connection's way.

mod audit;
mod copyist;
mod counts;
mod digests;
mod history;
mod keeper;
mod ledger;
mod owner;
mod statistics;
mod table;

pub use audit::{Memory, Sides, audit};
pub use copyist::{Copyist, CopyistSettings, Desk, ENTRIES_MAX};
pub use digests::{Digests, Tally, sum};
pub use keeper::{Effects, Keeper, Settings};
pub use owner::owner;
pub use statistics::Statistics;
pub use table::{Calls, Done, Table};

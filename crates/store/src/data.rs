//! The data folder and the threads over it: what the roof opens, asks and closes.
//!
//! A folder holds one log for each shard. [`Folder::open`] reads them, [`OpenFolder`] gives back
//! what is alive, and [`OpenFolder::start`] hands each log to a thread of its own, to which
//! [`Logs`] takes calls. It knows no clock but the one it is given, and not what a message means.
//! Invariant: what a call was completed with holds after every crash, under the operator's choice
//! of [`crate::Fsync`].
//!
//! Read `folder.rs` for what is on the disk, `writer.rs` for the life of a log.

pub(crate) mod alive;
mod copying;
pub(crate) mod folder;
mod following;
mod gathering;
mod held;
mod log_base;
mod log_queue;
mod logs;
pub mod lost;
pub(crate) mod opened;
mod refusals;
pub(crate) mod rehome;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
mod upkeep_thread;
mod writer;

pub use copying::Copying;
pub(crate) use folder::Place;
pub use folder::{CLUSTER_SECRET, Folder, NODE_SECRET, States};
pub use following::FollowingFolder;
pub use log_base::{Base, BaseFile, BaseList, CHUNK_BYTES};
pub use logs::{LogSizes, Logs};
pub use opened::OpenFolder;
pub use settings::{Secrets, Settings};

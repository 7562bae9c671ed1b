//! The door to the disk: timelines and rows that must survive, in one data folder.
//!
//! Parties submit calls ([`model::ports::log`]) and get each answer when it is on stable storage. A
//! folder has one log a shard; a log is [`log`] (records in segments, committed in batches) with
//! [`engine`] over it (what the records mean, and where everything is). [`data`] is the folder and
//! the threads, [`tools`] what an operator does with a folder that is not in use, [`files`] the
//! disk. The store does not know what a message means or who is online, and reads no clock. The
//! formats are drawn in `docs/storage.md`. Invariant: a write that was completed with `Ok` holds
//! after a crash, under the operator's choice of [`Fsync`].
//!
//! Read [`data::Folder`] first, then [`engine::Engine`].

mod background;
pub mod data;
pub mod engine;
pub mod files;
pub mod log;
mod lost;
mod open_error;
pub mod tools;

pub use lost::{LostHook, LostMessage};
pub use open_error::OpenError;

use std::path::PathBuf;
use std::time::Duration;

/// When writes are put on stable storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fsync {
    /// Before the writes are completed. Acknowledged writes survive a power cut.
    Always,
    /// So often. Writes acknowledged since the last time survive a crash of the server, not of the
    /// machine.
    Interval(Duration),
    /// When a segment is full and at the end. The same, for longer.
    Never,
}

/// The end of a log as a crash left it. [`log::OpenedLog::missing`] has the part of it that had
/// been promised, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Torn {
    /// The segment.
    pub file: PathBuf,
    /// Where its good part ends.
    pub offset: u64,
    /// Bytes cut off.
    pub bytes: u64,
    /// Kind of the damage.
    pub why: &'static str,
}

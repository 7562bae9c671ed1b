//! The law of the durable log: a reference, a suite of cases, and seeded runs against both.
//!
//! [`MemoryLog`] is the port of [`model::ports::log`] in plain maps, to be compared with. [`suite`]
//! holds a store to one behaviour at a time, [`random`] to all of them in any order with restarts
//! and crashes between, [`crash_at_every_point`] to one crash after another. All see a store as a
//! [`Subject`] and know nothing of files, threads or engines. Where the port leaves something
//! open, the law here is:
//!
//! - a cursor stands exactly where the highest acknowledgement put it, also beyond the end;
//! - after a forget `last` stays, all cursors are zero;
//! - a page is as long as its limits let it be, and `bytes_max` counts bodies alone;
//! - what retention drops is gone after maintenance at the latest, and nothing else is;
//! - what was not completed when the store died is there as a prefix of the calls, each whole.

mod memory;
mod random;
mod restoration;
mod suite;
#[cfg(test)]
mod tests;

pub use memory::MemoryLog;
pub use random::{crash_at_every_point, random};
pub use restoration::Restoration;
pub use suite::{Way, suite, suite_in};

use model::ports::log::{Call, Done, StoreError};
use model::timeline::Space;
use std::collections::BTreeMap;

/// The answer to a call; `None` when the store died before it came.
pub type CallAnswer = Option<Result<Done, StoreError>>;

/// A store under test. A completed write is on stable storage, unless the store is lazy.
pub trait Subject {
    /// Options with which it was made.
    fn options(&self) -> &LogOptions;

    /// Its time, Unix seconds.
    fn now_s(&self) -> u32;

    /// Hands over calls of one party at once, and waits for all answers, in the order of the calls.
    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>>;

    /// Closes it cleanly and opens it again.
    fn restart(&mut self);

    /// Kills it while it is at this work, and opens it again. `point` says where, by whatever
    /// steps the store counts: after so many of them, or when the work is done before. Answers
    /// are those of `KilledWork::Calls`, each `None` from where the store died.
    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer>;

    /// Its time is now this or later, and all maintenance that is due is done to its end. A store
    /// with a clock of its own does not look at the time.
    fn tidy(&mut self, now_s: u32);

    /// Content that the last start returned. It is asked right after a start.
    fn restored(&self) -> Restoration;

    /// Bytes it holds on stable storage, if it knows.
    fn stored_bytes(&self) -> Option<u64> {
        None
    }

    /// After `tidy` all maintenance has come to its end. A store whose maintenance goes on by
    /// itself cannot tell; the cases that need it are left out.
    fn can_end_tidy(&self) -> bool {
        true
    }

    /// Whether the store may answer `Full` or `Busy` at any time, because faults are injected or
    /// its queue is short. A write that is refused so must never be found later.
    fn may_refuse(&self) -> bool {
        false
    }

    /// Its `fsync` is not always: what is completed may be lost in a crash, the last first.
    fn is_lazy(&self) -> bool {
        false
    }

    /// Whether the store may answer `Failed`, because faults are injected.
    fn may_fail(&self) -> bool {
        false
    }
}

/// Work of a store when it is killed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KilledWork {
    /// Nothing.
    Nothing,
    /// The store carries out calls.
    Calls(Vec<Call>),
    /// The store does its maintenance, at this time.
    Tidy(u32),
    /// The store is closed and opened again.
    Restart,
    /// The store was killed before, and is opened again.
    Recovery,
}

/// Options with which a store is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// Its time at first, Unix seconds.
    pub now_s: u32,
    /// Once keys it remembers.
    pub once_count_max: usize,
    /// For how long it remembers them, seconds.
    pub once_age_s_max: u32,
    /// Length of a segment, bytes: short, so that a test sees many.
    pub segment_bytes: u64,
    /// All it may hold, bytes.
    pub log_bytes_max: u64,
    /// Retention by space. A space that is not named keeps everything.
    pub retention: BTreeMap<Space, Retention>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            now_s: 1_700_000_000,
            once_count_max: 10_000,
            once_age_s_max: 86_400,
            segment_bytes: 256 * 1024,
            log_bytes_max: u64::MAX,
            retention: BTreeMap::new(),
        }
    }
}

/// Retention of a space's timelines. `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Messages made longer ago than this go, seconds.
    pub age_s_max: Option<u32>,
    /// The oldest go until so many are left.
    pub count_max: Option<u64>,
    /// The oldest go until they take so many bytes, as the store counts them.
    pub bytes_max: Option<u64>,
    /// Whether entries are dropped that every reader has acknowledged. A timeline that nobody reads
    /// keeps everything.
    pub acknowledged: bool,
}

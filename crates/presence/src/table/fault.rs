//! Faults on order: what a connection to a [`MemoryDirectory`] does to the calls over it.
//!
//! For tests and simulation. Knows calls and not records. A paused directory carries out later the
//! calls that came meanwhile, as a stopped process does with what its socket holds; calls that were
//! held back are done in the reverse of their order, as over several connections of a pool.

use super::MemoryDirectory;
use super::store::TableStore;
use model::ports::presence::directory::DirectoryError;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Kind of a call that fails: whether it is done all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedCall {
    /// The call failed before anything was done.
    Before,
    /// The call was carried out, and its answer was lost.
    After,
}

/// Counts of the calls over a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Leases.
    pub leases: u64,
    /// Calls that put.
    pub puts: u64,
    /// Records in them.
    pub records: u64,
    /// Calls that remove.
    pub removes: u64,
    /// Buckets whose digest was asked for.
    pub digests: u64,
    /// Buckets that were read.
    pub buckets: u64,
}

type Held = Box<dyn FnOnce(&mut TableStore) + Send>;

/// A connection.
pub struct TableLink {
    failing: VecDeque<(DirectoryError, FailedCall)>,
    pub refused: BTreeSet<u16>,
    paused: bool,
    holding: bool,
    held: Vec<Held>,
    delay_ms: u64,
    timeout_ms: u64,
    took_ms: u64,
    pub calls: Calls,
}

impl Default for TableLink {
    fn default() -> TableLink {
        TableLink {
            failing: VecDeque::new(),
            refused: BTreeSet::new(),
            paused: false,
            holding: false,
            held: Vec::new(),
            delay_ms: 0,
            timeout_ms: 500,
            took_ms: 0,
            calls: Calls::default(),
        }
    }
}

impl TableLink {
    /// Fault of the next call; `None`: it succeeds. Adds the time that the call takes.
    pub fn strike(&mut self) -> Option<(DirectoryError, FailedCall)> {
        if self.paused {
            self.took_ms += self.timeout_ms;
            return Some((DirectoryError::Slow, FailedCall::Before));
        }
        self.took_ms += self.delay_ms.min(self.timeout_ms);
        if self.delay_ms >= self.timeout_ms {
            return Some((DirectoryError::Slow, FailedCall::After));
        }
        self.failing.pop_front()
    }

    /// Whether changes are kept for later.
    pub fn holds_any(&self) -> bool {
        self.paused || self.holding
    }

    /// Keeps `work` for later if changes are.
    pub fn holds(&mut self, work: impl FnOnce(&mut TableStore) + Send + 'static) -> bool {
        if self.holds_any() {
            self.took_ms += self.timeout_ms;
            self.held.push(Box::new(work));
        }
        self.holds_any()
    }

    /// Whether all these buckets answer.
    pub fn reaches(&self, buckets: Range<u16>) -> Result<(), DirectoryError> {
        if self.refused.range(buckets).next().is_some() { Err(moved()) } else { Ok(()) }
    }
}

/// Answer of a bucket that is being moved to another place.
pub fn moved() -> DirectoryError {
    DirectoryError::Refused("TRYAGAIN the bucket moves".into())
}

impl MemoryDirectory {
    /// The next `calls` over this connection fail so.
    pub fn fail(&self, calls: u32, fault: DirectoryError, done: FailedCall) {
        self.link().failing.extend((0..calls).map(|_| (fault.clone(), done)));
    }

    /// Calls work again, but for those that are paused or held back.
    pub fn heal(&self) {
        let mut link = self.link();
        link.failing.clear();
        link.refused.clear();
        link.delay_ms = 0;
    }

    /// Whether a bucket is refused, as one that moves.
    pub fn refuse(&self, bucket: u16, refused: bool) {
        let mut link = self.link();
        match refused {
            true => link.refused.insert(bucket),
            false => link.refused.remove(&bucket),
        };
    }

    /// While it is paused every call is slow; changes are done when it goes on, in order.
    pub fn pause(&self, paused: bool) {
        let held = {
            let mut link = self.link();
            link.paused = paused;
            if paused { Vec::new() } else { std::mem::take(&mut link.held) }
        };
        held.into_iter().for_each(|work| work(&mut self.store()));
    }

    /// Whether changes are slow, and done when they are [delivered](MemoryDirectory::deliver).
    pub fn hold_back(&self, holding: bool) {
        self.link().holding = holding;
    }

    /// Delivers the calls that were held back, the last first.
    pub fn deliver(&self) {
        let held = std::mem::take(&mut self.link().held);
        held.into_iter().rev().for_each(|work| work(&mut self.store()));
    }

    /// Every call takes so long; one that takes as long as the [limit](MemoryDirectory::timeout) is
    /// done and its answer lost.
    pub fn slow(&self, ms: u64) {
        self.link().delay_ms = ms;
    }

    /// How long a call may take.
    pub fn timeout(&self, ms: u64) {
        self.link().timeout_ms = ms;
    }

    /// How long calls took since this was last asked.
    pub fn took_ms(&self) -> u64 {
        std::mem::take(&mut self.link().took_ms)
    }

    /// Counts of the calls over this connection.
    pub fn calls(&self) -> Calls {
        self.link().calls
    }
}

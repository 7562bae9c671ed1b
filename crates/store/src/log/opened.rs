//! Result of opening a log, for whoever tells the operator.

use super::Position;
use crate::Torn;

/// Result of opening a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenedLog {
    /// Segments there were.
    pub segments: u64,
    /// Their bytes, without a torn tail.
    pub bytes: u64,
    /// Segments that were read.
    pub segments_read: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Records in them.
    pub records: u64,
    /// The torn tail that was cut off, if there was one.
    pub torn: Option<Torn>,
    /// Position up to which answers had been given, as far as that is known: after a crash of the
    /// machine it may have been more.
    pub promised: Option<Position>,
    /// Where the log ends.
    pub end: Position,
}

/// Records that had been acknowledged and are not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Position up to which answers had been given.
    pub promised: Position,
    /// Position at which the log ends.
    pub end: Position,
}

impl Missing {
    /// How many records are missing.
    pub fn records(&self) -> u64 {
        self.promised.index.saturating_sub(self.end.index)
    }
}

impl OpenedLog {
    /// Whether something that had been promised is not there.
    pub fn missing(&self) -> Option<Missing> {
        let end = self.end;
        let is_short = |it: &Position| it.place > end.place || it.index > end.index;
        self.promised.filter(is_short).map(|promised| Missing { promised, end })
    }
}

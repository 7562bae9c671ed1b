//! Counts of how much of each segment is alive.
//!
//! Counts are exact: as of the checkpoint, and from there on by every record that was committed,
//! for records say which segments they fill and free. Shares are an estimate: a message for many
//! timelines counts as alive in proportion to those that still have it. Invariant: a segment that
//! is needed has a count above zero.

use crate::engine::record::bytes::{Bytes, put_small};
use std::collections::BTreeMap;

/// A segment's count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    /// Entries of timelines whose message stands here.
    pub(crate) live: u64,
    /// Entries there ever were.
    pub(crate) ever: u64,
    /// Bytes of records with messages.
    pub(crate) bytes: u64,
}

impl Count {
    /// Bytes that are alive, about.
    pub(crate) fn live_bytes(&self) -> u64 {
        match self.ever {
            0 => 0,
            ever => (u128::from(self.bytes) * u128::from(self.live) / u128::from(ever)) as u64,
        }
    }
}

/// Counts by segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts(BTreeMap<u32, Count>);

impl Counts {
    pub(crate) fn of(&self, segment: u32) -> Count {
        self.0.get(&segment).copied().unwrap_or_default()
    }

    /// Whether anything was ever counted in a segment that may still be named.
    pub(crate) fn has(&self, segment: u32) -> bool {
        self.0.contains_key(&segment)
    }

    /// A record with a message, so long, was written.
    pub(crate) fn hold(&mut self, segment: u32, bytes: u32) {
        self.0.entry(segment).or_default().bytes += u64::from(bytes);
    }

    /// Undoes [`hold`](Self::hold).
    pub(crate) fn unhold(&mut self, segment: u32, bytes: u32) {
        self.0.entry(segment).or_default().bytes -= u64::from(bytes);
    }

    /// Adds so many live entries to a segment.
    pub(crate) fn fill(&mut self, segment: u32, entries: u64) {
        let count = self.0.entry(segment).or_default();
        count.live += entries;
        count.ever += entries;
    }

    /// Undoes [`fill`](Self::fill).
    pub(crate) fn unfill(&mut self, segment: u32, entries: u64) {
        let count = self.0.entry(segment).or_default();
        count.live -= entries;
        count.ever -= entries;
    }

    /// Removes so many live entries of a segment. Returns false if there were not as many.
    #[must_use]
    pub(crate) fn free(&mut self, segment: u32, entries: u64) -> bool {
        let count = self.0.entry(segment).or_default();
        let left = count.live.checked_sub(entries);
        count.live = left.unwrap_or(0);
        left.is_some()
    }

    /// Undoes [`free`](Self::free).
    pub(crate) fn unfree(&mut self, segment: u32, entries: u64) {
        self.0.entry(segment).or_default().live += entries;
    }

    pub(crate) fn forget(&mut self, segment: u32) {
        self.0.remove(&segment);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Count)> + '_ {
        self.0.iter().map(|(segment, count)| (*segment, *count))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_small(self.0.len() as u64, out);
        for (segment, count) in &self.0 {
            for number in [u64::from(*segment), count.live, count.ever, count.bytes] {
                put_small(number, out);
            }
        }
    }

    pub(crate) fn read(bytes: &mut Bytes<'_>) -> Option<Counts> {
        let mut counts = BTreeMap::new();
        for _ in 0..bytes.small()? {
            let segment = bytes.small_u32()?;
            let (live, ever, held) = (bytes.small()?, bytes.small()?, bytes.small()?);
            counts.insert(segment, Count { live, ever, bytes: held });
        }
        Some(Counts(counts))
    }
}

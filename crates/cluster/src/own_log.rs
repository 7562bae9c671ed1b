//! A node's knowledge of its own copy of a log: the ends of its batches, and up to which index it
//! is on the disk and known to be acknowledged.
//!
//! Kept for as many batches as the stream holds, so that a stream can be compared with the copy
//! without reading the disk. It does not have the batches. Invariant: the ends rise in index.

use crate::batch::{LogEnd, StreamBatch};
use std::collections::VecDeque;

/// Ends that are remembered beyond those that the stream holds.
const ENDS_KEPT: usize = 1_000;

/// A node's copy of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnLog {
    /// The ends of the last batches; at least one, which may be the beginning of everything.
    ends: VecDeque<LogEnd>,
    /// Index up to which the log is known to be acknowledged by a stream.
    acknowledged: u64,
    /// Index up to which it is on the disk.
    synced: u64,
}

/// How a batch that counts compares with the copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compared {
    /// The copy has the batch.
    Has,
    /// The batch follows the copy's last one.
    Next,
    /// The copy has another batch there, behind this end.
    Differs(LogEnd),
    /// The copy lacks something before it, or differs from it before what is remembered.
    Gap,
}

impl OwnLog {
    /// A copy whose last batches end here, oldest first, that was on the disk when it was opened.
    pub fn new(ends: impl IntoIterator<Item = LogEnd>, acknowledged: u64) -> OwnLog {
        let mut ends: VecDeque<_> = ends.into_iter().collect();
        if ends.is_empty() {
            ends.push_back(LogEnd::default());
        }
        let synced = ends[ends.len() - 1].index;
        OwnLog { ends, acknowledged: acknowledged.min(synced), synced }
    }

    /// The end of the copy.
    pub fn end(&self) -> LogEnd {
        *self.ends.back().expect("there is one")
    }

    /// Index up to which the log is known to be acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Index up to which the copy is on the disk.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// The index of the first record of the batch that has the last acknowledged record.
    pub fn last_acknowledged_batch(&self) -> u64 {
        let before = self.ends.iter().rev().find(|end| end.index < self.acknowledged);
        before.map_or(1, |end| end.index + 1)
    }

    /// Compares a batch that counts.
    pub fn compare(&self, batch: &StreamBatch) -> Compared {
        let (first, last) = (batch.first_index(), batch.last_index());
        let (base, end) = (self.ends[0], self.end());
        if first == end.index + 1 {
            let follows = batch.follows(&end);
            return if follows { Compared::Next } else { Compared::Gap };
        }
        if first > end.index || (first <= base.index && last > base.index) {
            return Compared::Gap;
        }
        if last < base.index {
            return Compared::Has; // older than what is remembered: the base is compared
        }
        let own = self.at(last);
        if own.is_some_and(|own| own.is_same(&batch.end())) {
            return Compared::Has;
        }
        match self.at(first - 1) {
            Some(before) if batch.follows(&before) => Compared::Differs(before),
            _ => Compared::Gap,
        }
    }

    /// The batch that ends at this index, if one that is remembered does.
    fn at(&self, index: u64) -> Option<LogEnd> {
        let at = self.ends.binary_search_by_key(&index, |end| end.index).ok()?;
        Some(self.ends[at])
    }

    /// A batch was added to the copy.
    pub fn push(&mut self, batch: &StreamBatch) {
        debug_assert!(batch.first_index() == self.end().index + 1);
        self.ends.push_back(batch.end());
    }

    /// The copy was cut behind this end. Returns the first and last index of the acknowledged
    /// records that were cut, if there are any.
    pub fn cut(&mut self, behind: LogEnd) -> Option<(u64, u64)> {
        let kept = self.ends.partition_point(|end| end.index <= behind.index);
        self.ends.truncate(kept.max(1));
        let lost = (behind.index + 1, self.acknowledged);
        self.acknowledged = self.acknowledged.min(behind.index);
        self.synced = self.synced.min(behind.index);
        (lost.0 <= lost.1).then_some(lost)
    }

    /// The log is acknowledged up to this index, if the copy is so long.
    pub fn acknowledge(&mut self, index: u64) {
        self.acknowledged = self.acknowledged.max(index.min(self.end().index));
    }

    /// The copy is on the disk up to this index.
    pub fn sync(&mut self, index: u64) {
        self.synced = self.synced.max(index.min(self.end().index));
    }

    /// The stream begins with the batch that has this index: what is far behind it is forgotten.
    pub fn forget_before(&mut self, index: u64) {
        let needed = self.ends.partition_point(|end| end.index < index);
        let gone = needed.saturating_sub(ENDS_KEPT);
        self.ends.drain(..gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::batch;

    fn four() -> ([StreamBatch; 4], OwnLog) {
        let mut at = LogEnd::default();
        let all = [b"a", b"b", b"c", b"d"].map(|payload| {
            let next = batch(at, 0, &[payload, payload]);
            at = next.end();
            next
        });
        let own = OwnLog::new(all[..3].iter().map(StreamBatch::end), 4);
        (all, own)
    }

    #[test]
    fn a_batch_is_known_next_another_or_behind_a_gap() {
        let (all, mut own) = four();
        assert_eq!(own.compare(&all[1]), Compared::Has);
        assert_eq!(own.compare(&all[3]), Compared::Next);
        let other = batch(all[0].end(), 0, &[b"B"]);
        assert_eq!(own.compare(&other), Compared::Differs(all[0].end()));
        assert_eq!(own.compare(&batch(all[3].end(), 0, &[b"e"])), Compared::Gap);
        assert_eq!(own.compare(&batch(other.end(), 0, &[b"x", b"y"])), Compared::Gap);
        let wrong = LogEnd { chain: 1, ..all[2].end() };
        assert_eq!(own.compare(&batch(wrong, 0, &[b"d"])), Compared::Gap);
        own.push(&all[3]);
        assert_eq!((own.end(), own.synced()), (all[3].end(), 6));
        own.sync(100);
        assert_eq!(own.synced(), 8);
    }

    #[test]
    fn a_cut_tells_what_of_it_was_acknowledged() {
        let (all, own) = four();
        assert_eq!(own.clone().cut(all[1].end()), None);
        let mut shorter = own;
        assert_eq!(shorter.cut(all[0].end()), Some((3, 4)));
        assert_eq!((shorter.end(), shorter.acknowledged()), (all[0].end(), 2));
        assert_eq!(shorter.last_acknowledged_batch(), 1);
    }
}

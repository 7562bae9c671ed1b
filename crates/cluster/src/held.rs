//! The content of a stream, as its leader counts it: for trimming and for knowing when it is full.
//!
//! Invariant: a purge leaves, as the stream's first message, one that begins a batch that counts.
//! Readers need that: what stands at the beginning counts.

use crate::counting::Counted;
use crate::rules::Rule;
use std::collections::VecDeque;

/// Bytes that a stream may have.
pub const STREAM_BYTES_MAX: u64 = 1 << 30;

/// A stream is full from so many percent on: nothing more is written to the log.
const FULL_PERCENT: u64 = 95;

/// From so many percent on one disk is enough for a purge, if the operator allows one copy.
const ONE_DISK_PERCENT: u64 = 90;

/// Bytes that NATS stores with a message, roughly.
const MESSAGE_BYTES: u64 = 64;

/// Messages of a stream that count.
#[derive(Clone, Debug, Default)]
pub struct Held {
    entries: VecDeque<Entry>,
    bytes: u64,
    /// Bytes of messages behind the last entry.
    behind: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    first: u64,
    last: u64,
    first_index: u64,
    last_index: u64,
    bytes: u64,
}

/// A purge that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DuePurge {
    /// The first sequence that stays.
    pub below: u64,
    /// One disk alone has what goes.
    pub is_one_disk: bool,
}

impl Held {
    /// The stream has a message of so many bytes more.
    pub fn message(&mut self, bytes: usize) {
        self.behind += bytes as u64 + MESSAGE_BYTES;
    }

    /// The last messages have batches that count.
    pub fn count(&mut self, counted: &Counted) {
        let Some(first) = counted.batches.first() else { return };
        let bytes = std::mem::take(&mut self.behind);
        self.bytes += bytes;
        let (first_index, last_index) = (first.first_index(), counted.at.end.index);
        let (first, last) = (counted.at.first, counted.at.last);
        self.entries.push_back(Entry { first, last, first_index, last_index, bytes });
    }

    /// The index of the first record that the stream has.
    pub fn first_index(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.first_index)
    }

    /// Whether nothing more may be written to a log with this stream.
    pub fn is_full(&self) -> bool {
        self.is_above(FULL_PERCENT)
    }

    /// A purge that is due, when these indexes are on the disks of the leader and its followers.
    pub fn due(&self, own: u64, followers: &[u64], copies_min: usize) -> Option<DuePurge> {
        let mut disks: Vec<u64> = followers.iter().copied().chain([own]).collect();
        disks.sort_unstable_by(|a, b| b.cmp(a));
        let is_urgent = copies_min < 2 && self.is_above(ONE_DISK_PERCENT);
        let two = match Rule::PurgeBehindTwoDisks.holds() {
            true => disks.get(1).copied().unwrap_or_default(),
            false => disks[0],
        };
        let upto = if is_urgent { two.max(own) } else { two };
        let keeps = usize::from(Rule::PurgeKeepsACountedBatch.holds());
        let gone = self.entries.iter().take_while(|entry| entry.last_index <= upto).count();
        let below = match keeps {
            1 => self.entries.get(gone.min(self.entries.len().checked_sub(1)?))?.first,
            _ => self.entries.get(gone.checked_sub(1)?)?.last + 1,
        };
        let is_one_disk = upto > two;
        (below > self.entries[0].first).then_some(DuePurge { below, is_one_disk })
    }

    /// Notes that everything below this sequence is purged.
    pub fn purged(&mut self, below: u64) {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.last < below) {
            self.bytes -= entry.bytes;
        }
    }

    fn is_above(&self, percent: u64) -> bool {
        self.bytes + self.behind >= STREAM_BYTES_MAX / 100 * percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::batch;
    use crate::batch::{LogEnd, StreamBatch};
    use crate::counting::Anchor;

    /// Four messages of two records each, of these bytes, at sequences 1, 3, 5 and 7.
    fn held(bytes: usize) -> Held {
        let (mut held, mut at) = (Held::default(), LogEnd::default());
        for number in 0..4 {
            let next = batch(at, 0, &[b"a", b"b"]);
            at = next.end();
            let sequence = 1 + 2 * number;
            held.message(bytes);
            let at = Anchor { first: sequence, last: sequence, end: next.end() };
            held.count(&Counted { at, batches: vec![StreamBatch::clone(&next)] });
        }
        held
    }

    #[test]
    fn a_purge_waits_for_two_disks_and_leaves_a_batch() {
        let held = held(100);
        let due = |own, followers: &[u64]| held.due(own, followers, 1).map(|due| due.below);
        assert_eq!(due(8, &[]), None, "one disk");
        assert_eq!(due(8, &[3]), Some(3), "half of the second batch does not do");
        assert_eq!(due(4, &[8, 2]), Some(5));
        assert_eq!(due(8, &[8]), Some(7), "the last one stays");
        assert_eq!(due(1, &[8]), None);
        assert!(!held.is_full());
    }

    #[test]
    fn a_stream_that_is_nearly_full_needs_one_disk_where_one_copy_is_allowed() {
        let held = held(STREAM_BYTES_MAX as usize / 100 * 23);
        let due = held.due(4, &[], 1);
        assert_eq!(due, Some(DuePurge { below: 5, is_one_disk: true }));
        assert_eq!(held.due(4, &[], 2), None);
        let mut full = held.clone();
        assert!(!full.is_full());
        full.message(STREAM_BYTES_MAX as usize / 100 * 4);
        assert!(full.is_full());
        full.purged(5);
        assert!(!full.is_full() && full.first_index() == Some(5));
    }
}

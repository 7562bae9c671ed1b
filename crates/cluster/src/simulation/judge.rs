//! What must hold, whatever happens: the invariants of the design, by their numbers.
//!
//! The judge sees everything and believes no machine: what counts it finds out by a reader of its
//! own, with all rules.

use super::NAME;
use crate::batch::{LogEnd, StreamBatch};
use crate::counting::{Counted, Counting};
use crate::rules::with_all;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What counts in a stream.
pub(super) struct Oracle {
    counting: Option<Counting>,
    /// First and last sequence, and end, of what counted.
    pub(super) counted: Vec<(u64, u64, LogEnd)>,
}

impl Oracle {
    pub(super) fn new() -> Oracle {
        Oracle { counting: None, counted: Vec::new() }
    }

    pub(super) fn read(&mut self, sequence: u64, message: &[u8]) -> Option<Counted> {
        let counting = self.counting.get_or_insert_with(|| Counting::new(NAME, sequence));
        let counted = with_all(|| counting.read(sequence, message)).expect("no gap")?;
        self.counted.push((counted.at.first, counted.at.last, counted.at.end));
        Some(counted)
    }

    pub(super) fn read_all(&mut self, first: u64, messages: &VecDeque<Vec<u8>>) {
        for (message, sequence) in messages.iter().zip(first..) {
            self.read(sequence, message);
        }
    }
}

type Mark = (u32, u64, u32);

fn mark(end: &LogEnd) -> Mark {
    (end.epoch, end.index, end.chain)
}

/// What happened so far, as far as it must not be undone.
#[derive(Default)]
pub(super) struct Judge {
    /// Everything that ever counted.
    counted: BTreeSet<Mark>,
    /// By their last indexes: what counted there, ever.
    counted_at: BTreeMap<u64, BTreeSet<Mark>>,
    /// What was acknowledged to clients, by its last index.
    acknowledged: BTreeMap<u64, LogEnd>,
    /// The epochs of Leads that counted, and whose.
    epoch_max: u32,
    /// What operators were told to be lost.
    told: Vec<(u64, u64)>,
    /// The world lets streams forget.
    may_lose: bool,
    two_since: Option<u64>,
    pub(super) releases: u64,
    pub(super) opens: u64,
}

impl Judge {
    pub(super) fn new(may_lose: bool) -> Judge {
        Judge { may_lose, ..Judge::default() }
    }

    pub(super) fn count(&mut self, counted: &Counted) {
        for batch in &counted.batches {
            let end = batch.end();
            self.counted.insert(mark(&end));
            self.counted_at.entry(end.index).or_default().insert(mark(&end));
        }
        self.epoch_max = self.epoch_max.max(counted.at.end.epoch);
    }

    pub(super) fn epoch_max(&self) -> u32 {
        self.epoch_max
    }

    /// A node gives answers up to an index: 1, 4, 5, 6.
    pub(super) fn release(&mut self, disk: &[StreamBatch], index: u64) {
        self.releases += 1;
        for batch in disk.iter().rev() {
            let end = batch.end();
            if end.index > index {
                continue;
            }
            if self.acknowledged.get(&end.index).is_some_and(|it| it.is_same(&end)) {
                break;
            }
            let counts = self.counted.contains(&mark(&end));
            assert!(counts, "invariants 4 and 6: {end:?} is acknowledged and does not count");
            let before = self.acknowledged.insert(end.index, end);
            let is_once = before.is_none_or(|it| it.is_same(&end)) || self.may_lose;
            assert!(is_once, "invariant 5: a place is given twice: {before:?} and {end:?}");
        }
    }

    /// A node begins to serve its log: 1, 2, 4.
    pub(super) fn open(&mut self, disk: &[StreamBatch], epoch: u32) {
        self.opens += 1;
        let end = disk.last().map(StreamBatch::end).unwrap_or_default();
        assert_eq!(end.epoch, epoch, "invariant 2: it serves behind its own Lead");
        for batch in disk {
            let end = batch.end();
            assert!(self.counted.contains(&mark(&end)), "invariant 4: {end:?} is shown");
        }
        self.look_for_lost(disk, "when a leader opens its log");
    }

    /// Invariant 1: every acknowledged batch is in the log.
    fn look_for_lost(&mut self, disk: &[StreamBatch], when: &str) {
        let has: BTreeSet<Mark> = disk.iter().map(|batch| mark(&batch.end())).collect();
        let lost = self.acknowledged.values().find(|end| !has.contains(&mark(end)));
        let is_fine = lost.is_none() || self.may_lose;
        assert!(is_fine, "invariant 1: {lost:?} was acknowledged and is lost {when}");
    }

    pub(super) fn tell_lost(&mut self, first: u64, last: u64) {
        assert!(self.may_lose, "told of a loss of {first} to {last} where nothing can be lost");
        self.told.push((first, last));
    }

    /// At the end, when everybody is back: 1, 3, and losses are told if and only if there are any.
    pub(super) fn end(&mut self, disks: &[&[StreamBatch]]) {
        let longest = disks.iter().max_by_key(|disk| disk.len()).expect("a disk");
        for disk in disks {
            let same = disk.iter().zip(*longest).all(|(a, b)| a.end().is_same(&b.end()));
            assert!(same, "invariant 3: copies differ");
            assert_eq!(disk.len(), longest.len(), "invariant 3: a copy is behind for good");
        }
        self.look_for_lost(longest, "at the end");
        let has: BTreeSet<Mark> = longest.iter().map(|batch| mark(&batch.end())).collect();
        let is_told =
            |index: u64| self.told.iter().any(|(first, last)| (*first..=*last).contains(&index));
        for end in self.acknowledged.values().filter(|end| !has.contains(&mark(end))) {
            assert!(is_told(end.index), "{end:?} is lost and nobody is told");
        }
        for (first, last) in &self.told {
            let mut there = self.counted_at.range(first..=last).flat_map(|(_, marks)| marks);
            let is_lost = there.any(|mark| !has.contains(mark));
            assert!(is_lost, "told of a loss of {first} to {last}, and nothing is lost");
        }
    }

    /// Invariant 10: the number of nodes that take themselves for the leader.
    pub(super) fn leaders(&mut self, now_ms: u64, count: usize) {
        match count {
            0 | 1 => self.two_since = None,
            _ => {
                let since = *self.two_since.get_or_insert(now_ms);
                assert!(now_ms - since <= 16_500, "invariant 10: two lead for more than 15 s");
            }
        }
    }
}

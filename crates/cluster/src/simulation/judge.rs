//! The invariants of the design that must always hold, by their numbers.
//!
//! The judge sees everything and believes no machine: what counts it finds out by a reader of its
//! own, with all rules.
//!
//! Two losses are allowed, and no other, where nobody who has the batch was there as the claim was
//! made whose Lead goes on without it: of a batch that a stream forgot; and of a deposed leader's
//! batch that counts because this stream forgot the Lead that deposed it. In the second case alone
//! both leaders may have acknowledged a batch of the same place. A loss must be reported, unless a
//! power cut took the knowledge that the batch was acknowledged. Nor was somebody there whom it
//! took from, but where a new generation begins: there copies tell what they have.

use super::NAME;
use super::node::SimDisk;
use crate::batch::{LogEnd, LogLeader, StreamBatch};
use crate::counting::{Counted, Counting};
use crate::rules::with_all;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// Reader of a stream that finds the batches that count.
pub(super) struct Oracle {
    counting: Option<Counting>,
    pub(super) counted: Vec<Counted>,
}

impl Oracle {
    pub(super) fn new() -> Oracle {
        Oracle { counting: None, counted: Vec::new() }
    }

    /// The end of the log as the stream has it.
    pub(super) fn end(&self) -> Option<LogEnd> {
        self.counted.last().map(|counted| counted.at.end)
    }

    pub(super) fn read(&mut self, sequence: u64, message: &[u8]) -> Option<Counted> {
        let counting = self.counting.get_or_insert_with(|| Counting::new(NAME, sequence));
        let counted = with_all(|| counting.read(sequence, message)).expect("no gap")?;
        self.counted.push(counted.clone());
        Some(counted)
    }

    pub(super) fn read_all(&mut self, first: u64, messages: &VecDeque<Vec<u8>>) {
        for (message, sequence) in messages.iter().zip(first..) {
            self.read(sequence, message);
        }
    }
}

/// A batch: its last index, its epoch, and the chain up to it.
pub(super) type Mark = (u64, u32, u32);

pub(super) fn mark(batch: &StreamBatch) -> Mark {
    mark_of(&batch.end())
}

fn mark_of(end: &LogEnd) -> Mark {
    (end.index, end.epoch, end.chain)
}

/// All batches whose last indexes are these.
fn places(first: u64, last: u64) -> RangeInclusive<Mark> {
    (first, 0, 0)..=(last, u32::MAX, u32::MAX)
}

/// The past events that must not be undone.
#[derive(Default)]
pub(super) struct Judge {
    /// Batches that ever counted, each with the batch before it.
    counted: BTreeMap<Mark, Mark>,
    /// Records that streams forgot.
    forgotten: BTreeSet<Mark>,
    /// Batches that count in a stream that forgot a Lead of a later epoch.
    deposed: BTreeSet<Mark>,
    /// Records acknowledged to clients.
    acknowledged: BTreeSet<Mark>,
    /// Batches that the log went on without: they may be lost ...
    excused: BTreeSet<Mark>,
    /// ... or it must never be acknowledged.
    passed: BTreeSet<Mark>,
    /// The highest epoch that counted.
    epoch_max: u32,
    /// Batches that a node no longer knows to be acknowledged, after a power cut: their loss may go
    /// unreported.
    unmarked: BTreeSet<Mark>,
    /// First and last index of each loss that was reported to operators.
    told: Vec<(u64, u64)>,
    two_since: Option<u64>,
    /// Leader that served the log under each epoch.
    served: BTreeMap<u32, LogLeader>,
    pub(super) releases: u64,
    pub(super) opens: u64,
    pub(super) losses: u64,
}

impl Judge {
    /// Batches count in a stream, behind this end. `lead_forgotten` is the highest epoch of the
    /// Leads that counted in this stream and that it forgot.
    pub(super) fn count(&mut self, counted: &Counted, behind: Option<LogEnd>, lead_forgotten: u32) {
        let mut before = behind.as_ref().map(mark_of);
        for batch in &counted.batches {
            let this = mark(batch);
            // What a stream begins with stands where it stood before.
            let known = before.or(self.counted.get(&this).copied());
            let known = known.unwrap_or_default();
            self.counted.entry(this).or_insert(known);
            let is_of_epoch = match batch.leader() {
                Some(_) => this.1 > known.1,
                None => this.1 == known.1,
            };
            assert!(is_of_epoch, "invariant 2: {this:?} counts behind {known:?}");
            self.passed.remove(&this);
            if this.1 < lead_forgotten {
                self.deposed.insert(this);
            }
            before = Some(this);
        }
        self.epoch_max = self.epoch_max.max(counted.at.end.epoch);
    }

    pub(super) fn epoch_max(&self) -> u32 {
        self.epoch_max
    }

    pub(super) fn has_counted(&self, batch: &StreamBatch) -> bool {
        self.counted.contains_key(&mark(batch))
    }

    /// A stream forgot this, though it may have acknowledged it.
    pub(super) fn forget<'a>(&mut self, counted: impl Iterator<Item = &'a Counted>) {
        let batches = counted.flat_map(|counted| &counted.batches);
        self.forgotten.extend(batches.map(mark));
    }

    pub(super) fn unmark<'a>(&mut self, batches: impl Iterator<Item = &'a StreamBatch>) {
        self.unmarked.extend(batches.map(mark));
    }

    /// The log goes on from here, by a Lead or in a new generation: 1 and 7. `disk` is what the
    /// node of a new generation still adds, `there` what those have who were there when it was
    /// claimed.
    pub(super) fn go_on(
        &mut self,
        end: &LogEnd,
        disk: Option<&[StreamBatch]>,
        there: &BTreeSet<Mark>,
    ) {
        let begins = disk.is_some();
        let mut kept: BTreeSet<Mark> = disk.into_iter().flatten().map(mark).collect();
        let mut at = mark_of(end);
        while at.0 > 0 {
            kept.insert(at);
            at = self.counted.get(&at).copied().unwrap_or_default();
        }
        self.excused.retain(|mark| !kept.contains(mark)); // who had it came back in time
        let gone = self.counted.keys().filter(|mark| !kept.contains(*mark));
        for gone in gone.copied().collect::<Vec<Mark>>() {
            if self.excused.contains(&gone) {
                continue;
            }
            // Who claims in a stream that seems to be whole asks for what others know.
            let is_known = begins || !self.unmarked.contains(&gone);
            let is_there = is_known && there.contains(&gone);
            let is_forgotten = self.forgotten.contains(&gone) || self.deposed.contains(&gone);
            if is_forgotten && !is_there {
                self.excused.insert(gone);
                continue;
            }
            let is_kept = !self.acknowledged.contains(&gone);
            assert!(
                is_kept,
                "invariants 1 and 7: {gone:?} was acknowledged, and the log goes on without it \
                 behind {end:?}; somebody who was there has it: {is_there}"
            );
            self.passed.insert(gone);
        }
    }

    /// A node gives answers up to an index: 1, 4, 5, 6.
    pub(super) fn release(&mut self, disk: &[StreamBatch], index: u64) {
        self.releases += 1;
        for batch in disk.iter().rev() {
            let this = mark(batch);
            if this.0 > index {
                continue;
            }
            if self.acknowledged.contains(&this) {
                break;
            }
            let counts = self.counted.contains_key(&this);
            assert!(counts, "invariant 4: {this:?} is acknowledged and does not count");
            let is_deposed = self.passed.contains(&this);
            assert!(!is_deposed, "invariant 6: {this:?} is acknowledged by a deposed leader");
            let mut others = self.acknowledged.range(places(this.0, this.0));
            let is_excused =
                |it: &Mark| self.excused.contains(it) || self.is_of_a_deposed_leader(it, &this);
            let twice = others.find(|it| !is_excused(it));
            assert!(twice.is_none(), "invariant 5: a place is given twice: {twice:?} and {this:?}");
            self.acknowledged.insert(this);
        }
    }

    /// Whether the batch of the earlier epoch counted because the stream forgot the later Lead.
    fn is_of_a_deposed_leader(&self, one: &Mark, other: &Mark) -> bool {
        let earlier = if one.1 < other.1 { one } else { other };
        one.1 != other.1 && self.deposed.contains(earlier)
    }

    /// A node begins to serve its log: 1, 2, 4.
    pub(super) fn open(&mut self, disk: &[StreamBatch], epoch: u32, by: LogLeader) {
        self.opens += 1;
        let other = self.served.insert(epoch, by);
        assert!(other.is_none(), "invariant 2: {other:?} served under the epoch {epoch}, too");
        let end = disk.last().map(StreamBatch::end).unwrap_or_default();
        assert_eq!(end.epoch, epoch, "invariant 2: it serves behind its own Lead");
        let shown = disk.iter().find(|batch| !self.has_counted(batch));
        assert!(shown.is_none(), "invariant 4: {:?} is shown", shown.map(mark));
        self.look_for_lost(disk, epoch, "when a leader opens its log");
    }

    /// Copies agree up to where both know the log to be acknowledged: 3. The chain is a checksum
    /// over everything before it.
    pub(super) fn agree(&self, disks: &[&SimDisk]) {
        if !self.forgotten.is_empty() {
            return; // copies differ until they have read the stream again
        }
        for (at, one) in disks.iter().enumerate() {
            for other in &disks[at + 1..] {
                let upto = one.mark.min(other.mark);
                let ends = [one, other].map(|disk| mark_of(&disk.end_at(upto)));
                assert!(ends[0] == ends[1], "invariant 3: copies differ up to {upto}: {ends:?}");
            }
        }
    }

    /// Invariant 1: what was acknowledged under earlier epochs is in the log.
    fn look_for_lost(&self, disk: &[StreamBatch], epoch: u32, when: &str) {
        let has: BTreeSet<Mark> = disk.iter().map(mark).collect();
        let lost = self.acknowledged.difference(&has);
        let lost = lost.filter(|mark| mark.1 < epoch && !self.excused.contains(*mark)).min();
        assert!(lost.is_none(), "invariant 1: {lost:?} was acknowledged and is lost {when}");
    }

    /// A node cuts these off its log, because the stream has another batch there.
    pub(super) fn cut(&self, gone: &[StreamBatch]) {
        let lost = gone
            .iter()
            .map(mark)
            .find(|mark| self.acknowledged.contains(mark) && !self.excused.contains(mark));
        assert!(lost.is_none(), "invariant 1: {lost:?} was acknowledged and is cut off");
    }

    pub(super) fn tell_lost(&mut self, first: u64, last: u64) {
        let is_due = !self.forgotten.is_empty();
        assert!(is_due, "told of a loss of {first} to {last} where nothing was forgotten");
        self.told.push((first, last));
    }

    /// At the end, when everybody is back: 1, 3, and losses are reported if and only if some exist.
    pub(super) fn end(&mut self, disks: &[&[StreamBatch]]) {
        let longest = disks.iter().max_by_key(|disk| disk.len()).expect("a disk");
        for disk in disks {
            let same = disk.iter().zip(*longest).all(|(a, b)| a.end().is_same(&b.end()));
            assert!(same, "invariant 3: copies differ");
            assert_eq!(disk.len(), longest.len(), "invariant 3: a copy is behind for good");
        }
        self.look_for_lost(longest, u32::MAX, "at the end");
        let has: BTreeSet<Mark> = longest.iter().map(mark).collect();
        let is_told =
            |index: u64| self.told.iter().any(|(first, last)| (*first..=*last).contains(&index));
        for lost in self.acknowledged.difference(&has) {
            let is_known = !self.unmarked.contains(lost);
            assert!(is_told(lost.0) || !is_known, "{lost:?} is lost and nobody is told");
            self.losses += 1;
        }
        for (first, last) in &self.told {
            let mut there = self.counted.range(places(*first, *last)).map(|(mark, _)| mark);
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

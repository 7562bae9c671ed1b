//! Comparing buckets by digest: all of them after a loss, and slowly for ever.
//!
//! One mechanism for both: buckets are marked, and marked ones are compared at a rate that nothing
//! exceeds. A bucket that has unwritten entries, or whose digest changed during the call, need not
//! agree yet: it is marked for the next pass. One that differs is read and given to the shards, and
//! looked at once more in the next pass. Knows no records. Invariant: a bucket's mark goes only
//! when it agreed, or differed so often that the next round may as well find it.

use super::{ReplicatorSettings, tally::ReplicationTally};
use crate::digests::Digests;
use base::prng::Prng;
use base::time::{Instant, Now};
use model::ports::presence::directory::{Directory, DirectoryEntry, DirectoryError, Lease};
use model::presence::{BUCKETS, Digest};
use std::ops::Range;
use std::time::Duration;

/// Buckets of one call, at most: what `directory` asks Redis for within one time limit.
const CHUNK_MAX: u16 = 128;
/// Records that are online here, in the buckets of one call, at most but for a single bucket: the
/// directory hashes each of them.
const RECORDS_MAX: u64 = 8_192;
/// Pause between two passes: what the last one had written has arrived by then.
const REST: Duration = Duration::from_millis(250);
/// Single buckets that are refused in a row before all are left alone for a while, and how long.
const REFUSALS_MAX: u8 = 16;
const REFUSED: Duration = Duration::from_secs(1);
/// How often a bucket is read and repaired before it is left to the next round.
const REPAIRS_MAX: u8 = 4;
/// How often the background marks buckets.
const BACKGROUND: Duration = Duration::from_secs(1);

/// Sides of a comparison with the directory.
#[derive(Clone, Copy)]
pub struct ResyncSides<'a> {
    pub lease: &'a Lease,
    pub digests: &'a Digests,
}

/// A set of buckets.
#[derive(Clone)]
struct Marks(Vec<u64>);

impl Marks {
    fn new() -> Marks {
        Marks(vec![0; usize::from(BUCKETS) / 64])
    }

    fn set(&mut self, bucket: u16) {
        self.0[usize::from(bucket) / 64] |= 1 << (bucket % 64);
    }

    fn clear(&mut self, bucket: u16) {
        self.0[usize::from(bucket) / 64] &= !(1 << (bucket % 64));
    }

    fn has(&self, bucket: u16) -> bool {
        self.0[usize::from(bucket) / 64] & (1 << (bucket % 64)) != 0
    }

    fn fill(&mut self) {
        self.0.fill(u64::MAX);
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// The first one from `bucket` on.
    fn from(&self, bucket: u16) -> Option<u16> {
        if bucket >= BUCKETS {
            return None;
        }
        let (first, shift) = (usize::from(bucket) / 64, bucket % 64);
        let masked = self.0[first] & (u64::MAX << shift);
        let rest = self.0[first + 1..].iter().copied();
        let word = std::iter::once(masked).chain(rest).position(|word| word != 0)?;
        let bits = if word == 0 { masked } else { self.0[first + word] };
        Some(((first + word) * 64) as u16 + bits.trailing_zeros() as u16)
    }
}

/// Progress of the comparison with the directory.
pub struct Resync {
    per_s: u32,
    /// To be compared in this pass, and in the next one.
    pass: Marks,
    next: Marks,
    /// Of both, those that are owed since a loss.
    owed: Marks,
    repairs: Vec<u8>,
    /// Found to differ by the last call, to be read.
    differing: Vec<u16>,
    cursor: u16,
    chunk: u16,
    /// Buckets that the next call is for: it waits until they may be asked for.
    wanted: u64,
    /// Single buckets refused in a row.
    refusals: u8,
    rests_until: Option<Instant>,
    /// Buckets that may be asked for now, as of `paid_at`, in millionths.
    credit: u64,
    paid_at: Instant,
    background: Background,
}

struct Background {
    every_s: u32,
    cursor: u16,
    /// Remainder of the last share, in fractions of a bucket: the denominator is the seconds of a
    /// round.
    rest: u32,
    due: Option<Instant>,
}

impl Resync {
    pub fn new(settings: &ReplicatorSettings) -> Resync {
        // Nodes that start together begin at different places.
        let place = Prng::new(settings.seed).below(u64::from(BUCKETS)) as u16;
        Resync {
            per_s: settings.resync_per_s.max(1),
            pass: Marks::new(),
            next: Marks::new(),
            owed: Marks::new(),
            repairs: vec![0; usize::from(BUCKETS)],
            differing: Vec::new(),
            cursor: place,
            chunk: CHUNK_MAX,
            wanted: 1,
            refusals: 0,
            rests_until: None,
            credit: 0,
            paid_at: Instant::default(),
            background: Background {
                every_s: settings.background_s.max(1),
                cursor: place,
                rest: 0,
                due: None,
            },
        }
    }

    /// Begins to compare all buckets, as records may have been lost.
    pub fn begin(&mut self) {
        self.pass.fill();
        self.owed.fill();
        self.repairs.fill(0);
        self.differing.clear();
    }

    /// Buckets that are owed a comparison since a loss.
    pub fn left(&self) -> u64 {
        self.owed.count()
    }

    /// Makes one call if there is something to compare. Gives a bucket that differs, for the
    /// shards.
    pub fn step(
        &mut self,
        now: Now,
        sides: ResyncSides<'_>,
        tally: &mut ReplicationTally,
        directory: &mut dyn Directory,
    ) -> Result<Option<(u16, Vec<DirectoryEntry>)>, DirectoryError> {
        self.mark(now);
        self.earn(now);
        if !self.affords(self.wanted) {
            return Ok(None);
        }
        if let Some(bucket) = self.differing.pop() {
            self.spend(1);
            self.wanted = 1;
            // A fault leaves it marked for the next pass.
            let stored = directory.bucket(bucket)?;
            tally.repairs += 1;
            return Ok(Some((bucket, stored)));
        }
        let Some(buckets) = self.choose(now, sides.digests) else { return Ok(None) };
        self.wanted = buckets.len() as u64;
        if !self.affords(self.wanted) {
            return Ok(None);
        }
        self.compare(now, buckets, sides, tally, directory)?;
        // Room for another such call is waited for, so that calls are few and not small.
        self.wanted = if self.differing.is_empty() { self.wanted.min(self.most()) } else { 1 };
        Ok(None)
    }

    /// When there is something to do, if nothing happens.
    pub fn next(&self, now: Now) -> Instant {
        let background = self.background.due.unwrap_or(now.mono);
        if let Some(until) = self.rests_until {
            return background.min(until);
        }
        if self.differing.is_empty() && self.pass.is_empty() && self.next.is_empty() {
            return background;
        }
        let lacking = (self.wanted * 1_000_000).saturating_sub(self.credit);
        now.after(Duration::from_micros(lacking.div_ceil(u64::from(self.per_s))))
    }

    /// Marks the background's share; while all are owed it waits, for they are compared anyway.
    fn mark(&mut self, now: Now) {
        let background = &mut self.background;
        let due = *background.due.get_or_insert(now.mono + BACKGROUND);
        if now.mono < due {
            return;
        }
        background.due = Some(now.mono + BACKGROUND);
        if !self.owed.is_empty() {
            return;
        }
        background.rest += u32::from(BUCKETS);
        let share = background.rest / background.every_s;
        background.rest %= background.every_s;
        for _ in 0..share.min(u32::from(BUCKETS)) {
            self.pass.set(background.cursor);
            background.cursor = (background.cursor + 1) % BUCKETS;
        }
    }

    fn earn(&mut self, now: Now) {
        let span_us = (now.mono - self.paid_at).as_micros().min(1_000_000) as u64;
        self.paid_at = now.mono;
        let earned = self.credit + span_us * u64::from(self.per_s);
        self.credit = earned.min(self.most() * 1_000_000);
    }

    /// Buckets that may be saved up.
    fn most(&self) -> u64 {
        u64::from(self.per_s.min(u32::from(CHUNK_MAX)))
    }

    fn affords(&self, buckets: u64) -> bool {
        self.credit >= buckets * 1_000_000
    }

    fn spend(&mut self, buckets: u64) {
        self.credit = self.credit.saturating_sub(buckets * 1_000_000);
    }

    /// The next buckets of this pass that may be compared in one call.
    fn choose(&mut self, now: Now, digests: &Digests) -> Option<Range<u16>> {
        if self.rests_until.is_some_and(|until| now.mono < until) {
            return None;
        }
        if self.pass.is_empty() {
            if self.next.is_empty() {
                return None;
            }
            if self.rests_until.is_none() {
                self.rests_until = Some(now.mono + REST);
                return None;
            }
            std::mem::swap(&mut self.pass, &mut self.next);
        }
        self.rests_until = None;
        let first = loop {
            let bucket = self.pass.from(self.cursor).or_else(|| self.pass.from(0))?;
            self.cursor = bucket;
            if digests.unwritten_in(bucket) == 0 {
                break bucket;
            }
            self.later(bucket);
        };
        let may = self.most().min(u64::from(self.chunk)) as u16;
        let (mut last, mut records) = (first, digests.of(first).count);
        while last + 1 < BUCKETS && last + 1 - first < may && self.pass.has(last + 1) {
            records += digests.of(last + 1).count;
            if records > RECORDS_MAX || digests.unwritten_in(last + 1) > 0 {
                break;
            }
            last += 1;
        }
        Some(first..last + 1)
    }

    fn compare(
        &mut self,
        now: Now,
        buckets: Range<u16>,
        sides: ResyncSides<'_>,
        tally: &mut ReplicationTally,
        directory: &mut dyn Directory,
    ) -> Result<(), DirectoryError> {
        self.spend(buckets.len() as u64);
        let before: Vec<Digest> = buckets.clone().map(|bucket| sides.digests.of(bucket)).collect();
        let stored = match directory.digests(sides.lease, buckets.clone()) {
            Ok(stored) if stored.len() == before.len() => stored,
            Ok(_) => return Err(DirectoryError::Nonsense("digests of other buckets".into())),
            Err(fault) => {
                self.narrow(now, &buckets);
                return Err(fault);
            }
        };
        self.chunk = (self.chunk * 2).min(CHUNK_MAX);
        self.refusals = 0;
        self.cursor = buckets.end % BUCKETS;
        for ((bucket, own), stored) in buckets.zip(before).zip(stored) {
            tally.compared += 1;
            if sides.digests.of(bucket) != own || sides.digests.unwritten_in(bucket) > 0 {
                self.later(bucket);
            } else if own == stored {
                self.done(bucket);
            } else {
                tally.differing += 1;
                self.differs(bucket);
            }
        }
        Ok(())
    }

    /// A call was refused: perhaps for one of its buckets only, which is found by asking for
    /// fewer, and passed over until the next pass.
    fn narrow(&mut self, now: Now, buckets: &Range<u16>) {
        if buckets.len() > 1 {
            self.chunk = (buckets.len() as u16 / 2).max(1);
            return;
        }
        self.later(buckets.start);
        self.cursor = buckets.end % BUCKETS;
        self.refusals += 1;
        if self.refusals == REFUSALS_MAX {
            self.refusals = 0;
            self.rests_until = Some(now.mono + REFUSED);
        }
    }

    fn differs(&mut self, bucket: u16) {
        let repairs = &mut self.repairs[usize::from(bucket)];
        if *repairs == REPAIRS_MAX {
            return self.done(bucket);
        }
        *repairs += 1;
        self.differing.push(bucket);
        self.later(bucket);
    }

    fn later(&mut self, bucket: u16) {
        self.pass.clear(bucket);
        self.next.set(bucket);
    }

    fn done(&mut self, bucket: u16) {
        self.pass.clear(bucket);
        self.owed.clear(bucket);
        self.repairs[usize::from(bucket)] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_in_order() {
        let mut marks = Marks::new();
        for bucket in [0, 63, 64, 700, BUCKETS - 1] {
            marks.set(bucket);
        }
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(bucket) = marks.from(at) {
            found.push(bucket);
            at = bucket + 1;
        }
        assert_eq!(found, [0, 63, 64, 700, BUCKETS - 1]);
        assert_eq!(marks.count(), 5);
        found.into_iter().for_each(|bucket| marks.clear(bucket));
        assert!(marks.is_empty() && marks.from(0).is_none());
    }

    fn settings() -> ReplicatorSettings {
        let node = model::presence::NodeName::parse("a").expect("a name");
        ReplicatorSettings::new(Lease { node, boot: 7 }, 1, "process", 1)
    }

    fn at(ms: u64) -> Now {
        Now::new(Instant::from_nanos(ms * 1_000_000), ms)
    }

    #[test]
    fn a_mark_is_of_its_bucket_alone() {
        let mut marks = Marks::new();
        marks.fill();
        assert_eq!(marks.count(), u64::from(BUCKETS));
        marks.clear(64);
        assert!(!marks.has(64) && marks.has(63) && marks.has(65) && !marks.is_empty());
        assert_eq!(
            (marks.from(64), marks.from(63), marks.from(BUCKETS)),
            (Some(65), Some(63), None)
        );
        marks.clear(64);
        assert_eq!(marks.count(), u64::from(BUCKETS) - 1);
    }

    #[test]
    fn credit_is_earned_by_time_and_saved_for_one_call() {
        let mut resync = Resync::new(&ReplicatorSettings { resync_per_s: 100, ..settings() });
        resync.earn(at(0));
        assert!(!resync.affords(1));
        resync.earn(at(9));
        assert!(!resync.affords(1));
        resync.earn(at(10));
        assert!(resync.affords(1) && !resync.affords(2));
        resync.spend(1);
        assert!(!resync.affords(1));
        resync.earn(at(60_000));
        assert!(resync.affords(100) && !resync.affords(101), "a second's worth, and no more");
        let mut fast = Resync::new(&ReplicatorSettings { resync_per_s: 2_000, ..settings() });
        fast.earn(at(60_000));
        assert!(fast.affords(u64::from(CHUNK_MAX)) && !fast.affords(u64::from(CHUNK_MAX) + 1));
        assert_eq!(Resync::new(&ReplicatorSettings { resync_per_s: 0, ..settings() }).most(), 1);
    }

    #[test]
    fn in_the_background_every_bucket_is_marked_once_a_round() {
        let mut resync = Resync::new(&ReplicatorSettings { background_s: 60, ..settings() });
        resync.mark(at(0));
        assert!(resync.pass.is_empty(), "the first share is due after a second");
        for second in 1..=60 {
            resync.mark(at(second * 1_000));
            let share = u64::from(BUCKETS) * second / 60;
            assert_eq!(resync.pass.count(), share, "after {second} seconds");
            resync.mark(at(second * 1_000 + 999));
            assert_eq!(resync.pass.count(), share, "the next share is not due");
        }
        resync.begin();
        resync.pass = Marks::new();
        resync.mark(at(100_000));
        assert!(resync.pass.is_empty(), "what is owed comes first");
    }

    #[test]
    fn a_call_takes_marked_neighbours_that_are_written_up_to_its_records() {
        let digests = Digests::new();
        let mut resync = Resync::new(&settings());
        (10..20).for_each(|bucket| resync.pass.set(bucket));
        (30..30 + 2 * CHUNK_MAX).for_each(|bucket| resync.pass.set(bucket));
        resync.cursor = 0;
        digests.wait(10);
        digests.wait(14);
        assert_eq!(resync.choose(at(0), &digests), Some(11..14), "11 is the first that is written");
        assert!(!resync.pass.has(10) && resync.next.has(10), "10 is for the next pass");
        digests.settle(14);
        (0..RECORDS_MAX - 1).for_each(|_| digests.add(11, 0));
        digests.add(12, 0);
        assert_eq!(resync.choose(at(0), &digests), Some(11..20), "as many records as may be");
        digests.add(13, 0);
        assert_eq!(resync.choose(at(0), &digests), Some(11..13), "one more");
        resync.cursor = 30;
        assert_eq!(resync.choose(at(0), &digests), Some(30..30 + CHUNK_MAX));
        resync.cursor = BUCKETS - 1;
        assert_eq!(resync.choose(at(0), &digests), Some(11..13), "round again");
        resync.pass.set(BUCKETS - 1);
        resync.cursor = BUCKETS - 1;
        assert_eq!(resync.choose(at(0), &digests), Some(BUCKETS - 1..BUCKETS), "the last one");
    }

    #[test]
    fn between_two_passes_it_rests() {
        let (digests, mut resync) = (Digests::new(), Resync::new(&settings()));
        resync.next.set(5);
        assert_eq!(resync.choose(at(0), &digests), None);
        assert_eq!(resync.choose(at(249), &digests), None);
        assert_eq!(resync.choose(at(250), &digests), Some(5..6));
    }

    #[test]
    fn a_bucket_that_refuses_alone_is_put_off_and_many_in_a_row_are_rested_for() {
        let mut resync = Resync::new(&settings());
        resync.narrow(at(0), &(0..128));
        assert_eq!((resync.chunk, resync.refusals), (64, 0));
        resync.narrow(at(0), &(0..3));
        assert_eq!((resync.chunk, resync.refusals), (1, 0));
        for bucket in 0..u16::from(REFUSALS_MAX) {
            assert_eq!(resync.rests_until, None);
            resync.pass.set(bucket);
            resync.narrow(at(0), &(bucket..bucket + 1));
            assert!(resync.next.has(bucket) && !resync.pass.has(bucket));
            assert_eq!(resync.cursor, bucket + 1);
        }
        assert_eq!((resync.rests_until, resync.refusals), (Some(at(1_000).mono), 0));
        assert_eq!(resync.choose(at(999), &Digests::new()), None);
        assert!(resync.choose(at(1_000), &Digests::new()).is_some());
    }

    #[test]
    fn a_bucket_that_differs_again_and_again_is_left_for_the_next_round() {
        let mut resync = Resync::new(&settings());
        resync.begin();
        for repair in 1..=usize::from(REPAIRS_MAX) {
            resync.differs(9);
            assert_eq!((resync.differing.len(), resync.next.has(9)), (repair, true));
        }
        assert_eq!(resync.left(), u64::from(BUCKETS));
        resync.differs(9);
        assert_eq!(resync.differing.len(), usize::from(REPAIRS_MAX));
        assert_eq!((resync.left(), resync.repairs[9]), (u64::from(BUCKETS) - 1, 0));
    }
}

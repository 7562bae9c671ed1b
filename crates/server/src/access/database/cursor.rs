//! Place in a table of changes, whose numbers become visible out of order.
//!
//! A number is drawn when its writer begins and visible when it has committed: 7 may be visible
//! before 6, and 6 may never come. So visible numbers are remembered until nothing below them can
//! come any more: none is missing, or they have been visible for longer than any writer takes. It
//! reads no clock. Invariant: a number above the floor is processed once, or again after a start,
//! and never left out.

use std::collections::BTreeMap;

/// Seconds for which a writer may leave its changes unfinished.
pub(super) const WRITER_S_MAX: u32 = 60;

/// Numbers that are remembered. Beyond, the lowest counts as the last of those below it.
const SEEN_MAX: usize = 65_536;

/// Numbers up to which all that are remembered are read again each time.
const SMALL: usize = 1_000;

/// Otherwise, seconds between two times at which they are.
const LATE_S: u32 = 5;

/// Applied part of a table of changes.
#[derive(Default)]
pub(super) struct NewsCursor {
    /// Number up to which all changes are carried out.
    floor: u64,
    /// Further numbers that are carried out, with the second at which each came into sight.
    seen: BTreeMap<u64, u32>,
}

impl NewsCursor {
    /// A cursor at a number up to which all changes were processed and none can still come.
    pub(super) fn at(floor: u64) -> NewsCursor {
        NewsCursor { floor, seen: BTreeMap::new() }
    }

    /// Number behind which to look for changes. Where many are remembered, those that come late are
    /// looked for now and then.
    pub(super) fn look_behind(&self, now_s: u32) -> u64 {
        let is_small = self.seen.len() <= SMALL;
        if is_small || now_s.is_multiple_of(LATE_S) { self.floor } else { self.highest() }
    }

    /// The highest that was carried out.
    pub(super) fn highest(&self) -> u64 {
        self.seen.last_key_value().map_or(self.floor, |(seq, _)| *seq)
    }

    /// Whether it is still to be carried out.
    pub(super) fn is_new(&self, seq: u64) -> bool {
        seq > self.floor && !self.seen.contains_key(&seq)
    }

    /// Notes that these changes were carried out.
    pub(super) fn carried_out(&mut self, now_s: u32, seqs: impl IntoIterator<Item = u64>) {
        for seq in seqs.into_iter().filter(|seq| *seq > self.floor) {
            self.seen.entry(seq).or_insert(now_s);
        }
        self.settle(now_s);
    }

    /// Moves the floor up to the lowest number that may still come.
    pub(super) fn settle(&mut self, now_s: u32) {
        let is_old = |since: u32| now_s.saturating_sub(since) >= WRITER_S_MAX;
        let old = self.seen.iter().rev().find(|(_, since)| is_old(**since));
        if let Some(seq) = old.map(|(seq, _)| *seq) {
            self.seen = self.seen.split_off(&(seq + 1));
            self.floor = seq;
        }
        while let Some((&seq, _)) = self.seen.first_key_value() {
            if seq != self.floor + 1 && self.seen.len() <= SEEN_MAX {
                break;
            }
            self.floor = seq;
            self.seen.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_order_is_not_remembered() {
        let mut cursor = NewsCursor::at(5);
        cursor.carried_out(100, [6, 7, 8]);
        assert_eq!((cursor.floor, cursor.seen.len(), cursor.highest()), (8, 0, 8));
        assert!(!cursor.is_new(8) && cursor.is_new(9));
    }

    #[test]
    fn a_number_that_comes_late_is_carried_out_and_once() {
        let mut cursor = NewsCursor::at(5);
        cursor.carried_out(100, [7, 9]);
        assert_eq!((cursor.floor, cursor.highest()), (5, 9));
        assert!(cursor.is_new(6) && !cursor.is_new(7) && cursor.is_new(8));
        cursor.carried_out(130, [6]);
        assert_eq!(cursor.floor, 7);
        cursor.settle(100 + WRITER_S_MAX - 1);
        assert!(cursor.is_new(8), "its writer may be at it");
        cursor.settle(100 + WRITER_S_MAX);
        assert_eq!((cursor.floor, cursor.is_new(8)), (9, false));
    }

    #[test]
    fn gaps_that_stay_hold_nothing_up() {
        // Every third number, as three servers that replicate give them.
        let mut cursor = NewsCursor::at(0);
        for (now_s, seq) in (0..100).map(|turn| (turn, u64::from(turn) * 3)) {
            cursor.carried_out(now_s, [seq]);
        }
        assert_eq!(cursor.floor, u64::from(99 - WRITER_S_MAX) * 3);
        assert!(cursor.seen.len() as u32 == WRITER_S_MAX);
    }

    #[test]
    fn so_many_are_remembered() {
        let mut cursor = NewsCursor::at(0);
        let seqs = (1..=SEEN_MAX as u64 + 10).map(|at| at * 2);
        cursor.carried_out(1, seqs);
        assert_eq!((cursor.seen.len(), cursor.floor), (SEEN_MAX, 20));
    }
}

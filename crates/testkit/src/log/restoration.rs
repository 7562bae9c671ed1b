//! Content that a store returned at its start, to be compared with the expected one.
//!
//! Tables and timelines may come in any order, but each in one piece and sorted within: whoever
//! collects checks that, and then sorts the pieces, so that two restorations are equal when they
//! say the same.

use model::ports::log::{Restored, Table};
use model::timeline::{Seq, TimelineId};

/// A row: table, key, value.
pub(super) type Row = (Table, Box<[u8]>, Box<[u8]>);

/// An entry: timeline, place, the message's id and label.
pub(super) type Entry = (TimelineId, Seq, u64, Box<[u8]>);

/// A timeline's head: its name, the last number given, how many messages, and what they weigh.
pub(super) type Head = (TimelineId, Seq, u64, u64);

/// Everything a store gave back at one start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restoration {
    pub(super) rows: Vec<Row>,
    pub(super) heads: Vec<Head>,
    pub(super) entries: Vec<Entry>,
}

impl Restoration {
    /// Collects what `restore` gives out.
    ///
    /// # Panics
    /// When the order is not that of the port: rows first, table by table; then heads, and the
    /// entries behind them, timeline by timeline, by place.
    pub fn collect(restore: impl FnOnce(&mut dyn FnMut(Restored<'_>) -> bool)) -> Restoration {
        let mut all = Restoration::default();
        restore(&mut |item| {
            match item {
                Restored::Row { table, key, value } => {
                    assert!(all.heads.is_empty(), "a row was restored after a timeline");
                    all.rows.push((table, key.into(), value.into()));
                }
                Restored::Timeline { timeline, last, count, bytes } => {
                    all.heads.push((timeline, last, count, bytes));
                }
                Restored::Entry { timeline, seq, id, label } => {
                    all.entries.push((timeline, seq, id, label.into()));
                }
            }
            true
        });
        let said = all.heads.iter().flat_map(|head| std::iter::repeat_n(head.0, head.2 as usize));
        assert!(
            said.eq(all.entries.iter().map(|entry| entry.0)),
            "a timeline has what its head says, in the order of the heads"
        );
        assert!(in_pieces(all.rows.iter().map(|row| row.0)), "a table was restored in two pieces");
        let places: Vec<_> = all.entries.iter().map(|entry| (entry.0, entry.1)).collect();
        assert!(
            in_pieces(places.iter().map(|place| place.0)),
            "a timeline was restored in two pieces"
        );
        let sorted = |pair: &[(TimelineId, Seq)]| pair[0].0 != pair[1].0 || pair[0].1 < pair[1].1;
        assert!(places.windows(2).all(sorted), "entries were restored out of order");
        all.rows.sort();
        all.heads.sort_unstable();
        all.entries.sort();
        all
    }

    /// Gives all of it back, as a store does at its start.
    pub fn each(&self, mut tell: impl FnMut(Restored<'_>) -> bool) {
        for (table, key, value) in &self.rows {
            tell(Restored::Row { table: *table, key, value });
        }
        for &(timeline, last, count, bytes) in &self.heads {
            if !tell(Restored::Timeline { timeline, last, count, bytes }) {
                continue;
            }
            let own = self.entries.iter().filter(|entry| entry.0 == timeline);
            for (_, seq, id, label) in own {
                tell(Restored::Entry { timeline, seq: *seq, id: *id, label });
            }
        }
    }

    /// How many messages stand in timelines.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Tables and keys of all rows.
    pub fn keys(&self) -> impl Iterator<Item = (Table, &[u8])> {
        self.rows.iter().map(|row| (row.0, &*row.1))
    }
}

/// Whether equal items stand together.
fn in_pieces<T: PartialEq>(items: impl Iterator<Item = T>) -> bool {
    let mut pieces: Vec<T> = Vec::new();
    for item in items {
        if pieces.last() == Some(&item) {
            continue;
        }
        if pieces.contains(&item) {
            return false;
        }
        pieces.push(item);
    }
    true
}

//! Statistics of a data folder: how much it holds, and of what.
//!
//! Read from derived state after a checkpoint, and the first message of each timeline. Invariant:
//! each log is counted apart, and nothing twice.

use super::{Means, open};
use crate::OpenError;
use crate::data::alive::Rest;
use crate::data::folder::OpenLog;
use crate::engine::Sizes;
use crate::log::Place;
use model::ports::log::Table;
use model::timeline::Space;
use std::collections::BTreeMap;
use std::path::Path;

/// Statistics of one log.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogStats {
    /// Segments, bytes and what of them is alive.
    pub sizes: Sizes,
    /// Timelines by space: with something in them, or numbers to remember.
    pub timelines: BTreeMap<Space, u64>,
    /// Entries by space.
    pub entries: BTreeMap<Space, u64>,
    /// Rows by the number of their table.
    pub rows: BTreeMap<u8, u64>,
    /// Cursors.
    pub cursors: u64,
    /// Unix second of the oldest message.
    pub oldest_s: Option<u32>,
    /// Where the last checkpoint was.
    pub checkpoint: Place,
    /// Records behind it, which a start has to read.
    pub replayed: u64,
}

/// Statistics of each log of a folder.
pub fn stats(path: &Path, means: &Means, now_s: u32) -> Result<Vec<LogStats>, OpenError> {
    let (_place, mut logs) = open(path, means, now_s)?;
    logs.iter_mut().map(of).collect()
}

fn of(log: &mut OpenLog) -> Result<LogStats, OpenError> {
    let sizes = log.engine.sizes();
    let (checkpoint, replayed) = (log.found.from, log.found.log.records);
    let mut stats = LogStats { sizes, checkpoint, replayed, ..LogStats::default() };
    log.rest().outline(&mut stats)?;
    Ok(stats)
}

impl Rest<'_> {
    fn outline(&mut self, stats: &mut LogStats) -> Result<(), OpenError> {
        let mut tables = BTreeMap::new();
        self.rows(&mut |table: Table, _, _| {
            *tables.entry(table as u8).or_insert(0) += 1;
            Ok(())
        })?;
        stats.rows = tables;
        self.timelines(&mut |rest, timeline| {
            let standing = rest.standing(timeline)?;
            *stats.timelines.entry(timeline.space()).or_default() += 1;
            *stats.entries.entry(timeline.space()).or_default() += standing.count;
            rest.cursors(timeline, &mut |_, _| {
                stats.cursors += 1;
                Ok(())
            })?;
            if standing.count > 0 {
                let oldest = rest.oldest(timeline)?;
                stats.oldest_s = stats.oldest_s.into_iter().chain(oldest).min();
            }
            Ok(())
        })
    }
}

//! Cleanup queue for the log: no answer waits for a cleanup, but a refused one must be retried.
//!
//! A refused removal is retried after a pause. Removals name the messages and never do harm; a row
//! or a timeline is deleted only while its device is unknown, because it may have been registered
//! again meanwhile, and the row of a segment or a schedule becomes what memory has by then. A
//! cleanup that finds the queue full is counted, and found again at the next start, except that of
//! a segment or a schedule.

use super::LogCalls;
use super::durable::audience;
use super::durable::order::{self, Kind};
use super::durable::product::key as row_of_product;
use super::durable::schedule;
use super::pending::PendingCall;
use crate::Effects;
use crate::registry::Registry;
use crate::schedules::{ScheduleKey, Schedules};
use crate::segments::Segments;
use base::time::{Instant, Now};
use model::counters::ProcessCounter;
use model::id::{DeviceId, MessageId, ProductKey, SegmentName, ShardId};
use model::ports::calls::{RETRIES_A_TURN_MAX, may_be_taken_later};
use model::ports::log::{Done, StoreError, Table, Write};
use model::timeline::{Seq, TimelineId};
use std::ops::Range;

/// Rows of lines that one step of a cleanup deletes.
const LINES_AT_ONCE: usize = 16;

/// Cleanup that the log has to do.
pub(crate) enum CleanupTask {
    /// Ended messages of a timeline, to be removed.
    Remove(TimelineId, Vec<Seq>),
    /// The row of a device that is no longer known.
    Delete(ProductKey, DeviceId),
    /// The timeline of a device that is no longer known.
    Forget(ProductKey, DeviceId),
    /// The row of a dropped product that has no devices left.
    Undrop(ProductKey),
    /// A row of an order that is over.
    Unorder(Box<[u8]>),
    /// Rows of lines of a tracked push, by the shard that wrote them and their numbers.
    Lines(MessageId, ShardId, Range<u32>),
    /// The row of a segment, which is to be as in memory: another row, or none.
    Segment(ProductKey, SegmentName),
    /// The row of a schedule, which is to be as in memory: another row, or none.
    Schedule(ScheduleKey),
}

/// State of the hub by which a cleanup is judged.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub registry: &'a Registry,
    pub segments: &'a Segments,
    pub schedules: &'a Schedules,
}

impl LogCalls {
    /// Queues a cleanup for later.
    pub fn clean_later(&mut self, task: CleanupTask, fx: &mut Effects) {
        if !self.cleanups.put(task) {
            fx.counters.count(ProcessCounter::RemovalsGivenUp);
        }
    }

    /// Completes a cleanup: one that the log refused is queued again.
    pub fn retry(
        &mut self,
        now: Now,
        task: CleanupTask,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        match result {
            Ok(_) => {}
            // The product may be created again at any moment; the next start finds the row.
            Err(_) if matches!(task, CleanupTask::Undrop(_)) => {}
            Err(error) if may_be_taken_later(error) => {
                self.cleanups.pause(now);
                self.clean_later(task, fx);
            }
            // The log refuses writes until a restart, and that start finds the leftover.
            Err(_) => fx.counters.count(ProcessCounter::RemovalsGivenUp),
        }
    }

    /// The last place of a timeline that a queued cleanup removes.
    pub fn last_to_remove(&self, timeline: TimelineId) -> Option<Seq> {
        let of = self.cleanups.iter().filter_map(|task| match task {
            CleanupTask::Remove(of, seqs) if *of == timeline => seqs.iter().max().copied(),
            _ => None,
        });
        of.max()
    }

    /// Runs a slice of the queued cleanups, if the pause is over.
    pub fn turn_cleanups(
        &mut self,
        now: Now,
        known: Known<'_>,
        fx: &mut Effects,
    ) -> Option<Instant> {
        if self.cleanups.is_empty() {
            return None;
        }
        if let Err(due) = self.cleanups.is_due(now) {
            return Some(due);
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            let task = self.cleanups.take()?;
            self.clean(task, known, fx);
        }
        Some(now.mono)
    }

    /// Runs a cleanup now.
    pub fn clean(&mut self, task: CleanupTask, known: Known<'_>, fx: &mut Effects) {
        let Known { registry, segments, schedules } = known;
        match task {
            CleanupTask::Remove(timeline, seqs) => return self.remove(timeline, seqs, fx),
            CleanupTask::Lines(id, shard, mut rows) => {
                for number in rows.by_ref().take(LINES_AT_ONCE) {
                    let key = order::key(id, Kind::Outcomes(shard, number));
                    self.clean(CleanupTask::Unorder(key), known, fx);
                }
                if !rows.is_empty() {
                    self.clean_later(CleanupTask::Lines(id, shard, rows), fx);
                }
                return;
            }
            _ => {}
        }
        let write = match &task {
            CleanupTask::Remove(..) | CleanupTask::Lines(..) => return,
            CleanupTask::Delete(product, device) | CleanupTask::Forget(product, device)
                if registry.is_known(product, device) =>
            {
                return;
            }
            CleanupTask::Undrop(product) if registry.products.number(product).is_some() => return,
            CleanupTask::Delete(product, device) => {
                let key = registry.row_key(product, device);
                Write::Delete { table: Table::Devices, key }
            }
            CleanupTask::Forget(product, device) => {
                Write::Forget(registry.timeline_of(product, device))
            }
            CleanupTask::Undrop(product) => {
                Write::Delete { table: Table::Products, key: row_of_product(product) }
            }
            CleanupTask::Unorder(key) => Write::Delete { table: Table::Orders, key: key.clone() },
            // The answer to the change decides what the row is to be.
            CleanupTask::Segment(product, segment) if segments.is_changing(product, segment) => {
                return;
            }
            CleanupTask::Segment(product, segment) => {
                let (table, key) = (Table::Segments, audience::key(product, segment));
                match segments.at(product, segment) {
                    Some(tags) => Write::Put { table, key, value: audience::encode(tags) },
                    None => Write::Delete { table, key },
                }
            }
            CleanupTask::Schedule(key) if schedules.is_changing(key) => return,
            CleanupTask::Schedule(name) => {
                let (table, key) = (Table::Schedules, schedule::key(&name.0, &name.1));
                match schedules.at(name) {
                    Some(saved) => Write::Put { table, key, value: schedule::encode(saved) },
                    None => Write::Delete { table, key },
                }
            }
        };
        self.write(PendingCall::Cleanup(Box::new(task)), write, fx);
    }
}

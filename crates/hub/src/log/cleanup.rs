//! Cleanup queue for the log: nobody waits for it, and a refusal is no reason to forget it.
//!
//! A refused removal is asked for again after a pause. Removals name what they remove and never do
//! harm; a row or a timeline is done away with only while its device is not known, for it may have
//! come back meanwhile. What finds no room here is counted, and found again at the next start.

use super::LogCalls;
use super::durable::product::key as row_of_product;
use super::pending::PendingCall;
use crate::Effects;
use crate::registry::Registry;
use base::time::{Instant, Now};
use model::counters::ProcessCounter;
use model::id::{DeviceId, ProductKey};
use model::ports::calls::{RETRIES_A_TURN_MAX, may_be_taken_later};
use model::ports::log::{Done, StoreError, Table, Write};
use model::timeline::{Seq, TimelineId};

/// Cleanup that the log has to do.
pub(crate) enum CleanupTask {
    /// These messages are over.
    Remove(TimelineId, Vec<Seq>),
    /// The row of a device that is not known any more.
    Delete(ProductKey, DeviceId),
    /// What waited for a device that is not known any more.
    Forget(ProductKey, DeviceId),
    /// The row of a product that was dropped and of which nothing is left.
    Undrop(ProductKey),
    /// A row of an order that is over.
    Unorder(Box<[u8]>),
}

impl LogCalls {
    /// Does a cleanup when its turn comes.
    pub fn clean_later(&mut self, task: CleanupTask, fx: &mut Effects) {
        if !self.cleanups.put(task) {
            fx.counters.count(ProcessCounter::RemovalsGivenUp);
        }
    }

    /// Asks again for what was refused.
    pub fn retry(
        &mut self,
        now: Now,
        task: CleanupTask,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        match result {
            Ok(_) => {}
            // The product may be made again any moment; the next start finds the row.
            Err(_) if matches!(task, CleanupTask::Undrop(_)) => {}
            Err(error) if may_be_taken_later(error) => {
                self.cleanups.pause(now);
                self.clean_later(task, fx);
            }
            // It takes nothing more until a restart, which finds it.
            Err(_) => fx.counters.count(ProcessCounter::RemovalsGivenUp),
        }
    }

    /// Does a slice of the cleanups, if it is time.
    pub fn turn_cleanups(
        &mut self,
        now: Now,
        registry: &Registry,
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
            self.clean(task, registry, fx);
        }
        Some(now.mono)
    }

    /// Does a cleanup.
    pub fn clean(&mut self, task: CleanupTask, registry: &Registry, fx: &mut Effects) {
        if let CleanupTask::Remove(timeline, seqs) = task {
            return self.remove(timeline, seqs, fx);
        }
        let write = match &task {
            CleanupTask::Remove(..) => return,
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
        };
        self.write(PendingCall::Cleanup(Box::new(task)), write, fx);
    }
}

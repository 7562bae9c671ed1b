//! Upkeep of devices: writes rows, deletes records, and sweeps over all devices to expire pushes,
//! free idle state, forget old devices and write dirty rows.
//!
//! The sweep visits a slice of the slots at a time and completes a round in half a minute, whatever
//! their number: so a stored push is counted as expired at most that long after its time (it is
//! never sent after it, as sending checks the time too). A slice ends early when it has written its
//! share of rows. During a drain it goes on without pauses until all rows are written.

use crate::log::cleanup::{CleanupTask, Known};
use crate::log::pending::{OrderWhat, PendingCall};
use crate::registry::device::Device;
use crate::registry::rows::{Change, ROWS_WAITING_MAX};
use crate::{Effects, Hub};
use base::slab::Key;
use base::time::{Instant, Now};
use model::ports::pushes::PushAnswer;
use std::time::Duration;

/// Time of one round of the sweep.
const ROUND: Duration = Duration::from_secs(30);

/// Most slots visited in one call.
const SLICE: u32 = 1_024;

/// Most rows written in one call.
const ROWS_MAX: u32 = 256;

/// Pause of a drain until the log accepts more rows.
const PAUSE: Duration = Duration::from_millis(10);

/// Position of the sweep.
#[derive(Default)]
pub(crate) struct Sweep {
    from: u32,
    due: Instant,
}

impl Hub {
    /// Writes a row for a device that has none, before any of its pushes is stored.
    pub(crate) fn ensure_row(&mut self, key: Key, fx: &mut Effects) {
        if self.registry.at(key).is_some_and(|device| !device.rowed()) {
            self.write_row(key, fx);
        }
    }

    /// Writes a device's row, for which no answer waits.
    pub(crate) fn write_row(&mut self, key: Key, fx: &mut Effects) {
        self.put_row(key, PendingCall::Row(key), fx);
    }

    /// Writes a device's row now, and not with the sweep. After the log has failed it stays to be
    /// written.
    pub(crate) fn write_row_now(&mut self, key: Key, fx: &mut Effects) {
        match self.log.has_failed() {
            true => self.registry.soil(key),
            false => self.write_row(key, fx),
        }
    }

    /// Writes a device's row for a purpose: at once, or after the log has answered the device's
    /// open change.
    pub(crate) fn put_row(&mut self, key: Key, pending: PendingCall, fx: &mut Effects) {
        if let Some(waiting) = self.registry.rows_waiting(key) {
            return match pending {
                // The session was ended, whether the log stores the row or not.
                PendingCall::Kicked { reply, was_online, .. }
                    if waiting.len() == ROWS_WAITING_MAX =>
                {
                    self.registry.soil(key);
                    fx.answers.push((reply, PushAnswer::Done(was_online)));
                }
                PendingCall::Row(key) => self.registry.soil(key),
                pending => waiting.push_back(pending),
            };
        }
        if let PendingCall::Order(order) = &pending
            && let OrderWhat::Change(key, change) = &order.what
        {
            let cut = match change {
                Change::User(user) => self.cut_for(*key, user.as_ref()),
                Change::Block(_) | Change::Tags(_) | Change::Zone(_) | Change::Platform(_) => None,
            };
            self.registry.change(*key, change, cut);
        }
        if let Some(write) = self.registry.row(key, self.jobs.through(key.slot)) {
            self.log.write(pending, write, fx);
        }
    }

    /// Removes a device's record.
    pub(crate) fn remove_record(&mut self, key: Key) {
        self.withdraw(key, None);
        if self.registry.remove(key).is_some() {
            self.jobs.vacate(key.slot);
        }
    }

    /// Removes a device's record and its row.
    pub(crate) fn forget(&mut self, key: Key, fx: &mut Effects) {
        let rowed = self.registry.at(key).is_some_and(|device| device.rowed());
        let names = self.registry.names(key).filter(|_| rowed);
        self.remove_record(key);
        if let Some((product, device)) = names {
            self.clean(CleanupTask::Delete(product, device), fx);
        }
    }

    /// Runs a cleanup now.
    pub(crate) fn clean(&mut self, task: CleanupTask, fx: &mut Effects) {
        let Hub { registry, segments, schedules, .. } = self;
        self.log.clean(task, Known { registry, segments, schedules }, fx);
    }

    /// Sweeps a slice, if it is due; returns when the next one is.
    pub(crate) fn turn_sweep(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let hurry = self.draining && self.unwritten() > 0;
        if now.mono < self.sweep.due && !hurry {
            return Some(self.sweep.due);
        }
        self.access.turn(now);
        let slots = self.registry.slots();
        if self.sweep.from >= slots {
            self.sweep.from = 0;
        }
        let (from, end) = (self.sweep.from, slots.min(self.sweep.from + SLICE));
        let (mut slot, mut rows) = (from, 0);
        while slot < end && rows < ROWS_MAX {
            rows += u32::from(self.sweep_slot(now, slot, fx));
            slot += 1;
        }
        self.sweep.from = slot;
        let part = f64::from((slot - from).max(1)) / f64::from(slots.max(1));
        self.sweep.due = now.after(ROUND.mul_f64(part));
        if self.draining && self.unwritten() > 0 {
            let room = self.log.has_room_for_row();
            return Some(if room { now.mono } else { now.after(PAUSE) });
        }
        Some(self.sweep.due)
    }

    /// Number of rows that a drain still has to write; zero once the log has failed.
    pub fn unwritten(&self) -> u64 {
        if self.log.has_failed() { 0 } else { self.registry.dirty() }
    }

    /// Work that must finish at the log before the hub may stop: rows, calls whose completion may
    /// cause another one (a push acknowledged while it was being stored), refused removals, ended
    /// devices without a row. Zero once the log has failed.
    pub fn unsettled(&self) -> usize {
        if self.log.has_failed() {
            return 0;
        }
        // A push that a platform accepts must be noted, or it goes there again after the start.
        let sent = if self.draining { self.reaching.sent() } else { 0 };
        self.unwritten() as usize + self.log.unsettled() + self.jobs.untold() + sent
    }

    /// Sweeps the device in a slot; true if it wrote a row.
    fn sweep_slot(&mut self, now: Now, slot: u32, fx: &mut Effects) -> bool {
        let Some((key, device)) = self.registry.tenant(slot) else { return false };
        if device.extra.is_some() {
            self.expire_queue(now, key, fx);
            self.pump(now, key, fx);
            self.registry.release(now, key);
        }
        let Some(device) = self.registry.at(key) else { return false };
        if self.is_forgotten(now, slot, device) {
            self.forget(key, fx);
            return false;
        }
        let writes = device.dirty() && !self.log.has_failed() && self.log.has_room_for_row();
        if writes {
            self.write_row(key, fx);
        }
        writes
    }

    fn is_forgotten(&self, now: Now, slot: u32, device: &Device) -> bool {
        let age_ms = now.wall_ms.saturating_sub(device.since_ms());
        device.conn().is_none()
            && device.extra.is_none()
            && !device.blocked()
            && !self.registry.platforms.has(slot)
            && self.jobs.last_open().is_none()
            && age_ms >= u64::from(self.settings.limits.pushes.forget_after_s) * 1_000
    }
}

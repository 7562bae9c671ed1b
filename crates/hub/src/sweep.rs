//! The round of the sweep: what is over, what is idle, whom to forget.
//!
//! It looks at a slice of the slots at a time and gets round in half a minute, whatever their
//! number: a stored push is counted expired at most so long after its time (it is never sent after
//! it, which is looked at when it is sent).

use crate::Hub;
use crate::effects::Effects;
use crate::registry::device::Device;
use base::slab::Key;
use base::time::{Instant, Now};
use std::time::Duration;

/// One round.
const ROUND: Duration = Duration::from_secs(30);

/// Slots looked at in one call.
const SLICE: u32 = 1_024;

/// Where the sweep is.
#[derive(Default)]
pub(crate) struct Sweep {
    from: u32,
    due: Instant,
}

impl Hub {
    /// Sweeps a slice, if it is time; says when the next one is due.
    pub(crate) fn turn_sweep(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if now.mono < self.sweep.due {
            return Some(self.sweep.due);
        }
        self.access.turn(now);
        let slots = self.registry.slots();
        if self.sweep.from >= slots {
            self.sweep.from = 0;
        }
        let end = slots.min(self.sweep.from + SLICE);
        for slot in self.sweep.from..end {
            self.sweep_slot(now, slot, fx);
        }
        self.sweep.from = end;
        let rest = ROUND.mul_f64(f64::from(SLICE) / f64::from(slots.max(SLICE)));
        self.sweep.due = now.after(rest);
        Some(self.sweep.due)
    }

    fn sweep_slot(&mut self, now: Now, slot: u32, fx: &mut Effects) {
        let Some((key, device)) = self.registry.tenant(slot) else { return };
        if device.extra.is_some() {
            self.expire_queue(now, key, fx);
            self.pump(now, key, fx);
            self.release(now, key);
        }
        if self.registry.at(key).is_some_and(|device| self.is_forgotten(now, device)) {
            self.forget(key);
        }
    }

    fn is_forgotten(&self, now: Now, device: &Device) -> bool {
        let age_ms = now.wall_ms.saturating_sub(device.since_ms());
        device.conn().is_none()
            && device.extra.is_none()
            && !device.blocked()
            && age_ms >= u64::from(self.settings.limits.forget_after_s) * 1_000
    }

    fn forget(&mut self, key: Key) {
        self.registry.remove(key);
    }
}

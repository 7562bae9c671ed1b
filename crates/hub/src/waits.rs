//! Answers that wait for acknowledgements.
//!
//! An order for a list of devices is answered once each device has an outcome. Until its time to
//! wait is over, a push on its way has none; then the store is asked to keep it, and its completion
//! is the outcome. An item whose outcome is waited for says so (`answers`), and is settled once.

use crate::Effects;
use crate::Hub;
use crate::registry::item::Kept;
use base::slab::Key;
use base::time::{Instant, Now};
use base::wheel::Timers;
use model::id::{DeviceId, MessageId};
use model::ports::pushes::{PushAnswer, PushCounts};
use model::push::Outcome;
use std::collections::BTreeMap;

struct Wait {
    reply: u64,
    open: Vec<Key>,
    outcomes: Vec<(DeviceId, Outcome)>,
}

/// The orders of one shard whose answers wait.
#[derive(Default)]
pub(crate) struct Waits {
    orders: BTreeMap<MessageId, Wait>,
    timers: Timers,
    open: usize,
}

impl Waits {
    /// Outcomes that may be waited for, a shard. An order with more is answered Busy.
    pub const OPEN_MAX: usize = 262_144;

    /// Whether an order for so many devices may wait, under an id that is not waited for yet.
    pub fn has_room(&self, id: MessageId, devices: usize) -> bool {
        self.open + devices <= Waits::OPEN_MAX && !self.orders.contains_key(&id)
    }

    /// Orders that wait.
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Outcomes waited for.
    pub fn open(&self) -> usize {
        self.open
    }

    fn insert(&mut self, until: Instant, id: MessageId, wait: Wait) {
        self.open += wait.open.len();
        self.orders.insert(id, wait);
        self.timers.insert(until, id.0);
    }
}

impl Hub {
    /// Lets the answer to an order wait for `open`, or gives it when there is nothing to wait for.
    pub(crate) fn await_outcomes(
        &mut self,
        until: Instant,
        (reply, id): (u64, MessageId),
        (open, outcomes): (Vec<Key>, Vec<(DeviceId, Outcome)>),
        fx: &mut Effects,
    ) {
        if open.is_empty() {
            let counts = PushCounts::default();
            fx.answers.push((reply, PushAnswer::Pushed { id, outcomes, counts }));
            return;
        }
        self.waits.insert(until, id, Wait { reply, open, outcomes });
    }

    /// A push has the outcome that its order waits for.
    pub(crate) fn settle(&mut self, key: Key, id: MessageId, outcome: Outcome, fx: &mut Effects) {
        let Some((_, device)) = self.registry.names(key) else { return };
        let Some(wait) = self.waits.orders.get_mut(&id) else { return };
        let Some(at) = wait.open.iter().position(|open| *open == key) else { return };
        wait.open.swap_remove(at);
        wait.outcomes.push((device, outcome));
        self.waits.open -= 1;
        if wait.open.is_empty()
            && let Some(Wait { reply, outcomes, .. }) = self.waits.orders.remove(&id)
        {
            let counts = PushCounts::default();
            fx.answers.push((reply, PushAnswer::Pushed { id, outcomes, counts }));
        }
    }

    /// Ends the waiting of orders whose time is over.
    pub(crate) fn turn_waits(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut left = self.settings.limits.fan_out_slice as usize;
        self.waits.timers.advance(now.mono, 1);
        while left > 0
            && let Some(token) = self.waits.timers.take()
        {
            left = left.saturating_sub(self.stop_waiting(now, MessageId(token), fx).max(1));
        }
        self.waits.timers.next(now.mono)
    }

    /// The time to wait for acknowledgements is over; returns how many were missing.
    pub(crate) fn stop_waiting(&mut self, now: Now, id: MessageId, fx: &mut Effects) -> usize {
        let Some(wait) = self.waits.orders.get(&id) else { return 0 };
        let open = wait.open.clone();
        for key in &open {
            self.stop_waiting_for(now, *key, id, fx);
        }
        open.len()
    }

    /// The push was not acknowledged in time: it is kept, or it is over.
    fn stop_waiting_for(&mut self, now: Now, key: Key, id: MessageId, fx: &mut Effects) {
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        let Some(item) = queue.find(id) else { return };
        match item.kept() {
            Kept::No if item.stores() => return self.keep(now, key, id, fx),
            Kept::No => {}
            Kept::Asked => return,
            // It was in the log before it was sent.
            Kept::At(_) => {
                item.stop_answering();
                return self.settle(key, id, Outcome::Stored, fx);
            }
        }
        let Some(item) = queue.remove(id) else { return };
        self.end(now, key, item, Outcome::Expired, fx);
        self.pump(now, key, fx);
        self.release(now, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_outcomes_are_waited_for_and_no_more() {
        let waits = Waits { open: Waits::OPEN_MAX - 5, ..Waits::default() };
        assert!(waits.has_room(MessageId(1), 5) && !waits.has_room(MessageId(1), 6));
    }
}

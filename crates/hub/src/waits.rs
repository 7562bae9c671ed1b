//! Answers that wait for acknowledgements.
//!
//! An order for a list of devices is answered once each device has an outcome. Until the order's
//! time to wait is over, a push in flight has none; then the store is asked to keep it, and its
//! completion is the outcome. An item with such a waiting order is marked (`answers`), and is
//! settled once.

use crate::Effects;
use base::slab::Key;
use base::time::{Instant, Now};
use base::wheel::Timers;
use model::id::{DeviceId, MessageId};
use model::ports::pushes::{PushAnswer, PushCounts};
use model::push::Outcome;
use std::collections::BTreeMap;

/// An order that waits for outcomes.
pub(crate) struct Wait {
    /// Number of the command.
    pub reply: u64,
    /// Devices without an outcome.
    pub open: Vec<Key>,
    /// Outcomes of the other devices.
    pub outcomes: Vec<(DeviceId, Outcome)>,
}

impl Wait {
    fn answer(self, id: MessageId, fx: &mut Effects) {
        let Wait { reply, outcomes, .. } = self;
        let counts = PushCounts::default();
        fx.answers.push((reply, PushAnswer::Pushed { id, outcomes, counts }));
    }
}

/// The orders of one shard that wait for outcomes.
#[derive(Default)]
pub(crate) struct Waits {
    orders: BTreeMap<MessageId, Wait>,
    timers: Timers,
    open: usize,
}

impl Waits {
    /// Most outcomes of a shard that are waited for. An order that needs more is answered Busy.
    pub const OPEN_MAX: usize = 262_144;

    /// Whether an order for this many devices may wait; no order under the same id may be waiting.
    pub fn has_room(&self, id: MessageId, devices: usize) -> bool {
        self.open + devices <= Waits::OPEN_MAX && !self.orders.contains_key(&id)
    }

    /// Number of orders that wait.
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Number of outcomes waited for.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Keeps an order until it has its outcomes, or answers it if none is missing.
    pub fn begin(&mut self, until: Instant, id: MessageId, wait: Wait, fx: &mut Effects) {
        if wait.open.is_empty() {
            return wait.answer(id, fx);
        }
        self.open += wait.open.len();
        self.orders.insert(id, wait);
        self.timers.insert(until, id.0);
    }

    /// Notes a device's outcome for the order that waits for it.
    pub fn settle(
        &mut self,
        id: MessageId,
        key: Key,
        device: DeviceId,
        outcome: Outcome,
        fx: &mut Effects,
    ) {
        let Some(wait) = self.orders.get_mut(&id) else { return };
        let Some(at) = wait.open.iter().position(|open| *open == key) else { return };
        wait.open.swap_remove(at);
        wait.outcomes.push((device, outcome));
        self.open -= 1;
        if wait.open.is_empty()
            && let Some(wait) = self.orders.remove(&id)
        {
            wait.answer(id, fx);
        }
    }

    /// The devices of an order that have no outcome yet; empty if the order does not wait.
    pub fn open_of(&self, id: MessageId) -> Vec<Key> {
        self.orders.get(&id).map(|wait| wait.open.clone()).unwrap_or_default()
    }

    /// Advances the timers to now, once none is due any more.
    pub fn advance(&mut self, now: Now) {
        self.timers.advance(now.mono, 1);
    }

    /// Takes the next order whose time to wait is over; it may have been answered already.
    pub fn take(&mut self) -> Option<MessageId> {
        self.timers.take().map(MessageId)
    }

    /// When the next timer is due; `now` if one is due already.
    pub fn next(&self, now: Now) -> Option<Instant> {
        self.timers.next(now.mono)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn so_many_outcomes_are_waited_for_and_no_more() {
        let waits = Waits { open: Waits::OPEN_MAX - 5, ..Waits::default() };
        assert!(waits.has_room(MessageId(1), 5) && !waits.has_room(MessageId(1), 6));
    }

    #[test]
    fn an_order_is_answered_with_its_last_outcome_and_once() {
        let (mut waits, mut fx, now) = (Waits::default(), Effects::default(), Now::default());
        let keys = [0, 1].map(|slot| Key { slot, generation: 0 });
        let device = |name: &str| DeviceId::parse(name).expect("a name");
        let (id, until) = (MessageId(7), now.after(Duration::from_secs(1)));
        let none = Wait { reply: 1, open: Vec::new(), outcomes: Vec::new() };
        waits.begin(until, MessageId(6), none, &mut fx);
        assert_eq!((fx.answers.len(), waits.len()), (1, 0), "nothing to wait for");
        let refused = vec![(device("c"), Outcome::Expired)];
        waits.begin(until, id, Wait { reply: 2, open: keys.into(), outcomes: refused }, &mut fx);
        assert!(!waits.has_room(id, 1) && waits.open_of(id) == keys);
        waits.settle(id, keys[0], device("a"), Outcome::Delivered, &mut fx);
        waits.settle(id, keys[0], device("a"), Outcome::Stored, &mut fx);
        assert_eq!((fx.answers.len(), waits.open()), (1, 1));
        waits.settle(id, keys[1], device("b"), Outcome::Stored, &mut fx);
        let Some((2, PushAnswer::Pushed { outcomes, .. })) = fx.answers.pop() else {
            panic!("{:?}", fx.answers)
        };
        let told = [("c", Outcome::Expired), ("a", Outcome::Delivered), ("b", Outcome::Stored)];
        assert_eq!(outcomes, told.map(|(name, outcome)| (device(name), outcome)));
        assert_eq!((waits.len(), waits.open(), waits.open_of(id)), (0, 0, Vec::new()));
    }
}

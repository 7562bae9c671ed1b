//! What the log has to do some time: nobody waits for it, and a refusal is no reason to forget it.
//!
//! A refused removal is asked for again after a pause. Removals name what they remove and never do
//! harm; a row or a timeline is done away with only while its device is not known, for it may have
//! come back meanwhile. What finds no room here is counted, and found again at the next start.

use crate::Hub;
use crate::effects::Effects;
use crate::log::durable::device::key as row_of_device;
use crate::log::durable::product::key as row_of_product;
use crate::log::durable::timeline_of;
use crate::log::tickets::Promise;
use base::time::{Instant, Now};
use model::event::Counter;
use model::id::{DeviceId, ProductKey};
use model::ports::log::{Call, Done, StoreError, Table, Write};
use model::timeline::{Seq, TimelineId};
use std::collections::VecDeque;
use std::time::Duration;

/// Chores that may wait, a shard.
const CHORES_MAX: usize = 65_536;

/// Chores done in one call.
const SLICE: usize = 256;

/// How long a refusal is taken to last.
const PAUSE: Duration = Duration::from_secs(1);

/// Something the log has to do.
pub(crate) enum Chore {
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

/// Chores that wait.
#[derive(Default)]
pub(crate) struct Chores {
    waiting: VecDeque<Chore>,
    due: Instant,
}

impl Chores {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

impl Hub {
    /// Does a chore when its turn comes.
    pub(crate) fn later_do(&mut self, chore: Chore, fx: &mut Effects) {
        match self.chores.len() < CHORES_MAX {
            true => self.chores.waiting.push_back(chore),
            false => fx.counters.count(Counter::RemovalsGivenUp),
        }
    }

    /// Asks again for what was refused.
    pub(crate) fn retry(
        &mut self,
        now: Now,
        chore: Chore,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        match result {
            Ok(_) => {}
            // The product may be made again any moment; the next start finds the row.
            Err(_) if matches!(chore, Chore::Undrop(_)) => {}
            Err(StoreError::Busy | StoreError::Full) => {
                self.chores.due = now.after(PAUSE);
                self.later_do(chore, fx);
            }
            // It takes nothing more until a restart, which finds it.
            Err(_) => fx.counters.count(Counter::RemovalsGivenUp),
        }
    }

    /// Does a slice of the chores, if it is time.
    pub(crate) fn turn_chores(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.chores.waiting.is_empty() {
            return None;
        }
        if now.mono < self.chores.due {
            return Some(self.chores.due);
        }
        for _ in 0..SLICE {
            let chore = self.chores.waiting.pop_front()?;
            self.run(chore, fx);
        }
        Some(now.mono)
    }

    /// Does a chore.
    pub(crate) fn run(&mut self, chore: Chore, fx: &mut Effects) {
        if let Chore::Remove(timeline, seqs) = chore {
            return self.remove_from(timeline, seqs, fx);
        }
        let write = match &chore {
            Chore::Remove(..) => return,
            Chore::Delete(product, device) | Chore::Forget(product, device)
                if self.is_known(product, device) =>
            {
                return;
            }
            Chore::Undrop(product) if self.registry.products.number(product).is_some() => return,
            Chore::Delete(product, device) => {
                let key = row_of_device(product.as_str(), device.as_str());
                Write::Delete { table: Table::Devices, key }
            }
            Chore::Forget(product, device) => {
                let home = self.settings.home;
                Write::Forget(timeline_of(home, product.as_str(), device.as_str()))
            }
            Chore::Undrop(product) => {
                Write::Delete { table: Table::Products, key: row_of_product(product) }
            }
            Chore::Unorder(key) => Write::Delete { table: Table::Orders, key: key.clone() },
        };
        self.enter(Promise::Chore(Box::new(chore)), Call::Write(write), fx);
    }

    fn is_known(&self, product: &ProductKey, device: &DeviceId) -> bool {
        let number = self.registry.products.number(product);
        number.is_some_and(|number| self.registry.find(number, device.as_str()).is_some())
    }
}

//! The start: what the store kept becomes the hub's memory again.
//!
//! Products come before what waits for their devices. Who was online, tags, jobs and receipts are
//! not kept; a device that was online binds again.

use crate::Hub;
use crate::queue::{Item, Kept};
use base::time::{Instant, Now};
use model::ports::journal::Entry;

impl Hub {
    /// Takes in an entry that is still alive, before anything else is asked of the hub. False when
    /// it could not: its product is not known, there is no room, or it says that something is gone
    /// (what is gone is not alive).
    pub fn restore(&mut self, now: Now, entry: Entry) -> bool {
        match entry {
            Entry::Product(product) => self.install(product),
            Entry::Blocked { product, device, blocked } => {
                let number = self.registry.products.number(&product);
                let key = number.and_then(|number| {
                    self.registry.find_or_insert(now.wall_ms, number, device.as_str())
                });
                match key.and_then(|key| self.registry.at_mut(key)) {
                    Some(device) => device.set_blocked(blocked),
                    None => return false,
                }
                true
            }
            Entry::Waits { push, device } => {
                let number = self.registry.products.number(&push.product);
                let key = number.and_then(|number| {
                    self.registry.find_or_insert(now.wall_ms, number, device.as_str())
                });
                let Some(device) = key.and_then(|key| self.registry.at_mut(key)) else {
                    return false;
                };
                let queue = &mut device.extra().queue;
                if queue.find(push.id).is_some() {
                    return true;
                }
                self.waiting += 1;
                self.waiting_bytes += push.weight() as u64;
                let (sent, kept) = (Instant::default(), Kept::Yes);
                let (answers, counted, receipts) = (false, false, false);
                queue.insert(Item { push, sent, times: 0, kept, answers, counted, receipts });
                true
            }
            Entry::Over { .. } | Entry::NoProduct(_) => false,
        }
    }
}

//! The queues of all devices together: what waits in them, and when a device is looked at again.
//!
//! A device's own queue stands in its record; here are the sums that limits go by, and the timers
//! of resends, one a device at most, which its record remembers (`timed`).

use crate::Settings;
use crate::registry::device::Device;
use base::slab::Key;
use base::time::{Instant, Now};
use base::wheel::Timers;
use model::pressure::Pressure;
use std::time::Duration;

/// Sums and timers over the queues of one shard.
pub(crate) struct Queues {
    count: u64,
    bytes: u64,
    bytes_max: u64,
    pressure: Pressure,
    timers: Timers,
}

impl Queues {
    /// Nothing waits.
    pub fn new(settings: &Settings) -> Queues {
        let (bytes_max, pressure) = (settings.offline_bytes_max, Pressure::default());
        Queues { count: 0, bytes: 0, bytes_max, pressure, timers: Timers::default() }
    }

    /// From now on all queues together may hold so many bytes.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// From now on memory is so short.
    pub fn press(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// Whether memory is too short for what has to wait.
    pub fn is_pressed(&self) -> bool {
        self.pressure >= Pressure::Stores
    }

    /// Whether a push of this weight has room among all that waits.
    pub fn has_room(&self, weight: usize) -> bool {
        self.bytes + weight as u64 <= self.bytes_max
    }

    /// An item of this weight came into a queue.
    pub fn came(&mut self, weight: usize) {
        self.count += 1;
        self.bytes += weight as u64;
    }

    /// An item of this weight left its queue.
    pub fn left(&mut self, weight: usize) {
        self.count -= 1;
        self.bytes -= weight as u64;
    }

    /// Items in all queues, and their weight in bytes.
    pub fn sums(&self) -> (u64, u64) {
        (self.count, self.bytes)
    }

    /// Has a device looked at after this time, unless it will be anyway.
    pub fn look_after(&mut self, now: Now, key: Key, device: &mut Device, after: Duration) {
        if !device.timed() {
            device.set_timed(true);
            self.timers.insert(now.after(after), key.pack());
        }
    }

    /// Moves on to now, once nothing is due any more.
    pub fn advance(&mut self, now: Now) {
        self.timers.advance(now.mono, 1);
    }

    /// The next device whose time has come.
    pub fn take(&mut self) -> Option<Key> {
        self.timers.take().map(Key::unpack)
    }

    /// When to come back; `now`: there is more.
    pub fn next(&self, now: Now) -> Option<Instant> {
        self.timers.next(now.mono)
    }
}

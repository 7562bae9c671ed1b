//! The queues of all devices together: their totals, and the times at which devices are checked.
//!
//! A device's own queue is part of its record; this file has the totals that limits are compared
//! with, and the timers of resends, at most one per device, which its record notes (`timed`).

use crate::Settings;
use crate::registry::device::Device;
use base::slab::Key;
use base::time::{Instant, Now};
use base::wheel::Timers;
use model::pressure::Pressure;
use std::time::Duration;

/// Totals and timers over the queues of one shard.
pub(crate) struct Queues {
    count: u64,
    bytes: u64,
    bytes_max: u64,
    pressure: Pressure,
    timers: Timers,
}

impl Queues {
    /// Empty totals and no timers.
    pub fn new(settings: &Settings) -> Queues {
        let (bytes_max, pressure) = (settings.offline_bytes_max, Pressure::default());
        Queues { count: 0, bytes: 0, bytes_max, pressure, timers: Timers::default() }
    }

    /// Sets the limit of bytes over all queues.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Sets the current memory pressure.
    pub fn press(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// Whether memory is too short to queue more pushes.
    pub fn is_pressed(&self) -> bool {
        self.pressure >= Pressure::Stores
    }

    /// Whether a push of this weight fits below the limit of all queues.
    pub fn has_room(&self, weight: usize) -> bool {
        self.bytes + weight as u64 <= self.bytes_max
    }

    /// Counts an item of this weight that entered a queue.
    pub fn came(&mut self, weight: usize) {
        self.count += 1;
        self.bytes += weight as u64;
    }

    /// Counts an item of this weight that left its queue.
    pub fn left(&mut self, weight: usize) {
        self.count -= 1;
        self.bytes -= weight as u64;
    }

    /// Number of items in all queues, and their weight in bytes.
    pub fn sums(&self) -> (u64, u64) {
        (self.count, self.bytes)
    }

    /// Starts a timer after which the device is checked, unless one is running.
    pub fn look_after(&mut self, now: Now, key: Key, device: &mut Device, after: Duration) {
        if !device.timed() {
            device.set_timed(true);
            self.timers.insert(now.after(after), key.pack());
        }
    }

    /// Advances the timers to now, once none is due any more.
    pub fn advance(&mut self, now: Now) {
        self.timers.advance(now.mono, 1);
    }

    /// Takes the next device whose timer is due.
    pub fn take(&mut self) -> Option<Key> {
        self.timers.take().map(Key::unpack)
    }

    /// When the next timer is due; `now` if one is due already.
    pub fn next(&self, now: Now) -> Option<Instant> {
        self.timers.next(now.mono)
    }
}

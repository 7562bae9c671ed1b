//! Addresses of devices at the push services of their platforms.
//!
//! Only a device that has an address has an entry here. It is stored in the device's row.
//! Invariant: `through` never falls while the device has an address, so a push that a platform has
//! accepted does not go there again.

use base::time::Instant;
use model::push::PlatformToken;
use model::timeline::Seq;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Progress of a device's next push towards its platform.
///
/// ```text
/// Idle ─► Waiting (for a place) ─► Reading (its body from the log) ─► Sent ─► Idle
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing is going on.
    Idle,
    /// The device waits for a place.
    Waiting {
        /// Its number in the line.
        ticket: u64,
        /// Whether it is in front, because of a push of priority High.
        is_high: bool,
    },
    /// The push's body is being read.
    Reading,
    /// The push is on its way, under this number.
    Sent(u64),
}

/// Address of a device, and how far its pushes have gone there.
pub(crate) struct Address {
    /// The address.
    pub token: Arc<PlatformToken>,
    /// Offset in the device's timeline up to which pushes have gone to the platform.
    pub through: Seq,
    /// Progress of the next push.
    pub step: Step,
    /// Nothing goes to the platform before.
    pub rests_until: Instant,
}

/// The addresses, by the slots of their devices.
#[derive(Default)]
pub(crate) struct Platforms(BTreeMap<u32, Address>);

impl Platforms {
    /// Whether no device has an address.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the device in this slot has an address.
    pub fn has(&self, slot: u32) -> bool {
        self.0.contains_key(&slot)
    }

    /// The address of the device in this slot.
    pub fn at(&self, slot: u32) -> Option<&Address> {
        self.0.get(&slot)
    }

    /// The address of the device in this slot, to change.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Address> {
        self.0.get_mut(&slot)
    }

    /// Offset up to which the pushes of the device in this slot have gone to its platform.
    pub fn through(&self, slot: u32) -> Seq {
        self.0.get(&slot).map_or(0, |address| address.through)
    }

    /// Sets an address. What has gone to the one before it does not go to this one again.
    pub fn set(&mut self, slot: u32, token: Arc<PlatformToken>) {
        match self.0.get_mut(&slot) {
            Some(address) => {
                address.token = token;
                address.rests_until = Instant::default();
            }
            None => self.restore(slot, token, 0),
        }
    }

    /// Restores an address.
    pub fn restore(&mut self, slot: u32, token: Arc<PlatformToken>, through: Seq) {
        let (step, rests_until) = (Step::Idle, Instant::default());
        self.0.insert(slot, Address { token, through, step, rests_until });
    }

    /// Removes an address.
    pub fn remove(&mut self, slot: u32) {
        self.0.remove(&slot);
    }

    /// Slots of devices with an address.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }
}

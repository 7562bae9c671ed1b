//! Numbers of sessions rise, over a restart too, even if the clock went back.
//!
//! They are versions of presence too: a device that goes gets a number of the same clock, so that
//! whatever happens to a device is in order. That never waits: when the bound is used up, it is the
//! number right behind the one under which the device came, which no other end has.
//!
//! The log keeps a bound that no epoch of this shard exceeds; it is raised ahead of time, and after
//! a restart the first epoch is above it. While it cannot be raised (the log is busy or full) the
//! rest of it is used up, then Binds are told to come back. When the log has failed for good it is
//! given up: better a session whose number may be given again, if the clock goes back at the
//! restart that must follow, than none.

use crate::Effects;
use crate::Hub;
use crate::log::durable::mark;
use crate::log::tickets::PendingCall;
use base::time::Now;
use model::id::{MessageId, ShardId};
use model::ports::log::{Call, StoreError, Table, Write};
use model::presence::PresenceVersion;

/// So far ahead of the clock the bound is set, milliseconds.
const RESERVE_MS: u64 = 120_000;

/// It is raised when no more than this is left, milliseconds: more than a round of the sweep.
const LEFT_MS: u64 = 60_000;

/// The epochs of one shard.
#[derive(Default)]
pub(crate) struct Epochs {
    /// The highest one given, or that may have been given before the start.
    last: u64,
    bound: u64,
    asked: bool,
    free: bool,
}

impl Epochs {
    /// A bound that was in force before the start.
    pub fn restore(&mut self, bound: u64) {
        self.last = self.last.max(bound);
    }

    /// Not below any epoch ever given.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether there is another epoch, and the version of an end before it.
    pub fn has_next(&self) -> bool {
        self.free || (self.last >> 22) + 1 < self.bound >> 22
    }

    /// The next epoch: by the wall clock as far as the bound lets it.
    pub fn next(&mut self, now: Now, shard: ShardId) -> u64 {
        let fresh = MessageId::after(self.last, now.wall_ms, shard).0;
        self.last = match self.free || fresh >> 22 < self.bound >> 22 {
            true => fresh,
            false => MessageId::after(self.last, 0, shard).0,
        };
        self.last
    }

    /// The version of the end of the session with this epoch.
    pub fn end_of(&mut self, now: Now, shard: ShardId, epoch: u64) -> PresenceVersion {
        match self.has_next() {
            true => PresenceVersion(self.next(now, shard)),
            false => self.behind(shard, epoch),
        }
    }

    /// The version right behind an epoch. Numbers that are given later are above it.
    pub fn behind(&mut self, shard: ShardId, epoch: u64) -> PresenceVersion {
        let version = MessageId::after(epoch, 0, shard).0;
        self.last = self.last.max(version);
        PresenceVersion(version)
    }

    /// A version of another clock was seen: epochs are above it from now on, once the bound is.
    pub fn observe(&mut self, seen: PresenceVersion) {
        if seen <= PresenceVersion::LAST {
            self.last = self.last.max(seen.0);
        }
    }

    /// The log has answered.
    pub fn marked(&mut self, bound: u64, result: Result<(), StoreError>) {
        self.asked = false;
        match result {
            Ok(()) => self.bound = self.bound.max(bound),
            Err(StoreError::Failed) => self.free = true,
            Err(_) => {}
        }
    }

    /// The bound to ask for, if it is time.
    fn wanted(&self, now: Now) -> Option<u64> {
        let at = |ms: u64| (self.last >> 22).max(clock(now)) + ms;
        let is_time = !self.asked && !self.free && self.bound < at(LEFT_MS) << 22;
        is_time.then(|| at(RESERVE_MS) << 22)
    }
}

impl Hub {
    /// Raises the bound of epochs, if it is time.
    pub(crate) fn raise_epochs(&mut self, now: Now, fx: &mut Effects) {
        let Some(bound) = self.epochs.wanted(now) else { return };
        self.epochs.asked = true;
        let (key, value) = (mark::key(self.settings.shard), mark::encode(bound));
        let write = Write::Put { table: Table::Marks, key, value };
        self.enter(PendingCall::Mark(bound), Call::Write(write), fx);
    }
}

fn clock(now: Now) -> u64 {
    now.wall_ms.saturating_sub(MessageId::EPOCH_MS)
}

//! Session epochs: numbers that rise across restarts, even if the clock was set back.
//!
//! Epochs are versions of presence too: a device that disconnects gets a number of the same clock,
//! so that all transitions of a device are ordered. A disconnect never waits for a number: when the
//! bound is used up, its version is the number directly after the session's epoch, which no other
//! disconnect has.
//!
//! The log stores a bound that no epoch of this shard exceeds; it is raised ahead of time, and
//! after a restart the first epoch is above it. While it cannot be raised (the log is busy or full)
//! the rest of it is used up, then Binds are answered with a retry time. When the log has failed
//! for good the bound is ignored: a session whose number may be reused, if the clock goes back at
//! the restart that must follow, is better than no session.

use super::LogCalls;
use super::durable::mark;
use super::pending::PendingCall;
use crate::Effects;
use base::time::Now;
use model::id::{MessageId, ShardId};
use model::ports::log::{StoreError, Table, Write};
use model::presence::PresenceVersion;

/// How far ahead of the clock the bound is set, milliseconds.
const RESERVE_MS: u64 = 15_000;

/// The bound is raised when no more than this is left, milliseconds.
const LEFT_MS: u64 = 7_500;

/// The epochs of one shard.
pub(crate) struct Epochs {
    shard: ShardId,
    /// The highest epoch that was given, or may have been given before the start.
    last: u64,
    bound: u64,
    asked: bool,
    free: bool,
    /// The highest restored id of a push, or epoch of a row.
    last_id: u64,
}

impl Epochs {
    /// Epochs of a shard that has given none yet.
    pub fn new(shard: ShardId) -> Epochs {
        Epochs { shard, last: 0, bound: 0, asked: false, free: false, last_id: 0 }
    }

    /// Notes an id that was in use before the start.
    pub fn restore_id(&mut self, id: u64) {
        self.last_id = self.last_id.max(id);
    }

    /// A bound that no id or epoch given before the start exceeds; new ids must begin above it.
    pub fn id_floor(&self) -> MessageId {
        MessageId(self.last.max(self.last_id))
    }

    /// Notes a bound that was in force before the start.
    pub fn restore(&mut self, bound: u64) {
        self.last = self.last.max(bound);
    }

    /// A number that no epoch given so far exceeds.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether the bound leaves room for another epoch and the end version of the session before
    /// it.
    pub fn has_next(&self) -> bool {
        self.free || (self.last >> 22) + 1 < self.bound >> 22
    }

    /// The next epoch: the wall clock's time as far as the bound permits. If an idle time left the
    /// bound behind the clock, the epoch is a time shortly before the bound, which leaves room for
    /// more until the log has stored the next bound.
    pub fn next(&mut self, now: Now) -> u64 {
        let fresh = PresenceVersion::after(self.last, now.wall_ms).0;
        let before_bound = (self.bound >> 22).saturating_sub(LEFT_MS) + MessageId::EPOCH_MS;
        self.last = match self.free || fresh >> 22 < self.bound >> 22 {
            true => fresh,
            false => PresenceVersion::after(self.last, before_bound.min(now.wall_ms)).0,
        };
        self.last
    }

    /// The version of the end of the session with this epoch.
    pub fn end_of(&mut self, now: Now, epoch: u64) -> PresenceVersion {
        match self.has_next() {
            true => PresenceVersion(self.next(now)),
            false => self.behind(epoch),
        }
    }

    /// The version directly after an epoch. Numbers that are given later are above it.
    pub fn behind(&mut self, epoch: u64) -> PresenceVersion {
        let version = PresenceVersion::after(epoch, 0);
        self.last = self.last.max(version.0);
        version
    }

    /// Notes a version of another clock: later epochs are above it, once the bound is.
    pub fn observe(&mut self, seen: PresenceVersion) {
        if seen <= PresenceVersion::LAST {
            self.last = self.last.max(seen.0);
        }
    }

    /// Completes the raising of the bound after the log's answer.
    pub fn marked(&mut self, bound: u64, result: Result<(), StoreError>) {
        self.asked = false;
        match result {
            Ok(()) => self.bound = self.bound.max(bound),
            Err(StoreError::Failed) => self.free = true,
            Err(_) => {}
        }
    }

    /// The bound to ask for, if it is time to raise it.
    fn wanted(&self, now: Now) -> Option<u64> {
        let at = |ms: u64| (self.last >> 22).max(clock(now)) + ms;
        let is_time = !self.asked && !self.free && self.bound < at(LEFT_MS) << 22;
        is_time.then(|| at(RESERVE_MS) << 22)
    }

    /// Raises the bound, if it is time.
    pub fn raise(&mut self, now: Now, log: &mut LogCalls, fx: &mut Effects) {
        let Some(bound) = self.wanted(now) else { return };
        self.asked = true;
        let (key, value) = (mark::key(self.shard), mark::encode(bound));
        let write = Write::Put { table: Table::Marks, key, value };
        log.write(PendingCall::Mark(bound), write, fx);
    }
}

fn clock(now: Now) -> u64 {
    now.wall_ms.saturating_sub(MessageId::EPOCH_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::Instant;

    #[test]
    fn the_first_epoch_after_an_idle_time_tells_when_that_began_and_leaves_room_for_more() {
        let (mut epochs, mut log, mut fx) =
            (Epochs::new(ShardId(3)), LogCalls::default(), Effects::default());
        let at = |ms| Now::new(Instant::default(), MessageId::EPOCH_MS + ms);
        epochs.raise(at(1_000), &mut log, &mut fx);
        epochs.marked(16_000 << 22, Ok(()));
        let later = at(3_600_000);
        for _ in 0..10_000 {
            assert!(epochs.has_next());
            let epoch = epochs.next(later);
            assert!((8_500..8_510).contains(&(epoch >> 22)), "{}", epoch >> 22);
        }
        epochs.raise(later, &mut log, &mut fx);
        epochs.marked(3_615_000 << 22, Ok(()));
        assert_eq!(epochs.next(later) >> 22, 3_600_000);
    }

    #[test]
    fn epochs_rise_up_to_the_bound_and_ends_go_on_behind_them() {
        let (mut epochs, mut log, mut fx) =
            (Epochs::new(ShardId(3)), LogCalls::default(), Effects::default());
        let now = Now::new(Instant::default(), MessageId::EPOCH_MS + 1_000);
        assert!(!epochs.has_next(), "the log has said nothing");
        epochs.raise(now, &mut log, &mut fx);
        epochs.raise(now, &mut log, &mut fx);
        assert_eq!(fx.calls.len(), 1, "asked once");
        epochs.marked(2_000 << 22, Err(StoreError::Busy));
        assert!(!epochs.has_next());
        epochs.marked(2_000 << 22, Ok(()));
        let given = [(); 3].map(|()| epochs.next(now));
        assert!(given.is_sorted() && given[0] < given[2] && epochs.last() == given[2]);
        let end = epochs.end_of(now, given[2]);
        assert!(end.0 > given[2], "an offline follows its online");
        epochs.observe(PresenceVersion(1_999 << 22));
        assert!(!epochs.has_next());
        let behind = epochs.end_of(now, end.0);
        assert!(behind.0 > end.0 && behind.0 - end.0 < 1 << 22, "right behind");
        epochs.marked(0, Err(StoreError::Failed));
        assert!(epochs.has_next(), "better a number that may come again than none");
        epochs.restore_id(u64::MAX);
        assert_eq!(epochs.id_floor(), MessageId(u64::MAX));
    }
}

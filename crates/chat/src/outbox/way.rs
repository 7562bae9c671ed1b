//! The queue of parcels to one shard: those that are not confirmed, in order; the first of them are
//! on their way.
//!
//! The others wait for room: a log that is sent more than it accepts refuses a parcel, and then all
//! parcels behind it are repeated, too. Refused parcels are repeated after a pause that doubles,
//! lost ones after [`Chat::again_after`](crate::Chat::again_after). This module does not send.
//! Invariant: at least one parcel is on its way while any is not confirmed.

use super::OutboxPlace;
use crate::word::Parcel;
use base::time::{Instant, Now};
use std::collections::VecDeque;
use std::time::Duration;

/// Largest number of parcels on their way to one shard.
const UNDER_WAY_MAX: usize = 16_384;

/// Largest size of the parcels on their way from all shards to one, bytes: at most half of what may
/// wait for a log.
const UNDER_WAY_BYTES_MAX: usize = 8 << 20;

/// The first pause after a refusal.
const PAUSE: Duration = Duration::from_millis(20);

/// A pause of at least this length means that no parcel gets through: the log there is full, or
/// failed.
const STUCK_PAUSE: Duration = Duration::from_millis(16 * 20);

/// Unconfirmed parcels to one shard.
pub(super) struct Way {
    /// Number of the last parcel.
    last: u64,
    unconfirmed: VecDeque<(Parcel, OutboxPlace)>,
    /// Memory of all these parcels, bytes.
    bytes: u64,
    /// Number and bytes of the parcels on their way, the first ones.
    under_way: usize,
    under_way_bytes: usize,
    under_way_bytes_max: usize,
    /// Time at which the parcels are repeated, unless some are confirmed before.
    due: Instant,
    /// A parcel was refused: confirmations of others do not postpone the repetition.
    is_refused: bool,
    /// The pause after the next refusal.
    pause: Duration,
}

impl Way {
    /// The queue of one of this many shards to another.
    pub(super) fn of(shards: u16) -> Way {
        Way {
            last: 0,
            unconfirmed: VecDeque::new(),
            bytes: 0,
            under_way: 0,
            under_way_bytes: 0,
            under_way_bytes_max: UNDER_WAY_BYTES_MAX / usize::from(shards.max(1)),
            due: Instant::default(),
            is_refused: false,
            pause: PAUSE,
        }
    }

    pub(super) fn unconfirmed(&self) -> impl Iterator<Item = &(Parcel, OutboxPlace)> {
        self.unconfirmed.iter()
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Queues a parcel behind all others.
    pub(super) fn put(&mut self, now: Now, again: Duration, parcel: (Parcel, OutboxPlace)) {
        if self.unconfirmed.is_empty() {
            (self.due, self.is_refused) = (now.after(again), false);
        }
        self.bytes += parcel.0.weight() as u64;
        self.unconfirmed.push_back(parcel);
    }

    /// Bytes of parcels that waiting does not get through: they were refused again and again, and
    /// none was confirmed in between.
    pub(super) fn stuck_bytes(&self) -> u64 {
        if self.pause >= STUCK_PAUSE { self.bytes } else { 0 }
    }

    /// The next parcel that has room; it counts as on its way.
    pub(super) fn next(&mut self) -> Option<Parcel> {
        let (parcel, _) = self.unconfirmed.get(self.under_way)?;
        let has_room = self.under_way < UNDER_WAY_MAX
            && self.under_way_bytes + parcel.weight() <= self.under_way_bytes_max;
        if self.is_refused || !(has_room || self.under_way == 0) {
            return None;
        }
        self.under_way += 1;
        self.under_way_bytes += parcel.weight();
        Some(parcel.clone())
    }

    /// Removes the first parcel, if it is among those confirmed up to a number.
    pub(super) fn confirm_first(
        &mut self,
        now: Now,
        again: Duration,
        upto: u64,
    ) -> Option<(Parcel, OutboxPlace)> {
        let first = self.unconfirmed.pop_front_if(|(parcel, _)| parcel.number <= upto)?;
        self.bytes -= first.0.weight() as u64;
        if self.under_way > 0 {
            self.under_way -= 1;
            self.under_way_bytes -= first.0.weight();
        }
        self.pause = PAUSE;
        if !self.is_refused {
            self.due = now.after(again);
        }
        Some(first)
    }

    /// Records the refusal of a parcel.
    pub(super) fn refused(&mut self, now: Now, again: Duration) {
        if self.is_refused {
            return;
        }
        self.is_refused = true;
        self.due = self.due.min(now.after(self.pause));
        self.pause = (2 * self.pause).min(again);
    }

    /// When a repetition is due, counts no parcel as on its way any more; returns how many were.
    pub(super) fn begin_again(&mut self, now: Now, again: Duration) -> Option<usize> {
        if self.unconfirmed.is_empty() || self.due > now.mono {
            return None;
        }
        (self.due, self.is_refused) = (now.after(again), false);
        self.under_way_bytes = 0;
        Some(std::mem::take(&mut self.under_way))
    }

    /// Time at which a repetition is due.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.unconfirmed.is_empty()).then_some(self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::Relation;
    use crate::outbox::receivers::Carriage;
    use crate::word::Cargo;
    use base::hash::HashKey;
    use model::account::AccountAddress;
    use model::chat::{InboxChange, InboxEvent};
    use model::timeline::{Space, TimelineId};
    use std::sync::Arc;

    const AGAIN: Duration = Duration::from_secs(5);

    fn id(n: u64) -> TimelineId {
        TimelineId::of(Space::Other, HashKey::new(1, 2), &[&n.to_be_bytes()])
    }

    fn put(way: &mut Way, now: Now, count: u64) {
        for _ in 0..count {
            let with = AccountAddress::parse("ann", "a.example").expect("a name");
            let event = InboxEvent { with, what: InboxChange::Read(1) };
            let cargo = Cargo::Event(7, Arc::new(event));
            let (number, inboxes) = (way.next_number(), (0..256).map(id).collect());
            let parcel = Parcel {
                number,
                inboxes,
                conversation: id(1),
                relation: Relation::default(),
                cargo,
                carriage: Carriage::Write,
            };
            way.put(now, AGAIN, (parcel, (id(2), number)));
        }
    }

    fn sent(way: &mut Way) -> Vec<u64> {
        std::iter::from_fn(|| way.next()).map(|parcel| parcel.number).collect()
    }

    fn confirm(way: &mut Way, now: Now, upto: u64) -> usize {
        std::iter::from_fn(|| way.confirm_first(now, AGAIN, upto)).count()
    }

    fn at(ms: u64) -> Now {
        Now { mono: Instant::default() + Duration::from_millis(ms), ..Now::default() }
    }

    #[test]
    fn so_many_are_on_their_way_as_have_room_and_confirmed_ones_make_it() {
        let mut way = Way::of(64);
        put(&mut way, at(0), 1_000);
        let first = sent(&mut way);
        let room = first.len();
        assert!(first.iter().copied().eq(1..=room as u64) && (2..1_000).contains(&room), "{room}");
        assert!(way.under_way_bytes <= UNDER_WAY_BYTES_MAX / 64);
        assert_eq!(confirm(&mut way, at(1), 3), 3);
        assert_eq!(sent(&mut way), [room as u64 + 1, room as u64 + 2, room as u64 + 3]);
        assert_eq!(confirm(&mut way, at(2), 1_000), 997, "even those that were not sent again");
        assert_eq!((way.under_way, way.under_way_bytes, way.due()), (0, 0, None));
    }

    #[test]
    fn what_weighs_more_than_may_be_on_its_way_goes_alone() {
        let mut way = Way::of(u16::MAX);
        put(&mut way, at(0), 2);
        assert_eq!((sent(&mut way), sent(&mut way)), (vec![1], vec![]));
        assert_eq!(confirm(&mut way, at(1), 1), 1);
        assert_eq!(sent(&mut way), [2]);
    }

    #[test]
    fn what_was_refused_goes_again_after_a_pause_that_doubles_and_what_was_lost_later() {
        let mut way = Way::of(1);
        put(&mut way, at(0), 4);
        assert_eq!(sent(&mut way), [1, 2, 3, 4]);
        way.refused(at(1), AGAIN);
        assert_eq!(confirm(&mut way, at(2), 1), 1, "it puts nothing off");
        assert_eq!((way.due(), sent(&mut way)), (Some(at(21).mono), vec![]));
        assert_eq!(way.begin_again(at(20), AGAIN), None);
        assert_eq!((way.begin_again(at(21), AGAIN), sent(&mut way)), (Some(3), vec![2, 3, 4]));
        way.refused(at(30), AGAIN);
        way.refused(at(31), AGAIN);
        assert_eq!(way.due(), Some(at(50).mono), "a confirmation has ended the doubling");
        assert_eq!((way.begin_again(at(50), AGAIN), sent(&mut way)), (Some(3), vec![2, 3, 4]));
        way.refused(at(60), AGAIN);
        assert_eq!(way.due(), Some(at(100).mono));
        assert_eq!((way.begin_again(at(100), AGAIN), sent(&mut way)), (Some(3), vec![2, 3, 4]));
        assert_eq!(way.due(), Some(at(5_100).mono), "none was refused: they may be lost");
        put(&mut way, at(5_099), 1);
        assert_eq!(sent(&mut way), [5]);
        assert_eq!(
            (way.begin_again(at(5_100), AGAIN), sent(&mut way)),
            (Some(4), vec![2, 3, 4, 5])
        );
    }

    #[test]
    fn what_is_refused_again_and_again_is_stuck_until_something_gets_through() {
        let mut way = Way::of(1);
        put(&mut way, at(0), 3);
        let (mut now_ms, all) = (0, way.bytes);
        let mut refusals = 0;
        while way.stuck_bytes() == 0 {
            assert_eq!(sent(&mut way).len(), 3);
            way.refused(at(now_ms), AGAIN);
            refusals += 1;
            now_ms += 1_000;
            assert_eq!(way.begin_again(at(now_ms), AGAIN), Some(3));
        }
        assert!((3..8).contains(&refusals) && all > 0 && way.stuck_bytes() == all, "{refusals}");
        assert_eq!((confirm(&mut way, at(now_ms), 1), way.stuck_bytes()), (1, 0));
        assert_eq!((confirm(&mut way, at(now_ms), 3), way.bytes), (2, 0));
    }
}

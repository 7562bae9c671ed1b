//! Former members of a group: the message by which each has left, and whether it left by itself.
//!
//! Pure, and part of the state: the same changes make the same former members. Invariant: no
//! account gets a later message as the one by which it left; for an account that is no longer
//! remembered, the message is unknown.

use model::timeline::TimelineId;
use std::collections::BTreeMap;

/// Maximum of former members that are remembered of a group. One more drops the one that left
/// first.
const LEAVERS_MAX: usize = 4_096;

/// Accounts that were members.
#[derive(Clone, Default, Debug)]
pub(super) struct Leavers {
    /// By their inboxes: the number of the message by which an account left, and whether by itself.
    known: BTreeMap<TimelineId, (u64, bool)>,
    /// The message by which the group was dissolved, and all of its members left; 0: none.
    ended: u64,
    last: u64,
    /// Some former member was dropped.
    has_forgotten: bool,
}

impl Leavers {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The number of the last message by which a member left; 0: no member has.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// A member left by this message, by itself or not.
    pub(super) fn leave(&mut self, inbox: TimelineId, (id, by_itself): (u64, bool)) {
        self.last = self.last.max(id);
        self.known.insert(inbox, (id, by_itself));
        let is_full = self.known.len() > LEAVERS_MAX;
        let first = self.known.iter().filter(|_| is_full).min_by_key(|(_, (id, _))| *id);
        if let Some(first) = first.map(|(inbox, _)| *inbox) {
            self.known.remove(&first);
            self.has_forgotten = true;
        }
    }

    /// All members leave by this message.
    pub(super) fn all_leave(&mut self, id: u64) {
        (self.last, self.ended) = (self.last.max(id), id);
    }

    /// Removes an account that is a member again.
    pub(super) fn come_back(&mut self, inbox: TimelineId) {
        self.known.remove(&inbox);
    }

    /// Whether an account that is no member left by itself.
    pub(super) fn went(&self, inbox: TimelineId) -> bool {
        self.known.get(&inbox).is_some_and(|(_, by_itself)| *by_itself)
    }

    /// The message by which an account left that is no member. 0: unknown, so the account is to
    /// read messages as they were when they were sent.
    pub(super) fn left_by(&self, inbox: TimelineId) -> u64 {
        match self.known.get(&inbox) {
            Some((id, _)) => *id,
            None if self.has_forgotten => 0,
            None => self.ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    fn inbox(n: usize) -> TimelineId {
        TimelineId::of(Space::Inbox, HashKey::new(1, 2), &[&n.to_be_bytes()])
    }

    #[test]
    fn of_each_the_last_leave_is_known_and_of_those_forgotten_none_is_made_up() {
        let mut leavers = Leavers::default();
        leavers.leave(inbox(1), (10, true));
        leavers.leave(inbox(2), (20, false));
        assert_eq!([1, 2, 3].map(|n| leavers.left_by(inbox(n))), [10, 20, 0]);
        leavers.come_back(inbox(1));
        leavers.all_leave(30);
        assert_eq!([1, 2, 3].map(|n| leavers.left_by(inbox(n))), [30, 20, 30]);
        for n in 10..10 + LEAVERS_MAX {
            leavers.leave(inbox(n), (100 + n as u64, true));
        }
        assert_eq!((leavers.len(), leavers.last()), (LEAVERS_MAX, 109 + LEAVERS_MAX as u64));
        assert_eq!([2, 3].map(|n| leavers.left_by(inbox(n))), [0, 0], "the first is forgotten");
    }
}

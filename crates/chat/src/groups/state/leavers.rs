//! Those who were members of a group: by which message each has left, and whether it went by
//! itself.
//!
//! Pure, and part of the state: told the same changes, it knows the same. Invariant: of no account
//! a later message is said than that by which it left; of one that is not remembered any more,
//! none.

use model::timeline::TimelineId;
use std::collections::BTreeMap;

/// Accounts that are remembered of a group. With one more the one that left first is forgotten.
const LEAVERS_MAX: usize = 4_096;

/// Accounts that were members.
#[derive(Clone, Default, Debug)]
pub(super) struct Leavers {
    /// By their inboxes: the number of the message by which it left, and whether it did by itself.
    known: BTreeMap<TimelineId, (u64, bool)>,
    /// The message by which all left who were members then: the group was dissolved. 0: it was not.
    ended: u64,
    last: u64,
    /// Somebody is forgotten.
    has_forgotten: bool,
}

impl Leavers {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The number of the last message by which somebody left; 0: nobody has.
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

    /// All who are members leave by this message.
    pub(super) fn all_leave(&mut self, id: u64) {
        (self.last, self.ended) = (self.last.max(id), id);
    }

    /// It is a member again.
    pub(super) fn come_back(&mut self, inbox: TimelineId) {
        self.known.remove(&inbox);
    }

    /// Whether an account that is no member went by itself.
    pub(super) fn went(&self, inbox: TimelineId) -> bool {
        self.known.get(&inbox).is_some_and(|(_, by_itself)| *by_itself)
    }

    /// By which message an account left that is no member. 0: that is not known, so it is to read
    /// what it has as it was said.
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

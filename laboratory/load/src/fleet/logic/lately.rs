//! Memory of recent messages, by which a copy, or a message after a later one, is recognised.
//!
//! Two generations of tables; when the young one is full the old one is forgotten. That is exact
//! all the same: whatever was heard before a message was sent cannot be its copy, nor have been
//! sent after it. So only a message that is older than the memory is not known, and is said to be.
//! Keys are scrambled to 64 bits, of which two alike among a million are one in ten million runs.

use base::prng::scramble;
use base::time::Instant;
use std::collections::{HashMap, HashSet};

/// Messages of a generation, at most. A thread has two: some ten megabytes when they are full.
pub(super) const HEARD_MAX: usize = 1 << 17;

/// Where keys begin.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rank of a message among those heard before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rank {
    /// The message came for the first time, in its place.
    New,
    /// The message came before.
    Repeated,
    /// The message came for the first time, after a later one.
    Late,
    /// The message is older than all that is remembered.
    Unknown,
}

#[derive(Default)]
struct Generation {
    seen: HashSet<u64>,
    /// The last number of each row of messages that have an order.
    last: HashMap<u64, u64>,
    began: Instant,
}

/// Memory of recent messages.
#[derive(Default)]
pub(crate) struct Lately {
    young: Generation,
    old: Generation,
    /// Of what was heard before then something was forgotten.
    knows_from: Option<Instant>,
}

impl Lately {
    /// Ranks a message that was sent at this moment: `message` is its own key, `order` that of the
    /// messages it has an order with, in which its number is this.
    pub(super) fn rank(
        &mut self,
        now: Instant,
        sent: Instant,
        (message, order): (u64, Option<u64>),
        number: u64,
    ) -> Rank {
        let is_known = self.knows_from.is_none_or(|from| sent >= from);
        let last = order.and_then(|order| {
            self.young.last.get(&order).or_else(|| self.old.last.get(&order)).copied()
        });
        let is_ahead = last.is_some_and(|last| number > last);
        if (!is_ahead || !is_known) && self.has(message) {
            return Rank::Repeated;
        }
        self.note(now, message, order.map(|order| (order, number.max(last.unwrap_or(0)))));
        match last {
            _ if !is_known => Rank::Unknown,
            Some(last) if number < last => Rank::Late,
            _ => Rank::New,
        }
    }

    /// Whether a message of this key is remembered.
    pub(super) fn has(&self, message: u64) -> bool {
        self.young.seen.contains(&message) || self.old.seen.contains(&message)
    }

    fn note(&mut self, now: Instant, message: u64, last: Option<(u64, u64)>) {
        if self.young.seen.len() >= HEARD_MAX {
            std::mem::swap(&mut self.young, &mut self.old);
            if !self.young.seen.is_empty() {
                // What the one that goes had heard was before the one that stays began.
                self.knows_from = Some(self.old.began);
            }
            self.young.seen.clear();
            self.young.last.clear();
        }
        if self.young.seen.is_empty() {
            self.young.began = now;
        }
        self.young.seen.insert(message);
        last.map(|(order, number)| self.young.last.insert(order, number));
    }
}

/// Some numbers as one key.
pub(super) fn key(parts: [u64; 3]) -> u64 {
    // Zero scrambles to itself.
    parts.into_iter().fold(SALT, |key, part| scramble(key ^ part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn whatever_order_messages_come_in_each_is_what_it_is() {
        let mut lately = Lately::default();
        let mut rank = |number: u64| lately.rank(at(9), at(1), (number, Some(7)), number);
        let ranks = [1, 2, 2, 5, 3, 3, 5, 1, 6, 4].map(&mut rank);
        use Rank::{Late, New, Repeated};
        let right = [New, New, Repeated, New, Late, Repeated, Repeated, Repeated, New, Late];
        assert_eq!(ranks, right);
        // Where there is no order nothing is late.
        let mut lately = Lately::default();
        let ranks = [9, 2, 9].map(|number| lately.rank(at(9), at(1), (number, None), number));
        assert_eq!(ranks, [New, New, Repeated]);
    }

    #[test]
    fn what_is_older_than_the_memory_is_not_known_and_the_rest_is_exact() {
        let mut lately = Lately::default();
        let count = 3 * HEARD_MAX as u64;
        for number in 0..count {
            // Each is heard a millisecond after it was sent.
            let rank = lately.rank(at(number + 1), at(number), (number, Some(1)), number);
            assert_eq!(rank, Rank::New);
        }
        let now = at(count + 1);
        let mut rank = |number| lately.rank(now, at(number), (number, Some(1)), number);
        assert_eq!(rank(count - 1), Rank::Repeated);
        assert_eq!(rank(count - HEARD_MAX as u64), Rank::Repeated, "the old ones are remembered");
        assert_eq!(rank(5), Rank::Unknown, "it was forgotten");
        assert!(lately.young.seen.len() <= HEARD_MAX && lately.old.seen.len() <= HEARD_MAX);
    }
}

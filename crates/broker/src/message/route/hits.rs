//! Subscriptions that match a topic: all at once, or so many that they are found in slices.
//!
//! A subscription's holder is a number (see [`holder`](super::holder)); numbers of one session's
//! subscriptions are adjacent, so it gets one copy. Where there are very many, a [`Merge`] goes
//! through the filters once and then through all their holders in this order, a slice a turn.
//! Invariant: its numbers rise, so no holder is found twice.

use super::holder::{GROUP, number_of, option};
use crate::routes::WalkPlace;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Subscriptions that match a topic.
#[derive(Default)]
pub(crate) struct Hits {
    /// Holders: see [`holder`](super::holder::holder).
    pub numbers: Vec<u64>,
    /// Of subscriptions with a subscription identifier: their numbers, and their filters' numbers.
    pub named: Vec<(u64, u32)>,
    /// Filters that match.
    pub filters: Vec<u32>,
    /// Records of the table that were looked at, and filters of a [`Merge`].
    pub looked_at: usize,
}

/// Subscriptions that match a topic and are yet to be found, in order.
#[derive(Default)]
pub(crate) struct Merge {
    /// Where the walk through the filters goes on.
    pub place: WalkPlace,
    /// Filters that had gone when it began: while it is as many, each number is the filter's that
    /// was found.
    pub removals: Option<u64>,
    /// All filters have been found.
    pub has_all: bool,
    /// Of each filter the next number.
    pub next: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Hits {
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.named.clear();
        self.filters.clear();
        self.looked_at = 0;
    }

    /// Subscriptions and filters that were looked at.
    pub fn looks(&self) -> usize {
        self.looked_at.max(self.numbers.len()).max(self.filters.len())
    }

    /// One session's together.
    pub fn sort(&mut self) {
        if self.numbers.len() > 1 {
            self.numbers.sort_unstable();
            self.named.sort_unstable();
        }
    }

    /// The filters that one session named, of those that match.
    pub fn named_by(&self, slot: u32) -> &[(u64, u32)] {
        let (first, last) = (number_of(slot, 0), number_of(slot, u8::MAX));
        let from = self.named.partition_point(|&(number, _)| number < first);
        let rest = &self.named[from..];
        &rest[..rest.partition_point(|&(number, _)| number <= last)]
    }

    pub fn push(&mut self, number: u64, filter: u32) {
        self.numbers.push(number);
        if number & (GROUP | u64::from(option::HAS_ID)) == u64::from(option::HAS_ID) {
            self.named.push((number, filter));
        }
    }
}

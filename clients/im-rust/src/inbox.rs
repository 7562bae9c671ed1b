//! How far this device is in its account's inbox, and what it does to go on (IM 5).
//!
//! Knows no frames and no timers. Invariant: an entry is handed out once in the life of a client,
//! in the inbox's order, without a gap but for what this device has sent itself.

use std::collections::BTreeSet;

/// Entries that are acknowledged together without waiting for the second.
const UNACKNOWLEDGED_MAX: u64 = 32;
/// The longest that an acknowledgement waits for others, milliseconds (IM 5.5).
const ACKNOWLEDGE_MS: u64 = 1_000;
/// After a pull that the server did not do, milliseconds.
const PULL_AGAIN_MS: u64 = 1_000;
/// Unacknowledged entries at which delivery to the application pauses.
pub(crate) const HELD_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct Inbox {
    /// Up to here everything was handed out.
    last: u64,
    /// Up to here the application has everything; `None`: it never had a session.
    done: Option<u64>,
    held: BTreeSet<u64>,
    acknowledged: u64,
    head: u64,
    /// Own messages whose places are not passed yet.
    own: u64,
    acknowledge_at: Option<u64>,
    pull_at: u64,
    is_pulling: bool,
    must_pull: bool,
}

impl Inbox {
    pub fn new(done: Option<u64>) -> Inbox {
        Inbox { last: done.unwrap_or(0), done, ..Inbox::default() }
    }

    pub fn done(&self) -> Option<u64> {
        self.done
    }

    /// A session begins. An inbox that ends before what is known is another one.
    pub fn begin(&mut self, cursor: u64, head: u64) {
        if self.done.is_none() || self.last > head {
            (self.last, self.done) = (cursor, Some(cursor));
            self.held.clear();
        }
        (self.acknowledged, self.head, self.own, self.pull_at) = (cursor, head, 0, 0);
        self.is_pulling = false;
        // Until it has pulled up to the head, the server sends nothing by itself (IM 5.2).
        self.must_pull = cursor != head || self.last != cursor;
        self.acknowledge_at = (self.done > Some(cursor)).then_some(0);
    }

    /// An entry has come by itself; true if it is the next one.
    pub fn comes(&mut self, place: u64) -> bool {
        let is_behind =
            self.must_pull || self.is_pulling || self.head > self.last || self.is_full();
        self.head = self.head.max(place);
        if place <= self.last || self.is_full() {
            return false;
        }
        let between = place - self.last - 1;
        if between > self.own || (between > 0 && is_behind) {
            return false;
        }
        self.own -= between;
        self.last = place;
        true
    }

    pub fn notify(&mut self, head: u64) {
        self.head = self.head.max(head);
    }

    /// A page was pulled; the place behind which its entries are new.
    pub fn page(&mut self, upto: u64, head: u64) -> u64 {
        let before = self.last;
        (self.is_pulling, self.own) = (false, 0);
        self.head = self.head.max(head);
        self.last = self.last.max(upto);
        if self.last >= self.head {
            self.must_pull = false;
        }
        before
    }

    pub fn pull_failed(&mut self, now: u64) {
        (self.is_pulling, self.pull_at) = (false, now + PULL_AGAIN_MS);
    }

    /// This device sent a message, whose place it has not passed.
    pub fn sent_own(&mut self) {
        self.own += 1;
    }

    /// The entry is handed out.
    pub fn hold(&mut self, place: u64) {
        self.held.insert(place);
    }

    /// The application has it.
    pub fn release(&mut self, now: u64, place: u64) {
        if self.held.remove(&place) {
            self.advance(now);
        }
    }

    /// Everything before the first entry that is held is done.
    pub fn advance(&mut self, now: u64) {
        let done = self.held.first().map_or(self.last, |first| first - 1);
        self.done = self.done.max(Some(done));
        if self.done > Some(self.acknowledged) && self.acknowledge_at.is_none() {
            self.acknowledge_at = Some(now + ACKNOWLEDGE_MS);
        }
    }

    /// Place to acknowledge now.
    pub fn acknowledgement(&mut self, now: u64) -> Option<u64> {
        let (done, at) = (self.done?, self.acknowledge_at?);
        let count = done.checked_sub(self.acknowledged).filter(|count| *count > 0)?;
        if count < UNACKNOWLEDGED_MAX && now < at {
            return None;
        }
        (self.acknowledged, self.acknowledge_at) = (done, None);
        Some(done)
    }

    /// The place behind which is to be pulled now.
    pub fn pull(&mut self, now: u64) -> Option<u64> {
        if !self.wants_pull() || now < self.pull_at {
            return None;
        }
        self.is_pulling = true;
        Some(self.last)
    }

    pub fn due(&self) -> Option<u64> {
        let pull_at = self.wants_pull().then_some(self.pull_at);
        self.acknowledge_at.into_iter().chain(pull_at).min()
    }

    fn is_full(&self) -> bool {
        self.held.len() >= HELD_MAX
    }

    fn wants_pull(&self) -> bool {
        !self.is_pulling && !self.is_full() && (self.must_pull || self.last < self.head)
    }
}

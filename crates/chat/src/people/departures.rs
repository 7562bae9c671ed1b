//! Times when accounts of this shard were last online (XEP-0012), as far as this process has seen.
//!
//! The times are not stored, since that would take a write for each logout; after a restart they
//! are unknown. Beyond a limit the oldest are forgotten. Invariant: an account with an online
//! device has no such time.

use crate::Chat;
use base::time::{Instant, Now};
use model::timeline::TimelineId;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Accounts that went offline, and when.
#[derive(Default)]
pub(super) struct Departures {
    gone: HashMap<TimelineId, Instant>,
    order: BTreeSet<(Instant, TimelineId)>,
    /// Accounts that went offline in this turn.
    going: HashSet<TimelineId>,
}

impl Departures {
    /// Records that an account has gone offline.
    pub(super) fn goes(&mut self, inbox: TimelineId) {
        self.going.insert(inbox);
    }

    /// Records that an account is online.
    pub(super) fn comes(&mut self, inbox: TimelineId) {
        self.going.remove(&inbox);
        if let Some(at) = self.gone.remove(&inbox) {
            self.order.remove(&(at, inbox));
        }
    }

    /// Sets the time of accounts that went offline in this turn; at most `most` are remembered.
    pub(super) fn turn(&mut self, now: Now, most: usize) {
        for inbox in std::mem::take(&mut self.going) {
            if let Some(before) = self.gone.insert(inbox, now.mono) {
                self.order.remove(&(before, inbox));
            }
            self.order.insert((now.mono, inbox));
        }
        while self.gone.len() > most {
            let Some((_, inbox)) = self.order.pop_first() else { return };
            self.gone.remove(&inbox);
        }
    }

    /// Seconds since an account went offline; none: unknown.
    fn ago_s(&self, now: Now, inbox: TimelineId) -> Option<u64> {
        if self.going.contains(&inbox) {
            return Some(0);
        }
        let at = self.gone.get(&inbox)?;
        Some((now.mono - *at).as_secs())
    }
}

impl Chat {
    /// Seconds since an account was last online, 0 while it is; none: unknown.
    pub(super) fn last_there_s(&self, now: Now, inbox: TimelineId) -> Option<u64> {
        match self.people.present(inbox).next() {
            Some(_) => Some(0),
            None => self.people.departures.ago_s(now, inbox),
        }
    }

    /// Records that a device of an account came online or went offline, by its presence or by its
    /// end.
    pub(super) fn device_came_or_went(&mut self, inbox: TimelineId) {
        let is_there = self.people.present(inbox).next().is_some();
        match is_there {
            true => self.people.departures.comes(inbox),
            false => self.people.departures.goes(inbox),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::timeline::Space;

    fn inbox(n: u64) -> TimelineId {
        TimelineId::at_home(Space::Inbox, n, n << 8)
    }

    fn at(s: u64) -> Now {
        Now::new(Instant::from_nanos(s * 1_000_000_000), 0)
    }

    #[test]
    fn who_went_first_is_forgotten_first_and_who_comes_has_not_gone() {
        let mut all = Departures::default();
        for n in 0..3 {
            all.goes(inbox(n));
            assert_eq!(all.ago_s(at(n), inbox(n)), Some(0));
            all.turn(at(n), 2);
        }
        let ago = |all: &Departures| [0, 1, 2].map(|n| all.ago_s(at(10), inbox(n)));
        assert_eq!(ago(&all), [None, Some(9), Some(8)]);
        all.comes(inbox(1));
        assert_eq!(ago(&all), [None, None, Some(8)]);
        all.goes(inbox(2));
        all.turn(at(7), 2);
        assert_eq!(ago(&all), [None, None, Some(3)]);
        all.goes(inbox(1));
        all.comes(inbox(1));
        all.turn(at(8), 2);
        assert_eq!(ago(&all), [None, None, Some(3)], "it came back in the same turn");
        all.turn(at(9), 0);
        assert!(all.gone.is_empty() && all.order.is_empty());
    }
}

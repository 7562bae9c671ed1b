//! Log lines about refused clients: the first of a kind at once, and a while later the number of
//! those that followed.
//!
//! A line a client would be an outage by itself when a million come. It knows reasons by their
//! names and reads no clock. Invariant: a kind is logged at most twice in [`WINDOW`], and nothing
//! that was seen goes uncounted.

use base::time::Instant;
use std::time::Duration;

/// Time after the first notice of a kind in which others are only counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Kinds that are counted apart; the reasons are fewer. One more is counted as the last of them.
const KINDS_MAX: usize = 64;

/// Notices of one shard.
#[derive(Default)]
pub(super) struct Notices(Vec<Kind>);

struct Kind {
    reason: &'static str,
    until: Instant,
    more: u64,
}

impl Notices {
    /// Counts one; returns whether it is logged now.
    pub(super) fn see(&mut self, now: Instant, reason: &'static str) -> bool {
        let full = self.0.len() >= KINDS_MAX;
        let found = self.0.iter().position(|kind| kind.reason == reason);
        match found.or(full.then(|| self.0.len() - 1)) {
            Some(at) => {
                self.0[at].more += 1;
                false
            }
            None => {
                self.0.push(Kind { reason, until: now + WINDOW, more: 0 });
                true
            }
        }
    }

    /// When something may be due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().map(|kind| kind.until).min()
    }

    /// Kinds whose time is over, with how many more came in it. The next of a kind that was quiet
    /// is logged at once again.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(&'static str, u64)> {
        let mut due = Vec::new();
        self.0.retain_mut(|kind| {
            if now < kind.until {
                return true;
            }
            if kind.more > 0 {
                due.push((kind.reason, std::mem::take(&mut kind.more)));
                kind.until = now + WINDOW;
                return true;
            }
            false
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::default() + Duration::from_millis(ms)
    }

    #[test]
    fn the_first_is_told_and_the_others_are_counted() {
        let mut notices = Notices::default();
        assert_eq!(notices.next(), None);
        assert!(notices.see(at(0), "full") && notices.see(at(1), "auth_failed"));
        for ms in 2..216 {
            assert!(!notices.see(at(ms), "full"));
        }
        assert_eq!((notices.due(at(9_999)), notices.next()), (vec![], Some(at(10_000))));
        assert_eq!(notices.due(at(10_000)), [("full", 214)]);
        assert!(!notices.see(at(10_001), "full"), "it goes on");
        assert_eq!(notices.due(at(10_001)), [], "the other was quiet");
        assert!(notices.see(at(10_002), "auth_failed"), "and is told again");
        assert_eq!(notices.due(at(20_000)), [("full", 1)]);
        assert_eq!(notices.due(at(30_002)), []);
        assert_eq!(notices.next(), None);
    }

    #[test]
    fn kinds_are_bounded() {
        let mut notices = Notices::default();
        for at_kind in 0..KINDS_MAX + 9 {
            let reason: &'static str = format!("kind {at_kind}").leak();
            assert_eq!(notices.see(at(0), reason), at_kind < KINDS_MAX);
        }
        assert_eq!((notices.0.len(), notices.due(at(10_000))[0].1), (KINDS_MAX, 9));
    }
}

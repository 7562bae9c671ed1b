//! Offences by who commits them: how often within a window, and whether that is too often.
//!
//! Failed logins of an address and disconnects of a client are counted alike. A window begins with
//! the first offence and lasts its time. It reads no clock. Invariant: it never remembers more than
//! its room.

use std::collections::HashMap;
use std::hash::Hash;

/// When somebody is banned by a rule.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OffenceRule {
    /// Offences within a window that are tolerated; 0: any number, and nothing is counted.
    pub count_max: u32,
    /// Length of the window, seconds.
    pub window_s: u32,
    /// How long the ban lasts, seconds.
    pub ban_s: u32,
}

/// Offences that count.
pub struct Offences<K> {
    room: usize,
    seen: HashMap<K, (u32, u32)>,
}

impl<K: Eq + Hash> Offences<K> {
    /// An empty count that remembers this many offenders.
    pub fn new(room: usize) -> Offences<K> {
        Offences { room, seen: HashMap::new() }
    }

    /// Counts an offence. True if the rule's limit is now exceeded; counting then begins anew.
    pub fn see(&mut self, now_s: u32, rule: OffenceRule, who: K) -> bool {
        if rule.count_max == 0 {
            return false;
        }
        let is_over = |since_s: u32| now_s.saturating_sub(since_s) >= rule.window_s;
        if self.seen.len() >= self.room && !self.seen.contains_key(&who) {
            self.seen.retain(|_, (since_s, _)| !is_over(*since_s));
            if self.seen.len() >= self.room {
                // Too many offend to tell who does so most: all begin anew.
                self.seen.clear();
            }
        }
        let (since_s, count) = self.seen.entry(who).or_insert((now_s, 0));
        if is_over(*since_s) {
            (*since_s, *count) = (now_s, 0);
        }
        *count += 1;
        let is_too_often = *count > rule.count_max;
        if is_too_often {
            *count = 0;
        }
        is_too_often
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: OffenceRule = OffenceRule { count_max: 3, window_s: 60, ban_s: 300 };

    #[test]
    fn one_more_than_is_tolerated_within_the_window_is_too_often() {
        let mut offences = Offences::new(10);
        let seen: Vec<bool> = (0..4).map(|at_s| offences.see(at_s, RULE, "a")).collect();
        assert_eq!(seen, [false, false, false, true]);
        assert!(!offences.see(5, RULE, "a"), "it begins anew");
        for at_s in [0, 30, 59, 60, 90, 119, 120] {
            assert!(!offences.see(at_s, RULE, "b"), "three in each window: {at_s}");
        }
    }

    #[test]
    fn a_rule_that_is_off_counts_nothing() {
        let mut offences = Offences::new(10);
        let off = OffenceRule { count_max: 0, ..RULE };
        assert!((0..100).all(|_| !offences.see(1, off, "a")) && offences.seen.is_empty());
    }

    #[test]
    fn room_is_made_by_windows_that_are_over_or_else_all_begin_anew() {
        let mut offences = Offences::new(3);
        (0..3).for_each(|who| assert!(!offences.see(who, RULE, who)));
        assert!(!offences.see(60, RULE, 9));
        assert_eq!(offences.seen.len(), 3, "the first one's window was over");
        assert!(!offences.see(60, RULE, 10));
        assert_eq!(offences.seen.len(), 1);
    }
}

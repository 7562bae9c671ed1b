//! Shares: the part of the shard's log that one account, or one domain of another server, may use.
//!
//! Recent writes count: about as many bytes as the log may have, in two halves; the older half is
//! forgotten when the newer one is full or old. By then the log has replaced the entries that it
//! counted, or is about to. This module does not know which of the counted entries still exist, and
//! nothing from before a start. Invariant: no account is counted for less than it stored in the
//! newer half.

use base::time::{Instant, Now};
use model::limits::ChatLimits;
use std::collections::HashMap;
use std::time::Duration;

/// Accounts and domains that are counted in a half of the writes. When there are more, those below
/// the median of bytes are forgotten.
const STORERS_MAX: usize = 16_384;

/// Bytes that accounts and domains have stored recently.
pub(crate) struct Shares {
    newer: HashMap<u64, u64>,
    older: HashMap<u64, u64>,
    /// Bytes of the newer half, and the time since which it has been counted.
    bytes: u64,
    since: Option<Instant>,
    half_max: u64,
    half_time: Duration,
    account_max: u64,
    domain_max: u64,
}

impl Shares {
    /// Shares of a log that may have this many bytes; 0: the size is unknown, and nothing is
    /// limited.
    pub(crate) fn new(limits: &ChatLimits, log_bytes: u64) -> Shares {
        let mut shares = Shares {
            newer: HashMap::new(),
            older: HashMap::new(),
            bytes: 0,
            since: None,
            half_max: log_bytes / 2,
            half_time: Duration::ZERO,
            account_max: 0,
            domain_max: 0,
        };
        shares.configure(limits, log_bytes);
        shares
    }

    /// Applies changed limits. Bytes that have been counted stay counted.
    pub(crate) fn configure(&mut self, limits: &ChatLimits, log_bytes: u64) {
        let part = |percent: u8| match percent {
            0 => u64::MAX,
            percent => (log_bytes / 100).saturating_mul(percent.into()),
        };
        self.half_time = Duration::from_secs(limits.share_s.into()) / 2;
        self.account_max = part(limits.share_an_account_percent);
        self.domain_max = part(limits.share_a_domain_percent);
    }

    /// Whether an account or domain may store this many more bytes; if so, they are counted.
    pub(crate) fn takes(&mut self, now: Now, (who, is_domain): (u64, bool), bytes: u64) -> bool {
        if self.half_max == 0 {
            return true;
        }
        let since = *self.since.get_or_insert(now.mono);
        if self.bytes >= self.half_max || now.mono >= since + self.half_time {
            self.older = std::mem::take(&mut self.newer);
            (self.bytes, self.since) = (0, Some(now.mono));
        }
        let has = |half: &HashMap<u64, u64>| half.get(&who).copied().unwrap_or(0);
        let most = if is_domain { self.domain_max } else { self.account_max };
        if has(&self.newer) + has(&self.older) + bytes > most {
            return false;
        }
        if self.newer.len() >= STORERS_MAX && !self.newer.contains_key(&who) {
            let mut all: Vec<u64> = self.newer.values().copied().collect();
            let (_, middle, _) = all.select_nth_unstable(STORERS_MAX / 2);
            let middle = *middle;
            self.newer.retain(|_, bytes| *bytes > middle);
        }
        *self.newer.entry(who).or_default() += bytes;
        self.bytes += bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Now {
        Now::new(Instant::from_nanos(s * 1_000_000_000), 0)
    }

    fn limits() -> ChatLimits {
        ChatLimits {
            share_an_account_percent: 10,
            share_a_domain_percent: 20,
            share_s: 100,
            ..ChatLimits::default()
        }
    }

    #[test]
    fn nobody_takes_more_than_its_share_and_others_are_not_hindered() {
        let mut shares = Shares::new(&limits(), 1_000);
        assert!(shares.takes(at(1), (1, false), 100));
        assert!(!shares.takes(at(1), (1, false), 1));
        assert!(shares.takes(at(1), (2, false), 60) && shares.takes(at(1), (3, true), 200));
        assert!(!shares.takes(at(1), (3, true), 1));
    }

    #[test]
    fn what_others_stored_since_or_time_makes_room_for_it_again() {
        let mut shares = Shares::new(&limits(), 1_000);
        assert!(shares.takes(at(1), (1, false), 100));
        let mut others = 10..;
        let mut fill = |shares: &mut Shares| {
            let mut one = || shares.takes(at(2), (others.next().unwrap_or(0), false), 50);
            assert!((0..10).all(|_| one()));
        };
        fill(&mut shares);
        assert!(!shares.takes(at(2), (1, false), 1), "it is in the older half");
        fill(&mut shares);
        assert!(shares.takes(at(2), (1, false), 100), "about all of the log was written since");
        assert!(!shares.takes(at(40), (1, false), 1));
        assert!(!shares.takes(at(60), (1, false), 1));
        assert!(shares.takes(at(120), (1, false), 1), "it is too long ago");
    }

    #[test]
    fn memory_is_bounded_and_who_took_much_is_not_forgotten_for_many_who_took_little() {
        let mut shares = Shares::new(&limits(), 1 << 40);
        assert!(shares.takes(at(1), (0, false), 100 << 30));
        for who in 1..100_000 {
            assert!(shares.takes(at(1), (who, false), 1));
            assert!(shares.newer.len() <= STORERS_MAX);
        }
        assert!(!shares.takes(at(1), (0, false), 10 << 30));
    }

    #[test]
    fn without_a_share_or_a_known_log_everybody_may_have_all_of_it() {
        let all = ChatLimits { share_an_account_percent: 0, ..limits() };
        assert!(Shares::new(&all, 1_000).takes(at(1), (1, false), 1 << 40));
        assert!(Shares::new(&limits(), 0).takes(at(1), (1, false), 1 << 40));
    }
}

//! Failed log-ins of the console, by source: a source with too many in a minute is refused.
//!
//! This module knows no tokens. Invariant: the table is bounded; a new source replaces the one
//! whose minute began first, so that a crowd of sources costs no memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sources that are remembered.
const SOURCES_MAX: usize = 4_096;

const MINUTE_MS: u64 = 60_000;

/// Source of attempts: an IPv4 address, or a /64 of IPv6.
type Source = u64;

#[derive(Clone, Copy)]
struct Failures {
    since_ms: u64,
    count: u32,
}

/// Wrong log-ins of the last minute.
pub(crate) struct Attempts {
    failures_max: AtomicU32,
    by_source: Mutex<HashMap<Source, Failures>>,
}

impl Attempts {
    pub(crate) fn new(failures_max: u32) -> Attempts {
        Attempts { failures_max: AtomicU32::new(failures_max), by_source: Mutex::default() }
    }

    /// Sets the most failures a minute.
    pub(crate) fn set_max(&self, failures_max: u32) {
        self.failures_max.store(failures_max, Ordering::Relaxed);
    }

    /// Seconds after which this address may try again; `None`: it may now.
    pub(crate) fn wait_s(&self, now_ms: u64, peer: Option<IpAddr>) -> Option<u32> {
        let failed = *self.table().get(&source(peer))?;
        let passed_ms = now_ms.saturating_sub(failed.since_ms);
        let failures_max = self.failures_max.load(Ordering::Relaxed);
        let is_held = failed.count >= failures_max && passed_ms < MINUTE_MS;
        is_held.then(|| (MINUTE_MS - passed_ms).div_ceil(1_000) as u32)
    }

    /// Counts a wrong log-in.
    pub(crate) fn fail(&self, now_ms: u64, peer: Option<IpAddr>) {
        let mut table = self.table();
        let source = source(peer);
        if table.len() >= SOURCES_MAX && !table.contains_key(&source) {
            let oldest = table.iter().min_by_key(|(_, failed)| failed.since_ms);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                table.remove(&oldest);
            }
        }
        let fresh = Failures { since_ms: now_ms, count: 0 };
        let failed = table.entry(source).or_insert(fresh);
        if now_ms.saturating_sub(failed.since_ms) >= MINUTE_MS {
            *failed = fresh;
        }
        failed.count = failed.count.saturating_add(1);
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Source, Failures>> {
        self.by_source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Source of a peer; all unknown addresses are one source.
fn source(peer: Option<IpAddr>) -> Source {
    match peer.map(|peer| peer.to_canonical()) {
        None => 0,
        Some(IpAddr::V4(address)) => u64::from(u32::from(address)),
        Some(IpAddr::V6(address)) => (u128::from(address) >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn a_source_is_held_for_the_rest_of_its_minute_and_others_are_not() {
        let attempts = Attempts::new(2);
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        attempts.fail(0, one);
        assert_eq!(attempts.wait_s(0, one), None);
        attempts.fail(10_000, one);
        assert_eq!(attempts.wait_s(10_500, one), Some(50));
        assert_eq!(attempts.wait_s(10_500, address("::ffff:192.0.2.1")), Some(50));
        assert_eq!(attempts.wait_s(10_500, other), None);
        assert_eq!(attempts.wait_s(60_000, one), None);
        attempts.fail(60_000, one);
        assert_eq!(attempts.wait_s(60_000, one), None, "a new minute");
    }

    #[test]
    fn an_address_of_ipv6_stands_for_its_network() {
        let attempts = Attempts::new(1);
        attempts.fail(0, address("2001:db8:1:2::1"));
        assert_eq!(attempts.wait_s(0, address("2001:db8:1:2:3::9")), Some(60));
        assert_eq!(attempts.wait_s(0, address("2001:db8:1:3::1")), None);
    }

    #[test]
    fn there_are_never_more_sources_than_there_may_be() {
        let attempts = Attempts::new(1);
        for number in 0..SOURCES_MAX as u32 + 10 {
            attempts.fail(u64::from(number), Some(IpAddr::V4(number.into())));
        }
        assert_eq!(attempts.table().len(), SOURCES_MAX);
        assert_eq!(attempts.wait_s(5_000, address("0.0.0.1")), None, "the oldest was forgotten");
        assert!(attempts.wait_s(5_000, address("0.0.16.1")).is_some());
    }
}

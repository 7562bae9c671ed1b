//! Replay protection: the nonces of verified proofs, in two windows that outlast every proof.
//!
//! A proof is valid while its clock is within [`SKEW_MS_MAX`] of the server's, so for twice that
//! time; a window is as long, and the previous window is kept. A nonce is stored as eight bytes of
//! a keyed hash. Only nonces of verified proofs are stored, so a stranger cannot fill the filter.

use base::time::{Instant, Now};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most milliseconds by which a device's clock may differ from ours.
pub(crate) const SKEW_MS_MAX: u64 = 120_000;

const WINDOW: Duration = Duration::from_millis(2 * SKEW_MS_MAX + 1_000);

/// Verdict on a nonce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nonce {
    /// The nonce is new, and now noted.
    Fresh,
    /// The nonce was seen before.
    Used,
    /// The filter has no room to note the nonce, so whether it was seen before is unknown.
    NoRoom,
}

/// The nonces of one shard.
pub(crate) struct Replay {
    now: BTreeSet<u64>,
    before: BTreeSet<u64>,
    since: Instant,
    nonces_max: usize,
}

impl Replay {
    /// Nonces that a shard notes in a window of about four minutes, 14 bytes each. Beyond that,
    /// Binds with a nonce are answered Busy.
    pub const NONCES_MAX: usize = 2 * 1024 * 1024;

    /// An empty filter with room for `nonces_max` nonces in each window.
    pub fn new(nonces_max: usize) -> Replay {
        let (now, before) = (BTreeSet::new(), BTreeSet::new());
        Replay { now, before, since: Instant::default(), nonces_max }
    }

    /// Notes the hash of a nonce.
    pub fn note(&mut self, now: Now, nonce: u64) -> Nonce {
        self.turn(now);
        if self.now.contains(&nonce) || self.before.contains(&nonce) {
            return Nonce::Used;
        }
        if self.now.len() >= self.nonces_max {
            return Nonce::NoRoom;
        }
        self.now.insert(nonce);
        Nonce::Fresh
    }

    /// Drops the windows that are too old to matter.
    pub fn turn(&mut self, now: Now) {
        let age = now.mono - self.since;
        if age < WINDOW {
            return;
        }
        self.before = std::mem::take(&mut self.now);
        if age >= 2 * WINDOW {
            self.before.clear();
        }
        self.since = now.mono;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Now {
        Now::new(Instant::from_nanos(secs * 1_000_000_000), 0)
    }

    #[test]
    fn a_nonce_is_remembered_for_as_long_as_its_proof_is_good() {
        for first in [0, 100, 240] {
            let mut replay = Replay::new(100);
            assert_eq!(replay.note(at(first), 7), Nonce::Fresh);
            for later in [1, 60, 120, 200, 240] {
                assert_eq!(replay.note(at(first + later), 7), Nonce::Used, "{first} + {later}");
                replay.note(at(first + later), 1_000 + later);
            }
            assert_eq!(replay.note(at(first + 483), 7), Nonce::Fresh);
        }
    }

    #[test]
    fn a_full_window_is_an_answer() {
        let mut replay = Replay::new(2);
        assert_eq!([1, 2, 3].map(|n| replay.note(at(0), n)).last(), Some(&Nonce::NoRoom));
        assert_eq!(replay.note(at(0), 1), Nonce::Used);
        assert_eq!(replay.note(at(500), 3), Nonce::Fresh);
    }
}

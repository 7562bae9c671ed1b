//! Replay protection: the nonces that were seen, two windows, never shorter than a proof is good.
//!
//! A proof is good while its clock is within [`SKEW_MS_MAX`] of ours, so for twice that; a window
//! is as long, and the one before it is kept. A nonce is kept as eight bytes of a keyed hash. Only
//! proofs that were verified get here, so a stranger cannot fill it.

use base::time::{Instant, Now};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most milliseconds by which a device's clock may differ from ours.
pub(crate) const SKEW_MS_MAX: u64 = 120_000;

const WINDOW: Duration = Duration::from_millis(2 * SKEW_MS_MAX + 1_000);

/// Verdict on a nonce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nonce {
    /// New, and noted.
    Fresh,
    /// Seen before.
    Used,
    /// Unknown: there is no room to note it.
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
    /// Nonces a shard notes in a window of about four minutes, 14 bytes each. Beyond, Binds that
    /// bring one are told Busy.
    pub const NONCES_MAX: usize = 2 * 1024 * 1024;

    /// No nonces, and room for so many a window.
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

    /// Lets go of what is old enough.
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

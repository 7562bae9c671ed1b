//! A timer wheel for short deadlines.
//!
//! Two wheels of 256 places: ticks of 64 ms for the next 16 s, then ticks of 16 s for the next
//! 70 minutes; what is further away waits at the far end and is put in again. An entry is a
//! deadline and a token of eight bytes. Timers are not cancelled: whoever owns the token looks
//! whether the call still means anything. Keep-alive of idle connections does not live here (it
//! would cost sixteen bytes each); `net` sweeps for it.

use crate::time::Instant;

const PLACES: usize = 256;
const TICK_NS: u64 = 64_000_000;

/// Deadlines with tokens.
pub struct Wheel {
    near: Vec<Vec<(u64, u64)>>,
    far: Vec<Vec<(u64, u64)>>,
    /// Tick up to which everything has been handed out, exclusive.
    tick: u64,
    len: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        let places = || (0..PLACES).map(|_| Vec::new()).collect();
        Wheel { near: places(), far: places(), tick: 0, len: 0 }
    }
}

impl Wheel {
    /// Longest time by which a timer may be late through the wheel's grain.
    pub const GRAIN: std::time::Duration = std::time::Duration::from_nanos(TICK_NS);

    /// Timers waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Will hand out `token` at `at`, never before it and at most a grain after it (provided that
    /// [`expire`](Self::expire) is called so often).
    pub fn insert(&mut self, at: Instant, token: u64) {
        let tick = at.nanos().div_ceil(TICK_NS).max(self.tick);
        self.len += 1;
        self.put(tick, token);
    }

    /// Moves all tokens whose time has come to `due`, oldest tick first.
    pub fn expire(&mut self, now: Instant, due: &mut Vec<u64>) {
        let end = now.nanos() / TICK_NS + 1;
        if self.len == 0 {
            self.tick = self.tick.max(end);
            return;
        }
        while self.tick < end {
            if self.tick.is_multiple_of(PLACES as u64) {
                self.cascade();
            }
            let place = (self.tick % PLACES as u64) as usize;
            let entries = std::mem::take(&mut self.near[place]);
            self.tick += 1;
            self.len -= entries.len();
            due.extend(entries.into_iter().map(|(_, token)| token));
        }
    }

    /// When [`expire`](Self::expire) is worth calling next; `None` when no timer waits.
    pub fn next(&self) -> Option<Instant> {
        if self.len == 0 {
            return None;
        }
        let turn = (self.tick / PLACES as u64 + 1) * PLACES as u64;
        let near = (self.tick..turn).find(|tick| !self.near[*tick as usize % PLACES].is_empty());
        Some(Instant::from_nanos(near.unwrap_or(turn) * TICK_NS))
    }

    fn put(&mut self, tick: u64, token: u64) {
        let turn = tick / PLACES as u64;
        let here = self.tick / PLACES as u64;
        // The current turn of the near wheel, unless its far place has yet to be cascaded.
        if turn == here && !(self.tick.is_multiple_of(PLACES as u64)) || tick == self.tick {
            self.near[(tick % PLACES as u64) as usize].push((tick, token));
        } else {
            let turn = turn.min(here + PLACES as u64 - 1);
            self.far[(turn % PLACES as u64) as usize].push((tick, token));
        }
    }

    fn cascade(&mut self) {
        let here = self.tick / PLACES as u64;
        let entries = std::mem::take(&mut self.far[(here % PLACES as u64) as usize]);
        for (tick, token) in entries {
            if tick / (PLACES as u64) <= here {
                self.near[(tick.max(self.tick) % PLACES as u64) as usize].push((tick, token));
            } else {
                self.put(tick, token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;
    use std::time::Duration;

    #[test]
    fn nothing_is_early_and_nothing_is_forgotten() {
        let mut wheel = Wheel::default();
        let mut rng = Prng::new(11);
        let mut now = Instant::from_nanos(0);
        let mut deadlines = Vec::new();
        let mut due = Vec::new();
        let mut seen = 0;
        for round in 0..6_000u64 {
            if round < 3_000 {
                let span = Duration::from_millis(rng.below(if round % 7 == 0 {
                    6_000_000
                } else {
                    40_000
                }));
                wheel.insert(now + span, deadlines.len() as u64);
                deadlines.push((now + span, false));
            }
            now = now + Duration::from_millis(rng.below(3_000));
            due.clear();
            wheel.expire(now, &mut due);
            for &token in &due {
                let (at, fired) = &mut deadlines[token as usize];
                assert!(!*fired && *at <= now, "token {token} early or twice");
                *fired = true;
                seen += 1;
            }
            for (at, fired) in &deadlines {
                assert!(*fired || *at + Wheel::GRAIN > now, "late by more than a grain");
            }
        }
        now = now + Duration::from_secs(10_000);
        due.clear();
        wheel.expire(now, &mut due);
        assert_eq!(seen + due.len(), deadlines.len());
        assert!(wheel.is_empty() && wheel.next().is_none());
    }

    #[test]
    fn next_is_never_after_the_first_deadline() {
        let mut rng = Prng::new(3);
        for _ in 0..300 {
            let mut wheel = Wheel::default();
            let mut due = Vec::new();
            let start = Instant::from_nanos(rng.below(1 << 40));
            wheel.expire(start, &mut due);
            let at = start + Duration::from_millis(rng.below(200_000));
            wheel.insert(at, 1);
            let mut calls = 0;
            while due.is_empty() {
                let next = wheel.next().expect("one waits");
                assert!(next <= at + Wheel::GRAIN);
                wheel.expire(next, &mut due);
                calls += 1;
                assert!(calls < 300, "next() must make progress");
            }
        }
    }
}

//! A timer wheel for short deadlines.
//!
//! Two wheels of 256 places: ticks of 64 ms for the next 16 s, then ticks of 16 s for the next
//! 70 minutes; what is further away waits at the far end and is put in again. An entry is a
//! deadline and a token of eight bytes. Timers are not cancelled: whoever owns the token looks
//! whether the call still means anything. Keep-alive of idle connections does not live here (it
//! would cost sixteen bytes each); `net` sweeps for it.

use crate::time::Instant;
use std::collections::VecDeque;

const PLACES: usize = 256;
const TICK_NS: u64 = 64_000_000;

/// Deadlines with tokens.
pub struct Wheel {
    near: Vec<Vec<(u64, u64)>>,
    /// Places of `near` that are not empty, a bit each: the next one is found without a look into
    /// any.
    taken: [u64; PLACES / 64],
    far: Vec<Vec<(u64, u64)>>,
    /// Tick up to which everything has been handed out, exclusive.
    tick: u64,
    len: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        let places = || (0..PLACES).map(|_| Vec::new()).collect();
        Wheel { near: places(), taken: [0; PLACES / 64], far: places(), tick: 0, len: 0 }
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
        self.expire_some(now, usize::MAX, due);
    }

    /// As [`expire`](Self::expire), but moves about `most` tokens at most. Returns true if there
    /// are more whose time may have come.
    pub fn expire_some(&mut self, now: Instant, most: usize, due: &mut Vec<u64>) -> bool {
        let end = now.nanos() / TICK_NS + 1;
        if self.len == 0 {
            self.tick = self.tick.max(end);
            return false;
        }
        let mut left = most;
        while self.tick < end {
            if self.tick.is_multiple_of(PLACES as u64) && !self.cascade(&mut left) {
                return true;
            }
            let place = (self.tick % PLACES as u64) as usize;
            if self.is_taken(place) {
                let entries = &mut self.near[place];
                let some = last_of(entries, &mut left);
                self.len -= some.len();
                due.extend(some.into_iter().map(|(_, token)| token));
                if !entries.is_empty() {
                    return true;
                }
                self.taken[place / 64] &= !(1 << (place % 64));
            }
            self.tick += 1;
        }
        false
    }

    /// When [`expire`](Self::expire) is worth calling next; `None` when no timer waits.
    pub fn next(&self) -> Option<Instant> {
        if self.len == 0 {
            return None;
        }
        let here = self.tick / PLACES as u64;
        let is_cascaded = self.far[here as usize % PLACES].is_empty();
        if self.tick.is_multiple_of(PLACES as u64) && !is_cascaded {
            return Some(Instant::from_nanos(self.tick * TICK_NS));
        }
        let turn = here * PLACES as u64;
        let place = self.next_taken((self.tick % PLACES as u64) as usize);
        Some(Instant::from_nanos((turn + place as u64) * TICK_NS))
    }

    /// The first place of the near wheel that is not empty, from this one on; if there is none, how
    /// many there are.
    fn next_taken(&self, from: usize) -> usize {
        let mut word = from / 64;
        let mut bits = self.taken[word] & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            let Some(next) = self.taken.get(word) else { return PLACES };
            bits = *next;
        }
        word * 64 + bits.trailing_zeros() as usize
    }

    fn is_taken(&self, place: usize) -> bool {
        self.taken[place / 64] & (1 << (place % 64)) != 0
    }

    fn put_near(&mut self, at: u64, entry: (u64, u64)) {
        let place = (at % PLACES as u64) as usize;
        self.near[place].push(entry);
        self.taken[place / 64] |= 1 << (place % 64);
    }

    fn put(&mut self, tick: u64, token: u64) {
        let turn = tick / PLACES as u64;
        let here = self.tick / PLACES as u64;
        // The current turn of the near wheel, unless its far place has yet to be cascaded.
        if turn == here && !(self.tick.is_multiple_of(PLACES as u64)) || tick == self.tick {
            self.put_near(tick, (tick, token));
        } else {
            let turn = turn.min(here + PLACES as u64 - 1);
            self.far[(turn % PLACES as u64) as usize].push((tick, token));
        }
    }

    /// Brings what is due in this turn near, as far as so many allow; true: that was all.
    fn cascade(&mut self, left: &mut usize) -> bool {
        let here = self.tick / PLACES as u64;
        let place = (here % PLACES as u64) as usize;
        for (tick, token) in last_of(&mut self.far[place], left) {
            if tick / (PLACES as u64) <= here {
                self.put_near(tick.max(self.tick), (tick, token));
            } else {
                self.put(tick, token);
            }
        }
        self.far[place].is_empty()
    }
}

/// Takes so many out of a place, all of them in their order.
fn last_of(place: &mut Vec<(u64, u64)>, left: &mut usize) -> Vec<(u64, u64)> {
    let first = place.len().saturating_sub(*left);
    *left -= place.len() - first;
    match first {
        0 => std::mem::take(place),
        first => place.split_off(first),
    }
}

/// Timers that are moved in one turn, to nearer places or to those that are due.
const MOVED_A_TURN_MAX: usize = 4_096;

/// A wheel that is turned by so much a turn, and what of it is due and was not handled yet.
#[derive(Default)]
pub struct Timers {
    wheel: Wheel,
    due: VecDeque<u64>,
    moved: Vec<u64>,
    has_more: bool,
}

impl Timers {
    /// Hands `token` out at `at`, or a little later.
    pub fn insert(&mut self, at: Instant, token: u64) {
        self.wheel.insert(at, token);
    }

    /// Turns the wheel, unless so many are due already that this turn has enough to do.
    pub fn advance(&mut self, now: Instant, enough: usize) {
        if self.due.len() < enough {
            let moved = &mut self.moved;
            self.has_more = self.wheel.expire_some(now, MOVED_A_TURN_MAX, moved);
            self.due.extend(moved.drain(..));
        }
    }

    /// The next token that is due.
    pub fn take(&mut self) -> Option<u64> {
        self.due.pop_front()
    }

    /// When to come back; `now`: there is more.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        match self.due.is_empty() && !self.has_more {
            true => self.wheel.next(),
            false => Some(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;
    use std::collections::BTreeSet;
    use std::time::Duration;

    #[test]
    fn many_at_once_are_handed_out_some_at_a_time() {
        let mut wheel = Wheel::default();
        let (now, later) = (Instant::from_nanos(0), Duration::from_secs(60));
        for token in 0..10_000 {
            wheel.insert(now + later, token);
        }
        let at = now + later + Wheel::GRAIN;
        let (mut due, mut calls) = (Vec::new(), 0);
        loop {
            let before = due.len();
            let goes_on = wheel.expire_some(at, 256, &mut due);
            assert!(due.len() - before <= 256);
            calls += 1;
            if !goes_on {
                break;
            }
            assert!(wheel.next().is_some_and(|next| next <= at), "it is to be called again");
        }
        due.sort_unstable();
        assert!(due.iter().copied().eq(0..10_000) && calls >= 40, "{calls} calls");
        assert!(wheel.is_empty());
    }

    #[test]
    fn what_is_far_and_due_at_once_is_said_to_be_next() {
        let mut wheel = Wheel::default();
        let turn = PLACES as u64 * TICK_NS;
        wheel.insert(Instant::from_nanos(turn + TICK_NS), 7);
        let mut due = Vec::new();
        wheel.expire(Instant::from_nanos(turn - 1), &mut due);
        assert!(due.is_empty());
        assert!(wheel.next().is_some_and(|next| next.nanos() <= turn + TICK_NS));
    }

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

    #[test]
    fn timers_are_moved_so_many_a_turn_and_handled_in_their_order() {
        let (mut timers, now) = (Timers::default(), Instant::from_nanos(10_000_000_000));
        let all = MOVED_A_TURN_MAX as u64 + 3;
        (0..all).for_each(|token| timers.insert(Instant::from_nanos(1), token));
        let (mut handled, mut turns) = (BTreeSet::new(), 0);
        while timers.next(now).is_some_and(|next| next <= now) {
            timers.advance(now, 1);
            let due: Vec<u64> = std::iter::from_fn(|| timers.take()).collect();
            assert!(due.len() <= MOVED_A_TURN_MAX);
            handled.extend(due);
            turns += 1;
        }
        assert!(turns > 1 && handled.len() as u64 == all, "{turns}, {}", handled.len());
        timers.insert(now + Duration::from_secs(1), 9);
        timers.advance(now, 1);
        assert!(timers.take().is_none() && timers.next(now).is_some_and(|next| next > now));
    }
}

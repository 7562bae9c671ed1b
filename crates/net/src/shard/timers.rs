//! What happens because time passes: wakes, keep-alive, the drain.
//!
//! Keep-alive costs no timer: the record says when something was last received, and a sweep looks
//! at a slice of the slab every quarter of a second, at all of it every four. Short deadlines are
//! in the wheel.

use super::{Conn, LetterOf, Shard};
use crate::desk::House;
use crate::transport::Net;
use base::slab::Key;
use base::time::Instant;
use model::close::CloseReason;
use model::machine::{Machine, TurnAway};
use model::request::Refusal;
use std::time::Duration;

/// Every connection is looked at once in this time: what keep-alive may be late by.
const SWEEP_PASS: Duration = Duration::from_secs(4);
/// Time between two slices.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
/// Records looked at in one turn.
const SWEEP_SLICE: u64 = 16 * 1024;
/// Time between two steps of a drain.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// Where the sweep is.
#[derive(Default)]
pub(super) struct Sweep {
    slot: u32,
    /// When the last slice was taken.
    at: Instant,
    /// Records still to look at before the next pause.
    owed: u64,
}

/// A drain under way.
pub(super) struct Drain {
    began: Instant,
    /// Connections when it began.
    total: u64,
    /// Those let go.
    gone: u64,
    slot: u32,
    next: Instant,
}

impl<N, S, H> Shard<N, H>
where
    H: House,
    N: Net<Socket = S, Letter = LetterOf<H, S>>,
    S: Send,
{
    pub(super) fn fire_timers(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expire(self.now.mono, &mut due);
        for token in due.drain(..) {
            self.wake(Key::unpack(token));
        }
        self.due = due;
    }

    fn wake(&mut self, key: Key) {
        let Some(conn) = self.conns.at(key) else { return };
        if conn.machine.is_some() {
            self.drive(key, |machine, now, out| machine.wake(now, out));
        } else if conn.has(Conn::<N, H>::DIALLED) {
            // A call came through and its layers are still not open.
            self.end(key, CloseReason::HandshakeTimeout);
        } else {
            // The listener's own deadline: the layers are still not open.
            let said_something = conn.extra.as_ref().is_some_and(|extra| {
                extra.layers.as_ref().is_some_and(|layers| layers.has_begun())
            });
            let reason = if said_something {
                CloseReason::HandshakeTimeout
            } else {
                CloseReason::BindTimeout
            };
            self.end(key, reason);
        }
        self.settle();
    }

    pub(super) fn next_sweep(&self) -> Option<Instant> {
        if self.conns.is_empty() {
            return None;
        }
        Some(if self.sweep.owed > 0 { self.now.mono } else { self.sweep.at + SWEEP_EVERY })
    }

    /// Looks at the next records for connections that were silent too long.
    pub(super) fn sweep_slice(&mut self) {
        let slots = u64::from(self.conns.slots());
        let elapsed = self.now.mono - self.sweep.at;
        if elapsed >= SWEEP_EVERY {
            let share = slots * elapsed.as_millis() as u64 / SWEEP_PASS.as_millis() as u64 + 1;
            self.sweep.owed = (self.sweep.owed + share).min(slots);
            self.sweep.at = self.now.mono;
            self.outbox.forget_frames();
        }
        let count = self.sweep.owed.min(SWEEP_SLICE);
        self.sweep.owed -= count;
        let now_s = self.now.secs();
        for _ in 0..count {
            if u64::from(self.sweep.slot) >= slots {
                self.sweep.slot = 0;
            }
            let slot = self.sweep.slot;
            self.sweep.slot += 1;
            let Some((key, conn)) = self.conns.tenant(slot) else { continue };
            let silent_s = now_s.saturating_sub(conn.last_s);
            // One that is not read is silent by our own will.
            let due = conn.silence_s != 0 && !conn.has(Conn::<N, H>::HELD);
            if due && silent_s > u32::from(conn.silence_s) {
                self.drive(key, |machine, now, out| machine.silent(now, out));
                self.settle();
            }
        }
    }

    /// Stops listening and begins to let connections go.
    pub(super) fn begin_drain(&mut self) {
        if self.drain.is_some() {
            return;
        }
        self.net.stop_listening();
        let began = self.now.mono;
        let total = self.conns.len() as u64;
        self.drain = Some(Drain { began, total, gone: 0, slot: 0, next: began });
    }

    pub(super) fn next_drain(&self) -> Option<Instant> {
        self.drain.as_ref().map(|drain| drain.next)
    }

    /// Lets as many go as the pace allows.
    pub(super) fn drain_slice(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        let span = Duration::from_millis(u64::from(self.settings.limits.drain_ms.max(1)));
        let elapsed = self.now.mono - drain.began;
        if elapsed >= span || self.conns.is_empty() {
            self.drain = None;
            // The last share, and whoever moved in meanwhile, are told like everybody before them.
            for slot in 0..self.conns.slots() {
                if let Some((key, _)) = self.conns.tenant(slot) {
                    self.let_go(key);
                }
            }
            return self.stop_now();
        }
        drain.next = self.now.mono + DRAIN_EVERY;
        let due = (drain.total as u128 * elapsed.as_millis() / span.as_millis()) as u64;
        let mut left = due.saturating_sub(drain.gone);
        drain.gone = due.max(drain.gone);
        while left > 0 {
            let Some(drain) = &mut self.drain else { return };
            if drain.slot >= self.conns.slots() {
                break;
            }
            let slot = drain.slot;
            drain.slot += 1;
            let Some((key, _)) = self.conns.tenant(slot) else { continue };
            left -= 1;
            self.let_go(key);
        }
    }

    fn let_go(&mut self, key: Key) {
        let away = TurnAway { why: Refusal::Draining, retry_after_ms: self.retry_after_ms() };
        if self.conns.at(key).is_some_and(|conn| conn.machine.is_some()) {
            self.drive(key, |machine, now, out| {
                machine.turn_away(now, away, out);
                Err(CloseReason::Draining)
            });
        } else {
            self.end(key, CloseReason::Draining);
        }
        self.settle();
    }
}

//! Timers of a shard: wakes, keep-alive, the drain.
//!
//! Keep-alive costs no timer: the record says when something was last received, and a sweep looks
//! at all of the slab every four seconds: at a slice of it every quarter of a second, or, of few
//! records, at all of them at once, for a processor that has nothing else to do is woken by each
//! look. That is late by no more than a sixth of the silence allowed, unless that is short: those
//! connections alone stand in a wheel besides, once each, and are looked at when their silence
//! would be over had they said nothing meanwhile. Nothing is armed again when something is
//! received. Short deadlines of machines are in a wheel of their own. Before one of them ends a
//! connection that is not bound, its socket is read: who spoke in time is not late because the
//! shard was busy with others.

use super::{Conn, Shard, ShardMessageOf};
use crate::connection::ConnectionRecord;
use crate::logic::{DrainOrder, OtherServers, ShardLogic};
use crate::transport::Net;
use base::slab::Key;
use base::time::Instant;
use model::close::CloseReason;
use model::machine::{Machine, OtherServer, TurnAway};
use model::request::Refusal;
use std::sync::Arc;
use std::time::Duration;

/// Every connection is looked at once in this time.
const SWEEP_PASS: Duration = Duration::from_secs(4);
/// Time between two slices of many records, and between two looks at few of which one holds a part
/// of a frame; the others are at rest for a pass.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
/// Records looked at in one turn.
const SWEEP_SLICE: u32 = 16 * 1024;
/// Number of records up to which all are looked at at once: no more of a turn than a slice.
const SWEPT_AT_ONCE_MAX: u32 = 8 * 1024;
/// A silence allowed that is shorter is looked at in its own time: of a longer one, a sixth is more
/// than the sweep may be late by, with three quarters of a second left for a busy shard.
const WATCHED_MS_MAX: u32 = 30_000;

const _: () = assert!(
    WATCHED_MS_MAX as u128 / 6 >= SWEEP_PASS.as_millis() + SWEEP_EVERY.as_millis() + 750,
    "what is not watched is ended within one and three quarters of its keep-alive"
);

/// Time after which a connection is woken again that could not be read when it was.
const HEAR_AGAIN: Duration = Duration::from_millis(100);

/// Time between two steps of a drain.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// Where the sweep is.
#[derive(Default)]
pub(super) struct Sweep {
    /// The next record to look at.
    slot: u32,
    /// When this pass began.
    began: Instant,
    /// When the last slice was taken.
    at: Instant,
    /// The record before which the slice ends.
    until: u32,
}

/// A drain under way.
pub(super) struct Drain {
    /// At its end the shard stops.
    stops: bool,
    began: Instant,
    /// Time over which it goes.
    span: Duration,
    /// Connections when it began.
    total: u64,
    /// Number of connections that were let go.
    gone: u64,
    slot: u32,
    next: Instant,
    /// Where those who go are sent.
    to: Arc<OtherServers>,
}

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
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
        if !self.hear_out(key) {
            return;
        }
        let Some(conn) = self.conns.at(key) else { return };
        if self.starting_until(key).is_some_and(|until| until <= self.now.mono) {
            // The TLS that its machine has ordered does not come about.
            self.end(key, CloseReason::HandshakeTimeout);
        } else if conn.machine.is_some() {
            self.drive(key, |machine, now, out| machine.wake(now, out));
        } else if conn.has(Conn::<N, H>::DIALLED) {
            // A call came through and its layers are still not open.
            self.end(key, CloseReason::HandshakeTimeout);
        } else {
            // The listener's own deadline: the layers are still not open.
            let reason = if has_begun(conn) {
                CloseReason::HandshakeTimeout
            } else {
                CloseReason::BindTimeout
            };
            self.end(key, reason);
        }
        self.settle();
    }

    /// Reads the socket of a connection that was accepted and is not bound, before its time is
    /// over. False: it is not over yet, for the connection ended, could not be read, or was heard
    /// for the first time only now, and has the time that it takes to open its layers from here on.
    fn hear_out(&mut self, key: Key) -> bool {
        let Some(conn) = self.conns.at(key) else { return false };
        if conn.has(Conn::<N, H>::BOUND | Conn::<N, H>::DIALLED | Conn::<N, H>::HELD) {
            return true;
        }
        let was_silent = conn.machine.is_none() && !has_begun(conn);
        self.read(key, false);
        self.feed_again();
        let now_ms = self.now.ms_wrapping();
        let twice_ms = self.settings.limits.bind_ms_max.saturating_mul(2);
        let Some(conn) = self.conns.at(key) else { return false };
        let silent_ms = now_ms.wrapping_sub(conn.last_ms);
        // It was put off by the shard's own will, and not because its peer says too much. Where
        // others use up the handshakes of each turn, only who was never heard is waited for. In
        // neither case for ever: a byte now and then extends nothing, and a shard that reads nobody
        // any more must not keep everybody.
        let is_patient = (self.congested || !has_begun(conn)) && silent_ms < twice_ms;
        if conn.has(Conn::<N, H>::DEFERRED) && silent_ms > 0 && is_patient {
            self.wheel.insert(self.now.after(HEAR_AGAIN), key.pack());
            return false;
        }
        if was_silent && conn.machine.is_none() && has_begun(conn) {
            self.limit_opening(key);
            return false;
        }
        true
    }

    /// A machine and its peer have agreed on how long the peer may be silent.
    pub(super) fn agree_on_silence(&mut self, key: Key, silence_ms: u32) {
        let now_ms = self.now.ms_wrapping();
        let Some(conn) = self.conns.at_mut(key) else { return };
        conn.silence_ms = silence_ms;
        let phase = conn.machine.as_ref().and_then(H::login_phase);
        if let Some(phase) = phase.filter(|_| !conn.has(Conn::<N, H>::BOUND)) {
            let lasted_ms = now_ms.wrapping_sub(conn.last_ms);
            let lasted = Duration::from_millis(lasted_ms.into());
            self.handle.counters.lasted(phase, lasted);
        }
        conn.flags |= Conn::<N, H>::BOUND;
        // One that is watched already is looked at by its earlier agreement first, or swept.
        if !conn.has(Conn::<N, H>::WATCHED) {
            self.look_again(key);
        }
    }

    /// Watches a connection whose silence is too short for the sweep.
    pub(super) fn look_again(&mut self, key: Key) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        let is_short = (1..WATCHED_MS_MAX).contains(&conn.silence_ms);
        conn.flags &= !Conn::<N, H>::WATCHED;
        if !is_short {
            return;
        }
        conn.flags |= Conn::<N, H>::WATCHED;
        let silent_ms = self.now.ms_wrapping().wrapping_sub(conn.last_ms);
        // One that is held is not due, however long it was not heard.
        let left_ms = conn.silence_ms.checked_sub(silent_ms).unwrap_or(conn.silence_ms) + 1;
        self.looks.insert(self.now.after(Duration::from_millis(left_ms.into())), key.pack());
    }

    /// Looks at those whose silence would be over now, had they said nothing.
    pub(super) fn look_closely(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.looks.expire(self.now.mono, &mut due);
        for token in due.drain(..) {
            let key = Key::unpack(token);
            self.end_if_silent(key);
            self.look_again(key);
        }
        self.due = due;
    }

    /// Tells the machine of a connection that was silent too long. One that is not read is silent
    /// by our own will.
    fn end_if_silent(&mut self, key: Key) {
        let Some(conn) = self.conns.at(key) else { return };
        let may_be = conn.silence_ms == 0 || conn.has(Conn::<N, H>::HELD);
        if !may_be && self.now.ms_wrapping().wrapping_sub(conn.last_ms) > conn.silence_ms {
            self.drive(key, |machine, now, out| machine.silent(now, out));
            self.settle();
        }
    }

    pub(super) fn next_sweep(&self) -> Option<Instant> {
        if self.conns.is_empty() {
            return None;
        }
        let goes_on = self.sweep.slot < self.sweep.until;
        Some(if goes_on { self.now.mono } else { self.sweep.at + self.sweep_every() })
    }

    /// Time between two looks.
    fn sweep_every(&self) -> Duration {
        let is_at_rest = self.sweeps_at_once() && self.partial_bytes == 0;
        if is_at_rest { SWEEP_PASS } else { SWEEP_EVERY }
    }

    /// Slots are never fewer than they were, so this ends and does not begin again.
    fn sweeps_at_once(&self) -> bool {
        self.conns.slots() <= SWEPT_AT_ONCE_MAX
    }

    /// Looks at the next records for connections that were silent too long. How far a pass has come
    /// follows from when it began, so that a record is never further from its last look than a
    /// pass takes, however many come meanwhile.
    pub(super) fn sweep_slice(&mut self) {
        let every = self.sweep_every();
        if self.now.mono - self.sweep.at >= every {
            // Shards of one thread sweep at the same moments: one wake-up serves all.
            let since = self.now.mono.nanos() % every.as_nanos() as u64;
            self.sweep.at = Instant::from_nanos(self.now.mono.nanos() - since);
            self.outbox.forget_frames();
            // Others may hold too much because this shard does.
            self.shed();
            if self.sweeps_at_once() {
                // Where few become many, the pass goes on from here.
                self.look_at(0..self.conns.slots());
                self.sweep.began = self.now.mono;
            } else {
                self.sweep.until = self.sweep_until();
            }
        }
        let last = self.sweep.until.min(self.sweep.slot.saturating_add(SWEEP_SLICE));
        self.look_at(self.sweep.slot..last);
        self.sweep.slot = last;
        let elapsed = self.now.mono - self.sweep.began;
        if elapsed >= SWEEP_PASS && self.sweep.slot >= self.sweep.until {
            // A shard that was away for longer does not make up for it.
            let late = elapsed - SWEEP_PASS;
            let on_time = late < SWEEP_EVERY;
            self.sweep.began = if on_time { self.sweep.began + SWEEP_PASS } else { self.now.mono };
            (self.sweep.slot, self.sweep.until) = (0, 0);
        }
    }

    /// The record before which a pass is to have come by now.
    fn sweep_until(&self) -> u32 {
        let slots = self.conns.slots();
        let elapsed = self.now.mono - self.sweep.began;
        let (part, whole) = (elapsed.as_millis() as u64, SWEEP_PASS.as_millis() as u64);
        let share = u64::from(slots) * part.min(whole) / whole;
        self.sweep.until.max(share as u32).min(slots)
    }

    fn look_at(&mut self, slots: std::ops::Range<u32>) {
        for slot in slots {
            let Some((key, conn)) = self.conns.tenant(slot) else { continue };
            if self.is_stuck(conn) {
                self.end(key, CloseReason::FrameTimeout);
                self.settle();
                continue;
            }
            self.end_if_silent(key);
        }
    }

    /// Begins to let connections go, or ends that. A shard that is to stop stops listening, and
    /// nothing ends its drain any more.
    pub(super) fn order_drain(&mut self, order: DrainOrder) {
        if self.drain.as_ref().is_some_and(|drain| drain.stops) {
            return;
        }
        let (over_ms, stops, to) = match order {
            DrainOrder::Stop { over_ms, to } => (over_ms, true, to),
            DrainOrder::Evacuate { over_ms } => (over_ms, false, Arc::default()),
            DrainOrder::Stay => return self.drain = None,
        };
        if stops {
            self.net.stop_listening();
        }
        let began = self.now.mono;
        let total = self.conns.len() as u64;
        let span = Duration::from_millis(u64::from(over_ms.max(1)));
        self.drain = Some(Drain { stops, began, span, total, gone: 0, slot: 0, next: began, to });
    }

    /// Whether it has stopped, or will when its connections are gone.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopped || self.drain.as_ref().is_some_and(|drain| drain.stops)
    }

    pub(super) fn next_drain(&self) -> Option<Instant> {
        self.drain.as_ref().map(|drain| drain.next)
    }

    /// Lets as many go as the pace allows.
    pub(super) fn drain_slice(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        let (span, stops) = (drain.span, drain.stops);
        let elapsed = self.now.mono - drain.began;
        let to = Arc::clone(&drain.to);
        if elapsed >= span || self.conns.is_empty() {
            self.drain = None;
            // The last share, and whoever moved in meanwhile, are told like everybody before them.
            for slot in 0..self.conns.slots() {
                if let Some((key, _)) = self.conns.tenant(slot) {
                    self.let_go(key, &to);
                }
            }
            if stops {
                self.stop_now();
            }
            return;
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
            self.let_go(key, &to);
        }
    }

    fn let_go(&mut self, key: Key, to: &OtherServers) {
        let door = self.conns.at(key).map(|conn| conn.door);
        let server = door.and_then(|door| to.get(self.listener(door)));
        let server = server.map(|(address, denial)| OtherServer { address, denial: *denial });
        let away = TurnAway { server, ..TurnAway::of(Refusal::Draining, self.retry_after_ms()) };
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

/// Whether the peer of a connection whose layers open has said something.
fn has_begun<M, S>(conn: &ConnectionRecord<M, S>) -> bool {
    let layers = conn.extra.as_ref().and_then(|extra| extra.layers.as_ref());
    layers.is_some_and(|layers| layers.has_begun())
}

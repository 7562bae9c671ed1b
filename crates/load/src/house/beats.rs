//! When pilots beat, and their timers.
//!
//! Timers are a heap of exact times: a heartbeat's pace is what is measured here, so the grain of
//! a wheel would show. A pilot has one timer that counts; those it had before are ignored.

use super::{Desk, PilotHouse};
use crate::pace::Schedule;
use crate::pilot::State;
use crate::plan::{Heartbeat, Think};
use crate::snapshot::note;
use base::time::{Instant, Now};
use model::id::ConnRef;
use model::pilot::Action;
use std::cmp::Reverse;
use std::time::Duration;

/// Timers and planned heartbeats served in one turn. More wait a turn.
const BEATS_PER_TURN: usize = 1_024;
/// Multiplied with a device's number it spreads neighbours evenly over 32 bits.
const SPREAD: u32 = 0x9e37_79b9;

impl PilotHouse {
    pub(super) fn arm(&mut self, pilot: u32, at: Instant) {
        let this = self.at(pilot);
        this.timer = this.timer.wrapping_add(1);
        let timer = this.timer;
        self.timers.push(Reverse((at, pilot, timer)));
    }

    pub(super) fn fire_timers(&mut self, now: Now, desk: &mut Desk) {
        for _ in 0..BEATS_PER_TURN {
            let Some(Reverse((at, pilot, timer))) = self.timers.peek().copied() else { break };
            if at > now.mono {
                break;
            }
            self.timers.pop();
            let this = self.at(pilot);
            if this.timer != timer {
                continue;
            }
            match this.state {
                State::Away => self.call(pilot, now.mono, desk),
                State::Online => self.beat(now, pilot, at, desk),
                _ => {}
            }
        }
    }

    /// What a pilot does once it is bound.
    pub(super) fn first_beat(&mut self, now: Now, pilot: u32, desk: &mut Desk) {
        match &self.plan.heartbeat {
            Heartbeat::Agreed | Heartbeat::Never => self.rearm(now.mono, pilot),
            Heartbeat::Every(span) => {
                let part = self.number(pilot).wrapping_mul(SPREAD);
                let wait = span.mul_f64(f64::from(part) / f64::from(u32::MAX));
                self.arm(pilot, now.after(wait));
            }
            Heartbeat::ClosedLoop(_) => self.think(now, pilot, desk),
            Heartbeat::Rate(rate) => {
                // The plan begins with the first device that can follow it.
                let rate = self.share_of(*rate);
                self.beats.get_or_insert_with(|| Schedule::new(now.mono, rate));
                self.idle.push_back(pilot);
            }
        }
    }

    /// A timer says that it is time to beat; `at` is when it was meant to.
    fn beat(&mut self, now: Now, pilot: u32, at: Instant, desk: &mut Desk) {
        if self.at(pilot).pinging {
            self.log.skipped_beats += 1;
        } else {
            self.ping(pilot, now.mono, desk);
        }
        self.rearm(at, pilot);
    }

    /// Sets the next beat after that of `at`, where beats follow a clock.
    fn rearm(&mut self, at: Instant, pilot: u32) {
        let span = match self.plan.heartbeat {
            Heartbeat::Agreed => Duration::from_secs(u64::from(self.at(pilot).heartbeat_s.max(1))),
            Heartbeat::Every(span) => span,
            _ => return,
        };
        self.arm(pilot, at + span);
    }

    /// Sends a heartbeat whose time is `at`, unless one is under way.
    pub(super) fn ping(&mut self, pilot: u32, at: Instant, desk: &mut Desk) {
        let this = self.at(pilot);
        if std::mem::replace(&mut this.pinging, true) {
            return;
        }
        this.since = at;
        let conn = ConnRef::from_bits(this.conn);
        self.log.pings += 1;
        self.log.open_pings += 1;
        desk.deliver(conn, Action::Ping);
    }

    pub(super) fn pong(&mut self, now: Now, pilot: u32, desk: &mut Desk) {
        let timeout = self.plan.timeout;
        let this = &mut self.pilots[pilot as usize];
        if this.state != State::Online || !std::mem::take(&mut this.pinging) {
            self.log.unasked_pongs += 1;
            return;
        }
        let spent = now.mono - this.since;
        let overdue = std::mem::take(&mut this.overdue);
        let late = overdue || spent > timeout;
        self.log.open_pings -= 1;
        self.log.unanswered += u64::from(late && !overdue); // the sweep had not come by yet
        *(if late { &mut self.log.late_pongs } else { &mut self.log.pongs }) += 1;
        note(&mut self.log.heartbeat_us, spent.as_micros() as u64);
        match self.plan.heartbeat {
            Heartbeat::ClosedLoop(_) => self.think(now, pilot, desk),
            Heartbeat::Rate(_) => self.idle.push_back(pilot),
            _ => {}
        }
    }

    /// The next request of a closed loop: after its think time.
    fn think(&mut self, now: Now, pilot: u32, desk: &mut Desk) {
        let number = self.number(pilot);
        let wait = match &self.plan.heartbeat {
            Heartbeat::ClosedLoop(Think::Fixed(span)) => *span,
            Heartbeat::ClosedLoop(Think::Drawn(draw)) => draw(number),
            _ => return,
        };
        if wait.is_zero() {
            self.ping(pilot, now.mono, desk);
        } else {
            self.arm(pilot, now.after(wait));
        }
    }

    /// Sends the heartbeats whose planned time has come, as far as pilots are free.
    pub(super) fn beat_by_plan(&mut self, now: Now, desk: &mut Desk) {
        for _ in 0..BEATS_PER_TURN {
            if self.idle.is_empty() || !self.beats.as_ref().is_some_and(|p| p.is_due(now.mono)) {
                break;
            }
            let Some(pilot) = self.idle.pop_front() else { break };
            let this = self.at(pilot);
            if this.state != State::Online || this.pinging {
                continue;
            }
            let Some(at) = self.beats.as_mut().map(Schedule::take) else { break };
            self.ping(pilot, at, desk);
        }
    }
}

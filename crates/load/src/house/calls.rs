//! How pilots come, are told no, go, and come back.

use super::{Desk, PilotHouse};
use crate::pilot::{Seat, State};
use crate::plan::Reconnect;
use crate::snapshot::note;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ConnRef;
use net::Dial;
use proto_miop::client::Client;
use std::time::Duration;

/// Calls made in one turn. More wait a turn, so that answers are not measured late.
const CALLS_PER_TURN: usize = 64;
/// Refusals that no waiting changes (MIOP 7: 20 to 29).
const PERMANENT: std::ops::Range<u32> = 20..30;

impl PilotHouse {
    /// Makes first calls: as planned, or as many as there is room for.
    pub(super) fn call_up(&mut self, now: Now, desk: &mut Desk) {
        for _ in 0..CALLS_PER_TURN {
            if self.called == self.pilots.len() {
                break;
            }
            let room = self.has_room();
            let at = match &mut self.connects {
                Some(plan) if plan.is_due(now.mono) => plan.take(),
                None if room => now.mono,
                _ => break,
            };
            let pilot = self.called as u32;
            self.called += 1;
            self.call(pilot, at, desk);
        }
    }

    /// Whether the window lets another pilot connect.
    pub(super) fn has_room(&self) -> bool {
        let (threads, thread) = (u32::from(self.plan.threads), u32::from(self.share.thread));
        let window = (self.plan.window + threads - 1 - thread) / threads;
        self.log.connecting + self.log.asking < u64::from(window.max(1))
    }

    pub(super) fn call(&mut self, pilot: u32, at: Instant, desk: &mut Desk) {
        let index = self.index(pilot) as usize;
        let this = self.at(pilot);
        this.state = State::Calling;
        this.since = at;
        let again = std::mem::replace(&mut this.called, true);
        self.log.reconnects += u64::from(again);
        self.log.attempts += 1;
        self.log.connecting += 1;
        let sources = &self.share.sources;
        desk.dial(Dial {
            to: self.plan.to[index % self.plan.to.len()],
            from: (!sources.is_empty()).then(|| sources[index % sources.len()]),
            layers: self.plan.layers.clone(),
            tag: u64::from(pilot),
        });
    }

    /// The layers are open; the Bind goes out now.
    pub(super) fn established(&mut self, now: Now, pilot: u32) -> Seat {
        let number = self.number(pilot);
        let this = self.at(pilot);
        let spent = now.mono - this.since;
        this.state = State::Asking;
        this.since = now.mono;
        self.log.connecting -= 1;
        self.log.asking += 1;
        self.log.established += 1;
        note(&mut self.log.connect_us, spent.as_micros() as u64);
        let client = self.resting.remove(&pilot).unwrap_or_else(|| {
            let this = &mut self.pilots[pilot as usize];
            (this.sent, this.settled, this.refused) = (0, 0, 0);
            Client::new(self.plan.profile.clone(), number)
        });
        Seat::new(client, pilot)
    }

    pub(super) fn bound(
        &mut self,
        now: Now,
        pilot: u32,
        resumed: bool,
        heartbeat_s: u16,
        desk: &mut Desk,
    ) {
        let this = self.at(pilot);
        if this.state != State::Asking {
            return;
        }
        this.state = State::Online;
        this.heartbeat_s = heartbeat_s;
        this.tries = 0;
        let spent = now.mono - this.since;
        self.log.asking -= 1;
        self.log.bound += 1;
        self.log.online_now += 1;
        self.log.resumed += u64::from(resumed);
        note(&mut self.log.bind_us, spent.as_micros() as u64);
        self.first_beat(now, pilot, desk);
        self.fill_window(now, pilot, desk);
    }

    pub(super) fn refused(
        &mut self,
        now: Now,
        pilot: u32,
        code: u32,
        retry_after_ms: u32,
        desk: &mut Desk,
    ) {
        if self.at(pilot).state != State::Asking {
            return;
        }
        self.log.asking -= 1;
        self.log.refused.count(code);
        self.leave(now, pilot, retry_after_ms, desk);
        self.at(pilot).farewell |= PERMANENT.contains(&code);
    }

    pub(super) fn kicked(&mut self, now: Now, pilot: u32, code: u32, desk: &mut Desk) {
        if self.at(pilot).state == State::Online {
            self.log.kicked.count(code);
            self.offline(pilot);
            self.leave(now, pilot, 0, desk);
        }
    }

    /// A pilot that would not come back stays as long as it may.
    pub(super) fn go_away(&mut self, now: Now, pilot: u32, retry_after_ms: u32, desk: &mut Desk) {
        self.log.go_aways += 1;
        if self.at(pilot).state == State::Online && self.plan.reconnect != Reconnect::Never {
            self.log.closed.count(CloseReason::Redirected);
            self.offline(pilot);
            self.leave(now, pilot, retry_after_ms, desk);
        }
    }

    /// Its outcome is counted: it ends its connection, and comes back no sooner than told.
    fn leave(&mut self, now: Now, pilot: u32, retry_after_ms: u32, desk: &mut Desk) {
        let this = self.at(pilot);
        this.state = State::Leaving;
        this.since = now.after(Duration::from_millis(u64::from(retry_after_ms)));
        desk.close(ConnRef::from_bits(this.conn), CloseReason::OwnStop);
    }

    pub(super) fn connection_ended(&mut self, now: Now, seat: &Seat, reason: CloseReason) {
        let pilot = seat.pilot;
        match self.at(pilot).state {
            State::Asking => {
                self.log.asking -= 1;
                self.log.bind_failed.count(reason);
                self.at(pilot).since = now.mono;
            }
            State::Online => {
                self.log.closed.count(reason);
                self.offline(pilot);
                self.at(pilot).since = now.mono;
            }
            State::Leaving => {}
            State::Away | State::Calling | State::Gone => return,
        }
        if self.come_back(now, pilot)
            && let Some(client) = seat.vacate()
        {
            self.resting.insert(pilot, client);
        }
    }

    pub(super) fn not_connected(&mut self, now: Now, pilot: u32, reason: CloseReason) {
        let this = self.at(pilot);
        if this.state != State::Calling {
            return;
        }
        this.since = now.mono;
        self.log.connecting -= 1;
        self.log.connect_failed.count(reason);
        self.come_back(now, pilot);
    }

    /// What was under way on a bound connection is lost.
    fn offline(&mut self, pilot: u32) {
        let this = &mut self.pilots[pilot as usize];
        let open = u64::from(this.open_reports());
        this.settled = this.sent;
        this.refused_open = 0;
        this.timed = 0;
        self.log.online_now -= 1;
        self.log.open_reports -= open;
        self.log.lost_reports += open;
        if std::mem::take(&mut this.pinging) {
            self.log.open_pings -= 1;
            self.log.lost_pings += 1;
        }
        this.overdue = false;
    }

    /// Sets the time of a pilot's return; false when it stays away.
    fn come_back(&mut self, now: Now, pilot: u32) -> bool {
        let this = &mut self.pilots[pilot as usize];
        this.state = State::Away;
        this.timer = this.timer.wrapping_add(1);
        let Reconnect::Backoff { base, max } = self.plan.reconnect else {
            return self.gone(pilot);
        };
        if this.farewell || self.stopping {
            return self.gone(pilot);
        }
        let wait = base.saturating_mul(1 << this.tries.min(20)).min(max);
        this.tries = this.tries.saturating_add(1);
        let half = wait / 2;
        let drawn = Duration::from_nanos(self.jitter.below(half.as_nanos() as u64 + 1));
        let at = this.since.max(now.mono) + half + drawn;
        self.arm(pilot, at);
        true
    }

    fn gone(&mut self, pilot: u32) -> bool {
        self.at(pilot).state = State::Gone;
        self.log.over += 1;
        false
    }
}

//! How clients come, are told no, go, and come back.
//!
//! Unlike wrk's own, a client whose call or connection failed waits before it comes back, each time
//! longer. One whose server said that it would close comes back at once: that is no failure.

use super::{Asked, ShardHandle, State, WrkLogic, WrkProtocol};
use crate::client_slot::{ClientSlot, ProtocolMachine};
use base::time::{Instant, Now};
use lab::cause::{Cause, Phase};
use lab::timing::Timing;
use load::cause;
use load::http::AnswerReader;
use model::close::CloseReason;
use model::id::ConnRef;
use net::Dial;
use std::cmp::Reverse;
use std::time::Duration;

/// Calls made in one turn. More wait a turn, so that answers are not measured late.
const CALLS_PER_TURN: usize = 64;
/// Clients looked at in one tick, at least; a tenth of all if that is more.
const SWEEP_SLICE: usize = 4_096;
/// Refusals of MIOP that no waiting changes.
const PERMANENT: std::ops::Range<u32> = 20..30;
/// Most kinds of codes that are told apart.
const CODES_MAX: usize = 64;

impl WrkLogic {
    /// Makes first calls, as many as there is room for.
    pub(super) fn call_up(&mut self, handle: &mut ShardHandle, now: Now) {
        for _ in 0..CALLS_PER_TURN {
            if self.next_call == self.virtual_clients.len() || !self.has_room() {
                break;
            }
            self.next_call += 1;
            self.call(self.next_call as u32 - 1, now.mono, handle);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.log.connecting + self.log.asking < self.job.window
    }

    pub(super) fn call(&mut self, virtual_client: u32, at: Instant, handle: &mut ShardHandle) {
        let index = self.number(virtual_client) as usize;
        let this = self.at(virtual_client);
        this.state = State::Calling;
        (this.since, this.planned) = (at, at);
        let again = std::mem::replace(&mut this.called, true);
        self.log.reconnects += u64::from(again);
        self.log.attempts += 1;
        self.log.connecting += 1;
        let sources = &self.job.sources;
        handle.dial(Dial {
            to: self.share.addr(),
            from: (!sources.is_empty()).then(|| sources[index % sources.len()]),
            layers: self.job.layers.clone(),
            tag: u64::from(virtual_client),
        });
    }

    pub(super) fn tcp_stands(&mut self, now: Now, virtual_client: u32) {
        let this = self.at(virtual_client);
        if this.state == State::Calling {
            let spent = now.mono - this.since;
            this.planned = now.mono;
            self.log.timings.at(Timing::Connect).note(spent.as_micros() as u64);
        }
    }

    /// The layers are open: a Bind goes out now, or the first request in the next turn.
    pub(super) fn established(&mut self, now: Now, virtual_client: u32) -> ClientSlot {
        let number = self.number(virtual_client);
        let layered = self.job.layers.tls.is_some() || self.job.layers.web_socket.is_some();
        let this = self.at(virtual_client);
        let spent = now.mono - this.planned;
        (this.since, this.planned) = (now.mono, now.mono);
        if layered {
            self.log.timings.at(Timing::Layers).note(spent.as_micros() as u64);
        }
        self.log.connecting -= 1;
        self.log.established += 1;
        if self.wants.connect {
            self.script(|script| script.connect(number));
        }
        let keeps = self.wants.response;
        let wire = match &self.job.kind {
            WrkProtocol::Http => ProtocolMachine::Http(Box::new(AnswerReader::new(keeps))),
            WrkProtocol::Tcp(end) => ProtocolMachine::Tcp { end: end.clone(), keeps, open: 0 },
            WrkProtocol::Miop(profile) => {
                let client = proto_miop::client::Client::new(profile.clone(), number);
                ProtocolMachine::Miop(client, self.scratch.clone())
            }
            WrkProtocol::Mqtt(profile, _) => {
                let client = proto_mqtt::client::Client::new(profile.clone(), number);
                ProtocolMachine::Mqtt(Box::new(client), self.scratch.clone())
            }
        };
        if matches!(wire, ProtocolMachine::Http(_) | ProtocolMachine::Tcp { .. }) {
            self.online(virtual_client);
            self.next(now, virtual_client);
        } else {
            let this = self.at(virtual_client);
            (this.state, this.asked) = (State::Asking, Asked::Bind);
            (this.open, this.overdue) = (1, false);
            self.log.asking += 1;
            self.log.sent += 1;
            self.log.open += 1;
        }
        ClientSlot { wire, virtual_client, unwritten: 0 }
    }

    fn online(&mut self, virtual_client: u32) {
        let this = self.at(virtual_client);
        this.state = State::Online;
        let first = !std::mem::replace(&mut this.been, true);
        self.log.bound += 1;
        self.log.online += 1;
        self.arrived += usize::from(first);
        if first && self.arrived == self.virtual_clients.len() {
            self.stage("steady");
        }
    }

    pub(super) fn bound(&mut self, now: Now, virtual_client: u32) {
        let this = self.at(virtual_client);
        if this.state != State::Asking {
            return;
        }
        self.log.asking -= 1;
        self.online(virtual_client);
        self.answered(now, virtual_client, (0, &[], &[]), true);
    }

    pub(super) fn refused(
        &mut self,
        now: Now,
        virtual_client: u32,
        (code, retry_after_ms): (u32, u32),
        handle: &mut ShardHandle,
    ) {
        if self.at(virtual_client).state != State::Asking {
            return;
        }
        self.note_code(&format!("refused {code}"));
        self.log.asking -= 1;
        self.settle(now, virtual_client, (code, &[], &[]));
        let permanent = matches!(self.job.kind, WrkProtocol::Miop(_)) && PERMANENT.contains(&code);
        self.go(now, virtual_client, (Phase::Bind, Cause::BindRefused), retry_after_ms, handle);
        if permanent {
            self.at(virtual_client).state = State::Gone;
        }
    }

    pub(super) fn kicked(
        &mut self,
        now: Now,
        virtual_client: u32,
        code: u32,
        handle: &mut ShardHandle,
    ) {
        if self.at(virtual_client).state == State::Online {
            self.note_code(&format!("kicked {code}"));
        }
        self.leave(now, virtual_client, (Phase::Online, Cause::Kicked), 0, handle);
    }

    /// A client that is online goes, for this cause; it comes back no sooner than told.
    pub(super) fn leave(
        &mut self,
        now: Now,
        virtual_client: u32,
        why: (Phase, Cause),
        retry_after_ms: u32,
        handle: &mut ShardHandle,
    ) {
        if self.at(virtual_client).state == State::Online {
            self.offline(virtual_client);
            self.go(now, virtual_client, why, retry_after_ms, handle);
        }
    }

    /// Its outcome is counted: its connection ends.
    fn go(
        &mut self,
        now: Now,
        virtual_client: u32,
        (phase, cause): (Phase, Cause),
        retry_after_ms: u32,
        handle: &mut ShardHandle,
    ) {
        self.count_end(virtual_client, phase, cause);
        let this = self.at(virtual_client);
        this.state = State::Leaving;
        this.since = now.after(Duration::from_millis(u64::from(retry_after_ms)));
        if cause == Cause::Farewell {
            this.tries = 0;
            this.since = Instant::from_nanos(0); // at once
        }
        handle.close(ConnRef::from_bits(this.conn), CloseReason::OwnStop);
    }

    pub(super) fn connection_ended(
        &mut self,
        now: Now,
        virtual_client: u32,
        reason: CloseReason,
        handle: &mut ShardHandle,
    ) {
        let detail = handle.detail();
        let phase = match self.at(virtual_client).state {
            State::Asking => {
                self.log.asking -= 1;
                self.lose(virtual_client);
                Phase::Bind
            }
            State::Online => {
                self.offline(virtual_client);
                Phase::Online
            }
            State::Leaving => return self.come_back(now, virtual_client),
            State::Away | State::Calling | State::Gone => return,
        };
        self.note_detail(detail);
        self.count_end(virtual_client, phase, cause::of(phase, reason, detail));
        self.at(virtual_client).since = now.mono;
        self.come_back(now, virtual_client);
    }

    pub(super) fn not_connected(
        &mut self,
        now: Now,
        virtual_client: u32,
        reason: CloseReason,
        handle: &mut ShardHandle,
    ) {
        if self.at(virtual_client).state != State::Calling {
            return;
        }
        let (detail, phase) = (handle.detail(), cause::phase_of(handle.reached()));
        // A call that was reset when all was open has asked nothing yet.
        let phase = if phase == Phase::Bind { Phase::Layers } else { phase };
        self.log.connecting -= 1;
        self.note_detail(detail);
        self.count_end(virtual_client, phase, cause::of(phase, reason, detail));
        self.at(virtual_client).since = now.mono;
        self.come_back(now, virtual_client);
    }

    fn note_detail(&mut self, detail: net::Detail) {
        if let Some(word) = cause::word(detail) {
            self.note_code(&word);
        }
    }

    fn note_code(&mut self, code: &str) {
        if self.log.codes.len() < CODES_MAX || self.log.codes.contains_key(code) {
            *self.log.codes.entry(code.to_owned()).or_default() += 1;
        }
    }

    fn count_end(&mut self, virtual_client: u32, phase: Phase, cause: Cause) {
        self.log.causes.count(phase, cause);
        if self.wants.disconnect && !self.stopping {
            let number = self.number(virtual_client);
            self.script(|script| script.disconnect(number, cause.name()));
        }
    }

    /// What was under way on a connection is lost.
    fn offline(&mut self, virtual_client: u32) {
        self.log.online -= 1;
        self.lose(virtual_client);
    }

    /// Sets the time of a client's return.
    fn come_back(&mut self, now: Now, virtual_client: u32) {
        let (base, max) = self.job.backoff;
        let this = &mut self.virtual_clients[virtual_client as usize];
        this.timer = this.timer.wrapping_add(1);
        if self.stopping {
            this.state = State::Gone;
            return;
        }
        this.state = State::Away;
        if this.since == Instant::from_nanos(0) {
            return self.arm(virtual_client, now.mono);
        }
        let wait = base.saturating_mul(1 << this.tries.min(20)).min(max);
        this.tries = this.tries.saturating_add(1);
        let half = wait / 2;
        let drawn = Duration::from_nanos(self.jitter.below(half.as_nanos() as u64 + 1));
        let at = this.since.max(now.mono) + half + drawn;
        self.arm(virtual_client, at);
    }

    /// Calls clients that come back, and lets those ask whose delay is over.
    pub(super) fn fire_timers(&mut self, now: Now, handle: &mut ShardHandle) {
        while let Some(&Reverse((at, virtual_client, timer))) = self.timers.peek() {
            if at > now.mono {
                break;
            }
            self.timers.pop();
            let this = self.at(virtual_client);
            if this.timer != timer {
                continue;
            }
            match this.state {
                State::Away => self.call(virtual_client, now.mono, handle),
                State::Online => self.ready.push_back(virtual_client),
                _ => {}
            }
        }
    }

    /// Looks at some clients for answers that are overdue: at each at least once a second.
    pub(super) fn sweep(&mut self, now: Now, handle: &mut ShardHandle) {
        let most =
            SWEEP_SLICE.max(self.virtual_clients.len() / 10 + 1).min(self.virtual_clients.len());
        let timeout = self.job.timeout;
        for _ in 0..most {
            self.swept = (self.swept + 1) % self.virtual_clients.len();
            let this = &mut self.virtual_clients[self.swept];
            if now.mono - this.since <= timeout {
                continue;
            }
            let conn = ConnRef::from_bits(this.conn);
            match this.state {
                State::Calling => handle.close(conn, CloseReason::TimedOut),
                State::Asking => handle.close(conn, CloseReason::BindTimeout),
                State::Online if this.open > 0 && !this.overdue => {
                    this.overdue = true;
                    self.log.unanswered += 1;
                }
                _ => {}
            }
        }
    }
}

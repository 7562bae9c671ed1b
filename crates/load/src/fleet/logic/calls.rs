//! Arrivals of virtual clients: those of the plan, calls, Binds.
//!
//! Clients of the whole fleet are numbered; a thread has every so-many-th of them, so that the
//! planned moment of each follows from its place, whatever the number of threads. Poisson's moments
//! are drawn by each thread with its part of the rate, which together is the same process.

use super::{FleetLogic, ShardHandle};
use crate::fleet::client::ClientAct;
use crate::fleet::pace::{Rate, Schedule};
use crate::fleet::virtual_client::{Ears, Flags, FleetSlot, State, VirtualClient};
use base::time::{Instant, Now};
use lab::plan::Arrival;
use lab::timing::Timing;
use model::virtual_client::Action;
use net::Dial;
use std::time::Duration;

/// Calls made in one turn. More wait a turn, so that answers are not measured late.
const CALLS_PER_TURN: usize = 64;
/// Virtual clients dismissed in one turn.
const DISMISSED_PER_TURN: usize = 1_024;

/// The arrival that is under way.
pub(super) struct Arrivals {
    /// Virtual clients of the whole fleet before it.
    base: u32,
    /// Virtual clients of the whole fleet that should be there.
    total: u32,
    /// Virtual clients of this thread that should be there.
    wanted: usize,
    /// Virtual clients of this thread that were called up so far: the first ones.
    called: usize,
    from: Instant,
    shape: Arrival,
    /// Moments that are drawn.
    drawn: Option<Schedule>,
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        let (base, total, wanted, called) = (0, 0, 0, 0);
        let (from, shape, drawn) = (Instant::default(), Arrival::Burst, None);
        Arrivals { base, total, wanted, called, from, shape, drawn }
    }
}

impl Arrivals {
    /// Clients of the whole fleet.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// This thread's share of them.
    pub(super) fn share(&self) -> f64 {
        self.wanted as f64 / f64::from(self.total.max(1))
    }
}

impl FleetLogic {
    /// Has so many clients there, in the whole fleet.
    pub(super) fn arrive(
        &mut self,
        now: Now,
        total: u32,
        shape: Arrival,
        handle: &mut ShardHandle,
    ) {
        let wanted = self.part_of(total);
        self.arrivals.drawn = match shape {
            Arrival::Poisson { per_s } => {
                let rate = Rate::Poisson(per_s / f64::from(self.plan.threads));
                Some(Schedule::new(now.mono, rate, 0.0, self.random.draw()))
            }
            _ => None,
        };
        self.arrivals.shape = shape;
        self.arrivals.from = now.mono;
        self.arrivals.base = match self.arrivals.called {
            0 => 0,
            called => self.index(called as u32 - 1).saturating_add(1),
        };
        self.arrivals.wanted = wanted;
        self.arrivals.total = total;
        self.log.planned = wanted as u64;
        if self.virtual_clients.len() < wanted {
            self.virtual_clients.resize(wanted, VirtualClient::new());
        }
        self.replan(now);
        self.dismiss(now, handle);
    }

    /// Those that are too many say farewell, a slice of them in a turn.
    fn dismiss(&mut self, now: Now, handle: &mut ShardHandle) {
        for _ in 0..DISMISSED_PER_TURN {
            if self.arrivals.called <= self.arrivals.wanted {
                return;
            }
            self.arrivals.called -= 1;
            self.say_farewell(now, self.arrivals.called as u32, handle);
        }
    }

    /// Makes the calls whose time has come, or for which there is room.
    pub(super) fn call_up(&mut self, now: Now, handle: &mut ShardHandle) {
        self.dismiss(now, handle);
        for _ in 0..CALLS_PER_TURN {
            let Some(at) = self.next_call(now).filter(|at| *at <= now.mono) else { break };
            if let Some(drawn) = &mut self.arrivals.drawn {
                drawn.take();
            }
            let virtual_client = self.arrivals.called as u32;
            self.arrivals.called += 1;
            self.call_back(now, virtual_client, at, handle);
        }
    }

    /// When the next client comes, if one is to come and there is room for it.
    pub(super) fn next_call(&self, now: Now) -> Option<Instant> {
        let arrivals = &self.arrivals;
        if arrivals.called > arrivals.wanted {
            return Some(now.mono); // there is somebody to dismiss
        }
        if arrivals.called == arrivals.wanted {
            return None;
        }
        // Its place among those that come.
        let place = self.index(arrivals.called as u32).saturating_sub(arrivals.base);
        match arrivals.shape {
            Arrival::Rate { per_s } => {
                let wait = Duration::try_from_secs_f64(f64::from(place) / per_s);
                Some(arrivals.from + wait.unwrap_or(Duration::MAX))
            }
            Arrival::Poisson { .. } => arrivals.drawn.as_ref().map(Schedule::next),
            Arrival::Burst => Some(arrivals.from),
            Arrival::Steps { clients, every } => {
                Some(arrivals.from + every.0.saturating_mul(place / clients))
            }
            Arrival::Window { open } => {
                let window = self.part_of(open).max(1) as u64;
                let has_room = self.log.connecting + self.log.asking < window;
                has_room.then_some(now.mono)
            }
        }
    }

    /// Calls a client up for the first time, or again after it was dismissed.
    fn call_back(&mut self, now: Now, virtual_client: u32, at: Instant, handle: &mut ShardHandle) {
        let this = self.at(virtual_client);
        this.flags.take(Flags::FAREWELL);
        match this.state {
            State::Away => self.call(now, virtual_client, at, handle),
            State::Gone => {
                self.log.over -= 1;
                self.call(now, virtual_client, at, handle);
            }
            // It is about to go: it comes back at once.
            State::Leaving => this.flags.set(Flags::AT_ONCE),
            State::Online if this.flags.has(Flags::TOLD) => this.flags.set(Flags::AT_ONCE),
            _ => {}
        }
    }

    /// Makes a call that was planned for `at`.
    pub(super) fn call(
        &mut self,
        now: Now,
        virtual_client: u32,
        at: Instant,
        handle: &mut ShardHandle,
    ) {
        let index = self.index(virtual_client) as usize;
        let late = micros(now.mono - at);
        let this = self.at(virtual_client);
        this.state = State::Calling;
        (this.since, this.late_us) = (at, late);
        (this.call_at, this.call_late_us) = (at, late);
        this.ears = Ears::Open;
        let again = this.flags.has(Flags::CALLED);
        this.flags.set(Flags::CALLED);
        self.log.reconnects += u64::from(again);
        self.log.attempts += 1;
        self.log.connecting += 1;
        let sources = &self.sources;
        handle.dial(Dial {
            to: self.plan.to[index % self.plan.to.len()],
            from: (!sources.is_empty()).then(|| sources[index % sources.len()]),
            layers: self.plan.layers.clone(),
            tag: u64::from(virtual_client),
        });
    }

    /// TCP stands: the layers open now.
    pub(super) fn tcp_stands(&mut self, now: Now, virtual_client: u32) {
        let this = self.at(virtual_client);
        let (spent, late) = (now.mono - this.since, std::mem::take(&mut this.late_us));
        this.since = now.mono;
        self.note(Timing::Connect, spent, late);
    }

    /// The layers are open; the Bind goes out now.
    pub(super) fn established(&mut self, now: Now, virtual_client: u32) -> FleetSlot {
        let number = self.number(virtual_client);
        let has_layers = self.plan.layers.tls.is_some() || self.plan.layers.web_socket.is_some();
        let this = self.at(virtual_client);
        let spent = now.mono - this.since;
        this.state = State::Asking;
        this.since = now.mono;
        self.log.connecting -= 1;
        self.log.asking += 1;
        self.log.established += 1;
        if has_layers {
            self.note(Timing::Layers, spent, 0);
        }
        let client = self.resting.remove(&virtual_client).unwrap_or_else(|| {
            self.virtual_clients[virtual_client as usize].sent = 0;
            self.plan.profile.client(number)
        });
        FleetSlot::new(client, virtual_client)
    }

    pub(super) fn bound(
        &mut self,
        now: Now,
        virtual_client: u32,
        resumed: bool,
        heartbeat_s: u16,
        handle: &mut ShardHandle,
    ) {
        let this = self.at(virtual_client);
        if this.state != State::Asking {
            return;
        }
        this.state = State::Online;
        this.heartbeat_s = heartbeat_s;
        this.tries = 0;
        let (spent, ready) = (now.mono - this.since, now.mono - this.call_at);
        let (late, recovered) = (this.call_late_us, this.recover(now.mono));
        self.log.asking -= 1;
        self.log.bound += 1;
        self.log.online_now += 1;
        self.log.resumed += u64::from(resumed);
        self.note(Timing::Bind, spent, 0);
        self.note(Timing::Ready, ready, late);
        if let Some(span) = recovered {
            self.note(Timing::Recovery, span, 0);
        }
        self.first_beat(now, virtual_client);
        self.first_messages(now, virtual_client, handle);
        if self.at(virtual_client).flags.has(Flags::FAREWELL) {
            self.say_farewell(now, virtual_client, handle);
        }
    }

    /// Has a client say farewell and stay away.
    pub(super) fn say_farewell(&mut self, now: Now, virtual_client: u32, handle: &mut ShardHandle) {
        let this = self.at(virtual_client);
        this.flags.set(Flags::FAREWELL);
        match this.state {
            State::Online => {
                this.flags.set(Flags::TOLD);
                this.ears = Ears::Open;
                if !this.is_pinging() {
                    this.since = now.mono;
                }
                self.tell(virtual_client, ClientAct::Hold(false), handle);
                self.tell(virtual_client, ClientAct::Do(Action::Unbind), handle);
            }
            // It has nothing to say yet; see `ends` for what its end counts as.
            State::Calling | State::Asking => {
                let conn = model::id::ConnRef::from_bits(this.conn);
                handle.close(conn, model::close::CloseReason::OwnStop);
            }
            State::Away => {
                if this.flags.has(Flags::CALLED) {
                    self.gone(virtual_client);
                }
            }
            State::Leaving | State::Gone => {}
        }
    }
}

/// So many microseconds, as far as 32 bits tell.
pub(super) fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

//! Arrivals of virtual clients: those of the plan, calls, and the way up to a Bind.
//!
//! Clients of the whole fleet are numbered; a thread has every so-many-th of them, so that the
//! planned moment of each follows from its place, whatever the number of threads. Poisson's moments
//! are drawn by each thread with its part of the rate, which together is the same process.

use super::ClientPool;
use crate::fleet::pace::{Rate, Timetable};
use crate::fleet::virtual_client::{Ears, Flags, State, VirtualClient};
use base::time::{Instant, Now};
use lab::plan::Arrival;
use lab::timing::Timing;
use net::{Dial, ShardHandle, ShardLogic};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Calls made in one turn. More wait a turn, so that answers are not measured late.
const CALLS_PER_TURN: usize = 64;

/// The arrival that is under way.
pub(crate) struct Arrivals {
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
    drawn: Option<Timetable>,
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
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// This thread's share of them.
    pub(crate) fn share(&self) -> f64 {
        self.wanted as f64 / f64::from(self.total.max(1))
    }
}

impl ClientPool {
    /// Has so many clients there, in the whole fleet, calling from these addresses in turn.
    pub fn arrive(&mut self, now: Now, total: u32, shape: Arrival, sources: Arc<[IpAddr]>) {
        let wanted = self.part_of(total);
        self.sources = sources;
        self.arrivals.drawn = match shape {
            Arrival::Poisson { per_s } => {
                let rate = Rate::Poisson(per_s / f64::from(self.plan.threads));
                Some(Timetable::new(now.mono, rate, 0.0, self.random.draw()))
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
        if self.clients.len() < wanted {
            self.clients.resize(wanted, VirtualClient::new());
        }
    }

    /// Takes one of those that are too many off, the last one first.
    pub(crate) fn next_dismissed(&mut self) -> Option<u32> {
        let is_too_many = self.arrivals.called > self.arrivals.wanted;
        is_too_many.then(|| {
            self.arrivals.called -= 1;
            self.arrivals.called as u32
        })
    }

    /// Makes the calls whose time has come, or for which there is room.
    pub fn call_up<L: ShardLogic>(&mut self, now: Now, handle: &mut ShardHandle<L>) {
        for _ in 0..CALLS_PER_TURN {
            let is_wanted = self.arrivals.called < self.arrivals.wanted;
            let next = self.next_call(now).filter(|at| is_wanted && *at <= now.mono);
            let Some(at) = next else { break };
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
            Arrival::Poisson { .. } => arrivals.drawn.as_ref().map(Timetable::next),
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
    fn call_back<L: ShardLogic>(
        &mut self,
        now: Now,
        virtual_client: u32,
        at: Instant,
        handle: &mut ShardHandle<L>,
    ) {
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
    pub(crate) fn call<L: ShardLogic>(
        &mut self,
        now: Now,
        virtual_client: u32,
        at: Instant,
        handle: &mut ShardHandle<L>,
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
            to: self.plan.to[index % self.plan.to.len()].into(),
            from: (!sources.is_empty()).then(|| sources[index % sources.len()]),
            layers: self.plan.layers.clone(),
            tag: u64::from(virtual_client),
        });
    }

    /// TCP stands: the layers open now.
    pub fn tcp_stands(&mut self, now: Now, virtual_client: u32) {
        let this = self.at(virtual_client);
        let (spent, late) = (now.mono - this.since, std::mem::take(&mut this.late_us));
        this.since = now.mono;
        self.note(Timing::Connect, spent, late);
    }

    /// The layers are open; the Bind goes out now.
    pub fn established(&mut self, now: Now, virtual_client: u32) {
        let has_layers = !self.plan.layers.is_plain();
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
    }

    /// Its Bind was accepted; false: it was not asked for.
    pub fn bound(&mut self, virtual_client: u32) -> bool {
        let this = self.at(virtual_client);
        if this.state != State::Asking {
            return false;
        }
        this.state = State::Online;
        self.log.asking -= 1;
        self.log.bound += 1;
        self.log.online_now += 1;
        true
    }
}

/// The span in microseconds, as far as 32 bits tell.
pub fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

//! The virtual clients of one thread: who is where, how they come, go and come back.
//!
//! The pool knows no traffic and no protocol: the behaviour of clients that are online is its
//! owner's business, the fleet's logic or wrk's. [`calls`](self::calls) has their connects,
//! [`ends`](self::ends) their ends.
//!
//! The invariant: a virtual client is in one state, and each change of it moves exactly one count.
//! Timers are a heap of exact times: a heartbeat's pace is what is measured with them, so the grain
//! of a wheel would show. A virtual client has one timer of its own that counts; those it had
//! before are ignored.

mod calls;
mod ends;

use super::effort;
use super::plan::FleetPlan;
use super::snapshot::Snapshot;
use super::virtual_client::{Aim, Flags, State, Timers, VirtualClient};
use base::prng::Prng;
use base::time::{Instant, Now};
pub(crate) use calls::Arrivals;
pub use calls::micros;
use lab::timing::Timing;
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::id::ConnRef;
use net::{ShardHandle, ShardLogic};
use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time between two ticks: looks at overdue answers, and whatever else an owner does then.
pub const TICK: Duration = Duration::from_millis(100);
/// Virtual clients looked at in one tick, at least; a tenth of all if that is more.
const SWEEP_SLICE: usize = 4_096;
/// Longest time that is measured, microseconds: an hour. Longer ones count as one.
const TIME_US_MAX: u128 = 3_600 * 1_000_000;

/// The virtual clients of one thread.
pub struct ClientPool {
    /// Plan of all threads.
    pub plan: Arc<FleetPlan>,
    /// This thread's number.
    pub thread: u16,
    pub(crate) clients: Vec<VirtualClient>,
    /// The virtual client of each slot of the shard's connections.
    seats: Vec<u32>,
    pub(crate) timers: Timers,
    pub(crate) arrivals: Arrivals,
    /// Addresses that are called from, in turn; none: the kernel chooses.
    sources: Arc<[IpAddr]>,
    begun: Option<Begun>,
    swept: usize,
    /// Whether clients no longer come back.
    pub stopping: bool,
    pub(crate) random: Prng,
    /// Counts so far.
    pub log: Snapshot,
}

/// Values known from the first turn on.
struct Begun {
    at: Instant,
    ran: Duration,
    waited: Duration,
    tick_at: Instant,
}

impl ClientPool {
    /// Makes a pool without clients.
    pub fn new(plan: Arc<FleetPlan>, thread: u16) -> ClientPool {
        let seed = base::prng::scramble(plan.seed ^ u64::from(thread) << 32);
        ClientPool {
            plan,
            thread,
            clients: Vec::new(),
            seats: Vec::new(),
            timers: Timers::new(),
            arrivals: Arrivals::default(),
            sources: Arc::new([]),
            begun: None,
            swept: 0,
            stopping: false,
            random: Prng::new(seed),
            log: Snapshot::default(),
        }
    }

    /// The counts so far. Called on the shard's own thread, whose effort it reads.
    pub fn snapshot<L: ShardLogic>(&self, now: Now, handle: &ShardHandle<L>) -> Snapshot {
        let mut seen = self.log.clone();
        seen.bytes_in = handle.counters.of(ProcessCounter::BytesIn);
        seen.bytes_out = handle.counters.of(ProcessCounter::BytesOut);
        if let Some(begun) = &self.begun {
            let (ran, waited) = effort::of_this_thread();
            seen.elapsed = now.mono - begun.at;
            seen.threads.push(effort::ThreadUse {
                elapsed: seen.elapsed,
                ran: ran.saturating_sub(begun.ran),
                waited: waited.saturating_sub(begun.waited),
                turn_us_max: handle.turn_us_max,
            });
        }
        seen
    }

    /// Place of a virtual client in the whole fleet.
    pub(crate) fn index(&self, virtual_client: u32) -> u32 {
        virtual_client * u32::from(self.plan.threads) + u32::from(self.thread)
    }

    /// Number of a virtual client, by which it has its name.
    pub fn number(&self, virtual_client: u32) -> u32 {
        self.plan
            .first_number
            .wrapping_add(self.index(virtual_client).wrapping_mul(self.plan.number_step))
    }

    /// How many of so many virtual clients of the fleet are here.
    pub fn part_of(&self, total: u32) -> usize {
        self.part_of_thread(total, self.thread)
    }

    pub(crate) fn part_of_thread(&self, total: u32, thread: u16) -> usize {
        let (threads, thread) = (u32::from(self.plan.threads), u32::from(thread));
        (total.saturating_add(threads - 1 - thread) / threads) as usize
    }

    pub(crate) fn at(&mut self, virtual_client: u32) -> &mut VirtualClient {
        &mut self.clients[virtual_client as usize]
    }

    /// Where a virtual client is connected; meaningless while it is away.
    pub fn conn(&self, virtual_client: u32) -> ConnRef {
        ConnRef::from_bits(self.clients[virtual_client as usize].conn)
    }

    /// Whether a virtual client is bound.
    pub fn is_online(&self, virtual_client: u32) -> bool {
        self.clients[virtual_client as usize].state == State::Online
    }

    /// Whether a virtual client's Bind is under way.
    pub fn is_asking(&self, virtual_client: u32) -> bool {
        self.clients[virtual_client as usize].state == State::Asking
    }

    /// The virtual client on a connection.
    pub fn client_on(&self, conn: ConnRef) -> Option<u32> {
        let virtual_client = *self.seats.get(conn.key().slot as usize)?;
        (self.clients.get(virtual_client as usize)?.conn == conn.bits()).then_some(virtual_client)
    }

    /// A call has its connection.
    pub fn dialling(&mut self, tag: u64, conn: ConnRef) {
        let slot = conn.key().slot as usize;
        if self.seats.len() <= slot {
            self.seats.resize(slot + 1, u32::MAX);
        }
        self.seats[slot] = tag as u32;
        self.at(tag as u32).conn = conn.bits();
    }

    /// Notes a time since its planned beginning, which came so much later.
    pub fn note(&mut self, timing: Timing, spent: Duration, late_us: u32) {
        let corrected = spent.as_micros().min(TIME_US_MAX) as u64;
        let raw = corrected.saturating_sub(u64::from(late_us));
        self.log.timings.at(timing).note_both(corrected, raw);
    }

    /// Notes the beginning: whether this is the first turn.
    pub fn begin(&mut self, now: Now) -> bool {
        let is_first = self.begun.is_none();
        if is_first {
            let (ran, waited) = effort::of_this_thread();
            self.begun = Some(Begun { at: now.mono, ran, waited, tick_at: now.mono + TICK });
        }
        is_first
    }

    /// Whether a tick is due, ten times a second.
    pub fn is_tick(&mut self, now: Now) -> bool {
        let due = self.begun.as_mut().filter(|begun| now.mono >= begun.tick_at);
        due.map(|begun| begun.tick_at = now.mono + TICK).is_some()
    }

    /// Looks at some virtual clients for answers that are overdue, at each at least once a second.
    /// Its owner knows the answers that clients online wait for.
    pub fn sweep<L: ShardLogic>(
        &mut self,
        now: Now,
        handle: &mut ShardHandle<L>,
        mut online: impl FnMut(&mut ClientPool, u32, &mut ShardHandle<L>),
    ) {
        let most = SWEEP_SLICE.max(self.clients.len() / 10 + 1).min(self.clients.len());
        for _ in 0..most {
            self.swept = (self.swept + 1) % self.clients.len();
            let at = self.swept;
            let virtual_client = &self.clients[at];
            let conn = ConnRef::from_bits(virtual_client.conn);
            let is_overdue = now.mono - virtual_client.since > self.plan.timeout;
            match virtual_client.state {
                State::Calling if is_overdue => handle.close(conn, CloseReason::TimedOut),
                State::Asking if is_overdue => handle.close(conn, CloseReason::BindTimeout),
                State::Online => online(self, at as u32, handle),
                _ => {}
            }
        }
    }

    /// Sets a virtual client's own timer.
    pub fn arm(&mut self, virtual_client: u32, at: Instant) {
        let this = self.at(virtual_client);
        this.timer = this.timer.wrapping_add(1);
        let timer = this.timer;
        self.timers.push(Reverse((at, virtual_client, timer, Aim::Own)));
    }

    /// Takes the next timer whose time has come and that counts.
    pub(crate) fn due(&mut self, now: Now) -> Option<(Instant, u32, Aim)> {
        while let Some(&Reverse((at, virtual_client, timer, aim))) = self.timers.peek()
            && at <= now.mono
        {
            self.timers.pop();
            let this = self.at(virtual_client);
            let counts = match aim {
                Aim::Own => this.timer == timer,
                Aim::Every(_) => u16::from(this.every) == timer,
            };
            if counts {
                return Some((at, virtual_client, aim));
            }
        }
        None
    }

    /// Calls those back whose time has come, for an owner whose clients have no timers but their
    /// own: the next client online whose timer fires.
    pub fn next_woken<L: ShardLogic>(
        &mut self,
        now: Now,
        handle: &mut ShardHandle<L>,
    ) -> Option<u32> {
        while let Some((_, virtual_client, _)) = self.due(now) {
            match self.at(virtual_client).state {
                State::Away => self.call(now, virtual_client, now.mono, handle),
                State::Online => return Some(virtual_client),
                _ => {}
            }
        }
        None
    }

    /// When the next turn must be, at the latest.
    pub fn next_turn(&self, now: Now) -> Option<Instant> {
        let tick_at = self.begun.as_ref()?.tick_at;
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        [timer, self.next_call(now)].into_iter().flatten().chain([tick_at]).min()
    }

    /// Whether nobody will come back.
    pub fn is_over(&self) -> bool {
        self.clients.iter().all(|virtual_client| virtual_client.state == State::Gone)
    }

    /// A virtual client whose connection ends by itself comes back at once.
    pub fn come_back_at_once(&mut self, virtual_client: u32) {
        let this = self.at(virtual_client);
        this.tries = 0;
        this.flags.set(Flags::AT_ONCE);
    }

    /// Forgets the tries that delay a virtual client's return.
    pub fn forget_tries(&mut self, virtual_client: u32) {
        self.at(virtual_client).tries = 0;
    }
}

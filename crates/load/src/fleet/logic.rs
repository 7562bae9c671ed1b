//! The virtual clients of one thread: what a shard of the laboratory drives.
//!
//! It calls its share of the clients up, gives each virtual client its orders and counts what
//! becomes of them. It knows no frame and no socket. How virtual clients come is in
//! [`calls`](self::calls), how they go in [`ends`](self::ends), heartbeats in
//! [`beats`](self::beats), messages in [`traffic`](self::traffic) and [`hearing`](self::hearing),
//! what is done to them in [`cuts`](self::cuts).
//!
//! The invariant: a virtual client is in one state, and each change of it moves exactly one count.

mod beats;
mod calls;
mod cuts;
mod ends;
mod flights;
mod hearing;
mod lately;
mod traffic;

use super::client::{Client, ClientAct};
use super::effort;
use super::plan::FleetPlan;
use super::snapshot::Snapshot;
use super::stamp;
use super::virtual_client::{Aim, Ears, Flags, FleetSlot, State, Timers, VirtualClient};
use base::prng::Prng;
use base::time::{Instant, Now};
use calls::Arrivals;
use flights::Flights;
use hearing::{Came, Gaps};
use lab::order::Cut;
use lab::plan::{Arrival, Traffic};
use lab::timing::Timing;
pub(crate) use lately::Lately;
use model::close::CloseReason;
use model::event::Counter;
use model::id::ConnRef;
use model::link::Link;
use model::virtual_client::{Action, Observation};
use net::{ConnectionOrigin, ShardLogic};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use traffic::Streams;

pub(crate) type ShardHandle = net::ShardHandle<FleetLogic>;

/// Time between two looks at overdue answers, and between two steps of flapping.
const TICK: Duration = Duration::from_millis(100);
/// Virtual clients looked at in one tick, at least; a tenth of all if that is more.
const SWEEP_SLICE: usize = 4_096;
/// Longest time that is told apart, microseconds: an hour. Longer ones count as one.
const TIME_US_MAX: u128 = 3_600 * 1_000_000;

/// What the fleet tells its shards' logic.
pub(crate) enum Mail {
    /// Send what has been counted.
    Show(SyncSender<Box<Snapshot>>),
    /// Have so many clients there in the whole fleet, calling from these addresses in turn.
    Arrive(u32, Arrival, Arc<[IpAddr]>),
    /// The clients with these numbers shall do something.
    Act(Range<u32>, Action),
    /// Send this from now on.
    Traffic(Arc<[Traffic]>),
    /// So large a share of those online goes through this.
    Cut(f64, Cut),
    /// So large a share is cut each second.
    Flap(f64),
    /// End.
    Stop,
}

/// Which virtual clients of the plan are here.
pub(crate) struct Share {
    /// This thread's number.
    pub thread: u16,
    /// Unix time at the beginning of the shards' clock, microseconds.
    pub origin_us: u64,
    /// What was heard lately by a group that shares a subscription, on all threads.
    pub shared: Option<Arc<Mutex<Lately>>>,
}

/// The virtual clients of one thread.
pub(crate) struct FleetLogic {
    plan: Arc<FleetPlan>,
    share: Share,
    virtual_clients: Vec<VirtualClient>,
    /// The virtual client of each slot of the shard's connections.
    seats: Vec<u32>,
    /// Machines of virtual clients that will come back.
    resting: HashMap<u32, Client>,
    timers: Timers,
    arrivals: Arrivals,
    /// Addresses that are called from, in turn; none: the kernel chooses.
    sources: Arc<[IpAddr]>,
    streams: Streams,
    flights: Flights,
    gaps: Gaps,
    lately: Lately,
    /// Messages that were sent from here, by which each has a number of its own.
    numbered: u64,
    /// Virtual clients whose last message was refused: they go on in the next tick.
    held: Vec<u32>,
    flap: cuts::Flap,
    /// When frozen or deaf virtual clients went on last.
    thawed: Instant,
    begun: Option<Begun>,
    swept: usize,
    stopping: bool,
    random: Prng,
    log: Snapshot,
}

/// What is known from the first turn on.
struct Begun {
    at: Instant,
    ran: Duration,
    waited: Duration,
    tick_at: Instant,
}

impl FleetLogic {
    pub(crate) fn new(plan: Arc<FleetPlan>, share: Share) -> FleetLogic {
        let seed = base::prng::scramble(plan.seed ^ u64::from(share.thread) << 32);
        FleetLogic {
            arrivals: Arrivals::default(),
            sources: Arc::new([]),
            streams: Streams::default(),
            flights: Flights::default(),
            gaps: Gaps::default(),
            lately: Lately::default(),
            numbered: 0,
            random: Prng::new(seed),
            plan,
            share,
            virtual_clients: Vec::new(),
            seats: Vec::new(),
            resting: HashMap::new(),
            timers: Timers::new(),
            held: Vec::new(),
            flap: cuts::Flap::default(),
            thawed: Instant::default(),
            begun: None,
            swept: 0,
            stopping: false,
            log: Snapshot::default(),
        }
    }

    /// What has been counted. Called on the shard's own thread, whose effort it reads.
    pub(crate) fn snapshot(&self, now: Now, handle: &ShardHandle) -> Snapshot {
        let mut seen = self.log.clone();
        if self.stopping {
            seen.missing += self.gaps.open();
        }
        seen.bytes_in = handle.counters.of(Counter::BytesIn);
        seen.bytes_out = handle.counters.of(Counter::BytesOut);
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
    fn index(&self, virtual_client: u32) -> u32 {
        virtual_client * u32::from(self.plan.threads) + u32::from(self.share.thread)
    }

    fn number(&self, virtual_client: u32) -> u32 {
        self.plan
            .first_number
            .wrapping_add(self.index(virtual_client).wrapping_mul(self.plan.number_step))
    }

    /// How many of so many virtual clients of the fleet are here.
    fn part_of(&self, total: u32) -> usize {
        self.part_of_thread(total, self.share.thread)
    }

    fn part_of_thread(&self, total: u32, thread: u16) -> usize {
        let (threads, thread) = (u32::from(self.plan.threads), u32::from(thread));
        (total.saturating_add(threads - 1 - thread) / threads) as usize
    }

    fn at(&mut self, virtual_client: u32) -> &mut VirtualClient {
        &mut self.virtual_clients[virtual_client as usize]
    }

    fn tell(&mut self, virtual_client: u32, act: ClientAct, handle: &mut ShardHandle) {
        handle.deliver(ConnRef::from_bits(self.at(virtual_client).conn), act);
    }

    /// The virtual client on a connection.
    fn virtual_client_on(&self, conn: ConnRef) -> Option<u32> {
        let virtual_client = *self.seats.get(conn.key().slot as usize)?;
        (self.virtual_clients.get(virtual_client as usize)?.conn == conn.bits())
            .then_some(virtual_client)
    }

    /// Notes a time since its planned beginning, which came so much later.
    fn note(&mut self, timing: Timing, spent: Duration, late_us: u32) {
        let corrected = spent.as_micros().min(TIME_US_MAX) as u64;
        let raw = corrected.saturating_sub(u64::from(late_us));
        self.log.timings.at(timing).note_both(corrected, raw);
    }

    fn begin(&mut self, now: Now) {
        let (ran, waited) = effort::of_this_thread();
        self.begun = Some(Begun { at: now.mono, ran, waited, tick_at: now.mono + TICK });
    }

    /// What happens ten times a second.
    fn tick(&mut self, now: Now, handle: &mut ShardHandle) {
        let Some(begun) = &mut self.begun else { return };
        if now.mono < begun.tick_at {
            return;
        }
        begun.tick_at = now.mono + TICK;
        for virtual_client in std::mem::take(&mut self.held) {
            self.fill_windows(now, virtual_client, handle);
        }
        self.log.missing += self.gaps.give_up(now.mono);
        self.flap_step(now, handle);
        self.sweep(now, handle);
    }

    /// Looks at some virtual clients for answers that are overdue: at each at least once a second.
    fn sweep(&mut self, now: Now, handle: &mut ShardHandle) {
        let most =
            SWEEP_SLICE.max(self.virtual_clients.len() / 10 + 1).min(self.virtual_clients.len());
        let (timeout, gives_up) = (self.plan.timeout, self.plan.gives_up);
        for _ in 0..most {
            self.swept = (self.swept + 1) % self.virtual_clients.len();
            let virtual_client = &mut self.virtual_clients[self.swept];
            let waited = now.mono - virtual_client.since;
            if waited <= timeout {
                continue;
            }
            let conn = ConnRef::from_bits(virtual_client.conn);
            match virtual_client.state {
                State::Calling => handle.close(conn, CloseReason::TimedOut),
                State::Asking => handle.close(conn, CloseReason::BindTimeout),
                // Its farewell had no answer.
                State::Online if virtual_client.flags.has(Flags::TOLD) => {
                    handle.close(conn, CloseReason::OwnStop);
                }
                State::Online
                    if virtual_client.is_pinging() && virtual_client.ears != Ears::Frozen =>
                {
                    if !virtual_client.flags.has(Flags::OVERDUE) {
                        virtual_client.flags.set(Flags::OVERDUE);
                        self.log.unanswered += 1;
                    }
                    if gives_up.is_some_and(|span| waited > span) {
                        handle.close(conn, CloseReason::KeepAliveTimeout);
                    }
                }
                _ => {}
            }
        }
    }

    /// When the next turn must be, at the latest.
    fn next_turn(&self, now: Now) -> Option<Instant> {
        let begun = self.begun.as_ref()?;
        let mut next = begun.tick_at;
        if let Some(std::cmp::Reverse((at, ..))) = self.timers.peek() {
            next = next.min(*at);
        }
        for other in [self.next_call(now), self.next_message()].into_iter().flatten() {
            next = next.min(other);
        }
        Some(next)
    }

    fn act(&mut self, now: Now, numbers: &Range<u32>, action: &Action, handle: &mut ShardHandle) {
        for virtual_client in 0..self.virtual_clients.len() as u32 {
            if self.at(virtual_client).state != State::Online
                || !numbers.contains(&self.number(virtual_client))
            {
                continue;
            }
            match action {
                Action::Ping => {
                    self.ping(virtual_client, now.mono, 0, handle);
                }
                Action::Report(body) => {
                    self.flights_begin(virtual_client, now.mono, 0, true);
                    self.tell(virtual_client, ClientAct::Do(Action::Report(body.clone())), handle);
                }
                Action::Unbind => self.say_farewell(now, virtual_client, handle),
                Action::Pull(_) | Action::Publish { .. } | Action::Subscribe(_) => {
                    self.tell(virtual_client, ClientAct::Do(action.clone()), handle);
                }
            }
        }
    }
}

impl ShardLogic for FleetLogic {
    type Machine = FleetSlot;
    type Mail = Mail;

    fn connected(&mut self, now: Now, tag: u64) {
        self.tcp_stands(now, tag as u32);
    }

    fn machine(&mut self, now: Now, _: &Link, how: ConnectionOrigin) -> Option<FleetSlot> {
        let ConnectionOrigin::Dialled(tag) = how else { return None };
        Some(self.established(now, tag as u32))
    }

    fn word(&mut self, now: Now, from: ConnRef, word: Observation, handle: &mut ShardHandle) {
        let Some(virtual_client) = self.virtual_client_on(from) else { return };
        match word {
            Observation::Bound { resumed, heartbeat_s, .. } => {
                self.bound(now, virtual_client, resumed, heartbeat_s, handle);
            }
            Observation::Refused { code, retry_after_ms } => {
                self.refused(now, virtual_client, code, retry_after_ms, handle);
            }
            Observation::Pong => self.pong(now, virtual_client, handle),
            Observation::Message { body, again, .. } => {
                let front = &body[..body.len().min(stamp::PROOF_BYTES)];
                let (bytes, rest) = (body.len() as u32, stamp::rest_of(&body));
                self.heard(now, virtual_client, &Came { front, bytes, rest, again }, handle);
            }
            Observation::Heard { bytes, head, rest, again } => {
                let front = &head[..head.len().min(bytes as usize)];
                self.heard(now, virtual_client, &Came { front, bytes, rest, again }, handle);
            }
            Observation::Taken { seq } => self.taken(now, virtual_client, seq, handle),
            Observation::TakenAlone { seq } => self.taken_alone(now, virtual_client, seq, handle),
            Observation::Written { seq } => self.written(now, virtual_client, seq, handle),
            Observation::NotTaken { seq, code } => {
                self.not_taken(now, virtual_client, seq, code, handle)
            }
            Observation::Kicked { code } => self.kicked(now, virtual_client, code, handle),
            Observation::GoAway { retry_after_ms, .. } => {
                self.go_away(now, virtual_client, retry_after_ms, handle);
            }
            Observation::Pulled { .. } => self.log.pulled += 1,
            Observation::Subscribed { granted, refused } => {
                self.log.subscribed += u64::from(granted);
                self.log.not_subscribed += refused.len() as u64;
                for code in refused {
                    self.log.codes.count(&format!("subscription refused {code}"));
                }
            }
        }
    }

    fn mail(&mut self, now: Now, mail: Mail, handle: &mut ShardHandle) {
        match mail {
            Mail::Show(to) => {
                // The longest turn is told from one look to the next.
                let seen = Box::new(self.snapshot(now, handle));
                handle.turn_us_max = 0;
                // Whoever asked may have stopped waiting.
                let _ = to.try_send(seen);
            }
            Mail::Arrive(total, arrival, sources) => {
                self.sources = sources;
                self.arrive(now, total, arrival, handle);
            }
            Mail::Act(numbers, action) => self.act(now, &numbers, &action, handle),
            Mail::Traffic(traffic) => self.send_from_now_on(now, &traffic, handle),
            Mail::Cut(share, how) => self.cut(now, share, how, handle),
            Mail::Flap(share_per_s) => self.flap = cuts::Flap::new(share_per_s),
            Mail::Stop => {
                self.stopping = true;
                handle.stop();
            }
        }
    }

    fn turn(&mut self, now: Now, handle: &mut ShardHandle) -> Option<Instant> {
        if self.begun.is_none() {
            self.begin(now);
        }
        if self.stopping {
            return None;
        }
        self.call_up(now, handle);
        self.fire_timers(now, handle);
        self.send_by_plan(now, handle);
        self.tick(now, handle);
        self.next_turn(now)
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: ClientAct, _: &mut ShardHandle) {
        // The end of that connection has been told, and what was under way counted as lost.
    }

    fn ended(&mut self, now: Now, seat: &FleetSlot, reason: CloseReason, handle: &mut ShardHandle) {
        self.connection_ended(now, seat, reason, handle);
    }

    fn dialling(&mut self, _: Now, tag: u64, conn: ConnRef) {
        let slot = conn.key().slot as usize;
        if self.seats.len() <= slot {
            self.seats.resize(slot + 1, u32::MAX);
        }
        self.seats[slot] = tag as u32;
        self.at(tag as u32).conn = conn.bits();
    }

    fn dial_failed(&mut self, now: Now, tag: u64, reason: CloseReason, handle: &mut ShardHandle) {
        self.not_connected(now, tag as u32, reason, handle);
    }
}

/// What a timer of the logic does when its time has come.
impl FleetLogic {
    fn fire(
        &mut self,
        now: Now,
        virtual_client: u32,
        at: Instant,
        aim: Aim,
        handle: &mut ShardHandle,
    ) {
        match (aim, self.at(virtual_client).state) {
            (Aim::Own, State::Away) => self.call(now, virtual_client, at, handle),
            (Aim::Own, State::Online) => self.beat(now, virtual_client, at, handle),
            (Aim::Every(stream), _) => self.send_every(now, virtual_client, at, stream, handle),
            _ => {}
        }
    }
}

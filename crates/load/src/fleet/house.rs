//! The pilots of one thread: what a shard of the laboratory drives.
//!
//! It calls its share of the clients up, gives each pilot its orders and counts what becomes of
//! them. It knows no frame and no socket. How pilots come is in [`calls`](self::calls), how they go
//! in [`ends`](self::ends), heartbeats in [`beats`](self::beats), messages in
//! [`traffic`](self::traffic) and [`hearing`](self::hearing), what is done to them in
//! [`cuts`](self::cuts).
//!
//! The invariant: a pilot is in one state, and each change of it moves exactly one count.

mod beats;
mod calls;
mod cuts;
mod ends;
mod flights;
mod hearing;
mod lately;
mod traffic;

use super::client::{Act, Client};
use super::effort;
use super::pilot::{Aim, Ears, Flags, Pilot, Seat, State, Timers};
use super::plan::FleetPlan;
use super::snapshot::Snapshot;
use super::stamp;
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
use model::pilot::{Action, Observation};
use net::{House, Opened};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use traffic::Streams;

pub(crate) type Desk = net::Desk<PilotHouse>;

/// Time between two looks at overdue answers, and between two steps of flapping.
const TICK: Duration = Duration::from_millis(100);
/// Pilots looked at in one tick, at least; a tenth of all if that is more.
const SWEEP_SLICE: usize = 4_096;
/// Longest time that is told apart, microseconds: an hour. Longer ones count as one.
const TIME_US_MAX: u128 = 3_600 * 1_000_000;

/// What the fleet tells its houses.
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

/// Which pilots of the plan are here.
pub(crate) struct Share {
    /// This thread's number.
    pub thread: u16,
    /// Unix time at the beginning of the shards' clock, microseconds.
    pub origin_us: u64,
    /// What was heard lately by a group that shares a subscription, on all threads.
    pub shared: Option<Arc<Mutex<Lately>>>,
}

/// The pilots of one thread.
pub(crate) struct PilotHouse {
    plan: Arc<FleetPlan>,
    share: Share,
    pilots: Vec<Pilot>,
    /// The pilot of each slot of the shard's connections.
    seats: Vec<u32>,
    /// Machines of pilots that will come back.
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
    /// Pilots whose last message was refused: they go on in the next tick.
    held: Vec<u32>,
    flap: cuts::Flap,
    /// When frozen or deaf pilots went on last.
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

impl PilotHouse {
    pub(crate) fn new(plan: Arc<FleetPlan>, share: Share) -> PilotHouse {
        let seed = base::prng::scramble(plan.seed ^ u64::from(share.thread) << 32);
        PilotHouse {
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
            pilots: Vec::new(),
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
    pub(crate) fn snapshot(&self, now: Now, desk: &Desk) -> Snapshot {
        let mut seen = self.log.clone();
        if self.stopping {
            seen.missing += self.gaps.open();
        }
        seen.bytes_in = desk.counters.of(Counter::BytesIn);
        seen.bytes_out = desk.counters.of(Counter::BytesOut);
        if let Some(begun) = &self.begun {
            let (ran, waited) = effort::of_this_thread();
            seen.elapsed = now.mono - begun.at;
            seen.threads.push(effort::ThreadUse {
                elapsed: seen.elapsed,
                ran: ran.saturating_sub(begun.ran),
                waited: waited.saturating_sub(begun.waited),
                turn_us_max: desk.turn_us_max,
            });
        }
        seen
    }

    /// Place of a pilot in the whole fleet.
    fn index(&self, pilot: u32) -> u32 {
        pilot * u32::from(self.plan.threads) + u32::from(self.share.thread)
    }

    fn number(&self, pilot: u32) -> u32 {
        self.plan.first_number.wrapping_add(self.index(pilot).wrapping_mul(self.plan.number_step))
    }

    /// How many of so many pilots of the fleet are here.
    fn part_of(&self, total: u32) -> usize {
        self.part_of_thread(total, self.share.thread)
    }

    fn part_of_thread(&self, total: u32, thread: u16) -> usize {
        let (threads, thread) = (u32::from(self.plan.threads), u32::from(thread));
        (total.saturating_add(threads - 1 - thread) / threads) as usize
    }

    fn at(&mut self, pilot: u32) -> &mut Pilot {
        &mut self.pilots[pilot as usize]
    }

    fn tell(&mut self, pilot: u32, act: Act, desk: &mut Desk) {
        desk.deliver(ConnRef::from_bits(self.at(pilot).conn), act);
    }

    /// The pilot on a connection.
    fn pilot_on(&self, conn: ConnRef) -> Option<u32> {
        let pilot = *self.seats.get(conn.key().slot as usize)?;
        (self.pilots.get(pilot as usize)?.conn == conn.bits()).then_some(pilot)
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
    fn tick(&mut self, now: Now, desk: &mut Desk) {
        let Some(begun) = &mut self.begun else { return };
        if now.mono < begun.tick_at {
            return;
        }
        begun.tick_at = now.mono + TICK;
        for pilot in std::mem::take(&mut self.held) {
            self.fill_windows(now, pilot, desk);
        }
        self.log.missing += self.gaps.give_up(now.mono);
        self.flap_step(now, desk);
        self.sweep(now, desk);
    }

    /// Looks at some pilots for answers that are overdue: at each at least once a second.
    fn sweep(&mut self, now: Now, desk: &mut Desk) {
        let most = SWEEP_SLICE.max(self.pilots.len() / 10 + 1).min(self.pilots.len());
        let (timeout, gives_up) = (self.plan.timeout, self.plan.gives_up);
        for _ in 0..most {
            self.swept = (self.swept + 1) % self.pilots.len();
            let pilot = &mut self.pilots[self.swept];
            let waited = now.mono - pilot.since;
            if waited <= timeout {
                continue;
            }
            let conn = ConnRef::from_bits(pilot.conn);
            match pilot.state {
                State::Calling => desk.close(conn, CloseReason::TimedOut),
                State::Asking => desk.close(conn, CloseReason::BindTimeout),
                // Its farewell had no answer.
                State::Online if pilot.flags.has(Flags::TOLD) => {
                    desk.close(conn, CloseReason::OwnStop);
                }
                State::Online if pilot.is_pinging() && pilot.ears != Ears::Frozen => {
                    if !pilot.flags.has(Flags::OVERDUE) {
                        pilot.flags.set(Flags::OVERDUE);
                        self.log.unanswered += 1;
                    }
                    if gives_up.is_some_and(|span| waited > span) {
                        desk.close(conn, CloseReason::KeepAliveTimeout);
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

    fn act(&mut self, now: Now, numbers: &Range<u32>, action: &Action, desk: &mut Desk) {
        for pilot in 0..self.pilots.len() as u32 {
            if self.at(pilot).state != State::Online || !numbers.contains(&self.number(pilot)) {
                continue;
            }
            match action {
                Action::Ping => {
                    self.ping(pilot, now.mono, 0, desk);
                }
                Action::Report(body) => {
                    self.flights_begin(pilot, now.mono, 0, true);
                    self.tell(pilot, Act::Do(Action::Report(body.clone())), desk);
                }
                Action::Unbind => self.say_farewell(now, pilot, desk),
                Action::Pull(_) | Action::Publish { .. } | Action::Subscribe(_) => {
                    self.tell(pilot, Act::Do(action.clone()), desk);
                }
            }
        }
    }
}

impl House for PilotHouse {
    type Machine = Seat;
    type Mail = Mail;

    fn connected(&mut self, now: Now, tag: u64) {
        self.tcp_stands(now, tag as u32);
    }

    fn machine(&mut self, now: Now, _: &Link, how: Opened) -> Option<Seat> {
        let Opened::Dialled(tag) = how else { return None };
        Some(self.established(now, tag as u32))
    }

    fn word(&mut self, now: Now, from: ConnRef, word: Observation, desk: &mut Desk) {
        let Some(pilot) = self.pilot_on(from) else { return };
        match word {
            Observation::Bound { resumed, heartbeat_s, .. } => {
                self.bound(now, pilot, resumed, heartbeat_s, desk);
            }
            Observation::Refused { code, retry_after_ms } => {
                self.refused(now, pilot, code, retry_after_ms, desk);
            }
            Observation::Pong => self.pong(now, pilot, desk),
            Observation::Message { body, again, .. } => {
                let front = &body[..body.len().min(stamp::PROOF_BYTES)];
                let (bytes, rest) = (body.len() as u32, stamp::rest_of(&body));
                self.heard(now, pilot, &Came { front, bytes, rest, again }, desk);
            }
            Observation::Heard { bytes, head, rest, again } => {
                let front = &head[..head.len().min(bytes as usize)];
                self.heard(now, pilot, &Came { front, bytes, rest, again }, desk);
            }
            Observation::Taken { seq } => self.taken(now, pilot, seq, desk),
            Observation::TakenAlone { seq } => self.taken_alone(now, pilot, seq, desk),
            Observation::Written { seq } => self.written(now, pilot, seq, desk),
            Observation::NotTaken { seq, code } => self.not_taken(now, pilot, seq, code, desk),
            Observation::Kicked { code } => self.kicked(now, pilot, code, desk),
            Observation::GoAway { retry_after_ms, .. } => {
                self.go_away(now, pilot, retry_after_ms, desk);
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

    fn mail(&mut self, now: Now, mail: Mail, desk: &mut Desk) {
        match mail {
            Mail::Show(to) => {
                // The longest turn is told from one look to the next.
                let seen = Box::new(self.snapshot(now, desk));
                desk.turn_us_max = 0;
                // Whoever asked may have stopped waiting.
                let _ = to.try_send(seen);
            }
            Mail::Arrive(total, arrival, sources) => {
                self.sources = sources;
                self.arrive(now, total, arrival, desk);
            }
            Mail::Act(numbers, action) => self.act(now, &numbers, &action, desk),
            Mail::Traffic(traffic) => self.send_from_now_on(now, &traffic, desk),
            Mail::Cut(share, how) => self.cut(now, share, how, desk),
            Mail::Flap(share_per_s) => self.flap = cuts::Flap::new(share_per_s),
            Mail::Stop => {
                self.stopping = true;
                desk.stop();
            }
        }
    }

    fn turn(&mut self, now: Now, desk: &mut Desk) -> Option<Instant> {
        if self.begun.is_none() {
            self.begin(now);
        }
        if self.stopping {
            return None;
        }
        self.call_up(now, desk);
        self.fire_timers(now, desk);
        self.send_by_plan(now, desk);
        self.tick(now, desk);
        self.next_turn(now)
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: Act, _: &mut Desk) {
        // The end of that connection has been told, and what was under way counted as lost.
    }

    fn ended(&mut self, now: Now, seat: &Seat, reason: CloseReason, desk: &mut Desk) {
        self.connection_ended(now, seat, reason, desk);
    }

    fn dialling(&mut self, _: Now, tag: u64, conn: ConnRef) {
        let slot = conn.key().slot as usize;
        if self.seats.len() <= slot {
            self.seats.resize(slot + 1, u32::MAX);
        }
        self.seats[slot] = tag as u32;
        self.at(tag as u32).conn = conn.bits();
    }

    fn dial_failed(&mut self, now: Now, tag: u64, reason: CloseReason, desk: &mut Desk) {
        self.not_connected(now, tag as u32, reason, desk);
    }
}

/// What a timer of the house does when its time has come.
impl PilotHouse {
    fn fire(&mut self, now: Now, pilot: u32, at: Instant, aim: Aim, desk: &mut Desk) {
        match (aim, self.at(pilot).state) {
            (Aim::Own, State::Away) => self.call(now, pilot, at, desk),
            (Aim::Own, State::Online) => self.beat(now, pilot, at, desk),
            (Aim::Every(stream), _) => self.send_every(now, pilot, at, stream, desk),
            _ => {}
        }
    }
}

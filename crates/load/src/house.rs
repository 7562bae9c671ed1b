//! The pilots of one thread: what a shard of the laboratory drives.
//!
//! It makes the calls of its share of the plan, gives each pilot its orders and counts what
//! becomes of them. It knows no frame and no socket. Heartbeats are in [`beats`](self::beats),
//! Reports in [`reports`](self::reports), calls and ends in [`calls`](self::calls).
//!
//! The invariant: a pilot is in one state, and each change of it moves exactly one count.

mod beats;
mod calls;
mod reports;

use crate::effort;
use crate::pace::Schedule;
use crate::pilot::{Pilot, Seat, State, Timers};
use crate::plan::{FleetPlan, ReportPace, ReportPlan};
use crate::snapshot::{Snapshot, note};
use crate::stamp;
use base::prng::Prng;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::event::Counter;
use model::id::ConnRef;
use model::link::Link;
use model::pilot::{Action, Observation};
use net::{House, Opened};
use proto_miop::client::Client;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

pub(crate) type Desk = net::Desk<PilotHouse>;

/// Time between two looks at overdue answers, and between two readings of the request rate.
const TICK: Duration = Duration::from_millis(100);
/// Pilots looked at in one tick, at least; a tenth of all if that is more.
const SWEEP_SLICE: usize = 4_096;

/// What the fleet tells its houses.
pub(crate) enum Mail {
    /// Send what has been counted.
    Show(SyncSender<Box<Snapshot>>),
    /// The devices with these numbers shall do something.
    Act(Range<u32>, Action),
    /// Reports as in this plan from now on.
    Reports(Option<ReportPlan>),
    /// End.
    Stop,
}

/// Which pilots of the plan are here.
pub(crate) struct Share {
    /// This thread's number.
    pub thread: u16,
    /// The seed of this thread's jitter.
    pub seed: u64,
    /// Unix time at the beginning of the shards' clock, microseconds.
    pub origin_us: u64,
    /// Source addresses, taken in turn by the pilots of all threads.
    pub sources: Arc<[IpAddr]>,
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
    /// Pilots that were called up so far.
    called: usize,
    connects: Option<Schedule>,
    beats: Option<Schedule>,
    /// Pilots that may take the next planned heartbeat, longest waiting first; some may have gone.
    idle: VecDeque<u32>,
    reports: Option<ReportPlan>,
    report_pace: Option<Schedule>,
    /// Whose turn it is to report.
    cursor: usize,
    /// Pilots whose last Report was refused: they go on in the next tick.
    held: Vec<u32>,
    begun: Option<Begun>,
    swept: usize,
    stopping: bool,
    jitter: Prng,
    log: Snapshot,
}

/// What is known from the first turn on.
struct Begun {
    at: Instant,
    stop_at: Option<Instant>,
    ran: Duration,
    waited: Duration,
    tick_at: Instant,
    /// Requests answered up to the last tick.
    requests: u64,
}

impl PilotHouse {
    pub(crate) fn new(plan: Arc<FleetPlan>, share: Share) -> PilotHouse {
        let threads = usize::from(plan.threads);
        let count = (plan.count as usize + threads - 1 - usize::from(share.thread)) / threads;
        let log = Snapshot { planned: count as u64, ..Snapshot::default() };
        PilotHouse {
            reports: plan.reports.clone(),
            jitter: Prng::new(share.seed),
            plan,
            share,
            pilots: vec![Pilot::new(); count],
            seats: Vec::new(),
            resting: HashMap::new(),
            timers: Timers::new(),
            called: 0,
            connects: None,
            beats: None,
            idle: VecDeque::new(),
            report_pace: None,
            cursor: 0,
            held: Vec::new(),
            begun: None,
            swept: 0,
            stopping: false,
            log,
        }
    }

    /// What has been counted. Called on the shard's own thread, whose effort it reads.
    pub(crate) fn snapshot(&self, now: Now, desk: &Desk) -> Snapshot {
        let mut seen = self.log.clone();
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

    /// Place of a pilot in the whole plan.
    fn index(&self, pilot: u32) -> u32 {
        pilot * u32::from(self.plan.threads) + u32::from(self.share.thread)
    }

    fn number(&self, pilot: u32) -> u32 {
        self.plan.first_number + self.index(pilot)
    }

    fn at(&mut self, pilot: u32) -> &mut Pilot {
        &mut self.pilots[pilot as usize]
    }

    /// This thread's part of a rate of the whole fleet.
    fn share_of(&self, per_s: f64) -> f64 {
        per_s * self.pilots.len() as f64 / f64::from(self.plan.count)
    }

    /// The pilot on a connection.
    fn pilot_on(&self, conn: ConnRef) -> Option<u32> {
        let pilot = *self.seats.get(conn.key().slot as usize)?;
        (self.pilots.get(pilot as usize)?.conn == conn.bits()).then_some(pilot)
    }

    fn begin(&mut self, now: Now) {
        let (ran, waited) = effort::of_this_thread();
        let at = now.mono;
        let stop_at = self.plan.stop_after.map(|span| at + span);
        self.begun = Some(Begun { at, stop_at, ran, waited, tick_at: at + TICK, requests: 0 });
        self.connects = self.plan.connects_per_s.map(|rate| Schedule::new(at, self.share_of(rate)));
        self.plan_reports(now);
    }

    /// What happens ten times a second.
    fn tick(&mut self, now: Now, desk: &mut Desk) {
        let requests = self.log.requests();
        let Some(begun) = &mut self.begun else { return };
        if now.mono < begun.tick_at {
            return;
        }
        let spent = (now.mono - begun.tick_at + TICK).as_secs_f64();
        let rate = (requests - begun.requests) as f64 / spent;
        begun.tick_at = now.mono + TICK;
        begun.requests = requests;
        note(&mut self.log.requests_per_s, rate.round() as u64);
        for pilot in std::mem::take(&mut self.held) {
            self.fill_window(now, pilot, desk);
        }
        self.sweep(now, desk);
    }

    /// Looks at some pilots for answers that are overdue: at each at least once a second.
    fn sweep(&mut self, now: Now, desk: &mut Desk) {
        let most = SWEEP_SLICE.max(self.pilots.len() / 10 + 1).min(self.pilots.len());
        let timeout = self.plan.timeout;
        for _ in 0..most {
            self.swept = (self.swept + 1) % self.pilots.len();
            let pilot = &mut self.pilots[self.swept];
            if now.mono - pilot.since <= timeout {
                continue;
            }
            let conn = ConnRef::from_bits(pilot.conn);
            match pilot.state {
                State::Calling => desk.close(conn, CloseReason::TimedOut),
                State::Asking => desk.close(conn, CloseReason::BindTimeout),
                State::Online if pilot.pinging && !pilot.overdue => {
                    pilot.overdue = true;
                    self.log.unanswered += 1;
                }
                _ => {}
            }
        }
    }

    /// When the next turn must be, at the latest.
    fn next_turn(&self, now: Now) -> Option<Instant> {
        let begun = self.begun.as_ref()?;
        let mut next = begun.tick_at.min(begun.stop_at.unwrap_or(begun.tick_at));
        if let Some(std::cmp::Reverse((at, _, _))) = self.timers.peek() {
            next = next.min(*at);
        }
        if self.called < self.pilots.len() {
            match &self.connects {
                Some(plan) => next = next.min(plan.next()),
                None if self.has_room() => next = now.mono,
                None => {}
            }
        }
        if let Some(plan) = self.beats.as_ref().filter(|_| !self.idle.is_empty()) {
            next = next.min(plan.next());
        }
        if let Some(plan) = self.report_pace.as_ref().filter(|_| self.log.online_now > 0) {
            next = next.min(plan.next());
        }
        Some(next)
    }

    fn act(&mut self, now: Now, numbers: &Range<u32>, action: &Action, desk: &mut Desk) {
        for pilot in 0..self.pilots.len() as u32 {
            if self.at(pilot).state != State::Online || !numbers.contains(&self.number(pilot)) {
                continue;
            }
            match action {
                Action::Ping => self.ping(pilot, now.mono, desk),
                Action::Report(body) => self.report(pilot, now.mono, body.clone(), desk),
                Action::Pull(_) | Action::Publish { .. } | Action::Subscribe(_) => {
                    desk.deliver(ConnRef::from_bits(self.at(pilot).conn), action.clone());
                }
                Action::Unbind => {
                    self.at(pilot).farewell = true;
                    desk.deliver(ConnRef::from_bits(self.at(pilot).conn), action.clone());
                }
            }
        }
    }

    fn plan_reports(&mut self, now: Now) {
        self.report_pace = match &self.reports {
            Some(ReportPlan { pace: ReportPace::Rate(rate), .. }) => {
                Some(Schedule::new(now.mono, self.share_of(*rate)))
            }
            _ => None,
        };
    }

    fn message(&mut self, now: Now, body: &[u8], again: bool) {
        self.heard(now, (body, body.len() as u32), again);
    }

    /// A message with this front of so many bytes.
    fn heard(&mut self, now: Now, (front, bytes): (&[u8], u32), again: bool) {
        self.log.messages += 1;
        self.log.repeated_messages += u64::from(again);
        self.log.message_bytes += u64::from(bytes);
        let wall_us = self.share.origin_us + now.mono.nanos() / 1_000;
        if let Some(latency_us) = stamp::since_stamp(front, wall_us) {
            note(&mut self.log.push_us, latency_us);
        }
    }
}

impl House for PilotHouse {
    type Machine = Seat;
    type Mail = Mail;

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
            Observation::Message { body, again, .. } => self.message(now, &body, again),
            Observation::Taken { seq } => self.taken(now, pilot, seq, desk),
            Observation::NotTaken { seq, code } => self.not_taken(pilot, seq, code),
            Observation::Kicked { code } => self.kicked(now, pilot, code, desk),
            Observation::GoAway { retry_after_ms, .. } => {
                self.go_away(now, pilot, retry_after_ms, desk);
            }
            Observation::Pulled { .. } => self.log.pulled += 1,
            Observation::Heard { bytes, head, again } => {
                let front = head.len().min(bytes as usize);
                self.heard(now, (&head[..front], bytes), again);
            }
            Observation::Subscribed { .. } => {}
        }
    }

    fn mail(&mut self, now: Now, mail: Mail, desk: &mut Desk) {
        match mail {
            Mail::Show(to) => {
                // Whoever asked may have stopped waiting.
                let _ = to.try_send(Box::new(self.snapshot(now, desk)));
            }
            Mail::Act(numbers, action) => self.act(now, &numbers, &action, desk),
            Mail::Reports(plan) => {
                self.reports = plan;
                self.plan_reports(now);
                (0..self.pilots.len() as u32).for_each(|pilot| self.fill_window(now, pilot, desk));
            }
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
        let over = self.begun.as_ref().and_then(|begun| begun.stop_at);
        if !self.stopping && over.is_some_and(|at| at <= now.mono) {
            self.stopping = true;
            desk.stop();
        }
        if self.stopping {
            return None;
        }
        self.call_up(now, desk);
        self.fire_timers(now, desk);
        self.beat_by_plan(now, desk);
        self.report_by_plan(now, desk);
        self.tick(now, desk);
        self.next_turn(now)
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: Action, _: &mut Desk) {
        // The end of that connection has been told, and what was under way counted as lost.
    }

    fn ended(&mut self, now: Now, seat: &Seat, reason: CloseReason, _: &mut Desk) {
        self.connection_ended(now, seat, reason);
    }

    fn dialling(&mut self, _: Now, tag: u64, conn: ConnRef) {
        let slot = conn.key().slot as usize;
        if self.seats.len() <= slot {
            self.seats.resize(slot + 1, u32::MAX);
        }
        self.seats[slot] = tag as u32;
        self.at(tag as u32).conn = conn.bits();
    }

    fn dial_failed(&mut self, now: Now, tag: u64, reason: CloseReason, _: &mut Desk) {
        self.not_connected(now, tag as u32, reason);
    }
}

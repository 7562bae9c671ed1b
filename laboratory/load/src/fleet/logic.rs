//! The virtual clients of one thread: what a shard of the laboratory drives.
//!
//! The logic gives each virtual client of its [`ClientPool`] its orders and counts their fates. It
//! knows no frame and no socket. Heartbeats are in [`beats`](self::beats), messages in
//! [`traffic`](self::traffic) and [`hearing`](self::hearing), cuts and freezes of clients in
//! [`cuts`](self::cuts).

mod beats;
mod calls;
mod claims;
mod cuts;
mod ends;
mod flights;
mod hearing;
mod lately;
mod pairs;
mod traffic;

use super::client::{Client, ClientAct};
use super::plan::FleetPlan;
use super::pool::ClientPool;
use super::snapshot::Snapshot;
use super::stamp;
use super::virtual_client::{Ears, Flags, FleetSlot, State};
use base::time::{Instant, Now};
use flights::Flights;
use hearing::{Came, Gaps};
use lab::order::Cut;
use lab::plan::{Arrival, Traffic};
pub(crate) use lately::Lately;
use model::close::CloseReason;
use model::id::ConnRef;
use model::link::{Link, WireProfile};
use model::ports::virtual_client::{Action, DeliveryClaim, Observation};
use net::{ConnectionOrigin, ShardLogic};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use traffic::Streams;

pub(crate) type ShardHandle = net::ShardHandle<FleetLogic>;

/// Message of the fleet to its shards' logic.
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

/// State shared by the logics of a fleet's threads.
pub(crate) struct Share {
    /// Unix time at the beginning of the shards' clock, microseconds.
    pub origin_us: u64,
    /// Recent messages of a group that shares a subscription, on all threads.
    pub shared: Option<Arc<Mutex<Lately>>>,
}

/// The virtual clients of one thread, and what the plan has them do.
pub(crate) struct FleetLogic {
    pool: ClientPool,
    share: Share,
    /// Machines of virtual clients that will come back.
    resting: HashMap<u32, Client>,
    streams: Streams,
    flights: Flights,
    gaps: Gaps,
    lately: Lately,
    pairs: pairs::Pairs,
    /// The last message's number: they begin at the time of the run, so that no message of another
    /// run has one of them.
    numbered: u64,
    /// Virtual clients whose last message was refused: they go on in the next tick.
    held: Vec<u32>,
    flap: cuts::Flap,
    /// When frozen or deaf virtual clients went on last.
    thawed: Instant,
}

impl FleetLogic {
    pub(crate) fn new(plan: Arc<FleetPlan>, thread: u16, share: Share) -> FleetLogic {
        let numbered = share.origin_us % stamp::NUMBER_END;
        FleetLogic {
            pool: ClientPool::new(plan, thread),
            share,
            resting: HashMap::new(),
            streams: Streams::default(),
            flights: Flights::default(),
            gaps: Gaps::default(),
            lately: Lately::default(),
            pairs: pairs::Pairs::default(),
            numbered,
            held: Vec::new(),
            flap: cuts::Flap::default(),
            thawed: Instant::default(),
        }
    }

    /// The counts so far. Called on the shard's own thread, whose effort it reads.
    pub(crate) fn snapshot(&self, now: Now, handle: &ShardHandle) -> Snapshot {
        let mut seen = self.pool.snapshot(now, handle);
        if self.pool.stopping {
            seen.missing += self.gaps.open();
        }
        seen
    }

    fn tell(&mut self, virtual_client: u32, act: ClientAct, handle: &mut ShardHandle) {
        handle.deliver(self.pool.conn(virtual_client), act);
    }

    /// Does the work that is due ten times a second.
    fn tick(&mut self, now: Now, handle: &mut ShardHandle) {
        if !self.pool.is_tick(now) {
            return;
        }
        for virtual_client in std::mem::take(&mut self.held) {
            self.fill_windows(now, virtual_client, handle);
        }
        self.pool.log.missing += self.gaps.give_up(now.mono);
        self.flap_step(now, handle);
        self.pool.sweep(now, handle, |pool, virtual_client, handle| {
            look_at_online(now, pool, virtual_client, handle);
        });
    }

    /// When the next turn must be, at the latest.
    fn next_turn(&self, now: Now) -> Option<Instant> {
        let next = self.pool.next_turn(now)?;
        Some(self.next_message().map_or(next, |at| next.min(at)))
    }

    fn act(&mut self, now: Now, numbers: &Range<u32>, action: &Action, handle: &mut ShardHandle) {
        for virtual_client in 0..self.pool.clients.len() as u32 {
            if self.pool.at(virtual_client).state != State::Online
                || !numbers.contains(&self.pool.number(virtual_client))
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
    const WIRES: &'static [WireProfile] = &crate::target::WIRES;

    fn connected(&mut self, now: Now, tag: u64) {
        self.pool.tcp_stands(now, tag as u32);
    }

    fn machine(&mut self, now: Now, _: &Link, how: ConnectionOrigin) -> Option<FleetSlot> {
        let ConnectionOrigin::Dialled(tag) = how else { return None };
        Some(self.established(now, tag as u32))
    }

    fn word(&mut self, now: Now, from: ConnRef, word: Observation, handle: &mut ShardHandle) {
        let Some(virtual_client) = self.pool.client_on(from) else { return };
        match word {
            Observation::Bound { resumed, heartbeat_s, offline_count } => {
                self.bound(now, virtual_client, resumed, heartbeat_s, handle);
                self.fell_behind(virtual_client, offline_count);
            }
            Observation::Refused { code, retry_after_ms } => {
                self.refused(now, virtual_client, code, retry_after_ms, handle);
            }
            Observation::Pong => self.pong(now, virtual_client, handle),
            Observation::Message { body, again, .. } => {
                let front = &body[..body.len().min(stamp::PROOF_BYTES)];
                let (bytes, rest) = (body.len() as u32, stamp::rest_of(&body));
                let claim = DeliveryClaim::Nothing;
                let came = Came { front, bytes, rest, again, claim };
                self.heard(now, virtual_client, &came, handle);
            }
            Observation::Heard { bytes, head, rest, again, claim } => {
                let front = &head[..head.len().min(bytes as usize)];
                let came = Came { front, bytes, rest, again, claim };
                self.heard(now, virtual_client, &came, handle);
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
            Observation::Pulled { .. } => self.pool.log.pulled += 1,
            Observation::Fetched { messages, behind } => {
                self.fetched(virtual_client, messages, behind)
            }
            Observation::Skipped { messages } => self.pool.log.skipped += u64::from(messages),
            Observation::Overcounted => self.pool.log.overcounted += 1,
            Observation::Subscribed { granted, at_qos, refused } => {
                self.pool.log.subscribed += u64::from(granted);
                self.granted(virtual_client, at_qos, refused.is_empty());
                self.pool.log.not_subscribed += refused.len() as u64;
                for code in refused {
                    self.pool.log.codes.count(&format!("subscription refused {code}"));
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
                self.arrive(now, (total, arrival), sources, handle);
            }
            Mail::Act(numbers, action) => self.act(now, &numbers, &action, handle),
            Mail::Traffic(traffic) => self.send_from_now_on(now, &traffic, handle),
            Mail::Cut(share, how) => self.cut(now, share, how, handle),
            Mail::Flap(share_per_s) => self.flap = cuts::Flap::new(share_per_s),
            Mail::Stop => {
                self.pool.stopping = true;
                handle.stop();
            }
        }
    }

    fn turn(&mut self, now: Now, handle: &mut ShardHandle) -> Option<Instant> {
        self.pool.begin(now);
        if self.pool.stopping {
            return None;
        }
        self.dismiss(now, handle);
        self.pool.call_up(now, handle);
        self.fire_timers(now, handle);
        self.send_by_plan(now, handle);
        self.tick(now, handle);
        self.next_turn(now)
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, act: ClientAct, handle: &mut ShardHandle) {
        // The end of that connection has been told, and what was under way counted as lost: but for
        // what is said once, which waits for the next connection.
        if let ClientAct::Say(say) = act
            && self.pool.plan.profile.says_once()
        {
            self.say_later(*say, handle);
        }
    }

    fn ended(&mut self, now: Now, seat: &FleetSlot, reason: CloseReason, handle: &mut ShardHandle) {
        self.connection_ended(now, seat, reason, handle);
    }

    fn dialling(&mut self, _: Now, tag: u64, conn: ConnRef) {
        self.pool.dialling(tag, conn);
    }

    fn dial_failed(&mut self, now: Now, tag: u64, reason: CloseReason, handle: &mut ShardHandle) {
        self.not_connected(now, tag as u32, reason, handle);
    }
}

/// Looks at a client that is online for an answer that is overdue.
fn look_at_online(now: Now, pool: &mut ClientPool, virtual_client: u32, handle: &mut ShardHandle) {
    let (timeout, gives_up, conn) =
        (pool.plan.timeout, pool.plan.gives_up, pool.conn(virtual_client));
    let this = pool.at(virtual_client);
    let waited = now.mono - this.since;
    if waited <= timeout {
        return;
    }
    if this.flags.has(Flags::TOLD) {
        // Its farewell had no answer.
        handle.close(conn, CloseReason::OwnStop);
    } else if this.is_pinging() && this.ears != Ears::Frozen {
        if !this.flags.has(Flags::OVERDUE) {
            this.flags.set(Flags::OVERDUE);
            pool.log.unanswered += 1;
        }
        if gives_up.is_some_and(|span| waited > span) {
            handle.close(conn, CloseReason::KeepAliveTimeout);
        }
    }
}

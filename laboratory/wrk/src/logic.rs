//! The clients of one thread: what a shard of wrk drives.
//!
//! Every client is a closed loop: a request, its answer, a delay if the script has one, the next
//! request; with a rate, the next planned request goes to whichever client has waited longest. How
//! clients come and go is the laboratory's [`ClientPool`], what the script hears of it is in
//! [`calls`](self::calls), what they ask and hear in [`asks`](self::asks). It knows no bytes of a
//! protocol; what a script says it hands on.

mod asks;
mod calls;

use super::client_slot::{ClientSlot, ClientTask, Said, Scratch};
use super::tally::Tally;
use crate::script::{Script, ThreadShare, Wants};
use base::time::{Instant, Now};
use lab::cause::Cause;
use load::FleetPlan;
use load::fleet::client::FleetProfile;
use load::fleet::pace::Timetable;
use load::fleet::pool::ClientPool;
use model::close::CloseReason;
use model::id::ConnRef;
use model::link::{Link, WireProfile};
use net::{ConnectionOrigin, ShardLogic};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) type ShardHandle = net::ShardHandle<WrkLogic>;

/// Job of all threads.
pub struct Job {
    /// The clients, and how they connect and come back; a script may change their target.
    pub plan: FleetPlan,
    /// The topic of messages that have none of their own (MQTT).
    pub topic: String,
    /// Bytes that end an answer (TCP).
    pub end: Arc<[u8]>,
    /// How long it takes.
    pub duration: Duration,
    /// Requests a second of all threads.
    pub rate: Option<f64>,
    /// Set when the run is to end now.
    pub stop: Arc<AtomicBool>,
}

/// Kind of a client's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Asked {
    Bind,
    Heartbeat,
    /// A message that no answer is promised for: its time is none.
    Shot,
    Message,
    #[default]
    Request,
}

/// Open request of one client.
#[derive(Clone, Default)]
struct Exchange {
    /// When its request was sent.
    since: Instant,
    /// When it was planned to be.
    planned: Instant,
    /// Answers that are due.
    open: u32,
    asked: Asked,
    /// An answer is overdue, and was counted so.
    overdue: bool,
    /// Whether it has been online before.
    been: bool,
}

/// Requests that never change, and for each of them whether it is a HEAD.
type Fixed = (Arc<[u8]>, Arc<[bool]>);

const _: () = assert!(size_of::<Exchange>() <= 24, "what a client waits for is too large");

/// The clients of one thread.
pub struct WrkLogic {
    job: Arc<Job>,
    share: Arc<ThreadShare>,
    script: Option<Script>,
    wants: Wants,
    /// The request of a thread whose script has none of its own.
    fixed: Option<Fixed>,
    scratch: Arc<Scratch>,
    pool: ClientPool,
    exchanges: Vec<Exchange>,
    /// Clients whose next request goes out in the next turn.
    ready: VecDeque<u32>,
    /// Clients that may take the next planned request, longest waiting first.
    idle: VecDeque<u32>,
    pace: Option<Timetable>,
    /// Clients that were online at least once.
    arrived: usize,
    stop_at: Instant,
    /// Answers up to the last reading of the rate, and when that was.
    read: (u64, Instant),
    /// Counts of this logic; the pool has its own.
    log: Tally,
    /// Counts when the time was over.
    result: Option<Tally>,
    fault: Option<String>,
}

impl WrkLogic {
    /// The clients of one thread; `script` is its state, after `setup` and `init`.
    pub fn new(
        job: Arc<Job>,
        thread: u16,
        share: Arc<ThreadShare>,
        script: Option<Script>,
        scratch: Arc<Scratch>,
    ) -> Result<WrkLogic, String> {
        let plan = FleetPlan { to: vec![share.addr()], ..job.plan.clone() };
        let pool = ClientPool::new(Arc::new(plan), thread);
        let mut this = WrkLogic {
            exchanges: vec![Exchange::default(); pool.part_of(job.plan.count)],
            wants: script.as_ref().map_or(Wants::default(), Script::wants),
            job,
            share,
            script,
            fixed: None,
            scratch,
            pool,
            ready: VecDeque::new(),
            idle: VecDeque::new(),
            pace: None,
            arrived: 0,
            stop_at: Instant::default(),
            read: (0, Instant::default()),
            log: Tally::default(),
            result: None,
            fault: None,
        };
        this.fix_request()?;
        Ok(this)
    }

    /// The counts, and whether all sums agreed after the end too; or the script's error. Call it
    /// when the shard has ended.
    pub fn outcome(&mut self) -> Result<(Tally, bool), String> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.log.seen = self.pool.log.clone();
        let settled = self.log.accounts().iter().all(|account| account.agrees());
        Ok((self.result.take().unwrap_or_else(|| self.log.clone()), settled))
    }

    /// The script's state, which `done` may read.
    pub fn take_script(&mut self) -> Option<Script> {
        self.script.take()
    }

    fn speaks_http(&self) -> bool {
        matches!(self.job.plan.profile, FleetProfile::Http(_))
    }

    fn exchange(&mut self, virtual_client: u32) -> &mut Exchange {
        &mut self.exchanges[virtual_client as usize]
    }

    /// Asks the script something. The first error ends the test.
    fn script<R: Default>(&mut self, ask: impl FnOnce(&Script) -> Result<R, String>) -> R {
        if self.fault.is_some() {
            return R::default();
        }
        match self.script.as_ref().map(ask) {
            None => R::default(),
            Some(Ok(told)) => told,
            Some(Err(fault)) => {
                self.fault = Some(fault);
                R::default()
            }
        }
    }

    fn stage(&mut self, name: &str) {
        if self.wants.stage {
            self.script(|script| script.stage(name));
        }
    }

    fn begin(&mut self, now: Now) {
        let plan = &self.pool.plan;
        let (count, arrival, sources) = (plan.count, plan.arrival, plan.sources.as_slice().into());
        self.stop_at = now.mono + self.job.duration;
        self.read = (0, now.mono);
        self.pool.arrive(now, count, arrival, sources);
        self.stage("connect");
    }

    /// Whether this thread's time is over.
    fn is_over(&self) -> bool {
        self.fault.is_some() || self.share.is_stopped() || self.pool.is_over()
    }

    /// Fixes the counts at the end.
    fn conclude(&mut self, now: Now, handle: &mut ShardHandle) {
        self.pool.stopping = true;
        self.stage("end");
        if let Some(pace) = &mut self.pace {
            // A rate may be far above what can be: counting its debts must end.
            while self.pool.log.unsent < 100_000_000 && pace.next() <= now.mono {
                pace.take();
                self.pool.log.unsent += 1;
            }
        }
        self.result = Some(Tally { seen: self.pool.snapshot(now, handle), ..self.log.clone() });
        handle.stop();
    }

    /// Does the work that is due ten times a second. False: the time is over.
    fn tick(&mut self, now: Now, handle: &mut ShardHandle) -> bool {
        if !self.pool.is_tick(now) {
            return true;
        }
        let (answers, (counted, read_at)) = (self.pool.log.answered, self.read);
        // As wrk counts: a tenth of a second without an answer belongs to the next.
        if answers > counted {
            let spent = (now.mono - read_at).as_secs_f64();
            let rate = (answers - counted) as f64 / spent.max(1e-6);
            self.read = (answers, now.mono);
            self.log.per_s.note(rate as u64);
        }
        let exchanges = &mut self.exchanges;
        self.pool.sweep(now, handle, |pool, virtual_client, _| {
            let exchange = &mut exchanges[virtual_client as usize];
            let is_late = exchange.open > 0 && now.mono - exchange.since > pool.plan.timeout;
            if is_late && !std::mem::replace(&mut exchange.overdue, true) {
                pool.log.unanswered += 1;
            }
        });
        !self.job.stop.load(Ordering::Relaxed) && !self.is_over()
    }

    /// When the next turn must be, at the latest.
    fn next_turn(&self, now: Now) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(now.mono);
        }
        let next = self.pool.next_turn(now)?.min(self.stop_at);
        let pace = self.pace.as_ref().filter(|_| !self.idle.is_empty());
        Some(pace.map_or(next, |pace| next.min(pace.next())))
    }
}

impl ShardLogic for WrkLogic {
    type Machine = ClientSlot;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &load::target::WIRES;

    fn machine(&mut self, now: Now, _: &Link, how: ConnectionOrigin) -> Option<ClientSlot> {
        let ConnectionOrigin::Dialled(tag) = how else { return None };
        Some(self.established(now, tag as u32))
    }

    fn word(&mut self, now: Now, from: ConnRef, said: Said, handle: &mut ShardHandle) {
        let Some(virtual_client) = self.pool.client_on(from) else { return };
        match said {
            Said::Bound => self.bound(now, virtual_client),
            Said::Refused { code, retry_after_ms } => {
                self.refused(now, virtual_client, (code, retry_after_ms), handle);
            }
            Said::Pong => self.pong(now, virtual_client),
            Said::Settled(code) => self.answered(now, virtual_client, (code, &[], &[]), true),
            Said::Answer(answer) => self.answer(now, virtual_client, &answer, handle),
            Said::Message { topic, body } => self.message(virtual_client, &topic, &body),
            Said::Kicked(code) => self.kicked(now, virtual_client, code, handle),
            Said::GoAway(retry_after_ms) => {
                self.leave(now, virtual_client, Cause::Redirected, retry_after_ms, handle);
            }
        }
    }

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle) {}

    fn turn(&mut self, now: Now, handle: &mut ShardHandle) -> Option<Instant> {
        if self.pool.begin(now) {
            self.begin(now);
        }
        if self.pool.stopping {
            return None;
        }
        let over = self.stop_at <= now.mono;
        let told = self.script.is_some() && (self.fault.is_some() || self.share.is_stopped());
        if over || told || !self.tick(now, handle) {
            self.conclude(now, handle);
            return None;
        }
        self.pool.call_up(now, handle);
        while let Some(virtual_client) = self.pool.next_woken(now, handle) {
            self.ready.push_back(virtual_client);
        }
        self.ask_ready(now, handle);
        self.ask_by_plan(now, handle);
        self.next_turn(now)
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: ClientTask, _: &mut ShardHandle) {
        // The end of that connection has been told, and what was under way counted as lost.
    }

    fn ended(
        &mut self,
        now: Now,
        seat: &ClientSlot,
        reason: CloseReason,
        handle: &mut ShardHandle,
    ) {
        self.connection_ended(now, seat.virtual_client, reason, handle);
    }

    fn dialling(&mut self, _: Now, tag: u64, conn: ConnRef) {
        self.pool.dialling(tag, conn);
    }

    fn connected(&mut self, now: Now, tag: u64) {
        self.pool.tcp_stands(now, tag as u32);
    }

    fn dial_failed(&mut self, now: Now, tag: u64, reason: CloseReason, handle: &mut ShardHandle) {
        self.not_connected(now, tag as u32, reason, handle);
    }
}

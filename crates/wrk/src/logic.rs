//! The clients of one thread: what a shard of wrk drives.
//!
//! Every client is a closed loop: a request, its answer, a delay if the script has one, the next
//! request; with a rate, the next planned request goes to whichever client has waited longest. How
//! clients come and go is in [`calls`](self::calls), what they ask and hear in
//! [`asks`](self::asks). It knows no bytes of a protocol; what a script says it hands on.
//!
//! The invariant: a client is in one state, and each change of it moves exactly one count.

mod asks;
mod calls;

use super::client_slot::{ClientSlot, ClientTask, Said, Scratch};
use super::tally::Tally;
use crate::script::{Script, ThreadShare, Wants};
use base::prng::Prng;
use base::time::{Instant, Now};
use lab::cause::{Cause, Phase};
use load::effort;
use load::fleet::pace::Schedule;
use model::close::CloseReason;
use model::event::Counter;
use model::id::ConnRef;
use model::link::Link;
use net::layer::ClientLayers;
use net::{ConnectionOrigin, ShardLogic};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) type ShardHandle = net::ShardHandle<WrkLogic>;

/// Time between two looks at overdue answers, and between two readings of the request rate.
const TICK: Duration = Duration::from_millis(100);

/// What the clients speak.
pub enum WrkProtocol {
    /// HTTP.
    Http,
    /// MIOP.
    Miop(Arc<proto_miop::client::Profile>),
    /// MQTT, with the topic of messages that have none of their own.
    Mqtt(Arc<proto_mqtt::client::Profile>, String),
    /// Bytes; an answer ends with these.
    Tcp(Arc<[u8]>),
}

/// What all threads do.
pub struct Job {
    /// What the clients speak.
    pub kind: WrkProtocol,
    /// What goes around it.
    pub layers: ClientLayers,
    /// Source addresses, taken in turn; none: the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// Threads.
    pub threads: u16,
    /// Clients of each thread.
    pub clients: u32,
    /// How long it takes.
    pub duration: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Requests a second of all threads.
    pub rate: Option<f64>,
    /// Calls and Binds under way at once, of each thread.
    pub window: u64,
    /// First and longest wait before a client comes back.
    pub backoff: (Duration, Duration),
    /// Somebody wants it to end now.
    pub stop: Arc<AtomicBool>,
}

/// Where a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It was not called up yet, or waits to come back.
    Away,
    /// Its call is under way.
    Calling,
    /// Its Bind is under way.
    Asking,
    /// It may ask.
    Online,
    /// Its outcome is counted; the connection is about to end.
    Leaving,
    /// It will not come back.
    Gone,
}

/// What a client's request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Bind,
    Heartbeat,
    /// A message that no answer is promised for: its time is none.
    Shot,
    Message,
    Request,
}

/// One client.
#[derive(Clone)]
struct WrkClient {
    /// Its connection, as bits of a `ConnRef`.
    conn: u64,
    /// When what it waits for began; while leaving: when it may come back at the earliest.
    since: Instant,
    /// When it was planned to begin.
    planned: Instant,
    /// Answers that are due.
    open: u32,
    /// Which of its timers counts.
    timer: u16,
    /// Tries since it last had an answer.
    tries: u8,
    state: State,
    asked: Asked,
    /// An answer is overdue, and was counted so.
    overdue: bool,
    /// It has been called before.
    called: bool,
    /// It has been online before.
    been: bool,
}

/// Requests that never change, and for each of them whether it is a HEAD.
type Fixed = (Arc<[u8]>, Arc<[bool]>);

const _: () = assert!(size_of::<WrkClient>() <= 48, "a client is too large");

/// The clients of one thread.
pub struct WrkLogic {
    job: Arc<Job>,
    thread: u16,
    share: Arc<ThreadShare>,
    script: Option<Script>,
    wants: Wants,
    /// The request of a thread whose script has none of its own.
    fixed: Option<Fixed>,
    scratch: Arc<Scratch>,
    virtual_clients: Vec<WrkClient>,
    /// The client of each slot of the shard's connections.
    seats: Vec<u32>,
    timers: BinaryHeap<Reverse<(Instant, u32, u16)>>,
    /// Clients whose next request goes out in the next turn.
    ready: VecDeque<u32>,
    /// Clients that may take the next planned request, longest waiting first.
    idle: VecDeque<u32>,
    pace: Option<Schedule>,
    /// Clients that were called up so far.
    next_call: usize,
    /// Clients that were online at least once.
    arrived: usize,
    begun: Option<Begun>,
    swept: usize,
    jitter: Prng,
    stopping: bool,
    log: Tally,
    /// What had been counted when the time was over.
    result: Option<Tally>,
    fault: Option<String>,
}

/// What is known from the first turn on.
struct Begun {
    at: Instant,
    stop_at: Instant,
    ran: Duration,
    waited: Duration,
    tick_at: Instant,
    /// Answers up to the last reading of the rate, and when that was.
    answers: u64,
    read_at: Instant,
}

impl WrkLogic {
    /// The clients of one thread; `script` is its state, after `init`.
    pub fn new(
        job: Arc<Job>,
        thread: u16,
        share: Arc<ThreadShare>,
        script: Option<Script>,
        (scratch, seed): (Arc<Scratch>, u64),
    ) -> Result<WrkLogic, String> {
        let now = Instant::from_nanos(0);
        let virtual_client = WrkClient {
            conn: 0,
            since: now,
            planned: now,
            open: 0,
            timer: 0,
            tries: 0,
            state: State::Away,
            asked: Asked::Request,
            overdue: false,
            called: false,
            been: false,
        };
        let mut this = WrkLogic {
            virtual_clients: vec![virtual_client; job.clients as usize],
            wants: script.as_ref().map_or(Wants::default(), Script::wants),
            log: Tally { planned: u64::from(job.clients), ..Tally::default() },
            job,
            thread,
            share,
            script,
            fixed: None,
            scratch,
            seats: Vec::new(),
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            idle: VecDeque::new(),
            pace: None,
            next_call: 0,
            arrived: 0,
            begun: None,
            swept: 0,
            jitter: Prng::new(seed),
            stopping: false,
            result: None,
            fault: None,
        };
        this.fix_request()?;
        Ok(this)
    }

    /// What was counted, whether all sums agreed after the end too, and what went wrong in the
    /// script. To be asked when the shard has ended.
    pub fn outcome(&mut self) -> Result<(Tally, bool), String> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let settled = self.log.accounts().iter().all(|account| account.agrees());
        Ok((self.result.take().unwrap_or_else(|| self.log.clone()), settled))
    }

    /// The script's state, which `done` may read.
    pub fn take_script(&mut self) -> Option<Script> {
        self.script.take()
    }

    /// The client's number among those of all threads.
    fn number(&self, virtual_client: u32) -> u32 {
        virtual_client * u32::from(self.job.threads) + u32::from(self.thread)
    }

    fn at(&mut self, virtual_client: u32) -> &mut WrkClient {
        &mut self.virtual_clients[virtual_client as usize]
    }

    fn virtual_client_on(&self, conn: ConnRef) -> Option<u32> {
        let virtual_client = *self.seats.get(conn.key().slot as usize)?;
        (self.virtual_clients.get(virtual_client as usize)?.conn == conn.bits())
            .then_some(virtual_client)
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

    fn arm(&mut self, virtual_client: u32, at: Instant) {
        let this = &mut self.virtual_clients[virtual_client as usize];
        this.timer = this.timer.wrapping_add(1);
        self.timers.push(Reverse((at, virtual_client, this.timer)));
    }

    fn begin(&mut self, now: Now) {
        let (ran, waited) = effort::of_this_thread();
        let at = now.mono;
        self.begun = Some(Begun {
            at,
            stop_at: at + self.job.duration,
            ran,
            waited,
            tick_at: at + TICK,
            answers: 0,
            read_at: at,
        });
        self.stage("connect");
    }

    /// Whether this thread's time is over.
    fn is_over(&self, now: Now) -> bool {
        self.fault.is_some()
            || self.share.is_stopped()
            || self.virtual_clients.iter().all(|virtual_client| virtual_client.state == State::Gone)
            || self.begun.as_ref().is_some_and(|begun| begun.stop_at <= now.mono)
    }

    /// What has been counted, at the end.
    fn conclude(&mut self, now: Now, handle: &mut ShardHandle) {
        self.stopping = true;
        self.stage("end");
        if let Some(pace) = &mut self.pace {
            // A rate may be far above what can be: counting its debts must end.
            while self.log.unsent < 100_000_000 && pace.next() <= now.mono {
                pace.take();
                self.log.unsent += 1;
            }
        }
        self.log.bytes =
            (handle.counters.of(Counter::BytesIn), handle.counters.of(Counter::BytesOut));
        if let Some(begun) = &self.begun {
            let (ran, waited) = effort::of_this_thread();
            self.log.elapsed = now.mono - begun.at;
            self.log.threads.push(effort::ThreadUse {
                elapsed: self.log.elapsed,
                ran: ran.saturating_sub(begun.ran),
                waited: waited.saturating_sub(begun.waited),
                turn_us_max: handle.turn_us_max,
            });
        }
        self.result = Some(self.log.clone());
        handle.stop();
    }

    /// What happens ten times a second. False: the time is over.
    fn tick(&mut self, now: Now, handle: &mut ShardHandle) -> bool {
        let answers = self.log.requests();
        let Some(begun) = &mut self.begun else { return true };
        if now.mono < begun.tick_at {
            return true;
        }
        begun.tick_at = now.mono + TICK;
        // As wrk counts: a tenth of a second without an answer belongs to the next.
        if answers > begun.answers {
            let spent = (now.mono - begun.read_at).as_secs_f64();
            let rate = (answers - begun.answers) as f64 / spent.max(1e-6);
            (begun.answers, begun.read_at) = (answers, now.mono);
            self.log.per_s.note(rate as u64);
        }
        self.sweep(now, handle);
        !self.job.stop.load(Ordering::Relaxed) && !self.is_over(now)
    }

    /// When the next turn must be, at the latest.
    fn next_turn(&self, now: Now) -> Option<Instant> {
        let begun = self.begun.as_ref()?;
        let more = self.next_call < self.virtual_clients.len() && self.has_room();
        if more || !self.ready.is_empty() {
            return Some(now.mono);
        }
        let mut next = begun.tick_at.min(begun.stop_at);
        if let Some(Reverse((at, _, _))) = self.timers.peek() {
            next = next.min(*at);
        }
        if let Some(pace) = self.pace.as_ref().filter(|_| !self.idle.is_empty()) {
            next = next.min(pace.next());
        }
        Some(next)
    }
}

impl ShardLogic for WrkLogic {
    type Machine = ClientSlot;
    type Mail = ();

    fn machine(&mut self, now: Now, _: &Link, how: ConnectionOrigin) -> Option<ClientSlot> {
        let ConnectionOrigin::Dialled(tag) = how else { return None };
        Some(self.established(now, tag as u32))
    }

    fn word(&mut self, now: Now, from: ConnRef, said: Said, handle: &mut ShardHandle) {
        let Some(virtual_client) = self.virtual_client_on(from) else { return };
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
                self.leave(
                    now,
                    virtual_client,
                    (Phase::Online, Cause::Redirected),
                    retry_after_ms,
                    handle,
                );
            }
        }
    }

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle) {}

    fn turn(&mut self, now: Now, handle: &mut ShardHandle) -> Option<Instant> {
        if self.begun.is_none() {
            self.begin(now);
        }
        if self.stopping {
            return None;
        }
        let over = self.begun.as_ref().is_some_and(|begun| begun.stop_at <= now.mono);
        let told = self.script.is_some() && (self.fault.is_some() || self.share.is_stopped());
        if over || told || !self.tick(now, handle) {
            self.conclude(now, handle);
            return None;
        }
        self.call_up(handle, now);
        self.fire_timers(now, handle);
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
        let slot = conn.key().slot as usize;
        if self.seats.len() <= slot {
            self.seats.resize(slot + 1, u32::MAX);
        }
        self.seats[slot] = tag as u32;
        self.at(tag as u32).conn = conn.bits();
    }

    fn connected(&mut self, now: Now, tag: u64) {
        self.tcp_stands(now, tag as u32);
    }

    fn dial_failed(&mut self, now: Now, tag: u64, reason: CloseReason, handle: &mut ShardHandle) {
        self.not_connected(now, tag as u32, reason, handle);
    }
}

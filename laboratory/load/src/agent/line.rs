//! The connection to one agent: what it said, what is known of its clock, and whether it is there.
//!
//! Two threads a connection: one hears, the other pings. Their findings are behind one lock, and
//! waiting threads are woken. It does not know the other agents. Invariant: a lost agent stays
//! lost, and what it held open is in its counts as ended.

use super::offset::{Estimate, Exchange, Offset};
use super::proof::{self, Role};
use super::serve::proper;
use super::split::Split;
use super::wire::{self, REPLY_LINE_BYTES_MAX, Receiver, STRANGER_LINE_BYTES_MAX, Sender};
use super::words::{Call, Reply, VERSION};
use super::{PROOF_WAIT, SILENCE, now};
use crate::stamp;
use lab::cause::{Cause, Phase};
use lab::generator::Look;
use lab::host::{Environment, HostRow};
use lab::run::{Agent, Counts};
use lab::series::{Column, Reading, Unit};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that a connection to an agent may take.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// Time between two pings.
const PULSE: Duration = Duration::from_millis(500);
/// Pings before anything else is said, for a first idea of the clock.
const FIRST_PINGS: u32 = 16;
/// Change of the offset, microseconds, at which an agent gets the new one.
const CLOCK_STEP_US: u64 = 10;
/// Parts of accounts that are not over yet.
const UNDER_WAY: [&str; 4] = ["connecting", "asking", "online", "open"];

/// A connection to an agent.
pub(super) struct Line {
    pub(super) name: String,
    environment: Environment,
    /// Its place among those that make load; `None`: it only observes.
    pub(super) place: Option<u32>,
    pub(super) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Whether its loss was reported.
    pub(super) told_lost: bool,
    pub(super) told_steps: u32,
}

pub(super) struct Shared {
    sender: Sender,
    known: Mutex<Known>,
    news: Condvar,
}

/// The coordinator's knowledge of an agent.
pub(super) struct Known {
    pub(super) offset: Offset,
    /// Answers to orders that somebody waits for.
    pub(super) done: BTreeMap<u64, Result<(), String>>,
    pub(super) rows: Vec<HostRow>,
    /// Number of the last look that was answered.
    pub(super) seen: u64,
    /// When that was.
    pub(super) seen_at: Instant,
    pub(super) examined: u64,
    pub(super) look: Look,
    /// When it was lost, and why.
    pub(super) lost: Option<(Instant, String)>,
    over: bool,
}

impl Line {
    pub(super) fn connect(addr: &str, token: &str, seed: u64) -> Result<Line, String> {
        let stream = call(addr)?;
        let opened = wire::open(stream, STRANGER_LINE_BYTES_MAX);
        let (sender, mut receiver) = opened.map_err(|error| error.to_string())?;
        let (name, environment, loads) = introduce(token, seed, &sender, &mut receiver)?;
        receiver.allow(REPLY_LINE_BYTES_MAX);
        let shared = Shared { sender, known: Mutex::new(Known::new()), news: Condvar::new() };
        let shared = Arc::new(shared);
        for _ in 0..FIRST_PINGS {
            shared.sender.send(&Call::Ping { asked_us: stamp::wall_us() })?;
            let pong = receiver.next(PROOF_WAIT)?.ok_or("connection closed")?;
            shared.lock().hear(pong)?;
        }
        shared.sender.send(&Call::Clock { ahead_us: shared.estimate().ahead_us })?;
        let (hearing, pinging) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            start("agent-hear", move || hearing.hear(&mut receiver))?,
            start("agent-ping", move || pinging.pulse())?,
        ];
        let place = loads.then_some(0);
        let line =
            Line { name, environment, place, shared, threads, told_lost: false, told_steps: 0 };
        Ok(line)
    }

    /// Adds what this agent has seen, under its own name.
    pub(super) fn add_to(&self, whole: &mut Look, split: &Split, began: Option<Instant>) {
        let mut known = self.shared.lock();
        let Estimate { ahead_us, error_us } = self.shared.estimate_of(&known);
        for (name, counts) in &known.look.groups {
            whole.groups.entry(name.clone()).or_default().add(counts);
        }
        let theirs = known.look.agents.first().cloned().unwrap_or_default();
        whole.agents.push(Agent {
            name: self.name.clone(),
            environment: self.environment.clone(),
            offset_us: ahead_us,
            offset_error_us: error_us,
            clients: self.place.map_or(0, |place| split.clients(place)),
            lost_ms: known.lost.as_ref().map(|(at, _)| {
                let since = began.map(|began| at.saturating_duration_since(began));
                since.unwrap_or_default().as_millis() as u64
            }),
            cpu_s: theirs.cpu_s,
            busiest: theirs.busiest,
            turn_us_max: theirs.turn_us_max,
        });
        if known.lost.is_some() {
            return;
        }
        let reading = std::mem::take(&mut known.look.reading);
        whole.reading.extend(named(&reading, &self.name));
        let mut offset = Reading::default();
        offset.set(Column::gauge("clock.ahead_us", Unit::Micros), ahead_us as f64);
        offset.set(Column::gauge("clock.error_us", Unit::Micros), error_us as f64);
        whole.reading.extend(offset.of_whom(&self.name));
        let saturation = std::mem::take(&mut known.look.saturation);
        whole.saturation.extend(saturation.into_iter().map(|why| format!("{}: {why}", self.name)));
        let notes = std::mem::take(&mut known.look.notes);
        whole.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", self.name)));
    }
}

impl Drop for Line {
    /// Leaves: the agent ends its clients.
    fn drop(&mut self) {
        self.shared.say(&Call::Leave);
        self.shared.lock().over = true;
        self.shared.news.notify_all();
        self.shared.sender.end();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to end.
            let _ = thread.join();
        }
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message; an agent that cannot be reached any more is lost.
    pub(super) fn say(&self, call: &Call) {
        if self.lock().lost.is_some() {
            return;
        }
        if let Err(why) = self.sender.send(call) {
            self.lose(&why);
        }
    }

    /// Waits for something to be so, for the agent's loss, or until it is too late.
    pub(super) fn wait(
        &self,
        until: Instant,
        so: impl Fn(&Known) -> bool,
    ) -> MutexGuard<'_, Known> {
        let mut known = self.lock();
        loop {
            let left = until.saturating_duration_since(now());
            if so(&known) || known.lost.is_some() || left.is_zero() {
                return known;
            }
            let waited = self.news.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn estimate(&self) -> Estimate {
        self.estimate_of(&self.lock())
    }

    fn estimate_of(&self, known: &Known) -> Estimate {
        known.offset.now(stamp::wall_us()).unwrap_or_default()
    }

    pub(super) fn lose(&self, why: &str) {
        let mut known = self.lock();
        if known.lost.is_none() && !known.over {
            known.lost = Some((now(), why.to_owned()));
            known.look.groups.values_mut().for_each(forget);
        }
        drop(known);
        self.sender.end();
        self.news.notify_all();
    }

    /// The hearing thread: until the agent is lost or the run is over.
    fn hear(&self, receiver: &mut Receiver) {
        let why = loop {
            let reply = match receiver.next::<Reply>(SILENCE) {
                Ok(Some(Reply::Sorry { why })) => break why,
                Ok(Some(reply)) => reply,
                Ok(None) => break "connection closed".to_owned(),
                Err(why) => break why,
            };
            let heard = self.lock().hear(reply);
            self.news.notify_all();
            if let Err(why) = heard {
                break why;
            }
        };
        self.lose(&why);
    }

    /// The pinging thread, likewise.
    fn pulse(&self) {
        let mut told = i64::MAX;
        loop {
            let known = self.lock();
            let waited = self
                .news
                .wait_timeout_while(known, PULSE, |known| !known.over && known.lost.is_none());
            let (known, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if !waited.timed_out() {
                return;
            }
            let ahead_us = self.estimate_of(&known).ahead_us;
            drop(known);
            if ahead_us.abs_diff(told) >= CLOCK_STEP_US {
                self.say(&Call::Clock { ahead_us });
                told = ahead_us;
            }
            self.say(&Call::Ping { asked_us: stamp::wall_us() });
        }
    }
}

impl Known {
    fn new() -> Known {
        Known {
            offset: Offset::default(),
            done: BTreeMap::new(),
            rows: Vec::new(),
            seen: 0,
            seen_at: now(),
            examined: 0,
            look: Look::default(),
            lost: None,
            over: false,
        }
    }

    /// Takes in what the agent said.
    fn hear(&mut self, reply: Reply) -> Result<(), String> {
        match reply {
            Reply::Pong { asked_us, heard_us, told_us } => {
                let back_us = stamp::wall_us();
                self.offset.note(Exchange { asked_us, heard_us, told_us, back_us });
            }
            Reply::Done { number, error } => {
                self.done.insert(number, error.map_or(Ok(()), Err));
            }
            Reply::Fitness { number, rows } => (self.examined, self.rows) = (number, rows),
            Reply::Seen { number, look } => {
                (self.seen, self.seen_at) = (number, now());
                let mut look = *look;
                for (name, counts) in &mut look.groups {
                    // Only what timings have grown by travels.
                    if let Some(before) = self.look.groups.get(name) {
                        counts.timings.add(&before.timings);
                    }
                }
                // Reasons that nobody has asked for yet are kept.
                look.saturation.append(&mut self.look.saturation);
                look.saturation.sort_unstable();
                look.saturation.dedup();
                look.notes.append(&mut self.look.notes);
                self.look = look;
            }
            Reply::Hello { .. } | Reply::Welcome { .. } => {
                return Err("it sent two introductions".to_owned());
            }
            Reply::Sorry { why } => return Err(why),
        }
        Ok(())
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| format!("no thread: {error}"))
}

/// Connects to the first address of a name that answers.
fn call(addr: &str) -> Result<TcpStream, String> {
    let addrs = addr.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut failed = "no address".to_owned();
    for addr in addrs.collect::<Vec<SocketAddr>>() {
        match TcpStream::connect_timeout(&addr, CONNECT_WAIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error.to_string(),
        }
    }
    Err(failed)
}

/// Proves that we know the token and has the agent prove the same: its name, its machine and
/// whether it makes load.
fn introduce(
    token: &str,
    seed: u64,
    sender: &Sender,
    receiver: &mut Receiver,
) -> Result<(String, Environment, bool), String> {
    let hello = receiver.next(PROOF_WAIT)?.ok_or("connection closed")?;
    let Reply::Hello { version, nonce: theirs } = hello else {
        return Err("not an agent".to_owned());
    };
    if version != VERSION {
        return Err(format!("its protocol version is {version}, this coordinator's {VERSION}"));
    }
    let nonce = proof::nonce()?;
    let proof = proof::prove(token, Role::Coordinator, nonce, theirs);
    sender.send(&Call::Prove { version: VERSION, nonce, proof, seed })?;
    match receiver.next(PROOF_WAIT)?.ok_or("connection closed")? {
        Reply::Welcome { proof, name, environment, loads } => {
            if !proof::holds(proof, token, Role::Agent, nonce, theirs) {
                return Err("wrong token".to_owned());
            }
            Ok((proper(&name), environment, loads))
        }
        Reply::Sorry { why } => Err(why),
        _ => Err("it did not introduce itself".to_owned()),
    }
}

/// A tester's figures under the agent's name; others as they are.
fn named(reading: &Reading, agent: &str) -> Reading {
    let mut named = Reading::default();
    for (column, value) in reading.iter() {
        let column = match column.name.strip_prefix("tester.") {
            Some(rest) => Column {
                name: format!("{agent}.{rest}").into(),
                unit: column.unit,
                kind: column.kind,
            },
            None => column.clone(),
        };
        named.set(column, *value);
    }
    named
}

/// Ends everything that a lost agent held: its open connections and attempts count as ended, and no
/// more clients are expected.
fn forget(counts: &mut Counts) {
    let calls = counts.accounts.iter().filter(|account| account.what == "attempts");
    let mut parts = calls.flat_map(|account| &account.parts);
    let connecting = parts.find(|(part, _)| part == "connecting").map_or(0, |(_, count)| *count);
    let bound = counts.online.min(counts.open);
    for (phase, count) in
        [(Phase::Connect, connecting), (Phase::Bind, counts.open - bound), (Phase::Online, bound)]
    {
        (0..count).for_each(|_| counts.causes.count(phase, Cause::AgentLost));
    }
    for (part, _) in counts.accounts.iter_mut().flat_map(|account| &mut account.parts) {
        if UNDER_WAY.contains(&part.as_str()) {
            part.push_str(" when the agent was lost");
        }
    }
    (counts.open, counts.online, counts.planned) = (0, 0, 0);
}

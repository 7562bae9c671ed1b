//! All decisions of one device: a machine that knows no socket, clock, random source or disk.
//!
//! ```text
//! Idle ─start─► Connecting ─► Binding ─► Bound ─close─► Closing ─► Ended
//!                ▲    │ fails    │ no      │ lost                    ▲
//!                │    ▼          ▼         ▼        permanent no     │
//!                └─ Waiting ◄────┴─────────┴─────────────────────────┘
//! ```
//! Its input is events (`connected`, `received`, `lost`, `tick`) and requests of the application;
//! `take` returns the actions, in order. A push is handed out once: its id is held until
//! the application acknowledges it, then remembered.

use crate::backoff::Backoff;
pub use crate::credentials::Credentials;
use crate::heartbeat::Heartbeat;
use crate::reports::{QueueFull, Reports};
use crate::state::{hex, Saved};
use crate::wire::{opcode, word, Claim, Fault, Frame, Properties, Record, CAP_PULLS};
use std::collections::{HashSet, VecDeque};

const CONNECT_MS: u64 = 15_000;
const BIND_MS: u64 = 15_000;
const PONG_MS: u64 = 30_000;
const NUDGE_MS: u64 = 10_000;
/// A PING that is later than this tests no interval: the device slept.
const LATE_MS: u64 = 30_000;
const CLOSE_MS: u64 = 5_000;
/// Acknowledged ids that are remembered.
const SEEN_MAX: usize = 256;
/// Pushes that the application may hold; no server sends so many.
const HELD_MAX: usize = 4_096;
/// Ends with addresses that are followed without a wait, between two sessions.
const FOLLOWS_MAX: u32 = 3;

/// Where randomness comes from: a number from 0 up to 1, and bytes for nonces and client ids.
pub(crate) trait Random: Send {
    fn unit(&mut self) -> f64;
    fn bytes(&mut self) -> [u8; 16];
}

/// Parts of a new machine.
pub(crate) struct Settings {
    pub addresses: Vec<String>,
    pub product: String,
    pub device: String,
    pub credentials: Box<dyn FnMut() -> Credentials + Send>,
    pub random: Box<dyn Random>,
    pub tags: Option<Vec<String>>,
    pub max_inflight: Option<u16>,
    pub pulls: bool,
    /// Shortest, first and longest, seconds.
    pub heartbeat: [u16; 3],
    /// The heartbeat that is asked for, seconds; 0: the product's default.
    pub heartbeat_wish: u16,
    pub backoff_first_ms: u64,
    pub backoff_longest_ms: u64,
    pub frame_bytes_max: usize,
}

/// Where the client is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// The client was not started.
    Idle,
    /// The client opens a connection to this address.
    Connecting(String),
    /// The client waits for the answer to its BIND.
    Binding,
    /// The client has a session.
    Bound {
        /// The earlier session continues.
        resumed: bool,
        /// The agreed heartbeat, seconds.
        heartbeat: u32,
        /// Pushes that the server has stored.
        offline_count: u32,
    },
    /// The client connects again later.
    Waiting {
        /// When, milliseconds of the client's clock.
        until: u64,
        /// Why the connection ended.
        why: String,
        /// The fault of the connection in the system's words, for people; it may be empty.
        detail: String,
    },
    /// The client waits for the server's answer to its UNBIND.
    Closing,
    /// The client does not come back by itself.
    Ended {
        /// A word.
        why: String,
        /// The server's number (MIOP 9).
        result: Option<u8>,
    },
}

/// An action for the client.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Action {
    Connect(String),
    Send(Vec<u8>),
    Disconnect,
    Save(String),
    State(State),
    Push(Record),
    Stored(String),
    Pulled(u32),
    Handled(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Connecting,
    Binding,
    Bound,
    Waiting,
    Closing,
    Ended,
}

/// How a connection ended, as the server said it.
#[derive(Clone, Default)]
struct End {
    why: String,
    result: Option<u8>,
    hint_ms: u64,
    addrs: Vec<String>,
    server_time: Option<u64>,
}

impl End {
    fn by(why: &str) -> End {
        End { why: why.to_owned(), ..End::default() }
    }

    fn of(frame: &Frame, otherwise: u8) -> End {
        let it = &frame.properties;
        let result = it.result.unwrap_or(otherwise);
        End {
            why: word(result),
            result: Some(result),
            hint_ms: it.retry_after_ms.unwrap_or(0).into(),
            addrs: it.addrs.clone(),
            server_time: it.server_time,
        }
    }

    /// A device does not come back by itself.
    fn is_permanent(&self) -> bool {
        self.hint_ms == 0 && matches!(self.result, Some(11 | 20..=24 | 40 | 41))
    }
}

/// One device. Times are milliseconds of a clock that never goes back.
pub(crate) struct Machine {
    settings: Settings,
    backoff: Backoff,
    heartbeat: Heartbeat,
    reports: Reports,
    session: Option<([u8; 32], u64)>,
    seen: VecDeque<u64>,
    held: HashSet<u64>,
    acks: Vec<u64>,
    actions: Vec<Action>,
    is_dirty: bool,
    phase: Phase,
    due: Option<u64>,
    buffer: Vec<u8>,
    /// Addresses that the server named.
    named: VecDeque<String>,
    last_bound: Option<String>,
    turn: usize,
    address: String,
    follows: u32,
    // Of one connection.
    claim: Option<Claim>,
    is_challenged: bool,
    error: Option<End>,
    /// The server is about to go: leave when the pushes of this turn are acknowledged.
    away: Option<End>,
    bound_at: u64,
    agreed: u32,
    sent_at: u64,
    heard_at: u64,
    pong_due: Option<u64>,
    pong_silence_ms: u64,
    /// A silence that may have killed the connection before, and the heartbeat agreed then: the
    /// next Bind decides.
    suspect: Option<(u64, u32)>,
    wall_ms: u64,
    clock_offset_ms: i64,
    is_clock_corrected: bool,
}

impl Machine {
    /// A device that is not started; it goes on with what an earlier process stored.
    pub fn new(settings: Settings, saved: Option<Saved>) -> Machine {
        let mut saved = saved.unwrap_or_default();
        if saved.product != settings.product || saved.device != settings.device {
            // Of another device only what was learned about networks is of use.
            saved = Saved { networks: saved.networks, next_seq: 1, ..Saved::default() };
        }
        let mut heartbeat = Heartbeat::new(settings.heartbeat);
        heartbeat.load(saved.networks);
        Machine {
            backoff: Backoff::new(settings.backoff_first_ms, settings.backoff_longest_ms),
            settings,
            heartbeat,
            reports: Reports::new(saved.next_seq, saved.reports),
            session: saved.session,
            seen: saved.seen.into(),
            held: HashSet::new(),
            acks: Vec::new(),
            actions: Vec::new(),
            is_dirty: false,
            phase: Phase::Idle,
            due: None,
            buffer: Vec::new(),
            named: VecDeque::new(),
            last_bound: None,
            turn: 0,
            address: String::new(),
            follows: 0,
            claim: None,
            is_challenged: false,
            error: None,
            away: None,
            bound_at: 0,
            agreed: 0,
            sent_at: 0,
            heard_at: 0,
            pong_due: None,
            pong_silence_ms: 0,
            suspect: None,
            wall_ms: 0,
            clock_offset_ms: 0,
            is_clock_corrected: false,
        }
    }

    // -- what the application wants

    /// Connects, unless it does already.
    pub fn start(&mut self, now: u64) {
        if matches!(self.phase, Phase::Idle | Phase::Ended) {
            self.is_clock_corrected = false;
            self.connect(now);
        }
    }

    /// Says goodbye if it can, and ends.
    pub fn close(&mut self, now: u64) {
        match self.phase {
            Phase::Bound => {
                self.flush_acks(now);
                self.send(now, &Frame::new(opcode::UNBIND, Properties::default()));
                self.become_(Phase::Closing, Some(now + CLOSE_MS));
                self.say(State::Closing);
            }
            Phase::Connecting | Phase::Binding => self.shut(),
            Phase::Idle | Phase::Waiting => self.end("closed", None),
            Phase::Closing | Phase::Ended => {}
        }
    }

    /// The network changed or the device woke up: finds out at once whether it is connected.
    pub fn nudge(&mut self, now: u64) {
        match self.phase {
            Phase::Waiting => self.connect(now),
            Phase::Bound => {
                if self.pong_due.is_none() {
                    self.ping(now);
                }
                self.pong_due = self.pong_due.map(|due| due.min(now + NUDGE_MS));
            }
            _ => {}
        }
    }

    /// The device is in this network now; its heartbeat is what was learned there.
    pub fn network(&mut self, now: u64, name: &str) {
        self.heartbeat.enter(name);
        self.suspect = None;
        self.pong_silence_ms = 0;
        self.nudge(now);
    }

    /// The application has this push. Its id is stored before the server hears of it.
    pub fn acknowledge(&mut self, id: u64) {
        if self.held.remove(&id) {
            self.seen.push_back(id);
            if self.seen.len() > SEEN_MAX {
                self.seen.pop_front();
            }
            self.is_dirty = true;
            self.acks.push(id);
        }
    }

    /// The application could not handle it: it may come again.
    pub fn reject(&mut self, id: u64) {
        self.held.remove(&id);
    }

    /// Queues a Report; its client id.
    pub fn report(
        &mut self,
        now: u64,
        payload: &[u8],
        client_id: Option<String>,
    ) -> Result<String, QueueFull> {
        let client_id = client_id.unwrap_or_else(|| hex(&self.settings.random.bytes()));
        if self.reports.add(&client_id, payload)? {
            self.is_dirty = true;
            self.send_reports(now);
        }
        Ok(client_id)
    }

    /// Asks for stored pushes; false without a session.
    pub fn pull(&mut self, now: u64, count: u16) -> bool {
        let is_bound = self.phase == Phase::Bound;
        if is_bound {
            let count = Some(count.max(1));
            self.send(now, &Frame::new(opcode::PULL, Properties { count, ..Default::default() }));
        }
        is_bound
    }

    // -- what happens

    /// The connection that was asked for is open.
    pub fn connected(&mut self, now: u64, wall_ms: u64, is_safe: bool) {
        if self.phase != Phase::Connecting {
            return;
        }
        self.buffer.clear();
        (self.is_challenged, self.error, self.away) = (false, None, None);
        self.become_(Phase::Binding, Some(now + BIND_MS));
        self.say(State::Binding);
        let bind = self.bind(wall_ms);
        if bind.token.is_some() && !is_safe {
            // A server that names another one cannot make the client show its token to a network.
            return self.leave(now, &End::by("insecure"));
        }
        self.send(now, &Frame::new(opcode::BIND, bind));
    }

    /// Bytes of the server.
    pub fn received(&mut self, now: u64, bytes: &[u8]) {
        if !self.listens() {
            return;
        }
        self.heard(now);
        self.buffer.extend_from_slice(bytes);
        let buffer = std::mem::take(&mut self.buffer);
        let mut at = 0;
        while self.listens() {
            match Frame::decode(&buffer[at..], self.settings.frame_bytes_max) {
                Ok(None) => break,
                Ok(Some((frame, length))) => {
                    at += length;
                    if let Err(Fault(name)) = self.handle(now, &frame) {
                        return self.leave(now, &End::by(name));
                    }
                    self.actions.push(Action::Handled(frame.opcode));
                }
                Err(Fault(name)) => return self.leave(now, &End::by(name)),
            }
        }
        self.buffer = buffer;
        self.buffer.drain(..at);
    }

    /// The connection could not be opened, or was closed by the other side.
    pub fn lost(&mut self, now: u64, why: &str) {
        match self.phase {
            Phase::Closing => self.end("closed", None),
            Phase::Connecting | Phase::Binding | Phase::Bound => {
                if self.pong_due.is_some() {
                    self.suspect = Some((self.pong_silence_ms, self.agreed));
                }
                let said = self.away.take().or(self.error.take());
                self.after(now, &said.unwrap_or_else(|| End::by(why)));
            }
            _ => {}
        }
    }

    /// Time has gone by.
    pub fn tick(&mut self, now: u64) {
        if self.phase == Phase::Bound && self.away.is_none() {
            return self.tick_bound(now);
        }
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        match self.phase {
            Phase::Waiting => self.connect(now),
            Phase::Connecting => self.leave(now, &End::by("connect_timeout")),
            Phase::Binding => self.leave(now, &End::by("bind_timeout")),
            Phase::Closing => self.shut(),
            _ => {
                if let Some(end) = self.away.take() {
                    self.leave(now, &end);
                }
            }
        }
    }

    /// When `tick` is needed next.
    pub fn due(&mut self) -> Option<u64> {
        if self.phase != Phase::Bound || self.away.is_some() {
            return self.due;
        }
        let due = match self.pong_due {
            Some(due) => due,
            None => self.ping_due(),
        };
        Some(self.reports.paused_until.map_or(due, |until| until.min(due)))
    }

    /// It has left the connection, or asked for another one, and that is still to be done: what
    /// the old connection says does not count any more.
    pub fn has_left(&self) -> bool {
        let leaves = |it: &Action| matches!(it, Action::Disconnect | Action::Connect(_));
        self.actions.iter().any(leaves)
    }

    /// What to do, in order. Acknowledgements of one turn share a frame; what was learned and
    /// promised is stored before it is said.
    pub fn take(&mut self, now: u64) -> Vec<Action> {
        if self.phase == Phase::Bound {
            self.flush_acks(now);
        }
        self.acks.clear(); // without a connection: they follow when the pushes come again
        let mut actions = std::mem::take(&mut self.actions);
        if std::mem::take(&mut self.is_dirty) {
            actions.insert(0, Action::Save(self.saved().to_text()));
        }
        actions
    }

    /// The last `Save` failed: the next turn says it again.
    pub fn not_saved(&mut self) {
        self.is_dirty = true;
    }

    fn saved(&self) -> Saved {
        let (next_seq, reports) = self.reports.saved();
        Saved {
            product: self.settings.product.clone(),
            device: self.settings.device.clone(),
            session: self.session,
            seen: self.seen.iter().copied().collect(),
            next_seq,
            reports: reports.to_vec(),
            networks: self.heartbeat.learned().to_vec(),
        }
    }

    // -- connecting

    fn listens(&self) -> bool {
        let listens = matches!(self.phase, Phase::Binding | Phase::Bound | Phase::Closing);
        listens && self.away.is_none()
    }

    fn become_(&mut self, phase: Phase, due: Option<u64>) {
        (self.phase, self.due, self.pong_due) = (phase, due, None);
    }

    fn say(&mut self, state: State) {
        self.actions.push(Action::State(state));
    }

    fn connect(&mut self, now: u64) {
        let named = self.named.pop_front();
        let address = match named.or_else(|| self.last_bound.take()) {
            Some(address) => address,
            None => {
                self.turn += 1;
                let addresses = &self.settings.addresses;
                addresses[(self.turn - 1) % addresses.len()].clone()
            }
        };
        self.address.clone_from(&address);
        self.become_(Phase::Connecting, Some(now + CONNECT_MS));
        self.say(State::Connecting(address.clone()));
        self.actions.push(Action::Connect(address));
    }

    fn bind(&mut self, wall_ms: u64) -> Properties {
        let it = &mut self.settings;
        let proof = (it.credentials)();
        let caps = if it.pulls { CAP_PULLS } else { 0 };
        let mut tags = it.tags.clone().unwrap_or_default();
        if it.tags.is_some() && tags.is_empty() {
            tags.push(String::new());
        }
        let mut bind = Properties {
            device_id: Some(it.device.clone()),
            product_key: Some(it.product.clone()),
            heartbeat_wish: Some([
                it.heartbeat_wish,
                self.heartbeat.shortest,
                self.heartbeat.longest,
            ]),
            resume_token: self.session.map(|(token, _)| token),
            session_epoch: self.session.map(|(_, epoch)| epoch),
            caps: it.pulls.then_some(caps),
            max_inflight: it.max_inflight,
            tags,
            ..Properties::default()
        };
        self.wall_ms = wall_ms;
        self.claim = None;
        match proof {
            Credentials::None => {}
            Credentials::Token(token) => (bind.auth_type, bind.token) = (Some(2), Some(token)),
            Credentials::Certificate => bind.auth_type = Some(3),
            Credentials::Secret { key_id, secret } => {
                let claim = Claim {
                    secret,
                    product: it.product.clone(),
                    device: it.device.clone(),
                    client_ts: wall_ms.saturating_add_signed(self.clock_offset_ms),
                    client_nonce: it.random.bytes(),
                    caps,
                };
                (bind.auth_type, bind.key_id) = (Some(1), Some(key_id));
                bind.client_ts = Some(claim.client_ts);
                bind.client_nonce = Some(claim.client_nonce);
                bind.mac = Some(claim.sign(b""));
                self.claim = Some(claim);
            }
        }
        bind
    }

    // -- frames

    fn handle(&mut self, now: u64, frame: &Frame) -> Result<(), Fault> {
        if frame.skipped {
            return Ok(());
        }
        match (frame.opcode, self.phase) {
            (opcode::ERROR, _) => self.take_error(now, frame),
            (opcode::KICK, _) => self.leave(now, &End::of(frame, 0)),
            (opcode::REDIRECT, _) => self.leave(now, &End::of(frame, 33)),
            (opcode::GO_AWAY, _) => self.go_away(now, End::of(frame, 32)),
            (opcode::BIND_ACK, Phase::Binding) => return self.take_bind_ack(now, frame),
            (opcode::CHALLENGE, Phase::Binding) => return self.take_challenge(now, frame),
            (opcode::UNBIND_ACK, Phase::Closing) => self.shut(),
            (_, Phase::Closing) => {}
            (_, Phase::Bound) => return self.take_bound(now, frame),
            _ => return Err(Fault("out_of_order")),
        }
        Ok(())
    }

    fn take_bound(&mut self, now: u64, frame: &Frame) -> Result<(), Fault> {
        let it = &frame.properties;
        match frame.opcode {
            opcode::MSG => return self.take_msg(frame),
            opcode::PONG => {} // all bytes answer a PING: see `heard`
            opcode::PULL => self.actions.push(Action::Pulled(it.offline_count.unwrap_or(0))),
            opcode::CONFIG => {
                self.agreed = it.heartbeat.map_or(self.agreed, |it| u32::from(it).max(1));
            }
            opcode::REPORT_ACK => {
                for client_id in self.reports.taken(it.report_seq.unwrap_or(0)) {
                    self.is_dirty = true;
                    self.actions.push(Action::Stored(client_id));
                }
                self.send_reports(now);
            }
            _ => return Err(Fault("out_of_order")),
        }
        Ok(())
    }

    fn go_away(&mut self, now: u64, end: End) {
        if self.phase != Phase::Bound {
            return self.leave(now, &end);
        }
        // Messages that came before may still be acknowledged, in this turn.
        (self.away, self.due) = (Some(end), Some(now));
    }

    fn take_bind_ack(&mut self, now: u64, frame: &Frame) -> Result<(), Fault> {
        let it = &frame.properties;
        if it.result.is_some_and(|result| result > 1) {
            self.leave(now, &End::of(frame, 0));
            return Ok(());
        }
        let heartbeat = it.heartbeat.ok_or(Fault("missing_property"))?;
        if let (Some(token), Some(epoch)) = (it.resume_token, it.session_epoch) {
            self.session = Some((token, epoch));
            self.is_dirty = true;
        }
        self.named.clear();
        self.follows = 0;
        self.is_clock_corrected = false;
        self.last_bound = Some(self.address.clone());
        self.agreed = u32::from(heartbeat).max(1);
        self.become_(Phase::Bound, None);
        self.bound_at = now;
        if let Some((silence_ms, agreed)) = self.suspect.take() {
            // The network was there: it had forgotten the silent connection.
            self.is_dirty |= self.heartbeat.failed(silence_ms, agreed);
        }
        self.reports.bound();
        let (resumed, offline_count) = (it.result == Some(1), it.offline_count.unwrap_or(0));
        self.say(State::Bound { resumed, heartbeat: self.agreed, offline_count });
        self.send_reports(now);
        Ok(())
    }

    fn take_challenge(&mut self, now: u64, frame: &Frame) -> Result<(), Fault> {
        let nonce = frame.properties.server_nonce.ok_or(Fault("missing_property"))?;
        let claim = self.claim.as_ref().filter(|_| !self.is_challenged);
        let mac = Some(claim.ok_or(Fault("out_of_order"))?.sign(&nonce));
        self.is_challenged = true;
        self.send(now, &Frame::new(opcode::AUTH, Properties { mac, ..Properties::default() }));
        Ok(())
    }

    fn take_error(&mut self, now: u64, frame: &Frame) {
        let it = &frame.properties;
        if let Some(seq) = it.report_seq {
            let random = self.settings.random.unit();
            self.reports.refused(now, seq, random);
        } else if it.reason.as_deref() != Some("unknown_opcode") {
            self.error = Some(End::of(frame, 50));
        }
    }

    fn take_msg(&mut self, frame: &Frame) -> Result<(), Fault> {
        for record in &frame.records {
            if self.held.contains(&record.id) {
                continue;
            }
            if self.seen.contains(&record.id) {
                if !self.acks.contains(&record.id) {
                    self.acks.push(record.id);
                }
                continue;
            }
            if self.held.len() >= HELD_MAX {
                return Err(Fault("too_large"));
            }
            self.held.insert(record.id);
            self.actions.push(Action::Push(record.clone()));
        }
        Ok(())
    }

    // -- sending

    fn send(&mut self, now: u64, frame: &Frame) {
        self.sent_at = now;
        self.actions.push(Action::Send(frame.encode()));
    }

    fn flush_acks(&mut self, now: u64) {
        if !self.acks.is_empty() {
            let mut frame = Frame::new(opcode::MSG_ACK, Properties::default());
            frame.payload = self.acks.drain(..).flat_map(u64::to_be_bytes).collect();
            self.send(now, &frame);
        }
    }

    fn send_reports(&mut self, now: u64) {
        if self.phase != Phase::Bound {
            return;
        }
        for (seq, payload) in self.reports.to_send(now) {
            let mut frame = Frame::new(opcode::REPORT, Properties::default());
            (frame.seq, frame.payload) = (Some(seq), payload);
            self.send(now, &frame);
        }
    }

    // -- heartbeat

    fn ping_due(&mut self) -> u64 {
        let interval_ms = u64::from(self.heartbeat.interval(self.agreed)) * 1_000;
        let silent_since = self.sent_at.max(self.heard_at);
        (silent_since + interval_ms).min(self.sent_at + u64::from(self.agreed) * 1_000)
    }

    fn ping(&mut self, now: u64) {
        let is_late = now >= self.ping_due() + LATE_MS;
        let silence_ms = now - self.sent_at.max(self.heard_at).min(now);
        self.pong_silence_ms = if is_late { 0 } else { silence_ms };
        self.send(now, &Frame::new(opcode::PING, Properties::default()));
        self.pong_due = Some(now + PONG_MS);
    }

    fn heard(&mut self, now: u64) {
        self.heard_at = now;
        if self.pong_due.take().is_some() {
            self.is_dirty |= self.heartbeat.survived(self.pong_silence_ms, self.agreed);
        }
    }

    fn tick_bound(&mut self, now: u64) {
        if self.pong_due.is_some_and(|due| now >= due) {
            self.suspect = Some((self.pong_silence_ms, self.agreed));
            return self.leave(now, &End::by("no_pong"));
        }
        if self.pong_due.is_none() && now >= self.ping_due() {
            self.ping(now);
        }
        self.send_reports(now);
    }

    // -- ends

    /// Closes the connection, and goes on as `end` says.
    fn leave(&mut self, now: u64, end: &End) {
        self.actions.push(Action::Disconnect);
        self.after(now, end);
    }

    fn after(&mut self, now: u64, end: &End) {
        match self.phase {
            Phase::Closing => return self.end("closed", None),
            Phase::Bound => self.backoff.lasted(now - self.bound_at),
            _ => self.suspect = None, // the network or the server was away
        }
        if !end.addrs.is_empty() {
            self.named = end.addrs.iter().cloned().collect();
        }
        if self.corrects_clock(end) {
            return self.connect(now);
        }
        if end.is_permanent() {
            return self.end(&end.why, end.result);
        }
        if !end.addrs.is_empty() && end.hint_ms == 0 && self.follows < FOLLOWS_MAX {
            self.follows += 1;
            return self.connect(now);
        }
        let random = self.settings.random.unit();
        let until = now + self.backoff.next(random, end.hint_ms);
        self.become_(Phase::Waiting, Some(until));
        self.say(State::Waiting { until, why: end.why.clone(), detail: String::new() });
    }

    fn corrects_clock(&mut self, end: &End) -> bool {
        let Some(server_time) = end.server_time else { return false };
        if end.result != Some(21) || self.is_clock_corrected {
            return false;
        }
        self.is_clock_corrected = true;
        self.clock_offset_ms = server_time.wrapping_sub(self.wall_ms) as i64;
        true
    }

    fn shut(&mut self) {
        self.actions.push(Action::Disconnect);
        self.end("closed", None);
    }

    fn end(&mut self, why: &str, result: Option<u8>) {
        self.become_(Phase::Ended, None);
        self.say(State::Ended { why: why.to_owned(), result });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Random for Fixed {
        fn unit(&mut self) -> f64 {
            0.5
        }
        fn bytes(&mut self) -> [u8; 16] {
            [7; 16]
        }
    }

    fn machine(saved: Option<Saved>) -> Machine {
        let settings = Settings {
            addresses: vec!["127.0.0.1:1".into()],
            product: "demo".into(),
            device: "dev".into(),
            credentials: Box::new(Credentials::default),
            random: Box::new(Fixed),
            tags: None,
            max_inflight: None,
            pulls: false,
            heartbeat: [30, 120, 1_800],
            heartbeat_wish: 0,
            backoff_first_ms: 1_000,
            backoff_longest_ms: 60_000,
            frame_bytes_max: 65_536,
        };
        Machine::new(settings, saved)
    }

    fn bound() -> Machine {
        let mut machine = machine(None);
        machine.start(0);
        machine.connected(0, 0, true);
        let properties = Properties {
            result: Some(0),
            heartbeat: Some(300),
            resume_token: Some([1; 32]),
            session_epoch: Some(1),
            ..Properties::default()
        };
        machine.received(0, &Frame::new(opcode::BIND_ACK, properties).encode());
        machine.take(0);
        machine
    }

    fn msg(id: u64) -> Vec<u8> {
        let mut frame = Frame::new(opcode::MSG, Properties::default());
        frame.payload = id.to_be_bytes().to_vec();
        frame.payload.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, b'h', b'i']);
        frame.encode()
    }

    #[test]
    fn an_id_is_saved_before_the_server_hears_of_it() {
        let mut machine = bound();
        machine.received(0, &msg(7));
        machine.take(0);
        machine.acknowledge(7);
        let actions = machine.take(0);
        let [Action::Save(text), Action::Send(frame)] = &actions[..] else {
            panic!("{actions:?}");
        };
        assert!(text.contains("\nseen 7\n"), "{text}");
        assert!(frame.ends_with(&7u64.to_be_bytes()));
    }

    #[test]
    fn a_report_is_saved_before_it_is_sent() {
        let mut machine = bound();
        assert_eq!(machine.report(0, b"x", Some("one".into())), Ok("one".into()));
        let actions = machine.take(0);
        let [Action::Save(text), Action::Send(_)] = &actions[..] else { panic!("{actions:?}") };
        assert!(text.contains("\nreport 1 6f6e65 78\n"), "{text}");
    }

    #[test]
    fn the_state_of_another_device_is_not_used() {
        let saved = bound().saved();
        assert!(machine(Some(saved.clone())).session.is_some());
        let other = Saved { device: "other".into(), ..saved };
        assert!(machine(Some(other)).session.is_none());
    }

    #[test]
    fn damaged_frames_end_no_process() {
        let good = [msg(7), bound().settings.device.into_bytes()].concat();
        let mut random = 1u32;
        let mut next = |below: usize| {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (random >> 16) as usize % below
        };
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..3 {
                let at = 2 + next(bytes.len() - 2);
                bytes[at] = next(256) as u8;
            }
            let _ = Frame::decode(&bytes, 65_536);
        }
    }
}

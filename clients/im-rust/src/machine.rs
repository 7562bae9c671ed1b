//! One device of an account: what happens and the time go in, actions come out.
//!
//! Knows no socket, timer, disk or randomness. Times are milliseconds.
//!
//! ```text
//! idle -> opening -> login -> online -> waiting -> opening ...
//!                                    -> ended
//! ```

use crate::answer;
use crate::backoff::Backoff;
use crate::heartbeat::Heartbeat;
use crate::inbox::Inbox;
use crate::outbox::{Outbox, Queued};
use crate::pb::client_frame::Request;
use crate::pb::server_frame::Answer;
use crate::pb::{self, ClientFrame, Content, Reason};
use crate::proof::{self, Scram};
use crate::state::Saved;
use crate::wire::{self, Fault};
use crate::words::{self, Error};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// For a connection and the login.
const CONNECT_MS: u64 = 20_000;
/// How long a server may take to say anything when it was asked.
const ANSWER_MS: u64 = 30_000;
/// The same after a nudge: the connection is likely to be dead.
const PROBE_MS: u64 = 10_000;
/// A Ping that is later than this tests no interval: the device slept.
const LATE_MS: u64 = 30_000;
/// A server cannot send a client away for longer than this.
const HINT_MS_MAX: u64 = 3_600_000;
/// Requests under way at once, if the server allows as many.
const WINDOW_MAX: u32 = 64;
/// Ends with the name of another server that are followed without a wait between two sessions.
const FOLLOWED_MAX: u32 = 3;
/// Client ids of own messages that were told, and may still be pulled.
const OWN_TOLD_MAX: usize = 1_024;
/// The silence that is assumed of a server that names none, seconds.
const SILENCE_S: u32 = 60;
/// The number of pulls; no other request has it.
const PULL_NUMBER: u32 = u32::MAX;
const NUMBER_MAX: u32 = i32::MAX as u32;

/// How the device proves its account.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Nothing is proved.
    #[default]
    None,
    /// Proved by SCRAM-SHA-256, which does not show it. A server without SCRAM gets it only over
    /// TLS, or on this machine.
    Password(String),
    /// A token of your identity provider, which is sent as it is: only over TLS, or on this
    /// machine.
    Token(String),
    /// A token that [`crate::Client::request_token`] gave to this device: likewise.
    LoginToken(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// State of the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Not started yet.
    Idle,
    /// Connecting to this address.
    Connecting(String),
    /// Logged in as this account, `name@domain`.
    Online(String),
    /// Waiting until this time of its clock to connect again.
    Waiting {
        /// Milliseconds.
        until: u64,
        /// A word of IM 8.1, or `unreachable`, `disconnected`, `timed_out`, `pin_mismatch`,
        /// `insecure`, `credentials_failed`, `server_malformed`.
        why: String,
        /// The fault of the connection in the system's words, for people; it may be empty.
        detail: String,
    },
    /// Ended for good: a word of IM 8.1, or `server_not_proved`, `closed`.
    Ended(String),
}

/// A message is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Number that `send` returned.
    pub client_id: String,
    /// To whom, as it was sent.
    pub to: String,
    /// The server's number for it.
    pub id: u64,
    /// Its place in the conversation.
    pub seq: u64,
    /// When the server stored it, Unix milliseconds.
    pub at_ms: u64,
}

/// A message is given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// Number that `send` returned.
    pub client_id: String,
    /// To whom, as it was sent.
    pub to: String,
    /// Why.
    pub error: Error,
}

/// Actions to carry out, in this order.
#[derive(Debug)]
pub enum Action {
    /// Open a connection to this address; its number is that of [`Machine::connection`].
    Connect(u64, String),
    /// End the connection, or the attempt.
    Disconnect,
    /// Write bytes.
    Send(Vec<u8>),
    /// Store this text, before the bytes that follow are written.
    Save(String),
    /// Hand out what is at this place of the inbox.
    Message(u64, pb::ChatMessage),
    /// Likewise, something else than a message.
    Change(pb::InboxEvent),
    /// Tell that a message is stored.
    Sent(Sent),
    /// Tell that a message is given up.
    Failed(Failed),
    /// Of the request with this number.
    Answer(u32, Result<Answer, Error>),
    /// Something without a place in the inbox.
    Told(Answer),
    /// A frame was handled; its answer's name.
    Handled(&'static str),
    /// The client does something else now.
    State(State),
}

/// Settings of a machine.
pub struct Settings {
    /// `host:port`; at least one.
    pub addresses: Vec<String>,
    /// `name` or `name@domain`.
    pub account: String,
    /// The device's own name.
    pub device: String,
    /// The longest silence of the client that it asks for, seconds; 0: the server's.
    pub silence_s: u32,
    /// Credentials may be new at the next connection.
    pub renews: bool,
    /// Shortest, first and longest interval between signs of life, seconds.
    pub heartbeat: [u32; 3],
    /// From 0 up to 1, for the back-off.
    pub random: Box<dyn FnMut() -> f64 + Send>,
    /// A new word for each exchange.
    pub nonce: Box<dyn FnMut() -> String + Send>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Opening,
    Login,
    Online,
    Waiting,
    Ended,
}

/// The decisions of one client.
pub struct Machine {
    settings: Settings,
    inbox: Inbox,
    outbox: Outbox,
    heartbeat: Heartbeat,
    backoff: Backoff,
    phase: Phase,
    /// Rises when a connection begins or ends.
    connection: u64,
    actions: Vec<Action>,
    /// Requests of the application that have no answer yet.
    asked: BTreeSet<u32>,
    own_told: VecDeque<Vec<u8>>,
    data: Vec<u8>,
    scram: Option<Scram>,
    /// Proof that the server must give in LoggedIn.
    expected: Option<Vec<u8>>,
    shows_password: bool,
    is_safe: bool,
    /// Of the session.
    limits: pb::LoggedIn,
    since: u64,
    said: u64,
    heard: u64,
    attempts: u32,
    /// The silence before the Ping that has no answer yet, seconds; 0: it tests nothing.
    tested_s: u32,
    /// End of waiting, opening, login.
    due: Option<u64>,
    /// Without an answer until then the connection is dead.
    dead: Option<u64>,
    not_before: u64,
    number: u32,
    turn: usize,
    followed: u32,
    /// Addresses that are tried before the configured ones.
    first: VecDeque<String>,
    address: String,
    saved: (Option<u64>, u64, u64),
}

impl Machine {
    /// A client that does nothing yet. A state of another device is not used.
    pub(crate) fn new(settings: Settings, saved: Option<Saved>) -> Machine {
        let is_own = |it: &Saved| it.account == settings.account && it.device == settings.device;
        let saved = saved.filter(is_own).unwrap_or_default();
        let mut heartbeat = Heartbeat::new(settings.heartbeat);
        heartbeat.load(saved.networks);
        let mut made = Machine {
            settings,
            inbox: Inbox::new(saved.last),
            outbox: Outbox::new(saved.queue),
            heartbeat,
            backoff: Backoff::default(),
            phase: Phase::Idle,
            connection: 0,
            actions: Vec::new(),
            asked: BTreeSet::new(),
            own_told: VecDeque::new(),
            data: Vec::new(),
            scram: None,
            expected: None,
            shows_password: false,
            is_safe: false,
            limits: pb::LoggedIn::default(),
            since: 0,
            said: 0,
            heard: 0,
            attempts: 0,
            tested_s: 0,
            due: None,
            dead: None,
            not_before: 0,
            number: 0,
            turn: 0,
            followed: 0,
            first: VecDeque::new(),
            address: String::new(),
            saved: (None, 0, 0),
        };
        made.saved = made.version();
        made
    }

    /// Of what is to be stored.
    fn version(&self) -> (Option<u64>, u64, u64) {
        (self.inbox.done(), self.outbox.version, self.heartbeat.version)
    }

    fn state(&self) -> String {
        let saved = Saved {
            account: self.settings.account.clone(),
            device: self.settings.device.clone(),
            last: self.inbox.done(),
            queue: self.outbox.queue().to_vec(),
            networks: self.heartbeat.learned().to_vec(),
        };
        saved.to_text()
    }

    // ---- orders

    /// Begins to connect.
    pub fn start(&mut self, now: u64) {
        if matches!(self.phase, Phase::Idle | Phase::Ended) {
            (self.backoff, self.shows_password) = (Backoff::default(), false);
            self.open(now);
        }
    }

    /// Says goodbye, and ends.
    pub fn close(&mut self, now: u64) {
        if self.phase == Phase::Online {
            self.say(now, Request::Goodbye(pb::Goodbye {}));
        }
        self.end("closed");
    }

    /// The network changed, or the machine woke up.
    pub fn nudge(&mut self, now: u64) {
        match self.phase {
            Phase::Waiting if now >= self.not_before => self.open(now),
            Phase::Online => {
                self.ping(now);
                let probe = now + PROBE_MS;
                self.dead = Some(self.dead.map_or(probe, |dead| dead.min(probe)));
            }
            _ => {}
        }
    }

    /// The device is in another network now.
    pub fn network(&mut self, now: u64, name: &str) {
        self.heartbeat.enter(name);
        self.tested_s = 0;
        self.nudge(now);
    }

    /// Queues a message. A client id that waits already is not queued again.
    pub fn send(&mut self, client_id: [u8; 16], to: &str, content: Content) -> Result<(), Error> {
        self.outbox.add(Queued { client_id, to: to.to_owned(), content })?;
        if self.phase == Phase::Online {
            self.give_up_large();
        }
        Ok(())
    }

    /// Asks something; the answer has the number that is returned.
    pub fn request(&mut self, now: u64, mut request: Request) -> u32 {
        let number = self.next_number();
        let refused = if self.phase != Phase::Online {
            Some("disconnected")
        } else if self.asked.len() >= self.window() {
            Some("queue_full")
        } else if !answer::set_number(&mut request, number) {
            Some("invalid")
        } else {
            None
        };
        match refused {
            Some(code) => self.actions.push(Action::Answer(number, Err(Error::new(code)))),
            None => {
                self.asked.insert(number);
                self.ask(now, request);
            }
        }
        number
    }

    /// Says something that has no answer; nothing without a connection.
    pub fn tell(&mut self, now: u64, request: Request) {
        if self.phase == Phase::Online {
            self.say(now, request);
        }
    }

    /// The application has what is at this place of the inbox.
    pub fn acknowledge(&mut self, now: u64, place: u64) {
        self.inbox.release(now, place);
    }

    // ---- the connection

    /// The connection is open. `is_safe`: secrets may be shown.
    pub fn connected(&mut self, now: u64, credentials: &Credentials, is_safe: bool) {
        (self.phase, self.is_safe) = (Phase::Login, is_safe);
        (self.scram, self.expected) = (None, None);
        if !is_safe && matches!(credentials, Credentials::Token(_) | Credentials::LoginToken(_)) {
            return self.lose(now, "insecure", 0);
        }
        let name = self.settings.account.clone();
        let local = name.split('@').next().unwrap_or_default();
        let mut login = pb::Login { device: self.settings.device.clone(), ..Default::default() };
        login.silence_s = self.settings.silence_s;
        match credentials {
            Credentials::None => {}
            Credentials::Token(token) => login.password = token.clone().into_bytes(),
            Credentials::Password(password) if self.shows_password => {
                login.password = password.clone().into_bytes();
            }
            Credentials::Password(password) => {
                let scram = Scram::new(local, password, &(self.settings.nonce)());
                (login.method, login.data) = (proof::SCRAM.to_owned(), scram.first());
                self.scram = Some(scram);
            }
            Credentials::LoginToken(token) => {
                let (first, expected) = proof::hashed_token(local, token);
                (login.method, login.data) = (proof::HASHED_TOKEN.to_owned(), first);
                self.expected = Some(expected);
            }
        }
        login.name = name;
        self.actions.push(Action::Send(wire::PREFACE.to_vec()));
        self.say(now, Request::Login(login));
    }

    /// Bytes of the server.
    pub fn received(&mut self, now: u64, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        (self.heard, self.dead) = (now, None);
        if self.tested_s > 0 {
            self.heartbeat.lived(std::mem::take(&mut self.tested_s));
        }
        let data = std::mem::take(&mut self.data);
        let mut at = 0;
        while matches!(self.phase, Phase::Login | Phase::Online) {
            match self.next_frame(now, &data[at..]) {
                Ok(0) => break,
                Ok(length) => at += length,
                Err(_) => return self.lose(now, "server_malformed", 0),
            }
        }
        // A connection that was left has no bytes.
        if matches!(self.phase, Phase::Login | Phase::Online) {
            self.data = data;
            self.data.drain(..at);
        }
    }

    /// Takes the frame at the beginning of `data`; its length, 0 if it is not whole.
    fn next_frame(&mut self, now: u64, data: &[u8]) -> Result<usize, Fault> {
        let content = self.limits.text_bytes_max as usize + self.limits.extra_bytes_max as usize;
        let bytes_max = wire::FRAME_BYTES_MAX.max(content + wire::BESIDE_CONTENT_BYTES);
        let Some((frame, length)) = wire::decode(data, bytes_max)? else { return Ok(0) };
        if let Some(answer) = frame.answer {
            let name = answer.name();
            self.take_answer(now, answer)?;
            self.actions.push(Action::Handled(name));
        }
        Ok(length)
    }

    /// The connection has ended, or did not begin.
    pub fn lost(&mut self, now: u64, why: &str) {
        if !self.has_left() {
            self.lose(now, why, 0);
        }
    }

    /// The number of the connection that counts: what is left of others is to be ignored, even
    /// before the actions that follow from their ends are done.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// There is no connection, and none begins.
    pub(crate) fn has_left(&self) -> bool {
        !matches!(self.phase, Phase::Opening | Phase::Login | Phase::Online)
    }

    // ---- time

    /// When `tick` is due.
    pub fn due(&self) -> Option<u64> {
        if self.phase != Phase::Online {
            return self.due;
        }
        let times = [self.dead, Some(self.ping_at()), self.inbox.due(), self.outbox.due()];
        times.into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64) {
        if self.phase != Phase::Online {
            match self.due {
                Some(due) if now >= due && self.phase == Phase::Waiting => self.open(now),
                Some(due) if now >= due => self.lose(now, "timed_out", 0),
                _ => {}
            }
        } else if self.dead.is_some_and(|dead| now >= dead) {
            self.lose(now, "timed_out", 0);
        } else if now >= self.ping_at() {
            let silence_s = ((now - self.said.max(self.heard)) / 1_000) as u32;
            let is_test = silence_s >= self.heartbeat.interval(self.limits.silence_s)
                && now < self.ping_at() + LATE_MS;
            self.ping(now);
            self.tested_s = if is_test { silence_s } else { 0 };
        }
    }

    /// After silence, and in any case before the server has heard nothing for its time.
    fn ping_at(&self) -> u64 {
        let agreed = self.limits.silence_s;
        let interval = u64::from(self.heartbeat.interval(agreed));
        let silent = self.said.max(self.heard) + interval * 1_000;
        silent.min(self.said + u64::from(agreed) * 1_000)
    }

    /// Takes the actions to carry out: first events, then the state to store, then frames to send
    /// because of both.
    pub fn take(&mut self, now: u64) -> Vec<Action> {
        if self.phase == Phase::Online {
            self.pump(now);
        }
        let mut actions = std::mem::take(&mut self.actions);
        if self.version() != self.saved {
            self.saved = self.version();
            let first = actions.iter().position(|it| matches!(it, Action::Send(_)));
            actions.insert(first.unwrap_or(actions.len()), Action::Save(self.state()));
        }
        actions
    }

    // ---- answers

    fn take_answer(&mut self, now: u64, answer: Answer) -> Result<(), Fault> {
        if let Answer::End(it) = answer {
            self.farewell(now, it.reason, it.retry_after_ms, it.server);
            return Ok(());
        }
        if self.phase == Phase::Login {
            return self.take_in_login(now, answer);
        }
        let is_asked = answer::number(&answer).is_some_and(|number| self.asked.contains(&number));
        match answer {
            Answer::LoggedIn(_) | Answer::Challenge(_) | Answer::Refused(_) => {
                return Err(Fault::Malformed);
            }
            Answer::Message(it) => {
                if self.inbox.comes(it.seq) {
                    self.hand_out(it);
                }
            }
            Answer::Event(it) => {
                if self.inbox.comes(it.seq) {
                    self.hand_out_change(it);
                }
            }
            Answer::Notify(it) => self.inbox.notify(it.head),
            Answer::Page(it) if it.number == PULL_NUMBER => self.take_page(it),
            Answer::Sent(it) if !is_asked => self.stored(&it),
            Answer::Failed(it) if !is_asked => self.failed(now, &it),
            Answer::Pong(_) => {}
            other => self.answered(other, is_asked),
        }
        self.inbox.advance(now);
        Ok(())
    }

    fn take_in_login(&mut self, now: u64, answer: Answer) -> Result<(), Fault> {
        match answer {
            Answer::LoggedIn(it) => self.logged_in(now, it),
            Answer::Challenge(it) => {
                let answer = self.scram.as_ref().and_then(|scram| scram.answer(&it.data));
                let Some((data, expected)) = answer else {
                    self.end("server_not_proved");
                    return Ok(());
                };
                self.expected = Some(expected);
                self.say(now, Request::Proceed(pb::Proceed { data }));
            }
            Answer::Refused(it) => self.farewell(now, it.reason, it.retry_after_ms, it.server),
            _ => return Err(Fault::Malformed),
        }
        Ok(())
    }

    fn logged_in(&mut self, now: u64, it: pb::LoggedIn) {
        let must_prove = self.scram.is_some() || self.expected.is_some();
        if must_prove && self.expected.as_ref() != Some(&it.data) {
            return self.end("server_not_proved");
        }
        (self.phase, self.since, self.due) = (Phase::Online, now, None);
        self.limits = it;
        if self.limits.silence_s == 0 {
            self.limits.silence_s = SILENCE_S;
        }
        self.followed = 0;
        self.first.clear();
        self.heard = now;
        self.heartbeat.bound(self.attempts == 1);
        self.attempts = 0;
        self.inbox.begin(self.limits.cursor, self.limits.head);
        self.actions.push(Action::State(State::Online(self.limits.account.clone())));
        self.give_up_large();
    }

    /// Messages and events in the order of the inbox.
    fn take_page(&mut self, page: pb::InboxPage) {
        let before = self.inbox.page(page.upto, page.head);
        let mut events = page.events.into_iter().peekable();
        for entry in page.entries {
            while let Some(event) = events.next_if(|event| event.seq < entry.seq) {
                self.take_change(before, event);
            }
            if entry.seq > before {
                self.hand_out(entry);
            }
        }
        events.for_each(|event| self.take_change(before, event));
    }

    fn take_change(&mut self, before: u64, event: pb::InboxEvent) {
        if event.seq > before {
            self.hand_out_change(event);
        }
    }

    fn hand_out(&mut self, entry: pb::InboxEntry) {
        let message = entry.message.unwrap_or_default();
        if !self.is_own(&message) {
            self.inbox.hold(entry.seq);
            self.actions.push(Action::Message(entry.seq, message));
        }
    }

    fn hand_out_change(&mut self, event: pb::InboxEvent) {
        self.inbox.hold(event.seq);
        self.actions.push(Action::Change(event));
    }

    /// This device sent it, and it was told when it was stored, or is now.
    fn is_own(&mut self, message: &pb::ChatMessage) -> bool {
        if message.from != self.limits.account {
            return false;
        }
        if self.own_told.contains(&message.client_id) {
            return true;
        }
        let Some(queued) = self.outbox.take(&message.client_id) else { return false };
        self.tell_sent(queued, message.id, message.seq, message.at_ms);
        true
    }

    fn stored(&mut self, it: &pb::Sent) {
        let Some(queued) = self.outbox.answered(it.number) else { return };
        // A chatroom's messages are in no inbox.
        let is_live = queued.to.split_once('@').is_some_and(|(_, it)| it.starts_with("live."));
        if !it.again && !is_live {
            self.inbox.sent_own();
        }
        self.tell_sent(queued, it.id, it.seq, it.at_ms);
    }

    fn tell_sent(&mut self, queued: Queued, id: u64, seq: u64, at_ms: u64) {
        let client_id = crate::state::hex(&queued.client_id);
        self.own_told.push_back(queued.client_id.to_vec());
        if self.own_told.len() > OWN_TOLD_MAX {
            self.own_told.pop_front();
        }
        let to = queued.to;
        self.actions.push(Action::Sent(Sent { client_id, to, id, seq, at_ms }));
    }

    fn failed(&mut self, now: u64, it: &pb::Failed) {
        if it.number == PULL_NUMBER {
            self.inbox.pull_failed(now);
        } else if words::is_passing(it.fault) {
            self.outbox.refused(now, it.number, it.retry_after_ms.into());
        } else if let Some(queued) = self.outbox.answered(it.number) {
            self.give_up(queued, Error::of(it.fault, &it.reason));
        }
    }

    fn give_up(&mut self, queued: Queued, error: Error) {
        let client_id = crate::state::hex(&queued.client_id);
        self.actions.push(Action::Failed(Failed { client_id, to: queued.to, error }));
    }

    fn give_up_large(&mut self) {
        let (text_max, extra_max) = (self.limits.text_bytes_max, self.limits.extra_bytes_max);
        for queued in self.outbox.take_large(text_max, extra_max) {
            self.give_up(queued, Error::new("too_large"));
        }
    }

    fn answered(&mut self, answer: Answer, is_asked: bool) {
        let number = answer::number(&answer).filter(|_| is_asked);
        let Some(number) = number else { return self.actions.push(Action::Told(answer)) };
        self.asked.remove(&number);
        let result = match answer {
            Answer::Failed(it) => Err(Error::of(it.fault, &it.reason)),
            other => Ok(other),
        };
        self.actions.push(Action::Answer(number, result));
    }

    // ---- what is to be said

    fn next_number(&mut self) -> u32 {
        self.number = self.number % NUMBER_MAX + 1;
        self.number
    }

    fn window(&self) -> usize {
        // A pull needs no room of its own.
        self.limits.requests_max.saturating_sub(1).clamp(1, WINDOW_MAX) as usize
    }

    fn pump(&mut self, now: u64) {
        if let Some(upto) = self.inbox.acknowledgement(now) {
            self.say(now, Request::Acknowledge(pb::Acknowledge { upto }));
        }
        if let Some(after) = self.inbox.pull(now) {
            let count = self.limits.page_messages_max.max(1);
            self.ask(now, Request::Pull(pb::Pull { number: PULL_NUMBER, after, count }));
        }
        let window = self.window().saturating_sub(self.asked.len()).max(1);
        let account = self.limits.account.clone();
        let domain = account.split_once('@').map_or("", |(_, domain)| domain);
        while let Some(queued) = self.outbox.next(now, domain, window) {
            let number = self.next_number();
            self.outbox.sent(number, queued.client_id);
            let client_id = queued.client_id.to_vec();
            let (to, content) = (queued.to, Some(queued.content));
            self.ask(now, Request::Send(pb::Send { number, to, client_id, content }));
        }
    }

    fn ping(&mut self, now: u64) {
        self.ask(now, Request::Ping(pb::Ping {}));
    }

    /// Says something that has an answer.
    fn ask(&mut self, now: u64, request: Request) {
        self.dead = self.dead.or(Some(now + ANSWER_MS));
        self.say(now, request);
    }

    fn say(&mut self, now: u64, request: Request) {
        self.said = now;
        let frame = ClientFrame { request: Some(request) };
        self.actions.push(Action::Send(wire::encode(&frame)));
    }

    // ---- connections

    fn open(&mut self, now: u64) {
        self.address = self.first.pop_front().unwrap_or_else(|| {
            let addresses = &self.settings.addresses;
            let next = addresses[self.turn % addresses.len()].clone();
            self.turn += 1;
            next
        });
        self.attempts += 1;
        (self.phase, self.due) = (Phase::Opening, Some(now + CONNECT_MS));
        self.data.clear();
        self.actions.push(Action::State(State::Connecting(self.address.clone())));
        self.connection += 1;
        self.actions.push(Action::Connect(self.connection, self.address.clone()));
    }

    fn farewell(&mut self, now: u64, reason: i32, hint_ms: u32, server: String) {
        let reason = words::reason(reason);
        let why = words::word(reason);
        if reason == Reason::BadMethod && self.scram.is_some() && self.is_safe {
            // The server knows no SCRAM: the password is shown over TLS, or to this machine.
            self.shows_password = true;
            self.leave(Phase::Waiting);
            self.first.push_front(self.address.clone());
            return self.open(now);
        }
        let renews = reason == Reason::Expired && self.settings.renews;
        if words::is_lasting(reason) && !renews {
            return self.end(&why);
        }
        if matches!(reason, Reason::UseAnother | Reason::Moved) && !server.is_empty() {
            self.first.push_back(server);
            if hint_ms == 0 && self.followed < FOLLOWED_MAX {
                self.followed += 1;
                self.leave(Phase::Waiting);
                return self.open(now);
            }
        }
        self.lose(now, &why, hint_ms.into());
    }

    fn lose(&mut self, now: u64, why: &str, hint_ms: u64) {
        if self.phase == Phase::Online {
            self.backoff.lasted(now - self.since);
            self.heartbeat.suspect = std::mem::take(&mut self.tested_s);
        }
        let hint_ms = hint_ms.min(HINT_MS_MAX);
        self.leave(Phase::Waiting);
        let until = now + self.backoff.next((self.settings.random)(), hint_ms);
        (self.due, self.not_before) = (Some(until), now + hint_ms);
        let (why, detail) = (why.to_owned(), String::new());
        self.actions.push(Action::State(State::Waiting { until, why, detail }));
    }

    fn end(&mut self, why: &str) {
        self.leave(Phase::Ended);
        self.actions.push(Action::State(State::Ended(why.to_owned())));
    }

    fn leave(&mut self, phase: Phase) {
        if self.phase == Phase::Online {
            self.outbox.lost();
            for number in std::mem::take(&mut self.asked) {
                self.actions.push(Action::Answer(number, Err(Error::new("disconnected"))));
            }
        }
        if !self.has_left() {
            self.connection += 1;
            self.actions.push(Action::Disconnect);
        }
        (self.phase, self.due, self.dead) = (phase, None, None);
        self.limits = pb::LoggedIn::default();
    }
}

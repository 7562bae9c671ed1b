//! Two machines, a link between them, and a clock that is told.
//!
//! The link delivers in order, in pieces whose length the seed chooses, so every run of a test
//! splits and merges frames and two runs with one seed are the same. Each side is driven as `net`
//! drives it: one input, then the outbox is drained; what a machine leaves of its input is shown
//! again; a machine that asks for its home is fed the same bytes once more. TLS that both sides
//! begin stands once all that was said in plain text has arrived; nothing is encrypted.

use base::hash::HashKey;
use base::prng::Prng;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::counters::Counters;
use model::limits::Limits;
use model::link::{Link, StartTlsRefusal, TlsFacts};
use model::machine::{Input, Machine, Outbox, Piece};
use std::time::Duration;

/// Wall clock at the beginning of every pair, Unix milliseconds: 2023-11-14 22:13:20 UTC.
pub const WALL_MS: u64 = 1_700_000_000_000;

/// One machine with what `net` would keep for it.
pub struct PairSide<M: Machine> {
    /// The machine.
    pub machine: M,
    /// Facts about its connection.
    pub link: Link,
    /// The limits it is under.
    pub limits: Limits,
    /// Words of the machine that nobody took yet.
    pub words: Vec<M::Up>,
    /// The homes it asked for.
    pub homes: Vec<u64>,
    /// The limit of silence it set, milliseconds; zero: none.
    pub silence_ms: u32,
    /// How its connection ended.
    pub ended: Option<CloseReason>,
    /// Every byte it was sent and that has arrived.
    pub heard: Vec<u8>,
    /// Facts of the TLS that its machine begins.
    pub facts: TlsFacts,
    /// Bytes sent since it began TLS, until that is established.
    starting: Option<Vec<u8>>,
    /// Where the messages end that it sent last, of a protocol that has its own in WebSockets.
    pub ends: Vec<usize>,
    wants_drained: bool,
    is_held: bool,
    out: Outbox<M::Up>,
    /// Arrived, not taken.
    inbox: Vec<u8>,
    /// Sent by the other side, on its way.
    wire: Vec<u8>,
    wakes: Vec<Instant>,
    heard_at: Instant,
}

impl<M: Machine> PairSide<M> {
    /// A machine on a connection from this machine's own address.
    pub fn new(machine: M, link: Link) -> PairSide<M> {
        PairSide {
            machine,
            link,
            limits: Limits::default(),
            words: Vec::new(),
            homes: Vec::new(),
            silence_ms: 0,
            ended: None,
            heard: Vec::new(),
            facts: TlsFacts::default(),
            starting: None,
            ends: Vec::new(),
            wants_drained: false,
            is_held: false,
            out: Outbox::new(HashKey::new(1, 2), [0; 32]),
            inbox: Vec::new(),
            wire: Vec::new(),
            wakes: Vec::new(),
            heard_at: Instant::default(),
        }
    }

    /// Draws a secret, as an earlier connection would have: what the machine draws next is another
    /// one than the first of a new side.
    pub fn spend_secret(&mut self) {
        self.out.secrets().draw();
    }

    /// Takes what the machine said.
    pub fn take_words(&mut self) -> Vec<M::Up> {
        std::mem::take(&mut self.words)
    }

    /// The same as the words of one service, for whom all of them must be.
    pub fn take_words_as<W: TryFrom<M::Up, Error: std::fmt::Debug>>(&mut self) -> Vec<W> {
        let words = self.take_words().into_iter();
        words.map(|word| W::try_from(word).expect("a word of this service")).collect()
    }

    /// Takes what it has counted since the last time.
    pub fn take_counters(&mut self) -> Counters {
        let mut counters = Counters::default();
        self.out.count_into(&mut counters);
        counters
    }

    /// Whether the machine wants nothing to be read.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Bytes that arrived and that the machine has left untaken.
    pub fn untaken(&self) -> &[u8] {
        &self.inbox
    }

    /// The link comes up. Returns what it sends.
    pub fn open(&mut self, now: Now) -> Vec<u8> {
        self.heard_at = now.mono;
        self.ended = None;
        self.starting = None;
        self.inbox.clear();
        self.wire.clear();
        let result = self.machine.opened(now, &self.link, &mut self.out);
        self.after(now, result).0
    }

    /// Bytes arrive. Returns what it sends.
    pub fn hear(&mut self, now: Now, bytes: &[u8]) -> Vec<u8> {
        self.inbox.extend_from_slice(bytes);
        self.heard.extend_from_slice(bytes);
        self.heard_at = now.mono;
        if self.starting.is_some() && !bytes.is_empty() {
            self.close(now, CloseReason::TlsFailed); // plain text is no handshake
        }
        self.look(now)
    }

    /// The machine is told something, then shown again what it left untaken. Returns what it
    /// sends.
    pub fn tell(&mut self, now: Now, down: impl Into<M::Down>) -> Vec<u8> {
        if self.ended.is_some() {
            return Vec::new();
        }
        let result = self.machine.command(now, down.into(), &mut self.out);
        let mut sent = self.after(now, result).0;
        sent.extend(self.look(now));
        sent
    }

    /// The connection ends from outside.
    pub fn close(&mut self, now: Now, reason: CloseReason) {
        if self.ended.is_none() {
            self.after(now, Err(reason));
        }
    }

    /// All that it has sent is written: tells it, if it wanted to know. Returns what it sends.
    pub fn drain(&mut self, now: Now) -> Vec<u8> {
        if self.ended.is_some() || !std::mem::take(&mut self.wants_drained) {
            return Vec::new();
        }
        let result = self.machine.drained(now, &mut self.out);
        self.after(now, result).0
    }

    fn look(&mut self, now: Now) -> Vec<u8> {
        let mut sent = Vec::new();
        while self.ended.is_none() && self.starting.is_none() && !self.inbox.is_empty() {
            let mut input = Input::new(&self.inbox, &self.link, &self.limits);
            let result = self.machine.receive(now, &mut input, &mut self.out);
            let taken = input.taken();
            assert!(taken <= self.inbox.len(), "no more is taken than came");
            self.inbox.drain(..taken);
            let (bytes, moved) = self.after(now, result);
            sent.extend(bytes);
            if !moved {
                break;
            }
        }
        sent
    }

    /// Drains the outbox. Returns what is to be sent, and whether the machine asked for its home.
    fn after(&mut self, now: Now, result: Result<(), CloseReason>) -> (Vec<u8>, bool) {
        let mut sent = Vec::new();
        self.out.drain_wire(|piece| match piece {
            Piece::Own(bytes) => sent.extend_from_slice(bytes),
            Piece::Shared(frame) => sent.extend_from_slice(&frame),
        });
        if let Err(reason) = result {
            self.machine.closed(now, reason, &mut self.out);
            self.ended = Some(reason);
        }
        self.words.extend(self.out.words());
        self.wakes.extend(self.out.take_wake());
        self.silence_ms = self.out.take_silence().unwrap_or(self.silence_ms);
        self.ends = self.out.take_ends();
        self.wants_drained |= self.out.take_tell_drained();
        self.is_held = self.out.take_hold().unwrap_or(self.is_held);
        let home = self.out.take_home();
        self.homes.extend(home);
        if let Some(waiting) = &mut self.starting {
            waiting.append(&mut sent);
        } else if self.out.take_start_tls() && self.ended.is_none() {
            sent.extend(self.start_tls(now));
        }
        (sent, home.is_some())
    }

    /// TLS begins: what is left of the input is its handshake's, and is none. Or it does not.
    fn start_tls(&mut self, now: Now) -> Vec<u8> {
        let why = match (&self.link.tls, self.link.may_start_tls) {
            (Some(_), _) => StartTlsRefusal::Stands,
            (None, false) => StartTlsRefusal::NotConfigured,
            (None, true) => {
                self.starting = Some(Vec::new());
                if !self.inbox.is_empty() {
                    self.close(now, CloseReason::TlsFailed);
                }
                return Vec::new();
            }
        };
        let result = self.machine.tls_started(now, Err(why), &mut self.out);
        self.after(now, result).0
    }

    /// TLS stands: what waited goes out, then what the machine has to say about it.
    fn stand(&mut self, now: Now) -> Vec<u8> {
        let mut sent = self.starting.take().unwrap_or_default();
        self.link.tls = Some(self.facts.clone());
        self.link.may_start_tls = false;
        let result = self.machine.tls_started(now, Ok(&self.link), &mut self.out);
        sent.extend(self.after(now, result).0);
        sent
    }

    /// Wakes it and tells it of silence, as far as the clock has come.
    pub fn pass(&mut self, now: Now) -> Vec<u8> {
        let mut sent = Vec::new();
        let due: Vec<_> = self.wakes.extract_if(.., |at| *at <= now.mono).collect();
        for _ in due {
            if self.ended.is_none() {
                let result = self.machine.wake(now, &mut self.out);
                sent.extend(self.after(now, result).0);
            }
        }
        let limit = Duration::from_millis(u64::from(self.silence_ms));
        if self.ended.is_none() && self.silence_ms > 0 && now.mono - self.heard_at > limit {
            let result = self.machine.silent(now, &mut self.out);
            sent.extend(self.after(now, result).0);
        }
        sent
    }
}

/// Two machines joined by a link.
pub struct Pair<A: Machine, B: Machine> {
    /// The side that calls.
    pub a: PairSide<A>,
    /// The side that is called.
    pub b: PairSide<B>,
    /// Time of both machines.
    pub now: Now,
    rng: Prng,
}

impl<A: Machine, B: Machine> Pair<A, B> {
    /// Joined, not yet opened.
    pub fn new(a: PairSide<A>, b: PairSide<B>, seed: u64) -> Pair<A, B> {
        let now = Now::new(Instant::from_nanos(1_000_000_000), WALL_MS);
        Pair { a, b, now, rng: Prng::new(seed) }
    }

    /// The link comes up, the called side first.
    pub fn open(&mut self) {
        let sent = self.b.open(self.now);
        let called = self.a.open(self.now);
        self.a.wire.extend(sent);
        self.b.wire.extend(called);
    }

    /// Tells the calling side something.
    pub fn tell_a(&mut self, down: impl Into<A::Down>) {
        let sent = self.a.tell(self.now, down);
        self.b.wire.extend(sent);
    }

    /// Tells the called side something.
    pub fn tell_b(&mut self, down: impl Into<B::Down>) {
        let sent = self.b.tell(self.now, down);
        self.a.wire.extend(sent);
    }

    /// Moves bytes until none are on their way; an end of one side is then an end of the other.
    pub fn settle(&mut self) {
        while self.moves() {
            if self.rng.one_in(2) {
                let piece = piece(&mut self.a.wire, &mut self.rng);
                let sent = self.a.hear(self.now, &piece);
                self.b.wire.extend(sent);
            } else {
                let piece = piece(&mut self.b.wire, &mut self.rng);
                let sent = self.b.hear(self.now, &piece);
                self.a.wire.extend(sent);
            }
        }
        if self.a.ended.is_some() {
            self.b.close(self.now, CloseReason::PeerClosed);
        }
        if self.b.ended.is_some() {
            self.a.close(self.now, CloseReason::PeerClosed);
        }
    }

    /// Whether bytes are on their way. When none are, TLS stands that both sides have begun.
    fn moves(&mut self) -> bool {
        let begun = [self.a.starting.is_some(), self.b.starting.is_some()];
        let moving = !(self.a.wire.is_empty() && self.b.wire.is_empty());
        let ended = self.a.ended.is_some() || self.b.ended.is_some();
        if moving || ended || begun != [true, true] {
            return moving;
        }
        let (from_a, from_b) = (self.a.stand(self.now), self.b.stand(self.now));
        self.b.wire.extend(from_a);
        self.a.wire.extend(from_b);
        self.moves()
    }

    /// The clock goes on by `span`; wakes and silences that have come are told, bytes move.
    pub fn pass(&mut self, span: Duration) {
        self.now = Now::new(self.now.after(span), self.now.wall_ms + span.as_millis() as u64);
        let (from_a, from_b) = (self.a.pass(self.now), self.b.pass(self.now));
        self.b.wire.extend(from_a);
        self.a.wire.extend(from_b);
        self.settle();
    }
}

/// Between one byte and all of them, mostly few.
fn piece(wire: &mut Vec<u8>, rng: &mut Prng) -> Vec<u8> {
    let longest = if rng.one_in(3) { wire.len() } else { wire.len().min(7) };
    let length = (1 + rng.below(longest as u64) as usize).min(wire.len());
    wire.drain(..length).collect()
}

#[cfg(test)]
mod tests;

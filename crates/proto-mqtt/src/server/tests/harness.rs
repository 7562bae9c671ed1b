//! A machine with what `net` would keep for it, and a broker that answers when it is told to.
//!
//! Driven as `net` drives it: one input, then the outbox is drained; what is left untaken is shown
//! again after an answer, or when reading is no longer held.

use crate::codec::tests::describe::describe;
use crate::codec::{
    DecodeRules, DecodeStep, FaultSet, Packet, PacketFault, Sender, Terms, Version,
    connect::Connect, decode, header::peek_version,
};
use crate::server::{ListenerProfile, Server};
use base::hash::HashKey;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::counters::Counter;
use model::id::SessionRef;
use model::limits::Limits;
use model::link::{Link, Protocol};
use model::machine::{Input, Machine, Outbox, Piece, TurnAway};
use model::service::{Delivery, Request};
use model::session::{
    Connected, Denial, Denied, Routed, SessionDelivery as Down, SessionRequest as Up,
};
use model::topic::Qos;
use std::time::Duration;

/// The session that every harness binds.
pub const SESSION: SessionRef = SessionRef::from_bits(77);

/// Milliseconds in which a CONNECT is due.
pub const BIND_MS: u32 = 5_000;

/// Bytes that may wait before messages of QoS 0 are dropped.
pub const BACKLOG_MAX: usize = 256 * 1024;

pub struct ServerHarness {
    pub machine: Server,
    pub link: Link,
    pub limits: Limits,
    pub now: Now,
    pub version: Version,
    /// Requests of the machine that nobody took yet.
    pub words: Vec<Up>,
    /// Packets it sent and nobody took yet.
    pub sent: Vec<String>,
    /// The same as bytes, all of them, and how many pieces were shared.
    pub wire: Vec<u8>,
    pub shared: usize,
    pub counts: Vec<Counter>,
    pub packets: (u64, u64),
    pub homes: Vec<u64>,
    pub silence_ms: Option<u32>,
    pub held: bool,
    pub tell_drained: bool,
    pub ended: Option<CloseReason>,
    /// The broker answers everything, at once and kindly.
    pub kind: bool,
    lenient: bool,
    out: Outbox<Request>,
    inbox: Vec<u8>,
    unread: Vec<u8>,
    wakes: Vec<Instant>,
}

impl ServerHarness {
    /// A connection that is open.
    pub fn open(profile: ListenerProfile) -> ServerHarness {
        let now = Now::new(Instant::from_nanos(1_000_000_000), 1_700_000_000_000);
        let mut harness = ServerHarness {
            machine: Server::new(profile),
            link: Link::loopback(Protocol::Mqtt),
            limits: Limits::default(),
            now,
            version: Version::V5,
            words: Vec::new(),
            sent: Vec::new(),
            wire: Vec::new(),
            shared: 0,
            counts: Vec::new(),
            packets: (0, 0),
            homes: Vec::new(),
            silence_ms: None,
            held: false,
            tell_drained: false,
            ended: None,
            kind: false,
            lenient: profile.lenient,
            out: Outbox::new(HashKey::new(1, 2), [0; 32]),
            inbox: Vec::new(),
            unread: Vec::new(),
            wakes: Vec::new(),
        };
        let result = harness.machine.opened(now, &harness.link, &mut harness.out);
        harness.after(result);
        harness
    }

    /// A strict one.
    pub fn strict() -> ServerHarness {
        ServerHarness::open(ListenerProfile::strict(BIND_MS))
    }

    /// A lenient one.
    pub fn lenient() -> ServerHarness {
        ServerHarness::open(ListenerProfile { lenient: true, ..ListenerProfile::strict(BIND_MS) })
    }

    /// Bound, with nothing left of how it came to be.
    pub fn bound(mut self, version: Version) -> ServerHarness {
        self.connect(&Connect::of(version, "d"));
        self.tell(Down::Connected(Box::new(connected())));
        self.words.clear();
        self.sent.clear();
        self.wire.clear();
        self.packets = (0, 0);
        assert_eq!(self.ended, None);
        self
    }

    /// The client connects.
    pub fn connect(&mut self, connect: &Connect<'_>) {
        let mut bytes = Vec::new();
        connect.write(&Terms::of(connect.version), &mut bytes).expect("it fits");
        self.version = connect.version;
        self.hear(&bytes);
    }

    /// The client sends a packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.write(Sender::Client, &Terms::of(self.version), &mut bytes).expect("it fits");
        self.hear(&bytes);
    }

    /// Puts the next bytes after so many milliseconds of silence.
    pub fn was_silent(&mut self, silent_ms: u32) {
        self.out.set_silent(silent_ms, self.silence_ms.unwrap_or(0));
    }

    /// Bytes arrive.
    pub fn hear(&mut self, bytes: &[u8]) {
        if self.ended.is_none() {
            self.inbox.extend_from_slice(bytes);
            self.look();
        }
    }

    /// Bytes of a client of any version arrive: it is that of the CONNECT that is taken first.
    pub fn hear_any(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
        if self.words.is_empty() {
            self.version = match peek_version(&self.inbox) {
                Some(0x03 | 0x83) => Version::V31,
                Some(5..0x80) | None => Version::V5,
                Some(_) => Version::V311,
            };
        }
        self.look();
    }

    /// Bytes that came and were not taken.
    pub fn untaken(&self) -> usize {
        self.inbox.len()
    }

    /// The broker says something.
    pub fn tell(&mut self, word: Down) {
        if self.ended.is_none() {
            let down = Delivery::Topics(word);
            let result = self.machine.command(self.now, down, &mut self.out);
            self.after(result);
            self.look();
        }
    }

    /// So many bytes wait for the socket from now on, of [`BACKLOG_MAX`].
    pub fn set_backlog(&mut self, bytes: usize) {
        self.out.set_backlog(bytes, BACKLOG_MAX);
    }

    /// Everything has been written.
    pub fn drain(&mut self) {
        self.tell_drained = false;
        self.out.set_backlog(0, BACKLOG_MAX);
        let result = self.machine.drained(self.now, &mut self.out);
        self.after(result);
    }

    /// Time goes by; wakes that have come are told, frames forgotten with every whole second.
    pub fn pass(&mut self, span: Duration) {
        if span >= Duration::from_secs(2) {
            self.out.forget_frames();
        }
        self.now = Now::new(self.now.after(span), self.now.wall_ms + span.as_millis() as u64);
        let due: Vec<_> = self.wakes.extract_if(.., |at| *at <= self.now.mono).collect();
        for _ in due {
            self.wake();
        }
    }

    /// Wakes the machine.
    pub fn wake(&mut self) {
        if self.ended.is_none() {
            let result = self.machine.wake(self.now, &mut self.out);
            self.after(result);
            self.look();
        }
    }

    /// When it wants to be woken.
    pub fn wakes(&self) -> &[Instant] {
        &self.wakes
    }

    /// Nothing was heard for too long.
    pub fn fall_silent(&mut self) {
        let result = self.machine.silent(self.now, &mut self.out);
        self.after(result);
    }

    /// Turns the client away.
    pub fn turn_away(&mut self, away: TurnAway<'_>, reason: CloseReason) {
        self.machine.turn_away(self.now, away, &mut self.out);
        self.after(Err(reason));
    }

    /// The connection ends from outside.
    pub fn close(&mut self, reason: CloseReason) {
        if self.ended.is_none() {
            self.after(Err(reason));
        }
    }

    /// Takes the packets that were sent.
    pub fn take_sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sent)
    }

    /// Takes what the machine said.
    pub fn take_words(&mut self) -> Vec<Up> {
        std::mem::take(&mut self.words)
    }

    /// Takes the only word that the machine said.
    pub fn word(&mut self) -> Up {
        assert_eq!(self.words.len(), 1, "{:?}", self.words);
        self.words.remove(0)
    }

    fn look(&mut self) {
        while self.ended.is_none() && !self.held && !self.inbox.is_empty() {
            let mut input = Input::new(&self.inbox, &self.link, &self.limits);
            let result = self.machine.receive(self.now, &mut input, &mut self.out);
            let taken = input.taken();
            self.inbox.drain(..taken);
            let again = self.after(result);
            if !again && taken == 0 {
                break;
            }
        }
    }

    /// Drains the outbox. True when what is untaken is to be shown again.
    fn after(&mut self, result: Result<(), CloseReason>) -> bool {
        let (mut sent, mut shared) = (Vec::new(), 0);
        self.out.drain_wire(|piece| match piece {
            Piece::Own(bytes) => sent.extend_from_slice(bytes),
            Piece::Shared(frame) => {
                shared += 1;
                sent.extend_from_slice(&frame);
            }
        });
        self.shared += shared;
        self.wire.extend_from_slice(&sent);
        self.unread.extend_from_slice(&sent);
        if let Err(reason) = result {
            self.machine.closed(self.now, reason, &mut self.out);
            self.out.drain_wire(|_| {});
            self.ended = Some(reason);
        }
        self.read();
        let homes = self.out.take_home();
        self.homes.extend(homes);
        self.wakes.extend(self.out.take_wake());
        self.silence_ms = self.out.take_silence().or(self.silence_ms);
        self.held = self.out.take_hold().unwrap_or(self.held);
        self.tell_drained |= self.out.take_tell_drained();
        self.counts.extend(self.out.counts());
        let (received, sent) = self.out.take_packets();
        self.packets = (self.packets.0 + received, self.packets.1 + sent);
        let words: Vec<Request> = self.out.words().collect();
        let mut answers = Vec::new();
        for word in words {
            let Request::Topics(word) = word else { panic!("{word:?} is not the broker's") };
            answers.extend(kindly(&word).filter(|_| self.kind));
            self.words.push(word);
        }
        for answer in answers {
            if self.ended.is_none() {
                let down = Delivery::Topics(answer);
                let result = self.machine.command(self.now, down, &mut self.out);
                self.after(result);
            }
        }
        homes.is_some()
    }

    /// Reads what the server sent, which must be whole packets of its version.
    fn read(&mut self) {
        // An old device that says identifier 0 is answered so.
        let tolerate =
            if self.lenient { FaultSet::of(&[PacketFault::PacketIdZero]) } else { FaultSet::NONE };
        let strict = DecodeRules::strict(Sender::Server, self.version);
        let rules = DecodeRules { strict_text: true, tolerate, ..strict };
        let mut at = 0;
        while at < self.unread.len() {
            let step = decode(&self.unread[at..], &rules);
            let Ok(DecodeStep::Packet { packet, bytes, .. }) = step else {
                panic!("{step:?} in {:02x?}", &self.unread[at..])
            };
            self.sent.push(describe(&packet));
            at += bytes;
        }
        self.unread.clear();
    }
}

/// A session without anything special.
pub fn connected() -> Connected {
    Connected {
        session: SESSION,
        present: false,
        assigned: None,
        keep_alive_s: 0,
        expiry_s: 0,
        receive_max: 1_000,
        response_information: None,
        method: None,
        is_bridge: false,
    }
}

/// A refusal or an end without words.
pub fn denied(why: Denial) -> Box<Denied> {
    Box::new(Denied::of(why, CloseReason::AuthFailed))
}

/// Answer of a broker that accepts everything.
pub fn kindly(word: &Up) -> Option<Down> {
    Some(match word {
        Up::Connect(connect) => Down::Connected(Box::new(Connected {
            keep_alive_s: connect.keep_alive_s,
            expiry_s: connect.expiry_s,
            assigned: connect.client_id.is_empty().then(|| "given".into()),
            ..connected()
        })),
        Up::Publish { id, message, .. } if message.qos != Qos::AtMostOnce => {
            Down::Taken { id: *id, qos: message.qos, result: Ok(Routed::Matched) }
        }
        Up::Release { id, .. } => Down::Completed { id: *id, unknown: false },
        Up::Subscribe(subscribe) => Down::Subscribed {
            id: subscribe.id,
            results: subscribe.wishes.iter().map(|wish| Ok(wish.qos)).collect(),
        },
        Up::Unsubscribe(unsubscribe) => Down::Unsubscribed {
            id: unsubscribe.id,
            results: unsubscribe.filters.iter().map(|_| Ok(true)).collect(),
        },
        Up::Proceed(proceed) if proceed.session.is_some() => {
            Down::Authenticated { method: proceed.method.clone(), data: Box::default() }
        }
        Up::Proceed(_) => Down::Connected(Box::new(connected())),
        _ => return None,
    })
}

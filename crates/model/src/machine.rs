//! The inner contract: one side of one connection as a pure state machine.
//!
//! A machine knows no socket, no clock, no file and no other machine. It is fed one input, its
//! [`Outbox`] is drained, and only then comes the next input. Server and client sides have the same
//! shape: two of them joined by a link are a test, thousands are a simulation, under `net` they
//! are the server and the laboratory.

use crate::close::CloseReason;
use crate::counters::frames::FrameKind;
use crate::counters::{Counter, Counters, ProcessCounter};
use crate::limits::Limits;
use crate::link::{Link, StartTlsRefusal};
use crate::request::Refusal;
use crate::session::Denial;
use crate::topic::Publication;
use base::hash::HashKey;
use base::time::{Instant, Now};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// One side of one connection.
///
/// Every call may fill the outbox and may end the connection: on `Err` what is in the outbox is
/// still sent, as far as the socket takes it, and the connection is closed with that reason.
pub trait Machine {
    /// Words to the inside: `Request` of a server, `Observation` of a client.
    type Up;
    /// Words from the inside: `Delivery` to a server, `Action` to a client.
    type Down;

    /// The link is up and nothing has been received. A side that speaks first speaks now.
    fn opened(
        &mut self,
        now: Now,
        link: &Link,
        out: &mut Outbox<Self::Up>,
    ) -> Result<(), CloseReason>;

    /// Handles received bytes. Takes all whole frames; the bytes it leaves are passed again, in
    /// front of the next ones.
    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<Self::Up>,
    ) -> Result<(), CloseReason>;

    /// The inside has something to say.
    fn command(
        &mut self,
        now: Now,
        down: Self::Down,
        out: &mut Outbox<Self::Up>,
    ) -> Result<(), CloseReason>;

    /// A timer set with [`Outbox::wake`] has expired. Calls that are too early or no longer needed
    /// are allowed: a machine that still waits sets the timer again. Also called once after a
    /// connection has moved to its owner's shard, without a timer.
    fn wake(&mut self, now: Now, out: &mut Outbox<Self::Up>) -> Result<(), CloseReason>;

    /// All that was queued for the socket has been written, as [`Outbox::tell_drained`] asked.
    fn drained(&mut self, _now: Now, _out: &mut Outbox<Self::Up>) -> Result<(), CloseReason> {
        Ok(())
    }

    /// TLS stands, as [`Outbox::start_tls`] ordered: from here on everything is encrypted, and
    /// `link.tls` says what was agreed. Or it does not begin, and the connection goes on as it was.
    /// A handshake that fails is the connection's end instead.
    fn tls_started(
        &mut self,
        _now: Now,
        link: Result<&Link, StartTlsRefusal>,
        _out: &mut Outbox<Self::Up>,
    ) -> Result<(), CloseReason> {
        link.map(|_| ()).map_err(|_| CloseReason::TlsFailed)
    }

    /// Handles silence: nothing was received for as long as [`Outbox::silence`] allowed.
    fn silent(&mut self, now: Now, out: &mut Outbox<Self::Up>) -> Result<(), CloseReason>;

    /// This connection must go, because its owner's shard has no room (`Busy`) or the server is
    /// going (`Draining`): say so in the protocol's words, with the time after which to come back.
    /// `net` closes afterwards.
    fn turn_away(&mut self, now: Now, away: TurnAway<'_>, out: &mut Outbox<Self::Up>);

    /// The connection has ended, for whatever reason. Only words for the inside are looked at.
    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Outbox<Self::Up>);
}

/// Reason why a connection is turned away, and when and where it may come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnAway<'a> {
    /// `Busy` or `Draining`.
    pub why: Refusal,
    /// Milliseconds, jitter included.
    pub retry_after_ms: u32,
    /// The server to use instead.
    pub server: Option<OtherServer<'a>>,
}

/// Server to use instead of this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherServer<'a> {
    /// Its listener, host:port.
    pub address: &'a str,
    /// Reason code for clients of MQTT 5 and XMPP, `UseAnother` or `Moved`. None: those clients are
    /// not redirected. Clients of MIOP and IM always are.
    pub denial: Option<Denial>,
}

impl TurnAway<'_> {
    /// Turns a client away for this reason, and names no other server.
    pub fn of(why: Refusal, retry_after_ms: u32) -> TurnAway<'static> {
        TurnAway { why, retry_after_ms, server: None }
    }
}

/// Bytes that have arrived, with what is known of the link they came over.
pub struct Input<'a> {
    bytes: &'a [u8],
    taken: usize,
    /// Facts about the connection.
    pub link: &'a Link,
    /// The limits in force.
    pub limits: &'a Limits,
}

impl<'a> Input<'a> {
    /// All of `bytes`, with none taken yet.
    pub fn new(bytes: &'a [u8], link: &'a Link, limits: &'a Limits) -> Self {
        Input { bytes, taken: 0, link, limits }
    }

    /// Bytes not taken yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.taken..]
    }

    /// Takes `count` bytes off the front.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let taken = &self.rest()[..count];
        self.taken += count;
        taken
    }

    /// How many bytes were taken.
    pub fn taken(&self) -> usize {
        self.taken
    }
}

/// Actions that a machine asks its driver for, in lanes. One outbox serves a whole shard; it is
/// empty before each input.
pub struct Outbox<Up> {
    bytes: Vec<u8>,
    /// Shared frames, each with the length that `bytes` had when it was added.
    shared: Vec<(usize, SharedBytes)>,
    /// Where messages end, in bytes of the lane.
    ends: Vec<usize>,
    words: Vec<Up>,
    home: Option<u64>,
    wake: Option<Instant>,
    silence_ms: Option<u32>,
    beats: u64,
    is_late: bool,
    packets: (u64, u64),
    frame_kinds: Vec<FrameKind>,
    backlog: usize,
    backlog_max: usize,
    tell_drained: bool,
    hold: Option<bool>,
    start_tls: bool,
    counts: Vec<Counter>,
    hash_key: HashKey,
    secrets: SecretSource,
    frames: FrameCache,
}

impl<Up> Outbox<Up> {
    /// An empty outbox; `hash_key` is the process's, `secrets` random and this outbox's alone.
    pub fn new(hash_key: HashKey, secrets: [u8; 32]) -> Self {
        Outbox {
            bytes: Vec::new(),
            shared: Vec::new(),
            ends: Vec::new(),
            words: Vec::new(),
            home: None,
            wake: None,
            silence_ms: None,
            beats: 0,
            is_late: false,
            packets: (0, 0),
            frame_kinds: Vec::new(),
            backlog: 0,
            backlog_max: usize::MAX,
            tell_drained: false,
            hold: None,
            start_tls: false,
            counts: Vec::new(),
            hash_key,
            secrets: SecretSource::new(secrets),
            frames: FrameCache::default(),
        }
    }

    /// The lane for the wire: append whole frames.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// A message ends with what is in the lane so far: in a WebSocket it is one of its own
    /// ([`crate::link::WireProfile::text_messages`]). Not with frames that are shared.
    pub fn end_message(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Takes where messages end.
    pub fn take_ends(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.ends)
    }

    /// Sends a frame that other connections send too, after what is in the lane so far.
    pub fn share(&mut self, frame: impl Into<SharedBytes>) {
        self.shared.push((self.bytes.len(), frame.into()));
    }

    /// Sends the frame that belongs to (`message`, `form`), encoding it with `encode` only if no
    /// connection of this shard sent it just before.
    pub fn share_encoded(&mut self, message: u64, form: u8, encode: impl FnOnce(&mut Vec<u8>)) {
        let frame = self.frames.frame(message, form, encode).clone();
        self.share(frame);
    }

    /// Sends a copy of the frame that belongs to (`message`, `form`), as `patch` makes it this
    /// connection's own: for frames that are shorter than sharing them is worth. False, and nothing
    /// is sent, if it has more than `bytes_max`.
    pub fn copy_encoded(
        &mut self,
        (message, form): (u64, u8),
        bytes_max: usize,
        encode: impl FnOnce(&mut Vec<u8>),
        patch: impl FnOnce(&mut [u8]),
    ) -> bool {
        let frame = self.frames.frame(message, form, encode);
        if frame.len() > bytes_max {
            return false;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        patch(&mut self.bytes[start..]);
        true
    }

    /// Sends a word to the inside.
    pub fn say(&mut self, word: impl Into<Up>) {
        self.words.push(word.into());
    }

    /// The identity behind the connection is known: everything else about it happens on the shard
    /// that owns the identity. The machine leaves the input untaken and is fed the same bytes
    /// again, there; it asks once before it takes some.
    pub fn home(&mut self, identity: &[&[u8]]) {
        self.home = Some(self.hash_key.of(identity));
    }

    /// Asks for one call of [`Machine::wake`] at `at`, or up to 100 ms later. A later request in
    /// the same turn replaces an earlier one; requests of different turns add up.
    pub fn wake(&mut self, at: Instant) {
        self.wake = Some(at);
    }

    /// A number for a name that is made up. The same parts give the same one, on every shard. It is
    /// no secret: see [`Self::secrets`].
    pub fn draw(&self, parts: &[&[u8]]) -> u64 {
        self.hash_key.of(parts)
    }

    /// The source of unpredictable values: for proofs, and for names by which another peer's state
    /// could be reached.
    pub fn secrets(&mut self) -> &mut SecretSource {
        &mut self.secrets
    }

    /// Has [`Machine::silent`] called when nothing was received for this many milliseconds (and at
    /// most a sixth more, as checks are periodic). Zero: never.
    pub fn silence(&mut self, ms: u32) {
        self.silence_ms = Some(ms);
    }

    /// Bytes that waited for the socket before this input: what a machine goes by that would
    /// rather drop than queue.
    pub fn backlog(&self) -> usize {
        self.backlog
    }

    /// Bytes that may wait for the socket before a machine drops what it may drop
    /// ([`crate::link::FrameLimits`]).
    pub fn backlog_max(&self) -> usize {
        self.backlog_max
    }

    /// The driver of the machine sets both, before each input.
    pub fn set_backlog(&mut self, bytes: usize, bytes_max: usize) {
        (self.backlog, self.backlog_max) = (bytes, bytes_max);
    }

    /// Asks for one call of [`Machine::drained`] once all that is queued has been written.
    pub fn tell_drained(&mut self) {
        self.tell_drained = true;
    }

    /// With `true`, stops reading from the socket and passing input to the machine, until `false`
    /// is said: the peer's own window fills. Input that was received by then is passed again.
    pub fn hold(&mut self, hold: bool) {
        self.hold = Some(hold);
    }

    /// Begins TLS (STARTTLS), as the server on a connection that was accepted, as the client on one
    /// that was dialled. Bytes in the lane for the wire go out before it, in plain text. Input that
    /// the machine has not taken, and all later input, is the handshake's: it is never shown as
    /// plain text (RFC 7457 2.2). Output until [`Machine::tls_started`] waits and goes out
    /// encrypted. To be ordered where [`Link::may_start_tls`] says so.
    pub fn start_tls(&mut self) {
        self.start_tls = true;
    }

    /// Whether TLS was ordered: what follows in the input is not for the machine.
    pub fn starts_tls(&self) -> bool {
        self.start_tls
    }

    /// Takes whether TLS is to begin.
    pub fn take_start_tls(&mut self) -> bool {
        std::mem::take(&mut self.start_tls)
    }

    /// Counts something.
    pub fn count(&mut self, counter: impl Into<Counter>) {
        self.counts.push(counter.into());
    }

    /// Counts packets of a protocol that counts them: taken from the peer, and sent to it.
    pub fn packets(&mut self, received: u64, sent: u64) {
        self.packets.0 += received;
        self.packets.1 += sent;
    }

    /// Takes how many packets were received and sent.
    pub fn take_packets(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.packets)
    }

    /// Counts a frame, a packet or a stanza.
    pub fn count_frame(&mut self, kind: FrameKind) {
        self.frame_kinds.push(kind);
    }

    /// Counts the frames that are to be sent: `walk` is shown pieces of whole frames, and adds
    /// their kinds. Once an input, for what was counted is shown again until it is sent.
    pub fn count_wire(&mut self, walk: impl Fn(&[u8], &mut Vec<FrameKind>)) {
        let mut kinds = std::mem::take(&mut self.frame_kinds);
        self.look_at_wire(|piece| walk(piece, &mut kinds));
        self.frame_kinds = kinds;
    }

    /// Takes what was counted.
    pub fn counts(&mut self) -> std::vec::Drain<'_, Counter> {
        self.counts.drain(..)
    }

    /// Moves what was counted, packets and frames too, to `counters`.
    pub fn count_into(&mut self, counters: &mut Counters) {
        self.counts().for_each(|counter| counters.count(counter));
        let (received, sent) = self.take_packets();
        counters.count_by(ProcessCounter::PacketsIn, received);
        counters.count_by(ProcessCounter::PacketsOut, sent);
        self.frame_kinds.drain(..).for_each(|kind| counters.frame(kind));
    }

    /// Takes whether the machine wants a call when all is written.
    pub fn take_tell_drained(&mut self) -> bool {
        std::mem::take(&mut self.tell_drained)
    }

    /// Takes whether input is to be held back from now on, if that changed.
    pub fn take_hold(&mut self) -> Option<bool> {
        self.hold.take()
    }

    /// Counts a heartbeat that was answered; and, if the peer was not heard for a tenth longer
    /// than agreed before it, that it was late.
    pub fn beat(&mut self) {
        self.beats += 1;
        if std::mem::take(&mut self.is_late) {
            self.count(ProcessCounter::HeartbeatsLate);
        }
    }

    /// Called by the machine's driver before it passes received bytes: for how many milliseconds
    /// the peer was silent, rounded up, and how many it may be, which is one and a half heartbeats;
    /// zero: no limit. Called with zeros afterwards.
    pub fn set_silent(&mut self, silent_ms: u32, silence_ms: u32) {
        // A heartbeat and a tenth are 11 parts of 15. Rounded up too: a late one may pass for one
        // that is not, never the other way round.
        let late_ms = (u64::from(silence_ms) * 11).div_ceil(15);
        self.is_late = silence_ms != 0 && u64::from(silent_ms) > late_ms;
    }

    /// Calls `each` with what is to be sent, in order: pieces of the byte lane and shared frames.
    pub fn drain_wire(&mut self, mut each: impl FnMut(Piece<'_>)) {
        let mut from = 0;
        for (at, frame) in self.shared.drain(..) {
            if at > from {
                each(Piece::Own(&self.bytes[from..at]));
                from = at;
            }
            each(Piece::Shared(frame));
        }
        if self.bytes.len() > from {
            each(Piece::Own(&self.bytes[from..]));
        }
        self.bytes.clear();
    }

    /// Bytes that are to be sent.
    pub fn wire_len(&self) -> usize {
        self.bytes.len() + self.shared.iter().map(|(_, frame)| frame.len()).sum::<usize>()
    }

    /// Whether nothing is to be sent.
    pub fn wire_is_empty(&self) -> bool {
        self.bytes.is_empty() && self.shared.is_empty()
    }

    /// All bytes to be sent, in order, to look at.
    pub fn look_at_wire(&self, mut each: impl FnMut(&[u8])) {
        let mut from = 0;
        for (at, frame) in &self.shared {
            each(&self.bytes[from..*at]);
            each(frame);
            from = *at;
        }
        each(&self.bytes[from..]);
    }

    /// The words for the inside, to look at.
    pub fn look_at_words(&self) -> &[Up] {
        &self.words
    }

    /// The word that was said last, to be changed.
    pub fn last_word(&mut self) -> Option<&mut Up> {
        self.words.last_mut()
    }

    /// Whether there are words for the inside.
    pub fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    /// Takes the words for the inside.
    pub fn words(&mut self) -> std::vec::Drain<'_, Up> {
        self.words.drain(..)
    }

    /// Takes the hash of the identity, if it became known.
    pub fn take_home(&mut self) -> Option<u64> {
        self.home.take()
    }

    /// Takes the time at which the machine wants to be woken.
    pub fn take_wake(&mut self) -> Option<Instant> {
        self.wake.take()
    }

    /// Takes the number of heartbeats answered.
    pub fn take_beats(&mut self) -> u64 {
        std::mem::take(&mut self.beats)
    }

    /// Takes the new limit of silence, in milliseconds.
    pub fn take_silence(&mut self) -> Option<u32> {
        self.silence_ms.take()
    }

    /// Forgets cached frames, so that they do not outlive their fan-out.
    pub fn forget_frames(&mut self) {
        self.frames = FrameCache::default();
    }

    /// Whether every lane is empty.
    pub fn is_empty(&self) -> bool {
        self.wire_is_empty()
            && self.words.is_empty()
            && self.home.is_none()
            && self.wake.is_none()
            && self.silence_ms.is_none()
            && self.hold.is_none()
            && !self.start_tls
            && !self.tell_drained
    }
}

/// A part of the bytes to be sent.
pub enum Piece<'a> {
    /// Bytes of this connection alone.
    Own(&'a [u8]),
    /// Bytes that several connections send.
    Shared(SharedBytes),
}

/// Bytes that are sent without being copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SharedBytes {
    /// Bytes of a frame.
    Frame(Arc<[u8]>),
    /// The payload of a publication, which stays where it came to stand when it was received.
    Payload(Arc<Publication>),
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            SharedBytes::Frame(frame) => frame,
            SharedBytes::Payload(publication) => publication.payload(),
        }
    }
}

impl From<Arc<[u8]>> for SharedBytes {
    fn from(frame: Arc<[u8]>) -> SharedBytes {
        SharedBytes::Frame(frame)
    }
}

/// The frames of the last few messages, one for each kind of receiver: encoded once, shared by all.
#[derive(Default)]
struct FrameCache {
    entries: [Option<Cached>; 8],
    next: usize,
}

struct Cached {
    message: u64,
    form: u8,
    frame: Arc<[u8]>,
}

impl FrameCache {
    fn frame(&mut self, message: u64, form: u8, encode: impl FnOnce(&mut Vec<u8>)) -> &Arc<[u8]> {
        let same = |cached: &Cached| (cached.message, cached.form) == (message, form);
        let known = self.entries.iter().position(|cached| cached.as_ref().is_some_and(same));
        let at = known.unwrap_or(self.next);
        if known.is_none() {
            let mut bytes = Vec::new();
            encode(&mut bytes);
            self.entries[at] = Some(Cached { message, form, frame: bytes.into() });
            self.next = (at + 1) % self.entries.len();
        }
        let cached = self.entries[at].as_ref();
        &cached.expect("it was found there, or put there").frame
    }
}

/// Source of secrets in code without randomness: a counter, hashed under a key (HMAC-SHA256, RFC
/// 2104) that is random, handed in, and used for nothing else. Neither a table's key nor a
/// displayed name reveals anything about the values, and no two values are alike.
pub struct SecretSource {
    keyed: Hmac<Sha256>,
    drawn: u64,
}

impl SecretSource {
    /// A source with this key.
    pub fn new(key: [u8; 32]) -> SecretSource {
        let keyed = Hmac::new_from_slice(&key).expect("HMAC takes keys of every length");
        SecretSource { keyed, drawn: 0 }
    }

    /// The next secret.
    pub fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        let mut mac = self.keyed.clone();
        mac.update(&self.drawn.to_be_bytes());
        mac.finalize().into_bytes().into()
    }

    /// The next one of half the length, as a number.
    pub fn number(&mut self) -> u128 {
        let drawn = self.draw();
        drawn.first_chunk().map_or(0, |half| u128::from_be_bytes(*half))
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretSource({} drawn)", self.drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_order() {
        let mut out = Outbox::<()>::new(HashKey::new(1, 2), [0; 32]);
        out.bytes().extend_from_slice(b"ab");
        out.share(Arc::from(*b"XY"));
        out.share(Arc::from(*b"Z"));
        out.bytes().extend_from_slice(b"c");
        let (mut wire, mut seen) = (Vec::new(), Vec::new());
        out.look_at_wire(|bytes| seen.extend_from_slice(bytes));
        out.drain_wire(|piece| match piece {
            Piece::Own(bytes) => wire.extend_from_slice(bytes),
            Piece::Shared(frame) => wire.extend_from_slice(&frame),
        });
        assert_eq!((&*wire, &*seen), (&b"abXYZc"[..], &b"abXYZc"[..]));
        assert!(out.is_empty());
    }

    #[test]
    fn a_copied_frame_is_patched_and_not_sent_when_it_is_too_long() {
        let mut out = Outbox::<()>::new(HashKey::new(1, 2), [0; 32]);
        for id in [5, 6] {
            let encode = |bytes: &mut Vec<u8>| bytes.extend_from_slice(b"a0c");
            assert!(out.copy_encoded((99, 1), 3, encode, |frame| frame[1] = id));
        }
        assert!(!out.copy_encoded((99, 1), 2, |_| unreachable!("it is known"), |_| {}));
        assert_eq!(out.bytes(), b"a\x05ca\x06c");
    }

    #[test]
    fn a_heartbeat_that_comes_a_tenth_later_than_agreed_is_late_once() {
        for (heartbeat_s, silence_ms, last_ms) in [
            (30, 45_000, 33_000),
            (33, 49_500, 36_300),
            (5, 7_500, 5_500),
            (65_535, 98_302_500, 72_088_500),
            (0, 0, 99_000),
        ] {
            let late = |silent_ms: u32| {
                let (mut out, mut counters) =
                    (Outbox::<()>::new(HashKey::new(1, 2), [0; 32]), Counters::default());
                out.set_silent(silent_ms, silence_ms);
                out.beat();
                out.beat();
                out.count_into(&mut counters);
                assert_eq!(out.take_beats(), 2);
                counters.of(ProcessCounter::HeartbeatsLate)
            };
            let after = late(last_ms + 1);
            assert_eq!((late(last_ms), after), (0, u64::from(silence_ms != 0)), "{heartbeat_s}");
        }
    }

    #[test]
    fn a_frame_is_encoded_once_for_each_form() {
        let mut out = Outbox::<()>::new(HashKey::new(1, 2), [0; 32]);
        let mut encoded = 0;
        for form in [7, 6, 7, 6, 7] {
            out.share_encoded(99, form, |bytes| {
                encoded += 1;
                bytes.push(form);
            });
        }
        assert_eq!(encoded, 2);
    }

    fn wire(out: &mut Outbox<u8>) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        out.drain_wire(|piece| match piece {
            Piece::Own(bytes) => pieces.push(bytes.to_vec()),
            Piece::Shared(frame) => pieces.push(frame.to_vec()),
        });
        pieces
    }

    #[test]
    fn input_is_taken_from_its_beginning() {
        let (link, limits) = (Link::loopback(crate::link::Protocol::Miop), Limits::default());
        let mut input = Input::new(b"abcdef", &link, &limits);
        assert_eq!((input.take(2), input.take(1), input.taken()), (&b"ab"[..], &b"c"[..], 3));
        assert_eq!(input.rest(), b"def");
    }

    #[test]
    fn what_a_machine_says_is_taken_once() {
        type Say = fn(&mut Outbox<u8>);
        type Take = fn(&mut Outbox<u8>) -> bool;
        let said: &[(&str, Say, Take)] = &[
            ("bytes", |out| out.bytes().push(1), |out| wire(out) == [[1]]),
            ("shared", |out| out.share(Arc::from(*b"x")), |out| wire(out) == [b"x"]),
            ("word", |out| out.say(7), |out| out.words().eq([7])),
            (
                "home",
                |out| out.home(&[b"d"]),
                |out| out.take_home() == Some(HashKey::new(1, 2).of(&[b"d"])),
            ),
            (
                "wake",
                |out| out.wake(Instant::from_nanos(5)),
                |out| out.take_wake() == Some(Instant::from_nanos(5)),
            ),
            ("silence", |out| out.silence(9), |out| out.take_silence() == Some(9)),
            ("hold", |out| out.hold(false), |out| out.take_hold() == Some(false)),
            ("drained", |out| out.tell_drained(), |out| out.take_tell_drained()),
            ("TLS", |out| out.start_tls(), |out| out.take_start_tls()),
        ];
        for (name, say, take) in said {
            let mut out = Outbox::<u8>::new(HashKey::new(1, 2), [0; 32]);
            assert!(out.is_empty() && !take(&mut out), "{name} before it is said");
            say(&mut out);
            assert!(!out.is_empty(), "{name} is said");
            assert_eq!(out.has_words(), *name == "word");
            assert_eq!(out.wire_is_empty(), !["bytes", "shared"].contains(name));
            assert!(take(&mut out), "{name} is taken");
            assert!(out.is_empty() && !take(&mut out), "{name} is taken once");
        }
    }

    #[test]
    fn the_wire_has_every_byte_once_and_no_empty_piece() {
        let mut out = Outbox::<u8>::new(HashKey::new(1, 2), [0; 32]);
        let publication = Arc::new(Publication::new("t", &[], b"payload"));
        out.share(Arc::from(*b"XY"));
        out.bytes().extend_from_slice(b"a");
        out.share(SharedBytes::Payload(publication));
        assert_eq!((out.wire_len(), out.wire_is_empty()), (10, false));
        assert_eq!(wire(&mut out), [&b"XY"[..], b"a", b"payload"]);
        assert_eq!((out.wire_len(), out.wire_is_empty()), (0, true));
        out.bytes().extend_from_slice(b"next");
        assert_eq!(wire(&mut out), [b"next"]);
    }

    #[test]
    fn counts_are_handed_over_once() {
        let (mut out, mut counters) =
            (Outbox::<u8>::new(HashKey::new(1, 2), [0; 32]), Counters::default());
        out.count(ProcessCounter::Pings);
        out.count(ProcessCounter::Pings);
        out.packets(3, 5);
        out.packets(10, 20);
        out.count_into(&mut counters);
        out.count_into(&mut counters);
        assert_eq!(counters.of(ProcessCounter::Pings), 2);
        assert_eq!(
            (counters.of(ProcessCounter::PacketsIn), counters.of(ProcessCounter::PacketsOut)),
            (13, 25)
        );
        out.packets(1, 2);
        assert_eq!((out.take_packets(), out.take_packets()), ((1, 2), (0, 0)));
        assert_eq!((out.take_beats(), out.counts().count()), (0, 0));
    }

    #[test]
    fn a_backlog_is_what_was_told() {
        let mut out = Outbox::<u8>::new(HashKey::new(1, 2), [0; 32]);
        assert_eq!((out.backlog(), out.backlog_max()), (0, usize::MAX));
        out.set_backlog(7, 9);
        assert_eq!((out.backlog(), out.backlog_max()), (7, 9));
    }

    #[test]
    fn the_last_eight_frames_are_remembered_until_they_are_forgotten() {
        let mut out = Outbox::<u8>::new(HashKey::new(1, 2), [0; 32]);
        let encoded = |out: &mut Outbox<u8>, message: u64| {
            let mut calls = 0;
            out.share_encoded(message, 1, |bytes| {
                calls += 1;
                bytes.push(message as u8);
            });
            assert_eq!(wire(out).concat(), [message as u8]);
            calls == 1
        };
        assert!((0..8).all(|message| encoded(&mut out, message)));
        assert!(!(0..8).any(|message| encoded(&mut out, message)), "eight are remembered");
        assert!(encoded(&mut out, 8), "the ninth is not");
        assert!(encoded(&mut out, 0), "it took the place of the oldest");
        assert!(!(2..9).any(|message| encoded(&mut out, message)));
        out.forget_frames();
        assert!(encoded(&mut out, 8));
    }

    #[test]
    fn no_two_draws_are_alike_and_one_key_draws_the_same_again() {
        let all = |key| {
            let mut source = SecretSource::new([key; 32]);
            (0..1_000).map(|_| source.draw()).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        let drawn: std::collections::BTreeSet<_> = all(1).into_iter().chain(all(2)).collect();
        assert_eq!(drawn.len(), 2_000);
    }

    #[test]
    fn a_number_is_the_first_half_and_nothing_is_shown() {
        let mut source = SecretSource::new([7; 32]);
        let first: [u8; 16] = SecretSource::new([7; 32]).draw()[..16].try_into().expect("16 bytes");
        assert_eq!(source.number(), u128::from_be_bytes(first));
        assert_eq!(format!("{source:?}"), "SecretSource(1 drawn)");
    }
}

//! One session: requests in their order, answers that are held, and the stream behind them.
//!
//! ```text
//!           features, or an error           its end, or a fault
//!   Begun ───────────────────────► Told ───────────────────────► Over
//! ```
//! Requests are taken by their numbers, those that overtook others wait for these. An answer goes
//! out when there is something to say, when one more is held than may be, or when the client's time
//! is over (XEP-0124 8, 11, 14). Answers are kept as far as requests may be repeated. Invariant:
//! what is held, what waits for its turn and what is kept are each at most [`REQUESTS_MAX`].

use super::body::{self, BoshFault, BoshRequest};
use crate::server::put_standalone;
use crate::stanza::put_attribute;
use crate::xml::framer::{Framer, StreamPiece};
use crate::xml::scan::{CLIENT, STREAMS, Scan};
use sha1::{Digest, Sha1};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that a client may have under way: one that is held, and one that says something.
pub const REQUESTS_MAX: u64 = 2;

/// Milliseconds after which a request without a stanza is passed to the stream: its server would
/// ask else whether anybody is there.
const SIGN_OF_LIFE_MS: u64 = 15_000;

/// Milliseconds that the end of a stream waits for a request that hears of it.
const LAST_WORD_MS: u64 = 10_000;

/// Limits of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoshTerms {
    /// Seconds that an answer may be held.
    pub wait_s_max: u32,
    /// Seconds without a request after which a session ends.
    pub inactivity_s: u32,
    /// The longest pause, seconds, that a client may announce once.
    pub pause_s_max: u32,
    /// Bytes of stanzas that may wait for a request. Beyond, nothing more is read of the stream.
    pub waiting_bytes_max: usize,
    /// Bytes of one stanza that a server says.
    pub stanza_bytes_max: usize,
    /// Bytes of stanzas that one request says before the stream has said that a login succeeded: of
    /// who has not proved anything not much is kept.
    pub unproven_bytes_max: usize,
}

/// Actions for the session's task.
#[derive(Default)]
pub struct BoshOutput {
    /// Answers, to requests by their tickets.
    pub answers: Vec<(u64, Arc<[u8]>)>,
    /// For the stream.
    pub stream: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Begun,
    Told,
    Over,
}

/// A session.
pub struct BoshSession {
    terms: BoshTerms,
    stage: Stage,
    /// The stream has said so.
    is_proven: bool,
    sid: Box<str>,
    to: Box<str>,
    lang: Option<Box<str>>,
    wait_ms: u64,
    hold: usize,
    next_rid: u64,
    /// The key whose origin the next request shows.
    key: Option<Box<str>>,
    early: Vec<Asked>,
    held: VecDeque<Asked>,
    kept: VecDeque<Kept>,
    framer: Framer,
    /// Bytes of an incomplete piece.
    raw: Vec<u8>,
    /// The stream's own id.
    stream_id: Option<Box<str>>,
    /// Stanzas that wait for a request.
    waiting: Vec<u8>,
    /// Condition of the stream's error.
    error: Option<BoshFault>,
    /// The session is to end, and why, if that is a fault.
    end: Option<Option<BoshFault>>,
    /// When there was nothing to answer any more.
    idle_since_ms: u64,
    pause_ms: Option<u64>,
    told_ms: u64,
}

/// A request that has no answer yet.
struct Asked {
    request: BoshRequest,
    ticket: u64,
    until_ms: u64,
}

/// An answer that a client may ask for again.
struct Kept {
    rid: u64,
    key: Option<Box<str>>,
    answer: Arc<[u8]>,
}

impl BoshSession {
    /// One that a request without a session asks for.
    pub fn begin(
        now_ms: u64,
        (terms, sid): (BoshTerms, &str),
        (mut request, ticket): (BoshRequest, u64),
        out: &mut BoshOutput,
    ) -> Result<BoshSession, BoshFault> {
        if request.to.is_empty() {
            return Err(BoshFault::ImproperAddressing);
        }
        if request.payload.len() > terms.unproven_bytes_max {
            return Err(BoshFault::PolicyViolation);
        }
        let wait_s = request.wait_s.unwrap_or(terms.wait_s_max).min(terms.wait_s_max);
        let mut session = BoshSession {
            terms,
            stage: Stage::Begun,
            is_proven: false,
            sid: sid.into(),
            to: request.to.clone(),
            lang: request.lang.clone(),
            wait_ms: u64::from(wait_s) * 1_000,
            hold: request.hold.unwrap_or(1).min(REQUESTS_MAX as u32 - 1) as usize,
            next_rid: request.rid + 1,
            key: request.new_key.clone(),
            early: Vec::new(),
            held: VecDeque::new(),
            kept: VecDeque::new(),
            framer: Framer::default(),
            raw: Vec::new(),
            stream_id: None,
            waiting: Vec::new(),
            error: None,
            end: None,
            idle_since_ms: now_ms,
            pause_ms: None,
            told_ms: now_ms,
        };
        session.put_header(out);
        out.stream.append(&mut std::mem::take(&mut request.payload));
        // However short its time, it is told what there is.
        let until_ms = now_ms + session.wait_ms.max(u64::from(terms.wait_s_max.min(10)) * 1_000);
        session.held.push_back(Asked { request, ticket, until_ms });
        Ok(session)
    }

    /// A request of the session.
    pub fn take(&mut self, now_ms: u64, request: BoshRequest, ticket: u64, out: &mut BoshOutput) {
        let asked = Asked { until_ms: now_ms + self.wait_ms, request, ticket };
        if !self.is_proven && asked.request.payload.len() > self.terms.unproven_bytes_max {
            self.refuse(asked, BoshFault::PolicyViolation, out);
        } else {
            self.sort_in(asked, out);
        }
        while self.end.is_none()
            && let Some(at) = self.early.iter().position(|it| it.request.rid == self.next_rid)
        {
            let asked = self.early.swap_remove(at);
            self.next_rid += 1;
            self.follow(now_ms, asked, out);
        }
        self.settle(now_ms, out);
    }

    /// Bytes of the stream.
    pub fn heard(&mut self, now_ms: u64, bytes: &[u8], out: &mut BoshOutput) {
        self.raw.extend_from_slice(bytes);
        let raw = std::mem::take(&mut self.raw);
        let mut rest = &raw[..];
        while self.end.is_none() {
            // Two bytes tell a header, which may come at any time: a stream begins anew.
            if rest.len() < 2 && rest.first() == Some(&b'<') {
                break;
            }
            let is_header = rest.starts_with(b"<?");
            match self.framer.next(rest, !is_header, self.terms.stanza_bytes_max) {
                Ok(Some(piece)) => {
                    if matches!(piece, StreamPiece::Close(_)) {
                        self.ends_at(now_ms);
                    }
                    rest = self.piece(piece, rest);
                }
                Ok(None) => break,
                Err(_) => self.end = Some(Some(BoshFault::InternalServerError)),
            }
        }
        self.raw = rest.to_vec();
        self.settle(now_ms, out);
    }

    /// The stream has broken off, or ended.
    pub fn stream_ended(&mut self, now_ms: u64, out: &mut BoshOutput) {
        self.ends_at(now_ms);
        self.end.get_or_insert(Some(self.error.unwrap_or(BoshFault::RemoteConnectionFailed)));
        self.settle(now_ms, out);
    }

    /// Time has passed.
    pub fn wake(&mut self, now_ms: u64, out: &mut BoshOutput) {
        if self.early.iter().any(|asked| asked.until_ms <= now_ms) {
            // What it waited for never came.
            self.end.get_or_insert(Some(BoshFault::ItemNotFound));
        }
        self.settle(now_ms, out);
        if self.idle_until_ms().is_some_and(|until| until <= now_ms) {
            self.stage = Stage::Over;
        }
    }

    /// When it wants to be woken.
    pub fn due_ms(&self) -> Option<u64> {
        let asked = self.held.iter().chain(&self.early).map(|asked| asked.until_ms).min();
        asked.or_else(|| self.idle_until_ms())
    }

    /// Whether so much waits for a request that nothing more is to be read of the stream.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.terms.waiting_bytes_max
    }

    /// Whether there is nothing left to say, or nobody left to hear it.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    fn idle_until_ms(&self) -> Option<u64> {
        let usual = match self.end {
            Some(_) => LAST_WORD_MS.min(u64::from(self.terms.inactivity_s) * 1_000),
            None => u64::from(self.terms.inactivity_s) * 1_000,
        };
        let is_idle = self.stage != Stage::Over && self.held.is_empty() && self.early.is_empty();
        is_idle.then(|| self.idle_since_ms + self.pause_ms.unwrap_or(usual))
    }

    /// Begins the wait for somebody to receive the end, if nobody is there.
    fn ends_at(&mut self, now_ms: u64) {
        if self.held.is_empty() && self.end.is_none() {
            (self.idle_since_ms, self.pause_ms) = (now_ms, None);
        }
    }

    /// Where a request belongs: among those that wait for their turn, or it was there before.
    fn sort_in(&mut self, asked: Asked, out: &mut BoshOutput) {
        let rid = asked.request.rid;
        let again = self.held.iter_mut().chain(&mut self.early).find(|it| it.request.rid == rid);
        if let Some(before) = again {
            if before.request.key != asked.request.key {
                return self.refuse(asked, BoshFault::ItemNotFound, out);
            }
            // Its connection broke, as the client sees it: whoever still waits there is let go.
            let gone = std::mem::replace(&mut before.ticket, asked.ticket);
            let error = [("type", "error".to_owned())];
            return out.answers.push((gone, body::answer(&error, &[]).into()));
        }
        let kept = self.kept.iter().find(|kept| kept.rid == rid);
        if let Some(kept) = kept.filter(|kept| kept.key == asked.request.key) {
            return out.answers.push((asked.ticket, kept.answer.clone()));
        }
        match (self.next_rid..self.next_rid + REQUESTS_MAX).contains(&rid) {
            true => self.early.push(asked),
            false => self.refuse(asked, BoshFault::ItemNotFound, out),
        }
    }

    /// A request ends the session that has no place in it (XEP-0124 14.2).
    fn refuse(&mut self, asked: Asked, fault: BoshFault, out: &mut BoshOutput) {
        out.answers.push((asked.ticket, fault.answer().into()));
        self.end.get_or_insert(Some(fault));
        self.stage = Stage::Over;
    }

    /// A request in its turn.
    fn follow(&mut self, now_ms: u64, mut asked: Asked, out: &mut BoshOutput) {
        let request = &mut asked.request;
        if let Some(expected) = &self.key {
            let shown = request.key.as_deref().unwrap_or_default();
            if base::hex::encode(&Sha1::digest(shown.as_bytes())) != **expected {
                return self.refuse(asked, BoshFault::ItemNotFound, out);
            }
            self.key = request.new_key.clone().or_else(|| request.key.clone());
        }
        self.pause_ms = request.pause_s.map(|pause_s| u64::from(pause_s) * 1_000);
        if request.pause_s.is_some_and(|pause_s| pause_s > self.terms.pause_s_max) {
            return self.refuse(asked, BoshFault::PolicyViolation, out);
        }
        if request.restarts {
            self.put_header(out);
        }
        let says = !request.payload.is_empty();
        // What is held from here on is the question, not what it said.
        out.stream.append(&mut std::mem::take(&mut request.payload));
        if says || request.restarts {
            self.told_ms = now_ms;
        } else if now_ms - self.told_ms >= SIGN_OF_LIFE_MS {
            self.told_ms = now_ms;
            out.stream.push(b' ');
        }
        if request.ends {
            out.stream.extend_from_slice(b"</stream:stream>");
            self.end = Some(None);
        }
        self.held.push_back(asked);
    }

    /// Answers what has an answer now.
    fn settle(&mut self, now_ms: u64, out: &mut BoshOutput) {
        if self.end.is_some() {
            return self.finish(out);
        }
        let is_told = self.stage == Stage::Told;
        if !self.waiting.is_empty() {
            self.answer_oldest(now_ms, out);
        }
        while self.held.len() > self.hold.max(usize::from(!is_told))
            || self.pause_ms.is_some() && !self.held.is_empty()
            || self.held.front().is_some_and(|asked| asked.until_ms <= now_ms)
        {
            self.answer_oldest(now_ms, out);
        }
    }

    /// Tells all waiting requests that the session ends.
    fn finish(&mut self, out: &mut BoshOutput) {
        while !self.held.is_empty() || !self.early.is_empty() {
            self.held.extend(self.early.drain(..));
            self.answer_oldest(self.idle_since_ms, out);
            self.stage = Stage::Over;
        }
    }

    fn answer_oldest(&mut self, now_ms: u64, out: &mut BoshOutput) {
        let Some(asked) = self.held.pop_front() else { return };
        let attributes = self.attributes();
        let stanzas = std::mem::take(&mut self.waiting);
        let answer: Arc<[u8]> = body::answer(&attributes, &stanzas).into();
        if self.stage == Stage::Begun {
            self.stage = Stage::Told;
        }
        let Asked { request, ticket, .. } = asked;
        let kept = Kept { rid: request.rid, key: request.key, answer: answer.clone() };
        self.kept.push_back(kept);
        if self.kept.len() as u64 > REQUESTS_MAX {
            self.kept.pop_front();
        }
        out.answers.push((ticket, answer));
        self.idle_since_ms = now_ms;
    }

    /// Attributes of the next answer (XEP-0124 7.2).
    fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut attributes = Vec::new();
        if self.stage == Stage::Begun {
            attributes.extend([
                ("sid", self.sid.to_string()),
                ("wait", (self.wait_ms / 1_000).to_string()),
                ("hold", self.hold.to_string()),
                ("requests", REQUESTS_MAX.to_string()),
                ("inactivity", self.terms.inactivity_s.to_string()),
                ("maxpause", self.terms.pause_s_max.to_string()),
                ("ver", "1.6".to_owned()),
                ("from", self.to.to_string()),
                ("xmpp:version", "1.0".to_owned()),
                ("xmpp:restartlogic", "true".to_owned()),
            ]);
            attributes.extend(self.stream_id.as_ref().map(|id| ("authid", id.to_string())));
        }
        if let Some(fault) = self.end {
            attributes.push(("type", "terminate".to_owned()));
            attributes.extend(fault.map(|fault| ("condition", fault.name().to_owned())));
        }
        attributes
    }

    /// A piece of the stream; what is behind it.
    fn piece<'a>(&mut self, piece: StreamPiece, rest: &'a [u8]) -> &'a [u8] {
        match piece {
            StreamPiece::Space(count) => &rest[count..],
            StreamPiece::Header(count) => {
                let scan = Scan::header(&rest[..count]).ok();
                let id = scan.and_then(|scan| scan.root().attribute("id").map(|id| (*id).into()));
                self.stream_id = self.stream_id.take().or(id);
                &rest[count..]
            }
            StreamPiece::Element(count) => {
                let element = &rest[..count];
                if element.starts_with(b"<stream:error") {
                    self.error = Some(fault_of(element));
                }
                self.is_proven |= element.starts_with(b"<success");
                put_standalone(element, &mut self.waiting);
                &rest[count..]
            }
            StreamPiece::Close(count) => {
                self.end = Some(self.error);
                &rest[count..]
            }
        }
    }

    /// A stream begins, or begins anew.
    fn put_header(&self, out: &mut BoshOutput) {
        let head = format!(
            "<?xml version='1.0'?><stream:stream xmlns='{CLIENT}' xmlns:stream='{STREAMS}' \
             version='1.0'"
        );
        out.stream.extend_from_slice(head.as_bytes());
        put_attribute("to", Some(&self.to), &mut out.stream);
        put_attribute("xml:lang", self.lang.as_deref(), &mut out.stream);
        out.stream.push(b'>');
    }
}

/// How a stream's error is called that has a name of its own here.
fn fault_of(error: &[u8]) -> BoshFault {
    let mut alone = Vec::new();
    put_standalone(error, &mut alone);
    let scan = Scan::element(&alone);
    let names = |name: &str| {
        scan.as_ref().is_ok_and(|scan| scan.root().children().any(|child| child.name() == name))
    };
    match () {
        () if names("host-unknown") => BoshFault::HostUnknown,
        () if names("system-shutdown") => BoshFault::SystemShutdown,
        () if names("policy-violation") => BoshFault::PolicyViolation,
        () => BoshFault::RemoteStreamError,
    }
}

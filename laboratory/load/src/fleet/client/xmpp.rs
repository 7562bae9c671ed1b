//! A client of XMPP: one resource of an account, in the laboratory's words.
//!
//! ```text
//!  Opening ─ features ─► (Encrypting ─ proceed, TLS ─► Opening) Proving ─ success ─► Restarting
//!     ─ features ─► Binding ─ result ─► (Enabling ─ enabled) ─► There
//! ```
//! It begins TLS where the server wants that, or offers no other way to log in (RFC 6120 5). Once
//! it is bound it asks for its roster and says that it is there (RFC 6121 2.2, 4.2). Its messages
//! are answered by the count of stream management (XEP-0198 4), or, at a server without that, by
//! the answer to a ping behind each message (XEP-0199). A message's body is its front in base64,
//! and behind a space the text. A message without an answer is lost with its connection.
//!
//! The invariant: each message of somebody else is handed on once for each time it came; `sent` and
//! `received` count the stanzas of both directions from `<enable/>` on.

use super::im::ChatSay;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::scram::{ScramDigest, ScramProof};
use client::{Formula, Scram};
use model::close::CloseReason;
use model::machine::{Input, Outbox};
use model::ports::virtual_client::{Action, DeliveryClaim, HEAD_BYTES, Observation};
use proto_xmpp::fault::StreamFault;
use proto_xmpp::sasl::SASL;
use proto_xmpp::stanza::{self, put_attribute};
use proto_xmpp::stream::{BIND, SM};
use proto_xmpp::xml::framer::{Framer, StreamPiece};
use proto_xmpp::xml::scan::{CLIENT, Element, STREAMS, Scan};
use proto_xmpp::xml::text;
use std::collections::VecDeque;
use std::sync::Arc;

/// Profile that the clients of a fleet share.
pub struct XmppProfile {
    /// Their accounts: what stands before the `@`.
    pub user: Formula,
    /// The domain of all.
    pub domain: Box<str>,
    /// The resource of each.
    pub resource: Formula,
    /// Password of all clients; `None`: none, they log in as ANONYMOUS (RFC 4505).
    pub password: Option<Box<str>>,
    /// Whether they prove it by SCRAM or not at all: they never show it.
    pub is_scram: bool,
    /// The longest silence that is theirs, seconds.
    pub silence_s: u16,
    /// Whether the clients only send: they send no presence, and have no roster.
    pub is_lite: bool,
}

impl XmppProfile {
    /// The ways in which they prove who they are, the one that they like best first.
    fn ways(&self) -> &'static [&'static str] {
        match (&self.password, self.is_scram) {
            (None, _) => &["ANONYMOUS"],
            (Some(_), true) => &[SHA_256, SHA_1],
            (Some(_), false) => &[SHA_256, SHA_1, PLAIN],
        }
    }
}

/// How far a stream has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Opening,
    /// The server has been asked for TLS.
    Encrypting,
    Proving,
    Restarting,
    Binding,
    Enabling,
    There,
}

/// State that a client has only now and then.
#[derive(Default)]
struct Work {
    /// Stanzas without an answer: the place of each among those sent, and its number.
    unanswered: VecDeque<(u32, u32)>,
    proof: Option<SaslProof>,
}

/// A proof by SCRAM that is under way.
enum SaslProof {
    /// The server's challenge is to come.
    Begun(Box<ScramProof>),
    /// The proof is answered; the server's own proof is to come.
    Answered(Box<ScramProof>),
    /// The server knows the password, too.
    Proved,
}

/// One client.
pub(crate) struct Client {
    profile: Arc<XmppProfile>,
    work: Option<Box<Work>>,
    framer: Framer,
    number: u32,
    /// Stanzas that it has sent, and those that have come, since `<enable/>`.
    sent: u32,
    received: u32,
    stage: Stage,
    /// The stream of the server has a header.
    is_open: bool,
    /// The server counts what it has of this one.
    is_counted: bool,
}

/// Budget of a client's machine, bytes; what is under way excepted.
pub const XMPP_CLIENT_BYTES_MAX: usize = 48;
const _: () =
    assert!(size_of::<Client>() <= XMPP_CLIENT_BYTES_MAX, "a client of XMPP is too large");

/// The longest piece of a stream that is read, bytes.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a message, at most: with all that a server puts around it, it is such a piece.
pub const XMPP_MESSAGE_BYTES_MAX: u32 = 512 * 1024;
/// The ways that do not show the password.
const SHA_256: &str = ScramDigest::Sha256.method();
const SHA_1: &str = ScramDigest::Sha1.method();
/// TLS within a stream (RFC 6120 5).
const TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
/// The way that shows the password (RFC 4616).
const PLAIN: &str = "PLAIN";
/// Id of a heartbeat.
const HEARTBEAT: &str = "beat";
/// Prefix of the id of a ping behind a message; its number follows.
const TAKEN: &str = "taken-";

/// Why a login was refused (RFC 6120 6.5), and the codes that the laboratory gives them.
const REFUSALS: [&str; 11] = [
    "aborted",
    "account-disabled",
    "credentials-expired",
    "encryption-required",
    "incorrect-encoding",
    "invalid-authzid",
    "invalid-mechanism",
    "malformed-request",
    "mechanism-too-weak",
    "not-authorized",
    "temporary-auth-failure",
];
/// The code of a refusal that the list does not have, and of one to bind.
const REFUSED_OTHERWISE: u32 = 12;
const NOT_BOUND: u32 = 13;
/// The code of a server that has none of the ways to prove oneself that the plan has.
const NO_MECHANISM: u32 = 14;
/// The code of a server that offers TLS, is asked for it, and refuses.
const NO_TLS: u32 = 15;
/// Refusals that no waiting changes.
pub(crate) const PERMANENT_REFUSALS: [u32; 10] = [2, 3, 4, 5, 6, 7, 9, 10, NO_MECHANISM, NO_TLS];

type Out = Outbox<Observation>;
type Told = Result<(), CloseReason>;

impl Client {
    pub(super) fn new(profile: Arc<XmppProfile>, number: u32) -> Client {
        Client {
            profile,
            work: None,
            framer: Framer::default(),
            number,
            sent: 0,
            received: 0,
            stage: Stage::Opening,
            is_open: false,
            is_counted: false,
        }
    }

    pub(super) fn opened(&mut self, out: &mut Out) -> Told {
        self.open(Stage::Opening, out);
        Ok(())
    }

    pub(super) fn receive(&mut self, input: &mut Input<'_>, out: &mut Out) -> Told {
        loop {
            let fault = |fault: StreamFault| fault.close_reason();
            let next = self.framer.next(input.rest(), self.is_open, PIECE_BYTES_MAX);
            match next.map_err(fault)? {
                None => return Ok(()),
                Some(StreamPiece::Space(length)) => _ = input.take(length),
                Some(StreamPiece::Header(length)) => {
                    self.is_open = Scan::header(input.take(length)).map(|_| true).map_err(fault)?;
                }
                Some(StreamPiece::Element(length)) => {
                    let may_encrypt = input.link.may_start_tls;
                    let scan = Scan::element(input.take(length)).map_err(fault)?;
                    self.take(&scan.root(), may_encrypt, out)?;
                    if out.starts_tls() {
                        return Ok(()); // what comes next is the handshake's
                    }
                }
                Some(StreamPiece::Close(length)) => {
                    let _ = input.take(length);
                    return Err(CloseReason::PeerClosed);
                }
            }
        }
    }

    /// TLS stands: the stream begins anew (RFC 6120 5.4.3.3).
    pub(super) fn encrypted(&mut self, out: &mut Out) {
        self.framer.reset();
        self.open(Stage::Opening, out);
    }

    /// Carries out an action that every protocol knows. Other actions do nothing.
    pub(super) fn act(&mut self, action: &Action, out: &mut Out) -> Told {
        match action {
            Action::Ping if self.stage == Stage::There => self.ping(HEARTBEAT, out),
            Action::Unbind => {
                out.bytes().extend_from_slice(b"</stream:stream>");
                return Err(CloseReason::OwnStop);
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends a message, if the client has its session; else it is not sent.
    pub(super) fn say(&mut self, say: &ChatSay, out: &mut Out) {
        if self.stage != Stage::There {
            return;
        }
        let bytes = out.bytes();
        bytes.extend_from_slice(b"<message type='chat'");
        match say.to.contains('@') {
            true => put_attribute("to", Some(&say.to), bytes),
            // An account is of the domain of all, as its name is.
            false => {
                let whole = format!("{}@{}", say.to, self.profile.domain);
                put_attribute("to", Some(&whole), bytes);
            }
        }
        put_attribute("id", Some(&format!("m{}", say.number)), bytes);
        bytes.extend_from_slice(b"><body>");
        bytes.extend_from_slice(STANDARD.encode(&say.front).as_bytes());
        if !say.text.is_empty() {
            bytes.push(b' ');
            text::put(&say.text, bytes);
        }
        bytes.extend_from_slice(b"</body></message>");
        self.counts();
        let stanza = self.sent;
        self.work().unanswered.push_back((stanza, say.number));
        match self.is_counted {
            true => out.bytes().extend_from_slice(format!("<r xmlns='{SM}'/>").as_bytes()),
            false => self.ping(&format!("{TAKEN}{}", say.number), out),
        }
    }

    pub(super) fn closed(&mut self) {
        self.work = None;
        self.framer.reset();
        (self.sent, self.received) = (0, 0);
        (self.is_open, self.is_counted) = (false, false);
    }

    fn work(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// A stanza more was written.
    fn counts(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    fn ask(&mut self, kind: &str, id: &str, inner: &str, out: &mut Out) {
        let bytes = out.bytes();
        bytes.extend_from_slice(b"<iq");
        put_attribute("type", Some(kind), bytes);
        put_attribute("id", Some(id), bytes);
        bytes.extend_from_slice(format!(">{inner}</iq>").as_bytes());
        self.counts();
    }

    fn ping(&mut self, id: &str, out: &mut Out) {
        self.ask("get", id, "<ping xmlns='urn:xmpp:ping'/>", out);
    }

    /// Begins a stream, the first of a connection or the one behind a proof.
    fn open(&mut self, stage: Stage, out: &mut Out) {
        (self.stage, self.is_open) = (stage, false);
        let bytes = out.bytes();
        bytes.extend_from_slice(b"<?xml version='1.0'?><stream:stream version='1.0'");
        put_attribute("xmlns", Some(CLIENT), bytes);
        put_attribute("xmlns:stream", Some(STREAMS), bytes);
        put_attribute("to", Some(&self.profile.domain), bytes);
        bytes.push(b'>');
    }

    fn take(&mut self, element: &Element<'_, '_>, may_encrypt: bool, out: &mut Out) -> Told {
        match (element.name(), element.namespace()) {
            ("message", CLIENT) => {
                self.received = self.received.wrapping_add(1);
                self.message(element, out);
            }
            ("presence", CLIENT) => self.received = self.received.wrapping_add(1),
            ("iq", CLIENT) => {
                self.received = self.received.wrapping_add(1);
                self.iq(element, out);
            }
            ("features", STREAMS) => self.features(element, may_encrypt, out)?,
            ("proceed", TLS) if self.stage == Stage::Encrypting => out.start_tls(),
            ("failure", TLS) if self.stage == Stage::Encrypting => out.say(refused(NO_TLS)),
            ("proceed" | "failure", TLS) => return Err(CloseReason::OutOfOrder),
            ("challenge", SASL) if self.stage == Stage::Proving => self.challenged(element, out)?,
            ("success", SASL) if self.stage == Stage::Proving => {
                let last = STANDARD.decode(element.text().trim()).unwrap_or_default();
                // A server that has shown what it knows need not do so again.
                match self.work.take().and_then(|work| work.proof) {
                    Some(SaslProof::Begun(_)) => return Err(CloseReason::AuthFailed),
                    Some(SaslProof::Answered(proof)) if !proof.is_proved(&last) => {
                        return Err(CloseReason::AuthFailed);
                    }
                    _ => self.open(Stage::Restarting, out),
                }
            }
            ("failure", SASL) if self.stage == Stage::Proving => {
                let named = |child: Element<'_, '_>| {
                    REFUSALS.iter().position(|known| *known == child.name())
                };
                let code = element.children().find_map(named).map(|at| at as u32 + 1);
                out.say(refused(code.unwrap_or(REFUSED_OTHERWISE)));
            }
            ("enabled", SM) if self.stage == Stage::Enabling => {
                // What came before it is not counted (XEP-0198 4).
                (self.received, self.is_counted) = (0, true);
                self.is_there(out);
            }
            ("failed", SM) if self.stage == Stage::Enabling => self.is_there(out),
            ("challenge" | "success" | "failure", SASL) | ("enabled" | "failed", SM) => {
                return Err(CloseReason::OutOfOrder);
            }
            ("r", SM) => {
                let answer = format!("<a xmlns='{SM}' h='{}'/>", self.received);
                out.bytes().extend_from_slice(answer.as_bytes());
            }
            ("a", SM) => {
                let has = element.attribute("h").and_then(|has| has.parse().ok());
                self.has_taken(has.ok_or(CloseReason::Malformed)?, out)?;
            }
            ("error", STREAMS) => out.say(ended(element)),
            _ => {}
        }
        Ok(())
    }

    /// The server asks for more: once for the answer to its challenge, and once, if it shows in a
    /// challenge what it knows, for leave to go on.
    fn challenged(&mut self, element: &Element<'_, '_>, out: &mut Out) -> Told {
        let challenge = STANDARD.decode(element.text().trim()).unwrap_or_default();
        let (next, answer) = match self.work().proof.take() {
            Some(SaslProof::Begun(mut proof)) => {
                let answer = proof.answer(&challenge).ok_or(CloseReason::AuthFailed)?;
                (SaslProof::Answered(proof), STANDARD.encode(answer))
            }
            Some(SaslProof::Answered(proof)) if proof.is_proved(&challenge) => {
                (SaslProof::Proved, String::new())
            }
            _ => return Err(CloseReason::AuthFailed),
        };
        self.work().proof = Some(next);
        let answer = format!("<response xmlns='{SASL}'>{answer}</response>");
        out.bytes().extend_from_slice(answer.as_bytes());
        Ok(())
    }

    /// Handles the server's features: mechanisms to log in by, and then a resource.
    fn features(&mut self, features: &Element<'_, '_>, may_encrypt: bool, out: &mut Out) -> Told {
        match self.stage {
            Stage::Opening => {
                let mechanisms = features.child("mechanisms", SASL);
                let offered = mechanisms.into_iter().flat_map(|all| all.children());
                let offered: Vec<_> = offered.map(|offer| offer.text().trim().to_owned()).collect();
                let mut ways = self.profile.ways().iter().copied();
                let mechanism = ways.find(|way| offered.iter().any(|it| it == way));
                let tls = features.child("starttls", TLS).filter(|_| may_encrypt);
                if tls
                    .is_some_and(|tls| mechanism.is_none() || tls.child("required", TLS).is_some())
                {
                    self.stage = Stage::Encrypting;
                    out.bytes().extend_from_slice(format!("<starttls xmlns='{TLS}'/>").as_bytes());
                    return Ok(());
                }
                self.stage = Stage::Proving;
                let Some(mechanism) = mechanism else {
                    out.say(refused(NO_MECHANISM));
                    return Ok(());
                };
                let first = self.proof(mechanism)?;
                let auth = format!("<auth xmlns='{SASL}' mechanism='{mechanism}'>{first}</auth>");
                out.bytes().extend_from_slice(auth.as_bytes());
            }
            Stage::Restarting => {
                self.stage = Stage::Binding;
                self.is_counted = features.child("sm", SM).is_some();
                let resource = self.profile.resource.of(self.number).into_owned();
                let mut inner = format!("<bind xmlns='{BIND}'><resource>").into_bytes();
                text::put(&resource, &mut inner);
                inner.extend_from_slice(b"</resource></bind>");
                self.ask("set", "bind", &String::from_utf8_lossy(&inner), out);
            }
            _ => {}
        }
        Ok(())
    }

    /// The first that it says to prove who it is.
    fn proof(&mut self, mechanism: &str) -> Result<String, CloseReason> {
        let user = self.profile.user.of(self.number).into_owned();
        // Nothing is said (RFC 6120 6.4.2).
        let Some(password) = self.profile.password.clone() else { return Ok("=".to_owned()) };
        if mechanism == PLAIN {
            return Ok(STANDARD.encode(format!("\0{user}\0{password}")));
        }
        let mut random = [0; 18];
        getrandom::fill(&mut random).map_err(|_| CloseReason::LocalLimit)?;
        let hash = if mechanism == SHA_1 { ScramDigest::Sha1 } else { ScramDigest::Sha256 };
        let who = Scram { user, password: password.into() };
        let proof = ScramProof::with(hash, &who, random);
        let first = STANDARD.encode(proof.first());
        self.work().proof = Some(SaslProof::Begun(Box::new(proof)));
        Ok(first)
    }

    fn iq(&mut self, iq: &Element<'_, '_>, out: &mut Out) {
        let (kind, id) = (stanza::kind(iq), iq.attribute("id").unwrap_or_default());
        match (&*kind, &*id) {
            ("result", "bind") if self.stage == Stage::Binding => match self.is_counted {
                true => {
                    self.stage = Stage::Enabling;
                    self.sent = 0;
                    out.bytes().extend_from_slice(format!("<enable xmlns='{SM}'/>").as_bytes());
                    self.is_counted = false;
                }
                false => self.is_there(out),
            },
            ("error", "bind") if self.stage == Stage::Binding => out.say(refused(NOT_BOUND)),
            // Whether it is known there or not: somebody has answered.
            ("result" | "error", HEARTBEAT) => out.say(Observation::Pong),
            ("result" | "error", id) => {
                let number = id.strip_prefix(TAKEN).and_then(|number| number.parse().ok());
                if let Some(number) = number {
                    self.has_answered(number, out);
                }
            }
            ("get" | "set", id) => self.answer(iq, id, out),
            _ => {}
        }
    }

    /// Answers a request (RFC 6120 8.2.3): a ping with a result, all others with an error.
    fn answer(&mut self, iq: &Element<'_, '_>, id: &str, out: &mut Out) {
        let is_ping = iq.child("ping", "urn:xmpp:ping").is_some();
        let bytes = out.bytes();
        bytes.extend_from_slice(b"<iq");
        put_attribute("type", Some(if is_ping { "result" } else { "error" }), bytes);
        put_attribute("id", Some(id), bytes);
        put_attribute("to", iq.attribute("from").as_deref(), bytes);
        bytes.push(b'>');
        if !is_ping {
            let nobody = format!(
                "<error type='cancel'><service-unavailable xmlns='{}'/></error>",
                stanza::STANZA_ERRORS
            );
            bytes.extend_from_slice(nobody.as_bytes());
        }
        bytes.extend_from_slice(b"</iq>");
        self.counts();
    }

    /// Reports that it is bound; what it sends is counted from now on, if it ever is.
    fn is_there(&mut self, out: &mut Out) {
        self.stage = Stage::There;
        let heartbeat_s = self.profile.silence_s;
        out.say(Observation::Bound { resumed: false, heartbeat_s, offline_count: 0 });
        if !self.profile.is_lite {
            self.ask("get", "roster", "<query xmlns='jabber:iq:roster'/>", out);
            out.bytes().extend_from_slice(b"<presence/>");
            self.counts();
        }
    }

    /// The server has so many of the stanzas that were sent. One that counts more than there were
    /// is wrong about all of them (XEP-0198 4): nothing of it is believed.
    fn has_taken(&mut self, has: u32, out: &mut Out) -> Told {
        let ahead = has.wrapping_sub(self.sent);
        if ahead != 0 && ahead <= u32::MAX / 2 {
            out.say(Observation::Overcounted);
            return Err(CloseReason::OutOfOrder);
        }
        let Some(work) = &mut self.work else { return Ok(()) };
        let reaches = |stanza: u32| has.wrapping_sub(stanza) <= u32::MAX / 2;
        while let Some((_, number)) = work.unanswered.pop_front_if(|(at, _)| reaches(*at)) {
            out.say(Observation::TakenAlone { seq: number });
        }
        self.rest();
        Ok(())
    }

    fn has_answered(&mut self, number: u32, out: &mut Out) {
        if self.take_out(number) {
            out.say(Observation::TakenAlone { seq: number });
        }
    }

    /// A message of this number is not waited for any more: whether it was.
    fn take_out(&mut self, number: u32) -> bool {
        let Some(work) = &mut self.work else { return false };
        let at = work.unanswered.iter().position(|(_, known)| *known == number);
        let was_open = at.and_then(|at| work.unanswered.remove(at)).is_some();
        self.rest();
        was_open
    }

    /// Gives back what is not needed any more.
    fn rest(&mut self) {
        let is_idle = |work: &Work| work.unanswered.is_empty() && work.proof.is_none();
        if self.work.as_deref().is_some_and(is_idle) {
            self.work = None;
        }
    }

    /// A message came, or one of its own came back.
    fn message(&mut self, message: &Element<'_, '_>, out: &mut Out) {
        if stanza::kind(message) == "error" {
            let number = message.attribute("id");
            let number = number.and_then(|id| id.strip_prefix('m').and_then(|it| it.parse().ok()));
            if let Some(seq) = number {
                self.take_out(seq);
                let error = message.child("error", CLIENT);
                let code = error.and_then(|error| error.children().find_map(code_of));
                out.say(Observation::NotTaken { seq, code: code.unwrap_or(0) });
            }
            return;
        }
        let Some(body) = message.child("body", CLIENT).filter(|_| !self.profile.is_lite) else {
            return;
        };
        let body = body.text();
        let (front, text) = body.split_once(' ').unwrap_or((&body, ""));
        let Ok(front) = STANDARD.decode(front) else {
            // Nobody here has said it.
            let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
            let (head, claim) = ([0; HEAD_BYTES], DeliveryClaim::Nothing);
            out.say(Observation::Heard { bytes, head, rest: 0, again: false, claim });
            return;
        };
        let again = message.child("delay", "urn:xmpp:delay").is_some();
        let from = message.attribute("from").unwrap_or_default();
        super::im::hand_on((&front, text), &from, again, out);
    }
}

fn refused(code: u32) -> Observation {
    Observation::Refused { code, retry_after_ms: 0 }
}

/// Why a stream ends, in the laboratory's words: codes are the places in the list of RFC 6120
/// 4.9.3 as [`StreamFault`] has it, from 1 on.
fn ended(error: &Element<'_, '_>) -> Observation {
    let named = |child: Element<'_, '_>| {
        StreamFault::ALL.iter().position(|fault| fault.name() == child.name())
    };
    let at = error.children().find_map(named);
    match at.map(|at| StreamFault::ALL[at]) {
        Some(StreamFault::SystemShutdown | StreamFault::Reset) => {
            Observation::GoAway { retry_after_ms: 0, addrs: Vec::new() }
        }
        _ => Observation::Kicked { code: at.map_or(0, |at| at as u32 + 1) },
    }
}

/// The code of a condition: its place in the list of RFC 6120 8.3.3 as it stands in
/// [`StanzaFault`](proto_xmpp::fault::StanzaFault), from 1 on.
fn code_of(condition: Element<'_, '_>) -> Option<u32> {
    let all = proto_xmpp::fault::StanzaFault::ALL;
    let at = all.iter().position(|fault| fault.name() == condition.name());
    at.map(|at| at as u32 + 1)
}

#[cfg(test)]
mod tests;

//! WebSocket (RFC 6455): the upgrade, and messages around a protocol's bytes.
//!
//! The protocol inside sees one stream of bytes: payloads pass as they come, and the ends of
//! messages mean nothing. Messages are binary, or text where the protocol is; the other kind is
//! refused. Extensions are not offered. Only an incomplete header or control frame is held here.
//! Invariant: at most one pong is queued for a peer that does not read, the newest (RFC 6455
//! 5.5.3).

use crate::layer::Flow;
use crate::layer::files::{self, StaticFile};
use crate::layer::handing::HandedPaths;
use base::hash::HashKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::close::CloseReason;
use model::link::{Protocol, WireProfile};
use sha1::{Digest, Sha1};
use std::net::IpAddr;
use std::sync::Arc;

/// Framing of one connection.
pub struct WebSocket {
    client: bool,
    /// A header or a control frame that is not whole.
    pending: Vec<u8>,
    /// Bytes that the payload of the current frame still has.
    left: u64,
    mask: [u8; 4],
    /// Masks of what is sent; none: zeros, or not at all.
    masks: Option<Box<MaskSequence>>,
    /// Payload of the newest ping, until it is answered.
    pinged: Option<Box<[u8]>>,
    /// Whether this side has sent its close frame: no frame follows one (RFC 6455 5.5.1).
    is_over: bool,
    /// Largest payload of one frame, bytes: what the protocol inside may send now.
    pub payload_max: u64,
    /// Messages are text.
    is_text: bool,
    /// The peer sent a message of the other kind.
    is_foreign: bool,
}

/// WebSocket upgrade that a request head asks for.
pub enum Upgrade {
    /// The head is incomplete.
    More,
    /// The request is no upgrade that we take: this is the answer.
    Refuse(String),
    /// An upgrade by a page of another site: this is the answer.
    Foreign(String),
    /// The head asks for a file of the listener, and for no upgrade: the file's path and the
    /// answer.
    File(&'static str, Vec<u8>),
    /// The head asks, without an upgrade, for a path that a service beside the shards answers: the
    /// number of that service in the listener's list.
    Handed(u8),
    /// An upgrade.
    Accept {
        /// Bytes of the head.
        head: usize,
        /// The answer.
        answer: String,
        /// Protocol inside, when the caller named a subprotocol.
        protocol: Option<Protocol>,
        /// Whether the client is a browser that asked for a host name which anybody may have
        /// pointed to this address: see [`is_renamed`].
        renamed: bool,
    },
}

impl WebSocket {
    /// The side that accepted: it receives masked frames and sends unmasked ones.
    pub fn server() -> Self {
        let payload_max = u64::from(model::limits::FRAME_BYTES_HARD_MAX);
        let (pending, mask) = (Vec::new(), [0; 4]);
        let (left, masks, pinged, is_over) = (0, None, None, false);
        WebSocket {
            client: false,
            pending,
            left,
            mask,
            masks,
            pinged,
            is_over,
            payload_max,
            is_text: false,
            is_foreign: false,
        }
    }

    /// The side that called; it masks with zeros.
    pub fn client() -> Self {
        WebSocket { client: true, ..WebSocket::server() }
    }

    /// The layer for a protocol of text messages, or of binary ones.
    pub fn of_text(self, is_text: bool) -> Self {
        WebSocket { is_text, ..self }
    }

    /// The side that called this.
    pub(crate) fn client_of(target: &UpgradeTarget) -> Self {
        let masks = target.secret.map(|secret| Box::new(MaskSequence { secret, drawn: 0 }));
        WebSocket { masks, ..WebSocket::client() }
    }

    /// Whether nothing needs to be kept.
    pub fn is_idle(&self) -> bool {
        !self.is_inside() && self.pinged.is_none() && !self.is_over
    }

    /// Whether a frame has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.left > 0 || !self.pending.is_empty()
    }

    /// A header or a control frame that is not whole.
    pub(crate) fn piece(&self) -> &Vec<u8> {
        &self.pending
    }

    /// Whether a ping has not been answered.
    pub fn owes_pong(&self) -> bool {
        self.pinged.is_some()
    }

    /// Appends the pong that is owed, if one is.
    pub fn pong(&mut self, out: &mut Vec<u8>) {
        if let Some(pinged) = self.pinged.take() {
            self.frame(0x8a, &pinged, out);
        }
    }

    /// The header of a binary message that is sent unmasked (by a server).
    pub fn header(length: usize, out: &mut Vec<u8>) {
        put_header(0x80 | opcode(false), length, false, out);
    }

    /// Appends `payload` as one message.
    pub fn wrap(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        self.frame(0x80 | opcode(self.is_text), payload, out);
    }

    /// Appends a close frame with the status of this reason (RFC 6455 7.4.1), unless it has said
    /// one.
    pub fn farewell(&mut self, reason: CloseReason, out: &mut Vec<u8>) {
        let status: u16 = match reason {
            _ if self.is_foreign => 1003,
            CloseReason::Malformed
            | CloseReason::OutOfOrder
            | CloseReason::UnknownOpcode
            | CloseReason::UnknownVersion
            | CloseReason::UnknownProtocol
            | CloseReason::WebSocketFailed => 1002,
            CloseReason::TooLarge => 1009,
            _ => 1000,
        };
        self.frame(0x88, &status.to_be_bytes(), out);
        self.is_over = true;
    }

    /// Takes the payloads out of frames. A ping is owed its [`pong`](Self::pong).
    pub fn unwrap(
        &mut self,
        bytes: &[u8],
        inner: &mut Vec<u8>,
        outer: &mut Vec<u8>,
    ) -> Result<Flow, CloseReason> {
        let mut joined = std::mem::take(&mut self.pending);
        let mut rest = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        rest = self.payload(rest, inner);
        while let Some(frame) = Frame::parse(rest, !self.client, self.payload_max)? {
            if frame.is_control() {
                let whole = frame.head + frame.length as usize;
                let Some(payload) = rest.get(frame.head..whole) else { break };
                rest = &rest[whole..];
                match frame.opcode {
                    0x8 => {
                        self.farewell(CloseReason::PeerClosed, outer);
                        return Ok(Flow::Ended);
                    }
                    0x9 => {
                        let mut said = Vec::with_capacity(payload.len());
                        unmask(payload, frame.mask, &mut said);
                        self.pinged = Some(said.into());
                    }
                    0xa => {}
                    _ => return Err(CloseReason::WebSocketFailed),
                }
            } else if frame.opcode == 0x0 || frame.opcode == opcode(self.is_text) {
                (self.left, self.mask) = (frame.length, frame.mask);
                rest = self.payload(&rest[frame.head..], inner);
            } else {
                self.is_foreign = frame.opcode == opcode(!self.is_text);
                return Err(CloseReason::WebSocketFailed);
            }
        }
        self.pending = rest.to_vec();
        Ok(Flow::Open)
    }

    /// Passes on what of `bytes` is the current frame's; gives the rest.
    fn payload<'a>(&mut self, bytes: &'a [u8], inner: &mut Vec<u8>) -> &'a [u8] {
        let (mine, rest) = bytes.split_at(self.left.min(bytes.len() as u64) as usize);
        unmask(mine, self.mask, inner);
        self.left -= mine.len() as u64;
        self.mask.rotate_left(mine.len() % 4);
        rest
    }

    fn frame(&mut self, first: u8, payload: &[u8], out: &mut Vec<u8>) {
        if self.is_over {
            return;
        }
        put_header(first, payload.len(), self.client, out);
        match &mut self.masks {
            Some(masks) => {
                let mask = masks.draw();
                out.extend_from_slice(&mask);
                unmask(payload, mask, out);
            }
            None => {
                out.extend_from_slice(if self.client { &[0; 4] } else { &[] });
                out.extend_from_slice(payload);
            }
        }
    }
}

/// Masks that nobody can foretell who does not know the secret (RFC 6455 5.3).
struct MaskSequence {
    secret: HashKey,
    drawn: u64,
}

impl MaskSequence {
    fn draw(&mut self) -> [u8; 4] {
        self.drawn += 1;
        let word = self.secret.of(&[b"mask", &self.drawn.to_be_bytes()]);
        (word as u32).to_be_bytes()
    }
}

struct Frame {
    opcode: u8,
    mask: [u8; 4],
    head: usize,
    length: u64,
}

impl Frame {
    fn is_control(&self) -> bool {
        self.opcode & 0x08 != 0
    }

    /// The header at the front, once it is whole.
    fn parse(bytes: &[u8], masked: bool, payload_max: u64) -> Result<Option<Frame>, CloseReason> {
        let [first, second, ..] = *bytes else { return Ok(None) };
        let control = first & 0x08 != 0;
        let bad = first & 0x70 != 0
            || (second & 0x80 != 0) != masked
            || control && (first & 0x80 == 0 || second & 0x7f > 125);
        if bad {
            return Err(CloseReason::WebSocketFailed);
        }
        let (length, mut head) = match second & 0x7f {
            126 => match bytes.get(2..4) {
                Some(field) => (u64::from(u16::from_be_bytes([field[0], field[1]])), 4),
                None => return Ok(None),
            },
            127 => match bytes.get(2..10) {
                Some(field) => (u64::from_be_bytes(field.try_into().expect("eight bytes")), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        if length > payload_max {
            return Err(CloseReason::TooLarge);
        }
        let mut mask = [0; 4];
        if masked {
            let Some(field) = bytes.get(head..head + 4) else { return Ok(None) };
            mask.copy_from_slice(field);
            head += 4;
        }
        Ok(Some(Frame { opcode: first & 0x0f, mask, head, length }))
    }
}

/// Opcode of a message that is text, or binary (RFC 6455 5.2).
const fn opcode(is_text: bool) -> u8 {
    if is_text { 0x1 } else { 0x2 }
}

fn put_header(first: u8, length: usize, masked: bool, out: &mut Vec<u8>) {
    let mask = if masked { 0x80 } else { 0 };
    out.push(first);
    match length {
        0..=125 => out.push(mask | length as u8),
        126..=0xffff => {
            out.push(mask | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(mask | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

fn unmask(payload: &[u8], mask: [u8; 4], into: &mut Vec<u8>) {
    into.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// Upgrades that a listener takes.
pub struct UpgradeOffer<'a> {
    /// Paths that are upgraded; `*`: any.
    pub paths: &'a [String],
    /// From these origins besides the host's own, if the caller names one; `*`: from any.
    pub origins: &'a [String],
    /// Protocols that are upgraded to, by their subprotocols.
    pub wires: &'a [&'static WireProfile],
    /// Answer to requests without an upgrade.
    pub files: &'a [StaticFile],
    /// Paths that somebody beside the shards answers.
    pub handed: &'a [HandedPaths],
}

/// Looks at a request head: is it an upgrade that is taken? Of the subprotocols that the caller
/// offers, the first one that is served is chosen; for a caller that offers none, its first bytes
/// decide.
pub fn answer(bytes: &[u8], offer: &UpgradeOffer<'_>) -> Upgrade {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Upgrade::More,
        Err(_) => return bad("not an HTTP request"),
    };
    let header = |name: &str| {
        let found = request.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
        found.and_then(|h| std::str::from_utf8(h.value).ok()).unwrap_or("")
    };
    let has = |name: &str| request.headers.iter().any(|h| h.name.eq_ignore_ascii_case(name));
    let (is_coded, length) = (has("transfer-encoding"), header("content-length"));
    if is_coded && has("content-length") {
        // Two readers may differ about where such a request ends (RFC 9112 6.1).
        return bad("both a length and a transfer coding");
    }
    let asked = request.path.unwrap_or("").split('?').next().unwrap_or("");
    let upgrades = header("upgrade").eq_ignore_ascii_case("websocket");
    let (method, known) = (request.method.unwrap_or(""), header("if-none-match"));
    if !upgrades && let Some((path, file)) = files::answer(offer.files, asked, method, known) {
        return Upgrade::File(path, file);
    }
    let handed = offer.handed.iter().position(|handed| asked.starts_with(&*handed.prefix));
    if let Some(at) = handed.filter(|_| !upgrades) {
        return Upgrade::Handed(at as u8);
    }
    if !offer.paths.iter().any(|path| path == asked || path == "*") {
        let at = offer.paths.join(" and ");
        let hint = format!("WebSocket is at {at}; the HTTP API has its own address");
        return Upgrade::Refuse(refusal("404 Not Found", &hint));
    }
    if !upgrades {
        return Upgrade::Refuse(refusal("426 Upgrade Required", "this path is for WebSocket only"));
    }
    if header("sec-websocket-version") != "13" || header("sec-websocket-key").len() != 24 {
        return bad("only WebSocket version 13 (RFC 6455) is supported");
    }
    let (origin, host) = (header("origin"), header("host"));
    if is_coded || !["", "0"].contains(&length) {
        return bad("an upgrade request must not have a body");
    }
    let told = has("origin");
    if told && !is_known(origin, host, offer.origins) {
        return Upgrade::Foreign(refusal("403 Forbidden", FOREIGN));
    }
    let offered = header("sec-websocket-protocol");
    let names = |wire: &&'static WireProfile| {
        let protocol = wire.protocol;
        wire.subprotocols.iter().map(move |&name| (name, protocol))
    };
    let served: Vec<(&str, Protocol)> = offer.wires.iter().flat_map(names).collect();
    let chosen = offered.split(',').find_map(|word| {
        served.iter().find(|(name, _)| name.eq_ignore_ascii_case(word.trim())).copied()
    });
    if !offered.trim().is_empty() && chosen.is_none() {
        let names: Vec<&str> = served.iter().map(|(name, _)| *name).collect();
        return bad(&format!("supported subprotocols: {}", names.join(", ")));
    }
    let accept = accept_key(header("sec-websocket-key"));
    let name = chosen.map(|(name, _)| format!("Sec-WebSocket-Protocol: {name}\r\n"));
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{}\r\n",
        name.unwrap_or_default()
    );
    let (protocol, renamed) = (chosen.map(|(_, it)| it), told && is_renamed(host));
    Upgrade::Accept { head, answer, protocol, renamed }
}

/// Whether a page of this origin (RFC 6454 7) may upgrade: one of the host and port that were asked
/// for, or one that is listed. `null`, which pages without an origin say, is nobody's own.
pub fn is_known(origin: &str, host: &str, origins: &[String]) -> bool {
    if origins.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin)) {
        return true;
    }
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    // Whether the browser asked by TLS only a proxy may know: what it leaves out is its scheme's.
    let usual = if scheme.eq_ignore_ascii_case("https") { "443" } else { "80" };
    let (theirs, ours) = (host_and_port(authority, usual), host_and_port(host, usual));
    !theirs.0.is_empty() && theirs.0.eq_ignore_ascii_case(ours.0) && theirs.1 == ours.1
}

/// Whether a host is a name, and not one of this machine alone. Its owner can let it point here
/// (DNS rebinding), so that a page of another site seems to be of this host: nothing is to be
/// had for it by being near.
fn is_renamed(host: &str) -> bool {
    let name = host_and_port(host, "").0.trim_end_matches('.');
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let local = name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"));
    !is_address && !local
}

/// Host and port; the usual one, where none is said.
fn host_and_port<'a>(authority: &'a str, usual: &'a str) -> (&'a str, &'a str) {
    match authority.rsplit_once(':') {
        Some((host, "")) => (host, usual),
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, usual),
    }
}

/// Upgrade that a calling side asks for.
#[derive(Clone)]
pub struct UpgradeTarget {
    /// Host and port, as they stand in the `Host` header.
    pub host: String,
    /// Path.
    pub path: String,
    /// Subprotocol that is offered.
    pub subprotocol: &'static str,
    /// Secret of this one connection, 16 random bytes, from which its key and its masks follow
    /// (RFC 6455 4.1, 5.3). `None`: a key that is known to all, and masks of zeros. Both protect
    /// caches and proxies from what strangers have others send (RFC 6455 10.3): a load generator
    /// sends nothing but its own bytes.
    pub secret: Option<HashKey>,
}

impl UpgradeTarget {
    /// One without a secret.
    pub fn open(
        host: impl Into<String>,
        path: impl Into<String>,
        wire: &WireProfile,
    ) -> Arc<UpgradeTarget> {
        let (host, path, subprotocol) = (host.into(), path.into(), wire.subprotocols[0]);
        Arc::new(UpgradeTarget { host, path, subprotocol, secret: None })
    }

    /// The request of the calling side.
    pub fn request(&self) -> String {
        let (host, path, subprotocol) = (&self.host, &self.path, self.subprotocol);
        let key = self.key();
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
        )
    }

    /// Looks at the answer to the request: bytes of its head once it is whole and well. An error
    /// is the status of one that is not; 0: it is no HTTP. The answer need not name a subprotocol,
    /// but no other one than it was offered (RFC 6455 4.1).
    pub fn accepted(&self, bytes: &[u8]) -> Result<Option<usize>, u16> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let head = match response.parse(bytes) {
            Ok(httparse::Status::Complete(head)) => head,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(0),
        };
        let header = |name: &str| {
            let found = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
            found.map(|header| header.value)
        };
        let expected = accept_key(&self.key());
        let well = response.code == Some(101)
            && header("sec-websocket-accept") == Some(expected.as_bytes())
            && header("sec-websocket-protocol")
                .is_none_or(|it| it.eq_ignore_ascii_case(self.subprotocol.as_bytes()));
        if well { Ok(Some(head)) } else { Err(response.code.unwrap_or_default()) }
    }

    /// The key, which proves that the answer was made for this request.
    fn key(&self) -> String {
        let Some(secret) = &self.secret else { return "aG9sZGxpbmUtbG9hZC1rZQ==".to_owned() };
        let halves = [b"key 1", b"key 2"].map(|half| secret.of(&[half]).to_be_bytes());
        STANDARD.encode(halves.concat())
    }
}

/// RFC 6455 4.2.2, step 5.4.
fn accept_key(key: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(hash.finalize())
}

/// Answer to a page of another site.
const FOREIGN: &str = "origin not allowed: see websocket_origins of the listener";

/// The request makes no sense.
fn bad(why: &str) -> Upgrade {
    Upgrade::Refuse(refusal("400 Bad Request", why))
}

fn refusal(status: &str, why: &str) -> String {
    let body = format!("{why}\n");
    let upgrade = if status.starts_with("426") { "Upgrade: websocket\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\n{upgrade}Content-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::handing::{HandedStream, StreamTaker};
    use crate::wires::WIRES;

    fn request(host: &str, path: &str, protocol: Protocol) -> String {
        let wire = WIRES.iter().find(|wire| wire.protocol == protocol).expect("one of both");
        UpgradeTarget::open(host, path, wire).request()
    }

    #[test]
    fn the_accept_key_of_the_standard() {
        // RFC 6455 1.3
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn frames_split_anywhere_give_the_same_bytes() {
        let mut wire = Vec::new();
        let mut client = WebSocket::client();
        let long = vec![7u8; 70_000];
        for payload in [&b"hello"[..], &[1; 300], &long] {
            client.wrap(payload, &mut wire);
        }
        client.frame(0x89, b"ping", &mut wire);
        let expected = [&b"hello"[..], &[1; 300], &long].concat();
        for step in [1, 7, 1_000, wire.len()] {
            let mut server = WebSocket::server();
            let (mut inner, mut outer) = (Vec::new(), Vec::new());
            for part in wire.chunks(step) {
                assert_eq!(server.unwrap(part, &mut inner, &mut outer), Ok(Flow::Open));
            }
            assert!(inner == expected && !server.is_inside() && outer.is_empty());
            server.pong(&mut outer);
            assert!(server.is_idle());
            assert_eq!(outer, b"\x8a\x04ping");
        }
    }

    #[test]
    fn only_the_newest_ping_is_answered() {
        let (mut client, mut server) = (WebSocket::client(), WebSocket::server());
        let (mut wire, mut inner, mut outer) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..1_000u16 {
            client.frame(0x89, &number.to_be_bytes(), &mut wire);
        }
        for part in wire.chunks(77) {
            assert_eq!(server.unwrap(part, &mut inner, &mut outer), Ok(Flow::Open));
        }
        server.pong(&mut outer);
        server.pong(&mut outer);
        assert_eq!(outer, [0x8a, 2, 3, 231]);
    }

    #[test]
    fn a_payload_passes_as_it_comes() {
        let mut wire = Vec::new();
        WebSocket { mask: [0; 4], ..WebSocket::client() }.wrap(&[7; 60_000], &mut wire);
        let mut server = WebSocket::server();
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        for (at, byte) in wire.iter().enumerate() {
            assert_eq!(server.unwrap(&[*byte], &mut inner, &mut outer), Ok(Flow::Open));
            assert_eq!(inner.len(), (at + 1).saturating_sub(8), "{at}");
        }
        assert!(server.is_idle());
        // The mask goes on over a cut (RFC 6455 5.3).
        let (mask, text) = ([1, 2, 3, 4], b"abcdefg");
        let masked = text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        let frame: Vec<u8> = [0x82, 0x87].into_iter().chain(mask).chain(masked).collect();
        for cut in 0..frame.len() {
            inner.clear();
            for part in [&frame[..cut], &frame[cut..]] {
                assert_eq!(server.unwrap(part, &mut inner, &mut outer), Ok(Flow::Open));
            }
            assert_eq!(inner, text, "{cut}");
        }
    }

    #[test]
    fn what_a_caller_with_a_secret_sends_is_masked_anew_each_time() {
        let secret = Some(HashKey::new(7, 8));
        let target =
            UpgradeTarget { secret, ..(*UpgradeTarget::open("h", "/", &WIRES[0])).clone() };
        let (mut client, mut server) = (WebSocket::client_of(&target), WebSocket::server());
        let mut masks = Vec::new();
        for length in [5, 300, 70_000] {
            let (mut wire, mut inner, mut outer) = (Vec::new(), Vec::new(), Vec::new());
            client.wrap(&vec![9; length], &mut wire);
            let head = wire.len() - length;
            masks.push(wire[head - 4..head].to_vec());
            assert!(wire[1] & 0x80 != 0 && wire[head..] != vec![9; length]);
            assert_eq!(server.unwrap(&wire, &mut inner, &mut outer), Ok(Flow::Open));
            assert_eq!(inner, vec![9; length]);
        }
        masks.sort();
        masks.dedup();
        assert_eq!(masks.len(), 3);
        assert_ne!(target.key(), UpgradeTarget::open("h", "/", &WIRES[0]).key());
    }

    /// Frames of a server in one string, split everywhere.
    #[test]
    fn payloads_come_out_however_frames_are_cut() {
        let mut bytes = vec![0x82, 3, b'a', b'b', b'c', 0x89, 2, b'h', b'i', 0x02, 0, 0x80, 126, 0];
        bytes.push(200);
        bytes.extend_from_slice(&[7; 200]);
        bytes.extend_from_slice(&[0x82, 1, b'd']);
        for step in 1..bytes.len() {
            let (mut client, mut inner, mut answer) = (WebSocket::client(), Vec::new(), Vec::new());
            for piece in bytes.chunks(step) {
                assert_eq!(client.unwrap(piece, &mut inner, &mut answer), Ok(Flow::Open));
            }
            let wanted = [&b"abc"[..], &[7; 200], b"d"].concat();
            assert_eq!(inner, wanted, "cut in pieces of {step}");
            client.pong(&mut answer);
            assert_eq!(answer, b"\x8a\x82\0\0\0\0hi");
        }
        let (mut client, mut answer) = (WebSocket::client(), Vec::new());
        let farewell = client.unwrap(&[0x88, 2, 3, 0xe8], &mut Vec::new(), &mut answer);
        assert_eq!((farewell, &answer[..2]), (Ok(Flow::Ended), &[0x88, 0x82][..]));
    }

    #[test]
    fn a_close_frame_says_what_was_wrong() {
        let closed = |text: bool, frame: &[u8], reason| {
            let mut server = WebSocket::server().of_text(text);
            let (mut inner, mut outer) = (Vec::new(), Vec::new());
            let result = server.unwrap(frame, &mut inner, &mut outer);
            assert_eq!(result.is_err(), !frame.is_empty(), "{frame:?}");
            server.farewell(result.err().unwrap_or(reason), &mut outer);
            assert_eq!(outer[..2], [0x88, 2]);
            u16::from_be_bytes([outer[2], outer[3]])
        };
        let masked = |first: u8| [first, 0x81, 0, 0, 0, 0, b'x'];
        let none = CloseReason::OwnStop;
        assert_eq!(closed(false, &masked(0x81), none), 1003, "text for a protocol of bytes");
        assert_eq!(closed(true, &masked(0x82), none), 1003, "bytes for one of text");
        assert_eq!(closed(false, &masked(0x83), none), 1002, "an opcode that there is not");
        assert_eq!(closed(false, &[0x82, 1, b'x'], none), 1002, "no mask");
        assert_eq!(closed(false, &[], CloseReason::Malformed), 1002, "the protocol inside");
        assert_eq!(closed(false, &[], CloseReason::TooLarge), 1009);
        assert_eq!(closed(false, &[], CloseReason::Draining), 1000);
    }

    #[test]
    fn nothing_follows_a_close_frame() {
        let mut server = WebSocket::server();
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        let mut wire = Vec::new();
        let mut client = WebSocket::client();
        client.wrap(b"bye", &mut wire);
        client.farewell(CloseReason::OwnStop, &mut wire);
        assert_eq!(server.unwrap(&wire, &mut inner, &mut outer), Ok(Flow::Ended));
        assert_eq!((&inner[..], &outer[..]), (&b"bye"[..], &[0x88, 2, 3, 0xe8][..]));
        assert!(!server.is_idle(), "it is kept, so that it is not said again");
        server.farewell(CloseReason::Draining, &mut outer);
        server.wrap(b"late", &mut outer);
        assert_eq!(outer.len(), 4, "{outer:?}");
    }

    #[test]
    fn a_protocol_of_text_speaks_text_and_hears_nothing_else() {
        let mut client = WebSocket::client().of_text(true);
        let mut server = WebSocket::server().of_text(true);
        let (mut wire, mut inner, mut outer) = (Vec::new(), Vec::new(), Vec::new());
        client.wrap(b"<a/>", &mut wire);
        assert_eq!((wire[0], server.unwrap(&wire, &mut inner, &mut outer)), (0x81, Ok(Flow::Open)));
        assert_eq!(inner, b"<a/>");
        let mut binary = Vec::new();
        WebSocket::client().wrap(b"<a/>", &mut binary);
        let refused = server.unwrap(&binary, &mut inner, &mut outer);
        assert_eq!(refused, Err(CloseReason::WebSocketFailed));
    }

    #[test]
    fn broken_frames_of_a_server_are_refused() {
        for bytes in [&[0x82, 0x81][..], &[0x83, 0], &[0x81, 0], &[0xc2, 0], &[0x89, 126, 0, 200]] {
            let refused = WebSocket::client().unwrap(bytes, &mut vec![], &mut vec![]);
            assert_eq!(refused, Err(CloseReason::WebSocketFailed), "{bytes:?}");
        }
    }

    #[test]
    fn broken_frames_are_refused() {
        let refused = |bytes: &[u8]| WebSocket::server().unwrap(bytes, &mut vec![], &mut vec![]);
        assert_eq!(refused(b"\x82\x01x"), Err(CloseReason::WebSocketFailed)); // not masked
        assert_eq!(refused(b"\xc2\x81\0\0\0\0x"), Err(CloseReason::WebSocketFailed)); // RSV1
        assert_eq!(refused(b"\x81\x81\0\0\0\0x"), Err(CloseReason::WebSocketFailed)); // text
        assert_eq!(refused(b"\x09\x80\0\0\0\0"), Err(CloseReason::WebSocketFailed)); // ping, no FIN
        let huge = [0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(refused(&huge), Err(CloseReason::TooLarge));
        assert_eq!(refused(b"\x88\x80\0\0\0\0"), Ok(Flow::Ended));
    }

    #[test]
    fn a_frame_is_refused_by_its_header_when_the_protocol_may_not_send_so_much() {
        let mut server = WebSocket::server();
        server.payload_max = 300;
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        let mut wire = Vec::new();
        WebSocket::client().wrap(&[1; 300], &mut wire);
        assert_eq!(server.unwrap(&wire, &mut inner, &mut outer), Ok(Flow::Open));
        assert_eq!(
            server.unwrap(&[0x82, 0xfe, 1, 45], &mut inner, &mut outer),
            Err(CloseReason::TooLarge)
        );
    }

    #[test]
    fn a_caller_offers_the_subprotocol_of_what_it_speaks() {
        for (protocol, name) in [(Protocol::Mqtt, "mqtt"), (Protocol::Miop, "miop")] {
            let request = request("h", "/", protocol);
            let offers = request.matches("Sec-WebSocket-Protocol").count();
            let offer = format!("\r\nSec-WebSocket-Protocol: {name}\r\n");
            assert!(offers == 1 && request.contains(&offer), "{request}");
        }
    }

    #[test]
    fn an_upgrade_is_answered_or_refused_with_a_reason() {
        let good = request("h", "/miop", Protocol::Miop);
        let paths = ["/miop".to_owned(), "/mqtt".to_owned()];
        let offer = UpgradeOffer {
            paths: &paths,
            origins: &[],
            wires: &[&WIRES[0], &WIRES[1]],
            files: &[],
            handed: &[],
        };
        let answered = |bytes: &[u8]| answer(bytes, &offer);
        let Upgrade::Accept { head, answer: text, protocol, renamed: false } =
            answered(good.as_bytes())
        else {
            panic!("a good request")
        };
        assert_eq!((head, protocol), (good.len(), Some(Protocol::Miop)));
        let target = UpgradeTarget::open("h", "/miop", &WIRES[0]);
        let accepted = |text: &str| target.accepted(text.as_bytes());
        assert_eq!(accepted(&text), Ok(Some(text.len())));
        assert_eq!(accepted(&text.replace(": miop", ": soap")), Err(101), "another subprotocol");
        let silent = text.replace("Sec-WebSocket-Protocol: miop\r\n", "");
        assert_eq!(accepted(&silent), Ok(Some(silent.len())));
        assert_eq!(accepted(&text[..40]), Ok(None));
        let stranger = UpgradeTarget { secret: Some(HashKey::new(1, 2)), ..(*target).clone() };
        assert_eq!(stranger.accepted(text.as_bytes()), Err(101), "another key");
        assert!(matches!(answered(&good.as_bytes()[..40]), Upgrade::More));
        let cases = [
            (request("h", "/other", Protocol::Miop), "404"),
            ("GET /miop HTTP/1.1\r\nHost: h\r\n\r\n".to_string(), "426"),
            (good.replace("Version: 13", "Version: 8"), "400"),
            (good.replace(": miop", ": soap"), "400"),
            (good.replace("Host:", "Content-Length: 3\r\nHost:"), "400"),
            (good.replace("Host:", "Transfer-Encoding: chunked\r\nHost:"), "400"),
        ];
        for (bad, status) in cases {
            let Upgrade::Refuse(text) = answered(bad.as_bytes()) else { panic!("{bad}") };
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
        }
    }

    #[test]
    fn the_first_subprotocol_that_is_served_is_chosen() {
        let good = request("h", "/mqtt", Protocol::Mqtt);
        let paths = ["/mqtt".to_owned()];
        let offer = UpgradeOffer {
            paths: &paths,
            origins: &[],
            wires: &[&WIRES[1]],
            files: &[],
            handed: &[],
        };
        let chosen = |names: &str| {
            let request = good.replace("Protocol: mqtt", &format!("Protocol: {names}"));
            match answer(request.as_bytes(), &offer) {
                Upgrade::Accept { answer, protocol, .. } => Some((answer, protocol)),
                _ => None,
            }
        };
        for names in ["mqtt", "mqttv3.1", "soap, MQTTv3.1 , mqtt", "miop,mqtt"] {
            let (text, protocol) = chosen(names).expect("served");
            let name = if names.contains("v3.1") { "mqttv3.1" } else { "mqtt" };
            assert!(text.contains(&format!("Sec-WebSocket-Protocol: {name}\r\n")), "{text}");
            assert_eq!(protocol, Some(Protocol::Mqtt));
        }
        assert!(chosen("miop").is_none(), "it is not served here");
        let silent = good.replace("Sec-WebSocket-Protocol: mqtt\r\n", "");
        let Upgrade::Accept { answer: text, protocol, .. } = answer(silent.as_bytes(), &offer)
        else {
            panic!("a client that names none is told by what it sends")
        };
        assert!(protocol.is_none() && !text.contains("WebSocket-Protocol"));
    }

    struct Nobody;

    impl StreamTaker for Nobody {
        fn has_room(&self, _: std::net::SocketAddr) -> bool {
            false
        }

        fn take(&self, _: HandedStream) -> bool {
            false
        }
    }

    #[test]
    fn what_others_answer_is_handed_to_them_once_its_head_is_whole_and_no_upgrade_is() {
        let paths = ["/mqtt".to_owned(), "/media/x".to_owned()];
        let to = |prefix: &str| HandedPaths { prefix: prefix.into(), taker: Arc::new(Nobody) };
        let handed = ["/media/", "/http-bind"].map(to);
        let offer = UpgradeOffer {
            paths: &paths,
            origins: &[],
            wires: &[&WIRES[1]],
            files: &[],
            handed: &handed,
        };
        let of = |request: &str| answer(request.as_bytes(), &offer);
        assert!(matches!(of("PUT /media/x HTTP/1.1\r\n\r\nbody"), Upgrade::Handed(0)));
        for both in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "transfer-encoding: identity\r\nCONTENT-LENGTH: 0",
        ] {
            let Upgrade::Refuse(told) = of(&format!("PUT /media/x HTTP/1.1\r\n{both}\r\n\r\n"))
            else {
                panic!("a request with two ends: {both}")
            };
            assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("Connection: close"));
        }
        assert!(matches!(
            of("GET /media/x HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
            Upgrade::Handed(0)
        ));
        assert!(matches!(of("POST /http-bind HTTP/1.1\r\n\r\n<"), Upgrade::Handed(1)));
        assert!(matches!(of("GET /media/?q HTTP/1.1\r\nHost: h\r\n\r\n"), Upgrade::Handed(0)));
        assert!(matches!(of("GET /media/x HTTP/1.1\r\nHost: h\r\n"), Upgrade::More));
        assert!(matches!(of("GET /medial HTTP/1.1\r\n\r\n"), Upgrade::Refuse(_)));
        let upgrade = request("h", "/media/x", Protocol::Mqtt);
        assert!(matches!(of(&upgrade), Upgrade::Accept { .. }));
        let none = UpgradeOffer { handed: &[], ..offer };
        let asked = answer(b"GET /media/x HTTP/1.1\r\n\r\n", &none);
        assert!(matches!(asked, Upgrade::Refuse(_)));
    }

    #[test]
    fn a_browser_comes_from_an_origin_that_is_known() {
        let (paths, origins) = (["*".to_owned()], ["https://app.example".to_owned()]);
        let offer = UpgradeOffer {
            paths: &paths,
            origins: &origins,
            wires: &[&WIRES[0], &WIRES[1]],
            files: &[],
            handed: &[],
        };
        let request = request("h", "/any/where", Protocol::Mqtt);
        let from = |origin: &str| {
            let line = format!("Host: h\r\nOrigin: {origin}\r\n");
            answer(request.replace("Host: h\r\n", &line).as_bytes(), &offer)
        };
        assert!(matches!(from("https://APP.example"), Upgrade::Accept { .. }));
        assert!(matches!(answer(request.as_bytes(), &offer), Upgrade::Accept { .. }));
        let Upgrade::Foreign(text) = from("https://other.example") else { panic!("not known") };
        assert!(text.starts_with("HTTP/1.1 403"), "{text}");
    }

    /// Whether an upgrade is taken; and whether it is of this machine then, if its socket is.
    fn of_page(origin: &str, host: &str, origins: &[&str]) -> Option<bool> {
        let origins: Vec<String> = origins.iter().map(|&origin| origin.to_owned()).collect();
        let offer = UpgradeOffer {
            paths: &["*".to_owned()],
            origins: &origins,
            wires: &[&WIRES[0], &WIRES[1]],
            files: &[],
            handed: &[],
        };
        let line = format!("Host: {host}\r\nOrigin: {origin}\r\n");
        let request = request("h", "/mqtt", Protocol::Mqtt).replace("Host: h\r\n", &line);
        match answer(request.as_bytes(), &offer) {
            Upgrade::Accept { renamed, .. } => Some(!renamed),
            _ => None,
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused_unless_it_is_named() {
        let near = Some(true);
        for (origin, host, taken) in [
            ("http://localhost:8083", "localhost:8083", near),
            ("http://[::1]:80", "[::1]", near),
            ("http://[::1]", "[::1]:80", near),
            ("http://127.0.0.1", "127.0.0.1:", near),
            ("http://app.localhost:8083", "APP.localhost:8083", near),
            // Another port is another site.
            ("http://localhost:3000", "localhost:8083", None),
            ("http://127.0.0.1", "127.0.0.1:8083", None),
            ("http://[::1]:80", "[::1]:8083", None),
            ("https://localhost", "localhost:80", None),
            ("http://localhost", "localhost:443", None),
            // Of its own host, but anybody's name may point here.
            ("https://App.example", "app.example", Some(false)),
            ("https://app.example", "app.example:443", Some(false)),
            ("https://evil.example:8083", "evil.example:8083", Some(false)),
            ("https://evil.example", "evil.example:8083", None),
            ("https://evil.example", "127.0.0.1:8083", None),
            ("https://evil.example", "localhost:8083", None),
            ("https://localhost.evil.example", "localhost:8083", None),
            ("http://127.0.0.1.evil.example", "127.0.0.1:8083", None),
            ("null", "localhost:8083", None),
            ("", "localhost:8083", None),
            ("://", "", None),
            ("file://", "", None),
        ] {
            assert_eq!(of_page(origin, host, &[]), taken, "{origin} at {host}");
        }
        let evil = "https://evil.example";
        assert_eq!(of_page(evil, "localhost", &["*"]), near);
        assert_eq!(of_page(evil, "localhost", &["https://app.example", evil]), near);
        assert_eq!(of_page("null", "localhost", &["null"]), near);
        assert_eq!(of_page("http://localhost:1", "localhost:1", &[evil]), near, "its own, too");
    }
}

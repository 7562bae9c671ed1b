//! From the socket to the machine.
//!
//! Bytes land in the shard's one buffer, go through the layers if there are any, and are shown to
//! the machine. Input that it leaves is kept until more comes, or until the service has answered
//! what the machine asked.

use super::{Conn, READ_BYTES, Shard, ShardMessageOf};
use crate::detail::Detail;
use crate::layer::websocket::WebSocket;
use crate::layer::{Flow, Layers};
use crate::logic::{ConnectionOrigin, ShardLogic};
use crate::transport::{Got, Net};
use base::hash;
use base::slab::Key;
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::id::ShardId;
use model::link::{Link, Protocol};
use model::machine::{Input, Machine};
use model::ports::bans::BanAct;

/// Steps of TLS handshakes in one turn; each costs up to a millisecond. More wait a turn.
pub(super) const HANDSHAKES_PER_TURN: u32 = 8;
/// Reads of one connection in one turn. A sender of more waits a turn.
const READS_PER_TURN: usize = 4;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    pub(super) fn on_socket(&mut self, key: Key, readable: bool, writable: bool, ended: bool) {
        let Some(conn) = self.conns.at(key) else { return };
        if conn.has(Conn::<N, H>::CONNECTING) {
            if !writable && !ended {
                return;
            }
            self.on_dialled(key);
        } else if writable && conn.backlog() > 0 {
            self.mark_dirty(key);
        }
        if readable {
            self.read(key, ended);
            self.feed_again();
        }
    }

    /// Reads that were put off.
    pub(super) fn read_deferred(&mut self) {
        if self.congested {
            return;
        }
        for _ in 0..self.deferred.len() {
            let Some((key, ended)) = self.deferred.pop_front() else { break };
            let Some(conn) = self.conns.at_mut(key) else { continue };
            conn.flags &= !Conn::<N, H>::DEFERRED;
            self.read(key, ended);
            self.feed_again();
        }
    }

    pub(super) fn read(&mut self, key: Key, ended: bool) {
        if self.congested {
            return self.defer(key, ended);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..READS_PER_TURN {
            let Some(conn) = self.conns.at_mut(key) else { break };
            if conn.has(Conn::<N, H>::HELD) {
                // What the socket has is read when it is held no more.
                self.buffer = buffer;
                return;
            }
            let layers = conn.extra.as_ref().and_then(|extra| extra.layers.as_ref());
            if layers.is_some_and(|layers| layers.handshaking()) {
                if self.handshakes_left == 0 {
                    self.buffer = buffer;
                    return self.defer(key, ended);
                }
                self.handshakes_left -= 1;
            }
            match self.net.receive(&conn.socket, &mut buffer) {
                Got::Bytes(count) => {
                    let now_ms = self.now.ms_wrapping();
                    let silent_ms = now_ms.wrapping_sub(conn.last_ms);
                    self.outbox.set_silent(silent_ms, conn.silence_ms);
                    conn.last_ms = now_ms;
                    self.handle.counters.count_by(ProcessCounter::BytesIn, count as u64);
                    self.pass(key, count, 0);
                    self.received(key, &buffer[..count]);
                    self.weigh(key);
                    self.outbox.set_silent(0, 0);
                    // A short read means that nothing is left, unless the end is behind it.
                    if count < buffer.len() && !ended {
                        self.buffer = buffer;
                        return;
                    }
                }
                Got::Later => {
                    self.buffer = buffer;
                    return;
                }
                Got::End => {
                    let partial = conn.extra.as_ref().is_some_and(|e| !e.partial.is_empty());
                    let whole = if partial {
                        CloseReason::PeerClosedMidFrame
                    } else {
                        CloseReason::PeerClosed
                    };
                    let detail = self.how_closed(key);
                    self.end_knowing(key, whole, detail);
                    self.settle();
                    break;
                }
                Got::Failed(reason) => {
                    self.end_knowing(key, reason, self.net.detail());
                    self.settle();
                    break;
                }
            }
        }
        self.buffer = buffer;
        self.defer(key, ended);
    }

    /// Puts a read off to the next turn. Once is enough, unless the end was seen since.
    fn defer(&mut self, key: Key, ended: bool) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        if ended || !conn.has(Conn::<N, H>::DEFERRED) {
            conn.flags |= Conn::<N, H>::DEFERRED;
            self.deferred.push_back((key, ended));
        }
    }

    /// Bytes came off the socket.
    fn received(&mut self, key: Key, bytes: &[u8]) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        let web_socket = conn.has(Conn::<N, H>::WEB_SOCKET);
        let Some(extra) = conn.extra.as_mut() else {
            return if web_socket { self.layered(key, bytes) } else { self.feed(key, bytes) };
        };
        if extra.layers.is_some() || web_socket {
            return self.layered(key, bytes);
        }
        self.feed_joined(key, bytes);
    }

    /// Shows the machine what it left earlier with `bytes` behind it.
    fn feed_joined(&mut self, key: Key, bytes: &[u8]) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        match conn.extra.as_mut().filter(|extra| !extra.partial.is_empty()) {
            None => self.feed(key, bytes),
            Some(extra) => {
                let mut joined = std::mem::take(&mut extra.partial);
                joined.extend_from_slice(bytes);
                self.feed_kept(key, joined);
            }
        }
    }

    /// Shows the machine bytes that stand in a buffer of their own; what it leaves stays there. A
    /// large packet that comes in many pieces is not copied for each of them.
    fn feed_kept(&mut self, key: Key, mut bytes: Vec<u8>) {
        let Some(taken) = self.show(key, &bytes) else { return };
        if taken > 0 {
            self.begin_piece(key);
        }
        let left = bytes.len() - taken;
        if taken == 0 || (left > 0 && left >= bytes.len() / 2) {
            bytes.drain(..taken);
            self.keep(key, bytes);
        } else {
            self.keep(key, bytes[taken..].to_vec());
        }
    }

    /// Bytes for a connection with layers.
    pub(super) fn layered(&mut self, key: Key, bytes: &[u8]) {
        let mut layers = self.take_layers(key);
        let payload_max = self.payload_max(key);
        layers.web_socket.iter_mut().for_each(|framing| framing.payload_max = payload_max);
        let handshake = layers.handshake.is_some();
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        let mut flow = layers.receive(bytes, &mut inner, &mut outer);
        if flow.is_ok()
            && let Some(peer) = layers.take_header_peer()
        {
            flow = match self.logic.lets_in(self.now, peer.ip(), BanAct::Refuses) {
                true => layers.receive(&[], &mut inner, &mut outer),
                false => Err(CloseReason::Banned),
            };
        }
        if self.conns.at(key).is_some_and(|conn| conn.backlog() == 0) {
            flow = flow.and_then(|flow| layers.pong(&mut outer).map(|()| flow));
        }
        if handshake && flow == Ok(Flow::Open) {
            flow = layers.catch_up(&mut outer).map(|()| Flow::Open);
        }
        let link = match flow {
            Ok(Flow::Open) if handshake => layers.take_link(),
            _ => None,
        };
        let detail = layers.detail();
        let taker = layers.leaves_for();
        self.put_layers(key, layers);
        let queued = self.queue_answers(key, &outer);
        if let Err(reason) = queued.and(flow) {
            self.end_knowing(key, reason, detail);
            return self.settle();
        }
        if let Some(taker) = taker {
            return self.hand_over(key, &taker);
        }
        if let Some(link) = link {
            self.opened(key, &link);
        }
        if !inner.is_empty() {
            self.feed_joined(key, &inner);
            if !self.partial(key) {
                self.begin_piece(key);
            }
        }
        if flow == Ok(Flow::Ended) {
            let partial = self.partial(key);
            let detail = if partial { Detail::Truncated } else { Detail::Nothing };
            self.end_knowing(key, CloseReason::PeerClosed, detail);
            self.settle();
        }
    }

    /// The layers are open: the protocol begins, or goes on in the TLS that its machine ordered.
    fn opened(&mut self, key: Key, link: &Link) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        if conn.machine.is_some() {
            return self.tls_stands(key, link);
        }
        let call = conn.extra.as_mut().and_then(|extra| extra.call.take());
        let how = match call {
            Some(call) => ConnectionOrigin::Dialled(call.0),
            None => ConnectionOrigin::Accepted(conn.door),
        };
        self.begin(key, link, how);
    }

    /// Whether a frame of the protocol has begun and not ended.
    fn partial(&self, key: Key) -> bool {
        let extra = self.conns.at(key).and_then(|conn| conn.extra.as_ref());
        extra.is_some_and(|extra| !extra.partial.is_empty())
    }

    /// The peer has closed without a layer's farewell: was it inside of something?
    fn how_closed(&self, key: Key) -> Detail {
        let extra = self.conns.at(key).and_then(|conn| conn.extra.as_ref());
        let layers = extra.and_then(|extra| extra.layers.as_ref());
        let truncated = self.partial(key) || layers.is_some_and(|layers| layers.is_truncated());
        if truncated { Detail::Truncated } else { Detail::Nothing }
    }

    /// Most payload bytes of a WebSocket frame: one frame of the protocol before the Bind;
    /// afterwards also as much as one read, so that several frames may share it.
    fn payload_max(&self, key: Key) -> u64 {
        let Some(conn) = self.conns.at(key) else { return 0 };
        let trusted = conn.has(Conn::<N, H>::BOUND) || conn.has(Conn::<N, H>::DIALLED);
        (self.frame_max(conn) + READ_BYTES * usize::from(trusted)) as u64
    }

    /// The largest frame (or packet) that this connection may send now, bytes. While the layers
    /// open nobody knows what is in them.
    fn frame_max(&self, conn: &Conn<N, H>) -> usize {
        let trusted = conn.has(Conn::<N, H>::BOUND) || conn.has(Conn::<N, H>::DIALLED);
        let limits = self.frames.at(conn.protocol);
        if trusted { limits.bytes_max } else { limits.unbound_bytes_max }
    }

    /// Whether a protocol is text in WebSockets.
    pub(super) fn is_text(protocol: Protocol) -> bool {
        H::WIRES.iter().any(|wire| wire.protocol == protocol && wire.text_messages)
    }

    /// The layers of a connection. Those of a plain WebSocket connection are two flags.
    pub(super) fn take_layers(&mut self, key: Key) -> Box<Layers> {
        let Some(conn) = self.conns.at_mut(key) else { return Box::default() };
        let dialled = conn.has(Conn::<N, H>::DIALLED);
        let web_socket = conn.has(Conn::<N, H>::WEB_SOCKET);
        let is_text = Self::is_text(conn.protocol);
        conn.extra.as_mut().and_then(|extra| extra.layers.take()).unwrap_or_else(|| {
            let framing = if dialled { WebSocket::client() } else { WebSocket::server() };
            let framing = framing.of_text(is_text);
            Box::new(Layers { web_socket: web_socket.then_some(framing), ..Layers::default() })
        })
    }

    /// Keeps what has to be kept of them.
    pub(super) fn put_layers(&mut self, key: Key, layers: Box<Layers>) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        if layers.web_socket.is_some() {
            conn.flags |= Conn::<N, H>::WEB_SOCKET;
        }
        let framing_idle = layers.web_socket.as_ref().is_none_or(WebSocket::is_idle);
        let keep = layers.tls.is_some() || layers.handshake.is_some() || !framing_idle;
        if keep {
            conn.extra_from(&mut self.pool).layers = Some(layers);
        }
    }

    /// Shows bytes to the machine until it takes no more; keeps the rest.
    pub(super) fn feed(&mut self, key: Key, bytes: &[u8]) {
        if let Some(taken) = self.show(key, bytes) {
            self.keep(key, bytes[taken..].to_vec());
        }
    }

    /// Shows bytes to the machine until it takes no more. Gives how many it took; `None` when the
    /// connection is not here any more.
    fn show(&mut self, key: Key, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        let mut homed = false;
        while at < bytes.len() || bytes.is_empty() {
            let conn = self.conns.at(key)?;
            if conn.has(Conn::<N, H>::HELD) {
                break;
            }
            let may_start_tls = self.may_start_tls(conn);
            let conn = self.conns.at_mut(key)?;
            let link = conn.lend_link(may_start_tls);
            let backlog_max = self.frames.at(conn.protocol).backlog_bytes_max;
            self.outbox.set_backlog(conn.backlog(), backlog_max);
            let mut input = Input::new(&bytes[at..], &link, &self.settings.limits);
            let machine = conn.machine.as_mut();
            let result = machine.map(|it| it.receive(self.now, &mut input, &mut self.outbox));
            let taken = input.taken();
            conn.take_back(link);
            let Some(result) = result else { break };
            at += taken;
            if self.handle.tapping {
                self.tap_input(key, &bytes[at - taken..at], &bytes[at..], result.is_err());
            }
            homed &= taken == 0;
            let spoke = self.outbox.has_words();
            let home = self.outbox.take_home();
            self.carry_out(key, result);
            self.settle();
            if self.starting_until(key).is_some() {
                // The rest is the handshake's.
                self.layered(key, &bytes[at..]);
                return self.conns.at(key).map(|_| bytes.len());
            }
            if let Some(hash) = home {
                let owner = ShardId(hash::home(hash, self.settings.shards));
                if owner != self.settings.shard {
                    self.move_out(key, owner, &bytes[at..]);
                    return None;
                }
                if base::never!(homed, "a machine asks for its home once") {
                    self.end(key, CloseReason::Internal);
                    return None;
                }
                homed = true;
                continue;
            }
            if (taken == 0 && !spoke) || bytes.is_empty() {
                break;
            }
        }
        self.conns.at(key).map(|_| at)
    }

    /// Feeds connections again whose machine has been answered, or that are held no more.
    pub(super) fn feed_again(&mut self) {
        while let Some(key) = self.refeed.pop() {
            let Some(conn) = self.conns.at_mut(key) else { continue };
            conn.flags &= !Conn::<N, H>::REFEED;
            let Some(extra) = conn.extra.as_mut() else { continue };
            let partial = std::mem::take(&mut extra.partial);
            if !partial.is_empty() {
                self.feed_kept(key, partial);
                self.weigh(key);
            }
        }
    }

    /// Stops reading a connection, or goes on with it. The socket tells of what comes only once,
    /// so whatever came meanwhile, its end included, is looked for.
    pub(super) fn hold(&mut self, key: Key, hold: bool) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        if conn.has(Conn::<N, H>::HELD) == hold {
            return;
        }
        conn.flags ^= Conn::<N, H>::HELD;
        if hold {
            return;
        }
        conn.last_ms = self.now.ms_wrapping();
        let now_s = self.now.secs();
        conn.extra.iter_mut().for_each(|extra| extra.piece.since_s = now_s);
        let waits = conn.extra.as_ref().is_some_and(|extra| !extra.partial.is_empty());
        if waits && !conn.has(Conn::<N, H>::REFEED) {
            conn.flags |= Conn::<N, H>::REFEED;
            self.refeed.push(key);
        }
        self.defer(key, true);
    }

    fn keep(&mut self, key: Key, rest: Vec<u8>) {
        let Some(conn) = self.conns.at(key) else { return };
        if rest.is_empty() {
            return self.rest_if_idle(key);
        }
        // A frame that is too large has been refused by its header. This much can only pile up
        // behind a question that the inside has not answered yet, or while the connection is held.
        let most = self.frame_max(conn).max(self.settings.limits.frame_bytes_max as usize);
        if rest.len() > most + READ_BYTES {
            return self.end(key, CloseReason::TooLarge);
        }
        let Some(conn) = self.conns.at_mut(key) else { return };
        conn.extra_from(&mut self.pool).partial = rest;
    }
}

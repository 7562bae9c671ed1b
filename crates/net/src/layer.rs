//! Layers that may stand between the socket and the protocol: PROXY header, TLS, WebSocket.
//!
//! While a connection opens, [`Handshake`] peels the layers off one after the other, telling by the
//! first bytes what comes next. Afterwards a plain connection has no layer state at all; one with
//! TLS keeps its session; WebSocket keeps two flags of the connection record and nothing else
//! between messages.

mod aside;
mod binding;
mod certificates;
pub mod expiry;
pub mod files;
pub mod handing;
pub mod identity;
mod opening;
pub mod proxy;
mod setup;
pub mod sniff;
pub mod tls;
pub mod websocket;

use crate::detail::Detail;
use crate::layer::handing::StreamTaker;
use base::time::Instant;
use model::close::CloseReason;
use model::link::{Link, Protocol, WireProfile};
pub use setup::{BACKLOG, ClientLayers, ListenEndpoint, ListenerSetup};
use std::net::SocketAddr;
use std::sync::Arc;
use tls::TlsSession;
use websocket::WebSocket;

/// The layers of one connection.
#[derive(Default)]
pub struct Layers {
    /// The TLS session.
    pub tls: Option<Box<TlsSession>>,
    /// WebSocket framing.
    pub web_socket: Option<WebSocket>,
    /// Present until the protocol can begin.
    pub handshake: Option<Box<Handshake>>,
    /// The status with which the peer refused our upgrade.
    pub refused: Option<u16>,
}

/// Progress of a connection's handshake.
pub struct Handshake {
    stage: Stage,
    /// Bytes of the current stage that are not whole yet.
    pending: Vec<u8>,
    /// Facts known so far.
    pub link: Link,
    /// Whether somebody wants to look at the address in a PROXY header before anything goes on.
    look: HeaderLook,
    /// The listener, or the call's layers.
    side: Side,
}

/// A look at the address of a PROXY header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HeaderLook {
    /// The address is not looked at.
    Unwanted,
    /// The opening stops behind the header.
    Wanted,
    /// The opening has stopped behind the header.
    Due,
}

#[derive(Clone)]
enum Side {
    Accepted(Arc<ListenerSetup>, &'static [WireProfile]),
    Dialled(ClientLayers),
    /// TLS that a machine has ordered.
    Started(Started),
}

/// TLS that begins on a connection whose machine is there.
#[derive(Clone)]
struct Started {
    /// Its protocol asks TLS.
    asks: bool,
    /// When the handshake must be over.
    until: Instant,
    /// A byte of the handshake has come.
    has_heard: bool,
    /// Bytes that the machine has sent meanwhile.
    waiting: Vec<u8>,
}

impl Started {
    /// Bytes of the handshake. Before its first one stands the white space that some clients write
    /// behind the element that asked for TLS; anything else belongs to the handshake, which fails
    /// by it.
    fn of_handshake<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let space =
            if self.has_heard { 0 } else { bytes.iter().take_while(|it| is_space(it)).count() };
        self.has_heard |= space < bytes.len();
        &bytes[space..]
    }
}

/// Bytes that a machine may say while the TLS begins that it ordered.
const WAITING_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Proxy,
    First,
    Handshake,
    Inner,
    Upgrade,
    /// The file at this path was given: whatever else it says is passed over until it closes.
    Answered(&'static str),
    /// The peer asked for a path that a service beside the shards answers: the connection leaves
    /// for that service, by its number in the listener's list.
    Leaves(u8),
    /// In a WebSocket whose subprotocol does not say what is inside.
    Wrapped,
    Open,
}

impl Layers {
    /// For a connection that came through `door` to one who serves these protocols.
    pub fn accepted(
        door: Arc<ListenerSetup>,
        wires: &'static [WireProfile],
        peer: SocketAddr,
        crowded: bool,
    ) -> Layers {
        let stage = if door.proxy { Stage::Proxy } else { Stage::First };
        // A proxy on this machine speaks for strangers.
        let near = peer.ip().to_canonical().is_loopback() && !door.proxy;
        let protocol = door.protocol.unwrap_or(Protocol::Tls); // until it is known
        let link = Link { peer, near, crowded, ..Link::loopback(protocol) };
        let side = Side::Accepted(door, wires);
        let look = HeaderLook::Unwanted;
        let handshake = Handshake { stage, pending: Vec::new(), link, look, side };
        Layers { handshake: Some(Box::new(handshake)), ..Layers::default() }
    }

    /// Has the opening stop behind a PROXY header, so that its address can be looked at.
    pub(crate) fn stop_behind_header(&mut self) {
        if let Some(handshake) = self.handshake.as_mut().filter(|it| it.stage == Stage::Proxy) {
            handshake.look = HeaderLook::Wanted;
        }
    }

    /// The address in a PROXY header, if the opening stopped for somebody to look at it: it goes on
    /// with the next [`receive`](Self::receive).
    pub(crate) fn take_header_peer(&mut self) -> Option<SocketAddr> {
        let handshake = self.handshake.as_mut().filter(|it| it.look == HeaderLook::Due)?;
        handshake.look = HeaderLook::Unwanted;
        Some(handshake.link.peer)
    }

    /// For a call that came through. The client's first bytes are put into `outer`.
    pub fn dialled(
        layers: ClientLayers,
        peer: SocketAddr,
        outer: &mut Vec<u8>,
    ) -> Result<Layers, CloseReason> {
        let link = Link { peer, ..Link::loopback(layers.protocol) };
        let at_once = layers.tls.as_ref().filter(|_| !layers.start_tls);
        let stage = if at_once.is_some() { Stage::Handshake } else { Stage::Inner };
        let mut tls = None;
        if let Some(client) = at_once {
            let mut session = Box::new(TlsSession::client(client)?);
            session.receive(&[], &mut Vec::new(), outer)?;
            tls = Some(session);
        }
        let side = Side::Dialled(layers);
        let handshake =
            Handshake { stage, pending: Vec::new(), link, look: HeaderLook::Unwanted, side };
        let mut this = Layers { tls, handshake: Some(Box::new(handshake)), ..Layers::default() };
        if stage == Stage::Inner {
            this.advance(outer)?;
        }
        Ok(this)
    }

    /// For TLS that a machine has ordered, with what is known of its connection and whether its
    /// protocol asks TLS. A client's first bytes are put into `outer`.
    pub fn started(
        mut session: TlsSession,
        link: Link,
        asks: bool,
        until: Instant,
        outer: &mut Vec<u8>,
    ) -> Result<Layers, CloseReason> {
        session.receive(&[], &mut Vec::new(), outer)?;
        let side = Side::Started(Started { asks, until, has_heard: false, waiting: Vec::new() });
        let handshake = Handshake {
            stage: Stage::Handshake,
            pending: Vec::new(),
            link,
            look: HeaderLook::Unwanted,
            side,
        };
        let (tls, handshake) = (Some(Box::new(session)), Some(Box::new(handshake)));
        Ok(Layers { tls, handshake, ..Layers::default() })
    }

    /// When the handshake must be over that a machine has ordered, if one is under way.
    pub fn starting_until(&self) -> Option<Instant> {
        match self.handshake.as_ref().map(|handshake| &handshake.side) {
            Some(Side::Started(started)) => Some(started.until),
            _ => None,
        }
    }

    /// Takes bytes off the socket. Bytes for the protocol are appended to `inner`, answers of the
    /// layers to `outer`. Returns whether the protocol may begin or go on; its bytes may already
    /// be in `inner`.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        inner: &mut Vec<u8>,
        outer: &mut Vec<u8>,
    ) -> Result<Flow, CloseReason> {
        let Some(handshake) = &mut self.handshake else {
            return self.unwrap(bytes, inner, outer);
        };
        let bytes = match &mut handshake.side {
            Side::Started(started) => started.of_handshake(bytes),
            _ => bytes,
        };
        match handshake.stage {
            Stage::Proxy | Stage::First => handshake.pending.extend_from_slice(bytes),
            _ => {
                let mut plain = std::mem::take(&mut handshake.pending);
                match &mut self.tls {
                    Some(tls) => tls.receive(bytes, &mut plain, outer)?.ok_open()?,
                    None => plain.extend_from_slice(bytes),
                }
                handshake.pending = plain;
            }
        }
        self.advance(outer)?;
        let Some(handshake) = &mut self.handshake else { return Ok(Flow::Open) };
        let mut flow = match handshake.stage {
            Stage::Open | Stage::Wrapped => Flow::Open,
            _ => return Ok(Flow::Opening),
        };
        let rest = std::mem::take(&mut handshake.pending);
        match &mut self.web_socket {
            Some(web_socket) => {
                let mut answers = Vec::new();
                flow = web_socket.unwrap(&rest, inner, &mut answers)?;
                self.encrypt(&answers, outer)?;
            }
            None => inner.extend_from_slice(&rest),
        }
        self.wrapped(inner, flow)
    }

    /// The first bytes in a WebSocket say what they are, when its subprotocol did not.
    fn wrapped(&mut self, inner: &[u8], flow: Flow) -> Result<Flow, CloseReason> {
        let Some(handshake) = self.handshake.as_mut().filter(|o| o.stage == Stage::Wrapped) else {
            return Ok(flow);
        };
        let Side::Accepted(door, wires) = &handshake.side else { return Ok(flow) };
        if inner.is_empty() {
            return Ok(if flow == Flow::Ended { flow } else { Flow::Opening });
        }
        let found = sniff::protocol(wires, door.protocol, inner)?;
        match wires.iter().find(|wire| Some(wire.protocol) == found) {
            Some(wire) if door.carries(wire) => {
                handshake.link.protocol = wire.protocol;
                handshake.stage = Stage::Open;
                Ok(flow)
            }
            _ => Err(CloseReason::ProtocolNotServed),
        }
    }

    /// Wraps what a machine wants to send (`plain`, whole messages) and appends it to `outer`.
    pub fn wrap(&mut self, plain: &[u8], outer: &mut Vec<u8>) -> Result<(), CloseReason> {
        if let Some(Side::Started(started)) = self.handshake.as_mut().map(|it| &mut it.side) {
            let much = started.waiting.len() + plain.len() > WAITING_BYTES_MAX;
            started.waiting.extend_from_slice(if much { &[] } else { plain });
            return if much { Err(CloseReason::SlowConsumer) } else { Ok(()) };
        }
        match (&mut self.web_socket, &mut self.tls) {
            (None, None) => outer.extend_from_slice(plain),
            (Some(web_socket), None) => web_socket.wrap(plain, outer),
            (None, Some(tls)) => tls.send(plain, outer)?,
            (Some(web_socket), Some(tls)) => {
                let mut framed = Vec::with_capacity(plain.len() + 14);
                web_socket.wrap(plain, &mut framed);
                tls.send(&framed, outer)?;
            }
        }
        Ok(())
    }

    /// Incomplete input that the layers hold: its bytes, and the memory allocated for it, in bytes.
    pub fn pieces(&self) -> (usize, usize) {
        let waiting = self.handshake.as_ref().and_then(|handshake| handshake.waiting());
        let handshake = self.handshake.as_ref().map(|handshake| &handshake.pending);
        let tls = self.tls.as_ref().map(|tls| tls.piece());
        let framing = self.web_socket.as_ref().map(WebSocket::piece);
        let each = [handshake, waiting, tls, framing].into_iter().flatten();
        each.fold((0, 0), |(length, room), piece| (length + piece.len(), room + piece.capacity()))
    }

    /// Whether a ping of WebSocket has not been answered.
    pub fn owes_pong(&self) -> bool {
        self.web_socket.as_ref().is_some_and(WebSocket::owes_pong)
    }

    /// Appends to `outer` the pong that is owed, if one is. The writer waits with it until it has
    /// nothing else to write: so a peer that does not read is owed one, however many it asks for.
    pub fn pong(&mut self, outer: &mut Vec<u8>) -> Result<(), CloseReason> {
        let mut plain = Vec::new();
        self.web_socket.iter_mut().for_each(|framing| framing.pong(&mut plain));
        self.encrypt(&plain, outer)
    }

    /// Appends the layers' farewells to `outer`, for this reason.
    pub fn farewell(&mut self, reason: CloseReason, outer: &mut Vec<u8>) {
        let mut plain = Vec::new();
        if let Some(web_socket) = &mut self.web_socket {
            web_socket.farewell(reason, &mut plain);
        }
        // A session that is not open has no farewell: the close itself has to do.
        if self.encrypt(&plain, outer).is_ok()
            && let Some(tls) = &mut self.tls
        {
            tls.farewell(outer);
        }
    }

    /// Whether a handshake of TLS is under way: its next step costs a good part of a millisecond.
    pub fn handshaking(&self) -> bool {
        self.handshake.as_ref().is_some_and(|handshake| match (handshake.stage, &handshake.side) {
            (Stage::Handshake, _) => true,
            (Stage::First, Side::Accepted(door, _)) => door.tls.is_some(),
            _ => false,
        })
    }

    /// Whether the peer has said anything yet, or TLS has begun.
    pub fn has_begun(&self) -> bool {
        self.tls.is_some()
            || self.handshake.as_ref().is_some_and(|handshake| {
                !handshake.pending.is_empty()
                    || matches!(
                        handshake.stage,
                        Stage::Upgrade | Stage::Answered(_) | Stage::Leaves(_) | Stage::Wrapped
                    )
            })
    }

    /// Details of the last failure.
    pub fn detail(&self) -> Detail {
        match (&self.tls, self.refused) {
            (_, Some(status)) => Detail::Upgrade(status),
            (Some(tls), None) => tls.detail(),
            (None, None) => Detail::Nothing,
        }
    }

    /// Whether an end that comes now is inside of something of theirs.
    pub fn is_truncated(&self) -> bool {
        let framing = self.web_socket.as_ref().is_some_and(WebSocket::is_inside);
        let head = self.handshake.as_ref().is_some_and(|handshake| !handshake.pending.is_empty());
        framing || head || self.tls.as_ref().is_some_and(|tls| tls.is_truncated())
    }

    /// The service that takes over the connection, if it leaves.
    pub(crate) fn leaves_for(&self) -> Option<Arc<dyn StreamTaker>> {
        let handshake = self.handshake.as_ref()?;
        match (&handshake.side, handshake.stage) {
            (Side::Accepted(door, _), Stage::Leaves(to)) => {
                door.handed.get(usize::from(to)).map(|handed| handed.taker.clone())
            }
            _ => None,
        }
    }

    /// Facts about the connection while it opens.
    pub(crate) fn opening_link(&self) -> Option<&Link> {
        self.handshake.as_ref().map(|handshake| &handshake.link)
    }

    /// The path of the file that the peer was given, if that was its request.
    pub(crate) fn given_file(&self) -> Option<&'static str> {
        match self.handshake.as_ref()?.stage {
            Stage::Answered(path) => Some(path),
            _ => None,
        }
    }

    /// Whether the peer has sent a request of HTTP, and no WebSocket came of it.
    pub(crate) fn speaks_http(&self) -> bool {
        let stage = self.handshake.as_ref().map(|handshake| handshake.stage);
        matches!(stage, Some(Stage::Upgrade | Stage::Answered(_)))
    }

    /// Takes the parts of a connection that leaves its shard: the bytes received and not handled,
    /// the peer's address, and its TLS.
    pub(crate) fn leave(self) -> Option<(Vec<u8>, SocketAddr, Option<Box<TlsSession>>)> {
        let Handshake { pending, link, .. } = *self.handshake?;
        Some((pending, link.peer, self.tls))
    }

    /// Takes the facts about the connection, once, while it opens. TLS keeps of its facts those for
    /// which the protocol asks.
    pub fn take_link(&mut self) -> Option<Link> {
        let Handshake { mut link, side, .. } = *self.handshake.take()?;
        let asks = match &side {
            Side::Accepted(_, wires) => {
                let served = wires.iter().find(|wire| wire.protocol == link.protocol);
                served.is_some_and(|wire| wire.asks_tls)
            }
            Side::Dialled(layers) => layers.tls.as_ref().is_some_and(|tls| tls.asks()),
            Side::Started(started) => started.asks,
        };
        if let Some(tls) = self.tls.as_mut().filter(|_| !asks) {
            link.tls.iter_mut().for_each(|facts| {
                (facts.certificate, facts.bindings) = (None, None);
            });
            tls.forget_names();
        }
        Some(link)
    }

    /// Appends to `outer` what the machine said while the TLS began that it ordered, once it
    /// stands.
    pub fn catch_up(&mut self, outer: &mut Vec<u8>) -> Result<(), CloseReason> {
        match self.handshake.as_mut().map(|handshake| &mut handshake.side) {
            Some(Side::Started(started)) => {
                let waiting = std::mem::take(&mut started.waiting);
                self.encrypt(&waiting, outer)
            }
            _ => Ok(()),
        }
    }

    fn unwrap(
        &mut self,
        bytes: &[u8],
        inner: &mut Vec<u8>,
        outer: &mut Vec<u8>,
    ) -> Result<Flow, CloseReason> {
        match (&mut self.tls, &mut self.web_socket) {
            (Some(tls), None) => tls.receive(bytes, inner, outer),
            (None, Some(web_socket)) => web_socket.unwrap(bytes, inner, outer),
            (None, None) => {
                inner.extend_from_slice(bytes);
                Ok(Flow::Open)
            }
            (Some(tls), Some(web_socket)) => {
                let (mut plain, mut answers) = (Vec::new(), Vec::new());
                let lower = tls.receive(bytes, &mut plain, outer)?;
                let upper = web_socket.unwrap(&plain, inner, &mut answers)?;
                self.encrypt(&answers, outer)?;
                Ok(if lower == Flow::Ended { lower } else { upper })
            }
        }
    }

    fn encrypt(&mut self, plain: &[u8], outer: &mut Vec<u8>) -> Result<(), CloseReason> {
        if plain.is_empty() {
            return Ok(());
        }
        match &mut self.tls {
            Some(tls) => tls.send(plain, outer),
            None => {
                outer.extend_from_slice(plain);
                Ok(())
            }
        }
    }
}

impl Handshake {
    /// Bytes that a machine has sent while its TLS begins.
    fn waiting(&self) -> Option<&Vec<u8>> {
        match &self.side {
            Side::Started(started) => Some(&started.waiting),
            _ => None,
        }
    }
}

/// State of the bytes after a layer has seen them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// The protocol cannot begin yet.
    Opening,
    /// The protocol can begin, or go on.
    Open,
    /// The peer said farewell in the layer's words: nothing follows.
    Ended,
}

impl Flow {
    /// During the handshake a farewell is the end.
    fn ok_open(self) -> Result<(), CloseReason> {
        if self == Flow::Ended { Err(CloseReason::PeerClosed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;

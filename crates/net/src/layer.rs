//! Layers that may stand between the socket and the protocol: PROXY header, TLS, WebSocket.
//!
//! While a connection opens, [`Handshake`] peels the layers off one after the other, telling by the
//! first bytes what comes next. Afterwards a plain connection has no layer state at all; one with
//! TLS keeps its session; WebSocket keeps two flags of the connection record and nothing else
//! between messages.

mod certificates;
pub mod identity;
pub mod proxy;
pub mod sniff;
pub mod tls;
pub mod websocket;

use crate::detail::Detail;
use crate::network::IpNetwork;
use crate::shard::Census;
use model::close::CloseReason;
use model::link::{Link, Protocol, WireProfile};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tls::{ClientTls, TlsServer, TlsSession};
use websocket::{UpgradeTarget, WebSocket};

/// Connections that may wait to be accepted, unless another number is chosen.
pub const BACKLOG: i32 = 65_535;

/// A listener: where it listens and what it takes.
#[derive(Clone)]
pub struct ListenerSetup {
    /// Its name in the configuration.
    pub name: String,
    /// Its address.
    pub address: ListenEndpoint,
    /// `None`: told apart by the first bytes. `Http`: whatever comes in a WebSocket.
    pub protocol: Option<Protocol>,
    /// With it, what protocol there is may (or, when one is named, must) come in TLS.
    pub tls: Option<Arc<TlsServer>>,
    /// Nothing comes but in TLS, whatever `protocol` says.
    pub tls_only: bool,
    /// The paths of WebSocket upgrades, `*` for any; none: HTTP is not served. What is inside is
    /// what `protocol` says, or is told by the subprotocol, else by its first bytes.
    pub paths: Vec<String>,
    /// Origins that a browser's upgrade may come from, besides those of the host that it asks for;
    /// `*`: any.
    pub origins: Vec<String>,
    /// Every connection begins with a PROXY header, version 1 or 2.
    pub proxy: bool,
    /// Who may send one. At a socket file, whoever may open it.
    pub proxies: Vec<IpNetwork>,
    /// Connections that may wait to be accepted; the kernel clips it to `net.core.somaxconn`.
    pub backlog: i32,
    /// Connections through it at once; 0: as many as the process holds.
    pub connections_max: u32,
    /// Connections through it now, on all shards.
    pub open: Arc<Census>,
}

impl ListenerSetup {
    /// One without layers that tells protocols apart.
    pub fn plain(name: &str, address: ListenEndpoint) -> ListenerSetup {
        ListenerSetup {
            name: name.to_owned(),
            address,
            protocol: None,
            tls: None,
            tls_only: false,
            paths: Vec::new(),
            origins: Vec::new(),
            proxy: false,
            proxies: Vec::new(),
            backlog: BACKLOG,
            connections_max: 0,
            open: Arc::default(),
        }
    }

    /// Whether a PROXY header from there is believed.
    fn believes(&self, peer: SocketAddr) -> bool {
        let is_file = matches!(self.address, ListenEndpoint::Unix(..));
        is_file || self.proxies.iter().any(|network| network.contains(peer.ip()))
    }

    /// Whether this protocol is served inside of WebSockets.
    fn carries(&self, wire: &WireProfile) -> bool {
        match self.protocol {
            None | Some(Protocol::Http) => !wire.subprotocols.is_empty(),
            Some(only) => only == wire.protocol,
        }
    }

    /// Whether a connection may begin with this protocol, below a WebSocket if there is one.
    fn takes(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Tls => false,
            Protocol::Http => !self.paths.is_empty(),
            other => self.protocol.is_none_or(|only| only == other),
        }
    }
}

/// Endpoint that a listener listens on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenEndpoint {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket file, and its permissions.
    Unix(PathBuf, u32),
}

impl fmt::Display for ListenEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenEndpoint::Tcp(address) => write!(f, "{address}"),
            ListenEndpoint::Unix(path, _) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Layers that a call wraps around its protocol.
#[derive(Clone)]
pub struct ClientLayers {
    /// TLS.
    pub tls: Option<Arc<ClientTls>>,
    /// WebSocket: the upgrade.
    pub web_socket: Option<Arc<UpgradeTarget>>,
    /// What is inside.
    pub protocol: Protocol,
}

impl ClientLayers {
    /// Whether there is nothing around the protocol.
    pub fn is_plain(&self) -> bool {
        self.tls.is_none() && self.web_socket.is_none()
    }
}

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
    /// What is known so far.
    pub link: Link,
    /// The listener, or the call's layers.
    side: Side,
}

#[derive(Clone)]
enum Side {
    Accepted(Arc<ListenerSetup>, &'static [WireProfile]),
    Dialled(ClientLayers),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Proxy,
    First,
    Handshake,
    Inner,
    Upgrade,
    /// In a WebSocket whose subprotocol does not say what is inside.
    Wrapped,
    Open,
}

/// Longest request head of an upgrade, bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;

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
        let handshake = Handshake { stage, pending: Vec::new(), link, side };
        Layers { handshake: Some(Box::new(handshake)), ..Layers::default() }
    }

    /// For a call that came through. What the client says first is put into `outer`.
    pub fn dialled(
        layers: ClientLayers,
        peer: SocketAddr,
        outer: &mut Vec<u8>,
    ) -> Result<Layers, CloseReason> {
        let link = Link { peer, ..Link::loopback(layers.protocol) };
        let stage = if layers.tls.is_some() { Stage::Handshake } else { Stage::Inner };
        let mut tls = None;
        if let Some(client) = &layers.tls {
            let mut session = Box::new(TlsSession::client(client)?);
            session.receive(&[], &mut Vec::new(), outer)?;
            tls = Some(session);
        }
        let side = Side::Dialled(layers);
        let handshake = Handshake { stage, pending: Vec::new(), link, side };
        let mut this = Layers { tls, handshake: Some(Box::new(handshake)), ..Layers::default() };
        if stage == Stage::Inner {
            this.advance(outer)?;
        }
        Ok(this)
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

    /// What waits here because it is not whole: bytes, and those that they take in memory.
    pub fn pieces(&self) -> (usize, usize) {
        let handshake = self.handshake.as_ref().map(|handshake| &handshake.pending);
        let tls = self.tls.as_ref().map(|tls| tls.piece());
        let framing = self.web_socket.as_ref().map(WebSocket::piece);
        let each = [handshake, tls, framing].into_iter().flatten();
        each.fold((0, 0), |(length, room), piece| (length + piece.len(), room + piece.capacity()))
    }

    /// Whether a ping of WebSocket has not been answered.
    pub fn owes_pong(&self) -> bool {
        self.web_socket.as_ref().is_some_and(WebSocket::owes_pong)
    }

    /// Appends to `outer` the pong that is owed, if one is. Whoever writes waits with it until
    /// nothing else does: so a peer who does not read is owed one, however many it asks for.
    pub fn pong(&mut self, outer: &mut Vec<u8>) -> Result<(), CloseReason> {
        let mut plain = Vec::new();
        self.web_socket.iter_mut().for_each(|framing| framing.pong(&mut plain));
        self.encrypt(&plain, outer)
    }

    /// Appends the layers' farewells to `outer`.
    pub fn farewell(&mut self, outer: &mut Vec<u8>) {
        let mut plain = Vec::new();
        if let Some(web_socket) = &mut self.web_socket {
            web_socket.farewell(&mut plain);
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
                    || matches!(handshake.stage, Stage::Upgrade | Stage::Wrapped)
            })
    }

    /// What more is known of what failed last.
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

    /// What is known of the connection, while it opens.
    pub fn take_link(&mut self) -> Option<Link> {
        self.handshake.take().map(|handshake| handshake.link)
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

    /// Goes through the stages as far as the pending bytes allow.
    fn advance(&mut self, outer: &mut Vec<u8>) -> Result<(), CloseReason> {
        while let Some(handshake) = &mut self.handshake {
            let next = match handshake.stage {
                Stage::Proxy => handshake.proxy()?,
                Stage::First => self.first(outer)?,
                Stage::Handshake => self.handshake(),
                Stage::Inner => self.inner(outer)?,
                Stage::Upgrade => self.upgrade(outer)?,
                Stage::Wrapped | Stage::Open => None,
            };
            let Some(next) = next else { break };
            self.handshake.as_mut().expect("a stage does not end the opening").stage = next;
        }
        Ok(())
    }

    fn first(&mut self, outer: &mut Vec<u8>) -> Result<Option<Stage>, CloseReason> {
        let handshake = self.handshake.as_mut().expect("the opening is under way");
        let Side::Accepted(door, wires) = &handshake.side else { return Ok(Some(Stage::Inner)) };
        let found = sniff::protocol(wires, door.protocol, &handshake.pending)?;
        let Some(protocol) = found else { return Ok(None) };
        match (protocol, &door.tls) {
            (Protocol::Tls, Some(server)) => {
                let mut session = Box::new(TlsSession::server(server)?);
                let bytes = std::mem::take(&mut handshake.pending);
                session.receive(&bytes, &mut handshake.pending, outer)?;
                self.tls = Some(session);
                Ok(Some(Stage::Handshake))
            }
            (Protocol::Tls, None) => Err(CloseReason::ProtocolNotServed),
            _ if door.tls_only => Err(CloseReason::TlsFailed),
            _ => Ok(Some(Stage::Inner)),
        }
    }

    fn handshake(&mut self) -> Option<Stage> {
        let handshake = self.handshake.as_mut().expect("the opening is under way");
        let tls = self.tls.as_mut().expect("a handshake has a session");
        if tls.handshaking() {
            return None;
        }
        handshake.link.tls = Some(tls.facts());
        Some(Stage::Inner)
    }

    fn inner(&mut self, outer: &mut Vec<u8>) -> Result<Option<Stage>, CloseReason> {
        let handshake = self.handshake.as_mut().expect("the opening is under way");
        let (door, wires) = match &handshake.side {
            Side::Accepted(door, wires) => (door, wires),
            Side::Dialled(ClientLayers { web_socket: None, .. }) => return Ok(Some(Stage::Open)),
            Side::Dialled(ClientLayers { web_socket: Some(target), .. }) => {
                let request = target.request();
                self.encrypt(request.as_bytes(), outer)?;
                return Ok(Some(Stage::Upgrade));
            }
        };
        let found = sniff::protocol(wires, door.protocol, &handshake.pending)?;
        let Some(found) = found else { return Ok(None) };
        if !door.takes(found) {
            return Err(CloseReason::ProtocolNotServed);
        }
        if found == Protocol::Http {
            return Ok(Some(Stage::Upgrade));
        }
        handshake.link.protocol = found;
        Ok(Some(Stage::Open))
    }

    fn upgrade(&mut self, outer: &mut Vec<u8>) -> Result<Option<Stage>, CloseReason> {
        let handshake = self.handshake.as_mut().expect("the opening is under way");
        let said;
        let (head, answer, web_socket) = match &handshake.side {
            Side::Accepted(door, wires) => {
                let served = wires.iter().filter(|wire| door.carries(wire));
                let offer = websocket::UpgradeOffer {
                    paths: &door.paths,
                    origins: &door.origins,
                    wires: &served.collect::<Vec<_>>(),
                };
                match websocket::answer(&handshake.pending, &offer) {
                    websocket::Upgrade::More if handshake.pending.len() > HEAD_BYTES_MAX => {
                        return Err(CloseReason::WebSocketFailed);
                    }
                    websocket::Upgrade::More => return Ok(None),
                    websocket::Upgrade::Refuse(answer) => {
                        // The answer is sent with what `receive` was given, then it ends.
                        self.encrypt(answer.as_bytes(), outer)?;
                        return Err(CloseReason::WebSocketFailed);
                    }
                    websocket::Upgrade::Foreign(answer) => {
                        self.encrypt(answer.as_bytes(), outer)?;
                        return Err(CloseReason::OriginRefused);
                    }
                    websocket::Upgrade::Accept { head, answer, protocol, renamed } => {
                        handshake.link.near &= !renamed;
                        said = protocol;
                        (head, answer, WebSocket::server())
                    }
                }
            }
            Side::Dialled(layers) => {
                said = Some(layers.protocol);
                let target = layers.web_socket.as_ref().expect("an upgrade was asked for");
                let answer = target.accepted(&handshake.pending);
                let head = answer.map_err(|status| {
                    self.refused = Some(status);
                    CloseReason::WebSocketFailed
                })?;
                match head {
                    None if handshake.pending.len() > HEAD_BYTES_MAX => {
                        return Err(CloseReason::WebSocketFailed);
                    }
                    None => return Ok(None),
                    Some(head) => (head, String::new(), WebSocket::client_of(target)),
                }
            }
        };
        handshake.pending.drain(..head);
        handshake.link.web_socket = true;
        handshake.link.protocol = said.unwrap_or(handshake.link.protocol);
        self.web_socket = Some(web_socket);
        self.encrypt(answer.as_bytes(), outer)?;
        Ok(Some(if said.is_some() { Stage::Open } else { Stage::Wrapped }))
    }
}

impl Handshake {
    fn proxy(&mut self) -> Result<Option<Stage>, CloseReason> {
        if matches!(&self.side, Side::Accepted(door, _) if !door.believes(self.link.peer)) {
            return Err(CloseReason::ProxyRefused);
        }
        match proxy::parse(&self.pending) {
            proxy::ProxyPrefix::More => Ok(None),
            proxy::ProxyPrefix::Bad => Err(CloseReason::ProxyHeaderFailed),
            proxy::ProxyPrefix::Whole { length, peer } => {
                self.pending.drain(..length);
                self.link.peer = peer.unwrap_or(self.link.peer);
                Ok(Some(Stage::First))
            }
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

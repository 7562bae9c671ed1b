//! Opening: the stages that a connection goes through until its protocol can begin.
//!
//! PROXY header, first bytes, TLS, WebSocket, each as far as the bytes allow that have come. TLS
//! that a machine has ordered has one stage, its handshake.

use super::{Handshake, HeaderLook, Layers, Side, Stage, handing, proxy, sniff, websocket};
use crate::layer::handing::HandedPaths;
use crate::layer::setup::ClientLayers;
use crate::layer::tls::TlsSession;
use crate::layer::websocket::WebSocket;
use model::close::CloseReason;
use model::link::Protocol;

/// Longest request head of an upgrade, bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;

impl Layers {
    /// Goes through the stages as far as the pending bytes allow.
    pub(super) fn advance(&mut self, outer: &mut Vec<u8>) -> Result<(), CloseReason> {
        while let Some(handshake) = &mut self.handshake {
            let next = match handshake.stage {
                Stage::Proxy => handshake.proxy()?,
                Stage::First => self.first(outer)?,
                Stage::Handshake => self.handshake(),
                Stage::Inner => self.inner(outer)?,
                Stage::Upgrade => self.upgrade(outer)?,
                Stage::Answered(_) => {
                    handshake.pending = Vec::new();
                    None
                }
                Stage::Leaves(_) | Stage::Wrapped | Stage::Open => None,
            };
            let Some(next) = next else { break };
            let handshake = self.handshake.as_mut().expect("a stage does not end the opening");
            handshake.stage = next;
            if handshake.look == HeaderLook::Wanted && next == Stage::First {
                handshake.look = HeaderLook::Due;
                break;
            }
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
                let received = session.receive(&bytes, &mut handshake.pending, outer);
                // It is kept all the same: it knows why it failed.
                self.tls = Some(session);
                received.map(|_| Some(Stage::Handshake))
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
        handshake.link.tls = Some(tls.facts().clone());
        Some(Stage::Inner)
    }

    fn inner(&mut self, outer: &mut Vec<u8>) -> Result<Option<Stage>, CloseReason> {
        let handshake = self.handshake.as_mut().expect("the opening is under way");
        let (door, wires) = match &handshake.side {
            Side::Accepted(door, wires) => (door, wires),
            Side::Dialled(ClientLayers { web_socket: None, .. }) | Side::Started(_) => {
                return Ok(Some(Stage::Open));
            }
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

    /// Answers why there is no upgrade, and ends.
    fn refused(
        &mut self,
        answer: &str,
        why: CloseReason,
        outer: &mut Vec<u8>,
    ) -> Result<Option<Stage>, CloseReason> {
        self.encrypt(answer.as_bytes(), outer)?;
        Err(why)
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
                    files: &door.files,
                    handed: &door.handed,
                };
                match websocket::answer(&handshake.pending, &offer) {
                    websocket::Upgrade::More if handshake.pending.len() > HEAD_BYTES_MAX => {
                        return Err(CloseReason::WebSocketFailed);
                    }
                    websocket::Upgrade::More => return Ok(None),
                    // The answer is sent with what `receive` was given, then it ends.
                    websocket::Upgrade::Refuse(answer) => {
                        return self.refused(&answer, CloseReason::WebSocketFailed, outer);
                    }
                    websocket::Upgrade::Foreign(answer) => {
                        return self.refused(&answer, CloseReason::OriginRefused, outer);
                    }
                    websocket::Upgrade::File(path, answer) => {
                        self.encrypt(&answer, outer)?;
                        return Ok(Some(Stage::Answered(path)));
                    }
                    websocket::Upgrade::Handed(to) if handshake.may_leave(to) => {
                        return Ok(Some(Stage::Leaves(to)));
                    }
                    websocket::Upgrade::Handed(_) => {
                        return self.refused(handing::NO_ROOM, CloseReason::Busy, outer);
                    }
                    websocket::Upgrade::Accept { head, answer, protocol, renamed } => {
                        handshake.link.near &= !renamed;
                        said = protocol;
                        (head, answer, WebSocket::server())
                    }
                }
            }
            Side::Started(_) => return Ok(None),
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
        self.web_socket = Some(web_socket.of_text(handshake.is_of_text(said)));
        self.encrypt(answer.as_bytes(), outer)?;
        Ok(Some(if said.is_some() { Stage::Open } else { Stage::Wrapped }))
    }
}

impl Handshake {
    /// Whether what is spoken goes in text messages.
    fn is_of_text(&self, said: Option<Protocol>) -> bool {
        let Side::Accepted(_, wires) = &self.side else { return false };
        wires.iter().any(|wire| Some(wire.protocol) == said && wire.text_messages)
    }

    /// Whether there is room for it with whoever answers what it asks for. A client that was let in
    /// only for the answer BUSY gets it.
    fn may_leave(&self, to: u8) -> bool {
        let Side::Accepted(door, _) = &self.side else { return false };
        let has_room = |handed: &HandedPaths| handed.taker.has_room(self.link.peer);
        !self.link.crowded && door.handed.get(usize::from(to)).is_some_and(has_room)
    }

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

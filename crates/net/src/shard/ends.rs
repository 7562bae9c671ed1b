//! Facts that the logic gets about ended connections.
//!
//! The address and the bytes are asked of the kernel while the socket is still open, so that no
//! connection keeps them.

use super::{Conn, Shard, ShardMessageOf};
use crate::detail::Detail;
use crate::logic::{ConnectionEnd, ShardLogic};
use crate::transport::Net;
use base::slab::Key;
use model::close::CloseReason;
use model::link::Protocol;
use std::net::SocketAddr;
use std::sync::Arc;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// A peer that stopped reading still answers the kernel's probes, until the kernel gives up:
    /// it is a slow consumer, and not one that is gone.
    pub(super) fn cause_of(&self, key: Key, reason: CloseReason) -> CloseReason {
        if reason != CloseReason::TimedOut {
            return reason;
        }
        let Some(conn) = self.conns.at(key) else { return reason };
        let is_stalled = || self.net.tcp(&conn.socket).is_some_and(|tcp| tcp.is_stalled);
        let accepted = !conn.has(Conn::<N, H>::DIALLED);
        if accepted && is_stalled() { CloseReason::SlowConsumer } else { reason }
    }

    /// A connection has ended, and its socket is still open. One that was handed over goes on
    /// elsewhere.
    pub(super) fn remember_end(
        &mut self,
        key: Option<Key>,
        ended: &Conn<N, H>,
        (reason, detail): (CloseReason, Detail),
    ) {
        let is_ours = ended.has(Conn::<N, H>::DIALLED) || reason == CloseReason::HandedOver;
        let layers = ended.extra.as_ref().and_then(|extra| extra.layers.as_ref());
        let file = layers.and_then(|layers| layers.given_file());
        // A browser that has a file and closes was no client that was disconnected.
        let has_file = file.is_some() && reason == CloseReason::PeerClosed;
        if !H::WATCHES || is_ours || has_file {
            return;
        }
        let is_http = layers.is_some_and(|layers| layers.speaks_http());
        let unbound = is_http.then_some(Protocol::Http);
        let end = ConnectionEnd {
            reason,
            detail: match reason {
                CloseReason::TlsFailed => detail.of_tls_failed(),
                _ => file.unwrap_or_default(),
            },
            peer: self.peer_of(ended),
            protocol: ended.machine.as_ref().map(|_| ended.protocol).or(unbound),
            listener: Arc::clone(self.listener(ended.door)),
            tcp: self.net.tcp(&ended.socket),
        };
        let conn = key.map(|key| self.conn_ref(key));
        self.logic.disconnected(self.now, conn, &end);
    }

    /// The address of a connection that ended: behind a proxy, the one in the PROXY header.
    pub(super) fn peer_of(&self, ended: &Conn<N, H>) -> Option<SocketAddr> {
        let layers = ended.extra.as_ref().and_then(|extra| extra.layers.as_ref());
        let link = layers.and_then(|layers| layers.opening_link());
        link.map(|link| link.peer).or_else(|| self.net.peer(&ended.socket))
    }

    /// The name of a listener.
    pub(super) fn listener(&self, door: u8) -> &Arc<str> {
        &self.settings.doors[usize::from(door)].name
    }

    /// A connection was refused without an answer.
    pub(super) fn remember_reject(&mut self, door: u8, peer: SocketAddr) {
        if !H::WATCHES {
            return;
        }
        let end = ConnectionEnd {
            reason: CloseReason::Full,
            detail: "",
            peer: Some(peer),
            protocol: None,
            listener: Arc::clone(self.listener(door)),
            tcp: None,
        };
        self.logic.disconnected(self.now, None, &end);
    }
}

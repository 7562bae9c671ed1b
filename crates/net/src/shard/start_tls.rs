//! TLS that a machine orders in the middle of a stream (STARTTLS).
//!
//! By then the bytes that the machine sent with its order are queued in plain text. Input that the
//! machine has not taken belongs to the handshake, as all later input does: a client that put plain
//! text behind the request, before TLS began, has put it into a handshake that fails (RFC 7457 2.2,
//! RFC 6120 5.4.3.3); white space alone is passed over. An idle connection that may begin TLS holds
//! nothing for it.

use super::{Conn, Shard, ShardMessageOf};
use crate::layer::Layers;
use crate::layer::tls::TlsSession;
use crate::logic::ShardLogic;
use crate::transport::Net;
use base::slab::Key;
use base::time::Instant;
use model::close::CloseReason;
use model::link::{Link, StartTlsRefusal};
use model::machine::Machine;
use std::time::Duration;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// A machine has ordered TLS: its handshake begins, or the machine hears why not.
    pub(super) fn start_tls(&mut self, key: Key) {
        let session = match self.session_to_start(key) {
            Ok(session) => session,
            Err(why) => {
                return self
                    .drive(key, |machine, now, out| machine.tls_started(now, Err(why), out));
            }
        };
        if let Err(reason) = session.and_then(|session| self.begin_handshake(key, session)) {
            return self.end(key, reason);
        }
        let unread = self.conns.at_mut(key).and_then(|conn| conn.extra.as_mut());
        let unread = unread.map(|extra| std::mem::take(&mut extra.partial)).unwrap_or_default();
        if !unread.is_empty() {
            self.layered(key, &unread);
        }
    }

    /// The session that begins, or why none does.
    fn session_to_start(
        &self,
        key: Key,
    ) -> Result<Result<TlsSession, CloseReason>, StartTlsRefusal> {
        let Some(conn) = self.conns.at(key) else { return Err(StartTlsRefusal::NotConfigured) };
        if conn.has(Conn::<N, H>::WEB_SOCKET) {
            return Err(StartTlsRefusal::InWebSocket);
        }
        if conn.has(Conn::<N, H>::GIVEN) {
            return Err(StartTlsRefusal::NotConfigured);
        }
        if conn.extra.as_ref().is_some_and(|extra| extra.layers.is_some()) {
            return Err(StartTlsRefusal::Stands);
        }
        if !conn.has(Conn::<N, H>::DIALLED) {
            let server = self.settings.doors[usize::from(conn.door)].tls.as_ref();
            return server
                .map(|server| TlsSession::server(server))
                .ok_or(StartTlsRefusal::NotConfigured);
        }
        let call = conn.extra.as_ref().and_then(|extra| extra.call.as_deref());
        let client = call.and_then(|(_, layers)| layers.tls.as_ref());
        client.map(|client| TlsSession::client(client)).ok_or(StartTlsRefusal::NotConfigured)
    }

    fn begin_handshake(&mut self, key: Key, session: TlsSession) -> Result<(), CloseReason> {
        let handshake_ms = u64::from(self.settings.limits.bind_ms_max);
        let until = self.now.after(Duration::from_millis(handshake_ms));
        let Some(conn) = self.conns.at_mut(key) else { return Ok(()) };
        let wire = H::WIRES.iter().find(|wire| wire.protocol == conn.protocol);
        let call = conn.extra.as_ref().and_then(|extra| extra.call.as_deref());
        let asks = match call.and_then(|(_, layers)| layers.tls.as_ref()) {
            Some(client) => client.asks(),
            None => wire.is_some_and(|wire| wire.asks_tls),
        };
        let (link, mut outer) = (conn.lend_link(false), Vec::new());
        let layers = Layers::started(session, link, asks, until, &mut outer)?;
        let extra = conn.extra_from(&mut self.pool);
        (extra.layers, extra.call) = (Some(Box::new(layers)), None);
        self.queue_raw(key, &outer);
        self.wheel.insert(until, key.pack());
        Ok(())
    }

    /// The handshake is over.
    pub(super) fn tls_stands(&mut self, key: Key, link: &Link) {
        self.drive(key, |machine, now, out| machine.tls_started(now, Ok(link), out));
        self.settle();
    }

    /// Whether a machine's TLS is being begun, and until when it may.
    pub(super) fn starting_until(&self, key: Key) -> Option<Instant> {
        let conn = self.conns.at(key).filter(|conn| conn.machine.is_some())?;
        conn.extra.as_ref()?.layers.as_ref()?.starting_until()
    }

    /// Whether the machine of this connection may order TLS now.
    pub(super) fn may_start_tls(&self, conn: &Conn<N, H>) -> bool {
        let layered = conn.extra.as_ref().is_some_and(|extra| extra.layers.is_some());
        if layered || conn.has(Conn::<N, H>::WEB_SOCKET) || conn.has(Conn::<N, H>::GIVEN) {
            return false;
        }
        match conn.has(Conn::<N, H>::DIALLED) {
            true => {
                let call = conn.extra.as_ref().and_then(|extra| extra.call.as_deref());
                call.is_some_and(|(_, layers)| layers.may_start_tls())
            }
            false => self.settings.doors[usize::from(conn.door)].tls.is_some(),
        }
    }
}

#[cfg(test)]
mod tests;

//! Log lines about connections: their lives at `debug`, and refused clients at `warn`, at a bounded
//! rate.
//!
//! A connection keeps nothing for its log lines: its address is asked of the kernel when a line is
//! due. Below `debug` a life costs a comparison.

use super::{Conn, Shard, ShardMessageOf};
use crate::detail::Detail;
use crate::logic::ShardLogic;
use crate::transport::Net;
use base::slab::Key;
use base::text::escaped;
use model::close::CloseReason;
use model::link::Link;
use model::{event, tell};
use std::net::SocketAddr;
use tracing::Level;

/// Ends that tell the operator of a limit that was reached. Of a login that is refused the logic
/// tells, which knows whose it was.
const TOLD: [CloseReason; 5] = [
    CloseReason::Full,
    CloseReason::Quota,
    CloseReason::SlowConsumer,
    CloseReason::LocalLimit,
    CloseReason::Internal,
];

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// A connection came.
    pub(super) fn tell_came(&self, key: Key, peer: SocketAddr) {
        let (shard, conn) = (self.settings.shard.0, key.pack());
        tell!(event::CONNECTION_CAME, shard, conn, %peer);
    }

    /// Its layers are open.
    pub(super) fn tell_begun(&self, key: Key, link: &Link) {
        let (shard, conn, proto) = (self.settings.shard.0, key.pack(), link.protocol.name());
        tell!(event::PROTOCOL_BEGAN, shard, conn, proto, peer = %link.peer);
    }

    /// Logs the end of a connection, while its socket is still open.
    pub(super) fn tell_end(&mut self, key: Key, ended: &Conn<N, H>, reason: CloseReason) {
        let is_told = TOLD.contains(&reason) && self.last_away != Some(key);
        let is_debug = tracing::enabled!(Level::DEBUG);
        if !is_told && !is_debug {
            return;
        }
        let peer = self.peer_of(ended);
        if is_told {
            self.notice(reason.name(), peer, None);
        }
        if is_debug {
            let (shard, conn, reason) = (self.settings.shard.0, key.pack(), reason.name());
            let proto = ended.machine.as_ref().map(|_| ended.protocol.name());
            tell!(event::CONNECTION_ENDED, shard, conn, proto, ?peer, reason);
        }
    }

    /// TLS of somebody who called failed.
    pub(super) fn tell_tls_failed(&mut self, ended: &Conn<N, H>, detail: Detail) {
        let reason = detail.of_tls_failed();
        if !self.notices.see(self.now.mono, reason) {
            return;
        }
        let peer = self.peer_of(ended);
        let listener = &**self.listener(ended.door);
        let (shard, peer) = (self.settings.shard.0, peer.map(tracing::field::display));
        tell!(event::TLS_FAILED, shard, listener, reason, peer);
    }

    /// Notes that a client was refused, or that a limit was reached.
    pub(super) fn notice(
        &mut self,
        reason: &'static str,
        peer: Option<SocketAddr>,
        who: Option<&str>,
    ) {
        if self.notices.see(self.now.mono, reason) {
            let (shard, who) = (self.settings.shard.0, who.map(escaped));
            tell!(
                event::CLIENT_TURNED_AWAY,
                shard,
                reason,
                client = who.as_deref(),
                peer = peer.map(tracing::field::display)
            );
        }
    }

    /// How many more there were.
    pub(super) fn tell_more(&mut self) {
        if self.notices.next().is_none_or(|next| self.now.mono < next) {
            return;
        }
        for (reason, more) in self.notices.due(self.now.mono) {
            let shard = self.settings.shard.0;
            tell!(event::MORE_TURNED_AWAY, shard, reason, count = more);
        }
    }

    /// Lines of the logic's own.
    pub(super) fn tell_turned_away(&mut self) {
        for (conn, reason, who) in std::mem::take(&mut self.handle.turned_away) {
            let here = (conn.shard() == self.settings.shard).then(|| conn.key());
            let found = here.and_then(|key| self.conns.at(key));
            let peer = found.and_then(|found| self.net.peer(&found.socket));
            self.notice(reason, peer, who.as_deref());
            self.last_away = here;
        }
    }
}

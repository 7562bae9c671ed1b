//! Addresses that are banned: refused before TLS, and ended when the ban comes later.
//!
//! Which addresses those are the logic knows. A walk over the connections begins when its list has
//! a new ban, and is made in slices. Behind a proxy a socket does not say whose it is: there the
//! PROXY header is asked about, and what is open goes on until its service ends it.

use super::{Conn, Shard, ShardMessageOf};
use crate::logic::ShardLogic;
use crate::transport::Net;
use model::close::CloseReason;
use model::ports::bans::BanAct;
use std::net::SocketAddr;

/// Connections that are looked at in a turn: each is a system call.
const SLICE: u32 = 1_024;

/// The walk over the connections.
#[derive(Default)]
pub(super) struct BanWalk {
    /// Of the list, when the last walk began.
    version: u64,
    /// The next slot to look at, while one is under way.
    at: Option<u32>,
}

impl BanWalk {
    /// Whether one is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.at.is_some()
    }
}

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// Closes a banned client's socket without reading or writing.
    pub(super) fn refuse_banned(&mut self, socket: N::Socket, peer: SocketAddr) {
        self.handle.counters.closed(CloseReason::Banned);
        self.notice(CloseReason::Banned.name(), Some(peer), None);
        self.net.close(socket, true);
    }

    /// Looks at a slice of the connections, if there is a new ban.
    pub(super) fn walk_bans(&mut self) {
        let version = self.logic.bans_version();
        if self.ban_walk.at.is_none() && version != self.ban_walk.version {
            self.ban_walk = BanWalk { version, at: Some(0) };
        }
        let Some(from) = self.ban_walk.at else { return };
        let to = from.saturating_add(SLICE).min(self.conns.slots());
        for slot in from..to {
            if let Some((key, conn)) = self.conns.tenant(slot)
                && !conn.has(Conn::<N, H>::DIALLED | Conn::<N, H>::GIVEN)
                && !self.settings.doors[usize::from(conn.door)].proxy
                && let Some(peer) = self.net.peer(&conn.socket)
                && !self.logic.lets_in(self.now, peer.ip(), BanAct::Ends)
            {
                self.end(key, CloseReason::Banned);
            }
        }
        self.ban_walk.at = (to < self.conns.slots()).then_some(to);
        if self.ban_walk.at.is_none() {
            self.logic.asked_again(self.ban_walk.version);
        }
    }
}

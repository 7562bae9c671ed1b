//! Paths of a listener that somebody beside the shards answers.
//!
//! As soon as the head of a request for one of them has come, its connection leaves the shard, with
//! what was read of it, what is still to be written, and its TLS. This module does not know the
//! service behind such a path. Invariant: a connection that was handed over has its place among all
//! connections until whoever took it lets it go.

use crate::layer::tls::TlsSession;
use crate::shard::Census;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Answer to a request for which there is no room.
pub(super) const NO_ROOM: &str = "HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: text/plain\r\nContent-Length: 17\r\nRetry-After: 5\r\n\
    Access-Control-Allow-Origin: *\r\nConnection: close\r\n\r\ntoo many at once\n";

/// Paths that somebody else answers.
#[derive(Clone)]
pub struct HandedPaths {
    /// How they begin.
    pub prefix: Box<str>,
    /// The receiver of their connections.
    pub taker: Arc<dyn StreamTaker>,
}

/// The receiver of such connections.
pub trait StreamTaker: Send + Sync {
    /// Whether one more from there would be taken. A refusal is counted, and the caller gets the
    /// answer.
    fn has_room(&self, peer: SocketAddr) -> bool;

    /// Takes a connection; false: it was let go.
    fn take(&self, stream: HandedStream) -> bool;
}

/// A connection that leaves its shard.
pub struct HandedStream {
    /// Its socket, which does not block.
    pub socket: OwnedFd,
    /// Its TLS, whose handshake is over.
    pub tls: Option<Box<TlsSession>>,
    /// Bytes received, from the head of its request on.
    pub said: Vec<u8>,
    /// Bytes that were still to be written to it.
    pub unsent: Vec<u8>,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Its place among the connections.
    pub place: CensusPlace,
}

/// A place among all connections, and among those of a listener, until it is dropped.
pub struct CensusPlace {
    pub(crate) all: Arc<Census>,
    pub(crate) door: Arc<Census>,
    pub(crate) bucket: u16,
}

impl Drop for CensusPlace {
    fn drop(&mut self) {
        self.all.leave();
        self.all.leave_source(self.bucket);
        self.door.leave();
    }
}

impl fmt::Debug for HandedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedPaths").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

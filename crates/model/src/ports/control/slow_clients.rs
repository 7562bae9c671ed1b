//! Clients that do not read as fast as messages are sent to them.
//!
//! `net` watches the bytes queued for a connection, in its own queue and in the kernel's socket
//! ([`SlowReader`]); services report which messages they dropped ([`Loss`]). Together they are one
//! row per client ([`SlowClient`]).

use crate::id::ConnRef;
use crate::link::Protocol;
use crate::ports::trace::TraceSubject;
use std::net::SocketAddr;

/// Bytes that wait for a connection, and the pace of its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlowReader {
    /// Bytes in the server's queue.
    pub queue_bytes: u64,
    /// Bytes in the kernel's socket, not acknowledged by the peer.
    pub socket_bytes: u64,
    /// The peer's receive window is closed: it does not read.
    pub is_stalled: bool,
    /// Bytes a second that the peer took between the last two looks.
    pub bytes_per_s: u64,
}

impl SlowReader {
    /// All that waits.
    pub const fn waiting_bytes(&self) -> u64 {
        self.queue_bytes + self.socket_bytes
    }
}

/// Messages that were dropped because a client that is online did not take them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The client's connection.
    pub conn: ConnRef,
    /// Where its service knows it.
    pub subject: TraceSubject,
    /// Number of dropped messages.
    pub count: u64,
}

/// A client in the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowClient {
    /// Client identifier, or name of the device.
    pub client: Box<str>,
    /// User or account.
    pub user: Option<Box<str>>,
    /// Address, where it is known.
    pub peer: Option<SocketAddr>,
    /// Protocol.
    pub protocol: Protocol,
    /// Unix millisecond since when it is in the list.
    pub since_ms: u64,
    /// Bytes that wait for its connection; zero: it keeps up now; absent: not sampled yet.
    pub reader: Option<SlowReader>,
    /// Messages dropped since then.
    pub dropped: u64,
}

//! Transport that a shard needs, real or simulated: the only trait between it and sockets.

use crate::detail::Detail;
use crate::logic::DialAddress;
use crate::tcp::TcpFacts;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ShardId;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A network as one shard sees it.
pub trait Net {
    /// An open socket. Small: every connection record holds one.
    type Socket;
    /// Messages between shards.
    type Message: Send;

    /// Present time by both clocks. The shard calls it once a turn.
    fn now(&mut self) -> Now;

    /// The monotonic clock alone: times a turn.
    fn mono(&mut self) -> Instant;

    /// Waits until something is ready, at most `timeout` (forever when absent), and appends it.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<ReadyEvent>);

    /// The next connection that waits at listener `door`.
    fn accept(&mut self, door: u8) -> Accepted<Self::Socket>;

    /// Stops listening, at all doors.
    fn stop_listening(&mut self);

    /// Listens at these sockets of listener `door` from now on, and closes those it had before;
    /// without any it listens there no longer. A network that is not the system's has no sockets
    /// to exchange.
    fn listen(&mut self, _door: u8, _sockets: Vec<OwnedFd>) -> std::io::Result<()> {
        Ok(())
    }

    /// Begins a call. `ReadyEvent::writable` tells when it came through or failed.
    fn dial(&mut self, to: &DialAddress, from: Option<IpAddr>)
    -> Result<Self::Socket, CloseReason>;

    /// Whether a call that was begun came through.
    fn dialled(&mut self, socket: &Self::Socket) -> Result<(), CloseReason>;

    /// Watches the socket from now on; `ReadyEvent` carries `token`.
    fn adopt(&mut self, socket: &Self::Socket, token: u64) -> Result<(), CloseReason>;

    /// Stops watching it, because it moves to another shard.
    fn release(&mut self, socket: &Self::Socket);

    /// Reads what is there.
    fn receive(&mut self, socket: &Self::Socket, into: &mut [u8]) -> Got;

    /// Writes what the socket takes.
    fn send(&mut self, socket: &Self::Socket, pieces: &[IoSlice<'_>]) -> Got;

    /// Ends it: with a farewell, or (`abort`) with a reset.
    fn close(&mut self, socket: Self::Socket, abort: bool);

    /// Gives a socket that is not watched any more to somebody beside the shards; `None`: it was
    /// closed, for this network has none that others could use.
    fn give_away(&mut self, socket: Self::Socket) -> Option<OwnedFd> {
        self.close(socket, true);
        None
    }

    /// Peer of the socket, as far as it is known.
    fn peer(&self, _socket: &Self::Socket) -> Option<SocketAddr> {
        None
    }

    /// The kernel's facts about a TCP connection's bytes; `None`: it does not tell.
    fn tcp(&self, _socket: &Self::Socket) -> Option<TcpFacts> {
        None
    }

    /// Details of the last failed call.
    fn detail(&self) -> Detail {
        Detail::Nothing
    }

    /// Sends a shard message to another shard, or gives it back when the mailbox is full.
    fn post(&mut self, to: ShardId, shard_message: Self::Message) -> Result<(), Self::Message>;

    /// Wakes the shards that were posted to, but for those of whom `is_here` says that this thread
    /// turns them next. Once a turn.
    fn wake_posted(&mut self, is_here: &mut dyn FnMut(ShardId) -> bool);

    /// Appends the shard messages that have come.
    fn shard_messages(&mut self, into: &mut Vec<Self::Message>);
}

/// A network that others on the same thread can be waited for with, by one call.
pub trait NestedWait: Net {
    /// Appends what is ready, without a wait. True: there may be more.
    fn poll(&mut self, ready: &mut Vec<ReadyEvent>) -> bool;

    /// Has a wait here end as well when `other`, the network of another shard on this thread,
    /// becomes ready: [`ReadyEvent::Nested`], once. Returns false if that cannot be had.
    fn nest(&mut self, other: &Self) -> bool;

    /// No longer: the other shard leaves this thread, or this one does.
    fn unnest(&mut self, other: &Self);

    /// Wakes the thread that runs this shard.
    fn wake(&mut self, shard: ShardId);
}

/// Readiness event of the poller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadyEvent {
    /// A socket, by its token.
    Socket {
        /// The token given to [`Net::adopt`].
        token: u64,
        /// Whether the socket can be read, an end or an error included.
        readable: bool,
        /// Whether the socket takes bytes again.
        writable: bool,
        /// The peer's end: read until nothing is left.
        ended: bool,
    },
    /// A connection waits at this listener.
    Door(u8),
    /// The mailbox has shard messages.
    Mailbox,
    /// The network of this shard, which is nested in this one, is ready.
    Nested(ShardId),
}

/// Result of an accept.
#[derive(Debug)]
pub enum Accepted<S> {
    /// A connection.
    Socket(S, SocketAddr),
    /// No connection waits.
    Nobody,
    /// A waiting connection was reset, because only the spare descriptor or memory is left.
    NoDescriptor,
}

/// Result of a read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// Number of bytes, at least one.
    Bytes(usize),
    /// Nothing was read or written for now.
    Later,
    /// The peer closed (reads only).
    End,
    /// The socket is broken.
    Failed(CloseReason),
}

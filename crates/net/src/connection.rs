//! Record of a connection.
//!
//! The [`ConnectionRecord`] is all there is while a plain connection is idle: 40 bytes with a
//! machine of 16. State of a busy connection stands in a boxed [`Extra`] that goes back to a pool
//! as soon as it is empty: frames that wait for the socket, an incomplete frame, the layers of TLS.

use crate::detail::Reached;
use crate::layer::tls::TlsSession;
use crate::layer::{ClientLayers, Layers};
use crate::shard::outqueue::OutQueue;
use model::link::{Link, Protocol, TlsFacts};
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A connection, on the shard where it lives.
pub struct ConnectionRecord<M, S> {
    /// The socket.
    pub(crate) socket: S,
    /// When something was last received: milliseconds since the process began, modulo 2^32.
    pub(crate) last_ms: u32,
    /// Silence allowed, in milliseconds; 0: any.
    pub(crate) silence_ms: u32,
    /// See the constants of [`ConnectionRecord`].
    pub(crate) flags: u16,
    /// The listener it came through.
    pub(crate) door: u8,
    /// Its protocol; while its layers open, `Tls`.
    pub(crate) protocol: Protocol,
    /// The protocol's side; absent while layers open.
    pub(crate) machine: Option<M>,
    /// Buffers and timers while it is not idle.
    pub(crate) extra: Option<Box<Extra>>,
}

/// Budget of the record of an idle connection, bytes.
pub const RECORD_BYTES_MAX: usize = 40;

const _: () = assert!(size_of::<Option<ConnectionRecord<(u64, bool), u32>>>() <= RECORD_BYTES_MAX);
const _: () = assert!(
    size_of::<Option<ConnectionRecord<(u64, bool), std::os::fd::OwnedFd>>>() <= RECORD_BYTES_MAX
);

impl<M, S> ConnectionRecord<M, S> {
    /// The connection is in the list of connections to flush.
    pub(crate) const DIRTY: u16 = 1;
    /// Its bytes travel in WebSocket messages.
    pub(crate) const WEB_SOCKET: u16 = 2;
    /// We called.
    pub(crate) const DIALLED: u16 = 4;
    /// The call has not come through yet.
    pub(crate) const CONNECTING: u16 = 8;
    /// Unread bytes wait for an answer of the inside; see `Shard::feed`.
    pub(crate) const REFEED: u16 = 16;
    /// The peer is on this machine.
    pub(crate) const LOOPBACK: u16 = 32;
    /// The connection was let in only to be told BUSY.
    pub(crate) const CROWDED: u16 = 64;
    /// Nothing is read from the socket, and no input is passed on, until the machine says so; see
    /// `Outbox::hold`.
    pub(crate) const HELD: u16 = 128;
    /// Its machine wants to know when all is written.
    pub(crate) const TELLS: u16 = 256;
    /// Its machine has agreed on a silence: whoever it is, it was let in.
    pub(crate) const BOUND: u16 = 512;
    /// The socket did not take all of the last write: it tells when it takes more.
    pub(crate) const BLOCKED: u16 = 1_024;
    /// A read of it was put off.
    pub(crate) const DEFERRED: u16 = 2_048;
    /// The connection ends with a reset, and without a farewell.
    pub(crate) const RESET: u16 = 4_096;
    /// A look at its silence is due at its time, for the sweep would come too late.
    pub(crate) const WATCHED: u16 = 8_192;
    /// The connection was handed over by code outside the shards: its socket is of this process,
    /// and no TLS begins on it.
    pub(crate) const GIVEN: u16 = 16_384;
    /// The given connection is encrypted on the way to its peer.
    pub(crate) const ENCRYPTED: u16 = 32_768;

    pub(crate) fn new(socket: S, now_ms: u32, flags: u16, door: u8, extra: Box<Extra>) -> Self {
        ConnectionRecord {
            socket,
            last_ms: now_ms,
            silence_ms: 0,
            flags,
            door,
            protocol: Protocol::Tls,
            machine: None,
            extra: Some(extra),
        }
    }

    /// Its buffers and timers, taken from the pool when it has none yet.
    #[expect(clippy::vec_box, reason = "the record holds the box that comes out of the pool")]
    pub(crate) fn extra_from(&mut self, pool: &mut Vec<Box<Extra>>) -> &mut Extra {
        self.extra.get_or_insert_with(|| pool.pop().unwrap_or_default())
    }

    /// Corrects the time of the last bytes for a connection that came to a shard whose turn began
    /// at `now_ms`, perhaps before the turn in which it was heard last: no connection was heard
    /// later than now.
    pub(crate) fn heard_by(&mut self, now_ms: u32) {
        if now_ms.wrapping_sub(self.last_ms) > u32::MAX / 2 {
            self.last_ms = now_ms;
        }
    }

    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Keeps of `link` what a machine may ask later: flags, not the address itself.
    pub(crate) fn remember(&mut self, link: &Link) {
        if link.near {
            self.flags |= Self::LOOPBACK;
        }
        if link.crowded {
            self.flags |= Self::CROWDED;
        }
        self.protocol = link.protocol;
    }

    /// How far it has come.
    pub(crate) fn reached(&self) -> Reached {
        let call = self.extra.as_ref().and_then(|extra| extra.call.as_deref());
        match call {
            _ if self.machine.is_some() => Reached::Protocol,
            _ if self.has(Self::CONNECTING) => Reached::Connect,
            Some((_, client)) if client.is_plain() => Reached::Protocol,
            _ => Reached::Layers,
        }
    }

    /// Bytes that wait for the socket.
    pub(crate) fn backlog(&self) -> usize {
        self.extra.as_ref().map_or(0, |extra| extra.out.bytes())
    }

    /// Facts about the connection that are still known. The peer's address has shrunk to whether it
    /// is of this machine: a machine that wants more remembers it when it is opened. The facts of
    /// TLS are lent, and come back by [`take_back`](Self::take_back).
    pub(crate) fn lend_link(&mut self, may_start_tls: bool) -> Link {
        let near = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let given = self.has(Self::ENCRYPTED).then(TlsFacts::default);
        let tls = self.tls().map(TlsSession::lend).or(given);
        Link {
            peer: SocketAddr::new(near[usize::from(self.has(Self::LOOPBACK))], 0),
            near: self.has(Self::LOOPBACK),
            protocol: self.protocol,
            tls,
            may_start_tls,
            web_socket: self.has(Self::WEB_SOCKET),
            crowded: self.has(Self::CROWDED),
            door: self.door,
        }
    }

    /// Takes the facts of TLS back from a link that was lent.
    pub(crate) fn take_back(&mut self, link: Link) {
        if let (Some(session), Some(facts)) = (self.tls(), link.tls) {
            session.keep(facts);
        }
    }

    fn tls(&mut self) -> Option<&mut TlsSession> {
        self.extra.as_mut()?.layers.as_mut()?.tls.as_deref_mut()
    }
}

/// Buffers and timers of a connection that is not idle.
#[derive(Default)]
pub struct Extra {
    /// Bytes that wait for the socket.
    pub(crate) out: OutQueue,
    /// Bytes for the protocol that it has not taken.
    pub(crate) partial: Vec<u8>,
    /// TLS and the like.
    pub(crate) layers: Option<Box<Layers>>,
    /// Number and layers of an outgoing call until it is established; also until its machine has
    /// ordered TLS, if it may order it.
    pub(crate) call: Option<Box<(u64, ClientLayers)>>,
    /// The incomplete frame that it holds.
    pub(crate) piece: PartialFrame,
}

/// A frame that is not whole, as it is counted.
#[derive(Default)]
pub struct PartialFrame {
    /// Bytes of memory.
    pub(crate) held: u32,
    /// When it began, or last went on, in seconds.
    pub(crate) since_s: u32,
    /// Bytes that had come then.
    pub(crate) mark: u32,
    /// Whether the frame begins with the bytes that came last.
    pub(crate) fresh: bool,
}

impl Extra {
    /// Incomplete frames, records and heads of the connection: their bytes, and the memory
    /// allocated for them, in bytes.
    pub(crate) fn pieces(&self) -> (u32, u32) {
        let (length, room) = self.layers.as_ref().map_or((0, 0), |layers| layers.pieces());
        let clip = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        (clip(length + self.partial.len()), clip(room + self.partial.capacity()))
    }

    /// Whether nothing in it needs keeping.
    pub(crate) fn is_idle(&self) -> bool {
        self.out.is_empty()
            && self.partial.is_empty()
            && self.layers.is_none()
            && self.call.is_none()
    }
}

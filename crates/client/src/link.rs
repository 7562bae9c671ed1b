//! The bytes' way to a broker: a socket, perhaps TLS, perhaps a WebSocket.
//!
//! The layers are those of `net`, which every caller here has. Sockets do not block: whoever waits,
//! waits here for what the socket has or takes, with a time. Bytes that the socket does not take
//! yet stay in `pending`, in order.

use crate::driver::random;
use crate::fault::{ConnectError, ConnectErrorKind};
use crate::trust::named;
use crate::{BrokerAddress, Endpoint, clock};
use base::hash::HashKey;
use base::time::Instant;
use model::close::CloseReason;
use model::link::Link as Known;
use net::Detail;
use net::layer::tls::{ClientTls, TlsSession};
use net::layer::websocket::UpgradeTarget;
use net::layer::{ClientLayers, Flow, Layers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConfig;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Bytes taken from a socket before somebody looks at them.
const READ_BYTES: usize = 64 * 1024;
/// Bytes that may wait for the socket. Beyond, the broker does not read, and the link ends.
const PENDING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest time that a farewell takes.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(into),
            Socket::Unix(stream) => stream.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }
}

impl Socket {
    /// The broker sees an end; what it sends still arrives.
    fn end_writing(&self) {
        // A socket that is broken has ended already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A way to a broker that is open.
pub(crate) struct Link {
    socket: Socket,
    /// Layers between the socket and the protocol.
    layers: Layers,
    /// Encoded, not yet taken by the socket.
    pending: Vec<u8>,
    /// Decoded, not yet taken by the machine.
    pub inbox: Vec<u8>,
    scratch: Box<[u8]>,
}

/// Why a link ended.
pub(crate) type Ended = CloseReason;

impl Link {
    /// Opens one to `address`, by `until`.
    pub fn open(
        address: &BrokerAddress,
        trust: Option<&Arc<ClientConfig>>,
        from: Option<IpAddr>,
        until: Instant,
    ) -> Result<Link, ConnectError> {
        let layers = address.layers(trust)?;
        let socket = match &address.place {
            Endpoint::Unix(path) => {
                UnixStream::connect(path).map(Socket::Unix).map_err(|error| {
                    let text = format!(
                        "{address}: {error}. Is the broker running, and is this its \
                                 socket?"
                    );
                    ConnectError::new(ConnectErrorKind::Unreachable, text)
                })?
            }
            Endpoint::Host(host, port) => Socket::Tcp(dial(address, (host, *port), from, until)?),
        };
        let unblocked = match &socket {
            Socket::Tcp(stream) => stream.set_nodelay(true).and(stream.set_nonblocking(true)),
            Socket::Unix(stream) => stream.set_nonblocking(true),
        };
        unblocked.map_err(|error| {
            ConnectError::new(ConnectErrorKind::Unreachable, format!("{address}: {error}"))
        })?;
        let mut link = Link {
            socket,
            layers: Layers::default(),
            pending: Vec::new(),
            inbox: Vec::new(),
            scratch: vec![0; READ_BYTES].into(),
        };
        if !layers.is_plain() {
            link.open_layers(address, layers, until)?;
        }
        Ok(link)
    }

    fn open_layers(
        &mut self,
        address: &BrokerAddress,
        layers: ClientLayers,
        until: Instant,
    ) -> Result<(), ConnectError> {
        let peer = Known::loopback(address.protocol).peer;
        let begun = Layers::dialled(layers, peer, &mut self.pending);
        self.layers = begun.map_err(|reason| self.not_open(address, reason))?;
        loop {
            self.flush().map_err(|reason| self.not_open(address, reason))?;
            let now = clock::now().mono;
            if now >= until || !self.wait(until - now) {
                let text = format!("{address}: no answer in time. Is this the right port?");
                return Err(ConnectError::new(ConnectErrorKind::TimedOut, text));
            }
            let received = self.receive_layered();
            if received == Ok(Flow::Open) {
                self.layers.take_link();
                let framing = self.layers.web_socket.iter_mut();
                framing.for_each(|framing| framing.payload_max = u64::MAX);
                return self.flush().map_err(|reason| self.not_open(address, reason));
            }
            if let Err(reason) = received {
                // What the broker is told about it.
                let _ = self.flush();
                return Err(self.not_open(address, reason));
            }
        }
    }

    /// Error of layers that did not come about.
    fn not_open(&self, address: &BrokerAddress, reason: CloseReason) -> ConnectError {
        let tls = self.layers.tls.as_deref();
        let is_tls = reason == CloseReason::TlsFailed || tls.is_some_and(TlsSession::handshaking);
        let failure = tls.and_then(TlsSession::failure);
        let why = match (failure, self.layers.detail()) {
            (Some(error), _) => crate::trust::tls_words(error),
            (None, Detail::Upgrade(0)) => "its answer is not HTTP".to_owned(),
            (None, Detail::Upgrade(101)) => "its answer does not match the request".to_owned(),
            (None, Detail::Upgrade(status)) => format!("the broker answered `{status}`"),
            _ if reason == CloseReason::WebSocketFailed => "an invalid frame".to_owned(),
            _ => "the connection ended".to_owned(),
        };
        let (kind, text) = match is_tls {
            true => (
                ConnectErrorKind::Tls,
                format!(
                    "{address}: TLS handshake failed: {why}. {}",
                    match why.ends_with(crate::trust::EXPIRED) {
                        true => "Renew the server's certificate, or set the clock of this machine",
                        false => {
                            "Check the CA certificates (--cafile) and whether the broker speaks \
                             TLS on this port"
                        }
                    }
                ),
            ),
            false => (
                ConnectErrorKind::WebSocket,
                format!(
                    "{address}: WebSocket handshake failed: {why}. Check the path and \
                     whether the broker speaks WebSocket on this port"
                ),
            ),
        };
        ConnectError::new(kind, text)
    }

    /// Sends bytes of the protocol, as far as the socket takes them now.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        self.layers.wrap(bytes, &mut self.pending)?;
        if self.pending.len() > PENDING_BYTES_MAX {
            return Err(CloseReason::SlowConsumer);
        }
        self.flush()
    }

    /// Writes what waits, as far as the socket takes it.
    pub fn flush(&mut self) -> Result<(), Ended> {
        let mut written = 0;
        let result = loop {
            if written == self.pending.len() {
                break Ok(());
            }
            match self.socket.write(&self.pending[written..]) {
                Ok(0) => break Err(CloseReason::PeerClosed),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(_) => break Err(CloseReason::PeerReset),
            }
        };
        self.pending.drain(..written);
        result
    }

    /// Takes what has arrived into the inbox. Bytes that came before an end are in it.
    pub fn receive(&mut self) -> Result<(), Ended> {
        let flow = self.receive_layered()?;
        self.flush()?;
        if flow == Flow::Ended { Err(CloseReason::PeerClosed) } else { Ok(()) }
    }

    fn receive_layered(&mut self) -> Result<Flow, Ended> {
        let mut raw = Vec::new();
        let ended = self.read_socket(&mut raw);
        if raw.is_empty() {
            return ended.map(|()| Flow::Opening);
        }
        let flow = self.layers.receive(&raw, &mut self.inbox, &mut self.pending)?;
        self.layers.pong(&mut self.pending)?;
        ended.map(|()| flow)
    }

    fn read_socket(&mut self, into: &mut Vec<u8>) -> Result<(), Ended> {
        while into.len() < READ_BYTES {
            match self.socket.read(&mut self.scratch) {
                Ok(0) => return Err(CloseReason::PeerClosed),
                Ok(count) => into.extend_from_slice(&self.scratch[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(CloseReason::PeerReset),
            }
        }
        Ok(())
    }

    /// Waits until something can be read, or written where something waits; false: it took too
    /// long.
    pub fn wait(&self, span: Duration) -> bool {
        let flags = if self.has_pending() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)];
        let span = Timespec::try_from(span).unwrap_or(Timespec { tv_sec: 60, tv_nsec: 0 });
        poll(&mut fds, Some(&span)).is_ok_and(|ready| ready > 0)
    }

    /// Whether something waits for the socket.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Says farewell to the layers, and gives the broker a little time to close in its turn: a
    /// socket that is closed with bytes unread takes back what was sent last.
    pub fn close(&mut self) {
        self.layers.farewell(CloseReason::OwnStop, &mut self.pending);
        let until = clock::now().after(FAREWELL_TIME);
        while self.flush().is_ok() && self.has_pending() && clock::now().mono < until {
            self.wait(Duration::from_millis(100));
        }
        self.socket.end_writing();
        let mut rest = Vec::new();
        while clock::now().mono < until && self.read_socket(&mut rest).is_ok() {
            rest.clear();
            self.wait(until - clock::now().mono);
        }
    }
}

impl BrokerAddress {
    /// Layers around the protocol on one connection to it. `trust` is needed for TLS.
    pub fn layers(&self, trust: Option<&Arc<ClientConfig>>) -> Result<ClientLayers, ConnectError> {
        let host = match &self.place {
            Endpoint::Host(host, _) => host,
            Endpoint::Unix(_) => "localhost",
        };
        let tls = match trust.filter(|_| self.tls) {
            Some(config) => Some(Arc::new(ClientTls::new(config.clone(), named(host)?))),
            None => None,
        };
        let web_socket = match &self.web_socket {
            Some(path) => {
                let host = self.place.authority();
                let open = UpgradeTarget::open(host, path, self.wire());
                Some(Arc::new(UpgradeTarget { secret: Some(secret()?), ..(*open).clone() }))
            }
            None => None,
        };
        Ok(ClientLayers { tls, web_socket, ..ClientLayers::plain(self.protocol) })
    }
}

/// A secret of one connection.
fn secret() -> Result<HashKey, ConnectError> {
    let random = random()?;
    let word = |at: usize| u64::from_be_bytes(random[at..at + 8].try_into().expect("eight bytes"));
    Ok(HashKey::new(word(0), word(8)))
}

/// A connection to one of a host's addresses.
fn dial(
    address: &BrokerAddress,
    (host, port): (&str, u16),
    from: Option<IpAddr>,
    until: Instant,
) -> Result<TcpStream, ConnectError> {
    let unreachable = |error: &dyn std::fmt::Display| {
        let text = format!(
            "{address}: {error}. Is the broker running, and are host (-h) and port (-p) \
                     right?"
        );
        ConnectError::new(ConnectErrorKind::Unreachable, text)
    };
    let mut last = unreachable(&"no address of this name");
    for to in (host, port).to_socket_addrs().map_err(|error| unreachable(&error))? {
        let now = clock::now().mono;
        if now >= until {
            let text = format!("{address}: connection timed out");
            return Err(ConnectError::new(ConnectErrorKind::TimedOut, text));
        }
        match dial_one(to, from, until - now) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                last = ConnectError::new(
                    ConnectErrorKind::TimedOut,
                    format!("{address}: connection timed out"),
                );
            }
            Err(error) => last = unreachable(&error),
        }
    }
    Err(last)
}

fn dial_one(to: SocketAddr, from: Option<IpAddr>, span: Duration) -> std::io::Result<TcpStream> {
    let Some(from) = from else { return TcpStream::connect_timeout(&to, span) };
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd: OwnedFd = socket(family, SocketType::STREAM, None)?;
    bind(&fd, &SocketAddr::new(from, 0))?;
    connect(&fd, &to)?;
    Ok(TcpStream::from(fd))
}

#[cfg(test)]
mod tests;

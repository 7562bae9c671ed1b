//! The bytes' way to a broker: a socket, perhaps TLS, perhaps a WebSocket.
//!
//! Sockets do not block: whoever waits, waits here for what the socket has or takes, with a time.
//! What the socket does not take yet stays in `pending`, in order.

mod web_socket;

use crate::clock;
use crate::fault::{ConnectError, ConnectErrorKind};
use crate::{BrokerAddress, Endpoint};
use base::time::Instant;
use model::close::CloseReason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{ClientConfig, ClientConnection};
use rustls_pki_types::ServerName;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use web_socket::WebSocket;

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
    tls: Option<Box<ClientConnection>>,
    web_socket: Option<WebSocket>,
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
        let socket = match &address.place {
            Endpoint::Unix(path) => {
                UnixStream::connect(path).map(Socket::Unix).map_err(|error| {
                    let text =
                        format!("{address}: {error}. Is the broker up, and is this its socket?");
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
            tls: None,
            web_socket: None,
            pending: Vec::new(),
            inbox: Vec::new(),
            scratch: vec![0; READ_BYTES].into(),
        };
        if let Some(config) = trust.filter(|_| address.tls) {
            link.start_tls(address, config, until)?;
        }
        if let Some(path) = &address.web_socket {
            link.upgrade(address, path, until)?;
        }
        Ok(link)
    }

    fn start_tls(
        &mut self,
        address: &BrokerAddress,
        config: &Arc<ClientConfig>,
        until: Instant,
    ) -> Result<(), ConnectError> {
        let failed = |error: &dyn std::fmt::Display| {
            let text = format!(
                "{address}: TLS did not come about: {error}. Check the authority (--cafile) and \
                 whether the broker speaks TLS on this port"
            );
            ConnectError::new(ConnectErrorKind::Tls, text)
        };
        let name = match &address.place {
            Endpoint::Host(host, _) => host.clone(),
            Endpoint::Unix(_) => "localhost".to_owned(),
        };
        let name = ServerName::try_from(name).map_err(|error| failed(&error))?;
        let tls = ClientConnection::new(config.clone(), name).map_err(|error| failed(&error))?;
        self.tls = Some(Box::new(tls));
        loop {
            let is_open = match self.tls.as_mut() {
                None => true,
                Some(tls) => {
                    while tls.wants_write() {
                        tls.write_tls(&mut self.pending).map_err(|error| failed(&error))?;
                    }
                    !tls.is_handshaking()
                }
            };
            self.flush().map_err(|_| failed(&"the connection ended"))?;
            if is_open {
                return Ok(());
            }
            self.wait_until(address, until)?;
            let mut records = Vec::new();
            let ended = self.read_socket(&mut records).is_err();
            if let Err(error) = self.decrypt(&records) {
                // What the broker is told about it.
                let _ = self.tls.as_mut().map(|tls| tls.write_tls(&mut self.pending));
                let _ = self.flush();
                return Err(failed(&error));
            }
            if ended {
                return Err(failed(&"the connection ended"));
            }
        }
    }

    fn upgrade(
        &mut self,
        address: &BrokerAddress,
        path: &str,
        until: Instant,
    ) -> Result<(), ConnectError> {
        let failed = |why: &str| {
            let text = format!(
                "{address}: the WebSocket did not come about: {why}. Check the path and whether \
                 the broker speaks WebSocket on this port"
            );
            ConnectError::new(ConnectErrorKind::WebSocket, text)
        };
        let key = web_socket::key().map_err(|error| failed(&error))?;
        let request = web_socket::request(&address.place, path, &key);
        self.send_raw(request.as_bytes()).map_err(|_| failed("the connection ended"))?;
        loop {
            if let Some(end) = self.inbox.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.inbox.drain(..end + 4).collect();
                let early = std::mem::take(&mut self.inbox);
                web_socket::check(&String::from_utf8_lossy(&head), &key)
                    .map_err(|why| failed(&why))?;
                let mut opened = WebSocket::default();
                opened.unwrap(&early, &mut self.inbox).map_err(|_| failed("a broken frame"))?;
                self.web_socket = Some(opened);
                return Ok(());
            }
            if self.inbox.len() > web_socket::HEAD_BYTES_MAX {
                return Err(failed("the answer has no end"));
            }
            self.wait_until(address, until)?;
            self.receive().map_err(|_| failed("the connection ended"))?;
        }
    }

    /// Sends bytes of the protocol, as far as the socket takes them now.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let Some(web_socket) = &mut self.web_socket else { return self.send_raw(bytes) };
        let mut frame = Vec::with_capacity(bytes.len() + 14);
        web_socket.wrap(bytes, &mut frame)?;
        self.send_raw(&frame)
    }

    fn send_raw(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        match &mut self.tls {
            None => self.pending.extend_from_slice(bytes),
            Some(tls) => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let taken = tls.writer().write(rest).map_err(|_| CloseReason::TlsFailed)?;
                    rest = &rest[taken..];
                    while tls.wants_write() {
                        tls.write_tls(&mut self.pending).map_err(|_| CloseReason::TlsFailed)?;
                    }
                }
            }
        }
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

    /// Takes what has arrived into the inbox. What came before an end is there.
    pub fn receive(&mut self) -> Result<(), Ended> {
        let mut raw = Vec::new();
        let ended = self.read_socket(&mut raw);
        let plain = match self.tls.is_some() {
            false => raw,
            true => self.decrypt(&raw).map_err(|_| CloseReason::TlsFailed)?,
        };
        match &mut self.web_socket {
            None => self.inbox.extend_from_slice(&plain),
            Some(web_socket) => {
                let answer = web_socket.unwrap(&plain, &mut self.inbox)?;
                if !answer.is_empty() {
                    self.send_raw(&answer)?;
                }
                if web_socket_is_over(&self.web_socket) {
                    return Err(CloseReason::PeerClosed);
                }
            }
        }
        ended
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

    fn decrypt(&mut self, mut records: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut plain = Vec::new();
        let Some(tls) = &mut self.tls else { return Ok(records.to_vec()) };
        while !records.is_empty() {
            let taken = tls.read_tls(&mut records).unwrap_or_default();
            tls.process_new_packets()?;
            // An end of the stream is seen at the socket, too.
            let _ = tls.reader().read_to_end(&mut plain);
            if taken == 0 {
                break;
            }
        }
        while tls.wants_write() {
            if tls.write_tls(&mut self.pending).is_err() {
                break;
            }
        }
        Ok(plain)
    }

    /// Waits for the socket, no longer than `until`.
    fn wait_until(&self, address: &BrokerAddress, until: Instant) -> Result<(), ConnectError> {
        let now = clock::now().mono;
        if now >= until || !self.wait(until - now) {
            let text = format!("{address}: no answer in time. Is this the right port?");
            return Err(ConnectError::new(ConnectErrorKind::TimedOut, text));
        }
        Ok(())
    }

    /// Waits until something can be read, or written where something waits; false: it took too
    /// long.
    pub fn wait(&self, span: Duration) -> bool {
        wait_for(&[(self.socket.as_fd(), self.has_pending())], span)
    }

    /// Whether something waits for the socket.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Bytes that wait for the socket.
    pub fn backlog(&self) -> usize {
        self.pending.len()
    }

    /// Says farewell to the layers, and gives the broker a little time to close in its turn: a
    /// socket that is closed with bytes unread takes back what was sent last.
    pub fn close(&mut self) {
        let mut frame = Vec::new();
        if let Some(web_socket) = &mut self.web_socket
            && web_socket.farewell(&mut frame).is_ok()
        {
            let _ = self.send_raw(&frame);
        }
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.pending);
        }
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

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn web_socket_is_over(web_socket: &Option<WebSocket>) -> bool {
    web_socket.as_ref().is_some_and(|web_socket| web_socket.is_over)
}

/// Waits until one of several can be read, or written where that is said too; false: none in time.
pub fn wait(of: &[(BorrowedFd<'_>, bool)], span: Duration) -> bool {
    wait_for(of, span)
}

fn wait_for(of: &[(BorrowedFd<'_>, bool)], span: Duration) -> bool {
    let mut fds: Vec<PollFd<'_>> = of
        .iter()
        .map(|(fd, writes)| {
            let flags = if *writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(*fd, flags)
        })
        .collect();
    let span = Timespec::try_from(span).unwrap_or(Timespec { tv_sec: 60, tv_nsec: 0 });
    poll(&mut fds, Some(&span)).is_ok_and(|ready| ready > 0)
}

/// A connection to one of a host's addresses.
fn dial(
    address: &BrokerAddress,
    (host, port): (&str, u16),
    from: Option<IpAddr>,
    until: Instant,
) -> Result<TcpStream, ConnectError> {
    let unreachable = |error: &dyn std::fmt::Display| {
        let text =
            format!("{address}: {error}. Is the broker up, and are host (-h) and port (-p) right?");
        ConnectError::new(ConnectErrorKind::Unreachable, text)
    };
    let mut last = unreachable(&"no address of this name");
    for to in (host, port).to_socket_addrs().map_err(|error| unreachable(&error))? {
        let now = clock::now().mono;
        if now >= until {
            let text = format!("{address}: no connection in time");
            return Err(ConnectError::new(ConnectErrorKind::TimedOut, text));
        }
        match dial_one(to, from, until - now) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                last = ConnectError::new(
                    ConnectErrorKind::TimedOut,
                    format!("{address}: no connection in time"),
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

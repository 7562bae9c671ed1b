//! A socket on which nothing takes longer than a call may, encrypted or not.
//!
//! A limit of the kernel's is for one read or write, so a peer that sends a byte now and then would
//! never exceed it: here the rest of the call's time is set in the kernel before each. Bytes are
//! counted as they are before encryption.

use crate::clock::Deadline;
use crate::names;
use crate::settings::Access;
use crate::traffic::Traffic;
use crate::url::HostPort;
use model::ports::presence::directory::DirectoryError;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// Bytes of answers that one call takes: beyond that it is nonsense, not an answer.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A connection.
pub(crate) struct Socket {
    stream: Stream,
    place: HostPort,
    traffic: Arc<Traffic>,
    /// Bytes since the last [`Socket::begin`].
    heard: u64,
    /// Error of the last failed read.
    fault: Option<DirectoryError>,
}

enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Socket {
    /// Connects. The handshake of TLS comes with the first bytes.
    pub(crate) fn open(
        place: &HostPort,
        access: &Access,
        deadline: Deadline,
    ) -> Result<Socket, DirectoryError> {
        let addresses = names::resolve(place, deadline)?;
        let mut last = None;
        let tcp = addresses.iter().enumerate().find_map(|(at, address)| {
            connect(address, deadline.share(addresses.len() - at))
                .map_err(|fault| last = Some(fault))
                .ok()
        });
        let Some(tcp) = tcp else {
            let why = last.unwrap_or_else(|| "the name does not resolve to an address".into());
            return Err(DirectoryError::Unreachable(format!("{place}: {why}")));
        };
        // Without it answers wait for each other; a kernel that cannot still works.
        let _ = tcp.set_nodelay(true);
        let timed = Timed { tcp, deadline };
        let stream = match access.trust.session(place)? {
            None => Stream::Plain(timed),
            Some(session) => Stream::Tls(Box::new(StreamOwned::new(session, timed))),
        };
        let (place, traffic) = (place.clone(), access.traffic.clone());
        Ok(Socket { stream, place, traffic, heard: 0, fault: None })
    }

    /// Sets the time at which everything has to be over.
    pub(crate) fn begin(&mut self, deadline: Deadline) {
        self.heard = 0;
        match &mut self.stream {
            Stream::Plain(timed) => timed.deadline = deadline,
            Stream::Tls(tls) => tls.sock.deadline = deadline,
        }
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), DirectoryError> {
        let sent = match &mut self.stream {
            Stream::Plain(timed) => timed.write_all(bytes),
            Stream::Tls(tls) => tls.write_all(bytes).and_then(|()| tls.flush()),
        };
        self.traffic.sent(bytes.len());
        sent.map_err(|error| fault(&self.place, &error))
    }

    /// Takes the error of the last failed read, if the connection failed.
    pub(crate) fn take_fault(&mut self) -> Option<DirectoryError> {
        self.fault.take()
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.stream {
            Stream::Plain(timed) => timed.read(buffer),
            Stream::Tls(tls) => tls.read(buffer),
        };
        let failed = match read {
            Ok(0) if !buffer.is_empty() => io::ErrorKind::UnexpectedEof.into(),
            Ok(count) => {
                self.heard += count as u64;
                self.traffic.received(count);
                if self.heard <= ANSWER_BYTES_MAX {
                    return Ok(count);
                }
                let place = &self.place;
                self.fault =
                    Some(DirectoryError::Nonsense(format!("{place}: the answer is too long")));
                return Err(io::ErrorKind::InvalidData.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => error,
        };
        self.fault = Some(fault(&self.place, &failed));
        Err(failed)
    }
}

fn fault(place: &HostPort, error: &io::Error) -> DirectoryError {
    match error.kind() {
        // Linux says the first of a socket whose time is over.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => DirectoryError::Slow,
        io::ErrorKind::UnexpectedEof => {
            DirectoryError::Unreachable(format!("{place}: connection closed"))
        }
        _ => DirectoryError::Unreachable(format!("{place}: {error}")),
    }
}

fn connect(address: &SocketAddr, deadline: Deadline) -> Result<TcpStream, String> {
    let left = deadline.left().map_err(|_| "timed out before connecting".to_string())?;
    TcpStream::connect_timeout(address, left).map_err(|error| error.to_string())
}

/// A socket with the end of a call.
struct Timed {
    tcp: TcpStream,
    deadline: Deadline,
}

impl Timed {
    fn left(&self) -> io::Result<std::time::Duration> {
        self.deadline.left().map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(Some(self.left()?))?;
        self.tcp.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(Some(self.left()?))?;
        self.tcp.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

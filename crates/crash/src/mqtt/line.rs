//! A connection of an MQTT client over a blocking socket of loopback.
//!
//! The connection sends what its caller orders and reports what it hears; it answers nothing by
//! itself. Unreadable input is an error, for the server wrote it.

use super::wire::{self, Connect, Said};
use crate::clock;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
pub const PATIENCE: Duration = Duration::from_secs(8);
/// CONNACK codes that ask to come back: unavailable and busy, of both versions.
const COME_BACK: [u8; 3] = [3, 0x88, 0x89];

/// A connection.
pub struct Line {
    stream: TcpStream,
    version: u8,
    bytes: Vec<u8>,
    taken: usize,
}

impl Line {
    /// Connects, and says whether the session was present. A client that is told to come back does,
    /// for some seconds.
    pub fn connect(address: SocketAddr, connect: &Connect<'_>) -> io::Result<(Line, bool)> {
        let until = clock::now_us() + PATIENCE.as_micros() as u64;
        loop {
            let mut line = Line::open(address, connect)?;
            match line.hear(PATIENCE)? {
                Some(Said::Connack(present, 0)) => return Ok((line, present)),
                Some(Said::Connack(_, code))
                    if COME_BACK.contains(&code) && clock::now_us() < until =>
                {
                    clock::rest(2);
                }
                other => return Err(io::Error::other(format!("CONNECT met {other:?}"))),
            }
        }
    }

    /// Sends a CONNECT, and waits for nothing.
    pub fn open(address: SocketAddr, connect: &Connect<'_>) -> io::Result<Line> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (version, bytes, taken) = (connect.version, Vec::new(), 0);
        let mut line = Line { stream, version, bytes, taken };
        line.say(&connect.bytes())?;
        Ok(line)
    }

    /// The next packet within `wait`; `None` if none comes. An end of the stream is an error.
    pub fn hear(&mut self, wait: Duration) -> io::Result<Option<Said>> {
        let until = clock::now_us() + wait.as_micros() as u64;
        loop {
            if let Some((said, length)) = wire::hear(self.version, &self.bytes[self.taken..])? {
                self.taken += length;
                return Ok(Some(said));
            }
            self.bytes.drain(..self.taken);
            self.taken = 0;
            let left = until.saturating_sub(clock::now_us());
            if left == 0 {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(Duration::from_micros(left.max(1_000))))?;
            let mut part = [0; 65_536];
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.bytes.extend_from_slice(&part[..count]),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends these bytes.
    pub fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

//! Lines over a TCP connection: each a JSON value, none longer than its limit.
//!
//! The connection does not know the meaning of lines. A line that is too long, no JSON or no word
//! of the protocol is an error in words, after which the connection is of no use.

use super::now;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a line before the token was proved.
pub(super) const STRANGER_LINE_BYTES_MAX: usize = 4 << 10;
/// Bytes of a line of a coordinator.
pub(super) const CALL_LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line of an agent: a look with all its distributions.
pub(super) const REPLY_LINE_BYTES_MAX: usize = 16 << 20;
/// Time that a line may take to be sent.
const SEND_WAIT: Duration = Duration::from_secs(10);

/// The sending side; several threads may use it.
pub(super) struct Sender(Mutex<TcpStream>);

/// The receiving side.
pub(super) struct Receiver {
    lines: BufReader<TcpStream>,
    line: Vec<u8>,
    bytes_max: usize,
}

/// Opens both sides of a connection.
pub(super) fn open(stream: TcpStream, bytes_max: usize) -> io::Result<(Sender, Receiver)> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SEND_WAIT))?;
    let lines = BufReader::with_capacity(64 << 10, stream.try_clone()?);
    Ok((Sender(Mutex::new(stream)), Receiver { lines, line: Vec::new(), bytes_max }))
}

impl Sender {
    /// Sends a word.
    pub(super) fn send(&self, word: &impl Serialize) -> Result<(), String> {
        let mut line = serde_json::to_vec(word).expect("plain values become JSON");
        line.push(b'\n');
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(&line).map_err(|error| format!("cannot send: {error}"))
    }

    /// Ends the connection in both directions; waiting readers are woken.
    pub(super) fn end(&self) {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended already.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

impl Receiver {
    /// How long a line may be from now on.
    pub(super) fn allow(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// The next word, which must be whole within `wait`; `None`: the other one has ended.
    pub(super) fn next<W: DeserializeOwned>(
        &mut self,
        wait: Duration,
    ) -> Result<Option<W>, String> {
        let silent = || format!("no data for {} s", wait.as_secs());
        let until = now() + wait;
        self.line.clear();
        loop {
            let left = until.saturating_duration_since(now());
            if left.is_zero() {
                return Err(silent());
            }
            let stream = self.lines.get_ref();
            stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
            let read = match self.lines.fill_buf() {
                Ok([]) if self.line.is_empty() => return Ok(None),
                Ok([]) => return Err("the connection ended within a line".to_owned()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if timed_out(&error) => return Err(silent()),
                Err(error) => return Err(error.to_string()),
            };
            let end = read.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(read.len(), |at| at + 1);
            if self.line.len() + taken > self.bytes_max {
                return Err(format!("a line has more than {} bytes", self.bytes_max));
            }
            self.line.extend_from_slice(&read[..taken]);
            self.lines.consume(taken);
            if end.is_some() {
                break;
            }
        }
        let word = serde_json::from_slice(&self.line);
        word.map(Some).map_err(|error| format!("invalid protocol message: {error}"))
    }
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

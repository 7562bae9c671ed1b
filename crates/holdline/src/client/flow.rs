//! A server's stream, read with an end to the patience: one that falls silent is no longer waited
//! for.
//!
//! The reader of a socket waits for ever, so it is on a thread of its own, which ends with the
//! process. Invariant: a read returns within [`SILENCE`].

use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Longest silence of a stream; the API says something every 15 s.
const SILENCE: Duration = Duration::from_secs(60);

/// Bytes of one piece, and pieces that wait for whoever reads.
const PIECE: usize = 16 * 1024;
const WAITING_MAX: usize = 64;

/// A stream.
pub struct Flow {
    from: Receiver<io::Result<Vec<u8>>>,
    silence: Duration,
    piece: Vec<u8>,
    taken: usize,
}

impl Flow {
    /// Of what this gives.
    pub fn of(reader: impl Read + Send + 'static) -> io::Result<Flow> {
        Flow::within(reader, SILENCE)
    }

    fn within(mut reader: impl Read + Send + 'static, silence: Duration) -> io::Result<Flow> {
        let (tell, from) = sync_channel(WAITING_MAX);
        let read = move || {
            loop {
                let mut piece = vec![0; PIECE];
                let got = reader.read(&mut piece).map(|count| {
                    piece.truncate(count);
                    piece
                });
                let is_last = got.as_ref().is_ok_and(Vec::is_empty) || got.is_err();
                // Nobody listens any more: it ends.
                if tell.send(got).is_err() || is_last {
                    return;
                }
            }
        };
        thread::Builder::new().name("stream".into()).spawn(read)?;
        Ok(Flow { from, silence, piece: Vec::new(), taken: 0 })
    }
}

impl Read for Flow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            self.taken = 0;
            self.piece = match self.from.recv_timeout(self.silence) {
                Ok(piece) => piece?,
                Err(RecvTimeoutError::Disconnected) => Vec::new(),
                Err(RecvTimeoutError::Timeout) => {
                    let why = format!("the server sent nothing for {} s", self.silence.as_secs());
                    return Err(io::Error::new(ErrorKind::TimedOut, why));
                }
            };
        }
        let count = into.len().min(self.piece.len() - self.taken);
        into[..count].copy_from_slice(&self.piece[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_stream_is_read_to_its_end_and_one_that_falls_silent_is_given_up() {
        let text = "x".repeat(3 * PIECE + 1);
        let mut heard = String::new();
        let mut flow = Flow::of(io::Cursor::new(text.clone())).expect("a thread");
        flow.read_to_string(&mut heard).expect("to its end");
        assert_eq!(heard, text);
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let mut flow = Flow::within(ours, Duration::from_millis(1)).expect("a thread");
        let error = flow.read(&mut [0; 8]).expect_err("nobody says anything");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}

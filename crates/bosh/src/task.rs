//! The task of one session: what its machine decides is carried out here.
//!
//! Invariant: what waits for the stream is at most what one request says beyond
//! [`UNWRITTEN_BYTES_MAX`]; until it is written no further request is looked at.

use crate::sessions::Posted;
use proto_xmpp::bosh::{BoshOutput, BoshSession, BoshTerms};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// Bytes of stanzas that may wait for the stream while another request is looked at.
const UNWRITTEN_BYTES_MAX: usize = 16 * 1024;

/// Bytes that are read of the stream at once.
const PIECE: usize = 16 * 1024;

/// How long a stream may take what was said last.
const FAREWELL: Duration = Duration::from_secs(5);

/// Longest sleep, where nothing is due.
const LONG: Duration = Duration::from_secs(3_600);

/// Parts with which a session starts.
pub(crate) struct SessionStart {
    pub(crate) terms: BoshTerms,
    pub(crate) sid: Box<str>,
    pub(crate) now_us: fn() -> u64,
}

/// A session with its stream.
struct Running {
    session: BoshSession,
    stream: UnixStream,
    /// The stream has an end, and it was seen.
    has_ended: bool,
    out: BoshOutput,
    unwritten: Vec<u8>,
    tickets: Vec<(u64, oneshot::Sender<Arc<[u8]>>)>,
    next_ticket: u64,
    now_us: fn() -> u64,
}

/// Runs a session from its first request to its end.
pub(crate) async fn run(
    start: SessionStart,
    Posted { request, reply, room }: Posted,
    mut from: mpsc::Receiver<Posted>,
    stream: UnixStream,
) {
    let SessionStart { terms, sid, now_us } = start;
    let mut out = BoshOutput::default();
    let now_ms = now_us() / 1_000;
    let session = match BoshSession::begin(now_ms, (terms, &sid), (request, 0), &mut out) {
        Ok(session) => session,
        Err(fault) => {
            // Nobody listens any more where that fails.
            let _ = reply.send(fault.answer().into());
            return;
        }
    };
    drop(room);
    let (unwritten, tickets) = (Vec::new(), vec![(0, reply)]);
    let (has_ended, next_ticket) = (false, 1);
    let mut running =
        Running { session, stream, has_ended, out, unwritten, tickets, next_ticket, now_us };
    running.carry_out();
    while !running.session.is_over() && running.turn(&mut from).await {}
    // Whoever does not read it by then does not hear it.
    let _ = timeout(FAREWELL, running.write_out()).await;
}

impl Running {
    fn now_ms(&self) -> u64 {
        (self.now_us)() / 1_000
    }

    /// Waits for the next thing, and does what comes of it. False: nobody can ask any more.
    async fn turn(&mut self, from: &mut mpsc::Receiver<Posted>) -> bool {
        let due = self.session.due_ms().map(|due_ms| due_ms.saturating_sub(self.now_ms()));
        let nap = due.map_or(LONG, Duration::from_millis);
        let takes = self.unwritten.len() <= UNWRITTEN_BYTES_MAX;
        let (reads, writes) =
            (!self.has_ended && !self.session.is_full(), !self.unwritten.is_empty());
        tokio::select! {
            posted = from.recv(), if takes => match posted {
                Some(posted) => self.ask(posted),
                None => return false,
            },
            ready = self.stream.readable(), if reads => match ready {
                Ok(()) => self.read(),
                Err(_) => self.end(),
            },
            ready = self.stream.writable(), if writes => match ready {
                Ok(()) => self.write(),
                Err(_) => self.end(),
            },
            () = sleep(nap) => {
                let now_ms = self.now_ms();
                self.session.wake(now_ms, &mut self.out);
            }
        }
        self.carry_out();
        true
    }

    fn ask(&mut self, Posted { request, reply, room: _room }: Posted) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.push((ticket, reply));
        let now_ms = self.now_ms();
        self.session.take(now_ms, request, ticket, &mut self.out);
    }

    fn read(&mut self) {
        let mut piece = [0; PIECE];
        match self.stream.try_read(&mut piece) {
            Ok(0) => self.end(),
            Ok(count) => {
                let now_ms = self.now_ms();
                self.session.heard(now_ms, &piece[..count], &mut self.out);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.end(),
        }
    }

    async fn write_out(&mut self) {
        while !self.unwritten.is_empty() && self.stream.writable().await.is_ok() {
            self.write();
        }
    }

    fn write(&mut self) {
        match self.stream.try_write(&self.unwritten) {
            Ok(count) => drop(self.unwritten.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => {
                // What it said before its end is still to be read.
                self.unwritten.clear();
            }
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.unwritten.clear();
        let now_ms = self.now_ms();
        self.session.stream_ended(now_ms, &mut self.out);
    }

    fn carry_out(&mut self) {
        let said = std::mem::take(&mut self.out.stream);
        if !self.has_ended {
            self.unwritten.extend_from_slice(&said);
        }
        for (ticket, answer) in std::mem::take(&mut self.out.answers) {
            let Some(at) = self.tickets.iter().position(|(other, _)| *other == ticket) else {
                base::never!(true, "an answer to nobody");
                continue;
            };
            let (_, reply) = self.tickets.swap_remove(at);
            // Whoever has gone asks for it again.
            let _ = reply.send(answer);
        }
    }
}

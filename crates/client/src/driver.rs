//! A client machine over a link: what a shard does for a connection, for one that is waited for.
//!
//! The driver shows the machine its input, sends its output, wakes it, reports silence to it, and
//! keeps its words for the owner. It knows no protocol, and does not decide when to connect.

use crate::fault::{ConnectError, ConnectErrorKind};
use crate::link::Link;
use base::hash::HashKey;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::limits::Limits;
use model::link::{Link as Known, Protocol};
use model::machine::{Input, Machine, Outbox, Piece};
use std::collections::VecDeque;
use std::time::Duration;

/// Longest that one wait may last, so that a clock that steps or a lost wake does no harm.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(1);

/// A client machine, and its link while there is one.
pub(crate) struct Driver<M: Machine> {
    /// The machine.
    pub machine: M,
    /// Words of the machine that nobody took yet.
    pub words: VecDeque<M::Up>,
    out: Outbox<M::Up>,
    link: Option<Link>,
    known: Known,
    limits: Limits,
    /// When the machine wants to be woken.
    wake_at: Option<Instant>,
    /// Longest silence, milliseconds; 0: any.
    silence_ms: u32,
    heard_at: Instant,
}

impl<M: Machine> Driver<M> {
    /// A machine without a link.
    pub fn new(machine: M, protocol: Protocol) -> Driver<M> {
        Driver {
            machine,
            words: VecDeque::new(),
            out: Outbox::new(HashKey::new(0, 0), [0; 32]),
            link: None,
            known: Known::loopback(protocol),
            limits: Limits::default(),
            wake_at: None,
            silence_ms: 0,
            heard_at: Instant::default(),
        }
    }

    /// Whether there is a link.
    pub fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Whether something waits for the socket.
    pub fn is_writing(&self) -> bool {
        self.link.as_ref().is_some_and(Link::has_pending)
    }

    /// The machine has this link from now on.
    pub fn open(&mut self, now: Now, link: Link) -> Result<(), CloseReason> {
        self.link = Some(link);
        self.heard_at = now.mono;
        let opened = self.machine.opened(now, &self.known, &mut self.out);
        self.drain(opened)
    }

    /// Tells the machine something.
    pub fn command(&mut self, now: Now, down: M::Down) -> Result<(), CloseReason> {
        let told = self.machine.command(now, down, &mut self.out);
        self.drain(told)
    }

    /// One look at the link and the clock.
    pub fn turn(&mut self, now: Now) -> Result<(), CloseReason> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let result = link.flush().and_then(|()| link.receive());
        let taken = self.take_inbox(now);
        taken.and(result)?;
        if self.wake_at.is_some_and(|at| at <= now.mono) {
            self.wake_at = None;
            let woken = self.machine.wake(now, &mut self.out);
            self.drain(woken)?;
        }
        let silence = Duration::from_millis(u64::from(self.silence_ms));
        if !silence.is_zero() && now.mono - self.heard_at > silence {
            let silent = self.machine.silent(now, &mut self.out);
            self.drain(silent)?;
        }
        Ok(())
    }

    /// Waits for the socket, no longer than until then, nor than the machine's own time.
    pub fn wait(&self, now: Now, until: Instant) {
        let mut span = (until - now.mono).min(WAIT_MAX);
        if let Some(at) = self.wake_at {
            span = span.min(at - now.mono);
        }
        if let Some(link) = &self.link {
            link.wait(span);
        }
    }

    /// The link ends, with a farewell of its layers where the end is ours.
    pub fn drop_link(&mut self, now: Now, reason: CloseReason) {
        let Some(mut link) = self.link.take() else { return };
        if reason == CloseReason::OwnStop {
            link.close();
        }
        self.machine.closed(now, reason, &mut self.out);
        self.wake_at = None;
        self.silence_ms = 0;
        let _ = self.drain(Ok(())); // there is no link that could fail
    }

    /// The link ends without a word.
    pub fn forget_link(&mut self) {
        self.link = None;
    }

    /// Shows the machine what has come.
    fn take_inbox(&mut self, now: Now) -> Result<(), CloseReason> {
        let Some(link) = &mut self.link else { return Ok(()) };
        if link.inbox.is_empty() {
            return Ok(());
        }
        self.heard_at = now.mono;
        let bytes = std::mem::take(&mut link.inbox);
        let mut input = Input::new(&bytes, &self.known, &self.limits);
        let result = self.machine.receive(now, &mut input, &mut self.out);
        link.inbox = bytes[input.taken()..].to_vec();
        self.drain(result)
    }

    /// Does what the machine wants done.
    fn drain(&mut self, result: Result<(), CloseReason>) -> Result<(), CloseReason> {
        let mut bytes = Vec::new();
        self.out.drain_wire(|piece| match piece {
            Piece::Own(own) => bytes.extend_from_slice(own),
            Piece::Shared(frame) => bytes.extend_from_slice(&frame),
        });
        self.wake_at = self.out.take_wake().or(self.wake_at);
        self.silence_ms = self.out.take_silence().unwrap_or(self.silence_ms);
        self.out.take_tell_drained();
        self.words.extend(self.out.words());
        let sent = match &mut self.link {
            Some(link) if !bytes.is_empty() => link.send(&bytes),
            _ => Ok(()),
        };
        result.and(sent)
    }
}

pub(crate) fn random() -> Result<[u8; 18], ConnectError> {
    let mut bytes = [0; 18];
    getrandom::fill(&mut bytes).map_err(|error| {
        ConnectError::new(ConnectErrorKind::Settings, format!("random number generator: {error}"))
    })?;
    Ok(bytes)
}

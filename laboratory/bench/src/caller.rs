//! The minimal client: opens lines, exchanges messages, holds still, does what its input says.
//!
//! A floor and Holdline are called by this same program, so that a ratio holds nothing of the
//! client. It is a process of its own with one thread; a line that is not being used is not even
//! watched, so that its end of a connection costs the kernel the same whoever is called. The
//! [`Speech`] of a line decides its content; orders and answers are in [`orders`].
//!
//! ```text
//! calling ──connected, hello sent──► asked ──answered──► open
//! ```

pub mod orders;
pub mod probe;
pub mod sockets;
pub mod speech;

use crate::clock;
use rustix::fd::OwnedFd;
use sockets::{EventFlags, Poller, patient};
use speech::{Heard, Speech};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// All lines of the caller.
pub struct Caller {
    to: SocketAddr,
    speech: Speech,
    poller: Poller,
    lines: Vec<Line>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

struct Line {
    socket: OwnedFd,
    open: bool,
    /// The number of its device.
    number: u32,
    /// Messages sent.
    sent: u32,
    /// Messages not answered yet.
    owed: u32,
    /// Bytes of an answer that is not complete.
    rest: Vec<u8>,
}

impl Caller {
    /// A caller without lines.
    pub fn new(to: SocketAddr, speech: Speech) -> io::Result<Caller> {
        let poller = Poller::new(256)?;
        let (buffer, out) = (vec![0; 64 * 1024], Vec::with_capacity(64 * 1024));
        Ok(Caller { to, speech, poller, lines: Vec::new(), buffer, out })
    }

    /// Opens `count` lines, at most `window` of them under way at once, for the devices from
    /// `first` on.
    pub fn open(&mut self, count: usize, window: usize, first: u32) -> io::Result<()> {
        let (begin, end) = (self.lines.len(), self.lines.len() + count);
        let mut open = begin;
        let mut last = clock::now();
        while open < end {
            while self.lines.len() < end && self.lines.len() - open < window {
                self.call(first + (self.lines.len() - begin) as u32)?;
            }
            for (slot, writable) in self.poller.wait(Duration::from_millis(100))? {
                if self.opened(slot, writable)? {
                    self.poller.remove(&self.lines[slot].socket)?;
                    open += 1;
                    last = clock::now();
                }
            }
            patient(last)?;
        }
        Ok(())
    }

    /// Every line sends `depth` messages and, when all are answered, again, for `span`. Returns
    /// how many were answered once no answer is owed any more.
    pub fn exchange(&mut self, span: Duration, depth: u32) -> io::Result<u64> {
        self.watch_all()?;
        let end = clock::now() + span;
        let (mut answered, mut owing) = (0, self.lines.len());
        let mut last = clock::now();
        for slot in 0..self.lines.len() {
            self.say(slot, depth)?;
        }
        while owing > 0 {
            let ready = self.poller.wait(Duration::from_millis(100))?;
            let goes_on = clock::now() < end;
            for (slot, _) in ready {
                answered += u64::from(self.hear(slot)?.answers);
                last = clock::now();
                match self.lines[slot].owed {
                    0 if goes_on => self.say(slot, depth)?,
                    0 => owing -= 1,
                    _ => {}
                }
            }
            patient(last)?;
        }
        self.unwatch_all()?;
        Ok(answered)
    }

    /// One line after the other sends one message, `per_s` of them a second, for `span`. Returns
    /// how many were answered.
    pub fn pace(&mut self, span: Duration, per_s: u32) -> io::Result<u64> {
        self.watch_all()?;
        let began = clock::now();
        let total = (span.as_secs_f64() * f64::from(per_s)) as u64;
        let (mut sent, mut answered) = (0, 0);
        let mut last = began;
        while answered < total {
            let due = (clock::since(began).as_secs_f64() * f64::from(per_s)) as u64;
            while sent < due.min(total) {
                self.say((sent % self.lines.len() as u64) as usize, 1)?;
                sent += 1;
            }
            for (slot, _) in self.poller.wait(Duration::from_millis(2))? {
                answered += u64::from(self.hear(slot)?.answers);
                last = clock::now();
            }
            patient(last)?;
        }
        self.unwatch_all()?;
        Ok(answered)
    }

    /// Acknowledges pushes until `count` of them have come, or for `span` at most. Returns how
    /// many came. `listening` is called as soon as none would be missed.
    pub fn listen(
        &mut self,
        count: u64,
        span: Duration,
        listening: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<u64> {
        self.watch_all()?;
        listening()?;
        let end = clock::now() + span;
        let mut came = 0;
        while came < count && clock::now() < end {
            for (slot, _) in self.poller.wait(Duration::from_millis(100))? {
                came += u64::from(self.hear(slot)?.pushes);
            }
        }
        self.unwatch_all()?;
        Ok(came)
    }

    /// Closes all lines.
    pub fn close(&mut self) {
        self.lines.clear();
    }

    fn call(&mut self, number: u32) -> io::Result<()> {
        let socket = sockets::dial(self.to, None)?;
        self.poller.add(&socket, self.lines.len(), EventFlags::IN | EventFlags::OUT)?;
        let line = Line { socket, open: false, number, sent: 0, owed: 0, rest: Vec::new() };
        self.lines.push(line);
        Ok(())
    }

    /// Takes a line one step further; whether it has just been opened.
    fn opened(&mut self, slot: usize, writable: bool) -> io::Result<bool> {
        let line = &mut self.lines[slot];
        if line.sent == 0 && writable {
            sockets::connected(&line.socket)?;
            line.sent = 1;
            self.out.clear();
            self.speech.hello(line.number, &mut self.out);
            if self.out.is_empty() {
                (line.open, line.sent) = (true, 0);
                return Ok(true);
            }
            write(&line.socket, &self.out)?;
        }
        if line.open || line.sent == 0 || !self.hear(slot)?.welcomed {
            return Ok(false);
        }
        let line = &mut self.lines[slot];
        (line.open, line.sent) = (true, 0);
        Ok(true)
    }

    fn say(&mut self, slot: usize, depth: u32) -> io::Result<()> {
        let line = &mut self.lines[slot];
        self.out.clear();
        for _ in 0..depth {
            line.sent += 1;
            self.speech.message(line.sent, &mut self.out);
        }
        line.owed += depth;
        write(&line.socket, &self.out)
    }

    /// Reads a line and acknowledges its pushes.
    fn hear(&mut self, slot: usize) -> io::Result<Heard> {
        let line = &mut self.lines[slot];
        let mut all = Heard::default();
        while let Some(count) = sockets::read(&line.socket, &mut self.buffer)? {
            self.out.clear();
            line.rest.extend_from_slice(&self.buffer[..count]);
            let heard =
                self.speech.hear(&mut line.rest, line.sent, &mut line.owed, &mut self.out)?;
            if line.rest.is_empty() {
                line.rest = Vec::new(); // an idle line owns no buffer
            }
            if !self.out.is_empty() {
                write(&line.socket, &self.out)?;
            }
            all.add(&heard);
            if count < self.buffer.len() {
                break; // a short read has emptied it
            }
        }
        Ok(all)
    }

    fn watch_all(&self) -> io::Result<()> {
        let mut lines = self.lines.iter().enumerate();
        lines.try_for_each(|(slot, line)| self.poller.add(&line.socket, slot, EventFlags::IN))
    }

    fn unwatch_all(&self) -> io::Result<()> {
        self.lines.iter().try_for_each(|line| self.poller.remove(&line.socket))
    }
}

fn write(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    match sockets::write(socket, bytes)? {
        Some(all) if all == bytes.len() => Ok(()),
        _ => Err(io::Error::other("a socket's buffer is full: the other end does not read")),
    }
}

#[cfg(test)]
mod tests;

//! The minimal client: opens lines, exchanges messages, holds still, does what its input says.
//!
//! A floor and Holdline are called by this same program, so that a ratio holds nothing of the
//! client. It is a process of its own with one thread; a line that is not being used is not even
//! watched, so that its end of a connection costs the kernel the same whoever is called. What is
//! said on a line is its [`Speech`]'s business; orders and answers are in [`orders`].
//!
//! ```text
//! calling ──connected, hello sent──► asked ──answered──► open
//! ```

pub mod orders;
pub mod probe;
pub mod speech;

use crate::clock;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use speech::{Heard, Speech};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// Without any progress for so long, what was asked for has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// All lines of the caller.
pub struct Caller {
    to: SocketAddr,
    speech: Speech,
    poller: OwnedFd,
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
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
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
            for (slot, writable) in self.wait(Duration::from_millis(100))? {
                if self.opened(slot, writable)? {
                    epoll::delete(&self.poller, &self.lines[slot].socket)?;
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
            let ready = self.wait(Duration::from_millis(100))?;
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
            for (slot, _) in self.wait(Duration::from_millis(2))? {
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
            for (slot, _) in self.wait(Duration::from_millis(100))? {
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
        let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
        net::sockopt::set_tcp_nodelay(&socket, true)?;
        // Closing resets: a port in TIME_WAIT would cost the next measurement less than a new one.
        net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        match net::connect(&socket, &self.to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno.into()),
        }
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        self.watch(&socket, self.lines.len(), both)?;
        let line = Line { socket, open: false, number, sent: 0, owed: 0, rest: Vec::new() };
        self.lines.push(line);
        Ok(())
    }

    /// Takes a line one step further; whether it has just been opened.
    fn opened(&mut self, slot: usize, writable: bool) -> io::Result<bool> {
        let line = &mut self.lines[slot];
        if line.sent == 0 && writable {
            net::sockopt::socket_error(&line.socket)??;
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
        loop {
            let count = match rustix::io::read(&line.socket, &mut self.buffer[..]) {
                Ok(0) => return Err(io::Error::other("the other end closed a line")),
                Ok(count) => count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
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

    /// The lines that are ready, and whether each takes bytes.
    fn wait(&self, timeout: Duration) -> io::Result<Vec<(usize, bool)>> {
        let mut events = Vec::with_capacity(256);
        let nanos = i64::from(timeout.subsec_nanos());
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: nanos };
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.poller, spare, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let line = |event: &epoll::Event| {
            let flags = event.flags; // a copy, for the kernel's record is packed
            (event.data.u64() as usize, flags.contains(epoll::EventFlags::OUT))
        };
        Ok(events.iter().map(line).collect())
    }

    fn watch(&self, socket: &OwnedFd, slot: usize, flags: epoll::EventFlags) -> io::Result<()> {
        let token = epoll::EventData::new_u64(slot as u64);
        Ok(epoll::add(&self.poller, socket, token, flags | epoll::EventFlags::ET)?)
    }

    fn watch_all(&self) -> io::Result<()> {
        let mut lines = self.lines.iter().enumerate();
        lines.try_for_each(|(slot, line)| self.watch(&line.socket, slot, epoll::EventFlags::IN))
    }

    fn unwatch_all(&self) -> io::Result<()> {
        self.lines.iter().try_for_each(|line| Ok(epoll::delete(&self.poller, &line.socket)?))
    }
}

fn write(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    match net::send(socket, bytes, net::SendFlags::NOSIGNAL)? {
        all if all == bytes.len() => Ok(()),
        _ => Err(io::Error::other("a socket's buffer is full: the other end does not read")),
    }
}

fn patient(last: Instant) -> io::Result<()> {
    if clock::since(last) < PATIENCE {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer for 20 s"))
}

#[cfg(test)]
mod tests;

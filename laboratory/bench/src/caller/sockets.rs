//! Sockets of the bench's own callers, the minimal one and the swarm: one thread, one poller, and
//! orders by lines of input. It knows nothing of what is said on a socket.

use crate::clock;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

pub use rustix::event::epoll::EventFlags;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// Without any progress for so long, what was asked for has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sockets that are waited for, each by its slot.
pub struct Poller {
    poller: OwnedFd,
    events_max: usize,
}

impl Poller {
    /// No events yet; at most so many are reported ready at once.
    pub fn new(events_max: usize) -> io::Result<Poller> {
        Ok(Poller { poller: epoll::create(epoll::CreateFlags::CLOEXEC)?, events_max })
    }

    /// Watches a socket by its edges.
    pub fn add(&self, socket: &OwnedFd, slot: usize, flags: EventFlags) -> io::Result<()> {
        let token = epoll::EventData::new_u64(slot as u64);
        Ok(epoll::add(&self.poller, socket, token, flags | EventFlags::ET)?)
    }

    /// Watches it no more.
    pub fn remove(&self, socket: &OwnedFd) -> io::Result<()> {
        Ok(epoll::delete(&self.poller, socket)?)
    }

    /// The slots that are ready, and whether each takes bytes.
    pub fn wait(&self, timeout: Duration) -> io::Result<Vec<(usize, bool)>> {
        let mut events = Vec::with_capacity(self.events_max);
        let nanos = i64::from(timeout.subsec_nanos());
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: nanos };
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.poller, spare, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |event: &epoll::Event| {
            let flags = event.flags; // a copy, for the kernel's record is packed
            (event.data.u64() as usize, flags.contains(EventFlags::OUT))
        };
        Ok(events.iter().map(ready).collect())
    }
}

/// Begins a call.
pub fn dial(to: SocketAddr, from: Option<Ipv4Addr>) -> io::Result<OwnedFd> {
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
    net::sockopt::set_tcp_nodelay(&socket, true)?;
    // Closing resets: a port in TIME_WAIT would cost the next measurement less than a new one.
    net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
    if let Some(from) = from {
        net::bind(&socket, &SocketAddr::from((from, 0)))?;
    }
    match net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether a call that has ended came through.
pub fn connected(socket: &OwnedFd) -> io::Result<()> {
    Ok(net::sockopt::socket_error(socket)??)
}

/// Bytes that were read; `None`: there are none now. The other end's close is an error.
pub fn read(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match rustix::io::read(socket, &mut *buffer) {
            Ok(0) => return Err(io::Error::other("the other end closed a connection")),
            Ok(count) => return Ok(Some(count)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Bytes that the socket took; `None`: it takes none now.
pub fn write(socket: &OwnedFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    match net::send(socket, bytes, net::SendFlags::NOSIGNAL) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// An error when nothing has happened for too long.
pub fn patient(last: Instant) -> io::Result<()> {
    if clock::since(last) < PATIENCE {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "nothing happened for 20 s"))
}

/// Does what the lines of the input say, and answers each by `done` and what came of it, or by
/// `failed` and why. The end of the input is the end.
pub fn obey<T: Display>(mut order: impl FnMut(&str) -> io::Result<T>) -> io::Result<()> {
    let mut answers = io::stdout();
    for line in io::stdin().lock().lines() {
        match order(&line?) {
            Ok(answer) => writeln!(answers, "done {answer}")?,
            Err(error) => writeln!(answers, "failed: {error}")?,
        }
    }
    Ok(())
}

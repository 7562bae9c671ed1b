//! Minimal programs: what the kernel alone costs for the same work.
//!
//! One thread, edge-triggered epoll, one read buffer, no allocation for a message. They check
//! nothing and serve nobody but the measurement; a ratio against one of them is what Holdline adds.
//! `echo` sends back what it reads, `login` stores sixteen bytes of a hello in a record and answers
//! with 64 bytes, `hold` accepts and does not even watch. They end when their input does.

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};

const LISTENER: u64 = u64::MAX;
const INPUT: u64 = u64::MAX - 1;
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// Shortest hello that is answered, bytes.
const HELLO_BYTES_MIN: usize = 40;
/// Length of the answer, bytes.
const ANSWER_BYTES: usize = 64;

/// Work of a floor on its connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Echo,
    Login,
    Hold,
}

/// State of a connection.
struct Record {
    socket: OwnedFd,
    id: [u8; 16],
    hellos: u32,
}

struct Floor {
    kind: Kind,
    listener: OwnedFd,
    poller: OwnedFd,
    records: Vec<Option<Record>>,
    free: Vec<u32>,
    held: Vec<OwnedFd>,
    buffer: Vec<u8>,
}

/// Runs the floor `name` on a free port of loopback, which it prints, until its input ends.
pub fn run(name: &str) -> io::Result<()> {
    let kind = match name {
        "echo" => Kind::Echo,
        "login" => Kind::Login,
        "hold" => Kind::Hold,
        _ => return Err(io::Error::other("floors are echo, login and hold")),
    };
    let mut floor = Floor::open(kind)?;
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(&floor.poller, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => floor.accept()?,
                INPUT => return Ok(()),
                slot => floor.serve(slot as usize),
            }
        }
    }
}

impl Floor {
    fn open(kind: Kind) -> io::Result<Floor> {
        let listener = net::socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
        net::sockopt::set_tcp_nodelay(&listener, true)?; // accepted sockets inherit it
        net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        net::listen(&listener, 4096)?;
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (readable, data) = (epoll::EventFlags::IN, epoll::EventData::new_u64);
        epoll::add(&poller, &listener, data(LISTENER), readable)?;
        // A file or nothing as input cannot be watched: the floor then runs until it is killed.
        let _ = epoll::add(&poller, io::stdin(), data(INPUT), readable);
        let address = SocketAddr::try_from(net::getsockname(&listener)?)?;
        writeln!(io::stdout(), "ready {address}")?;
        let records = Vec::with_capacity(20_000);
        let (free, held, buffer) = (Vec::new(), Vec::new(), vec![0; 64 * 1024]);
        Ok(Floor { kind, listener, poller, records, free, held, buffer })
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let socket = match net::accept_with(&self.listener, FLAGS) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if self.kind == Kind::Hold {
                self.held.push(socket);
                continue;
            }
            let slot = self.free.pop().unwrap_or(self.records.len() as u32);
            let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            let token = epoll::EventData::new_u64(u64::from(slot));
            epoll::add(&self.poller, &socket, token, events)?;
            let record = Some(Record { socket, id: [0; 16], hellos: 0 });
            match self.records.get_mut(slot as usize) {
                Some(place) => *place = record,
                None => self.records.push(record),
            }
        }
    }

    /// Reads until the socket is empty; whatever goes wrong ends the connection.
    fn serve(&mut self, slot: usize) {
        let Some(Some(record)) = self.records.get_mut(slot) else { return };
        loop {
            let count = match rustix::io::read(&record.socket, &mut self.buffer[..]) {
                Ok(0) => break,
                Ok(count) => count,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let answer = match self.kind {
                Kind::Login if count < HELLO_BYTES_MIN => break,
                Kind::Login => {
                    record.id.copy_from_slice(&self.buffer[..16]);
                    record.hellos += 1;
                    &self.buffer[..ANSWER_BYTES]
                }
                _ => &self.buffer[..count],
            };
            let sent = net::send(&record.socket, answer, net::SendFlags::NOSIGNAL);
            if sent != Ok(answer.len()) {
                break;
            }
            if count < self.buffer.len() {
                return; // a short read has emptied it
            }
        }
        self.records[slot] = None;
        self.free.push(slot as u32);
    }
}

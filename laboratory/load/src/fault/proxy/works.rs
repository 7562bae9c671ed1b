//! The proxy's thread: new connections, ready sockets, timers and orders.
//!
//! Sockets are registered once, by their edges. The state of the edges is kept with a pipe, so that
//! one that was silenced goes on when it may. Towards an IPv4 loopback target a call comes from the
//! same loopback address as the client's, whose ports are then as many as the client's own.

use super::pipe::{FAREWELL, Loan, Next, Pipe, UP};
use super::{Order, PIPES_MAX, ProxyCounts, QUEUED_BYTES_MAX};
use base::slab::{Key, Slab};
use lab::plan::Network;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

const DOOR: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;
/// Events taken at once.
const EVENTS: usize = 256;
/// Callers that may wait to be taken in.
const BACKLOG: i32 = 4_096;
/// Connections taken in in one turn.
const ACCEPTS: usize = 256;
/// The one read buffer, bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// Time after which somebody is taken in again, when there were no descriptors.
const STARVED: Duration = Duration::from_millis(100);
/// Multiplied with a number it spreads neighbours evenly over 32 bits.
const SPREAD: u32 = 0x9e37_79b9;
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

pub(super) struct Works {
    poller: OwnedFd,
    /// Listens; or holds its port while all are refused.
    door: Option<OwnedFd>,
    address: SocketAddr,
    to: Vec<SocketAddr>,
    bell: Arc<OwnedFd>,
    orders: Receiver<Order>,
    pipes: Slab<Pipe>,
    how: Option<Network>,
    /// Lots below this have the fault, of 2^32.
    below: u64,
    timers: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Ways with more to do.
    again: VecDeque<u64>,
    buffer: Vec<u8>,
    queued: usize,
    passed: [u64; 2],
    counts: ProxyCounts,
    now: Instant,
    over: bool,
}

impl Works {
    pub(super) fn new(
        listen: SocketAddr,
        to: Vec<SocketAddr>,
        bell: Arc<OwnedFd>,
        orders: Receiver<Order>,
    ) -> io::Result<Works> {
        let door = bound(listen)?;
        net::listen(&door, BACKLOG)?;
        let address = SocketAddr::try_from(net::getsockname(&door)?)?;
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let token = epoll::EventData::new_u64(BELL);
        epoll::add(&poller, &*bell, token, epoll::EventFlags::IN)?;
        let works = Works {
            poller,
            door: Some(door),
            address,
            to,
            bell,
            orders,
            pipes: Slab::new(PIPES_MAX),
            how: None,
            below: 0,
            timers: BinaryHeap::new(),
            again: VecDeque::new(),
            buffer: vec![0; BUFFER_BYTES],
            queued: 0,
            passed: [0; 2],
            counts: ProxyCounts::default(),
            now: clock(),
            over: false,
        };
        works.watch_door()?;
        Ok(works)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn run(&mut self) {
        while !self.over {
            self.turn();
        }
        // The ends learn at once that there is nobody left between them.
        for slot in 0..self.pipes.slots() {
            if let Some((key, _)) = self.pipes.tenant(slot) {
                self.end(key, true);
            }
        }
    }

    fn turn(&mut self) {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let timeout = self.timeout();
        // Interrupted by a signal it looks at its clock and comes again.
        let waited = epoll::wait(&self.poller, &mut events, timeout.as_ref());
        let ready: Vec<_> = waited.map_or(Vec::new(), |(events, _)| {
            events.iter().map(|event| (event.data.u64(), event.flags)).collect()
        });
        self.now = clock();
        for _ in 0..self.again.len() {
            let Some(token) = self.again.pop_front() else { break };
            self.pump(token);
        }
        for (token, flags) in ready {
            match token {
                DOOR => self.accept(ACCEPTS),
                BELL => self.obey(),
                token => self.on_socket(token, flags),
            }
        }
        while let Some(&Reverse((at, token))) = self.timers.peek()
            && at <= self.now
        {
            self.timers.pop();
            self.due(at, token);
        }
    }

    /// The counts so far.
    fn counts(&self) -> ProxyCounts {
        let [bytes_up, bytes_down] = self.passed;
        ProxyCounts { open: self.pipes.len() as u64, bytes_up, bytes_down, ..self.counts }
    }

    fn timeout(&self) -> Option<Timespec> {
        let next = match self.again.is_empty() {
            true => self.timers.peek().map(|Reverse((at, _))| *at)?,
            false => self.now,
        };
        let ms = next.saturating_duration_since(clock()).as_nanos().div_ceil(1_000_000) as i64;
        Some(Timespec { tv_sec: ms / 1_000, tv_nsec: (ms % 1_000) * 1_000_000 })
    }

    fn due(&mut self, at: Instant, token: u64) {
        if token == DOOR {
            // It may have been closed meanwhile: then there is nothing to watch.
            let _ = self.watch_door();
            return;
        }
        let (key, way) = way_of(token);
        let Some(pipe) = self.pipes.at_mut(key) else { return };
        if pipe.ways[way].armed != Some(at) {
            return; // an earlier one stood for it since
        }
        pipe.ways[way].armed = None;
        if pipe.cut { self.end(key, false) } else { self.pump(token) }
    }

    fn watch_door(&self) -> io::Result<()> {
        let (token, flags) = (epoll::EventData::new_u64(DOOR), epoll::EventFlags::IN);
        let Some(door) = &self.door else { return Ok(()) };
        match epoll::add(&self.poller, door, token, flags) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn watch(&self, socket: &OwnedFd, token: u64) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        epoll::add(&self.poller, socket, epoll::EventData::new_u64(token), flags)
    }

    fn accept(&mut self, most: usize) {
        for _ in 0..most {
            let Some(door) = &self.door else { return };
            match net::acceptfrom_with(door, FLAGS) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                    self.take_in(socket, peer.unwrap_or(self.address));
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // No descriptor or memory: callers wait in the kernel's queue for a while.
                    self.counts.starved += 1;
                    let _ = epoll::delete(&self.poller, door);
                    self.timers.push(Reverse((self.now + STARVED, DOOR)));
                    return;
                }
            }
        }
    }

    fn take_in(&mut self, socket: OwnedFd, peer: SocketAddr) {
        let lot = (self.counts.accepted as u32).wrapping_mul(SPREAD);
        self.counts.accepted += 1;
        let counted = match self.fault_of(lot) {
            Some(Network::Refuse) => &mut self.counts.refused,
            Some(Network::Reset) => &mut self.counts.reset,
            _ if self.pipes.len() < PIPES_MAX => {
                let _ = sockopt::set_tcp_nodelay(&socket, true);
                let Ok(key) = self.pipes.insert(Pipe::new(socket, peer, lot)) else { return };
                let client = self.pipes.at(key).and_then(|pipe| pipe.ends[0].as_ref());
                let watched =
                    client.is_some_and(|client| self.watch(client, key.pack() * 2).is_ok());
                return if watched { self.call(key) } else { self.end(key, true) };
            }
            _ => &mut self.counts.starved,
        };
        *counted += 1;
        reset(&socket);
    }

    fn fault_of(&self, lot: u32) -> Option<Network> {
        self.how.filter(|_| u64::from(lot) < self.below)
    }

    /// Calls the target for a client, unless nothing passes now.
    fn call(&mut self, key: Key) {
        let Some(pipe) = self.pipes.at(key) else { return };
        if self.fault_of(pipe.lot) == Some(Network::Silence) || pipe.ends[1].is_some() {
            return;
        }
        let to = self.to[key.slot as usize % self.to.len()];
        let from = Some(pipe.peer.ip()).filter(|from| is_near(*from) && is_near(to.ip()));
        let called = ::net::epoll::call(to, from);
        let called = called.and_then(|socket| {
            self.watch(&socket, key.pack() * 2 + 1)?;
            Ok(socket)
        });
        let Some(pipe) = self.pipes.at_mut(key) else { return };
        match called {
            Ok(socket) => pipe.ends[1] = Some(socket),
            Err(_) => {
                self.counts.unreachable += 1;
                self.end(key, true);
            }
        }
    }

    fn on_socket(&mut self, token: u64, flags: epoll::EventFlags) {
        let (key, end) = way_of(token);
        let gone = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        let Some(pipe) = self.pipes.at_mut(key) else { return };
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP | gone) {
            pipe.ways[end].readable = true;
        }
        if flags.intersects(epoll::EventFlags::OUT | gone) {
            pipe.ways[1 - end].writable = true;
        }
        if end == 1 && !pipe.stands && flags.intersects(epoll::EventFlags::OUT | gone) {
            let target = pipe.ends[1].as_ref();
            let came = target.is_some_and(|to| matches!(sockopt::socket_error(to), Ok(Ok(()))));
            if !came {
                self.counts.unreachable += 1;
                return self.end(key, true);
            }
            pipe.stands = true;
        }
        self.pump_both(key);
    }

    fn pump_both(&mut self, key: Key) {
        self.pump(key.pack() * 2 + UP as u64);
        self.pump(key.pack() * 2 + 1 - UP as u64);
    }

    fn pump(&mut self, token: u64) {
        let (key, way) = way_of(token);
        let Some(lot) = self.pipes.at(key).map(|pipe| pipe.lot) else { return };
        let fault = self.fault_of(lot);
        let Some(pipe) = self.pipes.at_mut(key) else { return };
        let full = self.queued >= QUEUED_BYTES_MAX;
        let (buffer, queued) = (&mut self.buffer[..], &mut self.queued);
        let loan = Loan { now: self.now, buffer, queued, passed: &mut self.passed, full };
        match pipe.pump(way, fault, loan) {
            Next::Rest => {}
            Next::Again => self.again.push_back(token),
            Next::At(at) => self.arm(key, way, at),
            Next::Over => {
                // Half-closed on both sides it has ended in good order, else it broke.
                let whole = pipe.cut || pipe.ways.iter().all(|way| way.ended);
                self.end(key, !whole);
            }
            Next::Cut => {
                self.counts.truncated += 1;
                pipe.say_cut();
                self.arm(key, way, self.now + FAREWELL);
                self.pump_both(key);
            }
        }
    }

    fn arm(&mut self, key: Key, way: usize, at: Instant) {
        let Some(pipe) = self.pipes.at_mut(key) else { return };
        let armed = &mut pipe.ways[way].armed;
        if armed.is_none_or(|later| at < later) {
            *armed = Some(at);
            self.timers.push(Reverse((at, key.pack() * 2 + way as u64)));
        }
    }

    fn end(&mut self, key: Key, broken: bool) {
        let Some(pipe) = self.pipes.remove(key) else { return };
        self.queued -= pipe.queued();
        if broken {
            pipe.ends.iter().flatten().for_each(reset);
        }
    }

    fn obey(&mut self) {
        let mut rung = [0u8; 8];
        // Empty: it was read with an earlier ring.
        let _ = rustix::io::read(&*self.bell, &mut rung);
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::End => self.over = true,
                Order::Show(answer) => {
                    let _ = answer.try_send(self.counts());
                }
                Order::Set(how, share, answer) => {
                    // Whoever asked waits for it.
                    let _ = answer.try_send(self.set(how, share));
                }
            }
        }
    }

    fn set(&mut self, how: Option<Network>, share: f64) -> Result<u64, String> {
        let below = (share.clamp(0.0, 1.0) * 4_294_967_296.0).ceil() as u64;
        if how == Some(Network::Refuse) {
            self.accept(BACKLOG as usize); // who is there already is no new connection
        }
        (self.how, self.below) = (how, below);
        let open = how != Some(Network::Refuse) || below < 1 << 32;
        self.open_door(open).map_err(|error| format!("{}: {error}", self.address))?;
        let mut meant = 0;
        for slot in 0..self.pipes.slots() {
            let Some((key, pipe)) = self.pipes.tenant(slot) else { continue };
            let fault = self.fault_of(pipe.lot);
            meant += u64::from(fault.is_some());
            if fault == Some(Network::Reset) {
                self.counts.reset += 1;
                self.end(key, true);
            } else {
                self.call(key);
                self.pump_both(key);
            }
        }
        Ok(meant)
    }

    /// Listens, or holds the port without listening: then the kernel refuses whoever calls.
    fn open_door(&mut self, open: bool) -> io::Result<()> {
        let listens = self
            .door
            .as_ref()
            .is_some_and(|door| sockopt::socket_acceptconn(door).unwrap_or(false));
        if open == listens {
            return Ok(());
        }
        // The old socket must be gone before its port can be had again.
        drop(self.door.take());
        let door = bound(self.address)?;
        if open {
            net::listen(&door, BACKLOG)?;
        }
        self.door = Some(door);
        if open { self.watch_door() } else { Ok(()) }
    }
}

/// The pipe of a token, and its end or way.
fn way_of(token: u64) -> (Key, usize) {
    (Key::unpack(token / 2), (token % 2) as usize)
}

/// A socket that holds this address.
fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, SocketType::STREAM, FLAGS, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// An address of 127.0.0.0/8: any of them can be called from.
fn is_near(address: IpAddr) -> bool {
    address.is_ipv4() && address.is_loopback()
}

/// The socket's close will be a reset.
fn reset(socket: &OwnedFd) {
    // If it fails the close is an orderly one, which is an end too.
    let _ = sockopt::set_socket_linger(socket.as_fd(), Some(Duration::ZERO));
}

#[expect(clippy::disallowed_methods, reason = "the laboratory measures time")]
fn clock() -> Instant {
    Instant::now()
}

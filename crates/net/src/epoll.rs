//! The real network: Linux sockets under epoll.
//!
//! A socket is registered once, edge-triggered, for reading and writing, and never changed: epoll
//! holds a million idle sockets for 208 bytes of kernel memory each, where a ring's multishot
//! receive would take 864 (research/engine.md 1). The clock of the process is read here and
//! nowhere else on the shards' floors.

use crate::detail::Detail;
use crate::logic::DialAddress;
use crate::mailbox::Mailbox;
use crate::tcp::{self, TcpFacts};
use crate::transport::{Accepted, Got, NestedWait, Net, ReadyEvent};
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ShardId;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, SocketFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Events taken at once: few enough that a turn stays short, many enough to share its cost.
const EVENTS: usize = 128;
/// Tokens of connections are below 2^54; these bits mark the others.
const DOOR: u64 = 1 << 63;
const BELL: u64 = 1 << 62;
const TIMER: u64 = 1 << 61;
const NESTED: u64 = 1 << 60;

/// Sockets of one shard.
pub struct Epoll<L> {
    shard: ShardId,
    poller: OwnedFd,
    /// The sockets of each listener: one, unless more were kept than there are shards.
    doors: Vec<Vec<OwnedFd>>,
    /// Which of them are socket files: whoever comes through is on this machine.
    files: Vec<bool>,
    /// Of a listener's sockets, the one that is asked next.
    asked: usize,
    mailboxes: Arc<[Arc<Mailbox<L>>]>,
    /// Shards posted to in this turn.
    posted: Vec<bool>,
    began: std::time::Instant,
    /// Given up for a moment when no other descriptor is left, so that a caller can be reset.
    spare: Option<OwnedFd>,
    /// The kernel's answer to the last call that failed.
    last: Option<Errno>,
    /// Ends waits that are not whole milliseconds long.
    timer: Option<OwnedFd>,
    /// The kernel tells enough of TCP connections.
    tells_tcp: bool,
}

impl<L: Send> Epoll<L> {
    /// A poller over this shard's listeners (by door) and mailbox. `began` is the process's
    /// beginning, the same for all shards.
    pub fn new(
        shard: ShardId,
        doors: Vec<Vec<OwnedFd>>,
        mailboxes: Arc<[Arc<Mailbox<L>>]>,
        began: std::time::Instant,
    ) -> std::io::Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = mailboxes[shard.0 as usize].bell();
        // By its edges: a ring wakes once, and the bell need not be read.
        let rings = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poller, bell, epoll::EventData::new_u64(BELL), rings)?;
        for (door, sockets) in doors.iter().enumerate() {
            watch_door(&poller, door, sockets)?;
        }
        Ok(Epoll {
            shard,
            files: doors.iter().map(|sockets| is_file(sockets)).collect(),
            spare: rustix::io::fcntl_dupfd_cloexec(&poller, 0).ok(),
            poller,
            doors,
            asked: 0,
            posted: vec![false; mailboxes.len()],
            mailboxes,
            began,
            last: None,
            timer: None,
            tells_tcp: tcp::is_told(),
        })
    }

    /// Waits end when they should, not at the next millisecond: for a laboratory, which measures
    /// from planned moments. A timer ends a wait [`EARLY`] before its time, since a core that
    /// sleeps takes about as long to wake up; the rest is spent looking. (`epoll_pwait2` needs no
    /// timer, but filters of system calls that do not know it end the process.)
    pub fn precise(mut self) -> std::io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // By its edges: setting it again takes the last one back, so it need not be read.
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.poller, &timer, epoll::EventData::new_u64(TIMER), edges)?;
        self.timer = Some(timer);
        Ok(self)
    }

    /// Waits until events are there, or until the end of `span`.
    fn wait_precisely(&mut self, span: Duration, ready: &mut Vec<ReadyEvent>) {
        let end = self.mono() + span;
        if span > EARLY {
            self.set_timer(span - EARLY);
            self.look(Some(&rounded_up(span)), ready);
            if end - self.mono() > EARLY {
                return; // interrupted by a signal, or something is ready
            }
        }
        while ready.is_empty() && self.mono() < end {
            std::thread::yield_now();
            self.look(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }), ready);
        }
    }

    /// Sets the timer.
    fn set_timer(&self, span: Duration) {
        let Some(timer) = &self.timer else { return };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        let once = Itimerspec { it_interval: zero, it_value: at };
        // Without it the wait ends at the next millisecond.
        let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &once);
    }

    /// Appends what is ready within so long.
    fn look(&self, timeout: Option<&Timespec>, ready: &mut Vec<ReadyEvent>) {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let Ok((events, _)) = epoll::wait(&self.poller, &mut events, timeout) else {
            return; // interrupted by a signal: the caller looks at its clock and comes again
        };
        let events = events.iter().filter(|event| event.data.u64() & TIMER == 0);
        ready.extend(events.map(|event| {
            let (token, flags) = (event.data.u64(), event.flags);
            let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            if token & DOOR != 0 {
                ReadyEvent::Door(token as u8)
            } else if token & BELL != 0 {
                ReadyEvent::Mailbox
            } else if token & NESTED != 0 {
                ReadyEvent::Nested(ShardId(token as u16))
            } else {
                ReadyEvent::Socket {
                    token,
                    readable: flags.intersects(epoll::EventFlags::IN | ended),
                    writable: flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::ERR),
                    ended: flags.intersects(ended),
                }
            }
        }));
    }

    /// Uses the spare descriptor to take a caller in and reset it: an answer instead of a hang.
    fn refuse_one(&mut self, (door, at): (usize, usize)) -> Accepted<OwnedFd> {
        if self.spare.take().is_none() {
            // It could not be had back last time. The caller waits until something closes.
            self.spare = rustix::io::fcntl_dupfd_cloexec(&self.poller, 0).ok();
            return Accepted::Nobody;
        }
        if let Ok(socket) = net::accept_with(&self.doors[door][at], FLAGS) {
            abort(socket);
        }
        self.spare = rustix::io::fcntl_dupfd_cloexec(&self.poller, 0).ok();
        Accepted::NoDescriptor
    }

    /// Takes somebody in who waits at a listener's socket.
    fn accept_at(&mut self, door: usize, at: usize) -> Accepted<OwnedFd> {
        loop {
            match net::acceptfrom_with(&self.doors[door][at], FLAGS) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                    let nowhere = match self.files[door] {
                        true => SocketAddr::from(([127, 0, 0, 1], 0)),
                        false => SocketAddr::from(([0, 0, 0, 0], 0)),
                    };
                    return Accepted::Socket(socket, peer.unwrap_or(nowhere));
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return self.refuse_one((door, at));
                }
                Err(_) => return Accepted::Nobody,
            }
        }
    }

    /// A call of our own failed.
    fn local(&mut self, errno: Errno) -> CloseReason {
        self.last = Some(errno);
        match errno {
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC => {
                CloseReason::LocalLimit
            }
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => CloseReason::LocalLimit,
            Errno::CONNREFUSED => CloseReason::ConnectRefused,
            Errno::CONNRESET | Errno::PIPE => CloseReason::PeerReset,
            _ => CloseReason::ConnectFailed,
        }
    }

    /// A read or a write failed.
    fn failed(&mut self, errno: Errno) -> Got {
        if errno != Errno::AGAIN {
            self.last = Some(errno);
        }
        match errno {
            Errno::AGAIN => Got::Later,
            Errno::CONNRESET | Errno::PIPE => Got::Failed(CloseReason::PeerReset),
            Errno::TIMEDOUT => Got::Failed(CloseReason::TimedOut),
            _ => Got::Failed(CloseReason::IoError),
        }
    }
}

/// How long before its end a precise wait begins to look: about what a sleeping core takes to wake
/// up in a virtual machine.
const EARLY: Duration = Duration::from_micros(60);

/// To whole milliseconds: a wait that ends just before a deadline would be repeated at once.
fn rounded_up(span: Duration) -> Timespec {
    let ms = span.as_nanos().div_ceil(1_000_000) as i64;
    Timespec { tv_sec: ms / 1000, tv_nsec: (ms % 1000) * 1_000_000 }
}

/// Watches the sockets of a listener.
fn watch_door(poller: &OwnedFd, door: usize, sockets: &[OwnedFd]) -> std::io::Result<()> {
    let token = epoll::EventData::new_u64(DOOR | door as u64);
    // Of several shards at one socket file, one is woken for each caller.
    let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
    let watched = sockets.iter().try_for_each(|socket| epoll::add(poller, socket, token, flags));
    Ok(watched?)
}

/// Whether a listener's sockets are those of a file.
fn is_file(sockets: &[OwnedFd]) -> bool {
    let name = sockets.first().and_then(|socket| net::getsockname(socket).ok());
    name.is_some_and(|name| name.address_family() == net::AddressFamily::UNIX)
}

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

impl<L: Send> Net for Epoll<L> {
    type Socket = OwnedFd;
    type Message = L;

    #[expect(clippy::disallowed_methods, reason = "the one place where shards read the clock")]
    fn now(&mut self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now::new(self.mono(), wall.as_millis() as u64)
    }

    #[expect(clippy::disallowed_methods, reason = "the same place")]
    fn mono(&mut self) -> Instant {
        Instant::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<ReadyEvent>) {
        if timeout == Some(Duration::ZERO) {
            // More work is at hand. Whoever shares this core (the API, the store's writer) goes
            // first: they have little to do, and a fan-out would keep them waiting for its end.
            std::thread::yield_now();
        }
        match timeout {
            Some(span) if self.timer.is_some() && !span.is_zero() => {
                self.wait_precisely(span, ready);
            }
            _ => self.look(timeout.map(rounded_up).as_ref(), ready),
        }
    }

    fn accept(&mut self, door: u8) -> Accepted<OwnedFd> {
        let door = usize::from(door);
        let sockets = self.doors.get(door).map_or(0, Vec::len);
        for _ in 0..sockets {
            // One after the other, so that nobody waits at one for the end of those at another.
            self.asked = (self.asked + 1) % sockets;
            match self.accept_at(door, self.asked) {
                Accepted::Nobody => {}
                accepted => return accepted,
            }
        }
        Accepted::Nobody
    }

    fn stop_listening(&mut self) {
        for socket in std::mem::take(&mut self.doors).into_iter().flatten() {
            // A socket that others have too stays watched when it is closed here.
            self.release(&socket);
        }
    }

    fn listen(&mut self, door: u8, sockets: Vec<OwnedFd>) -> std::io::Result<()> {
        let door = usize::from(door);
        if door >= self.doors.len() {
            self.doors.resize_with(door + 1, Vec::new);
            self.files.resize(door + 1, false);
        }
        watch_door(&self.poller, door, &sockets)?;
        if !sockets.is_empty() {
            self.files[door] = is_file(&sockets);
        }
        for socket in std::mem::replace(&mut self.doors[door], sockets) {
            // A socket that others have too stays watched when it is closed here.
            self.release(&socket);
        }
        Ok(())
    }

    fn dial(&mut self, to: &DialAddress, from: Option<IpAddr>) -> Result<OwnedFd, CloseReason> {
        let called = match to {
            DialAddress::Tcp(to) => call(*to, from),
            DialAddress::Unix(path) => call_file(path),
        };
        called.map_err(|errno| self.local(errno))
    }

    fn dialled(&mut self, socket: &OwnedFd) -> Result<(), CloseReason> {
        match net::sockopt::socket_error(socket) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(errno)) | Err(errno) => Err(self.local(errno)),
        }
    }

    fn peer(&self, socket: &OwnedFd) -> Option<SocketAddr> {
        let peer = net::getpeername(socket).ok()??;
        peer.try_into().ok()
    }

    fn tcp(&self, socket: &OwnedFd) -> Option<TcpFacts> {
        self.tells_tcp.then(|| tcp::facts(socket)).flatten()
    }

    fn adopt(&mut self, socket: &OwnedFd, token: u64) -> Result<(), CloseReason> {
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        epoll::add(&self.poller, socket, epoll::EventData::new_u64(token), flags)
            .map_err(|errno| self.local(errno))
    }

    fn release(&mut self, socket: &OwnedFd) {
        // It fails only for a socket that is not watched, which is what is wanted.
        let _ = epoll::delete(&self.poller, socket);
    }

    fn give_away(&mut self, socket: OwnedFd) -> Option<OwnedFd> {
        Some(socket)
    }

    fn receive(&mut self, socket: &OwnedFd, into: &mut [u8]) -> Got {
        loop {
            match rustix::io::read(socket, &mut *into) {
                Ok(0) => return Got::End,
                Ok(count) => return Got::Bytes(count),
                Err(Errno::INTR) => {}
                Err(errno) => return self.failed(errno),
            }
        }
    }

    fn send(&mut self, socket: &OwnedFd, pieces: &[IoSlice<'_>]) -> Got {
        loop {
            let flags = net::SendFlags::NOSIGNAL;
            let sent = match pieces {
                [piece] => net::send(socket, piece, flags),
                _ => net::sendmsg(socket, pieces, &mut net::SendAncillaryBuffer::default(), flags),
            };
            match sent {
                Ok(0) => return Got::Later,
                Ok(count) => return Got::Bytes(count),
                Err(Errno::INTR) => {}
                Err(errno) => return self.failed(errno),
            }
        }
    }

    fn close(&mut self, socket: OwnedFd, aborting: bool) {
        if aborting {
            return abort(socket);
        }
        // Closing with unread bytes sends a reset, which may overtake the farewell just written.
        let mut unread = [0u8; 4096];
        for _ in 0..16 {
            if !matches!(self.receive(&socket, &mut unread), Got::Bytes(_)) {
                break;
            }
        }
    }

    fn detail(&self) -> Detail {
        self.last.map_or(Detail::Nothing, Detail::Errno)
    }

    fn post(&mut self, to: ShardId, shard_message: L) -> Result<(), L> {
        self.mailboxes[to.0 as usize].put(shard_message)?;
        self.posted[to.0 as usize] = true;
        Ok(())
    }

    fn wake_posted(&mut self, is_here: &mut dyn FnMut(ShardId) -> bool) {
        for (shard, posted) in (0..).map(ShardId).zip(&mut self.posted) {
            if std::mem::take(posted) && !is_here(shard) {
                self.mailboxes[usize::from(shard.0)].ring();
            }
        }
    }

    fn shard_messages(&mut self, into: &mut Vec<L>) {
        self.mailboxes[self.shard.0 as usize].take(into);
    }
}

impl<L: Send> NestedWait for Epoll<L> {
    fn poll(&mut self, ready: &mut Vec<ReadyEvent>) -> bool {
        self.look(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }), ready);
        // A door goes on by its level, of which whoever waits for this network hears nothing.
        let goes_on = |event: &ReadyEvent| matches!(event, ReadyEvent::Door(_));
        ready.len() >= EVENTS || ready.iter().any(goes_on)
    }

    /// The kernel walks the sockets of the nested one, 70 ns each (docs/adr/0019).
    fn nest(&mut self, other: &Self) -> bool {
        let token = epoll::EventData::new_u64(NESTED | u64::from(other.shard.0));
        // By its edges: by its level the next wait would walk those that were taken once more.
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.poller, &other.poller, token, edges).is_ok()
    }

    fn unnest(&mut self, other: &Self) {
        let _ = epoll::delete(&self.poller, &other.poller);
    }

    fn wake(&mut self, shard: ShardId) {
        self.mailboxes[usize::from(shard.0)].ring();
    }
}

/// The beginning of a test's process.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test has no roof to tell it")]
pub(crate) fn began() -> std::time::Instant {
    std::time::Instant::now()
}

/// Resets a connection: the other end learns at once that it was not served.
fn abort(socket: OwnedFd) {
    // If it fails the socket is closed in the ordinary way, which is an answer too.
    let _ = net::sockopt::set_socket_linger(socket.as_fd(), Some(Duration::ZERO));
}

/// Begins a call of TCP, from this address if one is given. The socket does not wait.
///
/// # Errors
/// The kernel's answer, where it comes at once.
pub fn call(to: SocketAddr, from: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() { net::AddressFamily::INET } else { net::AddressFamily::INET6 };
    let socket = net::socket_with(family, net::SocketType::STREAM, FLAGS, None)?;
    net::sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(from) = from {
        // An address alone is bound: the port is chosen by `connect`, which may take one again
        // that leads elsewhere already. Kernels before 4.2 do not know it, and run out sooner.
        let _ = setsockopt(&socket, IpBindAddressNoPort, &true);
        net::bind(&socket, &SocketAddr::new(from, 0))?;
    }
    match net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Calls whoever listens at a socket file. The socket does not wait: where as many callers wait
/// there as may, the answer is `EAGAIN`.
fn call_file(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = net::socket_with(net::AddressFamily::UNIX, net::SocketType::STREAM, FLAGS, None)?;
    net::connect(&socket, &net::SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precise_wait_ends_by_its_timer_and_no_sooner() {
        let mailbox = Mailbox::<()>::new(1).expect("an eventfd");
        let net = Epoll::new(ShardId(0), Vec::new(), Arc::new([mailbox]), began());
        let mut net = net.and_then(Epoll::precise).expect("a poller");
        let span = Duration::from_micros(300);
        let mut ready = Vec::new();
        for _ in 0..20 {
            let before = net.now().mono;
            net.wait(Some(span), &mut ready);
            assert!(net.now().mono - before >= span);
        }
        // Without the timer it would last for ever: the wait itself was told no end.
        net.set_timer(span);
        net.wait(None, &mut ready);
        assert_eq!(ready, [], "the timer is nobody's event");
    }

    #[test]
    fn what_becomes_ready_in_a_nested_network_is_told_once_and_looked_at_until_there_is_no_more() {
        let mailboxes: Arc<[_]> = [1, 1].map(|_| Mailbox::<()>::new(1).expect("an eventfd")).into();
        let net = |shard| Epoll::new(ShardId(shard), Vec::new(), mailboxes.clone(), began());
        let (mut first, mut other) = (net(0).expect("a poller"), net(1).expect("a poller"));
        assert!(first.nest(&other));
        let kind = net::SocketType::STREAM;
        let pairs = (0..EVENTS as u64 + 50).map(|token| {
            let pair = net::socketpair(net::AddressFamily::UNIX, kind, FLAGS, None);
            let (ours, theirs) = pair.expect("two descriptors");
            other.adopt(&ours, token).expect("it is watched");
            (ours, theirs)
        });
        let pairs: Vec<_> = pairs.collect();
        let mut told = |wants: bool| {
            let mut ready = Vec::new();
            first.wait(Some(Duration::ZERO), &mut ready);
            let nested: &[ReadyEvent] = &[ReadyEvent::Nested(ShardId(1))];
            assert_eq!(ready, if wants { nested } else { &[] });
        };
        let mut look = |counts: &[(usize, bool)]| {
            for &(count, is_more) in counts {
                let mut ready = Vec::new();
                assert_eq!((other.poll(&mut ready), ready.len()), (is_more, count));
            }
        };
        // All can be written.
        told(true);
        told(false);
        look(&[(EVENTS, true), (50, false)]);
        told(false);
        rustix::io::write(&pairs[7].1, b"one").expect("there is room");
        told(true);
        look(&[(1, false)]);
        told(false);
    }

    #[test]
    fn a_nested_door_is_looked_at_until_nobody_waits_there() {
        let mailboxes: Arc<[_]> = [1, 1].map(|_| Mailbox::<()>::new(1).expect("an eventfd")).into();
        let door = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        door.set_nonblocking(true).expect("it may be");
        let address = door.local_addr().expect("a port");
        let net = |shard, doors| Epoll::new(ShardId(shard), doors, mailboxes.clone(), began());
        let mut first = net(0, Vec::new()).expect("a poller");
        let mut other = net(1, vec![vec![door.into()]]).expect("a poller");
        assert!(first.nest(&other));
        let _callers = [(); 2].map(|()| std::net::TcpStream::connect(address).expect("it is up"));
        let mut ready = Vec::new();
        first.wait(None, &mut ready);
        assert_eq!(ready, [ReadyEvent::Nested(ShardId(1))]);
        // One of them is taken in a turn, and refused, so that nothing new is watched by it.
        for _ in 0..2 {
            ready.clear();
            assert!(other.poll(&mut ready), "somebody may be left");
            assert_eq!(ready, [ReadyEvent::Door(0)]);
            let Accepted::Socket(socket, _) = other.accept(0) else { panic!("somebody waits") };
            other.close(socket, true);
        }
        ready.clear();
        assert!(!other.poll(&mut ready), "nobody is");
    }
}

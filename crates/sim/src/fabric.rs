//! The simulated network itself: links, listeners, hosts and the two clocks.
//!
//! A link has two ends, sockets `2n` and `2n + 1`; what is sent at one arrives at the other as an
//! entry of the list of arrivals, ordered by time. A host is a shard as the network sees it: what
//! is ready for it, and when it wants to be woken. Readiness follows epoll's edge-triggered rules:
//! an arrival queues an edge, and what is reported is how the socket stands when it is looked at.
//!
//! All that happens follows from the seed. The fabric knows no protocol and no shard message.
//! Invariant: the bytes that arrive at an end are those that were sent at the other, in order,
//! without gaps.

mod arrivals;
mod listeners;
mod stream;

use crate::weather::Weather;
use arrivals::{Arrival, Arrivals};
use base::prng::Prng;
use base::time::{Instant, Now};
use listeners::Listener;
use model::close::CloseReason;
use net::transport::ReadyEvent;
use std::collections::VecDeque;
use std::time::Duration;

/// A shard as the network sees it.
pub type HostId = u16;

/// An open end of a link. Its holder closes it.
#[derive(PartialEq, Eq, Debug)]
pub struct Socket(u32);

/// Unix milliseconds at which worlds begin.
const WALL_MS_BEGIN: i64 = 1_800_000_000_000;

/// One end of a link. It owns no buffer while nothing is unread.
#[derive(Default)]
struct End {
    /// Which link of this number: arrivals of an earlier one mean nothing.
    generation: u32,
    /// The holder has not closed it.
    open: bool,
    connected: bool,
    /// Host that watches it, and the token.
    watcher: Option<(HostId, u64)>,
    /// Whether it is in its watcher's list.
    queued: bool,
    inbox: VecDeque<u8>,
    /// Bytes on the way to here.
    coming: usize,
    /// Bytes that may be on the way to here or unread.
    window: usize,
    /// The last arrival so far: the next one is not earlier.
    last_at: u64,
    /// The other end will send nothing more.
    ended: bool,
    /// Whether its own end has been sent: nothing follows it, neither bytes nor a second end.
    finished: bool,
    error: Option<CloseReason>,
    /// The last send was short: the holder waits for room.
    starved: bool,
    /// Whether nothing arrives here or leaves from here any more.
    vanished: bool,
    /// A timer for unacknowledged bytes runs.
    doomed: bool,
    /// From then on its holder does not look at it.
    stalls_at: Option<u64>,
    /// The caller's end.
    caller: bool,
    /// The host that holds it, watched or not.
    holder: HostId,
}

#[derive(Default)]
struct Host {
    ready: Vec<u32>,
    shard_messages: bool,
    /// Whether it must take a turn, whatever is ready.
    awake: bool,
    /// When it wants a turn.
    wake_at: Option<u64>,
    gone: bool,
}

/// A simulated network.
pub struct Fabric {
    weather: Weather,
    rng: Prng,
    now: u64,
    wall_offset_ms: i64,
    ends: Vec<End>,
    free: Vec<u32>,
    arrivals: Arrivals,
    hosts: Vec<Host>,
    listeners: Vec<Listener>,
}

impl Fabric {
    /// A network without hosts.
    pub fn new(seed: u64, weather: Weather) -> Fabric {
        Fabric {
            weather,
            rng: Prng::new(seed),
            now: 0,
            wall_offset_ms: WALL_MS_BEGIN,
            ends: Vec::new(),
            free: Vec::new(),
            arrivals: Arrivals::default(),
            hosts: Vec::new(),
            listeners: Vec::new(),
        }
    }

    /// Adds a host; it takes its first turn as soon as it can.
    pub fn add_host(&mut self) -> HostId {
        self.hosts.push(Host { awake: true, ..Host::default() });
        (self.hosts.len() - 1) as HostId
    }

    /// Changes what goes wrong from now on. Callers that stopped reading read again.
    pub fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
        for socket in 0..self.ends.len() as u32 {
            if self.ends[socket as usize].stalls_at.take().is_some() {
                self.queue(socket);
            }
        }
    }

    /// Probabilities of faults.
    pub fn weather(&self) -> &Weather {
        &self.weather
    }

    /// Present time by both clocks.
    pub fn now(&self) -> Now {
        let wall_ms = self.wall_offset_ms + (self.now / 1_000_000) as i64;
        Now::new(Instant::from_nanos(self.now), wall_ms.max(0) as u64)
    }

    /// Ends that are open and held by this host, those on their way to its mailbox's owner
    /// included.
    pub fn open_at(&self, host: HostId) -> usize {
        self.ends.iter().filter(|end| end.open && end.holder == host).count()
    }

    /// Whether something happens once in `n` times.
    pub fn strikes(&mut self, n: u64) -> bool {
        n != 0 && self.rng.one_in(n)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// Steps the wall clock.
    pub fn jump_wall(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
    }

    /// Has no caller read from now on.
    pub fn stall_callers(&mut self) {
        let now = self.now;
        for end in self.ends.iter_mut().filter(|end| end.open && end.caller) {
            end.stalls_at = Some(now);
        }
    }

    /// Has nothing arrive anywhere over the present links.
    pub fn vanish_all(&mut self) {
        self.ends.iter_mut().filter(|end| end.open).for_each(|end| end.vanished = true);
    }

    /// Lets time pass, and what is on the way arrive.
    pub fn pass(&mut self, span: Duration) {
        self.advance_to(self.now + span.as_nanos() as u64);
    }

    /// Has the called host be busy with this connection for a while. Callers are other machines,
    /// whose work takes no time here.
    pub fn work(&mut self, socket: &Socket) {
        if !self.ends[socket.0 as usize].caller {
            self.pass(Duration::from_micros(self.weather.call_us));
        }
    }

    /// The host that must take a turn now; if none must, time goes on to the next event. `None`:
    /// nothing will ever happen again.
    pub fn next_host(&mut self) -> Option<HostId> {
        loop {
            let hosts = 0..self.hosts.len() as HostId;
            let awake: Vec<_> = hosts.filter(|&host| self.is_due(host)).collect();
            if !awake.is_empty() {
                let at = self.rng.below(awake.len() as u64) as usize;
                return Some(awake[at]);
            }
            let wakes = self.hosts.iter().filter(|host| !host.gone);
            let wake = wakes.filter_map(|host| host.wake_at).min();
            let next = [wake, self.arrivals.next()].into_iter().flatten().min()?;
            self.advance_to(next.max(self.now));
        }
    }

    /// Events that are ready for a host, at the beginning of its turn. An empty answer sends it to
    /// sleep for `timeout`.
    pub fn wait(&mut self, host: HostId, timeout: Option<Duration>, ready: &mut Vec<ReadyEvent>) {
        self.collect(host, ready);
        let now = self.now;
        let this = &mut self.hosts[host as usize];
        let woken = this.wake_at.take().is_some_and(|at| at <= now);
        this.awake = woken || !ready.is_empty() || timeout == Some(Duration::ZERO);
        if !this.awake {
            this.wake_at = timeout.map(|span| now.saturating_add(span.as_nanos() as u64));
        }
    }

    /// Events that are ready for a host whose thread waits with another one.
    pub fn poll(&mut self, host: HostId, ready: &mut Vec<ReadyEvent>) {
        self.collect(host, ready);
        let this = &mut self.hosts[host as usize];
        (this.awake, this.wake_at) = (!ready.is_empty(), None);
    }

    /// The host has acted: it does not sleep before another turn.
    pub fn stir(&mut self, host: HostId) {
        self.hosts[host as usize].awake = true;
    }

    /// Notes that a host has shard messages.
    pub fn ring(&mut self, host: HostId) {
        self.hosts[host as usize].shard_messages = true;
    }

    /// The host has looked into its mailbox; `more` is still there.
    pub fn looked(&mut self, host: HostId, more: bool) {
        self.hosts[host as usize].shard_messages = more;
    }

    /// A host is no more: its sockets are reset, its listeners closed, its turns over.
    pub fn kill(&mut self, host: HostId) {
        self.stop_listening(host);
        for socket in 0..self.ends.len() as u32 {
            let end = &self.ends[socket as usize];
            if end.open && end.holder == host {
                self.close(Socket(socket), true);
            }
        }
        self.hosts[host as usize] = Host { gone: true, ..Host::default() };
    }

    /// The host's turns are over, for it has ended.
    pub fn retire(&mut self, host: HostId) {
        self.hosts[host as usize] = Host { gone: true, ..Host::default() };
    }

    /// Whether the host has to take a turn now.
    pub fn is_due(&self, at: HostId) -> bool {
        let host = &self.hosts[usize::from(at)];
        let woken = host.wake_at.is_some_and(|wake_at| wake_at <= self.now);
        let called = || self.doors_of(at).next().is_some();
        !host.gone
            && (host.awake || host.shard_messages || woken || !host.ready.is_empty() || called())
    }

    fn collect(&mut self, host: HostId, ready: &mut Vec<ReadyEvent>) {
        let mut sockets = std::mem::take(&mut self.hosts[host as usize].ready);
        for at in (1..sockets.len()).rev() {
            sockets.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        // Now and then fewer are reported than are ready, as when there are more than one look
        // reports.
        let most = if self.rng.one_in(4) { 1 + self.rng.below(3) as usize } else { usize::MAX };
        for socket in sockets {
            if ready.len() >= most {
                self.hosts[host as usize].ready.push(socket);
                continue;
            }
            self.ends[socket as usize].queued = false;
            ready.extend(self.readiness(host, socket));
        }
        ready.extend(self.doors_of(host).map(ReadyEvent::Door));
        if self.hosts[host as usize].shard_messages {
            ready.push(ReadyEvent::Mailbox);
        }
    }

    fn readiness(&self, host: HostId, socket: u32) -> Option<ReadyEvent> {
        let end = &self.ends[socket as usize];
        let (_, token) = end.watcher.filter(|(watcher, _)| *watcher == host)?;
        let ended = end.ended || end.error.is_some();
        let readable = !end.inbox.is_empty() || ended;
        let writable = end.error.is_some() || (end.connected && self.room(socket) > 0);
        (readable || writable).then_some(ReadyEvent::Socket { token, readable, writable, ended })
    }

    /// An edge.
    fn queue(&mut self, socket: u32) {
        let now = self.now;
        let end = &mut self.ends[socket as usize];
        let Some((host, _)) = end.watcher else { return };
        if !end.queued && end.stalls_at.is_none_or(|at| at > now) {
            end.queued = true;
            self.hosts[host as usize].ready.push(socket);
        }
    }

    fn advance_to(&mut self, at: u64) {
        // Each thing happens at its own time, for it may make others happen later.
        while let Some(next) = self.arrivals.next().filter(|&next| next <= at) {
            self.now = self.now.max(next);
            if let Some((to, generation, arrival)) = self.arrivals.take()
                && self.ends[to as usize].generation == generation
            {
                self.arrive(to, arrival);
            }
        }
        self.now = at;
    }

    /// Sends something to the end `to`, after everything that was sent to it before.
    fn send_off(&mut self, to: u32, arrival: Arrival) {
        let span_us = self.weather.latency_us + self.rng.below(self.weather.jitter_us + 1);
        let end = &mut self.ends[to as usize];
        let at = (self.now + span_us * 1_000).max(end.last_at);
        end.last_at = at;
        self.arrivals.put(at, to, end.generation, arrival);
    }
}

#[cfg(test)]
mod tests;

//! MQTT clients in a process of their own: shapes of load for Holdline and its peers alike.
//!
//! One thread, one poller. A publisher has at most `window` messages that not all their receivers
//! have, so that a shape is a closed loop at every QoS; `lone` sends at a planned rate instead and
//! takes latencies from the planned time. As a process it takes one order a line ([`orders`]).

pub mod orders;
pub mod peers;
mod wire;
pub mod xmpp;

use crate::caller::sockets::{self, EventFlags, Poller, patient};
use crate::clock;
use hdrhistogram::Histogram;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use wire::Said;

/// Stands for the publisher of retained messages.
const RETAINED: u32 = u32::MAX;
/// Retained messages under way.
const RETAIN_WINDOW: u64 = 500;
/// Connections from one source address, below the range of ports.
const SOURCE_MAX: usize = 20_000;

/// All clients.
pub struct Swarm {
    to: SocketAddr,
    poller: Poller,
    clients: Vec<Client>,
    buffer: Vec<u8>,
    /// Clients with something to write.
    dirty: Vec<usize>,
    began: Instant,
    /// Messages under way, by publisher.
    owed: Vec<VecDeque<u32>>,
    latencies: Histogram<u64>,
    delivered: u64,
    /// Acknowledgements of the server that are still to come.
    unanswered: u64,
    /// Retained messages that came.
    collected: u64,
}

struct Client {
    socket: OwnedFd,
    hello: Vec<u8>,
    state: State,
    rest: Vec<u8>,
    out: Vec<u8>,
    dirty: bool,
    next_id: u16,
    topic: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Calling,
    Asked,
    Subscribing,
    Open,
}

/// A client to open.
pub struct Wanted {
    /// Its identifier.
    pub id: String,
    /// No session outlives it.
    pub clean: bool,
    /// Filter and QoS that it subscribes to.
    pub filter: Option<(String, u8)>,
    /// Topic that it publishes to.
    pub topic: String,
}

/// How publishers publish.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The first publisher, by its place among the clients.
    pub first: usize,
    /// How many they are.
    pub publishers: usize,
    /// Copies of each message that are delivered.
    pub copies: u32,
    /// QoS of what is published.
    pub qos: u8,
    /// Messages of a publisher under way.
    pub window: u32,
}

impl Swarm {
    /// Makes a swarm without clients.
    pub fn new(to: SocketAddr) -> io::Result<Swarm> {
        Ok(Swarm {
            to,
            poller: Poller::new(1_024)?,
            clients: Vec::new(),
            buffer: vec![0; 256 * 1024],
            dirty: Vec::new(),
            began: clock::now(),
            owed: Vec::new(),
            latencies: Histogram::new_with_bounds(1, 60_000_000_000, 3)
                .map_err(io::Error::other)?,
            delivered: 0,
            unanswered: 0,
            collected: 0,
        })
    }

    /// Opens these, at most `window` of them under way at once.
    pub fn open(&mut self, wanted: Vec<Wanted>, window: usize) -> io::Result<()> {
        let end = self.clients.len() + wanted.len();
        let (mut wanted, mut open) = (wanted.into_iter(), self.clients.len());
        let mut last = clock::now();
        while open < end {
            while self.clients.len() < end && self.clients.len() - open < window {
                self.call(wanted.next().expect("as many as were counted"))?;
            }
            for (slot, writable) in self.wait(Duration::from_millis(100))? {
                let before = self.clients[slot].state;
                if before == State::Calling && writable {
                    self.greet(slot)?;
                }
                self.hear(slot)?;
                if before != State::Open && self.clients[slot].state == State::Open {
                    open += 1;
                    last = clock::now();
                }
            }
            self.flush()?;
            patient(last)?;
        }
        Ok(())
    }

    /// Publishers publish until `total` copies have been delivered, for `span` at most; then
    /// what is under way is waited for. Gives the copies delivered.
    pub fn run(&mut self, load: Load, total: u64, span: Duration) -> io::Result<u64> {
        self.begin(load);
        let began = clock::now();
        let (mut last, mut sent) = (began, 0u64);
        loop {
            let goes_on = sent * u64::from(load.copies) < total && clock::since(began) < span;
            if goes_on {
                for publisher in 0..load.publishers {
                    let room = load.window as usize - self.owed[publisher].len();
                    for _ in 0..room {
                        self.publish(load, publisher, 0);
                    }
                    sent += room as u64;
                }
            } else if self.owed.iter().all(VecDeque::is_empty) && self.unanswered == 0 {
                return Ok(self.delivered);
            }
            self.flush()?;
            let before = (self.delivered, self.unanswered);
            for (slot, _) in self.wait(Duration::from_millis(100))? {
                self.hear(slot)?;
            }
            if (self.delivered, self.unanswered) != before {
                last = clock::now();
            }
            patient(last)?;
        }
    }

    /// Publishers publish one after the other, `per_s` a second in all, for `span`. Latencies are
    /// from the planned time.
    pub fn pace(&mut self, load: Load, per_s: f64, span: Duration) -> io::Result<u64> {
        self.begin(load);
        self.pace_on(load, per_s, span)
    }

    fn pace_on(&mut self, load: Load, per_s: f64, span: Duration) -> io::Result<u64> {
        let (began, before) = (self.now_ns(), self.delivered);
        let total = (span.as_secs_f64() * per_s) as u64;
        let step = 1e9 / per_s;
        let (mut sent, mut last) = (0u64, clock::now());
        while self.delivered - before < total * u64::from(load.copies) {
            let now = self.now_ns();
            while sent < total && began + (sent as f64 * step) as u64 <= now {
                let planned = began + (sent as f64 * step) as u64;
                self.publish(load, sent as usize % load.publishers, planned);
                sent += 1;
            }
            self.flush()?;
            let next = began + (sent as f64 * step) as u64;
            let wait = if sent < total { next.saturating_sub(self.now_ns()) } else { 5_000_000 };
            for (slot, _) in self.wait(Duration::from_nanos(wait))? {
                self.hear(slot)?;
                last = clock::now();
            }
            patient(last)?;
        }
        Ok(self.delivered)
    }

    /// A client of its own sets retained messages at QoS 1 on so many topics.
    pub fn retain(&mut self, topics: u32) -> io::Result<()> {
        let id = "keeper".to_owned();
        self.open(vec![Wanted { id, clean: true, filter: None, topic: "kept".to_owned() }], 1)?;
        let (slot, mut next, mut last) = (self.clients.len() - 1, 0, clock::now());
        self.unanswered = 0;
        while next < topics || self.unanswered > 0 {
            while next < topics && self.unanswered < RETAIN_WINDOW {
                let client = &mut self.clients[slot];
                client.next_id = client.next_id % u16::MAX + 1;
                let topic = format!("kept/{}/{}/{next}", next % 7, next / 1_000);
                let flags = 1 << 1 | wire::RETAIN;
                wire::publish(&topic, flags, client.next_id, (RETAINED, 0), &mut client.out);
                (next, self.unanswered) = (next + 1, self.unanswered + 1);
            }
            self.mark(slot);
            self.flush()?;
            for (slot, _) in self.wait(Duration::from_millis(100))? {
                self.hear(slot)?;
                last = clock::now();
            }
            patient(last)?;
        }
        Ok(())
    }

    /// A client of its own subscribes to all retained messages while the publishers of `load`
    /// publish `per_s` a second; until `topics` have come, or none for five seconds.
    pub fn collect(&mut self, load: Load, per_s: f64, topics: u64) -> io::Result<u64> {
        self.begin(load);
        self.collected = 0;
        let (id, filter) = ("collector".to_owned(), Some(("kept/#".to_owned(), 0)));
        self.open(vec![Wanted { id, clean: true, filter, topic: String::new() }], 1)?;
        let (mut seen, mut last) = (0, clock::now());
        while self.collected < topics && clock::since(last) < Duration::from_secs(5) {
            self.pace_on(load, per_s, Duration::from_millis(200))?;
            if self.collected > seen {
                (seen, last) = (self.collected, clock::now());
            }
        }
        Ok(self.collected)
    }

    /// Latency in microseconds below which this share of the messages was.
    pub fn latency_us(&self, share: f64) -> f64 {
        self.latencies.value_at_quantile(share) as f64 / 1e3
    }

    fn begin(&mut self, load: Load) {
        self.owed = vec![VecDeque::new(); load.publishers];
        (self.delivered, self.unanswered) = (0, 0);
        self.latencies.reset();
    }

    fn publish(&mut self, load: Load, publisher: usize, planned_ns: u64) {
        let at_ns = if planned_ns == 0 { self.now_ns() } else { planned_ns };
        self.owed[publisher].push_back(load.copies);
        let slot = load.first + publisher;
        let client = &mut self.clients[slot];
        client.next_id = client.next_id % u16::MAX + 1;
        let said = (publisher as u32, at_ns);
        wire::publish(&client.topic, load.qos << 1, client.next_id, said, &mut client.out);
        self.unanswered += u64::from(load.qos > 0);
        self.mark(slot);
    }

    fn now_ns(&self) -> u64 {
        clock::since(self.began).as_nanos() as u64
    }

    fn call(&mut self, wanted: Wanted) -> io::Result<()> {
        let slot = self.clients.len();
        let others = (slot / SOURCE_MAX) as u8;
        let from = (others > 0).then(|| Ipv4Addr::new(127, 0, 1, others));
        let socket = sockets::dial(self.to, from)?;
        self.poller.add(&socket, slot, EventFlags::IN | EventFlags::OUT)?;
        let mut hello = Vec::new();
        wire::connect(&wanted.id, wanted.clean, &mut hello);
        let connect_bytes = hello.len();
        if let Some((filter, qos)) = &wanted.filter {
            wire::subscribe(filter, *qos, &mut hello);
        }
        let out = hello.drain(..connect_bytes).collect();
        let (state, rest, topic) = (State::Calling, Vec::new(), wanted.topic);
        let client = Client { socket, hello, state, rest, out, dirty: false, next_id: 0, topic };
        self.clients.push(client);
        Ok(())
    }

    fn greet(&mut self, slot: usize) -> io::Result<()> {
        let client = &mut self.clients[slot];
        sockets::connected(&client.socket)?;
        client.state = State::Asked;
        self.mark(slot);
        Ok(())
    }

    fn mark(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        if !client.dirty {
            client.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Writes what was said; what a socket does not take waits for it.
    fn flush(&mut self) -> io::Result<()> {
        let mut stuck = Vec::new();
        for slot in std::mem::take(&mut self.dirty) {
            let client = &mut self.clients[slot];
            client.dirty = false;
            while !client.out.is_empty() {
                match sockets::write(&client.socket, &client.out)? {
                    Some(count) => drop(client.out.drain(..count)),
                    None => break,
                }
            }
            match client.out.is_empty() {
                true if client.out.capacity() > 4_096 || client.topic.is_empty() => {
                    client.out = Vec::new(); // an idle client owns no buffer
                }
                true => {}
                false => stuck.push(slot),
            }
        }
        stuck.into_iter().for_each(|slot| self.mark(slot));
        Ok(())
    }

    fn hear(&mut self, slot: usize) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let heard = self.hear_into(slot, &mut buffer);
        self.buffer = buffer;
        heard
    }

    fn hear_into(&mut self, slot: usize, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let client = &mut self.clients[slot];
            let kept = client.rest.len();
            buffer[..kept].copy_from_slice(&client.rest);
            client.rest.clear();
            let Some(count) = sockets::read(&client.socket, &mut buffer[kept..])? else {
                client.rest.extend_from_slice(&buffer[..kept]);
                return Ok(());
            };
            let (mut at, end) = (0, kept + count);
            while let Some((said, bytes)) = wire::hear(&buffer[at..end])? {
                at += bytes;
                self.said(slot, said);
            }
            let client = &mut self.clients[slot];
            client.rest = buffer[at..end].to_vec();
            if end < buffer.len() {
                return Ok(()); // a short read has emptied it
            }
        }
    }

    fn said(&mut self, slot: usize, said: Said) {
        let now_ns = self.now_ns();
        let client = &mut self.clients[slot];
        match said {
            Said::Connack if client.hello.is_empty() => client.state = State::Open,
            Said::Connack => {
                client.out.append(&mut std::mem::take(&mut client.hello));
                client.state = State::Subscribing;
                self.mark(slot);
            }
            Said::Suback => client.state = State::Open,
            Said::Message { from: RETAINED, .. } => self.collected += 1,
            Said::Message { qos, id, from, at_ns } => {
                if qos > 0 {
                    wire::ack(if qos == 1 { 4 } else { 5 }, id, &mut client.out);
                    self.mark(slot);
                }
                self.delivered += 1;
                self.latencies.saturating_record(now_ns.saturating_sub(at_ns));
                if let Some(owed) = self.owed.get_mut(from as usize) {
                    // Copies of one publisher's messages come in order at each receiver: as many
                    // as have come are taken off the oldest.
                    if let Some(oldest) = owed.front_mut() {
                        *oldest -= 1;
                        if *oldest == 0 {
                            owed.pop_front();
                        }
                    }
                }
            }
            Said::Puback | Said::Pubcomp => self.unanswered = self.unanswered.saturating_sub(1),
            Said::Pubrec(id) => {
                wire::ack(6, id, &mut client.out);
                self.mark(slot);
            }
            Said::Pubrel(id) => {
                wire::ack(7, id, &mut client.out);
                self.mark(slot);
            }
            Said::Other => {}
        }
    }

    /// The clients that are ready, and whether each takes bytes.
    fn wait(&self, timeout: Duration) -> io::Result<Vec<(usize, bool)>> {
        let timeout = match self.dirty.is_empty() {
            true => timeout,
            false => timeout.min(Duration::from_millis(1)), // somebody's socket was full
        };
        self.poller.wait(timeout)
    }
}
